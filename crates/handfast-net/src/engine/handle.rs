//! A task's name that can be kept, copied, sent to another thread, and that foreign futures get as their waker.
//!
//! In: a task. Out: a number that wakes it, from its own thread by a place in the ready queue, from any other through
//! [`super::remote`].
//!
//! A waker of the standard library is two words: one that it keeps for us, and a table of functions. Usually the first
//! points to something counted, which would have to be made for each task or each clone. Here it is the handle itself, so
//! a waker costs no memory, cloning and dropping it do nothing, and a million of them may outlive their task, their engine
//! or their thread: what they name is looked up when they are used. The one unsafe call that this takes is in `sys.rs`.

/// Of 64 bits, the engine has 16 …
const ENGINE_BITS: u32 = 16;
/// … the task's place in it 26 …
const TASK_BITS: u32 = 26;
/// … and 22 distinguish the tasks that have been in that place. If the same number comes up in the same place four million
/// tasks later, a waker that was kept for so long wakes an unrelated task, which checks once for nothing.
const GENERATION_BITS: u32 = 22;
const _: () = assert!(ENGINE_BITS + TASK_BITS + GENERATION_BITS == u64::BITS);
// It has to fit into the word of a waker.
const _: () = assert!(size_of::<usize>() == size_of::<u64>());

/// Tasks of one engine.
pub(super) const MAX_TASKS: u32 = 1 << TASK_BITS;
/// Generations of tasks before they begin again.
pub(super) const GENERATIONS: u32 = 1 << GENERATION_BITS;

/// A task of this or another thread's engine, to be woken.
///
/// Waking is never more than a hint: the task looks around, as if one of its sockets had become ready. So it does no harm
/// that a handle may outlive its task; it then wakes no task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskHandle(u64);

impl TaskHandle {
    /// No task at all.
    pub const NONE: Self = Self(0);

    /// `engine` is never 0, so that no task is [`TaskHandle::NONE`].
    pub(super) fn new(engine: u16, task: u32, generation: u32) -> Self {
        let place = u64::from(task) << GENERATION_BITS | u64::from(generation);
        Self(u64::from(engine) << (TASK_BITS + GENERATION_BITS) | place)
    }

    /// The handle as a number, for an atomic to hold.
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Converts the result of [`TaskHandle::to_bits`] back. Any other number is a handle of some task or of none:
    /// hints, at the worst.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    pub(super) fn engine(self) -> u16 {
        (self.0 >> (TASK_BITS + GENERATION_BITS)) as u16
    }

    pub(super) fn task(self) -> u32 {
        (self.0 >> GENERATION_BITS) as u32 & (MAX_TASKS - 1)
    }

    pub(super) fn generation(self) -> u32 {
        self.0 as u32 & (GENERATIONS - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_room_for_the_largest_of_each() {
        for (engine, task, generation) in
            [(1, 0, 0), (u16::MAX, 0, 0), (1, MAX_TASKS - 1, 0), (1, 0, GENERATIONS - 1), (7, 8, 9)]
        {
            let handle = TaskHandle::from_bits(TaskHandle::new(engine, task, generation).to_bits());
            assert_eq!((handle.engine(), handle.task(), handle.generation()), (engine, task, generation));
            assert_ne!(handle, TaskHandle::NONE);
        }
    }

    #[test]
    fn nobody_can_be_woken() {
        TaskHandle::NONE.wake();
        TaskHandle::NONE.waker().wake();
        assert!(!TaskHandle::NONE.is_running());
    }

    /// Futures keep the waker they have if it would wake the same task; else they take another one at each poll.
    #[test]
    fn wakers_of_a_task_are_known_to_be_the_same() {
        let (one, other) = (TaskHandle::new(1, 2, 3), TaskHandle::new(1, 2, 4));
        assert!(one.waker().will_wake(&one.waker().clone()));
        assert!(!one.waker().will_wake(&other.waker()));
    }
}
