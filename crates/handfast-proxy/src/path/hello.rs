//! Step 2, hello: a whole ClientHello, however it was split, before the deadline and within the size limit.
//!
//! In: an accepted client. Out: the parsed hello, and its bytes, which the handshake takes untouched.

mod plain_http;

use std::time::Duration;

use handfast_leg::{Leg, Socket};
use handfast_net::engine::Woken;
use handfast_net::stream::Read;
use handfast_text::units::counted;
use handfast_tls::buffer::Scratch;
use handfast_wire::starttls::{Protocol, UNIT_LIMIT};
use handfast_wire::{Alert, AlertDescription, ClientHello, Foreign, Peek, peek};

use crate::path::account::Account;
use crate::path::connection::Connection;
use crate::path::hello::plain_http::ResponseKind;
use crate::path::proxy_header_in;
use crate::worker::challenges::ThreadChallenges;
use handfast_config::model::PlainHttp;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::HeaderOutcome;
use handfast_observe::reason::{CloseReason, Side, Step};

#[derive(Debug)]
pub(crate) struct ReceivedHello {
    pub(crate) parsed: Box<ClientHello>,
    /// Everything received so far, from the first byte.
    pub(crate) bytes: Vec<u8>,
}

/// Reads until the hello is whole.
///
/// `received`: what has come of it already.
pub(crate) async fn read<R: Runtime>(
    connection: &mut Connection<R>,
    received: Vec<u8>,
) -> Result<ReceivedHello, CloseReason> {
    let outcome = wait_for_hello(connection, received).await;
    connection.account.record.seconds.hello = R::now().since(connection.accepted);
    if let Err(CloseReason { cause: Cause::ProxyHeaderUnexpected, .. }) = &outcome {
        connection.account.service.metrics.proxy_header(HeaderOutcome::Unexpected);
    }
    outcome
}

async fn wait_for_hello<R: Runtime>(
    connection: &mut Connection<R>,
    mut received: Vec<u8>,
) -> Result<ReceivedHello, CloseReason> {
    let service = &connection.account.service;
    let challenges = connection.account.thread.challenges();
    let limits = Limits {
        hello: service.model.limits.hello_bytes,
        plain_http: service.model.plain_http,
        challenges: &challenges,
    };
    let mut blanks = Blanks { protocol: connection.account.record.starttls, left: UNIT_LIMIT };
    let mut first_byte = None;
    loop {
        let parsed = {
            let (client, mut scratch) = connection.client_and_buffers();
            take(client, &mut scratch, &mut received, &limits, &mut blanks)
        };
        if first_byte.is_none() && !received.is_empty() {
            first_byte = Some(R::turn());
        }
        if let Err(CloseReason { cause: Cause::HttpClosed, .. }) = &parsed {
            note_redirect(connection, &received, R::now().since(first_byte.unwrap_or(connection.accepted)));
        }
        let named =
            |reason| proxy_header_in::name_checks(&connection.account.record, reason, !received.is_empty());
        if let Some(parsed) = parsed.map_err(named)? {
            return Ok(ReceivedHello { parsed, bytes: received });
        }
        if connection.wait(Step::Hello, connection.deadline).await? == Woken::Deadline {
            let seen = format!("{} of a ClientHello came", counted(received.len() as u64, "byte"));
            return Err(reason(Side::Client, Cause::HandshakeDeadline).because(seen));
        }
    }
}

/// Counts and logs a request that was answered with a redirect, after this time.
fn note_redirect<R: Runtime>(connection: &mut Connection<R>, received: &[u8], hello: Duration) {
    let Account { thread, service, record, .. } = &mut connection.account;
    let request = plain_http::redirect_record(received, record, thread.logs_client_fields());
    let Some(mut request) = request else { return };
    request.seconds.hello = hello;
    service.metrics.request_began(request.protocol);
    service.metrics.request(&request);
    thread.log_request(&request);
    record.requests = 1;
}

/// Limits on the first bytes, and the handling of those that are not TLS.
struct Limits<'a> {
    hello: usize,
    plain_http: PlainHttp,
    challenges: &'a ThreadChallenges,
}

/// Bytes behind a request for TLS that have no meaning in its protocol.
struct Blanks {
    /// The protocol of the request.
    protocol: Option<Protocol>,
    /// Most bytes that are still dropped.
    left: usize,
}

impl Blanks {
    /// Drops them where the hello has not begun.
    fn drop_from(&mut self, received: &mut Vec<u8>) {
        let blanks = self.protocol.map_or(0, |protocol| protocol.leading_blanks(received)).min(self.left);
        self.left -= blanks;
        received.drain(..blanks);
    }
}

