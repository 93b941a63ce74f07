//! The tables of HTTP requests, and of the clients that send them: routes, what is open, and what failed.

use std::net::IpAddr;
use std::time::Duration;

use handfast_observe::metrics::{RouteEnd, ServiceSnapshot};
use handfast_text::calendar::Utc;
use handfast_text::table::Column;
use handfast_text::units::{bytes, long};

use super::cells::{Pair, column, counts, figures, known, plain, rates, times, words};
use super::table::{Cell, Table, table};
use crate::screen::{Look, Shade};

/// Requests of a service that failed, and those that a backend answered with a server error.
pub(super) fn failed_requests(service: &ServiceSnapshot) -> u64 {
    routes_of(service).iter().filter(|end| end.is_failure()).map(|end| end.count).sum()
}

/// Requests of a service by route and outcome.
pub(super) fn routes_of(service: &ServiceSnapshot) -> &[RouteEnd] {
    service.requests.as_ref().map_or(&[], |requests| &requests.routes)
}

/// Requests by route and outcome: those that fail now first.
pub(super) fn routes(pair: &Pair<'_>, _: Look) -> Table {
    let each =
        pair.now.services.iter().flat_map(|service| routes_of(service).iter().map(move |end| (service, end)));
    let now_of = |service: &ServiceSnapshot, end: &RouteEnd| {
        let before = pair.service_before(&service.name).map(routes_of).unwrap_or_default();
        let before = before.iter().find(|known| known.is_like(end)).map(|end| end.count);
        pair.rate(end.count, pair.or_new(before))
    };
    let mut each: Vec<_> = each.map(|(service, end)| (service, end, now_of(service, end))).collect();
    each.sort_by(|(_, one, one_now), (_, other, other_now)| {
        let key = |end: &RouteEnd, now: &Option<f64>| {
            (end.is_failure() && now.is_some_and(|now| now > 0.0), end.is_failure())
        };
        key(other, other_now).cmp(&key(one, one_now)).then(other.count.cmp(&one.count))
    });
    table! {
        each.into_iter() => |(service, end, now)| {
            let shade = if end.is_failure() { Shade::Bad } else { Shade::Plain };
        }
        column("route", 8, 0) => words(end.route.as_deref().unwrap_or("none"), Shade::Strong);
        column("service", 6, 2) => plain(&service.name);
        figures("now", 0) => rates(now, shade);
        figures("count", 0) => counts(end.count, Shade::Plain);
        column("status", 0, 0) => words(&*end.status, shade);
        column("what happened", 30, 0) => plain(end.sentence());
        column("step / side / cause", 0, 3) => words(end.failure.as_ref().map(|words| words.join(" / ")).unwrap_or_default(), Shade::Faint);
    }
}

/// Open requests, the oldest first.
pub(super) fn open_requests(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.status.open.requests.iter() => |request| {
            let place = format!("{} {}", request.method, request.path);
        }
        figures("open for", 0) => times(Some(request.seconds));
        column("waits in", 0, 0) => words(&*request.part, Shade::Strong);
        column("request", 20, 0) => plain(place);
        column("client", 0, 0) => plain(address(request.client));
        column("host", 8, 4) => plain(request.host.as_deref().unwrap_or_default());
        column("service", 6, 7) => plain(&*request.service);
        column("route", 6, 5) => plain(request.route.as_deref().unwrap_or_default());
        column("backend", 12, 2) => plain(request.backend.as_deref().unwrap_or_default());
        figures("from client", 6) => figure(request.bytes_from_client as f64, bytes(request.bytes_from_client));
        figures("to client", 3) => figure(request.bytes_to_client as f64, bytes(request.bytes_to_client));
    }
}

/// Clients with connections, those with most bytes first.
pub(super) fn clients(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.status.open.clients.iter() => |client| {
            let oldest = long(Duration::from_secs_f64(client.oldest_seconds));
        }
        column("client", 15, 0) => words(address(client.client), Shade::Strong);
        figures("connections", 0) => counts(client.connections, Shade::Plain);
        figures("oldest", 0) => figure(client.oldest_seconds, oldest);
        figures("requests", 0) => counts(client.requests, Shade::Plain);
        figures("open requests", 2) => counts(client.requests_open, Shade::Plain);
        figures("to backends", 0) => figure(client.bytes_to_backend as f64, bytes(client.bytes_to_backend));
        figures("to client", 0) => figure(client.bytes_to_client as f64, bytes(client.bytes_to_client));
    }
}

/// The last requests that failed, the newest first.
pub(super) fn request_failures(pair: &Pair<'_>, _: Look) -> Table {
    table! {
        pair.now.status.request_failures.iter() => |failure| {
            let client = failure.client.map_or("unix socket".to_owned(), |client| client.to_string());
            let place = format!("{} {}", failure.method, failure.path);
            let status = failure.status.map_or("none".to_owned(), |status| status.to_string());
        }
        column("time UTC", 0, 0) => plain(Utc::of(failure.time).time_of_day().to_string());
        figures("status", 0) => figure(failure.status.unwrap_or_default().into(), status);
        figures("took", 0) => times(Some(failure.seconds));
        column("request", 16, 0) => plain(place);
        column("route", 6, 4) => plain(failure.route.as_deref().unwrap_or_default());
        column("host", 8, 5) => plain(failure.host.as_deref().unwrap_or_default());
        column("client", 0, 3) => plain(client);
        column("backend", 0, 2) => plain(failure.backend.as_deref().unwrap_or_default());
        column("what happened", 30, 0) => plain(&*failure.sentence);
        column("detail", 12, 6) => words(failure.detail.as_deref().unwrap_or_default(), Shade::Faint);
    }
}

/// A figure with its text.
fn figure(value: f64, text: String) -> Cell {
    known(Some(value), |_| text.clone(), Shade::Plain)
}

fn address(client: Option<IpAddr>) -> String {
    client.map_or_else(|| "unix socket".to_owned(), |client| client.to_string())
}
