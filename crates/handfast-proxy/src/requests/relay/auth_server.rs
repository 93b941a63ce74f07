//! A server that is asked about a request (`forward-auth`): by GET, with the method, URI, host and client in `X-Forwarded-…`, and the fields
//! that the client sent, its cookies above all.
//!
//! In: the head of a request. Out: with a status from 200 to 299, the fields that the backend receives; any other answer is for the client, and
//! so is an error where there is no answer.

use std::borrow::Cow;

use handfast_config::model::ForwardAuth;
use handfast_http::http1::{
    Field, Framing, HeadEnd, Kind, Method, OwnedRequest, RequestHead, ResponseHead, Target, WrittenHead,
    end_head, write_fields, write_request_line,
};
use handfast_leg::READ;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::backends::connector::Cancellation;
use crate::requests::client::{After, Client};
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::forward::{push, x_forwarded};
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::Fault;
use crate::requests::head::field_name::is_same_field;
use crate::requests::head::refusal::Refusal;
use crate::requests::relay::own_request;
use crate::worker::request_routes::ThreadServers;

/// Bytes of an answer for the client. Pages for a login have a few.
const MAX_CONTENT_BYTES: usize = 256 * 1024;
/// Fields that are about the content of the request, which the server does not receive, or about which answer is wanted; and fields by which
/// a client could name another URI to some servers.
const DROPPED: [&str; 11] = [
    "accept-encoding",
    "content-encoding",
    "content-type",
    "range",
    "te",
    "x-auth-request-redirect",
    "x-http-method-override",
    "x-original-method",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
];

/// The server of a route.
pub(crate) struct Server<'s> {
    pub(crate) model: &'s ForwardAuth,
    pub(crate) servers: &'s ThreadServers,
}

impl Server<'_> {
    /// Asks about a request; the fields that its backend receives.
    ///
    /// **Errors**: the server's answer for the client, or that there is none.
    pub(crate) async fn authorize<R: Runtime>(
        &self,
        head: &RequestHead<'_>,
        connection: &HttpConnection,
        client: &mut impl Client,
    ) -> Result<Vec<(Box<str>, Vec<u8>)>, Box<Refusal>> {
        let question = self.question(head, connection);
        let connection = connection.towards(self.servers);
        let mut request = Request::own(question, &connection, &connection.http.fallback);
        let mut collector = Collector::new(client);
        own_request::send::<R>(&connection, &mut request, &mut collector).await.map_err(failed)?;
        let Collector { status, fields, content, .. } = collector;
        match status {
            200..300 => Ok(self.copied(fields)),
            // It is a statement about what the client has, and nothing of that was asked.
            ..200 | 304 => Err(failed(Fault::of(unexpected(format!("status {status}"))))),
            _ => {
                let detail = format!("forward-auth answered {status}");
                let refusal = Refusal::new(status, Side::Client, Cause::Unauthenticated, detail);
                let fields = fields.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect();
                Err(Box::new(Refusal { fields, content: Some(content), ..refusal }))
            }
        }
    }

    fn copied(&self, fields: Vec<(String, Vec<u8>)>) -> Vec<(Box<str>, Vec<u8>)> {
        let copy = &self.model.copy;
        let is_copied = |name: &str| copy.iter().any(|copied| copied.eq_ignore_ascii_case(name));
        let copied = fields.into_iter().filter(|(name, _)| is_copied(name));
        copied.map(|(name, value)| (name.into(), value)).collect()
    }

    /// The head that the server receives.
    fn question(&self, head: &RequestHead<'_>, connection: &HttpConnection) -> OwnedRequest {
        let target = Target::Origin(self.model.path.as_bytes());
        let question = RequestHead {
            method: Method::GET,
            target,
            framing: Framing::None,
            expects_continue: false,
            accepts_trailers: false,
            upgrade: None,
            ..*head
        };
        let mut out = WrittenHead::with_capacity(head.length + 256, head.fields.len() + 8);
        write_request_line(&mut out.text, &question);
        let own_id = connection.http.model.request_id.as_deref();
        let drops = |field: &Field| {
            let name = field.name(head.text);
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            matches!(field.kind(), Kind::Forwarding | Kind::Expect | Kind::Host)
                || DROPPED.iter().any(|dropped| is_same_field(name, dropped.as_bytes()))
                || name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"if-"))
                || own_id.is_some_and(is)
        };
        if !head.host.is_none() {
            push(&mut out, "Host", head.host.text);
        }
        write_fields(&mut out, head.text, head.fields, drops);
        x_forwarded(&mut out, head, connection);
        push(&mut out, "X-Forwarded-Method", head.method.as_bytes());
        push(&mut out, "X-Forwarded-Uri", head.target.path());
        end_head(&mut out.text, &HeadEnd::for_backend(&question));
        OwnedRequest::written(out, &question)
    }
}

fn unexpected(detail: String) -> CloseReason {
    CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse).because(detail)
}

/// Without an answer no request goes on.
fn failed(fault: Fault) -> Box<Refusal> {
    let Fault { reason, status, .. } = fault;
    let status = status.or((reason.side == Side::Backend).then_some(502));
    let detail = match &reason.detail {
        Some(detail) => format!("forward-auth: {detail}"),
        None => "forward-auth".to_owned(),
    };
    match status {
        Some(status) => Box::new(Refusal::of(status, reason.because(detail))),
        None => Refusal::gone(reason),
    }
}

