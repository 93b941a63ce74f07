//! A connection of HTTP/2, in either role: bytes in, streams and bytes out, without I/O.
//!
//! In: what a read brought ([`Connection::receive`]), and what streams send. Out: the heads of new streams; content, trailers and resets of each
//! stream, which its owner takes; and the [outbox](Connection::take_output): frames in the order in which they were made.
//!
//! **How it is driven.** One task owns the socket: it gives everything that it reads to `receive`, and sends the outbox when all streams that
//! were woken have had their turn. So responses of one turn share a TLS record and a system call, and nothing waits for a timer. A stream's
//! owner is woken ([`Connection::take_woken`]) when something changed for it; it looks, and need not find anything.
//!
//! | I want to … | open |
//! |---|---|
//! | see how bytes become frames | `connection/receive.rs` |
//! | see what a frame does | `connection/frames.rs`, `connection/heads.rs` |
//! | take content, and know who gets credit when | `connection/content.rs` |
//! | send | `connection/send.rs`, `connection/outbox.rs` |
//! | see what a peer may do for nothing | `guard.rs` |
//!
//! **Bounds.** Content that was received and not taken: [`Settings::budget`]. Content that waits to be sent: [`QUEUE_BUDGET`], and [`MIN_PIECE`] for
//! each stream beyond it. The outbox: [`OUTBOX`], one frame, and control frames up to [`MAX_CONTROL`]. Heads: the caller's limits. Deeds: `guard.rs`.
//!
//! **Source**: RFC 9113; RFC 8441; RFC 9218.

mod content;
mod frames;
mod heads;
mod outbox;
mod reading;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use super::frame::{self, ErrorCode, FrameHead, PREFACE, setting};
use super::guard::{Deed, Guard, Verdict};
use super::hpack::{Decoder, Encoder};
use super::streams::{Slot, StreamEnd, StreamKey, Streams};
use crate::http1::HeadLimits;

pub use content::Content;
use reading::{Block, Reading};
pub use send::ResponseParts;

/// Usual [`Settings::budget`].
pub const RECEIVE_BUDGET: u32 = 2_097_152;
/// Window of a stream for an owner that cannot always take its content at once: a proxy.
pub const STREAM_WINDOW: u32 = 65_536;
/// Bytes of the budget that a stream which alone carries content leaves, so that others do not wait for it.
const FOR_OTHERS: u32 = 4 * STREAM_WINDOW;
/// Content of all streams together that waits to be sent, beside the outbox.
pub const QUEUE_BUDGET: usize = 262_144;
/// Content of one stream that waits to be sent.
const MAX_QUEUED: usize = 65_536;
/// Content that a stream without any may put beyond [`QUEUE_BUDGET`].
pub const MIN_PIECE: usize = 8_192;
/// Bytes of a full outbox: what one turn sends with one system call, in as few records as it takes.
pub const OUTBOX: usize = 65_536;
/// Bytes of the outbox beyond which a client opens no stream: its server does not read, and each head would add to it.
const MAX_HEADS_WAITING: usize = 4 * OUTBOX;
/// Bytes of frames without content that wait for a peer that does not read; with more the connection ends.
pub const MAX_CONTROL: usize = 65_536;
/// Largest payload of a frame, in both directions (RFC 9113 §6.5.2).
pub(super) const MAX_FRAME: u32 = 16_384;
/// Bytes of a header block for each frame behind its first one, on average: Tomcat begins a frame for each 1,024, and leaves it as soon as a
/// field has no room in it.
const MIN_CONTINUATION: usize = 256;
/// Frames of one header block beyond that.
const MAX_CONTINUATIONS: usize = 8;
/// Heads of one stream that were not taken, interim ones for the most part, and their bytes.
const MAX_HEADS: usize = 96;
const MAX_HEAD_BYTES: usize = 262_144;
/// Streams that we reset last: frames for them are on their way.
const RECENT_RESETS: usize = 16;
const MAX_WINDOW: i64 = 0x7FFF_FFFF;
/// Streams that a client opens before it has the server's limit (RFC 9113 §6.5.2 has none).
const FIRST_STREAMS: u32 = 100;

/// Side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It answers requests.
    Server,
    /// It sends requests.
    Client,
}

/// Settings of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The side that this end is on.
    pub role: Role,
    /// Most streams that are open at once: of a server, what its client may have; of a client, its own, whatever the server permits.
    pub streams: u32,
    /// Window of each stream until its content is taken, which the peer receives in SETTINGS: [`STREAM_WINDOW`], or up to the budget where content
    /// is always taken at once.
    pub window: u32,
    /// Content of all streams together that is received before it is taken, and the window of the connection; at least 512 KiB.
    pub budget: u32,
    /// Limits for heads and trailer sections of the peer.
    pub head: HeadLimits,
}

/// A request that has come, with its head in the caller's [`HeadText`](super::HeadText).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewStream {
    /// Its stream.
    pub key: StreamKey,
    /// True if no content follows.
    pub has_ended: bool,
}

