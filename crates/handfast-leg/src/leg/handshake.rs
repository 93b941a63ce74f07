//! Shaking hands on a leg: flights in, flights out, until data can be sent.
//!
//! In: a leg whose session has not finished its handshake. Out: the same leg, established, and the plaintext that came
//! together with the peer's last flight. Reading and computing are separate, so that a caller can measure
//! what the handshake cost and how long it waited.

use handfast_net::stream::Read;
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::session::{Received, Session};

use super::{Leg, READ};
use crate::broken::{Broken, Why};
use crate::socket::Socket;

/// Bytes of an unfinished handshake message that a peer may make us keep: one of the greatest length and its records.
const UNFINISHED: usize = 128 * 1024;

impl<S: Socket, T: Session> Leg<S, T> {
    /// Returns true if data can be sent: always true for a plain leg.
    pub fn is_established(&self) -> bool {
        self.session.as_ref().is_none_or(Session::is_established)
    }

    /// Reads what is there of the peer's flight into `scratch.received`, after sending what waits; returns the number
    /// of bytes, for [`Leg::take_flight`]. `None`: nothing yet.
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
        let Scratch { received, plaintext, replies, .. } = scratch;
        let kept = self.session.as_ref().map_or(&[][..], Session::kept);
        if kept.is_empty() {
            return self.take_in(&mut received[..bytes], plaintext, replies, early);
        }
        // Flights are short and come in few pieces: a copy of them is not worth sparing.
        let mut incoming = kept.to_vec();
        incoming.extend_from_slice(&received[..bytes]);
        self.take_in(&mut incoming, plaintext, replies, early)
    }

    /// The same for bytes that the caller has read: a hello that it inspected.
    ///
    /// **Errors**: the session's failure (its alert is among the unsent bytes); [`Why::Ended`] when the peer sent
    /// close_notify before it was done; [`Why::Endless`].
    pub fn take_hello(
        &mut self,
        incoming: &mut [u8],
        scratch: &mut Scratch,
        early: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        self.take_in(incoming, &mut scratch.plaintext, &mut scratch.replies, early)
    }

    fn take_in(
        &mut self,
        incoming: &mut [u8],
        plaintext: &mut Buffer,
        replies: &mut Buffer,
        early: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        plaintext.clear();
        replies.clear();
        let failed = self.receive(incoming, plaintext, replies);
        self.settle(failed, plaintext, replies, early)
    }

    /// Takes over what its session answered to its first flight elsewhere, before it was this leg's.
    ///
    /// **Errors**: as [`Leg::take_hello`].
    pub fn take_answer(
        &mut self,
        received: Received,
        (plaintext, replies): (&Buffer, &Buffer),
        early: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        let failed = self.account_for(received, plaintext);
        self.settle(failed, plaintext, replies, early)
    }

    fn settle(
        &mut self,
        failed: Option<Broken>,
        plaintext: &Buffer,
        replies: &Buffer,
        early: &mut Vec<u8>,
    ) -> Result<(), Broken> {
        early.extend_from_slice(plaintext.filled());
        self.unsent.extend_from_slice(replies.filled());
        if let Some(broken) = failed {
            return Err(broken);
        }
        if self.ended && !self.is_established() {
            return Err(self.broken(Why::Ended));
        }
        if self.session.as_ref().is_some_and(|session| session.kept().len() > UNFINISHED) {
            return Err(self.broken(Why::Endless));
        }
        if replies.is_empty() && self.unsent.is_empty() && !self.is_established() {
            // Part of a flight. If its sender writes record by record, with Nagle's algorithm, the next one waits for this
            // acknowledgement, which the kernel delays by 40 ms: the JDK's change_cipher_spec and Finished.
            self.socket.acknowledge_now();
        }
        Ok(())
    }
}
