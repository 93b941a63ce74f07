//! The tasks of one engine: their futures, the ready ones, and their deadlines.

use std::collections::VecDeque;
use std::pin::Pin;

use super::handle::{GENERATIONS, MAX_TASKS};
use crate::clock::Moment;

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Queue of a ready task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Carries bytes, accepts, or tends the thread: all that are ready are polled in every turn.
    Flow,
    /// Computes handshakes: polled until their share of the turn is used up, the rest in the next.
    Handshake,
}

struct Task {
    /// `None` while it is being polled.
    future: Option<TaskFuture>,
    /// Latest time to wake it.
    deadline: Moment,
    /// Time in the timer wheel; never later than `deadline` unless that is NEVER.
    armed: Moment,
    /// Distinguishes it from the tasks that had its place before: a waker may outlive its task.
    generation: u32,
    priority: Priority,
    /// Is in its queue; or, while it is being polled, will be when that is over. So a task that wakes itself and then
    /// ends was in no queue, and the queues need not be searched for it.
    queued: bool,
    /// It has let others go first: it goes into the queue of those.
    yields: bool,
}

// A place in the table is paid for by every idle connection. Generation and flags fill what alignment left over.
const _: () = assert!(size_of::<Option<Task>>() == 40);

/// A task that has been taken out to be polled.
pub(crate) struct Taken {
    pub(crate) task: u32,
    pub(crate) generation: u32,
    pub(crate) future: TaskFuture,
}

#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Option<Task>>,
    free: Vec<u32>,
    flow: VecDeque<u32>,
    /// Those that are polled behind them, still in the same turn.
    late: VecDeque<u32>,
    /// Those that carry bytes and have used up their time.
    yielded: VecDeque<u32>,
    handshake: VecDeque<u32>,
    /// Of the task that was inserted last.
    generation: u32,
}

impl Tasks {
    /// Adds a task, which is ready.
    pub(crate) fn insert(&mut self, priority: Priority, future: TaskFuture) {
        let index = self.place(priority, future);
        self.wake(index);
    }

    /// Adds a task that carries bytes, and is polled behind all that are ready, in the same turn.
    pub(crate) fn insert_late(&mut self, future: TaskFuture) {
        let index = self.place(Priority::Flow, future);
        self.wake_late(index, self.generation);
    }