/// Reason why a connection carries nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionError {
    /// The code that the peer receives.
    pub code: ErrorCode,
    /// The reason, for the log.
    pub detail: &'static str,
}

/// Progress of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goodbye {
    /// Streams begin.
    None,
    /// The peer was asked to begin no more; those on their way are served (RFC 9113 §6.8).
    Announced,
    /// The last stream that is served was named.
    Final,
}

/// A connection of HTTP/2. `T` names the owner of a stream, which is woken.
#[derive(Debug)]
pub struct Connection<T> {
    settings: Settings,
    // Receiving.
    reading: Reading,
    /// Bytes of the preface that must still come.
    preface_left: u8,
    has_peer_settings: bool,
    /// An incomplete frame, and the header block before its CONTINUATION.
    partial: Vec<u8>,
    block: Block,
    decoder: Decoder,
    /// The greatest id of a stream that the peer, or this client, has begun.
    last_id: u32,
    receive_window: i64,
    taken: u32,
    // Sending.
    encoder: Encoder,
    outbox: Vec<u8>,
    /// Bytes in it of answers and resets that the peer's frames have caused.
    control: usize,
    send_window: i64,
    initial_send_window: u32,
    peer_streams: u32,
    /// Owners of requests that wait for a place, each once; the first one is woken for the next place.
    waiting: std::collections::VecDeque<T>,
    /// Content of all streams that waits.
    queued: usize,
    /// Streams that can send, in the order of their turns.
    scheduled: std::collections::VecDeque<StreamKey>,
    // Both.
    streams: Streams<T>,
    woken: Vec<T>,
    recent_resets: [u32; RECENT_RESETS],
    guard: Guard,
    goodbye: Goodbye,
    /// The last stream that we serve, once it was named.
    last_served: Option<u32>,
    /// The last stream that the peer serves, if it goes away.
    peer_last: Option<u32>,
    /// Reason why nothing more is received.
    error: Option<ConnectionError>,
}

impl<T: Copy + PartialEq> Connection<T> {
    /// A connection on which nothing was sent or received.
    pub fn new(settings: Settings) -> Self {
        let is_server = settings.role == Role::Server;
        let mut connection = Self {
            settings,
            reading: Reading::Frame,
            preface_left: if is_server { PREFACE.len() as u8 } else { 0 },
            has_peer_settings: false,
            partial: Vec::new(),
            block: Block::default(),
            decoder: Decoder::default(),
            last_id: 0,
            receive_window: i64::from(settings.budget),
            taken: 0,
            encoder: Encoder::default(),
            outbox: Vec::new(),
            control: 0,
            send_window: 65_535,
            initial_send_window: 65_535,
            peer_streams: FIRST_STREAMS.min(settings.streams),
            waiting: std::collections::VecDeque::new(),
            queued: 0,
            scheduled: std::collections::VecDeque::new(),
            streams: Streams::default(),
            woken: Vec::new(),
            recent_resets: [0; RECENT_RESETS],
            guard: Guard::new(),
            goodbye: Goodbye::None,
            last_served: None,
            peer_last: None,
            error: None,
        };
        connection.begin();
        connection
    }

    /// Our preface (RFC 9113 §3.4).
    fn begin(&mut self) {
        let list = u32::try_from(self.settings.head.head).unwrap_or(u32::MAX);
        if self.settings.role == Role::Client {
            self.outbox.extend_from_slice(PREFACE);
            frame::write_settings(
                &mut self.outbox,
                &[
                    (setting::ENABLE_PUSH, 0),
                    (setting::INITIAL_WINDOW_SIZE, self.settings.window),
                    (setting::MAX_HEADER_LIST_SIZE, list),
                ],
            );
        } else {
            frame::write_settings(
                &mut self.outbox,
                &[
                    (setting::MAX_CONCURRENT_STREAMS, self.settings.streams),
                    (setting::INITIAL_WINDOW_SIZE, self.settings.window),
                    (setting::MAX_HEADER_LIST_SIZE, list),
                    (setting::ENABLE_CONNECT_PROTOCOL, 1),
                    (setting::NO_WEIGHTED_PRIORITIES, 1),
                ],
            );
        }
        frame::write_window_update(&mut self.outbox, 0, self.settings.budget - 65_535);
    }

    /// Returns the number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Returns the reason why nothing more is received.
    pub fn error(&self) -> Option<ConnectionError> {
        self.error
    }

    /// Returns true once the peer's settings have come.
    pub fn has_begun(&self) -> bool {
        self.has_peer_settings
    }

    /// Returns true if no stream is open, and no further one can begin.
    pub fn is_over(&self) -> bool {
        let is_closed = self.error.is_some() || self.goodbye == Goodbye::Final || self.peer_last.is_some();
        is_closed && self.streams.len() == 0
    }

