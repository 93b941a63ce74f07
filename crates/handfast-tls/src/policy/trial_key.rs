//! A key of a handshake, to try whether a record was encrypted with it.
//!
//! In: the key and IV that rustls derives for the client's handshake messages. Out: whether a record is the first of them.

use std::fmt;

use aws_lc_rs::aead::{Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};
use handfast_wire::record::{ContentType, HEADER_LENGTH};
use rustls::crypto::cipher::{AeadKey, Iv};

/// A key with which nothing has been decrypted yet.
pub(crate) struct TrialKey {
    key: LessSafeKey,
    nonce: [u8; 12],
}

impl fmt::Debug for TrialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrialKey").finish_non_exhaustive()
    }
}

impl TrialKey {
    /// The key and the IV of the first record; `None`: they do not fit the algorithm.
    pub(super) fn new(algorithm: &'static Algorithm, key: &AeadKey, iv: &Iv) -> Option<Self> {
        let key = UnboundKey::new(algorithm, key.as_ref()).ok()?;
        Some(Self { key: LessSafeKey::new(key), nonce: iv.as_ref().try_into().ok()? })
    }

    /// Returns true if `record`, a whole one, is the first that was encrypted under this key (RFC 9846 §5.2).
    ///
    /// **Cost**: a copy of the record and its decryption.
    pub(crate) fn opens(&self, record: &[u8]) -> bool {
        let (header, sealed) = record.split_at(HEADER_LENGTH);
        let additional = Aad::from([ContentType::APPLICATION_DATA.0, 3, 3, header[3], header[4]]);
        // The sequence number of the first record is 0, and so its nonce is the IV.
        let nonce = Nonce::assume_unique_for_key(self.nonce);
        self.key.open_in_place(nonce, additional, &mut sealed.to_vec()).is_ok()
    }
}
