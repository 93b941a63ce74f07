//! One transaction: connect, shake hands, exchange, close; timed, counted, and told when it failed.

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::acceptance;
use crate::bench::{Bench, Caller, Phase};
use crate::close::close;
use crate::connect::connect;
use crate::exchange::{Opening, Sizes, Times, early, exchange};
use crate::http;
use crate::plan::{Model, Work};
use crate::sample::Series;
use crate::trouble::Trouble;

/// Does one transaction on a connection of its own; it was meant to begin at `intended`. `stands` is called when the
/// handshake is over.
pub(crate) async fn transaction(
    bench: &Rc<Bench>,
    intended: Moment,
    stands: &mut dyn FnMut(),
) -> Result<(), ()> {
    let begun = Moment::now();
    let caller = bench.draw();
    bench.sampler.borrow_mut().tally.started += 1;
    let outcome = match bench.plan.work {
        Work::Http { .. } => http::transaction(bench, caller, intended, stands).await,
        _ => attempt(bench, caller, intended, stands).await,
    };
    bench.sampler.borrow_mut().tally.ended += 1;
    if bench.phase() == Phase::WarmUp {
        return outcome.map_err(|_| ());
    }
    if bench.plan.model != Model::Closed {
        bench.sampler.borrow_mut().time(Series::Lag, intended, begun);
    }
    outcome.map_err(|trouble| fail_as(bench, caller, trouble))
}

/// Counts a failed transaction of a member of the mix.
pub(crate) fn fail_as(bench: &Bench, caller: Caller, trouble: Trouble) {
    fail(bench, trouble);
    bench.of_member(caller, |sample| sample.failed += 1);
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
pub(crate) fn succeed(bench: &Bench, caller: Caller, intended: Moment, begun: Moment, done: Moment) {
    if bench.phase() == Phase::WarmUp {
        return;
    }
    let sampler = &mut *bench.sampler.borrow_mut();
    sampler.time(Series::Total, intended, done);
    if bench.plan.model != Model::Closed {
        sampler.time(Series::Service, begun, done);
    }
    sampler.transaction(done);
    if let Some(sample) = sampler.member(caller.member) {
        sample.transactions += 1;
        sample.total.record(done.since(intended));
    }
}

/// Counts an exchange that ended well.
pub(crate) fn count_exchange(bench: &Bench, times: Times) {
    if bench.phase() == Phase::WarmUp {
        return bench.note_exchange(times.done.since(times.began));
    }
    let sampler = &mut *bench.sampler.borrow_mut();
    sampler.time(Series::FirstByte, times.began, times.first_byte);
    sampler.time(Series::Exchange, times.began, times.done);
    sampler.tally.exchanges += 1;
}

/// The whole of it, for raw TLS; what went wrong is the caller's to count.
pub(crate) async fn attempt(
    bench: &Rc<Bench>,
    caller: Caller,
    intended: Moment,
    stands: &mut dyn FnMut(),
) -> Result<(), Trouble> {
    let begun = Moment::now();
    let sizes = Sizes::of(&bench.plan.work);
    let connected = connect(bench, caller, early(&bench.pattern, sizes)).await?;
    stands();
    let mut done = Moment::now();
    let (mut wire, mut opening) = Opening::of(connected);
    if let Some(sizes) = sizes {
        for number in 0..bench.plan.exchanges.unwrap_or(1) {
            let times =
                exchange(bench, &mut wire, sizes, std::mem::take(&mut opening), number.into()).await?;
            count_exchange(bench, times);
            done = times.done;
        }
    }
    // An answer says that the handshake was accepted. Without one the target's word is waited for, and is in no latency.
    if sizes.is_none_or(|sizes| sizes.receive == 0) {
        acceptance::ask(bench, &mut wire, &mut opening).await?;
    }
    succeed(bench, caller, intended, begun, done);
    close(bench, wire).await;
    Ok(())
}
