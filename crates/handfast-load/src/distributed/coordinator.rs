//! One run, on the coordinator's side: prepare, measure clocks, begin together, merge the seconds, end.
//!
//! In: a plan, and enlisted workers. Out: an [`Outcome`]. One loop handles messages of workers, four
//! checks of clocks and leases a second, and the request to end.

use std::time::{Duration, SystemTime};

use handfast_net::clock::Moment;
use tokio::sync::watch;
use tokio::time::{Interval as Ticks, MissedTickBehavior, interval};

use super::link::Link;
use super::merge::{Merge, Standing, sums_agree};
use super::orders::{Member, Orders};
use super::protocol::{Event, Order, Subjects, decode, of_bus};
use super::worker::stop_requested;
use super::{LEASE, OnLost, RENEWAL, WORKER_TIMEOUT};
use crate::generator::Share;
use crate::opener::PREPARATION_TIMEOUT;
use crate::outcome::{EarlyEnd, Facts, Outcome, WorkerEnd, WorkerOutcome};
use crate::plan::Plan;
use crate::sample::Interval;
use handfast_bus::{Feed, Message, fresh_id};
use handfast_report::ToolError;

/// The interval of checks of clocks and leases.
const LOOK: Duration = Duration::from_millis(250);
/// A check that is this late means that this process was stopped: then the workers' silence is our fault.
const STOOD_STILL: Duration = Duration::from_secs(1);
/// After this duration a second no longer waits for any worker.
const OVERDUE: Duration = Duration::from_secs(3);
/// Time that a worker may need beyond the plan's own bounds: for threads, totals, the bus.
const GRACE: Duration = Duration::from_secs(10);

/// The state of one worker in this run.
#[derive(Debug)]
struct WorkerState {
    facts: Option<Facts>,
    last_received: Moment,
    end: Option<WorkerEnd>,
    lost: Option<String>,
}

impl WorkerState {
    fn is_over(&self) -> bool {
        self.end.is_some() || self.lost.is_some()
    }
}

/// One run.
pub(super) struct Run<'a> {
    link: &'a Link,
    feed: &'a mut Feed,
    members: &'a mut [Member],
    plan: &'a Plan,
    on_lost: OnLost,
    lead: Duration,
    name: String,
    states: Vec<WorkerState>,
    merge: Merge,
    checks: Ticks,
    last_check: Moment,
    leased: Moment,
    start: Option<(Moment, SystemTime)>,
    refusal: Option<ToolError>,
    early_end: Option<EarlyEnd>,
    /// The deadline for the end of all workers.
    deadline: Moment,
}

