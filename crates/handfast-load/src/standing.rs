//! Connections that stay open for the whole run without transactions: bulk and idle ones.
//!
//! In: a permit to open one. Out: bytes, or the count of an open connection.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine;
use handfast_tls::session::Session;

use crate::close::close;
use crate::connect::connect;
use crate::connection::Connection;
use crate::context::{Caller, READ, ThreadContext};
use crate::exchange::{Opening, Sizes};
use crate::failure::{Cause, Step, StepFailure};
use crate::opener::Permit;
use crate::plan::Work;
use crate::raw::RawConnection;
use crate::wire::{Got, Wire};

/// Rounds of bulk before the others of the thread have their turn: 1 MiB.
const ROUNDS: u32 = 16;

/// Counts an open connection until it is dropped.
pub(crate) struct OpenGuard<'a>(&'a ThreadContext);

impl<'a> OpenGuard<'a> {
    /// One more.
    pub(crate) fn new(context: &'a ThreadContext) -> Self {
        context.record().opened();
        Self(context)
    }
}

impl Drop for OpenGuard<'_> {
    fn drop(&mut self) {
        self.0.record().closed();
    }
}

/// A bulk connection: bytes without a pause until the run is over.
pub(crate) async fn bulk(context: Rc<ThreadContext>, mut permit: Permit) {
    let _live = context.enter();
    let Work::Bulk { send, receive } = context.plan.work else { return };
    let caller = context.draw();
    match bulk_connection(&context, caller, &mut permit, send, receive).await {
        // Its duration is that of the run: there is nothing to time.
        Ok(()) => context.record().finished(caller.member, Moment::now()),
        Err(failure) => fail_first(&context, caller, &permit, failure),
    }
}

/// Counts a connection that failed, and whether the target shed it.
fn fail_first(context: &ThreadContext, caller: Caller, permit: &Permit, failure: StepFailure) {
    if permit.ended(false) {
        context.record().shed();
    }
    context.record().failed(caller.member, failure, Moment::now());
}

async fn bulk_connection(
    context: &Rc<ThreadContext>,
    caller: Caller,
    permit: &mut Permit,
    send: bool,
    receive: bool,
) -> Result<(), StepFailure> {
    let connected = connect(context, caller, &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    let standing = OpenGuard::new(context);
    permit.set_open();
    opening.send_flight(context, &mut wire, Step::Handshake)?;
    context.wait_for_start().await;
    let mut sent = 0;
    let mut received = false;
    while !context.is_over() {
        let mut rounds = 0;
        while bulk_turn(context, &mut wire, send, &mut sent, &mut received)? {
            permit.proved();
            rounds += 1;
            if rounds == ROUNDS {
                break;
            }
        }
        if rounds == ROUNDS {
            engine::yield_now().await;
        } else {
            engine::wait(context.end()).await;
        }
    }
    drop(standing);
    if receive && !received {
        return Err(StepFailure::new(
            Step::Exchange,
            Cause::Deadline,
            "the target sent nothing during the whole run",
        ));
    }
    finish_bulk(context, wire).await;
    Ok(())
}

/// Bytes in flight are cut off: waiting for them would measure buffers.
async fn finish_bulk(context: &Rc<ThreadContext>, wire: Wire) {
    if wire.is_flushed() {
        close(context, wire).await;
    }
}

/// Writes and reads once; whether anything moved.
fn bulk_turn(
    context: &ThreadContext,
    wire: &mut Wire,
    send: bool,
    sent: &mut u64,
    received: &mut bool,
) -> Result<bool, StepFailure> {
    let scratch = &mut *context.scratch.borrow_mut();
    let mut moved = false;
    if !wire.is_flushed() {
        wire.flush(Step::Exchange)?;
    }
    if send && wire.is_flushed() {
        let before = *sent;
        while scratch.records.len() < READ {
            let bytes = context.pattern.at(*sent, 16_384);
            let encrypted = wire.session_mut().encrypt(bytes, &mut scratch.records);
            encrypted.map_err(|failure| StepFailure::session(Step::Exchange, &failure))?;
            *sent += bytes.len() as u64;
        }
        wire.write(&mut scratch.records, Step::Exchange)?;
        context.record().bytes(*sent - before, 0);
        moved = wire.is_flushed();
    }
    let mut count = 0;
    let got = wire.read(scratch, Step::Exchange, &mut |bytes| count += bytes.len() as u64)?;
    *received |= count > 0;
    context.record().bytes(0, count);
    if got == Got::End {
        return Err(wire.ended_early(Step::Exchange, "the target ended before the run did"));
    }
    Ok(moved || got == Got::Something)
}

/// One handshake and the end of it, for works that stand.
pub(crate) async fn rehearse(context: &Rc<ThreadContext>, caller: Caller) -> Result<(), StepFailure> {
    let mut connection = RawConnection::open(context, caller).await?;
    if Sizes::of(&context.plan.work).is_some() {
        connection.exchange().await?;
    } else {
        connection.settle().await?;
    }
    connection.close().await;
    Ok(())
}

/// An idle connection: a handshake, perhaps an exchange, then nothing until the run is over.
pub(crate) async fn idle(context: Rc<ThreadContext>, mut permit: Permit) {
    let _active = context.enter();
    let caller = context.draw();
    if let Err(failure) = idle_connection(&context, caller, &mut permit, Moment::now()).await {
        fail_first(&context, caller, &permit, failure);
    }
}

async fn idle_connection(
    context: &Rc<ThreadContext>,
    caller: Caller,
    permit: &mut Permit,
    began: Moment,
) -> Result<(), StepFailure> {
    let mut connection = RawConnection::open(context, caller).await?;
    let standing = OpenGuard::new(context);
    let stood = if Sizes::of(&context.plan.work).is_some() {
        connection.exchange().await?;
        permit.set_open();
        Moment::now()
    } else {
        let stood = Moment::now();
        permit.set_open();
        connection.settle().await?;
        stood
    };
    permit.proved();
    context.record().succeeded(caller.member, began, began, stood);
    while !context.is_over() {
        if connection.idle(context.end()).await? {
            break;
        }
    }
    drop(standing);
    connection.close().await;
    Ok(())
}
