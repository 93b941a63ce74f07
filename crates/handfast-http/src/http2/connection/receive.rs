//! From bytes to frames: whole ones where they are, parts kept until the rest has come; content is passed on as it comes.

use super::super::frame::{ErrorCode, FrameFault, FrameHead, PREFACE, flag, kind};
use super::super::guard::Deed;
use super::super::head::HeadText;
use super::reading::Reading;
use super::{Connection, ConnectionError, MAX_CONTROL, MAX_FRAME, NewStream};

impl<T: Copy + PartialEq> Connection<T> {
    /// Reads the bytes from `at` on, and moves it; returns early with a new request, whose head is in `text`. `now`: milliseconds of any clock
    /// that does not go back.
    ///
    /// **Errors**: the connection ends; GOAWAY is in the outbox.
    pub fn receive(
        &mut self,
        input: &[u8],
        at: &mut usize,
        text: &mut HeadText,
        now: u64,
    ) -> Result<Option<NewStream>, ConnectionError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.read_preface(input, at)?;
        while *at < input.len() {
            if self.control > MAX_CONTROL {
                let detail = "it does not read the answers to its frames";
                return Err(self.fail(ErrorCode::ENHANCE_YOUR_CALM, detail));
            }
            match self.reading {
                Reading::Data { .. } => self.read_data(input, at, now)?,
                Reading::Skip(left) => {
                    let skipped = (left as usize).min(input.len() - *at);
                    *at += skipped;
                    self.reading = match left - skipped as u32 {
                        0 => Reading::Frame,
                        left => Reading::Skip(left),
                    };
                }
                Reading::Frame => {
                    if let Some(new) = self.read_frame(input, at, text, now)? {
                        return Ok(Some(new));
                    }
                }
            }
        }
        Ok(None)
    }

    /// RFC 9113 §3.4.
    fn read_preface(&mut self, input: &[u8], at: &mut usize) -> Result<(), ConnectionError> {
        while self.preface_left > 0 && *at < input.len() {
            if input[*at] != PREFACE[PREFACE.len() - usize::from(self.preface_left)] {
                return Err(
                    self.fail(ErrorCode::PROTOCOL_ERROR, "the connection does not begin with the preface")
                );
            }
            *at += 1;
            self.preface_left -= 1;
        }
        Ok(())
    }

    /// Reads one frame, if it is whole; else keeps its bytes.
    fn read_frame(
        &mut self,
        input: &[u8],
        at: &mut usize,
        text: &mut HeadText,
        now: u64,
    ) -> Result<Option<NewStream>, ConnectionError> {
        if self.partial.is_empty() {
            let rest = &input[*at..];
            let needed = self.needed(rest)?;
            if rest.len() < needed {
                self.partial.extend_from_slice(rest);
                *at = input.len();
                return Ok(None);
            }
            *at += needed;
            return self.handle(&rest[..needed], text, now);
        }
        let mut kept = std::mem::take(&mut self.partial);
        loop {
            let needed = self.needed(&kept)?;
            if kept.len() >= needed {
                break;
            }
            let more = (needed - kept.len()).min(input.len() - *at);
            if more == 0 {
                self.partial = kept;
                return Ok(None);
            }
            kept.extend_from_slice(&input[*at..*at + more]);
            *at += more;
        }
        self.handle(&kept, text, now)
    }

    /// Returns the number of bytes that are handled at once: of DATA and frames without meaning the head, of others all.
    fn needed(&mut self, frame: &[u8]) -> Result<usize, ConnectionError> {
        let Some(head) = frame.first_chunk().map(FrameHead::parse) else { return Ok(FrameHead::SIZE) };
        if !self.has_peer_settings && (head.kind != kind::SETTINGS || head.has(flag::ACK)) {
            return Err(self.fail(ErrorCode::PROTOCOL_ERROR, "the first frame is not SETTINGS"));
        }
        if self.block.is_open() && (head.kind != kind::CONTINUATION || head.stream != self.block.stream) {
            return Err(self.fail(ErrorCode::PROTOCOL_ERROR, "another frame within a header block"));
        }
        // A PRIORITY frame of another length ends its stream alone (RFC 9113 §6.3).
        if let Err(FrameFault::Connection(code)) = head.check_length(MAX_FRAME) {
            return Err(self.fail(code, "a frame has a length that its kind cannot have"));
        }
        let payload = match head.kind {
            // The length of its padding comes first.
            kind::DATA => usize::from(head.has(flag::PADDED)),
            kind if is_known(kind) => head.length as usize,
            _ => 0,
        };
        Ok(FrameHead::SIZE + payload)
    }

    /// Handles a frame: of DATA and frames without meaning only the head.
    fn handle(
        &mut self,
        bytes: &[u8],
        text: &mut HeadText,
        now: u64,
    ) -> Result<Option<NewStream>, ConnectionError> {
        let Some((head, payload)) = bytes.split_first_chunk() else { return Ok(None) };
        let head = FrameHead::parse(head);
        match head.kind {
            kind::DATA => self.begin_data(&head, payload.first().copied(), now).map(|()| None),
            kind::HEADERS | kind::CONTINUATION => self.take_block(&head, payload, text, now),
            kind if is_known(kind) => self.take_frame(&head, payload, now).map(|()| None),
            _ => {
                self.note(Deed::Ignored, now)?;
                self.reading = if head.length > 0 { Reading::Skip(head.length) } else { Reading::Frame };
                Ok(None)
            }
        }
    }
}

/// Returns true if frames of this type have a meaning.
const fn is_known(kind: u8) -> bool {
    kind <= kind::CONTINUATION || kind == kind::PRIORITY_UPDATE
}
