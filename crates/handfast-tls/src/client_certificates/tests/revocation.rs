//! Lists that are good, lists broken in every way, and what they cost.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rcgen::{KeyPair, SigningKey};
use rustls_pki_types::CertificateDer;

use super::super::*;
use handfast_pki::finding::{Reason, Severity};
use handfast_testkit::maker::{Folder, Made, Maker, NOW};

mod files;

const DAY: i64 = 86_400;

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64)
}

/// A value in DER.
fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut der = vec![tag];
    match content.len() {
        short @ 0..=0x7f => der.push(short as u8),
        long => {
            der.push(0x84);
            der.extend((long as u32).to_be_bytes());
        }
    }
    der.extend(content);
    der
}

fn time(seconds: i64) -> Vec<u8> {
    let text = handfast_text::calendar::Utc::of(at(seconds)).to_string();
    let digits: String = text.chars().filter(char::is_ascii_digit).take(14).collect();
    tlv(0x18, format!("{digits}Z").as_bytes())
}

fn extension(number: u8, critical: bool, value: &[u8]) -> Vec<u8> {
    let critical = if critical { tlv(1, &[0xff]) } else { Vec::new() };
    tlv(0x30, &[tlv(6, &[0x55, 0x1d, number]), critical, tlv(4, value)].concat())
}

/// A list as its maker describes it.
struct Draft<'a> {
    ca: &'a Made,
    from: i64,
    to: Option<i64>,
    serials: Vec<Vec<u8>>,
    extensions: Vec<Vec<u8>>,
    entry_extensions: Vec<Vec<u8>>,
}

/// A list by `ca` that names these certificates.
fn draft<'a>(ca: &'a Made, revoked: &[&Made]) -> Draft<'a> {
    let serial = |made: &&Made| {
        let (_, parsed) = x509_parser::parse_x509_certificate(made.certificate.der()).unwrap();
        parsed.raw_serial().to_vec()
    };
    Draft {
        ca,
        from: NOW - DAY,
        to: Some(NOW + 30 * DAY),
        serials: revoked.iter().map(serial).collect(),
        extensions: Vec::new(),
        entry_extensions: Vec::new(),
    }
}

impl Draft<'_> {
    fn der(&self) -> Vec<u8> {
        self.signed_by(&self.ca.key)
    }

    fn signed_by(&self, key: &KeyPair) -> Vec<u8> {
        // ecdsa-with-SHA256
        let algorithm = tlv(0x30, &tlv(6, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]));
        let (_, ca) = x509_parser::parse_x509_certificate(self.ca.certificate.der()).unwrap();
        let extensions = match self.entry_extensions.is_empty() {
            true => Vec::new(),
            false => tlv(0x30, &self.entry_extensions.concat()),
        };
        let entry =
            |serial: &Vec<u8>| tlv(0x30, &[tlv(2, serial), time(NOW - DAY), extensions.clone()].concat());
        let entries: Vec<u8> = self.serials.iter().flat_map(entry).collect();
        let parts = [
            tlv(2, &[1]),
            algorithm.clone(),
            ca.subject().as_raw().to_vec(),
            time(self.from),
            self.to.map(time).unwrap_or_default(),
            if entries.is_empty() { Vec::new() } else { tlv(0x30, &entries) },
            match self.extensions.is_empty() {
                true => Vec::new(),
                false => tlv(0xa0, &tlv(0x30, &self.extensions.concat())),
            },
        ];
        let signed = tlv(0x30, &parts.concat());
        let signature = [vec![0], key.sign(&signed).unwrap()].concat();
        tlv(0x30, &[signed, algorithm, tlv(3, &signature)].concat())
    }
}

/// A list that is too large to be verified in a handshake.
fn many(ca: &Made) -> Draft<'_> {
    Draft { serials: (0..30_000_u32).map(|number| number.to_be_bytes().to_vec()).collect(), ..draft(ca, &[]) }
}

/// CAs and lists in files, and what is made of them.
struct Set {
    folder: Folder,
    lenience: Lenience,
    known: KnownLists,
}

impl Set {
    fn new(cas: &[&Made]) -> Self {
        let folder = Folder::new();
        folder.put("ca.pem", cas.iter().map(|ca| ca.pem()).collect::<String>());
        std::fs::create_dir(folder.at("lists")).unwrap();
        Self { folder, lenience: Lenience::default(), known: KnownLists::default() }
    }

