//! A client's connection, as the steps of its life hand it on.
//!
//! In: what accept made. Out: borrowed by each step; `path.rs` has their order.

use handfast_leg::{Leg, Socket};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;

use crate::path::account::Account;
use crate::worker::context::Phase;
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
        // A plain client has not been read from when its backend is dialled, so nobody would be told that it has left.
        if step == Step::Connect
            && let Some(client) = &mut self.client
        {
            let watched = client.socket_mut().watch();
            watched.map_err(|fault| CloseReason::fault(step, Side::Client, &fault))?;
        }
        let woken = R::wait(deadline).await;
        if self.account.thread.phase() == Phase::Ending {
            return Err(CloseReason::new(step, Side::Operator, Cause::Stopped));
        }
        Ok(woken)
    }
}
