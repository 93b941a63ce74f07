//! A backend is dialled from the source addresses that were named: in turn, from another one when ports run out, from the
//! client's own where that was asked for; and when there is no port left at all, that is said with its arithmetic.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpStream};

use rustls::ClientConnection;

use super::support::client::{dial, server_name};
use super::support::network::{in_a_network_of_its_own, set_parameter};
use super::support::skip::skipped;
use super::support::*;

/// Answers each four bytes with where the connection came from, in so many bytes.
const ANSWER: usize = 24;

fn tells_the_source() -> Backend {
    Backend::start(|peer| {
        let from = peer.stream.peer_addr().expect("it is connected").to_string();
        while peer.read_exactly(4).len() == 4 {
            peer.send(format!("{from:<ANSWER$}").as_bytes());
        }
    })
}

/// Where the backend sees a client's connection come from.
fn source(client: &mut Client) -> IpAddr {
    client.send(b"who?");
    let answer = client.read_exactly(ANSWER);
    let address = std::str::from_utf8(&answer).expect("it answers in ASCII").trim();
    address.parse::<SocketAddr>().expect("it answers with an address").ip()
}

/// The handshake of a client that connected before.
fn shake_hands(stream: TcpStream) -> Client {
    let config = Trust::version(Version::Tls13).config();
    let tls = ClientConnection::new(config, server_name("localhost")).expect("a good configuration");
    Client::handshake(stream, tls).expect("a backend is dialled only then")
}

fn from(stage: &Stage, source: &str) -> Result<Client, Refusal> {
    let source: IpAddr = source.parse().expect("an address");
    Client::try_connect_from(source, stage.proxy.address(), &Trust::version(Version::Tls13).config())
}

fn count(sources: impl Iterator<Item = IpAddr>) -> BTreeMap<String, usize> {
    sources.fold(BTreeMap::new(), |mut all, source| {
        *all.entry(source.to_string()).or_default() += 1;
        all
    })
}

fn counted(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(source, number)| ((*source).to_owned(), *number)).collect()
}

#[test]
fn several_sources_have_their_turns_and_a_reload_changes_them() {
    let stage = Stage::with(tells_the_source(), |config, _| {
        config.set("process", "threads", 1).set(
            "service",
            "source",
            "[\"127.0.0.5\", \"127.0.0.6\", \"127.0.0.7\"]",
        )
    });
    let mut clients: Vec<Client> = (0..6).map(|_| stage.any_client()).collect();
    let seen = count(clients.iter_mut().map(source));
    assert_eq!(seen, counted(&[("127.0.0.5", 2), ("127.0.0.6", 2), ("127.0.0.7", 2)]));

    // One that this machine does not have (RFC 5737) is said, and passed over.
    let config = stage.config().set("process", "threads", 1);
    stage.proxy.rewrite(config.set("service", "source", "[\"192.0.2.1\", \"127.0.0.8\"]"));
    assert!(stage.proxy.reload(), "it can be served");
    let said = stage.proxy.talk.so_far().join("\n");
    assert!(said.contains("service web: connections cannot come from 192.0.2.1"), "{said}");
    let seen = count((0..4).map(|_| source(&mut stage.any_client())));
    assert_eq!(seen, counted(&[("127.0.0.8", 4)]));
    assert_eq!(count(clients.iter_mut().map(source)).len(), 3, "those that stand stay");
}

#[test]
fn when_one_source_has_no_port_left_the_next_one_is_used_and_the_end_is_told() {
    in_a_network_of_its_own!();
    let stage = Stage::with(tells_the_source(), |config, _| {
        config.set("service", "source", "[\"127.0.0.5\", \"127.0.0.6\"]")
    });
    // The listeners and the clients have their ports, outside of the few that the proxy is left with.
    let mut streams: Vec<TcpStream> =
        (0..9).map(|_| dial(stage.proxy.address()).expect("there is a port")).collect();
    let ninth = streams.pop().expect("there are nine");
    let set = [("net.ipv4.ip_local_port_range", "40000 40003"), ("net.ipv4.tcp_tw_reuse", "0")];
    if !set.iter().all(|(name, value)| set_parameter(name, value)) {
        skipped!("the kernel's parameters cannot be set in a network of one's own");
    }
    // Four ports for each of two addresses.
    let mut clients: Vec<Client> = streams.into_iter().map(shake_hands).collect();
    let seen = count(clients.iter_mut().map(source));
    assert_eq!(seen, counted(&[("127.0.0.5", 4), ("127.0.0.6", 4)]));

    assert!(shake_hands(ninth).read_to_end().is_abort());
    let record = stage.proxy.record_of("connect/local/out-of-ports");
    let product = format!("4 ports × 2 source addresses = 8 connections to {}", stage.backend.address);
    assert!(record.detail().contains(&product), "{record:?}");
    assert!(record.detail().contains("TIME_WAIT"), "{record:?}");
    // It says nothing about the backend.
    let said = stage.proxy.talk.so_far().join("\n");
    assert!(!said.contains("is marked down"), "{said}");
    for client in &mut clients {
        source(client);
    }
}

#[test]
fn a_backend_may_see_the_clients_own_address() {
    in_a_network_of_its_own!();
    let stage = Stage::with(tells_the_source(), |config, _| config.text("service", "source", "client"));
    for client in ["127.0.0.21", "127.0.0.22"] {
        let mut connected = from(&stage, client).expect("it is served");
        assert_eq!(source(&mut connected).to_string(), client);
        connected.finish();
    }
}
