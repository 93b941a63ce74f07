//! The wait for the rest of an incomplete head, of requests and responses.
//!
//! In: bytes received so far, and a parser for lines. Out: what it parsed, the wait for more, or the rule that was broken.

use super::error::HeadError;
use super::limits::HeadLimits;
use super::lines::{Lines, Stop};

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
