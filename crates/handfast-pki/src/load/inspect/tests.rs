//! Findings about keys and certificates that are not served yet.

use std::time::Duration;

use super::*;
use handfast_testkit::maker::{Folder, Made, Maker, NOW};

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../../weak/tests/", $name))
    };
}

fn seen_with(lists: &Lists, paths: &[&Path]) -> Inspected {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs());
    let inspection = Inspection { known_keys: lists, now, days: 21 };
    let mut seen = Inspected::default();
    paths.iter().for_each(|path| inspection.path(path, &mut seen));
    inspection.compare(&mut seen);
    seen
}

fn seen(paths: &[&Path]) -> Inspected {
    seen_with(&Lists::default(), paths)
}

/// Severity, reason and message of each finding.
fn findings(seen: &Inspected) -> Vec<(Severity, Reason, &str)> {
    seen.findings.iter().map(|finding| (finding.severity, finding.reason, finding.message.as_str())).collect()
}

#[test]
fn what_is_good_is_only_counted() {
    let folder = Folder::new();
    let root = Maker::authority("root").valid((2020, 1, 1), (2040, 1, 1)).self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let leaf = Maker::new(&["www.example.org"]).signed_by(&middle);
    folder.put("fullchain.pem", leaf.pem() + &middle.pem() + &root.pem());
    folder.put("cert.pem", leaf.pem());
    folder.put("privkey.pem", leaf.key_pem());
    folder.put("roots.pem", root.pem() + &middle.pem());
    folder.put("notes.txt", "nothing");
    folder.put("empty", "");
    std::fs::create_dir(folder.at("below")).expect("it is ours");
    folder.put(
        "below/other.pem",
        Maker::new(&["b.example.org"]).valid((2026, 1, 1), (2028, 1, 1)).self_signed().both(),
    );
    let seen = seen(&[folder.path()]);
    assert_eq!(findings(&seen), []);
    assert_eq!((seen.certificates, seen.keys, seen.files), (4, 2, 7));
    assert_eq!(seen.first_to_expire.map(|first| first.0).as_deref(), Some("www.example.org"));
}

#[test]
fn weak_keys_are_found_in_certificates_and_in_keys() {
    let folder = Folder::new();
    let good = weak::load(&[folder.put("list.csv", sample!("debian-sample.csv"))], None).lists;
    let samples = [
        ("debian.crt", sample!("debian-2048-a.crt"), "is on the list of known keys"),
        ("debian.key", sample!("debian-2048-a.key"), "is on the list of known keys"),
        ("p256.crt", sample!("debian-p256.crt"), "is on the list of known keys"),
        ("close.crt", sample!("close-primes-2048.crt"), "two primes that are close together"),
        ("close.key", sample!("close-primes-2048.key"), "two primes that are close together"),
        ("roca.key", sample!("roca-2048.key"), "fingerprint of ROCA"),
        ("small.key", sample!("small-1024.key"), "has 1024 bits"),
    ];
    for (name, content, words) in samples {
        let path = folder.put(name, content);
        let seen = seen_with(&good, &[&path]);
        let weak: Vec<_> = findings(&seen)
            .into_iter()
            .filter(|finding| (finding.0, finding.1) == (Severity::Error, Reason::WeakKey))
            .collect();
        assert!(weak.len() == 1 && weak[0].2.contains(words), "{name}: {:?}", seen.findings);
    }
    let unlisted = seen(&[&folder.at("debian.key")]);
    assert_eq!(findings(&unlisted), [], "its numbers are good, and no list was given");
}

#[test]
fn dates_are_reported_in_time() {
    let folder = Folder::new();
    let finding_of = |from, to| {
        let path = folder.put("a.pem", Maker::new(&["a.example.org"]).valid(from, to).self_signed().pem());
        let seen = seen(&[&path]);
        let first = seen.findings.first();
        first.map(|finding| (finding.severity, finding.reason, finding.message.clone()))
    };
    // Now is noon of 2026-11-01.
    assert_eq!(finding_of((2026, 9, 1), (2026, 11, 30)), None, "29 days left of 90");
    let (severity, reason, words) = finding_of((2026, 9, 1), (2026, 11, 20)).expect("18 days");
    assert_eq!((severity, reason), (Severity::Warning, Reason::Expired));
    assert!(
        words.starts_with("the certificate of a.example.org expires in 18 days, on 2026-11-20"),
        "{words}"
    );
    assert_eq!(finding_of((2026, 10, 31), (2026, 11, 6)), None, "4.5 days left of six");
    assert!(finding_of((2026, 10, 28), (2026, 11, 3)).is_some(), "1.5 days left of six");
    let (severity, _, words) = finding_of((2025, 1, 1), (2026, 10, 30)).expect("expired");
    assert_eq!(severity, Severity::Error);
    assert!(words.contains("expired 2 days ago"), "{words}");
    assert!(finding_of((2026, 12, 1), (2027, 12, 1)).is_some_and(|message| message.1 == Reason::NotYetValid));
}

