//! What a run's figures are worth: the target's own, or those of whatever else was at its limit.
//!
//! In: an [`Outcome`]. Out: one word, and why, with figures. Each question below looks at the run by itself; the
//! first one that finds something gives the word, in the order of what explains most:
//!
//! 1. a worker was lost: less load was made than was asked for, and the word is never about the target;
//! 2. source ports ran out, or the generator's descriptors or memory: nothing else was measured;
//! 3. errors: the latencies are those of the lucky;
//! 4. the generator: its own CPU or its lateness is in the figures;
//! 5. the target: less was taken than was offered (open and ramp models; a closed loop follows its target).
//!
//! The decision about the target leaves out the first and the last second. Sentences have the figures of the whole
//! run, which are those of the headline, and say it where the decision was made on others.

use handfast_report::model::{Ports, Verdict, VerdictWord};
use handfast_report::units::{count, nanos, rate, share};
use handfast_stats::Histogram;

use crate::outcome::Outcome;
use crate::plan::{Arrivals, Close, Model, Work};
use crate::sample::{Failures, Interval, Series};
use crate::words::things;

mod shed;
mod view;

pub(crate) use view::{Busy, Lost, View, addresses};

/// Share of failed transactions from which latencies mean nothing.
const ERRORS: f64 = 0.01;
/// Share of wall time from which a thread in a closed loop sets the pace itself.
const PACE: f64 = 0.97;
/// Share of wall time from which a thread's lateness is its own doing.
const BUSY: f64 = 0.9;
/// The cause's word of a step that took longer than `--timeout`.
const DEADLINE: &str = "deadline";
/// Lateness that nobody minds, in nanoseconds …
const LATE: u64 = 1_000_000;
/// … and as a share of the median that is measured; the greater of both counts.
const LATE_SHARE: f64 = 0.1;
/// Lateness with idle threads from which the figures are no longer the target's: ten times as much.
const VERY_LATE: u64 = 10_000_000;
const VERY_LATE_SHARE: f64 = 0.5;
/// Share of the offered rate that must be reached.
const REACHED: f64 = 0.97;
/// Difference of two shares that would puzzle a reader.
const NOTICEABLE: f64 = 0.005;
/// Share of arrivals that may find every connection in use.
const QUEUED: f64 = 0.01;
/// Share of connections from which it is told that they could not be closed as the plan says …
const BADLY_CLOSED: f64 = 0.01;
/// … and from which nothing else was measured.
const NEVER_CLOSED: f64 = 0.5;
/// Lost workers that are named.
const NAMED: usize = 3;
/// Share of CPU time from which waiting for one is worth a sentence.
const STARVED: f64 = 0.05;
/// Share of the time without a CPU from which the latencies of a closed loop are the machine's and not the target's.
const HELD_UP: f64 = 0.2;
/// Share of all CPUs from which it is said that the machine was full.
const FULL: f64 = 0.95;

/// Counters of the kernel that explain a slow or failing target, and what they mean.
const TELLING: [(&str, &str); 9] = [
    ("ListenOverflows", "connections found a listener's queue full"),
    ("TCPReqQFullDrop", "SYNs were dropped because a listener's SYN queue was full"),
    ("TCPReqQFullDoCookies", "SYNs were answered with cookies because a listener's SYN queue was full"),
    ("TCPSynRetrans", "SYNs were sent again"),
    ("TCPTimeouts", "retransmission timers ran out"),
    ("TCPBacklogDrop", "segments were dropped because a socket's backlog was full"),
    ("TCPTimeWaitOverflow", "pairs did not get their TIME_WAIT (tcp_max_tw_buckets)"),
    ("TCPAbortOnMemory", "connections were ended for lack of TCP memory"),
    ("TCPMemoryPressures", "times TCP memory became short"),
];

/// What one question found.
#[derive(Debug)]
struct Finding {
    word: VerdictWord,
    evidence: Vec<String>,
}