    fn load(&mut self, sources: &[PathBuf], now: i64) -> LoadedAuthorities {
        let (ca, keys) = (self.folder.at("ca.pem"), Arc::default());
        let settings = ClientCertificateSettings {
            lists: sources,
            lenience: self.lenience,
            ..ClientCertificateSettings::new(&ca, Demand::Require, &keys)
        };
        let loaded = load_all(&settings, &self.known, at(now));
        if let Some(rule) = &loaded.rule {
            self.known.add(rule.lists());
        }
        loaded
    }

    fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        self.folder.put(name, bytes)
    }
}

fn findings(loaded: &LoadedAuthorities) -> Vec<(Severity, Reason)> {
    loaded.findings.iter().map(|finding| (finding.severity, finding.reason)).collect()
}

fn words(loaded: &LoadedAuthorities) -> String {
    loaded.findings.iter().map(|finding| format!("{finding}\n")).collect()
}

fn chain(made: &[&Made]) -> Vec<CertificateDer<'static>> {
    made.iter().map(|made| made.certificate.der().clone()).collect()
}

/// Returns the check's result for a client.
fn check_client(loaded: &LoadedAuthorities, client: &[&Made], now: i64) -> Result<(), Refusal> {
    let rule = loaded.rule.as_ref().unwrap_or_else(|| panic!("{}", words(loaded)));
    let answer = rule.check_again(&chain(client), at(now));
    answer.map_err(|_| side_channels::take_refusal().expect("it is noted"))
}

fn client(ca: &Made) -> Made {
    Maker::new(&["client.example.org"]).signed_by(ca)
}

#[test]
fn those_on_the_list_are_refused_and_nobody_else() {
    let ca = Maker::authority("ca").self_signed();
    let (good, bad) = (client(&ca), client(&ca));
    let mut set = Set::new(&[&ca]);
    let der = draft(&ca, &[&bad]).der();
    let pem = format!("a remark\n-----BEGIN X509 CRL-----\n{}\n-----END X509 CRL-----\n", base64(&der));
    for bytes in [der, pem.into_bytes()] {
        let source = set.put("list", bytes);
        let loaded = set.load(&[source], NOW);
        assert_eq!(findings(&loaded), []);
        check_client(&loaded, &[&good], NOW).unwrap();
        let refusal = check_client(&loaded, &[&bad], NOW).unwrap_err();
        assert_eq!(refusal, Refusal::Revoked { by: "CN=ca".into(), is_own: true });
        assert_eq!(refusal.to_string(), "it was revoked by \"CN=ca\"");
        assert_eq!(loaded.rule.unwrap().list_facts()[0].entries, 1);
    }
}

fn base64(bytes: &[u8]) -> String {
    let mut child = std::process::Command::new("base64")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), bytes).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn a_ca_that_was_revoked_signs_for_nobody() {
    let root = Maker::authority("root").self_signed();
    let (middle, other) =
        (Maker::authority("middle").signed_by(&root), Maker::authority("other").signed_by(&root));
    let (below, beside) = (client(&middle), client(&other));
    // Sent by the client: only the CAs in the file can sign lists that are believed.
    let mut set = Set::new(&[&root]);
    set.lenience.accept_missing = true;
    let source = set.put("root.crl", draft(&root, &[&middle]).der());
    let loaded = set.load(std::slice::from_ref(&source), NOW);
    let refusal = check_client(&loaded, &[&below, &middle], NOW).unwrap_err();
    assert_eq!(refusal.to_string(), "a CA certificate above it was revoked by \"CN=root\"");
    check_client(&loaded, &[&beside, &other], NOW).unwrap();
    // In the file itself: it is trusted no more, and named.
    set.put("ca.pem", root.pem() + &middle.pem());
    let loaded = set.load(std::slice::from_ref(&source), NOW);
    assert_eq!(findings(&loaded), [(Severity::Warning, Reason::Revoked)]);
    let refusal = check_client(&loaded, &[&below, &middle], NOW).unwrap_err();
    assert_eq!(refusal.to_string(), "a CA certificate above it was revoked by \"CN=root\"");
    check_client(&loaded, &[&below], NOW).unwrap_err();
    // And where there is no other, no client would be accepted.
    set.put("ca.pem", middle.pem() + &root.pem());
    check_client(&set.load(&[source], NOW), &[&beside, &other], NOW).unwrap();
}

