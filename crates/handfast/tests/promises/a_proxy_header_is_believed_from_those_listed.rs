//! A PROXY header is believed from those who are listed, demanded from them, and refused from all other clients: the client that it
//! names is in the log and counts for limits, and nothing that is sent in a header's place does harm.

use std::io::Write;

use handfast_wire::proxy_header::{Writer, tlv};

use super::support::client::dial;
use super::support::proxy_headers::{behind, dripping, far, is_refused, over_unix, together, v1, v2};
use super::support::*;

const SECTION: &str = "service.proxy-protocol";

/// In front of an echo, with headers from 127.0.0.1.
fn listed() -> Stage {
    Stage::with(Backend::echo(), |config, _| config.set(SECTION, "accept-from", "[\"127.0.0.1\", \"unix\"]"))
}

fn headers(stage: &Stage, outcome: &str) -> f64 {
    stage.proxy.metrics().sum("handfast_proxy_headers_total", &[("service", "web"), ("outcome", outcome)])
}

fn is(value: f64, expected: usize) -> bool {
    (value - expected as f64).abs() < 0.5
}

#[test]
fn the_client_it_names_is_the_client() {
    let stage = listed();
    let values: [(u8, &[u8]); 3] =
        [(tlv::AUTHORITY, b"a.example"), (tlv::ALPN, b"h2"), (tlv::UNIQUE_ID, b"front-7")];
    let cases = [
        (behind(stage.proxy.address(), &v1(far(1))), 1),
        (together(stage.proxy.address(), &v1(far(2))), 2),
        (dripping(stage.proxy.address(), &v1(far(3))), 3),
        (behind(stage.proxy.address(), &v2(far(4), &values)), 4),
        (together(stage.proxy.address(), &v2(far(5), &values)), 5),
        (dripping(stage.proxy.address(), &v2(far(6), &values)), 6),
    ];
    for (client, last) in cases {
        let mut client = client.unwrap_or_else(|refusal| panic!("client {last}: {refusal:?}"));
        client.echo(b"hello");
        client.finish();
        let named = far(last).to_string();
        let record = stage.proxy.record(&named, |record| record.text("client") == named);
        assert!(record.text("proxied_by").starts_with("127.0.0.1:"), "{record:?}");
        assert_eq!(
            (record.number("bytes_to_backend"), record.reason().as_str()),
            (5, "relay/client/finished")
        );
        let logged =
            [record.text("proxied_authority"), record.text("proxied_alpn"), record.text("unique_id")];
        assert_eq!(logged, if last < 4 { ["", "", ""] } else { ["a.example", "h2", "front-7"] });
    }
    assert!(is(headers(&stage, "proxied"), 6));
    stage.is_quiet();
}

#[test]
fn a_header_that_names_nobody_leaves_the_sockets_address() {
    let stage = listed();
    let local = Writer::local().finish(true);
    // The family of a LOCAL header is ignored (section 2.2), and what it brings.
    let strange = b"\r\n\r\n\0\r\nQUIT\n\x20\xff\0\x04rest";
    let mut locals = 0;
    for (header, outcome) in [(&b"PROXY UNKNOWN\r\n"[..], "unknown"), (&local, "local"), (strange, "local")] {
        locals += usize::from(outcome == "local");
        let mut client = behind(stage.proxy.address(), header).expect("it is served");
        client.echo(b"hello");
        let own = client.stream.local_addr().expect("it is bound").to_string();
        client.finish();
        let record = stage.proxy.record(outcome, |record| record.text("client") == own);
        assert_eq!(record.text("proxied_by"), own);
        assert!(is(headers(&stage, outcome), locals.max(1)), "{outcome}");
    }
    stage.is_quiet();
}

#[test]
fn a_strangers_header_is_refused_by_name() {
    let stage = Stage::with(Backend::echo(), |config, _| {
        config.set(SECTION, "accept-from", "[\"192.0.2.0/24\", \"2001:db8::/32\"]")
    });
    for (number, header) in [v1(far(1)), v2(far(1), &[])].iter().enumerate() {
        assert!(behind(stage.proxy.address(), header).is_err());
        stage.counts("client", "proxy-header-unexpected", number + 1);
    }
    let record = stage.proxy.record_of("hello/client/proxy-header-unexpected");
    assert!(record.text("client").starts_with("127.0.0.1:"), "who it was, not who it claimed: {record:?}");
    assert!(is(headers(&stage, "unexpected"), 2));
    assert_eq!(stage.backend.accepted(), 0);
    // It is served as itself without one.
    stage.serves_and_is_quiet();
    // The same with an empty list.
    let stage = Stage::echo();
    assert!(behind(stage.proxy.address(), &v1(far(1))).is_err());
    stage.counts("client", "proxy-header-unexpected", 1);
    stage.serves_and_is_quiet();
}

