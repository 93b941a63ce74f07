//! Tests for the servers that files and pins trust.

use rcgen::SanType;
use rustls_pki_types::ServerName;
use rustls_pki_types::pem::PemObject;

use super::*;
use handfast_pki::finding::Severity;
use handfast_testkit::maker::{Folder, Made, Maker, NOW, section_under};

fn at() -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW.unsigned_abs()))
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(NOW.unsigned_abs())
}

fn name(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).expect("a name")
}

fn good(trust: &Trust, made: &Made, host: &str) -> bool {
    trust.check(made.certificate.der(), &[], &name(host), &[], at()).is_ok()
}

fn loaded(pem: &str) -> LoadedTrust {
    let folder = Folder::new();
    load(&folder.put("ca.pem", pem), &Arc::default(), now())
}

#[test]
fn a_ca_makes_those_good_that_it_signed_for_their_names() {
    let (ca, other) = (Maker::authority("a CA").self_signed(), Maker::authority("another").self_signed());
    let server = Maker::new(&["backend.example"]).signed_by(&ca);
    let trust = loaded(&ca.pem()).trust.expect("no error");
    assert!(good(&trust, &server, "backend.example"));
    assert!(!good(&trust, &server, "other.example"), "another name");
    assert!(!good(&trust, &Maker::new(&["backend.example"]).signed_by(&other), "backend.example"));
    let any = trust.asking(&[], false);
    assert!(good(&any, &server, "other.example"), "any name was asked for");
    assert!(!good(&any, &Maker::new(&["backend.example"]).signed_by(&other), "backend.example"));
}

/// The CA of the responses is trusted, or an intermediate one of the chain, or exactly the server's certificate.
/// The certificates that the responses of the fixtures are about.
fn chain() -> Vec<CertificateDer<'static>> {
    let chain = include_bytes!("../../../../handfast-pki/fixtures/ocsp/chain.pem");
    CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().unwrap()
}

/// The response under this heading, as a peer sends it.
fn sent(heading: &str) -> Vec<u8> {
    let all = include_str!("../../../../handfast-pki/fixtures/ocsp/responses.pem");
    let response = section_under(all, heading).replace(" OCSP RESPONSE-", " CERTIFICATE-");
    CertificateDer::from_pem_slice(response.as_bytes()).unwrap().to_vec()
}

#[test]
fn a_stapled_response_decides_about_revocation() {
    let chain = chain();
    let pem = |der: &CertificateDer<'_>| {
        let text = data_encoding::BASE64.encode(der);
        format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n")
    };
    let [by_ca, exactly] = [&chain[1], &chain[0]].map(|der| loaded(&pem(der)).trust.expect("no error"));
    let refusal_of = |trust: &Trust, intermediates: &[CertificateDer<'_>], response: &[u8]| {
        let checked = trust.check(&chain[0], intermediates, &name("localhost"), response, at());
        checked.err().map(|refusal| refusal.to_string())
    };
    for (heading, words) in [
        ("good", None),
        ("good, certificate id by SHA-256", None),
        ("good, by a responder", None),
        (
            "revoked",
            Some("its OCSP response says that the certificate was revoked on 2026-03-01 00:00:00 UTC"),
        ),
        (
            "unknown",
            Some("its OCSP response says that the responder does not know the certificate (status unknown)"),
        ),
        ("expired", Some("its OCSP response expired on 2021-01-01 00:00:00 UTC")),
        (
            "of another certificate",
            Some("its OCSP response is about another certificate than the one that is served"),
        ),
        ("signed by a stranger", Some("its OCSP response is signed by a responder that must not")),
        ("by a responder of a stranger", Some("its OCSP response is signed by a responder that must not")),
        ("try later", Some("its OCSP response is the responder's refusal to answer")),
    ] {
        let response = sent(heading);
        for (trust, intermediates) in [(&by_ca, &[][..]), (&by_ca, &chain[1..]), (&exactly, &chain[1..])] {
            assert_eq!(refusal_of(trust, intermediates, &response), None, "{heading}: it is not looked at");
            let lenient = trust.clone().revocation(Revocation::Stapled);
            let strict = trust.clone().revocation(Revocation::StapleRequired);
            let expected = words.filter(|_| heading == "revoked");
            assert_eq!(refusal_of(&lenient, intermediates, &response).as_deref(), expected, "{heading}");
            let reason = refusal_of(&strict, intermediates, &response);
            let is_as_expected = match (&reason, words) {
                (None, None) => true,
                (Some(reason), Some(words)) => reason.starts_with(words),
                _ => false,
            };
            assert!(is_as_expected, "{heading}: {reason:?}");
        }
    }
    let lenient = by_ca.clone().revocation(Revocation::Stapled);
    let strict = by_ca.clone().revocation(Revocation::StapleRequired);
    assert_eq!(refusal_of(&lenient, &[], &[]), None);
    assert_eq!(refusal_of(&lenient, &[], b"no response"), None);
    let none = "no OCSP response came with it, and one is required";
    assert_eq!(refusal_of(&strict, &[], &[]).as_deref(), Some(none));
    assert!(
        refusal_of(&strict, &[], b"no response")
            .is_some_and(|reason| reason.contains("is not an OCSP response"))
    );
    // The issuer is unknown: nothing shows if the response is its own.
    let alone = exactly.revocation(Revocation::StapleRequired);
    let reason = refusal_of(&alone, &[], &sent("good"));
    assert!(reason.is_some_and(|reason| reason.contains("is signed neither by the certificate's issuer")));
    assert!(by_ca != lenient && lenient != strict, "a ticket of one is not good for the other");
}