/// The list of an intermediate CA whose certificate clients send: it is believed when that certificate's own path is good.
#[test]
fn the_list_of_a_ca_that_clients_send_is_used() {
    let (root, strange_root) =
        (Maker::authority("root").self_signed(), Maker::authority("root").self_signed());
    let middle = Maker::authority("middle").signed_by(&root);
    let (good, bad) = (client(&middle), client(&middle));
    let mut set = Set::new(&[&root]);
    let source = [set.put("middle.crl", draft(&middle, &[&bad]).der())];
    let loaded = set.load(&source, NOW);
    assert_eq!(findings(&loaded)[0], (Severity::Warning, Reason::BadRevocationList));
    assert!(words(&loaded).contains("by \"CN=middle\", which is not among the CAs"), "{}", words(&loaded));
    for _ in 0..2 {
        check_client(&loaded, &[&good, &middle], NOW).unwrap();
        let refusal = check_client(&loaded, &[&bad, &middle], NOW).unwrap_err();
        assert_eq!(refusal, Refusal::Revoked { by: "CN=middle".into(), is_own: true });
    }
    let expired = check_client(&loaded, &[&good, &middle], NOW + 40 * DAY).unwrap_err();
    assert!(matches!(expired, Refusal::ListExpired { .. }), "{expired:?}");
    // A CA of the same name and another key: the list is not its own, so it has none.
    let namesake = Maker::authority("middle").signed_by(&root);
    let other = client(&namesake);
    let refusal = check_client(&loaded, &[&other, &namesake], NOW).unwrap_err();
    assert!(matches!(refusal, Refusal::NoList { .. }), "{refusal:?}");
    check_client(&loaded, &[&good, &middle], NOW).unwrap();
    // One that no trusted CA signed is refused before its list is looked at.
    let strange = Maker::authority("middle").signed_by(&strange_root);
    check_client(&loaded, &[&client(&strange), &strange], NOW).unwrap_err();
    // Signed by another key than the one of the CA that it names: it revokes no client, and admits none.
    let source = [set.put("forged.crl", draft(&middle, &[&good]).signed_by(&namesake.key))];
    let refusal = check_client(&set.load(&source, NOW), &[&good, &middle], NOW).unwrap_err();
    assert!(matches!(refusal, Refusal::NoList { .. }), "{refusal:?}");
}

#[test]
fn the_list_of_a_ca_that_clients_send_is_replaced_by_a_newer_one() {
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let (one, two) = (client(&middle), client(&middle));
    let mut set = Set::new(&[&root]);
    let source = [set.folder.at("lists")];
    let file = set.put("lists/1", Draft { from: NOW - 9 * DAY, ..draft(&middle, &[&one]) }.der());
    check_client(&set.load(&source, NOW), &[&one, &middle], NOW).unwrap_err();
    set.put("lists/2", draft(&middle, &[&two]).der());
    let loaded = set.load(&source, NOW);
    check_client(&loaded, &[&one, &middle], NOW).unwrap();
    check_client(&loaded, &[&two, &middle], NOW).unwrap_err();
    std::fs::remove_file(file).unwrap();
    assert_eq!(set.load(&source, NOW).left_out, []);
    // A file that becomes broken leaves it in force.
    set.put("lists/2", b"-----BEGIN X509 CRL-----\nAAEC\n".as_slice());
    let loaded = set.load(&source, NOW);
    assert_eq!(loaded.left_out.len(), 1);
    check_client(&loaded, &[&two, &middle], NOW).unwrap_err();
    // Once its CA becomes a trusted one, the file is read again.
    set.put("lists/2", draft(&middle, &[&two]).der());
    set.put("ca.pem", root.pem() + &middle.pem());
    let loaded = set.load(&source, NOW);
    assert_eq!(findings(&loaded), []);
    check_client(&loaded, &[&two], NOW).unwrap_err();
    check_client(&loaded, &[&one], NOW).unwrap();
}

