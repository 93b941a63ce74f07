//! The state of a backend, shared by all worker threads: up, marked down for a while, on trial, or out of use.
//!
//! In: the outcome of every attempt to connect, from any thread. Out: whether a connection should try it; and for the
//! status page, since when and why not. A standing belongs to a service and outlives reloads that keep both.
//!
//! It is the only shared memory on the path: read once for each connect, and written when an attempt fails, or succeeds after a failure.
//! So without failures every core reads its own copy of the cache line. docs/internals/decisions-operation.md (22) has the reasons.

#![expect(
    clippy::disallowed_types,
    reason = "what takes a backend out of use is locked, and connections read only the outcome"
)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use handfast_net::clock::Moment;
use handfast_net::fault::Cause as Socket;

use handfast_observe::cause::Cause;
use handfast_observe::metrics::{BackendSnapshot, BackendState, BackendStatus};
use handfast_observe::reason::{CloseReason, Side};

mod exclusion;
mod ratio;
mod transfer;
mod table;

use exclusion::Exclusion;
use handfast_config::model::Share;
use ratio::{Counted, MIN_REQUESTS, Ratio, WINDOW};
pub(crate) use table::Standings;
pub(crate) use transfer::TransferredStanding;

/// Nothing is wrong with it.
const UP: u64 = 0;
/// With this bit: on trial, and the rest makes the trial unlike every other one. Without it: when the pause ends, in
/// nanoseconds of the monotonic clock, which have neither this bit nor the next one for 146 years.
const TRIAL: u64 = 1 << 63;

/// Out of use ([`exclusion`]). No connection's outcome changes that.
const EXCLUDED: u64 = 1 << 62;

/// Availability of a backend for new connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// By every connection.
    Up,
    /// By no connection before then, unless there is no other backend; then by one.
    Down(Moment),
    /// By no other connection: one tries it, and its outcome decides.
    OnTrial,
    /// By no connection: checks find it down, or an operator has taken it out.
    Out,
}

/// Outage of a backend: its start, and the time until the next attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outage {
    pub(crate) since: SystemTime,
    /// Time until one connection may try it; `None`: a connection tries it now, or it is out of use.
    pub(crate) pause_left: Option<Duration>,
}

#[derive(Debug)]
#[repr(align(128))] // two cache lines: the prefetcher fetches pairs, and no other backend's is written beside it
pub(crate) struct Standing {
    state: AtomicU64,
    /// In a row, over all threads.
    failures: AtomicU32,
    /// Of the last failure; see [`code`].
    cause: AtomicU32,
    /// Milliseconds since 1970.
    down_since: AtomicU64,
    /// Time at which it was last up again, in nanoseconds of the monotonic clock; 0: it was never down.
    recovered_at: AtomicU64,
    /// Of requests, where a share of them may fail.
    ratio: Ratio,
    exclusion: Mutex<Exclusion>,
    service: Box<str>,
    name: Box<str>,
}

/// The one connection that tries a backend that is down. It names the trial and does not end it: [`Standing::connected`],
/// [`Standing::failed`] or [`Standing::give_back`] do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trial(u64);

/// A backend is marked down for `pause` after this number of failures in a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FailurePolicy {
    pub(crate) failures: u32,
    pub(crate) pause: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MarkedDown {
    after: Evidence,
    pause: Duration,
}

/// Reason why a backend is marked down.
#[derive(Debug, PartialEq, Eq)]
enum Evidence {
    /// Failures in a row.
    InARow(u32),
    /// The share of its requests that failed.
    Ratio(Counted),
}

impl Standing {
    fn new(service: &str, name: &str) -> Self {
        Self {
            state: AtomicU64::new(UP),
            failures: AtomicU32::new(0),
            cause: AtomicU32::new(0),
            down_since: AtomicU64::new(0),
            recovered_at: AtomicU64::new(0),
            ratio: Ratio::default(),
            exclusion: Mutex::default(),
            service: service.into(),
            name: name.into(),
        }
    }

