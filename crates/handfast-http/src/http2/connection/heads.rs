//! Header blocks: requests, responses, trailers. Every block is decoded, whatever becomes of it: its table is that of the connection.

use super::super::frame::{ErrorCode, FrameHead, block_fragment, flag, kind};
use super::super::guard::Deed;
use super::super::head::{HeadText, Part};
use super::super::streams::{StreamEnd, StreamKey};
use super::reading::Block;
use super::{
    Connection, ConnectionError, Goodbye, MAX_CONTINUATIONS, MAX_HEAD_BYTES, MAX_HEADS, MIN_CONTINUATION,
    NewStream, Role,
};

/// Purpose of a block.
enum Purpose {
    /// A stream begins.
    Request,
    /// A response, interim or final.
    Response(StreamKey),
    Trailers(StreamKey),
    /// It is decoded and dropped.
    Nothing,
}

impl<T: Copy + PartialEq> Connection<T> {
    /// Takes HEADERS or CONTINUATION.
    pub(super) fn take_block(
        &mut self,
        head: &FrameHead,
        payload: &[u8],
        text: &mut HeadText,
        now: u64,
    ) -> Result<Option<NewStream>, ConnectionError> {
        let is_whole = head.has(flag::END_HEADERS);
        if head.kind == kind::CONTINUATION {
            if !self.block.is_open() {
                return Err(self.fail(ErrorCode::PROTOCOL_ERROR, "CONTINUATION without HEADERS"));
            }
            self.block.continuations += 1;
            let most = self.settings.head.head.saturating_mul(2).max(16_384);
            let size = self.block.bytes.len() + payload.len();
            // Its size bounds the frames that are worth their number.
            let excess = (self.block.continuations as usize).saturating_sub(size / MIN_CONTINUATION);
            if excess > 0 {
                self.note(Deed::Continuation, now)?;
            }
            if excess > MAX_CONTINUATIONS || size > most {
                return Err(self.fail(ErrorCode::ENHANCE_YOUR_CALM, "a header block is too large"));
            }
            self.block.bytes.extend_from_slice(payload);
            if !is_whole {
                return Ok(None);
            }
            let Block { stream, is_last, bytes, .. } = std::mem::take(&mut self.block);
            return self.take_head(stream, is_last, &bytes, text, now);
        }
        let (fragment, depends_on_itself) = self.fragment(head, payload)?;
        let is_last = head.has(flag::END_STREAM);
        if !is_whole {
            self.block = Block { stream: head.stream, is_last, continuations: 0, bytes: fragment.to_vec() };
            return Ok(None);
        }
        let new = self.take_head(head.stream, is_last, fragment, text, now)?;
        if depends_on_itself {
            self.refuse_self_dependency(head.stream, now)?;
        }
        Ok(new)
    }

