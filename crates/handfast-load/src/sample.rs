//! The measurements of one second, of one thread, one worker or all of them: the same type, merged without loss.

use std::collections::BTreeMap;
use std::time::Duration;

pub use handfast_report::series::Series;
use handfast_stats::Histogram;
use serde::{Deserialize, Serialize};

use crate::cause::{Cause, Step};

/// Counters. Every field is a sum; the gauges are sums over threads and not over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tally {
    /// Connections begun (SYN sent), without warm-up.
    pub connections: u64,
    /// Connections begun to fill the ticket pool.
    pub warm_up: u64,
    /// Transactions that succeeded.
    pub transactions: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Exchanges that succeeded.
    pub exchanges: u64,
    /// Of the transactions, those that ended after the measured part.
    pub tail: u64,
    /// Application bytes sent.
    pub sent: u64,
    /// Application bytes received.
    pub received: u64,
    /// Full handshakes.
    pub full: u64,
    /// Resumed handshakes.
    pub resumed: u64,
    /// Our own computing in handshakes of either kind. **Units**: nanoseconds.
    #[serde(default)]
    pub own_ns: u64,
    /// Full handshakes with a HelloRetryRequest.
    pub hello_retry: u64,
    /// 0-RTT accepted.
    pub early_accepted: u64,
    /// 0-RTT offered and refused.
    pub early_refused: u64,
    /// Handshakes that should resume without an available ticket.
    pub without_ticket: u64,
    /// Arrivals that waited because too many were in flight.
    pub queued: u64,
    /// Arrivals that waited for a connection to be opened.
    pub held: u64,
    /// Arrivals that were due before the end and never began.
    pub unserved: u64,
    /// Kept connections that the target refused, aborted or ended before they carried data.
    pub shed: u64,
    /// Gauge: open connections.
    pub open: u64,
    /// HTTP responses by class: 1xx to 5xx.
    pub http_status: [u64; 5],
    /// Transactions that truly began.
    pub started: u64,
    /// Of those, the ones that are over, well or badly.
    pub ended: u64,
}

impl Tally {
    /// Adds `other`, gauges too.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.warm_up += other.warm_up;
        self.transactions += other.transactions;
        self.failed += other.failed;
        self.exchanges += other.exchanges;
        self.tail += other.tail;
        self.sent += other.sent;
        self.received += other.received;
        self.full += other.full;
        self.resumed += other.resumed;
        self.own_ns += other.own_ns;
        self.hello_retry += other.hello_retry;
        self.early_accepted += other.early_accepted;
        self.early_refused += other.early_refused;
        self.without_ticket += other.without_ticket;
        self.queued += other.queued;
        self.held += other.held;
        self.unserved += other.unserved;
        self.shed += other.shed;
        self.open += other.open;
        self.started += other.started;
        self.ended += other.ended;
        for (mine, theirs) in self.http_status.iter_mut().zip(other.http_status) {
            *mine += theirs;
        }
    }
}

/// Failures of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Failures {
    /// Step that failed.
    pub step: Step,
    /// Cause of the failures.
    pub cause: Cause,
    /// Number of these failures.
    pub count: u64,
    /// The first few in full, at most [`EXAMPLES`].
    pub examples: Vec<String>,
}

/// Examples kept of each kind of failure.
pub const EXAMPLES: usize = 3;

/// Measurements of one member of a mix of clients.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberSample {
    /// Connections begun, without warm-up.
    pub connections: u64,
    /// Transactions that succeeded.
    pub transactions: u64,
    /// Transactions that failed.
    pub failed: u64,
    /// Full handshakes.
    pub full: u64,
    /// Resumed handshakes.
    pub resumed: u64,
    /// Bytes of its first hellos, as records.
    pub hello_bytes: u64,
    /// Handshakes.
    pub handshake: Histogram,
    /// Transactions, from when they were meant to begin.
    pub total: Histogram,
    /// Agreed parameters, as in [`Interval::agreed`].
    pub agreed: BTreeMap<String, u64>,
}

impl MemberSample {
    fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.transactions += other.transactions;
        self.failed += other.failed;
        self.full += other.full;
        self.resumed += other.resumed;
        self.hello_bytes += other.hello_bytes;
        self.handshake.merge(&other.handshake);
        self.total.merge(&other.total);
        for (what, count) in &other.agreed {
            *self.agreed.entry(what.clone()).or_default() += count;
        }
    }
}

/// Measurements of one of several HTTP requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSample {
    /// Answers without an error.
    pub done: u64,
    /// Errors, and answers that never came.
    pub failed: u64,
    /// Answers by class: 1xx to 5xx.
    pub status: [u64; 5],
    /// From the first byte of a request to the last of its answer.
    pub exchange: Histogram,
}

