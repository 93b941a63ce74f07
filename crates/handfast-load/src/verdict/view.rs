//! The view of a run for verdict and report: the seconds that count, the expected numbers, the busy threads.
//!
//! In: an [`Outcome`]. Out: its totals, and means over the seconds that are neither the start nor the end.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use handfast_report::model::VerdictWord;
use handfast_stats::Histogram;

use crate::cause::Step;
use crate::outcome::{Outcome, WorkerOutcome};
use crate::plan::{Plan, Work};
use crate::sample::{Failures, Interval, Series, ThreadUse};

/// Runs longer than this leave the first and the last second out of means: connections are made in the one, and
/// fewer begin in the other.
const TRIMMED_FROM: f64 = 3.0;
/// The growth from start to end from which on a sentence reports growing latencies.
const GROWN: f64 = 1.5;

/// A run, looked at.
#[derive(Debug)]
pub(crate) struct View<'o> {
    /// The request.
    pub(crate) plan: &'o Plan,
    /// Everything, from the first second to the last straggler.
    pub(crate) totals: &'o Interval,
    /// The seconds of which means are made.
    pub(crate) seconds: &'o [Interval],
    /// Every second of the measured part; the last one may be shorter.
    pub(crate) measured: &'o [Interval],
    /// True length of the measured part.
    pub(crate) length: f64,
    /// Workers that were lost.
    pub(crate) lost: Vec<Lost<'o>>,
    outcome: &'o Outcome,
}

/// A worker that was lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost<'o> {
    /// Its name.
    pub(crate) name: &'o str,
    /// Reason for its loss.
    pub(crate) why: &'o str,
    /// First second from which nothing came from it; `None` when every second of the run came.
    pub(crate) from: Option<u32>,
}

/// A worker's threads.
#[derive(Clone, Debug)]
pub(crate) struct WorkerThreads {
    /// The worker's name; `the generator` where there is only one.
    pub(crate) name: String,
    own: Range<usize>,
    of: usize,
}

impl WorkerThreads {
    /// Use of its threads in a second; empty for one in which a worker was missing: its threads are numbered differently.
    pub(crate) fn threads<'s>(&self, second: &'s Interval) -> &'s [ThreadUse] {
        let complete = second.threads.len() == self.of;
        second.threads.get(self.own.clone()).filter(|_| complete).unwrap_or_default()
    }
}

/// Time of a generator thread, as shares of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Busy {
    /// On a CPU.
    pub(crate) busy: f64,
    /// Ready, and without a CPU.
    pub(crate) starved: f64,
}

impl Busy {
    /// `None` of a thread that was not there.
    pub(crate) fn of(used: &ThreadUse) -> Option<Self> {
        let part = |nanos: u64| (nanos as f64 / used.wall_ns as f64).clamp(0.0, 1.0);
        (used.wall_ns > 0).then(|| Self { busy: part(used.busy_ns), starved: part(used.starved_ns) })
    }

    /// Share of the time in which it had something to do.
    pub(crate) fn pressure(self) -> f64 {
        (self.busy + self.starved).min(1.0)
    }
}

impl<'o> View<'o> {
    pub(crate) fn of(outcome: &'o Outcome) -> Self {
        let length = length(outcome);
        let within = outcome.seconds.iter().take_while(|second| f64::from(second.second) < length).count();
        let measured = &outcome.seconds[..within];
        let seconds = match measured {
            [_, middle @ .., _] if length > TRIMMED_FROM && !middle.is_empty() => middle,
            all => all,
        };
        let lost = outcome.workers.iter().filter_map(lost).collect();
        Self { plan: &outcome.plan, totals: &outcome.totals, seconds, measured, length, lost, outcome }
    }

    /// Share of the load that one worker makes.
    pub(crate) fn part(&self) -> f64 {
        1.0 / self.outcome.workers.len().max(1) as f64
    }

    /// Workers, lost ones too.
    pub(crate) const fn workers(&self) -> usize {
        self.outcome.workers.len()
    }

    /// Returns true if the first and the last second are left out of means.
    pub(crate) fn is_trimmed(&self) -> bool {
        self.seconds.first().is_some_and(|second| second.second > 0)
    }

    /// Share of the transactions that failed.
    pub(crate) fn failed_share(&self) -> f64 {
        let tally = &self.totals.tally;
        tally.failed as f64 / (tally.transactions + tally.failed).max(1) as f64
    }

    /// Arrivals that found every connection in use, or never began.
    pub(crate) const fn waited(&self) -> u64 {
        let tally = &self.totals.tally;
        if tally.queued > tally.unserved { tally.queued } else { tally.unserved }
    }

    /// All samples of a series in the seconds that count.
    pub(crate) fn merged(&self, series: Series) -> Histogram {
        let mut merged = Histogram::new();
        for histogram in self.seconds.iter().filter_map(|second| second.series.get(&series)) {
            merged.merge(histogram);
        }
        merged
    }

