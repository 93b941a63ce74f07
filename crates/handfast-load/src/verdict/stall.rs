//! Seconds in which nothing ended, and seconds in which errors came.
//!
//! In: a run. Out: numbers of seconds, and sentences. A closed loop begins nothing while its target is blocked, so a pause
//! of seconds is one sample for each connection, and no percentile shows it: the timeline does.

use handfast_report::units::count;
use handfast_stats::Histogram;

use super::view::View;
use crate::plan::{Model, Work};
use crate::sample::{Interval, Series, ThreadUse};

/// Shortest second of which shares of the time are looked at, in nanoseconds: what is left of one that began late is too
/// short for them to mean anything.
pub(super) const WHOLE: u64 = 500_000_000;
/// A second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// Time by which a thread's second may exceed a second, and for which it may be paused in it, in nanoseconds, so that transactions that
/// did not finish in it can be the target's fault.
const NOTHING_AMISS: u64 = 300_000_000;

/// At this usual number per second, an empty second is not chance (Poisson: one second in 22,000 at ten a second).
const USUAL: u64 = 10;
/// Divisor of the usual number that ends in a second: fewer end in a stalled one, the last answers before it and the first after it.
const PART: u64 = 20;
/// Share of the usual number that ends in a second, below which a pause took a good part of it …
const STALL_SHARE: f64 = 0.6;
/// … and how long, in nanoseconds, half of the connections of a closed loop then waited for an answer.
const LONG_WAIT_NANOS: u64 = 300_000_000;
/// Slowest median, in nanoseconds, with which a second without an end is a pause and not the usual step of the target.
const QUICK: u64 = 200_000_000;
/// Most seconds that are named.
const NAMED: usize = 6;

/// Seconds in which next to nothing ended, or of which a pause took a good part, though the generator ran.
pub(crate) fn stalled(view: &View<'_>) -> Vec<u32> {
    let whole = |second: &&Interval| f64::from(second.second) + 1.0 <= view.length + 0.001;
    let seconds: Vec<&Interval> = view.measured.iter().filter(whole).collect();
    let usual = usual(view, &seconds);
    let slow = view.totals.series.get(&pace(view)).is_none_or(|times| times.quantile_nanos(0.5) > QUICK);
    if usual < USUAL || slow {
        return Vec::new();
    }
    let still = |place: &usize| {
        let second = seconds[*place];
        let due = view.expected_in(second).map_or(usual, |expected| usual.min(expected as u64));
        let next = seconds.get(place + 1).copied();
        let none = ended(view, second) * PART < due;
        let waits = view.plan.think.is_none() || waits_throughout(view, second);
        due >= USUAL && ((none && waits) || paused(view, second, next, usual)) && ran_through(second)
    };
    (0..seconds.len()).filter(still).map(|place| seconds[place].second).collect()
}

/// Returns true if transactions were under way when this second began and when it ended. With think time, all clients may pause at the
/// same time: then nothing ends either.
fn waits_throughout(view: &View<'_>, second: &Interval) -> bool {
    let under_way = |until: u32| {
        let tallies = view.measured.iter().filter(|other| other.second < until).map(|other| &other.tally);
        let (started, ended) =
            tallies.fold((0, 0), |(started, ended), tally| (started + tally.started, ended + tally.ended));
        started > ended
    };
    under_way(second.second) && under_way(second.second + 1)
}

/// Returns true if a pause took a good part of this second: few ended, and half of a closed loop's
/// connections waited long for answers that came in it, or in the next one if the generator ran through
/// that: after its own pause all answers are late. Of an open model the percentiles show as much.
fn paused(view: &View<'_>, second: &Interval, next: Option<&Interval>, usual: u64) -> bool {
    let few = (ended(view, second) as f64) < usual as f64 * STALL_SHARE;
    let long = |second: &Interval| {
        let times = second.series.get(&pace(view)).map(Histogram::buckets).unwrap_or_default();
        times.into_iter().filter(|(nanos, _)| *nanos >= LONG_WAIT_NANOS).map(|(_, count)| count).sum::<u64>()
    };
    let waited = long(second) + next.filter(|next| ran_through(next)).map_or(0, long);
    few && matches!(view.plan.model, Model::Closed) && waited * 2 >= u64::from(view.plan.connections).max(1)
}

