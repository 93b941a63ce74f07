//! Reasons why a route refuses a request, and the response to its client.

use std::borrow::Cow;
use std::time::Duration;

use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Reason why a request is not served, and the response to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// `None`: the client is gone.
    pub(crate) status: Option<u16>,
    pub(crate) reason: CloseReason,
    /// Fields of the response.
    pub(crate) fields: Vec<(Cow<'static, str>, Vec<u8>)>,
    /// Its content, where it is not ours.
    pub(crate) content: Option<Vec<u8>>,
}

impl Refusal {
    pub(crate) fn new(status: u16, side: Side, cause: Cause, detail: impl Into<Box<str>>) -> Self {
        Self::of(status, CloseReason::new(Step::Route, side, cause).because(detail))
    }

    pub(crate) fn of(status: u16, reason: CloseReason) -> Self {
        Self { status: Some(status), reason, fields: Vec::new(), content: None }
    }

    /// The client is gone, or the program ends.
    pub(crate) fn gone(reason: CloseReason) -> Box<Self> {
        Box::new(Self { status: None, ..Self::of(500, reason) })
    }

    /// For what cannot be.
    pub(crate) fn internal() -> Self {
        Self::of(500, CloseReason::new(Step::Route, Side::Local, Cause::Internal))
    }

    pub(crate) fn with(self, fields: Vec<(Cow<'static, str>, Vec<u8>)>) -> Self {
        Self { fields, ..self }
    }
}

/// `Retry-After` (RFC 9110 §10.2.3) in whole seconds, at least one.
pub(crate) fn retry_after(wait: Duration) -> (Cow<'static, str>, Vec<u8>) {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    (Cow::Borrowed("Retry-After"), seconds.max(1).to_string().into_bytes())
}
