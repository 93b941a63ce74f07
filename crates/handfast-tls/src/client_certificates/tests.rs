//! Tests for the accepted clients, and for the findings about a file of CAs.

use super::*;
use handfast_pki::finding::Severity;
use handfast_testkit::maker::{Folder, Made, Maker, NOW};

mod revocation;
mod weak_keys;

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64)
}

/// The rule of one file of CAs, without lists.
pub(crate) fn load(
    authorities: &Path,
    demand: Demand,
    known_keys: &Arc<Lists>,
    now: SystemTime,
) -> LoadedAuthorities {
    let settings = ClientCertificateSettings::new(authorities, demand, known_keys);
    load_all(&settings, &KnownLists::default(), now)
}

fn load_text(content: impl AsRef<[u8]>, demand: Demand) -> LoadedAuthorities {
    let folder = Folder::new();
    load(&folder.put("ca.pem", content), demand, &Arc::default(), at(NOW))
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

/// With the clients' own certificates in the file: neither the CA that signed one counts nor what that CA signed besides.
#[test]
fn a_pinned_certificate_needs_no_authority() {
    let ca = Maker::authority("ca").self_signed();
    let (pinned, sibling) = (client(&ca), client(&ca));
    let folder = Folder::new();
    let file = folder.put("clients.pem", pinned.pem() + &ca.pem());
    let keys = Arc::default();
    let settings = ClientCertificateSettings {
        trust: Trust::Certificates(&file),
        ..ClientCertificateSettings::new(&file, Demand::Require, &keys)
    };
    let loaded = load_all(&settings, &KnownLists::default(), at(NOW));
    assert_eq!(reasons(&loaded), []);
    let rule = loaded.rule.unwrap();
    let chain = |leaf: &Made| [leaf.certificate.der().clone(), ca.certificate.der().clone()];
    rule.check_again(&chain(&pinned)[..1], at(NOW)).unwrap();
    rule.check_again(&chain(&pinned), at(NOW)).unwrap();
    rule.check_again(&chain(&sibling), at(NOW)).unwrap_err();
    rule.check_again(&chain(&pinned), at(NOW + 100 * 86_400)).unwrap_err();
    assert!(rule.verifier().root_hint_subjects().is_empty(), "clients choose among all their certificates");
    let by_authority = load(&file, Demand::Require, &keys, at(NOW)).rule.unwrap();
    assert_ne!(rule.fingerprint(), by_authority.fingerprint(), "a ticket of one is not good for the other");
}

#[test]
fn anything_is_a_certificate_and_its_key() {
    let keys = Arc::default();
    let settings = ClientCertificateSettings {
        trust: Trust::Anything,
        ..ClientCertificateSettings::new(Path::new(""), Demand::Require, &keys)
    };
    let loaded = load_all(&settings, &KnownLists::default(), at(NOW));
    assert_eq!(reasons(&loaded), []);
    let rule = loaded.rule.unwrap();
    let unknown = client(&Maker::authority("stranger").self_signed());
    rule.check_again(&[unknown.certificate.der().clone()], at(NOW + 100 * 86_400)).unwrap();
    // Backends and the log learn that its names are not verified.
    let own = unknown.certificate.der().clone();
    assert_eq!(rule.accepted(&own), Some(Verdict::Unverified));
    assert_eq!(rule.verdict(&[own], at(NOW)), Some(Verdict::Unverified));
    rule.check_again(&[], at(NOW)).unwrap_err();
    rule.check_again(&[CertificateDer::from(b"no certificate".to_vec())], at(NOW)).unwrap_err();
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
fn the_fingerprint_is_of_the_rules_too() {
    let (folder, keys) = (Folder::new(), Arc::default());
    let ca = folder.put("ca.pem", Maker::authority("ca").self_signed().pem());
    let usual = ClientCertificateSettings::new(&ca, Demand::Require, &keys);
    let of = |settings: &ClientCertificateSettings<'_>| {
        *load_all(settings, &KnownLists::default(), at(NOW)).rule.unwrap().fingerprint()
    };
    let rules = |allow: &[&str], refuse: &[&str]| {
        let parse = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).unwrap()).collect();
        Rules { allow: parse(allow), refuse: parse(refuse) }
    };
    let all = [
        rules(&[], &[]),
        rules(&["cn:a"], &[]),
        rules(&[], &["cn:a"]),
        rules(&["cn:a", "cn:b"], &[]),
        rules(&["cn:a"], &["cn:b"]),
    ];
    let mut seen: Vec<_> =
        all.iter().map(|rules| of(&ClientCertificateSettings { rules, ..usual.clone() })).collect();
    seen.push(of(&ClientCertificateSettings { tolerates: true, ..usual.clone() }));
    let different: BTreeSet<_> = seen.iter().collect();
    assert_eq!(different.len(), seen.len());
    let other_order = rules(&["cn:b", "cn:a"], &[]);
    assert_eq!(of(&ClientCertificateSettings { rules: &other_order, ..usual }), seen[3]);
}

