//! Durations as people type them: `10s`, `500ms`, `1h30m`, `1.5s`, `200us`.
//!
//! In: text. Out: the duration, or a [`DurationError`] with the text, the expected form and a hint. One grammar for the
//! configuration, the command line and the limits of a report: numbers with units, the longest first, each once.
//! [`crate::units`] formats measured durations.

use std::fmt;
use std::time::Duration;

/// Units, longest first, with their nanoseconds.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reason why a text is not a duration. Its `Display` is the whole sentence; its parts are for callers that show them
/// separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    text: String,
    wrong: Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    /// Not numbers with units.
    Invalid,
    /// A number without a unit.
    NoUnit,
    /// A unit that is not ours, with the one of ours.
    Unit(String, &'static str),
    /// A unit that came before, or a longer one after a shorter.
    Order,
    /// More than 584 years.
    TooLong,
}

impl DurationError {
    /// Returns the text and the fault in it: ``invalid duration `10sec` ``.
    pub fn what(&self) -> String {
        match self.wrong {
            Wrong::NoUnit => format!("invalid duration `{}`: no unit", self.text),
            Wrong::TooLong => format!("invalid duration `{}`: longer than any clock can count", self.text),
            _ => format!("invalid duration `{}`", self.text),
        }
    }

    /// Returns the expected form, with examples.
    pub const fn expected(&self) -> &'static str {
        "numbers with the units d, h, m, s, ms, us, ns, such as `10s`, `500ms` or `1h30m`"
    }

    /// The cure, where it can be guessed.
    pub fn hint(&self) -> Option<String> {
        match &self.wrong {
            Wrong::NoUnit => Some(format!("write `{}s` for seconds", self.text)),
            Wrong::Unit(theirs, ours) => Some(format!("the unit `{theirs}` is written `{ours}`")),
            Wrong::Order => Some("each unit is written once, the longest first".to_owned()),
            Wrong::Invalid | Wrong::TooLong => None,
        }
    }
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::suggest::sentence(f, &self.what(), self.expected(), self.hint())
    }
}

impl std::error::Error for DurationError {}

/// A duration, at most some 584 years, to the nanosecond. A blank may stand before a unit, `_` between digits.
///
/// # Errors
/// [`DurationError`] when `text` is not numbers with units, the longest first.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let error = |wrong| DurationError { text: text.to_owned(), wrong };
    let mut units = UNITS.iter();
    let (mut total, mut rest) = (0_u64, text);
    loop {
        let (number, after) = crate::number(rest);
        let letters = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        if !number.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(error(Wrong::Invalid));
        }
        if unit.is_empty() {
            return Err(error(Wrong::NoUnit));
        }
        let name = ours(unit.strip_prefix(' ').unwrap_or(unit));
        // The iterator only goes forward: each unit at most once, from the longest to the shortest.
        let Some((_, factor)) = units.by_ref().find(|(ours, _)| *ours == name) else {
            return Err(error(unknown(unit.trim())));
        };
        let part = nanoseconds(number, *factor).map_err(error)?;
        total = total.checked_add(part).ok_or_else(|| error(Wrong::TooLong))?;
        if after.is_empty() {
            return Ok(Duration::from_nanos(total));
        }
        rest = after;
    }
}

/// The two signs for micro, U+00B5 and the Greek letter U+03BC, are as good as `u`.
fn ours(unit: &str) -> &str {
    if matches!(unit, "\u{b5}s" | "\u{3bc}s") { "us" } else { unit }
}

/// Returns the fault of a unit that did not come next.
fn unknown(unit: &str) -> Wrong {
    let ours = match unit.to_lowercase().as_str() {
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hour" | "hours" | "hr" | "hrs" => "h",
        "day" | "days" => "d",
        "msec" | "millis" | "milliseconds" => "ms",
        "usec" | "micros" | "microseconds" => "us",
        "nsec" | "nanos" | "nanoseconds" => "ns",
        _ if UNITS.iter().any(|(name, _)| *name == ours(unit)) => return Wrong::Order,
        _ => return Wrong::Invalid,
    };
    Wrong::Unit(unit.to_owned(), ours)
}

/// `1.5` of a unit in whole nanoseconds, exactly; what is less than one is left out.
fn nanoseconds(number: &str, factor: u64) -> Result<u64, Wrong> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    if !digits(whole) || !digits(fraction) {
        return Err(Wrong::Invalid);
    }
    let whole: u64 = whole.replace('_', "").parse().map_err(|_| Wrong::TooLong)?;
    let whole = whole.checked_mul(factor).ok_or(Wrong::TooLong)?;
    // Not as a floating point number, in which 1.1 hours are a nanosecond too few. A day has 14 digits of nanoseconds, so
    // that digits after the 18th have no effect; and 10¹⁸ days of them fit 128 bits.
    let (mut parts, mut of) = (0_u128, 1_u128);
    for digit in fraction.bytes().filter(u8::is_ascii_digit).take(18) {
        (parts, of) = (parts * 10 + u128::from(digit - b'0'), of * 10);
    }
    let part = u64::try_from(parts * u128::from(factor) / of).map_err(|_| Wrong::TooLong)?;
    whole.checked_add(part).ok_or(Wrong::TooLong)
}

