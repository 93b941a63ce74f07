//! Sizes as people type them: `512B`, `16KiB`, `1MiB`.
//!
//! In: text. Out: bytes, or a [`SizeError`] with the text, the expected form and a hint. [`crate::units`] formats sizes
//! of a measurement.

use std::fmt;

/// Units with their bytes, smallest first.
const UNITS: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];
/// Largest size that is read: 1 TiB. Nothing that is configured or sent comes near it.
pub const MAX_BYTES: u64 = 1 << 40;

/// Notation of a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// A number and `B`, `KiB`, `MiB` or `GiB`, as in a file that others will read.
    Full,
    /// Also a number of bytes alone, and `k`, `m`, `g` in either case, as on a command line.
    Short,
}

/// Reason why a text is not a size. Its `Display` is the whole sentence; its parts are for callers that show them
/// separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeError {
    text: String,
    spelling: Spelling,
    wrong: Wrong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Wrong {
    /// No number, no unit of ours, or something behind the unit.
    Invalid,
    /// A unit that is not ours, or may mean thousands: with the one that was probably meant.
    Unit(String),
    /// A number without the required unit.
    NoUnit,
    /// More than [`MAX_BYTES`].
    TooLarge,
}

impl SizeError {
    /// Returns the text and the fault in it: ``invalid size `16k` ``.
    pub fn what(&self) -> String {
        match self.wrong {
            Wrong::TooLarge => format!("invalid size `{}`: larger than 1024GiB", self.text),
            Wrong::NoUnit => format!("invalid size `{}`: no unit", self.text),
            Wrong::Invalid | Wrong::Unit(_) => format!("invalid size `{}`", self.text),
        }
    }

    /// Returns the expected form, with an example.
    pub const fn expected(&self) -> &'static str {
        match self.spelling {
            Spelling::Full => "a number with the unit B, KiB, MiB or GiB, such as `16KiB`",
            Spelling::Short => "a number of bytes such as `4096`, `4KiB` or `1MiB`",
        }
    }

    /// The cure, where it can be guessed.
    pub fn hint(&self) -> Option<String> {
        match &self.wrong {
            Wrong::Unit(meant) => Some(format!("write `{meant}`")),
            Wrong::NoUnit => Some(format!("write `{}B` for bytes", self.text)),
            Wrong::Invalid | Wrong::TooLarge => None,
        }
    }
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::suggest::sentence(f, &self.what(), self.expected(), self.hint())
    }
}

impl std::error::Error for SizeError {}

