//! A connection's life, from top to bottom: the seven steps on one screen.
//!
//! In: a client that was accepted. Out: nothing; when it returns, the connection has ended in `close.rs` and left its
//! record in the metrics and the access log. Each step takes what the one before it made, so none can be skipped.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Priority, Woken, wait};
use handfast_net::stream::Stream;

use crate::cause::Cause;
use crate::close::Leftover;
use crate::permits::{AddressPermit, Permit};
use crate::reason::{CloseReason, Side, Step};
use crate::record::Record;
use crate::relay::Relay;
use crate::thread::{Phase, Thread};
use crate::thread_state::ThreadService;
use crate::{close, connect, handshake, hello};

/// A client's connection and what every step needs of it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) client: Stream,
    pub(crate) thread: Rc<Thread>,
    /// With the state it was accepted with, to its end.
    pub(crate) service: Rc<ThreadService>,
    pub(crate) record: Record,
    pub(crate) accepted: Moment,
    /// When the relay must have begun. Absolute: nothing extends or clears it.
    pub(crate) deadline: Moment,
    /// Bytes that wait for the client's socket; what an ending connection still delivers.
    pub(crate) outgoing: Vec<u8>,
    /// Why it ended, once it has.
    pub(crate) reason: Option<CloseReason>,
    pub(crate) _permits: (Permit, Option<Permit>, Option<AddressPermit>),
}

/// Serves one client.
///
/// The connection is in a box because a future keeps a place for each function that it was ever given to.
pub(crate) async fn serve(mut connection: Box<Connection>) {
    let (reason, backend) = walk(&mut connection).await;
    close::end(connection, backend, reason).await;
}

/// accept has happened; the other steps, in their order. A backend that is still open at the end is closed with it.
async fn walk(connection: &mut Connection) -> (CloseReason, Option<Leftover>) {
    let mut relay = match open(connection).await {
        Ok(relay) => relay,
        Err(reason) => return (reason, None),
    };
    engine::set_priority(Priority::Flow);
    let reason = relay.run(connection).await;
    (reason, Some(relay.leftover()))
}

/// hello to connect. Apart from the relay, so that what they need is not kept a place for while bytes are carried.
async fn open(connection: &mut Connection) -> Result<Relay, CloseReason> {
    let heard = hello::read(connection).await?;
    let secured = handshake::finish(connection, heard).await?;
    // The route was chosen with the policy, by the name in the hello: `secured.choice`.
    let connected = connect::dial(connection, &secured).await?;
    Ok(Relay::new(connection, secured, connected))
}

impl Connection {
    /// Waits for this connection's sockets, until `deadline`; ends with a reason when the program is ending.
    pub(crate) async fn wait(&self, step: Step, deadline: Moment) -> Result<Woken, CloseReason> {
        let woken = wait(deadline).await;
        if self.thread.phase() == Phase::Ending {
            return Err(CloseReason::new(step, Side::Operator, Cause::Stopped));
        }
        Ok(woken)
    }
}

/// Whatever becomes of its task: an accepted connection is counted as ended once, with a reason.
impl Drop for Connection {
    fn drop(&mut self) {
        let internal = CloseReason::new(Step::Relay, Side::Local, Cause::Internal);
        let reason = self.reason.take().unwrap_or_else(|| internal.because("its task was ended"));
        self.service.metrics.closed(&self.record, &reason);
        self.thread.log(&self.record, &reason);
        self.thread.connection_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of what a function returns.
    fn size<I, F: Future>(_: impl Fn(I) -> F) -> usize {
        size_of::<F>()
    }

    /// Most of what an idle connection costs outside the TLS library. It is easily doubled unseen: by a value that is
    /// moved from one async function to another, or that is still in scope where one waits.
    #[test]
    fn a_connection_of_ours_takes_a_kibibyte() {
        let (task, connection) = (size(serve), size_of::<Connection>());
        assert!(task + connection <= 1024, "{task} bytes for the task, {connection} for the connection");
    }
}
