//! A made-up report, as JSON and back, and as text.

use super::*;
use crate::text::Style;

fn time(ns: f64) -> Time {
    Time { ns, spread: 0.012 }
}

fn operation(what: What, name: &str, bytes: Option<u32>, ns: f64) -> Operation {
    let per_second = 1e9 / ns;
    let whole = matches!(what, What::Sign | What::Answer) || bytes == Some(16_384) && what != What::Open;
    let all_cores = whole.then_some(AllCores { per_second: per_second * 1.96, factor: 1.96 });
    Operation { what, name: name.into(), bytes, time: time(ns), per_second, all_cores }
}

fn operations() -> Vec<Operation> {
    let mut rows = Vec::new();
    let kinds = [
        ("RSA-2048", 610e3),
        ("RSA-3072", 1_800e3),
        ("RSA-4096", 4_100e3),
        ("ECDSA-P256", 21e3),
        ("ECDSA-P384", 180e3),
        ("Ed25519", 12e3),
    ];
    for (name, ns) in kinds {
        rows.extend([operation(What::Sign, name, None, ns), operation(What::Verify, name, None, 50e3)]);
    }
    for name in ["X25519", "P-256", "P-384", "X25519MLKEM768"] {
        let all = [(What::Share, 18e3), (What::Agree, 40e3), (What::Answer, 58e3)];
        rows.extend(all.map(|(what, ns)| operation(what, name, None, ns)));
    }
    for name in ["AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305"] {
        for (bytes, ns) in [(16_384, 3e3), (1_024, 300.0)] {
            rows.extend([What::Seal, What::Open].map(|what| operation(what, name, Some(bytes), ns)));
        }
    }
    rows.push(operation(What::Hash, "SHA-256", Some(16_384), 16e3));
    rows.push(operation(What::Hash, "SHA-256", Some(1_024), 1e3));
    rows
}

fn handshake(certificate: Option<&str>, group: &str, ns: f64) -> Handshake {
    Handshake {
        certificate: certificate.map(str::to_owned),
        group: group.into(),
        server: time(ns),
        client: time(2.0 * ns),
        per_second: 1e9 / ns,
        all_cores: Some(AllCores { per_second: 2e9 / ns, factor: 2.0 }),
    }
}

fn prediction(certificate: Option<&str>, group: &str, terms: &[(&str, f64)]) -> Prediction {
    let terms: Vec<Term> = terms.iter().map(|(name, ns)| Term { name: (*name).into(), ns: *ns }).collect();
    let ns = terms.iter().map(|term| term.ns).sum();
    Prediction {
        name: text::name_of(certificate, group),
        certificate: certificate.map(str::to_owned),
        file: None,
        group: group.into(),
        terms,
        ns,
        per_second: 1e9 / ns,
        measured_ns: Some(ns * 1.02),
        basis: certificate.is_none(),
        best: group == "X25519",
    }
}

fn report() -> SpeedReport {
    let handshakes = [
        (Some("Ed25519"), "X25519"),
        (Some("ECDSA-P256"), "X25519"),
        (Some("ECDSA-P256"), "X25519MLKEM768"),
        (Some("RSA-2048"), "X25519"),
        (None, "X25519"),
        (None, "X25519MLKEM768"),
    ];
    let parts = [("key share", 18e3), ("agreement", 40e3), ("signature", 21e3), ("the rest", 30.6e3)];
    let hybrid = [("key exchange", 97e3), ("signature", 4_100e3), ("the rest", 30.6e3)];
    let bulk = |name: &str| Bulk {
        name: name.into(),
        open_ns: 0.2,
        seal_ns: 0.22,
        ns: 0.21,
        bytes_per_second: 4.76e9,
    };
    SpeedReport {
        schema: SCHEMA.into(),
        program: "handfast 0.1.0".into(),
        started: "2026-11-21T23:44:27Z".into(),
        cpu: "A CPU @ 3.80GHz".into(),
        cores: 2,
        features_found: ["aes", "pclmulqdq", "avx2"].map(str::to_owned).to_vec(),
        features_missing: [("vaes", "AES-GCM half"), ("vpclmulqdq", "AES-GCM half"), ("sha_ni", "slow")]
            .map(|(name, cost)| Missing { name: name.into(), cost: cost.into() })
            .to_vec(),
        operations: operations(),
        handshakes: handshakes.map(|(certificate, group)| handshake(certificate, group, 110e3)).to_vec(),
        predictions: vec![
            prediction(Some("ECDSA-P256"), "X25519", &parts),
            prediction(Some("ECDSA-P256"), "X25519MLKEM768", &hybrid),
            prediction(Some("RSA-4096"), "X25519MLKEM768", &hybrid),
            prediction(None, "X25519", &[parts[0], parts[1], parts[3]]),
            prediction(None, "X25519MLKEM768", &[hybrid[0], hybrid[2]]),
        ],
        bulk: ["AES-128-GCM", "AES-256-GCM", "ChaCha20-Poly1305"].map(bulk).to_vec(),
        ..SpeedReport::default()
    }
}