/// A certificate of this subject and with these alternative names.
fn called(common_name: &str, names: &[SanType], ca: &Made) -> CertificateDer<'static> {
    let mut params = rcgen::CertificateParams::default();
    params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
    params.not_before = rcgen::date_time_ymd(2026, 1, 1);
    params.not_after = rcgen::date_time_ymd(2027, 1, 1);
    params.subject_alt_names = names.to_vec();
    let key = rcgen::KeyPair::generate().expect("a key");
    let issuer = rcgen::Issuer::from_params(&ca.params, &ca.key);
    params.signed_by(&key, &issuer).expect("signed").der().clone()
}

/// As OpenSSL compares: the common name counts where there are no alternative names, and only then.
#[test]
fn a_common_name_counts_where_it_is_requested_and_alone() {
    let ca = Maker::authority("a CA").self_signed();
    let trust = loaded(&ca.pem()).trust.expect("no error");
    let lenient = trust.clone().or_common_name();
    assert_ne!(trust, lenient, "a ticket of one is not good for the other");
    let dns = SanType::DnsName("other.example".try_into().expect("a name"));
    let ip = SanType::IpAddress("192.0.2.1".parse().expect("an address"));
    let mail = SanType::Rfc822Name("a@b.example".try_into().expect("a name"));
    for (common_name, names, host, is_good) in [
        ("a.example", vec![], "a.example", true),
        ("A.Example", vec![mail.clone()], "a.example", true),
        ("*.b.example", vec![], "a.b.example", true),
        ("*.b.example", vec![], "a.c.b.example", false),
        ("*.example", vec![], "a.example", false),
        ("b.example", vec![], "a.example", false),
        ("a.example", vec![dns.clone()], "a.example", false),
        ("a.example", vec![ip.clone()], "a.example", true),
        ("a.example", vec![ip], "192.0.2.1", true),
        ("a.example", vec![dns], "other.example", true),
        ("192.0.2.7", vec![], "192.0.2.7", true),
        ("*.0.2.7", vec![], "192.0.2.7", false),
    ] {
        let made = called(common_name, &names, &ca);
        let check = |trust: &Trust| trust.check(&made, &[], &name(host), &[], at());
        assert_eq!(check(&lenient).is_ok(), is_good, "{common_name} {names:?} {host}: {:?}", check(&lenient));
        let by_alternative_name = ["other.example", "192.0.2.1"].contains(&host);
        assert_eq!(check(&trust).is_ok(), by_alternative_name, "{common_name} {host}");
    }
    let refusal =
        lenient.check(&called("b.example", &[], &ca), &[], &name("a.example"), &[], at()).unwrap_err();
    assert_eq!(refusal.to_string(), "it is for CN=b.example; expected \"a.example\"");
}

/// The usual first attempt, as with curl's `--cacert`.
#[test]
fn a_self_signed_certificate_may_be_named_itself() {
    let server = Maker::new(&["backend.example"]).self_signed();
    let trust = loaded(&server.pem()).trust.expect("no error");
    assert!(good(&trust, &server, "backend.example"));
    assert!(!good(&trust, &server, "other.example"));
    assert!(!good(&trust, &Maker::new(&["backend.example"]).self_signed(), "backend.example"), "another one");
}

