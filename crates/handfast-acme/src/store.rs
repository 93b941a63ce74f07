//! The folder in which accounts, certificates and records are kept.
//!
//! ```text
//! FOLDER/lock                      held by the one process that orders
//! FOLDER/accounts/DIRECTORY.json   account with the issuer of that directory
//! FOLDER/certificates/NAME.pem     key and chain in one file, which is served; the chain alone where keys are apart
//! FOLDER/records/NAME.json         orders, failures, the next try
//! FOLDER/pending/NAME.json         an order that is under way, with its key
//! ```
//!
//! Separate private keys are in another folder (`keeper.rs`), and this process reads no file that may hold one: the key process
//! reads files of certificates for it, and accounts have other files (`accounts/DIRECTORY.apart.json`).
//!
//! In: values. Out: files of mode 0600, written aside, synced and renamed, so that a reader sees the old file or the new one. A file
//! that was written in part has a name that begins with a dot, and is removed by the next process that takes the lock.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_pki::apart::Holder;
use handfast_pki::certificate::Certificate;
use handfast_pki::files::open_own;
use handfast_pki::load::{Source, load_from};
use handfast_pki::source::Ordered;
use handfast_pki::weak::Lists;
use handfast_text::foreign::without_values;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::{Error, UnusableError};
use crate::file_name::directory_stem;
use crate::keys::KeysApart;
use crate::model::Settings;
use crate::name::Name;
use crate::record::Record;
use crate::schedule::Life;

const LOCK: &str = "lock";
const ACCOUNTS: &str = "accounts";
const CERTIFICATES: &str = "certificates";
const RECORDS: &str = "records";
const PENDING: &str = "pending";
/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Room that is taken on the disk before an order, so that the certificate that comes of it can be stored. A chain has 3 to 15 KiB.
const ROOM: usize = 64 << 10;
/// A record that cannot be read may have had orders in it: the next try is after this time, in seconds.
const AFTER_A_LOST_RECORD: i64 = 3_600;

/// The store. Copies share the folder.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
    keys: Option<KeysApart>,
}

/// The right to order. Given back when it is dropped, also by a process that is killed.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

/// An order that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The directory that it was sent to.
    pub directory: String,
    /// Its URL.
    pub url: String,
    /// The key of the certificate, in PEM; where keys are apart, which one it is.
    pub key: String,
}

/// A certificate of the store that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// From when until when it is valid.
    pub life: Life,
    /// The server's own certificate, DER.
    pub leaf: Vec<u8>,
    /// ID of its key in the key process.
    pub(crate) key_id: Option<String>,
}

/// Room on the disk for a file that is yet to come.
#[derive(Debug)]
pub struct Reserved {
    file: File,
    path: PathBuf,
    target: PathBuf,
    keys: Option<KeysApart>,
}

