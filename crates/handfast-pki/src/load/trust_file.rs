//! A PEM file of trusted certificates: for clients of a server, or for backends.
//!
//! In: its path. Out: the certificates, and problems with the file. The caller decides the use of each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::finding::{Finding, Reason, has_error};
use crate::parsed::Parsed;
use crate::read::{self, FileStamp, failed, watch};
use crate::sections::{Contents, no_certificate};

/// Contents of a file of trusted certificates.
#[derive(Default)]
pub struct TrustFile {
    /// Its certificates, in their order.
    pub certificates: Vec<Parsed>,
    /// It holds a private key too, which has no use there.
    pub has_key: bool,
    /// Findings about it.
    pub findings: Vec<Finding>,
    /// The file, for [`super::changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes.
    pub folders: Vec<PathBuf>,
}

impl TrustFile {
    /// Reads it; `purpose`: whose certificates it should hold.
    pub fn read(file: &Path, purpose: &str) -> Self {
        let mut folders = BTreeSet::new();
        watch(file, &mut folders);
        let content = read::whole_or_stamp(file, read::SIZE_LIMIT);
        let stamp = match &content {
            Ok(content) => content.stamp,
            Err((_, stamp)) => *stamp,
        };
        let mut read = Self {
            certificates: Vec::new(),
            has_key: false,
            findings: Vec::new(),
            files_read: vec![(file.to_path_buf(), stamp)],
            folders: folders.into_iter().collect(),
        };
        match content {
            Ok(content) => read.take(&content.bytes, file, purpose),
            Err((failure, _)) => read.findings.push(failed(file, &failure)),
        }
        read
    }

    fn take(&mut self, bytes: &[u8], file: &Path, purpose: &str) {
        let contents = Contents::of(bytes, file);
        self.findings = contents.findings;
        if let Some(not_pem) = contents.not_pem {
            self.findings.push(not_pem.finding(file));
        } else if contents.certificates.is_empty() && self.is_usable() {
            let message = format!("holds no certificate, expected those of {purpose}");
            no_certificate(&mut self.findings, Finding::error(Reason::NoCertificate, file, message));
        }
        self.has_key = !contents.keys.is_empty();
        self.certificates = contents.certificates;
    }

    /// Returns true if no finding is an error so far.
    pub fn is_usable(&self) -> bool {
        !has_error(&self.findings)
    }
}