#[test]
fn chains_in_the_wrong_order_are_reported_and_bundles_are_not() {
    let folder = Folder::new();
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let leaf = Maker::new(&["a.example.org"]).signed_by(&middle);
    let findings_of = |content: String| {
        let seen = seen(&[&folder.put("chain.pem", content)]);
        findings(&seen).iter().map(|finding| (finding.1, finding.2.to_owned())).collect::<Vec<_>>()
    };
    let reversed = findings_of(middle.pem() + &leaf.pem());
    assert!(
        matches!(&reversed[..], [(Reason::ChainOrder, words)] if words.contains("a.example.org, is number 2")),
        "{reversed:?}"
    );
    let skipped = findings_of(leaf.pem() + &root.pem() + &middle.pem());
    assert!(
        matches!(&skipped[..], [(Reason::ChainOrder, words)] if words.contains("was signed by \"CN=middle\", and the next certificate is that of \"CN=root\"")),
        "{skipped:?}"
    );
    assert_eq!(findings_of(middle.pem() + &root.pem()), []);
    assert_eq!(findings_of(leaf.pem() + &Maker::new(&["b.example.org"]).self_signed().pem()), []);
}

/// The findings about a server that presents these certificates.
fn presented(chain: &[Vec<u8>]) -> Vec<Finding> {
    let lists = Lists::default();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs());
    let inspection = Inspection { known_keys: &lists, now, days: 21 };
    let mut seen = Inspected::default();
    inspection.presented("a.example.org:443", chain, &mut seen);
    seen.findings
}

/// A certificate with this extension, by this CA.
fn with_extension(issuer: &Made, identifier: &[u64], content: &[u8]) -> Vec<u8> {
    let mut params = Maker::new(&["a.example.org"]).valid((2026, 4, 1), (2027, 1, 1)).self_signed().params;
    params.custom_extensions.push(rcgen::CustomExtension::from_oid_content(identifier, content.to_vec()));
    let issuer = rcgen::Issuer::from_params(&issuer.params, &issuer.key);
    params.signed_by(&rcgen::KeyPair::generate().unwrap(), &issuer).unwrap().der().to_vec()
}

#[test]
fn a_server_that_sends_too_little_is_reported() {
    let ca = Maker::authority("a CA").self_signed();
    // Domain validated, by the CA/Browser Forum: 2.23.140.1.2.1.
    let public = with_extension(&ca, &[2, 5, 29, 32], b"\x30\x0a\x30\x08\x06\x06\x67\x81\x0c\x01\x02\x01");
    let found = presented(&[public.clone(), b"rubbish".to_vec()]);
    let [broken, incomplete, life] = &found[..] else { panic!("{found:?}") };
    assert_eq!((broken.reason, incomplete.reason), (Reason::BadCertificate, Reason::ChainIncomplete));
    assert_eq!((incomplete.severity, life.reason), (Severity::Warning, Reason::LongValidity));
    let words = "a.example.org:443: the intermediate certificate of \"CN=a CA\" is not sent with";
    assert!(incomplete.to_string().starts_with(words), "{incomplete}");
    let reasons = |chain: &[Vec<u8>]| presented(chain).iter().map(|found| found.reason).collect::<Vec<_>>();
    assert_eq!(reasons(&[public, ca.certificate.der().to_vec()]), [Reason::LongValidity]);
    // Private CAs sign with their root, and some name its location.
    let private = Maker::new(&["a.example.org"]).signed_by(&ca).certificate.der().to_vec();
    assert_eq!(reasons(&[private]), []);
    let location = b"\x30\x13\x30\x11\x06\x08\x2b\x06\x01\x05\x05\x07\x30\x02\x86\x05http:";
    let found = presented(&[with_extension(&ca, &[1, 3, 6, 1, 5, 5, 7, 1, 1], location)]);
    assert!(matches!(&found[..], [one] if one.severity == Severity::Note), "{found:?}");
}

