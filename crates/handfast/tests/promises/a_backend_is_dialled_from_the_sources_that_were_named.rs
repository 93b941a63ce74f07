//! A backend is dialled from the source addresses that were named: in turn, from another one when ports run out, from the
//! client's own where that was asked for; and when there is no port left at all, that is said with its arithmetic.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};

use rustls::ClientConnection;

use super::support::client::{dial, dial_from, server_name};
use super::support::network::{Host, in_a_network_of_its_own, must, set_parameter};
use super::support::skip::skipped;
use super::support::*;

/// Answers each four bytes with where the connection came from, in so many bytes.
const ANSWER: usize = 24;

fn source_backend() -> Backend {
    source_backend_on(TcpListener::bind("127.0.0.1:0").expect("loopback has a free port"))
}

fn source_backend_on(listener: TcpListener) -> Backend {
    Backend::on(listener, |peer| {
        let from = peer.stream.peer_addr().expect("it is connected").to_string();
        while peer.read_exactly(4).len() == 4 {
            peer.send(format!("{from:<ANSWER$}").as_bytes());
        }
    })
}

/// The source address of a client's connection, as the backend sees it.
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
    let stage = Stage::with(source_backend(), |config, _| {
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
    stage.proxy.talk.containing("service web: connections cannot come from 192.0.2.1");
    let seen = count((0..4).map(|_| source(&mut stage.any_client())));
    assert_eq!(seen, counted(&[("127.0.0.8", 4)]));
    assert_eq!(count(clients.iter_mut().map(source)).len(), 3, "those that stand stay");
}

#[test]
fn when_one_source_has_no_port_left_the_next_one_is_used_and_the_end_is_reported() {
    in_a_network_of_its_own!();
    let stage = Stage::with(source_backend(), |config, _| {
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
    let output = stage.proxy.talk.so_far().join("\n");
    assert!(!output.contains("is marked down"), "{output}");
    for client in &mut clients {
        source(client);
    }
}

#[test]
fn a_backend_may_see_the_clients_own_address() {
    in_a_network_of_its_own!();
    let stage = Stage::with(source_backend(), |config, _| config.text("service", "source", "client"));
    for client in ["127.0.0.21", "127.0.0.22"] {
        let mut connected = from(&stage, client).expect("it is served");
        assert_eq!(source(&mut connected).to_string(), client);
        connected.finish();
    }
}

/// A client, this machine and a backend, each in a separate network; the backend's way back to clients leads through here.
/// The commands are those of docs/proxy/outbound.md.
#[test]
fn behind_a_router_the_answers_find_their_way_with_the_rules_of_the_guide() {
    in_a_network_of_its_own!();
    // The kernel looks up a neighbour with the address of the link itself, which it checks for duplicates for seconds before its first
    // use. Where this cannot be switched off, the test waits for it.
    let _ = set_parameter("net.ipv6.conf.default.dad_transmits", "0");
    let client = Host::joined(
        "client",
        &["10.77.1.1/24", "fd00:77:1::1/64"],
        &["10.77.1.2/24", "10.77.1.3/24", "fd00:77:1::2/64"],
    );
    let server =
        Host::joined("server", &["10.77.2.1/24", "fd00:77:2::1/64"], &["10.77.2.2/24", "fd00:77:2::2/64"]);
    wait_until("the links to be ready", || must("ip -6 address show tentative").is_empty().then_some(()));
    for (family, listen, backend, sources) in [
        ("", "10.77.1.1:0", "10.77.2.2:0", &["10.77.1.2", "10.77.1.3"][..]),
        ("-6", "[fd00:77:1::1]:0", "[fd00:77:2::2]:0", &["fd00:77:1::2"]),
    ] {
        let listener = server.inside(|| TcpListener::bind(backend).expect("it is its address"));
        let stage = Stage::with(source_backend_on(listener), |config, _| {
            config.text("service", "listen", listen).text("service", "source", "client").text(
                "service.limits",
                "connect",
                "1s",
            )
        });
        let connect = |source: &str| {
            let (source, address) = (source.parse::<IpAddr>().expect("an address"), stage.proxy.address());
            shake_hands(client.inside(|| dial_from(source, address).expect("it listens")))
        };
        // The answers go to the client itself, which knows nothing of them.
        assert!(connect(sources[0]).read_to_end().is_abort());
        stage.proxy.record_of("connect/backend/connect-timeout");
        if family.is_empty() {
            must("nft add table inet handfast");
            let chain = "chain inet handfast answers { type filter hook prerouting priority mangle; }";
            assert_eq!(tools::run("nft", &["add", chain], b"").code, Some(0));
            must(
                "nft add rule inet handfast answers meta l4proto tcp socket transparent 1 meta mark set 1 accept",
            );
        }
        must(&format!("ip {family} rule add fwmark 1 lookup 100"));
        let everything = if family.is_empty() { "0.0.0.0/0" } else { "::/0" };
        must(&format!("ip {family} route add local {everything} dev lo table 100"));
        for source_address in sources {
            let mut connected = connect(source_address);
            assert_eq!(source(&mut connected).to_string(), *source_address);
            connected.finish();
        }
        stage.is_quiet();
    }
}
