//! A backend receives the client's identity: each of its connections begins with a PROXY header if the service sends one. The header is
//! in one segment with the client's first bytes, with the TLS parameters, and with the client's certificate only if that was requested.

use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, sync_channel};

use handfast_wire::proxy_header::{Version as Form, tlv};
use rustls::ClientConnection;

use super::support::certificates::KeyKind;
use super::support::client::{dial, server_name};
use super::support::proxy_headers::{FRONT, behind, far, header, v2};
use super::support::*;

const SECTION: &str = "service.proxy-protocol";

/// A backend that notes what its first read of each connection gave, and answers it.
fn noting() -> (Backend, Receiver<Vec<u8>>) {
    let (sender, first) = sync_channel(64);
    let backend = Backend::start(move |peer| {
        let mut buffer = vec![0; 65_536];
        let count = peer.stream.read(&mut buffer).expect("something comes");
        sender.send(buffer[..count].to_vec()).expect("the test waits for it");
        peer.send(b"answer");
        peer.read_to_end();
    });
    (backend, first)
}

fn sending(form: &str) -> (Stage, Receiver<Vec<u8>>) {
    let (backend, first) = noting();
    (Stage::with(backend, |config, _| config.text(SECTION, "send", form)), first)
}

fn next(first: &Receiver<Vec<u8>>) -> Vec<u8> {
    first.recv_timeout(DEADLINE).expect("the backend was dialled")
}

/// A client whose request travels with the last flight of its handshake.
fn hasty(stage: &Stage, mut tls: ClientConnection, request: &[u8]) -> Client {
    let stream = dial(stage.proxy.address()).expect("the proxy listens");
    tls.writer().write_all(request).expect("it keeps that for later");
    Client::handshake(stream, tls).unwrap_or_else(|refusal| panic!("handshake: {refusal:?}"))
}

fn plain_tls() -> ClientConnection {
    ClientConnection::new(Trust::version(Version::Tls13).config(), server_name("localhost"))
        .expect("good settings")
}

#[test]
fn version_1_comes_with_the_first_bytes() {
    let (stage, first) = sending("v1");
    let mut client = hasty(&stage, plain_tls(), b"request");
    let own = client.stream.local_addr().expect("it is bound");
    let expected =
        format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\nrequest", own.port(), stage.proxy.address().port());
    assert_eq!(String::from_utf8_lossy(&next(&first)), expected);
    assert_eq!(client.read_exactly(6), b"answer");
    client.finish();
    let record = stage.proxy.record("the connection", |record| record.text("client") == own.to_string());
    assert_eq!((record.number("bytes_to_backend"), record.number("bytes_to_client")), (7, 6));
    stage.is_quiet();
}

/// The header does not wait for the client if the backend speaks first.
#[test]
fn a_silent_client_is_reported_too() {
    let (stage, first) = sending("v1");
    let mut client = stage.any_client();
    assert!(next(&first).starts_with(b"PROXY TCP4 127.0.0.1 "));
    assert_eq!(client.read_exactly(6), b"answer");
    client.finish();
    stage.is_quiet();
}

#[test]
fn version_2_says_what_tls_agreed_on() {
    let (stage, first) = sending("v2");
    let mut client = hasty(&stage, plain_tls(), b"request");
    let bytes = next(&first);
    let received = header(&bytes);
    assert_eq!(received.version, Form::V2);
    assert_eq!(&bytes[received.length..], b"request", "one segment");
    let own = client.stream.local_addr().expect("it is bound");
    assert_eq!(received.tcp(), Some((own, stage.proxy.address())));
    assert_eq!((received.authority(), received.alpn()), (Some("localhost"), None));
    assert!(received.find(tlv::CRC32C).is_some());
    let tls = received.tls().expect("the client used TLS");
    assert_eq!((tls.client, tls.verify), (1, 1));
    assert_eq!(client.read_exactly(6), b"answer");
    client.finish();
    let record = stage.proxy.record("the connection", |record| record.text("client") == own.to_string());
    assert_eq!(record.number("bytes_to_backend"), 7, "the header is no client's");
    let values: Vec<(u8, String)> =
        tls.values().map(|tlv| (tlv.number, String::from_utf8_lossy(tlv.value).into_owned())).collect();
    let expected = [
        (tlv::SSL_VERSION, record.text("version")),
        (tlv::SSL_CIPHER, record.text("suite")),
        (tlv::SSL_KEY_ALG, "EC256"),
        (tlv::SSL_GROUP, record.text("group")),
        (tlv::SSL_SIG_SCHEME, "ecdsa_secp256r1_sha256"),
    ];
    assert_eq!(values, expected.map(|(number, text)| (number, text.to_owned())));
    let id = received.unique_id().expect("it has a name");
    assert_eq!((id.len(), id), (32, record.text("unique_id").as_bytes()));
    stage.is_quiet();
}

