//! Paces the opening of a thread's connections: few at once at first, more while it succeeds, and with pauses when the target
//! sheds them.
//!
//! In: the required number. Out: a [`Permit`] for each connection that may be opened now, which receives the outcome. Without this,
//! a thousand connections would be opened at the same moment: that would measure the target's backlog, and a target that
//! closes connections beyond its capacity would be asked again without a pause.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Priority, TaskHandle};

use crate::context::ThreadContext;

/// Connections that a thread opens at once at first; later as many as it has opened …
const FIRST_BATCH: u32 = 4;
/// … up to this, and after one that was shed half as many.
const MAX_BATCH: u32 = 64;
/// Pause after the first failure; each further one in a row doubles it …
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// … up to this; then the target is tried again with one connection.
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// Preparation ends after this at the latest, for any number of connections.
pub(crate) const PREPARATION_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for which preparation waits for a target that sheds connections to take one more.
const SHEDDING: Duration = Duration::from_secs(2);
/// A connection without data that ended within this time after its handshake was shed; one that ended later exceeded the target's
/// idle timeout.
const SHED_WITHIN: Duration = Duration::from_secs(1);

/// The pause after this number of failures in a row.
pub(crate) fn pause(failures: u32) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(MAX_PAUSE)
}

/// The opening state of a thread's connections.
#[derive(Debug)]
pub(crate) struct Opener {
    /// The required number.
    required: Cell<u32>,
    /// True if a connection that has ended is replaced.
    replaces: bool,
    begun: Cell<u32>,
    opening: Cell<u32>,
    open: Cell<u32>,
    /// Number of connections that may be opened at once.
    room: Cell<u32>,
    /// Connections shed in a row.
    shed: Cell<u32>,
    not_before: Cell<Moment>,
    /// The most that were open, and when that was first reached.
    greatest: Cell<u32>,
    progress: Cell<Moment>,
    task: Cell<Option<TaskHandle>>,
    /// The task that waits until all required connections are open.
    all_open_task: Cell<Option<TaskHandle>>,
}

/// A connection that may be opened, or has been; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    opener: Rc<Opener>,
    opened_at: Option<Moment>,
    proved: bool,
}

impl Opener {
    /// Keeps this number of connections open; or, unless it `replaces`, opens this number, each once.
    pub(crate) fn new(required: u32, replaces: bool) -> Rc<Self> {
        Rc::new(Self {
            required: Cell::new(required),
            replaces,
            begun: Cell::new(0),
            opening: Cell::new(0),
            open: Cell::new(0),
            room: Cell::new(MAX_BATCH),
            shed: Cell::new(0),
            not_before: Cell::new(Moment::now()),
            greatest: Cell::new(0),
            progress: Cell::new(Moment::now()),
            task: Cell::new(None),
            all_open_task: Cell::new(None),
        })
    }

    /// Open connections.
    pub(crate) fn open_connections(&self) -> u32 {
        self.open.get()
    }

    /// Connections that are being opened.
    pub(crate) fn opening(&self) -> u32 {
        self.opening.get()
    }

    /// The required number.
    pub(crate) fn required(&self) -> u32 {
        self.required.get()
    }

    /// Sets the required number.
    pub(crate) fn set_required(&self, required: u32) {
        if self.required.replace(required) < required {
            self.wake_tasks();
        }
    }

    /// Returns true if the target has shed the last connection that it could have.
    pub(crate) fn is_shed(&self) -> bool {
        self.shed.get() > 0
    }

    /// Returns true if one more may be opened besides those that are being opened.
    fn has_room(&self) -> bool {
        let opening = self.opening.get();
        let opened = if self.replaces { self.open.get() } else { self.begun.get() - opening };
        opening < self.room.get().min(opened.max(FIRST_BATCH))
    }

    fn is_short(&self) -> bool {
        let there = if self.replaces { self.opening.get() + self.open.get() } else { self.begun.get() };
        there < self.required.get()
    }

