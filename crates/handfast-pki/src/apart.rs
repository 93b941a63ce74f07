//! Private keys in another process: this one has their certificates and requests signatures.
//!
//! In: here, a [`Holder`], which is the connection to the other process; there, a [`Held`]. Out: the same certificates and findings
//! as if the files were read here, with keys without secrets. The other process reads every file completely, since a
//! PEM file may hold both, and answers with the public parts. The caller transports the requests.

#![expect(
    clippy::disallowed_types,
    reason = "only the process of the keys locks, which serves no connection"
)]

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::sign::SigningKey;

use crate::certificate::Certificate;
use crate::load::InspectedFile;
use crate::read::{Failure, FileStamp};

mod holder;
mod wire;

pub use holder::{Holder, ID, KeyId, Unavailable};

impl Certificate {
    /// Returns the ID of its private key; `None` if the key has no readable public key.
    pub fn key_id(&self) -> Option<KeyId> {
        self.certified().key.public_key().map(|key| KeyId::of(&key))
    }
}

/// Reads a file through the holder.
pub(crate) fn inspect(holder: &Arc<dyn Holder>, path: &Path) -> InspectedFile {
    // Another attempt may succeed.
    let failed = |error| InspectedFile {
        path: path.to_path_buf(),
        stamp: FileStamp::UNREAD,
        mode: 0,
        contents: Err(Failure::Refused(error)),
    };
    let answer = match holder.inspect(path) {
        Ok(answer) => answer,
        Err(error) => return failed(error),
    };
    let Some((looked, keys)) = wire::decode(&answer, path, holder) else {
        return failed(io::Error::new(io::ErrorKind::InvalidData, "the key process answers something else"));
    };
    if !keys.is_empty() {
        holder.found(path, &keys);
    }
    looked
}

/// The stamp of a file as the holder sees it, which may have more permissions; `None`: it does not answer.
pub(crate) fn stamp(holder: &dyn Holder, path: &Path) -> Option<FileStamp> {
    wire::decode_stamp(&holder.stamp(path).ok()?)
}

/// Reason why the process that holds the keys made no signature.
#[derive(Clone, Debug, PartialEq)]
pub enum SignError {
    /// It does not have the key.
    NoKey,
    /// The key signs in other schemes.
    OtherScheme,
    /// The library failed.
    Library(rustls::Error),
}

impl fmt::Display for SignError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey => f.write_str(
                "it does not have this key: the file was changed or removed after it was read, and the process was started again since",
            ),
            Self::OtherScheme => f.write_str("the key does not sign in this scheme"),
            Self::Library(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for SignError {}

/// The keys, in the process that holds them.
#[derive(Debug, Default)]
pub struct Held(RwLock<HashMap<KeyId, Arc<dyn SigningKey>>>);

impl Held {
    /// Reads a file, keeps its keys, and answers with the public parts.
    pub fn inspect(&self, path: &Path) -> Vec<u8> {
        let looked = InspectedFile::at(path);
        if let Ok(contents) = &looked.contents
            && !contents.keys.is_empty()
        {
            let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
            for key in &contents.keys {
                held.entry(KeyId::of(&key.public_key)).or_insert_with(|| Arc::clone(&key.signing));
            }
        }
        wire::encode(&looked)
    }

    /// Returns the encoded stamp of the file at `path`, without reading the file.
    pub fn stamp(&self, path: &Path) -> Vec<u8> {
        wire::encode_stamp(FileStamp::of(path))
    }

    /// Signs a message of a handshake.
    ///
    /// **Errors**: there is no such key, or it does not sign in this scheme.
    pub fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let key = held.get(key).cloned();
        drop(held);
        let signer =
            key.ok_or(SignError::NoKey)?.choose_scheme(&[scheme.into()]).ok_or(SignError::OtherScheme)?;
        signer.sign(message).map_err(SignError::Library)
    }

    /// Removes a key; a signature that is being made with it is still completed.
    pub fn forget(&self, key: &KeyId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Returns the number of keys held.
    pub fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
pub(crate) mod tests;
