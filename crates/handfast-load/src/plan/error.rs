//! Mistakes in a part of a plan as the user wrote it.

use std::fmt;

use super::{limits, profile};

/// One mistake; its `Display` has the given and the expected value.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// A header without a colon.
    HeaderWithoutColon,
    /// A header's name with letters that names cannot have.
    HeaderName(String),
    /// A header that cannot be chosen.
    HeaderRefused {
        /// Its name.
        name: String,
        /// Reason for the refusal.
        why: &'static str,
    },
    /// A value that no header can have. Messages omit it, since it may be secret.
    HeaderValue(String),
    /// A report keeps no value of a header that may be secret.
    HeaderNotKept(String),
    /// More headers than servers take.
    TooManyHeaders(usize),
    /// Something else than a method.
    Method(String),
    /// A method in small letters.
    MethodInLowerCase(String),
    /// CONNECT.
    Tunnel,
    /// A path that does not begin with a slash.
    Path(String),
    /// A path with characters that must be encoded.
    PathLetters(String),
    /// A URL of another target.
    OtherTarget {
        /// The URL.
        url: String,
        /// Origin that this run connects to.
        origin: String,
    },
    /// A weight that is no number from 1 to 1,000,000.
    Weight(String),
    /// A request with a weight of 0.
    NoWeight,
    /// Words after what was expected.
    TooMuch {
        /// The first of them.
        word: String,
        /// The form of a line.
        expected: &'static str,
    },
    /// An empty line where there should be something.
    Empty {
        /// The expected entry.
        expected: &'static str,
    },
    /// A header or body before the first request.
    BelongsToNoRequest,
    /// A file without an entry.
    NothingInFile {
        /// The kind of entry that is missing.
        entry: &'static str,
        /// The form of a line.
        expected: &'static str,
    },
    /// A word of a member of a mix without a value.
    NoValue(String),
    /// A key of a member of a mix that was given before.
    Twice(String),
    /// Two names of a file that are equal.
    EqualNames {
        /// The place of the first one among the names, from 1.
        first: usize,
        /// That of the second one.
        second: usize,
    },
    /// A key that no member of a mix has.
    UnknownKey(String),
    /// A member of a mix without a share.
    NoShare,
    /// A share that is no number above 0.
    Share(String),
    /// Percentages beside weights.
    MixedShares,
    /// Percentages that do not make a whole. **Units**: percent.
    SharesDoNotAddUp(f64),
    /// More names than a plan can have.
    TooManyNames(usize),
    /// Something else than a name of SNI.
    ServerName(String),
    /// Something else than a value of an answer.
    Take(String),
    /// A value of a request that there is not.
    TakeFromNone {
        /// The number of the request.
        number: usize,
        /// Number of requests.
        count: usize,
    },
    /// A value that a request uses before it was taken.
    UsedTooEarly {
        /// Its name.
        name: String,
        /// The request.
        request: String,
    },
    /// A value that no request uses.
    NeverUsed(String),
    /// Values without an order of requests.
    TakeWithoutOrder,
    /// Weights of requests that go in order.
    WeightInOrder,
    /// No such profile.
    Profile(String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeaderWithoutColon => f.write_str("no colon, expected `Name: value`"),
            Self::HeaderName(name) => {
                write!(f, "invalid header name `{name}`, expected letters, digits and - only")
            }
            Self::HeaderRefused { name, why } => write!(f, "`{name}` cannot be set: {why}"),
            Self::HeaderValue(name) => {
                write!(f, "the value of `{name}` has characters that a header cannot have")
            }
            Self::HeaderNotKept(name) => write!(f, "the value of `{name}` was not kept in the report"),
            Self::TooManyHeaders(count) => {
                write!(f, "{count} headers, expected at most {}", limits::MAX_HEADERS)
            }
            Self::Method(text) => {
                write!(f, "invalid method `{text}`, expected one such as GET, POST, PUT or DELETE")
            }
            Self::MethodInLowerCase(text) => {
                write!(f, "`{text}`: methods are in capital letters, expected {}", text.to_ascii_uppercase())
            }
            Self::Tunnel => f.write_str("CONNECT asks a proxy for a tunnel, which is not supported"),
            Self::Path(text) => write!(f, "invalid path `{text}`, expected one that begins with /"),
            Self::PathLetters(text) => {
                write!(f, "`{text}` has spaces or letters beyond ASCII, expected them as %XX")
            }
            Self::OtherTarget { url, origin } => {
                write!(f, "`{url}` is not on {origin}: one run has one target; start a run for each")
            }
            Self::Weight(text) => write!(f, "invalid weight `{text}`, expected 1 to 1000000"),
            Self::NoWeight => f.write_str("a weight of 0, expected at least 1"),
            Self::TooMuch { word, expected } => write!(f, "unexpected `{word}`, expected {expected}"),
            Self::Empty { expected } => write!(f, "empty, expected {expected}"),
            Self::BelongsToNoRequest => {
                write!(f, "it belongs to no request, expected {} first", limits::LINE)
            }
            Self::NothingInFile { entry, expected } => {
                write!(f, "there is no {entry} in it, expected lines {expected}")
            }
            Self::NoValue(word) => {
                write!(f, "`{word}` has no value, expected words such as share=30 tls=1.2")
            }
            Self::Twice(word) => write!(f, "`{word}` is given twice"),
            Self::EqualNames { first, second } => {
                write!(f, "names {first} and {second} are equal, expected each name once")
            }
            Self::UnknownKey(key) => {
                let known = [&["name", "share"], limits::KEYS.as_slice()].concat();
                write!(f, "unknown key `{key}`: {}", handfast_text::suggest::did_you_mean_or_all(key, &known))
            }
            Self::NoShare => f.write_str("no share, expected one such as share=30"),
            Self::Share(text) => {
                write!(f, "invalid share `{text}`, expected a number above 0 such as 30 or 30%")
            }
            Self::MixedShares => {
                f.write_str("some shares have a % and some have none, expected the same of all")
            }
            Self::SharesDoNotAddUp(sum) => write!(f, "the shares add up to {sum} %, expected 100 %"),
            Self::TooManyNames(count) => write!(f, "{count} names, expected at most {}", limits::MAX_NAMES),
            Self::ServerName(text) => {
                write!(f, "invalid server name `{text}`, expected one such as www.example.org")
            }
            Self::Take(text) => {
                write!(
                    f,
                    "invalid value `{text}`, expected one such as token=json:/access_token, 2:item=header:Location"
                )
            }
            Self::TakeFromNone { number, count } => {
                write!(f, "there is no request {number}, expected 1 to {count}")
            }
            Self::UsedTooEarly { name, request } => {
                write!(
                    f,
                    "`{{{name}}}` is used by {request} before it is taken, expected it in a later request"
                )
            }
            Self::NeverUsed(name) => {
                write!(f, "`{name}` is never used, expected {{{name}}} in a later request")
            }
            Self::TakeWithoutOrder => {
                f.write_str("values are for later requests, expected --in-order with it")
            }
            Self::WeightInOrder => {
                f.write_str("requests in order have no weights, expected each request once")
            }
            Self::Profile(name) => {
                write!(f, "unknown profile `{name}`, expected one of {}", profile::NAMES.join(", "))
            }
        }
    }
}

