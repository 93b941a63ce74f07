//! Reading a leg: plaintext out, whatever travels.

use handfast_net::stream::Read;
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::session::{Received, Session};

use super::{Leg, MissingCloseNotify, READ};
use crate::broken::{Broken, Why};
use crate::socket::Socket;

/// Bytes of an unfinished record or message that are kept. A record is far shorter; this is a handshake message that goes
/// on and on.
const UNFINISHED: usize = READ - 4096;

/// Result of a leg's read.
#[derive(Debug)]
pub struct Got {
    /// True if the socket returned anything, its end included.
    pub moved: bool,
    /// Bytes of plaintext.
    pub length: usize,
    /// Reason why the session cannot continue; earlier data is in the plaintext.
    pub failed: Option<Broken>,
}

impl Got {
    const NOTHING: Self = Self { moved: false, length: 0, failed: None };
}

impl<S: Socket, T: Session> Leg<S, T> {
    /// Reads once. The plaintext is found by [`Leg::plaintext`] afterwards, and the session's automatic answers are in `scratch.replies`,
    /// for [`Leg::answer`]. `most`: bytes that are read at most; with TLS the plaintext is shorter, but for a record that had begun to come
    /// before.
    ///
    /// **Errors**: the socket's fault, or an end that is none.
    pub fn read(&mut self, scratch: &mut Scratch, most: usize) -> Result<Got, Broken> {
        // Data that another connection left there must not be sent on this one.
        scratch.plaintext.clear();
        scratch.replies.clear();
        let kept = self.session.as_ref().map_or(&[][..], Session::kept);
        let begin = kept.len();
        if begin >= UNFINISHED {
            return Err(self.broken(Why::Endless));
        }
        // In front of what comes now: the session needs a record in one piece, and an idle connection owns no buffer for it.
        scratch.received[..begin].copy_from_slice(kept);
        let end = begin.saturating_add(most).min(READ);
        match self.socket.try_read(&mut scratch.received[begin..end]) {
            Ok(Read::Bytes(bytes)) => Ok(self.take(begin + bytes, scratch)),
            Ok(Read::Blocked) => Ok(Got::NOTHING),
            Ok(Read::End) => self.end(begin > 0),
            Err(fault) => {
                // The first break is the true reason; this fault is its consequence.
                let refused = self.refused.take().map(|broken| *broken);
                Err(refused.unwrap_or_else(|| Broken::socket(self.side, fault)))
            }
        }
    }

    /// The first `filled` bytes of the buffer as plaintext.
    fn take(&mut self, filled: usize, scratch: &mut Scratch) -> Got {
        if self.session.is_none() {
            self.note_received(&scratch.received[..filled]);
            return Got { moved: true, length: filled, failed: None };
        }
        let Scratch { received, plaintext, replies, .. } = scratch;
        let failed = self.receive(&mut received[..filled], plaintext, replies);
        Got { moved: true, length: plaintext.len(), failed }
    }

    /// Gives the session what came; why it cannot go on, if so. A plain leg has none, and takes nothing.
    pub(super) fn receive(
        &mut self,
        incoming: &mut [u8],
        plaintext: &mut Buffer,
        replies: &mut Buffer,
    ) -> Option<Broken> {
        let received = self.session.as_mut()?.receive(incoming, plaintext, replies);
        self.account_for(received, plaintext)
    }

    pub(super) fn account_for(&mut self, received: Received, plaintext: &Buffer) -> Option<Broken> {
        self.ended |= received.closed;
        self.note_received(plaintext.filled());
        received.failure.map(|failure| Broken::session(self.side, failure))
    }

    /// RFC 9846 §6.1: an attacker may have cut off data; only close_notify is an end.
    fn end(&mut self, in_a_record: bool) -> Result<Got, Broken> {
        if self.session.is_some() {
            if self.missing_close_notify == MissingCloseNotify::Abort || in_a_record {
                return Err(self.broken(Why::Truncated));
            }
            self.missing_close_notify = MissingCloseNotify::Ended;
        }
        self.ended = true;
        Ok(Got { moved: true, ..Got::NOTHING })
    }

    /// The plaintext of the last read, in whichever buffer it is.
    pub fn plaintext<'a>(&self, received: &'a [u8], plaintext: &'a Buffer, length: usize) -> &'a [u8] {
        if self.session.is_some() { plaintext.filled() } else { &received[..length] }
    }
}
