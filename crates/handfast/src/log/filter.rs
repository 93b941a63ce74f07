//! Selects connections.
//!
//! In: the options, and an entry. Out: whether it is shown. A notice about missing lines is shown if its time matches.

use super::entry::{Connection, Entry};
use crate::words::log::OnlyWords;

/// Whether an entry is selected.
pub(super) fn wants(only: &OnlyWords, entry: &Entry) -> bool {
    match entry {
        Entry::Loss { time, .. } => is_within(only, *time),
        Entry::Connection(connection) => {
            is_within(only, connection.ended()) && wants_connection(only, connection)
        }
    }
}

fn is_within(only: &OnlyWords, time: f64) -> bool {
    only.since.is_none_or(|since| time >= since) && only.until.is_none_or(|until| time < until)
}

fn wants_connection(only: &OnlyWords, connection: &Connection) -> bool {
    let of_client = || {
        connection.address().is_some_and(|address| only.client.iter().any(|prefix| prefix.contains(address)))
    };
    (!only.failures || connection.has_failed())
        && (only.cause.is_empty() || only.cause.iter().any(|cause| cause.name() == connection.cause))
        && (only.service.is_empty() || only.service.contains(&connection.service))
        && (only.client.is_empty() || of_client())
        && only.slow.is_none_or(|slow| connection.readied() >= slow.as_secs_f64())
}
