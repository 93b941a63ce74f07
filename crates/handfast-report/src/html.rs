//! The report as one HTML file: no script, no network, light and dark, readable on a phone and to a screen reader.
//!
//! In: a report. Out: the file's text. All foreign text (targets, errors, names) is escaped, and a
//! Content-Security-Policy blocks what escaping might miss. **Cost**: at most 600 columns in a plot; longer runs are merged.

mod curves;
mod escape;
mod plot;
mod seconds;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use crate::model::{Report, VerdictWord};
use crate::words::{self, search_result};
use escape::{escape, prose};

/// The whole file.
pub fn to_html(report: &Report) -> String {
    let mut html = head(report);
    verdict(report, &mut html);
    tiles(report, &mut html);
    section(&mut html, "What was done", &card(&tables::pairs(&words::done(report))));
    if !report.notes.is_empty() {
        let notes: String = report.notes.iter().map(|note| format!("<li>{}</li>", prose(note))).collect();
        section(&mut html, "Notes", &card(&format!("<ul class=\"notes\">{notes}</ul>")));
    }
    latency(report, &mut html);
    over_time(report, &mut html);
    results(report, &mut html);
    section(&mut html, "Who made the load", &card(&tables::workers(report)));
    section(&mut html, "Circumstances", &card(&tables::manifest(report)));
    html.push_str("</main></body></html>\n");
    html
}

fn card(content: &str) -> String {
    format!("<div class=\"card\">{content}</div>")
}

fn section(html: &mut String, title: &str, content: &str) {
    let _ = writeln!(html, "<section><h2>{}</h2>\n{content}</section>", escape(title));
}

fn head(report: &Report) -> String {
    let target = words::done(report).into_iter().find(|(word, _)| *word == "target").map(|(_, text)| text);
    let target = escape(&target.unwrap_or_default());
    let word = report.verdict.word.name();
    let kind = if words::is_plain(report) { "HTTP" } else { "TLS" };
    let (program, started) = (escape(&report.manifest.program), escape(&report.manifest.started));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{word}: load on {target}</title>\n\
         <style>\n{}</style></head>\n<body><main>\n\
         <div class=\"top\"><span>{kind} load on <strong>{target}</strong></span><span>{started} · {program}</span></div>\n",
        include_str!("html/style.css")
    )
}

fn verdict(report: &Report, html: &mut String) {
    let word = report.verdict.word;
    let class = match word {
        VerdictWord::Valid => "good",
        VerdictWord::TargetLimited => "warn",
        _ => "bad",
    };
    let evidence: String =
        report.verdict.evidence.iter().map(|line| format!("<li>{}</li>", prose(line))).collect();
    let meaning = escape(words::meaning(report));
    let found = report
        .search
        .as_ref()
        .map(|search| format!("<p><strong>{}</strong></p>", escape(&search_result(search))));
    let found = found.unwrap_or_default();
    let _ = writeln!(
        html,
        "<header class=\"verdict {class}\"><h1>{}</h1>{found}<p>{meaning}</p><ul>{evidence}</ul></header>",
        word.name()
    );
}

/// The most important figures.
fn tiles(report: &Report, html: &mut String) {
    let mut tiles = words::tiles(report);
    let missed = report.limits.iter().filter(|limit| !limit.held).count();
    if !report.limits.is_empty() {
        tiles.push((
            format!("{} of {}", report.limits.len() - missed, report.limits.len()),
            "limits held".into(),
        ));
    }
    let each = tiles.iter().map(|(figure, what)| {
        let bad = if what == "limits held" && missed > 0 { " class=\"no\"" } else { "" };
        format!("<div class=\"tile\"><b{bad}>{}</b><span>{}</span></div>", escape(figure), escape(what))
    });
    let _ = writeln!(html, "<div class=\"tiles\">{}</div>", each.collect::<String>());
}

fn latency(report: &Report, html: &mut String) {
    let content = match report.series.is_empty() {
        true => card("<p class=\"soft\">Nothing was timed: no step succeeded.</p>"),
        false => card(&tables::latencies(report)) + &curves::percentiles(report).unwrap_or_default(),
    };
    section(html, "Latency by step", &content);
}

fn over_time(report: &Report, html: &mut String) {
    let columns = seconds::columns(report);
    if columns.is_empty() {
        return;
    }
    let mut content = curves::heat(report, &columns).unwrap_or_default();
    content.push_str(&seconds::rates(report, &columns).unwrap_or_default());
    content.push_str(&seconds::errors(&columns));
    content.push_str(&seconds::generator(&columns).unwrap_or_default());
    section(html, "Over time", &content);
}

fn results(report: &Report, html: &mut String) {
    if !report.limits.is_empty() {
        section(html, "Limits", &card(&tables::limits(report)));
    }
    if let Some(search) = &report.search {
        section(html, "Search for the highest rate", &card(&tables::search(search)));
    }
    if !words::is_plain(report) {
        section(html, "Handshakes", &card(&tables::mix(report)));
    }
    if !report.members.is_empty() {
        section(html, "Kinds of client", &card(&tables::members(report)));
    }
    if !report.requests.is_empty() {
        section(html, "Requests", &card(&tables::requests(report)));
    }
    section(html, "Errors", &card(&tables::errors(report)));
    section(html, "Counts", &card(&tables::counts(report)));
}
