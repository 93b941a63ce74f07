//! Streams of one connection: their states, what was received and not taken, what waits to be sent.
//!
//! In: ids that only grow. Out: the slot of a stream, or that it is closed or idle. A closed stream takes no memory.

use std::collections::VecDeque;

use super::frame::ErrorCode;
use super::head::HeadText;
use super::priority::Priority;
use crate::http1::Field;

/// A stream of a connection. A key of a stream that is gone names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKey {
    pub(super) slot: u16,
    pub(super) id: u32,
}

impl StreamKey {
    /// Returns the identifier on the wire.
    pub const fn id(self) -> u32 {
        self.id
    }
}

/// Reason why a stream carries nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The peer reset it.
    Reset(ErrorCode),
    /// The peer has not processed any of it (RFC 9113 §8.7).
    Refused,
    /// We reset it because of what the peer sent.
    Broken(ErrorCode, &'static str),
    /// Its connection ended.
    Lost,
}

/// A trailer section.
#[derive(Clone, Debug, Default)]
pub struct Trailers {
    /// The text that the fields refer to.
    pub text: Vec<u8>,
    /// All fields, in their order.
    pub fields: Vec<Field>,
}

/// End of a message.
#[derive(Clone, Debug)]
pub enum End {
    /// Without trailers.
    Plain,
    /// With these.
    Trailers(Box<Trailers>),
}

/// Bytes that are taken from the front.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    bytes: Vec<u8>,
    at: usize,
}

impl Bytes {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        // What was taken makes room, unless more would have to be moved than that.
        if self.at > 0 && self.bytes.len() + bytes.len() > self.bytes.capacity() && self.at >= self.len() {
            self.bytes.drain(..self.at);
            self.at = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.at += count;
        if self.is_empty() {
            self.bytes.clear();
            self.at = 0;
        }
    }

    /// Gives the memory back where it is large, or nothing more will come.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

/// One stream.
#[derive(Debug)]
pub(super) struct Slot<T> {
    pub(super) id: u32,
    /// Receives wakes; `None` until it is known.
    pub(super) owner: Option<T>,
    /// The peer has ended its direction.
    pub(super) has_received_end: bool,
    /// Our end is in the outbox.
    pub(super) has_sent_end: bool,
    pub(super) end: Option<StreamEnd>,

    /// Bytes that the peer may still send.
    pub(super) receive_window: i64,
    /// Bytes that were taken and for which it has no credit yet.
    pub(super) taken: u32,
    /// Content that was received and not taken.
    pub(super) inbox: Bytes,
    /// Bytes of content that have come, and that must come by the length in the head.
    pub(super) received: u64,
    pub(super) expected: Option<u64>,
    pub(super) trailers: Option<Box<HeadText>>,
    /// True if the head of a final response has come.
    pub(super) has_final_head: bool,
    /// Heads of responses that were not taken, and true where the stream ended with it.
    pub(super) heads: VecDeque<(Box<HeadText>, bool)>,

    /// Bytes that we may send.
    pub(super) send_window: i64,
    /// Content that waits for a window or for room.
    pub(super) queue: Bytes,
    /// The end that follows the queue.
    pub(super) queued_end: Option<End>,
    pub(super) is_scheduled: bool,
    /// Its owner waits for room.
    pub(super) waits_for_room: bool,
    pub(super) priority: Priority,
}

impl<T> Slot<T> {
    pub(super) fn new(id: u32, receive_window: u32, send_window: i64) -> Self {
        Self {
            id,
            owner: None,
            has_received_end: false,
            has_sent_end: false,
            end: None,
            receive_window: i64::from(receive_window),
            taken: 0,
            inbox: Bytes::default(),
            received: 0,
            expected: None,
            trailers: None,
            has_final_head: false,
            heads: VecDeque::new(),
            send_window,
            queue: Bytes::default(),
            queued_end: None,
            is_scheduled: false,
            waits_for_room: false,
            priority: Priority::default(),
        }
    }

    /// Returns what is wrong about the length of its content (RFC 9113 §8.1.1). `is_last`: nothing follows.
    pub(super) fn length_fault(&self, is_last: bool) -> Option<&'static str> {
        match self.expected? {
            expected if self.received > expected => Some("more content than Content-Length"),
            expected if is_last && self.received < expected => Some("less content than Content-Length"),
            _ => None,
        }
    }

    /// Returns true if something waits to be sent that its window permits.
    pub(super) fn can_send(&self) -> bool {
        self.end.is_none()
            && if self.queue.is_empty() { self.queued_end.is_some() } else { self.send_window > 0 }
    }
}

/// All open streams.
#[derive(Debug)]
pub(super) struct Streams<T> {
    slots: Vec<Option<Box<Slot<T>>>>,
    free: Vec<u16>,
    /// Open ids in ascending order, each with its slot.
    index: Vec<(u32, u16)>,
}

impl<T> Default for Streams<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), index: Vec::new() }
    }
}

impl<T> Streams<T> {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Adds a stream, whose id must be greater than all before; `None`: there is no place for it.
    pub(super) fn insert(&mut self, slot: Slot<T>) -> Option<StreamKey> {
        let id = slot.id;
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                let place = u16::try_from(self.slots.len()).ok()?;
                self.slots.push(None);
                place
            }
        };
        self.slots[place as usize] = Some(Box::new(slot));
        self.index.push((id, place));
        Some(StreamKey { slot: place, id })
    }

    pub(super) fn find(&self, id: u32) -> Option<StreamKey> {
        let at = self.index.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(StreamKey { slot: self.index[at].1, id })
    }

    pub(super) fn get(&self, key: StreamKey) -> Option<&Slot<T>> {
        self.slots.get(key.slot as usize)?.as_deref().filter(|slot| slot.id == key.id)
    }

    pub(super) fn get_mut(&mut self, key: StreamKey) -> Option<&mut Slot<T>> {
        self.slots.get_mut(key.slot as usize)?.as_deref_mut().filter(|slot| slot.id == key.id)
    }

    pub(super) fn remove(&mut self, key: StreamKey) {
        let Ok(at) = self.index.binary_search_by_key(&key.id, |(id, _)| *id) else { return };
        self.index.remove(at);
        self.slots[key.slot as usize] = None;
        self.free.push(key.slot);
        if self.index.is_empty() {
            // An idle connection owns no memory for streams.
            *self = Self::default();
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = StreamKey> + use<T> {
        self.index.clone().into_iter().map(|(id, slot)| StreamKey { slot, id })
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<T>> {
        self.slots.iter_mut().flatten().map(|slot| &mut **slot)
    }
}
