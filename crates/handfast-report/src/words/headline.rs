//! Results in a few lines or tiles: of a run that is judged by its transactions, its bytes, or its open connections.
//!
//! In: a report. Out: sentences for the text, figures with their names for the page.

use super::{decided, failed, main_series, per_second, percentile};
use crate::model::Report;
use crate::plan::Work;
use crate::units::{bytes, count, nanos, rate, share};

/// Kind of a run, by the figures that it is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunKind {
    /// Transactions a second, and how long they took.
    Transactions,
    /// Bytes a second, on open connections.
    Bulk,
    /// Number of open connections.
    Idle,
}

impl RunKind {
    /// Returns the kind by the run's plan; without one, transactions.
    pub(crate) fn of(report: &Report) -> Self {
        match report.plan().map(|plan| &plan.work) {
            Some(Work::Bulk { .. }) => Self::Bulk,
            Some(Work::Idle { .. }) => Self::Idle,
            Some(Work::Handshake | Work::Exchange { .. } | Work::Http { .. }) | None => Self::Transactions,
        }
    }
}

/// Outcome of connections that were to stay open and idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stood {
    /// Requested number.
    pub(crate) required: u64,
    /// Connections that were open when the measured part ended.
    pub(crate) at_end: u64,
    /// Connections that were opened, and were gone before the end.
    pub(crate) lost: u64,
    /// Connections that were tried, and never opened.
    pub(crate) refused: u64,
}

impl Stood {
    /// Each one is tried once. One that stood is counted as a transaction; one that was lost later as a failure besides.
    /// The gauge of the last second tells nothing: it is read while they are closed.
    pub(crate) fn of(report: &Report) -> Self {
        let (well, failed) = (report.totals.transactions, report.totals.failed);
        let required = report.plan().map_or(well, |plan| plan.connections.into());
        let lost = well.saturating_add(failed).saturating_sub(required).min(failed).min(well);
        Self { required, at_end: well - lost, lost, refused: failed - lost }
    }

    /// `4 were lost, 6 could not be opened`; empty when all of them stood.
    fn missing(self) -> String {
        let untried = self.required.saturating_sub(self.at_end + self.lost + self.refused);
        let were = |number: u64| if number == 1 { "was" } else { "were" };
        let parts = [
            (self.lost, format!("{} lost", were(self.lost))),
            (self.refused, "could not be opened".to_owned()),
            (untried, format!("{} not tried in time", were(untried))),
        ];
        let shown = parts.iter().filter(|(number, _)| *number > 0);
        let shown = shown.map(|(number, what)| format!("{} {what}", count(*number)));
        shown.collect::<Vec<_>>().join(", ")
    }

    /// `1,000 of 1,000 connections stood at the end, none was lost`.
    fn sentence(self) -> String {
        let stood = format!(
            "{} of {} connections were open at the end of the measured part",
            count(self.at_end),
            count(self.required)
        );
        match self.missing() {
            none if none.is_empty() => format!("{stood}, none was lost"),
            some => format!("{stood}: {some}"),
        }
    }
}

/// Application bytes a second over the measured part, of a count of them.
pub(crate) fn bytes_a_second(report: &Report, number: u64) -> String {
    let each = number as f64 / report.totals.duration_seconds.max(0.001);
    format!("{}/s", bytes(each.round() as u64))
}

/// The run in one line, for who sees nothing else: the verdict, then the result.
pub(crate) fn in_a_line(report: &Report) -> String {
    let mut parts = headline(report);
    parts.extend(missed(report));
    if let Some(search) = &report.search {
        let found = super::search_result(search);
        parts.insert(0, found.trim_end_matches('.').to_owned());
    }
    format!("{}: {}", report.verdict.word.name(), parts.join("; "))
}

/// Reports the number of limits that did not hold, if there are any.
pub(crate) fn missed(report: &Report) -> Option<String> {
    let missed = report.limits.iter().filter(|limit| !limit.held).count();
    (missed > 0).then(|| format!("{missed} of {} limits did not hold", report.limits.len()))
}