#[test]
fn a_certificate_is_sent_only_when_requested() {
    let identity = authority().identity(&["client.example"], KeyKind::Ecdsa);
    for (fields, names) in
        [("off", &[][..]), ("cn", &[tlv::SSL_CN]), ("der", &[tlv::SSL_CN, tlv::SSL_CLIENT_CERT])]
    {
        let (backend, first) = noting();
        let stage = Stage::with(backend, |config, folder| {
            let ca = folder.write("clients.pem", &authority().pem);
            config
                .text("service.client-certificates", "mode", "require")
                .text("service.client-certificates", "ca", ca.display())
                .text(SECTION, "send", "v2")
                .text(SECTION, "client-certificate", fields)
        });
        let mut client = stage.client(&Trust::version(Version::Tls13).showing(&identity).config());
        let bytes = next(&first);
        let received = header(&bytes).tls().expect("the client used TLS");
        assert_eq!(
            (received.client, received.verify),
            (7, 0),
            "a certificate in this connection, and it is good"
        );
        let personal: Vec<u8> =
            received.values().map(|tlv| tlv.number).filter(|number| [0x22, 0x28].contains(number)).collect();
        assert_eq!(personal, names, "{fields}");
        if let Some(der) = received.values().find(|tlv| tlv.number == tlv::SSL_CLIENT_CERT) {
            assert_eq!(der.value, identity.certificate.as_ref());
        }
        assert_eq!(client.read_exactly(6), b"answer");
        client.finish();
        stage.is_quiet();
    }
}

#[test]
fn the_header_of_a_proxy_in_front_is_passed_on() {
    let (backend, first) = noting();
    let stage = Stage::with(backend, |config, _| {
        config.set(SECTION, "accept-from", "[\"127.0.0.0/8\"]").text(SECTION, "send", "v2")
    });
    let values: [(u8, &[u8]); 2] = [(tlv::ALPN, b"mqtt"), (tlv::UNIQUE_ID, b"front-7")];
    let mut client = behind(stage.proxy.address(), &v2(far(7), &values)).expect("it is served");
    let bytes = next(&first);
    let received = header(&bytes);
    assert_eq!(received.tcp(), Some((far(7), FRONT.into())));
    assert_eq!((received.alpn(), received.unique_id()), (Some(&b"mqtt"[..]), Some(&b"front-7"[..])));
    assert_eq!(received.authority(), Some("localhost"), "the name in our own hello comes first");
    assert_eq!(client.read_exactly(6), b"answer");
    client.finish();
    stage.is_quiet();
}

#[test]
fn a_reload_changes_it_for_new_connections() {
    let (stage, first) = sending("v1");
    let mut old = stage.any_client();
    assert!(next(&first).starts_with(b"PROXY "));
    assert_eq!(old.read_exactly(6), b"answer");
    stage.proxy.rewrite(stage.config());
    assert!(stage.proxy.reload());
    let mut new = stage.any_client();
    new.send(b"request");
    assert_eq!(next(&first), b"request");
    assert_eq!(new.read_exactly(6), b"answer");
    old.finish();
    new.finish();
    stage.is_quiet();
}
