//! A client's stream in HTTP/2: one request, and its response.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_wire::http1::{Field, Framing, HeadLimits, ResponseHead};
use http::{HeaderMap, HeaderValue, Response};

use crate::backends::connector::Cancellation;
use crate::http::answer::Answer;
use crate::http::client::{After, Client};
use crate::http::content::{Io, Output, Sink, Source};
use crate::http::fault::Fault;
use crate::http::h2_heads;
use crate::http::h2_queue::{Place, Queue};
use crate::http::request::Request;
use crate::http::rules::ResponseFields;

/// Content that room is requested for at once.
const PIECE: usize = 16_384;
/// DATA frames that are passed on before the response has its turn; each may be a single byte.
const PIECES: usize = 256;

/// Content that comes by a stream.
#[derive(Debug)]
pub(crate) struct StreamIn {
    stream: RecvStream,
    ended: bool,
    pub(crate) bytes: u64,
    limit: Option<u64>,
    limits: HeadLimits,
    is_response: bool,
}

impl StreamIn {
    /// Most bytes of its content from here on.
    pub(crate) fn limit(&mut self, limit: Option<u64>) {
        self.limit = limit;
    }

    pub(crate) fn new(stream: RecvStream, limit: Option<u64>, limits: HeadLimits, is_response: bool) -> Self {
        let ended = stream.is_end_stream();
        Self { stream, ended, bytes: 0, limit, limits, is_response }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Moves at most so many bytes, and the rest of a frame; see [`Source::pump`].
    pub(crate) fn pump(&mut self, most: usize, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        let most = most.min(to.room());
        let mut context = Context::from_waker(io.waker);
        let mut taken = 0;
        let mut moved = false;
        let mut pieces = 0;
        while !self.ended && taken < most && pieces < PIECES {
            pieces += 1;
            match self.stream.poll_data(&mut context) {
                Poll::Pending => break,
                Poll::Ready(Some(Ok(data))) => {
                    moved = true;
                    taken += data.len();
                    self.bytes += data.len() as u64;
                    if self.limit.is_some_and(|limit| self.bytes > limit) {
                        return Err(Fault::new(Step::Relay, Side::Client, Cause::BodyTooLarge, 413));
                    }
                    if !data.is_empty() {
                        to.put(&data, &mut io.output())?;
                    }
                    // The sink has it, and accepts no more than a read of this size ahead.
                    let _ = self.stream.flow_control().release_capacity(data.len());
                }
                Poll::Ready(Some(Err(error))) => return Err(broken(self.side(), &error)),
                Poll::Ready(None) => match self.stream.poll_trailers(&mut context) {
                    Poll::Pending => break,
                    Poll::Ready(Err(error)) => return Err(broken(self.side(), &error)),
                    Poll::Ready(Ok(trailers)) => {
                        (moved, self.ended) = (true, true);
                        let mut output = io.output();
                        match trailers {
                            None => to.put_end(&[], &[], &mut output)?,
                            Some(trailers) => {
                                h2_heads::with_trailers(
                                    &trailers,
                                    &self.limits,
                                    self.is_response,
                                    |text, fields| to.put_end(text, fields, &mut output),
                                )??;
                            }
                        }
                    }
                },
            }
        }
        if moved {
            to.flush(&mut io.output())?;
        }
        Ok(moved)
    }

    fn side(&self) -> Side {
        if self.is_response { Side::Backend } else { Side::Client }
    }
}

/// Why a stream failed.
pub(crate) fn broken(side: Side, error: &h2::Error) -> Fault {
    let cause = if error.is_io() {
        Cause::CLOSED_EARLY
    } else if error.is_reset() {
        Cause::StreamReset
    } else {
        Cause::Http2
    };
    Fault::of(CloseReason::new(Step::Relay, side, cause).because(error.to_string()))
}

/// Content that goes by a stream.
#[derive(Debug)]
pub(crate) struct StreamOut {
    /// `None` before the head, and where a head was the whole message.
    stream: Option<SendStream<Bytes>>,
    /// Content that was put and is not sent.
    place: Place,
    /// The end was put, with this trailer section; and it was sent.
    end: Option<Option<HeaderMap>>,
    pub(crate) is_done: bool,
    pub(crate) bytes: u64,
}

impl StreamOut {
    pub(crate) fn new(queue: &Rc<Queue>) -> Self {
        Self { stream: None, place: Place::new(queue), end: None, is_done: false, bytes: 0 }
    }

    pub(crate) fn begin(&mut self, stream: SendStream<Bytes>) {
        self.stream = Some(stream);
    }