/// The result in up to three lines: rate, latency, failures.
pub(crate) fn headline(report: &Report) -> Vec<String> {
    let mut parts = vec![match RunKind::of(report) {
        RunKind::Transactions => transactions(report),
        RunKind::Bulk => {
            let (sent, received) = (report.totals.sent_bytes, report.totals.received_bytes);
            let moved: Vec<String> = moved(report)
                .into_iter()
                .map(|(number, word)| format!("{} {word}", bytes_a_second(report, number)))
                .collect();
            let both = match sent.min(received) {
                0 => String::new(),
                _ => format!(" ({} both ways)", bytes_a_second(report, sent.saturating_add(received))),
            };
            format!("{}{both}", moved.join(", "))
        }
        RunKind::Idle => Stood::of(report).sentence(),
    }];
    if let Some(series) = main_series(report) {
        let figures = ["p50", "p99", "p99.9"].iter();
        let figures = figures.filter_map(|name| Some(format!("{name} {}", nanos(percentile(series, name)?))));
        let figures = figures.collect::<Vec<_>>().join(", ");
        parts.push(match RunKind::of(report) {
            RunKind::Idle => format!("to open one: {} {figures}", series.name),
            _ => format!("{} {figures}", series.name),
        });
    }
    match RunKind::of(report) {
        RunKind::Transactions => parts.push(failed(report)),
        RunKind::Bulk => parts.push(connections_failed(report)),
        RunKind::Idle => {}
    }
    parts
}

fn transactions(report: &Report) -> String {
    let well = per_second(report.totals.rate);
    match report.totals.offered_rate {
        Some(offered) => format!("{well} transactions a second of {} offered", per_second(offered)),
        None => format!("{well} transactions a second"),
    }
}

fn connections_failed(report: &Report) -> String {
    failed(report).replace(" failed", " connections failed")
}

/// The ways on which bytes went, or were to go.
fn moved(report: &Report) -> Vec<(u64, &'static str)> {
    let (sends, receives) = match report.plan().map(|plan| &plan.work) {
        Some(Work::Bulk { send, receive }) => (*send, *receive),
        _ => (true, true),
    };
    let ways =
        [(report.totals.sent_bytes, "sent", sends), (report.totals.received_bytes, "received", receives)];
    ways.into_iter()
        .filter(|(number, _, is_requested)| *number > 0 || *is_requested)
        .map(|(number, word, _)| (number, word))
        .collect()
}

/// The figures that people ask for, each with its name.
pub(crate) fn tiles(report: &Report) -> Vec<(String, String)> {
    let totals = &report.totals;
    let all = decided(report);
    let mut tiles = Vec::new();
    match RunKind::of(report) {
        RunKind::Transactions => {
            let offered =
                totals.offered_rate.map_or(String::new(), |offered| format!(" of {} offered", rate(offered)));
            tiles.push((rate(totals.rate), format!("transactions{offered}")));
            if totals.exchanges > 0 && totals.exchanges != totals.transactions {
                tiles.push((rate(totals.exchange_rate), "exchanges".into()));
            }
        }
        RunKind::Bulk => tiles.extend(moved(report).into_iter().map(|(number, word)| {
            (bytes_a_second(report, number), format!("{word}, {} in all", bytes(number)))
        })),
        RunKind::Idle => {
            let stood = Stood::of(report);
            tiles.push((count(stood.at_end), format!("of {} open at the end", count(stood.required))));
            tiles.push((count(stood.lost), "of those opened were lost".into()));
        }
    }
    if let Some(series) = main_series(report) {
        let figures = ["p50", "p99", "p99.9"].iter();
        let figures = figures.filter_map(|name| Some((name, percentile(series, name)?)));
        tiles.extend(figures.map(|(name, value)| (nanos(value), format!("{name} of {}", series.name))));
    }
    let part = totals.failed as f64 / all.max(1) as f64;
    let of = if RunKind::of(report) == RunKind::Transactions { "" } else { " connections" };
    if RunKind::of(report) == RunKind::Idle {
        let refused = Stood::of(report).refused;
        tiles.push((count(refused), "could not be opened".into()));
    } else {
        tiles.push((share(part), format!("failed: {} of {}{of}", count(totals.failed), count(all))));
    }
    tiles
}