    /// Returns the availability of the backend. **Cost**: one load of memory that is rarely written.
    pub(crate) fn availability(&self) -> Availability {
        match self.state.load(Ordering::Relaxed) {
            UP => Availability::Up,
            EXCLUDED => Availability::Out,
            trial if trial & TRIAL != 0 => Availability::OnTrial,
            until => Availability::Down(Moment::from_nanos(until)),
        }
    }

    /// Takes the trial of a backend that is down; `None` when another connection was faster, or when it is up.
    pub(crate) fn try_out(&self) -> Option<Trial> {
        let before = self.state.load(Ordering::Relaxed);
        if before == UP || before == EXCLUDED || before & TRIAL != 0 {
            return None;
        }
        let trial = Trial(Moment::now().nanos() | TRIAL);
        self.replace(before, trial.0).then_some(trial)
    }

    /// The connection that had the trial ended before there was an outcome: the next one has it.
    pub(crate) fn give_back(&self, trial: Trial) {
        // It was due when the trial began. Nothing happens when there was an outcome.
        self.replace(trial.0, (trial.0 & !TRIAL).max(1));
    }

    /// A connection to it is open.
    pub(crate) fn connected(&self) {
        // Read first: without failures nothing is written.
        if self.failures.load(Ordering::Relaxed) != 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
        let came_up = |before| (before != UP && before != EXCLUDED).then_some(UP);
        if self.state.load(Ordering::Relaxed) != UP
            && self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, came_up).is_ok()
        {
            self.recovered_at.store(Moment::now().nanos().max(1), Ordering::Relaxed);
            let Self { service, name, .. } = self;
            let after = SystemTime::now().duration_since(self.down_since()).unwrap_or_default().as_secs_f64();
            tracing::info!("service {service}: backend {name} is up again after {after:.1} s");
        }
    }

    /// An attempt failed, that of the trial or another one. The caller that marks it down logs it, and no other.
    ///
    /// Attempts that were under way when it was marked down change nothing more: neither does the pause grow with each
    /// of them, nor do they end a trial.
    #[must_use = "the caller must log it: Standing::log_marked_down"]
    pub(crate) fn failed(
        &self,
        cause: Cause,
        trial: Option<Trial>,
        policy: FailurePolicy,
    ) -> Option<MarkedDown> {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        self.cause.store(code(cause), Ordering::Relaxed);
        let until = (Moment::now() + policy.pause).nanos().clamp(1, EXCLUDED - 1);
        if trial.is_some_and(|trial| self.replace(trial.0, until)) {
            return None;
        }
        let is_ours = failures >= policy.failures && self.replace(UP, until);
        is_ours.then(|| self.marked(Evidence::InARow(failures), policy.pause))
    }

    /// A request of it ended; `failure`: why it failed. More than `share` of them mark it down. The caller that does logs it, and no other.
    #[must_use = "the caller must log it: Standing::log_marked_down"]
    pub(crate) fn request_ended(
        &self,
        failure: Option<Cause>,
        share: Share,
        policy: FailurePolicy,
        now: Moment,
    ) -> Option<MarkedDown> {
        let counted = self.ratio.count(now, failure.is_some());
        let cause = failure?;
        let is_too_many = counted.all >= MIN_REQUESTS && share.is_exceeded_by(counted.failed, counted.all);
        let until = (now + policy.pause).nanos().clamp(1, EXCLUDED - 1);
        if !is_too_many || !self.replace(UP, until) {
            return None;
        }
        self.cause.store(code(cause), Ordering::Relaxed);
        self.ratio.forget();
        Some(self.marked(Evidence::Ratio(counted), policy.pause))
    }

    fn marked(&self, after: Evidence, pause: Duration) -> MarkedDown {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let since = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        self.down_since.store(since, Ordering::Relaxed);
        MarkedDown { after, pause }
    }

    pub(crate) fn log_marked_down(&self, reason: &CloseReason, marked: MarkedDown) {
        let MarkedDown { after, pause } = marked;
        let Self { service, name, .. } = self;
        let evidence = reason.detail.as_ref().map(|evidence| format!(" ({evidence})")).unwrap_or_default();
        let cause = reason.cause;
        let meaning = cause.sentence(Side::Backend);
        let after = match after {
            Evidence::InARow(1) => "1 failure".into(),
            Evidence::InARow(failures) => format!("{failures} failures in a row"),
            Evidence::Ratio(Counted { all, failed }) => {
                format!("{failed} of {all} requests failed within {WINDOW:?}, at last")
            }
        };
        tracing::warn!(
            "service {service}: backend {name} is marked down for {pause:?} after {after}: {cause}: {meaning}{evidence}"
        );
    }

    /// Returns the time at which it was last up again; `None`: it was never down.
    pub(crate) fn recovered_at(&self) -> Option<Moment> {
        Some(self.recovered_at.load(Ordering::Relaxed)).filter(|since| *since != 0).map(Moment::from_nanos)
    }

    /// In a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    /// Returns the cause of the last failed attempt; `None` without any.
    pub(crate) fn cause(&self) -> Option<Cause> {
        cause(self.cause.load(Ordering::Relaxed))
    }

    /// Returns the present outage; `None` while it is up.
    pub(crate) fn outage(&self) -> Option<Outage> {
        let pause_left = match self.availability() {
            Availability::Up => return None,
            Availability::Down(until) => Some(until.since(Moment::now())),
            Availability::OnTrial | Availability::Out => None,
        };
        Some(Outage { since: self.down_since(), pause_left })
    }

    fn down_since(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.down_since.load(Ordering::Relaxed))
    }

    fn replace(&self, before: u64, after: u64) -> bool {
        self.state.compare_exchange(before, after, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl BackendStatus for Standing {
    fn add_to(&self, to: &mut BackendSnapshot) {
        to.failures_in_a_row = self.failures();
        to.last_failure = self.cause().map(|cause| cause.name().into());
        to.check = self.checked();
        let operator = self.taken_out();
        to.operator = operator.map(|(requested, _)| requested.name().into());
        to.operator_since = operator.map(|(_, since)| since);
        let outage = self.outage();
        to.down_since = outage.map(|outage| outage.since);
        to.pause_left_seconds = outage.and_then(|outage| outage.pause_left).map(|left| left.as_secs_f64());
        to.state = match (outage, self.availability()) {
            (Some(_), Availability::Out) => match to.operator.as_deref() {
                Some("drain") => BackendState::Drained,
                Some(_) => BackendState::TakenDown,
                None => BackendState::CheckFailed,
            },
            (None, _) => BackendState::Up,
            (Some(_), Availability::OnTrial) => BackendState::OnTrial,
            (Some(_), _) => BackendState::Down,
        };
    }
}

/// Offset in [`code`] of errno values that have no named cause.
const ERRNO_OFFSET: u32 = 1_000;

/// A cause as a number that fits into an atomic one. Zero is none.
fn code(cause: Cause) -> u32 {
    match cause {
        Cause::Socket(Socket::Errno(number)) => {
            u32::try_from(number).unwrap_or(0).saturating_add(ERRNO_OFFSET)
        }
        known => {
            let place = Cause::all().position(|cause| cause == known);
            u32::try_from(place.expect("every other cause is in the list") + 1).unwrap_or(0)
        }
    }
}

fn cause(code: u32) -> Option<Cause> {
    match code.checked_sub(ERRNO_OFFSET) {
        Some(number) => Some(Cause::Socket(Socket::Errno(i32::try_from(number).unwrap_or(i32::MAX)))),
        None => Cause::all().nth(usize::try_from(code).ok()?.checked_sub(1)?),
    }
}

#[cfg(test)]
mod exclusion_tests;
#[cfg(test)]
mod tests;
