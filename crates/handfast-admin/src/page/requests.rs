//! HTTP requests of each service: how many, how they are answered, where their time goes, and whether connections are reused.

use handfast_observe::metrics::{Phase, RequestSnapshot, StatusClass};

use super::format::{count, rate, seconds, share_of};
use super::html::Html;
use crate::rates::RecentRequests;
use crate::status::Status;

/// Classes and words of the phases.
const PHASES: [(Phase, &str, &str); 4] = [
    (Phase::Hello, "hello", "receiving the request's head"),
    (Phase::Connect, "crypto", "waiting for a backend connection"),
    (Phase::Answer, "client", "waiting for the backend's first byte"),
    (Phase::Relay, "queue", "relaying the response"),
];

/// Classes of the bar's parts.
const STATUSES: [(StatusClass, &str); 6] = [
    (StatusClass::Informational, "queue"),
    (StatusClass::Success, "client"),
    (StatusClass::Redirection, "hello"),
    (StatusClass::ClientError, "crypto"),
    (StatusClass::ServerError, "failed"),
    (StatusClass::Missing, "failed"),
];

/// A row for each service that serves HTTP.
pub(super) fn requests(html: &mut Html, status: &Status) {
    let services = &status.measured.services;
    let served: Vec<_> =
        services.iter().filter_map(|service| Some((&*service.name, service.requests.as_ref()?))).collect();
    if served.is_empty() {
        return;
    }
    let over = status.recent.over_seconds;
    html.section(
        "HTTP requests",
        &format!(
            "Of the last {over:.0} seconds. Bars: the statuses, and where the mean time of a request went. Times are medians. Backend \
             reuse: requests on a pooled connection. Handshakes saved: requests on a client's connection that had one before."
        ),
    );
    html.raw("<ul class=legend>");
    for (_, class, words) in PHASES {
        html.raw(&format!("<li class={class}>")).text(words).raw("</li>");
    }
    html.raw("</ul>");
    html.table("Service|#Requests|#Open now|Statuses|#First byte|#Whole|Where the mean time goes|#Backend reuse|#Handshakes saved");
    let nothing = RecentRequests::default();
    for (name, requests) in served {
        let recent = status.recent.services.get(name).and_then(|recent| recent.requests.as_ref());
        row(html, (name, requests), recent.unwrap_or(&nothing), over);
    }
    html.end_table();
    html.raw("</section>");
}

fn row(html: &mut Html, (name, requests): (&str, &RequestSnapshot), recent: &RecentRequests, over: f64) {
    html.raw("<tr><td><strong>").text(name).raw("</strong>");
    html.element("small", &format!("{} since the start", count(requests.ended()))).raw("</td>");
    html.number(&if over >= 1.0 { rate(recent.ended() as f64 / over) } else { "–".into() });
    open(html, requests);
    statuses(html, recent);
    for times in [&recent.first_byte, &recent.duration] {
        let [median, most] = [0.5, 0.99].map(|q| times.quantile_seconds(q).map_or("–".into(), seconds));
        html.raw("<td class=number>").text(&median).element("small", &format!("99 %: {most}")).raw("</td>");
    }
    phases(html, recent);
    let sent = recent.new_connection + recent.reused_connection;
    html.raw("<td class=number>").text(&share_or_dash(recent.reused_connection, sent));
    html.element("small", &format!("{} idle", count(requests.idle_connections))).raw("</td>");
    html.raw("<td class=number>").text(&count(recent.kept_alive));
    html.element("small", &share_or_dash(recent.kept_alive, recent.ended())).raw("</td></tr>");
}

fn share_or_dash(part: u64, all: u64) -> String {
    if all == 0 { "–".into() } else { share_of(part, all) }
}

/// Requests that are open, by HTTP version.
fn open(html: &mut Html, requests: &RequestSnapshot) {
    let versions: Vec<_> = requests
        .open
        .iter()
        .filter(|(_, open)| **open > 0)
        .map(|(version, open)| format!("{version} {}", count(*open)))
        .collect();
    html.raw("<td class=number>").text(&count(requests.open()));
    html.element("small", &versions.join(", ")).raw("</td>");
}

fn statuses(html: &mut Html, recent: &RecentRequests) {
    let all = recent.ended();
    let seen = STATUSES.iter().map(|(status, class)| (status.name(), *class, recent.of_class(*status)));
    let seen: Vec<_> = seen.filter(|(_, _, number)| *number > 0).collect();
    let parts: Vec<_> = seen.iter().map(|(_, class, number)| (*class, *number as f64 / all as f64)).collect();
    let words: Vec<_> =
        seen.iter().map(|(word, _, number)| format!("{word} {}", share_of(*number, all))).collect();
    let words = words.join(" · ");
    html.bar_cell(&words, &parts, &words);
}

/// The mean time of a request: each phase's sum over all requests, so that the parts add up.
fn phases(html: &mut Html, recent: &RecentRequests) {
    let (count, whole) = (recent.duration.count(), recent.duration.sum_seconds());
    let sums = PHASES.map(|(phase, class, _)| {
        let sum = recent.phases.get(phase.name()).map_or(0.0, |times| times.sum_seconds());
        (phase.name(), class, sum)
    });
    if count == 0 || whole <= 0.0 {
        html.cell("–");
        return;
    }
    let parts: Vec<_> = sums.iter().map(|(_, class, sum)| (*class, sum / whole)).collect();
    let words: Vec<_> =
        sums.iter().map(|(word, _, sum)| format!("{word} {}", seconds(sum / count as f64))).collect();
    html.bar_cell(&words.join(", "), &parts, &words.join(" · "));
}