/// Rows of counts that text and page share: what was done how often, and how many bytes went.
pub(crate) fn counts(report: &Report) -> Vec<(&'static str, String)> {
    let totals = &report.totals;
    let mut pairs = Vec::new();
    match RunKind::of(report) {
        RunKind::Transactions => {
            pairs.push(("transactions", format!("{}, {}", rate(totals.rate), failed(report))))
        }
        RunKind::Bulk => pairs.push(("failed", connections_failed(report).replace(" failed", ""))),
        RunKind::Idle => pairs.push(("open", Stood::of(report).sentence())),
    }
    if let Some(offered) = totals.offered_rate {
        pairs.push(("offered", rate(offered)));
    }
    if totals.exchanges > 0 && totals.exchanges != totals.transactions {
        pairs.push((
            "exchanges",
            format!("{}, {} in all", rate(totals.exchange_rate), count(totals.exchanges)),
        ));
    }
    let warm_up = match totals.warm_up_connections {
        0 => String::new(),
        some => format!(", {} of them before the measured part", count(some)),
    };
    pairs.push(("connections", format!("{} started{warm_up}", count(totals.connections))));
    if totals.open > 0 {
        pairs.push(("", format!("{} open at the end", count(totals.open))));
    }
    // Bulk always ends after the measured part, and has no rate of transactions that it could be missing in.
    if totals.tail > 0 && RunKind::of(report) == RunKind::Transactions {
        let tail = count(totals.tail);
        pairs.push(("tail", format!("{tail} ended after the measured part, and are not in the rate")));
    }
    let (sent, received) = (bytes(totals.sent_bytes), bytes(totals.received_bytes));
    pairs.push((
        "bytes",
        match RunKind::of(report) {
            RunKind::Bulk => format!(
                "{sent} sent ({}), {received} received ({})",
                bytes_a_second(report, totals.sent_bytes),
                bytes_a_second(report, totals.received_bytes)
            ),
            _ => format!("{sent} sent, {received} received"),
        },
    ));
    if !totals.http_status.is_empty() {
        let classes = totals.http_status.iter().map(|(class, number)| format!("{class} {}", count(*number)));
        pairs.push(("HTTP", classes.collect::<Vec<_>>().join(", ")));
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;
    use crate::plan::{Model, Plan};

    fn plan(report: &mut Report) -> &mut Plan {
        &mut report.manifest.job.as_mut().unwrap().plan
    }

    fn with(work: Work, connections: u32, well: u64, failed: u64) -> Report {
        let mut report = made_up::report();
        *plan(&mut report) =
            Plan { work, connections, model: Model::Closed, ..report.plan().unwrap().clone() };
        report.totals.offered_rate = None;
        report.totals.exchanges = 0;
        (report.totals.transactions, report.totals.failed) = (well, failed);
        report
    }

    #[test]
    fn bulk_is_reported_in_bytes_a_second() {
        let mut report = with(Work::Bulk { send: true, receive: true }, 4, 4, 0);
        report.totals.duration_seconds = 10.0;
        (report.totals.sent_bytes, report.totals.received_bytes) = (10 << 30, 5 << 30);
        let lines = headline(&report);
        assert_eq!(lines[0], "1.00 GiB/s sent, 512 MiB/s received (1.50 GiB/s both ways)");
        assert_eq!(lines[2], "0 of 4 connections failed");
        assert_eq!(tiles(&report)[0], ("1.00 GiB/s".into(), "sent, 10.0 GiB in all".into()));
        plan(&mut report).work = Work::Bulk { send: true, receive: false };
        report.totals.received_bytes = 0;
        assert_eq!(headline(&report)[0], "1.00 GiB/s sent");
        assert!(
            counts(&report).iter().all(|(word, _)| !["transactions", "exchanges", "tail"].contains(word))
        );
    }

    #[test]
    fn idle_is_reported_in_connections_that_stood() {
        let idle = || Work::Idle { send: 0, receive: 0 };
        let first_line = |well, failed| headline(&with(idle(), 1_000, well, failed))[0].clone();
        let all = "1,000 of 1,000 connections were open at the end of the measured part, none was lost";
        assert_eq!(first_line(1_000, 0), all);
        // Six that stood were lost, three failed before, and one had no time.
        let report = with(idle(), 1_000, 997, 9);
        assert_eq!(Stood::of(&report), Stood { required: 1_000, at_end: 991, lost: 6, refused: 3 });
        assert!(
            first_line(997, 9).ends_with(": 6 were lost, 3 could not be opened"),
            "{}",
            first_line(997, 9)
        );
        assert!(first_line(0, 0).ends_with(
            "0 of 1,000 connections were open at the end of the measured part: 1,000 were not tried in time"
        ));
        assert_eq!(tiles(&report)[0], ("991".into(), "of 1,000 open at the end".into()));
        assert!(tiles(&report).contains(&("3".into(), "could not be opened".into())));
        assert!(headline(&report)[1].starts_with("to open one: handshake p50 "), "{:?}", headline(&report));
    }

    #[test]
    fn what_was_offered_is_beside_what_was_handled() {
        let mut report = made_up::report();
        (report.totals.rate, report.totals.offered_rate) = (299.0, Some(300.0));
        assert_eq!(headline(&report)[0], "299 transactions a second of 300 offered");
    }

    #[test]
    fn handshakes_alone_have_no_exchanges() {
        let report = with(Work::Handshake, 32, 500, 0);
        assert!(counts(&report).iter().all(|(word, _)| *word != "exchanges"));
        assert!(tiles(&report).iter().all(|(_, what)| what != "exchanges"));
    }
}
