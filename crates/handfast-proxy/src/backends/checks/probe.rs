//! One check of one backend, on a leg of its own: dial, ask, listen, close.
//!
//! In: where and what to ask. Out: that the answer was right, or what was wrong, within the check's time.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use handfast_leg::{Broken, Leg, Side as LegSide, Socket as _};
use handfast_net::clock::Moment;
use handfast_net::dial::Dialling;
use handfast_net::engine::{self, Woken};
use handfast_net::fault::Fault;
use handfast_net::stream::Stream;
use handfast_text::duration;
use handfast_tls::buffer::Scratch;
use handfast_tls::session::Failure;
use handfast_wire::proxy_header::{Version, Writer, write_v1};

use super::CheckPlan;
use super::verdict::{self, Judged, Wrong};
use crate::backends::endpoint::is_ours;
use crate::backends::opening::Opening;
use crate::backends::tls::client_for;
use crate::config::model::{Address, BackendAlpn, Check, CheckKind};
use handfast_observe::reason::{CloseReason, Side, Step};

/// Most bytes of an answer that are looked at.
const MOST_HEARD: usize = 16 * 1024;
/// Most bytes that are read behind them, so that the backend is not cut off in the middle of what it says.
const MOST_SKIPPED: u64 = 64 * 1024;

/// Why a check failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// No connection came about, or it broke.
    Leg(CloseReason),
    /// Not within the check's time.
    Late { answered: bool, timeout: Duration },
    /// It closed before it had answered.
    Ended,
    /// The answer is wrong.
    Wrong(Wrong),
}

