//! Position in what is received: between frames, in content, in a header block.

use super::super::streams::StreamKey;

/// Position in the sequence of frames.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reading {
    /// Between two frames, or in one that is kept until it is whole.
    Frame,
    /// In the payload of DATA; `stream`: where it goes, if it goes anywhere.
    Data { stream: Option<StreamKey>, content: u32, padding: u32, is_last: bool },
    /// In the payload of a frame that has no meaning here.
    Skip(u32),
}

/// A header block of which more must come.
#[derive(Debug, Default)]
pub(super) struct Block {
    /// Its stream; 0: there is none.
    pub(super) stream: u32,
    pub(super) is_last: bool,
    pub(super) continuations: u32,
    pub(super) bytes: Vec<u8>,
}

impl Block {
    pub(super) fn is_open(&self) -> bool {
        self.stream != 0
    }
}