impl Store {
    /// The store in a folder, with private keys. Nothing is read or made.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), keys: None }
    }

    /// The store of these settings. `holder`: the key process, if there is one.
    pub(crate) fn of(settings: &Settings, holder: Option<Arc<dyn Holder>>) -> Self {
        let keys = settings.key_folder.clone().map(|folder| KeysApart { folder, holder });
        Self { folder: settings.folder.clone(), keys }
    }

    /// Returns the store of private keys, if they are not in this process.
    pub(crate) fn keys(&self) -> Option<&KeysApart> {
        self.keys.as_ref()
    }

    /// The folders of the store, which must exist before the process enters its sandbox.
    pub fn folders(&self) -> [PathBuf; 5] {
        ["", ACCOUNTS, CERTIFICATES, RECORDS, PENDING].map(|below| self.folder.join(below))
    }

    /// The folder of the certificates.
    pub fn certificates(&self) -> PathBuf {
        self.folder.join(CERTIFICATES)
    }

    /// The file of a certificate.
    pub fn certificate_file(&self, name: &Name) -> PathBuf {
        Ordered::file(&self.certificates(), &name.to_string())
    }

    /// Makes the folders that are missing, and checks that files can be made in each.
    ///
    /// **Errors**: a folder cannot be made, or is read-only, or the disk is full.
    pub fn prepare(&self) -> Result<(), Error> {
        for folder in self.folders() {
            // In the sandbox no folder can be made, not even one that is there.
            let made = match folder.is_dir() {
                true => Ok(()),
                false => fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder),
            };
            made.map_err(Error::store("make the folder", &folder))?;
            let trial = folder.join(format!(".trial-{}", std::process::id()));
            let written = create(&trial).and_then(|mut file| {
                file.write_all(&[0; 512])?;
                file.sync_all()
            });
            let removed = fs::remove_file(&trial);
            written.and(removed).map_err(Error::store("write in the folder", &folder))?;
        }
        Ok(())
    }

    /// Takes the lock; `None`: another process holds it.
    ///
    /// Files that a process which was killed had begun are removed.
    ///
    /// **Errors**: the file cannot be opened.
    pub fn lock(&self) -> Result<Option<StoreLock>, Error> {
        let path = self.folder.join(LOCK);
        let failed = Error::store("lock", &path);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = match open_own(&path, &mut options) {
            Ok(file) => file,
            Err(error) => return Err(failed(error)),
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        }
        for folder in self.folders() {
            remove_begun(&folder);
        }
        Ok(Some(StoreLock { _file: file }))
    }

    /// The certificate of a name; `None`: there is none that can be used.
    pub fn certificate(&self, name: &Name, now: i64) -> Option<Stored> {
        let path = self.certificate_file(name);
        match &self.keys {
            Some(keys) => usable_apart(&path, keys, name, now).ok(),
            None => usable(&read(&path).ok()??, name, now).ok(),
        }
    }

    /// The file of a certificate, with its key where keys are not apart.
    pub(crate) fn text(&self, name: &Name) -> Option<String> {
        String::from_utf8(read(&self.certificate_file(name)).ok()??).ok()
    }

    /// Takes room on the disk for a certificate.
    ///
    /// **Errors**: there is none, or the folder is read-only.
    pub fn reserve(&self, name: &Name) -> Result<Reserved, Error> {
        let target = self.certificate_file(name);
        let path = aside(&target);
        let reserved = create(&path).and_then(|mut file| {
            file.write_all(&vec![0; ROOM])?;
            file.sync_all()?;
            Ok(file)
        });
        match reserved {
            Ok(file) => Ok(Reserved { file, path, target, keys: self.keys.clone() }),
            Err(error) => {
                let _ = fs::remove_file(&path);
                Err(Error::store("take room for", &target)(error))
            }
        }
    }

    /// Returns the stored state of a name.
    pub fn record(&self, name: &Name, now: i64) -> Record {
        let path = self.record_file(name);
        match read_json(&path) {
            Ok(record) => record.unwrap_or_default(),
            Err(error) => {
                let mut record = Record::default();
                record.failed(&error.to_string(), Some(AFTER_A_LOST_RECORD), now, 0.0);
                record
            }
        }
    }

    /// Remembers it. **Errors**: the file cannot be written.
    pub fn save_record(&self, name: &Name, record: &Record) -> Result<(), Error> {
        write_json(&self.record_file(name), record)
    }

    /// An order of this name that is under way. One that cannot be read is none.
    pub fn pending(&self, name: &Name) -> Option<Pending> {
        read_json(&self.pending_file(name)).ok().flatten()
    }

    /// Remembers an order. **Errors**: the file cannot be written.
    pub fn save_pending(&self, name: &Name, pending: &Pending) -> Result<(), Error> {
        write_json(&self.pending_file(name), pending)
    }

    /// Forgets an order.
    pub fn forget_pending(&self, name: &Name) {
        let _ = fs::remove_file(self.pending_file(name));
    }

    /// The account with the issuer of a directory. **Errors**: its file cannot be read: an account is not lost by making another one.
    pub fn account<T: DeserializeOwned>(&self, directory: &str) -> Result<Option<T>, Error> {
        read_json(&self.account_file(directory))
    }

    /// Stores an account. **Errors**: the file cannot be written.
    pub fn save_account(&self, directory: &str, account: &impl Serialize) -> Result<(), Error> {
        write_json(&self.account_file(directory), account)
    }

    fn record_file(&self, name: &Name) -> PathBuf {
        self.folder.join(RECORDS).join(name.file_stem() + ".json")
    }

    fn pending_file(&self, name: &Name) -> PathBuf {
        self.folder.join(PENDING).join(name.file_stem() + ".json")
    }

    fn account_file(&self, directory: &str) -> PathBuf {
        let end = if self.keys.is_some() { ".apart.json" } else { ".json" };
        self.folder.join(ACCOUNTS).join(directory_stem(directory) + end)
    }
}

impl Reserved {
    /// Tries a new certificate, and puts it in the place of the one before if it can be used. Until then that one is untouched.
    ///
    /// **Errors**: it cannot be used for the name, or not be written.
    pub fn install(mut self, pem: &str, name: &Name, now: i64) -> Result<(), Error> {
        let written = self.try_and_put(pem, name, now);
        if written.is_err() {
            let _ = fs::remove_file(&self.path);
        }
        written
    }

