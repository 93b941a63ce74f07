//! From the first bytes of a connection to a ClientHello: the crate's front door.
//!
//! In: everything received so far, from the connection's first byte, and a limit. Out: [`Peek`]. Call it again when
//! more bytes came; it keeps nothing between calls and takes nothing from the buffer, so the bytes stay there for
//! the TLS side that comes next. The message's fields are read by `client_hello.rs`.

use std::borrow::Cow;

use crate::client_hello::ClientHello;
use crate::foreign::{self, Foreign, Sorted};
use crate::invalid::Invalid;
use crate::limits::MESSAGE_HEADER_LENGTH;
pub use crate::limits::RECORD_COUNT_LIMIT;
use crate::record::{ContentType, HEADER_LENGTH, PLAINTEXT_LIMIT, RecordHeader, payloads};

/// Smallest limit that [`peek`] heeds, in bytes: the shortest ClientHello takes 50.
pub const SMALLEST_LIMIT: usize = 64;

/// Most bytes of a ClientHello's body, whatever the limit; rustls takes no longer message either.
pub const MESSAGE_LIMIT: usize = 0xffff;

/// The state of the bytes that were received.
///
/// Only [`Peek::Incomplete`] can become something else when more bytes come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peek {
    /// A beginning, and no more. Fewer bytes than the limit are there, so a buffer of that size has room.
    Incomplete,
    /// A whole ClientHello.
    Complete(Box<ClientHello>),
    /// A hello over the limit.
    TooLarge {
        /// Bytes on the wire that it would take at the least, as far as was announced.
        announced: usize,
    },
    /// Another protocol.
    NotTls(Foreign),
    /// TLS records, but not a well-formed ClientHello.
    Invalid(Invalid),
}

/// Looks at the bytes received so far, from the first byte of the connection.
///
/// `limit` is the most bytes a hello may take on the wire, record headers included; one below [`SMALLEST_LIMIT`]
/// counts as that. Bytes after the hello's last record are not looked at. A message over several records is put
/// together, up to [`RECORD_COUNT_LIMIT`] of them.
///
/// **Cost**: some 6 ns for each record header; once whole, one pass over the message (0.7 µs for a post-quantum one).
/// Allocates only when whole, in proportion to the message: at worst 30 times its size, where it is a list of 1-byte
/// application protocols and nothing else.
/// **Source**: RFC 9846 §5.1 and §4.2.2; RFC 5246 §6.2.1 and §7.4.1.2.
pub fn peek(received: &[u8], limit: usize) -> Peek {
    match foreign::sort(received) {
        Sorted::Undecided => return Peek::Incomplete,
        Sorted::Foreign(foreign) => return Peek::NotTls(foreign),
        Sorted::Tls => {}
    }
    match find_message(received, limit.max(SMALLEST_LIMIT)) {
        Ok(None) => Peek::Incomplete,
        Ok(Some(span)) => match ClientHello::parse(&span.message(received)[MESSAGE_HEADER_LENGTH..]) {
            Ok(hello) => Peek::Complete(Box::new(ClientHello {
                length_on_wire: span.end,
                record_count: span.record_count,
                ..hello
            })),
            Err(invalid) => Peek::Invalid(invalid),
        },
        Err(refusal) => refusal,
    }
}

/// `client_hello` in RFC 9846 §4.
const CLIENT_HELLO: u8 = 1;

/// Range of a whole message: records from the first byte up to `end`.
struct Span {
    end: usize,
    record_count: usize,
}

impl Span {
    /// The message: lent when one record carries it, copied when several do.
    fn message<'a>(&self, received: &'a [u8]) -> Cow<'a, [u8]> {
        if self.record_count == 1 {
            return Cow::Borrowed(&received[HEADER_LENGTH..self.end]);
        }
        Cow::Owned(payloads(&received[..self.end]))
    }
}

/// Walks over the record headers, judging in the order of the bytes, so that more bytes never change a refusal.
fn find_message(received: &[u8], limit: usize) -> Result<Option<Span>, Peek> {
    let mut end = 0;
    let mut start = MessageStart::default();
    for record_count in 1..=RECORD_COUNT_LIMIT {
        let Some(header) = RecordHeader::parse(&received[end..]) else {
            return Ok(None);
        };
        check_header(header).map_err(Peek::Invalid)?;
        let payload_start = end + HEADER_LENGTH;
        end += header.length_on_wire();
        refuse_over(limit, end)?;
        start.take(&received[payload_start..end.min(received.len())]).map_err(Peek::Invalid)?;
        let carried = end - record_count * HEADER_LENGTH;
        if let Some(length) = start.message_length() {
            let headers = record_count + usize::from(carried < length);
            refuse_over(limit, length + headers * HEADER_LENGTH)?;
            if length > MESSAGE_HEADER_LENGTH + MESSAGE_LIMIT {
                return Err(Peek::TooLarge { announced: length + headers * HEADER_LENGTH });
            }
            if carried > length {
                return Err(Peek::Invalid(Invalid::BytesAfterHello { count: carried - length }));
            }
            if carried == length && received.len() >= end {
                return Ok(Some(Span { end, record_count }));
            }
        }
        if received.len() < end {
            return Ok(None);
        }
    }
    Err(Peek::Invalid(Invalid::TooManyRecords))
}

fn check_header(header: RecordHeader) -> Result<(), Invalid> {
    if header.content_type != ContentType::HANDSHAKE {
        return Err(Invalid::RecordType { content_type: header.content_type });
    }
    if header.version >> 8 != 3 {
        return Err(Invalid::RecordVersion { version: header.version });
    }
    match usize::from(header.length) {
        0 => Err(Invalid::RecordEmpty),
        1..=PLAINTEXT_LIMIT => Ok(()),
        _ => Err(Invalid::RecordTooLong { length: header.length }),
    }
}

const fn refuse_over(limit: usize, announced: usize) -> Result<(), Peek> {
    if announced > limit { Err(Peek::TooLarge { announced }) } else { Ok(()) }
}

/// The message's type and length, which may come a byte per record.
#[derive(Default)]
struct MessageStart {
    bytes: [u8; MESSAGE_HEADER_LENGTH],
    seen: usize,
}

impl MessageStart {
    /// Takes what it lacks from a record's payload.
    fn take(&mut self, payload: &[u8]) -> Result<(), Invalid> {
        for (slot, byte) in self.bytes[self.seen..].iter_mut().zip(payload) {
            *slot = *byte;
            self.seen += 1;
        }
        match self.bytes[0] {
            message_type if self.seen > 0 && message_type != CLIENT_HELLO => {
                Err(Invalid::MessageType { message_type })
            }
            _ => Ok(()),
        }
    }

    /// Bytes of the message, these four included.
    fn message_length(&self) -> Option<usize> {
        let [_, high, middle, low] = self.bytes;
        let body = u32::from_be_bytes([0, high, middle, low]) as usize;
        (self.seen == MESSAGE_HEADER_LENGTH).then_some(MESSAGE_HEADER_LENGTH + body)
    }
}
