//! Reasons why an exchange failed, and the status for a client that has no response yet.

use handfast_http::http1::{HeadError, Rule};
use handfast_leg::Broken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Responses before the final one. A backend could send them without end.
pub(crate) const MAX_INTERIM_RESPONSES: u32 = 64;

/// Returns the reason for the end of a client's connection while no request is under way: nothing was lost.
pub(crate) fn at_rest(reason: CloseReason) -> CloseReason {
    match reason.cause {
        Cause::Truncated => CloseReason { cause: Cause::NoCloseNotify, ..reason },
        Cause::Socket(handfast_net::fault::Cause::Reset) => {
            CloseReason { cause: Cause::ResetAtEnd, ..reason }
        }
        _ => reason,
    }
}

/// Reason why an exchange failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) reason: CloseReason,
    /// For a client that has no response yet; `None`: the client is gone.
    pub(crate) status: Option<u16>,
    /// The rule of HTTP that was broken.
    pub(crate) rule: Option<Rule>,
}

impl Fault {
    pub(crate) fn new(step: Step, side: Side, cause: Cause, status: u16) -> Self {
        Self { reason: CloseReason::new(step, side, cause), status: Some(status), rule: None }
    }

    /// A backend failed, or the client where it is gone.
    pub(crate) fn of(reason: CloseReason) -> Self {
        let status = (reason.side == Side::Backend).then_some(502);
        Self { reason, status, rule: None }
    }

    pub(crate) fn because(self, detail: impl Into<Box<str>>) -> Self {
        Self { reason: self.reason.because(detail), ..self }
    }

    /// The client is gone, or the program ends.
    pub(crate) fn gone(reason: CloseReason) -> Self {
        Self { reason, status: None, rule: None }
    }

    /// Not the bytes around the place: they may be part of a cookie.
    pub(crate) fn message(step: Step, error: &HeadError) -> Self {
        let side = if error.is_response { Side::Backend } else { Side::Client };
        let cause = if error.is_response { Cause::HttpResponse } else { Cause::HttpRequest };
        let detail = format!("{}, at byte {}", error.rule.sentence(), error.at);
        Self { rule: Some(error.rule), ..Self::new(step, side, cause, error.status()).because(detail) }
    }

    /// The backend has sent more than [`MAX_INTERIM_RESPONSES`].
    pub(crate) fn too_many_interim() -> Self {
        let reason = CloseReason::new(Step::Relay, Side::Backend, Cause::HttpResponse);
        Self::of(reason.because(format!("more than {MAX_INTERIM_RESPONSES} interim responses")))
    }

    pub(crate) fn leg(step: Step, broken: &Broken) -> Self {
        Self::of(CloseReason::broken(step, broken))
    }

    /// Returns true if the backend failed.
    pub(crate) fn is_of_backend(&self) -> bool {
        self.reason.side == Side::Backend
    }
}
