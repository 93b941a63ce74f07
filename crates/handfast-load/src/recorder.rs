//! Records the measurements of one thread: counts and histograms of the current second, which are sent when it is over.
//!
//! In: all events ([`events`]), from all tasks, also before the run. Out: an [`Interval`] for
//! each second. This is the only place that fills one.
//!
//! Tasks do not check whether an event counts. [`Recorder::record`] discards everything recorded before it:
//! of rehearsal and warm-up, only the number of connections remains.

mod events;
mod heartbeat;

use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_stats::Histogram;

use crate::machine;
use crate::plan::{Model, Plan};
use crate::sample::{Failures, Interval, MemberSample, RequestSample, Series, Tally, ThreadUse};

use heartbeat::Heartbeat;

/// One second.
const SECOND: Duration = Duration::from_secs(1);

/// The parameters of a handshake: version, suite, group.
type Agreement = (Option<&'static str>, Option<&'static str>, Option<&'static str>);

/// Times of an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) began: Moment,
    pub(crate) first_byte: Moment,
    pub(crate) done: Moment,
}

/// A thread's measurements.
#[derive(Debug)]
pub(crate) struct Recorder {
    present: Second,
    /// True if transactions have an intended start: then the report has their lag, and their time from the actual start.
    scheduled: bool,
    /// Duration of the last exchange.
    last_exchange: Duration,
    second: u32,
    /// End of the present second; before the start it is that of the first one.
    boundary: Moment,
    /// End of the measured part.
    end: Moment,
    usage: Usage,
    heartbeat: Heartbeat,
    seconds: SyncSender<Interval>,
    /// Seconds that the receiver had no room for yet.
    waiting: VecDeque<Interval>,
}

/// Measurements since the last second was handed over.
#[derive(Debug)]
struct Second {
    /// Its gauge `open` goes on in the next one.
    tally: Tally,
    series: [Histogram; Series::ALL.len()],
    failures: Vec<Failures>,
    /// By the member of the mix, which is 0 without a mix.
    agreed: Vec<((usize, Agreement), u64)>,
    /// One for each member of the mix; none without a mix.
    members: Vec<MemberSample>,
    /// One for each request, when there are several.
    requests: Vec<RequestSample>,
}

impl Second {
    fn new(members: usize, requests: usize) -> Self {
        let mut second = Self {
            tally: Tally::default(),
            series: std::array::from_fn(|_| Histogram::new()),
            failures: Vec::new(),
            agreed: Vec::new(),
            members: Vec::new(),
            requests: Vec::new(),
        };
        second.members.resize_with(members, MemberSample::default);
        second.requests.resize_with(requests, RequestSample::default);
        second
    }

    /// Takes everything out, and leaves an empty one for the same members and requests.
    fn take(&mut self) -> Self {
        let mut next = Self::new(self.members.len(), self.requests.len());
        next.tally.open = self.tally.open;
        std::mem::replace(self, next)
    }

