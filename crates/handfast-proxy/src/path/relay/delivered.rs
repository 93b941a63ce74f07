//! Data that a leg's end without close_notify, or its reset, may have cut off.
//!
//! In: the relay at the moment at which a leg broke. Out: the reason of the abort. The leg decided that the connection is aborted, and both
//! peers see an abort, whatever it is called here: a cause that is no failure means that nothing was lost, as far as it can be seen from
//! here. Bytes that never arrived cannot be seen.

use handfast_leg::{Broken, Leg, Side as LegSide, Socket, Why};
use handfast_net::clock::Moment;
use handfast_net::fault::Cause as SocketCause;
use handfast_wire::farewell::{self, LastMessage};
use handfast_wire::starttls::Protocol;

use super::{Parts, Relay};
use crate::path::account::Account;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Step};

/// Our own close_notify as the longest record of it: a header (5), an explicit nonce (8), an alert (2) and a tag (16) of
/// TLS 1.2.
const CLOSE_NOTIFY: usize = 31;
/// A FIN counts as a byte.
const FIN: usize = 1;

/// That the client has not ended, or was still waiting for an answer when it did.
pub(super) const WAITING: u64 = u64::MAX;

impl Relay {
    /// Notes that the client has ended. `received`: bytes that the backend had sent by then.
    pub(super) fn client_ended(&mut self, account: &Account, received: u64) {
        let waits = self.is_unanswered() && !ends_unanswered(account);
        self.received_at_end = if waits { WAITING } else { received };
    }

    /// Names an end without close_notify or a reset by what it may have cut off; `None` for what is something else.
    ///
    /// RFC 9846 §6.1: an attacker may have cut data off; only close_notify is an end.
    pub(super) fn judge<S: Socket>(&self, parts: &Parts<'_, S>, broken: &Broken) -> Option<CloseReason> {
        let is_reset = match &broken.why {
            Why::Truncated => false,
            // A write behind the reset of a peer that had ended its direction finds a broken pipe.
            Why::Socket(fault) if matches!(fault.cause, SocketCause::Reset | SocketCause::ClosedEarly) => {
                true
            }
            _ => return None,
        };
        let in_flight = match broken.side {
            LegSide::Client if is_reset => self.cut_by_a_reset(parts),
            LegSide::Client => {
                let awaited = (last_message(parts).is_none()).then(|| not_taken(parts.client, 0)).flatten();
                self.unserved(parts).or(awaited)
            }
            LegSide::Backend => self.cut_by_the_backend(parts),
        };
        let reason = |cause, detail: String| {
            Some(CloseReason::new(Step::Relay, broken.side.into(), cause).because(detail))
        };
        match (in_flight, is_reset) {
            (Some(_), true) => None,
            (None, true) => {
                reason(Cause::ResetAtEnd, format!("everything had been delivered{}", last_words(parts)))
            }
            (Some(what), false) => reason(Cause::Truncated, format!("FIN without close_notify; {what}")),
            (None, false) => {
                let last = last_words(parts);
                reason(Cause::NoCloseNotify, format!("FIN without close_notify; nothing was in flight{last}"))
            }
        }
    }

