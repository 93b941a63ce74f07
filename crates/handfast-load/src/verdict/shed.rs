//! Connections that the target did not want: refused, broken off, or ended before they had carried anything.
//!
//! In: a run. Out: sentences. Such connections are no transactions, and in an open model nobody may have missed them; but
//! whoever reads the figures should know that the target was asked for more than it gave.

use handfast_report::units::{count, counted, nanos, share};

use super::{View, example};
use crate::cause::{Cause, Step};
use crate::plan::Model;
use crate::sample::{Failures, Series};

/// Share of the connections asked for that may be missing in a closed model.
const MISSING: f64 = 0.01;
/// Share of arrivals that may wait for a connection to be opened before it is told.
const HELD: f64 = 0.01;

/// The sentence, when there were any.
pub(super) fn evidence(view: &View<'_>) -> Option<String> {
    let shed = view.totals.tally.shed;
    if shed == 0 {
        return None;
    }
    let may_be = |failures: &&Failures| match (failures.step, failures.cause) {
        (Step::Connect | Step::Handshake, _) => true,
        (Step::Exchange, cause) => {
            matches!(cause, Cause::ClosedEarly | Cause::Truncated | Cause::Reset | Cause::Alert)
        }
        (Step::Close, _) => false,
    };
    let main = view.totals.failures.iter().filter(may_be).max_by_key(|failures| failures.count);
    let how = main.map_or_else(String::new, |main| {
        let times = counted(main.count, "time");
        format!(" ({} {}: {times}{})", main.step.name(), main.cause.name(), example(main))
    });
    Some(format!(
        "the target shed {}: refused, reset or closed before they had carried any data{how}. The generator paused, up to a second, before it tried again",
        counted(shed, "connection")
    ))
}

/// A closed model asked for so many connections, and fewer stood because the target shed them.
pub(super) fn missing(view: &View<'_>) -> Option<String> {
    let wanted = u64::from(view.plan.connections);
    let most = view.seconds.iter().map(|second| second.tally.open).max()?;
    let few = most > 0 && (most as f64) < wanted as f64 * (1.0 - MISSING);
    let closed = view.plan.model == Model::Closed && view.plan.keeps_connections();
    (closed && few && view.totals.tally.shed > 0).then(|| {
        format!("of {} at most {} were open at the same time", counted(wanted, "connection"), count(most))
    })
}

/// Share of the arrivals that waited for a connection to be opened.
pub(super) fn held(view: &View<'_>) -> f64 {
    let tally = &view.totals.tally;
    tally.held as f64 / (tally.transactions + tally.failed + tally.unserved).max(1) as f64
}

/// Whether waiting for connections to be opened explains what came late.
pub(super) fn explains_lag(view: &View<'_>) -> bool {
    held(view) >= HELD
}

/// What a reader of latencies should know of handshakes that are in them.
pub(super) fn openings(view: &View<'_>) -> Option<String> {
    explains_lag(view).then(|| {
        let handshake = view.totals.series.get(&Series::Handshake);
        let took = handshake.map_or_else(String::new, |samples| {
            format!(" (handshake p50 {})", nanos(samples.quantile_nanos(0.5)))
        });
        format!(
            "{} of the arrivals waited for a new connection{took}, which is in their latencies: more were needed at the same time than were open",
            share(held(view))
        )
    })
}
