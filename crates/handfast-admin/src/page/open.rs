//! Requests of each route by outcome, the last that failed, those that are open, and the clients that are connected.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::time::Duration;

use handfast_html::{Table, card, details, with_small};
use handfast_observe::metrics::{RequestFailureSnapshot, RouteEnd};
use handfast_text::calendar::Utc;
use maud::{Markup, html};

use super::format::{bytes, count, counted, long, seconds, share_of};
use super::sections::capitalised;
use crate::status::Status;

/// Rows of a table that are open on the page.
const OPEN_ROWS: usize = 12;

/// Outcomes of the last minute by route: those that failed first.
pub(super) fn routes(status: &Status) -> Markup {
    let recent = status.recent.services.iter();
    let mut rows: Vec<(&str, &RouteEnd, u64)> = recent
        .filter_map(|(name, recent)| Some((name, recent.requests.as_ref()?)))
        .flat_map(|(name, requests)| requests.routes.iter().map(move |end| (&**name, end, requests.ended())))
        .collect();
    if rows.is_empty() {
        return Markup::default();
    }
    rows.sort_by_key(|(_, end, _)| (!end.is_failure(), Reverse(end.count)));
    let draw = |rows: &[(&str, &RouteEnd, u64)]| {
        let mut table =
            Table::new("Requests by route and cause", "Service|Route|#Requests|#Of all|Status|What happened");
        for (service, end, all) in rows {
            let words = end.failure.as_ref().map(|words| words.join(" / ")).unwrap_or_default();
            table.row([
                html! { (service) },
                html! { (end.route.as_deref().unwrap_or("none")) },
                html! { (count(end.count)) },
                html! { (share_of(end.count, *all)) },
                html! { (end.status) },
                with_small(&capitalised(&end.sentence()), &words),
            ]);
        }
        table.draw()
    };
    let over = status.recent.over_seconds;
    let meaning = format!("Of the last {over:.0} seconds, those that failed first.");
    card("Requests by route and cause", &meaning, &split(&rows, draw))
}

/// The first rows, and the others behind a line that opens.
fn split<T>(rows: &[T], draw: impl Fn(&[T]) -> Markup) -> Markup {
    let (first, others) = rows.split_at(rows.len().min(OPEN_ROWS));
    html! {
        (draw(first))
        @if !others.is_empty() { (details(&format!("{} more", others.len()), &draw(others))) }
    }
}

/// The last requests that failed.
pub(super) fn failures(status: &Status) -> Markup {
    if status.request_failures.is_empty() {
        return Markup::default();
    }
    let draw = |rows: &[RequestFailureSnapshot]| {
        let headings = "Time|Service|Route|Client|Request|#Status|#Took|Backend|What happened";
        let mut table = Table::new("The last requests that failed", headings);
        for failure in rows {
            let client = failure.client.map_or_else(|| "unix socket".to_owned(), |client| client.to_string());
            let place = format!("{}{}", failure.host.as_deref().unwrap_or_default(), failure.path);
            table.row([
                html! { (Utc::of(failure.time).time_of_day()) },
                html! { (failure.service) },
                html! { (failure.route.as_deref().unwrap_or("none")) },
                html! { (client) },
                with_small(&failure.method, &place),
                html! { (failure.status.map_or("none".to_owned(), |status| status.to_string())) },
                html! { (seconds(failure.seconds)) },
                html! { (failure.backend.as_deref().unwrap_or("–")) },
                with_small(&capitalised(&failure.sentence), failure.detail.as_deref().unwrap_or_default()),
            ]);
        }
        table.draw()
    };
    card(
        "The last requests that failed",
        "A few of each kind, the newest first; all are counted above, and are in the access log with their queries. Times are in UTC.",
        &split(&status.request_failures, draw),
    )
}

/// Open requests, the oldest first.
pub(super) fn requests(status: &Status) -> Markup {
    let open = &status.open;
    if open.requests.is_empty() {
        return Markup::default();
    }
    let draw = |rows: &[handfast_observe::open::OpenRequest]| {
        let headings = "Open for|Waits in|Service|Client|Request|Backend|#From client|#To client";
        let mut table = Table::new("Open requests", headings);
        for request in rows {
            let place = format!("{}{}", request.host.as_deref().unwrap_or_default(), request.path);
            table.row([
                html! { (seconds(request.seconds)) },
                html! { (request.part) },
                with_small(&request.service, request.route.as_deref().unwrap_or_default()),
                html! { (address(request.client)) },
                with_small(&format!("{} ({})", request.method, request.protocol), &place),
                html! { (request.backend.as_deref().unwrap_or("–")) },
                html! { (bytes(request.bytes_from_client)) },
                html! { (bytes(request.bytes_to_client)) },
            ]);
        }
        table.draw()
    };
    let missing = missing(status);
    let meaning = format!(
        "{}, the oldest first. Steps as in the access log; the route is below the service.{missing}",
        counted(open.requests_in_all, "open request")
    );
    card("Open requests", &meaning, &split(&open.requests, draw))
}

fn missing(status: &Status) -> String {
    match status.open.missing_workers {
        0 => String::new(),
        missing => {
            format!(" Those of {} are missing, which did not answer.", counted(missing, "worker thread"))
        }
    }
}

/// Clients with connections, those with most bytes first.
pub(super) fn clients(status: &Status) -> Markup {
    let open = &status.open;
    if open.clients.is_empty() {
        return Markup::default();
    }
    let draw = |rows: &[handfast_observe::open::OpenClient]| {
        let headings = "Client|#Connections|#Oldest|#Requests|#Open requests|#To backends|#To client";
        let mut table = Table::new("Clients", headings);
        for client in rows {
            table.row(
                [
                    address(client.client),
                    count(client.connections),
                    long(Duration::from_secs_f64(client.oldest_seconds)),
                    count(client.requests),
                    count(client.requests_open),
                    bytes(client.bytes_to_backend),
                    bytes(client.bytes_to_client),
                ]
                .map(|text| html! { (text) }),
            );
        }
        table.draw()
    };
    let meaning = format!(
        "{} with open connections, those with most bytes on them first.{}",
        counted(open.clients_in_all, "client"),
        missing(status)
    );
    card("Clients", &meaning, &split(&open.clients, draw))
}

fn address(client: Option<IpAddr>) -> String {
    client.map_or_else(|| "unix socket".to_owned(), |client| client.to_string())
}