/// A duration as it is typed, to the nanosecond; the inverse of [`parse`].
pub fn written(duration: Duration) -> String {
    let mut rest = duration.as_nanos();
    if rest == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (unit, factor) in UNITS {
        let factor = u128::from(factor);
        if rest >= factor {
            text.push_str(&format!("{}{unit}", rest / factor));
            rest %= factor;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read() {
        let milliseconds = [
            ("10s", 10_000),
            ("500ms", 500),
            ("1h30m", 5_400_000),
            ("7d", 604_800_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("0s", 0),
            ("90m", 5_400_000),
            ("1.5s", 1_500),
            ("1.1h", 3_960_000),
            ("1.5h30m", 7_200_000),
            ("1 ms", 1),
            ("1_000ms", 1_000),
        ];
        for (text, milliseconds) in milliseconds {
            assert_eq!(parse(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        let nanoseconds = [
            ("200us", 200_000),
            ("200\u{b5}s", 200_000),
            ("200\u{3bc}s", 200_000),
            ("100ns", 100),
            ("1us1ns", 1_001),
            ("0.000000001s", 1),
            ("0.1234567899s", 123_456_789),
            ("1.0000000000000000000000000000000000001s", 1_000_000_000),
        ];
        for (text, nanoseconds) in nanoseconds {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn wrong_durations_are_refused_with_the_cure() {
        let table = [
            ("", "invalid duration `` | -"),
            ("10", "invalid duration `10`: no unit | write `10s` for seconds"),
            ("1m30", "invalid duration `1m30`: no unit | write `1m30s` for seconds"),
            ("10sec", "invalid duration `10sec` | the unit `sec` is written `s`"),
            ("5 minutes", "invalid duration `5 minutes` | the unit `minutes` is written `m`"),
            ("1m1h", "invalid duration `1m1h` | each unit is written once, the longest first"),
            ("1s1s", "invalid duration `1s1s` | each unit is written once, the longest first"),
            ("1ns1us", "invalid duration `1ns1us` | each unit is written once, the longest first"),
            ("s", "invalid duration `s` | -"),
            ("-1s", "invalid duration `-1s` | -"),
            ("1 2ms", "invalid duration `1 2ms` | -"),
            ("1  ms", "invalid duration `1  ms` | each unit is written once, the longest first"),
            ("1..5s", "invalid duration `1..5s` | -"),
            ("1.s", "invalid duration `1.s` | -"),
            (".5s", "invalid duration `.5s` | -"),
            ("_1s", "invalid duration `_1s` | -"),
            ("1._1s", "invalid duration `1._1s` | -"),
            ("1e9h", "invalid duration `1e9h` | -"),
            ("nans", "invalid duration `nans` | -"),
            ("1y", "invalid duration `1y` | -"),
            (
                "99999999999999999999s",
                "invalid duration `99999999999999999999s`: longer than any clock can count | -",
            ),
            ("18446744074s", "invalid duration `18446744074s`: longer than any clock can count | -"),
            ("213503d23h59m", "invalid duration `213503d23h59m`: longer than any clock can count | -"),
            ("213503.99d", "invalid duration `213503.99d`: longer than any clock can count | -"),
        ];
        for (text, expected) in table {
            let error = parse(text).unwrap_err();
            let words = format!("{} | {}", error.what(), error.hint().unwrap_or("-".into()));
            assert_eq!(words, expected, "{text}");
        }
        for (theirs, ours) in [
            ("hrs", "h"),
            ("Hour", "h"),
            ("days", "d"),
            ("msec", "ms"),
            ("micros", "us"),
            ("nanos", "ns"),
            ("min", "m"),
        ] {
            let hint = parse(&format!("3{theirs}")).unwrap_err().hint();
            assert_eq!(hint, Some(format!("the unit `{theirs}` is written `{ours}`")));
        }
    }

    #[test]
    fn an_error_is_a_sentence_of_its_own() {
        assert_eq!(
            parse("10").unwrap_err().to_string(),
            "invalid duration `10`: no unit, expected numbers with the units d, h, m, s, ms, us, ns, such as `10s`, \
             `500ms` or `1h30m`; hint: write `10s` for seconds"
        );
    }

    #[test]
    fn durations_are_written_as_they_are_read() {
        let written = |text| written(parse(text).unwrap());
        for text in ["0s", "10s", "1h30m", "1d2h3m4s5ms6us7ns", "500ms", "200us"] {
            assert_eq!(written(text), text);
        }
        assert_eq!((written("90m"), written("1.5s")), ("1h30m".into(), "1s500ms".into()));
    }

    proptest! {
        #[test]
        fn durations_come_back_as_they_were_written(nanoseconds in any::<u64>()) {
            let original = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(parse(&written(original)), Ok(original));
        }

        #[test]
        fn no_text_does_harm(text in "[0-9a-z._ µ]{0,40}") {
            let _ = parse(&text);
        }
    }
}
