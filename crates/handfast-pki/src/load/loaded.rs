//! Sources of certificates, and the certificates found there.
//!
//! In: certificates and findings, one after the other. Out: a [`Loaded`] in which each certificate is there once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};

use crate::apart::Holder;
use crate::certificate::Certificate;
use crate::finding::{Finding, Reason, Severity};
use crate::read::FileStamp;

/// A place to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// One PEM file that holds a chain, or a chain and its key; and the key's own file if it is apart.
    File {
        /// The chain.
        certificate: PathBuf,
        /// The key, when it is not in the same file.
        key: Option<PathBuf>,
        /// The OCSP response, which must be there; `None`: the one beside the certificate, if there is one.
        ocsp: Option<PathBuf>,
    },
    /// A folder, each file of which is looked at; not what is in its sub-folders.
    Folder(PathBuf),
    /// One PEM file with a chain and its key, which this process itself will write: as long as it is not there, or cannot be used, that is
    /// no error.
    Awaited {
        /// The file.
        file: PathBuf,
        /// Path prefix of key files, where the key is in no file with a chain: the ID of the key and `.pem` follow.
        keys: Option<PathBuf>,
    },
}

/// The file of the key with this ID, where the key files have this path prefix.
pub(crate) fn key_file_of(keys: &Path, id: &str) -> PathBuf {
    let mut file = keys.as_os_str().to_owned();
    file.push(id);
    file.push(".pem");
    file.into()
}

/// Result of loading.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Certificates that can be served, in the order of the sources; within a folder by file name.
    pub certificates: Vec<Arc<Certificate>>,
    /// Findings, errors first.
    pub findings: Vec<Finding>,
    /// OCSP responses that are not stapled, and why. An error among them is one of the configuration at a start; at a
    /// reload none keeps a certificate from being served.
    pub staples: Vec<Finding>,
    /// Every file and folder looked at, with its stamp then; hand it to [`changed`](super::changed).
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes: those of the files, and those that links lead to. A watch sees a change sooner
    /// than [`changed`](super::changed) would be asked; it may miss one behind a chain of links, so ask that too.
    pub folders: Vec<PathBuf>,
    /// Place of each certificate by the hash of its content.
    pub(super) known: HashMap<Box<[u8]>, usize>,
    /// Reader of the files with keys, while they are read; `None`: this process.
    pub(super) holder: Option<Arc<dyn Holder>>,
}

impl Loaded {
    /// Returns true if any finding is an error, so that this must not be served.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().chain(&self.staples).any(|finding| finding.severity == Severity::Error)
    }

    /// Returns true if another attempt shortly after, such as in 100 ms, may give a better result: a half-written file
    /// explains a finding.
    pub fn may_be_half_written(&self) -> bool {
        self.findings
            .iter()
            .chain(&self.staples)
            .any(|finding| finding.severity != Severity::Note && finding.may_be_half_written())
    }

    /// Adds a certificate unless the same was found before: compared by content, so that a file named twice, or linked
    /// under two names, is served once.
    pub(super) fn add(&mut self, certificate: Certificate) {
        let content = digest(&SHA256, &certificate.chain()[0]).as_ref().into();
        if let Some(known) = self.known.get(&content) {
            let known = self.certificates[*known].file().display();
            let message = format!("the same certificate as in {known}; that one is used");
            self.findings.push(Finding::note(Reason::Duplicate, certificate.file(), message));
            return;
        }
        self.known.insert(content, self.certificates.len());
        self.findings.extend(certificate.lacks_staple());
        self.certificates.push(Arc::new(certificate));
    }
}
