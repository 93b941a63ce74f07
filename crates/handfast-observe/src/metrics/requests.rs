//! Counters of one worker thread for the requests of one service.

use std::collections::BTreeMap;

use handfast_http::content_coding::ContentCoding;
use handfast_http::http1::Rule;
use serde::{Deserialize, Serialize};

use super::counters::{ByLabel, Label, counters, labels};
use super::ends::{End, EndKey};
use super::histogram::{Distribution, Histogram};
use super::routes::{RouteEnd, RouteEnds};
use super::service::ServiceMetrics;
use super::status_class::StatusClass;
use super::table::Table;
use crate::cell::Cell;
use crate::request_record::{HttpVersion, RequestRecord};
use crate::words::{Word, words};

words! {
    /// The parts of a request's time, in their order.
    Phase {
        /// The client's head.
        Hello = "hello";
        /// Until a backend had less than `max-requests` requests.
        Queue = "queue";
        /// Until a connection to a backend could be used.
        Connect = "connect";
        /// Until the first byte of the response.
        Response = "response";
        /// Until its end.
        Relay = "relay";
    }
}

words! {
    /// Outcome of the copy of a request.
    CopyEnd {
        /// A server of the mirror answered it.
        Answered = "answered";
        /// None did completely.
        Failed = "failed";
        /// It was not sent: its content was too large or did not come whole, or too many copies were under way.
        Dropped = "dropped";
    }
}

labels!(HttpVersion Phase CopyEnd);

impl Label for ContentCoding {
    const VALUES: &'static [Self] = &Self::ALL;

    #[inline]
    fn number(self) -> usize {
        self as usize
    }

    fn word(self) -> &'static str {
        self.name()
    }
}

impl Label for Rule {
    const VALUES: &'static [Self] = Self::ALL;

    #[inline]
    fn number(self) -> usize {
        self as usize
    }

    fn word(self) -> &'static str {
        self.name()
    }
}

counters! {
    /// One worker's cells for the requests of one service.
    #[derive(Debug, Default)]
    pub(super) cells RequestCells;

    /// The requests of one service.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(default)]
    values RequestSnapshot;

    /// Requests that have begun and not ended, by HTTP version; those of HTTP/2 are open streams.
    open: BTreeMap<Word, u64> = ByLabel<HttpVersion, { HttpVersion::ALL.len() }>;
    /// Idle connections to backends, kept for further requests.
    idle_connections: u64 = Cell;
    /// Requests that ended, by class of status.
    by_status: BTreeMap<Word, u64> = ByLabel<StatusClass, { StatusClass::ALL.len() }> => ["status"];
    /// Requests that ended, by HTTP version.
    by_protocol: BTreeMap<Word, u64> = ByLabel<HttpVersion, { HttpVersion::ALL.len() }> => ["protocol"];
    /// Reasons why requests had no complete answer of a backend, the most frequent first.
    failures: Vec<End> = Table<EndKey, Cell, 64> => ["failure"];
    /// Requests that ended, by route and outcome, in no order.
    routes: Vec<RouteEnd> = RouteEnds;
    /// Requests that were refused because they broke a rule of HTTP, by rule.
    refused: BTreeMap<Word, u64> = ByLabel<Rule, { Rule::ALL.len() }> => ["refused"];
    /// Bytes of content from clients.
    bytes_from_client: u64 = Cell => ["bytes-from-client"];
    /// Bytes of content to clients.
    bytes_to_client: u64 = Cell => ["bytes-to-client"];
    /// Requests sent on a new connection to a backend.
    new_connection: u64 = Cell => ["new-connection"];
    /// Requests sent on a connection to a backend that had served one before.
    reused_connection: u64 = Cell => ["reused-connection"];
    /// Times requests were sent again, on another connection.
    retries: u64 = Cell => ["retries"];
    /// Copies of requests for a mirror, by what became of them.
    copies: BTreeMap<Word, u64> = ByLabel<CopyEnd, { CopyEnd::ALL.len() }> => ["copy"];
    /// Responses that were compressed here, by coding.
    compressed: BTreeMap<Word, u64> = ByLabel<ContentCoding, { ContentCoding::ALL.len() }> => ["compressed"];
    /// Bytes of their content before that, …
    bytes_before_coding: BTreeMap<Word, u64> = ByLabel<ContentCoding, { ContentCoding::ALL.len() }> => ["bytes-before-coding"];
    /// … and as clients received it.
    bytes_after_coding: BTreeMap<Word, u64> = ByLabel<ContentCoding, { ContentCoding::ALL.len() }> => ["bytes-after-coding"];
    /// Responses that were not compressed because no memory was left for that.
    compression_skipped: u64 = Cell => ["compression-skipped"];
    /// Requests after the first one of their client's connection: each saved a handshake.
    kept_alive: u64 = Cell => ["kept-alive"];
    /// Connections that became tunnels (101).
    upgrades: u64 = Cell => ["upgrades"];
    /// From the complete head to the first byte of a backend's answer.
    first_byte: Distribution = Histogram => ["first-byte"];
    /// From the first byte of the head to the end of the answer, by class of status.
    duration: BTreeMap<Word, Distribution> = ByLabel<StatusClass, { StatusClass::ALL.len() }, Histogram> => ["duration"];
    /// Parts of that, by phase; those that a request did not reach are not counted.
    phases: BTreeMap<Word, Distribution> = ByLabel<Phase, { Phase::ALL.len() }, Histogram> => ["phase"];
}

