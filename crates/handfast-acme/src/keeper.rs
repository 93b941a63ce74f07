//! Keys of certificates and accounts in the key process (`private-keys = "separate-process"`): made there, kept there, used there.
//!
//! In: requests of the process that serves, which may be in the hands of an attacker. Out: public keys, requests for certificates (CSR),
//! signed requests to issuers; never a private key.
//!
//! ```text
//! KEY-FOLDER/NAME~ID.pem             key of a certificate; the ID is the beginning of the hash of its public key
//! KEY-FOLDER/account_DIRECTORY.json  key of the account with the issuer of that directory
//! ```
//!
//! The folder is opened once, before the first request. No request has a path: files are named by names that were parsed, below the open
//! folder, and no link is followed. A key of an account is in no PEM file, so that the request to read a file, which lets its keys sign
//! anything, does not find it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;

use data_encoding::{BASE64URL_NOPAD, DecodeError, HEXLOWER};
use handfast_pki::apart::KeyId;
use handfast_pki::source::Ordered;
use handfast_text::foreign::without_values;
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PublicKeyData};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fsync, openat, unlinkat};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::file_name::directory_stem;
use crate::jws::{AccountKey, AccountSigner, Jws, JwsError};
use crate::name::Name;

/// Keys of one name: the present one, that of an order, and those of orders that a kill cut short.
const MAX_KEYS_PER_NAME: usize = 8;
/// Files in all: what an attacker can have made.
const MAX_FILES: usize = 20_000;
const MAX_ACCOUNTS: usize = 64;
const MAX_KEY_BYTES: u64 = 64 << 10;
const ACCOUNT: &str = "account_";

/// Request to the key process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum KeyRequest {
    /// Makes a key for a name; removes its others but this one. Answered with the ID.
    Make {
        /// The name.
        name: String,
        /// The ID of the key that is in use.
        keeps: Option<String>,
    },
    /// The request for a certificate (CSR, DER) for a name, with this key.
    Csr {
        /// The name.
        name: String,
        /// The ID of the key.
        id: String,
    },
    /// The public key of an account, which is made where there is none.
    Account {
        /// The directory of the issuer.
        directory: String,
    },
    /// A signed request to an issuer.
    Sign {
        /// The directory of the issuer.
        directory: String,
        /// The header.
        header: String,
        /// The payload.
        payload: String,
    },
}

#[derive(Serialize, Deserialize)]
struct StoredKey {
    /// DER in base64url.
    key: String,
}

