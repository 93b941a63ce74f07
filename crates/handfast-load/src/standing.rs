//! Connections that stand for the whole run: kept ones with one exchange after the other, bulk, and idle ones.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, TaskHandle, Woken};
use handfast_tls::session::Session;

use crate::bench::{Bench, READ};
use crate::close::close;
use crate::connect::connect;
use crate::exchange::{Opening, Sizes, early, exchange};
use crate::plan::{Model, Work};
use crate::sample::Series;
use crate::transaction::{count_exchange, fail, succeed};
use crate::trouble::{Step, Trouble};
use crate::wire::{Got, Wire};

/// Pause of one connection slot after a failure: a target that refuses at once is not to be flooded.
pub(crate) const AFTER_FAILURE: Duration = Duration::from_millis(10);
/// Rounds of bulk before the others of the thread have their turn: 1 MiB.
const ROUNDS: u32 = 16;

/// Arrivals of an open model, waiting for a standing connection; and connections waiting for an arrival.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    due: RefCell<VecDeque<Moment>>,
    free: RefCell<VecDeque<Rc<Seat>>>,
}

/// A standing connection's place in the queue for arrivals.
#[derive(Debug)]
pub(crate) struct Seat {
    task: TaskHandle,
    /// Whether it is free.
    free: Cell<bool>,
    /// Whether it is in the queue.
    queued: Cell<bool>,
}

impl Seat {
    /// The present task's.
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { task: engine::current(), free: Cell::new(false), queued: Cell::new(false) })
    }
}

/// Most arrivals that wait. More would only be memory: the run is lost at that point, and says so.
const DUE: usize = 1 << 20;

impl Arrivals {
    /// An arrival is due; whether somebody is free for it. `None`: too many wait already, and it is lost.
    pub(crate) fn put(&self, intended: Moment) -> Option<bool> {
        let mut due = self.due.borrow_mut();
        if due.len() >= DUE {
            return None;
        }
        due.push_back(intended);
        let mut free = self.free.borrow_mut();
        // In turn, so that every connection is used; those that left the queue in the meantime are passed over.
        while let Some(seat) = free.pop_front() {
            seat.queued.set(false);
            if seat.free.replace(false) {
                seat.task.wake();
                return Some(true);
            }
        }
        Some(false)
    }

    /// Arrivals that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.due.borrow().len()
    }

    /// The arrival that has waited longest.
    pub(crate) fn take(&self, seat: &Seat) -> Option<Moment> {
        seat.free.set(false);
        self.due.borrow_mut().pop_front()
    }

    /// Says that the seat's connection is free.
    pub(crate) fn offer(&self, seat: &Rc<Seat>) {
        seat.free.set(true);
        if !seat.queued.replace(true) {
            self.free.borrow_mut().push_back(Rc::clone(seat));
        }
    }
}

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

/// A kept connection: one exchange after the other until the run is over; a new connection when the target ends one
/// between exchanges, as servers do after so many requests.
pub(crate) async fn kept(bench: Rc<Bench>, arrivals: Rc<Arrivals>) {
    let _live = bench.enter();
    let Some(sizes) = Sizes::of(&bench.plan.work) else { return };
    let seat = Seat::new();
    while !bench.is_over() {
        match kept_connection(&bench, &arrivals, &seat, sizes).await {
            Ok(()) => {}
            Err(trouble) => {
                fail(&bench, trouble);
                engine::sleep(AFTER_FAILURE).await;
            }
        }
    }
}

async fn kept_connection(
    bench: &Rc<Bench>,
    arrivals: &Arrivals,
    seat: &Rc<Seat>,
    sizes: Sizes,
) -> Result<(), Trouble> {
    let connected = connect(bench, bench.draw_resume(), early(&bench.pattern, Some(sizes))).await?;
    let standing = Standing::new(bench);
    let (mut wire, mut opening) = Opening::of(connected);
    // Now, and not with the first request: that may be long in coming, and the target waits for our Finished.
    opening.send_flight(bench, &mut wire, Step::Handshake)?;
    wait_for_the_start(bench).await;
    let mut number = 0;
    while let Some(intended) = next_arrival(bench, arrivals, seat, &mut wire).await? {
        let begun = Moment::now();
        if bench.plan.model != Model::Closed {
            bench.sampler.borrow_mut().time(Series::Lag, intended, begun);
        }
        let times = exchange(bench, &mut wire, sizes, std::mem::take(&mut opening), number).await?;
        count_exchange(bench, times);
        succeed(bench, intended, begun, times.done);
        number += 1;
    }
    drop(standing);
    close(bench, wire).await;
    Ok(())
}

