//! CAs and clients with weak keys, or with keys of kinds that are not used.

use super::*;

#[test]
fn a_weak_ca_is_not_trusted() {
    let folder = Folder::new();
    let file =
        folder.put("ca.pem", include_str!("../../../../handfast-pki/src/weak/tests/close-primes-2048.crt"));
    let load = |lists: &Arc<Lists>| {
        let loaded = super::load(&file, Demand::Require, lists, at(NOW));
        (loaded.rule.is_some(), loaded.findings)
    };
    let (usable, findings) = load(&Arc::default());
    assert!(!usable && findings[0].message.contains("two primes that are close together"), "{findings:?}");
    folder.put("ca.pem", include_str!("../../../../handfast-pki/src/weak/tests/debian-p256.crt"));
    assert!(load(&Arc::default()).0);
    let list =
        folder.put("known.csv", include_str!("../../../../handfast-pki/src/weak/tests/debian-sample.csv"));
    let (usable, findings) = load(&handfast_pki::weak::load(&[list], None).lists);
    assert!(!usable && findings[0].message.contains("is on the list of known keys"), "{findings:?}");
}

#[test]
fn a_ticket_is_good_under_the_same_lists_only() {
    let folder = Folder::new();
    let file = folder.put("ca.pem", Maker::authority("ca").self_signed().pem());
    let fingerprint = |lists: &Arc<Lists>| {
        let rule = super::load(&file, Demand::Require, lists, at(NOW)).rule.unwrap();
        *rule.fingerprint()
    };
    let lists = |content: &str| handfast_pki::weak::load(&[folder.put("list", content)], None).lists;
    let none = fingerprint(&Arc::default());
    let one = fingerprint(&lists("8b4611b0db08e2eabca8\n"));
    assert_ne!(none, one);
    assert_ne!(one, fingerprint(&lists("8b4611b0db08e2eabca9\n")));
    // The same entries in another form are the same.
    assert_eq!(one, fingerprint(&lists("# a remark\n8B4611B0DB08E2EABCA8\n8b4611b0db08e2eabca8\n")));
}

#[test]
fn a_ca_with_a_key_of_another_kind_is_named_and_not_trusted() {
    let folder = Folder::new();
    let extensions =
        "-addext subjectAltName=DNS:a.example.org -addext basicConstraints=critical,CA:FALSE -days 3650";
    for kind in ["ed448", "rsa-pss -pkeyopt rsa_keygen_bits:2048"] {
        folder.openssl(&format!("genpkey -algorithm {kind} -out a.key"));
        folder.openssl(&format!("req -x509 -new -key a.key -subj /CN=a {extensions} -out a.pem"));
        let loaded = super::load(&folder.at("a.pem"), Demand::Require, &Arc::default(), SystemTime::now());
        assert!(loaded.rule.is_none());
        assert!(
            loaded.findings.iter().any(|finding| finding.message.contains("cannot be used here")),
            "{loaded:?}"
        );
    }
}
