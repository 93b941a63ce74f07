//! The client's direction: records in, plaintext out.

use handfast_net::stream::{Read, Stream, Write};
use handfast_tls::buffer::Scratch;

use super::{Moved, Relay, count_to_backend, fault_of, flush, write_client};
use crate::cause::Cause;
use crate::connection::Connection;
use crate::reason::{CloseReason, Side, Step};
use crate::thread::CLIENT_READ;

impl Relay {
    /// Moves what can be moved without waiting.
    pub(super) fn client_to_backend(&mut self, connection: &mut Connection, scratch: &mut Scratch) -> Moved {
        if self.refused.is_some() {
            return Ok(false);
        }
        if !self.to_backend.is_empty() {
            return self.flush_backend(connection);
        }
        if self.client_done {
            return Ok(self.tell_backend());
        }
        let kept = self.session.kept();
        let begin = kept.len();
        if begin >= UNFINISHED {
            return Err(CloseReason::new(Step::Relay, Side::Client, Cause::Tls)
                .because("a handshake message without an end"));
        }
        scratch.received[..begin].copy_from_slice(kept);
        match connection.client.try_read(&mut scratch.received[begin..]) {
            Ok(Read::Bytes(bytes)) => self.take_in(connection, scratch, begin + bytes),
            Ok(Read::Blocked) => Ok(false),
            Ok(Read::End) => self.end_without_close_notify(connection),
            Err(fault) => Err(fault_of(Side::Client, &fault)),
        }
    }

    /// Decrypts `filled` bytes of the thread's buffer and hands them on.
    fn take_in(&mut self, connection: &mut Connection, scratch: &mut Scratch, filled: usize) -> Moved {
        scratch.plaintext.clear();
        scratch.records.clear();
        let incoming = &mut scratch.received[..filled];
        let received = self.session.receive(incoming, &mut scratch.plaintext, &mut scratch.records);
        let plaintext = scratch.plaintext.filled();
        let outcome = if plaintext.is_empty() { Ok(()) } else { self.pass_on(connection, plaintext) };
        if let Some(failure) = received.failure {
            // The alert for the client; nothing after the faulty record reaches the backend.
            connection.outgoing.extend_from_slice(scratch.records.filled());
            return Err(CloseReason::failure(Step::Relay, Side::Client, &failure));
        }
        outcome?;
        if !scratch.records.is_empty() {
            self.answer(connection, scratch.records.filled())?;
        }
        if received.closed {
            self.client_done = true;
            self.tell_backend();
        }
        Ok(true)
    }

    fn pass_on(&mut self, connection: &mut Connection, plaintext: &[u8]) -> Result<(), CloseReason> {
        self.may_delay_no_more();
        self.unanswered = true;
        let written = match self.backend.try_write(plaintext) {
            Ok(Write::Bytes(written)) => written,
            Ok(Write::Blocked) => 0,
            Err(fault) => return self.backend_refuses(fault_of(Side::Backend, &fault)),
        };
        self.to_backend.extend_from_slice(&plaintext[written..]);
        count_to_backend(connection, written);
        Ok(())
    }

    /// Writes what is kept. Nothing is read for a backend that does not take what is there.
    fn flush_backend(&mut self, connection: &mut Connection) -> Moved {
        self.may_delay_no_more();
        match flush(&mut self.backend, &mut self.to_backend, Side::Backend) {
            Ok(moved) => {
                count_to_backend(connection, moved);
                Ok(moved > 0)
            }
            Err(reason) => self.backend_refuses(reason).map(|()| true),
        }
    }

    /// Sends what the session answers by itself (a key update), behind what waits already.
    fn answer(&mut self, connection: &mut Connection, records: &[u8]) -> Result<(), CloseReason> {
        if connection.outgoing.is_empty() {
            write_client(connection, records, Stream::try_write).map(drop)
        } else {
            connection.outgoing.extend_from_slice(records);
            Ok(())
        }
    }

    /// Passes the client's end on, once everything before it has been taken.
    pub(super) fn tell_backend(&mut self) -> bool {
        if self.backend_told || !self.to_backend.is_empty() {
            return false;
        }
        self.backend_told = true;
        if !(self.backend_done && self.client_told) {
            // Otherwise both have ended, and closing says it too.
            self.backend.end_writing();
        }
        true
    }

    /// Nagle's algorithm delays a write only while an earlier one is unacknowledged, so the first goes without it.
    fn may_delay_no_more(&mut self) {
        if !self.backend_written {
            self.backend_written = true;
        } else if self.delays {
            self.delays = false;
            self.backend.no_delay();
        }
    }

    /// A backend that broke off may have answered before: a server that refuses an upload says so and closes, and
    /// its answer is still to be read and passed on.
    fn backend_refuses(&mut self, reason: CloseReason) -> Result<(), CloseReason> {
        self.to_backend = Vec::new();
        if self.backend_done {
            return Err(reason);
        }
        self.refused = Some(reason);
        Ok(())
    }
}

/// An unfinished record is far shorter; this is a handshake message that goes on and on.
const UNFINISHED: usize = CLIENT_READ - 4096;