#[test]
fn only_the_ca_that_signed_the_client_needs_a_list() {
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let own = client(&middle);
    let mut set = Set::new(&[&root, &middle]);
    let source = set.put("middle.crl", draft(&middle, &[]).der());
    let loaded = set.load(std::slice::from_ref(&source), NOW);
    assert_eq!(findings(&loaded), [], "the root signs no clients");
    check_client(&loaded, &[&own], NOW).unwrap();
    check_client(&loaded, &[&own, &middle], NOW).unwrap();
    // Another CA without a list is named, and certificates that it signed are refused, unless the operator configures it
    // otherwise.
    let stranger = Maker::authority("without").self_signed();
    let other = client(&stranger);
    set.put("ca.pem", root.pem() + &middle.pem() + &stranger.pem());
    let loaded = set.load(std::slice::from_ref(&source), NOW);
    assert_eq!(findings(&loaded), [(Severity::Warning, Reason::NoRevocationList)]);
    assert!(words(&loaded).contains("\"CN=without\""), "{}", words(&loaded));
    assert_eq!(check_client(&loaded, &[&other], NOW), Err(Refusal::NoList { by: "CN=without".into() }));
    set.lenience.accept_missing = true;
    let loaded = set.load(&[source], NOW);
    assert_eq!(findings(&loaded), []);
    check_client(&loaded, &[&other], NOW).unwrap();
}

#[test]
fn a_list_is_late_then_expired_and_then_nobody_is_let_in() {
    let ca = Maker::authority("ca").self_signed();
    let (good, bad) = (client(&ca), client(&ca));
    let mut set = Set::new(&[&ca]);
    let source = [set.put("list", Draft { from: NOW, to: Some(NOW + 8 * DAY), ..draft(&ca, &[&bad]) }.der())];
    let loaded = set.load(&source, NOW);
    assert_eq!(findings(&loaded), []);
    // A quarter of eight days before the end; and once more when it is over.
    let rule = loaded.rule.as_ref().unwrap();
    assert_eq!(rule.attention_at(), Some(NOW + 6 * DAY + 1));
    let loaded = set.load(&source, NOW + 6 * DAY + 1);
    assert_eq!(findings(&loaded), [(Severity::Warning, Reason::Expired)]);
    assert!(words(&loaded).contains("the next one is not there"), "{}", words(&loaded));
    assert_eq!(loaded.rule.as_ref().unwrap().attention_at(), Some(NOW + 8 * DAY + 1));
    check_client(&loaded, &[&good], NOW + 8 * DAY).unwrap();
    // The rule that runs detects it automatically.
    let later = NOW + 8 * DAY + 1;
    let refusal = check_client(&loaded, &[&good], later).unwrap_err();
    assert!(matches!(refusal, Refusal::ListExpired { .. }), "{refusal}");
    assert_eq!(
        refusal.to_string(),
        "the revocation list of its CA \"CN=ca\" expired on 2026-11-09 12:00:00 UTC"
    );
    let loaded = set.load(&source, later);
    assert_eq!(
        (findings(&loaded), loaded.rule.as_ref().unwrap().attention_at()),
        (vec![(Severity::Warning, Reason::Expired)], None)
    );
    set.lenience.accept_expired = true;
    let loaded = set.load(&source, later);
    check_client(&loaded, &[&good], later).unwrap();
    assert!(
        matches!(check_client(&loaded, &[&bad], later), Err(Refusal::Revoked { .. })),
        "its statement holds"
    );
}

#[test]
fn of_several_lists_of_one_ca_the_newest_counts() {
    let ca = Maker::authority("ca").self_signed();
    let (one, two) = (client(&ca), client(&ca));
    let mut set = Set::new(&[&ca]);
    set.put("lists/old", Draft { from: NOW - 9 * DAY, ..draft(&ca, &[&one]) }.der());
    set.put("lists/new", draft(&ca, &[&two]).der());
    let source = [set.folder.at("lists")];
    let loaded = set.load(&source, NOW);
    assert_eq!(findings(&loaded), [(Severity::Note, Reason::Shadowed)]);
    check_client(&loaded, &[&one], NOW).unwrap();
    check_client(&loaded, &[&two], NOW).unwrap_err();
    // Two names of one file, as `openssl rehash` makes them, are one list.
    std::fs::remove_file(set.folder.at("lists/old")).unwrap();
    std::os::unix::fs::symlink(set.folder.at("lists/new"), set.folder.at("lists/1234.r0")).unwrap();
    let mut set = Set { known: KnownLists::default(), ..set };
    let loaded = set.load(&source, NOW);
    assert_eq!((findings(&loaded), loaded.rule.unwrap().list_facts().len()), (vec![], 1));
}

