//! One connection as a row of parts: who was busy from when to when. In: an attempt. Out: [`Span`]s, in order. Pure.

use crate::attempt::Attempt;
use crate::flights::{Because, Exchange};
use crate::report::{Party, Span};

/// The parts of a connection; `lookup`: how long the name took before it.
pub(crate) fn spans(attempt: &Attempt, lookup: f64) -> Vec<Span> {
    let mut parts = Parts { offset: lookup, spans: Vec::new() };
    parts.add("DNS", Party::Network, -lookup, 0.0, "the name becomes addresses");
    parts.add("TCP", Party::Network, 0.0, attempt.connected, "SYN, SYN-ACK");
    if attempt.starttls_trips > 0 {
        parts.add(
            "STARTTLS",
            Party::Network,
            attempt.connected,
            attempt.begun,
            "asking for TLS in plain text",
        );
    }
    let mut before = attempt.begun;
    for (number, exchange) in attempt.handshake().enumerate() {
        before = parts.exchange("TLS", exchange, attempt.rtt, (before, attempt.secured), number == 0);
    }
    parts.add("TLS", Party::Client, before, attempt.secured, "keys, certificates, Finished");
    if let (Some(requested), Some(first), Some(complete)) =
        (attempt.requested, attempt.first_byte, attempt.complete)
    {
        let busy = (first - requested - attempt.rtt).max(0.0);
        let half = (first - requested - busy).max(0.0) / 2.0;
        parts.add("HTTP", Party::Network, requested, requested + half, "the request");
        parts.add("HTTP", Party::Server, requested + half, first - half, "the server works on it");
        parts.add("HTTP", Party::Network, first - half, complete, "the response");
    }
    parts.spans
}

struct Parts {
    offset: f64,
    spans: Vec<Span>,
}

impl Parts {
    fn add(&mut self, row: &'static str, party: Party, from: f64, to: f64, what: &str) {
        if to > from {
            let rounded = |ms: f64| ((ms + self.offset) * 1e3).round() / 1e3;
            self.spans.push(Span {
                row,
                who: party,
                from_ms: rounded(from),
                to_ms: rounded(to),
                what: what.to_owned(),
            });
        }
    }

    /// Adds our bytes and the answer to them; returns when it ended.
    fn exchange(
        &mut self,
        row: &'static str,
        exchange: &Exchange,
        rtt: f64,
        (before, end): (f64, f64),
        first: bool,
    ) -> f64 {
        let Some(answered) = exchange.first_ms() else { return before };
        self.add(row, Party::Client, before, exchange.sent_ms, "keys and the next flight");
        let think = exchange.think_ms.min((answered - exchange.sent_ms).max(0.0));
        let half = ((answered - exchange.sent_ms - think) / 2.0).max(0.0).max(rtt.min(0.0));
        let out = exchange.sent_ms + half;
        self.add(
            row,
            Party::Network,
            exchange.sent_ms,
            out,
            if first { "ClientHello" } else { "our flight" },
        );
        self.add(row, Party::Server, out, out + think, "the server works");
        self.add(row, Party::Network, out + think, answered, "the first byte of its flight");
        let mut last = answered;
        for burst in exchange.bursts.iter().filter(|burst| burst.first_ms <= end) {
            let (party, what) = match burst.because {
                Because::Answer => (Party::Network, ""),
                Because::Window => (Party::Network, "its window was full: it waits for our acknowledgement"),
                Because::Nagle => {
                    (Party::Network, "its kernel holds the rest until our acknowledgement comes")
                }
                Because::Pause => (Party::Server, "it stops within its flight"),
            };
            self.add(row, party, last, burst.first_ms, what);
            let arrived = burst.last_ms.min(end);
            self.add(row, Party::Network, burst.first_ms, arrived, &format!("{} bytes arrive", burst.bytes));
            last = last.max(arrived);
        }
        last
    }
}
