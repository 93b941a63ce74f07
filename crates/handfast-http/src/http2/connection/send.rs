//! Sending on a stream: heads at once, in the order in which they are encoded; content as far as windows and the outbox permit, the rest in
//! the stream's queue.

use super::super::frame::{ErrorCode, FrameHead, flag, kind};
use super::super::guard::{Deed, TINY};
use super::super::head::{HeadText, encode_request, encode_response, encode_trailers};
use super::super::streams::{End, StreamEnd, StreamKey, Trailers};
use super::{Connection, MAX_FRAME, MAX_HEADS_WAITING, MAX_QUEUED, MIN_PIECE, OUTBOX, QUEUE_BUDGET, Role};
use crate::http1::{Field, RequestHead, ResponseHead};

/// Frames of a response that may come for a stream that a client has reset: a head, and its content in the smallest window.
const LATE_FRAMES: u16 = 6;

/// A response's head, as it is to be sent.
#[derive(Clone, Copy, Debug)]
pub struct ResponseParts<'a> {
    /// Its fields.
    pub head: &'a ResponseHead<'a>,
    /// The status, which may be another one than that of the head.
    pub status: u16,
    /// The length that it announces.
    pub length: Option<u64>,
    /// True if its stream ends with it.
    pub is_last: bool,
}

impl<T: Copy + PartialEq> Connection<T> {
    /// Names the owner of a stream, which is woken from now on.
    pub fn set_owner(&mut self, key: StreamKey, owner: T) {
        if let Some(slot) = self.streams.get_mut(key) {
            slot.owner = Some(owner);
        }
    }

    /// Returns true if a client can begin a stream now.
    pub fn can_open(&self) -> bool {
        !self.begins_no_more()
            && self.streams.len() < self.peer_streams as usize
            && self.outbox.len() < MAX_HEADS_WAITING
    }

    /// Returns true if a client can begin a stream now; if not, this owner is woken when that may have changed.
    pub fn can_open_for(&mut self, owner: T) -> bool {
        let can_open = self.can_open();
        if can_open {
            self.waiting.retain(|waiting| *waiting != owner);
        } else if !self.waiting.contains(&owner) {
            self.waiting.push_back(owner);
        }
        can_open
    }

    /// An owner waits for a place no more; if one was meant for it, the next owner is woken.
    pub fn stop_waiting(&mut self, owner: T) {
        self.waiting.retain(|waiting| *waiting != owner);
        if self.can_open() {
            self.woken.extend(self.waiting.front());
        }
    }

    /// Begins a stream with a request; `None`: it cannot, see [`can_open`](Self::can_open).
    pub fn open(
        &mut self,
        owner: T,
        head: &RequestHead<'_>,
        scheme: &str,
        is_last: bool,
    ) -> Option<StreamKey> {
        if self.settings.role != Role::Client || !self.can_open() {
            return None;
        }
        let key = self.insert(if self.last_id == 0 { 1 } else { self.last_id + 2 })?;
        let slot = self.streams.get_mut(key)?;
        slot.owner = Some(owner);
        slot.has_sent_end = is_last;
        let at = self.begin_headers();
        encode_request(&mut self.outbox, &mut self.encoder, head, scheme);
        self.end_headers(at, key.id, is_last);
        Some(key)
    }