    /// Returns true if no further stream begins: either end goes away, the connection has failed, or a client has no number left.
    pub fn begins_no_more(&self) -> bool {
        self.error.is_some()
            || self.goodbye != Goodbye::None
            || self.peer_last.is_some()
            || i64::from(self.last_id) + 2 > MAX_WINDOW
    }

    /// Takes the owners of streams for which something has changed.
    pub fn take_woken(&mut self) -> std::vec::Drain<'_, T> {
        self.woken.drain(..)
    }

    /// Returns true if an owner has to be woken.
    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    fn wake(&mut self, key: StreamKey) {
        if let Some(owner) = self.streams.get(key).and_then(|slot| slot.owner) {
            self.woken.push(owner);
        }
    }

    fn wake_all(&mut self) {
        self.woken.extend(self.waiting.drain(..));
        for key in self.streams.keys() {
            self.wake(key);
        }
    }

    /// Asks the peer to begin no more streams; those that it has begun meanwhile are served.
    pub fn begin_goodbye(&mut self) {
        if self.goodbye == Goodbye::None {
            self.goodbye = Goodbye::Announced;
            self.woken.extend(self.waiting.drain(..));
            frame::write_goaway(&mut self.outbox, 0x7FFF_FFFF, ErrorCode::NO_ERROR, "");
            frame::write_ping(&mut self.outbox, GOODBYE_PING, false);
        }
    }

    /// Names the last stream that is served.
    pub fn end_goodbye(&mut self) {
        if self.goodbye != Goodbye::Final {
            self.goodbye = Goodbye::Final;
            self.write_goaway(ErrorCode::NO_ERROR);
        }
    }

    /// Ends the connection for this reason: the peer receives it, and nothing more is received.
    pub fn fail(&mut self, code: ErrorCode, detail: &'static str) -> ConnectionError {
        let error = ConnectionError { code, detail };
        if self.error.is_none() {
            self.error = Some(error);
            self.goodbye = Goodbye::Final;
            self.write_goaway(code);
            self.lose_streams();
        }
        error
    }

    /// The transport ended: no stream carries anything more.
    pub fn lose_streams(&mut self) {
        for slot in self.streams.iter_mut() {
            let is_whole = slot.has_received_end && slot.has_sent_end;
            if slot.end.is_none() && !is_whole {
                slot.end = Some(StreamEnd::Lost);
            }
        }
        self.wake_all();
    }

    fn write_goaway(&mut self, code: ErrorCode) {
        let last = if self.settings.role == Role::Server { self.last_id } else { 0 };
        // A second one must not name a later one (RFC 9113 §6.8).
        frame::write_goaway(&mut self.outbox, *self.last_served.get_or_insert(last), code, "");
    }

    /// Counts a deed of the peer.
    ///
    /// **Errors**: a bound is reached.
    fn note(&mut self, deed: Deed, now: u64) -> Result<(), ConnectionError> {
        match self.guard.note(deed, now) {
            Verdict::Fine => {}
            Verdict::Suspicious => self.begin_goodbye(),
            Verdict::Abusive(detail) => return Err(self.fail(ErrorCode::ENHANCE_YOUR_CALM, detail)),
        }
        Ok(())
    }

    /// Resets a stream because of what the peer sent on it.
    fn break_stream(
        &mut self,
        key: StreamKey,
        code: ErrorCode,
        detail: &'static str,
        now: u64,
    ) -> Result<(), ConnectionError> {
        if let Some(slot) = self.streams.get_mut(key)
            && slot.end.is_none()
        {
            slot.end = Some(StreamEnd::Broken(code, detail));
            self.wake(key);
            self.write_reset(key.id, code);
        }
        self.note(Deed::Broken, now)
    }

    /// Resets a stream whose head is malformed (RFC 9113 §8.1.1), and forgets it. Where it is one too many, the connection ends, and the next
    /// call of [`receive`](Self::receive) returns the reason.
    pub fn refuse_malformed(&mut self, key: StreamKey, detail: &'static str, now: u64) {
        // The verdict is kept as the connection's error.
        let _ = self.break_stream(key, ErrorCode::PROTOCOL_ERROR, detail, now);
        self.release(key, ErrorCode::PROTOCOL_ERROR);
    }

    fn write_reset(&mut self, id: u32, code: ErrorCode) {
        frame::write_rst_stream(&mut self.outbox, id, code);
        self.control += FrameHead::SIZE + 4;
        self.recent_resets.rotate_right(1);
        self.recent_resets[0] = id;
    }

    /// Adds a stream.
    fn insert(&mut self, id: u32) -> Option<StreamKey> {
        self.last_id = id;
        self.streams.insert(Slot::new(id, self.settings.window, i64::from(self.initial_send_window)))
    }
}

/// The PING behind the first GOAWAY: its acknowledgement shows that the peer has received both.
const GOODBYE_PING: [u8; 8] = *b"goodbye\0";
