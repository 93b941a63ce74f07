//! A backend that speaks first: it counts as one that answered when its greeting is there.
//!
//! In: a leg that stands, secured where TLS comes first. Out: what the backend said that is the client's. A backend that is silent, ends
//! or greets in another protocol failed to connect: nothing has been given to the client yet, so the next backend can be tried. One that
//! refuses to serve in its own words has answered: they are the client's.

use std::rc::Rc;

use handfast_leg::{Broken, Leg, Socket};
use handfast_net::engine::Woken;
use handfast_tls::buffer::Scratch;
use handfast_wire::starttls::{Greeted, Greeting, Problem, mysql};

use super::{Ended, SocketCause, Until, Waiting, check_client};
use crate::backends::opening::cause_of;
use crate::path::connection::Connection;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// The greeting that a backend begins with.
#[derive(Debug)]
pub(super) enum Expected {
    /// One that its client does not expect any more.
    Dropped(Greeting),
    /// MySQL's, which is passed on.
    MySql {
        received: Vec<u8>,
        /// TLS follows, so it must be offered.
        needs_tls: bool,
    },
}

impl Expected {
    /// `None` where the client's bytes may go first. `needs_tls`: a backend of MySQL is asked for TLS behind its greeting.
    pub(super) fn new(until: Until, needs_tls: bool) -> Option<Self> {
        match until {
            Until::Ready => None,
            Until::Greeted(protocol) => Greeting::new(protocol).map(Self::Dropped),
            Until::MySqlGreeting => Some(Self::MySql { received: Vec::new(), needs_tls }),
        }
    }

    fn take(&mut self, bytes: &[u8]) -> Result<Greeted, Problem> {
        let (received, needs_tls) = match self {
            Self::Dropped(greeting) => return greeting.take(bytes),
            Self::MySql { received, needs_tls } => (received, *needs_tls),
        };
        received.extend_from_slice(bytes);
        match mysql::greeting(received) {
            Ok(None) => Ok(Greeted::More),
            Ok(Some(greeting)) if needs_tls && !greeting.offers_tls() => Err(Problem::NotOffered),
            Ok(Some(_)) => Ok(Greeted::Ready(std::mem::take(received))),
            Err(problem @ Problem::Refused { .. }) => {
                Ok(Greeted::Refused { words: std::mem::take(received), problem })
            }
            Err(problem) => Err(problem),
        }
    }
}

/// Waits for the greeting; what of it is the client's. `spoken`: what the backend has said already.
pub(super) async fn receive<R: Runtime>(
    connection: &mut Connection<R>,
    leg: &mut Leg<R::Socket>,
    mut expected: Expected,
    mut spoken: Vec<u8>,
    attempt: &Waiting,
) -> Result<Vec<u8>, Ended> {
    let mut over = false;
    loop {
        if spoken.is_empty() {
            let thread = Rc::clone(&connection.account.thread);
            let heard = read(leg, &mut thread.scratch.borrow_mut()).map_err(Ended::Attempt)?;
            spoken = heard.unwrap_or_default();
        }
        let is_silent = spoken.is_empty();
        if !is_silent {
            let heard = expected.take(&std::mem::take(&mut spoken));
            match heard.map_err(|problem| Ended::Attempt(of_problem(&problem)))? {
                Greeted::More => {}
                Greeted::Ready(words) | Greeted::Refused { words, .. } => return Ok(words),
            }
        }
        // A backend that always has something to send never lets us wait, and the deadline is not for waiting alone.
        if over || R::now() >= attempt.deadline {
            return Err(attempt.over(connection, late()));
        }
        if is_silent {
            let woken = connection.wait(Step::Connect, attempt.deadline).await;
            let woken = woken.map_err(|reason| Ended::Connection(reason, None))?;
            if let Err(reason) = check_client(connection) {
                return Err(Ended::Connection(reason, attempt.was_long::<R>().then(late)));
            }
            over = woken == Woken::Deadline;
        }
    }
}

/// Reads once from a backend, after sending what waits; what it said, if anything.
pub(crate) fn read<S: Socket>(
    backend: &mut Leg<S>,
    scratch: &mut Scratch,
) -> Result<Option<Vec<u8>>, CloseReason> {
    let broken = |broken: Broken| CloseReason::broken(Step::Connect, &broken);
    backend.send_flight().map_err(broken)?;
    let got = backend.read(scratch, false).map_err(broken)?;
    backend.answer(scratch, got.failed.is_some()).map_err(broken)?;
    if let Some(failed) = got.failed {
        return Err(broken(failed));
    }
    let heard = backend.plaintext(&scratch.received, &scratch.plaintext, got.length).to_vec();
    if heard.is_empty() && backend.has_ended() {
        let reason = CloseReason::new(Step::Connect, Side::Backend, Cause::CLOSED_EARLY);
        return Err(reason.because("before it was ready"));
    }
    Ok(Some(heard).filter(|heard| !heard.is_empty()))
}

/// What a server's words in place of a greeting mean.
pub(crate) fn of_problem(problem: &Problem) -> CloseReason {
    CloseReason::new(Step::Connect, Side::Backend, cause_of(problem)).because(problem.to_string())
}

fn late() -> CloseReason {
    let cause = Cause::Socket(SocketCause::ConnectDeadline);
    CloseReason::new(Step::Connect, Side::Backend, cause).because("it did not greet")
}