    pub(crate) fn accepts(&mut self, io: &Io<'_>) -> bool {
        let Some(stream) = self.stream.as_mut().filter(|_| !self.is_done) else { return true };
        if self.place.room() == 0 {
            self.place.wait(io.waker);
            return false;
        }
        stream.reserve_capacity(PIECE);
        loop {
            if stream.capacity() > 0 {
                return true;
            }
            // It is ready once for each change, also where the capacity is still zero, and registers the waker only when it is not.
            match stream.poll_capacity(&mut Context::from_waker(io.waker)) {
                Poll::Pending => return false,
                Poll::Ready(Some(Ok(_))) => {}
                // What is sent next finds out why.
                Poll::Ready(None | Some(Err(_))) => return true,
            }
        }
    }

    /// See [`Sink::room`].
    pub(crate) fn room(&self) -> usize {
        // Content that comes with a head waits until its client takes more.
        if self.stream.is_none() { self.place.share() } else { self.place.room() }
    }

    pub(crate) fn is_full(&self) -> bool {
        let is_full = |stream: &SendStream<Bytes>| stream.capacity() == 0 || self.place.room() == 0;
        self.stream.as_ref().is_some_and(|stream| !self.is_done && is_full(stream))
    }

    pub(crate) fn put_end(&mut self, text: &[u8], trailers: &[Field]) {
        let trailers = if trailers.is_empty() { None } else { h2_heads::fields(text, trailers, |_| true) };
        self.end = Some(trailers);
    }

    pub(crate) fn flush(&mut self, side: Side, output: &mut Output<'_>) -> Result<(), Fault> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        let failed = |error: h2::Error| broken(side, &error);
        // A trailer section that was sent leaves `Some(None)` behind.
        let is_last = matches!(self.end, Some(None)) && !self.is_done;
        if !output.out.is_empty() || is_last {
            let data = self.place.count(output.out);
            output.out.clear();
            self.bytes += data.len() as u64;
            stream.send_data(data, is_last).map_err(failed)?;
            self.is_done |= is_last;
        }
        if let Some(trailers) = self.end.as_mut().and_then(Option::take) {
            stream.send_trailers(trailers).map_err(failed)?;
            self.is_done = true;
        }
        Ok(())
    }
}

/// A client's request and response.
#[derive(Debug)]
pub(crate) struct Http2Client {
    incoming: StreamIn,
    respond: SendResponse<Bytes>,
    outgoing: StreamOut,
    waker: Waker,
    /// Why its head could not be sent, to be reported by the next flush.
    failed: Option<Fault>,
    has_answered: bool,
}

impl Http2Client {
    pub(crate) fn new(
        incoming: StreamIn,
        respond: SendResponse<Bytes>,
        queue: &Rc<Queue>,
        waker: Waker,
    ) -> Self {
        let outgoing = StreamOut::new(queue);
        Self { incoming, respond, outgoing, waker, failed: None, has_answered: false }
    }

    /// Most bytes of the request's content.
    pub(crate) fn limit(&mut self, limit: Option<u64>) {
        self.incoming.limit(limit);
    }

    /// Cuts the response off.
    pub(crate) fn reset(&mut self, reason: Reason) {
        self.respond.send_reset(reason);
    }

    fn is_gone(&mut self) -> Option<CloseReason> {
        let mut context = Context::from_waker(&self.waker);
        // Once its head is sent, the stream alone is asked.
        let reset = match &mut self.outgoing.stream {
            Some(stream) => stream.poll_reset(&mut context),
            None if self.has_answered => Poll::Pending,
            None => self.respond.poll_reset(&mut context),
        };
        match reset {
            Poll::Pending => None,
            Poll::Ready(Ok(reason)) => Some(
                CloseReason::new(Step::Relay, Side::Client, Cause::StreamReset).because(reason.description()),
            ),
            Poll::Ready(Err(error)) => Some(broken(Side::Client, &error).reason),
        }
    }

    fn send(&mut self, response: Response<()>, is_whole: bool) {
        self.has_answered = true;
        match self.respond.send_response(response, is_whole) {
            Ok(stream) if !is_whole => self.outgoing.begin(stream),
            Ok(_) => self.outgoing.is_done = true,
            Err(error) => self.failed = Some(broken(Side::Client, &error)),
        }
    }
}

impl Source for Http2Client {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.incoming.pump(self.outgoing.place.share(), to, io)
    }

    fn has_ended(&self) -> bool {
        self.incoming.has_ended()
    }
}

impl Sink for Http2Client {
    fn accepts(&mut self, io: &mut Io<'_>) -> Result<bool, Fault> {
        Ok(self.outgoing.accepts(io))
    }

