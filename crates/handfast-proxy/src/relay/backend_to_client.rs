//! The backend's direction: bytes in, records out.

use handfast_net::clock::Moment;
use handfast_net::stream::{Read, Stream};
use handfast_tls::buffer::Scratch;

use super::{Moved, Relay, fault_of, flush, write_client};
use crate::connection::Connection;
use crate::reason::{CloseReason, Side, Step};
use crate::thread::BACKEND_READ;

impl Relay {
    /// Moves what can be moved without waiting.
    pub(super) fn backend_to_client(&mut self, connection: &mut Connection, scratch: &mut Scratch) -> Moved {
        let held = self.hold != Moment::NEVER;
        if !connection.outgoing.is_empty() && !held {
            let moved = flush(&mut connection.client, &mut connection.outgoing, Side::Client)?;
            // Nothing is read for a client that does not take what is there.
            return Ok(moved > 0);
        }
        if self.backend_done {
            return self.tell_client(connection, scratch);
        }
        match self.backend.try_read(&mut scratch.received[..BACKEND_READ]) {
            Ok(Read::Bytes(bytes)) => self.send_on(connection, scratch, bytes),
            Ok(Read::Blocked) if held && Moment::now() >= self.hold => {
                // The first data did not come in time: the tickets go alone.
                self.hold = Moment::NEVER;
                Ok(flush(&mut connection.client, &mut connection.outgoing, Side::Client)? > 0)
            }
            Ok(Read::Blocked) => Ok(false),
            Ok(Read::End) => {
                self.backend_done = true;
                self.backend_first = !self.client_done;
                self.tell_client(connection, scratch)
            }
            Err(fault) => Err(self.refused.take().unwrap_or_else(|| fault_of(Side::Backend, &fault))),
        }
    }

    /// Encrypts `bytes` bytes of the thread's buffer, behind tickets that waited for them, and writes them.
    fn send_on(&mut self, connection: &mut Connection, scratch: &mut Scratch, bytes: usize) -> Moved {
        scratch.records.clear();
        self.unanswered = false;
        self.release_held(connection, scratch);
        self.session
            .encrypt(&scratch.received[..bytes], &mut scratch.records)
            .map_err(|failure| CloseReason::failure(Step::Relay, Side::Client, &failure))?;
        write_client(connection, scratch.records.filled(), Stream::try_write)?;
        connection.record.bytes_to_client += bytes as u64;
        connection.service.metrics.bytes_to_client(bytes as u64);
        Ok(true)
    }

    /// Tickets that were held go first.
    fn release_held(&mut self, connection: &mut Connection, scratch: &mut Scratch) {
        if self.hold != Moment::NEVER {
            self.hold = Moment::NEVER;
            scratch.records.extend(&std::mem::take(&mut connection.outgoing));
        }
    }

    /// Passes the backend's end on as close_notify, which is all the end there is in TLS. The FIN comes when the client
    /// has ended too: after a FIN nobody could be told that the client's own direction broke.
    fn tell_client(&mut self, connection: &mut Connection, scratch: &mut Scratch) -> Moved {
        if self.client_told {
            return Ok(false);
        }
        self.client_told = true;
        scratch.records.clear();
        self.release_held(connection, scratch);
        self.session.close(&mut scratch.records);
        // The client's own direction is over and passed on: the FIN follows at once, and takes these bytes along.
        let last = self.backend_told && self.to_backend.is_empty();
        let write = if last { Stream::try_write_last } else { Stream::try_write };
        write_client(connection, scratch.records.filled(), write)?;
        Ok(true)
    }
}
