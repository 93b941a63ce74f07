//! Connections that stand for the whole run: kept ones with one exchange after the other, bulk, and idle ones.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Woken};
use handfast_tls::session::Session;

use crate::acceptance::{self, SILENCE};
use crate::close::close;
use crate::connect::connect;
use crate::context::{Caller, READ, ThreadContext};
use crate::exchange::{Opening, Sizes, early, exchange};
use crate::opener::Permit;
use crate::plan::Work;
use crate::pool::{Ending, Pool, Waiter};
use crate::trouble::{Step, Trouble};
use crate::wire::{Got, Wire};

/// Rounds of bulk before the others of the thread have their turn: 1 MiB.
const ROUNDS: u32 = 16;

/// Counts a connection among those that stand while it lives.
struct Standing<'a>(&'a ThreadContext);

impl<'a> Standing<'a> {
    fn new(context: &'a ThreadContext) -> Self {
        context.record().opened();
        Self(context)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.record().closed();
    }
}

/// A kept connection: one exchange after the other until the run is over or the target ends it between exchanges, as
/// servers do after so many requests.
pub(crate) async fn kept(context: Rc<ThreadContext>, pool: Rc<Pool>, mut permit: Permit) {
    let _live = context.enter();
    let Some(sizes) = Sizes::of(&context.plan.work) else { return };
    let waiter = Waiter::new();
    let caller = context.draw();
    let ending = kept_connection(&context, caller, &pool, &waiter, &mut permit, sizes).await;
    pool.leave(&waiter);
    pool.ended(&context, permit, caller, ending.err());
}

async fn kept_connection(
    context: &Rc<ThreadContext>,
    caller: Caller,
    pool: &Pool,
    waiter: &Rc<Waiter>,
    permit: &mut Permit,
    sizes: Sizes,
) -> Result<(), Ending> {
    let connected = connect(context, caller, early(&context.pattern, Some(sizes))).await;
    let (mut wire, mut opening) = Opening::of(connected.map_err(Ending::Unused)?);
    let standing = Standing::new(context);
    permit.stands();
    // Now, and not with the first request: that may be long in coming, and the target waits for our Finished.
    opening.send_flight(context, &mut wire, Step::Handshake).map_err(Ending::Unused)?;
    if sizes.receive == 0 {
        let limit = Moment::now() + SILENCE;
        acceptance::wait(context, &mut wire, limit).await.map_err(Ending::Unused)?;
    }
    let mut number = 0;
    while let Some(intended) = next_arrival(context, pool, waiter, &mut wire).await.map_err(Ending::Unused)? {
        let begun = Moment::now();
        context.record().lag(intended, begun);
        context.record().begun();
        let done = exchange(context, &mut wire, sizes, std::mem::take(&mut opening), number).await;
        context.record().over();
        let times = done.map_err(Ending::Failed)?;
        permit.proved();
        context.record().exchange(times);
        context.record().succeeded(caller.member, intended, begun, times.done);
        number += 1;
    }
    if number == 0 && !context.is_over() {
        return Err(Ending::Unused(
            wire.ended_early(Step::Exchange, "the target ended before the first exchange"),
        ));
    }
    drop(standing);
    close(context, wire).await;
    Ok(())
}

/// When the next exchange was meant to begin; `None` when there is none any more or the target has ended.
async fn next_arrival(
    context: &ThreadContext,
    pool: &Pool,
    waiter: &Rc<Waiter>,
    wire: &mut Wire,
) -> Result<Option<Moment>, Trouble> {
    while !context.is_over() {
        // First: what the target has ended takes no arrival with it.
        if wire.look(context, Step::Exchange)? == Got::End {
            return Ok(None);
        }
        if let Some(intended) = pool.next(context, waiter) {
            return Ok(Some(intended));
        }
        pool.offer(waiter);
        engine::wait(context.end()).await;
    }
    Ok(None)
}

/// A bulk connection: bytes without a pause until the run is over.
pub(crate) async fn bulk(context: Rc<ThreadContext>, mut permit: Permit) {
    let _live = context.enter();
    let Work::Bulk { send, receive } = context.plan.work else { return };
    let caller = context.draw();
    match bulk_connection(&context, caller, &mut permit, send, receive).await {
        // How long it took is how long the run was: nothing to be timed.
        Ok(()) => context.record().finished(caller.member, Moment::now()),
        Err(trouble) => fail_first(&context, caller, &permit, trouble),
    }
}

