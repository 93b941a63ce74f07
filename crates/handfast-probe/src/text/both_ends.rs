//! The time of each end, by the server's counters. In: a report. Out: lines of the page.

use handfast_report::both_ends::{rows, sentences};

use super::Page;
use crate::report::Report;

/// A table, and notes about it.
pub(super) fn show(report: &Report, page: &mut Page) {
    let Some(both) = &report.both_ends else { return };
    page.title("Both ends: all connections, by what the proxy counted itself");
    let (head, notes) = sentences(both);
    page.wrapped(&head, "  ", 2);
    for [name, mean, share, what] in rows(both) {
        page.wrapped(&what, &format!("  {name:<12}{mean:>9}{share:>8}  "), 33);
    }
    for note in notes {
        page.wrapped(&note, "  - ", 4);
    }
}
