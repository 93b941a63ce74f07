//! Connections that stand for the whole run: kept ones with one exchange after the other, bulk, and idle ones.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Woken};
use handfast_tls::session::Session;

use crate::acceptance::{self, SILENCE};
use crate::bench::{Bench, Caller, READ};
use crate::close::close;
use crate::connect::connect;
use crate::exchange::{Opening, Sizes, early, exchange};
use crate::opener::Place;
use crate::plan::{Model, Work};
use crate::pool::{Ending, Pool, Seat};
use crate::sample::Series;
use crate::transaction::{count_exchange, fail_as, succeed};
use crate::trouble::{Cause, Step, Trouble};
use crate::wire::{Got, Wire};

/// Rounds of bulk before the others of the thread have their turn: 1 MiB.
const ROUNDS: u32 = 16;

/// Counts a connection among those that stand while it lives.
struct Standing<'a>(&'a Bench);

impl<'a> Standing<'a> {
    fn new(bench: &'a Bench) -> Self {
        bench.sampler.borrow_mut().tally.open += 1;
        Self(bench)
    }
}

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        let tally = &mut self.0.sampler.borrow_mut().tally;
        tally.open = tally.open.saturating_sub(1);
    }
}

/// Waits for the start of the run: standing connections are made before it.
pub(crate) async fn wait_for_the_start(bench: &Bench) {
    while !bench.is_over() && Moment::now() < bench.start() {
        engine::wait(bench.start()).await;
    }
}

/// A kept connection: one exchange after the other until the run is over or the target ends it between exchanges, as
/// servers do after so many requests.
pub(crate) async fn kept(bench: Rc<Bench>, pool: Rc<Pool>, mut place: Place) {
    let _live = bench.enter();
    let Some(sizes) = Sizes::of(&bench.plan.work) else { return };
    let seat = Seat::new();
    let caller = bench.draw();
    let ending = kept_connection(&bench, caller, &pool, &seat, &mut place, sizes).await;
    pool.leave(&seat);
    pool.ended(&bench, place, caller, ending.err());
}

async fn kept_connection(
    bench: &Rc<Bench>,
    caller: Caller,
    pool: &Pool,
    seat: &Rc<Seat>,
    place: &mut Place,
    sizes: Sizes,
) -> Result<(), Ending> {
    let connected = connect(bench, caller, early(&bench.pattern, Some(sizes))).await;
    let (mut wire, mut opening) = Opening::of(connected.map_err(Ending::Unused)?);
    let standing = Standing::new(bench);
    place.stands();
    // Now, and not with the first request: that may be long in coming, and the target waits for our Finished.
    opening.send_flight(bench, &mut wire, Step::Handshake).map_err(Ending::Unused)?;
    if sizes.receive == 0 {
        let limit = Moment::now() + SILENCE;
        acceptance::word(bench, &mut wire, limit).await.map_err(Ending::Unused)?;
    }
    let mut number = 0;
    while let Some(intended) = next_arrival(bench, pool, seat, &mut wire).await.map_err(Ending::Unused)? {
        let begun = Moment::now();
        if bench.plan.model != Model::Closed {
            bench.sampler.borrow_mut().time(Series::Lag, intended, begun);
        }
        bench.sampler.borrow_mut().tally.started += 1;
        let done = exchange(bench, &mut wire, sizes, std::mem::take(&mut opening), number).await;
        bench.sampler.borrow_mut().tally.ended += 1;
        let times = done.map_err(Ending::Failed)?;
        place.proved();
        count_exchange(bench, times);
        succeed(bench, caller, intended, begun, times.done);
        number += 1;
    }
    if number == 0 && !bench.is_over() {
        return Err(Ending::Unused(
            wire.ended_early(Step::Exchange, "the target ended before the first exchange"),
        ));
    }
    drop(standing);
    close(bench, wire).await;
    Ok(())
}

/// When the next exchange was meant to begin; `None` when there is none any more or the target has ended.
async fn next_arrival(
    bench: &Bench,
    pool: &Pool,
    seat: &Rc<Seat>,
    wire: &mut Wire,
) -> Result<Option<Moment>, Trouble> {
    while !bench.is_over() {
        // First: what the target has ended takes no arrival with it.
        if wire.look(bench, Step::Exchange)? == Got::End {
            return Ok(None);
        }
        if let Some(intended) = pool.next(bench, seat) {
            return Ok(Some(intended));
        }
        pool.offer(seat);
        engine::wait(bench.end()).await;
    }
    Ok(None)
}

/// A bulk connection: bytes without a pause until the run is over.
pub(crate) async fn bulk(bench: Rc<Bench>, mut place: Place) {
    let _live = bench.enter();
    let Work::Bulk { send, receive } = bench.plan.work else { return };
    let caller = bench.draw();
    match bulk_connection(&bench, caller, &mut place, send, receive).await {
        // How long it took is how long the run was: nothing to be timed.
        Ok(()) => {
            bench.sampler.borrow_mut().transaction(Moment::now());
            bench.of_member(caller, |sample| sample.transactions += 1);
        }
        Err(trouble) => fail_first(&bench, caller, &place, trouble),
    }
}

