//! HKDF for the key schedule of TLS 1.3 (RFC 9846 §7.1, RFC 5869) that extracts each secret once.
//!
//! In: a suite as the library offers it. Out: its HKDF for `suite.rs`.
//!
//! The library repeats an extraction for each key that is then expanded from it: eight times in a handshake instead of
//! three. Everything is still computed by the library; here only the outcome of an extraction is kept.

use rustls::SupportedCipherSuite;
use rustls::crypto::hash::Hash;
use rustls::crypto::hmac::Tag;
use rustls::crypto::tls13::{Hkdf, HkdfExpander, OkmBlock};

use super::tls13::of_tls13;

/// The HKDF of a suite, by the library's.
pub(super) struct ExtractOnce {
    library: &'static dyn Hkdf,
    hash: &'static dyn Hash,
}

impl ExtractOnce {
    /// That of `suite`, which must be one of TLS 1.3.
    pub(super) const fn of(suite: &'static SupportedCipherSuite) -> Self {
        let suite = of_tls13(suite);
        Self { library: suite.hkdf_provider, hash: suite.common.hash_provider }
    }

    /// RFC 5869 §2.2: PRK = HMAC-Hash(salt, IKM). Without a salt it is as many zeroes as the hash has bytes, and HMAC
    /// fills a key that is shorter than a block with zeroes anyway.
    fn extract(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        let salt = salt.unwrap_or_default();
        if salt.len() > Tag::MAX_LEN {
            return self.library.extract_from_secret(Some(salt), secret);
        }
        let extracted = self.library.hmac_sign(&OkmBlock::new(salt), secret);
        self.library.expander_for_okm(&OkmBlock::new(extracted.as_ref()))
    }
}

impl Hkdf for ExtractOnce {
    fn extract_from_zero_ikm(&self, salt: Option<&[u8]>) -> Box<dyn HkdfExpander> {
        let zeroes = [0; Tag::MAX_LEN];
        self.extract(salt, &zeroes[..self.hash.output_len()])
    }

    fn extract_from_secret(&self, salt: Option<&[u8]>, secret: &[u8]) -> Box<dyn HkdfExpander> {
        self.extract(salt, secret)
    }

    fn expander_for_okm(&self, okm: &OkmBlock) -> Box<dyn HkdfExpander> {
        self.library.expander_for_okm(okm)
    }

    fn hmac_sign(&self, key: &OkmBlock, message: &[u8]) -> Tag {
        self.library.hmac_sign(key, message)
    }

    fn fips(&self) -> bool {
        self.library.fips()
    }
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs::cipher_suite;

    use super::*;

    static SHA256: ExtractOnce = ExtractOnce::of(&cipher_suite::TLS13_AES_128_GCM_SHA256);
    static SHA384: ExtractOnce = ExtractOnce::of(&cipher_suite::TLS13_AES_256_GCM_SHA384);

    fn pairs() -> [[&'static dyn Hkdf; 2]; 2] {
        let library = |suite| of_tls13(suite).hkdf_provider;
        [
            [&SHA256, library(&cipher_suite::TLS13_AES_128_GCM_SHA256)],
            [&SHA384, library(&cipher_suite::TLS13_AES_256_GCM_SHA384)],
        ]
    }

    /// Blocks and slices of every length up to several blocks, all of the same key.
    fn expand(expander: &dyn HkdfExpander) -> Vec<Vec<u8>> {
        let info: [&[u8]; 3] = [b"\x00\x20", b"tls13 derived", &[7; 48]];
        let mut all = vec![expander.expand_block(&info).as_ref().to_vec()];
        for length in (1..200).chain([255 * expander.hash_len()]) {
            let mut output = vec![0; length];
            assert!(expander.expand_slice(&info, &mut output).is_ok());
            all.push(output);
        }
        all
    }

    /// The library's own way is the reference: it has the vectors of RFC 5869 in its tests.
    #[test]
    fn it_derives_what_the_library_derives() {
        for both in pairs() {
            for salt in [None, Some(&[][..]), Some(&[5; 32]), Some(&[6; 64]), Some(&[6; 200])] {
                let [mine, other] = both.map(|hkdf| expand(&*hkdf.extract_from_zero_ikm(salt)));
                assert_eq!(mine, other, "{salt:?}");
                for secret in [&[][..], &[1; 32], &[2; 66], &[3; 1120]] {
                    let [mine, other] = both.map(|hkdf| expand(&*hkdf.extract_from_secret(salt, secret)));
                    assert_eq!(mine, other, "{salt:?}");
                }
            }
        }
    }
}
