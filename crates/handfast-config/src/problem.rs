//! Problems of a configuration, with their places and hints.
//!
//! In: the reader's findings. Out: [`Problem`]s, complete enough to be shown (`render.rs`), logged as one line
//! (`Display`), or compared in a test. Nothing here reads a file.

use std::fmt;
use std::ops::Range;

/// Severity of a problem: an error prevents the configuration from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot: the configuration is refused.
    Error,
    /// It can, but probably not as meant.
    Warning,
}

impl Severity {
    /// The word shown to people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// Place of a problem.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// At a place in a file.
    Text {
        /// The file's name, as it was given.
        file: String,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// The same place as bytes of the file.
        span: Range<usize>,
        /// Text at this place.
        text: String,
    },
    /// In a flag of the command line.
    Flag {
        /// The flag, dashes included.
        flag: &'static str,
        /// Value of the flag; empty when the flag itself is missing.
        value: String,
    },
    /// In a file as a whole: it cannot be read, or is no text.
    File {
        /// The file's name, as it was given.
        file: String,
    },
}

impl Place {
    /// The name of its file, if it is in one.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Text { file, .. } | Self::File { file } => Some(file),
            Self::Flag { .. } => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text { file, line, column, .. } => write!(to, "{file}:{line}:{column}"),
            Self::Flag { flag, .. } => to.write_str(flag),
            Self::File { file } => to.write_str(file),
        }
    }
}

/// One thing that is wrong with a configuration.
///
/// As text (`Display`) it is one line, for logs: `handfast.toml:3:1: unknown key `certifcate`; hint: …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Severity of the problem: with a warning the configuration can still run.
    pub severity: Severity,
    /// Place of the problem.
    pub place: Place,
    /// Description of the problem, in one clause.
    pub what: String,
    /// Values that would be allowed there.
    pub allowed: Option<String>,
    /// The cure, when there is a likely one.
    pub hint: Option<String>,
    /// A second place that belongs to it, and why: the first use of a name used twice.
    pub see: Option<(Place, String)>,
}

impl Problem {
    /// An error without hints.
    pub(crate) fn error(place: Place, what: String) -> Self {
        Self { severity: Severity::Error, place, what, allowed: None, hint: None, see: None }
    }

    /// Returns true if the configuration is refused because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Line of the place, from 1; 0 when it has none.
    pub fn line(&self) -> usize {
        match self.place {
            Place::Text { line, .. } => line,
            Place::Flag { .. } | Place::File { .. } => 0,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = match &self.place {
            Place::Flag { flag, value } if value.is_empty() => format!("{flag} {}", self.what),
            place => format!("{place}: {}", self.what),
        };
        if let Some((other, why)) = self.see.as_ref().filter(|(other, _)| other.file() != self.place.file()) {
            line.push_str(&format!("; {why}: {other}"));
        }
        for (word, clause) in [("allowed", &self.allowed), ("hint", &self.hint)] {
            if let Some(clause) = clause {
                line.push_str(&format!("; {word}: {clause}"));
            }
        }
        // One line, whatever the file contains: a log is read by programs and shown on terminals.
        let visible =
            |character: char| if character.is_control() { char::REPLACEMENT_CHARACTER } else { character };
        to.write_str(&line.chars().map(visible).collect::<String>())
    }
}

/// A problem with a value, without the value's place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Description of the problem, in one clause.
    pub(crate) what: String,
    /// Values that would be allowed.
    pub(crate) allowed: Option<String>,
    /// The likely cure.
    pub(crate) hint: Option<String>,
    /// A second place that belongs to it.
    pub(crate) see: Option<(Range<usize>, String)>,
}

impl Fault {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    pub(crate) fn allowed(self, allowed: impl Into<String>) -> Self {
        Self { allowed: Some(allowed.into()), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    pub(crate) fn maybe_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    pub(crate) fn see(self, span: Range<usize>, why: impl Into<String>) -> Self {
        Self { see: Some((span, why.into())), ..self }
    }
}

/// Sorts problems by their files, in the order of `files`, and by their places in them.
pub(crate) fn sort_by_place(problems: &mut [Problem], files: &[String]) {
    problems.sort_by_cached_key(|problem| {
        let file = files.iter().position(|file| problem.place.file() == Some(file)).unwrap_or_default();
        match &problem.place {
            Place::Text { span, .. } => (file, span.start),
            Place::Flag { .. } | Place::File { .. } => (file, 0),
        }
    });
}

/// A word short enough to be shown.
pub(crate) fn shortened(word: &str) -> String {
    if word.chars().count() <= 60 {
        return word.to_owned();
    }
    word.chars().take(57).chain("...".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_in_a_log() {
        let problem = Problem {
            severity: Severity::Error,
            place: Place::File { file: "handfast.toml".to_owned() },
            what: "a\nb\u{1b}[2J".to_owned(),
            allowed: Some("c".to_owned()),
            hint: Some("d".to_owned()),
            see: None,
        };
        assert_eq!(problem.to_string(), "handfast.toml: a\u{fffd}b\u{fffd}[2J; allowed: c; hint: d");
    }
}
