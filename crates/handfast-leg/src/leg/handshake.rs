//! Shaking hands on a leg: flights in, flights out, until data can be sent.
//!
//! In: a leg whose session has not finished its handshake. Out: the same leg, established, and the plaintext that came
//! together with the peer's last flight. Reading and computing are apart, so that a caller can tell by its own clock what
//! the handshake cost and what it waited for.

use handfast_net::stream::{Read, Write};
use handfast_tls::buffer::Scratch;
use handfast_tls::session::Session;

use super::{Leg, READ};
use crate::broken::{Broken, Why};
use crate::socket::Socket;

/// Bytes of an unfinished handshake message that a peer may make us keep: one of the greatest length and its records.
const UNFINISHED: usize = 128 * 1024;

impl<S: Socket, T: Session> Leg<S, T> {
    /// Whether data can be sent: a plain leg's always can.
    pub fn is_established(&self) -> bool {
        self.session.as_ref().is_none_or(Session::is_established)
    }

    /// Reads what is there of the peer's flight into `scratch.received`, after sending what waits; so many bytes, for
    /// [`Leg::take_flight`]. `None`: nothing yet.
    ///
    /// **Errors**: the socket's fault; [`Why::Truncated`] when the peer ended without having finished.
    pub fn read_flight(&mut self, scratch: &mut Scratch) -> Result<Option<usize>, Broken> {
        self.send_flight()?;
        match self.socket.try_read(&mut scratch.received[..READ]) {
            Ok(Read::Bytes(bytes)) => Ok(Some(bytes)),
            Ok(Read::Blocked) => Ok(None),
            Ok(Read::End) => Err(self.broken(Why::Truncated)),
            Err(fault) => Err(Broken::socket(self.side, fault)),
        }
    }

    /// Gives the session the first `bytes` of `scratch.received`; its answer waits behind what is unsent, and plaintext
    /// goes to `early`.
    ///
    /// **Errors**: as [`Leg::take_hello`].
    pub fn take_flight(
        &mut self,
        bytes: usize,
        scratch: &mut Scratch,
        early: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let kept = self.session.as_ref().map_or(&[][..], Session::kept);
        if kept.is_empty() {
            let mut received = std::mem::take(&mut scratch.received);
            let outcome = self.take_hello(&mut received[..bytes], scratch, early);
            scratch.received = received;
            return outcome;
        }
        // Flights are short and come in few pieces: a copy of them is not worth sparing.
        let mut incoming = kept.to_vec();
        incoming.extend_from_slice(&scratch.received[..bytes]);
        self.take_hello(&mut incoming, scratch, early)
    }

    /// The same for bytes that the caller has read himself: a hello that he looked into.
    ///
    /// **Errors**: the session's failure (its alert is among the unsent bytes); [`Why::Ended`] when the peer said
    /// close_notify before it was done; [`Why::Endless`].
    pub fn take_hello(
        &mut self,
        incoming: &mut [u8],
        scratch: &mut Scratch,
        early: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let Some(session) = &mut self.session else { return Ok(()) };
        scratch.plaintext.clear();
        scratch.replies.clear();
        let received = session.receive(incoming, &mut scratch.plaintext, &mut scratch.replies);
        early.extend_from_slice(scratch.plaintext.filled());
        self.heard += scratch.plaintext.len() as u64;
        self.unsent.extend_from_slice(scratch.replies.filled());
        self.ended |= received.closed;
        if let Some(failure) = received.failure {
            return Err(Broken::session(self.side, failure));
        }
        if self.ended && !self.is_established() {
            return Err(self.broken(Why::Ended));
        }
        if self.session.as_ref().is_some_and(|session| session.kept().len() > UNFINISHED) {
            return Err(self.broken(Why::Endless));
        }
        Ok(())
    }

    /// Writes what waits, as much as is taken now.
    ///
    /// **Errors**: the socket's fault.
    pub fn send_flight(&mut self) -> Result<(), Broken> {
        if self.unsent.is_empty() {
            return Ok(());
        }
        match self.socket.try_write(&self.unsent) {
            Ok(Write::Bytes(written)) if written == self.unsent.len() => self.unsent = Vec::new(),
            Ok(Write::Bytes(written)) => drop(self.unsent.drain(..written)),
            Ok(Write::Blocked) => {}
            Err(fault) => return Err(Broken::socket(self.side, fault)),
        }
        Ok(())
    }
}