    fn place(&mut self, priority: Priority, future: TaskFuture) -> u32 {
        self.generation = (self.generation + 1) % GENERATIONS;
        let task = Task {
            future: Some(future),
            deadline: Moment::NEVER,
            armed: Moment::NEVER,
            generation: self.generation,
            priority,
            queued: false,
            yields: false,
        };
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(task);
                index
            }
            None => {
                self.slots.push(Some(task));
                let index = u32::try_from(self.slots.len() - 1).ok().filter(|index| *index < MAX_TASKS);
                index.expect("fewer tasks on a thread than 2^26: of connections, they would take 300 GiB")
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn task(&mut self, task: u32) -> Option<&mut Task> {
        self.slots.get_mut(task as usize)?.as_mut()
    }

    /// The generation of `task`, if there is one at that place.
    pub(crate) fn generation(&self, task: u32) -> Option<u32> {
        self.slots.get(task as usize)?.as_ref().map(|task| task.generation)
    }

    /// Returns true if `task` is being polled at this moment.
    pub(crate) fn is_polled(&self, task: u32) -> bool {
        self.slots.get(task as usize).and_then(Option::as_ref).is_some_and(|task| task.future.is_none())
    }

    /// Puts `task` in its queue, unless it is there already or has ended.
    pub(crate) fn wake(&mut self, task: u32) {
        let Some(found) = self.slots.get_mut(task as usize).and_then(Option::as_mut) else { return };
        if found.queued {
            return;
        }
        found.queued = true;
        if found.future.is_some() {
            match found.priority {
                Priority::Flow => self.flow.push_back(task),
                Priority::Handshake => self.handshake.push_back(task),
            }
        }
    }

    /// Puts a task that carries bytes behind all that are ready now, in the same turn; one that is ready already keeps its place.
    pub(crate) fn wake_late(&mut self, task: u32, generation: u32) {
        let Some(found) = self.slots.get_mut(task as usize).and_then(Option::as_mut) else { return };
        let is_waiting = !found.queued && found.future.is_some() && found.priority == Priority::Flow;
        if found.generation == generation && is_waiting {
            found.queued = true;
            self.late.push_back(task);
        } else {
            self.wake_exactly(task, generation);
        }
    }

    /// The number of tasks that are polled behind the others of this turn.
    pub(crate) fn late(&self) -> usize {
        self.late.len()
    }

    /// The next of them, taken out to be polled.
    pub(crate) fn take_late(&mut self) -> Option<Taken> {
        let index = self.late.pop_front()?;
        self.take(index)
    }

    /// The same for the task of this generation only, and for none that took its place.
    pub(crate) fn wake_exactly(&mut self, task: u32, generation: u32) {
        if self.generation(task) == Some(generation) {
            self.wake(task);
        }
    }

    pub(crate) fn wake_all(&mut self) {
        for task in 0..self.slots.len() {
            self.wake(task as u32);
        }
    }

    pub(crate) fn ready(&self, priority: Priority) -> usize {
        match priority {
            Priority::Flow => self.flow.len(),
            Priority::Handshake => self.handshake.len(),
        }
    }

    pub(crate) fn any_ready(&self) -> bool {
        let queues = [&self.flow, &self.late, &self.yielded, &self.handshake];
        queues.into_iter().any(|queue| !queue.is_empty())
    }

    /// Lets others go before the polled task, which is ready.
    pub(crate) fn yield_now(&mut self, task: u32) {
        if let Some(found) = self.task(task) {
            (found.queued, found.yields) = (true, true);
        }
    }

    /// The number of tasks that have let others go first.
    pub(crate) fn yielded(&self) -> usize {
        self.yielded.len()
    }

    /// The next of them, taken out to be polled.
    pub(crate) fn take_yielded(&mut self) -> Option<Taken> {
        let index = self.yielded.pop_front()?;
        self.take(index)
    }

    /// The next ready task, taken out to be polled; it can be woken meanwhile.
    pub(crate) fn take_ready(&mut self, priority: Priority) -> Option<Taken> {
        let queue = match priority {
            Priority::Flow => &mut self.flow,
            Priority::Handshake => &mut self.handshake,
        };
        let index = queue.pop_front()?;
        self.take(index)
    }

    fn take(&mut self, index: u32) -> Option<Taken> {
        let task = self.task(index)?;
        task.queued = false;
        let generation = task.generation;
        task.future.take().map(|future| Taken { task: index, generation, future })
    }

    /// Puts the future of a polled task back, and the task in its queue if it was woken meanwhile.
    pub(crate) fn put_back(&mut self, task: u32, future: TaskFuture) {
        let Some(found) = self.task(task) else { return };
        found.future = Some(future);
        let yields = std::mem::take(&mut found.yields) && found.priority == Priority::Flow;
        if yields {
            self.yielded.push_back(task);
        } else if std::mem::take(&mut found.queued) {
            self.wake(task);
        }
    }

    /// Forgets a polled task that has ended. It is in no queue: see [`Task::queued`].
    pub(crate) fn remove(&mut self, task: u32) {
        self.slots[task as usize] = None;
        self.free.push(task);
    }

    /// Takes out the future of some task that has one, for the end of the engine.
    pub(crate) fn take_any(&mut self) -> Option<TaskFuture> {
        self.slots.iter_mut().flatten().find_map(|task| task.future.take())
    }

    pub(crate) fn set_priority(&mut self, task: u32, priority: Priority) {
        if let Some(task) = self.task(task) {
            task.priority = priority;
        }
    }

    /// Returns the task's deadline; `None` if the task has ended.
    pub(crate) fn deadline(&mut self, task: u32) -> Option<Moment> {
        self.task(task).map(|task| {
            task.armed = Moment::NEVER; // asked when the wheel let it out
            task.deadline
        })
    }

    pub(crate) fn set_armed(&mut self, task: u32, armed: Moment) {
        if let Some(task) = self.task(task) {
            task.armed = armed;
        }
    }

    /// Notes the deadline; true when the wheel has none that comes early enough.
    pub(crate) fn set_deadline(&mut self, task: u32, deadline: Moment) -> bool {
        let Some(task) = self.task(task) else { return false };
        task.deadline = deadline;
        let arm = deadline < task.armed;
        if arm {
            task.armed = deadline;
        }
        arm
    }
}
