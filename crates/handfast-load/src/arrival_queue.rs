//! A thread's queue of intended start times of transactions.
//!
//! In: arrivals that are due, in an open model. Out: the next one, for the thread that is ready to begin it; in a closed model there
//! is always one, due now.

use std::cell::RefCell;
use std::collections::VecDeque;

use handfast_net::clock::Moment;

use crate::context::ThreadContext;
use crate::plan::{Model, Plan};

/// Most arrivals that wait, 8 MiB of them. More would only cost memory: the run has failed at that point, which the report says.
const MAX_WAITING: usize = 1 << 20;

/// Arrivals that are due and have not begun yet.
#[derive(Debug)]
pub(crate) struct ArrivalQueue {
    closed: bool,
    waiting: RefCell<VecDeque<Moment>>,
    most: usize,
}

impl ArrivalQueue {
    /// None yet.
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::at_most(plan, MAX_WAITING)
    }

    /// The same, with at most `most` waiting.
    pub(crate) fn at_most(plan: &Plan, most: usize) -> Self {
        Self { closed: plan.model == Model::Closed, waiting: RefCell::default(), most }
    }

    /// Returns true if the next transaction begins when the last one has ended.
    pub(crate) fn is_closed_model(&self) -> bool {
        self.closed
    }

    /// Number of arrivals that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// One is due; `false` if too many wait already, and it is lost.
    #[must_use]
    pub(crate) fn put(&self, intended: Moment) -> bool {
        let waiting = &mut *self.waiting.borrow_mut();
        let room = waiting.len() < self.most;
        if room {
            waiting.push_back(intended);
        }
        room
    }

    /// Takes the next arrival and returns its intended start; `None` if nothing is to begin now.
    pub(crate) fn take(&self, context: &ThreadContext) -> Option<Moment> {
        if context.is_over() {
            return None;
        }
        let waiting = self.waiting.borrow_mut().pop_front();
        waiting.or_else(|| (self.closed && context.has_begun()).then(Moment::now))
    }

    /// Gives back an arrival that has not begun: it becomes the next one. It was counted before, so the bound does not apply.
    pub(crate) fn give_back(&self, intended: Moment) {
        self.waiting.borrow_mut().push_front(intended);
    }

    /// Removes all that wait, and returns their number: they will never begin.
    pub(crate) fn drain(&self) -> u64 {
        std::mem::take(&mut *self.waiting.borrow_mut()).len() as u64
    }
}
