//! The beginning of a session whose client offers more than rustls can take: a ticket that it may have to withdraw, or
//! early data.
//!
//! In: the connection's first bytes, as they were sent. Out: what rustls is given of them. Most sessions have no
//! [`Opening`]; for the others it ends with the client's second flight.
//!
//! **A ticket before a HelloRetryRequest.** Such a request names the suite. The client then takes back the tickets whose
//! hash is another one's (RFC 9846 §4.2.2), and when none is left it leaves pre_shared_key out: so do OpenSSL and
//! s2n-tls. rustls 0.23.46 refuses a second hello without the extension that the first had (`missing_extension`), and the
//! client gets no session instead of a new one. The first hello's offer is never used when a second one comes. So rustls
//! reads the first one without it; the transcript has it as it was sent (`policy/transcript.rs`).
//!
//! **Unsolicited early data.** A client with another server's ticket may send early data right behind its hello.
//! This server cannot decrypt it, and RFC 9846 §4.3.10 has a server skip it: all records of application data up to a second
//! hello, or else all that do not decrypt under the keys of the handshake. rustls 0.23.46 skips 16,384 bytes, but does
//! not let go of what it has skipped: in the unbuffered interface each record counts again with every step, so that
//! 5,500 bytes are too much. Here they are taken out before it sees them.

use std::fmt;

use handfast_wire::client_hello::without_pre_shared_key;
use handfast_wire::record::{ContentType, RecordHeader, handshake_records, payloads};
use rustls::HandshakeKind;

use super::ServerSession;
use crate::buffer::Buffer;
use crate::policy::trial_key::TrialKey;
use crate::session::Received;
use crate::side_channels::{ReplacementGuard, TrialKeyRequest};

/// Most bytes of early data that are skipped, record headers and all: four times what nginx, HAProxy and OpenSSL allow a
/// client (16,384), because small records are mostly overhead. In the smallest records that took
/// 0.7 ms of trials.
const SKIPPED: usize = 64 * 1024;

/// State of the first flight.
#[derive(Debug)]
pub(super) enum Opening {
    /// The hello is still to come.
    Hello(Plan),
    /// Early data may still come.
    Skipping(Skip),
    /// More came than is skipped: rustls sees it, and sooner or later ends it.
    Overrun,
}

/// Actions for the hello.
#[derive(Debug)]
pub(super) struct Plan {
    /// Its bytes on the wire.
    pub(super) length: usize,
    /// True if rustls must read it without its tickets.
    pub(super) withhold_tickets: bool,
    /// True if early data follows.
    pub(super) early_data: bool,
}

/// State that distinguishes early data from other records.
pub(super) struct Skip {
    /// Opens what is none; `None`: a second hello is awaited, and all application data before it is early data.
    key: Option<TrialKey>,
    /// Bytes that may still be skipped.
    left: usize,
}

impl fmt::Debug for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Skip").field("left", &self.left).finish_non_exhaustive()
    }
}

/// Kind of the next bytes.
enum Next {
    /// A record of early data, of this number of bytes.
    Early(usize),
    /// A record that is allowed among early data, of this number of bytes.
    Between(usize),
    /// Not a whole record yet.
    Unknown,
    /// Early data beyond what is skipped, unless it is what comes after it.
    TooMuch,
    /// Data after early data.
    Other,
}

impl Skip {
    fn next(&self, bytes: &[u8]) -> Next {
        let Some(header) = RecordHeader::parse(bytes) else { return Next::Unknown };
        let length = header.length_on_wire();
        let record = bytes.get(..length);
        match (header.content_type, record) {
            // May come at any time in a handshake, and comes right behind a hello with early data (RFC 9846 §5).
            (ContentType::CHANGE_CIPHER_SPEC, Some(_)) => Next::Between(length),
            (ContentType::APPLICATION_DATA, _) if length > self.left => Next::TooMuch,
            (ContentType::APPLICATION_DATA, Some(record)) => match &self.key {
                Some(key) if key.opens(record) => Next::Other,
                _ => Next::Early(length),
            },
            (ContentType::CHANGE_CIPHER_SPEC | ContentType::APPLICATION_DATA, None) => Next::Unknown,
            _ => Next::Other,
        }
    }
}

impl ServerSession {
    /// [`crate::session::Session::receive`] while the beginning lasts.
    pub(super) fn open(
        &mut self,
        opening: Opening,
        incoming: &mut [u8],
        plaintext: &mut Buffer,
        outgoing: &mut Buffer,
    ) -> Received {
        let (mut skip, mut rest) = match opening {
            Opening::Overrun => return self.take_overrun(incoming, plaintext, outgoing),
            Opening::Skipping(skip) => (skip, incoming),
            Opening::Hello(plan) => {
                let (hello, rest) = incoming.split_at_mut(plan.length.min(incoming.len()));
                let (received, skip) = self.take_hello(&plan, hello, plaintext, outgoing);
                match skip {
                    _ if received.failure.is_some() || rest.is_empty() && skip.is_none() => return received,
                    None => return self.take(rest, plaintext, outgoing),
                    Some(skip) => (skip, rest),
                }
            }
        };
        loop {
            match skip.next(rest) {
                Next::Early(length) => {
                    skip.left -= length;
                    rest = &mut rest[length..];
                }
                Next::Between(length) => {
                    let (record, behind) = rest.split_at_mut(length);
                    let received = self.take(record, plaintext, outgoing);
                    if received.failure.is_some() {
                        return received;
                    }
                    rest = behind;
                }
                Next::Unknown => {
                    self.opening = Some(Box::new(Opening::Skipping(skip)));
                    return self.take(rest, plaintext, outgoing);
                }
                Next::TooMuch => return self.take_overrun(rest, plaintext, outgoing),
                Next::Other => return self.take(rest, plaintext, outgoing),
            }
        }
    }

    /// Only the words differ: rustls would speak of damage on the way.
    fn take_overrun(
        &mut self,
        incoming: &mut [u8],
        plaintext: &mut Buffer,
        outgoing: &mut Buffer,
    ) -> Received {
        let mut received = self.take(incoming, plaintext, outgoing);
        match &mut received.failure {
            Some(failure) => {
                failure.detail =
                    format!("more than {SKIPPED} bytes of early data, which was not asked for").into();
            }
            None if self.core.is_established() => {}
            None => self.opening = Some(Box::new(Opening::Overrun)),
        }
        received
    }

    fn take_hello(
        &mut self,
        plan: &Plan,
        hello: &mut [u8],
        plaintext: &mut Buffer,
        outgoing: &mut Buffer,
    ) -> (Received, Option<Skip>) {
        let request = plan.early_data.then(TrialKeyRequest::new);
        let sent = if plan.withhold_tickets { payloads(hello) } else { Vec::new() };
        let received = match without_pre_shared_key(&sent) {
            Some(read) => {
                let mut records = handshake_records(&read);
                let _guard = ReplacementGuard::new(read, sent);
                self.take(&mut records, plaintext, outgoing)
            }
            None => self.take(hello, plaintext, outgoing),
        };
        let key = request.and_then(TrialKeyRequest::take);
        let retry = self.core.connection.handshake_kind() == Some(HandshakeKind::FullWithHelloRetryRequest);
        let skip = plan.early_data && (retry || key.is_some());
        (received, skip.then_some(Skip { key, left: SKIPPED }))
    }

    pub(super) fn take(
        &mut self,
        incoming: &mut [u8],
        plaintext: &mut Buffer,
        outgoing: &mut Buffer,
    ) -> Received {
        self.core.receive(incoming, plaintext, outgoing, &mut self.watch)
    }
}

#[cfg(test)]
mod tests;
