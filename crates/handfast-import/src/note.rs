//! Notes: what changes in meaning, and where.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

use crate::row::{self, Row};

/// The conversion of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    /// The meaning is unchanged.
    Same,
    /// The closest equivalent is written.
    Approximated,
    /// It is omitted, without an effect on clients, backends or security.
    Dropped,
    /// Without it, the service would differ or be less secure: the service is omitted.
    Refused,
}

impl Fate {
    /// One word, for people and for data.
    pub fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Approximated => "approximated",
            Self::Dropped => "dropped",
            Self::Refused => "refused",
        }
    }
}

/// A variable of another program that Handfast does not have, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UnknownVariable(pub(crate) String);

/// The place of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a file, from 1.
    Line(Rc<PathBuf>, usize),
    /// A flag of a command line.
    Flag,
    /// A value in a file of JSON, by the keys that lead to it: `/apps/http`.
    Value(Rc<PathBuf>, String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(file, line) => write!(f, "{}:{line}", file.display()),
            Self::Flag => f.write_str("command line"),
            Self::Value(file, keys) => write!(f, "{}:{keys}", file.display()),
        }
    }
}

/// A note about one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Its place.
    pub place: Place,
    /// The option, as it is written there.
    pub option: String,
    /// Its conversion.
    pub fate: Fate,
    /// The effect, and what to do.
    pub effect: String,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { place, option, fate, effect } = self;
        write!(f, "{place}: {option}: {}: {effect}", fate.word())
    }
}

/// The conversion of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// It means the same.
    Exact,
    /// It differs, which a note has.
    Partial,
    /// It is left out.
    Refused,
}

/// The number of notes so far, to compare with that after a part of the configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    refusals: usize,
    differences: usize,
}

/// Notes of an import, each once, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    list: Vec<Note>,
    refusals: usize,
    differences: usize,
}

impl Notes {
    /// Adds a note.
    pub(crate) fn add(&mut self, place: &Place, option: &str, fate: Fate, effect: impl Into<String>) {
        self.refusals += usize::from(fate == Fate::Refused);
        self.differences += usize::from(fate == Fate::Approximated);
        let note = Note { place: place.clone(), option: option.to_owned(), fate, effect: effect.into() };
        if !self.list.contains(&note) {
            self.list.push(note);
        }
    }

    /// Adds the note of an option's row, if this value has one.
    pub(crate) fn report(&mut self, row: &Row, place: &Place, option: &str, value: &str) {
        if row.is_reported(value) {
            self.add(place, option, row.fate, row.effect);
        }
    }

    /// Adds a note about an option that is not in the table.
    pub(crate) fn report_unknown(&mut self, rows: &[Row], place: &Place, option: &str) {
        let effect = format!(
            "unknown: the table was checked with version {}, and what it does is not judged: remove it, or write the service by hand",
            row::checked(rows)
        );
        self.add(place, option, Fate::Refused, effect);
    }

    /// Counts the refusals so far, to compare with those after a part of the configuration.
    pub(crate) fn refusals(&self) -> usize {
        self.refusals
    }

    /// Returns true if something was refused after the count was this one, even if an equal note was there before.
    pub(crate) fn refused_since(&self, refusals: usize) -> bool {
        self.refusals > refusals
    }

    /// Marks the notes so far.
    pub(crate) fn mark(&self) -> Mark {
        Mark { refusals: self.refusals, differences: self.differences }
    }

    /// Returns what the notes since a mark mean for a service, even if equal ones were there before.
    pub(crate) fn outcome_since(&self, mark: Mark) -> Outcome {
        match (self.refusals > mark.refusals, self.differences > mark.differences) {
            (true, _) => Outcome::Refused,
            (false, true) => Outcome::Partial,
            (false, false) => Outcome::Exact,
        }
    }

    pub(crate) fn into_list(self) -> Vec<Note> {
        self.list
    }
}
