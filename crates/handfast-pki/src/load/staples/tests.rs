//! Responses in files and folders, as operators and their scripts leave them.

use std::time::Duration;

use super::*;
use crate::finding::Severity;
use crate::load::{Source, changed, keep_known, load};
use handfast_testkit::maker::{Folder, Maker, NOW, section_under};

const CHAIN: &str = include_str!("../../../fixtures/ocsp/chain.pem");
const KEY: &str = include_str!("../../../fixtures/ocsp/key.pem");
const RESPONSES: &str = include_str!("../../../fixtures/ocsp/responses.pem");

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.try_into().unwrap())
}

fn response(heading: &str) -> &'static str {
    section_under(RESPONSES, heading)
}

/// A folder with the certificate, and a response beside it.
fn folder(heading: &str) -> Folder {
    let folder = Folder::new();
    folder.put("web.pem", CHAIN.to_owned() + KEY);
    folder.put("web.pem.ocsp", response(heading));
    folder
}

fn of_folder(folder: &Folder) -> Loaded {
    load(&[Source::Folder(folder.path().into())], &Default::default(), at(NOW))
}

fn of_file(folder: &Folder, ocsp: Option<&str>) -> Loaded {
    let ocsp = ocsp.map(|name| folder.at(name));
    load(&[Source::File { certificate: folder.at("web.pem"), key: None, ocsp }], &Default::default(), at(NOW))
}

fn stapled(loaded: &Loaded) -> Vec<bool> {
    loaded.certificates.iter().map(|certificate| certificate.staple_until().is_some()).collect()
}

fn findings(findings: &[Finding]) -> Vec<(Severity, Reason)> {
    findings.iter().map(|finding| (finding.severity, finding.reason)).collect()
}

#[test]
fn the_one_beside_a_certificate_is_its_own_in_folders_and_for_single_files() {
    let folder = folder("good");
    let named = |folder: &Folder| of_file(folder, Some("web.pem.ocsp"));
    for look in [of_folder, |folder: &Folder| of_file(folder, None), named] {
        let loaded = look(&folder);
        assert_eq!(stapled(&loaded), [true]);
        assert_eq!(findings(&loaded.findings), [(Severity::Note, Reason::ChainNeedless)]);
        assert!(loaded.staples.is_empty(), "{loaded:?}");
        let response = folder.at("web.pem.ocsp");
        assert!(
            loaded.files_read.iter().any(|(file, stamp)| *file == response && *stamp != FileStamp::default())
        );
        assert!(!changed(&loaded.files_read, None));
        folder.put("web.pem.ocsp", super::tests::response("good"));
        assert!(changed(&loaded.files_read, None), "a new response is seen");
    }
}

#[test]
fn one_that_comes_later_is_noticed() {
    let folder = folder("good");
    std::fs::remove_file(folder.at("web.pem.ocsp")).unwrap();
    let loaded = of_file(&folder, None);
    assert_eq!((stapled(&loaded), loaded.staples.len()), (vec![false], 0));
    assert!(!changed(&loaded.files_read, None));
    folder.put("web.pem.ocsp", response("good"));
    assert!(changed(&loaded.files_read, None));
    assert_eq!(stapled(&of_file(&folder, None)), [true]);
}

#[test]
fn one_that_cannot_be_used_takes_no_certificate_away() {
    for (heading, expected) in [
        ("expired", (Severity::Warning, Reason::StapleExpired)),
        ("of another certificate", (Severity::Warning, Reason::StapleOfOther)),
        ("revoked", (Severity::Error, Reason::Revoked)),
        ("signed by a stranger", (Severity::Error, Reason::BadStaple)),
    ] {
        let folder = folder(heading);
        for loaded in [of_folder(&folder), of_file(&folder, None)] {
            assert_eq!(
                (stapled(&loaded), findings(&loaded.staples)),
                (vec![false], vec![expected]),
                "{heading}"
            );
            assert_eq!(loaded.has_errors(), expected.0 == Severity::Error);
        }
    }
    let loaded = of_file(&folder("good"), Some("none.der"));
    assert_eq!(findings(&loaded.staples), [(Severity::Error, Reason::Missing)]);
    assert!(loaded.staples[0].message.ends_with("; no OCSP response is stapled"), "{:?}", loaded.staples);
    assert!(loaded.may_be_half_written());
}

