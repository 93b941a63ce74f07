//! Tables of the text report.
//!
//! In: a report. Out: rows with columns as wide as they need to be.

use handfast_text::table::{Column, lines, padded, width};

use super::{Ink, Page};
use crate::model::{Report, Series};
use crate::units::{count, nanos, plain, rate};
use crate::words;

/// Rows under a header; the first column to the left, the others to the right.
fn table(page: &mut Page, header: &[&str], rows: &[Vec<String>]) {
    let mut columns: Vec<_> = header.iter().map(|title| Column::figures(title, 0)).collect();
    columns[0].right = false;
    let mut lines = lines(&columns, rows, usize::MAX).into_iter().map(|line| format!("  {line}"));
    let names = page.ink(Ink::Faint, &lines.next().unwrap_or_default());
    std::iter::once(names).chain(lines).for_each(|line| page.line(&line));
}

pub(super) fn latencies(report: &Report, page: &mut Page) {
    page.section("Latency by step");
    if report.series.is_empty() {
        page.line("  Nothing was timed: no step succeeded.");
        return;
    }
    percentiles(&report.series.iter().collect::<Vec<_>>(), page);
    let explained = ["first-byte", "total", "service", "lag"];
    for series in report.series.iter().filter(|series| explained.contains(&series.name.as_str())) {
        let first = format!("    {} ", padded(&format!("{}:", series.name), 11, false));
        page.faint(&first, words::step(&series.name));
    }
}

/// A row for each step.
pub(super) fn percentiles(series: &[&Series], page: &mut Page) {
    const PERCENTILES: [&str; 4] = ["p50", "p90", "p99", "p99.9"];
    let row = |series: &&Series| {
        let mut row = vec![series.name.clone(), count(series.count)];
        row.extend(PERCENTILES.map(|name| words::percentile(series, name).map_or("-".into(), nanos)));
        row.push(nanos(series.max_ns));
        row
    };
    let rows: Vec<Vec<String>> = series.iter().map(row).collect();
    table(page, &["step", "count", "p50", "p90", "p99", "p99.9", "max"], &rows);
}

pub(super) fn mix(report: &Report, page: &mut Page) {
    if words::is_plain(report) {
        return;
    }
    page.section("Handshakes");
    let pairs = words::mix(report);
    page.pairs(&pairs);
}

/// Each kind of client of a mix: what it did, then what it offered.
pub(super) fn members(report: &Report, page: &mut Page) {
    if report.members.is_empty() {
        return;
    }
    page.section("Kinds of client");
    let header = words::MEMBER_COLUMNS;
    table(page, &header, &report.members.iter().map(words::member).collect::<Vec<_>>());
    for member in &report.members {
        page.wrapped(&format!("    {}: ", plain(&member.name)), "      ", &words::member_offers(member));
    }
}

/// Writes the time of each end in a connection.
pub(super) fn both_ends(report: &Report, page: &mut Page) {
    let Some(both) = &report.both_ends else { return };
    page.section("Both ends");
    let (head, notes) = crate::both_ends::sentences(both);
    page.wrapped("  ", "  ", &head);
    let rows = crate::both_ends::rows(both);
    if !rows.is_empty() {
        let lines: Vec<Vec<String>> = rows.iter().map(|row| row[..3].to_vec()).collect();
        table(page, &["who", "mean", "share"], &lines);
        let explained: Vec<(&str, String)> =
            rows.iter().map(|row| (row[0].as_str(), row[3].clone())).collect();
        page.pairs(&explained);
        page.bullets(&notes);
    }
}

/// Each of several requests.
pub(super) fn requests(report: &Report, page: &mut Page) {
    if report.requests.is_empty() {
        return;
    }
    page.section("Requests");
    let header = words::REQUEST_COLUMNS;
    table(page, &header, &report.requests.iter().map(words::request).collect::<Vec<_>>());
}

pub(super) fn errors(report: &Report, page: &mut Page) {
    if report.errors.is_empty() {
        return;
    }
    page.section("Errors");
    let widest = report.errors.iter().map(|row| width(&count(row.count))).max().unwrap_or(0);
    for row in &report.errors {
        let number = count(row.count);
        let head = format!("  {number:>widest$}  {} in {}", plain(&row.cause), plain(&row.step));
        let head = page.ink(Ink::Bad, &head);
        page.line(&head);
        for example in words::examples(report, row) {
            let indent = " ".repeat(widest + 4);
            page.wrapped(&format!("{indent}e.g. "), &format!("{indent}     "), &example);
        }
    }
}

pub(super) fn limits(report: &Report, page: &mut Page) {
    if report.limits.is_empty() {
        return;
    }
    page.section("Limits");
    for limit in &report.limits {
        let word = if limit.held { page.ink(Ink::Good, "held  ") } else { page.ink(Ink::Bad, "MISSED") };
        page.line(&format!("  {word}  {}, found {}", plain(&limit.wanted), plain(&limit.found)));
    }
}

pub(super) fn search(report: &Report, page: &mut Page) {
    let Some(search) = &report.search else { return };
    page.section("Search for the highest rate");
    let sentence = words::search_result(search);
    page.wrapped("  ", "  ", &sentence);
    let rows: Vec<Vec<String>> = search
        .steps
        .iter()
        .map(|step| {
            let held = match (step.held, step.verdict.is_unusable()) {
                (true, _) => "held",
                (false, true) => "no vote",
                (false, false) => "missed",
            };
            let verdict = step.verdict.name().to_owned();
            vec![rate(step.offered_rate), rate(step.rate), plain(&step.found), held.to_owned(), verdict]
        })
        .collect();
    table(page, &["offered", "reached", "found", "bound", "verdict"], &rows);
}