impl Failed {
    /// Whether it is this machine that cannot ask.
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

/// Asks once. `sources` counts the turns of the service's source addresses.
pub(super) async fn probe(
    checked: &CheckPlan,
    sources: &Cell<usize>,
    scratch: &RefCell<Scratch>,
) -> Result<(), Failed> {
    let Check { kind, timeout, .. } = &*checked.check;
    let deadline = Moment::now().deadline(*timeout);
    let stream = dial(checked, sources, deadline).await?;
    let mut leg: Leg = Leg::plain(LegSide::Backend, stream).dialled(0);
    let mut heard = open(&mut leg, checked, deadline, scratch).await?;
    if matches!(kind, CheckKind::Tcp) {
        leg.send_flight().map_err(of_leg)?;
        leg.socket_mut().finish_at_drop();
        return Ok(());
    }
    if checked.tls.is_some() {
        secure(&mut leg, checked, deadline, scratch, &mut heard).await?;
    }
    let verdict = match kind {
        CheckKind::Tcp | CheckKind::Tls => Ok(()),
        CheckKind::Http { path, host, status } => {
            let host = host.as_ref().unwrap_or(&checked.host);
            let request = verdict::request(path, host);
            let judge = |heard: &[u8]| verdict::of_http(heard, status);
            ask(&mut leg, request.as_bytes(), judge, &mut heard, (deadline, *timeout), scratch).await?
        }
        CheckKind::SendExpect { send, expect } => {
            let judge = |heard: &[u8]| verdict::of_bytes(heard, expect);
            ask(&mut leg, send, judge, &mut heard, (deadline, *timeout), scratch).await?
        }
    };
    end(&mut leg, kind, deadline, scratch).await;
    verdict.map_err(Failed::Wrong)
}

/// The PROXY header of a check, whose connection is the proxy's own (`LOCAL`, section 2.2 of the specification). Version 1 has no such
/// word. There the addresses of this very connection are named: Postfix refuses `UNKNOWN`.
fn header(version: Version, local: Option<SocketAddr>, backend: &Address) -> Vec<u8> {
    if version == Version::V2 {
        return Writer::local().finish(false);
    }
    let backend = match backend {
        Address::Ip(address) => Some(*address),
        Address::Unix(_) => None,
    };
    let mut line = Vec::new();
    write_v1(&mut line, local.zip(backend));
    line
}

/// Says what comes before TLS, or before the question; what the backend has said behind it.
async fn open(
    leg: &mut Leg,
    checked: &CheckPlan,
    deadline: Moment,
    scratch: &RefCell<Scratch>,
) -> Result<Vec<u8>, Failed> {
    // That a connection can be opened is seen without asking for TLS on it.
    let tls = checked.tls.as_ref().filter(|_| !matches!(checked.check.kind, CheckKind::Tcp));
    let way = (checked.through.as_deref(), checked.behind.as_ref());
    let host = || tls.and_then(|(_, host)| host.clone());
    let model = tls.map(|(tls, _)| &tls.model);
    let local = leg.socket_mut().local_address();
    let header = checked.header.map(|version| header(version, local, &checked.address)).unwrap_or_default();
    let mut opening = Opening::towards(way, header, model, host);
    leg.keep(&opening.begin());
    let mut over = false;
    while !opening.is_over() {
        leg.send_flight().map_err(of_leg)?;
        let bytes = leg.read_flight(&mut scratch.borrow_mut()).map_err(of_leg)?;
        if let Some(bytes) = bytes {
            let mut words = Vec::new();
            let outcome = opening.take(&scratch.borrow().received[..bytes], &mut words);
            leg.keep(&words);
            if let Err(refused) = outcome {
                leg.socket_mut().finish_at_drop();
                return Err(Failed::Leg(refused.reason()));
            }
        }
        if over || Moment::now() >= deadline {
            return Err(Failed::Late { answered: true, timeout: checked.check.timeout });
        }
        if bytes.is_none() {
            over = engine::wait(deadline).await == Woken::Deadline;
        }
    }
    opening.into_heard().map_err(Failed::Leg)
}

/// Shakes hands, in full: what is resumed shows no certificate.
async fn secure(
    leg: &mut Leg,
    checked: &CheckPlan,
    deadline: Moment,
    scratch: &RefCell<Scratch>,
    heard: &mut Vec<u8>,
) -> Result<(), Failed> {
    let Some((tls, host)) = &checked.tls else { return Ok(()) };
    let client = client_for(&tls.model, &tls.client, host.clone()).map_err(of_session)?;
    let offers = tls.model.alpn == BackendAlpn::Client
        || matches!(&tls.model.alpn, BackendAlpn::Own(protocols) if !protocols.is_empty());
    // What is spoken then is HTTP/1.1, whatever clients speak.
    let is_http = matches!(checked.check.kind, CheckKind::Http { .. });
    let session =
        if offers && is_http { client.connect_with_alpn("http/1.1", false) } else { client.connect(false) };
    let mut session = session.map_err(of_session)?;
    {
        let records = &mut scratch.borrow_mut().records;
        records.clear();
        session.start(records).map_err(of_session)?;
        leg.secure(Box::new(session));
        leg.keep(records.filled());
    }
    let late = || Failed::Late { answered: true, timeout: checked.check.timeout };
    let mut over = false;
    loop {
        let bytes = leg.read_flight(&mut scratch.borrow_mut()).map_err(of_leg)?;
        if let Some(bytes) = bytes {
            let taken = leg.take_flight(bytes, &mut scratch.borrow_mut(), heard);
            // Our flight, or our alert, which a reset would take from the backend's hands.
            let sent = leg.send_flight();
            if let Err(broken) = taken {
                leg.socket_mut().finish_at_drop();
                return Err(of_leg(broken));
            }
            sent.map_err(of_leg)?;
            if leg.is_established() {
                return Ok(());
            }
        }
        // Whoever always has something to say never lets us wait.
        if over || Moment::now() >= deadline {
            return Err(late());
        }
        if bytes.is_none() {
            over = engine::wait(deadline).await == Woken::Deadline;
        }
    }
}

/// Sends what is to be sent, and listens until that has an answer.
async fn ask(
    leg: &mut Leg,
    question: &[u8],
    judge: impl Fn(&[u8]) -> Judged,
    heard: &mut Vec<u8>,
    (deadline, timeout): (Moment, Duration),
    scratch: &RefCell<Scratch>,
) -> Result<Result<(), Wrong>, Failed> {
    leg.send_flight().map_err(of_leg)?;
    if !question.is_empty() {
        leg.write(question, &mut scratch.borrow_mut().records).map_err(of_leg)?;
    }
    heard.truncate(MOST_HEARD);
    loop {
        if let Some(verdict) = judge(heard) {
            return Ok(verdict);
        }
        if leg.has_ended() {
            return Err(Failed::Ended);
        }
        if heard.len() >= MOST_HEARD {
            return Ok(Err(verdict::never(heard)));
        }
        hear(leg, heard, deadline, scratch).await.map_err(|failed| match failed {
            None => Failed::Late { answered: true, timeout },
            Some(broken) => of_leg(broken),
        })?;
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_fault(fault: Fault) -> Failed {
    Failed::Leg(CloseReason::fault(Step::Connect, Side::Backend, &fault))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_session(failure: Failure) -> Failed {
    Failed::Leg(CloseReason::failure(Step::Connect, Side::Backend, &failure))
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_leg(broken: Broken) -> Failed {
    Failed::Leg(CloseReason::broken(Step::Connect, &broken))
}

/// From where the service's connections come; no client's address, since there is none.
async fn dial(checked: &CheckPlan, sources: &Cell<usize>, deadline: Moment) -> Result<Stream, Failed> {
    let source = checked.source.next(None, sources);
    let mut dialling = Dialling::begin(&checked.address, source, false).map_err(of_fault)?;
    let mut over = false;
    loop {
        // Also when it is over: the answer may have come while this thread was busy with others.
        if dialling.advance(&[]).map_err(of_fault)?.is_some() {
            return Ok(dialling.into_stream());
        }
        if over {
            return Err(Failed::Late { answered: false, timeout: checked.check.timeout });
        }
        over = engine::wait(deadline).await == Woken::Deadline;
    }
}

/// Waits until something more was heard, or the end. `Err(None)`: the time is over.
async fn hear(
    leg: &mut Leg,
    heard: &mut Vec<u8>,
    deadline: Moment,
    scratch: &RefCell<Scratch>,
) -> Result<(), Option<Broken>> {
    let mut over = false;
    loop {
        // Whoever always has something to say never lets us wait.
        over |= Moment::now() >= deadline;
        leg.flush()?;
        let got = {
            let scratch = &mut *scratch.borrow_mut();
            let got = leg.read(scratch, false)?;
            let plaintext = leg.plaintext(&scratch.received, &scratch.plaintext, got.length);
            let room = MOST_HEARD - heard.len();
            heard.extend_from_slice(&plaintext[..plaintext.len().min(room)]);
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

/// Ends in order, after reading what an HTTP server still has to say, as far as it is little: closing earlier would reset it in the
/// middle of its answer, which it may log as a failure; so would tickets of TLS that are left unread. What was found stands, whatever
/// happens here.
async fn end(leg: &mut Leg, kind: &CheckKind, deadline: Moment, scratch: &RefCell<Scratch>) {
    let mut rest = Vec::new();
    let is_http = matches!(kind, CheckKind::Http { .. });
    if leg.is_secured() && !is_http {
        let _ = leg.tell_end(&mut scratch.borrow_mut().records, false);
        leg.socket_mut().end_writing();
    }
    let waits = is_http || leg.is_secured();
    while waits && !leg.has_ended() && leg.heard() < MOST_SKIPPED {
        rest.clear();
        if hear(leg, &mut rest, deadline, scratch).await.is_err() {
            return;
        }
    }
    let _ = leg.tell_end(&mut scratch.borrow_mut().records, true);
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
            assert_eq!(String::from_utf8_lossy(&header(Version::V1, local, &backend)), line);
        }
        let local = header(Version::V2, from("10.0.0.1:40000"), &to("10.0.0.2:25"));
        assert_eq!(local, Writer::local().finish(false));
    }
}
