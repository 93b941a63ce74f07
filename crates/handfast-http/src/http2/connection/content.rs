//! Content that comes: windows of the connection and its streams, and who gets credit when.
//!
//! A peer gets credit for content when its owner has passed it on, never before: a sink that takes nothing stops the source. A stream begins with
//! the window of [`Settings`](super::Settings); the first credit that it gets enlarges its window to its share of the connection's budget, so that one upload is not held
//! to 64 KiB for each round trip.

use super::super::frame::{self, ErrorCode, FrameHead, flag};
use super::super::guard::{Deed, TINY};
use super::super::streams::{Slot, StreamEnd, StreamKey};
use super::reading::Reading;
use super::{Connection, ConnectionError, FOR_OTHERS, Role, STREAM_WINDOW};

impl<T: Copy + PartialEq> Connection<T> {
    /// Begins a DATA frame. `padding`: its Pad Length, if it has one.
    pub(super) fn begin_data(
        &mut self,
        head: &FrameHead,
        padding: Option<u8>,
        now: u64,
    ) -> Result<(), ConnectionError> {
        let id = head.stream;
        if id == 0 || self.is_idle(id) {
            return Err(self.fail(ErrorCode::PROTOCOL_ERROR, "DATA for a stream that has not begun"));
        }
        self.receive_window -= i64::from(head.length);
        if self.receive_window < 0 {
            return Err(self.fail(ErrorCode::FLOW_CONTROL_ERROR, "DATA beyond the window of the connection"));
        }
        let own = padding.map_or(0, |_| 1);
        let Some(content) = (head.length - own).checked_sub(u32::from(padding.unwrap_or(0))) else {
            return Err(self.fail(ErrorCode::PROTOCOL_ERROR, "more padding than payload"));
        };
        let is_last = head.has(flag::END_STREAM);
        let stream = self.stream_of_data(head, content, is_last, now)?;
        let padding = head.length - own - content;
        // Padding has no owner that could take it, so it is credited at once.
        self.credit(stream, own + padding);
        if stream.is_none() {
            self.credit(None, content);
        }
        self.note_size(content, is_last, now)?;
        self.reading = Reading::Data { stream, content, padding, is_last };
        if content + padding == 0 {
            self.end_data(stream, is_last, now)?;
        }
        Ok(())
    }

    fn note_size(&mut self, content: u32, is_last: bool, now: u64) -> Result<(), ConnectionError> {
        match content {
            _ if is_last => Ok(()),
            0 => self.note(Deed::EmptyData, now),
            content if (content as usize) < TINY => self.note(Deed::TinyData, now),
            _ => Ok(()),
        }
    }

    /// Returns the stream that takes the content of a frame; `None`: it is dropped.
    fn stream_of_data(
        &mut self,
        head: &FrameHead,
        content: u32,
        is_last: bool,
        now: u64,
    ) -> Result<Option<StreamKey>, ConnectionError> {
        let Some(key) = self.streams.find(head.stream) else {
            // A client has reset it, or the server goes on behind its own end.
            let is_known = self.settings.role == Role::Client || self.recent_resets.contains(&head.stream);
            if !is_known {
                self.write_reset(head.stream, ErrorCode::STREAM_CLOSED);
            }
            return self.note(Deed::Late, now).map(|()| None);
        };
        let Some(slot) = self.streams.get_mut(key) else { return Ok(None) };
        if let Some(end) = slot.end {
            self.refuse_late(head.stream, end);
            return self.note(Deed::Late, now).map(|()| None);
        }
        // RFC 9113 §8.1: the head of a response comes first.
        let is_early = self.settings.role == Role::Client && !slot.has_final_head;
        let early = is_early.then_some((ErrorCode::PROTOCOL_ERROR, "DATA before the head of its response"));
        let fault = take_data(slot, head.length, content, is_last).or(early);
        if let Some((code, detail)) = fault {
            return self.break_stream(key, code, detail, now).map(|()| None);
        }
        Ok(Some(key))
    }

    /// Takes the payload of a DATA frame as far as it has come.
    pub(super) fn read_data(
        &mut self,
        input: &[u8],
        at: &mut usize,
        now: u64,
    ) -> Result<(), ConnectionError> {
        let Reading::Data { stream, mut content, mut padding, is_last } = self.reading else { return Ok(()) };
        let rest = &input[*at..];
        let taken = (content as usize).min(rest.len());
        let skipped = (padding as usize).min(rest.len() - taken);
        *at += taken + skipped;
        content -= taken as u32;
        padding -= skipped as u32;
        self.reading = Reading::Data { stream, content, padding, is_last };
        if taken > 0
            && let Some(key) = stream
        {
            match self.streams.get_mut(key).filter(|slot| slot.end.is_none()) {
                Some(slot) => {
                    slot.inbox.push(&rest[..taken]);
                    self.wake(key);
                }
                None => self.credit(None, taken as u32),
            }
        }
        if content + padding == 0 {
            self.end_data(stream, is_last, now)?;
        }
        Ok(())
    }

