//! Exclusion of a backend whatever connections find: by its checks, or by an operator's request.
//!
//! In: outcomes of checks, from the checks' thread; requests, from the control thread. Out: whether the backend is out, in the one number
//! that connections read ([`Standing::availability`]), and why, for metrics and the status page.
//!
//! A backend is used when no operator has taken it out, its last checks do not find it down, and it is in no pause after failed
//! connections. The three are separate, so that none undoes what another one found. A backend that comes back starts over: failures of
//! connections before that are forgotten, and it is in no pause.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use handfast_net::clock::Moment;
use handfast_text::units::counted;

use super::{EXCLUDED, Standing, UP};
use handfast_observe::metrics::{CheckSnapshot, Histogram};
use handfast_observe::operator_state::OperatorState;

/// Reasons why a backend is out of use, or would be.
#[derive(Debug, Default)]
pub(super) struct Exclusion {
    requested: Option<(OperatorState, SystemTime)>,
    checked: Option<Checked>,
}

#[derive(Debug)]
struct Checked {
    /// True if a check has ever passed. Until then the first failure is enough.
    proven: bool,
    seconds: Histogram,
    /// Its `seconds` are filled in for each reader.
    report: CheckSnapshot,
}

impl Checked {
    fn new() -> Self {
        let report = CheckSnapshot { up: true, since: Some(SystemTime::now()), ..CheckSnapshot::default() };
        Self { proven: false, seconds: Histogram::default(), report }
    }

    fn note(&mut self, failure: Option<String>) {
        let Self { report, .. } = self;
        let same = report.last_at.is_some() && report.last_failure.is_some() == failure.is_some();
        report.in_a_row = if same { report.in_a_row.saturating_add(1) } else { 1 };
        report.last_at = Some(SystemTime::now());
        *(if failure.is_some() { &mut report.failed } else { &mut report.passed }) += 1;
        report.last_failure = failure;
    }
}

impl Standing {
    fn exclusion(&self) -> MutexGuard<'_, Exclusion> {
        self.exclusion.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exclude<T>(&self, change: impl FnOnce(&mut Exclusion) -> T) -> T {
        let mut exclusion = self.exclusion();
        let outcome = change(&mut exclusion);
        let is_out = exclusion.requested.is_some_and(|(requested, _)| requested != OperatorState::Up)
            || exclusion.checked.as_ref().is_some_and(|checked| !checked.report.up);
        if is_out {
            self.state.store(EXCLUDED, Ordering::Relaxed);
        } else if self.state.load(Ordering::Relaxed) == EXCLUDED {
            self.failures.store(0, Ordering::Relaxed);
            self.recovered_at.store(Moment::now().nanos().max(1), Ordering::Relaxed);
            // Only here is it taken back, under the lock.
            self.replace(EXCLUDED, UP);
        }
        outcome
    }

    /// A check passed, after this duration; with `rise` in a row a backend that is down is up.
    pub(crate) fn check_passed(&self, after: Duration, rise: u32) {
        let came_up = self.exclude(|exclusion| {
            let checked = exclusion.checked.get_or_insert_with(Checked::new);
            checked.note(None);
            checked.proven = true;
            checked.seconds.record(after);
            let report = &mut checked.report;
            if report.up || report.in_a_row < rise {
                return None;
            }
            report.up = true;
            let since = report.since.replace(SystemTime::now())?;
            Some((since, report.in_a_row, exclusion.requested))
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
            checked.note(Some(reason.clone()));
            let report = &mut checked.report;
            if !report.up || (checked.proven && report.in_a_row < fall) {
                return None;
            }
            report.up = false;
            report.since = Some(SystemTime::now());
            let first = || "its first check failed".into();
            Some(if checked.proven { in_a_row(report.in_a_row, "failed") } else { first() })
        });
        if let Some(failed) = went_down {
            let Self { service, name, .. } = self;
            tracing::warn!("service {service}: backend {name} is down: {failed}: {reason}");
        }
    }

    /// The process before this one found it down by its checks: it is, until one passes.
    pub(super) fn set_found_down(&self, since: SystemTime) {
        self.exclude(|exclusion| {
            let checked = exclusion.checked.get_or_insert_with(Checked::new);
            checked.proven = true;
            (checked.report.up, checked.report.since) = (false, Some(since));
        });
    }

    /// Its service has no checks any more: what they found does not count.
    pub(crate) fn clear_check_result(&self) {
        self.exclude(|exclusion| exclusion.checked = None);
    }

    /// Returns the state that an operator has requested; `None` without any.
    pub(crate) fn operator_state(&self) -> Option<OperatorState> {
        self.exclusion().requested.map(|(requested, _)| requested)
    }

    pub(super) fn set_operator_state(&self, requested: Option<OperatorState>) {
        self.exclude(|exclusion| {
            if exclusion.requested.map(|(requested, _)| requested) != requested {
                exclusion.requested = requested.map(|requested| (requested, SystemTime::now()));
            }
        });
    }

    /// The state that takes it out by an operator's request, and since when.
    pub(crate) fn taken_out(&self) -> Option<(OperatorState, SystemTime)> {
        self.exclusion().requested.filter(|(requested, _)| *requested != OperatorState::Up)
    }

    /// Returns the results of its checks; `None`: it is not checked.
    pub(crate) fn checked(&self) -> Option<CheckSnapshot> {
        let exclusion = self.exclusion();
        let checked = exclusion.checked.as_ref()?;
        let mut report = checked.report.clone();
        checked.seconds.add_to(&mut report.seconds);
        Some(report)
    }
}

fn in_a_row(count: u32, how: &str) -> String {
    if count == 1 {
        return format!("1 check {how}");
    }
    format!("{} in a row {how}", counted(u64::from(count), "check"))
}