/// Judges a run. `ports`: the arithmetic of its source ports.
pub fn judge(outcome: &Outcome, ports: Option<&Ports>) -> Verdict {
    let view = View::of(outcome);
    let generator = exhausted(&view).or_else(|| generator(&view));
    let lost = lost(&view);
    // A target is blamed only by a generator that was whole and not late itself.
    let target = if generator.is_none() && lost.is_none() { target(&view) } else { None };
    let found = [lost, out_of_ports(&view, ports), errors(&view), generator, target];
    let found: Vec<Finding> = found.into_iter().flatten().collect();
    let word = found.first().map_or(VerdictWord::Valid, |first| first.word);
    let mut evidence: Vec<String> = found.into_iter().flat_map(|finding| finding.evidence).collect();
    if word == VerdictWord::Valid {
        evidence = valid(&view);
    }
    evidence.extend(shed::evidence(&view));
    if !is_never_closed(&view) {
        evidence.extend(closing(&view));
    }
    if word != VerdictWord::Valid {
        evidence.extend(kernel(&view));
    }
    Verdict { word, evidence }
}

/// A part of the generator was lost, and with it a part of the load.
fn lost(view: &View<'_>) -> Option<Finding> {
    if view.lost.is_empty() {
        return None;
    }
    let (gone, all) = (view.lost.len(), view.workers());
    let what = match all {
        1 => "the only worker was lost, so the load was not what was asked for".to_owned(),
        _ if gone == all => format!("all {all} workers were lost, so the load was not what was asked for"),
        _ => format!(
            "a part of the generator was lost, {gone} of {all} workers, and with it {} of the load: what is said of the \
             target is said of less than was asked for",
            share(gone as f64 * view.part())
        ),
    };
    let named = view.lost.iter().take(NAMED).map(|lost| {
        let when =
            lost.from.map_or("after its last second".to_owned(), |from| format!("from second {from} on"));
        format!("{} was lost {when}: {}", lost.name, lost.why)
    });
    let mut evidence: Vec<String> = std::iter::once(what).chain(named).collect();
    if gone > NAMED {
        evidence.push(format!("and {} more", things((gone - NAMED) as u64, "worker")));
    }
    Some(Finding { word: VerdictWord::GeneratorLimited, evidence })
}

/// Failures of one cause: how many, and whether they are what is to be said of this run.
fn caused<'o>(view: &View<'o>, causes: &[&str]) -> Option<(u64, &'o Failures)> {
    let mine = |failures: &&Failures| causes.contains(&failures.cause.as_str());
    let failures = &view.totals.failures;
    let found: u64 = failures.iter().filter(mine).map(|failures| failures.count).sum();
    let all: u64 = failures.iter().map(|failures| failures.count).sum();
    let greatest = failures.iter().filter(mine).max_by_key(|failures| failures.count)?;
    // When others are many and these are few, those are the story.
    (found > 0 && (found * 2 >= all || view.failed_share() < ERRORS)).then_some((found, greatest))
}

fn out_of_ports(view: &View<'_>, ports: Option<&Ports>) -> Option<Finding> {
    let (failed, _) = caused(view, &["out-of-ports"])?;
    let mut evidence =
        vec![format!("{} could not be made for want of a source port", things(failed, "connection"))];
    evidence.extend(ports.map(|ports| ports.sentence.clone()));
    Some(Finding { word: VerdictWord::PortLimited, evidence })
}

/// The generator's process or machine had no more to give.
fn exhausted(view: &View<'_>) -> Option<Finding> {
    let (failed, greatest) = caused(view, &["out-of-files", "out-of-memory"])?;
    let what = format!(
        "{} failed because the generator ran out of {}{}",
        things(failed, "connection"),
        if greatest.cause == "out-of-files" { "file descriptors (ulimit -n)" } else { "memory" },
        example(greatest)
    );
    Some(Finding { word: VerdictWord::GeneratorLimited, evidence: vec![what] })
}

fn example(failures: &Failures) -> String {
    failures.examples.first().map_or_else(String::new, |example| format!(", for instance: {example}"))
}