    /// The block in a HEADERS frame, without padding and the priority of RFC 7540; true if that is the stream itself.
    fn fragment<'a>(
        &mut self,
        head: &FrameHead,
        payload: &'a [u8],
    ) -> Result<(&'a [u8], bool), ConnectionError> {
        if head.stream == 0 {
            return Err(self.fail(ErrorCode::PROTOCOL_ERROR, "HEADERS without a stream"));
        }
        let (fragment, dependency) =
            block_fragment(*head, payload).map_err(|code| self.fail(code, "more padding than payload"))?;
        Ok((fragment, dependency == Some(head.stream)))
    }

    /// Decodes a whole block.
    fn take_head(
        &mut self,
        id: u32,
        is_last: bool,
        block: &[u8],
        text: &mut HeadText,
        now: u64,
    ) -> Result<Option<NewStream>, ConnectionError> {
        let purpose = self.purpose(id, now)?;
        let is_response = self.settings.role == Role::Client;
        let limits = &self.settings.head;
        match purpose {
            Purpose::Request => text.begin(Part::Request, limits),
            Purpose::Response(_) => text.begin(Part::Response, limits),
            Purpose::Trailers(_) | Purpose::Nothing => text.begin(Part::Trailers { is_response }, limits),
        }
        if let Err(error) = self.decoder.decode(block, text) {
            return Err(self.fail(error.code(), "a header block cannot be decoded"));
        }
        match purpose {
            Purpose::Request => self.begin_stream(id, is_last, text, now),
            Purpose::Response(key) => self.take_response(key, is_last, text, now).map(|()| None),
            Purpose::Trailers(key) => self.take_trailers(key, is_last, text, now).map(|()| None),
            Purpose::Nothing => self.note(Deed::Late, now).map(|()| None),
        }
    }

    /// RFC 9113 §5.1.
    fn purpose(&mut self, id: u32, now: u64) -> Result<Purpose, ConnectionError> {
        let is_server = self.settings.role == Role::Server;
        if id.is_multiple_of(2) || (!is_server && id > self.last_id) {
            return Err(
                self.fail(ErrorCode::PROTOCOL_ERROR, "HEADERS for a stream that its sender cannot begin")
            );
        }
        if is_server && id > self.last_id {
            return Ok(Purpose::Request);
        }
        let Some(key) = self.streams.find(id) else {
            // A client's streams are over by both ends or by its reset, behind which a response may still come, however late.
            if !is_server || self.recent_resets.contains(&id) {
                return Ok(Purpose::Nothing);
            }
            return Err(self.fail(ErrorCode::STREAM_CLOSED, "HEADERS for a closed stream"));
        };
        let Some(slot) = self.streams.get(key) else { return Ok(Purpose::Nothing) };
        if let Some(end) = slot.end {
            self.refuse_late(id, end);
            return Ok(Purpose::Nothing);
        }
        if slot.has_received_end {
            let detail = "HEADERS behind the end of its stream";
            self.break_stream(key, ErrorCode::STREAM_CLOSED, detail, now)?;
            return Ok(Purpose::Nothing);
        }
        // A response is final once its content may follow.
        Ok(if is_server || slot.has_final_head { Purpose::Trailers(key) } else { Purpose::Response(key) })
    }

    /// A frame came for a stream that has ended. What the peer has sent before it received our reset is no error; behind its own reset it is
    /// (RFC 9113 §5.1).
    pub(super) fn refuse_late(&mut self, id: u32, end: StreamEnd) {
        if matches!(end, StreamEnd::Reset(_) | StreamEnd::Refused) {
            self.write_reset(id, ErrorCode::STREAM_CLOSED);
        }
    }

    fn begin_stream(
        &mut self,
        id: u32,
        is_last: bool,
        text: &HeadText,
        now: u64,
    ) -> Result<Option<NewStream>, ConnectionError> {
        // Above the last one that was named, its client sends it again elsewhere.
        let has_room = self.goodbye != Goodbye::Final && self.streams.len() < self.settings.streams as usize;
        let key = if has_room { self.insert(id) } else { None };
        let Some(key) = key else {
            self.last_id = id;
            self.write_reset(id, ErrorCode::REFUSED_STREAM);
            return self.note(Deed::Refused, now).map(|()| None);
        };
        if let Some(slot) = self.streams.get_mut(key) {
            slot.has_received_end = is_last;
            slot.priority = text.priority();
        }
        Ok(Some(NewStream { key, has_ended: is_last }))
    }

    fn take_response(
        &mut self,
        key: StreamKey,
        is_last: bool,
        text: &mut HeadText,
        now: u64,
    ) -> Result<(), ConnectionError> {
        let is_interim = text.is_interim();
        if is_interim && is_last {
            let detail = "an interim response ends its stream";
            return self.break_stream(key, ErrorCode::PROTOCOL_ERROR, detail, now);
        }
        let Some(slot) = self.streams.get_mut(key) else { return Ok(()) };
        let kept: usize = slot.heads.iter().map(|(head, _)| head.bytes()).sum();
        if slot.heads.len() >= MAX_HEADS || kept > MAX_HEAD_BYTES {
            let detail = "too many interim responses that are not taken";
            return self.break_stream(key, ErrorCode::ENHANCE_YOUR_CALM, detail, now);
        }
        slot.heads.push_back((Box::new(std::mem::take(text)), is_last));
        slot.has_final_head = !is_interim;
        if is_last {
            slot.has_received_end = true;
        }
        self.wake(key);
        Ok(())
    }

    fn take_trailers(
        &mut self,
        key: StreamKey,
        is_last: bool,
        text: &mut HeadText,
        now: u64,
    ) -> Result<(), ConnectionError> {
        if !is_last {
            let detail = "trailers that do not end their stream";
            return self.break_stream(key, ErrorCode::PROTOCOL_ERROR, detail, now);
        }
        if let Some(slot) = self.streams.get_mut(key) {
            slot.trailers = Some(Box::new(std::mem::take(text)));
        }
        self.end_of_stream(key, now)
    }
}
