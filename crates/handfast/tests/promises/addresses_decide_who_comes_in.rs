//! Addresses decide who comes in: lists of prefixes and a limit on handshakes for each address hold at accept, say why, and
//! change with a reload without touching connections that stand.

use std::io::{ErrorKind, Read};
use std::net::IpAddr;
use std::time::Instant;

use super::support::client::dial_from;
use super::support::*;

const ONE: &str = "127.0.0.1";
const TWO: &str = "127.0.0.2";
const THREE: &str = "127.0.0.3";

fn from(stage: &Stage, source: &str) -> Result<Client, Refusal> {
    let source: IpAddr = source.parse().expect("an address");
    Client::try_connect_from(source, stage.proxy.address(), &Trust::version(Version::Tls13).config())
}

/// A client that writes first takes the report of the reset by that, and reads an end.
fn is_turned_away(outcome: &Result<Client, Refusal>) -> bool {
    matches!(outcome, Err(Refusal::Ended(_)))
}

fn refused(stage: &Stage, limit: &str) -> f64 {
    stage.proxy.metrics().sum("handfast_connections_refused_total", &[("limit", limit)])
}

#[test]
fn only_those_whom_the_lists_let_in_are_served() {
    let stage = Stage::with(Backend::echo(), |config, _| {
        config.set("service", "allow-clients", "[\"127.0.0.0/30\", \"::1\"]").text(
            "service",
            "refuse-clients",
            TWO,
        )
    });
    let mut standing = from(&stage, ONE).expect("it is allowed");
    standing.echo(b"let in");
    assert!(is_turned_away(&from(&stage, TWO)), "it is allowed and refused: refused");
    let mut stranger =
        dial_from("127.0.0.4".parse().expect("an address"), stage.proxy.address()).expect("a port");
    let ended = stranger.read(&mut [0]).expect_err("it is not allowed");
    assert_eq!(ended.kind(), ErrorKind::ConnectionReset);
    let record = |client: &str| {
        stage.proxy.record("the refused client", |record| {
            record.reason() == "accept/operator/client-refused" && record.text("client").starts_with(client)
        })
    };
    assert_eq!(record("127.0.0.2:").detail(), "refuse-clients has 127.0.0.2");
    assert_eq!(record("127.0.0.4:").detail(), "allow-clients does not have it");
    assert!((refused(&stage, "client-prefix") - 2.0).abs() < 0.5);

    // The other way round from now on; who is there stays.
    stage.proxy.rewrite(stage.config().text("service", "refuse-clients", ONE));
    assert!(stage.proxy.reload(), "it is a good configuration");
    from(&stage, TWO).expect("it is refused no more").echo(b"let in now");
    assert!(is_turned_away(&from(&stage, ONE)));
    standing.echo(b"still here");
    standing.finish();
    stage.backend.seen();
}

#[test]
fn one_address_begins_no_more_handshakes_than_its_rate() {
    let limited = |config: Config, rate: &str| config.set("service", "handshake-rate", rate);
    let stage = Stage::with(Backend::echo(), |config, _| {
        limited(config, "{ per-second = 1, burst = 5, prefix-v4 = 32 }")
    });
    let begun = Instant::now();
    let mut outcomes: Vec<_> = (0..40).map(|_| from(&stage, ONE)).collect();
    // The buckets outlive a reload.
    stage.proxy.rewrite(limited(stage.config(), "{ per-second = 1, burst = 5 }"));
    assert!(stage.proxy.reload(), "it is a good configuration");
    outcomes.extend((0..10).map(|_| from(&stage, ONE)));
    let came_back = begun.elapsed().as_secs() as usize + 1;
    let served = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert!((5..=5 + came_back).contains(&served), "{served} were served, {came_back} came back");
    assert!(outcomes.iter().all(|outcome| outcome.is_ok() || is_turned_away(outcome)), "others are reset");
    assert!((refused(&stage, "handshake-rate") - (50 - served) as f64).abs() < 0.5);
    let record = stage.proxy.record_of("accept/operator/handshake-rate");
    assert_eq!(record.detail(), "127.0.0.1 had used its 1 a second and 5 at once");
    assert!(record.text("client").starts_with("127.0.0.1:"), "{record:?}");

    from(&stage, THREE).expect("another address has its own").echo(b"not concerned");
    for client in outcomes.iter_mut().flatten() {
        client.echo(b"nor are those who are in");
    }
}
