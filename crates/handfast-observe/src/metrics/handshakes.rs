//! Where the time of handshakes went, by what was agreed on.
//!
//! In: a handshake that was completed, on its worker's thread. Out: histograms that `sum.rs` reads.

use std::time::Duration;

use handfast_tls::session::Agreed;

use super::histogram::Histogram;
use super::table::Table;
use crate::record::StepTimes;

/// What a handshake is counted under: version, group, signature, and whether a session was resumed.
pub(super) type HandshakeKey = (&'static str, &'static str, &'static str, bool);

/// The parts of a handshake's time, in the order of [`HandshakeTimes::phases`].
pub const PHASES: [&str; 4] = ["hello_wait", "crypto", "client_wait", "queue"];

/// The parts of the time of a handshake with a backend, and their places among those of [`HandshakeTimes::phases`].
pub(super) const BACKEND_PHASES: [(&str, usize); 2] = [("crypto", 1), ("backend_wait", 2)];

/// Handshake times by what was agreed on.
pub(super) type Handshakes = Table<HandshakeKey, HandshakeTimes, 64>;

/// Where the time of handshakes went.
#[derive(Debug, Default)]
pub(super) struct HandshakeTimes {
    /// Accept to the end of the handshake.
    pub(super) total: Histogram,
    /// By phase, as in [`PHASES`]; they add up to the total.
    pub(super) phases: [Histogram; 4],
}

/// The words of a handshake that was completed.
pub(super) fn handshake_key(facts: &Agreed) -> HandshakeKey {
    let word = |known: Option<&'static str>| known.unwrap_or("none");
    (word(facts.version), word(facts.group), word(facts.signature), facts.resumed == Some(true))
}

impl HandshakeTimes {
    /// Of a handshake with a backend, which has no hello to wait for: its whole time, and our own computing.
    pub(super) fn record_backend(&self, whole: Duration, crypto: Duration) {
        self.total.record(whole);
        for (histogram, part) in self.phases[1..].iter().zip([crypto, whole.saturating_sub(crypto)]) {
            histogram.record(part);
        }
    }

    pub(super) fn record(&self, times: &StepTimes) {
        self.total.record(times.hello + times.handshake);
        // What is left of the handshake is neither computing nor waiting for the client: our thread was busy elsewhere.
        let queue = times.handshake.saturating_sub(times.handshake_crypto + times.handshake_wait);
        let parts = [times.hello, times.handshake_crypto, times.handshake_wait, queue];
        for (histogram, part) in self.phases.iter().zip(parts) {
            histogram.record(part);
        }
    }
}