fn errors(view: &View<'_>) -> Option<Finding> {
    let tally = &view.totals.tally;
    let all = tally.transactions + tally.failed;
    let nothing = match view.plan.work {
        // They last until the run ends: what counts is that they stood.
        Work::Bulk { .. } | Work::Idle { .. } => tally.full + tally.resumed == 0,
        _ => tally.transactions == 0,
    };
    let mut evidence = Vec::new();
    if nothing && (tally.failed > 0 || view.lost.is_empty()) {
        evidence.push(format!("no transaction ended well; {} failed", count(tally.failed)));
    } else if view.failed_share() >= ERRORS {
        evidence.push(format!(
            "{} of the transactions failed ({} of {})",
            share(view.failed_share()),
            count(tally.failed),
            count(all)
        ));
    }
    if !evidence.is_empty() {
        let mut kinds: Vec<&Failures> = view.totals.failures.iter().collect();
        kinds.sort_by_key(|failures| std::cmp::Reverse(failures.count));
        let kind = |failures: &&Failures| {
            let times = things(failures.count, "time");
            format!("{} {}: {times}{}", failures.step, failures.cause, example(failures))
        };
        evidence.extend(kinds.iter().take(3).map(kind));
    }
    evidence.extend(shed::missing(view));
    if is_never_closed(view) {
        evidence.extend(closing(view));
    }
    (!evidence.is_empty()).then_some(Finding { word: VerdictWord::Errors, evidence })
}

/// Whether so many connections did not end as they should that waiting for it is what was measured. A target that
/// resets after our own end does no harm: the answer was there, and nothing waited.
fn is_never_closed(view: &View<'_>) -> bool {
    view.badly_closed().is_some_and(|(part, greatest)| {
        let harms = view.plan.close == Close::Server || greatest.cause == DEADLINE;
        part >= NEVER_CLOSED && harms
    })
}

/// Connections that could not be closed as the plan says, and the cure.
fn closing(view: &View<'_>) -> Option<String> {
    let (part, greatest) = view.badly_closed().filter(|(part, _)| *part >= BADLY_CLOSED)?;
    let hint = match (view.plan.close, greatest.cause == DEADLINE) {
        (Close::Server, true) => {
            " (hint: this target does not end connections by itself: with --close notify we end them)"
        }
        (Close::Server, false) => " (hint: with --close notify we end them)",
        (Close::Notify | Close::Fin, true) => {
            " (hint: the target does not end after we have: --close reset waits for nothing)"
        }
        _ => "",
    };
    Some(format!(
        "{} of the connections could not be closed as --close {} says: {} {}{}{hint}",
        share(part),
        view.plan.close.name(),
        things(greatest.count, "time"),
        greatest.cause,
        example(greatest)
    ))
}

fn generator(view: &View<'_>) -> Option<Finding> {
    let busiest = view.busiest();
    let evidence = match view.plan.model {
        Model::Closed => pace(view, busiest?)?,
        Model::Open { .. } | Model::Ramp { .. } => lateness(view, busiest)?,
    };
    Some(Finding { word: VerdictWord::GeneratorLimited, evidence })
}

/// Closed loop: a thread that never waits for its target measures itself; and one that waits for a CPU counts that as
/// the target's time.
fn pace(view: &View<'_>, busiest: Busy) -> Option<Vec<String>> {
    let what = if busiest.pressure() >= PACE {
        format!(
            "the busiest generator thread was never idle ({}), so the figures are the generator's own",
            use_of(busiest)
        )
    } else if busiest.starved >= HELD_UP {
        format!(
            "the busiest generator thread was held up ({}), and its waiting is in the latencies",
            use_of(busiest)
        )
    } else {
        return None;
    };
    let mut evidence = vec![what];
    evidence.extend(starved(view, busiest));
    evidence.push(
        "give the generator a core or a machine of its own, or a --rate below what both can do together"
            .into(),
    );
    Some(evidence)
}

/// Open model: transactions that begin late because of the generator carry its delay in their figures.
fn lateness(view: &View<'_>, busiest: Option<Busy>) -> Option<Vec<String>> {
    let lag = view.merged(Series::Lag);
    let service = view.merged(Series::Service);
    let p99 = lag.quantile_nanos(0.99);
    if p99 <= too_late(&service, LATE, LATE_SHARE) {
        return None;
    }
    let late = format!(
        "transactions began late: schedule lag p99 {} (p50 of the service itself: {})",
        nanos(p99),
        nanos(service.quantile_nanos(0.5))
    );
    let full_seconds = view.seconds.iter().filter(|second| is_saturated(second)).count();
    let always = busiest.filter(|busiest| busiest.pressure() >= BUSY);
    let why = match (always, full_seconds) {
        (Some(busiest), _) => {
            format!("the busiest generator thread had hardly a pause ({})", use_of(busiest))
        }
        (None, 1..) => {
            let seconds = things(full_seconds as u64, "second");
            let of = things(view.seconds.len() as u64, "second");
            let without = if view.is_trimmed() { " (the first and the last are left out)" } else { "" };
            format!("a generator thread had hardly a pause in {seconds} of the {of} looked at{without}")
        }
        // Idle, and late: the machine or its hypervisor held it up. Unless it waited for a free connection.
        (None, 0)
            if view.waited() == 0
                && !shed::explains_lag(view)
                && p99 > too_late(&service, VERY_LATE, VERY_LATE_SHARE) =>
        {
            "its threads had time enough: the machine or its hypervisor held them up".to_owned()
        }
        (None, 0) => return None,
    };
    let mut evidence = vec![why, late];
    evidence.extend(busiest.and_then(|busiest| starved(view, busiest)));
    Some(evidence)
}

