//! A list by a CA that is not trusted itself: an intermediate one, whose certificate clients send.
//!
//! In: the list's signature, kept from when its file was read; then the key of a CA with the list's name, whose own path to a
//! trusted CA is good. Out: whether that key signed the list. Each key's verdict is kept, so a list is verified once for each
//! key, and the keys are few: only a trusted CA, or one below it, can give a key this name.

use std::sync::OnceLock;

use crate::asn1::SignedParts;

/// Bytes of such a list: verifying it is part of a handshake, and takes a millisecond at most. 14,000 entries have this many.
pub(super) const SIZE_LIMIT: usize = 512 << 10;
/// Keys whose verdicts are kept for one list. A CA has one key, and two while it changes; a list counts as signed by no other.
const KEYS: usize = 4;

/// The signature of a list, and the verdicts on it.
pub(super) struct Unverified {
    signed: Box<[u8]>,
    algorithm: Box<[u8]>,
    signature: Box<[u8]>,
    /// Identifier of the key that signed it, if the list has one.
    pub(super) authority_key: Option<Box<[u8]>>,
    verdicts: [OnceLock<(Box<[u8]>, bool)>; KEYS],
}

impl Unverified {
    /// **Cost**: memory of the size of the list.
    pub(super) fn new(list: &SignedParts<'_>, authority_key: Option<&[u8]>) -> Self {
        Self {
            signed: list.signed.into(),
            algorithm: list.algorithm.into(),
            signature: list.signature.into(),
            authority_key: authority_key.map(Into::into),
            verdicts: Default::default(),
        }
    }

    /// Returns true if this key signed it.
    pub(super) fn is_by(&self, key: &[u8]) -> bool {
        for verdict in &self.verdicts {
            // Two threads may verify the same one at the same time, and come to the same verdict.
            let known = verdict.get().or_else(|| {
                let is_good = self.verify(key);
                let _ = verdict.set((key.into(), is_good));
                verdict.get()
            });
            if let Some((known, is_good)) = known
                && **known == *key
            {
                return *is_good;
            }
        }
        false
    }

    fn verify(&self, key: &[u8]) -> bool {
        let Self { signed, algorithm, signature, .. } = self;
        SignedParts { signed, algorithm, signature }.is_by(key)
    }
}
