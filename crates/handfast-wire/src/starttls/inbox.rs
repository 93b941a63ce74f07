//! Bytes from a peer that the dialogue has not read: bounded, and taken a line, a packet or a tag at a time.

use super::problem::Problem;
use super::protocol::Protocol;
use super::{BYTE_LIMIT, Progress, ROUND_LIMIT, UNIT_LIMIT};

/// Unread bytes of one peer, and the number of all its bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbox {
    bytes: Vec<u8>,
    read: usize,
    taken: usize,
    rounds: usize,
}

impl Inbox {
    /// Puts bytes behind those that are there. Bytes over the limit of a dialogue are kept for this call only, and [`Inbox::settle`]
    /// refuses it, since TLS may have begun within one read.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.read);
        self.read = 0;
        self.bytes.extend_from_slice(bytes);
        self.taken = self.taken.saturating_add(bytes.len());
    }

    /// Returns the unread bytes.
    pub(super) fn unread(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// All that is unread, given away.
    pub(super) fn into_unread(mut self) -> Vec<u8> {
        self.bytes.split_off(self.read)
    }

    /// The next `length` bytes, which are known to be there.
    pub(super) fn take(&mut self, length: usize) -> Result<Vec<u8>, Problem> {
        self.rounds += 1;
        if self.rounds > ROUND_LIMIT {
            return Err(Problem::TooMuch);
        }
        let taken = self.unread()[..length].to_vec();
        self.read += length;
        Ok(taken)
    }

    /// The next line without its end, CRLF or a bare LF.
    pub(super) fn line(&mut self) -> Result<Option<Vec<u8>>, Problem> {
        let unread = self.unread();
        let window = &unread[..unread.len().min(UNIT_LIMIT)];
        let Some(end) = window.iter().position(|byte| *byte == b'\n') else {
            return if unread.len() >= UNIT_LIMIT { Err(Problem::UnitTooLong) } else { Ok(None) };
        };
        let mut line = self.take(end + 1)?;
        line.pop();
        line.pop_if(|byte| *byte == b'\r');
        Ok(Some(line))
    }

    /// The next packet, whose length `measure` knows as soon as enough of it is there.
    pub(super) fn packet(
        &mut self,
        measure: impl Fn(&[u8]) -> Result<Option<usize>, Problem>,
    ) -> Result<Option<Vec<u8>>, Problem> {
        let Some(length) = measure(self.unread())? else { return Ok(None) };
        if length > UNIT_LIMIT {
            return Err(Problem::UnitTooLong);
        }
        if self.unread().len() < length {
            return Ok(None);
        }
        self.take(length).map(Some)
    }

    /// Nothing may be unread: it is the other side's turn.
    pub(super) fn silent(&self) -> Result<(), Problem> {
        match self.unread().len() {
            0 => Ok(()),
            count => Err(Problem::Injected { count }),
        }
    }

    /// Drops unread bytes that have no meaning before TLS.
    pub(super) fn skip_blanks(&mut self, protocol: Protocol) {
        self.read += protocol.leading_blanks(self.unread());
    }

    /// The end of a call that has read what it could: TLS begins only when nothing more was sent, and no dialogue is endless.
    pub(super) fn settle(&self, progress: Progress) -> Result<Progress, Problem> {
        match progress {
            Progress::Direct | Progress::Cancel => Ok(progress),
            Progress::Ready => self.silent().map(|()| progress),
            Progress::More if self.taken > BYTE_LIMIT => Err(Problem::TooMuch),
            Progress::More => Ok(progress),
        }
    }
}
