//! Wall-clock times as people and machines read them.
//!
//! In: a `SystemTime`, or text. Out: RFC 3339 text in UTC, or seconds since 1970.

use std::fmt;
use std::time::SystemTime;

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::Offset;

/// A moment in UTC, to the millisecond; its `Display` is the RFC 3339 text: `2026-03-01T12:00:00.042Z` (RFC 3339 §5.6).
///
/// Good for the years 0 to 9999, which is what RFC 3339 can write; other times become the nearest of these.
#[derive(Clone, Copy, Debug)]
pub struct Utc(DateTime);

impl Utc {
    /// The moment; what is below a millisecond is not written.
    pub fn of(time: SystemTime) -> Self {
        let is_before = time < SystemTime::UNIX_EPOCH;
        let nearest = if is_before { Timestamp::MIN } else { Timestamp::MAX };
        Self::at(Timestamp::try_from(time).unwrap_or(nearest))
    }

    /// The moment this number of seconds after 1970, without leap seconds.
    pub fn of_seconds(seconds: i64) -> Self {
        let nearest = if seconds < 0 { Timestamp::MIN } else { Timestamp::MAX };
        Self::at(Timestamp::from_second(seconds).unwrap_or(nearest))
    }

    fn at(moment: Timestamp) -> Self {
        let first = DateTime::constant(0, 1, 1, 0, 0, 0, 0);
        let last = DateTime::constant(9999, 12, 31, 23, 59, 59, 999_999_999);
        // The last moment of a `Timestamp` is 22 hours before that of a `DateTime`, to have room for every offset.
        let civil = if moment == Timestamp::MAX { last } else { Offset::UTC.to_datetime(moment) };
        Self(civil.clamp(first, last))
    }

    /// The day: `2026-03-01`.
    pub fn date(self) -> impl fmt::Display + Copy {
        self.0.date()
    }

    /// The time of day, to the second: `12:00:00`.
    pub fn time_of_day(self) -> impl fmt::Display + Copy {
        self.whole().time()
    }

    /// Whole seconds as web servers log them: `01/Mar/2026:12:00:00 +0000`.
    pub fn for_web_log(self) -> impl fmt::Display {
        self.0.strftime("%d/%b/%Y:%H:%M:%S +0000")
    }

    /// Whole seconds for people: `2026-03-01 12:00:00 UTC`.
    pub fn for_people(self) -> impl fmt::Display {
        self.0.strftime("%Y-%m-%d %H:%M:%S UTC")
    }

    /// Whole seconds, as RFC 3339 has them: `2026-03-01T12:00:00Z`.
    pub fn to_seconds(self) -> impl fmt::Display {
        self.0.strftime("%Y-%m-%dT%H:%M:%SZ")
    }

