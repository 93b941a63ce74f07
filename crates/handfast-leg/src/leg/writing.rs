//! Writing a leg: plaintext in, whatever travels.
//!
//! Bytes that the socket does not take are kept, and are sent before all others.

use handfast_net::clock::Moment;
use handfast_net::stream::Write;
use handfast_tls::buffer::{Buffer, Scratch};
use handfast_tls::session::Session;

use super::{Leg, Nagle};
use crate::broken::Broken;
use crate::socket::Socket;

impl<S: Socket, T: Session> Leg<S, T> {
    /// Sends the session's automatic answers, after the bytes that already wait. After a failure it is the alert, which
    /// only waits: the code that ends the connection sends it.
    pub fn answer(&mut self, scratch: &mut Scratch, failed: bool) -> Result<(), Broken> {
        let replies = scratch.replies.filled();
        if replies.is_empty() || self.refuses() {
            return Ok(());
        }
        if failed || !self.unsent.is_empty() {
            self.unsent.extend_from_slice(replies);
            return Ok(());
        }
        self.put(Writing::More, replies)
    }

    /// Sends records that the caller has made with the leg's session, behind what waits; keeps what the socket does not take.
    ///
    /// **Errors**: the socket's fault.
    pub fn send(&mut self, records: &[u8]) -> Result<(), Broken> {
        if self.unsent.is_empty() {
            return self.put(Writing::More, records);
        }
        self.unsent.extend_from_slice(records);
        self.send_flight()
    }

    /// Takes what waits to be sent out of the leg, for a caller that sends it with something else, or not at all.
    pub fn take_unsent(&mut self) -> Vec<u8> {
        self.hold = Moment::NEVER;
        std::mem::take(&mut self.unsent)
    }

    /// Sends `plaintext` behind what waits, and keeps what the socket does not take.
    pub fn write(&mut self, plaintext: &[u8], records: &mut Buffer) -> Result<(), Broken> {
        let outcome = match self.session {
            None => self.write_plain(plaintext),
            Some(_) => self.write_records(plaintext, records),
        };
        outcome.or_else(|broken| self.refuse(broken))
    }

    fn write_plain(&mut self, plaintext: &[u8]) -> Result<(), Broken> {
        self.stop_delaying();
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(plaintext);
            return Ok(());
        }
        let written = match self.socket.try_write(plaintext) {
            Ok(Write::Bytes(written)) => written,
            Ok(Write::Blocked) => 0,
            Err(fault) => return Err(Broken::socket(self.side, fault)),
        };
        self.unsent.extend_from_slice(&plaintext[written..]);
        self.sent = self.sent.wrapping_add(written as u64);
        Ok(())
    }

    fn write_records(&mut self, plaintext: &[u8], records: &mut Buffer) -> Result<(), Broken> {
        self.stop_delaying();
        records.clear();
        self.release(records);
        let session = self.session.as_mut().expect("asked for by write(), which looked");
        session.encrypt(plaintext, records).map_err(|failure| Broken::session(self.side, failure))?;
        self.put(Writing::More, records.filled())?;
        // All of it, though some may wait: how much plaintext is in a part of a record is unknown.
        self.sent = self.sent.wrapping_add(plaintext.len() as u64);
        Ok(())
    }

    /// Puts the bytes that were held back first.
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
        if !self.unsent.is_empty() {
            self.unsent.extend_from_slice(bytes);
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

    /// Writes the beginning of what is kept; how much was taken. Gives its memory back when nothing is left.
    fn push(&mut self) -> Result<usize, Broken> {
        if self.unsent.is_empty() {
            return Ok(0);
        }
        let written = match self.socket.try_write(&self.unsent) {
            Ok(Write::Bytes(written)) => written,
            Ok(Write::Blocked) => 0,
            Err(fault) => return Err(Broken::socket(self.side, fault)),
        };
        if written == self.unsent.len() {
            self.unsent = Vec::new();
        } else {
            self.unsent.drain(..written);
        }
        Ok(written)
    }

    /// Writes what waits, as much as is taken now: a flight, or records that the caller has made.
    ///
    /// **Errors**: the socket's fault.
    pub fn send_flight(&mut self) -> Result<(), Broken> {
        self.push().map(drop)
    }

    /// The same between two legs; whether anything moved.
    ///
    /// **Errors**: as [`Leg::write`].
    pub fn flush(&mut self) -> Result<bool, Broken> {
        self.stop_delaying();
        match self.push() {
            Ok(written) => {
                if self.session.is_none() {
                    self.sent = self.sent.wrapping_add(written as u64);
                }
                Ok(written > 0)
            }
            Err(broken) => self.refuse(broken).map(|()| true),
        }
    }

    /// Writes what is kept, as far as it is taken, while the leg ends.
    pub(crate) fn write_out(&mut self) -> Wrote {
        while !self.unsent.is_empty() {
            match self.push() {
                Ok(0) => return Wrote::Some,
                Ok(_) => {}
                Err(_) => return Wrote::Failed,
            }
        }
        Wrote::All
    }

    /// Sends what [`Leg::hold`] has held back, when its time has come.
    pub fn flush_held(&mut self, now: Moment) -> Result<bool, Broken> {
        if now < self.hold || self.hold == Moment::NEVER {
            return Ok(false);
        }
        self.hold = Moment::NEVER;
        self.flush()
    }

    /// Passes on that the other side has ended: close_notify where there is TLS, FIN where there is none.
    ///
    /// A TLS leg gets no FIN: after it the peer could not be notified any more that its own direction broke. `last`: the other
    /// direction is over and passed on, so that closing the socket is enough.
    pub fn send_close(&mut self, records: &mut Buffer, last: bool) -> Result<bool, Broken> {
        if self.close_sent {
            return Ok(false);
        }
        if self.session.is_none() {
            if !self.unsent.is_empty() {
                return Ok(false);
            }
            self.close_sent = true;
            if !last {
                self.socket.end_writing();
            }
            return Ok(true);
        }
        self.close_sent = true;
        records.clear();
        self.release(records);
        let session = self.session.as_mut().expect("looked at above");
        session.close(records);
        self.put(if last { Writing::Last } else { Writing::More }, records.filled())?;
        Ok(true)
    }

    /// Sends a FIN behind the close_notify that [`Leg::send_close`] has sent, once. Further data from the peer is still read.
    pub fn end_behind_close_notify(&mut self) {
        if self.is_secured() && self.is_done() && !self.fin_sent {
            self.fin_sent = true;
            self.socket.end_writing();
        }
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

/// Progress of writing to the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    All,
    Some,
    Failed,
}

/// State of the data: more follows, or this is the last.
#[derive(Clone, Copy)]
enum Writing {
    More,
    Last,
}
