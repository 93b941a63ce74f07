//! One transaction: connect, shake hands, exchange, close; timed, counted, and told when it failed.

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::acceptance;
use crate::close::close;
use crate::connect::connect;
use crate::context::{Caller, Phase, ThreadContext};
use crate::exchange::{Opening, Sizes, Times, early, exchange};
use crate::http;
use crate::plan::{Model, Work};
use crate::sample::Series;
use crate::trouble::Trouble;

/// Does one transaction on a connection of its own; it was meant to begin at `intended`. `stands` is called when the
/// handshake is over.
pub(crate) async fn transaction(
    context: &Rc<ThreadContext>,
    intended: Moment,
    stands: &mut dyn FnMut(),
) -> Result<(), ()> {
    let begun = Moment::now();
    let caller = context.draw();
    context.recorder.borrow_mut().tally.started += 1;
    let outcome = match context.plan.work {
        Work::Http { .. } => http::transaction(context, caller, intended, stands).await,
        _ => attempt(context, caller, intended, stands).await,
    };
    context.recorder.borrow_mut().tally.ended += 1;
    if context.phase() == Phase::WarmUp {
        return outcome.map_err(|_| ());
    }
    if context.plan.model != Model::Closed {
        context.recorder.borrow_mut().time(Series::Lag, intended, begun);
    }
    outcome.map_err(|trouble| fail_as(context, caller, trouble))
}

/// Counts a failed transaction of a member of the mix.
pub(crate) fn fail_as(context: &ThreadContext, caller: Caller, trouble: Trouble) {
    fail(context, trouble);
    context.of_member(caller, |sample| sample.failed += 1);
}

/// Counts a failed transaction.
pub(crate) fn fail(context: &ThreadContext, trouble: Trouble) {
    let recorder = &mut *context.recorder.borrow_mut();
    // In the second in which it happened.
    recorder.roll(Moment::now());
    recorder.tally.failed += 1;
    recorder.trouble(trouble);
}

/// Counts a transaction that ended well.
pub(crate) fn succeed(
    context: &ThreadContext,
    caller: Caller,
    intended: Moment,
    begun: Moment,
    done: Moment,
) {
    if context.phase() == Phase::WarmUp {
        return;
    }
    let recorder = &mut *context.recorder.borrow_mut();
    recorder.time(Series::Total, intended, done);
    if context.plan.model != Model::Closed {
        recorder.time(Series::Service, begun, done);
    }
    recorder.transaction(done);
    if let Some(sample) = recorder.member(caller.member) {
        sample.transactions += 1;
        sample.total.record(done.since(intended));
    }
}

/// Counts an exchange that ended well.
pub(crate) fn count_exchange(context: &ThreadContext, times: Times) {
    if context.phase() == Phase::WarmUp {
        return context.note_exchange(times.done.since(times.began));
    }
    let recorder = &mut *context.recorder.borrow_mut();
    recorder.time(Series::FirstByte, times.began, times.first_byte);
    recorder.time(Series::Exchange, times.began, times.done);
    recorder.tally.exchanges += 1;
}

/// The whole of it, for raw TLS; what went wrong is the caller's to count.
pub(crate) async fn attempt(
    context: &Rc<ThreadContext>,
    caller: Caller,
    intended: Moment,
    stands: &mut dyn FnMut(),
) -> Result<(), Trouble> {
    let begun = Moment::now();
    let sizes = Sizes::of(&context.plan.work);
    let connected = connect(context, caller, early(&context.pattern, sizes)).await?;
    stands();
    let mut done = Moment::now();
    let (mut wire, mut opening) = Opening::of(connected);
    if let Some(sizes) = sizes {
        for number in 0..context.plan.exchanges.unwrap_or(1) {
            let times =
                exchange(context, &mut wire, sizes, std::mem::take(&mut opening), number.into()).await?;
            count_exchange(context, times);
            done = times.done;
        }
    }
    // An answer says that the handshake was accepted. Without one the target's word is waited for, and is in no latency.
    if sizes.is_none_or(|sizes| sizes.receive == 0) {
        acceptance::confirm(context, &mut wire, &mut opening).await?;
    }
    succeed(context, caller, intended, begun, done);
    close(context, wire).await;
    Ok(())
}
