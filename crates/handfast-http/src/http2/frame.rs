//! Frames: their heads, the lengths that each kind must have, settings, and the frames that carry no content.
//!
//! In: bytes of a connection. Out: a [`FrameHead`], or the fault of a frame before its payload is kept; and frames to send. HEADERS, DATA and
//! CONTINUATION are written by their owner with [`FrameHead::write`].
//!
//! **Source**: RFC 9113 §4 and §6, RFC 9218 §7.1.

mod error_code;
mod payload;

pub use error_code::ErrorCode;
pub use payload::{Settings, block_fragment, content};

/// First bytes that a client sends (RFC 9113 §3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Types of frames (RFC 9113 §6). Others must be ignored.
pub mod kind {
    /// Content.
    pub const DATA: u8 = 0x00;
    /// Head or trailer section.
    pub const HEADERS: u8 = 0x01;
    /// Priority by weights, which is obsolete.
    pub const PRIORITY: u8 = 0x02;
    /// End of a stream by an error.
    pub const RST_STREAM: u8 = 0x03;
    /// Settings of the connection.
    pub const SETTINGS: u8 = 0x04;
    /// Announcement of a response without a request.
    pub const PUSH_PROMISE: u8 = 0x05;
    /// Measurement of the round trip.
    pub const PING: u8 = 0x06;
    /// End of the connection.
    pub const GOAWAY: u8 = 0x07;
    /// Credit for content.
    pub const WINDOW_UPDATE: u8 = 0x08;
    /// Rest of a head.
    pub const CONTINUATION: u8 = 0x09;
    /// Priority by urgency (RFC 9218 §7.1).
    pub const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames (RFC 9113 §6). Others must be ignored.
pub mod flag {
    /// Of SETTINGS and PING: it answers one.
    pub const ACK: u8 = 0x01;
    /// Of HEADERS and DATA: the last frame of its side.
    pub const END_STREAM: u8 = 0x01;
    /// Of HEADERS, PUSH_PROMISE and CONTINUATION: the last one of its field block.
    pub const END_HEADERS: u8 = 0x04;
    /// Of HEADERS, DATA and PUSH_PROMISE: padding surrounds the payload.
    pub const PADDED: u8 = 0x08;
    /// Of HEADERS: five bytes of priority precede the field block.
    pub const PRIORITY: u8 = 0x20;
}

/// Identifiers of settings (RFC 9113 §6.5.2). Others must be ignored.
pub mod setting {
    /// Most bytes of the dynamic table for heads that the sender of the setting decodes.
    pub const HEADER_TABLE_SIZE: u16 = 0x01;
    /// 0: no PUSH_PROMISE.
    pub const ENABLE_PUSH: u16 = 0x02;
    /// Most streams at once that the receiver of the setting may open.
    pub const MAX_CONCURRENT_STREAMS: u16 = 0x03;
    /// Window of a new stream.
    pub const INITIAL_WINDOW_SIZE: u16 = 0x04;
    /// Most bytes of a payload.
    pub const MAX_FRAME_SIZE: u16 = 0x05;
    /// Most bytes of a head, 32 for each field included.
    pub const MAX_HEADER_LIST_SIZE: u16 = 0x06;
    /// 1: `:protocol` is understood (RFC 8441 §3).
    pub const ENABLE_CONNECT_PROTOCOL: u16 = 0x08;
    /// 1: priority by weights is ignored (RFC 9218 §2.1).
    pub const NO_WEIGHTED_PRIORITIES: u16 = 0x09;
}

/// Bits of a stream's identifier; the highest bit of four bytes is reserved and must be ignored.
const STREAM_BITS: u32 = 0x7FFF_FFFF;

/// The nine bytes in front of each payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload: 24 bits.
    pub length: u32,
    /// Type, see [`kind`].
    pub kind: u8,
    /// See [`flag`].
    pub flags: u8,
    /// Stream of the frame; 0: the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Bytes of a frame head.
    pub const SIZE: usize = 9;

