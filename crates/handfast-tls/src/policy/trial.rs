//! Trying whether a record is of a handshake's keys, beside rustls and without any trace in it.
//!
//! In: the key that rustls derives for what a client sends in its handshake. Out: [`TrialKey`], which recognises the
//! first record under that key. `server/opening.rs` explains its use.

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Algorithm, CHACHA20_POLY1305};
use rustls::crypto::cipher::{
    AeadKey, Iv, MessageDecrypter, MessageEncrypter, Tls13AeadAlgorithm, UnsupportedOperationError,
};
use rustls::{CipherSuite, ConnectionTrafficSecrets, SupportedCipherSuite};

use super::contexts::RecordKey;
use super::tls13::of_tls13;
use super::trial_key::TrialKey;
use crate::side_channels;

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

    /// Returns the algorithm that encrypts its records.
    pub(super) fn algorithm(&self) -> &'static Algorithm {
        match self.suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => &AES_128_GCM,
            CipherSuite::TLS13_AES_256_GCM_SHA384 => &AES_256_GCM,
            _ => &CHACHA20_POLY1305,
        }
    }
}

impl Tls13AeadAlgorithm for WithTrial {
    fn encrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageEncrypter> {
        Box::new(RecordKey::new(self.algorithm(), key, iv))
    }

    fn decrypter(&self, key: AeadKey, iv: Iv) -> Box<dyn MessageDecrypter> {
        side_channels::offer_trial_key(|| TrialKey::new(self.algorithm(), &key, &iv));
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
    use crate::side_channels::{TrialKeyRequest, is_trial_key_unused};

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
        let request = TrialKeyRequest::new();
        for _ in 0..2 {
            let (key, iv) = keys();
            drop(AEAD.decrypter(key, iv));
        }
        let key = request.take().expect("it was made");
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
        assert!(TrialKeyRequest::new().take().is_none());
        drop(TrialKeyRequest::new());
        let (key, iv) = keys();
        drop(AEAD.decrypter(key, iv));
        assert!(is_trial_key_unused(), "the request ended with its guard");
    }
}
