//! Step 3, close: who ends a connection, and how. What goes wrong here is reported and fails no transaction: the
//! answer had been received.

use std::rc::Rc;

use handfast_tls::session::Session;

use crate::bench::{Bench, Phase};
use crate::plan::Close;
use crate::trouble::{Step, Trouble};
use crate::wire::{Ended, Got, Wire};

/// Ends a connection as the plan says.
pub(crate) async fn close(bench: &Rc<Bench>, mut wire: Wire) {
    let outcome = match bench.plan.close {
        // Dropping a stream resets it.
        Close::Reset => return,
        Close::Notify => match say_goodbye(bench, &mut wire) {
            Ok(()) => drain(bench, &mut wire).await,
            Err(trouble) => Err(trouble),
        },
        Close::Fin => {
            wire.stream.end_writing();
            drain(bench, &mut wire).await
        }
        Close::Server => wait_for_the_target(bench, &mut wire).await,
    };
    match outcome {
        Ok(()) => wire.stream.finish(),
        Err(trouble) if bench.phase() != Phase::WarmUp => bench.sampler.borrow_mut().trouble(trouble),
        Err(_) => {}
    }
}

/// close_notify and FIN.
fn say_goodbye(bench: &Bench, wire: &mut Wire) -> Result<(), Trouble> {
    let scratch = &mut *bench.scratch.borrow_mut();
    wire.session.close(&mut scratch.records);
    wire.write(&mut scratch.records, Step::Close)?;
    wire.stream.end_writing();
    Ok(())
}

/// Reads to the target's end, so that nothing unread turns our end into a reset. Tickets may still be among it.
async fn drain(bench: &Bench, wire: &mut Wire) -> Result<(), Trouble> {
    let deadline = bench.deadline();
    loop {
        loop {
            // After close_notify a FIN is still to come; it need not be waited for.
            let got = wire.read(&mut bench.scratch.borrow_mut(), Step::Close, true, &mut |_| {})?;
            match got {
                Got::Something => {}
                Got::Nothing => break,
                Got::End => {
                    bench.scratch.borrow_mut().records.clear();
                    return Ok(());
                }
            }
        }
        // What the protocol would answer has no way to go any more.
        bench.scratch.borrow_mut().records.clear();
        wire.wait(deadline, Step::Close).await?;
    }
}

async fn wait_for_the_target(bench: &Bench, wire: &mut Wire) -> Result<(), Trouble> {
    drain(bench, wire).await?;
    let orderly = wire.ended() == Ended::Orderly;
    say_goodbye(bench, wire)?;
    if orderly { Ok(()) } else { Err(wire.ended_early(Step::Close, "the target ended without close_notify")) }
}
