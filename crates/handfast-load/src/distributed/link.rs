//! A coordinator's end of the bus: orders, requests, and the workers' clocks.
//!
//! In: a bus. Out: answers, and the difference between their clocks and ours.

use std::sync::Arc;

use bytes::Bytes;
use handfast_net::clock::Moment;
use tokio::task::JoinSet;
use tokio::time::Duration;

use super::ANSWER;
use super::protocol::{Caller, Order, Reply, Subjects, decode, encode};
use handfast_bus::{Bus, Fault};

/// Questions about the time to one worker.
const SAMPLES: u32 = 32;
/// No more of them after this time: over slow links, more questions do not improve the result.
const SAMPLING: Duration = Duration::from_secs(2);

/// A coordinator's end of the bus.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) subjects: Subjects,
    pub(super) me: Caller,
    /// Command line that starts a worker on this bus.
    pub(super) joining: String,
}

impl Link {
    /// Sends an order; its effect shows in the worker's messages.
    pub(super) async fn order(&self, worker: &str, order: &Order) {
        if let Err(fault) = self.bus.publish(&self.subjects.orders(worker), encode(order)).await {
            tracing::debug!(%fault, worker, "sending an order failed");
        }
    }

    /// Sends an order and waits for the answer.
    async fn request_bytes(&self, worker: &str, order: Bytes) -> Result<Reply, Fault> {
        let answer = self.bus.request(&self.subjects.orders(worker), order, ANSWER).await?;
        decode(&answer).ok_or_else(|| Fault::Gone("the answer cannot be understood".into()))
    }

    /// [`Link::request_bytes`], of several workers at once. Answers have the order of the questions.
    pub(super) async fn send_requests(&self, questions: Vec<(String, Order)>) -> Vec<Result<Reply, Fault>> {
        self.each(questions, |link, (worker, order)| async move {
            link.request_bytes(&worker, encode(&order)).await
        })
        .await
    }

    /// Runs one future for each item at once, with results in the order of the items.
    async fn each<I, T, F, R>(&self, items: Vec<I>, make: F) -> Vec<Result<T, Fault>>
    where
        F: Fn(Self, I) -> R,
        R: Future<Output = Result<T, Fault>> + Send + 'static,
        T: Send + 'static,
    {
        let mut results: Vec<_> = items.iter().map(|_| Err(Fault::Gone("it did not run".into()))).collect();
        let mut tasks = JoinSet::new();
        for (index, item) in items.into_iter().enumerate() {
            let future = make(self.clone(), item);
            tasks.spawn(async move { (index, future.await) });
        }
        while let Some(done) = tasks.join_next().await {
            if let Ok((index, result)) = done {
                results[index] = result;
            }
        }
        results
    }

    /// The clocks of several workers, measured at once.
    pub(super) async fn clocks(&self, workers: Vec<String>) -> Vec<Result<Clock, Fault>> {
        self.each(workers, |link, worker| async move { link.clock(&worker).await }).await
    }

    async fn clock(&self, worker: &str) -> Result<Clock, Fault> {
        let order = encode(&Order::Clock);
        let begun = Moment::now();
        let mut best: Option<Clock> = None;
        for _ in 0..SAMPLES {
            let sent = Moment::now();
            let answer = self.request_bytes(worker, order.clone()).await?;
            let received = Moment::now();
            let Reply::Clock(theirs) = answer else {
                return Err(Fault::Gone("the answer cannot be understood".into()));
            };
            let clock = Clock::of(sent, Moment::from_nanos(theirs), received);
            best = Some(best.map_or(clock, |best| if clock.error_ns < best.error_ns { clock } else { best }));
            if received.since(begun) > SAMPLING {
                break;
            }
        }
        best.ok_or(Fault::Late(ANSWER))
    }
}

/// A worker's monotonic clock, seen from ours (Cristian's method: the answer was given in the middle of the round
/// trip, give or take half of it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// Its clock minus ours.
    pub(super) offset_ns: i64,
    /// The uncertainty of that.
    pub(super) error_ns: u64,
}

impl Clock {
    fn of(sent: Moment, theirs: Moment, received: Moment) -> Self {
        let round_trip = received.nanos().saturating_sub(sent.nanos());
        let middle = i128::from(sent.nanos()) + i128::from(round_trip / 2);
        let offset = i128::from(theirs.nanos()) - middle;
        let offset_ns = i64::try_from(offset).unwrap_or(if offset < 0 { i64::MIN } else { i64::MAX });
        Self { offset_ns, error_ns: round_trip.div_ceil(2) }
    }

    /// A moment of ours on its clock. **Units**: nanoseconds.
    pub(super) fn theirs(self, ours: Moment) -> u64 {
        ours.nanos().saturating_add_signed(self.offset_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_read_in_the_middle_of_the_round_trip() {
        let at = Moment::from_nanos;
        let clock = Clock::of(at(1_000), at(5_500), at(2_001));
        assert_eq!(clock, Clock { offset_ns: 4_000, error_ns: 501 });
        assert_eq!(clock.theirs(at(10)), 4_010);
        let behind = Clock::of(at(5_000), at(1_000), at(5_000));
        assert_eq!(behind, Clock { offset_ns: -4_000, error_ns: 0 });
        assert_eq!(behind.theirs(at(4_500)), 500);
        assert_eq!(behind.theirs(at(10)), 0, "a clock that began later than the moment");
    }
}
