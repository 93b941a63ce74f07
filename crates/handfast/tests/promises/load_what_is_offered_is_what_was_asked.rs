//! The load has the requested versions, suites, groups, names, certificates and addresses, and ends
//! connections as requested, as a server sees it.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use rustls::{HandshakeKind, NamedGroup};

use super::support::SocketEnd;
use super::support::certificates::{Authority, KeyKind, authority};
use super::support::delays::{Manners, Seen, TlsServer};
use super::support::folder::Folder;
use super::support::load::{Ended, Load};
use super::support::servers::Openssl;
use super::support::skip::needs;

/// Runs a moment against a server that notes what it sees; the first connection, the rehearsal's, is like the others.
fn run(manners: Manners, words: &str) -> (Ended, Vec<Seen>) {
    run_load(manners, |load| load.with(words))
}

fn run_load(manners: Manners, more: impl FnOnce(Load) -> Load) -> (Ended, Vec<Seen>) {
    let server = TlsServer::start(manners);
    let load = Load::at(format!("localhost:{}", server.address.port())).with("-c 2 -d 200ms");
    let ended = more(load).run_well();
    let seen = server.seen();
    assert_eq!(seen.len() as u64, ended.count("/totals/connections"), "{}", ended.all());
    (ended, seen)
}

fn each(seen: &[Seen], what: &str, fits: impl Fn(&Seen) -> bool) {
    assert!(!seen.is_empty(), "nothing was seen");
    let other = seen.iter().find(|seen| !fits(seen));
    assert!(other.is_none(), "expected {what}: {other:?}");
}

#[test]
fn the_usual() {
    let (ended, seen) = run(Manners::default(), "");
    each(&seen, "TLS 1.3 with X25519", |seen| {
        seen.agreed.starts_with("TLSv1_3 ") && seen.agreed.ends_with(" X25519")
    });
    each(&seen, "the target's name, no protocol, no certificate", |seen| {
        seen.name.as_deref() == Some("localhost") && seen.protocols.is_empty() && !seen.certificate
    });
    each(&seen, "full handshakes", |seen| seen.kind == Some(HandshakeKind::Full));
    each(&seen, "a clean end", |seen| seen.close_notify && seen.end == Some(SocketEnd::Fin));
    assert_eq!(ended.count("/mix/hello_retry"), 0, "{}", ended.all());
    let agreed = ended.value("/mix/agreed").as_object().expect("a table");
    assert!(agreed.keys().all(|agreed| agreed.starts_with("TLSv1.3 TLS")), "{agreed:?}");
}

#[test]
fn versions_and_suites() {
    let words = "--tls 1.2 --suites TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256";
    let (ended, seen) = run(Manners::default(), words);
    each(&seen, "that suite alone", |seen| {
        seen.suites == ["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"]
            && seen.agreed.starts_with("TLSv1_2 ")
    });
    let agreed = ended.value("/mix/agreed").as_object().expect("a table");
    let (only, count) = agreed.iter().next().expect("something was agreed");
    assert_eq!(agreed.len(), 1, "{agreed:?}");
    assert!(only.starts_with("TLSv1.2 TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"), "{agreed:?}");
    assert_eq!(count.as_u64(), Some(ended.count("/mix/full")), "{agreed:?}");

    let words = "--tls 1.3 --suites TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256";
    let (_, seen) = run(Manners::default(), words);
    each(&seen, "two suites in that order", |seen| {
        seen.suites == ["TLS13_AES_256_GCM_SHA384", "TLS13_AES_128_GCM_SHA256"]
    });
}

#[test]
fn groups_and_the_second_hello_they_may_cost() {
    let only_p256 = || Manners { groups: vec![NamedGroup::secp256r1], ..Manners::default() };
    let (ended, seen) = run(only_p256(), "--groups X25519,secp256r1");
    each(&seen, "a second hello", |seen| {
        seen.kind == Some(HandshakeKind::FullWithHelloRetryRequest) && seen.agreed.ends_with(" secp256r1")
    });
    assert_eq!(ended.count("/mix/hello_retry"), ended.count("/mix/full"), "{}", ended.all());
    let (ended, seen) = run(only_p256(), "--groups secp256r1,X25519");
    each(&seen, "no second hello", |seen| seen.kind == Some(HandshakeKind::Full));
    assert_eq!(ended.count("/mix/hello_retry"), 0, "{}", ended.all());
    let (_, seen) = run(Manners::default(), "--groups X25519MLKEM768");
    each(&seen, "the hybrid group", |seen| seen.agreed.ends_with(" X25519MLKEM768"));
}

#[test]
fn names_and_protocols() {
    let manners = || Manners { protocols: vec![b"two".to_vec()], ..Manners::default() };
    let (_, seen) = run(manners(), "--sni www.example.org --alpn one,two");
    each(&seen, "that name and these protocols", |seen| {
        seen.name.as_deref() == Some("www.example.org") && seen.protocols == ["one", "two"]
    });
    let (_, seen) = run(manners(), "--sni off");
    each(&seen, "no name", |seen| seen.name.is_none());
}

