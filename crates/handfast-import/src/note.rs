//! Notes: what changes in meaning, and where.

use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

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

/// Notes being taken.
#[derive(Debug, Default)]
pub struct Notes(pub(crate) Vec<Note>);

impl Notes {
    /// Takes one.
    pub(crate) fn add(&mut self, place: &Place, option: &str, fate: Fate, effect: impl Into<String>) {
        let note = Note { place: place.clone(), option: option.to_owned(), fate, effect: effect.into() };
        if !self.0.contains(&note) {
            self.0.push(note);
        }
    }

    /// Whether something was refused since there were so many.
    pub(crate) fn refused_since(&self, count: usize) -> bool {
        self.0[count.min(self.0.len())..].iter().any(|note| note.fate == Fate::Refused)
    }
}
