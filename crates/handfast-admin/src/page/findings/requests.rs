//! HTTP requests: answers with 5xx, requests that wait or are too slow, and backend connections that are not reused.

use std::collections::BTreeMap;
use std::time::Duration;

use handfast_observe::cause::Cause;
use handfast_observe::metrics::{End, StatusClass};
use handfast_observe::open::OpenRequest;
use handfast_observe::reason::Side;
use handfast_observe::request_record::RequestPart;

use super::{Findings, URGENT, Urgency, count, counted, long, most_of, share_of};
use crate::rates::{RecentRequests, RecentService};
use crate::status::Status;

/// Requests from which a share of them says something.
const MIN_REQUESTS: u64 = 100;
/// Percent of requests with status 5xx from which they are worth reporting.
const MIN_ERROR_PERCENT: u64 = 1;
/// Requests that were too slow from which they are worth reporting.
const MIN_SLOW_REQUESTS: u64 = 3;
/// Percent of requests on reused backend connections below which it is worth reporting: each of the others costs a connect, and a
/// handshake where the backend has TLS.
const MIN_REUSED_PERCENT: u64 = 50;

/// Seconds after which an open request is worth reporting, and the number of such requests.
const WAITS: f64 = 30.0;
const MIN_WAITING: usize = 5;

/// Requests that have been open for long without an answer: a backend that hangs, or clients that send slowly.
pub(super) fn waiting(status: &Status, findings: &mut Findings) {
    let mut groups: BTreeMap<(&str, bool, &str), Vec<&OpenRequest>> = BTreeMap::new();
    let waits =
        |request: &&OpenRequest| request.seconds >= WAITS && *request.part != *RequestPart::Relay.name();
    for request in status.open.requests.iter().filter(waits) {
        let backend = request.backend.as_deref().unwrap_or("a backend");
        let key = (&*request.service, request.bytes_from_client > 0, backend);
        groups.entry(key).or_default().push(request);
    }
    for ((service, sends, backend), waiting) in
        groups.iter().filter(|(_, waiting)| waiting.len() >= MIN_WAITING)
    {
        let oldest = waiting.iter().map(|request| request.seconds).fold(0.0, f64::max);
        let (many, oldest) =
            (counted(waiting.len() as u64, "request"), long(Duration::from_secs_f64(oldest)));
        let why = match sends {
            true => format!("they have content: their clients send slowly, or {backend} does not read it"),
            false => format!("they wait for {backend}"),
        };
        findings.soon(format!(
            "{many} of {service} are open for more than {WAITS:.0} s without an answer, the oldest for {oldest}: {why}. They are listed below \
             (Open requests)."
        ));
    }
}

/// Requests whose client was too slow: their uploads are cut.
fn slow(service: &str, requests: &RecentRequests, over: &str, findings: &mut Findings) {
    let is_slow = |end: &&End| {
        end.side == Some(Side::Client)
            && matches!(end.cause, Some(Cause::ContentDeadline | Cause::RequestDeadline))
    };
    let all = requests.ended();
    let Some((slow, why)) = most_of(&requests.failures, is_slow) else { return };
    if slow * 100 < all * MIN_ERROR_PERCENT || slow < MIN_SLOW_REQUESTS {
        return;
    }
    let (slow, all) = (count(slow), counted(all, "request"));
    findings.soon(format!(
        "{slow} of {all} of {service} ended {over} because their client was too slow: {why}. Slow uploads need a lower min-rate, or a longer \
         body-timeout."
    ));
}

pub(super) fn requests(service: &str, recent: &RecentService, over: &str, findings: &mut Findings) {
    let Some(requests) = &recent.requests else { return };
    errors(service, requests, over, findings);
    slow(service, requests, over, findings);
    let sent = requests.new_connection + requests.reused_connection;
    // Clients that send one request on each connection do not show a pool that works badly: enough requests came on kept connections.
    if sent >= MIN_REQUESTS && requests.reused_connection * 100 < sent * MIN_REUSED_PERCENT {
        let (reused, sent) = (share_of(requests.reused_connection, sent), counted(sent, "request"));
        findings.soon(format!(
            "Only {reused} of {sent} to backends of {service} {over} used a pooled connection: do the backends close their \
             connections after each response, or is the pool of [service.http] too small?"
        ));
    }
}

fn errors(service: &str, requests: &RecentRequests, over: &str, findings: &mut Findings) {
    // Those of a maintenance are planned, and reported as such.
    let is_planned = |end: &&End| end.cause == Some(Cause::Maintenance);
    let planned = most_of(&requests.failures, is_planned).map_or(0, |(planned, _)| planned);
    let (errors, all) = (requests.of_class(StatusClass::ServerError), requests.ended());
    let (errors, all) = (errors.saturating_sub(planned), all.saturating_sub(planned));
    if all < MIN_REQUESTS && errors * 100 < all * URGENT
        || errors * 100 < all * MIN_ERROR_PERCENT
        || errors == 0
    {
        return;
    }
    let urgency = if errors * 100 >= all * URGENT { Urgency::Bad } else { Urgency::Soon };
    let why = match most_of(&requests.failures, |end| end.is_failure()) {
        // Some of these clients may have left; so it is no more than a hint.
        Some((failed, why)) => format!("no backend answered {} completely: {why}", count(failed)),
        None => "the backends sent them".to_owned(),
    };
    let (errors, all, share) = (count(errors), counted(all, "request"), share_of(errors, all));
    findings.add(
        urgency,
        format!(
            "{errors} of {all} ({share}) of {service} were answered with a server error (5xx) {over}; {why}."
        ),
    );
}