impl std::error::Error for PlanError {}

impl PlanError {
    /// Masks the words of the input that the message quotes: any file can be given, such as one with passwords.
    #[must_use]
    pub fn masked(mut self) -> Self {
        match &mut self {
            Self::HeaderName(word)
            | Self::HeaderValue(word)
            | Self::Method(word)
            | Self::MethodInLowerCase(word)
            | Self::Path(word)
            | Self::PathLetters(word)
            | Self::OtherTarget { url: word, .. }
            | Self::Weight(word)
            | Self::TooMuch { word, .. }
            | Self::NoValue(word)
            | Self::UnknownKey(word)
            | Self::Share(word)
            | Self::ServerName(word)
            | Self::Take(word)
            | Self::Profile(word) => "***".clone_into(word),
            // A known name, a number, or no word of the input.
            Self::HeaderWithoutColon
            | Self::HeaderRefused { .. }
            | Self::HeaderNotKept(_)
            | Self::TooManyHeaders(_)
            | Self::Tunnel
            | Self::NoWeight
            | Self::Empty { .. }
            | Self::BelongsToNoRequest
            | Self::NothingInFile { .. }
            | Self::Twice(_)
            | Self::EqualNames { .. }
            | Self::NoShare
            | Self::MixedShares
            | Self::SharesDoNotAddUp(_)
            | Self::TooManyNames(_)
            | Self::TakeFromNone { .. }
            | Self::UsedTooEarly { .. }
            | Self::NeverUsed(_)
            | Self::TakeWithoutOrder
            | Self::WeightInOrder => {}
        }
        self
    }
}

/// A mistake in a file, with its line; it has no word of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileError {
    /// Counted from 1; `None`: the file as a whole.
    pub line: Option<usize>,
    /// The mistake, without its place.
    pub mistake: PlanError,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.mistake),
            None => self.mistake.fmt(f),
        }
    }
}

impl std::error::Error for FileError {}

impl FileError {
    /// Returns the error for a line, counted from 1.
    pub(super) fn at_line(number: usize, mistake: PlanError) -> Self {
        Self { line: Some(number), mistake: mistake.masked() }
    }
}

impl From<PlanError> for FileError {
    fn from(mistake: PlanError) -> Self {
        Self { line: None, mistake }
    }
}