    /// Reads a frame head. The reserved bit is left out.
    pub const fn parse(bytes: &[u8; Self::SIZE]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & STREAM_BITS,
        }
    }

    /// Returns the bytes of a frame head.
    pub const fn to_bytes(self) -> [u8; Self::SIZE] {
        let [_, a, b, c] = self.length.to_be_bytes();
        let [d, e, f, g] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, d, e, f, g]
    }

    /// Writes a frame head; the payload follows.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_bytes());
    }

    /// Returns true if the frame has this flag.
    pub const fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Checks the length of a frame by its kind, so that no payload of a wrong length is kept or waited for; `max` is our MAX_FRAME_SIZE.
    ///
    /// **Errors**: [`ErrorCode::FRAME_SIZE_ERROR`], for the connection or for the stream.
    /// **Source**: RFC 9113 §4.2 and §6; a frame that is too large ends the connection, although that of a stream need not.
    pub const fn check_length(self, max: u32) -> Result<(), FrameFault> {
        let length = self.length;
        let padding = self.has(flag::PADDED) as u32;
        let is_right = match self.kind {
            _ if length > max => false,
            kind::DATA => length >= padding,
            kind::HEADERS => length >= padding + if self.has(flag::PRIORITY) { 5 } else { 0 },
            kind::PRIORITY if length != 5 => return Err(FrameFault::Stream(ErrorCode::FRAME_SIZE_ERROR)),
            kind::RST_STREAM | kind::WINDOW_UPDATE => length == 4,
            kind::SETTINGS if self.has(flag::ACK) => length == 0,
            kind::SETTINGS => length.is_multiple_of(6),
            kind::PUSH_PROMISE => length >= padding + 4,
            kind::PING => length == 8,
            kind::GOAWAY => length >= 8,
            kind::PRIORITY_UPDATE => length >= 4,
            _ => true,
        };
        if is_right { Ok(()) } else { Err(FrameFault::Connection(ErrorCode::FRAME_SIZE_ERROR)) }
    }
}

/// Fault of a frame, and what it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameFault {
    /// The stream of the frame.
    Stream(ErrorCode),
    /// The connection.
    Connection(ErrorCode),
}

/// Writes SETTINGS with these settings.
pub fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    let length = settings.len() as u32 * 6;
    FrameHead { length, kind: kind::SETTINGS, flags: 0, stream: 0 }.write(out);
    for (id, value) in settings {
        out.extend_from_slice(&id.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

/// Writes the acknowledgement of SETTINGS.
pub fn write_settings_ack(out: &mut Vec<u8>) {
    FrameHead { length: 0, kind: kind::SETTINGS, flags: flag::ACK, stream: 0 }.write(out);
}

/// Writes WINDOW_UPDATE; `stream` 0: for the connection. An increment of 0 would be an error (RFC 9113 §6.9).
pub fn write_window_update(out: &mut Vec<u8>, stream: u32, increment: u32) {
    debug_assert!((1..=STREAM_BITS).contains(&increment), "{increment}");
    write_number(out, kind::WINDOW_UPDATE, stream, increment);
}

/// Writes RST_STREAM.
pub fn write_rst_stream(out: &mut Vec<u8>, stream: u32, code: ErrorCode) {
    write_number(out, kind::RST_STREAM, stream, code.0);
}

/// Writes GOAWAY; `last` is the last stream that was or may be served, `debug` a text for people.
pub fn write_goaway(out: &mut Vec<u8>, last: u32, code: ErrorCode, debug: &str) {
    FrameHead { length: 8 + debug.len() as u32, kind: kind::GOAWAY, flags: 0, stream: 0 }.write(out);
    out.extend_from_slice(&last.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(debug.as_bytes());
}

/// Writes PING, or its answer.
pub fn write_ping(out: &mut Vec<u8>, payload: [u8; 8], is_ack: bool) {
    let flags = if is_ack { flag::ACK } else { 0 };
    FrameHead { length: 8, kind: kind::PING, flags, stream: 0 }.write(out);
    out.extend_from_slice(&payload);
}

fn write_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    FrameHead { length: 4, kind, flags: 0, stream }.write(out);
    out.extend_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
mod tests;