/// Ways to be no list that can be used, and the word of each.
fn broken(ca: &Made, other: &Made) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let usual = || draft(ca, &[other]);
    let with = |extension: Vec<u8>| Draft { extensions: vec![extension], ..usual() }.der();
    let entry = |extension: Vec<u8>| Draft { entry_extensions: vec![extension], ..usual() }.der();
    let good = usual().der();
    let mut bad_signature = good.clone();
    *bad_signature.last_mut().unwrap() ^= 1;
    let mut changed = good.clone();
    let place = changed.windows(2).position(|pair| pair == [0x18, 15]).unwrap();
    changed[place + 5] ^= 1;
    let point = |field: &[u8]| extension(28, true, &tlv(0x30, field));
    vec![
        ("empty", vec![], "is empty"),
        ("cut", good[..good.len() / 2].to_vec(), "is damaged: its frame"),
        ("more behind", [&good[..], b"more"].concat(), "4 bytes follow"),
        ("bad signature", bad_signature, "not signed by the key"),
        ("changed", changed, "not signed by the key"),
        ("another key", usual().signed_by(&other.key), "not signed by the key"),
        ("a stranger's of many entries", many(other).der(), "not among the CAs"),
        ("a delta", with(extension(27, true, &tlv(2, &[1]))), "delta"),
        ("indirect", with(point(&tlv(0x84, &[0xff]))), "indirect"),
        ("indirect by an entry", entry(extension(29, true, &tlv(0x30, &[]))), "indirect"),
        ("some reasons", with(point(&tlv(0x83, &[0, 0x80]))), "some reasons only"),
        ("attributes", with(point(&tlv(0x85, &[0xff]))), "attribute certificates only"),
        ("critical", with(extension(99, true, &[5, 0])), "critical extension"),
        ("critical in an entry", entry(extension(99, true, &[5, 0])), "critical extension"),
        ("a long serial", Draft { serials: vec![vec![1; 22]], ..usual() }.der(), "22 bytes"),
        ("a certificate", ca.certificate.der().to_vec(), "is damaged"),
        ("text", b"hello\n".to_vec(), "holds no revocation list"),
        ("cut PEM", b"-----BEGIN X509 CRL-----\nAAEC\n".to_vec(), "does not end"),
        ("bad PEM", b"-----BEGIN X509 CRL-----\n!!!!\n-----END X509 CRL-----\n".to_vec(), "not base64"),
    ]
}

#[test]
fn broken_lists_are_named_and_the_last_good_one_stays() {
    let (ca, other) = (Maker::authority("ca").self_signed(), Maker::authority("other").self_signed());
    let (good, bad) = (client(&ca), client(&ca));
    for (what, bytes, word) in broken(&ca, &other) {
        let mut set = Set::new(&[&ca]);
        let source = [set.put("list", &bytes)];
        // At a start there is no earlier one to use.
        let loaded = set.load(&source, NOW);
        assert!(loaded.rule.is_none(), "{what}");
        let first = loaded.findings.iter().find(|finding| finding.severity == Severity::Error).unwrap();
        assert!(first.message.contains(word), "{what}: {first}");
        // After a good one that one goes on.
        set.put("list", draft(&ca, &[&bad]).der());
        assert_eq!(findings(&set.load(&source, NOW)), [], "{what}");
        for _ in 0..3 {
            set.put("list", &bytes);
            let loaded = set.load(&source, NOW);
            assert_eq!(findings(&loaded), [], "{what}");
            assert!(loaded.left_out[0].message.contains(word), "{what}: {:?}", loaded.left_out);
            check_client(&loaded, &[&good], NOW).unwrap();
            assert!(matches!(check_client(&loaded, &[&bad], NOW), Err(Refusal::Revoked { .. })), "{what}");
        }
        // And a newer one takes its place.
        set.put("list", Draft { from: NOW, ..draft(&ca, &[&good]) }.der());
        let loaded = set.load(&source, NOW);
        assert_eq!((findings(&loaded), loaded.left_out.len()), (vec![], 0), "{what}");
        check_client(&loaded, &[&bad], NOW).unwrap();
        check_client(&loaded, &[&good], NOW).unwrap_err();
    }
}

