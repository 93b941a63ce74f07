//! Whether the generator had room: CPU when it wanted it, and time between its transactions.
//!
//! In: a run. Out: why its figures are the generator's own; or `None`, and then a target may be blamed. The thresholds
//! stand here and nowhere else, and every model is measured by the same ones: a closed loop, a rate, a ramp, each step of
//! a search.
//!
//! | what | from | it means |
//! |---|---|---|
//! | [`STOOD_STILL`] | 0.3 s | a thread did nothing at all for so long: stopped, or its machine was |
//! | [`HELD_UP`] | 20 % | ready and without a CPU: what it waited for is in every latency |
//! | [`PACE`] | 97 % | busy, or waiting for a CPU: a closed loop then measures its own pace |
//! | [`BUSY`] | 90 % | the same where transactions began late, or a target is about to be blamed |

use handfast_report::model::VerdictWord;
use handfast_report::units::{counted, nanos, share};
use handfast_stats::Histogram;

use super::view::{Busy, View};
use super::{Finding, shed, target};
use crate::plan::Model;
use crate::sample::{Interval, Series, ThreadUse};

/// Share of wall time from which a thread in a closed loop sets the pace itself.
const PACE: f64 = 0.97;
/// Share of wall time from which a thread's lateness is its own fault.
const BUSY: f64 = 0.9;
/// Lateness that nobody minds, in nanoseconds …
const LATE: u64 = 1_000_000;
/// … and as a share of the median that is measured; the greater of both counts.
const LATE_SHARE: f64 = 0.1;
/// Lateness with idle threads from which the figures are no longer the target's: ten times as much.
const VERY_LATE: u64 = 10_000_000;
const VERY_LATE_SHARE: f64 = 0.5;
/// Share of the time without a CPU from which waiting for one is worth a sentence.
const STARVED: f64 = 0.05;
/// Share of the time without a CPU from which the figures are the machine's and not the target's.
const HELD_UP: f64 = 0.2;
/// How much longer than a second a thread's second may last, in nanoseconds, before the thread is said to have stood
/// still. One that is only starved is late by milliseconds.
const STOOD_STILL: u64 = 300_000_000;
/// Shortest second of which shares of the time are looked at, in nanoseconds: what is left of one that began late is too
/// short for them to mean anything.
const WHOLE: u64 = 500_000_000;
/// A second, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// Why the figures are the generator's, or its machine's.
pub(super) fn generator(view: &View<'_>) -> Option<Finding> {
    let found = stood_still(view).or_else(|| held_up(view)).or_else(|| match view.plan.model {
        Model::Closed => pace(view, view.busiest()?),
        Model::Open { .. } | Model::Ramp { .. } => lateness(view).or_else(|| no_room_to_blame(view)),
    });
    found.map(|evidence| Finding { word: VerdictWord::GeneratorLimited, evidence })
}

/// That there was room, for the evidence of a verdict that rests on it.
pub(super) fn had_room(view: &View<'_>) -> Option<String> {
    let busiest = view.busiest()?;
    Some(format!("the generator had spare capacity: its busiest thread was {}", use_of(busiest)))
}

/// Lag that is too small to condemn a run, and too great to keep silent about.
pub(super) fn late_all_the_same(view: &View<'_>, lag: &Histogram) -> Option<String> {
    let service = view.merged(Series::Service);
    (lag.quantile_nanos(0.99) > too_late(&service, LATE, LATE_SHARE)).then(|| {
        "the lag is noticeable compared with the latencies, which include it: `service` excludes it"
            .to_owned()
    })
}

/// Whether every generator thread ran through this second: none of them stood still in it, or came late out of the one
/// before.
pub(super) fn ran_through(second: &Interval) -> bool {
    let whole = |wall: u64| (WHOLE..SECOND + STOOD_STILL).contains(&wall);
    second.threads.iter().all(|used| used.wall_ns == 0 || whole(used.wall_ns))
}

/// Threads that did not run at all: a stopped process, a suspended machine. To every clock that is a pause of the target.
fn stood_still(view: &View<'_>) -> Option<Vec<String>> {
    let mut evidence = Vec::new();
    for worker in view.worker_threads() {
        // A thread that is busy with one turn for so long is late too, and did not stand still.
        let pause = |second: &&Interval| {
            let threads = worker.threads(second).iter();
            threads.map(|used| (used.wall_ns.saturating_sub(SECOND)).min(idle(used))).max().unwrap_or(0)
        };
        let Some(second) = view.measured.iter().max_by_key(pause) else { continue };
        if pause(&second) >= STOOD_STILL {
            evidence.push(format!(
                "{} was paused in second {}, for {} or more: its process was stopped, or its machine was, and that pause is in the figures",
                worker.name,
                second.second,
                nanos(pause(&second))
            ));
        }
    }
    (!evidence.is_empty()).then_some(evidence)
}

