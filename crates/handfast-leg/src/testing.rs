//! A socket and a session that do exactly what a unit test scripts, and record the calls.

use std::collections::VecDeque;

use handfast_net::clock::Moment;
use handfast_net::fault::{Cause, Fault, Operation};
use handfast_net::stream::{Read, SocketTimeouts, Write};
use handfast_tls::buffer::Buffer;
use handfast_tls::session::{Agreed, Failure, FailureKind, Received, Session};

use crate::broken::Side;
use crate::leg::Leg;
use crate::socket::Socket;

/// A leg whose every call is in the test's hand.
pub(crate) type Tested = Leg<Script, Marks>;

pub(crate) fn plain(side: Side) -> Tested {
    Leg::plain(side, Script::default())
}

/// One whose session is established.
pub(crate) fn secured(side: Side) -> Tested {
    let mut leg = plain(side);
    leg.secure(Marks { established: true, ..Marks::default() });
    leg
}

pub(crate) fn at(milliseconds: u64) -> Moment {
    Moment::from_nanos(milliseconds * 1_000_000)
}

/// Operation of a leg on its socket, besides reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Wrote(Vec<u8>),
    WroteLast(Vec<u8>),
    EndedWriting,
    NoDelay,
    FinishAtDrop,
}

#[derive(Debug)]
pub(crate) struct Script {
    /// Results of reads, one each; then the end, or a fault, or nothing yet.
    pub(crate) incoming: VecDeque<Vec<u8>>,
    pub(crate) ends: bool,
    pub(crate) read_fault: Option<Cause>,
    pub(crate) write_fault: Option<Cause>,
    pub(crate) announced: Option<Cause>,
    pub(crate) faulty: bool,
    /// Number of bytes that are still taken.
    pub(crate) room: usize,
    pub(crate) unacknowledged: usize,
    /// Times it acknowledged at once.
    pub(crate) acknowledged: usize,
    pub(crate) done: Vec<Done>,
    /// The room that each read was given.
    pub(crate) requested: Vec<usize>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            incoming: VecDeque::new(),
            ends: false,
            read_fault: None,
            write_fault: None,
            announced: None,
            faulty: false,
            room: usize::MAX,
            unacknowledged: 0,
            acknowledged: 0,
            done: Vec::new(),
            requested: Vec::new(),
        }
    }
}

impl Script {
    pub(crate) fn comes(&mut self, bytes: impl AsRef<[u8]>) {
        self.incoming.push_back(bytes.as_ref().to_vec());
    }

    /// Returns the operations since the last call.
    pub(crate) fn done(&mut self) -> Vec<Done> {
        std::mem::take(&mut self.done)
    }

    fn take(&mut self, bytes: &[u8], done: fn(Vec<u8>) -> Done) -> Result<Write, Fault> {
        assert!(!bytes.is_empty(), "a write of nothing");
        if let Some(cause) = self.write_fault {
            return Err(Fault::own(Operation::Write, cause));
        }
        let taken = self.room.min(bytes.len());
        if taken == 0 {
            return Ok(Write::Blocked);
        }
        self.room -= taken;
        self.done.push(done(bytes[..taken].to_vec()));
        Ok(Write::Bytes(taken))
    }
}

impl Socket for Script {
    fn try_read(&mut self, buffer: &mut [u8]) -> Result<Read, Fault> {
        self.requested.push(buffer.len());
        if let Some(bytes) = self.incoming.pop_front() {
            buffer[..bytes.len()].copy_from_slice(&bytes);
            return Ok(Read::Bytes(bytes.len()));
        }
        match self.read_fault {
            Some(cause) => Err(Fault::own(Operation::Read, cause)),
            None if self.ends => Ok(Read::End),
            None => Ok(Read::Blocked),
        }
    }

    fn try_write(&mut self, bytes: &[u8]) -> Result<Write, Fault> {
        self.take(bytes, Done::Wrote)
    }

    fn try_write_last(&mut self, bytes: &[u8]) -> Result<Write, Fault> {
        self.take(bytes, Done::WroteLast)
    }

    fn end_writing(&mut self) {
        self.done.push(Done::EndedWriting);
    }

    fn check(&mut self) -> Result<(), Fault> {
        self.announced.map_or(Ok(()), |cause| Err(Fault::own(Operation::Read, cause)))
    }

    fn is_faulty(&self) -> bool {
        self.faulty
    }

    fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }

    fn no_delay(&mut self) {
        self.done.push(Done::NoDelay);
    }

    fn acknowledge_now(&mut self) {
        self.acknowledged += 1;
    }

    fn expect_later(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn watch(&mut self) -> Result<(), Fault> {
        Ok(())
    }

    fn peer_ended(&self) -> bool {
        self.ends
    }

    fn is_broken(&self) -> bool {
        self.faulty
    }

    fn set_timeouts(&self, _timeouts: SocketTimeouts) {}

    fn local_address(&self) -> Option<std::net::SocketAddr> {
        None
    }

    fn finish_at_drop(&mut self) {
        self.done.push(Done::FinishAtDrop);
    }

    fn release(&self) {}

    fn adopt(&self) {}
}

/// A session whose records are single characters: `.` is the end mark, `!` a fatal alert, `?` a mistake (answered by the alert
/// `A`), `#` data that is answered by `r`, `E` the end of the handshake (answered by `e`), `(` the beginning of a record that
/// ends elsewhere. Anything else is data. Encrypted data is between `<` and `>`.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    pub(crate) established: bool,
    pub(crate) kept: Vec<u8>,
    closed: bool,
    /// Its keys are used up.
    pub(crate) used_up: bool,
}

impl Session for Marks {
    fn receive(&mut self, incoming: &mut [u8], plaintext: &mut Buffer, outgoing: &mut Buffer) -> Received {
        assert!(incoming.starts_with(&self.kept), "what was kept comes first");
        let begin = std::mem::take(&mut self.kept).len();
        let failed = |kind| Received { closed: false, failure: Some(Failure::new(kind, "as told")) };
        for (place, byte) in incoming.iter().enumerate().skip(begin.saturating_sub(1)) {
            match byte {
                b'.' => return Received { closed: true, failure: None },
                b'!' => return failed(FailureKind::Alert),
                b'?' => {
                    outgoing.extend(b"A");
                    return failed(FailureKind::Peer);
                }
                b'#' => outgoing.extend(b"r"),
                b'E' => {
                    self.established = true;
                    outgoing.extend(b"e");
                }
                b'(' => {
                    self.kept = incoming[place..].to_vec();
                    break;
                }
                data => plaintext.extend(&[*data]),
            }
        }
        Received { closed: false, failure: None }
    }

    fn kept(&self) -> &[u8] {
        &self.kept
    }

    fn encrypt(&mut self, plaintext: &[u8], outgoing: &mut Buffer) -> Result<(), Failure> {
        if self.used_up {
            return Err(Failure::new(FailureKind::Ourselves, "used up"));
        }
        outgoing.extend(b"<");
        outgoing.extend(plaintext);
        outgoing.extend(b">");
        Ok(())
    }

    fn close(&mut self, outgoing: &mut Buffer) {
        if !std::mem::replace(&mut self.closed, true) {
            outgoing.extend(b".");
        }
    }

    fn is_established(&self) -> bool {
        self.established
    }

    fn agreed(&self) -> Agreed {
        Agreed::default()
    }
}
