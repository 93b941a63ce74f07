//! The connection to the process that holds the keys, and keys that sign through it.
//!
//! In: a [`Holder`], and what is public of a key. Out: a key for rustls that has nothing secret in it.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::sign::{Signer, SigningKey};
use rustls::{OtherError, SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::SubjectPublicKeyInfoDer;

use crate::key::Key;
use crate::key_kind::KeyKind;

/// Bytes of a [`KeyId`].
pub const ID: usize = 32;

/// ID of a key: the SHA-256 of its public key (SubjectPublicKeyInfo), so that it does not depend on the process that reads
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub [u8; ID]);

impl KeyId {
    /// Of a public key (SubjectPublicKeyInfo, DER).
    pub fn of(public_key: &[u8]) -> Self {
        let mut id = [0; ID];
        id.copy_from_slice(digest(&SHA256, public_key).as_ref());
        Self(id)
    }

    /// The half of it that names of files have, in hexadecimal.
    pub fn file_part(&self) -> String {
        data_encoding::HEXLOWER.encode(&self.0[..ID / 2])
    }
}

/// Reason why the holder of the keys made no signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// The connection to the process that holds the keys.
pub trait Holder: fmt::Debug + Send + Sync {
    /// Returns the result of [`Held::inspect`] there; [`Holder::found`] receives the keys that the file holds.
    ///
    /// **Errors**: it does not answer.
    fn inspect(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Returns the result of [`Held::stamp`] there.
    ///
    /// **Errors**: it does not answer.
    fn stamp(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The file at `path` was found to hold these keys.
    fn found(&self, path: &Path, keys: &[KeyId]);

    /// Returns the result of [`Held::sign`] there.
    ///
    /// **Errors**: it does not answer, or refuses to sign, with the reason.
    fn sign(&self, key: &KeyId, scheme: u16, message: &[u8]) -> Result<Vec<u8>, Unavailable>;

    /// Forwards a request to the store of keys that are made there (ordered certificates), and returns its response.
    ///
    /// **Errors**: there is none; it does not answer, or refuses, with the reason.
    fn keep(&self, request: &[u8]) -> Result<Vec<u8>, Unavailable> {
        let _ = request;
        Err(Unavailable("no keys are made there".to_owned()))
    }
}

/// A key that is held elsewhere.
#[derive(Debug)]
pub(super) struct Remote {
    pub(super) holder: Arc<dyn Holder>,
    pub(super) id: KeyId,
    pub(super) public_key: Box<[u8]>,
    pub(super) algorithm: SignatureAlgorithm,
    /// In the order in which the key itself would choose.
    pub(super) schemes: Box<[SignatureScheme]>,
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

/// The schemes in which a key signs, in the order of its choice.
pub(super) fn schemes_of(key: &Key) -> Vec<SignatureScheme> {
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