/// Counts a connection that failed, and whether the target shed it.
fn fail_first(bench: &Bench, caller: Caller, place: &Place, trouble: Trouble) {
    bench.sampler.borrow_mut().tally.shed += u64::from(place.ended(false));
    fail_as(bench, caller, trouble);
}

async fn bulk_connection(
    bench: &Rc<Bench>,
    caller: Caller,
    place: &mut Place,
    send: bool,
    receive: bool,
) -> Result<(), Trouble> {
    let connected = connect(bench, caller, &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    let standing = Standing::new(bench);
    place.stands();
    opening.send_flight(bench, &mut wire, Step::Handshake)?;
    wait_for_the_start(bench).await;
    let mut sent = 0;
    let mut received = false;
    while !bench.is_over() {
        let mut rounds = 0;
        while bulk_turn(bench, &mut wire, send, &mut sent, &mut received)? {
            place.proved();
            rounds += 1;
            if rounds == ROUNDS {
                break;
            }
        }
        if rounds == ROUNDS {
            engine::yield_now().await;
        } else {
            engine::wait(bench.end()).await;
        }
    }
    drop(standing);
    if receive && !received {
        return Err(Trouble::new(
            Step::Exchange,
            Cause::Deadline,
            "the target sent nothing during the whole run",
        ));
    }
    finish_bulk(bench, wire).await;
    Ok(())
}

/// What is on its way is cut off: waiting for all of it would measure buffers.
async fn finish_bulk(bench: &Rc<Bench>, wire: Wire) {
    if wire.is_flushed() {
        close(bench, wire).await;
    }
}

/// Writes and reads once; whether anything moved.
fn bulk_turn(
    bench: &Bench,
    wire: &mut Wire,
    send: bool,
    sent: &mut u64,
    received: &mut bool,
) -> Result<bool, Trouble> {
    let scratch = &mut *bench.scratch.borrow_mut();
    let mut moved = false;
    if !wire.is_flushed() {
        wire.flush(Step::Exchange)?;
    }
    if send && wire.is_flushed() {
        let before = *sent;
        while scratch.records.len() < READ {
            let bytes = bench.pattern.at(*sent, 16_384);
            let encrypted = wire.session.encrypt(bytes, &mut scratch.records);
            encrypted.map_err(|failure| Trouble::session(Step::Exchange, &failure))?;
            *sent += bytes.len() as u64;
        }
        wire.write(&mut scratch.records, Step::Exchange)?;
        bench.sampler.borrow_mut().tally.sent += *sent - before;
        moved = wire.is_flushed();
    }
    let mut count = 0;
    let got = wire.read(scratch, Step::Exchange, false, &mut |bytes| count += bytes.len() as u64)?;
    *received |= count > 0;
    bench.sampler.borrow_mut().tally.received += count;
    if got == Got::End {
        return Err(wire.ended_early(Step::Exchange, "the target ended before the run did"));
    }
    Ok(moved || got == Got::Something)
}

/// One handshake and the end of it, for works that stand.
pub(crate) async fn rehearse(bench: &Rc<Bench>, caller: Caller) -> Result<(), Trouble> {
    let connected = connect(bench, caller, &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    match (&bench.plan.work, Sizes::of(&bench.plan.work)) {
        (Work::Idle { .. }, Some(sizes)) => {
            exchange(bench, &mut wire, sizes, opening, 0).await?;
        }
        _ => {
            opening.send_flight(bench, &mut wire, Step::Handshake)?;
            acceptance::word(bench, &mut wire, Moment::now() + SILENCE).await?;
        }
    }
    close(bench, wire).await;
    Ok(())
}

/// An idle connection: a handshake, perhaps an exchange, then nothing until the run is over.
pub(crate) async fn idle(bench: Rc<Bench>, mut place: Place) {
    let _live = bench.enter();
    let caller = bench.draw();
    if let Err(trouble) = idle_connection(&bench, caller, &mut place, Moment::now()).await {
        fail_first(&bench, caller, &place, trouble);
    }
}

async fn idle_connection(
    bench: &Rc<Bench>,
    caller: Caller,
    place: &mut Place,
    began: Moment,
) -> Result<(), Trouble> {
    let connected = connect(bench, caller, &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    let standing = Standing::new(bench);
    let stood = match Sizes::of(&bench.plan.work) {
        Some(sizes) => {
            let times = exchange(bench, &mut wire, sizes, opening, 0).await?;
            count_exchange(bench, times);
            place.stands();
            Moment::now()
        }
        None => {
            let stood = Moment::now();
            opening.send_flight(bench, &mut wire, Step::Handshake)?;
            place.stands();
            acceptance::word(bench, &mut wire, Moment::now() + SILENCE).await?;
            stood
        }
    };
    place.proved();
    succeed(bench, caller, began, began, stood);
    while !bench.is_over() {
        wire.flush(Step::Exchange)?;
        match wire.look(bench, Step::Exchange)? {
            Got::Something => {}
            Got::Nothing => {
                if engine::wait(bench.end()).await == Woken::Deadline {
                    break;
                }
            }
            Got::End => return Err(wire.ended_early(Step::Exchange, "the target ended an idle connection")),
        }
    }
    drop(standing);
    close(bench, wire).await;
    Ok(())
}
