//! Limits the number of requests that each backend has at once, over all threads, and queues the requests that wait (`max-requests`).
//!
//! In: a request and the backends that it may go to. Out: a slot at one of them, at once or after a wait in a queue with a bound. A slot that
//! becomes free goes to the request that has waited longest for its backend; none that comes later can take it.

#![expect(
    clippy::disallowed_types,
    reason = "only services with `max-requests` have slots; the lock is held for one step in a table, and never across a wait"
)]

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The slots of one service. They outlive reloads.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<State>);

#[derive(Default)]
struct State {
    /// Requests that each backend has.
    open: HashMap<Box<str>, u32>,
    /// Those that came first are in front.
    waiting: VecDeque<Waiter>,
    next: u64,
    /// Slots that waiting requests were given and have not taken yet.
    granted: HashMap<u64, Box<str>>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("open", &self.open).field("waiting", &self.waiting.len()).finish()
    }
}

struct Waiter {
    number: u64,
    /// The backends that it may go to.
    names: Vec<Arc<str>>,
    task: Waker,
}

/// A request at a backend. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Slot {
    slots: Arc<Slots>,
    pub(crate) name: Rc<str>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.release(&self.name);
    }
}

/// A request that waits. Dropping it ends that, and gives back what it was given meanwhile.
#[derive(Debug)]
pub(crate) struct Ticket {
    slots: Arc<Slots>,
    number: u64,
}

impl Ticket {
    /// The backend that it was given a slot at.
    pub(crate) fn granted(&self) -> Option<Slot> {
        let name = self.slots.lock().granted.remove(&self.number)?;
        Some(Slot { slots: Arc::clone(&self.slots), name: (*name).into() })
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.slots.lock();
        state.waiting.retain(|waiter| waiter.number != self.number);
        let given = state.granted.remove(&self.number);
        drop(state);
        if let Some(name) = given {
            self.slots.release(&name);
        }
    }
}

impl Slots {
    /// A panic leaves nothing half done under this lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A slot at a backend, if it has less than `most` requests.
    pub(crate) fn take(self: &Arc<Self>, name: &Rc<str>, most: u32) -> Option<Slot> {
        let mut state = self.lock();
        let is_free = state.take(name, most);
        drop(state);
        is_free.then(|| Slot { slots: Arc::clone(self), name: Rc::clone(name) })
    }

    /// Waits for a slot at one of these backends; `task` is woken when it is given one. `None`: `most_waiting` others wait.
    ///
    /// One of them may have become free since it was asked; then it is given at once.
    pub(crate) fn wait(
        self: &Arc<Self>,
        names: impl Iterator<Item = Rc<str>>,
        (most, most_waiting): (u32, usize),
        task: Waker,
    ) -> Option<Ticket> {
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        let names: Vec<Arc<str>> = names.map(|name| (*name).into()).collect();
        let free = names.iter().find(|name| state.take(name, most)).cloned();
        match free {
            Some(name) => drop(state.granted.insert(number, (*name).into())),
            None if state.waiting.len() >= most_waiting => return None,
            None => state.waiting.push_back(Waiter { number, names, task }),
        }
        Some(Ticket { slots: Arc::clone(self), number })
    }

    fn release(&self, name: &str) {
        let mut state = self.lock();
        let awaits_name = |waiter: &Waiter| waiter.names.iter().any(|awaited| **awaited == *name);
        if let Some(place) = state.waiting.iter().position(awaits_name)
            && let Some(waiter) = state.waiting.remove(place)
        {
            state.granted.insert(waiter.number, name.into());
            drop(state);
            waiter.task.wake();
            return;
        }
        if let Some(open) = state.open.get_mut(name) {
            *open = open.saturating_sub(1);
            if *open == 0 {
                state.open.remove(name);
            }
        }
    }
}

impl State {
    fn take(&mut self, name: &str, most: u32) -> bool {
        match self.open.get_mut(name) {
            Some(open) if *open >= most => false,
            Some(open) => {
                *open += 1;
                true
            }
            None => {
                self.open.insert(name.into(), 1);
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Rc<str> {
        text.into()
    }

    fn wait(slots: &Arc<Slots>, names: &[&str], most_waiting: usize) -> Option<Ticket> {
        slots.wait(names.iter().map(|text| name(text)), (2, most_waiting), Waker::noop().clone())
    }

    #[test]
    fn a_backend_has_no_more_than_its_number() {
        let slots = Arc::<Slots>::default();
        let first = slots.take(&name("a"), 2).expect("the first");
        let _second = slots.take(&name("a"), 2).expect("the second");
        assert!(slots.take(&name("a"), 2).is_none());
        assert!(slots.take(&name("b"), 2).is_some(), "another backend");
        drop(first);
        assert!(slots.take(&name("a"), 2).is_some());
    }

    #[test]
    fn what_becomes_free_goes_to_those_that_wait_in_their_order() {
        let slots = Arc::<Slots>::default();
        let mut open: Vec<_> = (0..2).filter_map(|_| slots.take(&name("a"), 2)).collect();
        open.extend((0..2).filter_map(|_| slots.take(&name("b"), 2)));
        let of_b = wait(&slots, &["b"], 3).expect("there is room");
        let of_both = wait(&slots, &["a", "b"], 3).expect("there is room");
        let of_a = wait(&slots, &["a"], 3).expect("there is room");
        assert!(wait(&slots, &["a"], 3).is_none(), "the queue is full");
        open.remove(0);
        assert!(of_b.granted().is_none() && of_a.granted().is_none());
        let slot = of_both.granted().expect("it waited longest for this one");
        assert_eq!(&*slot.name, "a");
        assert!(slots.take(&name("a"), 2).is_none(), "nothing overtakes");
        drop(slot);
        assert_eq!(of_a.granted().map(|slot| slot.name.to_string()).as_deref(), Some("a"));
    }

    #[test]
    fn those_that_leave_give_back_what_they_have() {
        let slots = Arc::<Slots>::default();
        let open: Vec<_> = (0..2).filter_map(|_| slots.take(&name("a"), 2)).collect();
        let (gone, given, last) = (wait(&slots, &["a"], 9), wait(&slots, &["a"], 9), wait(&slots, &["a"], 9));
        drop(gone);
        drop(open);
        drop(given);
        assert!(last.is_some_and(|ticket| ticket.granted().is_some()));
        assert!(
            slots.lock().open.is_empty()
                && slots.lock().waiting.is_empty()
                && slots.lock().granted.is_empty()
        );
    }

    #[test]
    fn one_that_became_free_meanwhile_is_given_at_once() {
        let slots = Arc::<Slots>::default();
        let ticket = wait(&slots, &["a"], 0).expect("it needs no place in the queue");
        assert!(ticket.granted().is_some());
    }
}
