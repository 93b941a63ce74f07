//! End of a leg, which reports the outcome to its peer.
//!
//! In: a leg, and the way. Out: its socket closed. Nothing waits here either: [`Ending::step`] does what can be done and
//! returns when to be called again.
//!
//! | way | the peer sees |
//! |---|---|
//! | [`Way::InOrder`] | what was written, then an end |
//! | [`Way::Alert`] | the alert with the reason, then an end: a TLS stream with a fatal alert in it has no clean end |
//! | [`Way::EndFirst`] | an end, though it has not ended itself |
//! | [`Way::Abort`] | every byte that was on its way, then a reset; never a clean end |
//! | [`Way::AbortOnceServed`] | the same, but the reset comes after the peer's program had a second to read those bytes |
//! | [`Way::AtOnce`] | a reset |

#[cfg(test)]
mod tests;

use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::stream::Read;
use handfast_tls::buffer::Scratch;
use handfast_tls::session::Session;

use crate::leg::{Leg, Wrote};
use crate::socket::Socket;

/// Time for which an alert's reader may keep sending the data that it had in flight; closing before would reset the
/// connection and destroy the alert before it is read.
const LINGER: Duration = Duration::from_millis(500);
/// The same after each of its reads where our end comes before the peer's, and in all: a client that writes its whole request before it
/// reads would lose our response to a reset.
const MAX_LINGER: Duration = Duration::from_secs(5);
/// Maximum number of bytes read meanwhile: most clients write all of their flight before they read, and a chain of a megabyte is
/// a mistake that deserves its alert. It is read into the thread's buffer and dropped, which takes less than a millisecond.
const LINGER_BYTES: usize = 2 * 1024 * 1024;
/// Timeout for progress of the last bytes before an abort towards the peer.
const DELIVERY: Duration = Duration::from_secs(5);
/// Time for a program to read and answer the last bytes before the reset. A server that writes an answer to a connection that was
/// reset drops what it has not read yet: a message broker loses the messages behind a CONNECT whose acknowledgement it cannot send.
const SERVICE: Duration = Duration::from_secs(1);
/// The kernel does not announce that its queue is empty, so it is asked, less and less often between these.
const PAUSES_MS: (u32, u32) = (1, 50);

/// Outcome that the peer receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Both directions are over.
    InOrder,
    /// The reason, by the alert that is among the leg's unsent bytes, if there is one.
    Alert,
    /// The end, before it has ended itself.
    EndFirst,
    /// An abort, once it has received the bytes in flight.
    Abort,
    /// The same, once it had time to read what was sent until this moment, and to answer: for a backend whose client is gone.
    AbortOnceServed(Moment),
    /// That it was cut off, now.
    AtOnce,
}

/// A leg's end, as far as it has come.
#[derive(Debug)]
pub struct Ending(Stage);

#[derive(Debug)]
enum Stage {
    /// Bytes are on their way, and a reset would overtake them. The number that is left, since when, and the next pause; `served`: until when
    /// the peer's program may read them before the reset. Two of these are part of each connection's task: they are small.
    Delivering { left: usize, progress: Moment, pause_ms: u32, served: Moment },
    /// They are with the peer's kernel. Its answers are read and dropped: this number of bytes so far.
    Serving { until: Moment, drained: usize },
    /// An alert is to be written, until then; `longest`: see `Lingering`.
    Speaking { until: Moment, longest: Moment },
    /// It has been sent, and further input is read and dropped: this number of bytes so far. Input extends the time, up to
    /// `longest`.
    Lingering { until: Moment, longest: Moment, drained: usize },
    /// Dropping the socket does the rest.
    Over,
}