fn too_late(service: &Histogram, least: u64, part: f64) -> u64 {
    least.max((service.quantile_nanos(0.5) as f64 * part) as u64)
}

/// Whether a thread had no pause in this second, and was late in it.
fn is_saturated(second: &Interval) -> bool {
    let pressed = second.threads.iter().filter_map(Busy::of).any(|busy| busy.pressure() >= BUSY);
    let late = |lag: &Histogram| {
        let service = second.series.get(&Series::Service).cloned().unwrap_or_default();
        lag.quantile_nanos(0.99) > too_late(&service, LATE, LATE_SHARE)
    };
    pressed && second.series.get(&Series::Lag).is_some_and(late)
}

/// `busy 61 %, ready without a CPU 38 %`.
fn use_of(busy: Busy) -> String {
    format!("busy {} of the time, ready and without a CPU {}", share(busy.busy), share(busy.starved))
}

fn starved(view: &View<'_>, busiest: Busy) -> Option<String> {
    (busiest.starved >= STARVED).then(|| {
        let who = if view.is_local() {
            "the target runs on this machine, and the two took the CPU from each other"
        } else {
            "something else on its machine used the CPU"
        };
        format!("for {} of the time it wanted a CPU and had none: {who}", share(busiest.starved))
    })
}

fn target(view: &View<'_>) -> Option<Finding> {
    let mut evidence = Vec::new();
    // Who did not allow more at once is the first to ask.
    evidence.extend(waited(view));
    evidence.extend(shortage(view));
    if evidence.is_empty() {
        return None;
    }
    evidence.extend(view.growth().map(|(first, last)| {
        let main = view.plan.main_series().name();
        format!(
            "the latencies grew with the length of the run: {main} p50 was {} in its first quarter and {} in its last",
            nanos(first),
            nanos(last)
        )
    }));
    if let Some(busiest) = view.busiest() {
        evidence.push(format!("the generator had room: its busiest thread was {}", use_of(busiest)));
    }
    Some(Finding { word: VerdictWord::TargetLimited, evidence })
}

/// Fewer ended than were offered, beyond what chance explains.
fn shortage(view: &View<'_>) -> Option<String> {
    let (ended, expected) = (view.ended(), view.expected()?);
    if !is_short(view, ended, expected) {
        return None;
    }
    let offered = view.offered_rate()?;
    let what = format!(
        "{} were offered and {} were taken ({}{})",
        rate(offered),
        rate(view.rate()),
        share(view.rate() / offered.max(f64::MIN_POSITIVE)),
        decided_on(view, ended / expected)
    );
    let fell_behind = view.seconds.windows(2).find(|pair| {
        pair.iter().all(|second| {
            let expected = view.expected_in(second);
            expected.is_some_and(|expected| is_short(view, view.ended_in(second), expected))
        })
    });
    match (&view.plan.model, fell_behind) {
        (Model::Ramp { .. }, Some([first, _])) => {
            let at = rate(view.expected_in(first).unwrap_or(0.0));
            Some(format!("{what}; it fell behind in second {}, at {at}", first.second))
        }
        _ => Some(what),
    }
}

/// What the decision was made on, when that is another share than the whole run's.
fn decided_on(view: &View<'_>, decisive: f64) -> String {
    let whole = view.offered_rate().map_or(1.0, |offered| view.rate() / offered.max(f64::MIN_POSITIVE));
    let decisive = decisive.min(1.0);
    if (whole.min(1.0) - decisive).abs() < NOTICEABLE {
        return String::new();
    }
    let why = if view.is_trimmed() {
        "without the first and the last second, and with what was still under way"
    } else {
        "with what was still under way"
    };
    format!("; {why}: {}", share(decisive))
}