#[test]
fn a_ca_that_may_not_sign_lists_does_not() {
    let mut maker = Maker::authority("ca").self_signed();
    maker.params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    maker.certificate = maker.params.self_signed(&maker.key).unwrap();
    let mut set = Set::new(&[&maker]);
    let source = set.put("list", draft(&maker, &[]).der());
    let loaded = set.load(&[source], NOW);
    assert!(words(&loaded).contains("cRLSign"), "{}", words(&loaded));
    assert!(loaded.rule.is_none());
}

#[test]
fn what_was_in_a_folder_goes_on_when_it_is_removed() {
    let ca = Maker::authority("ca").self_signed();
    let (good, bad) = (client(&ca), client(&ca));
    let mut set = Set::new(&[&ca]);
    let source = [set.folder.at("lists")];
    let file = set.put("lists/ca.crl", draft(&ca, &[&bad]).der());
    assert_eq!(findings(&set.load(&source, NOW)), []);
    std::fs::remove_file(&file).unwrap();
    for _ in 0..3 {
        let loaded = set.load(&source, NOW);
        assert_eq!(loaded.left_out[0].reason, Reason::Missing);
        check_client(&loaded, &[&good], NOW).unwrap();
        check_client(&loaded, &[&bad], NOW).unwrap_err();
    }
    // Nor does a stranger's list, or none, in its place change which clients are accepted.
    let stranger = Maker::authority("stranger").self_signed();
    for text in [draft(&stranger, &[]).der(), b"a remark\n".to_vec()] {
        set.put("lists/ca.crl", text);
        let loaded = set.load(&source, NOW);
        assert_eq!(loaded.left_out.len(), 1);
        check_client(&loaded, &[&good], NOW).unwrap();
        check_client(&loaded, &[&bad], NOW).unwrap_err();
    }
    std::fs::remove_file(&file).unwrap();
    // Under another name it is the same list.
    set.put("lists/other.crl", draft(&ca, &[&bad]).der());
    let loaded = set.load(&source, NOW);
    assert_eq!((findings(&loaded), loaded.left_out.len()), (vec![], 0));
}

#[test]
fn a_list_about_some_certificates_decides_about_those_alone() {
    let ca = Maker::authority("ca").self_signed();
    let (good, bad) = (client(&ca), client(&ca));
    let scope = |field: Vec<u8>| Draft {
        extensions: vec![extension(28, true, &tlv(0x30, &field))],
        ..draft(&ca, &[&bad])
    };
    for (field, is_about) in [
        (tlv(0x81, &[0xff]), true),
        (tlv(0x82, &[0xff]), false),
        // Published in a place that the client's certificate does not name.
        (tlv(0xa0, &tlv(0xa0, &tlv(0x86, b"http://example.org/1.crl"))), false),
    ] {
        let mut set = Set::new(&[&ca]);
        let source = set.put("list", scope(field).der());
        let loaded = set.load(&[source], NOW);
        assert_eq!(check_client(&loaded, &[&good], NOW).is_ok(), is_about);
        assert!(
            matches!(check_client(&loaded, &[&bad], NOW), Err(Refusal::Revoked { .. })),
            "what it names is revoked"
        );
    }
}

/// A million entries; their file is read once.
#[test]
fn a_million_entries_are_read_once() {
    let ca = Maker::authority("ca").self_signed();
    let serials = (0..1_000_000_u64).map(|number| {
        let mut serial = vec![1; 16];
        serial[8..].copy_from_slice(&(number * 2).to_be_bytes());
        serial
    });
    let der = Draft { serials: serials.collect(), ..draft(&ca, &[]) }.der();
    let mut set = Set::new(&[&ca]);
    let source = [set.put("list", &der)];
    let loaded = set.load(&source, NOW);
    assert_eq!(loaded.rule.as_ref().unwrap().list_facts()[0].entries, 1_000_000);
    let own = client(&ca);
    check_client(&loaded, &[&own], NOW).unwrap();
    // A file that has not changed is not read again: it is the same memory.
    let again = set.load(&source, NOW).rule.unwrap();
    assert!(again.has_same_lists(loaded.rule.as_ref().unwrap()));
}
