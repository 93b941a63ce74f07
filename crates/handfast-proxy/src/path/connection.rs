//! A client's connection, as the steps of its life hand it on.
//!
//! In: what accept made. Out: borrowed by each step; `path.rs` has their order.

use handfast_leg::{Leg, Socket};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;

use crate::backends::connector::{AttemptTime, Cancellation};
use crate::path::account::Account;
use crate::worker::context::{WorkerContext, WorkerPhase};
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// A client's connection: what every step needs of it.
#[derive(Debug)]
pub(crate) struct Connection<R: Runtime> {
    /// Whose it is and what is known of it. Counts it as ended, once, whatever becomes of its task.
    pub(crate) account: Account,
    /// When the client was accepted …
    pub(crate) accepted: Moment,
    /// … and when the relay must have begun. Absolute: nothing extends or clears it.
    pub(crate) deadline: Moment,
    /// Open until `close.rs` takes it.
    pub(crate) client: Option<Leg<R::Socket>>,
    /// Open from connect on, until `close.rs` takes it.
    pub(crate) backend: Option<Leg<R::Socket>>,
}

impl<R: Runtime> Connection<R> {
    /// The client's leg, in the steps before the close.
    pub(crate) fn client(&mut self) -> &mut Leg<R::Socket> {
        self.client.as_mut().expect("taken by close.rs alone, after every other step")
    }

    /// Both legs, in the relay.
    pub(crate) fn legs(&mut self) -> (&mut Leg<R::Socket>, &mut Leg<R::Socket>) {
        let client = self.client.as_mut().expect("taken by close.rs alone, after every other step");
        (client, self.backend.as_mut().expect("put there before the relay begins"))
    }

    /// Waits for this connection's sockets, until `deadline`; ends with a reason when the program is ending.
    pub(crate) async fn wait(&mut self, step: Step, deadline: Moment) -> Result<Woken, CloseReason> {
        let woken = R::wait(deadline).await;
        check_phase(&self.account.thread, step)?;
        Ok(woken)
    }

    /// The same in step connect, where nothing is read from the client: ends also when the client has left.
    pub(crate) async fn wait_for_backend(&mut self, deadline: Moment) -> Result<Woken, CloseReason> {
        let mut client = WaitingClient::new(&mut self.client, &self.account.thread);
        client.before_wait()?;
        let woken = R::wait(deadline).await;
        client.after_wait()?;
        Ok(woken)
    }

    /// Waits for either side, at most until the connection's deadline, which no conversation moves.
    ///
    /// **Errors**: as [`Connection::wait`]; at the deadline, `what` with the side that did not act.
    pub(crate) async fn wait_for_peer(
        &mut self,
        side: Side,
        step: Step,
        what: &str,
    ) -> Result<(), CloseReason> {
        let is_over = R::now() >= self.deadline || self.wait(step, self.deadline).await? == Woken::Deadline;
        let reason = || CloseReason::new(step, side, Cause::HandshakeDeadline).because(what);
        if is_over { Err(reason()) } else { Ok(()) }
    }

    /// The time that one attempt to connect to a backend has, from now on.
    pub(crate) fn attempt_time(&self) -> AttemptTime {
        let begun = R::now();
        let limit = self.account.service.limits.connect;
        AttemptTime { begun, deadline: self.deadline.min(begun.deadline(limit)) }
    }
}

fn check_phase(thread: &WorkerContext, step: Step) -> Result<(), CloseReason> {
    match thread.phase() {
        WorkerPhase::Ending => Err(CloseReason::new(step, Side::Operator, Cause::Stopped)),
        _ => Ok(()),
    }
}

/// A client that waits for its backend: the attempt to connect ends when the client leaves, or the program ends.
pub(crate) struct WaitingClient<'a, S> {
    leg: &'a mut Option<Leg<S>>,
    thread: &'a WorkerContext,
}

impl<'a, S: Socket> WaitingClient<'a, S> {
    pub(crate) fn new(leg: &'a mut Option<Leg<S>>, thread: &'a WorkerContext) -> Self {
        Self { leg, thread }
    }
}

impl<S: Socket> Cancellation for WaitingClient<'_, S> {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        let Some(client) = self.leg else { return Ok(()) };
        // A plain client has not been read from yet, so the task would not be woken when the client leaves.
        let watched = client.socket_mut().watch();
        watched.map_err(|fault| CloseReason::fault(Step::Connect, Side::Client, &fault))
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        check_phase(self.thread, Step::Connect)?;
        let Some(client) = self.leg else { return Ok(()) };
        let socket = client.socket_mut();
        // A client that has ended only its own direction still waits for an answer.
        if !socket.is_broken() {
            return Ok(());
        }
        Err(match socket.check() {
            Err(fault) => CloseReason::fault(Step::Connect, Side::Client, &fault),
            Ok(()) => CloseReason::new(Step::Connect, Side::Client, Cause::CLOSED_EARLY),
        })
    }
}
