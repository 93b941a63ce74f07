//! One side of a connection: its stream, its TLS session if it has one, what waits to be sent, and how it ended.
//!
//! In: a connected stream. Out: plaintext read and written, a clean close, or a [`Broken`]. A leg without a session is
//! plain: what it reads and writes is what travels. A leg with one shakes hands first (`handshake.rs`), as client or
//! server, whichever the session is.
//!
//! A leg buffers bytes only while its peer does not accept them; an idle leg owns no buffer.

mod handshake;
mod reading;
#[cfg(test)]
mod tests;
mod writing;

use std::fmt;

use handfast_net::clock::Moment;
use handfast_net::stream::Stream;
use handfast_tls::session::Session;

use crate::broken::{Broken, Side, Why};
use crate::socket::Socket;

pub use reading::Got;
pub(crate) use writing::Wrote;

/// Bytes taken from a socket at once, and what a thread's buffer of received bytes has room for: four full records and their
/// overhead, which is also the most that one direction ever holds when its reader stops.
pub const READ: usize = 65_536;

/// Nagle's algorithm on a leg. It delays a write only while an earlier one is unacknowledged, so the first needs no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nagle {
    /// Still on; nothing has been written.
    Unwritten,
    /// Still on; something has been.
    Written,
    Off,
}

/// Meaning of a FIN without close_notify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingCloseNotify {
    /// An abort.
    Abort,
    /// An end, as the operator has decided …
    End,
    /// … and it was one.
    Ended,
}

/// One side of a connection, over any [`Socket`] and any [`Session`].
pub struct Leg<S = Stream, T = Box<dyn Session>> {
    socket: S,
    session: Option<T>,
    /// Records of a TLS leg, bytes of a plain one, that the socket has not taken.
    unsent: Vec<u8>,
    /// Until when unsent bytes wait for more to be sent with them; NEVER when they do not.
    hold: Moment,
    /// Plaintext bytes that have left it, or whose records it keeps.
    sent: u64,
    /// Plaintext bytes that its peer has sent.
    received: u64,
    /// The last eight of them, the newest in the lowest place.
    last_received: u64,
    /// Reason why the peer accepts nothing more, while its earlier data is still read.
    refused: Option<Box<Broken>>,
    side: Side,
    nagle: Nagle,
    /// The peer has ended its direction cleanly.
    ended: bool,
    /// Our end was sent: close_notify, or FIN where there is no TLS.
    close_sent: bool,
    /// A FIN was sent behind close_notify.
    fin_sent: bool,
    missing_close_notify: MissingCloseNotify,
    /// True for a leg that is still read once its peer takes nothing more.
    outlives_refusal: bool,
}

impl<S, T> fmt::Debug for Leg<S, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leg")
            .field("side", &self.side)
            .field("unsent", &self.unsent.len())
            .finish_non_exhaustive()
    }
}

impl<S: Socket, T: Session> Leg<S, T> {
    /// A leg without TLS.
    pub fn plain(side: Side, socket: S) -> Self {
        Self {
            socket,
            session: None,
            unsent: Vec::new(),
            hold: Moment::NEVER,
            sent: 0,
            received: 0,
            last_received: 0,
            refused: None,
            side,
            nagle: Nagle::Off,
            ended: false,
            close_sent: false,
            fin_sent: false,
            missing_close_notify: MissingCloseNotify::Abort,
            outlives_refusal: side == Side::Backend,
        }
    }

    /// Uses TLS from now on. The handshake of the session may be done or not.
    pub fn secure(&mut self, session: T) {
        self.session = Some(session);
    }

    /// Its socket was dialled, and Nagle's algorithm is still on; `sent` bytes of plaintext have been written already.
    pub fn dialled(mut self, sent: usize) -> Self {
        self.nagle = if sent > 0 { Nagle::Written } else { Nagle::Unwritten };
        self.sent = sent as u64;
        self
    }

    /// The number of first bytes that did not come from the other side, sent or not: they are not counted.
    pub fn preceded_by(mut self, bytes: usize) -> Self {
        self.sent = self.sent.wrapping_sub(bytes as u64);
        self
    }

    /// A FIN without close_notify counts as an end, as the operator has decided.
    pub fn be_lenient(&mut self) {
        self.missing_close_notify = MissingCloseNotify::End;
    }

    /// Reads what its peer sent before it closed, also when the peer takes nothing more. A backend's leg does so anyway; a client's leg does
    /// where the client's last bytes matter without an answer.
    pub fn outlive_refusal(&mut self) {
        self.outlives_refusal = true;
    }

