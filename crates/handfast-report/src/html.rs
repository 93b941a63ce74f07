//! The report as one HTML file: no script, no network, light and dark, readable on a phone and to a screen reader.
//!
//! In: a report. Out: the file's text. **Cost**: at most 600 columns in a plot; longer runs are merged.

mod curves;
mod seconds;
mod tables;
#[cfg(test)]
mod tests;

use handfast_html::{card, list, page, prose};
use maud::{Markup, html};

use crate::model::{Report, VerdictWord};
use crate::words::{self, search_result};

/// The whole file.
pub fn to_html(report: &Report) -> String {
    let done = words::done(report);
    let target = done.iter().find(|(word, _)| *word == "target").map_or("", |(_, text)| text.as_str());
    let kind = if words::is_plain(report) { "HTTP" } else { "TLS" };
    let body = html! {
        main {
            div.top {
                span { (kind) " load on " strong { (target) } }
                span { (report.manifest.started) " · " (report.manifest.program) }
            }
            (verdict(report))
            (tiles(report))
            (card("What was done", "", &handfast_html::pairs(done.iter().map(|(word, text)| (word, text)))))
            @if !report.notes.is_empty() {
                (card("Notes", "", &list("", report.notes.iter().map(|note| prose(note)))))
            }
            (latency(report))
            (over_time(report))
            (results(report))
            (card("Who made the load", "", &tables::workers(report)))
            (card("Circumstances", "", &tables::manifest(report)))
        }
    };
    page(&format!("{}: load on {target}", report.verdict.word.name()), None, &body)
}

fn verdict(report: &Report) -> Markup {
    let word = report.verdict.word;
    let class = match word {
        VerdictWord::Valid => "good",
        VerdictWord::TargetLimited => "soon",
        _ => "bad",
    };
    html! {
        header class={ "card verdict " (class) } {
            h1 { (word.name()) }
            @if let Some(search) = &report.search { p { strong { (search_result(search)) } } }
            p { (words::meaning(report)) }
            (list("", report.verdict.evidence.iter().map(|line| prose(line))))
        }
    }
}

/// The most important figures.
fn tiles(report: &Report) -> Markup {
    let missed = report.limits.iter().filter(|limit| !limit.held).count();
    html! {
        div.tiles {
            @for (figure, what) in words::tiles(report) { div.tile { b { (figure) } span { (what) } } }
            @if !report.limits.is_empty() {
                div.tile {
                    b.bad[missed > 0] { (report.limits.len() - missed) " of " (report.limits.len()) }
                    span { "limits held" }
                }
            }
        }
    }
}

fn latency(report: &Report) -> Markup {
    let content = match report.series.is_empty() {
        true => html! { p.soft { "Nothing was timed: no step succeeded." } },
        false => html! { (tables::latencies(report)) (curves::percentiles(report).unwrap_or_default()) },
    };
    card("Latency by step", "", &content)
}

fn over_time(report: &Report) -> Markup {
    let columns = seconds::columns(report);
    if columns.is_empty() {
        return Markup::default();
    }
    let content = html! {
        (curves::heat(report, &columns).unwrap_or_default())
        (seconds::rates(report, &columns))
        (seconds::errors(&columns))
        (seconds::generator(&columns))
    };
    card("Over time", "", &content)
}

fn results(report: &Report) -> Markup {
    html! {
        @if !report.limits.is_empty() { (card("Limits", "", &tables::limits(report))) }
        @if let Some(search) = &report.search {
            (card("Search for the highest rate", &search_result(search), &tables::search(search)))
        }
        @if !words::is_plain(report) { (card("Handshakes", "", &tables::mix(report))) }
        @if !report.members.is_empty() { (card("Kinds of client", "", &tables::members(report))) }
        @if !report.requests.is_empty() { (card("Requests", "", &tables::requests(report))) }
        (card("Errors", "", &tables::errors(report)))
        (card("Counts", "", &handfast_html::pairs(tables::counts(report))))
    }
}
