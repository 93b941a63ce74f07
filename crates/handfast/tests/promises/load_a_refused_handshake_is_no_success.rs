//! A refused handshake is no success: a TLS 1.3 client has finished before its server has judged the client's certificate,
//! and the server's word (alert, ticket or end) is waited for before a transaction counts.

use super::support::delays::{Manners, TlsServer};
use super::support::load::{Ended, Load};
use super::support::servers::{ClientRequirements, Haproxy, Openssl};
use super::support::skip::needs;

/// Works that do not wait for an answer.
const WITHOUT_AN_ANSWER: [&str; 5] = [
    "--handshake-only",
    "--handshake-only --close fin",
    "--handshake-only --close reset",
    "--handshake-only --close server",
    "--send 1KiB --receive 0 --reply any",
];

/// It was refused before the run, by the server's own alert and with the cure.
fn refused(ended: &Ended) {
    assert_eq!(ended.code, Some(1), "{}", ended.all());
    for words in ["alert certificate_required (116)", "hint:", "--client-certificate"] {
        assert!(ended.talk.contains(words), "{words}\n{}", ended.all());
    }
}

#[test]
fn haproxy_that_wants_a_certificate() {
    needs!("haproxy");
    let server = Haproxy::start(ClientRequirements { certificate: true, ..ClientRequirements::default() });
    for words in WITHOUT_AN_ANSWER.into_iter().chain(["", "-n unlimited", "--idle"]) {
        refused(&Load::at(server.address).with("-d 200ms -c 2").with(words).run());
    }
    assert_eq!(server.counted().requests, 0, "none got as far as a session");
}

#[test]
fn openssl_that_wants_a_certificate() {
    needs!("openssl");
    let server = Openssl::start("-Verify 1 -verify_return_error -tls1_3");
    refused(&Load::at(server.address).with("-d 200ms -c 1 --handshake-only").run());
}

#[test]
fn every_refusal_of_a_run_is_a_failure() {
    // The rehearsal is let in, each later connection is refused.
    let server = || TlsServer::start(Manners { refuses_from: Some(1), ..Manners::default() });
    for words in WITHOUT_AN_ANSWER.into_iter().chain(["-n unlimited --send 1KiB --receive 0", "--idle"]) {
        let words = words.replace("--send 1KiB", "--send 4KiB");
        let server = server();
        let ended = Load::at(server.address).with("-d 300ms -c 2 --timeout 1s").with(&words).run();
        assert_eq!((ended.code, ended.verdict()), (Some(3), "errors"), "{words}\n{}", ended.all());
        assert_eq!(ended.count("/totals/transactions"), 0, "{words}\n{}", ended.all());
        assert!(ended.count("/totals/failed") > 0, "{words}\n{}", ended.all());
        assert_eq!(ended.text("/errors/0/step"), "handshake", "{words}\n{}", ended.all());
        assert_eq!(ended.text("/errors/0/cause"), "alert", "{words}\n{}", ended.all());
        assert!(ended.evidence().contains("certificate_required"), "{words}\n{}", ended.all());
    }
}

#[test]
fn a_server_without_tickets_is_requested_its_word() {
    let server = TlsServer::start(Manners { without_tickets: true, ..Manners::default() });
    for words in ["--handshake-only", "--handshake-only --close reset"] {
        let ended = Load::at(server.address).with("-d 200ms -c 2").with(words).run_well();
        assert_eq!(ended.count("/totals/failed"), 0, "{words}\n{}", ended.all());
        assert!(ended.count("/totals/transactions") > 0, "{words}\n{}", ended.all());
    }
    // A server that receives no request sends nothing, and an unknown outcome is no success.
    let ended = Load::at(server.address).with("--handshake-only --close server --timeout 200ms").run();
    assert_eq!(ended.code, Some(1), "{}", ended.all());
    assert!(ended.talk.contains("did not show in time whether it accepted"), "{}", ended.all());
}
