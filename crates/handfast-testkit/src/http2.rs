//! HTTP/2 by hand: frames as bytes, for what libraries do not send. In: a client or a stream after its handshake. Out: frames.

use crate::client::Client;

/// Type of a DATA frame (RFC 9113 §6.1).
pub const DATA: u8 = 0;
/// Type of a HEADERS frame (RFC 9113 §6.2).
pub const HEADERS: u8 = 1;
/// Type of an RST_STREAM frame (RFC 9113 §6.4).
pub const RST_STREAM: u8 = 3;
/// Type of a SETTINGS frame (RFC 9113 §6.5).
pub const SETTINGS: u8 = 4;
/// Type of a PING frame (RFC 9113 §6.7).
pub const PING: u8 = 6;
/// Type of a GOAWAY frame (RFC 9113 §6.8).
pub const GOAWAY: u8 = 7;
/// Flag of SETTINGS and PING.
pub const ACK: u8 = 1;
/// Flag of DATA and HEADERS.
pub const END_STREAM: u8 = 1;
/// Flag of HEADERS.
pub const END_HEADERS: u8 = 4;

/// A frame that was received.
pub struct Frame {
    /// Its type.
    pub kind: u8,
    /// Its flags.
    pub flags: u8,
    /// Its stream; 0: the connection.
    pub stream: u32,
    /// Its payload.
    pub payload: Vec<u8>,
}

impl Frame {
    /// The last stream of a GOAWAY.
    pub fn last_stream(&self) -> u32 {
        u32::from_be_bytes(self.payload[..4].try_into().expect("a GOAWAY has eight bytes and more"))
    }
}

/// A frame to send.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The preface, with these settings.
pub fn preface(settings: &[(u16, u32)]) -> Vec<u8> {
    let setting = |(name, value): &(u16, u32)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat();
    let settings: Vec<_> = settings.iter().flat_map(setting).collect();
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(SETTINGS, 0, 0, &settings)].concat()
}

/// A field as a literal that is not indexed (RFC 7541 §6.2.2), without Huffman coding.
pub fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    let text = |text: &[u8]| [&[u8::try_from(text.len()).expect("below 127")], text].concat();
    [vec![0], text(name), text(value)].concat()
}

/// The fields of a GET.
pub fn get(path: &str) -> Vec<u8> {
    let fields = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
    fields.iter().flat_map(|(name, value)| field(name.as_bytes(), value.as_bytes())).collect()
}

/// Receives the next frame.
pub fn receive(client: &mut Client) -> Frame {
    let head = client.read_exactly(9);
    let length = usize::from(head[1]) << 8 | usize::from(head[2]);
    let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Frame { kind: head[3], flags: head[4], stream, payload: client.read_exactly(length) }
}

/// Receives frames until one is of one of these kinds.
pub fn receive_one_of(client: &mut Client, kinds: &[u8]) -> Frame {
    std::iter::repeat_with(|| receive(client))
        .find(|frame| kinds.contains(&frame.kind))
        .expect("it is repeated without an end")
}