#[test]
fn a_pinned_key_is_requested_beside_the_ca_or_decides_alone() {
    let ca = Maker::authority("a CA").self_signed();
    let [server, other] = [0, 1].map(|_| Maker::new(&["backend.example"]).signed_by(&ca));
    let pin = Pin::of(server.certificate.der()).expect("readable");
    let both = loaded(&ca.pem()).trust.expect("no error").asking(&[pin], true);
    assert!(good(&both, &server, "backend.example"));
    assert!(!good(&both, &other, "backend.example"), "another key");
    assert!(!good(&both, &server, "other.example"), "the name counts too");
    let alone = Trust::only_pins(&[pin]);
    assert!(good(&alone, &server, "other.example"), "nothing but the key counts");
    assert!(!good(&alone, &other, "backend.example"));
    let expired = Maker::new(&["old.example"]).valid((2020, 1, 1), (2021, 1, 1)).self_signed();
    let pin = Pin::of(expired.certificate.der()).expect("readable");
    assert!(good(&Trust::only_pins(&[pin]), &expired, "backend.example"), "not even its dates");
}

#[test]
fn what_is_wrong_with_the_file_is_reported() {
    let ca = Maker::authority("a CA").self_signed();
    for (pem, reason) in [
        (String::new(), Reason::Empty),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n".into(), Reason::Truncated),
        (ca.key_pem(), Reason::NoCertificate),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(), Reason::BadCertificate),
    ] {
        let loaded = loaded(&pem);
        assert!(loaded.trust.is_none(), "{reason:?}");
        assert!(loaded.findings.iter().any(|finding| finding.reason == reason), "{:?}", loaded.findings);
    }
    let old = loaded(&Maker::authority("old").valid((2020, 1, 1), (2021, 1, 1)).self_signed().pem());
    assert!(old.trust.is_some() && old.findings[0].reason == Reason::Expired, "{:?}", old.findings);
    assert_eq!(old.findings[0].severity, Severity::Warning);
    let missing = load(Path::new("/nowhere/ca.pem"), &Arc::default(), now());
    assert!(missing.trust.is_none() && missing.findings[0].reason == Reason::Missing);
}

#[test]
fn a_certificate_is_in_time_until_its_last_second() {
    let made = Maker::authority("a CA").self_signed();
    let last = made.params.not_after.unix_timestamp().unsigned_abs();
    let folder = Folder::new();
    let ca = folder.put("ca.pem", made.pem());
    let findings = |seconds: u64| {
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        load(&ca, &Arc::default(), now).findings.len()
    };
    assert_eq!((findings(last), findings(last + 1)), (0, 1));
}

#[test]
fn of_several_authorities_the_bad_one_is_named_by_its_number() {
    let good = Maker::authority("a CA").self_signed();
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let why = |pem: String| of_pem(pem.as_bytes()).expect_err("it cannot be read").to_string();
    assert!(why(bad.to_owned()).starts_with("trusted CA 1: "));
    assert!(why(good.pem() + bad).starts_with("trusted CA 2: "));
}

#[test]
fn a_name_is_requested_unless_keys_alone_decide() {
    let ca = Maker::authority("a CA").self_signed();
    let strict = loaded(&ca.pem()).trust.expect("no error");
    assert!(strict.requires_name() && !strict.asking(&[], false).requires_name());
    assert!(!Trust::only_pins(&[]).requires_name());
}

/// Whatever this machine has: the set is empty only where there are no CAs.
#[test]
fn the_machines_own_authorities_are_trusted_where_there_are_any() {
    let any = !rustls_native_certs::load_native_certs().certs.is_empty();
    assert_eq!(system(&Arc::default()).is_ok(), any);
}

/// Trust that was read twice is equal, so that a reload does not discard sessions needlessly.
#[test]
fn the_same_files_and_pins_are_the_same_trust() {
    let [one, other] = ["one", "other"].map(|subject| Maker::authority(subject).self_signed());
    let trust = |made: &Made| loaded(&made.pem()).trust.expect("no error");
    assert_eq!(trust(&one), trust(&one));
    assert_ne!(trust(&one), trust(&other));
    assert_ne!(trust(&one), trust(&one).asking(&[], false));
    let pin = Pin::of(one.certificate.der()).expect("readable");
    assert_ne!(trust(&one), trust(&one).asking(&[pin], true));
}

/// After a file breaks, its former certificates stay trusted; a new required name applies at once.
#[test]
fn what_was_asked_before_is_forgotten() {
    let ca = Maker::authority("a CA").self_signed();
    let server = Maker::new(&["backend.example"]).signed_by(&ca);
    let pin = Pin::of(ca.certificate.der()).expect("readable");
    let lax = loaded(&ca.pem()).trust.expect("no error").asking(&[pin], false);
    assert!(!good(&lax, &server, "other.example"), "the key is another");
    let strict = lax.asking(&[], true);
    assert!(good(&strict, &server, "backend.example") && !good(&strict, &server, "other.example"));
}
