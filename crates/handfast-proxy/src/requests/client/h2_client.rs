//! A client's stream in HTTP/2: one request, and its response.

use std::rc::Rc;

use handfast_http::http1::{Field, Framing, ResponseHead};
use handfast_http::http2::StreamKey;
use handfast_http::http2::connection::ResponseParts;
use handfast_http::http2::frame::ErrorCode;
use handfast_leg::READ;
use handfast_leg::runtime::Runtime;
use handfast_observe::reason::CloseReason;

use crate::backends::connector::Cancellation;
use crate::requests::client::{After, Client};
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::decide::rules::has_field;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::Fault;
use crate::requests::head::h2_link::Http2Link;
use crate::requests::head::h2_stream::Stream;

/// A client's request and response.
#[derive(Debug)]
pub(crate) struct Http2Client {
    stream: Stream,
}

impl Http2Client {
    pub(crate) fn new(link: &Rc<Http2Link>, key: StreamKey, has_ended: bool) -> Self {
        let mut stream = Stream::new(link, key);
        if has_ended {
            stream.mark_ended();
        }
        Self { stream }
    }

    /// The present task has it from now on.
    pub(crate) fn adopt<R: Runtime>(&self) {
        self.stream.adopt::<R>();
    }

    /// Most bytes of the request's content.
    pub(crate) fn limit(&mut self, limit: Option<u64>) {
        self.stream.limit(limit);
    }

    /// Cuts the response off.
    pub(crate) fn reset(&mut self, code: ErrorCode) {
        self.stream.reset(code);
    }

    /// Sends a head without rules of a route.
    fn send<'f>(
        &mut self,
        head: &ResponseHead<'_>,
        (status, length, is_last): (u16, Option<u64>, bool),
        drops: impl FnMut(&Field) -> bool,
        added: impl Iterator<Item = (&'f str, &'f [u8])>,
    ) {
        let parts = ResponseParts { head, status, length, is_last };
        self.stream.link.with(|connection| connection.respond(self.stream.key, parts, drops, added));
    }
}

impl Source for Http2Client {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.stream.pump(READ, to, io)
    }

    fn has_ended(&self) -> bool {
        self.stream.has_ended()
    }
}

impl Sink for Http2Client {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        Ok(self.stream.accepts())
    }

    fn room(&self) -> usize {
        self.stream.room()
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        output.out.extend_from_slice(data);
        Ok(())
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], _: &mut Output<'_>) -> Result<(), Fault> {
        self.stream.put_end(text, trailers);
        Ok(())
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        self.stream.flush(output)
    }

    fn is_done(&self) -> bool {
        self.stream.is_done()
    }
}

impl Cancellation for Http2Client {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        self.stream.check().map_err(|fault| fault.reason)
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        self.before_wait()
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
        let is_final = !head.is_interim();
        // RFC 8441 §5: a 2xx response is the change of the protocol.
        let is_switch = head.status == 101;
        let status = if is_switch { 200 } else { head.status };
        // A stream that ends with its head must stay one: to gRPC it is an error without content.
        let is_empty = after.is_over || matches!(framing, Framing::None | Framing::Length(0));
        let parts = (status, length, is_final && !is_switch && is_empty);
        let is_accept =
            |field: &Field| is_switch && field.name(head.text).eq_ignore_ascii_case(b"sec-websocket-accept");
        match request.response_fields.as_deref().filter(|_| is_final) {
            None => self.send(head, parts, is_accept, std::iter::empty()),
            Some(rules) => {
                let drops = |field: &Field| is_accept(field) || rules.drops(field.name(head.text));
                let added = rules.added(|name| has_field(head.text, head.fields, name));
                // A text of the client's that cannot be a value is left out.
                let added = added.filter(|(_, value)| !value.iter().any(u8::is_ascii_control));
                self.send(head, parts, drops, added);
            }
        }
    }

    fn put_answer(
        &mut self,
        answer: &OwnResponse,
        request: Option<&Request>,
        _: bool,
        output: &mut Output<'_>,
    ) {
        if request.is_some_and(|request| request.is_grpc) {
            let (code, message) = grpc_status(answer.status);
            let fields = [
                ("content-type", b"application/grpc".as_slice()),
                ("grpc-status", code.as_bytes()),
                ("grpc-message", message.as_bytes()),
            ];
            return self.send(&ResponseHead::EMPTY, (200, None, true), |_| false, fields.into_iter());
        }
        let length = Some(answer.content.len() as u64);
        let is_head = request.is_some_and(|request| request.is_head);
        let is_last = is_head || answer.content.is_empty();
        self.send(&ResponseHead::EMPTY, (answer.status, length, is_last), |_| false, answer.fields(request));
        if !is_last {
            output.out.extend_from_slice(&answer.content);
            self.stream.put_end(&[], &[]);
        }
    }

    fn keeps_open(&self, _: &Request, _: &ResponseHead<'_>) -> bool {
        true
    }

    fn can_tunnel(&self) -> bool {
        false
    }

    fn received(&self) -> u64 {
        self.stream.received
    }

    fn sent(&self) -> u64 {
        self.stream.sent
    }

    fn is_full(&self) -> bool {
        self.stream.is_full()
    }

    fn check(&mut self) -> Result<(), Fault> {
        self.stream.check().map_err(|fault| Fault::gone(fault.reason))
    }
}

/// gRPC reports errors in trailers of a 200 (gRPC over HTTP/2, "Responses"): 14 is UNAVAILABLE, by which clients retry.
fn grpc_status(status: u16) -> (&'static str, String) {
    // UNAUTHENTICATED, PERMISSION_DENIED, UNAVAILABLE, INTERNAL, as gRPC maps the statuses of HTTP.
    let code = match status {
        401 => "16",
        403 => "7",
        429 => "14",
        400..=499 => "13",
        504 => "4",
        _ => "14",
    };
    (code, format!("status {status} from the proxy"))
}
