//! Bytes between two legs, exactly, until both directions have ended or one leg has broken.
//!
//! In: two legs that are open. Out: what moved in this turn, that all is over, or which leg broke and why. One direction is
//! written once, `carry`, and used twice; each leg may be plain or TLS.
//!
//! Nothing is read for a leg that has not taken what came before, so each direction keeps at most 64 KiB.

#[cfg(test)]
mod tests;

use handfast_net::clock::Moment;
use handfast_net::fault::Cause;
use handfast_tls::buffer::Scratch;
use handfast_tls::session::{FailureKind, Session};

use crate::broken::{Broken, Side, Why};
use crate::leg::{Leg, READ};
use crate::socket::Socket;

/// Bytes that are read at once in plain text to be sent by TLS: three full records, which stay below 64 KiB with their overhead.
const READ_TO_ENCRYPT: usize = 49_152;

/// Progress of one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Bytes or an end moved; there may be more at once.
    Moved,
    /// Nothing can move until a socket or a moment comes.
    Blocked,
    /// Both directions have ended cleanly and everything is with the kernel.
    Finished,
}

/// Moves what can be moved without waiting: one read of either side at most.
///
/// **Errors**: the leg that broke. Its alert, if there is one, is among its unsent bytes; what the other leg has not taken is
/// among the other's.
///
/// **Cost**: a read and a write for each side that has something, and a copy of the plaintext.
pub fn turn<C: Socket, B: Socket, T: Session, U: Session>(
    client: &mut Leg<C, T>,
    backend: &mut Leg<B, U>,
    scratch: &mut Scratch,
    now: Moment,
) -> Result<Progress, Broken> {
    let up = carry(client, backend, scratch, now)?;
    let down = carry(backend, client, scratch, now)?;
    if client.is_done() && backend.is_done() {
        return Ok(Progress::Finished);
    }
    Ok(if up || down { Progress::Moved } else { Progress::Blocked })
}

/// Looks for a peer that is gone while nothing is read from it. While data is still read, a read detects it: the peer's earlier data comes
/// first. Data of a client that is gone waits for a backend that is full. Call it after each wait.
///
/// **Errors**: the leg that broke.
pub fn check<C: Socket, B: Socket, T: Session, U: Session>(
    client: &mut Leg<C, T>,
    backend: &mut Leg<B, U>,
) -> Result<(), Broken> {
    let client_unread = client.has_ended() || backend.refuses();
    match (client.check(), backend.check()) {
        (Err(broken), _) if client_unread => Err(broken),
        (Err(broken), _) if backend.is_full() => client.refuse(broken),
        (_, Err(broken)) if backend.has_ended() => Err(broken),
        _ => Ok(()),
    }
}

/// The better reason for the failure of [`turn`] or [`check`]: a peer that reset the connection may have sent an alert before. To be called
/// once for each failure.
pub fn better_reason<C: Socket, B: Socket, T: Session, U: Session>(
    client: &mut Leg<C, T>,
    backend: &mut Leg<B, U>,
    broken: Broken,
    scratch: &mut Scratch,
    now: Moment,
) -> Broken {
    let Why::Socket(fault) = &broken.why else { return broken };
    if !matches!(fault.cause, Cause::Reset | Cause::ClosedEarly) {
        return broken;
    }
    let alert = if broken.side == client.side() {
        alert_of(client, backend, scratch, now)
    } else {
        alert_of(backend, client, scratch, now)
    };
    alert.unwrap_or(broken)
}

/// Reads once more from a leg that broke off, for the alert that it may have sent before.
fn alert_of<F: Socket, T: Socket, X: Session, Y: Session>(
    from: &mut Leg<F, X>,
    to: &mut Leg<T, Y>,
    scratch: &mut Scratch,
    now: Moment,
) -> Option<Broken> {
    if !from.is_secured() || from.has_ended() || to.is_full() || to.refuses() {
        return None;
    }
    let broken = carry(from, to, scratch, now).err()?;
    let is_alert = matches!(&broken.why, Why::Session(failure) if failure.kind == FailureKind::Alert);
    is_alert.then_some(broken)
}

/// One direction: moves what can be moved from one leg to the other without waiting; whether anything moved.
///
/// **Errors**: the leg that broke, whichever of the two it is.
fn carry<F: Socket, T: Socket, X: Session, Y: Session>(
    from: &mut Leg<F, X>,
    to: &mut Leg<T, Y>,
    scratch: &mut Scratch,
    now: Moment,
) -> Result<bool, Broken> {
    if to.refuses() {
        return Ok(false);
    }
    if to.is_full() {
        return to.flush();
    }
    if from.has_ended() {
        return pass_on_end(from, to, scratch);
    }
    // Records of what is read in plain text and sent by TLS fit into a buffer too.
    let most = if to.is_secured() && !from.is_secured() { READ_TO_ENCRYPT } else { READ };
    let got = from.read(scratch, most)?;
    if !got.moved {
        return to.flush_held(now);
    }
    let failed = got.failed.is_some();
    if got.length > 0 {
        let Scratch { received, plaintext, records, .. } = scratch;
        to.write(from.plaintext(received, plaintext, got.length), records)?;
    }
    if from.is_secured() {
        from.answer(scratch, failed)?;
    }
    if let Some(broken) = got.failed {
        // Nothing after the faulty record has reached the other side.
        return Err(broken);
    }
    if from.side() == Side::Client
        && from.has_ended()
        && let Some(refusal) = from.refusal()
    {
        // It is gone, and everything that it sent was read: there is nothing to wait for.
        return Err(refusal.clone());
    }
    if from.has_ended() && !to.refuses() && !to.is_full() {
        pass_on_end(from, to, scratch)?;
    }
    Ok(true)
}

fn pass_on_end<F: Socket, T: Socket, X: Session, Y: Session>(
    from: &Leg<F, X>,
    to: &mut Leg<T, Y>,
    scratch: &mut Scratch,
) -> Result<bool, Broken> {
    // The other direction is over too, and its end has been passed on.
    let last = to.has_ended() && from.is_done();
    to.send_close(&mut scratch.records, last)
}
