//! The kinds of work, each with its code. Only this module selects the code by the kind of a plan.
//!
//! | work | on a separate connection | on kept ones |
//! |---|---|---|
//! | exchanges of bytes, or a handshake alone | [`transaction`](crate::transaction) of [`RawConnection`] | [`kept`] |
//! | HTTP | the same of [`HttpConnection`] | [`kept`] |
//! | bulk, idle | | [`standing`] |

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Priority};

use crate::connection::Connection;
use crate::context::{Caller, ThreadContext};
use crate::failure::StepFailure;
use crate::http::HttpConnection;
use crate::kept::kept;
use crate::plan::Work;
use crate::pool::Pool;
use crate::raw::RawConnection;
use crate::standing;
use crate::transaction;

/// One transaction as `caller`, with the plan's request number `which`, to see whether it works.
pub(crate) async fn rehearse(
    context: &Rc<ThreadContext>,
    caller: Caller,
    which: usize,
) -> Result<(), StepFailure> {
    let now = Moment::now();
    match context.plan.work {
        Work::Http { .. } => {
            // In order, later requests may need the answers of earlier ones.
            let all = u32::try_from(context.requests.len()).unwrap_or(1);
            let number = if context.plan.is_in_order() { all } else { 1 };
            transaction::attempt::<HttpConnection>(context, caller, now, (number, &|| which), &mut || {})
                .await
        }
        Work::Bulk { .. } | Work::Idle { .. } => standing::rehearse(context, caller).await,
        Work::Exchange { .. } | Work::Handshake => {
            let number = RawConnection::exchanges(&context.plan);
            transaction::attempt::<RawConnection>(context, caller, now, (number, &|| which), &mut || {}).await
        }
    }
}

/// One transaction on a separate connection, as [`transaction::transaction`] does it.
pub(crate) async fn transaction(
    context: &Rc<ThreadContext>,
    intended: Moment,
    on_open: &mut dyn FnMut(),
) -> Result<(), ()> {
    match context.plan.work {
        Work::Http { .. } => transaction::transaction::<HttpConnection>(context, intended, on_open).await,
        _ => transaction::transaction::<RawConnection>(context, intended, on_open).await,
    }
}

/// Opens the pool's connections, and keeps them at work until the run is over.
pub(crate) fn keep(context: &Rc<ThreadContext>, pool: &Rc<Pool>) {
    match context.plan.work {
        Work::Http { .. } => keep_as::<HttpConnection>(context, pool),
        _ => keep_as::<RawConnection>(context, pool),
    }
}

fn keep_as<C: Connection>(context: &Rc<ThreadContext>, pool: &Rc<Pool>) {
    let (of_context, of_pool) = (Rc::clone(context), Rc::clone(pool));
    let connection = move |permit| kept::<C>(Rc::clone(&of_context), Rc::clone(&of_pool), permit);
    engine::spawn(Priority::Flow, Rc::clone(&pool.opener).run(Rc::clone(context), connection));
}
