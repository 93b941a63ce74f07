//! The requests that are in flight on a connection, each timed separately, and those that are over.
//!
//! In: events of a connection of either version: a head, content, an end. Out: [`Finished`] requests. A request is named by its
//! place, which another request has after it.

use std::collections::VecDeque;
use std::rc::Rc;

use handfast_http::http1::ResponseHead;
use handfast_net::clock::Moment;
use http::StatusCode;

use super::sequence::{MissingValue, Taking, Values};
use crate::context::ThreadContext;
use crate::failure::{Cause, Step, StepFailure};

/// An answer, read to its end.
#[derive(Clone, Debug)]
pub(super) struct CompleteResponse {
    pub(super) status: StatusCode,
    /// Its first byte; with HTTP/2, where a byte belongs to no stream until it has been read: its head.
    pub(super) first_byte: Moment,
    pub(super) done: Moment,
    /// The values that the plan takes from it, or which one it has not.
    pub(super) taken: Result<Values, MissingValue>,
}

/// Reason why there is no answer.
#[derive(Clone, Debug)]
pub(super) enum Lost {
    /// The target closed the connection before it looked at the request, which may be sent on another one.
    NotSeen(StepFailure),
    /// It failed.
    Failed(StepFailure),
}

/// A request that is over.
#[derive(Debug)]
pub(super) struct Finished {
    /// Intended start of the request.
    pub(super) intended: Moment,
    pub(super) began: Moment,
    /// Its place among the plan's requests.
    pub(super) which: usize,
    pub(super) outcome: Result<CompleteResponse, Lost>,
}

/// End of the transport, as far as it is known.
#[derive(Debug)]
pub(super) struct TransportEnd {
    /// Reason for a request without an answer.
    pub(super) unanswered: StepFailure,
    /// Reason for an answer without its end.
    pub(super) cut_short: StepFailure,
    /// True if the target ended its direction cleanly, which is the end of an answer without a length.
    pub(super) is_clean: bool,
}

struct InFlight {
    intended: Moment,
    began: Moment,
    which: usize,
    deadline: Moment,
    response: Option<Response>,
}

/// An answer whose head has come.
struct Response {
    status: StatusCode,
    first_byte: Moment,
    taking: Option<Box<Taking>>,
}

/// The requests of one connection.
pub(super) struct Requests {
    context: Rc<ThreadContext>,
    places: Vec<Option<InFlight>>,
    free: Vec<usize>,
    finished: VecDeque<Finished>,
    /// No deadline is earlier.
    next_deadline: Moment,
}

impl Requests {
    pub(super) fn new(context: &Rc<ThreadContext>) -> Self {
        Self {
            context: Rc::clone(context),
            places: Vec::new(),
            free: Vec::new(),
            finished: VecDeque::new(),
            next_deadline: Moment::NEVER,
        }
    }

    /// Returns the number of requests in flight.
    pub(super) fn count(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns true if a finished request waits to be taken.
    pub(super) fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Takes a finished request.
    pub(super) fn next_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// The last request that has finished, unless it was taken.
    pub(super) fn last_finished(&mut self) -> Option<&mut Finished> {
        self.finished.back_mut()
    }

    /// No deadline is earlier than this moment.
    pub(super) fn next_deadline(&self) -> Moment {
        self.next_deadline
    }

    /// Begins the plan's request number `which`; its place.
    pub(super) fn begin(&mut self, intended: Moment, which: usize) -> usize {
        let (began, deadline) = (Moment::now(), self.context.deadline());
        self.next_deadline = self.next_deadline.min(deadline);
        let request = Some(InFlight { intended, began, which, deadline, response: None });
        match self.free.pop() {
            Some(place) => {
                self.places[place] = request;
                place
            }
            None => {
                self.places.push(request);
                self.places.len() - 1
            }
        }
    }

    /// Returns true if the final head of the answer has come.
    pub(super) fn has_head(&self, place: usize) -> bool {
        self.places[place].as_ref().is_some_and(|request| request.response.is_some())
    }

    /// The final head of an answer has come.
    pub(super) fn take_head(&mut self, place: usize, head: &ResponseHead<'_>, first_byte: Moment) {
        let Some(request) = &mut self.places[place] else { return };
        let takes = self.context.plan.requests().get(request.which).map_or(&[][..], |planned| &planned.take);
        // The parsers take only statuses that it has.
        let status = StatusCode::from_u16(head.status).unwrap_or_default();
        request.response = Some(Response { status, first_byte, taking: Taking::begin(takes, head) });
    }

    /// Content has come.
    pub(super) fn take_content(&mut self, place: usize, content: &[u8]) {
        let response = self.places[place].as_mut().and_then(|request| request.response.as_mut());
        if let Some(taking) = response.and_then(|response| response.taking.as_mut()) {
            taking.push(content);
        }
    }

    /// The answer is complete.
    pub(super) fn complete(&mut self, place: usize, done: Moment) {
        let Some(InFlight { intended, began, which, response, .. }) = self.remove(place) else { return };
        let Some(Response { status, first_byte, taking }) = response else { return };
        let takes = self.context.plan.requests().get(which).map_or(&[][..], |planned| &planned.take);
        let taken = taking.map_or_else(|| Ok(Values::new()), |taking| taking.finish(takes));
        let outcome = Ok(CompleteResponse { status, first_byte, done, taken });
        self.finished.push_back(Finished { intended, began, which, outcome });
    }

    /// There is no answer.
    pub(super) fn lose(&mut self, place: usize, lost: Lost) {
        let Some(InFlight { intended, began, which, .. }) = self.remove(place) else { return };
        self.finished.push_back(Finished { intended, began, which, outcome: Err(lost) });
    }

    /// The target violated HTTP.
    pub(super) fn refuse(&mut self, place: usize, detail: String) {
        self.lose(place, Lost::Failed(StepFailure::new(Step::Exchange, Cause::Http, detail)));
    }

    /// The transport ended before the request did; `is_seen`: the target may have read it.
    pub(super) fn lose_with(&mut self, place: usize, end: &TransportEnd, is_seen: bool) {
        let lost = match (self.has_head(place), is_seen) {
            (true, _) => Lost::Failed(end.cut_short.clone()),
            (false, true) => Lost::Failed(end.unanswered.clone()),
            (false, false) => Lost::NotSeen(end.unanswered.clone()),
        };
        self.lose(place, lost);
    }

    /// Places of requests whose time is up; they are still in flight.
    pub(super) fn expired(&mut self, now: Moment) -> Vec<usize> {
        if now < self.next_deadline {
            return Vec::new();
        }
        self.next_deadline = Moment::NEVER;
        let mut expired = Vec::new();
        for (place, request) in self.places.iter().enumerate() {
            match request {
                Some(request) if request.deadline <= now => expired.push(place),
                Some(request) => self.next_deadline = self.next_deadline.min(request.deadline),
                None => {}
            }
        }
        expired
    }

    fn remove(&mut self, place: usize) -> Option<InFlight> {
        let request = self.places.get_mut(place)?.take()?;
        self.free.push(place);
        Some(request)
    }
}
