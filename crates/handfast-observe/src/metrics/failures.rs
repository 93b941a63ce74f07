//! The last connections and requests of a thread that failed, for a person who looks at the status. No worker waits here: where a reader holds the list at
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
use crate::request_record::RequestRecord;
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
    /// Time of accept, as in the access log.
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
    /// Cause of the failure.
    pub cause: Word,
    /// Description of the failure.
    pub sentence: Box<str>,
    /// Details.
    pub detail: Option<Box<str>>,
}

/// An HTTP request that no backend answered completely, or that one answered with a server error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RequestFailureSnapshot {
    /// The time at which its head was complete, as in the access log.
    #[serde(with = "times")]
    pub time: SystemTime,
    /// Its service.
    pub service: Box<str>,
    /// Its client; `None` on unix sockets.
    pub client: Option<SocketAddr>,
    /// Its method.
    pub method: Box<str>,
    /// The host that it names.
    pub host: Option<Box<str>>,
    /// Its path, without the query: that may have secrets, and the status needs no password.
    pub path: Box<str>,
    /// The status of the response; `None`: it had none.
    pub status: Option<u16>,
    /// Its route; `None`: none took it.
    pub route: Option<Box<str>>,
    /// The backend that was tried last.
    pub backend: Option<Box<str>>,
    /// Seconds from the first byte of its head to its end.
    pub seconds: f64,
    /// The step, the side and the cause; `None`: the backend answered with this status.
    pub reason: Option<[Word; 3]>,
    /// Description of the event.
    pub sentence: Box<str>,
    /// Details, if there are any.
    pub detail: Option<Box<str>>,
}

/// Something that failed at a time, in one of many ways.
pub(super) trait Failed: Clone {
    /// Returns true if both are of one service and failed in the same way.
    fn is_like(&self, other: &Self) -> bool;
    /// The time at which it began.
    fn time(&self) -> SystemTime;
}

impl Failed for FailureSnapshot {
    fn is_like(&self, other: &Self) -> bool {
        let words = |it: &Self| [it.step.clone(), it.side.clone(), it.cause.clone()];
        self.service == other.service && words(self) == words(other)
    }

    fn time(&self) -> SystemTime {
        self.time
    }
}

impl Failed for RequestFailureSnapshot {
    fn is_like(&self, other: &Self) -> bool {
        (&self.service, &self.route, self.status, &self.reason)
            == (&other.service, &other.route, other.status, &other.reason)
    }

    fn time(&self) -> SystemTime {
        self.time
    }
}

/// The last failures of one thread, the oldest first.
#[derive(Debug)]
pub(super) struct Failures<F>(Mutex<Vec<F>>);

impl<F> Default for Failures<F> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<F: Failed> Failures<F> {
    /// Something failed. Never waits. **Cost**: a microsecond, and some allocations.
    #[cold]
    pub(super) fn add(&self, failure: F) {
        let Ok(mut kept) = self.0.try_lock() else { return };
        let alike = kept.iter().filter(|known| known.is_like(&failure)).count();
        let gone = match alike >= ALIKE {
            true => kept.iter().position(|known| known.is_like(&failure)),
            false => (kept.len() >= KEPT).then_some(0),
        };
        if let Some(gone) = gone {
            kept.remove(gone);
        }
        kept.push(failure);
    }

