//! What is said to a backend before TLS, or to a proxy on the way to it: `opening.rs` knows the words, here they are carried.
//!
//! In: a socket that stands, with the first words. Out: the leg, secured where that is wanted.

use std::rc::Rc;

use handfast_leg::{Broken, Leg, Why};
use handfast_net::engine::Woken;

use super::{Ended, SocketCause, Waiting, Wanted, check_client, secure};
use crate::backends::endpoint::Endpoint;
use crate::backends::opening::{Opening, Refused};
use crate::path::connection::Connection;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Carries the words, and then the handshake; what the backend has said that is the client's.
pub(super) async fn begin<R: Runtime>(
    connection: &mut Connection<R>,
    endpoint: &Endpoint,
    wanted: &Wanted<'_>,
    mut leg: Leg<R::Socket>,
    mut opening: Opening,
    attempt: &Waiting,
) -> Result<(Leg<R::Socket>, Vec<u8>), Ended> {
    converse(connection, &mut leg, &mut opening, attempt).await?;
    let heard = opening.into_heard().map_err(Ended::Attempt)?;
    let Some(dialler) = &wanted.dialler else {
        leg.keep(wanted.first);
        return Ok((leg, heard));
    };
    let (session, hello) = secure::begin(connection, dialler, endpoint)?;
    secure::with(&mut leg, session, dialler);
    leg.keep(&hello);
    let spoken = secure::finish(connection, &mut leg, dialler, attempt).await?;
    Ok((leg, spoken))
}

/// Ends when all is said and the kernel has it: from then on other bytes are counted.
async fn converse<R: Runtime>(
    connection: &mut Connection<R>,
    leg: &mut Leg<R::Socket>,
    opening: &mut Opening,
    attempt: &Waiting,
) -> Result<(), Ended> {
    let mut over = false;
    loop {
        leg.send_flight().map_err(of_leg)?;
        if opening.is_over() && leg.unsent() == 0 {
            return Ok(());
        }
        if !opening.is_over() {
            let thread = Rc::clone(&connection.account.thread);
            let scratch = &mut *thread.scratch.borrow_mut();
            let bytes = leg.read_flight(scratch).map_err(of_leg)?;
            if let Some(bytes) = bytes {
                let mut words = Vec::new();
                let outcome = opening.take(&scratch.received[..bytes], &mut words);
                leg.keep(&words);
                outcome.map_err(|refused| refused_by(leg, &refused))?;
                // A dialogue has its bound in bytes: nobody can speak on and on and so keep us from the deadline.
                continue;
            }
        }
        if over {
            return Err(attempt.over(connection, late()));
        }
        let woken = connection.wait(Step::Connect, attempt.deadline).await;
        let woken = woken.map_err(|reason| Ended::Connection(reason, None))?;
        if let Err(reason) = check_client(connection) {
            return Err(Ended::Connection(reason, attempt.was_long::<R>().then(late)));
        }
        over = woken == Woken::Deadline;
    }
}

fn refused_by<S: handfast_leg::Socket>(leg: &mut Leg<S>, refused: &Refused) -> Ended {
    // In order, where it has said no in order.
    leg.socket_mut().finish_at_drop();
    Ended::Attempt(refused.reason())
}

fn late() -> CloseReason {
    let cause = Cause::Socket(SocketCause::ConnectDeadline);
    CloseReason::new(Step::Connect, Side::Backend, cause)
        .because("in what is said before TLS, or to the proxy on the way")
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn of_leg(broken: Broken) -> Ended {
    Ended::Attempt(match broken.why {
        Why::Truncated => CloseReason::new(Step::Connect, Side::Backend, Cause::CLOSED_EARLY)
            .because("in what is said before TLS, or to the proxy on the way"),
        _ => CloseReason::broken(Step::Connect, &broken),
    })
}