#[test]
fn a_chain_whose_signatures_are_wrong_is_reported() {
    let [ca, other] = [(), ()].map(|()| Maker::authority("a CA").self_signed());
    let leaf = Maker::new(&["a.example.org"]).signed_by(&ca);
    let der = |made: &Made| made.certificate.der().to_vec();
    assert_eq!(presented(&[der(&leaf), der(&ca)]), []);
    let found = presented(&[der(&leaf), der(&other)]);
    let [wrong] = &found[..] else { panic!("{found:?}") };
    let words = "the signature of the certificate of \"CN=a test\" is not by the certificate of \"CN=a CA\" that is with it";
    assert!(wrong.reason == Reason::BadSignature && wrong.message.starts_with(words), "{wrong}");
}

#[test]
fn a_hash_that_can_be_forged_is_reported_unless_it_is_a_roots() {
    let folder = Folder::new();
    folder.openssl("req -x509 -sha1 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 9000 -subj /CN=root");
    folder.openssl("req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout a.key -out a.csr -subj /CN=a.example.org");
    folder.put("extensions", "subjectAltName=DNS:a.example.org");
    folder.openssl(
        "x509 -req -sha1 -in a.csr -CA ca.pem -CAkey ca.key -out a.pem -days 300 -extfile extensions",
    );
    let seen = seen(&[&folder.at("a.pem"), &folder.at("ca.pem")]);
    let found: Vec<_> = seen.findings.iter().filter(|found| found.reason == Reason::BrokenHash).collect();
    let [hash] = &found[..] else { panic!("{:?}", seen.findings) };
    assert!(
        hash.to_string().contains("a.pem: the certificate of a.example.org is signed with SHA-1"),
        "{hash}"
    );
}

#[test]
fn a_certificate_for_years_is_reported() {
    let root = Maker::authority("root").self_signed();
    let of = |from, to| {
        presented(&[Maker::new(&["a.example.org"])
            .valid(from, to)
            .signed_by(&root)
            .certificate
            .der()
            .to_vec()])
    };
    assert_eq!(of((2026, 1, 1), (2028, 4, 4)), [], "824 days");
    let found = of((2026, 1, 1), (2036, 12, 14));
    let [long] = &found[..] else { panic!("{found:?}") };
    let words =
        "the certificate of a.example.org is valid for 4000 days, and clients accept 825 days at most";
    assert_eq!((long.reason, long.message.as_str()), (Reason::LongValidity, words));
    // Issued before there was a limit.
    assert_eq!(of((2019, 1, 1), (2036, 1, 1)), []);
}

#[test]
fn one_key_for_unrelated_names_and_pairs_that_do_not_fit_are_reported() {
    let folder = Folder::new();
    let one = Maker::new(&["a.example.org"]).self_signed();
    let params = rcgen::CertificateParams::new(vec!["b.example.com".to_owned()]).expect("a name");
    let other = params.self_signed(&one.key).expect("a certificate").pem();
    folder.put("one.pem", one.both());
    folder.put("two.pem", other);
    let stranger = Maker::new(&["c.example.net"]).self_signed();
    folder.put("wrong.pem", stranger.pem() + &one.key_pem());
    let seen = seen(&[folder.path()]);
    let reasons: Vec<_> = findings(&seen)
        .iter()
        .map(|finding| finding.1)
        .filter(|reason| *reason != Reason::NotYetValid)
        .collect();
    assert_eq!(reasons, [Reason::KeyDoesNotFit, Reason::SharedKey], "{:?}", seen.findings);
}

#[test]
fn what_is_named_and_cannot_be_read_is_reported() {
    let folder = Folder::new();
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    folder.put("locked.key", encrypted);
    folder.put("text.pem", "no PEM");
    let none = folder.at("none.pem");
    let seen = seen(&[&folder.at("locked.key"), &folder.at("text.pem"), &none]);
    assert_eq!(
        findings(&seen).iter().map(|finding| finding.1).collect::<Vec<_>>(),
        [Reason::NotPem, Reason::Missing]
    );
    assert!(seen.unseen.len() == 1 && seen.unseen[0].1.contains("encrypted"), "{:?}", seen.unseen);
}