    /// Sends the head of a response; of several, only the last one is final.
    pub fn respond<'f>(
        &mut self,
        key: StreamKey,
        ResponseParts { head, status, length, is_last }: ResponseParts<'_>,
        drops: impl FnMut(&Field) -> bool,
        added: impl Iterator<Item = (&'f str, &'f [u8])>,
    ) {
        let Some(slot) = self.streams.get_mut(key).filter(|slot| slot.end.is_none() && !slot.has_sent_end)
        else {
            return;
        };
        slot.has_sent_end = is_last;
        let at = self.begin_headers();
        encode_response(&mut self.outbox, &mut self.encoder, head, status, length, drops, added);
        self.end_headers(at, key.id, is_last);
    }

    /// Sends content, and the end of the message. What windows or the outbox do not permit waits in the stream's queue.
    ///
    /// **Errors**: why the stream carries nothing more.
    pub fn send(
        &mut self,
        key: StreamKey,
        mut content: &[u8],
        mut end: Option<End>,
    ) -> Result<(), StreamEnd> {
        let Some(slot) = self.streams.get_mut(key) else { return Err(StreamEnd::Lost) };
        if let Some(end) = slot.end {
            return Err(end);
        }
        if slot.has_sent_end {
            return Ok(());
        }
        let is_first = slot.queue.is_empty() && slot.queued_end.is_none() && self.scheduled.is_empty();
        while is_first && !content.is_empty() {
            let most = self.piece(key, content.len());
            if most == 0 {
                break;
            }
            let (piece, rest) = content.split_at(most);
            content = rest;
            let is_last = rest.is_empty() && matches!(end, Some(End::Plain));
            self.write_data(key, piece, is_last);
            if is_last {
                end = None;
            }
        }
        if content.is_empty() && is_first {
            if let Some(end) = end {
                self.write_end(key, end);
            }
            return Ok(());
        }
        if let Some(slot) = self.streams.get_mut(key) {
            slot.queue.push(content);
            slot.queued_end = end.or(slot.queued_end.take());
            self.queued += content.len();
        }
        self.schedule(key);
        Ok(())
    }

    /// Returns the number of bytes of content that a DATA frame can have now.
    pub(super) fn piece(&self, key: StreamKey, content: usize) -> usize {
        if self.outbox.len() >= OUTBOX {
            return 0;
        }
        let window = self.streams.get(key).map_or(0, |slot| slot.send_window).min(self.send_window);
        content.min(MAX_FRAME as usize).min(usize::try_from(window).unwrap_or(0))
    }

    /// Writes a DATA frame that its windows permit.
    pub(super) fn write_data(&mut self, key: StreamKey, content: &[u8], is_last: bool) {
        let Some(slot) = self.streams.get_mut(key) else { return };
        let length = content.len() as u32;
        slot.send_window -= i64::from(length);
        slot.has_sent_end |= is_last;
        let window = slot.send_window;
        self.send_window -= i64::from(length);
        let flags = if is_last { flag::END_STREAM } else { 0 };
        FrameHead { length, kind: kind::DATA, flags, stream: key.id }.write(&mut self.outbox);
        self.outbox.extend_from_slice(content);
        // Its reader updates two windows for it, unless these open byte by byte, and may measure round trips by it.
        let is_cut = window <= 0 || self.send_window <= 0;
        if content.len() >= TINY || !is_cut {
            self.guard.permit(Deed::WindowUpdate, 4);
        }
        self.guard.permit(Deed::Ping, 1);
    }

    /// Writes the end of a message whose content was written.
    pub(super) fn write_end(&mut self, key: StreamKey, end: End) {
        match end {
            End::Plain => self.write_data(key, b"", true),
            End::Trailers(trailers) => {
                let Trailers { text, fields } = &*trailers;
                if let Some(slot) = self.streams.get_mut(key) {
                    slot.has_sent_end = true;
                }
                let at = self.begin_headers();
                encode_trailers(&mut self.outbox, &mut self.encoder, text, fields);
                self.end_headers(at, key.id, true);
            }
        }
    }

    /// Makes room for the head of a HEADERS frame; its block is written behind it.
    fn begin_headers(&mut self) -> usize {
        let at = self.outbox.len();
        self.outbox.extend_from_slice(&[0; FrameHead::SIZE]);
        at
    }

    /// Completes the HEADERS frame that begins there, and CONTINUATION frames where its block is longer than one.
    fn end_headers(&mut self, at: usize, stream: u32, is_last: bool) {
        let block = at + FrameHead::SIZE;
        let most = MAX_FRAME as usize;
        let length = self.outbox.len() - block;
        let end_stream = if is_last { flag::END_STREAM } else { 0 };
        if length <= most {
            let flags = flag::END_HEADERS | end_stream;
            let head = FrameHead { length: length as u32, kind: kind::HEADERS, flags, stream };
            return self.outbox[at..block].copy_from_slice(&head.to_bytes());
        }
        let bytes = self.outbox.split_off(block);
        self.outbox.truncate(at);
        let mut rest = bytes.chunks(most).peekable();
        let (mut kind, mut flags) = (kind::HEADERS, end_stream);
        while let Some(part) = rest.next() {
            if rest.peek().is_none() {
                flags |= flag::END_HEADERS;
            }
            FrameHead { length: part.len() as u32, kind, flags, stream }.write(&mut self.outbox);
            self.outbox.extend_from_slice(part);
            (kind, flags) = (kind::CONTINUATION, 0);
        }
    }

    /// Returns true if more may be sent on a stream; if not, its owner is woken when it may. A stream that has ended accepts everything: the next
    /// call of [`send`](Self::send) returns why.
    pub fn accepts(&mut self, key: StreamKey) -> bool {
        let room = self.room(key);
        let is_stuck = self.outbox.len() >= 2 * OUTBOX;
        let Some(slot) = self.streams.get_mut(key) else { return true };
        if slot.end.is_some() || slot.has_sent_end {
            return true;
        }
        // Without a window one piece is taken ahead, by which the end of a message is seen that needs none.
        let has_window = slot.send_window > slot.queue.len() as i64;
        let accepts = !is_stuck && room > 0 && (slot.queue.is_empty() || has_window);
        slot.waits_for_room |= !accepts;
        accepts
    }

    /// Returns the number of bytes that a source should put at once.
    pub fn room(&self, key: StreamKey) -> usize {
        let Some(slot) = self.streams.get(key) else { return MAX_QUEUED };
        match slot.queue.len() {
            0 if slot.send_window <= 0 => MIN_PIECE,
            // Not byte by byte, when a stream has nearly all that it may have.
            own if self.queued < QUEUE_BUDGET && own <= MAX_QUEUED - MIN_PIECE => MAX_QUEUED - own,
            0 => MIN_PIECE,
            _ => 0,
        }
    }

    /// Returns true if content of the stream waits for its peer.
    pub fn is_full(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_some_and(|slot| !slot.queue.is_empty())
    }

    /// Returns true if the end of our message is in the outbox.
    pub fn is_done(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_none_or(|slot| slot.has_sent_end)
    }

    /// Returns the reason why a stream carries nothing more.
    pub fn end(&self, key: StreamKey) -> Option<StreamEnd> {
        self.streams.get(key).map_or(Some(StreamEnd::Lost), |slot| slot.end)
    }

    /// Returns the number of heads of responses that were not taken.
    pub fn heads(&self, key: StreamKey) -> usize {
        self.streams.get(key).map_or(0, |slot| slot.heads.len())
    }

    /// Takes the next head of a response that has come, and whether its stream ended with it.
    pub fn take_response_head(&mut self, key: StreamKey) -> Option<(Box<HeadText>, bool)> {
        self.streams.get_mut(key)?.heads.pop_front()
    }

    /// Takes the trailer section that has come, once.
    pub fn take_received_trailers(&mut self, key: StreamKey) -> Option<Box<HeadText>> {
        self.streams.get_mut(key)?.trailers.take()
    }

    /// Resets a stream that is not over, and forgets what waits to be sent on it.
    pub fn reset(&mut self, key: StreamKey, code: ErrorCode) {
        self.drop_queue(key);
        let Some(slot) = self.streams.get_mut(key) else { return };
        let is_over = slot.has_received_end && slot.has_sent_end;
        if slot.end.is_none() && !is_over {
            slot.end = Some(StreamEnd::Lost);
            self.write_reset(key.id, code);
        }
    }

    /// Its owner has no more use for it: what is not over is reset, with this code.
    pub fn release(&mut self, key: StreamKey, code: ErrorCode) {
        self.reset(key, code);
        if self.settings.role == Role::Client {
            // The server may have sent them before it receives the reset; and some reset a stream behind their response.
            self.guard.permit(Deed::Late, LATE_FRAMES);
        }
        let content = self.take_content(key);
        let count = content.as_slice().len();
        self.give_back(key, content, count);
        self.streams.remove(key);
        self.woken.extend(self.waiting.front());
    }

    /// Forgets what waits to be sent on a stream.
    pub(super) fn drop_queue(&mut self, key: StreamKey) {
        let Some(slot) = self.streams.get_mut(key) else { return };
        self.queued -= std::mem::take(&mut slot.queue).len();
        slot.queued_end = None;
    }
}