impl RequestSample {
    fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.failed += other.failed;
        for (mine, theirs) in self.status.iter_mut().zip(other.status) {
            *mine += theirs;
        }
        self.exchange.merge(&other.exchange);
    }
}

/// CPU use of one generator thread, or several, during an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadUse {
    /// CPU time used.
    pub busy_ns: u64,
    /// Time in which it was ready to run and had no CPU.
    pub starved_ns: u64,
    /// Wall time.
    pub wall_ns: u64,
    /// Time in pauses of at least [`PAUSE`]: it neither ran nor waited for a CPU, and was due to run.
    #[serde(default)]
    pub paused_ns: u64,
}

impl ThreadUse {
    /// Adds what the same thread used later.
    pub(crate) const fn add(&mut self, later: &Self) {
        self.busy_ns += later.busy_ns;
        self.starved_ns += later.starved_ns;
        self.wall_ns += later.wall_ns;
        self.paused_ns += later.paused_ns;
    }
}

/// Shortest pause of a thread that is counted: twice the lateness of timers on an idle machine.
pub const PAUSE: Duration = Duration::from_millis(20);

/// Measurements of one second; or, merged, of many.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Number of the second since the start.
    pub second: u32,
    /// Counts of the second.
    pub tally: Tally,
    /// Histograms of durations.
    pub series: BTreeMap<Series, Histogram>,
    /// Failures of the second.
    pub failures: Vec<Failures>,
    /// Parameters agreed in handshakes: `TLSv1.3 TLS13_AES_128_GCM_SHA256 X25519` → count.
    pub agreed: BTreeMap<String, u64>,
    /// One for each generator thread, in their order; merging over workers appends.
    pub threads: Vec<ThreadUse>,
    /// CPU use of the whole machine, 0 to 1: one for each worker.
    pub machine: Vec<f64>,
    /// One for each member of the mix, in the plan's order; empty without a mix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<MemberSample>,
    /// One for each request of the plan, in its order; empty when there is but one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requests: Vec<RequestSample>,
}

impl Interval {
    /// Adds the measurements of another thread or worker in the same second.
    pub fn merge_parallel(&mut self, other: &Self) {
        self.add_counts(other);
        self.tally.open += other.tally.open;
        self.threads.extend(other.threads.iter().cloned());
        self.machine.extend(&other.machine);
    }

    /// Adds later measurements of the same threads.
    pub fn merge_later(&mut self, other: &Self) {
        self.add_counts(other);
        self.tally.open = other.tally.open;
        self.threads.resize(self.threads.len().max(other.threads.len()), ThreadUse::default());
        for (mine, theirs) in self.threads.iter_mut().zip(&other.threads) {
            mine.add(theirs);
        }
        self.machine.clone_from(&other.machine);
    }

    /// Makes its histograms small, for keeping. Members and requests have no separate histograms in a second that is kept: their
    /// figures are those of the whole run.
    pub fn pack(&mut self) {
        self.series.values_mut().for_each(Histogram::pack);
        self.members = Vec::new();
        self.requests = Vec::new();
    }

    /// Everything but the gauges and what belongs to threads.
    fn add_counts(&mut self, other: &Self) {
        let open = self.tally.open;
        self.tally.add(&other.tally);
        self.tally.open = open;
        for (series, histogram) in &other.series {
            self.series.entry(*series).or_default().merge(histogram);
        }
        for failures in &other.failures {
            self.add_failures(failures);
        }
        for (what, count) in &other.agreed {
            *self.agreed.entry(what.clone()).or_default() += count;
        }
        let members = self.members.len().max(other.members.len());
        self.members.resize_with(members, MemberSample::default);
        self.members.iter_mut().zip(&other.members).for_each(|(mine, theirs)| mine.add(theirs));
        let requests = self.requests.len().max(other.requests.len());
        self.requests.resize_with(requests, RequestSample::default);
        self.requests.iter_mut().zip(&other.requests).for_each(|(mine, theirs)| mine.add(theirs));
    }

    fn add_failures(&mut self, other: &Failures) {
        let same = |mine: &&mut Failures| mine.step == other.step && mine.cause == other.cause;
        match self.failures.iter_mut().find(same) {
            Some(mine) => {
                mine.count += other.count;
                let room = EXAMPLES.saturating_sub(mine.examples.len());
                mine.examples.extend(other.examples.iter().take(room).cloned());
            }
            None => self.failures.push(other.clone()),
        }
    }
}