#[test]
fn how_much_time_is_left_is_reported_to_the_hour() {
    let folder = Folder::new();
    let made = Maker::new(&["a.example.org"]).valid((2026, 1, 1), (2026, 11, 2)).self_signed();
    let path = folder.put("a.pem", made.pem());
    let lists = Lists::default();
    let finding_before = |before: i64| {
        // 2026-11-02 00:00:00 UTC
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs((1_793_577_600 - before).unsigned_abs());
        let mut seen = Inspected::default();
        Inspection { known_keys: &lists, now, days: 21 }.path(&path, &mut seen);
        seen.findings.first().map(|finding| (finding.severity, finding.message.clone()))
    };
    assert_eq!(finding_before(21 * DAY), None, "the requested number of days");
    for (before, severity, words) in [
        (21 * DAY - 1, Severity::Warning, "expires in 20 days, on 2026-11-02"),
        (2 * DAY, Severity::Warning, "expires in 2 days, on"),
        (DAY + 5, Severity::Warning, "expires in 1 day, on"),
        (7_200, Severity::Warning, "expires in 2 hours, on"),
        (0, Severity::Warning, "expires in 0 hours, on"),
        (-10_800, Severity::Error, "expired 3 hours ago, on"),
        (-DAY, Severity::Error, "expired 1 day ago, on"),
    ] {
        let (is, message) = finding_before(before).expect(words);
        assert!(is == severity && message.contains(words), "{before}: {message}");
    }
    // From its first second on it is valid.
    let begins = made.params.not_before.unix_timestamp();
    assert_eq!(finding_before(1_793_577_600 - begins), None);
    let (_, words) = finding_before(1_793_577_600 - begins + 1).expect("a second too early");
    assert!(words.contains("is valid only from 2026-01-01"), "{words}");
}

#[test]
fn an_expired_ca_is_a_warning_unless_it_names_a_host() {
    let folder = Folder::new();
    let old = |mut maker: Maker| {
        (maker.is_authority, maker.to) = (true, (2026, 2, 1));
        let seen = seen(&[&folder.put("a.pem", maker.self_signed().pem())]);
        seen.findings.iter().map(|finding| finding.severity).collect::<Vec<_>>()
    };
    assert_eq!(old(Maker::new(&[])), [Severity::Warning]);
    assert_eq!(old(Maker::new(&["a.example.org"])), [Severity::Error], "as `openssl req -x509` makes them");
    assert_eq!(old(Maker::new(&["192.0.2.1"])), [Severity::Error]);
}

#[test]
fn a_certificate_is_called_by_what_it_names() {
    let folder = Folder::new();
    let first = |names: &[&str]| {
        let maker = Maker { subject: "www.example.org", ..Maker::new(names) };
        let seen = seen(&[&folder.put("a.pem", maker.self_signed().pem())]);
        let reasons: Vec<_> = seen.findings.iter().map(|finding| finding.reason).collect();
        (seen.first_to_expire.expect("it is a server's").0, reasons)
    };
    assert_eq!(first(&["a.example.org"]), ("a.example.org".into(), vec![]));
    assert_eq!(first(&["a.example.org", "b.example.org", "192.0.2.1"]).0, "a.example.org and 1 more");
    assert_eq!(first(&["192.0.2.1"]), ("192.0.2.1".into(), vec![]), "an address is a name");
    let (name, reasons) = first(&[]);
    assert_eq!((name.as_str(), reasons), ("\"CN=www.example.org\"", vec![Reason::NoNames]));
}

#[test]
fn the_one_that_runs_out_first_is_reported_whatever_the_order() {
    let folder = Folder::new();
    let put = |file: &str, name: &str, to| {
        folder.put(file, Maker::new(&[name]).valid((2026, 1, 1), to).self_signed().pem())
    };
    let (long, short) =
        (put("1.pem", "long.example.org", (2028, 1, 1)), put("2.pem", "short.example.org", (2027, 6, 1)));
    // A CA's counts for nothing here.
    let ca = folder.put("ca.pem", Maker::authority("ca").self_signed().pem());
    for paths in [[&*long, &*short, &*ca], [&*ca, &*short, &*long]] {
        assert_eq!(seen(&paths).first_to_expire.map(|first| first.0).as_deref(), Some("short.example.org"));
    }
}

