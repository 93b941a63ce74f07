//! Properties that must hold in every schedule: invariants 3 to 6 of ARCHITECTURE.md.

use std::time::Duration;

use super::backend::Backend;
use super::client::Client;
use super::peers::End;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{Side, Step};

/// The outcome of a schedule for each side.
pub(super) struct Outcome<'a> {
    pub(super) client: &'a Client,
    pub(super) backend: &'a Backend,
    pub(super) step: Step,
    pub(super) side: Side,
    pub(super) cause: Cause,
    /// From accept to the end of the task.
    pub(super) took: Duration,
    /// The deadline from accept to relay.
    pub(super) handshake: Duration,
    /// The limit on silence.
    pub(super) idle: Duration,
    /// True if a connection to the backend was made.
    pub(super) is_connected: bool,
}

impl Outcome<'_> {
    pub(super) fn judge(&self) {
        self.an_abort_stays_an_abort();
        self.the_blamed_side_caused_it();
        self.the_deadline_is_one();
        self.an_end_in_order_is_whole();
        self.what_is_no_failure_lost_nothing();
        self.a_settled_connection_has_its_socket_options();
    }

    /// A connection that was silent for a limit has lasted, so that its backend's socket has keep-alive and a user timeout.
    fn a_settled_connection_has_its_socket_options(&self) {
        if matches!(self.cause, Cause::Idle | Cause::HalfClosedIdle | Cause::Lifetime) {
            assert!(self.backend.wire.link.borrow().patient, "{} without the options", self.cause);
        }
    }

    /// Invariant 6. A peer that saw a clean end has all that the other one sent, and that one meant to end.
    fn an_abort_stays_an_abort(&self) {
        let Self { client, backend, .. } = self;
        assert!(backend.received_bytes <= client.means, "more than the client said");
        assert!(client.received_bytes <= backend.means, "more than the backend said");
        // One that has reset the connection itself receives nothing more.
        let receives = self.is_connected && !backend.wire.link.borrow().peer_reset;
        if receives && backend.saw_clean_end() {
            assert!(client.closed, "the backend saw an end that the client never said");
            assert_eq!(backend.received_bytes, client.means, "the backend saw an end before the last byte");
        }
        // An end before a backend was found is a reset, an alert, or an answer to plain HTTP.
        if client.saw_clean_end() && self.step >= Step::Relay {
            assert!(backend.has_ended_cleanly(), "a clean end for a backend's abort");
            assert_eq!(client.received_bytes, backend.means, "a clean end before the last byte");
        }
        assert!(!client.saw_close_notify || self.step >= Step::Relay, "close_notify without a backend");
    }

    /// The side that is named misbehaved, or the end is clean.
    fn the_blamed_side_caused_it(&self) {
        let Self { client, backend, cause, .. } = self;
        let (client_is_good, backend_is_good) = (client.is_cooperative(), backend.is_cooperative());
        assert_ne!(self.side, Side::Local, "{cause}");
        if matches!(cause, Cause::Finished | Cause::BackendEnded) {
            return;
        }
        match self.side {
            Side::Client => assert!(!client_is_good, "the client is blamed for {cause}, and was good"),
            Side::Backend => assert!(!backend_is_good, "the backend is blamed for {cause}, and was good"),
            Side::Operator => {
                let limit = matches!(cause, Cause::Idle | Cause::HalfClosedIdle | Cause::Lifetime);
                assert!(limit, "the operator is blamed for {cause}");
                assert!(
                    client.end == End::Silent || backend.end == End::Silent,
                    "no peer was silent: {cause}"
                );
            }
            Side::Local => {}
        }
    }

    /// A client that ended cleanly and then reset the connection: the backend has all of its bytes, though it sees an abort.
    fn what_is_no_failure_lost_nothing(&self) {
        let Self { client, backend, .. } = self;
        let receives = !backend.wire.link.borrow().peer_reset;
        if self.cause == Cause::ResetAtEnd && self.side == Side::Client && client.closed && receives {
            assert_eq!(backend.received_bytes, client.means, "bytes of the client are lost");
        }
        if self.cause == Cause::ResetAtEnd {
            assert!(client.closed || backend.has_ended_cleanly(), "neither side had ended");
        }
    }

    /// Invariant 4: from accept to relay there is one deadline, and nothing extends it; only the last bytes follow.
    fn the_deadline_is_one(&self) {
        if self.step < Step::Relay {
            let most = self.handshake + Duration::from_secs(1);
            assert!(self.took <= most, "{:?} for what may take {:?}", self.took, self.handshake);
        }
        if self.cause == Cause::Idle {
            let limits = self.idle..self.idle + self.handshake + Duration::from_secs(1);
            assert!(limits.contains(&self.took), "{:?} for a limit of {:?}", self.took, self.idle);
        }
        if self.cause == Cause::HandshakeDeadline {
            assert!(self.took >= self.handshake, "it was over before its time");
        }
    }

    /// `finished` is what it says, and two good peers get nothing else.
    fn an_end_in_order_is_whole(&self) {
        let Self { client, backend, .. } = self;
        let both_are_good = client.is_cooperative() && backend.is_cooperative();
        if both_are_good && self.cause != Cause::BackendEnded {
            assert_eq!(self.cause, Cause::Finished, "two good peers");
        }
        if self.cause == Cause::Finished {
            assert_eq!(
                (backend.received_bytes, client.received_bytes),
                (client.means, backend.means),
                "finished is whole"
            );
            assert!(client.saw_clean_end() && client.closed && backend.saw_clean_end());
        }
        if self.cause == Cause::NotTls && client.end != End::Reset {
            assert!(
                !client.wire.saw_reset(),
                "the answer to plain HTTP is not taken from its reader's hands"
            );
        }
    }
}
