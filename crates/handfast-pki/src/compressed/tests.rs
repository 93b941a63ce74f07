//! Tests that exactly the messages of a certificate are found compressed, byte for byte.

use std::io::Read;
use std::path::Path;

use super::*;
use crate::certificate::Certificate;
use handfast_testkit::maker::{Maker, NOW};

/// A chain that can be compressed: names repeat.
fn certificate() -> Arc<Certificate> {
    let root = Maker::authority("an authority with a name that is long and occurs in each certificate")
        .self_signed();
    let middle = Maker::authority("an authority with a name that is long and occurs in two certificates")
        .signed_by(&root);
    let names: Vec<String> = (0..20).map(|number| format!("host-{number}.example.org")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let leaf = Maker::new(&names).signed_by(&middle);
    let (made, findings) =
        Certificate::from_pem((leaf.both() + &middle.pem()).as_bytes(), Path::new("a.pem"), NOW);
    assert!(findings.is_empty(), "{findings:?}");
    Arc::new(made.unwrap())
}

fn expanded(algorithm: CertificateCompressionAlgorithm, compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    match algorithm {
        CertificateCompressionAlgorithm::Zlib => {
            flate2::read::ZlibDecoder::new(compressed).read_to_end(&mut bytes).unwrap();
        }
        CertificateCompressionAlgorithm::Brotli => {
            brotli::Decompressor::new(compressed, 4096).read_to_end(&mut bytes).unwrap();
        }
        _ => {
            bytes.reserve(1 << 16);
            zstd_safe::decompress(&mut bytes, compressed).unwrap();
        }
    }
    bytes
}

#[test]
fn a_compressed_message_expands_to_the_message() {
    let made = certificate();
    assert!(!made.is_compressed());
    made.compress(&mut Compressor::default());
    let compressed = made.compressed().expect("it gets smaller");
    let plain = message(made.certified(), false);
    for (algorithm, made) in ALGORITHMS.into_iter().zip(&compressed.plain) {
        let made = made.as_deref().expect("each makes it smaller");
        assert_eq!(expanded(algorithm, made), plain, "{algorithm:?}");
        assert!(made.len() * 10 < plain.len() * 9, "{algorithm:?}");
        assert_eq!(compressed.of(algorithm, &plain), Some(made));
    }
    assert_eq!(message(made.certified(), true), plain, "it has no response");
    // It is made once.
    let before = Arc::as_ptr(compressed);
    made.compress(&mut Compressor::default());
    assert_eq!(Arc::as_ptr(made.compressed().unwrap()), before);
}

#[test]
fn with_a_response_there_are_two_messages() {
    let made = certificate();
    let CertifiedKey { cert, key, .. } = &**made.certified();
    let response: Vec<u8> = b"a response ".repeat(40);
    let certified = CertifiedKey { cert: cert.clone(), key: Arc::clone(key), ocsp: Some(response.clone()) };
    let certified = Arc::new(certified);
    let compressed = Compressed::new(&certified, &mut Compressor::default()).unwrap();
    let (plain, stapled) = (message(&certified, false), message(&certified, true));
    assert_eq!(stapled.len(), plain.len() + 8 + response.len());
    for algorithm in ALGORITHMS {
        for message in [&plain, &stapled] {
            assert_eq!(expanded(algorithm, compressed.of(algorithm, message).unwrap()), *message);
        }
    }
}

#[test]
fn any_other_message_is_not_answered() {
    let made = certificate();
    made.compress(&mut Compressor::default());
    let compressed = made.compressed().unwrap();
    let plain = message(made.certified(), false);
    let of = |message: &[u8]| ALGORITHMS.into_iter().find_map(|algorithm| compressed.of(algorithm, message));
    for end in 0..plain.len() {
        assert!(of(&plain[..end]).is_none());
    }
    for place in 0..plain.len() {
        let mut changed = plain.clone();
        changed[place] ^= 1;
        assert!(of(&changed).is_none(), "byte {place}");
    }
    assert!(of(&[&plain[..], &[0]].concat()).is_none());
    assert!(compressed.of(CertificateCompressionAlgorithm::Unknown(9), &plain).is_none());
}
