//! Points in time as certificates have them: whole seconds since 1970, and how people read them.

use std::time::SystemTime;

use handfast_text::calendar::Utc;

/// Seconds of Unix time; certificates do not know fractions.
pub fn unix_seconds(time: SystemTime) -> i64 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(i64::MIN, |seconds| -seconds),
    }
}

/// A moment for people: `2026-11-01 12:00:00 UTC`.
pub fn date(seconds: i64) -> String {
    Utc::of_seconds(seconds).for_people().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_readable() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(1_793_534_400), "2026-11-01 12:00:00 UTC");
        assert_eq!(date(i64::MAX), "9999-12-31 23:59:59 UTC");
    }
}