    /// Puts a chain in place that was tried elsewhere. **Errors**: it cannot be written.
    pub(crate) fn put(mut self, pem: &str) -> Result<(), Error> {
        let written = self.write(pem).and_then(|()| put_in_place(&self.path, &self.target));
        written.map_err(|error| {
            let _ = fs::remove_file(&self.path);
            Error::store("write", &self.target)(error)
        })
    }

    fn try_and_put(&mut self, pem: &str, name: &Name, now: i64) -> Result<(), Error> {
        let unusable = |source| Error::Unusable { source };
        if self.keys.is_none() {
            usable(pem.as_bytes(), name, now).map_err(unusable)?;
        }
        self.write(pem).map_err(Error::store("write", &self.target))?;
        if let Some(keys) = &self.keys {
            // The key process pairs it with its key, as it will when it is served: so it has to be on the disk.
            usable_apart(&self.path, keys, name, now).map_err(unusable)?;
        }
        put_in_place(&self.path, &self.target).map_err(Error::store("write", &self.target))
    }

    fn write(&mut self, pem: &str) -> io::Result<()> {
        self.file.rewind()?;
        self.file.write_all(pem.as_bytes())?;
        self.file.set_len(pem.len() as u64)?;
        self.file.sync_all()
    }

    /// Gives the room back.
    pub fn release(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Checks that a PEM text is a certificate with its key for this name, that is valid now; the error is the reason.
fn usable(pem: &[u8], name: &Name, now: i64) -> Result<Stored, UnusableError> {
    let (certificate, findings) = Certificate::from_pem(pem, Path::new("(new)"), now);
    let Some(certificate) = certificate else {
        return Err(UnusableError::of(&findings));
    };
    fits(&certificate, name, now)
}

/// Checks that a file has a certificate for this name that is valid now, and the key process its key; the error is the
/// reason.
fn usable_apart(path: &Path, keys: &KeysApart, name: &Name, now: i64) -> Result<Stored, UnusableError> {
    let source =
        Source::Awaited { file: path.to_owned(), keys: Some(Ordered::keys(&keys.folder, &name.file_stem())) };
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(now).unwrap_or(0));
    let loaded = load_from(&[source], &Lists::default(), time, keys.holder.as_ref());
    match loaded.certificates.first() {
        Some(certificate) => fits(certificate, name, now),
        None => Err(UnusableError::of(&loaded.findings)),
    }
}

fn fits(certificate: &Certificate, name: &Name, now: i64) -> Result<Stored, UnusableError> {
    let text = name.to_string();
    let has_name = match name.address() {
        Some(address) => certificate.ip_names().contains(&address),
        None => certificate.dns_names().iter().any(|known| **known == *text),
    };
    if !has_name {
        return Err(UnusableError::OtherName(name.clone()));
    }
    if !certificate.is_valid_at(now) {
        let (from, until) = (certificate.not_before(), certificate.not_after());
        return Err(UnusableError::NotValid { now, from, until });
    }
    let life = Life { not_before: certificate.not_before(), not_after: certificate.not_after() };
    let key_id = certificate.key_id().map(|id| id.file_part());
    Ok(Stored { life, leaf: certificate.chain()[0].to_vec(), key_id })
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = open_own(path, options.write(true).create(true).truncate(false).mode(0o600))?;
    file.set_len(0)?;
    Ok(file)
}

/// Returns the temporary path to which a file is written before it gets its name.
fn aside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}.new"))
}

fn remove_begun(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') && name.ends_with(".new") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn put_in_place(path: &Path, target: &Path) -> io::Result<()> {
    fs::rename(path, target)?;
    // Without it a crash of the machine could bring the old name back.
    let folder = target.parent().unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let mut bytes = Vec::new();
    let opened = open_own(path, OpenOptions::new().read(true));
    let read = opened.and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::store("read", path)(error)),
    }
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let Some(bytes) = read(path)? else { return Ok(None) };
    let malformed =
        |error: serde_json::Error| Error::Malformed { path: path.to_owned(), what: without_values(&error) };
    serde_json::from_slice(&bytes).map(Some).map_err(malformed)
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    let aside = aside(path);
    let text = serde_json::to_vec_pretty(value).map_err(io::Error::other);
    let written = text.and_then(|text| {
        let mut file = create(&aside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        put_in_place(&aside, path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&aside);
        Error::store("write", path)(error)
    })
}

#[cfg(test)]
mod tests;
