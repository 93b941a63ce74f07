//! Raw TLS: sends and receives a number of bytes, one exchange after the other.
//!
//! In: the plan's sizes. Out: a [`Connection`]; without sizes a handshake, and nothing after it.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine;

use crate::acceptance::{self, SILENCE};
use crate::close::close;
use crate::connect::connect;
use crate::connection::{Connection, Finished, Lost};
use crate::context::{Caller, ThreadContext};
use crate::exchange::{Exchange, Opening, Sizes, early};
use crate::failure::{Step, StepFailure};
use crate::plan::Plan;
use crate::wire::{Got, Wire};

/// Rounds of a large exchange before the others of the thread have their turn.
const ROUNDS: u32 = 16;

/// A connection that carries bytes.
#[derive(Debug)]
pub(crate) struct RawConnection {
    context: Rc<ThreadContext>,
    wire: Wire,
    sizes: Option<Sizes>,
    /// Data that goes with the first exchange.
    opening: Opening,
    /// Exchanges that were begun.
    begun: u64,
    under_way: Option<UnderWay>,
    finished: Option<Finished>,
    /// State of the connection: open, ended by the target, or broken.
    state: State,
}

#[derive(Debug)]
struct UnderWay {
    intended: Moment,
    exchange: Exchange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The target has ended it between exchanges.
    Ended,
    /// An exchange failed on it.
    Broken,
}

impl RawConnection {
    /// One exchange, from its beginning to its end; when its last byte was there.
    pub(crate) async fn exchange(&mut self) -> Result<Moment, StepFailure> {
        self.begin(Moment::now(), 0);
        loop {
            if let Some(finished) = self.next_finished() {
                return finished.outcome.map_err(Lost::into_failure);
            }
            self.turn(Moment::NEVER).await;
        }
    }

    /// Waits on an idle connection until `limit`, or something happens; `true` at the limit.
    ///
    /// **Errors**: the target ended it, aborted it, or sent data that was not requested.
    pub(crate) async fn idle(&mut self, limit: Moment) -> Result<bool, StepFailure> {
        self.wire.flush(Step::Exchange)?;
        match self.wire.check_idle(&self.context, Step::Exchange)? {
            Got::Something => Ok(false),
            Got::Nothing => Ok(engine::wait(limit).await == engine::Woken::Deadline),
            Got::End => Err(self.wire.ended_early(Step::Exchange, "the target ended an idle connection")),
        }
    }

    /// Returns true if an answer shows that the target accepted the handshake.
    fn has_answers(&self) -> bool {
        self.sizes.is_some_and(|sizes| sizes.receive > 0)
    }

    /// Continues the exchange until it is over or has to wait; returns whether it is over.
    async fn go_on(&mut self, limit: Moment) -> Result<bool, StepFailure> {
        let Some(UnderWay { exchange, .. }) = &mut self.under_way else {
            engine::wait(limit).await;
            return Ok(false);
        };
        let mut rounds = 0;
        while exchange.turn(&self.context, &mut self.wire)? {
            rounds += 1;
            if rounds == ROUNDS {
                engine::yield_now().await;
                rounds = 0;
            }
        }
        if exchange.is_done(&self.wire) {
            return Ok(true);
        }
        let deadline = exchange.deadline();
        if engine::wait(deadline.min(limit)).await == engine::Woken::Deadline && deadline <= engine::now() {
            return Err(StepFailure::deadline(Step::Exchange));
        }
        Ok(false)
    }
}

impl Connection for RawConnection {
    fn exchanges(plan: &Plan) -> u32 {
        Sizes::of(&plan.work).map_or(0, |_| plan.exchanges.unwrap_or(1))
    }

    async fn open(context: &Rc<ThreadContext>, caller: Caller) -> Result<Self, StepFailure> {
        let sizes = Sizes::of(&context.plan.work);
        let connected = connect(context, caller, early(&context.pattern, sizes)).await?;
        let (wire, opening) = Opening::of(connected);
        Ok(Self {
            context: Rc::clone(context),
            wire,
            sizes,
            opening,
            begun: 0,
            under_way: None,
            finished: None,
            state: State::Open,
        })
    }

    async fn settle(&mut self) -> Result<(), StepFailure> {
        self.opening.send_flight(&self.context, &mut self.wire, Step::Handshake)?;
        if !self.has_answers() {
            acceptance::wait(&self.context, &mut self.wire, Moment::now() + SILENCE).await?;
        }
        Ok(())
    }

    fn check_idle(&mut self) -> Result<bool, StepFailure> {
        if self.has_room() && self.wire.check_idle(&self.context, Step::Exchange)? == Got::End {
            self.state = State::Ended;
        }
        Ok(self.has_room())
    }

    fn has_room(&self) -> bool {
        self.is_idle() && self.sizes.is_some() && !self.is_closed()
    }

    fn begin(&mut self, intended: Moment, _: usize) {
        let Some(sizes) = self.sizes else { return };
        let opening = std::mem::take(&mut self.opening);
        let exchange = Exchange::begin(&self.context, sizes, opening, self.begun);
        self.begun += 1;
        self.under_way = Some(UnderWay { intended, exchange });
    }

    fn next_finished(&mut self) -> Option<Finished> {
        self.finished.take()
    }

    fn is_idle(&self) -> bool {
        self.under_way.is_none() && self.finished.is_none()
    }

    fn is_closed(&self) -> bool {
        self.state != State::Open
    }

    async fn turn(&mut self, limit: Moment) {
        let over = match self.go_on(limit).await {
            Ok(false) => return,
            Ok(true) => Ok(()),
            Err(failure) => Err(failure),
        };
        let Some(UnderWay { intended, exchange }) = self.under_way.take() else { return };
        let began = exchange.began();
        let outcome = match over {
            Ok(()) => Ok(exchange.finish(&self.context)),
            Err(failure) => {
                self.state = State::Broken;
                Err(Lost::Failed(failure))
            }
        };
        self.finished = Some(Finished { intended, began, outcome });
    }

    async fn confirm(&mut self) -> Result<(), StepFailure> {
        if self.has_answers() {
            return Ok(());
        }
        acceptance::confirm(&self.context, &mut self.wire, &mut self.opening).await
    }

    fn ended_unused(&self) -> StepFailure {
        self.wire.ended_early(Step::Exchange, "the target ended before the first exchange")
    }

    async fn close(self) {
        if self.state != State::Broken {
            close(&self.context, self.wire).await;
        }
    }
}
