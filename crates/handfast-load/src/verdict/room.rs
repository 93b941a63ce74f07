//! Spare capacity of the generator: CPU when it needed it, and time between its transactions.
//!
//! In: a run. Out: why its figures describe the generator; or `None`, and then the target may be the cause. All thresholds
//! are in this file, and are the same for every model: a closed loop, a rate, a ramp, each step of
//! a search.
//!
//! | what | from | it means |
//! |---|---|---|
//! | [`PAUSED`] | 1 % | paused: one of 100 transactions was due in a pause, so p99 includes it |
//! | [`LONG_PAUSE_NANOS`] | 0.3 s | paused for this long in one second: percentiles may hide such a pause |
//! | [`HELD_UP`] | 20 % | ready and without a CPU: that wait is in every latency |
//! | [`PACE`] | 97 % | busy, or waiting for a CPU: a closed loop then measures its own pace |
//! | [`BUSY`] | 90 % | the same where transactions began late, or the target seems to be the cause |

use handfast_report::model::VerdictWord;
use handfast_report::units::{counted, nanos, share};
use handfast_stats::Histogram;

use super::stall::WHOLE;
use super::view::{Busy, Finding, View, WorkerThreads};
use super::{shed, target};
use crate::plan::Model;
use crate::sample::{Interval, Series};

/// Share of wall time from which a thread in a closed loop sets the pace itself.
const PACE: f64 = 0.97;
/// Share of wall time from which a thread's lateness is its own fault.
const BUSY: f64 = 0.9;
/// Lateness that is not reported, in nanoseconds …
const LATE_NANOS: u64 = 1_000_000;
/// … and as a share of the median that is measured; the greater of both counts.
const LATE_SHARE: f64 = 0.1;
/// Lateness with idle threads from which the figures are no longer the target's: ten times as much.
const VERY_LATE_NANOS: u64 = 10_000_000;
const VERY_LATE_SHARE: f64 = 0.5;
/// Share of the time without a CPU from which waiting for one is worth a sentence.
const STARVED: f64 = 0.05;
/// Share of the time without a CPU from which the figures are the machine's and not the target's.
const HELD_UP: f64 = 0.2;
/// Share of all threads' time in pauses from which p99 is the generator's.
const PAUSED: f64 = 0.01;
/// Time that a thread is paused within a second, in nanoseconds, from which the figures are the generator's.
const LONG_PAUSE_NANOS: u64 = 300_000_000;
/// Seconds with a pause that are named.
const NAMED: usize = 3;

/// Finds the reason why the figures are the generator's, or its machine's.
pub(super) fn generator(view: &View<'_>) -> Option<Finding> {
    let found = did_not_run(view).or_else(|| match view.plan.model {
        Model::Closed => pace(view, view.busiest()?),
        Model::Open { .. } => lateness(view).or_else(|| no_room_to_blame(view)),
    });
    found.map(|evidence| Finding { word: VerdictWord::GeneratorLimited, evidence })
}

/// That there was room, for the evidence of a verdict that rests on it.
pub(super) fn had_room(view: &View<'_>) -> Option<String> {
    let busiest = view.busiest()?;
    Some(format!("the generator had spare capacity: its busiest thread was {}", use_of(busiest)))
}

/// Lag that is too small to invalidate a run, and large enough to report.
pub(super) fn late_all_the_same(view: &View<'_>) -> Option<String> {
    let (lag, service) = (view.merged(Series::Lag), view.merged(Series::Service));
    (lag.quantile_nanos(0.99) > too_late(&service, LATE_NANOS, LATE_SHARE)).then(|| {
        "the lag is noticeable compared with the latencies, which include it: `service` excludes it"
            .to_owned()
    })
}

/// A thread was paused, or had no CPU. On a crowded machine it is both, and the second one explains the first.
fn did_not_run(view: &View<'_>) -> Option<Vec<String>> {
    match (long_paused(view), held_up(view)) {
        (Some(pauses), None) => Some(pauses.into_iter().chain(late(view)).collect()),
        (pauses, Some(wait)) => Some(pauses.into_iter().flatten().chain(wait).collect()),
        (None, None) => None,
    }
}

/// Pauses that make the figures the generator's: a long one, or many. To every clock they are pauses of the target.
fn long_paused(view: &View<'_>) -> Option<Vec<String>> {
    let paused = |second: &Interval| second.threads.iter().map(|used| used.paused_ns).max().unwrap_or(0);
    let longest = view.measured.iter().map(paused).max().unwrap_or(0);
    (longest >= LONG_PAUSE_NANOS || view.paused() >= PAUSED).then(|| pauses(view))
}

/// Each worker's pauses, the longest first, in sentences; none when there were none.
pub(super) fn pauses(view: &View<'_>) -> Vec<String> {
    let of_worker = |worker: WorkerThreads| {
        let paused = |second: &Interval| worker.threads(second).iter().map(|used| used.paused_ns).max();
        let mut seconds: Vec<(u64, u32)> = view
            .measured
            .iter()
            .filter_map(|second| Some((paused(second).filter(|nanos| *nanos > 0)?, second.second)))
            .collect();
        seconds.sort_by_key(|(nanos, second)| (std::cmp::Reverse(*nanos), *second));
        let all = seconds.len();
        let named = seconds
            .iter()
            .take(NAMED)
            .map(|(paused, second)| format!("{} in second {second}", nanos(*paused)));
        let named = named.collect::<Vec<_>>().join(", ");
        let more = match all.saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and in {} more", counted(more as u64, "second")),
        };
        (all > 0).then(|| {
            format!(
                "{} was paused: {named}{more}. Its process was stopped, its machine was, or its CPU quota was used up; the figures \
                 contain these pauses",
                worker.name
            )
        })
    };
    view.worker_threads().into_iter().filter_map(of_worker).collect()
}