    fn wake_tasks(&self) {
        for task in [self.task.get(), self.all_open_task.get()].into_iter().flatten() {
            task.wake();
        }
    }

    /// One more that is being opened.
    pub(crate) fn permit(self: &Rc<Self>) -> Permit {
        self.begun.set(self.begun.get() + 1);
        self.opening.set(self.opening.get() + 1);
        Permit { opener: Rc::clone(self), opened_at: None, proved: false }
    }

    /// Starts a task for each connection as soon as it may be opened, until the run is over.
    pub(crate) async fn run<F: Future<Output = ()> + 'static>(
        self: Rc<Self>,
        context: Rc<ThreadContext>,
        connection: impl Fn(Permit) -> F,
    ) {
        let _live = context.enter();
        self.task.set(Some(engine::current()));
        while !context.is_over() {
            let now = Moment::now();
            let not_before = self.not_before.get();
            while self.is_short() && self.has_room() && not_before <= now {
                engine::spawn(Priority::Flow, connection(self.permit()));
            }
            let next = if self.is_short() && not_before > now { not_before } else { Moment::NEVER };
            engine::wait(next.min(context.end())).await;
        }
    }

    /// Waits until all required connections are open, or waiting longer is useless: none was opened for
    /// `timeout`, or `may_stop` returns that the open ones are enough.
    pub(crate) async fn ready(&self, timeout: Duration, may_stop: impl Fn() -> bool) {
        self.all_open_task.set(Some(engine::current()));
        let began = Moment::now();
        self.progress.set(began);
        while self.opening.get() > 0 || self.is_short() {
            let timeout = if self.is_shed() { timeout.min(SHEDDING) } else { timeout };
            let until = (self.progress.get() + timeout).min(began + PREPARATION_TIMEOUT);
            if may_stop() || Moment::now() >= until {
                break;
            }
            engine::wait(until).await;
        }
        self.all_open_task.set(None);
    }
}

impl Permit {
    /// The connection is open.
    pub(crate) fn set_open(&mut self) {
        if self.opened_at.is_some() {
            return;
        }
        let (opener, now) = (&self.opener, Moment::now());
        self.opened_at = Some(now);
        opener.opening.set(opener.opening.get() - 1);
        opener.open.set(opener.open.get() + 1);
        opener.room.set((opener.room.get() + 1).min(MAX_BATCH));
        // A target may end one connection for each that it accepts: that is no progress.
        if opener.open.get() > opener.greatest.get() {
            opener.greatest.set(opener.open.get());
            opener.progress.set(now);
        }
        opener.wake_tasks();
    }

    /// The connection carried data: the target serves it.
    pub(crate) fn proved(&mut self) {
        if !std::mem::replace(&mut self.proved, true) {
            self.opener.shed.set(0);
        }
    }

    /// Returns true if it has carried any data.
    pub(crate) fn is_proved(&self) -> bool {
        self.proved
    }

    /// The connection failed or ended; returns whether it was shed. A connection that carried data was not shed; nor was one that
    /// was idle for a while, if `idle_may_end`.
    pub(crate) fn ended(&self, idle_may_end: bool) -> bool {
        let idle = self.opened_at.is_some_and(|stood| Moment::now().since(stood) >= SHED_WITHIN);
        if self.proved || (idle && idle_may_end) {
            return false;
        }
        let opener = &self.opener;
        opener.shed.set(opener.shed.get().saturating_add(1));
        opener.room.set((opener.room.get() / 2).max(1));
        // Connections that were opened together are shed together, and count as one failure for the pause.
        let now = Moment::now();
        if opener.not_before.get() <= now {
            opener.not_before.set(now + pause(opener.shed.get()));
        }
        true
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let count = if self.opened_at.is_some() { &self.opener.open } else { &self.opener.opening };
        count.set(count.get() - 1);
        self.opener.wake_tasks();
    }
}

#[cfg(test)]
mod tests;