/// Reason why a request to the key process is not carried out.
#[derive(Debug, Error)]
pub enum KeeperError {
    /// It is malformed.
    #[error("the request is invalid: {0}")]
    Request(#[source] serde_json::Error),
    /// It is for no name.
    #[error("this is no name")]
    Name,
    /// It has no ID of a key.
    #[error("this is no ID of a key")]
    Id,
    /// The key is not in the folder.
    #[error("this key is not there")]
    NoKey,
    /// The file of the key is no text.
    #[error(transparent)]
    KeyText(#[from] std::string::FromUtf8Error),
    /// The text is no key, or one of another kind. The library's error would have parts of the text.
    #[error("expected a private key in PEM, of a kind that certificates are ordered for")]
    KeyKind,
    /// The library cannot make or use the key.
    #[error(transparent)]
    Key(#[from] rcgen::Error),
    /// A value cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The key of the account cannot be used, or does not sign this.
    #[error(transparent)]
    Jws(#[from] JwsError),
    /// The system has no random numbers.
    #[error(transparent)]
    Random(#[from] handfast_tls::Error),
    /// The text of the account is malformed; the reason has no values of it.
    #[error("{file}: {reason}")]
    AccountText {
        /// The file.
        file: String,
        /// The problem with its text.
        reason: String,
    },
    /// The key in the file of the account is no base64url.
    #[error("{file}: {source}")]
    AccountBase64 {
        /// The file.
        file: String,
        /// Error of the system or the library.
        source: DecodeError,
    },
    /// The key in the file of the account cannot be used.
    #[error("{file}: {source}")]
    AccountKey {
        /// The file.
        file: String,
        /// Error of the system or the library.
        source: JwsError,
    },
    /// Only the request for an account makes one.
    #[error("there is no account with this issuer")]
    NoAccount,
    /// The folder has as many accounts as it may have.
    #[error("there are {MAX_ACCOUNTS} accounts already")]
    TooManyAccounts,
    /// The folder has as many files as it may have.
    #[error("there are {files} keys already")]
    TooManyKeys {
        /// The files that are there.
        files: usize,
    },
    /// The name of a file would be too long.
    #[error("the directory of the issuer is {length} characters long, expected at most 200")]
    LongDirectory {
        /// Characters of the directory.
        length: usize,
    },
    /// The folder cannot be listed.
    #[error("list the folder of the keys: {0}")]
    List(#[source] io::Error),
    /// A file cannot be read.
    #[error("read {file}: {source}")]
    Read {
        /// The file.
        file: String,
        /// Error of the system or the library.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("write {file}: {source}")]
    Write {
        /// The file.
        file: String,
        /// Error of the system or the library.
        source: io::Error,
    },
}

/// The keys in their folder.
#[derive(Debug)]
pub struct Keeper {
    folder: OwnedFd,
}

impl Keeper {
    /// Opens the folder. **Errors**: it is none; it is a link; another user owns it, or can read or write it.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&opened)?;
        if found.st_uid != rustix::process::geteuid().as_raw() || found.st_mode & 0o077 != 0 {
            return Err(io::Error::other(format!(
                "it belongs to the user {} with the mode {:o}, expected the user {} and the mode 700",
                found.st_uid,
                found.st_mode & 0o7777,
                rustix::process::geteuid().as_raw()
            )));
        }
        Ok(Self { folder: opened })
    }

    /// Answers a request. **Errors**: why it is not carried out.
    pub fn answer(&self, request: &[u8]) -> Result<Vec<u8>, KeeperError> {
        match serde_json::from_slice(request).map_err(KeeperError::Request)? {
            KeyRequest::Make { name, keeps } => {
                self.make(&parsed(&name)?, keeps.as_deref()).map(String::into_bytes)
            }
            KeyRequest::Csr { name, id } => {
                let name = parsed(&name)?;
                let pem = self.read(&key_file(&name, checked(&id)?))?.ok_or(KeeperError::NoKey)?;
                Ok(certificate_request(&name, &key_of(&String::from_utf8(pem)?)?)?)
            }
            KeyRequest::Account { directory } => {
                self.account(&directory, true).map(|key| key.jwk().as_bytes().to_vec())
            }
            KeyRequest::Sign { directory, header, payload } => {
                let signed: Jws = self.account(&directory, false)?.sign(&header, &payload)?;
                Ok(serde_json::to_vec(&signed)?)
            }
        }
    }

    /// Makes a key for a name; removes its others but the one that is in use.
    fn make(&self, name: &Name, keeps: Option<&str>) -> Result<String, KeeperError> {
        let prefix = key_file(name, "");
        let prefix = prefix.trim_end_matches(".pem");
        let keeps = keeps.map(checked).transpose()?.map(|id| key_file(name, id));
        let all = self.files()?;
        let of_name = all.iter().filter(|file| file.starts_with(prefix));
        // Without a certificate in use, several processes or a damaged file may be the reason: the last ones are kept.
        for file in of_name.clone().filter(|file| keeps.is_some() && Some(*file) != keeps.as_ref()) {
            let _ = unlinkat(&self.folder, file.as_str(), AtFlags::empty());
        }
        if keeps.is_none() && of_name.count() >= MAX_KEYS_PER_NAME {
            let first = self.oldest(prefix, &all);
            let _ = first.map(|file| unlinkat(&self.folder, file, AtFlags::empty()));
        }
        let key = KeyPair::generate()?;
        self.put(name, &key, all.len())
    }

    fn put(&self, name: &Name, key: &KeyPair, files: usize) -> Result<String, KeeperError> {
        let id = id_of(&key.subject_public_key_info());
        self.write(&key_file(name, &id), key.serialize_pem().as_bytes(), files)?;
        Ok(id)
    }

    /// Stores a key that was made elsewhere; `pem` has it. For the import, which no client and no issuer can reach.
    pub(crate) fn take(&self, name: &Name, pem: &str) -> Result<(), KeeperError> {
        let key = key_of(pem)?;
        let file = key_file(name, &id_of(&key.subject_public_key_info()));
        match self.read(&file)? {
            Some(_) => Ok(()),
            // As it is: PKCS#1 and SEC 1 have other words in PEM.
            None => self.write(&file, pem.as_bytes(), self.files()?.len()),
        }
    }

    /// Stores the key of an account that was made elsewhere, DER.
    pub(crate) fn take_account(&self, directory: &str, key: &AccountKey) -> Result<(), KeeperError> {
        let file = account_file(directory)?;
        let stored = StoredKey { key: BASE64URL_NOPAD.encode(key.der()) };
        let text = serde_json::to_vec(&stored)?;
        self.write(&file, &text, self.files()?.len())
    }

    fn oldest<'f>(&self, prefix: &str, all: &'f [String]) -> Option<&'f str> {
        let of_name = all.iter().filter(|file| file.starts_with(prefix));
        let age = |file: &&String| {
            let stat = rustix::fs::statat(&self.folder, file.as_str(), AtFlags::SYMLINK_NOFOLLOW);
            stat.map_or(0, |stat| stat.st_mtime)
        };
        of_name.min_by_key(age).map(String::as_str)
    }

    fn account(&self, directory: &str, makes: bool) -> Result<AccountKey, KeeperError> {
        let file = account_file(directory)?;
        if let Some(text) = self.read(&file)? {
            let stored: StoredKey = serde_json::from_slice(&text).map_err(|error| {
                let reason = without_values(&error);
                KeeperError::AccountText { file: file.clone(), reason }
            })?;
            let der = BASE64URL_NOPAD.decode(stored.key.as_bytes());
            let der = der.map_err(|source| KeeperError::AccountBase64 { file: file.clone(), source })?;
            return AccountKey::from_der(&der).map_err(|source| KeeperError::AccountKey { file, source });
        }
        if !makes {
            return Err(KeeperError::NoAccount);
        }
        let files = self.files()?;
        if files.iter().filter(|file| file.starts_with(ACCOUNT)).count() >= MAX_ACCOUNTS {
            return Err(KeeperError::TooManyAccounts);
        }
        let key = AccountKey::generate()?;
        self.take_account(directory, &key)?;
        Ok(key)
    }

    fn files(&self) -> Result<Vec<String>, KeeperError> {
        let listed = || -> io::Result<Vec<String>> {
            let again = openat(&self.folder, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            let mut files = Vec::new();
            for entry in Dir::new(again)? {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if !name.starts_with('.') {
                    files.push(name);
                }
            }
            Ok(files)
        };
        listed().map_err(KeeperError::List)
    }

    fn read(&self, file: &str) -> Result<Option<Vec<u8>>, KeeperError> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let failed = |source| KeeperError::Read { file: file.to_owned(), source };
        let opened = match openat(&self.folder, file, flags, Mode::empty()) {
            Ok(opened) => File::from(opened),
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error.into())),
        };
        let mut bytes = Vec::new();
        let read = opened.take(MAX_KEY_BYTES).read_to_end(&mut bytes);
        read.map(|_| Some(bytes)).map_err(failed)
    }

    /// Writes a new file: whole and on the disk, or not at all.
    fn write(&self, file: &str, content: &[u8], files: usize) -> Result<(), KeeperError> {
        if files >= MAX_FILES {
            return Err(KeeperError::TooManyKeys { files });
        }
        let aside = format!(".{}.new", HEXLOWER.encode(&random()?));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let written = || -> io::Result<()> {
            let mut opened =
                File::from(openat(&self.folder, aside.as_str(), flags, Mode::RUSR | Mode::WUSR)?);
            opened.write_all(content)?;
            opened.sync_all()?;
            rustix::fs::renameat(&self.folder, aside.as_str(), &self.folder, file)?;
            Ok(fsync(&self.folder)?)
        };
        written().map_err(|source| {
            let _ = unlinkat(&self.folder, aside.as_str(), AtFlags::empty());
            KeeperError::Write { file: file.to_owned(), source }
        })
    }
}

fn random() -> Result<[u8; 8], KeeperError> {
    let mut bytes = [0; 8];
    handfast_tls::random_bytes(&mut bytes)?;
    Ok(bytes)
}

fn parsed(name: &str) -> Result<Name, KeeperError> {
    Name::parse(name).ok_or(KeeperError::Name)
}

/// The key in a PEM text.
fn key_of(pem: &str) -> Result<KeyPair, KeeperError> {
    KeyPair::from_pem(pem).map_err(|_| KeeperError::KeyKind)
}

/// An ID, and nothing that leads elsewhere.
fn checked(id: &str) -> Result<&str, KeeperError> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (id.len() == 32 && id.bytes().all(is_digit)).then_some(id).ok_or(KeeperError::Id)
}

fn id_of(public_key: &[u8]) -> String {
    KeyId::of(public_key).file_part()
}

fn key_file(name: &Name, id: &str) -> String {
    let file = Ordered::key_file(Path::new(""), &name.file_stem(), id);
    file.to_string_lossy().into_owned()
}

fn account_file(directory: &str) -> Result<String, KeeperError> {
    let stem = directory_stem(directory);
    match stem.len() {
        1..=200 => Ok(format!("{ACCOUNT}{stem}.json")),
        length => Err(KeeperError::LongDirectory { length }),
    }
}

/// The request for a certificate (CSR), DER.
pub(crate) fn certificate_request(name: &Name, key: &KeyPair) -> Result<Vec<u8>, rcgen::Error> {
    let mut params = CertificateParams::new(vec![name.to_string()])?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key)?.der().to_vec())
}

#[cfg(test)]
mod tests;