/// At a full handshake, and again of one that resumes; and what is reported about it.
#[test]
fn rules_decide_among_those_whom_the_authorities_let_in() {
    let (folder, keys) = (Folder::new(), Arc::default());
    let (ca, stranger) = (Maker::authority("ca").self_signed(), Maker::authority("stranger").self_signed());
    let path = folder.put("ca.pem", ca.pem());
    let rule = |text: &str| vec![Rule::parse(text).unwrap()];
    let (own, other) = (client(&ca), client(&stranger));
    let chain = |made: &Made| [made.certificate.der().clone()];
    for (allow, refuse, verdict) in [
        (rule("dns:client.example.org"), Vec::new(), "allowed"),
        (rule("dns:another.example.org"), Vec::new(), "failed"),
        (Vec::new(), rule("dns:client.example.org"), "failed"),
        (rule("dns:client.example.org"), rule("dns:client.example.org"), "failed"),
        (Vec::new(), rule("dns:another.example.org"), "nothing"),
    ] {
        let rules = Rules { allow, refuse };
        let settings = ClientCertificateSettings {
            rules: &rules,
            ..ClientCertificateSettings::new(&path, Demand::Require, &keys)
        };
        let made = load_all(&settings, &KnownLists::default(), at(NOW)).rule.unwrap();
        let found = match made.verdict(&chain(&own), at(NOW)) {
            Some(Verdict::Unverified) => "unverified",
            Some(Verdict::Allowed(_)) => "allowed",
            Some(Verdict::Failed { .. }) => "failed",
            None => "nothing",
        };
        assert_eq!(found, verdict, "{rules:?}");
        assert_eq!(made.check_again(&chain(&own), at(NOW)).is_err(), verdict == "failed", "{rules:?}");
        assert_eq!(made.accepted(own.certificate.der()).is_some(), verdict == "allowed", "{rules:?}");
        made.check_again(&chain(&other), at(NOW)).unwrap_err();
    }
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
    let missing = load(&Folder::new().at("none"), Demand::Require, &Arc::default(), at(NOW));
    assert_eq!(reasons(&missing), [(Severity::Error, Reason::Missing)]);
}

#[test]
fn doubtful_cas_are_warnings() {
    let expired = Maker::authority("old").valid((2020, 1, 1), (2026, 10, 1)).self_signed();
    let loaded = load_text(expired.pem(), Demand::Require);
    assert_eq!(reasons(&loaded), [(Severity::Warning, Reason::Expired)]);
    // The text of the finding states that they are accepted; so they are.
    loaded.rule.unwrap().check_again(&[client(&expired).certificate.der().clone()], at(NOW)).unwrap();
    let ca = Maker::authority("ca").self_signed();
    assert_eq!(reasons(&load_text(ca.both(), Demand::Require)), [(Severity::Warning, Reason::UnusedSection)]);
}