    /// A quantile of a series over the whole run, in nanoseconds: as the report's table has it, so that a report has one figure.
    pub(crate) fn whole(&self, series: Series, quantile: f64) -> u64 {
        self.totals.series.get(&series).map_or(0, |samples| samples.quantile_nanos(quantile))
    }

    /// The busiest thread over the seconds that count.
    pub(crate) fn busiest(&self) -> Option<Busy> {
        self.threads().into_iter().max_by(|one, other| one.pressure().total_cmp(&other.pressure()))
    }

    /// The thread that waited longest for a CPU over the seconds that count. It need not be the busiest.
    pub(crate) fn most_starved(&self) -> Option<Busy> {
        self.threads().into_iter().max_by(|one, other| one.starved.total_cmp(&other.starved))
    }

    /// Each thread over the seconds that count. Seconds in which a worker was missing are left out: their threads are
    /// numbered otherwise.
    fn threads(&self) -> Vec<Busy> {
        let threads = self.seconds.iter().map(|second| second.threads.len()).max().unwrap_or(0);
        let mut sums = vec![ThreadUse::default(); threads];
        for second in self.seconds.iter().filter(|second| second.threads.len() == threads) {
            for (sum, used) in sums.iter_mut().zip(&second.threads) {
                sum.add(used);
            }
        }
        sums.iter().filter_map(Busy::of).collect()
    }

    /// Each worker's name, and which of a second's threads are its own.
    pub(crate) fn worker_threads(&self) -> Vec<WorkerThreads> {
        let workers = &self.outcome.workers;
        let threads = |worker: &WorkerOutcome| worker.facts.threads as usize;
        let of = workers.iter().map(threads).sum();
        let mut from = 0;
        let of_worker = |worker: &WorkerOutcome| {
            let name = if workers.len() == 1 { "the generator".to_owned() } else { worker.name.clone() };
            let own = from..from + threads(worker);
            from = own.end;
            WorkerThreads { name, own, of }
        };
        workers.iter().map(of_worker).collect()
    }

    /// Share of the measured part in which generator threads were paused, in the mean over all of them.
    pub(crate) fn paused(&self) -> f64 {
        let threads = || self.measured.iter().flat_map(|second| &second.threads);
        let paused: u64 = threads().map(|used| used.paused_ns).sum();
        let wall: u64 = threads().map(|used| used.wall_ns).sum();
        paused as f64 / wall.max(1) as f64
    }

