//! Connections that the target shed: refused, aborted, or ended before they carried data.
//!
//! In: a run. Out: sentences. Such connections are no transactions, and in an open model possibly nothing was lost. But
//! the report has to show that the target received more requests than it served.

use handfast_report::units::{count, counted, nanos, share};

use super::view::{View, example};
use crate::cause::{Cause, Step};
use crate::plan::Model;
use crate::sample::{Failures, Series};

/// Share of the connections asked for that may be missing in a closed model.
const MISSING: f64 = 0.01;
/// Connections that were opened again, as a share of the exchanges, from which the evidence has a sentence about them.
const REOPENED: f64 = 0.01;
/// Share of arrivals that may wait for a connection to be opened before it is reported.
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
    let way = main.map_or("", |main| way(main.cause));
    Some(format!(
        "the target shed {} before they had carried any data{way}{how}. The generator paused, up to a second, before it tried again",
        counted(shed, "connection")
    ))
}

/// The way in which most of them were shed.
const fn way(cause: Cause) -> &'static str {
    match cause {
        Cause::Refused => ", mostly by refusing them",
        Cause::Reset => ", mostly by a reset",
        Cause::ClosedEarly | Cause::Truncated => ", mostly by closing them",
        Cause::Alert => ", mostly by an alert",
        Cause::Deadline | Cause::ConnectTimeout | Cause::ConnectTimedOut => {
            ", mostly by not answering in time"
        }
        _ => "",
    }
}

/// A closed model had fewer open connections than requested, because the target shed them.
pub(super) fn missing(view: &View<'_>) -> Option<String> {
    let required = u64::from(view.plan.connections);
    let most = view.seconds.iter().map(|second| second.tally.open).max()?;
    let few = most > 0 && (most as f64) < required as f64 * (1.0 - MISSING);
    let closed = view.plan.model == Model::Closed && view.plan.keeps_connections();
    (closed && few && view.totals.tally.shed > 0).then(|| {
        format!("of {} at most {} were open at the same time", counted(required, "connection"), count(most))
    })
}

/// Connections that were to stay open, and that the target ended after an answer (`Connection: close`, or so many requests each): connect and
/// handshake are then a part of the work.
pub(super) fn reopened(view: &View<'_>) -> Option<String> {
    let tally = &view.totals.tally;
    let stood = view.measured.iter().map(|second| second.tally.open).max().unwrap_or(0);
    let again = view.opened_connections().saturating_sub(stood.max(1));
    let often = again as f64 >= tally.exchanges.max(1) as f64 * REOPENED;
    (view.plan.keeps_connections() && often).then(|| {
        format!(
            "connections were to stay open, and the target ended them: {} were opened for {}, at most {} were open at the same time. \
             Opening them is in the rate",
            counted(view.opened_connections(), "connection"),
            counted(tally.exchanges, "exchange"),
            count(stood)
        )
    })
}

/// Share of the arrivals that waited for a connection to be opened.
pub(super) fn held(view: &View<'_>) -> f64 {
    let tally = &view.totals.tally;
    tally.held as f64 / (tally.transactions + tally.failed + tally.unserved).max(1) as f64
}

/// Returns true if waiting for connections to be opened explains the late transactions.
pub(super) fn explains_lag(view: &View<'_>) -> bool {
    held(view) >= HELD
}

/// Note about handshakes that are included in latencies.
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
