//! A file that may hold certificates and keys, as it was read.
//!
//! In: a path. Out: its contents, or why it could not be read, with what is needed to notice that it changes.

use std::path::{Path, PathBuf};

use crate::finding::{Finding, Reason};
use crate::read::{self, Failure, FileStamp};
use crate::sections::Contents;

/// A file that was looked at.
pub(crate) struct InspectedFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: FileStamp,
    pub(crate) mode: u32,
    /// `Err` when it could not be read; the contents' findings may still hold errors.
    pub(crate) contents: Result<Contents, Failure>,
}

impl InspectedFile {
    pub(crate) fn at(path: &Path) -> Self {
        let path = path.to_path_buf();
        match read::whole_or_stamp(&path, read::SIZE_LIMIT) {
            Ok(content) => {
                let contents = Ok(Contents::of(&content.bytes, &path));
                Self { path, stamp: content.stamp, mode: content.mode, contents }
            }
            Err((failure, stamp)) => Self { path, stamp, mode: 0, contents: Err(failure) },
        }
    }

    /// A warning when the file holds a key and others may read it.
    pub(super) fn permissions(&self) -> Option<Finding> {
        let holds_key = self.contents.as_ref().is_ok_and(|contents| !contents.keys.is_empty());
        let open = self.mode & 0o066;
        if !holds_key || open == 0 {
            return None;
        }
        let readers = if open & 0o006 != 0 { "all users of this machine" } else { "its group" };
        let message = format!("the key is open to {readers} (mode {:04o}), expected 0600", self.mode);
        let hint = format!("chmod 600 {}", self.path.display());
        Some(Finding::warning(Reason::Permissions, &self.path, message).hint(hint))
    }
}
