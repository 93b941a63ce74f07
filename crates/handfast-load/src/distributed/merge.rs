//! Merges the seconds of many workers: in order, without gaps, exactly.
//!
//! In: each worker's intervals as they come, and when no more will come. Out: merged seconds as soon as all have
//! delivered, and for each worker the sum of what it sent and what was missing. No clock: the caller says what is
//! overdue.

use std::collections::BTreeMap;

use handfast_stats::Histogram;

use crate::sample::{Interval, Series, Tally};
use handfast_report::ToolError;

/// State of a worker: whether more seconds will come from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It works.
    Working,
    /// It has sent its final message: what it did not deliver did not happen.
    Ended,
    /// It is lost: what it did not deliver is missing.
    Lost,
}

/// Seconds that came from one worker.
#[derive(Debug)]
pub(super) struct Part {
    standing: Standing,
    /// Delivered and not merged yet. Bounded: a worker that is ahead of an overdue second waits for three seconds.
    waiting: BTreeMap<u32, Interval>,
    /// The second after the last one that came.
    next: u32,
    /// Everything that came.
    pub(super) sum: Interval,
    /// Seconds that were merged without it.
    pub(super) missing: Vec<u32>,
}

/// Contribution of one worker to a merged second.
#[derive(Clone, Copy, Debug)]
struct Piece {
    worker: usize,
    threads: usize,
    machines: usize,
}

/// The merged run.
#[derive(Debug)]
pub(super) struct Merge {
    parts: Vec<Part>,
    seconds: Vec<Interval>,
    pieces: Vec<Vec<Piece>>,
    longest: u32,
}

impl Merge {
    /// For this number of workers, in a run of at most `longest` seconds.
    pub(super) fn new(workers: usize, longest: u32) -> Self {
        let part = || Part {
            standing: Standing::Working,
            waiting: BTreeMap::new(),
            next: 0,
            sum: Interval::default(),
            missing: Vec::new(),
        };
        Self {
            parts: (0..workers).map(|_| part()).collect(),
            seconds: Vec::new(),
            pieces: Vec::new(),
            longest,
        }
    }

    /// Takes in a second of one worker. One that came before is not counted twice.
    ///
    /// **Errors**: a second that this run cannot have.
    pub(super) fn take(&mut self, worker: usize, interval: Interval) -> Result<(), ToolError> {
        let second = interval.second;
        if second >= self.longest {
            let what = format!("second {second} of a run that ends before second {}", self.longest);
            return Err(ToolError::failed(what));
        }
        let part = &mut self.parts[worker];
        if second < part.next {
            return Ok(());
        }
        part.next = second + 1;
        part.sum.merge_later(&interval);
        let place = usize::try_from(second).unwrap_or(usize::MAX);
        if place < self.seconds.len() {
            part.missing.retain(|missing| *missing != second);
            self.join(place, worker, &interval);
        } else {
            part.waiting.insert(second, interval);
        }
        Ok(())
    }

    /// No more will come from one worker.
    pub(super) fn close(&mut self, worker: usize, standing: Standing) {
        self.parts[worker].standing = standing;
    }

    /// Merges what can be merged, and shows each second once. Seconds before `overdue` do not wait for workers that
    /// have not delivered them.
    pub(super) fn advance(&mut self, overdue: u32, each_second: &mut (dyn FnMut(&Interval) + Send)) {
        loop {
            let place = self.seconds.len();
            let Ok(second) = u32::try_from(place) else { return };
            let delivered = |part: &Part| part.next > second;
            let complete =
                self.parts.iter().all(|part| part.standing != Standing::Working || delivered(part));
            // No worker has sent this second: the run may be over, and no empty second is added.
            if !self.parts.iter().any(delivered) || !complete && second >= overdue {
                return;
            }
            self.seconds.push(Interval { second, ..Interval::default() });
            self.pieces.push(Vec::new());
            for worker in 0..self.parts.len() {
                let part = &mut self.parts[worker];
                match part.waiting.remove(&second) {
                    Some(interval) => self.join(place, worker, &interval),
                    None if part.standing != Standing::Ended => part.missing.push(second),
                    None => {}
                }
            }
            each_second(&self.seconds[place]);
            // It is looked at again when the run is over; until then a day of them has to fit.
            self.seconds[place].pack();
        }
    }

