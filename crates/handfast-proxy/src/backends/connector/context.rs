//! Context of an attempt to connect: its time, the thread's buffers, its cancellation, and its failures.

use std::cell::RefCell;
use std::time::Duration;

use handfast_leg::Broken;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_net::fault::{Cause as SocketCause, Fault};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_tls::buffer::Scratch;

use super::handshake::TlsOutcome;
use crate::backends::opening::reason;

/// A backend that has not answered for this duration fails, even when it is the client that does not wait any longer: the
/// kernel has repeated its SYN by then (RFC 6298 §2.1). Otherwise clients with a shorter timeout than `limits.connect` would never find
/// out that a backend is down.
const SYN_TIMEOUT: Duration = Duration::from_secs(1);

/// Event that may end an attempt early. For a client's connection: the client has left, or the program ends.
pub(crate) trait Cancellation {
    /// Is called before each wait, to arm what must wake the task.
    ///
    /// **Errors**: why the attempt ends.
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        Ok(())
    }

    /// Is called after each wait.
    ///
    /// **Errors**: as [`Cancellation::before_wait`].
    fn after_wait(&mut self) -> Result<(), CloseReason> {
        Ok(())
    }
}

impl<C: Cancellation> Cancellation for &mut C {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        C::before_wait(self)
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        C::after_wait(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Dialling,
    /// The dialogue before TLS, or with the proxy on the way.
    Opening,
    Handshake,
    Greeting,
}

impl Stage {
    /// The backend has not come to the end of it in time. Not for dialling: there the kernel may know more.
    fn late(self) -> CloseReason {
        let detail = match self {
            Self::Dialling => "while it was dialled",
            Self::Opening => "in the dialogue before TLS, or with the proxy of connect-through",
            Self::Handshake => "during the TLS handshake with it",
            Self::Greeting => "it did not greet",
        };
        reason(Cause::Socket(SocketCause::ConnectTimeout)).because(detail)
    }

    pub(super) fn deadline(self) -> ConnectFailure {
        ConnectFailure::Deadline { stage: self, until_now: self.late() }
    }
}

#[derive(Debug)]
pub(crate) enum ConnectFailure {
    /// Refused, reset, a failed conversation or handshake: another backend may be tried.
    Attempt(CloseReason),
    /// The deadline was reached; what the backend did until then.
    Deadline { stage: Stage, until_now: CloseReason },
    /// The [`Cancellation`] ended it. `until_now`: what the backend did, where it had time enough to answer.
    Cancelled { by: CloseReason, until_now: Option<CloseReason> },
}

impl ConnectFailure {
    /// The backend's socket failed, or could not be made.
    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(super) fn socket(fault: Fault) -> Self {
        Self::Attempt(CloseReason::fault(Step::Connect, Side::Backend, &fault))
    }

    #[expect(clippy::needless_pass_by_value, reason = "for map_err")]
    pub(super) fn leg(broken: Broken) -> Self {
        Self::Attempt(CloseReason::broken(Step::Connect, &broken))
    }
}

/// Start and deadline of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttemptTime {
    pub(crate) begun: Moment,
    pub(crate) deadline: Moment,
}

impl AttemptTime {
    /// Returns true if the backend had enough time to answer, so that its silence counts as a failure.
    pub(crate) fn had_enough_time<R: Runtime>(&self) -> bool {
        R::now().since(self.begun) >= SYN_TIMEOUT
    }
}

pub(crate) struct ConnectContext<'a, C> {
    pub(crate) time: AttemptTime,
    /// The thread's; borrowed between waits only.
    pub(crate) buffers: &'a RefCell<Scratch>,
    pub(crate) cancellation: C,
    /// The outcome, where a TLS session was begun. Also set on failure: the log names what was agreed until then.
    pub(crate) tls: Option<TlsOutcome>,
}

impl<C: Cancellation> ConnectContext<'_, C> {
    /// Waits for the backend's socket. Returns true if the deadline was reached.
    pub(super) async fn wait<R: Runtime>(&mut self) -> Result<bool, Cancelled> {
        self.cancellation.before_wait().map_err(|by| Cancelled { by, is_blamed: false })?;
        let woken = R::wait(self.time.deadline).await;
        self.cancellation.after_wait().map_err(|by| {
            // A program that ends says nothing about the backend.
            let is_blamed = by.side != Side::Operator && self.time.had_enough_time::<R>();
            Cancelled { by, is_blamed }
        })?;
        Ok(woken == Woken::Deadline)
    }

    /// The same during `stage`. Past the deadline there is one more look: the answer may have come while this thread was busy with others.
    pub(super) async fn wait_in<R: Runtime>(
        &mut self,
        stage: Stage,
        is_late: &mut bool,
    ) -> Result<(), ConnectFailure> {
        if *is_late {
            return Err(stage.deadline());
        }
        *is_late = self.wait::<R>().await.map_err(|cancelled| cancelled.failure(|| Some(stage.late())))?;
        Ok(())
    }

    /// Returns true if the deadline has passed. A backend that always has something to send never lets an attempt wait.
    pub(super) fn is_late<R: Runtime>(&self) -> bool {
        R::now() >= self.time.deadline
    }
}

pub(super) struct Cancelled {
    by: CloseReason,
    is_blamed: bool,
}

impl Cancelled {
    pub(super) fn failure(self, until_now: impl FnOnce() -> Option<CloseReason>) -> ConnectFailure {
        let until_now = if self.is_blamed { until_now() } else { None };
        ConnectFailure::Cancelled { by: self.by, until_now }
    }
}
