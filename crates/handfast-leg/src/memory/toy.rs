//! A session in the place of TLS: framing, an end mark, alerts, and answers, without the cryptography.
//!
//! A record is a kind, the sender's tag, a length, and that number of bytes. The tag is the connection's: a record that
//! lands on another leg is noticed there.

use handfast_tls::buffer::Buffer;
use handfast_tls::session::{Agreed, Failure, FailureKind, Received, Session};

const HEAD: usize = 4;
const MAX_BLOCK_BYTES: usize = 16_384;

/// The kinds of records.
pub mod kind {
    /// Plaintext.
    pub const DATA: u8 = 0;
    /// The end mark.
    pub const CLOSE: u8 = 1;
    /// The sender ends, and not cleanly.
    pub const ALERT: u8 = 2;
    /// To be answered by [`ANSWER`].
    pub const ASK: u8 = 3;
    /// The answer to [`ASK`], or a ticket.
    pub const ANSWER: u8 = 4;
    /// Not allowed.
    pub const WRONG: u8 = 9;
}

/// A record's bytes.
pub fn record(kind: u8, tag: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("at most a record's length").to_be_bytes();
    [&[kind, tag, length[0], length[1]], bytes].concat()
}

/// The first record in `bytes`, and its length with its head.
pub fn first(bytes: &[u8]) -> Option<(u8, u8, &[u8], usize)> {
    let head = bytes.get(..HEAD)?;
    let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
    let body = bytes.get(HEAD..HEAD + length)?;
    Some((head[0], head[1], body, HEAD + length))
}

/// Our side of it.
#[derive(Debug, Default)]
pub struct Toy {
    tag: u8,
    kept: Vec<u8>,
    closed: bool,
    failed: bool,
}

impl Toy {
    /// A session whose records have this tag.
    pub fn new(tag: u8) -> Self {
        Self { tag, ..Self::default() }
    }

    fn fail(&mut self, outgoing: &mut Buffer, kind: FailureKind, alert: bool) -> Received {
        self.failed = true;
        if alert {
            outgoing.extend(&record(kind::ALERT, self.tag, b"!"));
        }
        Received { closed: false, failure: Some(Failure::new(kind, "toy")) }
    }
}

impl Session for Toy {
    fn receive(&mut self, incoming: &mut [u8], plaintext: &mut Buffer, outgoing: &mut Buffer) -> Received {
        assert!(incoming.starts_with(&self.kept), "what was kept must come first");
        assert!(!self.failed, "nothing is received after a failure");
        let mut rest = &incoming[..];
        let mut closed = false;
        while let Some((kind, tag, body, length)) = first(rest) {
            assert_eq!(tag, self.tag, "a record of another connection");
            rest = &rest[length..];
            match kind {
                kind::DATA => plaintext.extend(body),
                // Nothing behind the end mark counts.
                kind::CLOSE => {
                    closed = true;
                    rest = &[];
                }
                kind::ASK => outgoing.extend(&record(kind::ANSWER, self.tag, b"")),
                kind::ALERT => return self.fail(outgoing, FailureKind::Alert, false),
                _ => return self.fail(outgoing, FailureKind::Peer, true),
            }
        }
        self.kept = rest.to_vec();
        Received { closed, failure: None }
    }

    fn kept(&self) -> &[u8] {
        &self.kept
    }

    fn encrypt(&mut self, plaintext: &[u8], outgoing: &mut Buffer) -> Result<(), Failure> {
        assert!(!self.closed, "data behind close_notify");
        for piece in plaintext.chunks(MAX_BLOCK_BYTES) {
            outgoing.extend(&record(kind::DATA, self.tag, piece));
        }
        Ok(())
    }

    fn close(&mut self, outgoing: &mut Buffer) {
        if !self.closed {
            self.closed = true;
            outgoing.extend(&record(kind::CLOSE, self.tag, b""));
        }
    }

    fn is_established(&self) -> bool {
        true
    }

    fn agreed(&self) -> Agreed {
        Agreed::default()
    }
}
