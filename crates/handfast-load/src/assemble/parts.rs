//! The parts of a run: the members of a mix of clients, and each of several requests.
//!
//! In: an outcome. Out: a row for each, in the plan's order.

use std::collections::BTreeMap;

use handfast_report::model::{Member, Request};

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

/// A row for each of several requests; none if there is only one.
pub(super) fn requests(outcome: &Outcome) -> Vec<Request> {
    let requests = outcome.plan.requests();
    if requests.len() < 2 {
        return Vec::new();
    }
    let all: f64 = requests.iter().map(|request| f64::from(request.weight)).sum();
    let none = RequestSample::default();
    let request = |(place, request): (usize, &plan::Request)| {
        let sample = outcome.totals.requests.get(place).unwrap_or(&none);
        Request {
            method: request.method.clone(),
            path: request.path.clone(),
            headers: request.headers.iter().map(Header::shown).collect(),
            body: request.body.as_ref().map(Body::shown),
            share: f64::from(request.weight) / all,
            done: sample.done,
            failed: sample.failed,
            http_status: by_class(sample.status),
            exchange: row(Series::Exchange, &sample.exchange),
        }
    };
    requests.iter().enumerate().map(request).collect()
}

/// Answers by class, those that there were.
pub(super) fn by_class(status: [u64; 5]) -> BTreeMap<String, u64> {
    let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"].into_iter().zip(status);
    classes.filter(|(_, count)| *count > 0).map(|(class, count)| (class.to_owned(), count)).collect()
}
