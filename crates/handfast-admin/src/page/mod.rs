//! The status page: one HTML document without scripts, images or anything fetched from elsewhere, in light or dark. What needs attention
//! comes first; every colour is also a word.

mod hour;
mod html;
mod requests;
mod sections;
mod tables;
mod findings;
mod format;

use handfast_text::calendar::Utc;

use super::status::{Attention, Status};

use format::long;
use html::Html;

const STYLE: &str = include_str!("style.css");

/// What needs attention, the most urgent first.
pub(super) fn findings(status: &Status) -> Vec<Attention> {
    let all = findings::sorted_findings(status).into_iter();
    all.map(|(urgency, sentence)| Attention { urgency, sentence }).collect()
}

/// Draws the page; `refresh`: loaded again every so many seconds.
pub(super) fn page(status: &Status, refresh: Option<u32>) -> String {
    let mut html = Html::new();
    html.raw("<!doctype html><html lang=en><meta charset=utf-8>");
    html.raw("<meta name=viewport content=\"width=device-width,initial-scale=1\">");
    html.raw("<meta name=color-scheme content=\"light dark\">");
    if let Some(seconds) = refresh {
        html.raw(&format!("<meta http-equiv=refresh content={seconds}>"));
    }
    let state = if status.ready { "ready" } else { "not ready" };
    html.element("title", &format!("Handfast: {state}"));
    html.raw("<style>").raw(STYLE).raw("</style>");
    header(&mut html, status, refresh);
    html.raw("<main>");
    findings::attention(&mut html, status);
    sections::services(&mut html, status);
    requests::requests(&mut html, status);
    hour::hour(&mut html, status);
    sections::handshakes(&mut html, status);
    sections::ends(&mut html, status);
    hour::failures(&mut html, status);
    tables::certificates(&mut html, status);
    tables::revocation_lists(&mut html, status);
    tables::backends(&mut html, status);
    tables::names(&mut html, status);
    tables::threads(&mut html, status);
    tables::process(&mut html, status);
    html.raw("</main>");
    html.finish()
}

fn header(html: &mut Html, status: &Status, refresh: Option<u32>) {
    let process = &status.measured.process;
    html.raw("<header><h1>Handfast</h1>");
    match &status.not_ready_because {
        None => html.raw("<p class=\"badge good\">ready</p>"),
        Some(reason) => html.raw("<p class=\"badge bad\">not ready: ").text(reason).raw("</p>"),
    };
    let up = process.now.duration_since(process.started).unwrap_or_default();
    html.raw("<p class=facts>");
    html.text(&format!("version {} · up {} · {}", process.version, long(up), Utc::of(process.now)));
    html.raw("</p><nav>");
    match refresh {
        None => html.raw("<a href=\"?refresh=5\">refresh every 5 s</a>"),
        Some(seconds) => html.raw(&format!("<a href=\"?\">stop refreshing (every {seconds} s)</a>")),
    };
    html.raw(" <a href=\"/status.json\">JSON</a> <a href=\"/metrics\">metrics</a></nav></header>");
}

#[cfg(test)]
mod tests;
