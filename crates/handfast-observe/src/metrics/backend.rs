//! Counters of one worker thread for one backend of a service.

#![expect(clippy::disallowed_types, reason = "held to make or collect blocks of cells, never to count")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use handfast_net::fault::Cause as SocketCause;
use serde::{Deserialize, Serialize};

use super::counters::{AddTo, counters, events};
use super::ends::CauseCounts;
use super::histogram::{Distribution, Histogram};
use super::table::Table;
use super::times;
use super::transfer::{Counts, Transfer, transferred};
use crate::cause::Cause;
use crate::cell::Cell;
use crate::words::{Word, words};

counters! {
    /// One worker's cells for one backend of one service; written by that thread alone, read by any.
    #[derive(Debug, Default)]
    #[repr(align(128))]
    pub cells BackendMetrics;

    /// One backend's numbers.
    #[derive(Clone, Debug, Default, Serialize, Deserialize)]
    #[serde(default)]
    values BackendSnapshot;

    /// Its name as configured.
    name: String;
    /// True if connections to it take source ports.
    source_ports: bool = bool;
    /// Connections made.
    connected: u64 = Cell => ["connected"];
    /// Connections closed.
    disconnected: u64 = Cell, as ["disconnected"];
    /// Attempts that failed, by cause.
    failures: CauseCounts = Table<Cause, Cell, 16> => ["failure"];
    /// Attempts that failed since the last one that did not.
    failures_in_a_row: u32;
    /// Reason for the failure of the last attempt that failed.
    last_failure: Option<Word>;
    /// State: whether connections try it.
    state: BackendState;
    /// Time at which it was marked down; `None` while it is up.
    #[serde(default, with = "times::optional")]
    down_since: Option<SystemTime>;
    /// Seconds until one connection tries a backend that is down.
    pause_left_seconds: Option<f64>;
    /// Duration of successful connection attempts.
    connect: Distribution = Histogram => ["connect"];
    /// From the client's bytes to its next ones.
    response: Distribution = Histogram => ["response"];
    /// Its weight; `None` when it is not configured any more.
    weight: Option<u32>;
    /// True if it is used only while no other one is up.
    backup: bool;
    /// State that an operator has set: `drain`, `down`; `None`: none.
    operator: Option<Word>;
    /// Time at which the operator set it.
    #[serde(default, with = "times::optional")]
    operator_since: Option<SystemTime>;
    /// Results of its checks; `None` when it is not checked.
    check: Option<CheckSnapshot> => [];
}

/// Results of the checks of a backend.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CheckSnapshot {
    /// True if they find it up.
    pub up: bool,
    /// Time at which they found it so; the time at which they began, while nothing has changed since.
    #[serde(default, with = "times::optional")]
    pub since: Option<SystemTime>,
    /// Time at which the last one ended.
    #[serde(default, with = "times::optional")]
    pub last_at: Option<SystemTime>,
    /// Reason why the last one failed; `None` when it passed.
    pub last_failure: Option<String>,
    /// The last ones that ended alike.
    pub in_a_row: u32,
    /// Checks that passed.
    pub passed: u64,
    /// Checks that failed.
    pub failed: u64,
    /// Durations of those that passed.
    pub seconds: Distribution,
}

words! {
    /// State of a backend: whether connections try it.
    #[derive(Default, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    BackendState {
        /// They do.
        Up = "up";
        /// It kept failing; they do not, while another one is up.
        Down = "down";
        /// It was down, and one connection tries it now.
        OnTrial = "on-trial";
        /// Its checks find it down: they do not.
        CheckFailed = "check-failed";
        /// An operator has set it to `drain`: they do not.
        Drained = "drained";
        /// An operator has set it to `down`: they do not, and nor is it checked.
        TakenDown = "taken-down";
        /// It is a name that has no address.
        NoAddress = "no-address";
        /// It is not configured any more, or its name resolves to another address now.
        #[default]
        Gone = "gone";
    }
}

transferred! {
    CheckSnapshot {
        passed: u64 => ["check-passed"];
        failed: u64 => ["check-failed"];
        seconds: Distribution => ["check"];
    } derived {}
}

impl BackendMetrics {
    /// Cells of a backend that nothing has connected to yet.
    pub(super) fn new(source_ports: bool) -> Self {
        let backend = Self { source_ports, ..Self::default() };
        // There from the start: what only appears with its first failure shows no growth to a monitoring system.
        for cause in [SocketCause::Refused, SocketCause::ConnectTimeout] {
            backend.failures.entry(Cause::Socket(cause));
        }
        backend
    }
}

events! {
    BackendMetrics as it {
        /// A connection to it was established after this time; exactly one [`disconnected`](Self::disconnected) follows.
        connected(after: Duration) => {
            it.connected.add(1);
            it.connect.record(after);
        };
        /// It sent data this long after the client's bytes had arrived.
        answered(after: Duration) => it.response.record(after);
        /// A connection to it was closed.
        disconnected() => it.disconnected.add(1);
        /// Connecting to it failed.
        failed(cause: Cause) => it.failures.entry(cause.counted()).add(1);
    }
}

impl BackendSnapshot {
    /// The numbers of the backend with this name, which is added where the list lacks it.
    pub(super) fn of<'l>(list: &'l mut Vec<Self>, name: &str) -> &'l mut Self {
        let place = list.iter().position(|known| known.name == name).unwrap_or_else(|| {
            list.push(Self { name: name.to_owned(), ..Self::default() });
            list.len() - 1
        });
        &mut list[place]
    }

    /// Open connections.
    pub fn connections(&self) -> u64 {
        self.connected.saturating_sub(self.disconnected)
    }

    /// Returns true if connections try it; `None` when it is not configured any more.
    pub fn is_up(&self) -> Option<bool> {
        (self.state != BackendState::Gone).then_some(self.state == BackendState::Up)
    }

    /// Attempts that failed, whatever the cause.
    #[inline]
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }
}

impl AddTo<Vec<BackendSnapshot>> for Mutex<Vec<(String, Arc<BackendMetrics>)>> {
    fn add_to(&self, sum: &mut Vec<BackendSnapshot>) {
        let backends = self.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (name, backend) in backends {
            backend.add_to(BackendSnapshot::of(sum, &name));
        }
    }
}

impl Transfer for Vec<BackendSnapshot> {
    fn write(&self, words: &[&str], to: &mut Counts) {
        self.iter().for_each(|backend| backend.write(&[words, &[&backend.name]].concat(), to));
    }

    fn place(&mut self, words: &[&str]) -> Option<&mut u64> {
        let (name, rest) = words.split_first().filter(|(_, rest)| !rest.is_empty())?;
        BackendSnapshot::of(self, name).place(rest)
    }
}
