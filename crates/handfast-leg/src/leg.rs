//! One side of a connection: its stream, its TLS session if it has one, what waits to be sent, and how it ended.
//!
//! In: a stream that stands. Out: plaintext read and written, an end in order, or a [`Broken`]. A leg without a session is
//! plain: what it reads and writes is what travels.
//!
//! A leg keeps bytes of its own only when its peer does not take them; an idle leg owns no buffer.

use std::fmt;

use handfast_net::clock::Moment;
use handfast_net::stream::{Read, Stream, Write};
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::session::Session;

use crate::broken::{Broken, Side, Why};
use crate::socket::Socket;

/// Bytes taken from a socket at once, and what a thread's buffer of received bytes has room for: four full records and their overhead, which is also the most that one direction
/// ever holds when its reader stops.
pub const READ: usize = 65_536;
/// The same when it is to be encrypted for the other side: three full records, which stay below 64 KiB with their overhead.
const READ_TO_ENCRYPT: usize = 49_152;
/// Bytes of an unfinished record or message that are kept. A record is far shorter; this is a handshake message that goes
/// on and on.
const UNFINISHED: usize = READ - 4096;

/// Nagle's algorithm on a leg. It delays a write only while an earlier one is unacknowledged, so the first needs no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nagle {
    /// Still on; nothing has been written.
    Unwritten,
    /// Still on; something has been.
    Written,
    Off,
}

/// One side of a connection.
pub struct Leg<S = Stream> {
    socket: S,
    session: Option<Box<dyn Session>>,
    side: Side,
    /// Records of a TLS leg, bytes of a plain one, that the socket has not taken.
    unsent: Vec<u8>,
    /// Until when what is unsent waits for company; NEVER when it does not.
    hold: Moment,
    /// The peer has ended its direction in order.
    ended: bool,
    /// … and we ours: close_notify, or FIN where there is no TLS.
    told: bool,
    nagle: Nagle,
    /// Whether a FIN without close_notify counts as an end …
    lenient: bool,
    /// … and has been one.
    unsaid: bool,
    /// Why the peer takes nothing more, while its last words are still read.
    refused: Option<Box<Broken>>,
    /// Plaintext bytes that the leg has been given and that have left it, or their records.
    sent: u64,
    /// … and that it has given.
    heard: u64,
}

/// What a step found when it read.
pub(crate) struct Got {
    /// Whether the socket gave anything, its end included.
    pub(crate) moved: bool,
    /// Bytes of plaintext.
    pub(crate) length: usize,
    /// Why the session cannot go on; what came before is in the plaintext.
    pub(crate) failed: Option<Broken>,
}

impl<S> fmt::Debug for Leg<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leg")
            .field("side", &self.side)
            .field("unsent", &self.unsent.len())
            .finish_non_exhaustive()
    }
}

impl Got {
    const NOTHING: Self = Self { moved: false, length: 0, failed: None };
}

impl<S: Socket> Leg<S> {
    /// A leg that speaks in the clear.
    pub fn plain(side: Side, socket: S) -> Self {
        Self {
            socket,
            session: None,
            side,
            unsent: Vec::new(),
            hold: Moment::NEVER,
            ended: false,
            told: false,
            nagle: Nagle::Off,
            lenient: false,
            unsaid: false,
            refused: None,
            sent: 0,
            heard: 0,
        }
    }

    /// Speaks TLS from now on, by an established session; `ended`: its peer has said close_notify already.
    pub fn secure(&mut self, session: Box<dyn Session>, ended: bool) {
        self.session = Some(session);
        self.ended = ended;
    }

    /// Its socket was dialled, and Nagle's algorithm is still on; `sent` bytes have been written already.
    pub fn dialled(mut self, sent: usize) -> Self {
        self.nagle = if sent > 0 { Nagle::Written } else { Nagle::Unwritten };
        self.sent = sent as u64;
        self
    }

    /// A FIN without close_notify counts as an end, as the operator has decided.
    pub fn be_lenient(&mut self) {
        self.lenient = true;
    }

    /// Puts bytes in front of everything that will be sent: records of the handshake's end on a TLS leg. They wait until
    /// `hold` for the first data to travel with.
    pub fn keep(&mut self, bytes: &[u8], hold: Moment) {
        if !bytes.is_empty() {
            self.unsent.extend_from_slice(bytes);
            self.hold = hold;
        }
    }

    /// Whose side it is.
    pub fn side(&self) -> Side {
        self.side
    }

    /// Whether it speaks TLS.
    pub fn is_secured(&self) -> bool {
        self.session.is_some()
    }

    /// Its session, if it has one.
    pub fn session(&self) -> Option<&dyn Session> {
        self.session.as_deref()
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
        self.sent
    }

    /// Plaintext bytes that its peer has sent.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// Bytes that wait for the socket.
    pub fn unsent(&self) -> usize {
        self.unsent.len()
    }

