//! Bounds for what a peer can make us do for nothing: frames that cost work and carry none, and streams that are taken back.
//!
//! In: frames by kind, and work done for the peer. Out: whether the connection goes on, goes on without new streams, or ends. All rows are in one
//! table; [`Guard::note`] is the only place that counts.
//!
//! **Source**: CVE-2019-9511 to CVE-2019-9518, CVE-2023-44487, CVE-2024-27316, CVE-2025-8671; RFC 9113 §10.5.

/// Something that a peer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    /// PING that is not an acknowledgement, which has to be answered.
    Ping,
    /// SETTINGS that is not an acknowledgement, which has to be answered.
    Settings,
    /// WINDOW_UPDATE.
    WindowUpdate,
    /// PRIORITY, PRIORITY_UPDATE, frames of unknown kinds, acknowledgements.
    Ignored,
    /// CONTINUATION.
    Continuation,
    /// DATA without content or end.
    EmptyData,
    /// DATA with hardly any content.
    TinyData,
    /// RST_STREAM of a stream that was open.
    Reset,
    /// A frame for a stream that is closed.
    Late,
    /// A stream above the limit, which was refused.
    Refused,
    /// A stream that we had to reset because of what the peer sent on it.
    Broken,
}

/// One row: how many of these a peer may do at once, and how many in each second on top of that.
struct Row {
    deed: Deed,
    burst: u32,
    each_second: u32,
    /// Reported when the connection ends for it.
    detail: &'static str,
}

const TABLE: [Row; 11] = [
    row(Deed::Ping, 200, 10, "too many PING frames"),
    row(Deed::Settings, 50, 2, "too many SETTINGS frames"),
    row(Deed::WindowUpdate, 4_000, 200, "too many WINDOW_UPDATE frames"),
    row(Deed::Ignored, 2_000, 100, "too many frames without effect"),
    row(Deed::Continuation, 200, 20, "too many CONTINUATION frames"),
    row(Deed::EmptyData, 400, 50, "too many empty DATA frames"),
    row(Deed::TinyData, 60_000, 200_000, "too many tiny DATA frames"),
    row(Deed::Reset, 100, 10, "it resets its requests"),
    row(Deed::Late, 2_000, 200, "too many frames for closed streams"),
    row(Deed::Refused, 100, 10, "too many streams above the limit"),
    row(Deed::Broken, 128, 0, "too many broken streams"),
];

const fn row(deed: Deed, burst: u32, each_second: u32, detail: &'static str) -> Row {
    Row { deed, burst, each_second, detail }
}

/// Content below this size in a frame that does not end its stream is [`Deed::TinyData`].
pub(super) const TINY: usize = 64;

/// Verdict about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It goes on.
    Fine,
    /// Three quarters of a bound are used up: no new streams, which GOAWAY announces.
    Suspicious,
    /// A bound is reached, for this reason.
    Abusive(&'static str),
}

/// Counters of one connection.
#[derive(Debug)]
pub(super) struct Guard {
    /// Deeds that are not forgiven yet.
    counts: [u16; TABLE.len()],
    /// Second in which the counts were last reduced.
    since: u32,
}

impl Guard {
    pub(super) fn new() -> Self {
        Self { counts: [0; TABLE.len()], since: 0 }
    }

    /// Counts a deed. `now`: milliseconds of any clock that does not go back.
    pub(super) fn note(&mut self, deed: Deed, now: u64) -> Verdict {
        let second = (now / 1_000) as u32;
        let passed = second.saturating_sub(self.since);
        if passed > 0 {
            self.since = second;
            for (count, row) in self.counts.iter_mut().zip(&TABLE) {
                let forgiven = passed.saturating_mul(row.each_second);
                *count = u32::from(*count).saturating_sub(forgiven) as u16;
            }
        }
        let row = &TABLE[deed as usize];
        debug_assert_eq!(row.deed, deed, "rows are in the order of the deeds");
        let count = &mut self.counts[deed as usize];
        *count = count.saturating_add(1);
        match u32::from(*count) {
            count if count > row.burst => Verdict::Abusive(row.detail),
            count if count > row.burst / 4 * 3 => Verdict::Suspicious,
            _ => Verdict::Fine,
        }
    }

    /// Work was done for the peer that lets it send these frames: content was sent, for which it updates windows.
    pub(super) fn permit(&mut self, deed: Deed, count: u16) {
        let counted = &mut self.counts[deed as usize];
        *counted = counted.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_ends_at_its_bound_and_is_forgiven_with_time() {
        for row in &TABLE {
            let mut guard = Guard::new();
            let verdicts: Vec<_> = (0..=row.burst).map(|_| guard.note(row.deed, 5_000)).collect();
            assert_eq!(verdicts[0], Verdict::Fine, "{:?}", row.deed);
            assert_eq!(verdicts[row.burst as usize - 1], Verdict::Suspicious, "{:?}", row.deed);
            assert_eq!(verdicts[row.burst as usize], Verdict::Abusive(row.detail), "{:?}", row.deed);
            let later = 6_000 + 1_000 * u64::from(row.burst.div_ceil(row.each_second.max(1)));
            let is_forgiven = guard.note(row.deed, later) == Verdict::Fine;
            assert_eq!(is_forgiven, row.each_second > 0, "{:?}", row.deed);
        }
    }

    #[test]
    fn frames_that_answer_our_content_cost_nothing() {
        let mut guard = Guard::new();
        for _ in 0..100_000 {
            guard.permit(Deed::WindowUpdate, 2);
            assert_eq!(guard.note(Deed::WindowUpdate, 0), Verdict::Fine);
            assert_eq!(guard.note(Deed::WindowUpdate, 0), Verdict::Fine);
        }
    }
}
