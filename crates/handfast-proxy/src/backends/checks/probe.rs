//! One check of one backend, on a separate connection: connect, ask, receive, close.
//!
//! In: where and what to ask. Out: that the answer was right, or what was wrong, within the check's time. Connecting is the
//! connector's, as for clients: a check finds what connections would find.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use handfast_leg::runtime::Engine;
use handfast_leg::{Broken, Leg, READ, Socket as _};
use handfast_net::clock::Moment;
use handfast_net::engine::{self, Woken};
use handfast_text::duration;
use handfast_tls::buffer::Scratch;
use handfast_tls::client::ClientSession;
use handfast_tls::session::Failure;
use handfast_wire::proxy_header::{Writer, address_bytes, write_v1};

use super::CheckPlan;
use super::verdict::{self, Judged, Wrong};
use crate::backends::connector::{
    AttemptTime, Cancellation, ConnectContext, ConnectFailure, ConnectPlan, Stage, TlsPlan, connect,
};
use crate::backends::endpoint::is_ours;
use crate::backends::opening::Opening;
use crate::backends::tls::{BackendTlsSettings, client_for};
use handfast_config::model::{Address, BackendAlpn, Check, CheckKind, SentHeader};
use handfast_observe::reason::{CloseReason, Step};

/// Most bytes of an answer that are looked at.
const ANSWER_LIMIT: usize = 16 * 1024;
/// Most bytes that are read behind the answer, so that the backend is not cut off while it sends.
const SKIPPED_LIMIT: u64 = 64 * 1024;

#[derive(Debug)]
pub(super) enum Failed {
    /// No connection was made, or it broke.
    Leg(CloseReason),
    Late {
        answered: bool,
        timeout: Duration,
    },
    Ended,
    Wrong(Wrong),
}

impl Failed {
    /// Returns true if the cause is on this machine, so that the check does not blame the backend.
    pub(super) fn is_ours(&self) -> bool {
        matches!(self, Self::Leg(reason) if is_ours(reason.cause))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Leg(reason) => {
                let detail = reason.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
                write!(f, "{}: {}{detail}", reason.cause, reason.cause.sentence(reason.side))
            }
            Self::Late { answered: false, timeout } => {
                write!(f, "not connected within {}", duration::written(*timeout))
            }
            Self::Late { answered: true, timeout } => {
                write!(f, "connected, but no whole answer within {}", duration::written(*timeout))
            }
            Self::Ended => f.write_str("it closed before it had answered"),
            Self::Wrong(wrong) => wrong.fmt(f),
        }
    }
}

/// Checks once. `sources` counts the turns of the service's source addresses.
pub(super) async fn probe(
    plan: &CheckPlan,
    sources: &Cell<usize>,
    scratch: &RefCell<Scratch>,
) -> Result<(), Failed> {
    let Check { kind, timeout, .. } = &*plan.check;
    let begun = Moment::now();
    let time = AttemptTime { begun, deadline: begun.deadline(*timeout) };
    let (mut leg, mut received) = reach(plan, sources, time, scratch).await?;
    // The last flight of the handshake.
    leg.send_flight().map_err(of_leg)?;
    let verdict = match kind {
        CheckKind::Tcp => {
            leg.socket_mut().finish_at_drop();
            return Ok(());
        }
        CheckKind::Tls => Ok(()),
        CheckKind::Http { path, host, status } => {
            let host = host.as_ref().unwrap_or(&plan.host);
            let request = verdict::request(path, host);
            let judge = |received: &[u8]| verdict::of_http(received, status);
            query_backend(
                &mut leg,
                request.as_bytes(),
                judge,
                &mut received,
                (time.deadline, *timeout),
                scratch,
            )
            .await?
        }
        CheckKind::SendExpect { send, expect } => {
            let judge = |received: &[u8]| verdict::of_bytes(received, expect);
            query_backend(&mut leg, send, judge, &mut received, (time.deadline, *timeout), scratch).await?
        }
    };
    end(&mut leg, kind, time.deadline, scratch).await;
    verdict.map_err(Failed::Wrong)
}

