//! Judges whether a run's figures describe the target, or another bottleneck.
//!
//! In: an [`Outcome`]. Out: one word, and why, with figures. Each question below is independent; the
//! first one with a finding gives the word, in this order:
//!
//! 1. a worker was lost: the load was less than requested, and the word is never about the target;
//! 2. source ports ran out, or the generator's descriptors or memory: nothing else was measured;
//! 3. errors: the latencies are only those of successful transactions;
//! 4. the generator: its own CPU or its lateness is in the figures (`verdict/room.rs`);
//! 5. the target: less was taken than was offered (open and ramp models; a closed loop follows its target), and the
//!    generator had room.
//!
//! With every word, seconds in which nothing ended are reported, and the times of errors (`verdict/stall.rs`).
//!
//! The decision about the target leaves out the first and the last second. Sentences have the figures of the whole
//! run, which are those of the headline, and say it where the decision was made on others.

use handfast_report::model::{Ports, Verdict, VerdictWord};
use handfast_report::units::{count, counted, nanos, rate, share};

use crate::cause::Cause;
use crate::outcome::Outcome;
use crate::plan::{Arrivals, Close, Model, Work};
use crate::sample::{Failures, Series};

mod room;
mod shed;
mod stall;
mod view;

pub(crate) use stall::stalled;
pub(crate) use view::{Busy, Lost, View, addresses};
use view::{Finding, example};

/// Share of failed transactions from which latencies mean nothing.
const ERRORS: f64 = 0.01;
/// Share of the offered rate that must be reached.
const REACHED: f64 = 0.97;
/// Arrivals by which even distances differ from the rate in a part of the run.
const EVEN: f64 = 2.0;
/// Difference of two shares that a sentence has to explain.
const NOTICEABLE: f64 = 0.005;
/// Share of arrivals that may find every connection in use.
const QUEUED: f64 = 0.01;
/// Share of connections from which it is reported that they could not be closed as the plan says …
const BADLY_CLOSED: f64 = 0.01;
/// … and from which nothing else was measured.
const NEVER_CLOSED: f64 = 0.5;
/// Lost workers that are named.
const NAMED: usize = 3;
/// Share of all CPUs from which on a sentence reports a fully loaded machine.
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

/// Judges a run. `ports`: the arithmetic of its source ports.
pub fn judge(outcome: &Outcome, ports: Option<&Ports>) -> Verdict {
    let view = View::of(outcome);
    let generator = exhausted(&view).or_else(|| room::generator(&view));
    let lost = lost(&view);
    // The target is the cause only if the generator was complete and not late.
    let target = if generator.is_none() && lost.is_none() { target(&view) } else { None };
    let found = [lost, out_of_ports(&view, ports), errors(&view), generator, target];
    let found: Vec<Finding> = found.into_iter().flatten().collect();
    let word = found.first().map_or(VerdictWord::Valid, |first| first.word);
    let mut evidence: Vec<String> = found.into_iter().flat_map(|finding| finding.evidence).collect();
    if word == VerdictWord::Valid {
        evidence = valid(&view);
    }
    let stalls = stall::sentence(&view);
    // Stalls come first for a closed loop, which hides them; in other models the figures show them.
    match (word, &view.plan.model) {
        (VerdictWord::Valid, Model::Closed) => evidence.splice(0..0, stalls).for_each(drop),
        _ => evidence.extend(stalls),
    }
    evidence.extend(shed::evidence(&view));
    evidence.extend(shed::reopened(&view));
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
        1 => "the only worker was lost, so the load was less than requested".to_owned(),
        _ if gone == all => format!("all {all} workers were lost, so the load was less than requested"),
        _ => format!(
            "a part of the generator was lost, {gone} of {all} workers, and with it {} of the load: the figures describe the \
             target under less load than requested",
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
        evidence.push(format!("and {} more", counted((gone - NAMED) as u64, "worker")));
    }
    Some(Finding { word: VerdictWord::GeneratorLimited, evidence })
}

