//! Private keys that another process holds: this one has their certificates and asks for signatures.
//!
//! In: here, a [`Holder`], which is the way to the other process; there, a [`Held`]. Out: the same certificates and findings as
//! if the files were read here, with keys that have nothing secret in them. The other process reads every file whole, since a
//! PEM file may hold both, and answers with what is public of it. How questions travel is the caller's.

#![expect(
    clippy::disallowed_types,
    reason = "only the process of the keys locks, which serves no connection"
)]

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use aws_lc_rs::digest::{SHA256, digest};
use rustls::sign::{Signer, SigningKey};
use rustls::{OtherError, SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::SubjectPublicKeyInfoDer;

use crate::certificate::Certificate;
use crate::key::Key;
use crate::key_kind::KeyKind;
use crate::load::Looked;
use crate::read::{Failure, FileStamp};

mod wire;

/// Bytes of a [`KeyId`].
pub const ID: usize = 32;

/// Which key: the SHA-256 of its public key (SubjectPublicKeyInfo), so that it is the same whoever reads it, and whenever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; ID]);

impl KeyId {
    fn of(public_key: &[u8]) -> Self {
        let mut id = [0; ID];
        id.copy_from_slice(digest(&SHA256, public_key).as_ref());
        Self(id)
    }
}

impl Certificate {
    /// Which key it has.
    pub fn key_id(&self) -> Option<KeyId> {
        self.certified().key.public_key().map(|key| KeyId::of(&key))
    }
}

/// Why no signature could be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// The way to the process that holds the keys.
pub trait Holder: fmt::Debug + Send + Sync {
    /// What [`Held::look`] answers there; `keys` is told which keys the file holds.
    ///
    /// **Errors**: it does not answer.
    fn look(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// What [`Held::stamp`] answers there.
    ///
    /// **Errors**: it does not answer.
    fn stamp(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The file at `path` was found to hold these keys.
    fn found(&self, path: &Path, keys: &[KeyId]);

    /// What [`Held::sign`] answers there.
    ///
    /// **Errors**: it does not answer, or says why it does not sign.
    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, Unavailable>;
}

/// Has a file looked at by the holder.
pub(crate) fn look(holder: &Arc<dyn Holder>, path: &Path) -> Looked {
    // What it does not answer now it may answer later.
    let failed = |error| Looked {
        path: path.to_path_buf(),
        stamp: FileStamp::UNREAD,
        mode: 0,
        contents: Err(Failure::Refused(error)),
    };
    let answer = match holder.look(path) {
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

/// The stamp of a file as the holder sees it, who may see more; `None`: it does not say.
pub(crate) fn stamp(holder: &dyn Holder, path: &Path) -> Option<FileStamp> {
    wire::decode_stamp(&holder.stamp(path).ok()?)
}

/// A key that is held elsewhere.
#[derive(Debug)]
struct Remote {
    holder: Arc<dyn Holder>,
    id: KeyId,
    public_key: Box<[u8]>,
    algorithm: SignatureAlgorithm,
    /// In the order in which the key itself would choose.
    schemes: Box<[SignatureScheme]>,
}

impl SigningKey for Remote {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let scheme = *self.schemes.iter().find(|scheme| offered.contains(scheme))?;
        Some(Box::new(RemoteSigner { holder: Arc::clone(&self.holder), id: self.id, scheme }))
    }

    fn public_key(&self) -> Option<SubjectPublicKeyInfoDer<'_>> {
        Some(SubjectPublicKeyInfoDer::from(&*self.public_key))
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }
}

#[derive(Debug)]
struct RemoteSigner {
    holder: Arc<dyn Holder>,
    id: KeyId,
    scheme: SignatureScheme,
}

impl Signer for RemoteSigner {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let signed = self.holder.sign(&self.id, self.scheme.into(), message);
        signed.map_err(|why| rustls::Error::Other(OtherError(Arc::new(why))))
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

/// The keys, in the process that holds them.
#[derive(Debug, Default)]
pub struct Held(RwLock<HashMap<KeyId, Arc<dyn SigningKey>>>);

impl Held {
    /// Reads a file, keeps its keys, and answers with what is public of it.
    pub fn look(&self, path: &Path) -> Vec<u8> {
        let looked = Looked::at(path);
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

    /// How a file is at present, without a look into it.
    pub fn stamp(&self, path: &Path) -> Vec<u8> {
        wire::encode_stamp(FileStamp::of(path))
    }

    /// Signs a message of a handshake.
    ///
    /// **Errors**: there is no such key, or it does not sign in this scheme.
    pub fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, String> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let key = held.get(key).cloned();
        drop(held);
        let key = key.ok_or(
            "it does not have this key: the file was changed or removed after it was read, and the process was started again since",
        )?;
        let signer = key.choose_scheme(&[scheme.into()]).ok_or("the key does not sign in this scheme")?;
        signer.sign(message).map_err(|error| error.to_string())
    }

    /// Lets go of a key; who signs with it at this moment still does.
    pub fn forget(&self, key: &KeyId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// How many keys there are.
    pub fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The schemes in which a key signs, in the order of its choice.
fn schemes_of(key: &Key) -> Vec<SignatureScheme> {
    let kinds =
        [KeyKind::Rsa(0), KeyKind::EcdsaP256, KeyKind::EcdsaP384, KeyKind::EcdsaP521, KeyKind::Ed25519];
    let others = [KeyKind::MlDsa44, KeyKind::MlDsa65, KeyKind::MlDsa87];
    let mut left: Vec<_> = kinds.into_iter().chain(others).flat_map(KeyKind::schemes).copied().collect();
    let mut chosen = Vec::new();
    while let Some(signer) = key.signing.choose_scheme(&left) {
        let scheme = signer.scheme();
        chosen.push(scheme);
        left.retain(|other| *other != scheme);
    }
    chosen
}

#[cfg(test)]
pub(crate) mod tests;
