//! Waiting while another connection tries out a backend that was down.

use std::time::Duration;

use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_observe::cause::Cause;
use handfast_observe::reason::CloseReason;

use crate::backends::connector::Cancellation;
use crate::backends::endpoint::Endpoint;
use crate::backends::standing::Availability;

/// The first and the longest pause between two looks at the trial: short at first, as most fail or succeed at once.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Detail of the failure that connections waiting for a failed trial report.
pub(crate) const FAILED_TRIAL_DETAIL: &str = "another connection that tried it at this time found that out";

/// Reason why the backend must not be picked again after the wait.
pub(crate) enum TrialEnd {
    /// The trial failed, which counts as an attempt of those that waited for it.
    Failed(Cause),
    /// The [`Cancellation`] ended the wait.
    Cancelled(CloseReason),
    Deadline,
}

/// Waits while another connection tries out `endpoint`, until its group is to be asked again.
pub(crate) async fn wait<R: Runtime>(
    endpoint: &Endpoint,
    deadline: Moment,
    cancellation: &mut impl Cancellation,
) -> Result<(), TrialEnd> {
    let standing = &endpoint.standing;
    let failures = standing.failures();
    let mut pause = POLL_INTERVALS.0;
    // Between two looks one trial may have failed and another begun.
    while standing.availability() == Availability::OnTrial && standing.failures() == failures {
        let again = deadline.min(R::now() + pause);
        pause = (pause * 2).min(POLL_INTERVALS.1);
        cancellation.before_wait().map_err(TrialEnd::Cancelled)?;
        let woken = R::wait(again).await;
        cancellation.after_wait().map_err(TrialEnd::Cancelled)?;
        if woken == Woken::Deadline && again == deadline {
            return Err(TrialEnd::Deadline);
        }
    }
    if standing.availability() == Availability::Up || standing.failures() == failures {
        return Ok(());
    }
    Err(TrialEnd::Failed(standing.cause().unwrap_or(Cause::NoBackend)))
}