/// Time in which a thread neither ran nor wanted to.
const fn idle(used: &ThreadUse) -> u64 {
    used.wall_ns.saturating_sub(used.busy_ns).saturating_sub(used.starved_ns)
}

/// A thread that was ready and had no CPU: whatever the model, its waiting is in what it measured.
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
    evidence.extend(wanted_a_cpu(view, starved));
    evidence.push(cure(view));
    Some(evidence)
}

/// Closed loop: a thread that never waits for its target measures itself.
fn pace(view: &View<'_>, busiest: Busy) -> Option<Vec<String>> {
    if busiest.pressure() < PACE {
        return None;
    }
    let mut evidence = vec![format!(
        "the busiest generator thread was never idle ({}), so the figures are the generator's own",
        use_of(busiest)
    )];
    evidence.extend(wanted_a_cpu(view, busiest));
    evidence.push(cure(view));
    Some(evidence)
}

fn cure(view: &View<'_>) -> String {
    let less = match view.plan.model {
        Model::Closed => "a --rate below what both can do together",
        Model::Open { .. } | Model::Ramp { .. } => "a lower --rate",
    };
    format!("give the generator a core or a machine of its own, or {less}")
}

/// `transactions began late: …`, when they did.
fn late(view: &View<'_>) -> Option<String> {
    let (lag, service) = (view.merged(Series::Lag), view.merged(Series::Service));
    let p99 = lag.quantile_nanos(0.99);
    (p99 > too_late(&service, LATE, LATE_SHARE)).then(|| {
        format!(
            "transactions started late: schedule lag p99 {} (p50 of the service itself: {})",
            nanos(p99),
            nanos(service.quantile_nanos(0.5))
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
                && p99 > too_late(&service, VERY_LATE, VERY_LATE_SHARE) =>
        {
            "its threads were mostly idle: the machine or its hypervisor delayed them".to_owned()
        }
        (None, 0) => return None,
    };
    let mut evidence = vec![why, late];
    evidence.extend(busiest.and_then(|busiest| wanted_a_cpu(view, busiest)));
    Some(evidence)
}

/// In time, but without a pause: what it could not do in time may be why less was taken. Then nobody knows whose limit it
/// was.
fn no_room_to_blame(view: &View<'_>) -> Option<Vec<String>> {
    let busiest = view.busiest().filter(|busiest| busiest.pressure() >= BUSY)?;
    let blame = target(view)?;
    let mut evidence = vec![format!(
        "the busiest generator thread was almost never idle ({}), so what follows may be its own limit",
        use_of(busiest)
    )];
    evidence.extend(wanted_a_cpu(view, busiest));
    evidence.extend(blame.evidence);
    evidence.push(cure(view));
    Some(evidence)
}

fn too_late(service: &Histogram, least: u64, part: f64) -> u64 {
    least.max((service.quantile_nanos(0.5) as f64 * part) as u64)
}

/// Whether a thread had no pause in this second, and was late in it.
fn is_saturated(second: &Interval) -> bool {
    let whole = second.threads.iter().filter(|used| used.wall_ns >= WHOLE);
    let pressed = whole.filter_map(Busy::of).any(|busy| busy.pressure() >= BUSY);
    let late = |lag: &Histogram| {
        let service = second.series.get(&Series::Service).cloned().unwrap_or_default();
        lag.quantile_nanos(0.99) > too_late(&service, LATE, LATE_SHARE)
    };
    pressed && second.series.get(&Series::Lag).is_some_and(late)
}

/// `busy 61 % of the time, waiting for a CPU 38 %`.
fn use_of(busy: Busy) -> String {
    format!("busy {} of the time, waiting for a CPU {}", share(busy.busy), share(busy.starved))
}

fn wanted_a_cpu(view: &View<'_>, busy: Busy) -> Option<String> {
    (busy.starved >= STARVED).then(|| {
        let who = if view.is_local() {
            "the target runs on this machine, and the two compete for its CPUs"
        } else {
            "something else on its machine used the CPU"
        };
        format!("for {} of the time it waited for a CPU: {who}", share(busy.starved))
    })
}
