//! Chains that are whole, and chains that are not.

use super::*;
use handfast_testkit::maker::{Made, Maker};

fn parsed(of: &[&Made]) -> Vec<Parsed> {
    of.iter().map(|made| Parsed::from_der(made.certificate.der()).unwrap()).collect()
}

fn signed(of: &[&Made]) -> Vec<Signed> {
    let mut chain = parsed(of);
    check_all(&mut chain);
    chain.iter().map(|parsed| parsed.signed).collect()
}

#[test]
fn each_certificate_is_held_against_its_issuer() {
    let root = Maker::authority("a root").self_signed();
    let intermediate = Maker::authority("an intermediate").signed_by(&root);
    let leaf = Maker::new(&["a.example"]).signed_by(&intermediate);
    assert_eq!(signed(&[&leaf, &intermediate, &root]), [Signed::Good; 3]);
    assert_eq!(signed(&[&leaf, &intermediate]), [Signed::Good, Signed::Unknown], "the root is not there");
    assert_eq!(signed(&[&root, &leaf]), [Signed::Good, Signed::Unknown]);
}

#[test]
fn an_intermediate_with_the_same_name_and_another_key_did_not_sign_it() {
    let root = Maker::authority("a root").self_signed();
    let [intermediate, other] = [(), ()].map(|()| Maker::authority("an intermediate").signed_by(&root));
    let leaf = Maker::new(&["a.example"]).signed_by(&intermediate);
    assert_eq!(signed(&[&leaf, &other]), [Signed::Wrong, Signed::Unknown]);
    // Of several with the name, one is enough.
    assert_eq!(signed(&[&leaf, &other, &intermediate])[0], Signed::Good);
}

#[test]
fn every_kind_of_key_is_verified() {
    for algorithm in [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_RSA_SHA256,
    ] {
        let root = Maker::authority("a root").algorithm(algorithm).self_signed();
        let leaf = Maker::new(&["a.example"]).signed_by(&root);
        let mut chain = parsed(&[&leaf, &root]);
        check_all(&mut chain);
        assert_eq!([chain[0].signed, chain[1].signed], [Signed::Good; 2], "{algorithm:?}");
        // The last byte is the signature's.
        let mut der = leaf.certificate.der().to_vec();
        *der.last_mut().unwrap() ^= 1;
        chain[0] = Parsed::from_der(&der).unwrap();
        check_all(&mut chain);
        assert_eq!([chain[0].signed, chain[1].signed], [Signed::Wrong, Signed::Good], "{algorithm:?}");
    }
}

#[test]
fn a_new_key_that_the_old_one_signed_is_not_held_against_itself() {
    let mut maker = Maker::authority("a root");
    let old = maker.self_signed();
    maker.algorithm = &rcgen::PKCS_ECDSA_P384_SHA384;
    let new_with_old = maker.signed_by(&old);
    let new = maker.self_signed();
    assert_eq!(signed(&[&new_with_old, &old]), [Signed::Good; 2]);
    assert_eq!(signed(&[&new, &old]), [Signed::Good; 2]);
    // Alone, its identifiers show that its own key is not meant.
    let alone = |names_issuer| {
        let mut params = new.params.clone();
        params.use_authority_key_identifier_extension = names_issuer;
        let made = params.signed_by(&new.key, &rcgen::Issuer::from_params(&old.params, &old.key)).unwrap();
        let mut chain = [Parsed::from_der(made.der()).unwrap()];
        check_all(&mut chain);
        chain[0].signed
    };
    assert_eq!([alone(true), alone(false)], [Signed::Unknown, Signed::Wrong]);
}
