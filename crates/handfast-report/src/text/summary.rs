//! The report on one screen: the verdict, the figures, the reasons that weigh most.
//!
//! In: a report, and how it may look. Out: at most 24 lines where a terminal has 80 columns; the whole report has the rest.

use handfast_text::wrap::SCREEN;

use super::{Page, Style, tables, verdict};
use crate::model::Report;
use crate::units::{count, plain};
use crate::words;

/// Of each kind of reasons: the first ones weigh most.
const MAX_REASONS: usize = 3;
/// The steps that answer how long a client waits, and where.
const STEPS: [&str; 4] = ["connect", "handshake", "first-byte", "total"];

/// Summarizes a run for most readers; [`super::to_text`] has everything.
pub fn to_summary(report: &Report, style: Style) -> String {
    let page = || Page { text: String::new(), style };
    let (mut head, mut tail) = (page(), page());
    verdict(report, &mut head);
    latencies(report, &mut tail);
    let used = head.lines() + tail.lines();
    reasons(report, SCREEN.saturating_sub(used), &mut head);
    head.text + &tail.text
}

/// Limits that were missed, what the verdict rests on, and errors: as many as there is room for, and at least one.
fn reasons(report: &Report, room: usize, page: &mut Page) {
    let missed = report.limits.iter().filter(|limit| !limit.held);
    let missed =
        missed.map(|limit| format!("MISSED: {}, found {}", plain(&limit.wanted), plain(&limit.found)));
    let evidence = report.verdict.evidence.iter().cloned();
    let errors = report.errors.iter();
    let errors =
        errors.map(|row| format!("{} × {} in {}", count(row.count), plain(&row.cause), plain(&row.step)));
    let all = missed.clone().count() + evidence.len() + errors.len();
    let mut listed = 0;
    let begun = page.lines();
    for reason in missed.take(MAX_REASONS).chain(evidence.take(MAX_REASONS)).chain(errors.take(MAX_REASONS)) {
        if listed == 0 {
            page.section("Why");
        }
        let kept = page.text.len();
        page.bullets(&[reason]);
        // One line is kept for those that are left out.
        if listed > 0 && page.lines() - begun + usize::from(listed + 1 < all) > room {
            page.text.truncate(kept);
            break;
        }
        listed += 1;
    }
    if listed < all {
        page.line(&format!("  - and {} more (-v)", all - listed));
    }
}

fn latencies(report: &Report, page: &mut Page) {
    let steps: Vec<_> = report.series.iter().filter(|series| STEPS.contains(&series.name.as_str())).collect();
    if !steps.is_empty() {
        page.line("");
        tables::percentiles(&steps, page);
    }
    if words::is_plain(report) {
        return;
    }
    let mix: Vec<_> = words::mix(report).into_iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    page.wrapped("  handshakes: ", "    ", &mix.join(", "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;
    use crate::text::width;

    const TERMINAL: Style = Style { color: false, columns: Some(80) };

    #[test]
    fn it_is_one_screen_whatever_happened() {
        let mut report = made_up::report();
        for reasons in 0..6 {
            report.verdict.evidence = vec!["a reason of some length ".repeat(5); reasons];
            let text = to_summary(&report, TERMINAL);
            assert!(text.lines().count() <= SCREEN, "{reasons} reasons:\n{text}");
            assert!(text.lines().all(|line| width(line) <= 80), "{text}");
        }
    }

    #[test]
    fn what_is_left_out_is_counted() {
        let mut report = made_up::report();
        report.search = None;
        (report.errors, report.limits) = (Vec::new(), Vec::new());
        report.verdict.evidence = (1..=5).map(|number| format!("reason {number}")).collect();
        let text = to_summary(&report, TERMINAL);
        assert!(text.contains("reason 3") && !text.contains("reason 4"), "{text}");
        assert!(text.contains("and 2 more (-v)"), "{text}");
    }

    #[test]
    fn it_begins_with_the_verdict_and_has_the_figures() {
        let text = to_summary(&made_up::report(), TERMINAL);
        assert!(text.contains("\n  VALID\n"), "{text}");
        for part in
            ["transactions a second", "p99.9", "handshake", "total", "resumed", "MISSED: errors=0.01%"]
        {
            assert!(text.contains(part), "no {part:?} in\n{text}");
        }
        assert!(!text.contains("handshake.p99=5ms"), "a limit that held needs no line:\n{text}");
    }

    #[test]
    fn an_empty_report_has_one_too() {
        assert!(to_summary(&Report::default(), TERMINAL).contains("full 0"));
    }
}