impl<'a> Run<'a> {
    /// One that has not begun.
    pub(super) fn new(
        link: &'a Link,
        feed: &'a mut Feed,
        members: &'a mut [Member],
        plan: &'a Plan,
        on_lost: OnLost,
        lead: Duration,
    ) -> Result<Self, ToolError> {
        let now = Moment::now();
        let state = || WorkerState { facts: None, last_received: now, end: None, lost: None };
        let states: Vec<WorkerState> = members.iter().map(|_| state()).collect();
        let longest = plan.duration + longest_tail(plan);
        let longest = u32::try_from(longest.as_secs()).unwrap_or(u32::MAX);
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            merge: Merge::new(states.len(), longest),
            link,
            feed,
            members,
            plan,
            on_lost,
            lead,
            name: fresh_id().map_err(of_bus)?,
            states,
            checks: looks,
            last_check: now,
            leased: now,
            start: None,
            refusal: None,
            early_end: None,
            deadline: now + longest_preparation(plan),
        })
    }

    /// The whole run.
    pub(super) async fn conduct(
        mut self,
        each_second: &mut (dyn FnMut(&Interval) + Send),
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Outcome, ToolError> {
        let begun = match self.prepare(stop).await {
            Ok(true) => self.begin().await,
            other => other.map(|_| ()),
        };
        if let Err(refusal) = begun {
            self.order_stop().await;
            self.link.bus.flush().await;
            return Err(refusal);
        }
        while self.start.is_some() && !self.states.iter().all(WorkerState::is_over) {
            self.turn(stop).await;
            let overdue = self.overdue();
            self.merge.advance(overdue, each_second);
            if let Some(refusal) = self.refusal.take() {
                self.order_stop().await;
                return Err(refusal);
            }
        }
        self.merge.advance(u32::MAX, each_second);
        self.link.bus.flush().await;
        Ok(self.outcome())
    }

    /// Lets all workers prepare. False: the end was requested meanwhile.
    async fn prepare(&mut self, stop: &mut watch::Receiver<bool>) -> Result<bool, ToolError> {
        let of = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let until = Moment::now() + LEASE;
        let order = |index, member: &Member| Order::Prepare {
            by: self.link.me.id.clone(),
            run: self.name.clone(),
            plan: Box::new(self.plan.clone()),
            share: Share { index, of },
            until_ns: member.clock.theirs(until),
        };
        Orders { link: self.link }.all(self.members, order).await?;
        self.reset_silence();
        while self.states.iter().any(|state| state.facts.is_none()) {
            self.turn(stop).await;
            if let Some(refusal) = self.refusal.take() {
                return Err(refusal);
            }
            let lost = self.members.iter().zip(&self.states).find_map(|(member, state)| {
                state.lost.as_ref().map(|why| format!("prepare worker {}: {why}", member.name))
            });
            if let Some(what) = lost {
                return Err(ToolError::failed(what));
            }
            if self.early_end.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Measures the clocks again, and lets all workers begin at one moment.
    async fn begin(&mut self) -> Result<(), ToolError> {
        let orders = Orders { link: self.link };
        orders.clocks(self.members).await?;
        let worst = self.members.iter().map(|member| member.clock.error_ns).max().unwrap_or(0);
        // An order and its answer are two ways of the network each; the error is one way of the best case.
        let lead = self.lead + Duration::from_nanos(worst.saturating_mul(8));
        let start = Moment::now() + lead;
        let started = SystemTime::now() + lead;
        let order =
            |_, member: &Member| Order::Go { run: self.name.clone(), start_ns: member.clock.theirs(start) };
        orders.all(self.members, order).await?;
        self.start = Some((start, started));
        self.deadline = start + self.plan.duration + longest_tail(self.plan);
        self.reset_silence();
        Ok(())
    }

    /// Nothing is received while orders are sent; that silence does not count against a worker.
    fn reset_silence(&mut self) {
        let now = Moment::now();
        self.last_check = now;
        for state in &mut self.states {
            state.last_received = now;
        }
    }

    /// Waits for the next event, and handles it.
    async fn turn(&mut self, stop: &mut watch::Receiver<bool>) {
        tokio::select! {
            message = self.feed.next() => match message {
                Some(message) => self.receive(&message).await,
                None => self.lose_all("the bus has ended").await,
            },
            _ = self.checks.tick() => self.check_workers().await,
            () = stop_requested(stop), if self.early_end.is_none() => self.end_early(EarlyEnd::Interrupted).await,
        }
    }

    async fn receive(&mut self, message: &Message) {
        let Some((run, worker)) = Subjects::run_and_worker(&message.subject) else { return };
        let Some(index) = self.members.iter().position(|member| member.id == worker) else { return };
        let Some(event) = decode::<Event>(&message.payload) else { return };
        if run != self.name {
            // An earlier run's final message, repeated because our answer was lost.
            if matches!(event, Event::End { .. }) {
                self.link.order(worker, &Order::Received { run: run.to_owned() }).await;
            }
            return;
        }
        self.states[index].last_received = Moment::now();
        match event {
            Event::Hello(_) | Event::Beat => {}
            Event::Prepared(facts) => self.states[index].facts = Some(facts),
            Event::Refused(refusal) => self.refusal = Some(refusal),
            Event::Second(interval) => {
                if let Err(refusal) = self.merge.take(index, *interval) {
                    self.lose(index, format!("it sent {}", refusal.what)).await;
                }
            }
            Event::End { end, cut } => self.receive_end(index, *end, cut).await,
            Event::Gone { why } => self.lose(index, why).await,
        }
    }

    async fn receive_end(&mut self, index: usize, end: WorkerEnd, cut: Option<String>) {
        let received = Order::Received { run: self.name.clone() };
        self.link.order(&self.members[index].id, &received).await;
        let state = &mut self.states[index];
        if state.end.is_some() {
            return;
        }
        state.end = Some(end);
        match cut {
            Some(why) => self.lose(index, why).await,
            None if state.lost.is_none() => self.merge.close(index, Standing::Ended),
            None => {}
        }
    }

    /// Four times a second: leases, silence, deadlines.
    async fn check_workers(&mut self) {
        let now = Moment::now();
        let since = now.since(self.last_check);
        self.last_check = now;
        if since > STOOD_STILL {
            for state in &mut self.states {
                state.last_received = state.last_received + since;
            }
        }
        if now.since(self.leased) >= RENEWAL {
            self.leased = now;
            self.renew(now).await;
        }
        for index in 0..self.states.len() {
            let state = &self.states[index];
            if state.is_over() {
                continue;
            }
            if now.since(state.last_received) > WORKER_TIMEOUT {
                let why = self.why_silent();
                self.lose(index, why).await;
            } else if now > self.deadline {
                let what =
                    if self.start.is_some() { "it did not end in time" } else { "it was not ready in time" };
                self.lose(index, what.into()).await;
            }
        }
    }

    fn why_silent(&self) -> String {
        if self.link.bus.is_connected() {
            format!("nothing came from it for {} s", WORKER_TIMEOUT.as_secs_f64())
        } else {
            format!("the bus {} was lost", self.link.bus.place())
        }
    }

    async fn renew(&self, now: Moment) {
        for (member, state) in self.members.iter().zip(&self.states) {
            if state.lost.is_none() {
                let until_ns = member.clock.theirs(now + LEASE);
                let (by, run) = (self.link.me.id.clone(), self.name.clone());
                self.link.order(&member.id, &Order::Lease { by, run, until_ns }).await;
            }
        }
        if self.early_end.is_some() {
            self.order_stop().await;
        }
    }

    async fn order_stop(&self) {
        for member in &*self.members {
            self.link.order(&member.id, &Order::Stop { run: self.name.clone() }).await;
        }
    }

    async fn end_early(&mut self, why: EarlyEnd) {
        if self.early_end.is_none() {
            self.early_end = Some(why);
            self.deadline = self.deadline.min(Moment::now() + longest_tail(self.plan));
            self.order_stop().await;
        }
    }

    async fn lose(&mut self, index: usize, why: String) {
        if self.states[index].lost.is_some() {
            return;
        }
        let member = &self.members[index];
        tracing::warn!(worker = member.name, why, "a worker is lost");
        let name = member.name.clone();
        // If it still runs, it must stop.
        self.link.order(&member.id, &Order::Stop { run: self.name.clone() }).await;
        self.states[index].lost = Some(why);
        self.merge.close(index, Standing::Lost);
        let none_left = self.states.iter().all(|state| state.lost.is_some());
        if self.on_lost == OnLost::Fail || none_left {
            self.end_early(EarlyEnd::WorkerLost(name)).await;
        }
    }

    async fn lose_all(&mut self, why: &str) {
        for index in 0..self.states.len() {
            self.lose(index, why.to_owned()).await;
        }
    }

    /// Seconds before this one do not wait any longer.
    fn overdue(&self) -> u32 {
        let begun = self.start.map_or(Moment::NEVER, |(start, _)| start + OVERDUE);
        u32::try_from(Moment::now().since(begun).as_secs()).unwrap_or(u32::MAX)
    }

    fn outcome(self) -> Outcome {
        let (seconds, parts) = self.merge.finish();
        let mut totals = Interval::default();
        let mut workers = Vec::with_capacity(parts.len());
        for ((member, state), part) in self.members.iter().zip(self.states).zip(parts) {
            let last = state.end.as_ref().map_or(&part.sum, |end| &end.totals);
            totals.merge_parallel(last);
            workers.push(WorkerOutcome {
                delivered: part.sum.tally.transactions,
                name: member.name.clone(),
                facts: state.facts.unwrap_or_default(),
                clock_offset_ns: member.clock.offset_ns,
                clock_error_ns: member.clock.error_ns,
                sums_agree: state.end.as_ref().is_some_and(|end| sums_agree(&part.sum, &end.totals)),
                end: state.end,
                lost: state.lost,
                missing: part.missing,
            });
        }
        Outcome {
            plan: self.plan.clone(),
            started: self.start.map_or_else(SystemTime::now, |(_, started)| started),
            seconds,
            totals,
            workers,
            early_end: self.early_end,
        }
    }
}

/// Maximum time of a run beyond its duration: a transaction in flight has up to three bounded steps.
fn longest_tail(plan: &Plan) -> Duration {
    plan.timeout.saturating_mul(3).saturating_add(GRACE)
}

/// Maximum time of the preparation: a name, a transaction to see that it works, tickets, and open connections.
fn longest_preparation(plan: &Plan) -> Duration {
    plan.timeout.saturating_mul(6).saturating_add(PREPARATION_TIMEOUT).saturating_add(GRACE)
}
