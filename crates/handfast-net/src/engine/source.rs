//! Event sources of tasks: descriptors registered once, edge-triggered, with their readiness remembered.

use std::io;
use std::os::fd::AsFd;

use rustix::event::epoll::{self, EventData, EventFlags};

use super::engine;

/// Readiness that has been seen and not used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready(u8);

impl Ready {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const READ: Self = Self(1);
    pub(crate) const WRITE: Self = Self(2);
    /// Nothing has blocked yet.
    pub(crate) const UNTRIED: Self = Self(3);
    /// The peer ended its direction, or an error or hang-up was reported: reading goes on until the read call returns it.
    pub(crate) const ENDED: Self = Self(4);
    /// An error or a hang-up of both directions was reported.
    pub(crate) const BROKEN: Self = Self(8);
    /// An error was reported, and waits in the socket until a call fetches it. The kernel sets it before the hang-up
    /// that it causes (`tcp_reset` in tcp_input.c), so a hang-up without it is two clean closes.
    pub(crate) const FAULT: Self = Self(16);

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    fn from_flags(flags: EventFlags) -> Self {
        let mut ready = 0;
        if flags.intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            ready |= Self::READ.0;
        }
        if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
            ready |= Self::WRITE.0;
        }
        if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
            ready |= Self::ENDED.0;
        }
        if flags.intersects(EventFlags::HUP | EventFlags::ERR) {
            ready |= Self::BROKEN.0;
        }
        if flags.intersects(EventFlags::ERR) {
            ready |= Self::FAULT.0;
        }
        Self(ready)
    }
}

struct Slot {
    ready: Ready,
    task: u32,
    /// Distinguishes this registration from earlier ones of the same slot, whose events may still be on their way.
    generation: u32,
}

/// The task of a source that has none: beyond every place in the table of tasks.
const NOBODY: u32 = u32::MAX;

#[derive(Default)]
pub(crate) struct Sources {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Sources {
    fn insert(&mut self, task: u32, ready: Ready) -> u32 {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.ready = ready;
            slot.task = task;
            index
        } else {
            self.slots.push(Slot { ready, task, generation: 0 });
            u32::try_from(self.slots.len() - 1).expect("fewer sources than file descriptors, which are int")
        }
    }

    fn remove(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
    }

    fn key(&self, index: u32) -> u64 {
        u64::from(self.slots[index as usize].generation) << 32 | u64::from(index)
    }

    /// Notes an event; the task to wake, unless the source is gone or the event is not new: a task that left readiness
    /// unused (because the other side cannot take more) need not be notified again.
    pub(crate) fn deliver(&mut self, key: u64, flags: EventFlags) -> Option<u32> {
        let slot = self.slots.get_mut((key & 0xffff_ffff) as usize)?;
        if u64::from(slot.generation) != key >> 32 {
            return None;
        }
        let before = slot.ready.0;
        slot.ready = Ready(before | Ready::from_flags(flags).0);
        (slot.ready.0 != before).then_some(slot.task)
    }
}

/// A descriptor's registration with this thread's engine, for the task that made it, until another one adopts it.
///
/// It must be dropped before or together with the descriptor, and on the same thread.
///
/// A move must keep readiness: the kernel reports an edge once. It may have been reported to the previous task, which has not
/// looked, or never will; so readiness is kept here and not in the task, it goes along, and the next task is woken for it.
#[derive(Debug)]
pub(crate) struct EventSource {
    index: u32,
    /// Not to be moved to another thread.
    _local: std::marker::PhantomData<*const ()>,
}

/// Events that are reported of a stream at first. Writability is requested when a write blocks. Short connections never
/// block, and are spared an event without news.
const READING: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

impl EventSource {
    /// Registers a stream for reading and the peer's end; `ready` is what it may still try without waiting.
    ///
    /// Data that is already readable is reported in the next turn.
    ///
    /// **Errors**: epoll_ctl(2): out of memory or over `max_user_watches`.
    pub(crate) fn register(descriptor: impl AsFd, ready: Ready) -> io::Result<Self> {
        Self::register_for(descriptor, READING, ready)
    }

    /// Registers a stream for writing too, as one that is still connecting must be.
    pub(crate) fn register_connecting(descriptor: impl AsFd) -> io::Result<Self> {
        Self::register_for(descriptor, READING | EventFlags::OUT, Ready::NONE)
    }

    /// Registers a listener: level-triggered, and of the threads that share it only one is woken.
    pub(crate) fn register_listener(descriptor: impl AsFd) -> io::Result<Self> {
        Self::register_for(descriptor, EventFlags::IN | EventFlags::EXCLUSIVE, Ready::NONE)
    }

    fn register_for(descriptor: impl AsFd, flags: EventFlags, ready: Ready) -> io::Result<Self> {
        engine(|engine| {
            let mut sources = engine.sources.borrow_mut();
            let index = sources.insert(engine.current.get(), ready);
            let data = EventData::new_u64(sources.key(index));
            match epoll::add(&engine.epoll, descriptor, data, flags) {
                Ok(()) => Ok(Self { index, _local: std::marker::PhantomData }),
                Err(error) => {
                    sources.remove(index);
                    Err(error.into())
                }
            }
        })
    }

    /// Belongs to no task from now on, as the socket of a connection in a pool. Readiness is
    /// still noted; no task is woken for it.
    ///
    /// A task that was woken before this is still polled once: being woken is a hint.
    pub(crate) fn release(&self) {
        engine(|engine| engine.sources.borrow_mut().slots[self.index as usize].task = NOBODY);
    }

    /// Belongs to the present task from now on, which is woken if there is something to read, or an end, that has not been used up: it
    /// may be of an edge that was reported to the task before. Room to write wakes no task: a writer tries first. The task before is
    /// not woken by it any more.
    ///
    /// **Cost**: no system call. The wake is one poll that may find nothing new, as the task cannot be known to try each
    /// socket before it waits.
    pub(crate) fn adopt(&self) {
        engine(|engine| {
            let task = engine.current.get();
            let mut sources = engine.sources.borrow_mut();
            let slot = &mut sources.slots[self.index as usize];
            slot.task = task;
            if slot.ready != Ready::NONE && slot.ready != Ready::WRITE {
                engine.tasks.borrow_mut().wake(task);
            }
        });
    }

    /// From now on writability is reported too; if it is there already, in the next turn.
    pub(crate) fn watch_writing(&self, descriptor: impl AsFd) -> io::Result<()> {
        engine(|engine| {
            let data = EventData::new_u64(engine.sources.borrow().key(self.index));
            Ok(epoll::modify(&engine.epoll, descriptor, data, READING | EventFlags::OUT)?)
        })
    }

    /// Makes the kernel forget it, for descriptors that are not closed with it.
    pub(crate) fn deregister(self, descriptor: impl AsFd) {
        // An error means that the kernel has forgotten it already.
        let _ = engine(|engine| epoll::delete(&engine.epoll, descriptor));
    }

    pub(crate) fn ready(&self) -> Ready {
        engine(|engine| engine.sources.borrow().slots[self.index as usize].ready)
    }

    /// Forgets readiness that a call has just shown to be used up.
    pub(crate) fn used_up(&self, ready: Ready) {
        engine(|engine| {
            let mut sources = engine.sources.borrow_mut();
            let slot = &mut sources.slots[self.index as usize];
            slot.ready = Ready(slot.ready.0 & !ready.0);
        });
    }
}

impl Drop for EventSource {
    fn drop(&mut self) {
        engine(|engine| engine.sources.borrow_mut().remove(self.index));
    }
}