/// Failures of one cause: how many, and whether they are what is to be said of this run.
fn caused<'o>(view: &View<'o>, causes: &[Cause]) -> Option<(u64, &'o Failures)> {
    let mine = |failures: &&Failures| causes.contains(&failures.cause);
    let failures = &view.totals.failures;
    let found: u64 = failures.iter().filter(mine).map(|failures| failures.count).sum();
    let all: u64 = failures.iter().map(|failures| failures.count).sum();
    let greatest = failures.iter().filter(mine).max_by_key(|failures| failures.count)?;
    // Many failures of other causes are more important than these few.
    (found > 0 && (found * 2 >= all || view.failed_share() < ERRORS)).then_some((found, greatest))
}

fn out_of_ports(view: &View<'_>, ports: Option<&Ports>) -> Option<Finding> {
    let (failed, _) = caused(view, &[Cause::OutOfPorts])?;
    let mut evidence = vec![format!(
        "{} could not be opened because no source port was free",
        counted(failed, "connection")
    )];
    evidence.extend(ports.map(|ports| ports.sentence.clone()));
    Some(Finding { word: VerdictWord::PortLimited, evidence })
}

/// The generator's process or machine ran out of resources.
fn exhausted(view: &View<'_>) -> Option<Finding> {
    let (failed, greatest) = caused(view, &[Cause::OutOfFiles, Cause::OutOfMemory])?;
    let what = format!(
        "{} failed because the generator ran out of {}{}",
        counted(failed, "connection"),
        if greatest.cause == Cause::OutOfFiles { "file descriptors (ulimit -n)" } else { "memory" },
        example(greatest)
    );
    Some(Finding { word: VerdictWord::GeneratorLimited, evidence: vec![what] })
}

fn errors(view: &View<'_>) -> Option<Finding> {
    let tally = &view.totals.tally;
    let all = tally.transactions + tally.failed;
    let nothing = match view.plan.work {
        // They last until the run ends: success means that they were open.
        Work::Bulk { .. } | Work::Idle { .. } => tally.full + tally.resumed == 0,
        _ => tally.transactions == 0,
    };
    let mut evidence = Vec::new();
    if nothing && (tally.failed > 0 || view.lost.is_empty()) {
        evidence.push(match tally.failed {
            0 => nothing_ended(view),
            failed => format!("no transaction succeeded; {} failed", count(failed)),
        });
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
            let times = counted(failures.count, "time");
            format!("{} {}: {times}{}", failures.step.name(), failures.cause.name(), example(failures))
        };
        evidence.extend(kinds.iter().take(3).map(kind));
        evidence.extend(stall::when_errors_came(view));
    }
    evidence.extend(shed::missing(view));
    if is_never_closed(view) {
        evidence.extend(closing(view));
    }
    (!evidence.is_empty()).then_some(Finding { word: VerdictWord::Errors, evidence })
}

/// Explains why there is nothing to judge, where nothing failed either.
fn nothing_ended(view: &View<'_>) -> String {
    let length = format!("{:.1} s", view.length);
    match (view.offered_rate(), view.totals.tally.unserved) {
        (None, _) => {
            format!("no transaction finished within {length}, and none failed (hint: a longer --duration)")
        }
        (Some(_), unserved @ 1..) => {
            format!("none of the {} due within {length} started", counted(unserved, "transaction"))
        }
        (Some(offered), 0) => format!(
            "no transaction was due within {length}: {} makes {:.2} of them on average (hint: a longer --duration, or a \
             higher --rate)",
            rate(offered),
            offered * view.length
        ),
    }
}

/// Returns true if so many connections were not closed cleanly that waiting for the close is what was measured. A target that resets
/// after our own end does no harm: the answer was complete, and nothing waited.
fn is_never_closed(view: &View<'_>) -> bool {
    view.badly_closed().is_some_and(|(part, greatest)| {
        let harms = view.plan.close == Close::Server || greatest.cause == Cause::Deadline;
        part >= NEVER_CLOSED && harms
    })
}

/// Connections that could not be closed as the plan says, and the cure.
fn closing(view: &View<'_>) -> Option<String> {
    let (part, greatest) = view.badly_closed().filter(|(part, _)| *part >= BADLY_CLOSED)?;
    let hint = match (view.plan.close, greatest.cause == Cause::Deadline) {
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
        counted(greatest.count, "time"),
        greatest.cause.name(),
        example(greatest)
    ))
}