    fn room(&self) -> usize {
        self.outgoing.room()
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        output.out.extend_from_slice(data);
        Ok(())
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], _: &mut Output<'_>) -> Result<(), Fault> {
        self.outgoing.put_end(text, trailers);
        Ok(())
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        if let Some(fault) = self.failed.take() {
            output.out.clear();
            return Err(fault);
        }
        self.outgoing.flush(Side::Client, output)
    }

    fn is_done(&self) -> bool {
        self.outgoing.is_done
    }
}

impl Cancellation for Http2Client {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        self.is_gone().map_or(Ok(()), Err)
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        self.is_gone().map_or(Ok(()), Err)
    }
}

impl Client for Http2Client {
    fn put_head(&mut self, head: &ResponseHead<'_>, request: &Request, after: After, _: &mut Output<'_>) {
        let method = request.method();
        let framing = head.framing(method);
        let length = match framing {
            Framing::Length(length) => Some(length),
            _ => head.announced_length(method),
        };
        let Some(mut response) = h2_heads::response(head, length) else {
            let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
            self.failed = Some(Fault::of(reason));
            return;
        };
        if let Some(rules) = request.response_fields.as_deref().filter(|_| !head.is_interim()) {
            change(response.headers_mut(), rules);
        }
        if head.is_interim() {
            if let Err(error) = self.respond.send_informational(response) {
                self.failed = Some(broken(Side::Client, &error));
            }
            return;
        }
        if head.status == 101 {
            // RFC 8441 §5: a 2xx response is the change of the protocol.
            *response.status_mut() = http::StatusCode::OK;
            response.headers_mut().remove("sec-websocket-accept");
            return self.send(response, false);
        }
        // A stream that ends with its head must stay one: to gRPC it is an error without content.
        self.send(response, after.is_over || matches!(framing, Framing::None | Framing::Length(0)));
    }

    fn put_answer(&mut self, answer: &Answer, request: Option<&Request>, _: bool, output: &mut Output<'_>) {
        if request.is_some_and(|request| request.is_grpc) {
            return self.send(grpc_answer(answer.status), true);
        }
        let mut response = Response::new(());
        *response.status_mut() =
            http::StatusCode::from_u16(answer.status).unwrap_or(http::StatusCode::BAD_GATEWAY);
        for (name, value) in answer.fields(request) {
            if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), HeaderValue::from_bytes(value))
            {
                response.headers_mut().append(name, value);
            }
        }
        response.headers_mut().insert(http::header::CONTENT_LENGTH, (answer.content.len() as u64).into());
        if request.is_some_and(|request| request.is_head) {
            return self.send(response, true);
        }
        self.send(response, false);
        output.out.extend_from_slice(&answer.content);
        self.outgoing.put_end(&[], &[]);
    }

    fn keeps_open(&self, _: &Request, _: &ResponseHead<'_>) -> bool {
        true
    }

    fn can_tunnel(&self) -> bool {
        false
    }

    fn received(&self) -> u64 {
        self.incoming.bytes
    }

    fn sent(&self) -> u64 {
        self.outgoing.bytes
    }

    fn is_full(&self) -> bool {
        self.outgoing.is_full()
    }

    fn check(&mut self) -> Result<(), Fault> {
        self.is_gone().map_or(Ok(()), |reason| Err(Fault::gone(reason)))
    }
}

/// gRPC reports errors in trailers of a 200 (gRPC over HTTP/2, "Responses"): 14 is UNAVAILABLE, by which clients retry.
fn grpc_answer(status: u16) -> Response<()> {
    let mut response = Response::new(());
    // UNAUTHENTICATED, PERMISSION_DENIED, UNAVAILABLE, INTERNAL, as gRPC maps the statuses of HTTP.
    let code = match status {
        401 => "16",
        403 => "7",
        429 => "14",
        400..=499 => "13",
        504 => "4",
        _ => "14",
    };
    let fields = response.headers_mut();
    fields.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    fields.insert("grpc-status", HeaderValue::from_static(code));
    let message = HeaderValue::try_from(format!("status {status} from the proxy"));
    if let Ok(message) = message {
        fields.insert("grpc-message", message);
    }
    response
}

/// Changes the fields of a response by the rules of its route.
fn change(fields: &mut HeaderMap, rules: &ResponseFields) {
    let dropped: Vec<_> =
        fields.keys().filter(|name| rules.drops(name.as_str().as_bytes())).cloned().collect();
    let had = fields.clone();
    for name in dropped {
        fields.remove(name);
    }
    for (name, value) in rules.added(|name| had.contains_key(name)) {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
            fields.append(name, value);
        }
    }
}
