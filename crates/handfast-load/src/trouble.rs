//! Why a transaction failed: at which step, by which cause, in words.

use handfast_net::fault::Fault;
use handfast_tls::session::{Failure, FailureKind};

/// Where in a transaction something happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Connect,
    Handshake,
    Exchange,
    Close,
}

impl Step {
    /// The word in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Handshake => "handshake",
            Self::Exchange => "exchange",
            Self::Close => "close",
        }
    }
}

/// One failed transaction.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub(crate) step: Step,
    /// The cause's word.
    pub(crate) cause: &'static str,
    /// The sentence.
    pub(crate) detail: String,
    /// What to do about it, where whoever failed knows.
    pub(crate) hint: Option<&'static str>,
}

impl Trouble {
    pub(crate) fn new(step: Step, cause: &'static str, detail: impl Into<String>) -> Self {
        Self { step, cause, detail: detail.into(), hint: None }
    }

    /// A socket's fault.
    pub(crate) fn socket(step: Step, fault: &Fault) -> Self {
        Self::new(step, fault.cause.name(), fault.to_string())
    }

    /// A session's failure.
    pub(crate) fn session(step: Step, failure: &Failure) -> Self {
        let cause = match failure.kind {
            FailureKind::Alert => "alert",
            FailureKind::Peer => "tls",
            FailureKind::PeerCertificate => "certificate",
            FailureKind::Ourselves => "internal",
        };
        Self { hint: failure.hint, ..Self::new(step, cause, failure.to_string()) }
    }

    /// The plan's timeout passed.
    pub(crate) fn deadline(step: Step) -> Self {
        Self::new(step, "deadline", "the timeout passed")
    }

    /// Whether the target just ended, which between exchanges it may.
    pub(crate) fn is_end(&self) -> bool {
        matches!(self.cause, "closed-early" | "truncated")
    }

    /// The target ended where it should have gone on.
    pub(crate) fn ended(step: Step, orderly: bool, detail: impl Into<String>) -> Self {
        Self::new(step, if orderly { "closed-early" } else { "truncated" }, detail)
    }
}