fn target(view: &View<'_>) -> Option<Finding> {
    let mut evidence = Vec::new();
    // The limit on connections comes first.
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
    evidence.extend(room::had_room(view));
    Some(Finding { word: VerdictWord::TargetLimited, evidence })
}

/// Fewer ended than were offered, beyond what chance explains.
fn shortage(view: &View<'_>) -> Option<String> {
    let (ended, expected) = (view.ended(), view.expected()?);
    let offered = view.offered_rate()?;
    // Transactions that a stall delayed and the end of the run made up for count as handled.
    let taken = view.rate() + view.totals.tally.failed as f64 / view.length.max(f64::MIN_POSITIVE);
    if !is_short(view, ended, expected) || taken >= offered * REACHED {
        return None;
    }
    let what = format!(
        "{} were offered and {} were handled ({}{})",
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
        (Model::Open { .. }, Some([first, _])) if view.plan.model.only_rate().is_none() => {
            let at = rate(view.expected_in(first).unwrap_or(0.0));
            Some(format!("{what}; it fell behind in second {}, at {at}", first.second))
        }
        _ => Some(what),
    }
}

/// Names the share that the decision was based on, if it is another one than the whole run's.
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
        // The number in the whole run is exact, that in a part of it is binomial.
        Model::Open { arrivals: Arrivals::Poisson, .. } => {
            let part = expected / view.due().unwrap_or_default().max(f64::MIN_POSITIVE);
            3.0 * (expected * (1.0 - part).max(0.0)).sqrt() + EVEN
        }
        _ => EVEN,
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
            unserved => format!(", and {} never started", count(unserved)),
        };
        if tally.queued == 0 {
            let (unserved, of) = (count(tally.unserved), counted(arrivals, "arrival"));
            return format!("{unserved} of {of} never started: no connection was free for them in time");
        }
        let were = if view.plan.connections == 1 { "was" } else { "were" };
        format!(
            "{} of {} arrivals ({}) waited because {} {were} in use{never}: a faster target frees them sooner, and more of them (--connections) help if the target can handle more at the same time",
            count(tally.queued),
            count(arrivals),
            share(part),
            counted(view.plan.connections.into(), "connection")
        )
    })
}

/// The evidence for reliable figures.
fn valid(view: &View<'_>) -> Vec<String> {
    let mut evidence = Vec::new();
    // Only the open models expect something.
    if let Some(expected) = view.expected() {
        let offered = view.offered_rate().unwrap_or_default();
        let reached = if offered > 0.0 { (view.rate() / offered).min(1.0) } else { 1.0 };
        let decisive = if expected > 0.0 { view.ended() / expected } else { 1.0 };
        let p99 = nanos(view.whole(Series::Lag, 0.99));
        let (taken, offered) = (rate(view.rate()), rate(offered));
        evidence.push(format!(
            "{} of the offered rate was reached ({taken} of {offered}{}); schedule lag p99 {p99}",
            share(reached),
            decided_on(view, decisive)
        ));
        evidence.extend(room::late_all_the_same(view));
        evidence.extend(shed::openings(view));
    }
    evidence.extend(room::pauses(view));
    evidence.extend(room::had_room(view));
    let tally = &view.totals.tally;
    evidence.push(match tally.failed {
        0 => format!("none of {} failed", counted(tally.transactions, "transaction")),
        failed => format!("{} failed ({})", counted(failed, "transaction"), share(view.failed_share())),
    });
    evidence.extend(stall::when_errors_came(view));
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

/// Counters of the generators' kernels that explain what was found.
fn kernel(view: &View<'_>) -> Vec<String> {
    let place = if view.is_local() { "this machine, the target's too" } else { "the generator's machine" };
    let sentence = |(name, meaning): &(&str, &str)| {
        let moved = u64::try_from(view.moved(name)).ok().filter(|moved| *moved > 0)?;
        Some(format!("on {place}: {} {meaning} ({name})", count(moved)))
    };
    TELLING.iter().filter_map(sentence).collect()
}

#[cfg(test)]
mod tests;
