//! What is said of keys and certificates that nobody serves yet.

use std::time::Duration;

use super::*;
use crate::testing::{Folder, Maker, NOW};

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
fn told(seen: &Inspected) -> Vec<(Severity, Reason, &str)> {
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
    assert_eq!(told(&seen), []);
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
        let weak: Vec<_> = told(&seen)
            .into_iter()
            .filter(|told| (told.0, told.1) == (Severity::Error, Reason::WeakKey))
            .collect();
        assert!(weak.len() == 1 && weak[0].2.contains(words), "{name}: {:?}", seen.findings);
    }
    let unlisted = seen(&[&folder.at("debian.key")]);
    assert_eq!(told(&unlisted), [], "its numbers are good, and no list was given");
}

#[test]
fn dates_are_told_of_in_time() {
    let folder = Folder::new();
    let said = |from, to| {
        let path = folder.put("a.pem", Maker::new(&["a.example.org"]).valid(from, to).self_signed().pem());
        let seen = seen(&[&path]);
        let first = seen.findings.first();
        first.map(|finding| (finding.severity, finding.reason, finding.message.clone()))
    };
    // Now is noon of 2026-11-01.
    assert_eq!(said((2026, 9, 1), (2026, 11, 30)), None, "29 days left of 90");
    let (severity, reason, words) = said((2026, 9, 1), (2026, 11, 20)).expect("18 days");
    assert_eq!((severity, reason), (Severity::Warning, Reason::Expired));
    assert!(
        words.starts_with("the certificate of a.example.org expires in 18 days, on 2026-11-20"),
        "{words}"
    );
    assert_eq!(said((2026, 10, 31), (2026, 11, 6)), None, "4.5 days left of six");
    assert!(said((2026, 10, 28), (2026, 11, 3)).is_some(), "1.5 days left of six");
    let (severity, _, words) = said((2025, 1, 1), (2026, 10, 30)).expect("expired");
    assert_eq!(severity, Severity::Error);
    assert!(words.contains("expired 2 days ago"), "{words}");
    assert!(said((2026, 12, 1), (2027, 12, 1)).is_some_and(|said| said.1 == Reason::NotYetValid));
}

#[test]
fn chains_in_the_wrong_order_are_told_of_and_bundles_are_not() {
    let folder = Folder::new();
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let leaf = Maker::new(&["a.example.org"]).signed_by(&middle);
    let said = |content: String| {
        let seen = seen(&[&folder.put("chain.pem", content)]);
        told(&seen).iter().map(|told| (told.1, told.2.to_owned())).collect::<Vec<_>>()
    };
    let reversed = said(middle.pem() + &leaf.pem());
    assert!(
        matches!(&reversed[..], [(Reason::ChainOrder, words)] if words.contains("a.example.org, is number 2")),
        "{reversed:?}"
    );
    let skipped = said(leaf.pem() + &root.pem() + &middle.pem());
    assert!(
        matches!(&skipped[..], [(Reason::ChainOrder, words)] if words.contains("was signed by \"CN=middle\", and the next certificate is that of \"CN=root\"")),
        "{skipped:?}"
    );
    assert_eq!(said(middle.pem() + &root.pem()), []);
    assert_eq!(said(leaf.pem() + &Maker::new(&["b.example.org"]).self_signed().pem()), []);
}

#[test]
fn a_server_that_sends_too_little_is_told_of() {
    let root = Maker::authority("root").self_signed();
    let leaf = Maker::new(&["a.example.org"]).signed_by(&root);
    let lists = Lists::default();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW.unsigned_abs());
    let inspection = Inspection { known_keys: &lists, now, days: 21 };
    let mut seen = Inspected::default();
    let der = leaf.certificate.der().to_vec();
    inspection.presented("a.example.org:443", &[der, b"rubbish".to_vec()], &mut seen);
    let [broken, incomplete] = &seen.findings[..] else { panic!("{:?}", seen.findings) };
    assert_eq!((broken.reason, incomplete.reason), (Reason::BadCertificate, Reason::ChainIncomplete));
    assert!(
        incomplete
            .to_string()
            .starts_with("a.example.org:443: sends its own certificate and not that of \"CN=root\"")
    );
}

#[test]
fn one_key_for_unrelated_names_and_pairs_that_do_not_fit_are_told_of() {
    let folder = Folder::new();
    let one = Maker::new(&["a.example.org"]).self_signed();
    let params = rcgen::CertificateParams::new(vec!["b.example.com".to_owned()]).expect("a name");
    let other = params.self_signed(&one.key).expect("a certificate").pem();
    folder.put("one.pem", one.both());
    folder.put("two.pem", other);
    let stranger = Maker::new(&["c.example.net"]).self_signed();
    folder.put("wrong.pem", stranger.pem() + &one.key_pem());
    let seen = seen(&[folder.path()]);
    let reasons: Vec<_> =
        told(&seen).iter().map(|told| told.1).filter(|reason| *reason != Reason::NotYetValid).collect();
    assert_eq!(reasons, [Reason::KeyDoesNotFit, Reason::SharedKey], "{:?}", seen.findings);
}

#[test]
fn what_is_named_and_cannot_be_read_is_said() {
    let folder = Folder::new();
    let encrypted = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    folder.put("locked.key", encrypted);
    folder.put("text.pem", "no PEM");
    let none = folder.at("none.pem");
    let seen = seen(&[&folder.at("locked.key"), &folder.at("text.pem"), &none]);
    assert_eq!(told(&seen).iter().map(|told| told.1).collect::<Vec<_>>(), [Reason::NotPem, Reason::Missing]);
    assert!(seen.unseen.len() == 1 && seen.unseen[0].1.contains("encrypted"), "{:?}", seen.unseen);
}
