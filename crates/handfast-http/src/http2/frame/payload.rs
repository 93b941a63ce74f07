//! Payloads of whole frames.
//!
//! In: the head of a frame and its payload. Out: the settings in it, or the part of it without padding and priority.

use super::{ErrorCode, FrameHead, flag};

/// Settings of a payload, in their order; a value that comes twice counts the last time (RFC 9113 §6.5.3).
#[derive(Clone, Debug)]
pub struct Settings<'a>(&'a [u8]);

impl<'a> Settings<'a> {
    /// The settings of a SETTINGS frame whose length was checked.
    pub const fn new(payload: &'a [u8]) -> Self {
        Self(payload)
    }
}

impl Iterator for Settings<'_> {
    /// Identifier and value.
    type Item = (u16, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let ([a, b, value @ ..], rest) = self.0.split_first_chunk::<6>()?;
        self.0 = rest;
        Some((u16::from_be_bytes([*a, *b]), u32::from_be_bytes(*value)))
    }
}

/// The content of a DATA frame, without its padding. All of the payload counts for the windows (RFC 9113 §6.9).
///
/// **Errors**: there is more padding than payload (RFC 9113 §6.1): for the connection.
pub fn content(head: FrameHead, payload: &[u8]) -> Result<&[u8], ErrorCode> {
    if !head.has(flag::PADDED) {
        return Ok(payload);
    }
    let (padding, rest) = payload.split_first().ok_or(ErrorCode::FRAME_SIZE_ERROR)?;
    let end = rest.len().checked_sub(usize::from(*padding)).ok_or(ErrorCode::PROTOCOL_ERROR)?;
    Ok(&rest[..end])
}

/// The fragment of a field block in a HEADERS frame, without padding and priority, and the stream that it depends on. A stream that depends on
/// itself is an error of the stream alone (RFC 7540 §5.3.1), for the caller to decide.
///
/// **Errors**: as [`content`].
pub fn block_fragment(head: FrameHead, payload: &[u8]) -> Result<(&[u8], Option<u32>), ErrorCode> {
    let payload = content(head, payload)?;
    if !head.has(flag::PRIORITY) {
        return Ok((payload, None));
    }
    let ([dependency @ .., _weight], fragment) =
        payload.split_first_chunk::<5>().ok_or(ErrorCode::PROTOCOL_ERROR)?;
    Ok((fragment, Some(u32::from_be_bytes(*dependency) & super::STREAM_BITS)))
}
