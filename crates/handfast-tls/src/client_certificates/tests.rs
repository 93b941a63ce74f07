//! Who is let in, and what is said of a file of CAs.

use super::*;
use crate::testing::{Folder, Made, Maker, NOW};

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64)
}

fn load_text(content: impl AsRef<[u8]>, demand: Demand) -> LoadedAuthorities {
    let folder = Folder::new();
    load(&folder.put("ca.pem", content), demand, at(NOW))
}

fn reasons(loaded: &LoadedAuthorities) -> Vec<(Severity, Reason)> {
    loaded.findings.iter().map(|finding| (finding.severity, finding.reason)).collect()
}

fn client(ca: &Made) -> Made {
    Maker::new(&["client.example.org"]).signed_by(ca)
}

#[test]
fn those_the_ca_signed_are_let_in_and_nobody_else() {
    let ca = Maker::authority("ca").self_signed();
    let stranger = Maker::authority("stranger").self_signed();
    let rule = load_text(ca.pem(), Demand::Require).rule.unwrap();
    let (good, bad) = (client(&ca), client(&stranger));
    rule.check_again(&[good.certificate.der().clone()], at(NOW)).unwrap();
    rule.check_again(&[bad.certificate.der().clone()], at(NOW)).unwrap_err();
    // Later than it is valid: what a resumed session must not get around.
    let later = rule.check_again(&[good.certificate.der().clone()], at(NOW + 100 * 86_400));
    assert!(matches!(later, Err(rustls::Error::InvalidCertificate(_))), "{later:?}");
    // Through an intermediate that the client sends.
    let middle = Maker::authority("middle").signed_by(&ca);
    let below = client(&middle);
    let chain = [below.certificate.der().clone(), middle.certificate.der().clone()];
    rule.check_again(&chain, at(NOW)).unwrap();
    rule.check_again(&chain[..1], at(NOW)).unwrap_err();
}

#[test]
fn only_a_request_lets_those_in_that_have_none() {
    let ca = Maker::authority("ca").self_signed();
    for (demand, is_mandatory) in [(Demand::Request, false), (Demand::Require, true)] {
        let rule = load_text(ca.pem(), demand).rule.unwrap();
        assert_eq!(rule.verifier().client_auth_mandatory(), is_mandatory);
        assert!(rule.verifier().offer_client_auth());
        assert_eq!(rule.check_again(&[], at(NOW)).is_err(), is_mandatory);
        assert_eq!(rule.demand(), demand);
    }
}

#[test]
fn the_fingerprint_is_of_the_set_and_the_demand() {
    let (one, two) = (Maker::authority("one").self_signed(), Maker::authority("two").self_signed());
    let of = |content: String, demand| *load_text(content, demand).rule.unwrap().fingerprint();
    let base = of(one.pem() + &two.pem(), Demand::Require);
    assert_eq!(base, of(two.pem() + "a remark\n" + &one.pem() + &two.pem(), Demand::Require));
    assert_ne!(base, of(one.pem() + &two.pem(), Demand::Request));
    assert_ne!(base, of(one.pem(), Demand::Require));
}

#[test]
fn bad_files_give_no_rule_and_say_why() {
    let ca = Maker::authority("ca").self_signed();
    let cases = [
        ("", Reason::Empty),
        ("hello\n", Reason::NotPem),
        (&ca.pem()[..100], Reason::Truncated),
        (&ca.key_pem(), Reason::NoCertificate),
        ("-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n", Reason::BadCertificate),
    ];
    for (content, reason) in cases {
        let loaded = load_text(content, Demand::Require);
        assert!(loaded.rule.is_none(), "{reason:?}");
        assert_eq!(reasons(&loaded)[0], (Severity::Error, reason));
        assert_eq!(loaded.files_read.len(), 1);
    }
    // One bad among good ones: half a list of CAs is not the list.
    let broken = ca.pem() + "-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n";
    assert!(load_text(broken, Demand::Require).rule.is_none());
    let missing = load(&Folder::new().at("none"), Demand::Require, at(NOW));
    assert_eq!(reasons(&missing), [(Severity::Error, Reason::Missing)]);
}

#[test]
fn doubtful_cas_are_warnings() {
    let expired = Maker::authority("old").valid((2020, 1, 1), (2026, 10, 1)).self_signed();
    let loaded = load_text(expired.pem(), Demand::Require);
    assert_eq!(reasons(&loaded), [(Severity::Warning, Reason::Expired)]);
    // The sentence says that they are accepted; so they are.
    loaded.rule.unwrap().check_again(&[client(&expired).certificate.der().clone()], at(NOW)).unwrap();
    let leaf = Maker::new(&["a.example.org"]).self_signed();
    assert_eq!(
        reasons(&load_text(leaf.pem(), Demand::Require)),
        [(Severity::Warning, Reason::UnusedAuthority)]
    );
    let ca = Maker::authority("ca").self_signed();
    assert_eq!(reasons(&load_text(ca.both(), Demand::Require)), [(Severity::Warning, Reason::UnusedSection)]);
}