    /// Whether the peer has ended its direction in order.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether its peer's end was a FIN without close_notify.
    pub fn ended_unsaid(&self) -> bool {
        self.unsaid
    }

    /// Whether its peer has been told that the other side has ended.
    pub fn is_told(&self) -> bool {
        self.told
    }

    /// Whether the beginning of a record or message has come, and not its end.
    pub fn is_in_a_record(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.kept().is_empty())
    }

    /// Until when what is unsent waits for company; NEVER when nothing does.
    pub fn hold(&self) -> Moment {
        self.hold
    }

    /// Whether both directions have ended and everything is with the kernel.
    pub(crate) fn is_done(&self) -> bool {
        self.told && self.unsent.is_empty()
    }

    pub(crate) fn refuses(&self) -> bool {
        self.refused.is_some()
    }

    fn broken(&self, why: Why) -> Broken {
        Broken { side: self.side, why }
    }

    /// A fault that the kernel has announced and no call has met.
    pub(crate) fn check(&mut self) -> Result<(), Broken> {
        self.socket.check().map_err(|fault| Broken::socket(self.side, fault))
    }

    /// Reads once. Plaintext is in `scratch.plaintext` afterwards, or in front of `scratch.received` for a plain leg (see
    /// [`Leg::plaintext`]), and what the session answers by itself in `scratch.replies`.
    pub(crate) fn read(&mut self, scratch: &mut Scratch, to_encrypt: bool) -> Result<Got, Broken> {
        let kept = self.session.as_ref().map_or(&[][..], |session| session.kept());
        let begin = kept.len();
        if begin >= UNFINISHED {
            return Err(self.broken(Why::Endless));
        }
        scratch.received[..begin].copy_from_slice(kept);
        let end = if to_encrypt && self.session.is_none() { READ_TO_ENCRYPT } else { READ };
        let bytes = match self.socket.try_read(&mut scratch.received[begin..end]) {
            Ok(Read::Bytes(bytes)) => bytes,
            Ok(Read::Blocked) => return Ok(Got::NOTHING),
            Ok(Read::End) => {
                if self.session.is_some() {
                    // RFC 9846 §6.1: data may have been cut off by anybody; only close_notify is an end.
                    if !self.lenient || begin > 0 {
                        return Err(self.broken(Why::Truncated));
                    }
                    self.unsaid = true;
                }
                self.ended = true;
                return Ok(Got { moved: true, ..Got::NOTHING });
            }
            Err(fault) => {
                let refused = self.refused.take().map(|broken| *broken);
                return Err(refused.unwrap_or_else(|| Broken::socket(self.side, fault)));
            }
        };
        let Some(session) = &mut self.session else {
            self.heard += bytes as u64;
            return Ok(Got { moved: true, length: bytes, failed: None });
        };
        scratch.plaintext.clear();
        scratch.replies.clear();
        let incoming = &mut scratch.received[..begin + bytes];
        let received = session.receive(incoming, &mut scratch.plaintext, &mut scratch.replies);
        self.ended |= received.closed;
        self.heard += scratch.plaintext.len() as u64;
        let failed = received.failure.map(|failure| Broken::session(self.side, failure));
        Ok(Got { moved: true, length: scratch.plaintext.len(), failed })
    }

    /// The plaintext of the last read.
    pub(crate) fn plaintext<'a>(&self, received: &'a [u8], plaintext: &'a Buffer, length: usize) -> &'a [u8] {
        if self.session.is_some() { plaintext.filled() } else { &received[..length] }
    }

    /// Sends what the session answered by itself, behind what waits already. After a failure it is the alert, which only
    /// waits: whoever ends the connection sends it.
    pub(crate) fn answer(&mut self, scratch: &mut Scratch, failed: bool) -> Result<(), Broken> {
        let replies = scratch.replies.filled();
        if replies.is_empty() {
            return Ok(());
        }
        if failed || !self.unsent.is_empty() {
            self.unsent.extend_from_slice(replies);
            return Ok(());
        }
        self.put(Writing::More, replies)
    }

    /// Sends `plaintext`, and keeps what the socket does not take.
    pub(crate) fn write(&mut self, plaintext: &[u8], records: &mut Buffer) -> Result<(), Broken> {
        let outcome = match self.session {
            None => self.write_plain(plaintext),
            Some(_) => self.write_records(plaintext, records),
        };
        outcome.or_else(|broken| self.refuse(broken))
    }

    fn write_plain(&mut self, plaintext: &[u8]) -> Result<(), Broken> {
        self.stop_delaying();
        let written = match self.socket.try_write(plaintext) {
            Ok(Write::Bytes(written)) => written,
            Ok(Write::Blocked) => 0,
            Err(fault) => return Err(Broken::socket(self.side, fault)),
        };
        self.unsent.extend_from_slice(&plaintext[written..]);
        self.sent += written as u64;
        Ok(())
    }

    fn write_records(&mut self, plaintext: &[u8], records: &mut Buffer) -> Result<(), Broken> {
        self.stop_delaying();
        records.clear();
        self.release(records);
        let session = self.session.as_mut().expect("asked for by write(), which looked");
        session.encrypt(plaintext, records).map_err(|failure| Broken::session(self.side, failure))?;
        self.put(Writing::More, records.filled())?;
        self.sent += plaintext.len() as u64;
        Ok(())
    }

    /// What was held back goes first.
    fn release(&mut self, records: &mut Buffer) {
        if self.hold != Moment::NEVER {
            self.hold = Moment::NEVER;
            records.extend(&std::mem::take(&mut self.unsent));
        }
    }

    /// Writes the beginning of `bytes` and keeps the rest.
    fn put(&mut self, writing: Writing, bytes: &[u8]) -> Result<(), Broken> {
        if bytes.is_empty() {
            return Ok(());
        }
        let outcome = match writing {
            Writing::More => self.socket.try_write(bytes),
            Writing::Last => self.socket.try_write_last(bytes),
        };
        match outcome {
            Ok(Write::Bytes(written)) => self.unsent.extend_from_slice(&bytes[written..]),
            Ok(Write::Blocked) => self.unsent.extend_from_slice(bytes),
            Err(fault) => return Err(Broken::socket(self.side, fault)),
        }
        Ok(())
    }

    /// Writes as much as possible of what is kept; whether anything moved. Gives its memory back when done.
    pub(crate) fn flush(&mut self) -> Result<bool, Broken> {
        self.stop_delaying();
        let written = match self.socket.try_write(&self.unsent) {
            Ok(Write::Bytes(written)) => written,
            Ok(Write::Blocked) => return Ok(false),
            Err(fault) => {
                let broken = Broken::socket(self.side, fault);
                return self.refuse(broken).map(|()| true);
            }
        };
        if written == self.unsent.len() {
            self.unsent = Vec::new();
        } else {
            self.unsent.drain(..written);
        }
        if self.session.is_none() {
            self.sent += written as u64;
        }
        Ok(true)
    }

    /// Writes what is kept, as far as it is taken, while the leg ends.
    pub(crate) fn write_out(&mut self) -> Wrote {
        while !self.unsent.is_empty() {
            match self.socket.try_write(&self.unsent) {
                Ok(Write::Bytes(written)) => drop(self.unsent.drain(..written)),
                Ok(Write::Blocked) => return Wrote::Some,
                Err(_) => return Wrote::Failed,
            }
        }
        Wrote::All
    }

    /// Whether what is kept must go before anything is read for it.
    pub(crate) fn is_full(&self) -> bool {
        !self.unsent.is_empty() && self.hold == Moment::NEVER
    }

    /// What waited for company goes alone when its time has come.
    pub(crate) fn flush_held(&mut self, now: Moment) -> Result<bool, Broken> {
        if now < self.hold || self.hold == Moment::NEVER {
            return Ok(false);
        }
        self.hold = Moment::NEVER;
        self.flush()
    }

    /// Passes on that the other side has ended: close_notify where there is TLS, FIN where there is none.
    ///
    /// A TLS leg gets no FIN: after it nobody could be told any more that its own direction broke. `last`: the other
    /// direction is over and passed on, so that closing says the rest.
    pub(crate) fn tell_end(&mut self, records: &mut Buffer, last: bool) -> Result<bool, Broken> {
        if self.told {
            return Ok(false);
        }
        if self.session.is_none() {
            if !self.unsent.is_empty() {
                return Ok(false);
            }
            self.told = true;
            if !last {
                self.socket.end_writing();
            }
            return Ok(true);
        }
        self.told = true;
        records.clear();
        self.release(records);
        let session = self.session.as_mut().expect("looked at above");
        session.close(records);
        self.put(if last { Writing::Last } else { Writing::More }, records.filled())?;
        Ok(true)
    }

    /// A peer that broke off may have spoken before: a server that refuses an upload says so and closes, and its answer
    /// is still to be read and passed on. A client is not waited for.
    fn refuse(&mut self, broken: Broken) -> Result<(), Broken> {
        if self.ended || self.side != Side::Backend || !matches!(broken.why, Why::Socket(_)) {
            return Err(broken);
        }
        self.unsent = Vec::new();
        self.refused = Some(Box::new(broken));
        Ok(())
    }

    fn stop_delaying(&mut self) {
        match self.nagle {
            Nagle::Off => {}
            Nagle::Unwritten => self.nagle = Nagle::Written,
            Nagle::Written => self.no_delay(),
        }
    }

    /// Turns Nagle's algorithm off, if it is still on.
    pub fn no_delay(&mut self) {
        if self.nagle != Nagle::Off {
            self.nagle = Nagle::Off;
            self.socket.no_delay();
        }
    }
}

/// How far writing out has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    All,
    Some,
    Failed,
}

/// Whether more follows.
#[derive(Clone, Copy)]
enum Writing {
    More,
    Last,
}
