//! What takes a backend out of use, whatever connections find: its checks, and an operator's word.
//!
//! In: outcomes of checks, from the checks' thread; words, from the control thread. Out: whether the backend is out, in the
//! one number that connections look at ([`Standing::availability`]), and for those who look in, why.
//!
//! A backend is used when no operator has taken it out, its last checks do not say that it is down, and it is in no pause
//! after failed connections. The three are kept apart, so that none undoes what another one found out. Coming back into use it
//! starts over: failures of connections before that are forgotten, and it is in no pause.

use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use handfast_net::clock::Moment;
use handfast_text::units::counted;

use super::{OUT, Standing, UP};
use handfast_observe::metrics::{CheckSnapshot, Distribution, Histogram};
use handfast_observe::operator_state::OperatorState;

/// Why a backend is out, or would be.
#[derive(Debug, Default)]
pub(super) struct Exclusion {
    requested: Option<(OperatorState, SystemTime)>,
    checked: Option<Checked>,
}

/// What checks have found.
#[derive(Debug)]
struct Checked {
    /// Of the last outcome.
    in_a_row: u32,
    /// Whether any has ever passed: until then the first that fails is enough.
    proven: bool,
    down: bool,
    /// When it was found down, or up again, or when checks began.
    since: SystemTime,
    /// When the last one ended, and why it failed.
    last: Option<(SystemTime, Result<(), String>)>,
    passed: u64,
    failed: u64,
    seconds: Histogram,
}

impl Checked {
    fn new() -> Self {
        Self {
            in_a_row: 0,
            proven: false,
            down: false,
            since: SystemTime::now(),
            last: None,
            passed: 0,
            failed: 0,
            seconds: Histogram::default(),
        }
    }

    fn note(&mut self, outcome: Result<(), String>) {
        let same = self.last.as_ref().is_some_and(|(_, last)| last.is_ok() == outcome.is_ok());
        self.in_a_row = if same { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = Some((SystemTime::now(), outcome));
    }
}

impl Standing {
    fn exclude<T>(&self, change: impl FnOnce(&mut Exclusion) -> T) -> T {
        let mut exclusion = self.exclusion.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut exclusion);
        let is_out = exclusion.requested.is_some_and(|(requested, _)| requested != OperatorState::Up)
            || exclusion.checked.as_ref().is_some_and(|checked| checked.down);
        if is_out {
            self.state.store(OUT, Ordering::Relaxed);
        } else if self.state.load(Ordering::Relaxed) == OUT {
            self.failures.store(0, Ordering::Relaxed);
            self.came_up.store(Moment::now().nanos().max(1), Ordering::Relaxed);
            // Only here is it taken back, under the lock.
            self.replace(OUT, UP);
        }
        outcome
    }

    /// A check passed, in so long; with `rise` in a row a backend that is down is up.
    pub(crate) fn check_passed(&self, after: Duration, rise: u32) {
        let came_up = self.exclude(|exclusion| {
            let checked = exclusion.checked.get_or_insert_with(Checked::new);
            checked.note(Ok(()));
            checked.passed += 1;
            checked.proven = true;
            checked.seconds.record(after);
            if !checked.down || checked.in_a_row < rise {
                return None;
            }
            checked.down = false;
            let since = std::mem::replace(&mut checked.since, SystemTime::now());
            Some((since, checked.in_a_row, exclusion.requested))
        });
        if let Some((since, passed, requested)) = came_up {
            let Self { service, name, .. } = self;
            let after = SystemTime::now().duration_since(since).unwrap_or_default().as_secs_f64();
            let but = match requested {
                Some((requested @ (OperatorState::Drain | OperatorState::Down), _)) => {
                    format!("; an operator has set it to {}", requested.name())
                }
                Some((OperatorState::Up, _)) | None => String::new(),
            };
            let passed = in_a_row(passed, "passed");
            tracing::info!("service {service}: backend {name} is up again after {after:.1} s: {passed}{but}");
        }
    }

    /// A check failed; with `fall` in a row the backend is down, or with the first one when none has ever passed.
    pub(crate) fn check_failed(&self, reason: &dyn fmt::Display, fall: u32) {
        let reason = reason.to_string();
        let went_down = self.exclude(|exclusion| {
            let checked = exclusion.checked.get_or_insert_with(Checked::new);
            checked.note(Err(reason.clone()));
            checked.failed += 1;
            if checked.down || (checked.proven && checked.in_a_row < fall) {
                return None;
            }
            checked.down = true;
            checked.since = SystemTime::now();
            Some(if checked.proven {
                in_a_row(checked.in_a_row, "failed")
            } else {
                "its first check failed".into()
            })
        });
        if let Some(failed) = went_down {
            let Self { service, name, .. } = self;
            tracing::warn!("service {service}: backend {name} is down: {failed}: {reason}");
        }
    }

    /// The process before this one found it down by its checks: it is, until one passes.
    pub(super) fn was_found_down(&self, since: SystemTime) {
        self.exclude(|exclusion| {
            let checked = exclusion.checked.get_or_insert_with(Checked::new);
            (checked.down, checked.proven, checked.since) = (true, true, since);
        });
    }

    /// Its service has no checks any more: what they found does not count.
    pub(crate) fn is_not_checked(&self) {
        self.exclude(|exclusion| exclusion.checked = None);
    }

    /// What an operator has requested for it; `None`: nothing.
    pub(crate) fn operator_state(&self) -> Option<OperatorState> {
        self.exclusion
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .requested
            .map(|(requested, _)| requested)
    }

    /// An operator wants this.
    pub(super) fn set_operator_state(&self, requested: Option<OperatorState>) {
        self.exclude(|exclusion| {
            if exclusion.requested.map(|(requested, _)| requested) != requested {
                exclusion.requested = requested.map(|requested| (requested, SystemTime::now()));
            }
        });
    }

    /// Why it is out: an operator's word and since when, if that is it.
    pub(crate) fn taken_out(&self) -> Option<(OperatorState, SystemTime)> {
        let exclusion = self.exclusion.lock().unwrap_or_else(PoisonError::into_inner);
        exclusion.requested.filter(|(requested, _)| *requested != OperatorState::Up)
    }

    /// What checks have found; `None`: it is not checked.
    pub(crate) fn checked(&self) -> Option<CheckSnapshot> {
        let exclusion = self.exclusion.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = exclusion.checked.as_ref()?;
        let mut seconds = Distribution::default();
        checked.seconds.add_to(&mut seconds);
        let (last_at, outcome) = checked.last.clone().unzip();
        Some(CheckSnapshot {
            up: !checked.down,
            since: Some(checked.since),
            last_at,
            last_failure: outcome.and_then(Result::err),
            in_a_row: checked.in_a_row,
            passed: checked.passed,
            failed: checked.failed,
            seconds,
        })
    }
}

fn in_a_row(count: u32, how: &str) -> String {
    if count == 1 {
        return format!("1 check {how}");
    }
    format!("{} in a row {how}", counted(u64::from(count), "check"))
}
