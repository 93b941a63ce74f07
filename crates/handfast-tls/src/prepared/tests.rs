//! Tests that a store compresses its certificates, and that rustls receives nothing else.

use std::path::Path;

use handfast_pki::compressed::{ALGORITHMS, message};
use handfast_testkit::maker::{Maker, NOW};
use rustls::compress::{CertCompressor, CompressionLevel};

use super::*;
use crate::store::{CertificateStore, UnknownName};

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

#[test]
fn a_store_has_its_certificates_compressed_once() {
    let made = certificate();
    assert!(!made.is_compressed());
    let (store, _) = CertificateStore::new(vec![Arc::clone(&made)], NOW);
    // Another store takes what there is.
    let before = Arc::as_ptr(made.compressed().expect("it gets smaller"));
    drop(store);
    let _ = CertificateStore::new(vec![Arc::clone(&made)], NOW);
    assert_eq!(Arc::as_ptr(made.compressed().unwrap()), before);
}

#[test]
fn without_a_choice_on_this_thread_nothing_is_answered() {
    let made = certificate();
    let _ = CertificateStore::new(vec![Arc::clone(&made)], NOW);
    let plain = message(made.certified(), false);
    for algorithm in ALGORITHMS {
        assert!(made.compressed().unwrap().of(algorithm, &plain).is_some());
        // As for a certificate that gets no smaller.
        drop(side_channels::last_selection());
        assert!(Prepared(algorithm).compress(plain.clone(), CompressionLevel::Amortized).is_err());
    }
}

#[test]
fn what_does_not_get_smaller_is_left_as_it_is() {
    let alone = Maker::new(&["a.example.org"]).signed_by(&Maker::authority("r").self_signed());
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
