//! Describes a run in one sentence for people.
//!
//! In: a plan. Out: `connect, TLS handshake, send 4 KiB, receive 4 KiB (echo), close; closed loop, 32 connections,
//! 10 s`.

use super::{Arrivals, Body, Model, Piece, Plan, Request, Work};
use handfast_text::units::{counted as things, exact_bytes as size};

use crate::units::{bytes, rate};

/// The sentence.
pub fn sentence(plan: &Plan) -> String {
    format!("{}; {}, {}", transaction(plan), model(plan), seconds(plan.duration.as_secs_f64()))
}

/// The part that describes a transaction, or the work on a kept connection; without the model.
pub fn transaction(plan: &Plan) -> String {
    let mix = match plan.mix.len() {
        0 => String::new(),
        members => format!(", as {} of client in turn", things(members as u64, "kind")),
    };
    format!("{}{mix}", steps(plan))
}

fn steps(plan: &Plan) -> String {
    let work = work(&plan.work);
    let handshake =
        if plan.wanted_resumed() > 0.0 { "TLS handshake (resumed where wanted)" } else { "TLS handshake" };
    let begin = if plan.target.plain { "connect".to_owned() } else { format!("connect, {handshake}") };
    match (&plan.work, plan.exchanges) {
        (Work::Handshake, _) => format!("{begin}, close"),
        (Work::Bulk { .. } | Work::Idle { .. }, _) => format!("{begin}, {work}, close"),
        (_, None) => format!("on connections that stay open, repeatedly: {work}"),
        (_, Some(1)) => format!("{begin}, {work}, close"),
        (_, Some(times)) => format!("{begin}, {} of: {work}; close", things(times.into(), "time")),
    }
}

fn work(work: &Work) -> String {
    match work {
        Work::Handshake => String::new(),
        Work::Exchange { send, receive, echo } => {
            format!("send {}, receive {}{}", size(*send), size(*receive), if *echo { " (echo)" } else { "" })
        }
        Work::Bulk { send, receive } => match (send, receive) {
            (true, true) => "send and receive without a pause until the end".to_owned(),
            (true, false) => "send without a pause until the end".to_owned(),
            (false, _) => "receive without a pause until the end".to_owned(),
        },
        Work::Idle { send: 0, .. } => "stay idle until the end".to_owned(),
        Work::Idle { send, receive } => {
            format!("send {}, receive {}, stay idle until the end", size(*send), size(*receive))
        }
        Work::Http { version, requests, streams, expect, in_order, .. } => {
            let version = version.name();
            let several =
                if *streams > 1 { format!(", {streams} in parallel on a connection") } else { String::new() };
            let requests_text = match requests.as_slice() {
                [] => "nothing".to_owned(),
                [one] => format!("{}{}", one.name(), beyond(one)),
                [_, ..] if *in_order => {
                    format!("{} in order on each connection", things(requests.len() as u64, "request"))
                }
                [_, ..] => format!("one of {} in turn", things(requests.len() as u64, "request")),
            };
            let expected =
                if expect.is_default() { String::new() } else { format!(", status {expect} expected") };
            format!("HTTP/{version} {requests_text}{several}{expected}")
        }
    }
}

/// The rates of an open model in words: `500/s`, `from 0/s to 500/s`, `from 0/s to 500/s in 30 s, then 500/s for 120 s`.
pub(crate) fn rates(plan: &Plan) -> String {
    let Some(rates) = plan.model.rates(plan.duration) else { return String::new() };
    let several = rates.pieces().len() > 1;
    let part = |piece: &Piece| {
        let even = piece.from.to_bits() == piece.to.to_bits();
        let length = match (several, even) {
            (false, _) => String::new(),
            (true, true) => format!(" for {}", seconds(piece.length)),
            (true, false) => format!(" in {}", seconds(piece.length)),
        };
        match even {
            true => format!("{}{length}", rate(piece.from)),
            false => format!("from {} to {}{length}", rate(piece.from), rate(piece.to)),
        }
    };
    rates.pieces().iter().map(part).collect::<Vec<_>>().join(", then ")
}

