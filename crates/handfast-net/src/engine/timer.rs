//! Timers for futures that wait in their own way: as many in a task as it likes, each with its own waker.
//!
//! In: moments. Out: each timer's waker is called when its moment has come. A connection of the proxy has one deadline,
//! [`super::wait`]'s, which costs nothing to move; these are for what runs on top of the engine and cannot be asked for its
//! next deadline, as hyper. They cost other tasks nothing: an iteration of the loop compares one number.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{ENGINE, Engine, engine};
use crate::clock::Moment;

/// The timers of one engine that are waited for.
///
/// One entry for each [`Timer`] at most; an entry goes when its timer is dropped, or at its moment if that happened on
/// another thread.
#[derive(Default)]
pub(super) struct Timers {
    waiting: BTreeMap<(Moment, u64), Waker>,
    /// Distinguishes timers of the same moment.
    last: u64,
}

impl Timers {
    /// The first moment that is waited for.
    pub(super) fn first(&self) -> Moment {
        self.waiting.first_key_value().map_or(Moment::NEVER, |((moment, _), _)| *moment)
    }

    /// A waker whose moment has come, if there is one; to be called when the timers are not borrowed any more.
    pub(super) fn next_due(&mut self, now: Moment) -> Option<Waker> {
        let entry = self.waiting.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// All of them, for the end of the engine.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}

/// Resolves when its moment has come, whatever else the task waits for.
///
/// It is awaited on a thread that runs an engine. **Cancel**: leaves nothing behind.
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct Timer {
    moment: Moment,
    /// Engine and number of its entry, once it has been waited for.
    entry: Option<(u16, u64)>,
}

/// A timer for `moment`; at [`Moment::NEVER`] it never resolves.
///
/// **Cost**: a place in a tree while it is waited for; the clock is the turn's ([`super::now`]), so it is late by as much as a
/// turn, and never early.
pub fn timer(moment: Moment) -> Timer {
    Timer { moment, entry: None }
}

impl Timer {
    /// Returns the time when it resolves.
    pub fn moment(&self) -> Moment {
        self.moment
    }

    /// The waker that its entry has, taken out; the entry's number.
    fn enter(&mut self, engine: &Engine, waker: Waker) -> Option<Waker> {
        let timers = &mut *engine.timers.borrow_mut();
        let number = match self.entry {
            Some((number, entry)) if number == engine.number => entry,
            // It was polled on another thread before, or never.
            _ => {
                timers.last += 1;
                self.entry = Some((engine.number, timers.last));
                timers.last
            }
        };
        let before = timers.waiting.insert((self.moment, number), waker);
        engine.next_timer.set(timers.first());
        before
    }
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Cloned, and the one before dropped, outside of the borrow: what a foreign waker does then is not known.
        let waker = context.waker().clone();
        let before = engine(|engine| {
            if engine.now.get() >= self.moment {
                return Err(waker);
            }
            Ok(self.enter(engine, waker))
        });
        match before {
            Ok(before) => {
                drop(before);
                Poll::Pending
            }
            Err(_) => Poll::Ready(()),
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let Some((number, entry)) = self.entry else { return };
        let removed = ENGINE.try_with(|cell| {
            let engine = cell.get().filter(|engine| engine.number == number)?;
            let timers = &mut *engine.timers.borrow_mut();
            let removed = timers.waiting.remove(&(self.moment, entry));
            engine.next_timer.set(timers.first());
            removed
        });
        drop(removed);
    }
}