fn is_short(view: &View<'_>, ended: f64, expected: f64) -> bool {
    let chance = match view.plan.model {
        Model::Open { arrivals: Arrivals::Poisson, .. } | Model::Ramp { arrivals: Arrivals::Poisson, .. } => {
            3.0 * expected.sqrt()
        }
        _ => 2.0,
    };
    ended < expected * REACHED - chance
}

/// Arrivals found every connection in use, or found no time any more.
fn waited(view: &View<'_>) -> Option<String> {
    let tally = &view.totals.tally;
    let arrivals = tally.transactions + tally.failed + tally.unserved;
    let part = view.waited() as f64 / arrivals.max(1) as f64;
    (part >= QUEUED).then(|| {
        let never = match tally.unserved {
            0 => String::new(),
            unserved => format!(", and {} never began", count(unserved)),
        };
        if tally.queued == 0 {
            let (unserved, of) = (count(tally.unserved), things(arrivals, "arrival"));
            return format!("{unserved} of {of} never began: no connection was free for them in time");
        }
        let were = if view.plan.connections == 1 { "was" } else { "were" };
        format!(
            "{} of {} arrivals ({}) waited because {} {were} in use{never}: a quicker target frees them sooner, and more \
             of them (--connections) help if the target can take more at once",
            count(tally.queued),
            count(arrivals),
            share(part),
            things(view.plan.connections.into(), "connection")
        )
    })
}

/// Why nothing speaks against the figures.
fn valid(view: &View<'_>) -> Vec<String> {
    let mut evidence = Vec::new();
    let busiest = view.busiest();
    // Only the open models expect something.
    if let Some(expected) = view.expected() {
        let offered = view.offered_rate().unwrap_or_default();
        let reached = if offered > 0.0 { (view.rate() / offered).min(1.0) } else { 1.0 };
        let decisive = if expected > 0.0 { view.ended() / expected } else { 1.0 };
        let lag = view.merged(Series::Lag);
        let p99 = nanos(lag.quantile_nanos(0.99));
        let (taken, offered) = (rate(view.rate()), rate(offered));
        evidence.push(format!(
            "{} of the offered rate was reached ({taken} of {offered}{}); schedule lag p99 {p99}",
            share(reached),
            decided_on(view, decisive)
        ));
        evidence.extend(late_all_the_same(view, &lag));
        evidence.extend(shed::openings(view));
    }
    evidence.extend(
        busiest.map(|busiest| format!("the generator had room: its busiest thread was {}", use_of(busiest))),
    );
    let tally = &view.totals.tally;
    evidence.push(match tally.failed {
        0 => format!("none of {} failed", things(tally.transactions, "transaction")),
        failed => format!("{} failed ({})", things(failed, "transaction"), share(view.failed_share())),
    });
    if let Some(machine) = view.machine().filter(|machine| *machine >= FULL) {
        let shared = if view.is_local() {
            ": generator and target shared it, and its limit is in the figures"
        } else {
            ""
        };
        evidence.push(format!("the CPUs of the generator's machine were {} busy{shared}", share(machine)));
    }
    evidence
}

/// Lag that is too small to condemn a run, and too great to keep silent about.
fn late_all_the_same(view: &View<'_>, lag: &Histogram) -> Option<String> {
    let service = view.merged(Series::Service);
    (lag.quantile_nanos(0.99) > too_late(&service, LATE, LATE_SHARE)).then(|| {
        "the lag is noticeable beside the latencies, which contain it: `service` is without it".to_owned()
    })
}

/// Counters of the generators' kernels that explain what was found.
fn kernel(view: &View<'_>) -> Vec<String> {
    let place = if view.is_local() { "this machine, the target's too" } else { "the generator's machine" };
    let told = |(name, meaning): &(&str, &str)| {
        let moved = u64::try_from(view.moved(name)).ok().filter(|moved| *moved > 0)?;
        Some(format!("on {place}: {} {meaning} ({name})", count(moved)))
    };
    TELLING.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests;