impl Ending {
    /// Begins to end a leg. Nothing else is done with the leg from here on.
    pub fn new<S: Socket, T: Session>(leg: &mut Leg<S, T>, way: Way, now: Moment) -> Self {
        let is_faulty = leg.socket().is_faulty();
        let stage = match way {
            Way::InOrder | Way::AtOnce => Stage::Over,
            _ if is_faulty => Stage::Over,
            Way::Alert if leg.unsent() == 0 => Stage::Over,
            Way::Alert => Stage::Speaking { until: now + LINGER, longest: now + LINGER },
            Way::EndFirst => Stage::Speaking { until: now + LINGER, longest: now + MAX_LINGER },
            Way::Abort => delivering(now, now),
            Way::AbortOnceServed(sent) => delivering(now, sent + SERVICE),
        };
        // A peer that has to be notified is not reset, even when the notification cannot be sent.
        if !matches!(way, Way::Abort | Way::AbortOnceServed(_) | Way::AtOnce) {
            leg.socket_mut().finish_at_drop();
        }
        Self(stage)
    }

    /// Continues. Returns the latest time of the next call, if no socket becomes ready before; `None`: drop the leg, which
    /// closes its socket. `hurry`: the program is ending, and nothing is waited for any more.
    pub fn step<S: Socket, T: Session>(
        &mut self,
        leg: &mut Leg<S, T>,
        scratch: &mut Scratch,
        now: Moment,
        hurry: bool,
    ) -> Option<Moment> {
        loop {
            self.0 = match &mut self.0 {
                Stage::Over => return None,
                _ if hurry => Stage::Over,
                Stage::Delivering { left, progress, pause_ms, served } => {
                    let left_now = left_to_deliver(leg);
                    // Slow is not stuck: only a peer that takes nothing at all runs out of time.
                    if left_now < *left {
                        (*left, *progress) = (left_now, now);
                    }
                    if left_now > 0 && now.since(*progress) <= DELIVERY {
                        let until = now + Duration::from_millis(u64::from(*pause_ms));
                        *pause_ms = (*pause_ms * 2).min(PAUSES_MS.1);
                        return Some(until);
                    }
                    if left_now > 0 { Stage::Over } else { Stage::Serving { until: *served, drained: 0 } }
                }
                Stage::Serving { until, drained } => match read_away(leg, scratch, drained, now < *until) {
                    Some(Read::Bytes(_)) => continue,
                    Some(Read::Blocked) => return Some(*until),
                    Some(Read::End) | None => Stage::Over,
                },
                Stage::Speaking { until, longest } => match leg.write_out() {
                    Wrote::All => {
                        leg.socket_mut().end_writing();
                        Stage::Lingering { until: *until, longest: *longest, drained: 0 }
                    }
                    Wrote::Some if now < *until => return Some(*until),
                    Wrote::Some | Wrote::Failed => Stage::Over,
                },
                Stage::Lingering { until, longest, drained } => {
                    match read_away(leg, scratch, drained, now < *until) {
                        Some(Read::Bytes(_)) => {
                            *until = (now + LINGER).min(*longest);
                            continue;
                        }
                        Some(Read::Blocked) => return Some(*until),
                        Some(Read::End) | None => Stage::Over,
                    }
                }
            };
        }
    }
}

fn delivering(now: Moment, served: Moment) -> Stage {
    Stage::Delivering { left: usize::MAX, progress: now, pause_ms: PAUSES_MS.0, served }
}

/// Reads once and drops it, unless the time or the number of bytes is used up; `None`: nothing more is to be read.
fn read_away<S: Socket, T: Session>(
    leg: &mut Leg<S, T>,
    scratch: &mut Scratch,
    drained: &mut usize,
    has_time: bool,
) -> Option<Read> {
    if !has_time || *drained >= LINGER_BYTES {
        return None;
    }
    let read = leg.socket_mut().try_read(&mut scratch.received).ok()?;
    if let Read::Bytes(bytes) = read {
        *drained += bytes;
    }
    Some(read)
}

/// Writes what is left; bytes that the peer has not acknowledged then. Zero for one that is gone.
fn left_to_deliver<S: Socket, T: Session>(leg: &mut Leg<S, T>) -> usize {
    let wrote = leg.write_out();
    if wrote == Wrote::Failed || leg.socket_mut().check().is_err() {
        return 0;
    }
    leg.unsent() + leg.socket().unacknowledged()
}
