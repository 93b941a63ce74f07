//! Times of the phases of handshakes, by the agreed parameters.

use std::time::Duration;

use handfast_tls::session::Agreed;
use serde::{Deserialize, Serialize};

use super::counters::counters;
use super::histogram::{Distribution, Histogram};
use super::table::Table;
use super::transfer::{Counts, Transfer};
use crate::record::StepTimes;
use crate::words::Word;

/// Key under which a handshake is counted: version, group, signature, and whether a session was resumed.
pub(super) type HandshakeKey = (&'static str, &'static str, &'static str, bool);

/// The parts of a handshake's time, in the order of [`HandshakeTimes::phases`].
pub const PHASES: [&str; 4] = ["hello_wait", "crypto", "client_wait", "queue"];

/// The parts of the time of a handshake with a backend, and their places among those of [`HandshakeTimes::phases`].
pub(super) const BACKEND_PHASES: [(&str, usize); 2] = [("crypto", 1), ("backend_wait", 2)];

/// Handshake times by what was agreed on.
pub(super) type Handshakes = Table<HandshakeKey, HandshakeTimes, 64>;

counters! {
    /// Times of the phases of handshakes.
    #[derive(Debug, Default)]
    pub(super) cells HandshakeTimes;

    /// Handshakes that agreed on the same.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(default)]
    values HandshakeSnapshot;

    /// `TLSv1.3`, `TLSv1.2`.
    version: Word;
    /// IANA name of the key exchange group; `none` when there was none.
    group: Word;
    /// Kind of key that signed; `none` when resumed.
    signature: Word;
    /// True if a session was resumed.
    resumed: bool;
    /// Accept to the end of the handshake.
    total: Distribution = Histogram => ["total"];
    /// Its parts, in the order of [`PHASES`].
    phases: [Distribution; PHASES.len()] = [Histogram; PHASES.len()] => [];
}

pub(super) fn handshake_key(facts: &Agreed) -> HandshakeKey {
    let word = |known: Option<&'static str>| known.unwrap_or("none");
    (word(facts.version), word(facts.group), word(facts.signature), facts.resumed == Some(true))
}

impl HandshakeTimes {
    /// Of a handshake with a backend, which has no hello to wait for: its whole time, and our own computing.
    #[inline]
    pub(super) fn record_backend(&self, whole: Duration, crypto: Duration) {
        self.total.record(whole);
        for (histogram, part) in self.phases[1..].iter().zip([crypto, whole.saturating_sub(crypto)]) {
            histogram.record(part);
        }
    }

    #[inline]
    pub(super) fn record(&self, times: &StepTimes) {
        self.total.record(times.hello + times.handshake);
        // The rest of the handshake is neither computing nor waiting for the client: our thread was busy elsewhere.
        let queue = times.handshake.saturating_sub(times.handshake_crypto + times.handshake_wait);
        let parts = [times.hello, times.handshake_crypto, times.handshake_wait, queue];
        for (histogram, part) in self.phases.iter().zip(parts) {
            histogram.record(part);
        }
    }
}

impl HandshakeSnapshot {
    pub(super) fn key(&self) -> (&str, &str, &str, bool) {
        (&self.version, &self.group, &self.signature, self.resumed)
    }

    /// Those that agreed on this, which are added where the list lacks them.
    pub(super) fn of(list: &mut Vec<Self>, words: [Word; 3], resumed: bool) -> &mut Self {
        let [version, group, signature] = words;
        let key = (&*version, &*group, &*signature, resumed);
        let place = list.iter().position(|seen| seen.key() == key).unwrap_or_else(|| {
            list.push(Self { version, group, signature, resumed, ..Self::default() });
            list.len() - 1
        });
        &mut list[place]
    }
}

impl Transfer for Vec<HandshakeSnapshot> {
    fn write(&self, words: &[&str], to: &mut Counts) {
        for seen in self {
            let resumed = if seen.resumed { "resumed" } else { "full" };
            seen.write(&[words, &[&*seen.version, &seen.group, &seen.signature, resumed]].concat(), to);
        }
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let [version, group, signature, resumed, rest @ ..] = words else { return None };
        let words = [version, group, signature].map(|word| Word::Owned((*word).to_owned()));
        HandshakeSnapshot::of(self, words, *resumed == "resumed").place(rest)
    }
}

/// Each part under its word.
impl Transfer for [Distribution; PHASES.len()] {
    fn write(&self, words: &[&str], to: &mut Counts) {
        PHASES.iter().zip(self).for_each(|(phase, times)| times.write(&[words, &[phase]].concat(), to));
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let (phase, rest) = words.split_first()?;
        self[PHASES.iter().position(|known| known == phase)?].place(rest)
    }
}
