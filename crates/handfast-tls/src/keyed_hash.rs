//! Hashes with a secret key of this process: to remember a secret without having it, and to sign what only this proxy reads again.
//!
//! HMAC-SHA256 (RFC 2104).

use std::fmt;

use aws_lc_rs::{digest, hmac, rand};

use crate::Error;

/// A hash.
pub type Digest = [u8; 32];

/// A secret key.
#[derive(Clone)]
pub struct HashKey(hmac::Key);

impl fmt::Debug for HashKey {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HashKey")
    }
}

impl HashKey {
    /// A random key.
    ///
    /// **Errors**: the kernel has no random numbers.
    pub fn random() -> Result<Self, Error> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| Error::Random)?;
        Ok(Self::new(&bytes))
    }

    /// The key with these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The hash of some parts. The boundaries count: `["a", "bc"]` has another hash than `["ab", "c"]`.
    pub fn hash(&self, parts: &[&[u8]]) -> Digest {
        let mut context = hmac::Context::with_key(&self.0);
        for part in parts {
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part);
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.sign().as_ref());
        digest
    }

    /// Returns true if `digest` is the hash of these parts, or its beginning. **Cost**: constant time, wherever the two
    /// differ.
    pub fn is_hash(&self, parts: &[&[u8]], digest: &[u8]) -> bool {
        let own = self.hash(parts);
        let same = own.get(..digest.len()).unwrap_or_default();
        !digest.is_empty() && aws_lc_rs::constant_time::verify_slices_are_equal(same, digest).is_ok()
    }
}

/// Returns the SHA-256 of some bytes (FIPS 180-4).
pub fn sha256(bytes: &[u8]) -> Digest {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

/// Returns the SHA-1 of all parts behind each other, for protocols that name it where nothing depends on its strength (RFC 6455 §1.3).
pub fn legacy_sha1(parts: &[&[u8]]) -> Vec<u8> {
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_depends_on_the_key_and_on_where_parts_end() {
        let (one, other) = (HashKey::random().expect("random"), HashKey::random().expect("random"));
        let digest = one.hash(&[b"a", b"bc"]);
        assert_eq!(digest, one.hash(&[b"a", b"bc"]));
        assert_ne!(digest, one.hash(&[b"ab", b"c"]));
        assert_ne!(digest, other.hash(&[b"a", b"bc"]));
        assert!(one.is_hash(&[b"a", b"bc"], &digest) && one.is_hash(&[b"a", b"bc"], &digest[..16]));
        assert!(!one.is_hash(&[b"a", b"bc"], b"") && !other.is_hash(&[b"a", b"bc"], &digest));
        assert!(!one.is_hash(&[b"a", b"bc"], &[digest.as_slice(), b"x"].concat()));
    }
}