#[test]
fn a_certificate_that_signed_itself_is_good_for_itself() {
    // As OpenSSL accepts it, and as setups with one service and one client use it.
    let own = Maker::new(&["a.example.org"]).self_signed();
    let loaded = load_text(own.pem(), Demand::Require);
    assert_eq!(reasons(&loaded), [(Severity::Warning, Reason::UnusedAuthority)]);
    assert!(loaded.findings[0].message.contains("exactly this certificate"), "{:?}", loaded.findings);
    let rule = loaded.rule.unwrap();
    rule.check_again(&[own.certificate.der().clone()], at(NOW)).unwrap();
    rule.check_again(&[own.certificate.der().clone()], at(NOW + 100 * 86_400)).unwrap_err();
    // It is no CA: certificates that its key signs are not trusted.
    let below = client(&own);
    rule.check_again(&[below.certificate.der().clone()], at(NOW)).unwrap_err();
    // openssl req -x509 makes CAs of all.
    let ca = Maker::authority("ca").self_signed();
    let loaded = load_text(ca.pem(), Demand::Require);
    assert_eq!(reasons(&loaded), []);
    loaded.rule.unwrap().check_again(&[ca.certificate.der().clone()], at(NOW)).unwrap();
}

#[test]
fn a_file_that_lets_nobody_in_is_an_error() {
    let ca = Maker::authority("ca").self_signed();
    let leaf = client(&ca);
    let loaded = load_text(leaf.pem(), Demand::Require);
    assert_eq!(reasons(&loaded), [(Severity::Error, Reason::UnusedAuthority)]);
    assert!(loaded.rule.is_none());
    // Beside a useful one it is a warning, and still not trusted.
    let loaded = load_text(ca.pem() + &leaf.pem(), Demand::Require);
    assert_eq!(reasons(&loaded), [(Severity::Warning, Reason::UnusedAuthority)]);
    let rule = loaded.rule.unwrap();
    rule.check_again(&[leaf.certificate.der().clone()], at(NOW)).unwrap();
    rule.check_again(&[client(&leaf).certificate.der().clone()], at(NOW)).unwrap_err();
    // A CA whose signatures are not accepted.
    let folder = Folder::new();
    folder.openssl("req -x509 -newkey rsa:1024 -nodes -keyout ca.key -out ca.pem -subj /CN=small");
    let loaded = load(&folder.at("ca.pem"), Demand::Require, &Arc::default(), at(NOW));
    assert_eq!(reasons(&loaded), [(Severity::Error, Reason::UnusedAuthority)]);
    assert!(loaded.findings[0].message.contains("1024 bits"), "{:?}", loaded.findings);
}

#[test]
fn a_ca_of_version_1_is_a_ca() {
    // A certificate that openssl makes of a request without extensions, and accepts.
    let folder = Folder::new();
    folder.openssl("req -newkey rsa:2048 -nodes -keyout ca.key -out ca.csr -subj /CN=old");
    folder.openssl("x509 -req -in ca.csr -signkey ca.key -days 3000 -out ca.pem");
    folder.openssl("req -newkey rsa:2048 -nodes -keyout client.key -out client.csr -subj /CN=client");
    folder.put("extensions", "basicConstraints=CA:FALSE");
    folder.openssl(
        "x509 -req -in client.csr -CA ca.pem -CAkey ca.key -extfile extensions -out client.pem -days 3000",
    );
    let now = SystemTime::now();
    let rule = load(&folder.at("ca.pem"), Demand::Require, &Arc::default(), now).rule.unwrap();
    let pem = std::fs::read(folder.at("client.pem")).unwrap();
    let client = rustls_pki_types::pem::PemObject::from_pem_slice(&pem).unwrap();
    rule.check_again(&[client], now).unwrap();
}

/// Clients with several certificates choose by them.
#[test]
fn clients_receive_each_ca_once() {
    let (one, two) = (Maker::authority("one").self_signed(), Maker::authority("two").self_signed());
    let rule = load_text(one.pem() + &two.pem() + &one.pem(), Demand::Require).rule.unwrap();
    let subject = |made: &Made| {
        let (_, parsed) = x509_parser::parse_x509_certificate(made.certificate.der()).unwrap();
        parsed.subject().as_raw()[2..].to_vec()
    };
    let findings: Vec<_> =
        rule.verifier().root_hint_subjects().iter().map(|name| name.as_ref()[2..].to_vec()).collect();
    assert_eq!(findings, [subject(&one), subject(&two)]);
}
