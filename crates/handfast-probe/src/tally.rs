//! Totals of all connections to one target, to compare with the server's own counters.
//!
//! In: each connection as it is made, those for tickets and for other addresses too. Out: a [`Seen`].

use std::cell::Cell;

use handfast_report::both_ends::Seen;

use crate::attempt::Attempt;

/// The sum so far.
#[derive(Debug, Default)]
pub(crate) struct Tally(Cell<Seen>);

impl Tally {
    /// Counts an established connection, whatever its result.
    pub(crate) fn connected(&self) {
        let mut seen = self.0.get();
        seen.connections += 1;
        self.0.set(seen);
    }

    /// One was made, with its answers.
    pub(crate) fn made(&self, made: &Attempt) {
        let mut seen = self.0.get();
        match made.agreed.resumed {
            Some(true) => seen.resumed += 1,
            _ => seen.full += 1,
        }
        // With early data the answer may come within the handshake: then it has no separate time.
        let first =
            made.first_byte.zip(made.requested).map(|(first, requested)| (first - requested).max(0.0));
        let answers = first.iter().chain(&made.again).count();
        let round_trips = f64::from(made.trips()) + answers as f64;
        seen.handshake_seconds += made.tls() / 1e3;
        seen.answers += answers as u64;
        seen.answer_seconds += first.iter().chain(&made.again).sum::<f64>() / 1e3;
        seen.network_seconds += round_trips * made.rtt / 1e3;
        seen.own_seconds += made.own / 1e3;
        seen.proxy_seconds += made.think() / 1e3;
        seen.client_seconds += made.held() / 1e3;
        self.0.set(seen);
    }

    /// Returns the counts so far.
    pub(crate) fn seen(&self) -> Seen {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_and_every_answer_counts() {
        let tally = Tally::default();
        let made = Attempt {
            begun: 10.0,
            secured: 40.0,
            requested: Some(41.0),
            first_byte: Some(61.0),
            again: vec![12.0, 14.0],
            rtt: 10.0,
            own: 2.0,
            ..Attempt::default()
        };
        for _ in 0..2 {
            tally.connected();
            tally.made(&made);
        }
        tally.connected();
        let seen = tally.seen();
        assert_eq!((seen.connections, seen.full, seen.resumed, seen.answers), (3, 2, 0, 6));
        assert!(
            (seen.handshake_seconds - 0.060).abs() < 1e-9 && (seen.answer_seconds - 0.092).abs() < 1e-9,
            "{seen:?}"
        );
        // Three answers each; its handshake has no exchanges.
        assert!(
            (seen.network_seconds - 0.060).abs() < 1e-9 && (seen.own_seconds - 0.004).abs() < 1e-9,
            "{seen:?}"
        );
    }
}
