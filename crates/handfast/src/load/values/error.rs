//! Mistakes in values of the command line; messages have the option's name in front.

use std::fmt;

use handfast_text::duration::DurationError;
use handfast_text::size::SizeError;

use super::{FASTEST, SOURCES, STAGES};

/// A value that cannot be used, as it was written. Its `Display` has the expected form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueError {
    Size(SizeError),
    Time(DurationError),
    ZeroTime(String),
    TooLong(String),
    Rate(String),
    ZeroRate(String),
    ZeroRates(String),
    StageWithoutLength(String),
    TooManyStages(usize),
    ThinkOrder(String),
    TooFast(String),
    Share(String),
    Number { text: String, least: u64, most: u64 },
    Exchanges(String),
    EmptyPlace(String),
    Source(String),
    LargeBlock { text: String, longest: u32 },
    PathLetters(String),
    User(String),
    Url(String),
    NoPort(String),
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