/// A check that runs when its task is stopped ends as it would otherwise: a connection that is cut off is a failure in the backend's log.
struct NotCancelled;

impl Cancellation for NotCancelled {}

/// Connects by the plan; returns the leg, and the bytes that the backend has already sent. The source is the service's, and never a
/// client's address.
async fn reach(
    plan: &CheckPlan,
    sources: &Cell<usize>,
    time: AttemptTime,
    scratch: &RefCell<Scratch>,
) -> Result<(Leg, Vec<u8>), Failed> {
    // That a connection can be opened is seen without asking for TLS on it.
    let tls = plan.tls.as_ref().filter(|_| !matches!(plan.check.kind, CheckKind::Tcp));
    let way = (plan.through.as_deref(), plan.destination.as_ref());
    let host = || tls.and_then(|(_, host)| host.clone());
    let opening = Opening::towards(way, Vec::new(), tls.map(|(tls, _)| &tls.model), host);
    let own_header = plan.header.map(|version| move |local| header(version, local, &plan.address));
    let is_http = matches!(plan.check.kind, CheckKind::Http { .. });
    let session = tls.map(|(tls, host)| move |_: Moment| session(tls, host.clone(), is_http));
    let connect_plan = ConnectPlan {
        source: plan.source.next(None, sources),
        opening,
        own_header: own_header.as_ref().map(|own_header| own_header as _),
        tls: session.as_ref().map(|session| TlsPlan { session, is_lenient: false }),
        greeting: None,
        first: &[],
    };
    let mut context = ConnectContext { time, buffers: scratch, cancellation: NotCancelled, tls: None };
    let outcome = connect::<Engine, _>(&plan.address, connect_plan, &mut context).await;
    match outcome {
        Ok(connected) => Ok((connected.leg, connected.spoken)),
        Err(ConnectFailure::Deadline { stage, .. }) => {
            Err(Failed::Late { answered: stage != Stage::Dialling, timeout: plan.check.timeout })
        }
        Err(ConnectFailure::Attempt(reason) | ConnectFailure::Cancelled { by: reason, .. }) => {
            Err(Failed::Leg(reason))
        }
    }
}

/// A new session: one that resumes shows no certificate.
fn session(tls: &BackendTlsSettings, host: Option<String>, is_http: bool) -> Result<ClientSession, Failure> {
    let client = client_for(&tls.model, &tls.client, host)?;
    let offers = match &tls.model.alpn {
        BackendAlpn::Client => true,
        BackendAlpn::Own(protocols) => !protocols.is_empty(),
    };
    // The check uses HTTP/1.1, whatever clients use.
    if offers && is_http { client.connect_with_alpn("http/1.1", false) } else { client.connect(false) }
}

/// The PROXY header of a check, whose connection is the proxy's own (`LOCAL`, section 2.2 of the specification). Version 1 has no such
/// word. There the addresses of this very connection are named: Postfix refuses `UNKNOWN`.
fn header(version: SentHeader, local: Option<SocketAddr>, backend: &Address) -> Vec<u8> {
    match version {
        SentHeader::V2 => return Writer::local().finish(false),
        SentHeader::Address => return address_bytes(local.map(|local| local.ip())),
        SentHeader::V1 => {}
    }
    let backend = match backend {
        Address::Ip(address) => Some(*address),
        Address::Unix(_) => None,
    };
    let mut line = Vec::new();
    write_v1(&mut line, local.zip(backend));
    line
}