/// Counts a connection that failed, and whether the target shed it.
fn fail_first(context: &ThreadContext, caller: Caller, permit: &Permit, trouble: Trouble) {
    if permit.ended(false) {
        context.record().shed();
    }
    context.record().failed(caller.member, trouble, Moment::now());
}

async fn bulk_connection(
    context: &Rc<ThreadContext>,
    caller: Caller,
    permit: &mut Permit,
    send: bool,
    receive: bool,
) -> Result<(), Trouble> {
    let connected = connect(context, caller, &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    let standing = Standing::new(context);
    permit.stands();
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
        return Err(Trouble::new(Step::Exchange, "deadline", "the target sent nothing during the whole run"));
    }
    finish_bulk(context, wire).await;
    Ok(())
}

/// What is on its way is cut off: waiting for all of it would measure buffers.
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
) -> Result<bool, Trouble> {
    let scratch = &mut *context.scratch.borrow_mut();
    let mut moved = false;
    if !wire.is_flushed() {
        wire.flush(Step::Exchange)?;
    }
    if send && wire.is_flushed() {
        let before = *sent;
        while scratch.records.len() < READ {
            let bytes = context.pattern.at(*sent, 16_384);
            let encrypted = wire.session.encrypt(bytes, &mut scratch.records);
            encrypted.map_err(|failure| Trouble::session(Step::Exchange, &failure))?;
            *sent += bytes.len() as u64;
        }
        wire.write(&mut scratch.records, Step::Exchange)?;
        context.record().bytes(*sent - before, 0);
        moved = wire.is_flushed();
    }
    let mut count = 0;
    let got = wire.read(scratch, Step::Exchange, false, &mut |bytes| count += bytes.len() as u64)?;
    *received |= count > 0;
    context.record().bytes(0, count);
    if got == Got::End {
        return Err(wire.ended_early(Step::Exchange, "the target ended before the run did"));
    }
    Ok(moved || got == Got::Something)
}

/// One handshake and the end of it, for works that stand.
pub(crate) async fn rehearse(context: &Rc<ThreadContext>, caller: Caller) -> Result<(), Trouble> {
    let connected = connect(context, caller, &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    match (&context.plan.work, Sizes::of(&context.plan.work)) {
        (Work::Idle { .. }, Some(sizes)) => {
            exchange(context, &mut wire, sizes, opening, 0).await?;
        }
        _ => {
            opening.send_flight(context, &mut wire, Step::Handshake)?;
            acceptance::wait(context, &mut wire, Moment::now() + SILENCE).await?;
        }
    }
    close(context, wire).await;
    Ok(())
}

/// An idle connection: a handshake, perhaps an exchange, then nothing until the run is over.
pub(crate) async fn idle(context: Rc<ThreadContext>, mut permit: Permit) {
    let _live = context.enter();
    let caller = context.draw();
    if let Err(trouble) = idle_connection(&context, caller, &mut permit, Moment::now()).await {
        fail_first(&context, caller, &permit, trouble);
    }
}

async fn idle_connection(
    context: &Rc<ThreadContext>,
    caller: Caller,
    permit: &mut Permit,
    began: Moment,
) -> Result<(), Trouble> {
    let connected = connect(context, caller, &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    let standing = Standing::new(context);
    let stood = match Sizes::of(&context.plan.work) {
        Some(sizes) => {
            let times = exchange(context, &mut wire, sizes, opening, 0).await?;
            context.record().exchange(times);
            permit.stands();
            Moment::now()
        }
        None => {
            let stood = Moment::now();
            opening.send_flight(context, &mut wire, Step::Handshake)?;
            permit.stands();
            acceptance::wait(context, &mut wire, Moment::now() + SILENCE).await?;
            stood
        }
    };
    permit.proved();
    context.record().succeeded(caller.member, began, began, stood);
    while !context.is_over() {
        wire.flush(Step::Exchange)?;
        match wire.look(context, Step::Exchange)? {
            Got::Something => {}
            Got::Nothing => {
                if engine::wait(context.end()).await == Woken::Deadline {
                    break;
                }
            }
            Got::End => return Err(wire.ended_early(Step::Exchange, "the target ended an idle connection")),
        }
    }
    drop(standing);
    close(context, wire).await;
    Ok(())
}