/// When the next exchange was meant to begin; `None` when there is none any more or the target has ended.
async fn next_arrival(
    bench: &Bench,
    arrivals: &Arrivals,
    seat: &Rc<Seat>,
    wire: &mut Wire,
) -> Result<Option<Moment>, Trouble> {
    loop {
        if bench.is_over() {
            return Ok(None);
        }
        if bench.plan.model == Model::Closed {
            return Ok(Some(Moment::now()));
        }
        if let Some(intended) = arrivals.take(seat) {
            return Ok(Some(intended));
        }
        if wire.look(bench, Step::Exchange)? == Got::End {
            return Ok(None);
        }
        arrivals.offer(seat);
        engine::wait(Moment::NEVER).await;
    }
}

/// A bulk connection: bytes without a pause until the run is over.
pub(crate) async fn bulk(bench: Rc<Bench>) {
    let _live = bench.enter();
    let Work::Bulk { send, receive } = bench.plan.work else { return };
    match bulk_connection(&bench, send, receive).await {
        // How long it took is how long the run was: nothing to be timed.
        Ok(()) => bench.sampler.borrow_mut().transaction(Moment::now()),
        Err(trouble) => fail(&bench, trouble),
    }
}

async fn bulk_connection(bench: &Rc<Bench>, send: bool, receive: bool) -> Result<(), Trouble> {
    let connected = connect(bench, bench.draw_resume(), &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    let standing = Standing::new(bench);
    opening.send_flight(bench, &mut wire, Step::Handshake)?;
    wait_for_the_start(bench).await;
    let mut sent = 0;
    let mut received = false;
    while !bench.is_over() {
        let mut rounds = 0;
        while bulk_turn(bench, &mut wire, send, &mut sent, &mut received)? {
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
        return Err(Trouble::new(Step::Exchange, "deadline", "the target sent nothing during the whole run"));
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

/// How many connections may be shaking hands at once on a thread: ten thousand at the same moment would measure the
/// target's backlog.
const AT_ONCE: u32 = 64;

/// Lets a few pass at once.
#[derive(Debug)]
pub(crate) struct Gate {
    passing: Cell<u32>,
    waiting: RefCell<VecDeque<TaskHandle>>,
}

/// A passage through a [`Gate`], open until it is dropped.
#[derive(Debug)]
struct Passage(Rc<Gate>);

impl Gate {
    /// A gate that nobody is in.
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self { passing: Cell::new(0), waiting: RefCell::default() })
    }

    /// Waits for a place; `None` when the run is over before there is one.
    async fn pass(self: &Rc<Self>, bench: &Bench) -> Option<Passage> {
        while self.passing.get() >= AT_ONCE {
            if bench.is_over() {
                return None;
            }
            self.waiting.borrow_mut().push_back(engine::current());
            engine::wait(bench.end()).await;
        }
        self.passing.set(self.passing.get() + 1);
        Some(Passage(Rc::clone(self)))
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.0.passing.set(self.0.passing.get() - 1);
        if let Some(next) = self.0.waiting.borrow_mut().pop_front() {
            next.wake();
        }
    }
}

/// One handshake and the end of it, for works that stand.
pub(crate) async fn rehearse(bench: &Rc<Bench>) -> Result<(), Trouble> {
    let connected = connect(bench, false, &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    if let (Work::Idle { .. }, Some(sizes)) = (&bench.plan.work, Sizes::of(&bench.plan.work)) {
        exchange(bench, &mut wire, sizes, opening, 0).await?;
    } else {
        opening.send_flight(bench, &mut wire, Step::Handshake)?;
    }
    close(bench, wire).await;
    Ok(())
}

/// An idle connection: a handshake, perhaps an exchange, then nothing until the run is over.
pub(crate) async fn idle(bench: Rc<Bench>, gate: Rc<Gate>) {
    let _live = bench.enter();
    wait_for_the_start(&bench).await;
    let Some(passage) = gate.pass(&bench).await else { return };
    if let Err(trouble) = idle_connection(&bench, passage, Moment::now()).await {
        fail(&bench, trouble);
    }
}

async fn idle_connection(bench: &Rc<Bench>, passage: Passage, began: Moment) -> Result<(), Trouble> {
    let connected = connect(bench, bench.draw_resume(), &[]).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    let standing = Standing::new(bench);
    match Sizes::of(&bench.plan.work) {
        Some(sizes) => {
            let times = exchange(bench, &mut wire, sizes, opening, 0).await?;
            count_exchange(bench, times);
        }
        None => opening.send_flight(bench, &mut wire, Step::Handshake)?,
    }
    succeed(bench, began, began, Moment::now());
    drop(passage);
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