/// A thread that was ready and had no CPU: in every model, its measurements include that wait.
fn held_up(view: &View<'_>) -> Option<Vec<String>> {
    let starved = view.most_starved().filter(|busy| busy.starved >= HELD_UP)?;
    let mut evidence = vec![match starved.pressure() >= PACE {
        true => format!(
            "the busiest generator thread was never idle ({}), so the figures are the generator's own",
            use_of(starved)
        ),
        false => format!(
            "a generator thread had to wait for a CPU ({}), and that wait is in the latencies",
            use_of(starved)
        ),
    }];
    evidence.extend(late(view));
    evidence.extend(waited_for_cpu(view, starved));
    evidence.push(cure(view));
    Some(evidence)
}

/// Closed loop: a thread that never waits for its target measures its own speed.
fn pace(view: &View<'_>, busiest: Busy) -> Option<Vec<String>> {
    if busiest.pressure() < PACE {
        return None;
    }
    let mut evidence = vec![format!(
        "the busiest generator thread was never idle ({}), so the figures are the generator's own",
        use_of(busiest)
    )];
    evidence.extend(waited_for_cpu(view, busiest));
    evidence.push(cure(view));
    Some(evidence)
}

fn cure(view: &View<'_>) -> String {
    let less = match view.plan.model {
        Model::Closed => "a --rate below what both can do together",
        Model::Open { .. } => "a lower --rate",
    };
    format!("give the generator a separate core or machine, or {less}")
}

/// `transactions began late: …`, when they did.
fn late(view: &View<'_>) -> Option<String> {
    let (lag, service) = (view.merged(Series::Lag), view.merged(Series::Service));
    (lag.quantile_nanos(0.99) > too_late(&service, LATE_NANOS, LATE_SHARE)).then(|| {
        format!(
            "transactions started late: schedule lag p99 {} (p50 of the service itself: {})",
            nanos(view.whole(Series::Lag, 0.99)),
            nanos(view.whole(Series::Service, 0.5))
        )
    })
}

/// Open model: transactions that begin late because of the generator carry its delay in their figures.
fn lateness(view: &View<'_>) -> Option<Vec<String>> {
    let late = late(view)?;
    let busiest = view.busiest();
    let full_seconds = view.seconds.iter().filter(|second| is_saturated(second)).count();
    let always = busiest.filter(|busiest| busiest.pressure() >= BUSY);
    let p99 = view.merged(Series::Lag).quantile_nanos(0.99);
    let service = view.merged(Series::Service);
    let why = match (always, full_seconds) {
        (Some(busiest), _) => {
            format!("the busiest generator thread was almost never idle ({})", use_of(busiest))
        }
        (None, 1..) => {
            let seconds = counted(full_seconds as u64, "second");
            let of = counted(view.seconds.len() as u64, "second");
            let without = if view.is_trimmed() { " (the first and the last are left out)" } else { "" };
            format!("a generator thread was almost never idle in {seconds} of the {of} examined{without}")
        }
        // Idle, and late: the machine or its hypervisor held it up. Unless it waited for a free connection.
        (None, 0)
            if view.waited() == 0
                && !shed::explains_lag(view)
                && p99 > too_late(&service, VERY_LATE_NANOS, VERY_LATE_SHARE) =>
        {
            "its threads were mostly idle: the machine or its hypervisor delayed them".to_owned()
        }
        (None, 0) => return None,
    };
    let mut evidence = vec![why, late];
    evidence.extend(busiest.and_then(|busiest| waited_for_cpu(view, busiest)));
    Some(evidence)
}

/// In time, but always busy: the generator may be why less was handled. Then it is unknown which side was at its
/// limit.
fn no_room_to_blame(view: &View<'_>) -> Option<Vec<String>> {
    let busiest = view.busiest().filter(|busiest| busiest.pressure() >= BUSY)?;
    let blame = target(view)?;
    let mut evidence = vec![format!(
        "the busiest generator thread was almost never idle ({}), so what follows may be its own limit",
        use_of(busiest)
    )];
    evidence.extend(waited_for_cpu(view, busiest));
    evidence.extend(blame.evidence);
    evidence.push(cure(view));
    Some(evidence)
}

fn too_late(service: &Histogram, least: u64, part: f64) -> u64 {
    least.max((service.quantile_nanos(0.5) as f64 * part) as u64)
}

/// Returns true if a thread had no pause in this second, and was late in it.
fn is_saturated(second: &Interval) -> bool {
    let whole = second.threads.iter().filter(|used| used.wall_ns >= WHOLE);
    let pressed = whole.filter_map(Busy::of).any(|busy| busy.pressure() >= BUSY);
    let late = |lag: &Histogram| {
        let service = second.series.get(&Series::Service).cloned().unwrap_or_default();
        lag.quantile_nanos(0.99) > too_late(&service, LATE_NANOS, LATE_SHARE)
    };
    pressed && second.series.get(&Series::Lag).is_some_and(late)
}

/// `busy 61 % of the time, waiting for a CPU 38 %`.
fn use_of(busy: Busy) -> String {
    format!("busy {} of the time, waiting for a CPU {}", share(busy.busy), share(busy.starved))
}

fn waited_for_cpu(view: &View<'_>, busy: Busy) -> Option<String> {
    (busy.starved >= STARVED).then(|| {
        let cause = if view.is_local() {
            "the target runs on this machine, and the two compete for its CPUs"
        } else {
            "something else on its machine used the CPU"
        };
        format!("for {} of the time it waited for a CPU: {cause}", share(busy.starved))
    })
}