    /// Mean CPU use of the generators' machines.
    pub(crate) fn machine(&self) -> Option<f64> {
        let all: Vec<f64> = self.seconds.iter().flat_map(|second| second.machine.iter().copied()).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// Increase of a kernel counter, over all workers.
    pub(crate) fn moved(&self, name: &str) -> i64 {
        let ends = self.outcome.workers.iter().filter_map(|worker| worker.end.as_ref());
        ends.filter_map(|end| end.kernel.get(name)).sum()
    }

    /// Returns true if the target was on loopback: it shares the machine with its generator.
    pub(crate) fn is_local(&self) -> bool {
        let addresses = addresses(self.outcome);
        !addresses.is_empty() && addresses.iter().all(IpAddr::is_loopback)
    }

    /// Transactions that ended in the seconds that count, well or badly.
    pub(crate) fn ended(&self) -> f64 {
        self.seconds.iter().map(|second| self.ended_in(second)).sum()
    }

    /// … in one of them.
    pub(crate) fn ended_in(&self, second: &Interval) -> f64 {
        let tally = &second.tally;
        match self.plan.work {
            // They end with the run: what can be compared is how many began.
            Work::Bulk { .. } | Work::Idle { .. } => tally.connections as f64,
            _ => (tally.transactions + tally.failed) as f64,
        }
    }

    /// Number that should have ended in the seconds that count; `None` in the closed model.
    pub(crate) fn expected(&self) -> Option<f64> {
        let (first, last) = (self.seconds.first()?, self.seconds.last()?);
        self.expected_between(f64::from(first.second), f64::from(last.second) + 1.0)
    }

    /// … in one of them.
    pub(crate) fn expected_in(&self, second: &Interval) -> Option<f64> {
        let begin = f64::from(second.second);
        self.expected_between(begin, begin + 1.0)
    }

    /// Number that should end in this time: transactions that began one service time earlier end now, if the target is quick enough.
    fn expected_between(&self, begin: f64, end: f64) -> Option<f64> {
        let service = match self.plan.work {
            Work::Bulk { .. } | Work::Idle { .. } => 0.0,
            _ => self.totals.series.get(&Series::Service).map_or(0.0, Histogram::mean_nanos) / 1e9,
        };
        let (begin, end) = (begin.min(self.length), end.min(self.length));
        Some(self.offered(end - service)? - self.offered(begin - service)?)
    }

    /// Transactions a second that were offered over the whole run, without those of workers that were lost.
    pub(crate) fn offered_rate(&self) -> Option<f64> {
        Some(self.due()? / self.length.max(f64::MIN_POSITIVE))
    }

    /// Transactions that were due over the whole run; `None` in the closed model.
    pub(crate) fn due(&self) -> Option<f64> {
        self.offered(self.length)
    }

    /// Transactions a second that the target handled over the whole run: those of the report's headline.
    pub(crate) fn rate(&self) -> f64 {
        let tally = &self.totals.tally;
        let taken = match self.plan.work {
            Work::Bulk { .. } | Work::Idle { .. } => tally.connections,
            _ => tally.transactions.saturating_sub(tally.tail),
        };
        if self.length > 0.0 { taken as f64 / self.length } else { 0.0 }
    }

    /// Arrivals that were due in the first `seconds` on workers that were there.
    fn offered(&self, seconds: f64) -> Option<f64> {
        let all = offered(self.plan, seconds)?;
        let gone = self.lost.iter().filter_map(|lost| {
            let until = offered(self.plan, seconds.min(f64::from(lost.from?)))?;
            Some((all - until) * self.part())
        });
        Some((all - gone.sum::<f64>()).max(0.0))
    }

    /// Connections that stood: those with a handshake, or with plain HTTP all that were connected.
    pub(crate) fn opened_connections(&self) -> u64 {
        match self.plan.target.plain {
            true => self.totals.series.get(&Series::Connect).map_or(0, Histogram::count),
            false => self.totals.tally.full + self.totals.tally.resumed,
        }
    }

    /// Connections that could not be closed as the plan says, as a share of those that stood, and what failed most.
    pub(crate) fn badly_closed(&self) -> Option<(f64, &'o Failures)> {
        let failures = || self.totals.failures.iter().filter(|failures| failures.step == Step::Close);
        let failed: u64 = failures().map(|failures| failures.count).sum();
        let share = (failed as f64 / self.opened_connections().max(1) as f64).min(1.0);
        Some((share, failures().max_by_key(|failures| failures.count)?))
    }

    /// Median of the main series in the first and in the last quarter of the seconds that count, in nanoseconds, when
    /// the latencies grew with the length of the run.
    pub(crate) fn growth(&self) -> Option<(u64, u64)> {
        let quarter = self.seconds.len() / 4;
        let median = |seconds: &[Interval]| {
            let mut merged = Histogram::new();
            let main = self.plan.main_series();
            for samples in seconds.iter().filter_map(|second| second.series.get(&main)) {
                merged.merge(samples);
            }
            (!merged.is_empty()).then(|| merged.quantile_nanos(0.5))
        };
        let (first, last) = (self.seconds.get(..quarter)?, self.seconds.get(self.seconds.len() - quarter..)?);
        let (first, last) = (median(first)?, median(last)?);
        (last as f64 > first as f64 * GROWN).then_some((first, last))
    }
}

/// A worker that was lost, and from when on: its last seconds are missing, to the end.
fn lost(worker: &WorkerOutcome) -> Option<Lost<'_>> {
    let why = worker.lost.as_deref()?;
    let mut missing = worker.missing.iter().rev().copied();
    let mut from = missing.next();
    for second in missing {
        match from {
            Some(next) if second + 1 == next => from = Some(second),
            _ => break,
        }
    }
    Some(Lost { name: &worker.name, why, from })
}

/// Arrivals that are due in the first `seconds`; `None` in the closed model.
fn offered(plan: &Plan, seconds: f64) -> Option<f64> {
    Some(plan.rates()?.due(seconds))
}

/// Length of the measured part: the plan's, unless it was ended early. Then it lasted until the last second in which
/// something began, or ended before the end.
fn length(outcome: &Outcome) -> f64 {
    let planned = outcome.plan.duration.as_secs_f64();
    if outcome.early_end.is_none() {
        return planned;
    }
    let measured = |second: &&Interval| {
        let tally = &second.tally;
        tally.connections > 0 || tally.transactions > tally.tail
    };
    let Some(last) = outcome.seconds.iter().rfind(measured) else { return 0.0 };
    let wall = last.threads.iter().map(|used| used.wall_ns).max().unwrap_or(0) as f64 / 1e9;
    let part = if wall > 0.0 { wall.min(1.0) } else { 1.0 };
    (f64::from(last.second) + part).min(planned)
}

/// Addresses that were dialled, without ports, each once.
pub(crate) fn addresses(outcome: &Outcome) -> Vec<IpAddr> {
    let read =
        |text: &String| text.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip())).ok();
    let all = outcome.workers.iter().flat_map(|worker| worker.facts.addresses.iter().filter_map(read));
    let mut addresses: Vec<IpAddr> = all.collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The finding of one question.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) word: VerdictWord,
    pub(super) evidence: Vec<String>,
}

/// The first example of a failure, for a sentence.
pub(super) fn example(failures: &Failures) -> String {
    failures.examples.first().map_or_else(String::new, |example| format!(", for instance: {example}"))
}
