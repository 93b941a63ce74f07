//! Wrong use is reported before the run: no meaningless measurement begins, and all mistakes are reported together, with
//! hints.

use std::io::Write;
use std::time::Duration;

use super::support::Backend;
use super::support::delays::{Manners, TlsServer};
use super::support::load::{Ended, Load};
use super::support::skip::needs;

/// It ended before a run of this length could have been over.
const LONG: &str = "-d 60s --timeout 1s";

fn refused(ended: &Ended, code: i32, words: &[&str]) {
    assert_eq!(ended.code, Some(code), "{}", ended.all());
    assert!(ended.output.is_empty() && ended.report.is_null(), "there is no report: {}", ended.all());
    for word in words {
        assert!(ended.talk.contains(word), "expected `{word}`: {}", ended.all());
    }
    // Two seconds when all is well; ten times that is still no run.
    assert!(ended.took < Duration::from_secs(20), "{:?}: {}", ended.took, ended.all());
}

#[test]
fn nobody_listens() {
    let address = Backend::refusing().to_string();
    let ended = Load::at(&address).with(LONG).run();
    refused(&ended, 1, &[&address, "refused", "hint:", "check that the service is running"]);
}

#[test]
fn no_tls_is_spoken_there() {
    let http = Backend::start(|peer| {
        let _ = peer
            .stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        peer.fin();
        peer.read_to_end();
    });
    let ended = Load::at(http.address).with(LONG).run();
    refused(&ended, 1, &["handshake", "answered in plain HTTP", "hint: this port serves HTTP without TLS"]);
    // Nor is anything else.
    let silent = Backend::start(|peer| peer.read_to_end());
    let ended = Load::at(silent.address).with(LONG).run();
    refused(&ended, 1, &["handshake", "the timeout passed"]);
    let closing = Backend::start(|_| {});
    let ended = Load::at(closing.address).with(LONG).run();
    refused(&ended, 1, &["handshake"]);
}

#[test]
fn nothing_comes_back() {
    // It reads and reads, and answers nothing: the standard transaction cannot work there.
    let server = TlsServer::start(Manners { size: 1 << 20, ..Manners::default() });
    let ended = Load::at(server.address).with(LONG).run();
    refused(&ended, 1, &["exchange", "hint:", "must send back what it gets"]);
}

#[test]
fn nobody_has_that_name() {
    // RFC 6761 §6.4: there is no name below it on any server.
    let ended = Load::at("missing.invalid:443").with(LONG).run();
    refused(&ended, 1, &["missing.invalid"]);
}

#[test]
fn more_connections_than_descriptors() {
    needs!("prlimit");
    let server = TlsServer::start(Manners::default());
    let ended =
        Load::at(server.address).under(&["prlimit", "--nofile=256:256"]).with(LONG).with("-c 1000").run();
    refused(&ended, 1, &["1,000 connections", "file descriptor", "256", "hint:", "ulimit -n"]);
    assert_eq!(server.requests(), 0, "nothing was tried");
}

#[test]
fn source_addresses_that_are_not_ours() {
    let server = TlsServer::start(Manners::default());
    // RFC 5737: an address for documents, which no machine has.
    let ended = Load::at(server.address).with(LONG).with("--source 192.0.2.7").run();
    refused(&ended, 1, &["192.0.2.7"]);
}

#[test]
fn everything_that_is_wrong_is_reported_at_once() {
    let words = "--rate fast --duration 10 --connections 0 --send 5kb --resume 2 --close never --http 2";
    let ended = Load::at("localhost").with(words).run();
    let options =
        ["target", "--rate", "--duration", "--connections", "--send", "--resume", "--close", "--http"];
    refused(&ended, 2, &options);
    refused(&ended, 2, &["localhost:443", "`10s`", "5KiB", "notify, fin, reset or server", "--help"]);
}

#[test]
fn options_that_do_not_go_together() {
    for (words, named) in [
        ("--handshake-only --send 4KiB", "--send"),
        ("--bulk send --idle", "--bulk"),
        ("--arrivals fixed", "--arrivals"),
        ("--find-max total.p99=50ms --rate 5", "--rate"),
        ("--early-data", "--resume"),
        ("--client-key key.pem", "--client-certificate"),
        ("--machines 3", "--workers"),
        ("--unheard-of", "--unheard-of"),
    ] {
        let ended = Load::at("localhost:8443").with(words).run();
        refused(&ended, 2, &[named]);
    }
    let nothing = Load::words_alone().run();
    refused(&nothing, 2, &["TARGET"]);
}

#[test]
fn files_that_are_not_there() {
    let server = TlsServer::start(Manners::default());
    for option in ["--ca", "--client-certificate", "--replay"] {
        let load = if option == "--replay" { Load::words_alone() } else { Load::at(server.address) };
        let ended = load.word(option).word("/nonexistent/file.pem").run();
        refused(&ended, 2, &["/nonexistent/file.pem", "No such file"]);
    }
    assert_eq!(server.requests(), 0, "nothing was tried");
}
