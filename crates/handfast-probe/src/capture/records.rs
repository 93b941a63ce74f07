//! One direction of a TLS connection in a capture: its records, and their unencrypted messages.
//!
//! In: bytes in their order, and how many are missing. Out: what was [`Found`]. At most [`MAX_HELLO_BYTES`] bytes of a message are kept,
//! and only until it is complete.

use handfast_wire::alert::AlertDescription;
use handfast_wire::record::{ContentType, HEADER_LENGTH, RecordHeader};
use handfast_wire::{ClientHello, ServerHello};

/// Most bytes of a hello: those of browsers have some two thousand.
const MAX_HELLO_BYTES: usize = 16 << 10;
/// Most bytes of an encrypted record (RFC 5246 §6.2.3; fewer in TLS 1.3).
const MAX_RECORD_BYTES: u16 = (16 << 10) + 2048;

/// Items that a direction contains.
#[derive(Debug)]
pub(super) enum Found {
    ClientHello(Box<ClientHello>),
    ServerHello(ServerHello),
    /// Bytes of the message.
    Certificate(usize),
    ChangeCipherSpec,
    /// In the clear.
    Alert(AlertDescription),
    /// A record of this type, and how long it is.
    Encrypted(ContentType, usize),
    /// The records cannot be followed from here on.
    Lost,
}

/// State of reading the records of a direction.
#[derive(Debug, Default)]
pub(super) struct Records {
    header: [u8; HEADER_LENGTH],
    have: usize,
    kind: u8,
    length: usize,
    left: usize,
    alert: [u8; 2],
    message: Message,
    /// ChangeCipherSpec came: what follows is encrypted.
    encrypted: bool,
    /// A second hello follows, whatever ChangeCipherSpec says (RFC 9846 §D.4).
    pub(super) hello_follows: bool,
    pub(super) lost: bool,
}

/// The handshake message that is being read.
#[derive(Debug, Default)]
struct Message {
    header: [u8; 4],
    have: usize,
    left: usize,
    body: Vec<u8>,
}

impl Records {
    /// Bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.message.body.capacity()
    }

    /// Follows it no further.
    pub(super) fn forget(&mut self) {
        self.lost = true;
        self.message = Message::default();
    }

    /// Takes in the next bytes.
    pub(super) fn take(&mut self, mut bytes: &[u8], found: &mut Vec<Found>) {
        while !bytes.is_empty() && !self.lost {
            if self.have < HEADER_LENGTH {
                self.header[self.have] = bytes[0];
                self.have += 1;
                bytes = &bytes[1..];
                if self.have == HEADER_LENGTH {
                    self.begin(found);
                }
                continue;
            }
            let (body, rest) = bytes.split_at(self.left.min(bytes.len()));
            bytes = rest;
            self.body(body, found);
        }
    }

    /// Skips this number of missing bytes. Where they belong to a body that is not read, nothing is lost.
    pub(super) fn miss(&mut self, mut bytes: usize, found: &mut Vec<Found>) {
        let reads = self.kind == ContentType::HANDSHAKE.0 && self.in_clear();
        let here = if self.have == HEADER_LENGTH && !reads { self.left.min(bytes) } else { 0 };
        self.left -= here;
        bytes -= here;
        if here > 0 && self.left == 0 {
            self.have = 0;
        }
        if bytes > 0 && !self.lost {
            self.forget();
            found.push(Found::Lost);
        }
    }

    fn in_clear(&self) -> bool {
        !self.encrypted || self.hello_follows
    }

    fn begin(&mut self, found: &mut Vec<Found>) {
        let header = RecordHeader::parse(&self.header).expect("five bytes are there");
        let known =
            (ContentType::CHANGE_CIPHER_SPEC.0..=ContentType::HEARTBEAT.0).contains(&header.content_type.0);
        if !known || header.version >> 8 != 3 || header.length > MAX_RECORD_BYTES {
            self.forget();
            found.push(Found::Lost);
            return;
        }
        self.kind = header.content_type.0;
        self.length = header.length.into();
        self.left = self.length;
        match header.content_type {
            ContentType::CHANGE_CIPHER_SPEC => {
                self.encrypted = true;
                found.push(Found::ChangeCipherSpec);
            }
            ContentType::HANDSHAKE if self.in_clear() => {}
            ContentType::ALERT if self.length == self.alert.len() => {}
            kind => found.push(Found::Encrypted(kind, self.length)),
        }
        if self.left == 0 {
            self.have = 0;
        }
    }

    fn body(&mut self, body: &[u8], found: &mut Vec<Found>) {
        let at = self.length - self.left;
        self.left -= body.len();
        match ContentType(self.kind) {
            ContentType::HANDSHAKE if self.in_clear() => self.message.take(body, found),
            ContentType::ALERT if self.length == self.alert.len() => {
                self.alert[at..at + body.len()].copy_from_slice(body);
                if self.left == 0 {
                    found.push(Found::Alert(AlertDescription(self.alert[1])));
                }
            }
            _ => {}
        }
        if self.left == 0 {
            self.have = 0;
        }
    }
}

impl Message {
    const CLIENT_HELLO: u8 = 1;
    const SERVER_HELLO: u8 = 2;
    const CERTIFICATE: u8 = 11;

    fn take(&mut self, mut bytes: &[u8], found: &mut Vec<Found>) {
        while !bytes.is_empty() {
            if self.have < self.header.len() {
                self.header[self.have] = bytes[0];
                self.have += 1;
                bytes = &bytes[1..];
                if self.have < self.header.len() {
                    continue;
                }
                let [kind, high, middle, low] = self.header;
                self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
                if kind == Self::CERTIFICATE {
                    found.push(Found::Certificate(self.left));
                }
            }
            let (body, rest) = bytes.split_at(self.left.min(bytes.len()));
            bytes = rest;
            self.left -= body.len();
            let hello = matches!(self.header[0], Self::CLIENT_HELLO | Self::SERVER_HELLO);
            if hello && self.body.len() + body.len() <= MAX_HELLO_BYTES {
                self.body.extend_from_slice(body);
            }
            if self.left == 0 {
                self.end(found);
            }
        }
    }

    fn end(&mut self, found: &mut Vec<Found>) {
        let whole = std::mem::take(self);
        let read = match whole.header[0] {
            Self::CLIENT_HELLO => {
                ClientHello::parse(&whole.body).map(|hello| Found::ClientHello(Box::new(hello)))
            }
            Self::SERVER_HELLO => ServerHello::parse(&whole.body).map(Found::ServerHello),
            _ => return,
        };
        // A message that is malformed, or too long to keep, is ignored.
        found.extend(read.ok());
    }
}
