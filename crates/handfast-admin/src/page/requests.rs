//! HTTP requests of each service: how many, how they are answered, where their time goes, and whether connections are reused.

use std::collections::BTreeMap;

use handfast_html::{Table, bar_with_words, card, legend, with_small};
use handfast_observe::metrics::{Phase, RequestSnapshot, StatusClass, Word};
use maud::{Markup, html};

use super::format::{count, rate, seconds, share_of};
use crate::rates::RecentRequests;
use crate::status::Status;

/// Classes and words of the phases.
const PHASES: [(Phase, &str, &str); 4] = [
    (Phase::Hello, "blue", "receiving the request's head"),
    (Phase::Connect, "orange", "waiting for a backend connection"),
    (Phase::Response, "teal", "waiting for the backend's first byte"),
    (Phase::Relay, "purple", "relaying the response"),
];

/// Classes of the bar's parts.
const STATUSES: [(StatusClass, &str); 6] = [
    (StatusClass::Informational, "purple"),
    (StatusClass::Success, "teal"),
    (StatusClass::Redirection, "blue"),
    (StatusClass::ClientError, "orange"),
    (StatusClass::ServerError, "red"),
    (StatusClass::Missing, "red"),
];

/// A row for each service that serves HTTP.
pub(super) fn requests(status: &Status) -> Markup {
    let services = &status.measured.services;
    let served: Vec<_> =
        services.iter().filter_map(|service| Some((&*service.name, service.requests.as_ref()?))).collect();
    if served.is_empty() {
        return Markup::default();
    }
    let over = status.recent.over_seconds;
    let meaning = format!(
        "Of the last {over:.0} seconds. Bars: the statuses, and where the mean time of a request went. Times are medians. Backend \
         reuse: requests on a pooled connection. Handshakes saved: requests on a client's connection that had one before."
    );
    let headings = "Service|#Requests|#Open now|Statuses|#First byte|#Whole|Where the mean time goes|#Backend reuse|#Handshakes saved";
    let mut table = Table::new("HTTP requests", headings);
    let nothing = RecentRequests::default();
    for (name, requests) in served {
        let recent = status.recent.services.get(name).and_then(|recent| recent.requests.as_ref());
        table.row(row((name, requests), recent.unwrap_or(&nothing), over));
    }
    let content = html! { (legend(PHASES.map(|(_, colour, words)| (colour, words)))) (table.draw()) };
    card("HTTP requests", &meaning, &content)
}

fn row((name, requests): (&str, &RequestSnapshot), recent: &RecentRequests, over: f64) -> [Markup; 9] {
    let [first_byte, whole] = [&recent.first_byte, &recent.duration].map(|times| {
        let [median, most] = [0.5, 0.99].map(|q| times.quantile_seconds(q).map_or("–".into(), seconds));
        with_small(&median, &format!("99 %: {most}"))
    });
    let sent = recent.new_connection + recent.reused_connection;
    let idle = format!("{} idle", count(requests.idle_connections));
    [
        with_small(name, &since_the_start(requests)),
        html! { @if over >= 1.0 { (rate(recent.ended() as f64 / over)) } @else { "–" } },
        open(requests),
        statuses(recent),
        first_byte,
        whole,
        phases(recent),
        with_small(&share_or_dash(recent.reused_connection, sent), &idle),
        with_small(&count(recent.kept_alive), &share_or_dash(recent.kept_alive, recent.ended())),
    ]
}

/// Requests so far, and what compression has made of their responses.
fn since_the_start(requests: &RequestSnapshot) -> String {
    let ended = requests.ended();
    let sum = |of: &BTreeMap<Word, u64>| of.values().sum::<u64>();
    let text = format!("{} since the start", count(ended));
    match sum(&requests.compressed) {
        0 => text,
        compressed => {
            let after =
                share_of(sum(&requests.bytes_after_coding), sum(&requests.bytes_before_coding).max(1));
            format!("{text}, {} compressed to {after}", share_of(compressed, ended.max(1)))
        }
    }
}

fn share_or_dash(part: u64, all: u64) -> String {
    if all == 0 { "–".into() } else { share_of(part, all) }
}

/// Requests that are open, by HTTP version.
fn open(requests: &RequestSnapshot) -> Markup {
    let open = requests.open.iter().filter(|(_, open)| **open > 0);
    let versions: Vec<_> = open.map(|(version, open)| format!("{version} {}", count(*open))).collect();
    with_small(&count(requests.open()), &versions.join(", "))
}

fn statuses(recent: &RecentRequests) -> Markup {
    let all = recent.ended();
    let seen = STATUSES.iter().map(|(status, colour)| (status.name(), *colour, recent.of_class(*status)));
    let seen: Vec<_> = seen.filter(|(_, _, number)| *number > 0).collect();
    let parts: Vec<_> =
        seen.iter().map(|(_, colour, number)| (*colour, *number as f64 / all as f64)).collect();
    let words: Vec<_> =
        seen.iter().map(|(word, _, number)| format!("{word} {}", share_of(*number, all))).collect();
    if all == 0 {
        html! { "–" }
    } else {
        bar_with_words(&parts, &words.join(" · "))
    }
}

/// The mean time of a request: each phase's sum over all requests, so that the parts add up.
fn phases(recent: &RecentRequests) -> Markup {
    let (count, whole) = (recent.duration.count(), recent.duration.sum_seconds());
    if count == 0 || whole <= 0.0 {
        return html! { "–" };
    }
    let part = |(phase, colour, _): (Phase, &'static str, &str)| {
        let sum = recent.phases.get(phase.name()).map_or(0.0, |times| times.sum_seconds());
        ((colour, sum / whole), format!("{} {}", phase.name(), seconds(sum / count as f64)))
    };
    let (parts, words): (Vec<_>, Vec<_>) = PHASES.into_iter().map(part).unzip();
    bar_with_words(&parts, &words.join(" · "))
}
