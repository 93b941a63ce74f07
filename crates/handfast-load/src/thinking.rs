//! Think time on one connection: how many exchanges may begin now, and when the next one may.
//!
//! In: exchanges that begin and end. Out: whether one may begin. A connection has a place for each exchange that it can carry
//! at once; after an exchange its place pauses. Without think time in the plan everything may begin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use handfast_net::clock::Moment;

use crate::context::ThreadContext;
use crate::plan::{Plan, Think, Work};

/// The places of a connection.
#[derive(Debug)]
pub(crate) struct Thinking {
    think: Option<Think>,
    /// Places that may be used now.
    free: u32,
    /// Times at which the others may be used again, except those of exchanges that are under way.
    pausing: BinaryHeap<Reverse<Moment>>,
}

impl Thinking {
    /// All places of a new connection are free.
    pub(crate) fn new(plan: &Plan) -> Self {
        let free = if let Work::Http { streams, .. } = plan.work { streams.max(1) } else { 1 };
        Self { think: plan.think, free, pausing: BinaryHeap::new() }
    }

    /// Returns true if an exchange may begin now.
    pub(crate) fn may_begin(&mut self, now: Moment) -> bool {
        while self.pausing.peek().is_some_and(|Reverse(until)| *until <= now) {
            self.pausing.pop();
            self.free += 1;
        }
        self.think.is_none() || self.free > 0
    }

    /// An exchange begins.
    pub(crate) fn began(&mut self) {
        self.free = self.free.saturating_sub(1);
    }

    /// An exchange is over: its place pauses.
    pub(crate) fn ended(&mut self, context: &ThreadContext, now: Moment) {
        match context.think_time() {
            Some(pause) => self.pausing.push(Reverse(now + pause)),
            None => self.free += 1,
        }
    }

    /// An exchange goes to another connection, since the target has not read it.
    pub(crate) fn gave_back(&mut self) {
        self.free += 1;
    }

    /// End of the next pause.
    pub(crate) fn next(&self) -> Moment {
        self.pausing.peek().map_or(Moment::NEVER, |Reverse(until)| *until)
    }

    /// Waits until all pauses are over, but not beyond the end of the run: the connection that takes the place of this one
    /// must not start earlier than this one would have.
    pub(crate) async fn rest(self, context: &ThreadContext) {
        // `Reverse`: the least is the last moment.
        if let Some(Reverse(last)) = self.pausing.into_iter().min() {
            context.pause_until(last).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::context::testing::thread;
    use crate::plan::{ExpectedStatuses, HttpVersion};

    #[test]
    fn a_place_pauses_after_its_exchange() {
        let second = Duration::from_secs(1);
        let (version, authority) = (HttpVersion::Http2, String::new());
        let expect = ExpectedStatuses::default();
        let work =
            Work::Http { version, authority, requests: Vec::new(), streams: 2, expect, in_order: false };
        let think = Some(Think { least: second, most: second });
        let plan = Plan { work, think, ..Plan::default() };
        let now = Moment::now();
        let (context, _seconds) = thread(&plan, now, now + second);
        let mut thinking = Thinking::new(&plan);
        for _ in 0..2 {
            assert!(thinking.may_begin(now));
            thinking.began();
        }
        assert!(!thinking.may_begin(now) && thinking.next() == Moment::NEVER, "both are under way");
        thinking.ended(&context, now);
        assert!(!thinking.may_begin(now), "it pauses");
        assert_eq!(thinking.next(), now + second);
        assert!(thinking.may_begin(now + second));
        thinking.began();
        thinking.gave_back();
        assert!(thinking.may_begin(now), "what was not read does not pause");
    }

    #[test]
    fn without_think_time_everything_may_begin() {
        let (plan, now) = (Plan::default(), Moment::now());
        let (context, _seconds) = thread(&plan, now, now);
        let mut thinking = Thinking::new(&plan);
        (0..3).for_each(|_| thinking.began());
        assert!(thinking.may_begin(now));
        thinking.ended(&context, now);
        assert_eq!(thinking.next(), Moment::NEVER);
    }
}
