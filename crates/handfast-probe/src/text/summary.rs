//! The report on one screen: what a connection takes, where that goes, and what to change first.
//!
//! In: a report, columns, whether colours. Out: at most 24 lines of 80 columns; the whole report has the rest.

use handfast_report::both_ends;
use handfast_text::units;
use handfast_text::wrap::{SCREEN, SCREEN_COLUMNS, in_lines};

use super::page::{Page, Style, ms};
use crate::report::Report;
use crate::rows;

/// Findings that are shown.
const MAX_FINDINGS: usize = 3;
/// The timers that answer how long a client waits, and where.
const TIMERS: [&str; 4] = ["time_connect", "time_appconnect", "time_starttransfer", "time_total"];

/// Summarizes a target for most readers; [`super::to_text`] has everything.
pub fn to_summary(report: &Report, style: Style) -> String {
    let mut page = Page::new(Style { columns: style.columns.min(SCREEN_COLUMNS), ..style });
    page.target(report);
    let resumed = report.resumed.as_ref().map(|resumed| resumed.timers.appconnect.p50);
    let resumed = resumed.map_or("not resumed".to_owned(), |time| format!("{} resumed", ms(time)));
    let trust = match report.certificates.trusted {
        Some(true) => "the certificate is trusted",
        Some(false) => "the certificate is NOT trusted",
        None => "the certificate was not verified",
    };
    let answer = format!("secured after {}, {resumed}; {trust}", ms(report.full.timers.appconnect.p50));
    page.wrapped(&answer, "", 0);
    page.wrapped(&rows::agreed(report).join(" · "), "", 0);
    page.timers(rows::timers(report).into_iter().filter(|timer| TIMERS.contains(&timer.name)));
    page.line("");
    let part = |part: &rows::Part| format!("{} {}", part.what, units::share(part.share));
    let parts: Vec<_> = rows::parts(report).iter().map(part).collect();
    page.wrapped(&parts.join("; "), &format!("Handshake {}: ", ms(report.full.handshake_ms.p50)), 2);
    requested(report, &mut page);
    findings(report, &mut page);
    page.text
}

/// A sentence about each further measurement that was requested.
fn requested(report: &Report, page: &mut Page) {
    if let Some(both) = &report.both_ends {
        let parts: Vec<_> = both_ends::rows(both)
            .into_iter()
            .map(|[name, _, share, _]| format!("{name} {}", share.trim()))
            .collect();
        let text = format!("{} {}", both_ends::sentences(both).0, parts.join(", "));
        page.wrapped(&text, "Both ends: ", 2);
    }
    if let Some(kept) = report.http.as_ref().and_then(|http| http.kept) {
        let idle = kept.idle_ms.map_or(format!("more than {}", ms(kept.bound_ms)), ms);
        let more = if kept.requests_ended { "" } else { " or more" };
        let requests = units::counted(kept.requests.into(), "request");
        page.wrapped(&format!("{idle} when idle, for {requests}{more}"), "A connection is kept: ", 2);
    }
    let ways = report.page.iter().flat_map(|page| &page.ways);
    if let Some(best) = ways.min_by(|one, other| one.ms.total_cmp(&other.ms)) {
        page.wrapped(&format!("{} at best ({})", ms(best.ms), best.way), "The page, computed: ", 2);
    }
}

/// Writes the problems, then the changes that save most.
fn findings(report: &Report, page: &mut Page) {
    let mut all = found(report);
    page.title(match all.is_empty() {
        true => "Nothing to change that would save time",
        false => "What to change (more: handfast explain TOPIC)",
    });
    // A line is for the number of those that are left out.
    let room = SCREEN.saturating_sub(page.text.lines().count() + 1);
    let shown = MAX_FINDINGS.min(room.max(1)).min(all.len());
    let more = all.len() - shown;
    all.truncate(shown);
    in_lines(&all, "    ", page.columns, room).iter().for_each(|line| page.line(line));
    if more > 0 {
        page.line(&format!("  - and {more} more (-v)"));
    }
}