/// Sends the question, and receives until it is answered.
async fn query_backend(
    leg: &mut Leg,
    question: &[u8],
    judge: impl Fn(&[u8]) -> Judged,
    received: &mut Vec<u8>,
    (deadline, timeout): (Moment, Duration),
    scratch: &RefCell<Scratch>,
) -> Result<Result<(), Wrong>, Failed> {
    if !question.is_empty() {
        leg.write(question, &mut scratch.borrow_mut().records).map_err(of_leg)?;
    }
    received.truncate(ANSWER_LIMIT);
    loop {
        if let Some(verdict) = judge(received) {
            return Ok(verdict);
        }
        if leg.has_ended() {
            return Err(Failed::Ended);
        }
        if received.len() >= ANSWER_LIMIT {
            return Ok(Err(verdict::never(received)));
        }
        receive(leg, received, deadline, scratch).await.map_err(|failed| match failed {
            None => Failed::Late { answered: true, timeout },
            Some(broken) => of_leg(broken),
        })?;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_leg(broken: Broken) -> Failed {
    Failed::Leg(CloseReason::broken(Step::Connect, &broken))
}

/// Waits for more bytes, or the end. `Err(None)`: the time is over.
async fn receive(
    leg: &mut Leg,
    received: &mut Vec<u8>,
    deadline: Moment,
    scratch: &RefCell<Scratch>,
) -> Result<(), Option<Broken>> {
    let mut over = false;
    loop {
        // A backend that always has something to send never lets the check wait.
        over |= Moment::now() >= deadline;
        leg.flush()?;
        let got = {
            let scratch = &mut *scratch.borrow_mut();
            let got = leg.read(scratch, READ)?;
            let plaintext = leg.plaintext(&scratch.received, &scratch.plaintext, got.length);
            let room = ANSWER_LIMIT - received.len();
            received.extend_from_slice(&plaintext[..plaintext.len().min(room)]);
            got
        };
        let answered = leg.answer(&mut scratch.borrow_mut(), got.failed.is_some());
        if let Some(broken) = got.failed {
            return Err(Some(broken));
        }
        answered?;
        if over {
            return Err(None);
        }
        if got.moved {
            return Ok(());
        }
        over = engine::wait(deadline).await == Woken::Deadline;
    }
}

/// Ends cleanly, after reading what an HTTP server still sends, if it is little: closing earlier would reset it in the middle of its
/// answer, which it may log as a failure; so would tickets of TLS that are left unread. The verdict does not depend on this.
async fn end(leg: &mut Leg, kind: &CheckKind, deadline: Moment, scratch: &RefCell<Scratch>) {
    let mut rest = Vec::new();
    let is_http = matches!(kind, CheckKind::Http { .. });
    if leg.is_secured() && !is_http {
        let _ = leg.send_close(&mut scratch.borrow_mut().records, false);
        leg.socket_mut().end_writing();
    }
    let waits = is_http || leg.is_secured();
    while waits && !leg.has_ended() && leg.received() < SKIPPED_LIMIT {
        rest.clear();
        if receive(leg, &mut rest, deadline, scratch).await.is_err() {
            return;
        }
    }
    let _ = leg.send_close(&mut scratch.borrow_mut().records, true);
    leg.socket_mut().finish_at_drop();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_version_1_names_the_addresses_of_the_check_itself() {
        let to = |address: &str| Address::Ip(address.parse().expect("an address"));
        let from = |address: &str| Some(address.parse().expect("an address"));
        for (local, backend, line) in [
            (from("10.0.0.1:40000"), to("10.0.0.2:25"), "PROXY TCP4 10.0.0.1 10.0.0.2 40000 25\r\n"),
            (from("[::1]:40000"), to("[::1]:25"), "PROXY TCP6 ::1 ::1 40000 25\r\n"),
            (None, Address::Unix("/run/postfix.sock".into()), "PROXY UNKNOWN\r\n"),
        ] {
            assert_eq!(String::from_utf8_lossy(&header(SentHeader::V1, local, &backend)), line);
        }
        let bytes = header(SentHeader::Address, from("10.0.0.1:40000"), &to("10.0.0.2:25"));
        assert_eq!(bytes, [2, 10, 0, 0, 1]);
        assert_eq!(header(SentHeader::Address, from("[::ffff:10.0.0.1]:1"), &to("[::1]:25")), bytes);
        assert_eq!(header(SentHeader::Address, from("[::1]:1"), &to("[::1]:25")).len(), 17);
        let local = header(SentHeader::V2, from("10.0.0.1:40000"), &to("10.0.0.2:25"));
        assert_eq!(local, Writer::local().finish(false));
    }
}
