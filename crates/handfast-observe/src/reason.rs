//! Reason for the end of a connection: the step, the side, and the true cause. One [`CloseReason`]
//! decides how both legs are closed, and is counted and logged.

use handfast_leg::{Broken, Why};
use handfast_net::fault::Fault;
use handfast_text::foreign::bounded;
use handfast_tls::session::{Failure, FailureKind};

use crate::cause::Cause;
pub use crate::steps::{Side, Step};

/// Reason for the end of a connection: the step in its life, the side that ended it, and the true cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloseReason {
    /// The step it was in.
    pub step: Step,
    /// Side that made it end.
    pub side: Side,
    /// True cause of the end.
    pub cause: Cause,
    /// Details: the TLS error, retransmissions, bytes undelivered. Never needed to understand `cause`.
    pub detail: Option<Box<str>>,
}

impl CloseReason {
    /// A reason without further detail.
    #[inline]
    pub fn new(step: Step, side: Side, cause: Cause) -> Self {
        Self { step, side, cause, detail: None }
    }

    /// Describes the event: `while carrying bytes, the client reset the connection`.
    pub fn sentence(&self) -> String {
        format!("{}, {}", self.step.while_doing(), self.cause.sentence(self.side))
    }

    /// The same with what more is known; a peer's text in it is escaped and cut.
    #[inline]
    pub fn because(self, detail: impl Into<Box<str>>) -> Self {
        Self { detail: Some(bounded(detail.into())), ..self }
    }

    /// Reason of a socket's fault. `side` is the side of the socket; a fault of this machine is `Side::Local`.
    #[inline]
    pub fn fault(step: Step, side: Side, fault: &Fault) -> Self {
        let side = if fault.cause.is_local() { Side::Local } else { side };
        Self { step, side, cause: fault.cause.into(), detail: fault.evidence.clone().map(bounded) }
    }

    /// Reason of a session's failure. `side` is the side of the session, unless the failure is ours.
    pub fn failure(step: Step, side: Side, failure: &Failure) -> Self {
        let (side, cause) = match failure.kind {
            FailureKind::Alert => (side, Cause::Alert),
            FailureKind::Peer => (side, Cause::Tls),
            FailureKind::PeerCertificate if side == Side::Backend => (side, Cause::BackendCertificate),
            FailureKind::PeerCertificate => (side, Cause::ClientCertificate),
            FailureKind::KeyProcess => (Side::Local, Cause::KeyProcess),
            FailureKind::Ourselves => (Side::Local, Cause::Internal),
        };
        Self::new(step, side, cause).because(failure.detail.clone())
    }

    /// Reason of a broken leg.
    pub fn broken(step: Step, broken: &Broken) -> Self {
        let side = broken.side.into();
        let reason = |cause, detail: &str| Self::new(step, side, cause).because(detail);
        match &broken.why {
            Why::Socket(fault) => Self::fault(step, side, fault),
            Why::Session(failure) => Self::failure(step, side, failure),
            Why::Truncated if step == Step::Handshake => {
                reason(Cause::CLOSED_EARLY, "before its last flight")
            }
            Why::Truncated if step == Step::Connect => {
                reason(Cause::CLOSED_EARLY, "during the TLS handshake with it")
            }
            Why::Truncated => reason(Cause::Truncated, "FIN without close_notify"),
            Why::Ended => reason(Cause::CLOSED_EARLY, "with close_notify"),
            Why::Endless => reason(Cause::Tls, "a handshake message without an end"),
        }
    }
}

#[cfg(test)]
mod tests {
    use handfast_net::fault::{Cause as Socket, Operation};

    use super::*;

    #[test]
    fn a_fault_of_this_machine_counts_against_no_peer() {
        for (cause, side) in [
            (Socket::Reset, Side::Backend),
            (Socket::Refused, Side::Backend),
            (Socket::OutOfPorts, Side::Local),
            (Socket::Permission, Side::Local),
            (Socket::Destroyed, Side::Local),
            (Socket::PathMissing, Side::Backend),
        ] {
            let reason =
                CloseReason::fault(Step::Connect, Side::Backend, &Fault::own(Operation::Connect, cause));
            assert_eq!((reason.side, reason.cause), (side, Cause::Socket(cause)));
        }
    }

    #[test]
    fn failed_certificates_name_their_side() {
        for (kind, side, end) in [
            (FailureKind::PeerCertificate, Side::Client, (Side::Client, Cause::ClientCertificate)),
            (FailureKind::PeerCertificate, Side::Backend, (Side::Backend, Cause::BackendCertificate)),
            (FailureKind::Peer, Side::Backend, (Side::Backend, Cause::Tls)),
            (FailureKind::Alert, Side::Client, (Side::Client, Cause::Alert)),
            (FailureKind::KeyProcess, Side::Client, (Side::Local, Cause::KeyProcess)),
            (FailureKind::Ourselves, Side::Client, (Side::Local, Cause::Internal)),
        ] {
            let reason = CloseReason::failure(Step::Handshake, side, &Failure::new(kind, "why"));
            assert_eq!((reason.side, reason.cause), end, "{kind:?} of {side:?}");
            assert_eq!(reason.detail.as_deref(), Some("why"));
        }
    }

    #[test]
    fn a_text_of_a_peer_is_escaped_and_cut() {
        let hostile = format!("450 no\r\nhandfast: error: forged\u{1b}[2J\u{202e}{}", "x".repeat(100_000));
        let reason = || CloseReason::new(Step::Connect, Side::Backend, Cause::Starttls);
        let mut fault = Fault::own(Operation::Connect, Socket::Refused);
        fault.evidence = Some(hostile.clone().into());
        for reason in [
            reason().because(hostile.clone()),
            CloseReason::failure(
                Step::Handshake,
                Side::Client,
                &Failure::new(FailureKind::Peer, hostile.clone()),
            ),
            CloseReason::fault(Step::Connect, Side::Backend, &fault),
        ] {
            let detail = reason.detail.expect("there is one");
            assert!(detail.len() < 600, "{}", detail.len());
            assert!(!detail.chars().any(|sign| sign.is_control() || sign == '\u{202e}'), "{detail:?}");
        }
    }
}
