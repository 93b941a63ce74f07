//! A client's connection, as the steps of its life hand it on.
//!
//! In: what accept made. Out: borrowed by each step; `path.rs` has their order.

use std::cell::RefMut;

use handfast_leg::Leg;
use handfast_leg::runtime::Runtime;
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_tls::buffer::Scratch;

use crate::path::account::Account;
use crate::worker::waiting_client::check_phase;
use handfast_observe::reason::{CloseReason, Step};

/// A client's connection: the state that every step needs.
#[derive(Debug)]
pub(crate) struct Connection<R: Runtime> {
    /// Counts it as ended, once, whatever happens to its task.
    pub(crate) account: Account,
    /// Time at which the client was accepted …
    pub(crate) accepted: Moment,
    /// … and the deadline for the start of the relay. Absolute: nothing extends or clears it.
    pub(crate) deadline: Moment,
    /// Time of the last byte that moved in the relay.
    pub(crate) progress: Moment,
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

    /// The same, and the thread's buffers: to be given back before a wait.
    pub(crate) fn client_and_buffers(&mut self) -> (&mut Leg<R::Socket>, RefMut<'_, Scratch>) {
        let client = self.client.as_mut().expect("taken by close.rs alone, after every other step");
        (client, self.account.thread.scratch.borrow_mut())
    }

    /// Waits for this connection's sockets, until `deadline`; ends with a reason when the program is ending.
    pub(crate) async fn wait(&mut self, step: Step, deadline: Moment) -> Result<Woken, CloseReason> {
        let woken = R::wait(deadline).await;
        check_phase(&self.account.thread, step)?;
        Ok(woken)
    }
}
