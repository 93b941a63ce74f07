//! What one thread measures: counts and histograms of the present second, handed over when it is over.

use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_stats::Histogram;
use handfast_tls::session::Agreed;

use crate::machine;
use crate::sample::{EXAMPLES, Failures, Interval, MemberSample, RequestSample, Series, Tally, ThreadUse};
use crate::trouble::Trouble;

/// One second.
const SECOND: Duration = Duration::from_secs(1);

/// What a handshake agreed on.
type Agreement = (Option<&'static str>, Option<&'static str>, Option<&'static str>);

/// A thread's measurements.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Counts of the present second; the gauge `open` goes on.
    pub(crate) tally: Tally,
    series: [Histogram; Series::ALL.len()],
    failures: Vec<Failures>,
    /// By the member of the mix, which is 0 without a mix.
    agreed: Vec<((usize, Agreement), u64)>,
    /// One for each member of the mix; none without a mix.
    members: Vec<MemberSample>,
    /// One for each request, when there are several.
    requests: Vec<RequestSample>,
    second: u32,
    /// End of the present second; before the start it is that of the first one.
    boundary: Moment,
    /// End of the measured part.
    end: Moment,
    usage: Usage,
    seconds: SyncSender<Interval>,
    /// Seconds that the receiver had no room for yet.
    waiting: VecDeque<Interval>,
}

/// Where the thread's CPU clocks stood.
#[derive(Debug)]
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

impl Sampler {
    /// A sampler that waits for [`Sampler::begin`].
    pub(crate) fn new(seconds: SyncSender<Interval>) -> Self {
        Self {
            tally: Tally::default(),
            series: std::array::from_fn(|_| Histogram::new()),
            failures: Vec::new(),
            agreed: Vec::new(),
            members: Vec::new(),
            requests: Vec::new(),
            second: 0,
            boundary: Moment::NEVER,
            end: Moment::NEVER,
            usage: Usage::now(Moment::now()),
            seconds,
            waiting: VecDeque::new(),
        }
    }

    /// Also measures each of so many members of a mix, and each of so many requests.
    #[must_use]
    pub(crate) fn with(mut self, members: usize, requests: usize) -> Self {
        self.members.resize_with(members, MemberSample::default);
        self.requests.resize_with(requests, RequestSample::default);
        self
    }

    /// Of one member of the mix; `None` without a mix.
    pub(crate) fn member(&mut self, member: usize) -> Option<&mut MemberSample> {
        self.members.get_mut(member)
    }

    /// Of one request; `None` when there is only one.
    pub(crate) fn request(&mut self, request: usize) -> Option<&mut RequestSample> {
        self.requests.get_mut(request)
    }

    /// Measures a run from `start` to `end`.
    pub(crate) fn begin(&mut self, start: Moment, end: Moment) {
        self.boundary = start + SECOND;
        self.end = end;
    }

    /// The measured part begins: what was spent before does not count as the first second's.
    pub(crate) fn started(&mut self) {
        self.usage = Usage::now(Moment::now());
    }

    /// Moves the end of the measured part.
    pub(crate) fn end_at(&mut self, end: Moment) {
        self.end = end;
    }

    /// The end of the present second.
    pub(crate) fn boundary(&self) -> Moment {
        self.boundary
    }

    /// Counts a duration that ended at `ended`.
    pub(crate) fn time(&mut self, series: Series, began: Moment, ended: Moment) {
        if ended >= self.boundary {
            self.roll(ended);
        }
        self.series[series as usize].record(ended.since(began));
    }

    /// Counts a transaction that ended well at `ended`.
    pub(crate) fn transaction(&mut self, ended: Moment) {
        if ended >= self.boundary {
            self.roll(ended);
        }
        self.tally.transactions += 1;
        if ended > self.end {
            self.tally.tail += 1;
        }
    }

    /// Counts what a handshake of `member` agreed on, which took so long.
    pub(crate) fn handshake(&mut self, member: usize, agreed: &Agreed, early: Option<bool>, took: Duration) {
        let resumed = agreed.resumed == Some(true);
        self.tally.resumed += u64::from(resumed);
        self.tally.full += u64::from(!resumed);
        if let Some(sample) = self.members.get_mut(member) {
            sample.resumed += u64::from(resumed);
            sample.full += u64::from(!resumed);
            sample.handshake.record(took);
        }
        self.tally.hello_retry += u64::from(agreed.hello_retry);
        self.tally.early_accepted += u64::from(early == Some(true));
        self.tally.early_refused += u64::from(early == Some(false));
        let agreement = (member, (agreed.version, agreed.suite, agreed.group));
        match self.agreed.iter_mut().find(|(known, _)| *known == agreement) {
            Some((_, count)) => *count += 1,
            None => self.agreed.push((agreement, 1)),
        }
    }

    /// Counts a failure. Whether the transaction failed with it is the caller's to say.
    pub(crate) fn trouble(&mut self, trouble: Trouble) {
        let same = |known: &&mut Failures| known.step == trouble.step && known.cause == trouble.cause;
        if let Some(known) = self.failures.iter_mut().find(same) {
            known.count += 1;
            if known.examples.len() < EXAMPLES {
                known.examples.push(trouble.detail);
            }
            return;
        }
        self.failures.push(Failures {
            step: trouble.step,
            cause: trouble.cause,
            count: 1,
            examples: vec![trouble.detail],
        });
    }