    fn all(&self) -> Vec<F> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn shortened(text: &str) -> Box<str> {
    text[..text.floor_char_boundary(DETAIL_BYTES)].into()
}

impl FailureSnapshot {
    /// A connection that failed.
    pub(super) fn of(record: &Record, reason: &CloseReason) -> Self {
        Self {
            time: record.accepted_at,
            service: (&*record.service).into(),
            client: record.client,
            backend: record.backend.as_deref().map(Box::from),
            step: reason.step.name().into(),
            side: reason.side.name().into(),
            cause: reason.cause.name().into(),
            sentence: reason.sentence().into(),
            detail: reason.detail.as_deref().map(shortened),
        }
    }
}

impl RequestFailureSnapshot {
    /// A request that ended; `None`: it did not fail.
    pub(super) fn of(record: &RequestRecord) -> Option<Self> {
        let failure = record.failure.as_ref().filter(|reason| reason.cause.is_failure());
        let sentence = match (failure, record.status) {
            (Some(reason), _) => reason.sentence(),
            (None, Some(status @ 500..)) => format!("the backend answered with status {status}"),
            (None, _) => return None,
        };
        Some(Self {
            time: record.at,
            service: (&*record.connection.service).into(),
            client: record.connection.client,
            method: record.method().into(),
            host: record.host().map(shortened),
            path: shortened(record.texts.path_alone()),
            status: record.status,
            route: record.route.as_deref().map(Box::from),
            backend: record.backend.as_deref().map(Box::from),
            seconds: record.seconds.total().as_secs_f64(),
            reason: failure
                .map(|reason| [reason.step.name(), reason.side.name(), reason.cause.name()].map(Word::from)),
            sentence: sentence.into(),
            detail: failure.and_then(|reason| reason.detail.as_deref()).map(shortened),
        })
    }
}

/// The last failures of all threads, the newest first.
pub(super) fn latest<'f, F: Failed + 'f>(threads: impl Iterator<Item = &'f Failures<F>>) -> Vec<F> {
    let mut all: Vec<F> = threads.flat_map(Failures::all).collect();
    all.sort_by_key(|failure| std::cmp::Reverse(failure.time()));
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
    use crate::request_record::{ConnectionFacts, HttpVersion};

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
        failures.add(FailureSnapshot::of(&record(0), &alert.because("x".repeat(500))));
        let scanner = CloseReason::new(Step::Hello, Side::Client, Cause::NotTls);
        for second in 1..1_000 {
            failures.add(FailureSnapshot::of(&record(second), &scanner));
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
                let reason = CloseReason::new(Step::Relay, side, cause);
                failures.add(FailureSnapshot::of(&record(1), &reason));
            }
        }
        assert_eq!(failures.all().len(), KEPT);
    }

    #[test]
    fn a_worker_does_not_wait_for_a_reader() {
        let failures = Failures::default();
        let held = failures.0.lock().expect("no test panicked");
        let reason = CloseReason::new(Step::Hello, Side::Client, Cause::NotTls);
        failures.add(FailureSnapshot::of(&record(1), &reason));
        drop(held);
        assert!(failures.all().is_empty());
    }

    #[test]
    fn a_failed_request_has_its_route_and_no_query() {
        let connection = ConnectionFacts {
            service: "web".into(),
            generation: 1,
            client: None,
            server_name: None,
            tls_version: None,
            client_subject: None,
        };
        let path = format!("/a/{}?token=secret", "b".repeat(300));
        let texts = [&b"GET"[..], b"a.example", path.as_bytes()];
        let mut record = RequestRecord::new(&Rc::new(connection), HttpVersion::Http11, "1".into(), texts);
        (record.route, record.status) = (Some("api".into()), Some(200));
        assert!(RequestFailureSnapshot::of(&record).is_none(), "it was answered");
        record.status = Some(503);
        let seen = RequestFailureSnapshot::of(&record).expect("a server error");
        assert_eq!(
            (seen.route.as_deref(), seen.path.len(), &*seen.sentence),
            (Some("api"), DETAIL_BYTES, "the backend answered with status 503")
        );
        record.status = None;
        record.failure = Some(CloseReason::new(Step::Relay, Side::Backend, Cause::CLOSED_EARLY));
        record.seconds.answer = Duration::from_secs(60);
        let seen = RequestFailureSnapshot::of(&record).expect("no answer");
        assert_eq!(
            (seen.seconds, seen.reason.as_ref().map(|[.., cause]| &**cause)),
            (60.0, Some("closed-early"))
        );
        assert!(!serde_json::to_string(&seen).expect("it is JSON").contains("secret"));
        record.failure = Some(CloseReason::new(Step::Relay, Side::Client, Cause::Finished));
        assert!(RequestFailureSnapshot::of(&record).is_none(), "it did not fail");
    }
}
