//! Connections are opened as they are needed: a few in an open model, before the measured part, and with pauses when the
//! target sheds them, which is named.

use std::time::Duration;

use super::support::delays::{Manners, TlsServer};
use super::support::load::Load;
use super::support::servers::{ClientRequirements, Nginx};
use super::support::skip::needs;

/// The most that pauses of 10 ms, 20 ms … allow each of the generator's threads within a moment, with what was under way
/// together.
const MAX_OPENED_AT_ONCE: usize = 64;

#[test]
fn an_open_model_needs_few_of_those_it_may_have() {
    needs!("nginx");
    // It has 512, and the load tester may have 1,024.
    let server = Nginx::start(ClientRequirements::default());
    let words = "--rate 50 --arrivals fixed -d 500ms";
    let ended = Load::at(format!("https://{}/", server.address)).with(words).run_well();
    let counted = server.counted();
    assert_eq!(ended.count("/totals/failed"), 0, "{}", ended.all());
    assert_eq!(ended.count("/totals/transactions"), 25, "{}", ended.all());
    assert_eq!(counted.connections, ended.count("/totals/connections"), "{}", ended.all());
    assert!(counted.connections <= 32, "{counted:?}\n{}", ended.all());
}

#[test]
fn preparing_is_no_part_of_what_is_measured() {
    // Each handshake takes longer than there is between the order to begin and the end.
    let handshake = Duration::from_millis(1200);
    for words in ["-c 2", "-c 2 --rate 20"] {
        let server = TlsServer::start(Manners { handshake_takes: handshake, ..Manners::default() });
        let words = format!("-n unlimited -d 300ms {words}");
        let ended = Load::at(server.address).with(&words).run_well();
        assert_eq!(ended.count("/totals/failed"), 0, "{words}\n{}", ended.all());
        assert!(ended.count("/totals/transactions") > 0, "{words}\n{}", ended.all());
        assert!(ended.series("total").greatest() < handshake, "{words}\n{}", ended.all());
    }
}

#[test]
fn a_target_that_sheds_all_is_asked_less_and_less() {
    for words in
        ["-n unlimited --rate 200", "-n unlimited -c 200", "-c 20", "--bulk both -c 200", "--idle -c 200"]
    {
        // The rehearsal is let in.
        let server = TlsServer::start(Manners { sheds_from: Some(1), ..Manners::default() });
        let ended = Load::at(server.address).with("-d 1s --timeout 1s").with(words).run();
        assert_eq!((ended.code, ended.verdict()), (Some(3), "errors"), "{words}\n{}", ended.all());
        assert_eq!(ended.count("/totals/transactions"), 0, "{words}\n{}", ended.all());
        let most = if words == "-c 20" { 20 * 8 } else { MAX_OPENED_AT_ONCE };
        assert!(server.connections() <= most, "{words}: {}\n{}", server.connections(), ended.all());
        if words != "-c 20" {
            assert!(ended.evidence().contains("the target shed "), "{words}\n{}", ended.all());
        }
    }
}

#[test]
fn a_target_that_takes_some_of_them_is_named() {
    let server = TlsServer::start(Manners { sheds_from: Some(11), ..Manners::default() });
    let ended = Load::at(server.address).with("-n unlimited -c 100 -d 1s --timeout 1s").run();
    assert_eq!((ended.code, ended.verdict()), (Some(3), "errors"), "{}", ended.all());
    assert!(ended.evidence().contains("of 100 connections at most 10 were open"), "{}", ended.all());
    assert!(ended.evidence().contains("the target shed "), "{}", ended.all());
    assert!(
        ended.lines("/notes").contains("10 of 100 connections were open when the run started"),
        "{}",
        ended.all()
    );
    assert!(server.connections() <= 11 + MAX_OPENED_AT_ONCE, "{}\n{}", server.connections(), ended.all());
}

#[test]
fn spare_connections_that_are_shed_harm_nobody() {
    // One that serves is enough for this rate: what is opened ahead of need is shed.
    let server = TlsServer::start(Manners { sheds_from: Some(2), ..Manners::default() });
    let ended = Load::at(server.address).with("-n unlimited --rate 20 -d 1s --threads 1").run_well();
    assert_eq!(ended.count("/totals/failed"), 0, "{}", ended.all());
    assert!(ended.evidence().contains("the target shed "), "{}", ended.all());
    assert!(server.connections() <= MAX_OPENED_AT_ONCE, "{}\n{}", server.connections(), ended.all());
}