/// Takes in what is there; `Some` when the hello is whole.
fn take<S: Socket>(
    client: &mut Leg<S>,
    scratch: &mut Scratch,
    received: &mut Vec<u8>,
    limits: &Limits<'_>,
    blanks: &mut Blanks,
) -> Result<Option<Box<ClientHello>>, CloseReason> {
    // Of a client that need not wait before TLS, or behind a PROXY header, it has been read already.
    let mut is_new = !received.is_empty();
    loop {
        if is_new && let Some(hello) = parse_hello(client, received, limits)? {
            return Ok(Some(hello));
        }
        if !receive(client, scratch, received, "in the middle of it")? {
            return Ok(None);
        }
        blanks.drop_from(received);
        is_new = true;
    }
}

/// Appends the bytes that a client has sent to `received`; returns true if there were any. `midway`: detail for an end behind other bytes.
///
/// **Errors**: the client ended, or its socket failed.
pub(super) fn receive<S: Socket>(
    client: &mut Leg<S>,
    scratch: &mut Scratch,
    received: &mut Vec<u8>,
    midway: &'static str,
) -> Result<bool, CloseReason> {
    match client.socket_mut().try_read(&mut scratch.received) {
        Ok(Read::Blocked) => Ok(false),
        Ok(Read::Bytes(bytes)) => {
            received.extend_from_slice(&scratch.received[..bytes]);
            Ok(true)
        }
        Ok(Read::End) => {
            let when = if received.is_empty() { "without a byte" } else { midway };
            Err(reason(Side::Client, Cause::CLOSED_EARLY).because(when))
        }
        Err(fault) => Err(CloseReason::fault(Step::Hello, Side::Client, &fault)),
    }
}

/// Parses the received bytes; `Some` when the hello is whole.
fn parse_hello<S: Socket>(
    client: &mut Leg<S>,
    received: &[u8],
    limits: &Limits<'_>,
) -> Result<Option<Box<ClientHello>>, CloseReason> {
    let limit = limits.hello;
    match peek(received, limit) {
        Peek::Incomplete => Ok(None),
        Peek::Complete(hello) => Ok(Some(hello)),
        Peek::NotTls(Foreign::Http) => {
            // A redirect needs the whole head of the request.
            let answer = plain_http::answer(received, limits.plain_http, limits.challenges, limit);
            let Some(plain_http::PlainHttpResponse { text, kind }) = answer else { return Ok(None) };
            client.keep(&text);
            Err(match kind {
                ResponseKind::Redirect => CloseReason::new(Step::Close, Side::Operator, Cause::HttpClosed)
                    .because("after a redirect to https"),
                ResponseKind::Challenge => {
                    reason(Side::Client, Cause::Challenge).because(Foreign::Http.name())
                }
                ResponseKind::Refusal => reason(Side::Client, Cause::NotTls).because(Foreign::Http.name()),
            })
        }
        other => Err(refuse(client, &other, limit)),
    }
}

/// Keeps an alert for the client, and returns the close reason.
fn refuse<S: Socket>(client: &mut Leg<S>, peek: &Peek, limit: usize) -> CloseReason {
    let (alert, reason) = match peek {
        // No alert is meant for a message over a limit of ours; OpenSSL and BoringSSL say this.
        Peek::TooLarge { announced } => (
            AlertDescription::ILLEGAL_PARAMETER,
            reason(Side::Client, Cause::HelloTooLarge).because(format!("{announced} bytes, limit {limit}")),
        ),
        Peek::NotTls(Foreign::ProxyProtocol) => {
            (AlertDescription::UNEXPECTED_MESSAGE, reason(Side::Client, Cause::ProxyHeaderUnexpected))
        }
        Peek::NotTls(foreign) => (
            AlertDescription::UNEXPECTED_MESSAGE,
            reason(Side::Client, Cause::NotTls).because(foreign.name()),
        ),
        Peek::Invalid(invalid) => {
            (invalid.alert(), reason(Side::Client, Cause::Tls).because(invalid.to_string()))
        }
        Peek::Incomplete | Peek::Complete(_) => {
            (AlertDescription::INTERNAL_ERROR, reason(Side::Local, Cause::Internal))
        }
    };
    client.keep(&Alert::fatal(alert).to_record());
    reason
}

fn reason(side: Side, cause: Cause) -> CloseReason {
    CloseReason::new(Step::Hello, side, cause)
}
