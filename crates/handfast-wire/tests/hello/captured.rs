//! Hellos of real clients, as they sent them to a local socket.

use handfast_wire::client_hello::MAX_PROTOCOLS;
use handfast_wire::client_hello::without_pre_shared_key;
use handfast_wire::record::{handshake_records, payloads};
use handfast_wire::registry::{extension_name, group_name, is_grease};
use handfast_wire::{ClientHello, Peek, peek};

use crate::build::{Build, alpn, key_shares, list16, numbers, records, server_name, vector8, vector16};

const LIMIT: usize = 16_384;

/// Bytes of a hello in `../data`.
fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(str::bytes)
        .map(|digit| char::from(digit).to_digit(16).expect("a hex digit") as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

fn hello(text: &str) -> ClientHello {
    let wire = bytes(text);
    for end in 0..wire.len() {
        assert_eq!(peek(&wire[..end], LIMIT), Peek::Incomplete, "{end} of {} bytes", wire.len());
    }
    match peek(&wire, LIMIT) {
        Peek::Complete(hello) => {
            assert_eq!(hello.length_on_wire, wire.len());
            *hello
        }
        other => panic!("{other:?}"),
    }
}

fn names(hello: &ClientHello) -> Vec<String> {
    hello.alpn.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

#[test]
fn openssl_as_it_comes() {
    let hello = hello(include_str!("../data/openssl-default.hex"));
    assert_eq!(hello.server_name.as_deref(), Some("www.handfast.example"));
    assert_eq!(names(&hello), ["h2", "http/1.1"]);
    assert_eq!((hello.legacy_version, hello.session_id_length), (0x0303, 32));
    assert_eq!(hello.versions, [0x0304, 0x0303, 0x0302, 0x0301]);
    assert_eq!(hello.cipher_suites[..4], [0x1302, 0x1303, 0x1301, 0xc02c]);
    assert_eq!(hello.groups[..5], [29, 23, 30, 25, 24]);
    assert_eq!(hello.key_shares, [29]);
    assert_eq!(hello.signature_schemes[..3], [0x0403, 0x0503, 0x0603]);
    assert!(hello.extensions.contains(&35) && !hello.has_session_ticket, "an empty ticket offers nothing");
    assert!(!hello.offers_resumption() && !hello.has_early_data);
    assert_eq!((hello.length_on_wire, hello.record_count), (344, 1));
}

#[test]
fn openssl_tls12_without_a_name() {
    let hello = hello(include_str!("../data/openssl-tls12.hex"));
    assert_eq!((hello.server_name.as_deref(), hello.server_name_problem), (None, None));
    assert!(hello.versions.is_empty() && hello.key_shares.is_empty());
    assert!(hello.offers_version(0x0303) && hello.offers_version(0x0301) && !hello.offers_version(0x0304));
    assert_eq!(hello.session_id_length, 0);
}

#[test]
fn openssl_with_a_session_and_early_data() {
    let hello = hello(include_str!("../data/openssl-early-data.hex"));
    assert!(hello.has_pre_shared_key && hello.has_early_data && hello.offers_resumption());
    assert!(hello.offers_version(0x0304) && !hello.offers_version(0x0303));
}

#[test]
fn openssl_without_the_session_that_it_offers() {
    let whole = payloads(&bytes(include_str!("../data/openssl-early-data.hex")));
    let shorter = without_pre_shared_key(&whole).expect("it offers one");
    assert_eq!(without_pre_shared_key(&shorter), None, "there was one only");
    let (whole, shorter) = (handshake_records(&whole), handshake_records(&shorter));
    let (Peek::Complete(whole), Peek::Complete(shorter)) = (peek(&whole, 1 << 16), peek(&shorter, 1 << 16))
    else {
        panic!("both are whole hellos");
    };
    let expected = ClientHello {
        extensions: whole.extensions[..whole.extensions.len() - 1].to_vec(),
        has_pre_shared_key: false,
        length_on_wire: shorter.length_on_wire,
        ..*whole
    };
    assert_eq!(*shorter, expected);
}

#[test]
fn openssl_tls12_with_a_ticket() {
    let hello = hello(include_str!("../data/openssl-tls12-ticket.hex"));
    assert!(hello.has_session_ticket && !hello.has_pre_shared_key && hello.offers_resumption());
}

#[test]
fn curl_with_a_name_and_with_an_address() {
    let named = hello(include_str!("../data/curl.hex"));
    assert_eq!(named.server_name.as_deref(), Some("www.handfast.example"));
    assert_eq!(names(&named), ["h2", "http/1.1"]);
    let nameless = hello(include_str!("../data/curl-address.hex"));
    assert_eq!((nameless.server_name.as_deref(), nameless.server_name_problem), (None, None));
}

#[test]
fn python_gave_the_name_in_capitals() {
    let text = include_str!("../data/python.hex");
    let hello = hello(text);
    assert_eq!(hello.server_name.as_deref(), Some("www.handfast.example"));
    assert_eq!(hello.versions, [0x0304, 0x0303]);
}

#[test]
fn node_as_it_comes() {
    let hello = hello(include_str!("../data/node.hex"));
    assert_eq!(hello.server_name.as_deref(), Some("www.handfast.example"));
    assert!(hello.alpn.is_empty());
}

#[test]
fn gnutls_as_it_comes() {
    let hello = hello(include_str!("../data/gnutls.hex"));
    assert_eq!(hello.server_name.as_deref(), Some("www.handfast.example"));
    assert_eq!(hello.key_shares, [23, 29]);
    // Its record has the version TLS 1.0, its extensions are not sorted by number.
    assert_eq!(hello.extensions[..3], [5, 10, 11]);
}

#[test]
fn go_with_a_post_quantum_key_share() {
    let hello = hello(include_str!("../data/go-mlkem.hex"));
    let groups: Vec<_> = hello.key_shares.iter().map(|group| group_name(*group)).collect();
    assert_eq!(groups, [Some("X25519MLKEM768"), Some("X25519")]);
    assert!(hello.length_on_wire > 1_500, "more than one TCP segment carries");
    assert_eq!(hello.certificate_signature_schemes.last(), Some(&0x0203));
    assert_eq!(hello.extensions.iter().find(|extension| extension_name(**extension).is_none()), None);
}

#[test]
fn rustls_with_a_post_quantum_key_share() {
    let hello = hello(include_str!("../data/rustls-mlkem.hex"));
    assert_eq!(hello.key_shares[0], 0x11ec);
    assert_eq!(names(&hello), ["h2"]);
}

#[test]
fn a_post_quantum_hello_may_come_in_records_of_one_byte() {
    let wire = bytes(include_str!("../data/go-mlkem.hex"));
    let split = records(&wire[5..], &[1]);
    let Peek::Complete(mut hello) = peek(&split, LIMIT) else { panic!("{:?}", peek(&split, LIMIT)) };
    assert_eq!((hello.length_on_wire, hello.record_count), (split.len(), wire.len() - 5));
    (hello.length_on_wire, hello.record_count) = (wire.len(), 1);
    assert_eq!(Peek::Complete(hello), peek(&wire, LIMIT));
}

/// Browsers put reserved values into every list, and an extension of each kind, empty and not (RFC 8701 §3).
#[test]
fn grease_stays_in_the_lists_and_does_no_harm() {
    let mut build = Build { cipher_suites: vec![0x3a3a, 0x1301], ..Build::default() }
        .with(0x2a2a, vec![])
        .with(0, server_name(b"www.handfast.example"))
        .with(10, list16(&[0x4a4a, 0x11ec, 29]))
        .with(51, key_shares(&[(0x4a4a, 1), (0x11ec, 1_216), (29, 32)]))
        .with(43, vector8(&numbers(&[0x5a5a, 0x0304, 0x0303])))
        .with(13, list16(&[0x6a6a, 0x0403]))
        .with(16, alpn(&[vec![0x7a, 0x7a], b"h2".to_vec()]))
        .with(0x8a8a, vec![0]);
    build.session_id = vec![];
    let Peek::Complete(hello) = peek(&build.wire(), LIMIT) else {
        panic!("{:?}", peek(&build.wire(), LIMIT))
    };
    assert_eq!(hello.cipher_suites, [0x3a3a, 0x1301]);
    assert_eq!(hello.groups, [0x4a4a, 0x11ec, 29]);
    assert_eq!(hello.key_shares, [0x4a4a, 0x11ec, 29]);
    assert_eq!(hello.versions, [0x5a5a, 0x0304, 0x0303]);
    assert_eq!(hello.signature_schemes, [0x6a6a, 0x0403]);
    assert_eq!(*hello.alpn[0], [0x7a, 0x7a]);
    assert_eq!(hello.extensions.iter().filter(|extension| is_grease(**extension)).count(), 2);
    assert_eq!(hello.server_name.as_deref(), Some("www.handfast.example"));
}

/// A hello of 64 KiB has room for more than 10,000 protocols, each of which would be looked for in the rules of a service.
#[test]
fn of_many_protocols_the_first_are_kept_and_all_are_checked() {
    let many: Vec<Vec<u8>> = (0..10_000).map(|number| format!("{number:x}").into_bytes()).collect();
    let read = |list: Vec<u8>| peek(&Build::default().with(16, list).wire(), 65_536);
    let Peek::Complete(hello) = read(alpn(&many)) else { panic!("{:?}", read(alpn(&many))) };
    assert_eq!(hello.alpn.len(), MAX_PROTOCOLS);
    assert!(hello.alpn.iter().zip(&many).all(|(kept, sent)| **kept == **sent));
    let mut damaged: Vec<u8> = many.iter().flat_map(|name| vector8(name)).collect();
    damaged.extend([5, b'a']);
    assert!(matches!(read(vector16(&damaged)), Peek::Invalid(_)), "the last name is cut");
}
