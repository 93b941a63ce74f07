//! Wall-clock times as people and machines read them.
//!
//! In: a `SystemTime`, or text. Out: RFC 3339 text in UTC, or seconds since 1970.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A moment in UTC, to the millisecond; its `Display` is the RFC 3339 text: `2026-03-01T12:00:00.042Z` (RFC 3339 §5.6).
///
/// Good for the years 0 to 9999, which is what RFC 3339 can write; other times become the nearest of these.
#[derive(Clone, Copy, Debug)]
pub struct Utc {
    year: i64,
    month: i64,
    day: i64,
    second_of_day: i64,
    millisecond: i64,
}

/// 0000-01-01T00:00:00.000Z and 9999-12-31T23:59:59.999Z in milliseconds since 1970.
const RANGE: (i64, i64) = (-62_167_219_200_000, 253_402_300_799_999);
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

impl Utc {
    /// The moment, rounded down to the millisecond.
    pub fn of(time: SystemTime) -> Self {
        let milliseconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_millis()).unwrap_or(i64::MAX),
            Err(before) => {
                // Rounded down, as after 1970.
                let nanoseconds = before.duration().as_nanos();
                i64::try_from(nanoseconds.div_ceil(1_000_000)).map_or(i64::MIN, |before| -before)
            }
        };
        Self::of_milliseconds(milliseconds)
    }

    /// The moment this number of seconds after 1970, without leap seconds.
    pub fn of_seconds(seconds: i64) -> Self {
        Self::of_milliseconds(seconds.saturating_mul(1000))
    }

    fn of_milliseconds(milliseconds: i64) -> Self {
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

    /// The day: `2026-03-01`.
    pub fn date(self) -> impl fmt::Display + Copy {
        Part(move |f: &mut fmt::Formatter<'_>| {
            let Self { year, month, day, .. } = self;
            write!(f, "{year:04}-{month:02}-{day:02}")
        })
    }

    /// The time of day, to the second: `12:00:00`.
    pub fn time_of_day(self) -> impl fmt::Display + Copy {
        Part(move |f: &mut fmt::Formatter<'_>| {
            let second = self.second_of_day;
            write!(f, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
        })
    }

    /// Whole seconds as web servers log them: `01/Mar/2026:12:00:00 +0000`.
    pub fn for_web_log(self) -> impl fmt::Display + Copy {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        Part(move |f: &mut fmt::Formatter<'_>| {
            let Self { year, month, day, .. } = self;
            let month = usize::try_from(month - 1).ok().and_then(|month| MONTHS.get(month)).unwrap_or(&"");
            write!(f, "{day:02}/{month}/{year:04}:{} +0000", self.time_of_day())
        })
    }

    /// Whole seconds for people: `2026-03-01 12:00:00 UTC`.
    pub fn for_people(self) -> impl fmt::Display + Copy {
        Part(move |f: &mut fmt::Formatter<'_>| write!(f, "{} {} UTC", self.date(), self.time_of_day()))
    }

    /// Whole seconds, as RFC 3339 has them: `2026-03-01T12:00:00Z`.
    pub fn to_seconds(self) -> impl fmt::Display + Copy {
        Part(move |f: &mut fmt::Formatter<'_>| write!(f, "{}T{}Z", self.date(), self.time_of_day()))
    }
}

impl fmt::Display for Utc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // One call instead of the parts above: every line of the access log begins with this.
        let Self { year, month, day, second_of_day, millisecond } = self;
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
    }
}

/// What a closure writes.
#[derive(Clone, Copy)]
struct Part<F>(F);

impl<F: Fn(&mut fmt::Formatter<'_>) -> fmt::Result> fmt::Display for Part<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)(f)
    }
}

/// Seconds since 1970 of an RFC 3339 time in UTC, years 1970 to 9999; `None` when it is not one.
pub fn seconds_since_1970(time: &str) -> Option<f64> {
    let time = time.strip_suffix(['Z', 'z'])?;
    let (date, clock) = time.split_once(['T', 't', ' '])?;
    let mut date = date.splitn(3, '-').map(|part| part.parse::<i64>().ok());
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let mut clock = clock.splitn(3, ':');
    let (hour, minute) = (clock.next()?.parse::<u32>().ok()?, clock.next()?.parse::<u32>().ok()?);
    let second = clock.next()?.parse::<f64>().ok()?;
    let good = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !good || hour > 23 || minute > 59 || !(0.0..61.0).contains(&second) {
        return None;
    }
    Some(days(year, month, day) as f64 * 86_400.0 + f64::from(hour * 3_600 + minute * 60) + second)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar, from the year 0 on. The inverse of [`civil`].
const fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 1
        - DAYS_TO_1970
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Counted in years that begin on 1 March, so that the leap day is the last: a 400-year era has 146,097 days, a
/// century of it 36,524, four years 1,461. Source: H. Hinnant, "chrono-compatible low-level date algorithms".
const fn civil(day: i64) -> (i64, i64, i64) {
    let day = day + DAYS_TO_1970;
    let (era, day_of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, each period of five months has 153 days.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

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
    fn days_follow_each_other_for_four_hundred_years() {
        let mut expected = (1970, 1, 1);
        for number in 0..146_097 {
            assert_eq!(civil(number), expected, "day {number}");
            let (year, month, day) = expected;
            assert_eq!(days(year, month, day), number, "{expected:?}");
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
        assert_eq!(expected, (2370, 1, 1));
        assert_eq!((civil(-1), civil(-719_528)), ((1969, 12, 31), (0, 1, 1)));
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
            ("1969-11-21T23:44:26Z", None),
            ("2026-11-21T23:44:26+01:00", None),
            ("yesterday", None),
            ("", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(seconds_since_1970(text), seconds, "{text}");
        }
    }
}
