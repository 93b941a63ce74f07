//! Parses a time of the command line.
//!
//! In: `1h`, `14:30`, `2026-03-01`, an RFC 3339 time; and the current time. Out: seconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use handfast_text::calendar::seconds_of_moment;
use handfast_text::duration;

/// A text is neither a duration nor a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a time such as 1h (that long ago), 14:30 (today, UTC), 2026-03-01, 2026-03-01T14:30:05Z")]
pub(crate) struct MomentError;

/// Reads a moment, in UTC where it has no offset; a duration is that long before `now`.
pub(crate) fn parse(text: &str, now: SystemTime) -> Result<f64, MomentError> {
    if let Ok(ago) = duration::parse(text) {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        return Ok(now.as_secs_f64() - ago.as_secs_f64());
    }
    seconds_of_moment(text, now).ok_or(MomentError)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_may_be_typed_in_several_ways() {
        // 2026-03-01T12:00:00Z
        let now = UNIX_EPOCH + Duration::from_secs(1_772_366_400);
        let midnight = 1_772_366_400.0 - 12.0 * 3_600.0;
        let cases = [
            ("1h", 1_772_366_400.0 - 3_600.0),
            ("90s", 1_772_366_400.0 - 90.0),
            ("11:30", midnight + 11.5 * 3_600.0),
            ("11:30:05", midnight + 11.5 * 3_600.0 + 5.0),
            ("2026-03-01", midnight),
            ("2026-03-01 00:10", midnight + 600.0),
            ("2026-03-01T00:10:00.5Z", midnight + 600.5),
            ("2026-02-28T23:59:59z", midnight - 1.0),
            ("2026-03-01T10:00+01:00", midnight + 9.0 * 3_600.0),
            ("2026-03-01T10:00:00-00:30", midnight + 10.5 * 3_600.0),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text, now), Ok(expected), "{text}");
        }
        for text in ["", "yesterday", "25:00", "2026-13-01", "12", "2026-03-01T", "2026-02-31"] {
            let wrong = parse(text, now).expect_err(text).to_string();
            assert!(wrong.starts_with("expected a time such as 1h"), "{text}: {wrong}");
        }
    }
}
