//! A client that waits for its backend: an attempt to connect ends when the client leaves, or the program ends.

use handfast_leg::{Leg, Socket};
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::backends::connector::Cancellation;
use crate::worker::context::{WorkerContext, WorkerPhase};

/// The client of an attempt to connect.
pub(crate) struct WaitingClient<'a, S> {
    /// `None`: it is not watched.
    pub(crate) leg: &'a mut Option<Leg<S>>,
    pub(crate) thread: &'a WorkerContext,
}

impl<S: Socket> Cancellation for WaitingClient<'_, S> {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        self.leg.as_mut().map_or(Ok(()), watch)
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        check_phase(self.thread, Step::Connect)?;
        self.leg.as_mut().map_or(Ok(()), check)
    }
}

/// Has the present task woken when the client leaves: a plain client has perhaps not been read from yet.
pub(crate) fn watch<S: Socket>(client: &mut Leg<S>) -> Result<(), CloseReason> {
    let watched = client.socket_mut().watch();
    watched.map_err(|fault| CloseReason::fault(Step::Connect, Side::Client, &fault))
}

/// **Errors**: the client has left. One that has ended only its own direction still waits for an answer.
pub(crate) fn check<S: Socket>(client: &mut Leg<S>) -> Result<(), CloseReason> {
    let socket = client.socket_mut();
    if !socket.is_broken() {
        return Ok(());
    }
    Err(match socket.check() {
        Err(fault) => CloseReason::fault(Step::Connect, Side::Client, &fault),
        Ok(()) => CloseReason::new(Step::Connect, Side::Client, Cause::CLOSED_EARLY),
    })
}

/// **Errors**: the program is ending.
pub(crate) fn check_phase(thread: &WorkerContext, step: Step) -> Result<(), CloseReason> {
    match thread.phase() {
        WorkerPhase::Ending => Err(CloseReason::new(step, Side::Operator, Cause::Stopped)),
        _ => Ok(()),
    }
}