#[test]
fn one_must_come_and_be_good() {
    let stage = listed();
    let mut wrong = v2(far(1), &[]);
    *wrong.last_mut().expect("it has a checksum") ^= 1;
    let twice = [v1(far(1)), v1(far(2))].concat();
    let long = [b"PROXY UNKNOWN ".to_vec(), vec![b'x'; 200]].concat();
    let huge = [&v2(far(1), &[])[..14], &[0xff, 0xff]].concat();
    let cases: [(&[u8], &str, &str); 6] = [
        (b"GET / HTTP/1.1\r\n\r\n", "proxy-header-missing", "it sent an HTTP request"),
        (&wrong, "proxy-header-invalid", "the checksum says 0x"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n", "proxy-header-invalid", "the destination port is not"),
        (&long, "proxy-header-invalid", "no CRLF within 107 bytes"),
        (&huge, "proxy-header-invalid", "65551 bytes announced, limit 4096"),
        (&twice, "proxy-header-unexpected", ""),
    ];
    for (bytes, cause, detail) in cases {
        let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
        stream.write_all(bytes).expect("a fresh socket takes them");
        assert!(is_refused(&stream), "{cause}");
        stage.proxy.record(detail, |record| {
            record.reason() == format!("hello/client/{cause}") && record.detail().starts_with(detail)
        });
    }
    assert!(
        Client::try_connect(stage.proxy.address(), &Trust::version(Version::Tls13).config(), "localhost")
            .is_err()
    );
    stage.counts("client", "proxy-header-missing", 2);
    assert!(is(headers(&stage, "missing"), 2) && is(headers(&stage, "invalid"), 4));
    assert_eq!(stage.backend.accepted(), 0, "nothing of it reaches the backend");
    behind(stage.proxy.address(), &v1(far(9))).expect("good ones are served").finish();
    stage.is_quiet();
}

#[test]
fn every_truncation_ends_and_is_named() {
    let stage = listed();
    let header = v2(far(1), &[(tlv::AUTHORITY, b"a.example")]);
    for end in 0..header.len() {
        let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
        stream.write_all(&header[..end]).expect("a fresh socket takes them");
        stream.shutdown(std::net::Shutdown::Write).expect("an open socket ends");
        assert!(is_refused(&stream), "{end} bytes");
    }
    stage.counts("client", "closed-early", header.len());
    assert_eq!(stage.backend.accepted(), 0);
    stage.is_quiet();
}

#[test]
fn the_deadline_is_one() {
    let stage = Stage::with(Backend::echo(), |config, _| {
        config.set(SECTION, "accept-from", "[\"127.0.0.1\"]").text("service.limits", "handshake", "300ms")
    });
    let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
    stream.write_all(b"PROXY TCP4").expect("a fresh socket takes them");
    assert!(is_refused(&stream));
    let record = stage.proxy.record_of("hello/client/handshake-timeout");
    assert_eq!(record.detail(), "10 bytes of a PROXY header came");
    stage.is_quiet();
}

#[test]
fn the_limit_on_addresses_counts_whom_it_names() {
    let stage = Stage::with(Backend::echo(), |config, _| {
        config.set(SECTION, "accept-from", "[\"127.0.0.1\"]").set("service", "max-connections-per-address", 1)
    });
    let connect = |last| behind(stage.proxy.address(), &v1(far(last)));
    let (mut one, mut two) = (connect(1).expect("the first"), connect(2).expect("the first of another"));
    assert!(connect(1).is_err(), "the second of one address");
    let record = stage.proxy.record_of("accept/operator/address-limit");
    assert_eq!(record.text("client"), far(1).to_string());
    one.echo(b"still served");
    two.echo(b"as well");
    one.finish();
    two.finish();
    stage.is_quiet();
    connect(1).expect("the place is free again").finish();
}

#[test]
fn unix_sockets_are_listed_by_their_word() {
    let folder = super::support::folder::Folder::new();
    let path = folder.file("web.sock");
    let backend = Backend::echo();
    let config = |accept: &str| {
        Config::to(&folder, backend.address)
            .set("service", "listen", format!("[\"127.0.0.1:0\", \"unix:{}\"]", path.display()))
            .set(SECTION, "accept-from", accept)
    };
    let proxy = Proxy::start(config("[\"unix\"]"));
    assert!(over_unix(&path, &v2(far(7), &[])));
    let record = proxy.record("client 7", |record| record.text("client") == far(7).to_string());
    assert_eq!(record.text("proxied_by"), "unix");
    // Not listed any more after a reload.
    proxy.rewrite(config("[\"192.0.2.1\"]"));
    assert!(proxy.reload());
    assert!(!over_unix(&path, &v2(far(7), &[])));
    proxy.record_of("hello/client/proxy-header-unexpected");
}