fn full() -> SpeedReport {
    let transaction = Transaction {
        certificate: Some("ECDSA-P256".into()),
        group: "X25519".into(),
        library: time(95e3),
        ns: 125e3,
        per_second: 8e3,
    };
    let limit = Limit {
        exchange_bytes: 4096,
        relay: Relay { time: time(30e3), busy: 0.97, one_cpu: true },
        transactions: vec![transaction],
        relay_exchange_ns: 8e3,
        library_exchange_ns: 2e3,
        exchange_ns: 10e3,
        relay_byte_ns: 0.29,
        library_byte_ns: 0.21,
        byte_ns: 0.5,
        bytes_per_second: 2e9,
    };
    let row = ComparedRow {
        what: What::Seal,
        name: "AES-128-GCM".into(),
        bytes: Some(16_384),
        ours: 300e3,
        theirs: 150e3,
        ratio: 2.0,
    };
    SpeedReport {
        limit: Some(limit),
        compared: Some(Compared { with: "OpenSSL 3.0.19\u{1b}[31m".into(), rows: vec![row] }),
        notes: vec!["the machine was busy".into()],
        ..report()
    }
}

#[test]
fn json_comes_back_as_it_was() {
    for report in [report(), full(), SpeedReport { schema: SCHEMA.into(), ..SpeedReport::default() }] {
        assert_eq!(from_json(&crate::to_json(&report)).unwrap(), report);
    }
}

#[test]
fn what_is_no_speed_report_is_reported() {
    let wrong = |text: &str| from_json(text).unwrap_err().to_string();
    assert!(wrong("{").contains("not JSON"));
    assert!(wrong("[]").contains("no handfast speed report"));
    assert!(wrong("{\"schema\": \"handfast-load/1\"}").contains("this program reads handfast-speed/1"));
    assert!(wrong("{\"schema\": \"handfast-speed/1\"}").contains("missing field"));
}

#[test]
fn it_fits_a_screen() {
    let text = to_text(&report(), Style::default());
    let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
    assert!(widest.chars().count() <= 100, "{widest}");
    assert!(
        text.lines().count() <= 49,
        "{} lines, and a prompt has to follow:\n{text}",
        text.lines().count()
    );
    assert!(to_text(&full(), Style::default()).lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn sums_are_shown_with_their_terms() {
    let text = to_text(&report(), Style::default());
    let line = |begin: &str| {
        let found = text.lines().skip_while(|line| !line.starts_with("Prediction"));
        let line = found.skip(1).find(|line| line.trim_start_matches([' ', '*']).starts_with(begin)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        line("full ECDSA-P256 X25519 "),
        "* full ECDSA-P256 X25519 18.0 + 40.0 + 21.0 + 30.6 = 109.6 → 9,124/s 8,945/s"
    );
    assert_eq!(
        line("full RSA-4096"),
        "full RSA-4096 X25519MLKEM768 97.0 + 4,100 + 30.6 = 4,228 → 237/s 232/s"
    );
    assert_eq!(line("resumed X25519 "), "* resumed X25519 18.0 + 40.0 + – + 30.6 = 88.6 → 11,287/s =");
    assert_eq!(
        line("bulk AES-128-GCM"),
        "bulk AES-128-GCM (decrypt 0.200 + encrypt 0.220) / 2 = 0.210 ns a byte → 4.76 GB/s"
    );
}

#[test]
fn what_is_missing_is_reported_once_with_its_cost() {
    let text = to_text(&report(), Style::default());
    assert!(text.contains("lacks: vaes, vpclmulqdq (AES-GCM half), sha_ni (slow)"), "{text}");
    let none = SpeedReport { features_missing: Vec::new(), ..report() };
    assert!(to_text(&none, Style::default()).contains("lacks: nothing that would help"));
}

#[test]
fn what_was_requested_beside_it_is_there() {
    let text = to_text(&full(), Style::default());
    for part in [
        "4,096 bytes each way",
        "95.0 + 30.0 = 125.0 → 8,000/s each core",
        "0.210 + 0.290 = 0.500 ns a byte → 2.00 GB/s each core",
        "worked 97 % of the time (± 1.2 %), with its peers on the same CPU",
        "Beside OpenSSL 3.0.19\\u{1b}[31m, on one core",
        "note: the machine was busy",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let row = text.lines().find(|line| line.contains("encrypt AES-128-GCM, 16 KiB")).unwrap();
    let row = row.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(row, "encrypt AES-128-GCM, 16 KiB 4.92 GB/s 2.46 GB/s 2.00");
}

#[test]
fn colours_are_for_titles_only() {
    let text = to_text(&report(), Style { color: true, ..Style::default() });
    assert_eq!(text.matches("\u{1b}[1m").count(), 6);
    assert_eq!(text.matches("\u{1b}[0m").count(), 6);
}
