//! Sources of certificates, and the requirements of each source on the serving processes.
//!
//! In: paths, or a certificate in memory. Out: places for `load.rs`; the paths that the sandbox must allow, and those that the key
//! process must read. A path that is missing there fails only at a later reload.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::certificate::Certificate;
use crate::load::{Source, key_file_of};
use crate::throwaway::Throwaway;

/// Source of certificates.
pub trait CertificateSource: fmt::Debug + Send + Sync {
    /// The places to read.
    fn places(&self) -> Vec<Source> {
        Vec::new()
    }

    /// Certificates that are in no file.
    fn in_memory(&self) -> Vec<Arc<Certificate>> {
        Vec::new()
    }

    /// The paths that it reads, at a reload too.
    fn needs(&self) -> SourceNeeds {
        SourceNeeds::default()
    }
}

/// The paths that sources of certificates read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceNeeds {
    /// Files with certificates or keys: the key process reads them.
    pub files: Vec<PathBuf>,
    /// Folders of such files.
    pub folders: Vec<PathBuf>,
    /// Files without keys: the key process does not read them.
    pub keyless: Vec<PathBuf>,
    /// The folder in which the key process makes and keeps keys: no other process needs it.
    pub key_folder: Option<PathBuf>,
}

impl SourceNeeds {
    /// All that the process which serves needs.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().chain(&self.folders).chain(&self.keyless)
    }
}

impl Extend<Self> for SourceNeeds {
    fn extend<T: IntoIterator<Item = Self>>(&mut self, all: T) {
        for Self { files, folders, keyless, key_folder } in all {
            self.files.extend(files);
            self.folders.extend(folders);
            self.keyless.extend(keyless);
            self.key_folder = self.key_folder.take().or(key_folder);
        }
    }
}

/// One certificate in files that the configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The chain, and the key unless that has its own file.
    pub certificate: PathBuf,
    /// The key's own file.
    pub key: Option<PathBuf>,
    /// The OCSP response; `None`: the one beside the certificate, if there is one.
    pub ocsp: Option<PathBuf>,
}

impl CertificateSource for Files {
    fn places(&self) -> Vec<Source> {
        let Self { certificate, key, ocsp } = self.clone();
        vec![Source::File { certificate, key, ocsp }]
    }

    fn needs(&self) -> SourceNeeds {
        let files = std::iter::once(&self.certificate).chain(&self.key).cloned().collect();
        SourceNeeds { files, keyless: self.ocsp.iter().cloned().collect(), ..SourceNeeds::default() }
    }
}

/// Every certificate in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder(pub PathBuf);

impl CertificateSource for Folder {
    fn places(&self) -> Vec<Source> {
        vec![Source::Folder(self.0.clone())]
    }

    fn needs(&self) -> SourceNeeds {
        SourceNeeds { folders: vec![self.0.clone()], ..SourceNeeds::default() }
    }
}

/// Certificates that this process orders itself (ACME): a file for each name, which might not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// The folder of the files.
    pub folder: PathBuf,
    /// Names, wildcards and addresses, in lower case; each has a certificate.
    pub names: Vec<String>,
    /// The folder of the private keys, where they are in the key process; `None`: each is in the file of its certificate.
    pub key_folder: Option<PathBuf>,
}

impl Ordered {
    /// The file of one name. No two names have the same: `_` is in no host name.
    pub fn file(folder: &Path, name: &str) -> PathBuf {
        folder.join(Self::stem(name) + ".pem")
    }

    /// The name of that file without its end.
    fn stem(name: &str) -> String {
        match name.strip_prefix("*.") {
            Some(below) => format!("wildcard_.{below}"),
            None if name.parse::<std::net::IpAddr>().is_ok() => format!("ip_{}", name.replace(':', "-")),
            None => name.to_owned(),
        }
    }

    /// Returns the path prefix of the key files of the certificate whose file has this stem.
    pub fn keys(folder: &Path, stem: &str) -> PathBuf {
        folder.join(format!("{stem}~"))
    }

    /// The file of one key, by its ID.
    pub fn key_file(folder: &Path, stem: &str, id: &str) -> PathBuf {
        key_file_of(&Self::keys(folder, stem), id)
    }
}

impl CertificateSource for Ordered {
    fn places(&self) -> Vec<Source> {
        let source = |name: &String| Source::Awaited {
            file: Self::file(&self.folder, name),
            keys: self.key_folder.as_ref().map(|folder| Self::keys(folder, &Self::stem(name))),
        };
        self.names.iter().map(source).collect()
    }

    fn needs(&self) -> SourceNeeds {
        SourceNeeds {
            folders: vec![self.folder.clone()],
            key_folder: self.key_folder.clone(),
            ..SourceNeeds::default()
        }
    }
}

impl CertificateSource for Arc<Throwaway> {
    fn in_memory(&self) -> Vec<Arc<Certificate>> {
        vec![Arc::clone(&self.certificate)]
    }
}