    /// Hands over every second that is over at `now`.
    pub(crate) fn roll(&mut self, now: Moment) {
        while now >= self.boundary {
            self.hand_over();
            self.boundary = self.boundary + SECOND;
        }
    }

    /// Hands over the present second, over or not.
    pub(crate) fn hand_over(&mut self) {
        let open = self.tally.open;
        let mut interval = Interval { second: self.second, ..Interval::default() };
        interval.tally = std::mem::take(&mut self.tally);
        self.tally.open = open;
        for series in Series::ALL {
            let histogram = std::mem::take(&mut self.series[series as usize]);
            if !histogram.is_empty() {
                interval.series.insert(series, histogram);
            }
        }
        interval.failures = std::mem::take(&mut self.failures);
        let (members, requests) = (self.members.len(), self.requests.len());
        for ((member, (version, suite, group)), count) in self.agreed.drain(..) {
            let words: Vec<&str> = [version, suite, group].into_iter().flatten().collect();
            let words = words.join(" ");
            if let Some(sample) = self.members.get_mut(member) {
                sample.agreed.insert(words.clone(), count);
            }
            *interval.agreed.entry(words).or_default() += count;
        }
        interval.members = std::mem::take(&mut self.members);
        interval.requests = std::mem::take(&mut self.requests);
        self.members.resize_with(members, MemberSample::default);
        self.requests.resize_with(requests, RequestSample::default);
        interval.threads.push(self.used());
        self.second += 1;
        self.waiting.push_back(interval);
        self.hand_over_waiting();
    }

    /// Tries again to hand over what found no room.
    pub(crate) fn hand_over_waiting(&mut self) {
        while let Some(interval) = self.waiting.pop_front() {
            match self.seconds.try_send(interval) {
                Ok(()) => {}
                Err(TrySendError::Full(interval)) => {
                    self.waiting.push_front(interval);
                    return;
                }
                // Nobody wants to know any more: the run was given up.
                Err(TrySendError::Disconnected(_)) => self.waiting.clear(),
            }
        }
    }

    /// Whether everything has been taken.
    pub(crate) fn is_drained(&self) -> bool {
        self.waiting.is_empty()
    }

    fn used(&mut self) -> ThreadUse {
        let before = std::mem::replace(&mut self.usage, Usage::now(Moment::now()));
        ThreadUse {
            busy_ns: self.usage.busy.saturating_sub(before.busy),
            starved_ns: self.usage.starved.saturating_sub(before.starved),
            wall_ns: u64::try_from(self.usage.at.since(before.at).as_nanos()).unwrap_or(u64::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;
    use crate::trouble::{Cause, Step};

    fn sampler(end: Moment, seconds: SyncSender<Interval>) -> Sampler {
        let mut sampler = Sampler::new(seconds);
        sampler.begin(at(0), end);
        sampler
    }

    fn at(millis: u64) -> Moment {
        Moment::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn a_sample_belongs_to_the_second_in_which_it_ended() {
        let (sender, receiver) = sync_channel(8);
        let mut sampler = sampler(at(2_500), sender);
        sampler.time(Series::Total, at(100), at(900));
        sampler.transaction(at(900));
        sampler.time(Series::Total, at(900), at(2_100));
        sampler.transaction(at(2_100));
        sampler.transaction(at(2_600));
        sampler.hand_over();
        let seconds: Vec<Interval> = receiver.try_iter().collect();
        let counts: Vec<_> = seconds
            .iter()
            .map(|second| (second.second, second.tally.transactions, second.tally.tail))
            .collect();
        assert_eq!(counts, [(0, 1, 0), (1, 0, 0), (2, 2, 1)]);
        assert!(!seconds[1].series.contains_key(&Series::Total));
        assert_eq!(seconds[2].series[&Series::Total].count(), 1);
    }

    #[test]
    fn a_receiver_without_room_loses_nothing() {
        let (sender, receiver) = sync_channel(1);
        let mut sampler = sampler(at(9_000), sender);
        for second in 0..5 {
            sampler.transaction(at(second * 1000 + 1));
        }
        sampler.hand_over();
        let mut seen = Vec::new();
        while seen.len() < 5 {
            seen.extend(receiver.try_iter().map(|second| second.second));
            sampler.hand_over_waiting();
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }

    #[test]
    fn failures_of_one_kind_are_counted_and_the_first_few_kept() {
        let (sender, receiver) = sync_channel(1);
        let mut sampler = sampler(at(9_000), sender);
        for number in 0..10 {
            sampler.trouble(Trouble::new(Step::Connect, Cause::Refused, format!("number {number}")));
        }
        sampler.hand_over();
        let failures = receiver.recv().expect("a second").failures;
        assert_eq!((failures.len(), failures[0].count, failures[0].examples.len()), (1, 10, EXAMPLES));
    }
}
