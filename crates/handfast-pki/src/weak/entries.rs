//! The entries of a list of known keys, whatever its form, and why a file has none.

use std::io;

use aws_lc_rs::digest::{Context, SHA256};

/// Short form of a hash: what lists of known keys have.
pub(super) type Entry = [u8; 10];

/// Entries of one list: half a gigabyte of memory. All of Debian's keys of one size and kind are 294,912.
pub(super) const MAX_ENTRIES: usize = 50_000_000;

/// Entries of both kinds, sorted, each once.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entries {
    pub(super) sha256: Vec<Entry>,
    pub(super) blacklist: Vec<Entry>,
}

impl Entries {
    pub(super) fn count(&self) -> usize {
        self.sha256.len() + self.blacklist.len()
    }

    pub(super) fn sort(&mut self) {
        for entries in [&mut self.sha256, &mut self.blacklist] {
            entries.sort_unstable();
            entries.dedup();
            entries.shrink_to_fit();
        }
    }

    pub(super) fn hash(&self) -> [u8; 32] {
        let mut context = Context::new(&SHA256);
        context.update(&(self.sha256.len() as u64).to_le_bytes());
        context.update(self.sha256.as_flattened());
        context.update(self.blacklist.as_flattened());
        let mut hash = [0; 32];
        hash.copy_from_slice(context.finish().as_ref());
        hash
    }
}

/// Reason why a file is no list.
#[derive(Debug)]
pub(super) enum Broken {
    Io(io::Error),
    /// A problem, with its line, and the hint.
    Problem {
        what: String,
        hint: &'static str,
    },
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::problem("is cut short", "pack it again, or copy it again"),
            _ => Self::Io(error),
        }
    }
}

impl Broken {
    pub(super) fn problem(what: impl Into<String>, hint: &'static str) -> Self {
        Self::Problem { what: what.into(), hint }
    }

    pub(super) fn too_many() -> Self {
        Self::problem(format!("holds more than {MAX_ENTRIES} entries"), "")
    }
}