/// Each finding with a mark in front; the most important first.
fn found(report: &Report) -> Vec<(String, String)> {
    let warning = |what: String| ("  ⚠ ".to_owned(), what);
    let failed = report.failures.iter().map(|failed| {
        let hint = failed.error.hint.as_ref().map(|hint| format!(": {hint}")).unwrap_or_default();
        (format!("  {} × ", failed.count), format!("{}{hint}", failed.error.what))
    });
    let missed = report.limits.iter().filter(|limit| !limit.held).map(|limit| {
        let found = limit.found_ms.map_or("no such figure".into(), ms);
        warning(format!("limit {}: missed, {found}", limit.bound))
    });
    let certificate = report.certificates.why_not.iter().map(|why| {
        warning(format!("the certificate is not trusted: {why} (--ca FILE trusts another authority)"))
    });
    let advice = report
        .advice
        .iter()
        .map(|advice| (format!("  −{} {}: ", ms(advice.saves_ms), advice.topic), advice.what.clone()));
    let notes = report.notes.iter().filter(|note| !note.good);
    let is_shown = |what: &str| what.starts_with("the certificate is not trusted");
    let notes = notes.filter(|note| !is_shown(&note.what)).map(|note| warning(note.what.clone()));
    failed.chain(missed).chain(certificate).chain(advice).chain(notes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::tests::sample;
    use crate::report::{Advice, LimitReport};
    use crate::text::to_text;

    const TERMINAL: Style = Style { color: false, columns: 80 };

    #[test]
    fn it_is_one_screen_however_much_was_found() {
        let mut report = sample();
        for length in [1, 5, 10, 60] {
            let what = "a sentence of some length ".repeat(length);
            report.advice = (1..9_u8).map(|number| advice(&what, f64::from(number))).collect();
            let text = to_summary(&report, Style { columns: 300, ..TERMINAL });
            assert!(text.lines().count() <= SCREEN, "{length}:\n{text}");
            assert!(text.lines().all(|line| line.chars().count() <= SCREEN_COLUMNS), "{text}");
            // A failure and a missed bound come first.
            assert!(
                text.contains("−1.00 ms rsa: a sentence") && text.contains("and 10 more (-v)") || length > 9,
                "{text}"
            );
            let whole = to_text(&report, TERMINAL);
            assert!((1..9).all(|number| whole.contains(&format!("−{number}.00 ms"))), "{whole}");
        }
    }

    fn advice(what: &str, saves_ms: f64) -> Advice {
        Advice { saves_ms, what: what.to_owned(), evidence: String::new(), topic: "rsa" }
    }

    #[test]
    fn what_is_wrong_comes_before_what_saves_time() {
        let mut report = Report { page: None, both_ends: None, ..sample() };
        report.failures.clear();
        report.certificates.trusted = Some(false);
        report.certificates.why_not = Some("unknown issuer".into());
        let text = to_summary(&report, TERMINAL);
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part:?} in\n{text}"));
        assert!(place("NOT trusted") < place("appconnect=60ms"), "{text}");
        assert!(place("appconnect=60ms: missed") < place("unknown issuer"), "{text}");
        assert!(
            place("unknown issuer") < place("−250 ms addresses: ") && text.contains(" more (-v)"),
            "{text}"
        );
    }

    #[test]
    fn a_limit_that_held_needs_no_line_and_nothing_to_change_is_a_sentence() {
        let mut report = sample();
        (report.failures, report.advice, report.notes) = (Vec::new(), Vec::new(), Vec::new());
        report.limits = vec![LimitReport { bound: "connect=1s".into(), found_ms: Some(1.0), held: true }];
        let text = to_summary(&report, TERMINAL);
        assert!(text.contains("Nothing to change") && !text.contains("connect=1s"), "{text}");
    }
}