/// Number that usually ends in a second: the third quartile, so that a target that stalled for most of the run is detected too.
fn usual(view: &View<'_>, seconds: &[&Interval]) -> u64 {
    let mut all: Vec<u64> = seconds.iter().map(|second| ended(view, second)).collect();
    all.sort_unstable();
    all.get(all.len() * 3 / 4).copied().unwrap_or(0)
}

/// Number that ended in a second; bytes, if the run carries them without a pause.
fn ended(view: &View<'_>, second: &Interval) -> u64 {
    let tally = &second.tally;
    match view.plan.work {
        Work::Bulk { .. } => tally.sent.saturating_add(tally.received),
        // They do nothing, as requested.
        Work::Idle { .. } => 0,
        _ => (tally.transactions + tally.failed).max(tally.exchanges),
    }
}

/// The series that says how long one takes, without having waited to begin.
const fn pace(view: &View<'_>) -> Series {
    match (&view.plan.work, &view.plan.model) {
        (Work::Bulk { .. } | Work::Idle { .. }, _) => Series::Handshake,
        (_, Model::Closed) => Series::Total,
        _ => Series::Service,
    }
}

/// The stalled seconds in a sentence.
pub(super) fn sentence(view: &View<'_>) -> Option<String> {
    let still = stalled(view);
    if still.is_empty() {
        return None;
    }
    let whole: Vec<&Interval> = view.measured.iter().collect();
    let counts: Vec<u64> =
        whole.iter().filter(|s| still.contains(&s.second)).map(|s| ended(view, s)).collect();
    let usual = count(usual(view, &whole));
    let what = match (&view.plan.work, counts.as_slice()) {
        (Work::Bulk { .. }, _) => "almost no bytes were transferred".to_owned(),
        (_, all) if all.iter().all(|count| *count == 0) => {
            format!("nothing finished, where about {usual} a second are usual")
        }
        (_, all) => format!("only {} finished, where about {usual} a second are usual", in_words(all)),
    };
    let shown = match view.plan.model {
        Model::Closed => {
            "a closed model starts nothing in the meantime, so its percentiles hide it: use --rate to see what clients would"
        }
        Model::Open { .. } => "what was due in the meantime has waited, and is in the latencies",
    };
    let seconds = if still.len() == 1 { "second" } else { "seconds" };
    Some(format!(
        "in {seconds} {} {what}: the target, or the network path to it, stalled; {shown}",
        in_words(&still)
    ))
}

/// `4`, `4 and 5`, `1, 2, 3 and 4`; of many the first ones, and how many more.
fn in_words<N: Copy + Into<u64>>(numbers: &[N]) -> String {
    let mut words: Vec<String> = numbers.iter().take(NAMED).map(|number| count((*number).into())).collect();
    if numbers.len() > NAMED {
        words.push(format!("{} more", numbers.len() - NAMED));
    }
    match words.pop() {
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} and {last}", words.join(", ")),
        None => String::new(),
    }
}

/// Seconds in which errors came: `the first failed in second 3, the last in second 5; …`.
pub(super) fn when_errors_came(view: &View<'_>) -> Option<String> {
    let seconds = &view.measured;
    let failed = |second: &&Interval| second.tally.failed > 0;
    let (first, last) = (seconds.iter().find(failed)?, seconds.iter().rfind(failed)?);
    let before: u64 =
        seconds.iter().take_while(|second| second.second < first.second).map(|s| s.tally.transactions).sum();
    let after: u64 =
        seconds.iter().filter(|second| second.second > last.second).map(|s| s.tally.transactions).sum();
    let came = match (first.second == last.second, seconds.len()) {
        (_, 1) => return None,
        (true, _) => format!("they failed in second {}", first.second),
        (false, _) => {
            format!("the first failed in second {}, the last in second {}", first.second, last.second)
        }
    };
    let parts = [(before, "before it"), (after, "after it")];
    let well = parts.iter().filter(|(number, _)| *number > 0);
    let well: Vec<String> =
        well.map(|(number, when)| format!("{} succeeded {when}", count(*number))).collect();
    Some(if well.is_empty() { came } else { format!("{came}; {}", well.join(", ")) })
}

/// Returns true if every generator thread ran through this second: none of them was paused for a good
/// part of it, or came late out of the one before.
fn ran_through(second: &Interval) -> bool {
    let whole = |used: &ThreadUse| {
        (WHOLE..SECOND + NOTHING_AMISS).contains(&used.wall_ns) && used.paused_ns < NOTHING_AMISS
    };
    second.threads.iter().all(|used| used.wall_ns == 0 || whole(used))
}