/// Takes the answer in the place of the client, which waits.
struct Collector<'c, C> {
    client: &'c mut C,
    status: u16,
    /// Those that are not about the connection.
    fields: Vec<(String, Vec<u8>)>,
    content: Vec<u8>,
    is_done: bool,
}

impl<'c, C> Collector<'c, C> {
    fn new(client: &'c mut C) -> Self {
        Self { client, status: 0, fields: Vec::new(), content: Vec::new(), is_done: false }
    }
}

impl<C> Source for Collector<'_, C> {
    fn pump(&mut self, _: &mut dyn Sink, _: &mut Io<'_>) -> Result<bool, Fault> {
        Ok(false)
    }

    /// The request has no content.
    fn has_ended(&self) -> bool {
        true
    }
}

impl<C> Sink for Collector<'_, C> {
    fn accepts(&mut self, _: &mut Io<'_>) -> Result<bool, Fault> {
        Ok(true)
    }

    fn room(&self) -> usize {
        READ
    }

    fn put(&mut self, data: &[u8], _: &mut Output<'_>) -> Result<(), Fault> {
        if self.content.len() + data.len() > MAX_CONTENT_BYTES {
            return Err(Fault::of(unexpected(format!("more than {MAX_CONTENT_BYTES} bytes of content"))));
        }
        self.content.extend_from_slice(data);
        Ok(())
    }

    fn put_end(&mut self, _: &[u8], _: &[Field], _: &mut Output<'_>) -> Result<(), Fault> {
        self.is_done = true;
        Ok(())
    }

    fn flush(&mut self, _: &mut Output<'_>) -> Result<(), Fault> {
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }
}

impl<C: Cancellation> Cancellation for Collector<'_, C> {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        self.client.before_wait()
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        self.client.after_wait()
    }
}

impl<C: Client> Client for Collector<'_, C> {
    fn put_head(&mut self, head: &ResponseHead<'_>, _: &Request, _: After, _: &mut Output<'_>) {
        if head.is_interim() {
            return;
        }
        self.status = head.status;
        let forwarded = head.fields.iter().filter(|field| field.kind().is_forwarded());
        let text = |field: &Field| {
            let name = String::from_utf8_lossy(field.name(head.text)).into_owned();
            (name, field.value(head.text).to_vec())
        };
        self.fields = forwarded.map(text).collect();
    }

    /// Errors are for the client itself.
    fn put_answer(&mut self, _: &OwnResponse, _: Option<&Request>, _: bool, _: &mut Output<'_>) {}

    fn keeps_open(&self, _: &Request, _: &ResponseHead<'_>) -> bool {
        true
    }

    fn can_tunnel(&self) -> bool {
        false
    }

    fn received(&self) -> u64 {
        0
    }

    fn sent(&self) -> u64 {
        self.content.len() as u64
    }

    fn is_full(&self) -> bool {
        false
    }

    fn check(&mut self) -> Result<(), Fault> {
        self.client.check()
    }
}

#[cfg(test)]
mod tests {
    use handfast_http::http1::HeadLimits;

    use super::*;
    use crate::requests::testing::{Fixture, head, with_head};

    #[test]
    fn names_are_the_same_to_programs_that_take_an_underscore_for_a_hyphen() {
        assert!(
            is_same_field(b"Remote_User", b"remote-user") && is_same_field(b"REMOTE-USER", b"Remote-User")
        );
        assert!(
            !is_same_field(b"remote-use", b"remote-user") && !is_same_field(b"remoteuser1", b"remote-user")
        );
    }

    #[test]
    fn the_server_receives_the_request_and_nothing_that_a_client_claims() {
        let fixture = Fixture::new(
            "[[service.route]]\nforward-auth = { to = \"127.0.0.1:1\", path = \"/auth?group=a\", copy = \"Remote-User\" }",
        );
        let route = &fixture.connection.http.routes[0];
        let model = route.gate.as_ref().and_then(|gate| gate.forward.as_ref()).expect("it is configured");
        let servers = route.auth.as_ref().expect("it has a server");
        let text = head(&[
            "POST /a/b?x=1 HTTP/1.1",
            "Host: shop.example:8443",
            "Cookie: a=b",
            "Authorization: Bearer x",
            "Content-Length: 5",
            "Content-Type: text/plain",
            "If-None-Match: \"x\"",
            "Range: bytes=0-1",
            "Accept-Encoding: br",
            "Expect: 100-continue",
            "X-Forwarded-Uri: /public",
            "X-Original-URL: /public",
            "X-Forwarded-For: 10.0.0.1",
            "X-Request-Id: mine",
        ]);
        let server = Server { model, servers };
        let question = with_head(&text, &HeadLimits::default(), |head| {
            String::from_utf8(server.question(head, &fixture.connection).text().to_vec()).expect("text")
        });
        assert_eq!(
            question,
            head(&[
                "GET /auth?group=a HTTP/1.1",
                "Host: shop.example:8443",
                "Cookie: a=b",
                "Authorization: Bearer x",
                "X-Forwarded-For: 192.0.2.7",
                "X-Forwarded-Proto: http",
                "X-Forwarded-Host: shop.example:8443",
                "X-Forwarded-Method: POST",
                "X-Forwarded-Uri: /a/b?x=1",
            ])
        );
    }
}