    /// Describes bytes of the client that have not arrived whole, or have no answer; `None` without any.
    fn unserved<S: Socket>(&self, parts: &Parts<'_, S>) -> Option<&'static str> {
        let Parts { account, client, backend, .. } = parts;
        if client.is_in_a_record() {
            return Some("in the middle of a record");
        }
        // The last message is on its way, and the abort waits until the backend has it.
        if ends_unanswered(account) || last_message(parts).is_some() {
            return None;
        }
        if self.is_unanswered() && !backend.has_ended() {
            return Some("the backend had not answered what came last");
        }
        let untaken = backend.socket().unacknowledged() > 0;
        untaken.then_some("the backend had not acknowledged what came last")
    }

    /// A client that resets the connection has taken leave where either side had ended: a socket that is closed before our close_notify
    /// was read from it is reset by its kernel.
    fn cut_by_a_reset<S: Socket>(&self, parts: &Parts<'_, S>) -> Option<&'static str> {
        let Parts { account, client, backend, .. } = parts;
        if last_message(parts).is_some() {
            // Its kernel answered something for a session that it had ended, with close_notify or without.
            return (backend.unsent() > 0).then_some("the backend had not taken what came last");
        }
        if client.has_ended() {
            if backend.unsent() > 0 {
                return Some("the backend had not taken what came last");
            }
            if self.received_at_end != backend.received() && !ends_unanswered(account) {
                return Some("the client waited for an answer, or did not have all of it");
            }
        } else if !backend.has_ended() || !client.has_sent_close() {
            return Some("neither side had ended");
        } else if let Some(what) = self.unserved(parts) {
            return Some(what);
        }
        // The reset came in the place of an acknowledgement.
        not_taken(client, client.socket().delayed_acknowledgement())
    }

    /// A backend that ends without close_notify, or by a reset, when its client had ended with its answer, and that sent nothing more; or when
    /// its client had ended its session, and has the answer if it still waits for one.
    fn cut_by_the_backend<S: Socket>(&self, parts: &Parts<'_, S>) -> Option<&'static str> {
        let Parts { client, backend, .. } = parts;
        let last = last_message(parts);
        let waits = last.is_none_or(|last| last.is_answered) && !client.has_ended();
        if waits && (last.is_none() || self.is_unanswered()) {
            return Some("the client had not ended");
        }
        let has_all = last.is_some() || self.received_at_end == backend.received();
        if !has_all || backend.is_in_a_record() {
            return Some("the client waited for an answer, or did not have all of it");
        }
        if backend.unsent() > 0 || backend.socket().unacknowledged() > own(backend) {
            return Some("the backend had not acknowledged what came last");
        }
        (waits || last.is_none()).then(|| not_taken(client, 0)).flatten()
    }
}

/// Describes data of the answer that the client has not taken, beyond `unheard` bytes that it may have without having acknowledged them.
/// Tickets that are held back are no data.
fn not_taken<S: Socket>(client: &Leg<S>, unheard: usize) -> Option<&'static str> {
    let waits = client.unsent() > 0 && client.held_until() == Moment::NEVER;
    let untaken = client.sent() > 0 && client.socket().unacknowledged() > own(client) + unheard;
    (waits || untaken).then_some("the client had not taken all of the answer")
}

/// Bytes of our own end, which a peer need not have acknowledged.
fn own<S: Socket>(leg: &Leg<S>) -> usize {
    match (leg.has_sent_close(), leg.is_secured()) {
        (false, _) => 0,
        (true, true) => CLOSE_NOTIFY,
        (true, false) => FIN,
    }
}

/// The message by which the client ended its session, if that was its last one. It waits for no answer.
fn last_message<S: Socket>(parts: &Parts<'_, S>) -> Option<LastMessage> {
    (!parts.client.is_in_a_record()).then(|| farewell::last_message(parts.client.last_received())).flatten()
}

/// The same as the end of a sentence.
fn last_words<S: Socket>(parts: &Parts<'_, S>) -> String {
    last_message(parts)
        .map_or_else(String::new, |last| format!("; the client had ended its session ({})", last.name))
}

/// The reason for which the backend ended a login, where its protocol has one that depends on the proxy.
pub(super) fn refused_login<S: Socket>(
    Parts { account, backend, .. }: &Parts<'_, S>,
) -> Option<&'static str> {
    let protocol = account.record.starttls.or_else(|| account.service.starttls_of_backends());
    (protocol == Some(Protocol::PostgreSql))
        .then(|| farewell::refused_login(backend.last_received()))
        .flatten()
}

/// Returns true if the client's last message has no answer in its protocol: HTTP/2's acknowledgements and GOAWAY, MySQL's COM_QUIT,
/// PostgreSQL's Terminate, LDAP's unbind.
fn ends_unanswered(account: &Account) -> bool {
    let protocol = account.record.starttls.or_else(|| account.service.starttls_of_backends());
    let by_alpn = matches!(account.record.tls.alpn.as_deref(), Some("h2" | "postgresql"));
    by_alpn || matches!(protocol, Some(Protocol::MySql | Protocol::PostgreSql | Protocol::Ldap))
}