    /// The merged seconds, and what came from each.
    pub(super) fn finish(mut self) -> (Vec<Interval>, Vec<Part>) {
        // Late intervals were merged into unpacked ones.
        self.seconds.iter_mut().for_each(Interval::pack);
        (self.seconds, self.parts)
    }

    /// Merges one worker's interval into a second, and puts its threads where the worker's number belongs.
    fn join(&mut self, place: usize, worker: usize, interval: &Interval) {
        let (second, pieces) = (&mut self.seconds[place], &mut self.pieces[place]);
        second.merge_parallel(interval);
        let piece = Piece { worker, threads: interval.threads.len(), machines: interval.machine.len() };
        let before = pieces.partition_point(|piece| piece.worker < worker);
        let threads: usize = pieces[..before].iter().map(|piece| piece.threads).sum();
        let machines: usize = pieces[..before].iter().map(|piece| piece.machines).sum();
        second.threads[threads..].rotate_right(piece.threads);
        second.machine[machines..].rotate_right(piece.machines);
        pieces.insert(before, piece);
    }
}

/// Returns true if a worker's final totals are the sum of its intervals: every count and every histogram. Gauges, and what belongs to
/// threads, do not add up over time.
pub(super) fn sums_agree(sum: &Interval, totals: &Interval) -> bool {
    fn tally(interval: &Interval) -> Tally {
        Tally { open: 0, ..interval.tally.clone() }
    }
    fn series(interval: &Interval) -> Vec<(Series, &Histogram)> {
        let there = interval.series.iter().filter(|(_, histogram)| !histogram.is_empty());
        there.map(|(series, histogram)| (*series, histogram)).collect()
    }
    fn failures(interval: &Interval) -> BTreeMap<(&str, &str), u64> {
        let mut counts = BTreeMap::new();
        for failures in interval.failures.iter().filter(|failures| failures.count > 0) {
            *counts.entry((failures.step.name(), failures.cause.name())).or_default() += failures.count;
        }
        counts
    }
    fn agreed(interval: &Interval) -> BTreeMap<&str, u64> {
        let there = interval.agreed.iter().filter(|(_, count)| **count > 0);
        there.map(|(what, count)| (what.as_str(), *count)).collect()
    }
    let same_series = || {
        let (one, other) = (series(sum), series(totals));
        let pairs = one.iter().zip(&other);
        one.len() == other.len() && pairs.clone().all(|(one, other)| one.0 == other.0 && same(one.1, other.1))
    };
    /// Counts alone: their histograms are made of the same samples as those above.
    fn counts(interval: &Interval) -> Vec<[u64; 4]> {
        let members = interval.members.iter();
        let members =
            members.map(|one| [one.connections, one.transactions, one.failed, one.handshake.count()]);
        let requests = interval.requests.iter();
        members.chain(requests.map(|one| [one.done, one.failed, one.exchange.count(), 0])).collect()
    }
    tally(sum) == tally(totals)
        && counts(sum) == counts(totals)
        && failures(sum) == failures(totals)
        && agreed(sum) == agreed(totals)
        && same_series()
}

