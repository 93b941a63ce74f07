//! `handfast lab handshake` counts the round trips of each kind of handshake exactly, from packets.

use serde_json::Value;

use super::support::folder::Folder;
use super::support::proxy::PROGRAM;
use super::support::skip::skipped;
use super::support::tools;

/// Round trips to: connected, secured, first byte. RFC 9293 §3.5; RFC 5246 §7.3; RFC 9846 §2, §2.3, §4.2.4; and RFC 6928: a
/// chain of 20 kB does not fit ten segments.
const EXPECTED: [(&str, u64, Option<u64>, Option<u64>); 10] = [
    ("TCP alone", 1, None, None),
    ("TLS 1.2, full", 1, Some(3), Some(4)),
    ("TLS 1.2, resumed", 1, Some(2), Some(3)),
    ("TLS 1.3, full", 1, Some(2), Some(3)),
    ("TLS 1.3, resumed", 1, Some(2), Some(3)),
    ("TLS 1.3, resumed, 0-RTT", 1, Some(2), Some(2)),
    ("TLS 1.3, hello retry", 1, Some(3), Some(4)),
    ("TLS 1.3, post-quantum hello", 1, Some(2), Some(3)),
    ("TLS 1.3, long chain", 1, Some(3), Some(4)),
    ("TLS 1.3, long chain, initial window 30", 1, Some(2), Some(3)),
];

/// Ten resources: version, way, connections, round trips.
const PAGES: [(&str, &str, u64, u64); 7] = [
    ("1.2", "a connection for each", 10, 40),
    ("1.3", "a connection for each", 10, 30),
    ("1.2", "keep-alive", 1, 13),
    ("1.3", "keep-alive", 1, 12),
    ("1.3", "2 connections", 2, 7),
    ("1.3", "6 connections", 6, 4),
    // All that was asked for at once does not fit the first flight.
    ("1.3", "HTTP/2", 1, 4),
];

/// Ten responses over HTTP/2 are 29 full segments, and two flights have 30. Not all are full, as far as the server sends what it has before
/// more comes: nginx always makes more than 30, and Handfast where the backend's pieces reach it one by one.
const MORE_SEGMENTS: u64 = 5;

fn trips(step: &Value) -> Option<u64> {
    step["round_trips"].as_u64()
}

#[test]
fn every_row_of_the_table_is_exact() {
    let ran = tools::run(PROGRAM, &["lab", "--quiet", "--", "true"], b"");
    if ran.code != Some(0) {
        skipped!("no lab: {}", ran.talk);
    }
    let folder = Folder::new();
    let file = |name: &str| folder.file(name).display().to_string();
    let (json, html) = (file("table.json"), file("table.html"));
    // Short, for it is run often.
    let words = ["lab", "handshake", "--rtt", "60ms", "--runs", "1", "--json", &json, "--html", &html];
    let mut servers = vec!["--server", "handfast"];
    // The one that takes early data.
    if tools::find("nginx").is_some() {
        servers.extend(["--server", "nginx"]);
    }
    let ran = tools::run(PROGRAM, &[&words[..], &servers].concat(), b"");
    assert_eq!(ran.code, Some(0), "{}", ran.all());
    let report: Value =
        serde_json::from_str(&std::fs::read_to_string(&json).expect("it was written")).expect("JSON");
    assert_eq!(report["schema"], "handfast-lab-handshake/1");
    for server in report["servers"].as_array().expect("servers") {
        let name = server["name"].as_str().expect("a name");
        for (row, expected) in server["rows"].as_array().expect("rows").iter().zip(EXPECTED) {
            let (kind, connected, secured, first_byte) = expected;
            assert_eq!(row["name"], kind, "{name}");
            if row["done"] == false {
                assert_eq!(
                    (name, kind),
                    ("Handfast", "TLS 1.3, resumed, 0-RTT"),
                    "the proxy takes no early data"
                );
                continue;
            }
            let counted = (trips(&row["connected"]), trips(&row["secured"]), trips(&row["first_byte"]));
            assert_eq!(counted, (Some(connected), secured, first_byte), "{name}: {kind}: {row}");
            // Nothing is faster than its round trips.
            assert!(row["connected"]["besides_ms"].as_f64().expect("a figure") >= 0.0, "{row}");
        }
        assert_eq!(server["rows"][0]["packets_there"], 2, "SYN and ACK");
        assert_eq!(server["rows"][0]["packets_back"], 1, "SYN-ACK");
        let page = |page: &Value| {
            let text = |key: &str| page[key].as_str().expect("a text").to_owned();
            (text("tls"), text("mode"), page["connections"].as_u64().expect("a count"), trips(&page["total"]))
        };
        let pages: Vec<_> = server["pages"].as_array().expect("pages").iter().map(page).collect();
        let has_more = name == "nginx" || pages.last().is_some_and(|page| page.3 == Some(MORE_SEGMENTS));
        let expected = PAGES.map(|(tls, mode, connections, trips)| {
            let trips = if mode == "HTTP/2" && has_more { MORE_SEGMENTS } else { trips };
            (tls.to_owned(), mode.to_owned(), connections, Some(trips))
        });
        assert_eq!(pages, expected, "{name}");
        // And so long they took, at the least.
        for page in server["pages"].as_array().expect("pages") {
            assert!(page["total"]["besides_ms"].as_f64().expect("a figure") >= 0.0, "{page}");
        }
    }
    assert!(ran.output.contains("as published in 2010"), "{}", ran.output);
    let html = std::fs::read_to_string(&html).expect("it was written");
    assert!(
        html.contains("<svg ") && !html.contains("http://") && !html.contains("https://"),
        "needs no network"
    );
}

#[test]
fn wrong_use_is_reported_at_once() {
    let ran =
        tools::run(PROGRAM, &["lab", "handshake", "--rtt", "9s", "--runs", "0", "--server", "ngnix"], b"");
    assert_eq!(ran.code, Some(2), "{}", ran.talk);
    for expected in ["--rtt 9s: expected", "--runs 0: expected", "did you mean `nginx`"] {
        assert!(ran.talk.contains(expected), "{}", ran.talk);
    }
}
