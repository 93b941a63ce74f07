//! `handfast doctor keys` finds weak and known keys and certificates that run out, in files, folders, and from servers.

use serde_json::Value;

use super::support::certificates::{KeyKind, localhost};
use super::support::folder::Folder;
use super::support::tools::{Ran, handfast};
use super::support::*;

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../../../handfast-pki/src/weak/tests/", $name))
    };
}

fn keys(words: &[&str]) -> (Ran, Value) {
    let ran = handfast(&[&["doctor", "keys", "--json", "-"], words].concat());
    let report = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    (ran, report)
}

/// Severity, topic and title of each finding.
fn findings(report: &Value) -> Vec<(String, String, String)> {
    let text = |finding: &Value, key: &str| finding[key].as_str().expect("a text").to_owned();
    let findings = report["findings"].as_array().expect("a list");
    findings
        .iter()
        .map(|finding| (text(finding, "severity"), text(finding, "topic"), text(finding, "title")))
        .collect()
}

#[test]
fn a_debian_key_in_a_folder() {
    let folder = Folder::new();
    let certificates = folder.folder("certificates");
    folder.write("certificates/web.pem", sample!("debian-2048-a.crt"));
    folder.write("certificates/other.pem", localhost().combined());
    folder.write("certificates/README", "not a certificate");
    let list = folder.write("known.csv", sample!("debian-sample.csv")).display().to_string();
    let place = certificates.display().to_string();
    let (ran, report) = keys(&["--weak-keys", &list, &place]);
    let weak: Vec<_> = findings(&report).into_iter().filter(|finding| finding.1 == "weak-key").collect();
    let [(severity, _, title)] = &weak[..] else { panic!("{report:#}") };
    assert!(severity == "critical" && title.contains("certificates/web.pem: "), "{title}");
    assert!(title.contains("is on the list of known keys") && title.contains("known.csv"), "{title}");
    assert_eq!(ran.code, Some(1));
    // Without a list it cannot be known, and that is said.
    let (_, report) = keys(&[&place]);
    assert!(findings(&report).iter().all(|finding| finding.1 != "weak-key"), "{report:#}");
    assert!(report["unseen"].to_string().contains("compromised keys"), "{report:#}");
}

#[test]
fn keys_whose_numbers_are_bad_need_no_list() {
    let folder = Folder::new();
    for (name, content, words) in [
        ("roca.key", sample!("roca-2048.key"), "ROCA"),
        ("close.crt", sample!("close-primes-2048.crt"), "close together"),
        ("small.key", sample!("small-1024.key"), "1024 bits"),
        ("factor.crt", sample!("small-factor-2048.crt"), "has the factor 1000003"),
    ] {
        let file = folder.write(name, content).display().to_string();
        let (_, report) = keys(&[&file]);
        assert!(
            findings(&report).iter().any(|finding| finding.1 == "weak-key" && finding.2.contains(words)),
            "{report:#}"
        );
    }
}

#[test]
fn good_ones_give_no_findings() {
    let folder = Folder::new();
    let good = authority().identity_between(&["localhost"], KeyKind::Ecdsa, this_year(), this_year() + 2);
    let file = folder.write("good.pem", good.combined() + &authority().pem).display().to_string();
    let ran = handfast(&["doctor", "keys", &file]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.output.starts_with("no findings: keys and certificates of "), "{ran:?}");
    assert!(ran.output.contains("2 certificates and 1 private key in 1 file"), "{ran:?}");
}

#[test]
fn what_a_server_presents() {
    let old = authority().identity_between(&["localhost"], KeyKind::Ecdsa, 2020, 2025);
    let folder = Folder::new();
    let config =
        Config::empty().service("web", "127.0.0.1:1").certificate(&folder.write("old.pem", old.combined()));
    let proxy = Proxy::start(config);
    let address = proxy.address().to_string();
    let (ran, report) = keys(&[&address]);
    let found = findings(&report);
    let about =
        |topic: &str| found.iter().find(|finding| finding.1 == topic && finding.2.starts_with(&address));
    assert!(
        about("certificate-expiry").is_some_and(|finding| finding.2.contains("localhost expired ")),
        "{report:#}"
    );
    assert!(about("chain-incomplete").is_none(), "a private root signed it: {report:#}");
    assert_eq!(ran.code, Some(1));
}

#[test]
fn a_server_that_cannot_be_asked_is_a_finding() {
    let plain = Backend::start(|peer| peer.send(b"220 plain text\r\n"));
    for (address, step) in [
        (Backend::refusing().to_string(), "connect: "),
        (plain.address.to_string(), "handshake: "),
        ("name.invalid:443".to_owned(), "resolve its name: "),
    ] {
        let (ran, report) = keys(&[&address]);
        let found = findings(&report);
        let [(severity, topic, title)] = &found[..] else { panic!("{report:#}") };
        assert_eq!((severity.as_str(), topic.as_str(), ran.code), ("critical", "unreachable", Some(1)));
        assert!(title.starts_with(&format!("{address}: {step}")), "{title}");
    }
}

#[test]
fn what_clients_refuse_about_a_certificate() {
    let folder = Folder::new();
    let long = authority().identity_between(&["localhost"], KeyKind::Ecdsa, this_year(), this_year() + 11);
    let file = folder.write("long.pem", long.combined()).display().to_string();
    let (ran, report) = keys(&[&file]);
    let found = findings(&report);
    let [(severity, topic, title)] = &found[..] else { panic!("{report:#}") };
    assert_eq!((severity.as_str(), topic.as_str(), ran.code), ("warning", "certificate-validity", Some(1)));
    assert!(title.contains("and clients accept 825 days at most"), "{title}");
}

#[test]
fn two_keys_with_a_common_factor() {
    let folder = Folder::new();
    folder.folder("both");
    folder.write("both/a.crt", sample!("shared-prime-a.crt"));
    folder.write("both/b.crt", sample!("shared-prime-b.crt"));
    let (_, report) = keys(&[&folder.file("both").display().to_string()]);
    let weak: Vec<_> = findings(&report).into_iter().filter(|finding| finding.1 == "weak-key").collect();
    assert!(
        matches!(&weak[..], [finding] if finding.2.contains("has a prime factor in common with")),
        "{report:#}"
    );
}

/// The year by the clock; on new year's day it may still be the one before.
fn this_year() -> i32 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("the clock is right");
    1970 + i32::try_from(since.as_secs() / 31_557_600).expect("a few decades")
}