    /// Puts bytes behind everything that waits to be sent, as they are to travel: records on a TLS leg.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
    }

    /// Holds the unsent bytes until the first data, or until `until` at the latest.
    pub fn hold(&mut self, until: Moment) {
        if !self.unsent.is_empty() {
            self.hold = until;
        }
    }

    /// Acknowledges the last flight of a peer that has sent nothing behind it: with Nagle's algorithm its first data wait for that.
    pub fn acknowledge_flight(&mut self) {
        if self.is_secured() {
            self.socket.acknowledge_now();
        }
    }

    /// Returns its side of the connection.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Returns true if it uses TLS.
    pub fn is_secured(&self) -> bool {
        self.session.is_some()
    }

    /// Its session, if it has one.
    pub fn session(&self) -> Option<&T> {
        self.session.as_ref()
    }

    /// The same, for what only its kind can do (a client's tickets).
    pub fn session_mut(&mut self) -> Option<&mut T> {
        self.session.as_mut()
    }

    /// Its socket.
    pub fn socket(&self) -> &S {
        &self.socket
    }

    /// Its socket, to set options or to close it.
    pub fn socket_mut(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Plaintext bytes that it has sent, or whose records it has.
    pub fn sent(&self) -> u64 {
        // Below zero while what came first has not left whole.
        self.sent.cast_signed().max(0).cast_unsigned()
    }

    /// Plaintext bytes that its peer has sent.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The last eight bytes of plaintext that its peer has sent; zeros in front of fewer.
    pub fn last_received(&self) -> [u8; 8] {
        self.last_received.to_be_bytes()
    }

    fn note_received(&mut self, plaintext: &[u8]) {
        self.received += plaintext.len() as u64;
        let last = plaintext.last_chunk::<8>().map(|last| u64::from_be_bytes(*last));
        self.last_received = last.unwrap_or_else(|| {
            plaintext.iter().fold(self.last_received, |all, byte| (all << 8) | u64::from(*byte))
        });
    }

    /// Bytes that wait for the socket.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Returns true if the peer has ended its direction cleanly.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Returns true if its peer's end was a FIN without close_notify.
    pub fn ended_without_close_notify(&self) -> bool {
        self.missing_close_notify == MissingCloseNotify::Ended
    }

    /// Returns true if its peer was notified of the other side's end.
    pub fn has_sent_close(&self) -> bool {
        self.close_sent
    }

    /// Returns true if a part of a record or message has arrived, but not its end.
    pub fn is_in_a_record(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.kept().is_empty())
    }

    /// Until when unsent bytes wait for more to be sent with them; NEVER when none do.
    pub fn held_until(&self) -> Moment {
        self.hold
    }

    /// Returns true if both directions have ended and all bytes are with the kernel.
    pub(crate) fn is_done(&self) -> bool {
        self.close_sent && self.unsent.is_empty()
    }

    /// Returns true if the unsent bytes must be sent before anything is read for it.
    pub fn is_full(&self) -> bool {
        !self.unsent.is_empty() && self.hold == Moment::NEVER
    }

    /// Returns true if its peer takes nothing more, while its earlier data is still read.
    pub fn refuses(&self) -> bool {
        self.refused.is_some()
    }

    /// Returns the reason why the peer takes nothing more, while its earlier data is still read.
    pub fn refusal(&self) -> Option<&Broken> {
        self.refused.as_deref()
    }

    /// A fault that the kernel has announced and no call has met.
    ///
    /// **Errors**: the socket's first fault.
    pub fn check(&mut self) -> Result<(), Broken> {
        self.socket.check().map_err(|fault| Broken::socket(self.side, fault))
    }

    fn broken(&self, why: Why) -> Broken {
        Broken { side: self.side, why }
    }

    /// A peer that closed or reset the connection may have sent something before, which is still to be read and passed on: the error of a
    /// server that refuses an upload, the last messages of a client that closed before it read the answer to the first. Our kernel has them.
    pub(crate) fn refuse(&mut self, broken: Broken) -> Result<(), Broken> {
        if self.ended || !self.outlives_refusal || !matches!(broken.why, Why::Socket(_)) {
            return Err(broken);
        }
        // The peer will not accept it, and while it waits nothing is read for this leg.
        self.unsent = Vec::new();
        self.hold = Moment::NEVER;
        self.refused = Some(Box::new(broken));
        Ok(())
    }
}
