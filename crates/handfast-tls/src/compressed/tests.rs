//! Tests that rustls requests exactly the prepared messages, byte for byte, and that nothing else is compressed.

use std::io::Read;
use std::path::Path;

use rustls::compress::{CertCompressor, CompressionLevel};

use super::prepared::Prepared;
use super::*;
use crate::certificate::Certificate;
use crate::side_channels;
use crate::store::{CertificateStore, UnknownName};
use crate::testing::{Maker, NOW};
use flate2::Compression;

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

fn expanded(compressed: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::ZlibDecoder::new(compressed).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_store_has_its_certificates_compressed_and_they_expand_to_the_message() {
    let made = certificate();
    assert!(!made.is_compressed());
    let (store, _) = CertificateStore::new(vec![Arc::clone(&made)], NOW);
    let compressed = made.compressed().expect("it gets smaller");
    let plain = message(made.certified(), false);
    assert_eq!(expanded(compressed.plain.as_ref().unwrap()), plain);
    assert!(compressed.plain.as_ref().unwrap().len() * 10 < plain.len() * 9);
    assert_eq!(compressed.of(&plain), compressed.plain.as_deref());
    assert!(compressed.stapled.is_none() && compressed.of(&message(made.certified(), true)).is_some());
    // Another store takes what there is.
    let before = Arc::as_ptr(compressed);
    drop(store);
    let _ = CertificateStore::new(vec![Arc::clone(&made)], NOW);
    assert_eq!(Arc::as_ptr(made.compressed().unwrap()), before);
}

#[test]
fn with_a_response_there_are_two_messages() {
    let made = certificate();
    let CertifiedKey { cert, key, .. } = &**made.certified();
    let response: Vec<u8> = b"a response ".repeat(40);
    let certified = CertifiedKey { cert: cert.clone(), key: Arc::clone(key), ocsp: Some(response.clone()) };
    let certified = Arc::new(certified);
    let compressed = Compressed::new(&certified, &mut Compress::new(Compression::best(), true)).unwrap();
    let (plain, stapled) = (message(&certified, false), message(&certified, true));
    assert_eq!(stapled.len(), plain.len() + 8 + response.len());
    assert_eq!(expanded(compressed.of(&plain).unwrap()), plain);
    assert_eq!(expanded(compressed.of(&stapled).unwrap()), stapled);
}

#[test]
fn any_other_message_is_not_answered() {
    let made = certificate();
    let _ = CertificateStore::new(vec![Arc::clone(&made)], NOW);
    let compressed = made.compressed().unwrap();
    let plain = message(made.certified(), false);
    for end in 0..plain.len() {
        assert!(compressed.of(&plain[..end]).is_none());
    }
    for place in 0..plain.len() {
        let mut changed = plain.clone();
        changed[place] ^= 1;
        assert!(compressed.of(&changed).is_none(), "byte {place}");
    }
    assert!(compressed.of(&[&plain[..], &[0]].concat()).is_none());
    // Without a choice on this thread, as for a certificate that gets no smaller.
    drop(side_channels::last_selection());
    assert!(Prepared.compress(plain, CompressionLevel::Amortized).is_err());
}

#[test]
fn what_does_not_get_smaller_is_left_as_it_is() {
    let alone = Maker::new(&["a.example.org"]).self_signed();
    let (made, _) = Certificate::from_pem(alone.both().as_bytes(), Path::new("a.pem"), NOW);
    let made = Arc::new(made.unwrap());
    let (store, _) = CertificateStore::new(vec![Arc::clone(&made)], NOW);
    assert!(made.is_compressed() && made.compressed().is_none());
    assert!(matches!(
        store.select(
            Some("a.example.org"),
            &[rustls::SignatureScheme::ECDSA_NISTP256_SHA256],
            UnknownName::Refuse
        ),
        crate::store::Selection::Chosen(_)
    ));
}
