//! The interface of a connection for transactions, with raw bytes or HTTP.
//!
//! In: exchanges to begin. Out: the result of each. [`crate::raw`] and [`crate::http`] are the two kinds; the loops over
//! them are written once, in [`crate::transaction`] for separate connections and in [`crate::kept`] for kept ones.

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::context::{Caller, ThreadContext};
use crate::failure::StepFailure;
use crate::plan::Plan;

/// A connection after its handshake.
///
/// Its driver begins exchanges while there is room, takes those that are over, and polls it. Bytes and
/// exchanges are recorded here; the driver decides what they mean for a transaction.
pub(crate) trait Connection: Sized + 'static {
    /// Exchanges of one transaction, where it has a separate connection.
    fn exchanges(plan: &Plan) -> u32;

    /// Connects and shakes hands. The last flight may wait, and be sent with the first exchange.
    async fn open(context: &Rc<ThreadContext>, caller: Caller) -> Result<Self, StepFailure>;

    /// Sends the rest of the handshake without waiting for an exchange: it may come late, and the target waits
    /// for our Finished. If no answer will show it, waits briefly for the target's verdict about the handshake.
    async fn settle(&mut self) -> Result<(), StepFailure>;

    /// Checks for events while no exchange is in progress; `true` if an exchange can begin. A connection that the target ended
    /// consumes no arrival.
    ///
    /// **Errors**: it broke, or data arrived that was not requested.
    fn check_idle(&mut self) -> Result<bool, StepFailure>;

    /// Returns true if an exchange can probably begin now.
    fn has_room(&self) -> bool;

    /// Begins an exchange that was meant to begin at `intended`; `which` is its place among the plan's requests.
    fn begin(&mut self, intended: Moment, which: usize);

    /// An exchange that is over.
    fn next_finished(&mut self) -> Option<Finished>;

    /// Returns true if no exchange is under way, and no finished one waits to be taken.
    fn is_idle(&self) -> bool;

    /// Returns true if no exchange can begin any more.
    fn is_closed(&self) -> bool;

    /// Goes on with everything until an exchange is over, one can begin, or nothing moves; then waits, until `limit` at the
    /// latest, unless an exchange's own deadline comes first.
    async fn turn(&mut self, limit: Moment);

    /// After the last exchange: checks that the target accepted the handshake, if no answer has shown that.
    async fn confirm(&mut self) -> Result<(), StepFailure>;

    /// The error for a target that ended it before the first exchange.
    fn ended_unused(&self) -> StepFailure;

    /// Ends it according to the plan. A broken connection is dropped.
    async fn close(self);
}

/// An exchange that is over.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Intended start of the exchange.
    pub(crate) intended: Moment,
    pub(crate) began: Moment,
    /// Time of the answer's last byte, or the failure.
    pub(crate) outcome: Result<Moment, Lost>,
}

/// Reason why an exchange failed.
#[derive(Debug)]
pub(crate) enum Lost {
    /// The target ended the connection before it read the request, which may be sent on another one.
    NotSeen(StepFailure),
    /// The answer reports that the request failed: the connection stays usable.
    Answered(StepFailure),
    /// It failed.
    Failed(StepFailure),
}

impl Lost {
    /// The failure of the step.
    pub(crate) fn into_failure(self) -> StepFailure {
        match self {
            Self::NotSeen(failure) | Self::Answered(failure) | Self::Failed(failure) => failure,
        }
    }
}

#[cfg(test)]
mod tests;
