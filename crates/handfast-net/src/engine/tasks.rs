//! The tasks of one engine: their futures, who is ready, what they wait for.

use std::collections::VecDeque;
use std::pin::Pin;

use crate::clock::Moment;

pub(crate) type TaskFuture = Pin<Box<dyn Future<Output = ()>>>;

/// Which of two queues a ready task stands in.
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
    priority: Priority,
    queued: bool,
    /// When it wants to be woken at the latest.
    deadline: Moment,
    /// What the wheel has; never later than `deadline` unless that is NEVER.
    armed: Moment,
}

#[derive(Default)]
pub(crate) struct Tasks {
    slots: Vec<Option<Task>>,
    free: Vec<u32>,
    flow: VecDeque<u32>,
    handshake: VecDeque<u32>,
}

impl Tasks {
    pub(crate) fn insert(&mut self, priority: Priority, future: TaskFuture) {
        let task = Task {
            future: Some(future),
            priority,
            queued: false,
            deadline: Moment::NEVER,
            armed: Moment::NEVER,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(task);
                index
            }
            None => {
                self.slots.push(Some(task));
                u32::try_from(self.slots.len() - 1).expect("fewer tasks than file descriptors, which are int")
            }
        };
        self.wake(index);
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn task(&mut self, task: u32) -> Option<&mut Task> {
        self.slots.get_mut(task as usize)?.as_mut()
    }

    /// Puts `task` in its queue, unless it stands there already or is no more.
    pub(crate) fn wake(&mut self, task: u32) {
        let Some(found) = self.slots.get_mut(task as usize).and_then(Option::as_mut) else { return };
        if !found.queued {
            found.queued = true;
            match found.priority {
                Priority::Flow => self.flow.push_back(task),
                Priority::Handshake => self.handshake.push_back(task),
            }
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
        !self.flow.is_empty() || !self.handshake.is_empty()
    }

    /// The next ready task, taken out to be polled; it can be woken meanwhile.
    pub(crate) fn take_ready(&mut self, priority: Priority) -> Option<(u32, TaskFuture)> {
        let queue = match priority {
            Priority::Flow => &mut self.flow,
            Priority::Handshake => &mut self.handshake,
        };
        let index = queue.pop_front()?;
        let task = self.task(index)?;
        task.queued = false;
        task.future.take().map(|future| (index, future))
    }

    pub(crate) fn put_back(&mut self, task: u32, future: TaskFuture) {
        if let Some(task) = self.task(task) {
            task.future = Some(future);
        }
    }

    /// Forgets an ended task, and the place it may have in a queue.
    pub(crate) fn remove(&mut self, task: u32) {
        if self.task(task).is_some_and(|task| task.queued) {
            self.flow.retain(|queued| *queued != task);
            self.handshake.retain(|queued| *queued != task);
        }
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

    /// What the task waits for; `None` when it is no more.
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
