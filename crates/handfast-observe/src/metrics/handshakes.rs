//! Where the time of handshakes went, by what was agreed on.

#![expect(clippy::disallowed_types, reason = "held to intern a word, never to count")]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use handfast_tls::session::Agreed;
use serde::Serialize;

use super::counters::counters;
use super::ends::OTHER;
use super::histogram::{Distribution, Histogram};
use super::table::Table;
use super::transfer::{Counts, Transfer};
use crate::record::StepTimes;

/// Words of handshakes that are accepted from other processes, at the most; versions, groups and signatures are a few dozen.
const WORDS: usize = 256;

/// What a handshake is counted under: version, group, signature, and whether a session was resumed.
pub(super) type HandshakeKey = (&'static str, &'static str, &'static str, bool);

/// The parts of a handshake's time, in the order of [`HandshakeTimes::phases`].
pub const PHASES: [&str; 4] = ["hello_wait", "crypto", "client_wait", "queue"];

/// The parts of the time of a handshake with a backend, and their places among those of [`HandshakeTimes::phases`].
pub(super) const BACKEND_PHASES: [(&str, usize); 2] = [("crypto", 1), ("backend_wait", 2)];

/// Handshake times by what was agreed on.
pub(super) type Handshakes = Table<HandshakeKey, HandshakeTimes, 64>;

counters! {
    /// Where the time of handshakes went.
    #[derive(Debug, Default)]
    pub(super) cells HandshakeTimes;

    /// Handshakes that agreed on the same.
    #[derive(Clone, Debug, Default, Serialize)]
    values HandshakeSnapshot;

    /// `TLSv1.3`, `TLSv1.2`.
    version: &'static str;
    /// IANA name of the key exchange group; `none` when there was none.
    group: &'static str;
    /// Kind of key that signed; `none` when resumed.
    signature: &'static str;
    /// Whether a session was resumed.
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
        // What is left of the handshake is neither computing nor waiting for the client: our thread was busy elsewhere.
        let queue = times.handshake.saturating_sub(times.handshake_crypto + times.handshake_wait);
        let parts = [times.hello, times.handshake_crypto, times.handshake_wait, queue];
        for (histogram, part) in self.phases.iter().zip(parts) {
            histogram.record(part);
        }
    }
}

impl HandshakeSnapshot {
    pub(super) fn key(&self) -> HandshakeKey {
        (self.version, self.group, self.signature, self.resumed)
    }

    /// Those that agreed on this, which are added where the list lacks them.
    pub(super) fn of(list: &mut Vec<Self>, key: HandshakeKey) -> &mut Self {
        let place = list.iter().position(|seen| seen.key() == key).unwrap_or_else(|| {
            let (version, group, signature, resumed) = key;
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
            seen.write(&[words, &[seen.version, seen.group, seen.signature, resumed]].concat(), to);
        }
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let [version, group, signature, resumed, rest @ ..] = words else { return None };
        let [version, group, signature] = [version, group, signature].map(|word| interned(word));
        HandshakeSnapshot::of(self, (version, group, signature, *resumed == "resumed")).place(rest)
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

/// The same word for as long as the program runs; `other` for too many of them.
fn interned(word: &str) -> &'static str {
    static KNOWN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.iter().find(|known| **known == word) {
        return known;
    }
    if known.len() >= WORDS {
        return OTHER;
    }
    let interned: &'static str = Box::leak(word.into());
    known.push(interned);
    interned
}
