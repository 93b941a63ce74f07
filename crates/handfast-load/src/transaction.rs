//! One transaction: connect, shake hands, exchange, close; timed, counted, and told when it failed.

use std::rc::Rc;

use handfast_net::clock::Moment;

use crate::acceptance;
use crate::close::close;
use crate::connect::connect;
use crate::context::{Caller, ThreadContext};
use crate::exchange::{Opening, Sizes, early, exchange};
use crate::http;
use crate::plan::Work;
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
    context.record().begun();
    let outcome = match context.plan.work {
        Work::Http { .. } => http::transaction(context, caller, intended, stands).await,
        _ => attempt(context, caller, intended, stands).await,
    };
    context.record().over();
    context.record().lag(intended, begun);
    outcome.map_err(|trouble| context.record().failed(caller.member, trouble, Moment::now()))
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
            context.record().exchange(times);
            done = times.done;
        }
    }
    // An answer says that the handshake was accepted. Without one the target's word is waited for, and is in no latency.
    if sizes.is_none_or(|sizes| sizes.receive == 0) {
        acceptance::confirm(context, &mut wire, &mut opening).await?;
    }
    context.record().succeeded(caller.member, intended, begun, done);
    close(context, wire).await;
    Ok(())
}