/// Returns true if two histograms hold the same samples. By their buckets: extremes are kept more
/// exactly before a histogram has travelled than after.
fn same(one: &Histogram, other: &Histogram) -> bool {
    one.count() == other.count() && one.buckets() == other.buckets()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cause::{Cause, Step};
    use crate::sample::{Failures, ThreadUse};

    fn interval(second: u32, transactions: u64, busy: &[u64]) -> Interval {
        let mut interval = Interval { second, machine: vec![busy[0] as f64], ..Interval::default() };
        interval.tally.transactions = transactions;
        interval.threads =
            busy.iter().map(|busy_ns| ThreadUse { busy_ns: *busy_ns, ..ThreadUse::default() }).collect();
        interval
    }

    fn seen(merge: &mut Merge, overdue: u32) -> Vec<(u32, u64)> {
        let mut seen = Vec::new();
        merge.advance(overdue, &mut |interval| seen.push((interval.second, interval.tally.transactions)));
        seen
    }

    fn busy(interval: &Interval) -> Vec<u64> {
        interval.threads.iter().map(|thread| thread.busy_ns).collect()
    }

    #[test]
    fn a_second_is_shown_once_when_all_have_delivered_it() {
        let mut merge = Merge::new(2, 60);
        merge.take(0, interval(0, 1, &[10])).unwrap();
        merge.take(0, interval(1, 2, &[10])).unwrap();
        assert_eq!(seen(&mut merge, 0), []);
        merge.take(1, interval(0, 4, &[20])).unwrap();
        assert_eq!(seen(&mut merge, 0), [(0, 5)]);
        merge.take(1, interval(1, 8, &[20])).unwrap();
        assert_eq!(seen(&mut merge, 0), [(1, 10)]);
        assert_eq!(seen(&mut merge, 60), []);
    }

    #[test]
    fn what_is_late_is_noted_and_still_taken_in_at_its_place() {
        let mut merge = Merge::new(3, 60);
        merge.take(0, interval(0, 1, &[1, 2])).unwrap();
        merge.take(2, interval(0, 4, &[5])).unwrap();
        assert_eq!(seen(&mut merge, 1), [(0, 5)]);
        assert_eq!(merge.parts[1].missing, [0]);
        merge.take(1, interval(0, 2, &[3, 4])).unwrap();
        assert!(merge.parts[1].missing.is_empty());
        let (seconds, _) = merge.finish();
        assert_eq!(seconds[0].tally.transactions, 7);
        assert_eq!(busy(&seconds[0]), [1, 2, 3, 4, 5], "threads are in the order of their workers");
        assert_eq!(seconds[0].machine, [1.0, 3.0, 5.0]);
    }

    #[test]
    fn a_lost_worker_is_missing_and_an_ended_one_is_not() {
        let mut merge = Merge::new(3, 60);
        for worker in 0..3 {
            merge.take(worker, interval(0, 1, &[1])).unwrap();
        }
        merge.close(1, Standing::Lost);
        merge.close(2, Standing::Ended);
        merge.take(0, interval(1, 1, &[1])).unwrap();
        assert_eq!(seen(&mut merge, 0), [(0, 3), (1, 1)]);
        let (_, parts) = merge.finish();
        assert_eq!(parts[1].missing, [1]);
        assert!(parts[2].missing.is_empty());
    }

    #[test]
    fn there_are_no_gaps_and_nothing_is_invented_at_the_end() {
        let mut merge = Merge::new(1, 60);
        merge.take(0, interval(2, 7, &[1])).unwrap();
        assert_eq!(seen(&mut merge, 50), [(0, 0), (1, 0), (2, 7)]);
        let (_, parts) = merge.finish();
        assert_eq!(parts[0].missing, [0, 1]);
    }

    #[test]
    fn a_second_counts_once_and_an_impossible_one_is_refused() {
        let mut merge = Merge::new(1, 60);
        merge.take(0, interval(0, 7, &[1])).unwrap();
        merge.take(0, interval(0, 7, &[1])).unwrap();
        assert!(
            merge.take(0, interval(u32::MAX, 7, &[1])).is_err(),
            "4 billion seconds are not made room for"
        );
        assert_eq!(seen(&mut merge, 0), [(0, 7)]);
        assert_eq!(merge.parts[0].sum.tally.transactions, 7);
    }

    #[test]
    fn sums_are_compared_to_the_last_sample() {
        let mut sum = interval(3, 7, &[1]);
        sum.series.entry(Series::Total).or_default().record_nanos(1_000_000);
        sum.failures.push(Failures {
            step: Step::Connect,
            cause: Cause::Refused,
            count: 2,
            examples: vec!["a".into()],
        });
        let mut totals = Interval { second: 0, threads: Vec::new(), ..sum.clone() };
        totals.failures[0].examples.clear();
        totals.tally.open = 9;
        totals.series.insert(Series::Lag, Histogram::new());
        assert!(sums_agree(&sum, &totals));
        let mut other = totals.clone();
        other.series.entry(Series::Total).or_default().record_nanos(1);
        assert!(!sums_agree(&sum, &other));
        let mut other = totals.clone();
        other.failures[0].count = 3;
        assert!(!sums_agree(&sum, &other));
        totals.tally.sent = 1;
        assert!(!sums_agree(&sum, &totals));
    }
}
