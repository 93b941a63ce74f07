//! A client's stream in HTTP/2: one request, and its response.

use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::Reason;
use h2::server::SendResponse;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_http::http1::{Field, Framing, ResponseHead};
use http::{HeaderMap, HeaderValue, Response};

use crate::backends::connector::Cancellation;
use crate::requests::client::{After, Client};
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::decide::rules::ResponseFields;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::Fault;
use crate::requests::head::h2_heads;
use crate::requests::head::h2_queue::Queue;
use crate::requests::head::h2_stream::{StreamIn, StreamOut, broken};

/// A client's request and response.
#[derive(Debug)]
pub(crate) struct Http2Client {
    incoming: StreamIn,
    respond: SendResponse<Bytes>,
    outgoing: StreamOut,
    waker: Waker,
    /// Failure to send its head, to be reported by the next flush.
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

    fn poll_reset(&mut self) -> Option<CloseReason> {
        let mut context = Context::from_waker(&self.waker);
        // Once its head is sent, only the stream reports it.
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
        self.incoming.pump(self.outgoing.share(), to, io)
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
        self.poll_reset().map_or(Ok(()), Err)
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        self.poll_reset().map_or(Ok(()), Err)
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

    fn put_answer(
        &mut self,
        answer: &OwnResponse,
        request: Option<&Request>,
        _: bool,
        output: &mut Output<'_>,
    ) {
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
        self.poll_reset().map_or(Ok(()), |reason| Err(Fault::gone(reason)))
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
