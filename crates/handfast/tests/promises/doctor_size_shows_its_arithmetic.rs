//! `handfast doctor size` says what a wanted load needs, each with its arithmetic, from another machine's figures and this kernel's
//! memory; what does not fit, what gives out first, and what is wrong with the command line.

use serde_json::{Value, json};

use super::support::folder::Folder;
use super::support::tools::{Ran, handfast};

/// Report as `handfast speed --limit --json` of another machine wrote it, as far as it is read here: 100 µs of library and 50 of sockets
/// for a full handshake, 30 + 50 for a resumed one, half a nanosecond for a byte; two cores do as much as 1.8.
fn speed(folder: &Folder) -> String {
    let time = |ns: f64| json!({ "ns": ns, "spread": 0.01 });
    let transaction = |certificate: Value, ns: f64| json!({ "certificate": certificate, "group": "X25519", "library": time(ns), "ns": ns + 50e3, "per_second": 1.0 });
    let operation = |what: &str, name: &str, ns: f64| json!({ "what": what, "name": name, "bytes": null, "time": time(ns), "per_second": 1.0, "all_cores": null });
    let report = json!({
        "schema": "handfast-speed/1", "program": "handfast 0.1.0", "started": "2026-11-20T10:00:00Z", "cpu": "A CPU", "cores": 2,
        "features_found": [], "features_missing": [],
        "operations": [
            operation("share", "X25519", 20e3), operation("agree", "X25519", 30e3),
            operation("sign", "ECDSA-P256", 20e3), operation("sign", "RSA-4096", 4e6)
        ],
        "handshakes": [{
            "certificate": "ECDSA-P256", "group": "X25519", "server": time(90e3), "client": time(150e3), "per_second": 1.0,
            "all_cores": { "per_second": 1.0, "factor": 1.8 }
        }],
        "predictions": [], "bulk": [], "compared": null, "notes": [],
        "limit": {
            "exchange_bytes": 4096, "relay": { "time": time(50e3), "busy": 1.0, "one_cpu": true },
            "transactions": [transaction("ECDSA-P256".into(), 100e3), transaction(Value::Null, 30e3)],
            "relay_exchange_ns": 1.0, "library_exchange_ns": 1.0, "exchange_ns": 2.0,
            "relay_byte_ns": 0.2, "library_byte_ns": 0.3, "byte_ns": 0.5, "bytes_per_second": 2e9
        }
    });
    folder.write("speed.json", report.to_string()).display().to_string()
}

fn size(more: &[&str]) -> Ran {
    handfast(&[&["doctor", "size", "-v", "--pairs", "300", "--json", "-"], more].concat())
}

fn read(ran: &Ran) -> Value {
    let report: Value = serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    assert_eq!(report["schema"], "handfast-size/1");
    report
}

fn need<'r>(report: &'r Value, topic: &str) -> &'r Value {
    let all = report["needs"].as_array().expect("a list");
    all.iter().find(|need| need["topic"] == topic).unwrap_or_else(|| panic!("no {topic} in {report:#}"))
}

fn close(found: &Value, expected: f64) {
    let found = found.as_f64().expect("a number");
    assert!((found - expected).abs() <= expected.abs() * 1e-9, "{found}, expected {expected}");
}