#[test]
fn what_belongs_to_nothing_in_a_folder_is_named() {
    let folder = folder("good");
    folder.put("gone.pem.ocsp", response("good"));
    // The same certificate with a shorter chain, which is not used.
    folder.put("cert.pem", &CHAIN[..CHAIN.find("-----END").unwrap() + 26]);
    folder.put("cert.pem.ocsp", response("good"));
    let loaded = of_folder(&folder);
    assert_eq!(stapled(&loaded), [true]);
    let named: Vec<_> = loaded
        .findings
        .iter()
        .filter(|finding| finding.reason == Reason::BadStaple)
        .map(|finding| (finding.severity, finding.file.file_name().unwrap().to_str().unwrap()))
        .collect();
    assert_eq!(named, [(Severity::Warning, "gone.pem.ocsp"), (Severity::Note, "cert.pem.ocsp")]);
}

#[test]
fn without_its_issuer_in_the_chain_it_is_reported_as_unverified() {
    let folder = folder("good");
    folder.put("web.pem", CHAIN[..CHAIN.find("-----END").unwrap() + 26].to_owned() + KEY);
    let loaded = of_file(&folder, None);
    assert_eq!(stapled(&loaded), [true]);
    assert_eq!(findings(&loaded.findings), [(Severity::Warning, Reason::StapleUnverified)]);
}

#[test]
fn a_reload_keeps_the_response_of_before_while_it_is_good() {
    let before = of_folder(&folder("good, in 2026 only"));
    let end = before.certificates[0].staple_until().unwrap();
    let reload = |content: &str, now: i64| {
        let folder = Folder::new();
        folder.put("web.pem", CHAIN.to_owned() + KEY);
        folder.put("web.pem.ocsp", content);
        let mut loaded = load(&[Source::Folder(folder.path().into())], &Default::default(), at(now));
        // As if it were the same folder.
        let mut known =
            Certificate::from_pem((CHAIN.to_owned() + KEY).as_bytes(), &folder.at("web.pem"), NOW).0.unwrap();
        attach_as(&mut known, &before.certificates[0], folder.at("web.pem.ocsp"));
        keep_staples(&mut loaded, &[Arc::new(known)], at(now));
        (stapled(&loaded)[0], loaded.staples)
    };
    let (kept, found) = reload("half a resp", NOW);
    assert!(kept);
    assert!(found[0].message.ends_with("is stapled until 2026-12-01 00:00:00 UTC"), "{found:?}");
    assert!(reload(response("expired"), end).0);
    assert!(!reload("half a resp", end + 1).0, "its own time is over");
    assert!(!reload(response("revoked"), NOW).0, "what says no good is believed");
    assert!(!reload(response("unknown"), NOW).0);
    let (new, found) = reload(response("good"), NOW);
    assert!(new && found.is_empty());
}

fn attach_as(certificate: &mut Certificate, like: &Certificate, file: PathBuf) {
    let staple = staple::Staple { next_update: like.staple_until().unwrap(), is_verified: true };
    certificate.set_staple(like.certified().ocsp.clone().unwrap(), staple);
    certificate.staple_file = Some(file);
}

#[test]
fn a_certificate_with_another_response_is_another_one_in_memory() {
    let folder = folder("good");
    let before = of_folder(&folder).certificates;
    let mut same = of_folder(&folder).certificates;
    keep_known(&mut same, &before);
    assert!(Arc::ptr_eq(&same[0], &before[0]));
    folder.put("web.pem.ocsp", response("good, in 2026 only"));
    let mut other = of_folder(&folder).certificates;
    keep_known(&mut other, &before);
    assert!(!Arc::ptr_eq(&other[0], &before[0]));
}

#[test]
fn a_response_for_a_certificate_that_signed_itself_is_by_nobody_else() {
    let folder = Folder::new();
    folder.put("web.pem", Maker::new(&["localhost"]).self_signed().both());
    folder.put("web.pem.ocsp", response("good"));
    assert_eq!(findings(&of_folder(&folder).staples), [(Severity::Warning, Reason::StapleOfOther)]);
}
