//! What other TLS proxies are configured with, written anew for Handfast.
//!
//! In: a configuration file of stunnel or hitch, or ghostunnel's flags. Out: the text of a `handfast.toml`, and a note for each
//! option that does not mean quite the same any more. Nothing is dialled, resolved or changed; files are only read.
#![forbid(unsafe_code)]

mod address;
mod draft;
mod ghostunnel;
mod hitch;
mod note;
mod openssl;
mod row;
mod stunnel;
mod toml;

use std::path::{Path, PathBuf};
use std::{fmt, io};

pub use note::{Fate, Note, Notes, Place};
pub use row::{Row, Scope};

/// Whose configuration it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// stunnel 5, `stunnel.conf`.
    Stunnel,
    /// hitch 1.8, `hitch.conf`.
    Hitch,
    /// ghostunnel 1.7, its command line.
    Ghostunnel,
}

impl Origin {
    /// Every option that its manual knows, and what becomes of each.
    pub fn rows(self) -> &'static [Row] {
        match self {
            Self::Stunnel => &stunnel::ROWS,
            Self::Hitch => &hitch::ROWS,
            Self::Ghostunnel => &ghostunnel::ROWS,
        }
    }

    /// What it calls itself.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stunnel => "stunnel",
            Self::Hitch => "hitch",
            Self::Ghostunnel => "ghostunnel",
        }
    }
}

/// A configuration that was written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The text of a `handfast.toml`. Services that could not be kept are left out of it.
    pub config: String,
    /// What is not quite as before, in the order of the old configuration.
    pub notes: Vec<Note>,
}

impl Imported {
    /// Whether everything means the same as before.
    pub fn is_exact(&self) -> bool {
        self.notes.iter().all(|note| note.fate == Fate::Same)
    }

    /// Whether nothing had to be refused: every service is there.
    pub fn is_whole(&self) -> bool {
        self.notes.iter().all(|note| note.fate != Fate::Refused)
    }
}

/// Why a configuration could not be read.
#[derive(Debug)]
pub enum ImportError {
    /// A file, or a folder that it includes.
    Read {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is not written as its manual says: every place, in words.
    Grammar(Vec<String>),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read { path, error } => write!(f, "cannot read {}: {error}", path.display()),
            Self::Grammar(problems) => f.write_str(&problems.join("\n")),
        }
    }
}

impl std::error::Error for ImportError {}

/// Reads a file of stunnel, and the folders that it includes.
///
/// `folder`: where relative paths in it start from, which for stunnel is the folder it is started in.
///
/// **Errors**: a file cannot be read, or is not written as stunnel's manual says.
pub fn stunnel(file: &Path, folder: &Path) -> Result<Imported, ImportError> {
    stunnel::import(file, folder)
}

/// Reads a file of hitch.
///
/// `folder`: where relative paths in it start from.
///
/// **Errors**: the file cannot be read, or is not written as hitch's manual says.
pub fn hitch(file: &Path, folder: &Path) -> Result<Imported, ImportError> {
    hitch::import(file, folder)
}

/// Reads the arguments of ghostunnel, without the program's name.
///
/// `folder`: where relative paths in them start from.
///
/// **Errors**: they are not what ghostunnel takes.
pub fn ghostunnel(arguments: &[String], folder: &Path) -> Result<Imported, ImportError> {
    ghostunnel::import(arguments, folder)
}

fn read(path: &Path) -> Result<String, ImportError> {
    let of = |error| ImportError::Read { path: path.to_owned(), error };
    let bytes = std::fs::read(path).map_err(of)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text))
}

/// A path as seen from the new file, which may be in another folder.
fn in_folder(folder: &Path, path: &str) -> String {
    if folder.as_os_str().is_empty() { path.to_owned() } else { folder.join(path).display().to_string() }
}
