//! One transaction: connect, shake hands, exchange, close; timed, counted, and told when it failed.

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_tls::session::Session;

use crate::bench::{Bench, Phase};
use crate::close::close;
use crate::connect::connect;
use crate::exchange::{Opening, Sizes, Times, early, exchange};
use crate::http;
use crate::plan::{Close, Model, Work};
use crate::sample::Series;
use crate::trouble::{Step, Trouble};
use crate::wire::{Got, Wire};

/// Does one transaction on a connection of its own; it was meant to begin at `intended`.
pub(crate) async fn transaction(bench: &Rc<Bench>, intended: Moment) -> Result<(), ()> {
    let begun = Moment::now();
    let outcome = match bench.plan.work {
        Work::Http { .. } => http::transaction(bench, intended).await,
        _ => attempt(bench, bench.draw_resume(), intended).await,
    };
    if bench.phase() == Phase::WarmUp {
        return outcome.map_err(|_| ());
    }
    if bench.plan.model != Model::Closed {
        bench.sampler.borrow_mut().time(Series::Lag, intended, begun);
    }
    outcome.map_err(|trouble| fail(bench, trouble))
}

/// Counts a failed transaction.
pub(crate) fn fail(bench: &Bench, trouble: Trouble) {
    let sampler = &mut *bench.sampler.borrow_mut();
    // In the second in which it happened.
    sampler.roll(Moment::now());
    sampler.tally.failed += 1;
    sampler.trouble(trouble);
}

/// Counts a transaction that ended well.
pub(crate) fn succeed(bench: &Bench, intended: Moment, begun: Moment, done: Moment) {
    if bench.phase() == Phase::WarmUp {
        return;
    }
    let sampler = &mut *bench.sampler.borrow_mut();
    sampler.time(Series::Total, intended, done);
    if bench.plan.model != Model::Closed {
        sampler.time(Series::Service, begun, done);
    }
    sampler.transaction(done);
}

/// Counts an exchange that ended well.
pub(crate) fn count_exchange(bench: &Bench, times: Times) {
    if bench.phase() == Phase::WarmUp {
        return;
    }
    let sampler = &mut *bench.sampler.borrow_mut();
    sampler.time(Series::FirstByte, times.began, times.first_byte);
    sampler.time(Series::Exchange, times.began, times.done);
    sampler.tally.exchanges += 1;
}

/// The whole of it, for raw TLS; what went wrong is the caller's to count.
pub(crate) async fn attempt(bench: &Rc<Bench>, resume: bool, intended: Moment) -> Result<(), Trouble> {
    let begun = Moment::now();
    let sizes = Sizes::of(&bench.plan.work);
    let connected = connect(bench, resume, early(&bench.pattern, sizes)).await?;
    let (mut wire, mut opening) = Opening::of(connected);
    let done = match sizes {
        None => {
            let done = Moment::now();
            finish_handshake(bench, &mut wire, &mut opening).await?;
            done
        }
        Some(sizes) => {
            let mut done = begun;
            for number in 0..bench.plan.exchanges.unwrap_or(1) {
                let times =
                    exchange(bench, &mut wire, sizes, std::mem::take(&mut opening), number.into()).await?;
                count_exchange(bench, times);
                done = times.done;
            }
            done
        }
    };
    succeed(bench, intended, begun, done);
    close(bench, wire).await;
    Ok(())
}

/// A handshake is over for the client before its last flight has left; and where sessions are to be resumed and nobody
/// reads to the target's end, the ticket has to be waited for.
async fn finish_handshake(bench: &Rc<Bench>, wire: &mut Wire, opening: &mut Opening) -> Result<(), Trouble> {
    opening.send_flight(bench, wire, Step::Handshake)?;
    let deadline = bench.deadline();
    while !wire.is_flushed() {
        wire.wait(deadline, Step::Handshake).await?;
        wire.flush(Step::Handshake)?;
    }
    let tls13 = wire.session.agreed().version == Some("TLSv1.3");
    if bench.plan.tls.resume == 0.0 || bench.plan.close != Close::Reset || !tls13 {
        return Ok(());
    }
    while wire.session.tickets_received() == 0 {
        match wire.look(bench, Step::Handshake)? {
            Got::Something => {}
            Got::Nothing => wire.wait(deadline, Step::Handshake).await?,
            Got::End => {
                return Err(wire.ended_early(Step::Handshake, "the target ended before it sent a ticket"));
            }
        }
    }
    Ok(())
}
