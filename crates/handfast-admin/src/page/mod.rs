//! The status page: one HTML document without scripts, images or anything fetched from elsewhere. What needs attention comes first;
//! every colour is also a word.

mod findings;
mod format;
mod hour;
mod open;
mod requests;
mod sections;
mod tables;

use handfast_text::calendar::Utc;
use maud::{Markup, html};

use super::status::{Attention, Status};

use format::long;

/// Findings that need attention, the most urgent first.
pub(super) fn findings(status: &Status) -> Vec<Attention> {
    let all = findings::sorted_findings(status).into_iter();
    all.map(|(urgency, sentence)| Attention { urgency, sentence }).collect()
}

/// Draws the page; `refresh`: loaded again every so many seconds.
pub(super) fn page(status: &Status, refresh: Option<u32>) -> String {
    let state = if status.ready { "ready" } else { "not ready" };
    let body = html! { main {
        (header(status, refresh))
        (findings::attention(status))
        (sections::services(status))
        (requests::requests(status))
        (open::routes(status))
        (open::requests(status))
        (open::clients(status))
        (hour::hour(status))
        (sections::handshakes(status))
        (sections::ends(status))
        (hour::failures(status))
        (open::failures(status))
        (tables::certificates(status))
        (tables::revocation_lists(status))
        (tables::backends(status))
        (tables::names(status))
        (tables::caches(status))
        (tables::fleet(status))
        (tables::threads(status))
        (tables::process(status))
    } };
    handfast_html::page(&format!("Handfast: {state}"), refresh, &body)
}

fn header(status: &Status, refresh: Option<u32>) -> Markup {
    let process = &status.measured.process;
    let up = long(process.now.duration_since(process.started).unwrap_or_default());
    html! {
        header.top {
            h1 { "Handfast" }
            @match &status.not_ready_because {
                None => p.badge.good { "ready" },
                Some(reason) => p.badge.bad { "not ready: " (reason) },
            }
            p { "version " (process.version) " · up " (up) " · " (Utc::of(process.now)) }
            nav {
                @match refresh {
                    None => a href="?refresh=5" { "refresh every 5 s" },
                    Some(seconds) => a href="?" { "stop refreshing (every " (seconds) " s)" },
                }
                a href="/status.json" { "JSON" }
                a href="/metrics" { "metrics" }
            }
        }
    }
}

#[cfg(test)]
mod tests;
