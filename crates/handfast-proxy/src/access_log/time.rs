//! Wall-clock times as people and machines read them.
//!
//! In: a `SystemTime`. Out: RFC 3339 text in UTC with milliseconds.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

/// A time as `2026-03-01T12:00:00.042Z` (RFC 3339 section 5.6), in UTC.
///
/// Good for the years 0 to 9999, which is what RFC 3339 can write; other times are written as the nearest of these.
pub fn rfc3339_milliseconds(time: SystemTime) -> impl fmt::Display + Copy {
    Utc::of(time)
}

/// A moment in UTC; its `Display` and its JSON are the RFC 3339 text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Utc {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
    millisecond: i64,
}

/// 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z in milliseconds since 1970.
const RANGE: (i64, i64) = (-62_167_219_200_000, 253_402_300_799_999);

impl Utc {
    pub(super) fn of(time: SystemTime) -> Self {
        let milliseconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => {
                // Rounded down, as after 1970.
                let nanoseconds = before.duration().as_nanos();
                i64::try_from(nanoseconds.div_ceil(1_000_000)).map_or(i64::MIN, |before| -before)
            }
        };
        let milliseconds = milliseconds.clamp(RANGE.0, RANGE.1);
        let (year, month, day) = civil(milliseconds.div_euclid(86_400_000));
        Self {
            year,
            month,
            day,
            second_of_day: milliseconds.rem_euclid(86_400_000) / 1000,
            millisecond: milliseconds.rem_euclid(1000),
        }
    }
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Counted in years that begin on 1 March, so that the leap day is the last: a 400-year era has 146,097 days, a
/// century of it 36,524, four years 1,461.
fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + 719_468; // days from 0000-03-01 to 1970-01-01
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // Five months from March on have 153 days, again and again.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + i64::from(month <= 2);
    (year, month, day_of_month)
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, second_of_day, millisecond } = self;
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

impl Serialize for Utc {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(seconds: i64, milliseconds: u64) -> String {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let base = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
        rfc3339_milliseconds(base + Duration::from_millis(milliseconds)).to_string()
    }

    #[test]
    fn known_times_are_written_right() {
        // From `date -u -d @N +%FT%TZ`.
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(text(1_709_251_199, 999), "2024-02-29T23:59:59.999Z");
        assert_eq!(text(1_772_366_400, 42), "2026-03-01T12:00:00.042Z");
        assert_eq!(text(2_147_483_648, 0), "2038-01-19T03:14:08.000Z");
        assert_eq!(text(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
        assert_eq!(text(-1, 0), "1969-12-31T23:59:59.000Z");
    }

    #[test]
    fn days_follow_each_other_for_four_hundred_years() {
        let mut expected = (1970, 1, 1);
        for day in 0..146_097 {
            assert_eq!(civil(day), expected, "day {day}");
            let (year, month, day) = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day == last) {
                (_, false) => (year, month, day + 1),
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
            };
        }
    }

    #[test]
    fn times_beyond_the_format_are_written_as_the_nearest() {
        let far = UNIX_EPOCH + Duration::from_secs(1 << 55);
        assert_eq!(rfc3339_milliseconds(far).to_string(), "9999-12-31T23:59:59.999Z");
        let long_ago = UNIX_EPOCH - Duration::from_secs(1 << 55);
        assert_eq!(rfc3339_milliseconds(long_ago).to_string(), "0000-01-01T00:00:00.000Z");
    }
}
