//! The library's TLS 1.3 suites with what is ours in them.
//!
//! In: a suite as the library offers it. Out: the same suite, which hashes, derives and decrypts through `transcript.rs`,
//! `hkdf.rs` and `trial.rs`. Everything is still computed by the library.

use rustls::{CipherSuiteCommon, SupportedCipherSuite, Tls13CipherSuite};

use super::hkdf::ExtractOnce;
use super::tls13::of_tls13;
use super::transcript::AsSent;
use super::trial::WithTrial;

/// `suite`, which must be one of TLS 1.3, with our parts.
pub(super) const fn with(
    suite: &'static SupportedCipherSuite,
    hash: &'static AsSent,
    hkdf: &'static ExtractOnce,
    aead: &'static WithTrial,
) -> Tls13CipherSuite {
    let suite = of_tls13(suite);
    Tls13CipherSuite {
        common: CipherSuiteCommon {
            suite: suite.common.suite,
            hash_provider: hash,
            confidentiality_limit: suite.common.confidentiality_limit,
        },
        hkdf_provider: hkdf,
        aead_alg: aead,
        quic: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::SUITES;
    use super::*;

    #[test]
    fn everything_else_of_a_suite_is_the_librarys() {
        let library = rustls::crypto::aws_lc_rs::default_provider().cipher_suites;
        let mut seen = 0;
        for ours in SUITES.iter().filter_map(|suite| suite.suite.tls13()) {
            let theirs = library.iter().find(|suite| suite.suite() == ours.common.suite);
            let theirs = theirs.and_then(SupportedCipherSuite::tls13).expect("the library has it");
            assert_eq!(ours.common.confidentiality_limit, theirs.common.confidentiality_limit);
            assert_eq!(ours.common.hash_provider.algorithm(), theirs.common.hash_provider.algorithm());
            assert_eq!(ours.common.hash_provider.output_len(), theirs.common.hash_provider.output_len());
            assert_eq!(ours.aead_alg.key_len(), theirs.aead_alg.key_len());
            seen += 1;
        }
        assert_eq!(seen, 3);
    }
}
