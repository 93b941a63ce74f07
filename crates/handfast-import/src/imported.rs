//! The result of an import: the new configuration and its notes, or why the old one could not be read.

use std::path::{Path, PathBuf};
use std::{fmt, io};

use handfast_tls::files::read_input;
use toml_edit::{DocumentMut, Item, Value};

use crate::note::{Fate, Note};

/// A converted configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The text of a `handfast.toml`. Services that could not be kept are left out of it.
    pub config: String,
    /// The changes in meaning, in the order of the old configuration.
    pub notes: Vec<Note>,
}

impl Imported {
    /// The configuration with what holds in the place of the old program. It listens on nothing besides its services, so two of them can run
    /// on a machine. A reload may name files anywhere, where a sandbox would know only those of the start; and where another user
    /// serves, keys that only root can read: the process that holds them stays root, as hitch's first process does.
    pub fn in_place(&self) -> String {
        let Ok(mut document) = self.config.parse::<DocumentMut>() else { return self.config.clone() };
        let mut put = |section: &str, key: &str, value: Value| {
            let section = document.entry(section).or_insert_with(toml_edit::table);
            section.as_table_mut().is_some_and(|section| section.insert(key, Item::Value(value)).is_none())
        };
        put("admin", "listen", "off".into());
        put("process", "sandbox-folders", Value::from_iter(["/"]));
        if document.get("process").is_some_and(|process| process.get("user").is_some()) {
            document["process"]["private-keys"] = toml_edit::value("apart");
        }
        document.to_string()
    }

    /// Whether everything means the same as before.
    pub fn is_exact(&self) -> bool {
        self.notes.iter().all(|note| note.fate == Fate::Same)
    }

    /// Whether nothing was refused: every service was converted.
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
    /// It violates its manual: every place, as a message.
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

/// Returns a word at the place of an option for a message. Any file can be given as a configuration, so the word can be a password.
pub(crate) fn shown_option<'w>(word: &'w str, meant: &str) -> &'w str {
    const MAX_OPTION_LENGTH: usize = 32;
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || matches!(byte, b'-' | b'_');
    let is_plain = word.len() <= MAX_OPTION_LENGTH && word.bytes().all(is_letter);
    if is_plain || !meant.is_empty() { word } else { "an unknown option" }
}

/// Bytes of a configuration that is read.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a text file; a byte order mark at its start is left out.
pub(crate) fn read(path: &Path) -> Result<String, ImportError> {
    let of = |error| ImportError::Read { path: path.to_owned(), error };
    let bytes = read_input(path, MOST_BYTES).map_err(of)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    if let Some(line) = text.lines().position(|line| line.contains("-----BEGIN ")) {
        let what = "a certificate or key begins here (PEM), expected a configuration";
        return Err(ImportError::Grammar(vec![format!("{}:{}: {what}", path.display(), line + 1)]));
    }
    Ok(text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text))
}

/// A path as seen from the new file, which may be in another folder.
pub(crate) fn in_folder(folder: &Path, path: &str) -> String {
    if folder.as_os_str().is_empty() { path.to_owned() } else { folder.join(path).display().to_string() }
}