/// Bytes, at most [`MAX_BYTES`].
///
/// # Errors
/// [`SizeError`] when `text` is not written as `spelling` allows, or too large.
pub fn parse(text: &str, spelling: Spelling) -> Result<u64, SizeError> {
    let error = |wrong| SizeError { text: text.to_owned(), spelling, wrong };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() || unit.contains(|c: char| c.is_ascii_digit()) {
        return Err(error(Wrong::Invalid));
    }
    let factor = match (spelling, unit, UNITS.iter().find(|(name, _)| *name == unit)) {
        (_, _, Some((_, factor))) => *factor,
        (Spelling::Short, "", None) => 1,
        (Spelling::Full, "", None) => return Err(error(Wrong::NoUnit)),
        (_, _, None) => {
            let lower = unit.to_lowercase();
            let (name, factor) = meant(&lower).ok_or_else(|| error(Wrong::Invalid))?;
            // `kB` may mean thousands.
            let thousands = matches!(lower.as_str(), "kb" | "mb" | "gb");
            if spelling == Spelling::Full || thousands {
                return Err(error(Wrong::Unit(format!("{number}{name}"))));
            }
            factor
        }
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes.filter(|bytes| *bytes <= MAX_BYTES).ok_or_else(|| error(Wrong::TooLarge))
}

/// Our unit for a unit in another notation, in lower case.
fn meant(lower: &str) -> Option<(&'static str, u64)> {
    let index = match lower {
        "b" | "byte" | "bytes" => 0,
        "k" | "kb" | "ki" | "kib" => 1,
        "m" | "mb" | "mi" | "mib" => 2,
        "g" | "gb" | "gi" | "gib" => 3,
        _ => return None,
    };
    Some(UNITS[index])
}

/// A size in the unit in which it is whole; the inverse of [`parse`].
pub fn written(bytes: u64) -> String {
    let (number, unit) = in_a_whole_unit(bytes);
    format!("{number}{unit}")
}

/// The number and the largest unit in which a size is whole.
pub(crate) fn in_a_whole_unit(bytes: u64) -> (u64, &'static str) {
    let whole = |(_, factor): &&(&str, u64)| bytes >= *factor && bytes.is_multiple_of(*factor);
    let (unit, factor) = UNITS.iter().rev().find(whole).unwrap_or(&UNITS[0]);
    (bytes / factor, unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in
            [("512B", 512), ("16KiB", 16_384), ("1MiB", 1 << 20), ("2GiB", 2 << 30), ("0B", 0)]
        {
            assert_eq!(parse(text, Spelling::Full), Ok(bytes), "{text}");
            assert_eq!(parse(text, Spelling::Short), Ok(bytes), "{text}");
        }
        let short =
            [("0", 0), ("4096", 4096), ("4kib", 4096), ("4k", 4096), ("3M", 3 << 20), ("2g", 2 << 30)];
        for (text, bytes) in short {
            assert_eq!(parse(text, Spelling::Short), Ok(bytes), "{text}");
        }
        assert_eq!(parse("1024GiB", Spelling::Full), Ok(MAX_BYTES));
    }

    #[test]
    fn wrong_sizes_are_refused_with_the_cure() {
        let full = [
            ("16384", "invalid size `16384`: no unit | write `16384B` for bytes"),
            ("16k", "invalid size `16k` | write `16KiB`"),
            ("16KB", "invalid size `16KB` | write `16KiB`"),
            ("3mb", "invalid size `3mb` | write `3MiB`"),
            ("1g", "invalid size `1g` | write `1GiB`"),
            ("7bytes", "invalid size `7bytes` | write `7B`"),
            ("KiB", "invalid size `KiB` | -"),
            ("", "invalid size `` | -"),
            ("-1B", "invalid size `-1B` | -"),
            ("4 KiB", "invalid size `4 KiB` | -"),
            ("4.5KiB", "invalid size `4.5KiB` | -"),
            ("1KiB1B", "invalid size `1KiB1B` | -"),
            ("1TiB", "invalid size `1TiB` | -"),
            ("1025GiB", "invalid size `1025GiB`: larger than 1024GiB | -"),
            ("18446744073709551615MiB", "invalid size `18446744073709551615MiB`: larger than 1024GiB | -"),
            ("99999999999999999999B", "invalid size `99999999999999999999B`: larger than 1024GiB | -"),
        ];
        for (text, expected) in full {
            let error = parse(text, Spelling::Full).unwrap_err();
            let words = format!("{} | {}", error.what(), error.hint().unwrap_or("-".into()));
            assert_eq!(words, expected, "{text}");
        }
        for text in ["", "k", "-1", "4 KiB", "4.5k", "4KiBs", "99999999999999999999", "18446744073709551615k"]
        {
            assert!(parse(text, Spelling::Short).is_err(), "{text}");
        }
    }

    #[test]
    fn an_error_is_a_sentence_of_its_own() {
        let sentence = |text, spelling| parse(text, spelling).unwrap_err().to_string();
        assert_eq!(
            sentence("4kB", Spelling::Short),
            "invalid size `4kB`, expected a number of bytes such as `4096`, `4KiB` or `1MiB`; hint: write `4KiB`"
        );
        assert_eq!(
            sentence("KiB", Spelling::Full),
            "invalid size `KiB`, expected a number with the unit B, KiB, MiB or GiB, such as `16KiB`"
        );
    }

    proptest! {
        #[test]
        fn sizes_come_back_as_they_were_written(bytes in 0..=MAX_BYTES, shift in 0..40) {
            for bytes in [bytes, bytes >> shift << shift] {
                prop_assert_eq!(parse(&written(bytes), Spelling::Full), Ok(bytes));
            }
        }

        #[test]
        fn no_text_does_harm(text in ".{0,40}") {
            let _ = (parse(&text, Spelling::Full), parse(&text, Spelling::Short));
        }
    }

    #[test]
    fn the_largest_whole_unit_is_written() {
        let sizes = [0, 1, 1023, 1024, 1025, 1536, 1 << 20, 1 << 30, 1 << 40].map(written);
        assert_eq!(sizes, ["0B", "1B", "1023B", "1KiB", "1025B", "1536B", "1MiB", "1GiB", "1024GiB"]);
    }
}