#[test]
fn folders_are_gone_into_so_far_and_what_is_left_out_is_reported() {
    let folder = Folder::new();
    let mut path = folder.path().to_path_buf();
    for depth in 0..14 {
        path.push("d");
        std::fs::create_dir(&path).expect("it is ours");
        let made = Maker::new(&[&format!("{depth}.example.org")]).self_signed();
        folder.put(path.join("a.pem").to_str().expect("a name"), made.pem());
    }
    std::os::unix::fs::symlink(folder.path(), folder.at("d/circle")).expect("it is ours");
    let seen = seen(&[folder.path()]);
    assert_eq!((seen.certificates, seen.files), (12, 12));
    let [(left_out, why)] = &seen.unseen[..] else { panic!("{:?}", seen.unseen) };
    assert_eq!(
        (left_out.components().count(), why.as_str()),
        (path.components().count() - 1, "too deep within folders")
    );
}

#[test]
fn what_others_may_read_and_what_clients_cannot_take_is_reported() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let both = folder.put("a.pem", Maker::new(&["a.example.org"]).self_signed().both());
    std::fs::set_permissions(&both, std::fs::Permissions::from_mode(0o644)).expect("it is ours");
    folder.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:secp256k1 -nodes -keyout odd.key -subj /CN=odd -addext subjectAltName=DNS:odd.example.org -addext basicConstraints=critical,CA:FALSE -days 3650 -out odd.pem");
    let seen = seen(&[folder.path()]);
    let reasons: Vec<_> = findings(&seen).iter().map(|entry| (entry.0, entry.1)).collect();
    assert!(reasons.contains(&(Severity::Warning, Reason::Permissions)), "{reasons:?}");
    let unusable =
        seen.findings.iter().find(|finding| finding.message.contains("which TLS clients do not take"));
    assert_eq!(
        unusable.map(|finding| (finding.severity, finding.reason)),
        Some((Severity::Warning, Reason::BadKey))
    );
}

/// Each is reported where it was seen first, and counted once.
#[test]
fn a_server_that_sends_a_whole_chain_is_let_be() {
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let leaf = Maker::new(&["a.example.org"]).signed_by(&middle);
    let own = Maker::new(&["b.example.org"]).self_signed();
    let lists = Lists::default();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs());
    let inspection = Inspection { known_keys: &lists, now, days: 21 };
    let mut seen = Inspected::default();
    let der = |made: &handfast_testkit::maker::Made| made.certificate.der().to_vec();
    inspection.presented("a.example.org:443", &[der(&leaf), der(&middle)], &mut seen);
    inspection.presented("b.example.org:443", &[der(&own)], &mut seen);
    assert_eq!((findings(&seen), seen.certificates), (vec![], 3));
}

#[test]
fn keys_of_kinds_that_no_client_takes_are_named() {
    let folder = Folder::new();
    let extensions =
        "-addext subjectAltName=DNS:a.example.org -addext basicConstraints=critical,CA:FALSE -days 3650";
    for (kind, words) in
        [("ed448", "Ed448"), ("rsa-pss -pkeyopt rsa_keygen_bits:2048", "RSA marked for PSS only")]
    {
        folder.openssl(&format!("genpkey -algorithm {kind} -out a.key"));
        folder.openssl(&format!("req -x509 -new -key a.key -subj /CN=a {extensions} -out a.pem"));
        let seen = seen(&[&folder.at("a.pem")]);
        let is_found = findings(&seen).iter().any(|entry| entry.2.contains(words));
        assert!(is_found, "{words}: {:?}", seen.findings);
    }
}

#[test]
fn what_editors_and_openssl_make_of_pem_is_recognised() {
    let folder = Folder::new();
    for start in [[0xff, 0xfe], [0xfe, 0xff]] {
        let seen = seen(&[&folder.put("a.pem", [&start[..], b"-\0-\0"].concat())]);
        assert!(findings(&seen)[0].2.contains("UTF-16"), "{:?}", seen.findings);
    }
    let own = "-----BEGIN TRUSTED CERTIFICATE-----\nAAEC\n-----END TRUSTED CERTIFICATE-----\n";
    let seen = seen(&[&folder.put("a.pem", own)]);
    assert_eq!(findings(&seen)[0].1, Reason::UnusedSection);
    assert!(findings(&seen)[0].2.contains("OpenSSL's own form"), "{:?}", seen.findings);
}