impl ServiceMetrics {
    fn requests(&self) -> &RequestCells {
        self.cells.requests.get_or_init(Box::default)
    }

    /// A request has begun: its first byte is there, or its stream is open. Exactly one [`request`](Self::request) of the same version
    /// follows.
    #[inline]
    pub fn request_began(&self, protocol: HttpVersion) {
        self.requests().open.add(protocol, 1);
    }

    /// Content of a request and of its response has moved: so many bytes more. [`request`](Self::request) does not count them again.
    pub fn content_moved(&self, from_client: u64, to_client: u64) {
        let cells = self.requests();
        cells.bytes_from_client.add(from_client);
        cells.bytes_to_client.add(to_client);
        self.bytes_to_backend(from_client);
        self.bytes_to_client(to_client);
    }

    /// A request ended, in whatever way; an upgraded one ends when its tunnel begins.
    pub fn request(&self, record: &RequestRecord) {
        let cells = self.requests();
        let class = StatusClass::of(record.status);
        // A cell's sum wraps around.
        cells.open.add(record.protocol, u64::MAX);
        cells.by_status.add(class, 1);
        cells.by_protocol.add(record.protocol, 1);
        cells.retries.add(u64::from(record.retries));
        cells.upgrades.add(u64::from(record.status == Some(101)));
        match record.is_reused {
            Some(true) => cells.reused_connection.add(1),
            Some(false) => cells.new_connection.add(1),
            None => {}
        }
        cells.routes.add(record);
        if let Some(rule) = record.broken_rule {
            cells.refused.add(rule, 1);
        }
        if let Some(reason) = &record.failure {
            cells.failures.entry((reason.step, reason.side, reason.cause.counted())).add(1);
        }
        if let Some((coding, before)) = record.coded {
            cells.compressed.add(coding, 1);
            cells.bytes_before_coding.add(coding, before);
            cells.bytes_after_coding.add(coding, record.bytes_to_client);
        }
        let seconds = &record.seconds;
        let phases = [
            (Phase::Hello, seconds.hello),
            (Phase::Queue, seconds.queue),
            (Phase::Connect, seconds.connect),
            (Phase::Response, seconds.answer),
            (Phase::Relay, seconds.relay),
        ];
        for (phase, duration) in phases.into_iter().filter(|(_, duration)| !duration.is_zero()) {
            cells.phases.record(phase, duration);
        }
        // Without a status it had no byte of a response.
        if record.status.is_some() && !seconds.answer.is_zero() {
            cells.first_byte.record(seconds.connect + seconds.answer);
        }
        cells.duration.record(class, seconds.total());
    }

    /// A further request came on a client's connection that has served one.
    #[inline]
    pub fn client_connection_reused(&self) {
        self.requests().kept_alive.add(1);
    }

    /// A request was to be copied.
    pub fn request_copied(&self, end: CopyEnd) {
        self.requests().copies.add(end, 1);
    }

    /// A response was not compressed because no memory was left for that.
    pub fn compression_skipped(&self) {
        self.requests().compression_skipped.add(1);
    }

    /// An idle connection to a backend is kept for further requests; exactly one [`pool_dropped`](Self::pool_dropped) follows, on this thread.
    #[inline]
    pub fn pool_kept(&self) {
        self.requests().idle_connections.add(1);
    }

    /// A kept connection is idle no more: a request uses it, or it was closed.
    #[inline]
    pub fn pool_dropped(&self) {
        self.requests().idle_connections.add(u64::MAX);
    }
}

impl RequestSnapshot {
    /// Requests that ended.
    pub fn ended(&self) -> u64 {
        self.by_status.values().sum()
    }

    /// Requests that have begun and not ended.
    pub fn open(&self) -> u64 {
        self.open.values().sum()
    }

    /// Those that ended with a status of this class.
    pub fn of_class(&self, class: StatusClass) -> u64 {
        self.by_status.get(class.name()).copied().unwrap_or_default()
    }
}
