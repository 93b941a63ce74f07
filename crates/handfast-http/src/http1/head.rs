//! Common parts of request and response heads: limits, and the wait for the rest of an incomplete head.
//!
//! In: bytes received so far, and a parser for lines. Out: what it parsed, the wait for more, or the rule that was broken.

use super::error::HeadError;
use super::lines::{Lines, Stop};

/// Limits on the size of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Most bytes of a head, and of a trailer section.
    pub head: usize,
    /// Most bytes of the first line, its end included.
    pub start_line: usize,
    /// Most fields.
    pub fields: usize,
    /// Handling of field names with an underscore.
    pub underscores: Underscores,
}

impl HeadLimits {
    /// For heads that the proxy wrote from accepted ones: its own fields come on top of the limits, and the operator may have chosen a name with an
    /// underscore.
    pub const UNLIMITED: Self = Self {
        head: usize::MAX,
        start_line: usize::MAX,
        fields: usize::MAX,
        underscores: Underscores::Forward,
    };
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self { head: 32_768, start_line: 16_384, fields: 128, underscores: Underscores::Drop }
    }
}

/// Handling of field names with an underscore. CGI and WSGI read `X_Real_IP` as `X-Real-IP`, so a client could set fields of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Underscores {
    /// Such fields are not forwarded.
    Drop,
    /// Such messages are refused.
    Refuse,
    /// Such fields are forwarded: for backends that distinguish both bytes.
    Forward,
}

/// Searched part of an incomplete head: waiting for its end byte by byte costs one look at each byte, and one pass for each line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeadProgress {
    searched: usize,
    /// At this number of bytes the last line is too long.
    judged_at: usize,
}

impl HeadProgress {
    /// Returns true if a parser cannot find more than before: no line ended.
    fn waits(&self, received: &[u8]) -> bool {
        let new = received.get(self.searched..).unwrap_or(&[]);
        received.len() < self.judged_at && !new.contains(&b'\n')
    }
}

/// Runs a parser over a head, unless no line was completed since the last time; `None` waits for more.
pub(super) fn run<'a, T>(
    received: &'a [u8],
    progress: &mut HeadProgress,
    limits: &HeadLimits,
    is_response: bool,
    parse: impl FnOnce(&mut Lines<'a>) -> Result<T, Stop>,
) -> Result<Option<T>, HeadError> {
    if progress.searched > 0 && progress.waits(received) {
        progress.searched = received.len();
        return Ok(None);
    }
    let mut lines = Lines::new(received, limits, is_response);
    let result = parse(&mut lines).map_err(|stop| lines.judge(stop));
    *progress = HeadProgress::default();
    match result {
        Ok(parsed) => Ok(Some(parsed)),
        Err(Stop::Incomplete) => {
            *progress = HeadProgress { searched: received.len(), judged_at: lines.limit() };
            Ok(None)
        }
        Err(Stop::Broken(rule, at) | Stop::Final(rule, at)) => {
            Err(HeadError::new(rule, is_response, received, at))
        }
    }
}
