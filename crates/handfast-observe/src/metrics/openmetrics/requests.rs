//! The families of HTTP requests; services that relay bytes have none.

use std::fmt;

use prometheus_client::registry::Unit;

use super::each_service;
use super::families::{Families, Labels, families, rows, split, split_ends, times, words};
use crate::metrics::requests::RequestSnapshot;
use crate::metrics::snapshot::Snapshot;

/// Every service that serves requests.
fn each(snapshot: &Snapshot) -> impl Iterator<Item = (Labels<'_>, &RequestSnapshot)> {
    each_service(snapshot).filter_map(|(labels, service)| Some((labels, service.requests.as_ref()?)))
}

pub(super) fn requests(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let each = || each(snapshot);
    let in_service = each_service(snapshot).filter(|(_, service)| service.requests.is_some());
    let failures = split_ends(rows(each(), |requests| &requests.failures));
    families! { to:
        gauge "handfast_maintenance", "1: requests of the service are answered with 503, by its key or by `handfast maintenance on`; 0: it serves"
            => rows(in_service, |service| u64::from(service.maintenance.is_some()));
        gauge "handfast_requests_open", "HTTP requests that have begun and not ended, by HTTP version (h2: open streams)"
            => split(each(), "protocol", |requests| words(&requests.open));
        counter "handfast_requests",
            "HTTP requests that ended, by class of status; none: the connection broke before a status was sent"
            => split(each(), "status", |requests| words(&requests.by_status));
        counter "handfast_requests_by_protocol", "HTTP requests that ended, by HTTP version"
            => split(each(), "protocol", |requests| words(&requests.by_protocol));
        counter "handfast_requests_failed",
            "HTTP requests that no backend answered completely: at which step, on which side, why, and whether something may have been lost (failed)"
            => failures;
        counter "handfast_requests_refused", "HTTP requests that were refused because they broke a rule of HTTP, by rule"
            => split(each(), "rule", |requests| words(&requests.refused));
        counter "handfast_request_retries", "Times HTTP requests were sent again, on another backend connection"
            => rows(each(), |requests| requests.retries);
        counter "handfast_request_copies", "Copies of HTTP requests for a mirror, by what became of them"
            => split(each(), "end", |requests| words(&requests.copies));
        counter "handfast_request_upgrades", "HTTP requests whose connection became a tunnel (101)"
            => rows(each(), |requests| requests.upgrades);
        counter "handfast_request_content" [Bytes], "Bytes of content of HTTP requests and responses"
            => split(each(), "direction", |requests| {
                [("from_client", requests.bytes_from_client), ("to_client", requests.bytes_to_client)]
            });
        counter "handfast_responses_compressed", "HTTP responses that were compressed here, by coding"
            => split(each(), "coding", |requests| words(&requests.compressed));
        counter "handfast_response_uncompressed" [Bytes], "Bytes of content of compressed HTTP responses before that, by coding"
            => split(each(), "coding", |requests| words(&requests.bytes_before_coding));
        counter "handfast_response_compressed" [Bytes], "Bytes of content of compressed HTTP responses as clients received them, by coding"
            => split(each(), "coding", |requests| words(&requests.bytes_after_coding));
        counter "handfast_compression_skipped", "HTTP responses that were not compressed because no memory was left (process.compression-memory)"
            => rows(each(), |requests| requests.compression_skipped);
        counter "handfast_request_backend_connections",
            "HTTP requests by the backend connection they were sent on: new, or reused from the pool"
            => split(each(), "connection", |requests| {
                [("new", requests.new_connection), ("reused", requests.reused_connection)]
            });
        counter "handfast_requests_kept_alive",
            "HTTP requests after the first one of their client's connection: each saved a handshake"
            => rows(each(), |requests| requests.kept_alive);
        gauge "handfast_backend_connections_idle", "Idle backend connections in the pool, kept for further HTTP requests"
            => rows(each(), |requests| requests.idle_connections);
        seconds "handfast_request_first_byte",
            "From an HTTP request's complete head to the first byte of the backend's response"
            => rows(each(), |requests| &requests.first_byte);
        seconds "handfast_request_duration",
            "From the first byte of an HTTP request to the end of its response, by class of status"
            => split(each(), "status", |requests| times(&requests.duration));
        seconds "handfast_request_phase",
            "Where an HTTP request's time went: hello (the client's head), connect (until a backend connection was ready), \
             answer (until the first byte of the response), relay (until its end)"
            => split(each(), "phase", |requests| times(&requests.phases));
    }
}
