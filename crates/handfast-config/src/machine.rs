//! Answers of the machine that reading a configuration needs: folders, the texts of files, variables.
//!
//! In: paths and names. Out: answers, of the disk or of a test.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use handfast_pki::files;

/// Largest file that is read. Ten thousand services fit; a device that never ends does not.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

/// Most entries of a folder that are looked at.
const MAX_ENTRIES: usize = 100_000;

/// Reason why a file has no text.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TextError {
    #[error("cannot read the file: {0}")]
    Read(#[from] io::Error),
    #[error("line {line} is not UTF-8 text")]
    NotUtf8 { line: usize },
}

pub(crate) fn text_of(bytes: io::Result<Vec<u8>>) -> Result<String, TextError> {
    String::from_utf8(bytes?).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        TextError::NotUtf8 { line: good.iter().filter(|byte| **byte == b'\n').count() + 1 }
    })
}

/// Answers about the machine. Those that are given here are the ones of a machine without files and variables.
pub(crate) trait Machine {
    /// Returns true if there is a folder at this path.
    fn is_folder(&self, path: &Path) -> bool;

    /// The names of everything in a folder.
    ///
    /// **Errors**: the folder cannot be read, or has too many entries.
    fn names_in(&self, _folder: &Path) -> io::Result<Vec<OsString>> {
        Ok(Vec::new())
    }

    /// The bytes of a regular file of at most `limit` bytes. Does not wait.
    ///
    /// **Errors**: it cannot be read, is no regular file, or is too large.
    fn read(&self, _file: &Path, _limit: u64) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// The path without links, to compare files with each other.
    fn real(&self, path: &Path) -> PathBuf {
        path.to_path_buf()
    }

    /// The value of a variable of the environment.
    fn variable(&self, _name: &str) -> Option<OsString> {
        None
    }
}

/// This machine.
pub(crate) struct ThisMachine {
    /// True if a variable that is not set has a made-up value with its name, for programs beside the proxy: it is set where the proxy runs.
    pub(crate) lenient: bool,
}

impl ThisMachine {
    /// The machine as the proxy sees it.
    pub(crate) const STRICT: Self = Self { lenient: false };
}

impl Machine for ThisMachine {
    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn names_in(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            if names.len() == MAX_ENTRIES {
                return Err(io::Error::other(format!("the folder has more than {MAX_ENTRIES} entries")));
            }
            names.push(entry?.file_name());
        }
        Ok(names)
    }

    fn read(&self, file: &Path, limit: u64) -> io::Result<Vec<u8>> {
        files::read(file, limit).map(|bytes| bytes.to_vec())
    }

    fn real(&self, path: &Path) -> PathBuf {
        path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name).or_else(|| self.lenient.then(|| kept_variable(name)))
    }
}

/// A value with the name of its variable, for one that is not known.
fn kept_variable(name: &str) -> OsString {
    format!("/${{{name}}}").into()
}

/// A machine of which only the folders are known.
pub(crate) struct Folders<'f>(pub(crate) &'f dyn Fn(&Path) -> bool);

impl Machine for Folders<'_> {
    fn is_folder(&self, path: &Path) -> bool {
        (self.0)(path)
    }

    fn variable(&self, name: &str) -> Option<OsString> {
        Some(kept_variable(name))
    }
}

/// A machine without files.
pub(crate) struct Nowhere;

impl Machine for Nowhere {
    fn is_folder(&self, _path: &Path) -> bool {
        false
    }
}
