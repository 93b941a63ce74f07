//! The last connections of a thread that failed, for a person who looks at the status. No worker waits here: where a reader holds the list at
//! that moment, the failure is only counted (as all are, by cause).

#![expect(
    clippy::disallowed_types,
    reason = "only tried by the worker, and only when a connection has failed"
)]

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::times;
use crate::reason::CloseReason;
use crate::record::Record;
use crate::words::Word;

/// Failures that a thread keeps: at most some 16 KiB.
const KEPT: usize = 32;
/// Failures of one service and one reason that are kept, so that a scanner does not push out everything else.
const ALIKE: usize = 4;
/// Bytes of a detail that are kept: a peer may have a part in it.
const DETAIL_BYTES: usize = 160;
/// Failures that a status shows.
const SHOWN: usize = 32;

/// A connection that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FailureSnapshot {
    /// When it was accepted, as in the access log.
    #[serde(with = "times")]
    pub time: SystemTime,
    /// Its service.
    pub service: Box<str>,
    /// Its client, as in the access log; `None` on unix sockets.
    pub client: Option<SocketAddr>,
    /// The backend that was dialled last.
    pub backend: Option<Box<str>>,
    /// The step it was in.
    pub step: Word,
    /// The side that made it end.
    pub side: Word,
    /// Why.
    pub cause: Word,
    /// What happened.
    pub sentence: Box<str>,
    /// What more is known.
    pub detail: Option<Box<str>>,
}

impl FailureSnapshot {
    fn is_like(&self, service: &str, reason: &CloseReason) -> bool {
        let words = [reason.step.name(), reason.side.name(), reason.cause.name()];
        *self.service == *service && [&*self.step, &self.side, &self.cause] == words
    }
}

/// The last failures of one thread, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Vec<FailureSnapshot>>);

impl Failures {
    /// A connection failed. Never waits. **Cost**: a microsecond, and up to five allocations.
    #[cold]
    pub(super) fn add(&self, record: &Record, reason: &CloseReason) {
        let Ok(mut kept) = self.0.try_lock() else { return };
        let alike = kept.iter().filter(|failure| failure.is_like(&record.service, reason)).count();
        let gone = match alike >= ALIKE {
            true => kept.iter().position(|failure| failure.is_like(&record.service, reason)),
            false => (kept.len() >= KEPT).then_some(0),
        };
        if let Some(gone) = gone {
            kept.remove(gone);
        }
        let detail =
            reason.detail.as_deref().map(|detail| &detail[..detail.floor_char_boundary(DETAIL_BYTES)]);
        kept.push(FailureSnapshot {
            time: record.accepted_at,
            service: (&*record.service).into(),
            client: record.client,
            backend: record.backend.as_deref().map(Box::from),
            step: reason.step.name().into(),
            side: reason.side.name().into(),
            cause: reason.cause.name().into(),
            sentence: reason.sentence().into(),
            detail: detail.map(Box::from),
        });
    }

    fn all(&self) -> Vec<FailureSnapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The last failures of all threads, the newest first.
pub(super) fn latest<'f>(threads: impl Iterator<Item = &'f Failures>) -> Vec<FailureSnapshot> {
    let mut all: Vec<FailureSnapshot> = threads.flat_map(Failures::all).collect();
    all.sort_by_key(|failure| std::cmp::Reverse(failure.time));
    all.truncate(SHOWN);
    all
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use super::*;
    use crate::cause::Cause;
    use crate::reason::{Side, Step};

    fn record(second: u64) -> Record {
        let client = SocketAddr::from(([192, 0, 2, 7], 4_000));
        let mut record = Record::new((0, Rc::from("web")), 1, Some(client));
        record.accepted_at = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        record
    }

    #[test]
    fn the_last_are_kept_and_what_repeats_pushes_nothing_else_out() {
        let failures = Failures::default();
        let alert = CloseReason::new(Step::Handshake, Side::Client, Cause::Alert);
        failures.add(&record(0), &alert.because("x".repeat(500)));
        let scanner = CloseReason::new(Step::Hello, Side::Client, Cause::NotTls);
        for second in 1..1_000 {
            failures.add(&record(second), &scanner);
        }
        let seen = latest([&failures].into_iter());
        assert_eq!(seen.len(), ALIKE + 1);
        assert_eq!((&*seen[0].cause, seen[0].time), ("not-tls", record(999).accepted_at), "the newest first");
        assert_eq!(&*seen[ALIKE].sentence, "during the handshake, the client sent a fatal TLS alert");
        assert_eq!(
            seen[ALIKE].detail.as_deref().map(str::len),
            Some(DETAIL_BYTES),
            "a peer's words are bounded"
        );
        assert_eq!(seen[0].client.map(|client| client.to_string()), Some("192.0.2.7:4000".into()));
    }

    #[test]
    fn the_list_is_bounded_whatever_fails() {
        let failures = Failures::default();
        for cause in Cause::all() {
            for side in Side::ALL {
                failures.add(&record(1), &CloseReason::new(Step::Relay, side, cause));
            }
        }
        assert_eq!(failures.all().len(), KEPT);
    }

    #[test]
    fn a_worker_does_not_wait_for_a_reader() {
        let failures = Failures::default();
        let held = failures.0.lock().expect("no test panicked");
        failures.add(&record(1), &CloseReason::new(Step::Hello, Side::Client, Cause::NotTls));
        drop(held);
        assert!(failures.all().is_empty());
    }
}
