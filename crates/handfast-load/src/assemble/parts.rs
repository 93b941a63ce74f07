//! The parts of a run: the members of a mix of clients, and each of several requests.
//!
//! In: an outcome. Out: a row for each, in the plan's order.

use std::collections::BTreeMap;

use handfast_report::model::{Member, Request};
use handfast_report::units::bytes;

use super::row;
use crate::outcome::Outcome;
use crate::plan::{self, Body, Header};
use crate::sample::{MemberSample, RequestSample, Series};

/// A row for each member of the mix; none without one.
pub(super) fn members(outcome: &Outcome) -> Vec<Member> {
    let all: f64 = outcome.plan.mix.iter().map(|member| member.share).sum();
    let none = MemberSample::default();
    let member = |(place, member): (usize, &plan::Member)| {
        let sample = outcome.totals.members.get(place).unwrap_or(&none);
        Member {
            name: member.name.clone(),
            share: member.share / all,
            offered: member.tls.sentence(),
            wanted_resumed: member.tls.resume,
            connections: sample.connections,
            transactions: sample.transactions,
            failed: sample.failed,
            full: sample.full,
            resumed: sample.resumed,
            hello_bytes: sample.hello_bytes as f64 / sample.connections.max(1) as f64,
            agreed: sample.agreed.clone(),
            handshake: row(Series::Handshake, &sample.handshake),
            total: row(Series::Total, &sample.total),
        }
    };
    outcome.plan.mix.iter().enumerate().map(member).collect()
}

/// A row for each of several requests; none when there is but one.
pub(super) fn requests(outcome: &Outcome) -> Vec<Request> {
    let wanted = outcome.plan.requests();
    if wanted.len() < 2 {
        return Vec::new();
    }
    let all: f64 = wanted.iter().map(|request| f64::from(request.weight)).sum();
    let none = RequestSample::default();
    let request = |(place, request): (usize, &plan::Request)| {
        let sample = outcome.totals.requests.get(place).unwrap_or(&none);
        Request {
            method: request.method.clone(),
            path: request.path.clone(),
            headers: request.headers.iter().map(header).collect(),
            body: request.body.as_ref().map(|body| match body {
                Body::Text(text) => text.clone(),
                Body::File(path) => format!("@{}", path.display()),
            }),
            share: f64::from(request.weight) / all,
            done: sample.done,
            failed: sample.failed,
            http_status: by_class(sample.status),
            exchange: row(Series::Exchange, &sample.exchange),
        }
    };
    wanted.iter().enumerate().map(request).collect()
}

/// Answers by class, those that there were.
pub(super) fn by_class(status: [u64; 5]) -> BTreeMap<String, u64> {
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(status);
    classes.filter(|(_, count)| *count > 0).map(|(class, count)| (class.to_owned(), count)).collect()
}

fn header(header: &Header) -> String {
    let value = if header.is_secret() { "***" } else { header.value.as_deref().unwrap_or_default() };
    format!("{}: {value}", header.name)
}

/// What a request has beyond method and path, in words: ` with content-type, authorization and a body of 12 bytes`.
pub(super) fn beyond(request: &plan::Request) -> String {
    let mut parts: Vec<String> = request.headers.iter().map(|header| header.name.clone()).collect();
    parts.extend(request.body.as_ref().map(|body| match body {
        Body::Text(text) => format!("a body of {}", bytes(text.len() as u64)),
        Body::File(path) => format!("the body in {}", path.display()),
    }));
    match parts.as_slice() {
        [] => String::new(),
        [only] => format!(" with {only}"),
        [most @ .., last] => format!(" with {} and {last}", most.join(", ")),
    }
}