fn model(plan: &Plan) -> String {
    let connections = things(plan.connections.into(), "connection");
    let spaced = |arrivals: &Arrivals| match arrivals {
        Arrivals::Fixed => "at even distances",
        Arrivals::Poisson => "as customers come (Poisson)",
    };
    match &plan.model {
        Model::Closed => {
            let think =
                plan.think.map_or_else(String::new, |think| format!(", think time {}", think.sentence()));
            format!("closed loop, {connections}{think}")
        }
        Model::Open { arrivals, .. } => {
            format!("open model, {} offered {}, at most {connections}", rates(plan), spaced(arrivals))
        }
    }
}

/// `10 s`, `2.5 s`.
fn seconds(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Describes the parts of a request beyond method and path: ` with content-type, authorization and a body of 12 bytes`.
fn beyond(request: &Request) -> String {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{ExpectedStatuses, HttpVersion, Stage};
    use super::*;

    #[test]
    fn the_standard_transaction_reads_as_it_is_done() {
        assert_eq!(
            sentence(&Plan::default()),
            "connect, TLS handshake, send 4 KiB, receive 4 KiB (echo), close; closed loop, 32 connections, 10 s"
        );
    }

    #[test]
    fn every_kind_of_work_and_model_has_its_words() {
        let sentence_of =
            |work, exchanges, model| sentence(&Plan { work, exchanges, model, ..Plan::default() });
        let http = |streams| Work::Http {
            version: HttpVersion::Http2,
            authority: "a.example".into(),
            requests: vec![Request { path: "/x".into(), ..Request::default() }],
            streams,
            expect: ExpectedStatuses::default(),
            in_order: false,
        };
        let open = Model::open(5_000.0, Arrivals::Poisson);
        let ramp = Model::ramp(0.0, 10.0, Arrivals::Fixed);
        assert!(
            sentence_of(Work::Handshake, Some(1), open)
                .starts_with("connect, TLS handshake, close; open model, 5,000/s")
        );
        assert!(
            sentence_of(http(8), None, ramp)
                .contains("on connections that stay open, repeatedly: HTTP/2 GET /x, 8 in parallel")
        );
        let mut with_statuses = http(1);
        if let Work::Http { expect, .. } = &mut with_statuses {
            *expect = ExpectedStatuses::parse("2xx,404").expect("good");
        }
        assert!(
            sentence_of(with_statuses, None, Model::Closed)
                .contains("HTTP/2 GET /x, status 2xx, 404 expected;")
        );
        let some = Work::Exchange { send: 1, receive: 0, echo: false };
        assert!(
            sentence_of(some, Some(3), Model::Closed)
                .contains("3 times of: send 1 byte, receive 0 bytes; close")
        );
        assert!(
            sentence_of(Work::Bulk { send: true, receive: true }, Some(1), Model::Closed)
                .contains("send and receive")
        );
        assert!(
            sentence_of(Work::Idle { send: 0, receive: 0 }, Some(1), Model::Closed).contains("stay idle")
        );
    }

    #[test]
    fn stages_are_reported_one_after_the_other() {
        let stage = |from, to, share| Stage { from, to, share };
        let stages = vec![stage(0.0, 500.0, 30.0), stage(500.0, 500.0, 120.0)];
        let model = Model::Open { stages, arrivals: Arrivals::Fixed };
        let text = sentence(&Plan { model, duration: Duration::from_secs(15), ..Plan::default() });
        assert!(
            text.contains(
                "open model, from 0/s to 500/s in 3 s, then 500/s for 12 s offered at even distances"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_length_has_no_zeros_to_spare() {
        let plan = Plan { duration: Duration::from_millis(2_500), ..Plan::default() };
        assert!(sentence(&plan).ends_with(", 2.5 s"), "{}", sentence(&plan));
    }
}