    fn into_interval(mut self, second: u32) -> Interval {
        let mut interval = Interval { second, ..Interval::default() };
        for ((member, (version, suite, group)), count) in self.agreed {
            let words: Vec<&str> = [version, suite, group].into_iter().flatten().collect();
            let words = words.join(" ");
            if let Some(sample) = self.members.get_mut(member) {
                sample.agreed.insert(words.clone(), count);
            }
            *interval.agreed.entry(words).or_default() += count;
        }
        for (series, histogram) in Series::ALL.into_iter().zip(self.series) {
            if !histogram.is_empty() {
                interval.series.insert(series, histogram);
            }
        }
        interval.tally = self.tally;
        interval.failures = self.failures;
        interval.members = self.members;
        interval.requests = self.requests;
        interval
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Reading of the thread's CPU clocks.
#[derive(Clone, Copy, Debug)]
struct Usage {
    busy: u64,
    starved: u64,
    at: Moment,
}

impl Usage {
    fn now(at: Moment) -> Self {
        let (busy, starved) = machine::own_thread();
        Self { busy, starved, at }
    }
}

impl Recorder {
    /// Gathers what happens while this plan is rehearsed, until [`Recorder::record`].
    pub(crate) fn new(plan: &Plan, seconds: SyncSender<Interval>) -> Self {
        // A request that is alone is what the whole run measures.
        let requests = Some(plan.requests().len()).filter(|several| *several > 1).unwrap_or(0);
        Self {
            present: Second::new(plan.mix.len(), requests),
            scheduled: plan.model != Model::Closed,
            last_exchange: Duration::ZERO,
            second: 0,
            boundary: Moment::NEVER,
            end: Moment::NEVER,
            usage: Usage::now(Moment::now()),
            heartbeat: Heartbeat::new(),
            seconds,
            waiting: VecDeque::new(),
        }
    }

    /// Events count from here on, also connections that are opened before the start; earlier events
    /// were warm-up.
    pub(crate) fn record(&mut self) {
        let warm_up = self.present.take().tally;
        self.present.tally.warm_up = warm_up.connections;
    }

    /// The measured part is from `start` to `end`. Earlier records belong to its first second.
    pub(crate) fn begin(&mut self, start: Moment, end: Moment) {
        self.boundary = start + SECOND;
        self.end = end;
    }

    /// The measured part begins: what the thread has spent before does not count as the first second's.
    pub(crate) fn started(&mut self) {
        self.usage = Usage::now(Moment::now());
        self.heartbeat = Heartbeat::new();
    }

    /// Time at which the thread has to call this again: at the end of the current second, or earlier to detect a pause.
    pub(crate) fn next_beat(&self) -> Moment {
        self.heartbeat.next().min(self.boundary)
    }

    /// Moves the end of the measured part.
    pub(crate) fn end_at(&mut self, end: Moment) {
        self.end = end;
    }

    /// Duration of the last exchange; zero, if there was none.
    pub(crate) fn last_exchange(&self) -> Duration {
        self.last_exchange
    }

    /// The thread runs: notices whether it was paused before. Hands over every second that is over at `now`.
    pub(crate) fn beat(&mut self, now: Moment) {
        if now >= self.heartbeat.next() {
            self.heartbeat.beat(Usage::now(now));
        }
        self.roll(now);
    }

    /// Hands over every second that is over at `now`.
    pub(crate) fn roll(&mut self, now: Moment) {
        if now >= self.boundary {
            // Before the second is handed over in which a pause began.
            self.heartbeat.beat(Usage::now(now));
        }
        while now >= self.boundary {
            self.hand_over();
            self.boundary = self.boundary + SECOND;
        }
    }

    /// Hands over the present second, over or not.
    pub(crate) fn hand_over(&mut self) {
        let mut interval = self.present.take().into_interval(self.second);
        interval.threads.push(self.used());
        self.second += 1;
        self.waiting.push_back(interval);
        self.hand_over_waiting();
    }

    /// Tries again to send seconds that did not fit.
    pub(crate) fn hand_over_waiting(&mut self) {
        while let Some(interval) = self.waiting.pop_front() {
            match self.seconds.try_send(interval) {
                Ok(()) => {}
                Err(TrySendError::Full(interval)) => {
                    self.waiting.push_front(interval);
                    return;
                }
                // There is no receiver any more: the run was given up.
                Err(TrySendError::Disconnected(_)) => self.waiting.clear(),
            }
        }
    }

    /// Returns true if every second has been taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.waiting.is_empty()
    }

    fn used(&mut self) -> ThreadUse {
        let paused = self.heartbeat.paused_until(self.boundary);
        let before = std::mem::replace(&mut self.usage, Usage::now(Moment::now()));
        ThreadUse {
            busy_ns: self.usage.busy.saturating_sub(before.busy),
            starved_ns: self.usage.starved.saturating_sub(before.starved),
            wall_ns: nanos(self.usage.at.since(before.at)),
            paused_ns: nanos(paused),
        }
    }
}

#[cfg(test)]
mod tests;