    fn whole(self) -> DateTime {
        self.0.with().subsec_nanosecond(0).build().unwrap_or(self.0)
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One call, without a format that is read at run time: every line of the access log begins with this.
        let Self(time) = self;
        let (year, month, day) = (time.year(), time.month(), time.day());
        let (hour, minute, second, millisecond) =
            (time.hour(), time.minute(), time.second(), time.millisecond());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

/// Seconds since 1970 of an RFC 3339 time with any offset; `None` when it is not one, or before 1970.
pub fn seconds_since_1970(time: &str) -> Option<f64> {
    seconds(time.parse().ok()?)
}

/// Seconds since 1970 of a moment as people type it: as [`seconds_since_1970`] reads it; or without an offset, which is UTC then:
/// `2026-03-01`, `2026-03-01 14:30`, or `14:30` on the day of `now`.
pub fn seconds_of_moment(text: &str, now: SystemTime) -> Option<f64> {
    let today = || Some(Utc::of(now).0.date().to_datetime(text.parse::<Time>().ok()?));
    let is_time = text.as_bytes().get(2) == Some(&b':');
    let civil = || if is_time { today() } else { text.parse().ok() };
    // With an offset first: a time without one is read from such a text too.
    seconds_since_1970(text).or_else(|| seconds(Offset::UTC.to_timestamp(civil()?).ok()?))
}

fn seconds(moment: Timestamp) -> Option<f64> {
    Some(moment.as_duration().as_secs_f64()).filter(|seconds| *seconds >= 0.0)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn moment(seconds: i64, milliseconds: u64) -> Utc {
        let whole = Duration::from_secs(seconds.unsigned_abs());
        let base = if seconds < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
        Utc::of(base + Duration::from_millis(milliseconds))
    }

    fn text(seconds: i64, milliseconds: u64) -> String {
        moment(seconds, milliseconds).to_string()
    }

    #[test]
    fn known_times_are_written_right() {
        // From `date -u -d @N +%FT%TZ`.
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(text(951_782_399, 0), "2000-02-28T23:59:59.000Z");
        assert_eq!(text(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(text(951_868_800, 0), "2000-03-01T00:00:00.000Z");
        assert_eq!(text(1_709_251_199, 999), "2024-02-29T23:59:59.999Z");
        assert_eq!(text(1_772_366_400, 42), "2026-03-01T12:00:00.042Z");
        assert_eq!(text(2_147_483_648, 0), "2038-01-19T03:14:08.000Z");
        assert_eq!(text(4_107_542_399, 0), "2100-02-28T23:59:59.000Z");
        assert_eq!(text(4_107_542_400, 0), "2100-03-01T00:00:00.000Z", "2100 has no leap day");
        assert_eq!(text(-1, 0), "1969-12-31T23:59:59.000Z");
        assert_eq!(text(-1, 500), "1969-12-31T23:59:59.500Z");
        let before = UNIX_EPOCH - Duration::from_nanos(1);
        assert_eq!(Utc::of(before).to_string(), "1969-12-31T23:59:59.999Z", "rounded down");
    }

    #[test]
    fn parts_are_those_of_the_whole() {
        let time = moment(1_772_413_506, 789);
        assert_eq!(time.to_string(), "2026-03-02T01:05:06.789Z");
        assert_eq!(time.to_seconds().to_string(), "2026-03-02T01:05:06Z");
        assert_eq!(time.for_people().to_string(), "2026-03-02 01:05:06 UTC");
        assert_eq!(Utc::of_seconds(1_772_413_506).to_string(), "2026-03-02T01:05:06.000Z");
        assert_eq!(Utc::of_seconds(i64::MIN).to_string(), "0000-01-01T00:00:00.000Z");
        assert_eq!(
            (time.date().to_string(), time.time_of_day().to_string()),
            ("2026-03-02".into(), "01:05:06".into())
        );
    }

    #[test]
    fn times_beyond_the_format_are_written_as_the_nearest() {
        let far = UNIX_EPOCH + Duration::from_secs(1 << 55);
        assert_eq!(Utc::of(far).to_string(), "9999-12-31T23:59:59.999Z");
        let long_ago = UNIX_EPOCH - Duration::from_secs(1 << 55);
        assert_eq!(Utc::of(long_ago).to_string(), "0000-01-01T00:00:00.000Z");
    }

    #[test]
    fn times_are_read() {
        let cases = [
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2000-02-29T12:00:00.5Z", Some(951_825_600.5)),
            ("2026-11-21T23:44:26Z", Some(1_795_304_666.0)),
            ("2026-13-21T23:44:26Z", None),
            ("2026-00-21T23:44:26Z", None),
            ("2026-11-32T23:44:26Z", None),
            ("2026-11-21T24:44:26Z", None),
            ("2026-11-21T23:60:26Z", None),
            ("2026-11-21T23:44:61Z", None),
            ("2026-02-31T00:00:00Z", None),
            ("2026-02-29T00:00:00Z", None),
            ("2026-11-22T00:44:26+01:00", Some(1_795_304_666.0)),
            ("2026-11-21T23:44:26", None),
            ("1969-11-21T23:44:26Z", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(seconds_since_1970(text), seconds, "{text}");
        }
    }
}
