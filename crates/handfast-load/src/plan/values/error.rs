//! Mistakes in values of a plan; messages have the option's name in front.

use std::fmt;

use handfast_text::duration::DurationError;
use handfast_text::size::SizeError;

use super::{FASTEST, SOURCES, STAGES};

/// A value that cannot be used, as it was written. Its `Display` has the expected form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValueError {
    /// No number of bytes.
    Size(SizeError),
    /// No time.
    Time(DurationError),
    /// A time of 0.
    ZeroTime(String),
    /// A time above a week.
    TooLong(String),
    /// No rate.
    Rate(String),
    /// A rate of 0.
    ZeroRate(String),
    /// Stages that are all 0.
    ZeroRates(String),
    /// Stages of which one has no length.
    StageWithoutLength(String),
    /// More stages than a plan has.
    TooManyStages(usize),
    /// A think time with the longer time first.
    ThinkOrder(String),
    /// A rate that no target can handle.
    TooFast(String),
    /// No share.
    Share(String),
    /// No number within its bounds.
    Number {
        /// As it was written.
        text: String,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// No number of exchanges.
    Exchanges(String),
    /// A list with an empty place.
    EmptyPlace(String),
    /// No address and no block of addresses.
    Source(String),
    /// A block with more addresses than a run has.
    LargeBlock {
        /// As it was written.
        text: String,
        /// The length of the shortest prefix that is permitted.
        longest: u32,
    },
    /// A path with letters that must be encoded.
    PathLetters(String),
    /// A URL with a user.
    User(String),
    /// No URL.
    Url(String),
    /// A target without a port.
    NoPort(String),
    /// No target.
    Target(String),
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Size(error) => error.fmt(f),
            Self::Time(error) => error.fmt(f),
            Self::ZeroTime(text) => write!(f, "invalid duration `{text}`, expected more than 0"),
            Self::TooLong(text) => {
                write!(f, "invalid duration `{text}`, expected at most a week (168h)")
            }
            Self::Rate(text) => {
                write!(f, "invalid rate `{text}`, expected transactions a second such as 500 or 2.5k")
            }
            Self::ZeroRate(text) => {
                write!(f, "invalid rate `{text}`: nothing would start, expected a rate above 0")
            }
            Self::ZeroRates(text) => {
                write!(f, "invalid rate `{text}`: nothing would start, expected a rate above 0")
            }
            Self::StageWithoutLength(text) => {
                write!(
                    f,
                    "`{text}` has a stage without a length, expected one for each, such as 0..500@30s,500@2m"
                )
            }
            Self::ThinkOrder(text) => {
                write!(
                    f,
                    "invalid think time `{text}`, expected the shorter time first, such as 100ms..500ms"
                )
            }
            Self::TooManyStages(count) => write!(f, "{count} stages, expected at most {STAGES}"),
            Self::TooFast(text) => write!(f, "`{text}` is more than {FASTEST} a second"),
            Self::Share(text) => {
                write!(f, "invalid share `{text}`, expected one from 0 to 1, or from 0% to 100%")
            }
            Self::Number { text, least, most } => {
                write!(f, "invalid number `{text}`, expected a whole number from {least} to {most}")
            }
            Self::Exchanges(text) => {
                write!(f, "invalid number of exchanges `{text}`, expected 1 or more, or unlimited")
            }
            Self::EmptyPlace(text) => {
                write!(f, "`{text}` has an empty name, expected names with commas between them")
            }
            Self::Source(text) => write!(
                f,
                "invalid address `{text}`, expected one such as 10.0.0.7, or a block such as 127.1.0.0/24"
            ),
            Self::LargeBlock { text, longest } => {
                write!(f, "`{text}` has more than {SOURCES} addresses, expected a /{longest} or less")
            }
            Self::PathLetters(text) => {
                write!(f, "`{text}` has spaces or letters beyond ASCII in its path, expected them as %XX")
            }
            Self::User(text) => write!(f, "`{text}` has a user in it, which is not supported"),
            Self::Url(text) => {
                write!(f, "invalid URL `{text}`, expected https://HOST/PATH or https://HOST:PORT/PATH")
            }
            Self::NoPort(text) => write!(f, "`{text}` has no port, expected HOST:PORT such as {text}:443"),
            Self::Target(text) => {
                write!(f, "invalid target `{text}`, expected HOST:PORT, [ADDRESS]:PORT or https://HOST/PATH")
            }
        }
    }
}

impl std::error::Error for ValueError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Size(error) => Some(error),
            Self::Time(error) => Some(error),
            _ => None,
        }
    }
}
