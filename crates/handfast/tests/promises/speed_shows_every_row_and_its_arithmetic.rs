//! `handfast speed` needs no options, shows every row, and its predictions are the sums that it shows.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::support::folder::Folder;
use super::support::proxy::PROGRAM;

/// Runs it; a wrong command line ends at once, everything else after some seconds.
fn speed(words: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command
        .arg("speed")
        .args(words)
        .stdin(Stdio::null())
        .env("RUST_BACKTRACE", "0")
        .env_remove("HANDFAST_LOG");
    command.output().unwrap_or_else(|error| panic!("start {command:?}: {error}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it speaks UTF-8")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("a number, not {value}"))
}

/// Returns true if two figures are the same but for the last digits of the arithmetic.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(other.abs())
}

#[test]
fn rows_json_and_sums_agree() {
    let folder = Folder::new();
    let (certificate, json) = (folder.file("leaf.pem"), folder.file("speed.json"));
    let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("a key");
    let params = rcgen::CertificateParams::new(vec!["a.example.org".to_owned()]).expect("a name");
    // The key is not given: it is not needed.
    folder.write("leaf.pem", params.self_signed(&key).expect("a certificate").pem());
    let path = |path: &std::path::Path| path.display().to_string();
    let ended = speed(&["--limit", "--certificate", &path(&certificate), "--json", &path(&json)]);
    let (screen, talk) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(0), "{talk}");
    assert!(
        talk.lines().all(|line| line.starts_with("handfast speed: ")),
        "progress, and nothing else: {talk}"
    );
    assert!(!screen.contains('\u{1b}'), "colours are for terminals: {screen}");

    let written = std::fs::read_to_string(&json).expect("it was written");
    let report: Value = serde_json::from_str(&written).expect("it is JSON");
    assert_eq!(report["schema"], "handfast-speed/1");
    every_row_is_there(&report, &screen);
    let predictions = report["predictions"].as_array().expect("a list");
    for one in predictions {
        let terms = one["terms"].as_array().expect("a list").iter().map(|term| number(&term["ns"]));
        let sum: f64 = terms.sum();
        assert!(same(sum, number(&one["ns"])) && same(1e9 / sum, number(&one["per_second"])), "{one}");
        assert!(screen.contains(one["name"].as_str().expect("a name")), "{one}: {screen}");
    }
    assert!(predictions.len() >= 7, "five and two for the certificate: {predictions:?}");
    let mine = predictions.iter().filter(|one| one["file"] == path(&certificate));
    assert_eq!(mine.filter(|one| one["certificate"] == "ECDSA-P384").count(), 2, "{predictions:?}");
    for one in report["bulk"].as_array().expect("a list") {
        let mean = f64::midpoint(number(&one["open_ns"]), number(&one["seal_ns"]));
        assert!(
            same(mean, number(&one["ns"])) && same(1e9 / mean, number(&one["bytes_per_second"])),
            "{one}"
        );
    }
    let limit = &report["limit"];
    for one in limit["transactions"].as_array().expect("a list") {
        let sum = number(&one["library"]["ns"]) + number(&limit["relay"]["time"]["ns"]);
        assert!(same(sum, number(&one["ns"])) && same(1e9 / sum, number(&one["per_second"])), "{one}");
    }
    assert!(number(&limit["relay_byte_ns"]) > 0.0 && screen.contains("The limit:"), "{limit}");
}

/// Every operation and handshake, each with a time, and named on the screen.
fn every_row_is_there(report: &Value, screen: &str) {
    let operations = report["operations"].as_array().expect("a list");
    let of = |what: &str| -> Vec<&str> {
        let rows = operations.iter().filter(|row| row["what"] == what);
        rows.map(|row| row["name"].as_str().expect("a name")).collect()
    };
    let signatures = ["RSA-2048", "RSA-3072", "RSA-4096", "ECDSA-P256", "ECDSA-P384", "Ed25519"];
    let groups = ["X25519", "P-256", "P-384", "X25519MLKEM768"];
    let ciphers = [
        "AES-128-GCM",
        "AES-128-GCM",
        "AES-256-GCM",
        "AES-256-GCM",
        "ChaCha20-Poly1305",
        "ChaCha20-Poly1305",
    ];
    assert_eq!((of("sign"), of("verify")), (signatures.to_vec(), signatures.to_vec()));
    assert_eq!((of("share"), of("agree"), of("answer")), (groups.to_vec(), groups.to_vec(), groups.to_vec()));
    assert_eq!((of("seal"), of("open")), (ciphers.to_vec(), ciphers.to_vec()));
    assert_eq!(of("hash"), ["SHA-256", "SHA-256"]);
    let handshakes = report["handshakes"].as_array().expect("a list");
    assert_eq!(handshakes.iter().filter(|row| row["certificate"].is_null()).count(), 2, "resumed ones");
    assert_eq!(handshakes.len(), 6);
    let times = operations.iter().map(|row| &row["time"]);
    let times = times.chain(handshakes.iter().flat_map(|row| [&row["server"], &row["client"]]));
    times.for_each(|time| assert!(number(&time["ns"]) > 0.0, "{time}"));
    for name in signatures.iter().chain(&groups).chain(&ciphers).chain(&["SHA-256"]) {
        assert!(screen.contains(name), "{name}: {screen}");
    }
}

#[test]
fn what_cannot_be_done_is_reported_before_anything_is_measured() {
    let folder = Folder::new();
    folder.write("key.pem", rcgen::KeyPair::generate().expect("a key").serialize_pem());
    let key = folder.file("key.pem").display().to_string();
    let ended = speed(&["--certificate", "/none.pem", "--certificate", &key]);
    assert_eq!(ended.status.code(), Some(2));
    let talk = text(&ended.stderr);
    assert!(talk.contains("/none.pem") && talk.contains("holds no certificate"), "both at once: {talk}");
    assert!(!talk.contains(" done, "), "nothing was measured: {talk}");

    let ended = speed(&["--json", "/nowhere/speed.json"]);
    assert_eq!((ended.status.code(), ended.stdout.len()), (Some(1), 0));
    assert!(text(&ended.stderr).contains("--json: write /nowhere/speed.json"), "{}", text(&ended.stderr));

    let mut command = Command::new(PROGRAM);
    let ended = command
        .args(["speed", "--compare", "openssl"])
        .env("PATH", folder.path())
        .output()
        .expect("it starts");
    let talk = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{talk}");
    assert!(talk.contains("start openssl") && talk.contains("hint: install it"), "{talk}");
    assert_eq!(speed(&["--compare", "gnutls"]).status.code(), Some(2));
}
