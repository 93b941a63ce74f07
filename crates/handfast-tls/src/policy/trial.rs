//! Trying whether a record is of a handshake's keys, beside rustls and without any trace in it.
//!
//! In: the key that rustls derives for what a client sends in its handshake. Out: [`TrialKey`], which says of a record
//! whether it is the first under that key. What for: `server/opening.rs`.

use std::cell::RefCell;
use std::fmt;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use handfast_wire::record::{ContentType, HEADER_LENGTH};
use rustls::crypto::cipher::{
    AeadKey, Iv, MessageDecrypter, MessageEncrypter, Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::{CipherSuite, ConnectionTrafficSecrets, SupportedCipherSuite};

use super::contexts::RecordKey;
use super::suite::of_tls13;

/// The AEAD of a suite: the library's, by [`RecordKey`].
pub(super) struct WithTrial {
    library: &'static dyn Tls13AeadAlgorithm,
    suite: CipherSuite,
}

impl WithTrial {
    /// That of `suite`, which must be one of TLS 1.3.
    pub(super) const fn of(suite: &'static SupportedCipherSuite) -> Self {
        let suite = of_tls13(suite);
        Self { library: suite.aead_alg, suite: suite.common.suite }
    }

    /// What computes its records.
    pub(super) fn algorithm(&self) -> &'static Algorithm {
        match self.suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => &AES_128_GCM,
            CipherSuite::TLS13_AES_256_GCM_SHA384 => &AES_256_GCM,
            _ => &CHACHA20_POLY1305,
        }
    }
}

/// What a thread's next key for decryption is to be kept for.
enum Wish {
    Nothing,
    Wanted,
    Kept(TrialKey),
}

thread_local! {
    static WISH: RefCell<Wish> = const { RefCell::new(Wish::Nothing) };
}

/// While it stands, the first key for decryption that is made on this thread is kept.
pub(crate) struct Wanted(());

impl Wanted {
    /// Stands until it is dropped.
    pub(crate) fn new() -> Self {
        WISH.set(Wish::Wanted);
        Self(())
    }

    /// The key, if one was made.
    pub(crate) fn key(self) -> Option<TrialKey> {
        match WISH.replace(Wish::Nothing) {
            Wish::Kept(key) => Some(key),
            Wish::Nothing | Wish::Wanted => None,
        }
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        WISH.set(Wish::Nothing);
    }
}

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
    /// Whether `record`, a whole one, is the first that was encrypted under this key (RFC 9846 §5.2).
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

impl Tls13AeadAlgorithm for WithTrial {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(RecordKey::new(self.algorithm(), key, iv))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        WISH.with_borrow_mut(|wish| {
            if let Wish::Wanted = wish
                && let Ok(unbound) = UnboundKey::new(self.algorithm(), key.as_ref())
                && let Ok(nonce) = iv.as_ref().try_into()
            {
                *wish = Wish::Kept(TrialKey { key: LessSafeKey::new(unbound), nonce });
            }
        });
        Box::new(RecordKey::new(self.algorithm(), key, iv))
    }

    fn key_len(&self) -> usize {
        self.library.key_len()
    }

    fn extract_keys(
        &self,
        key: AeadKey,
        iv: Iv,
    ) -> Result<ConnectionTrafficSecrets, UnsupportedOperationError> {
        self.library.extract_keys(key, iv)
    }

    fn fips(&self) -> bool {
        self.library.fips()
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
    use rustls::crypto::cipher::{OutboundChunks, OutboundPlainMessage};
    use rustls::{ContentType as Type, ProtocolVersion};

    use super::*;

    static AEAD: WithTrial = WithTrial::of(&TLS13_CHACHA20_POLY1305_SHA256);

    fn keys() -> (AeadKey, Iv) {
        (AeadKey::from([7; 32]), Iv::from([9; 12]))
    }

    fn records() -> [Vec<u8>; 2] {
        let (key, iv) = keys();
        let mut encrypter = AEAD.encrypter(key, iv);
        [0, 1].map(|number| {
            let message = OutboundPlainMessage {
                typ: Type::Handshake,
                version: ProtocolVersion::TLSv1_3,
                payload: OutboundChunks::Single(b"finished"),
            };
            encrypter.encrypt(message, number).expect("a key for it").encode()
        })
    }

    #[test]
    fn the_first_record_of_the_key_is_known_and_no_other() {
        let wanted = Wanted::new();
        for _ in 0..2 {
            let (key, iv) = keys();
            drop(AEAD.decrypter(key, iv));
        }
        let key = wanted.key().expect("it was made");
        let [first, second] = records();
        assert!(key.opens(&first) && key.opens(&first), "however often");
        assert!(!key.opens(&second));
        assert!(!key.opens(&[first.as_slice(), &[0]].concat()));
        assert!(!key.opens(&[23, 3, 3, 0, 0]));
    }

    #[test]
    fn no_key_is_kept_unasked() {
        let (key, iv) = keys();
        drop(AEAD.decrypter(key, iv));
        assert!(Wanted::new().key().is_none());
        drop(Wanted::new());
        let (key, iv) = keys();
        drop(AEAD.decrypter(key, iv));
        assert!(matches!(WISH.replace(Wish::Nothing), Wish::Nothing), "the wish ended with its guard");
    }
}