#[test]
fn needs_are_the_sums_that_are_shown() {
    let folder = Folder::new();
    let from = speed(&folder);
    let words = [
        "--from",
        &from,
        "--full",
        "1k",
        "--resumed",
        "2000",
        "--open",
        "1000",
        "--busy",
        "50%",
        "--cores",
        "4",
    ];
    let ran = size(&words);
    let report = read(&ran);
    // A third of the standard transaction's limit is the proxy's own, whatever the key: (100 + 50) / 3.
    let costs = report["costs"]["each"].as_array().expect("a list");
    close(&costs[0]["ns"], 200e3);
    close(&costs[1]["ns"], 130e3);
    let cores = (1_000.0 * 200e-6 + 2_000.0 * 130e-6) / 0.5 / 0.9;
    close(&need(&report, "cores")["needed"], cores);
    assert_eq!(need(&report, "cores")["here"], 4.0);
    close(&costs[0]["per_second"], 1e9 / 200e3 * 4.0 * 0.9);
    close(&need(&report, "open-files")["needed"], 2_128.0);
    // The kernel's memory was measured here, where the kernel shows it.
    let kernel = report["kernel"]["bytes_each"].as_u64().expect("it was measured");
    assert!((2_000..50_000).contains(&kernel), "{:#}", report["kernel"]);
    let memory = need(&report, "memory")["arithmetic"].as_str().expect("a text");
    assert!(
        memory.contains("1,000 × 3,596 B (the program's") && memory.contains("(the kernel's"),
        "{memory}"
    );
    // A shortage is a finding, and the exit code reports if there is one.
    let short = |need: &Value| need["here"].as_f64().is_some_and(|here| need["needed"].as_f64() > Some(here));
    let is_short = report["needs"].as_array().expect("a list").iter().any(short);
    assert_eq!(ran.code, Some(i32::from(is_short)), "{ran:?}");
    assert!(
        ran.talk.contains("= 2.09 cores") || ran.talk.contains("1.02 cores of 4.00 cores"),
        "people get the same: {}",
        ran.talk
    );
    assert!(ran.talk.contains("gives out first"), "{}", ran.talk);
    // A key that was not in the handshakes is computed from its signature.
    let report = read(&size(&["--from", &from, "--full", "10", "--key", "rsa-4096"]));
    close(&report["costs"]["each"][0]["ns"], 200e3 - 20e3 + 4e6);
    assert_eq!(report["wanted"]["cores"], 2, "those of the machine that was measured");
}

#[test]
fn what_does_not_fit_is_found_with_what_changes_it() {
    let folder = Folder::new();
    let from = speed(&folder);
    let ran = size(&["--from", &from, "--open", "100M", "--full", "1"]);
    assert_eq!(ran.code, Some(2), "a number has no such unit: {ran:?}");
    let ran = size(&["--from", &from, "--open", "900000000", "--full", "1"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report = read(&ran);
    let files = need(&report, "open-files");
    assert_eq!(files["needed"], 1_800_000_128.0);
    assert!(files["change"].to_string().contains("LimitNOFILE=1800000128"), "{files}");
    let first = report["first"]["topic"].as_str().expect("something");
    assert_eq!(report["needs"][0]["topic"], first, "the scarcest stands first");
    assert!(report["first"]["at"].as_f64() < Some(1.0), "{}", report["first"]);
}

#[test]
fn connections_that_stay_open_need_no_measurement_of_the_processor() {
    let ran = size(&["--open", "100"]);
    let report = read(&ran);
    assert_eq!(report["costs"]["each"], json!([]));
    assert!(
        report["needs"].as_array().is_some_and(|needs| needs.iter().all(|need| need["topic"] != "cores")),
        "{report:#}"
    );
}

#[test]
fn wrong_use_is_reported() {
    let folder = Folder::new();
    let other = folder.write("other.json", "{\"schema\":\"handfast-load/1\"}").display().to_string();
    let from = speed(&folder);
    for (words, reported) in [
        (&[][..], "nothing is wanted, expected at least one of --full, --resumed, --open, --bytes"),
        (&["--full", "many"], "--full: invalid rate `many`"),
        (&["--open", "0"], "--open: invalid number `0`"),
        (&["--open", "5", "--bytes", "1XB"], "--bytes: invalid size `1XB`"),
        (&["--open", "5", "--busy", "0"], "--busy: nothing may be busy"),
        (&["--open", "5", "--key", "RSA-204"], "--key: \"RSA-204\": "),
        (&["--open", "5", "--group", "x448"], "--group: \"x448\": there are "),
        (&["--open", "5", "--from", "/none.json"], "--from /none.json: No such file"),
        (&["--open", "5", "--from", &other], "this program reads handfast-speed/1"),
        (&["--full", "5", "--from", &from, "--key", "ed25519"], "it has not what Ed25519 with X25519 takes"),
    ] {
        let ran = handfast(&[&["doctor", "size"], words].concat());
        assert_eq!(ran.code, Some(2), "{words:?}: {ran:?}");
        assert!(ran.talk.contains(reported), "{words:?}, expected {reported}: {ran:?}");
    }
    let ran = handfast(&["doctor", "size", "--full", "x", "--open", "y"]);
    assert!(ran.talk.contains("--full: ") && ran.talk.contains("--open: "), "all at once: {}", ran.talk);
}