    fn end_data(
        &mut self,
        stream: Option<StreamKey>,
        is_last: bool,
        now: u64,
    ) -> Result<(), ConnectionError> {
        self.reading = Reading::Frame;
        match stream {
            Some(key) if is_last => self.end_of_stream(key, now),
            _ => Ok(()),
        }
    }

    /// The peer has ended its direction of a stream.
    pub(super) fn end_of_stream(&mut self, key: StreamKey, now: u64) -> Result<(), ConnectionError> {
        let Some(slot) = self.streams.get_mut(key) else { return Ok(()) };
        if slot.end.is_none()
            && let Some(detail) = slot.length_fault(true)
        {
            return self.break_stream(key, ErrorCode::PROTOCOL_ERROR, detail, now);
        }
        slot.has_received_end = true;
        self.wake(key);
        Ok(())
    }

    /// Takes the content that has come; give it back by [`Connection::give_back`].
    pub fn take_content(&mut self, key: StreamKey) -> Content {
        Content(self.streams.get_mut(key).map(|slot| std::mem::take(&mut slot.inbox)).unwrap_or_default())
    }

    /// Gives content back, of which this number of bytes was passed on: the peer gets credit for them.
    pub fn give_back(&mut self, key: StreamKey, Content(mut content): Content, passed: usize) {
        content.consume(passed);
        self.credit(Some(key), passed as u32);
        let Some(slot) = self.streams.get_mut(key) else {
            return self.credit(None, content.len() as u32);
        };
        // Nothing is received between the two.
        slot.inbox = content;
        if slot.has_received_end {
            slot.inbox.shrink();
        }
    }

    /// Counts content that was taken, and gives credit for it when that is worth a frame.
    fn credit(&mut self, stream: Option<StreamKey>, count: u32) {
        if count == 0 {
            return;
        }
        self.taken += count;
        if self.taken >= self.settings.budget / 8 {
            frame::write_window_update(&mut self.outbox, 0, self.taken);
            self.receive_window += i64::from(std::mem::take(&mut self.taken));
        }
        let Some(key) = stream else { return };
        let share = self.share();
        let Some(slot) = self.streams.get_mut(key) else { return };
        slot.taken += count;
        let is_open = !slot.has_received_end && slot.end.is_none();
        if !is_open || slot.taken < STREAM_WINDOW / 8 {
            return;
        }
        // Its window is the sum of the bytes that it may send and of those that were not taken.
        let granted = slot.receive_window + slot.inbox.len() as i64;
        let increment = i64::from(share).max(granted + i64::from(slot.taken)) - granted;
        let worth_it = slot.taken >= share / 8 || granted < i64::from(share) / 8 * 7;
        if worth_it && let Ok(increment @ 1..) = u32::try_from(increment.min(i64::from(share))) {
            slot.taken = 0;
            slot.receive_window += i64::from(increment);
            frame::write_window_update(&mut self.outbox, key.id, increment);
        }
    }

    /// Returns the window that each stream may have whose content comes now.
    fn share(&mut self) -> u32 {
        let receiving =
            self.streams.iter_mut().filter(|slot| !slot.has_received_end && slot.taken > 0).count();
        let share = self.settings.budget / u32::try_from(receiving.max(1)).unwrap_or(u32::MAX);
        share.clamp(STREAM_WINDOW, self.settings.budget - FOR_OTHERS)
    }

    /// The length of the content that follows a head, which it must have; some of it may have come.
    pub fn expect_content(&mut self, key: StreamKey, length: u64) {
        let Some(slot) = self.streams.get_mut(key) else { return };
        slot.expected = Some(length);
        if let Some(detail) = slot.length_fault(slot.has_received_end) {
            slot.has_received_end = false;
            slot.end = Some(StreamEnd::Broken(ErrorCode::PROTOCOL_ERROR, detail));
            self.write_reset(key.id, ErrorCode::PROTOCOL_ERROR);
        }
    }

    /// Returns true if the peer has ended its direction, and everything was taken.
    pub fn has_ended(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_none_or(|slot| slot.has_received_end && slot.inbox.is_empty())
    }

    /// Returns true if content can be taken, or the end of a stream whose content was taken.
    pub fn has_content(&self, key: StreamKey) -> bool {
        self.streams.get(key).is_some_and(|slot| !slot.inbox.is_empty())
    }
}

/// Content that was taken out of its stream.
#[derive(Debug, Default)]
pub struct Content(super::super::streams::Bytes);

impl Content {
    /// Returns its bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Counts a DATA frame; its fault, if it must not come.
fn take_data<T>(
    slot: &mut Slot<T>,
    length: u32,
    content: u32,
    is_last: bool,
) -> Option<(ErrorCode, &'static str)> {
    if slot.has_received_end {
        return Some((ErrorCode::STREAM_CLOSED, "DATA behind the end of its stream"));
    }
    slot.receive_window -= i64::from(length);
    if slot.receive_window < 0 {
        return Some((ErrorCode::FLOW_CONTROL_ERROR, "DATA beyond the window of its stream"));
    }
    slot.received += u64::from(content);
    slot.length_fault(is_last).map(|detail| (ErrorCode::PROTOCOL_ERROR, detail))
}
