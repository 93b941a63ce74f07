//! Failure of a transaction: the step, the cause, and the details in words.

use handfast_leg::{Broken, Why};
use handfast_net::fault::Fault;
use handfast_tls::session::{Failure, FailureKind};

pub(crate) use crate::cause::{Cause, Step};

/// One failed transaction.
#[derive(Clone, Debug)]
pub(crate) struct StepFailure {
    pub(crate) step: Step,
    pub(crate) cause: Cause,
    /// The sentence.
    pub(crate) detail: String,
    /// Instruction for the user, where one is known.
    pub(crate) hint: Option<&'static str>,
    /// The target's own reason, if it sent one.
    pub(crate) rejection: Option<Rejection>,
}

/// A refusal of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// A TLS alert, by its number (RFC 9846 §6).
    Alert(u8),
    /// An HTTP status.
    Status(u16),
}

impl StepFailure {
    pub(crate) fn new(step: Step, cause: Cause, detail: impl Into<String>) -> Self {
        Self { step, cause, detail: detail.into(), hint: None, rejection: None }
    }

    /// An answer that reports a failed request.
    pub(crate) fn status(status: u16, detail: impl Into<String>) -> Self {
        let rejection = Some(Rejection::Status(status));
        Self { rejection, ..Self::new(Step::Exchange, Cause::HttpStatus, detail) }
    }

    /// A socket's fault.
    pub(crate) fn socket(step: Step, fault: &Fault) -> Self {
        Self::new(step, fault.cause.into(), fault.to_string())
    }

    /// A session's failure.
    pub(crate) fn session(step: Step, failure: &Failure) -> Self {
        let cause = match failure.kind {
            FailureKind::Alert => Cause::Alert,
            FailureKind::Peer => Cause::Tls,
            FailureKind::PeerCertificate => Cause::Certificate,
            FailureKind::KeyProcess | FailureKind::Ourselves => Cause::Internal,
        };
        let rejection = failure.alert.map(Rejection::Alert);
        Self { hint: failure.hint, rejection, ..Self::new(step, cause, failure.to_string()) }
    }

    /// A leg that broke; ends are [`StepFailure::ended`].
    pub(crate) fn broken(step: Step, broken: &Broken) -> Self {
        match &broken.why {
            Why::Socket(fault) => Self::socket(step, fault),
            Why::Session(failure) => Self::session(step, failure),
            Why::Truncated | Why::Ended => Self::ended(step, broken.why == Why::Ended, broken.to_string()),
            Why::Endless => Self::new(step, Cause::Tls, broken.to_string()),
        }
    }

    /// The plan's timeout passed.
    pub(crate) fn deadline(step: Step) -> Self {
        Self::new(step, Cause::Deadline, "the timeout passed")
    }

    /// Returns true if the target only ended the connection, which is allowed between exchanges.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.cause, Cause::ClosedEarly | Cause::Truncated)
    }

    /// The target ended too early.
    pub(crate) fn ended(step: Step, orderly: bool, detail: impl Into<String>) -> Self {
        Self::new(step, if orderly { Cause::ClosedEarly } else { Cause::Truncated }, detail)
    }
}
