//! HTTP requests: answers with 5xx, and backend connections that are not reused.

use handfast_observe::metrics::StatusClass;

use super::{Findings, URGENT, Urgency, count, counted, most_of, share_of};
use crate::rates::{RecentRequests, RecentService};

/// Requests from which a share of them says something.
const ENOUGH: u64 = 100;
/// Percent of requests with status 5xx from which they are worth reporting.
const MANY_ERRORS: u64 = 1;
/// Percent of requests on reused backend connections below which it is worth reporting: each of the others costs a connect, and a
/// handshake where the backend has TLS.
const FEW_REUSED: u64 = 50;

pub(super) fn requests(service: &str, recent: &RecentService, over: &str, findings: &mut Findings) {
    let Some(requests) = &recent.requests else { return };
    errors(service, requests, over, findings);
    let sent = requests.new_connection + requests.reused_connection;
    // Clients that send one request on each connection do not show a pool that works badly: enough requests came on kept connections.
    if sent >= ENOUGH && requests.reused_connection * 100 < sent * FEW_REUSED {
        let (reused, sent) = (share_of(requests.reused_connection, sent), counted(sent, "request"));
        findings.soon(format!(
            "Only {reused} of {sent} to backends of {service} {over} used a pooled connection: do the backends close their \
             connections after each response, or is the pool of [service.http] too small?"
        ));
    }
}

fn errors(service: &str, requests: &RecentRequests, over: &str, findings: &mut Findings) {
    let (errors, all) = (requests.of_class(StatusClass::ServerError), requests.ended());
    if all < ENOUGH && errors * 100 < all * URGENT || errors * 100 < all * MANY_ERRORS || errors == 0 {
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
