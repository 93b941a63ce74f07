//! Selects connections and requests.
//!
//! In: the options, and an entry. Out: whether it is shown. A notice about missing lines is shown if its time matches.

use super::entry::{Connection, Entry, address};
use super::request::Request;
use crate::words::log::OnlyWords;

/// Fields that connections and requests have in common.
struct Common<'a> {
    failed: bool,
    cause: &'a str,
    service: &'a String,
    client: &'a str,
    backend: &'a String,
    /// Duration that `--slow` is compared with.
    seconds: f64,
}

/// Returns true if an entry is selected.
pub(super) fn matches(only: &OnlyWords, entry: &Entry) -> bool {
    match entry {
        Entry::Loss { time, .. } => is_within(only, *time),
        Entry::Connection(connection) => {
            is_within(only, connection.ended()) && matches_connection(only, connection)
        }
        Entry::Request(request) => is_within(only, request.ended()) && matches_request(only, request),
    }
}

fn is_within(only: &OnlyWords, time: f64) -> bool {
    only.since.is_none_or(|since| time >= since) && only.until.is_none_or(|until| time < until)
}

fn matches_common(only: &OnlyWords, entry: &Common<'_>) -> bool {
    let of_client = || {
        address(entry.client).is_some_and(|address| only.client.iter().any(|prefix| prefix.contains(address)))
    };
    (!only.failures || entry.failed)
        && (only.cause.is_empty() || only.cause.iter().any(|cause| cause.name() == entry.cause))
        && (only.service.is_empty() || only.service.contains(entry.service))
        && (only.client.is_empty() || of_client())
        && (only.backend.is_empty() || only.backend.contains(entry.backend))
        && only.slow.is_none_or(|slow| entry.seconds >= slow.as_secs_f64())
}

fn matches_connection(only: &OnlyWords, connection: &Connection) -> bool {
    let common = Common {
        failed: connection.has_failed(),
        cause: &connection.cause,
        service: &connection.service,
        client: &connection.client,
        backend: &connection.backend,
        seconds: connection.readied(),
    };
    only.status.is_empty() && only.path.is_none() && only.host.is_empty() && matches_common(only, &common)
}

fn matches_request(only: &OnlyWords, request: &Request) -> bool {
    let common = Common {
        failed: request.has_failed(),
        cause: &request.cause,
        service: &request.service,
        client: &request.client,
        backend: &request.backend,
        seconds: request.duration(),
    };
    (only.status.is_empty() || only.status.iter().any(|status| status.contains(&request.status)))
        && only.path.as_ref().is_none_or(|path| request.path.starts_with(path))
        && (only.host.is_empty() || only.host.iter().any(|host| request.has_host(host)))
        && matches_common(only, &common)
}