#[test]
fn certificates_are_verified_when_it_is_requested() {
    let folder = Folder::new();
    let ca = folder.write("ca.pem", &authority().pem);
    let (ended, _) = run_load(Manners::default(), |load| load.file("--ca", &ca));
    assert!(ended.text("/mix/verification").contains("was verified for localhost"), "{}", ended.all());

    let server = TlsServer::start(Manners::default());
    let target = format!("localhost:{}", server.address.port());
    let load = || Load::at(&target).with("-c 2 -d 200ms");
    let other = folder.write("other.pem", Authority::new("Somebody else").pem);
    let refused = [
        (load().file("--ca", &other), "none of the trusted CAs signed it"),
        (
            load().with("--verify").variable("SSL_CERT_FILE", other.display()),
            "none of the trusted CAs signed it",
        ),
        (
            load().file("--ca", &ca).with("--sni www.example.org"),
            "it is for localhost; expected \"www.example.org\"",
        ),
    ];
    for (load, why) in refused {
        let ended = load.run();
        assert_eq!(ended.code, Some(1), "{}", ended.all());
        let refusal = format!("handshake: the server's certificate was refused: {why}\nhint: ");
        assert!(ended.talk.contains(&refusal), "expected {refusal}: {}", ended.all());
    }
    assert!(load().run_well().text("/mix/verification").contains("not verified"));
}

#[test]
fn a_certificate_of_ours_is_shown() {
    let folder = Folder::new();
    let identity = authority().identity(&["client"], KeyKind::Ecdsa);
    let (chain, key) =
        (folder.write("chain.pem", &identity.certificate_pem), folder.write("key.pem", &identity.key_pem));
    let asking = || Manners { requests_certificate: true, ..Manners::default() };
    for version in ["1.2", "1.3"] {
        let (_, seen) = run_load(asking(), |load| {
            load.file("--client-certificate", &chain).file("--client-key", &key).with("--tls").word(version)
        });
        each(&seen, "a certificate", |seen| seen.certificate);
        let server = TlsServer::start(asking());
        let without = Load::at(server.address).with("-d 200ms --tls").word(version).run();
        assert_eq!(without.code, Some(1), "{}", without.all());
        assert!(without.talk.contains("certificate_required"), "{version}: {}", without.all());
    }
}

#[test]
fn connections_end_as_asked() {
    let ends = [
        ("notify", true, SocketEnd::Fin),
        ("fin", false, SocketEnd::Fin),
        ("reset", false, SocketEnd::Reset),
    ];
    for (how, close_notify, end) in ends {
        let (ended, seen) = run_load(Manners::default(), |load| load.word("--close").word(how));
        each(&seen, how, |seen| seen.close_notify == close_notify && seen.end == Some(end));
        assert_eq!(ended.value("/errors").as_array().map(Vec::len), Some(0), "{}", ended.all());
    }
    let (ended, seen) = run(Manners { ends_first: true, ..Manners::default() }, "--close server");
    each(&seen, "an answer in order", |seen| seen.close_notify && seen.end == Some(SocketEnd::Fin));
    assert_eq!(ended.value("/errors").as_array().map(Vec::len), Some(0), "{}", ended.all());
    // A server that does not end is waited for as long as was allowed, and named.
    let server = TlsServer::start(Manners::default());
    let words = "-c 2 -d 200ms --close server --timeout 100ms";
    let ended = Load::at(server.address).with(words).run();
    assert_eq!(ended.value("/errors/0/step"), "close", "{}", ended.all());
    assert_eq!(ended.value("/errors/0/cause"), "deadline", "{}", ended.all());
}

#[test]
fn connections_come_from_the_addresses_that_were_given() {
    let server = TlsServer::start(Manners::default());
    let words = "-c 4 -d 300ms --source 127.1.0.4/30 --source 127.1.0.9";
    let _ = Load::at(server.address).with(words).run_well();
    let from: BTreeSet<IpAddr> = server.seen().iter().map(|seen| seen.from).collect();
    let given = [4, 5, 6, 7, 9].map(|last| IpAddr::from([127, 1, 0, last]));
    assert_eq!(from, BTreeSet::from(given));
}

#[test]
fn early_data_is_sent_and_counted() {
    needs!("openssl");
    let server = Openssl::start("-tls1_3 -early_data -no_anti_replay");
    let words = "-c 1 -d 500ms --tls 1.3 --send 512 --receive 0 --resume 1 --early-data";
    let ended = Load::at(server.address).with(words).run_well();
    let accepted = ended.count("/mix/early_data_accepted");
    assert!(accepted > 0, "{}", ended.all());
    assert_eq!(accepted, ended.count("/mix/resumed"), "{}", ended.all());
    let lines = server.tool.output.so_far();
    // The data can contain line feeds, and OpenSSL's own output follows it without one.
    let seen = lines.iter().filter(|line| line.contains("Early data received:")).count() as u64;
    assert_eq!(seen, accepted, "{}", ended.all());

    // Without the option nothing of it is offered; and a server that wants none is still talked to.
    let plain = Load::at(server.address).with("-c 1 -d 300ms --send 512 --receive 0 --resume 1").run_well();
    assert_eq!(plain.count("/mix/early_data_accepted") + plain.count("/mix/early_data_refused"), 0);
    let server = Openssl::start("-tls1_3");
    let refused = Load::at(server.address).with(words).run_well();
    assert_eq!(refused.count("/mix/early_data_accepted"), 0, "{}", refused.all());
    assert!(refused.count("/mix/resumed") > 0, "{}", refused.all());
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    let wrong = [
        ("--tls 1.1", "1.3"),
        ("--suites TLS_NOTHING", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        ("--groups X448", "X25519"),
        ("--close abruptly", "notify, fin, reset or server"),
        ("--http 3", "1.1 or 2"),
        ("--arrivals never", "poisson or fixed"),
        ("--max speed=3", "total"),
    ];
    for (words, known) in wrong {
        let ended = Load::at("https://localhost:1/").with(words).run();
        assert_eq!(ended.code, Some(2), "{words}: {}", ended.all());
        assert!(ended.talk.contains(known), "{words}, expected {known}: {}", ended.all());
        assert!(ended.took < Duration::from_secs(10), "{words}: {:?}", ended.took);
    }
}
