//! Faults of the disk, for tests: at a step that is counted, a crash or an error.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, PoisonError};

use crate::store::lock::{Lock, locked};

/// Fault to inject at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This step and all later ones fail and change nothing, as after the end of the process; a write may have written a part.
    Crash,
    /// This step and all later ones that create or write fail as on a full disk, the first one in the middle; others work.
    Full,
    /// This step alone fails.
    Once,
    /// No file can be deleted from this step on.
    Undeletable,
    /// This step and all later ones wait until another fault or none is planned.
    Hang,
}

/// Counts steps; at one of them a fault begins.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    steps: AtomicU64,
    planned: Lock<Option<(u64, Fault)>>,
    changed: Condvar,
}

impl Faults {
    /// Plans a fault at the step with this number, the next one being 0; `None` plans none.
    pub(crate) fn plan(&self, fault: Option<(u64, Fault)>) {
        self.steps.store(0, Ordering::SeqCst);
        *locked(&self.planned) = fault;
        self.changed.notify_all();
    }

    /// Ends a planned hang.
    pub(crate) fn end_hang(&self) {
        locked(&self.planned).take_if(|(_, fault)| *fault == Fault::Hang);
        self.changed.notify_all();
    }

    pub(crate) fn steps(&self) -> u64 {
        self.steps.load(Ordering::SeqCst)
    }

    pub(crate) fn step(&self, what: &str) -> io::Result<()> {
        self.step_with(what, || ())
    }

    /// `begins`: what the step still does if the fault begins with it.
    pub(crate) fn step_with(&self, what: &str, begins: impl FnOnce()) -> io::Result<()> {
        let number = self.steps.fetch_add(1, Ordering::SeqCst);
        let mut planned = locked(&self.planned);
        while planned.is_some_and(|(at, fault)| fault == Fault::Hang && number >= at) {
            planned = self.changed.wait(planned).unwrap_or_else(PoisonError::into_inner);
        }
        let Some((at, fault)) = *planned else { return Ok(()) };
        let fails = match fault {
            Fault::Crash => number >= at,
            Fault::Full => number >= at && matches!(what, "create" | "write"),
            Fault::Once => number == at,
            Fault::Undeletable => number >= at && what == "remove",
            Fault::Hang => false,
        };
        if fails && number == at {
            begins();
        }
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}
