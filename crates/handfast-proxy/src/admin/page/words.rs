//! Numbers and events in words, as a person says them.
//!
//! In: seconds, bytes, counts, and a step, side and cause. Out: short text, not yet escaped for HTML.

use std::time::{Duration, SystemTime};

use crate::cause::Cause;
use crate::reason::{Side, Step};

/// A count with thin groups of three digits: `28 232`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push('\u{202f}'); // narrow no-break space
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun: `1 line`, `12 lines`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A rate for each second with two or three digits: `0.4`, `12`, `3 400`.
pub(super) fn rate(number: f64) -> String {
    match number {
        number if number <= 0.0 => "0".into(),
        number if number < 0.1 => "< 0.1".into(),
        number if number < 10.0 => format!("{number:.1}"),
        number => count(number.round() as u64),
    }
}

/// Three digits of seconds in a unit that fits: `850 ns`, `12.3 µs`, `4.56 ms`, `1.20 s`, `42.0 min`.
pub(super) fn seconds(seconds: f64) -> String {
    let (value, unit) = match seconds {
        seconds if seconds <= 0.0 => return "0".into(),
        seconds if seconds < 1e-6 => (seconds * 1e9, "ns"),
        seconds if seconds < 1e-3 => (seconds * 1e6, "µs"),
        seconds if seconds < 1.0 => (seconds * 1e3, "ms"),
        seconds if seconds < 120.0 => (seconds, "s"),
        seconds if seconds < 7_200.0 => (seconds / 60.0, "min"),
        seconds => (seconds / 3_600.0, "h"),
    };
    format!("{} {unit}", three_digits(value))
}

/// Bytes in a unit that fits: `512 B`, `1.50 KiB`, `4.2 GiB`.
pub(super) fn bytes(bytes: f64) -> String {
    if bytes < 1_024.0 {
        return format!("{bytes:.0} B");
    }
    let mut value = bytes;
    let mut units = ["KiB", "MiB", "GiB", "TiB", "PiB"].into_iter();
    let mut unit = "B";
    while value >= 1_024.0
        && let Some(larger) = units.next()
    {
        value /= 1_024.0;
        unit = larger;
    }
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// A share in percent that never says 0 or 100 when it is not: `< 0.1 %`, `99.9 %`.
pub(super) fn percent(part: u64, whole: u64) -> String {
    let share = 100.0 * part as f64 / whole.max(1) as f64;
    match (part, share) {
        (0, _) => "0 %".into(),
        (part, _) if part >= whole => "100 %".into(),
        (_, share) if share < 0.1 => "< 0.1 %".into(),
        (_, share) if share > 99.9 => "> 99.9 %".into(),
        (_, share) => format!("{share:.1} %"),
    }
}

/// The larger two units of a long time: `3 days 4 h`, `12 min`, `41 s`.
pub(super) fn long(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    let days_word = if days == 1 { "day" } else { "days" };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, 0) => format!("{hours} h"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (1..10, 1.., _) => format!("{days} {days_word} {hours} h"),
        _ => format!("{} {days_word}", count(days)),
    }
}

/// How urgent something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Urgency {
    Good,
    Soon,
    Bad,
}

impl Urgency {
    /// The class in the style sheet.
    pub(super) const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Soon => "soon",
            Self::Bad => "bad",
        }
    }
}

/// How a certificate's expiry is said, and how urgent it is. Automatic renewal acts 30 days before; what is still there after
/// three weeks of that was not renewed.
pub(super) fn expiry(not_after: SystemTime, now: SystemTime) -> (Urgency, String) {
    const DAY: Duration = Duration::from_secs(86_400);
    match not_after.duration_since(now) {
        Err(past) => (Urgency::Bad, format!("expired {} ago", long(past.duration()))),
        Ok(left) if left < 7 * DAY => (Urgency::Bad, format!("expires in {}: renew it now", long(left))),
        Ok(left) if left < 21 * DAY => {
            (Urgency::Soon, format!("expires in {}: its renewal is late", long(left)))
        }
        Ok(left) => (Urgency::Good, format!("expires in {}", long(left))),
    }
}

/// What ended a connection, as a sentence: `while carrying bytes, the client reset the connection`.
pub(super) fn sentence(step: &str, side: &str, cause: &str) -> String {
    match (Step::named(step), Side::named(side), Cause::named(cause)) {
        (Some(step), Some(side), Some(cause)) => format!("{}, {}", step.while_doing(), cause.sentence(side)),
        _ => "ended in a way too rare to be counted apart".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_said_with_their_units() {
        assert_eq!(count(999), "999");
        assert_eq!(count(28_232), "28\u{202f}232");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((counted(1, "line"), counted(0, "line")), ("1 line".into(), "0 lines".into()));
        assert_eq!([0.0, 0.04, 0.4, 12.3].map(rate), ["0", "< 0.1", "0.4", "12"]);
        assert_eq!(
            [0.0, 2.5e-7, 1.234e-5, 0.0456, 0.9996, 1.2, 300.0, 9_000.0].map(seconds),
            ["0", "250 ns", "12.3 µs", "45.6 ms", "1000 ms", "1.20 s", "5.00 min", "2.50 h"]
        );
        assert_eq!([0.0, 1_023.0, 1_536.0, 1e12].map(bytes), ["0 B", "1023 B", "1.50 KiB", "931 GiB"]);
        assert_eq!(percent(0, 10), "0 %");
        assert_eq!(percent(1, 100_000), "< 0.1 %");
        assert_eq!(percent(99_999, 100_000), "> 99.9 %");
        assert_eq!(percent(5, 5), "100 %");
        assert_eq!(percent(0, 0), "0 %");
    }

    #[test]
    fn expiries_become_urgent() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let in_days = |days: f64| match days < 0.0 {
            true => expiry(now - Duration::from_secs_f64(-days * 86_400.0), now),
            false => expiry(now + Duration::from_secs_f64(days * 86_400.0), now),
        };
        assert_eq!(in_days(-3.0), (Urgency::Bad, "expired 3 days ago".into()));
        assert_eq!(in_days(1.5), (Urgency::Bad, "expires in 1 day 12 h: renew it now".into()));
        assert_eq!(in_days(20.0), (Urgency::Soon, "expires in 20 days: its renewal is late".into()));
        assert_eq!(in_days(90.0), (Urgency::Good, "expires in 90 days".into()));
    }

    #[test]
    fn an_end_is_a_sentence() {
        assert_eq!(
            sentence("relay", "client", "reset"),
            "while carrying bytes, the client reset the connection"
        );
        assert_eq!(sentence("other", "other", "other"), "ended in a way too rare to be counted apart");
    }
}
