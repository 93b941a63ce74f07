//! A ClientHello may arrive in any pieces: split at every byte, in single bytes, in many records, with the large key share of
//! the post-quantum exchange.

use std::io::{Read, Write};
use std::time::Duration;

use super::support::client::dial;
use super::support::hello::Hello;
use super::support::*;

/// Between two pieces, so that they come in two reads. When they do not, the test is easier than meant, never wrong.
const BETWEEN: Duration = Duration::from_millis(2);

/// Sends pieces of bytes apart, then goes on with the handshake and is served.
fn served_after(stage: &Stage, hello: Hello, pieces: &[&[u8]], between: Duration) {
    let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
    for (number, piece) in pieces.iter().enumerate() {
        if number > 0 {
            pause(between);
        }
        stream.write_all(piece).expect("the proxy keeps reading");
    }
    let mut client = Client::handshake(stream, hello.tls).unwrap_or_else(|refusal| {
        let lengths: Vec<usize> = pieces.iter().map(|piece| piece.len()).take(4).collect();
        panic!("{refusal:?} after pieces of {lengths:?} bytes and more, {} in all", pieces.len())
    });
    client.echo(b"ping");
    client.finish();
}

fn split_everywhere(trust: Trust) {
    let stage = Stage::echo();
    let config = trust.config();
    let length = Hello::new(&config).record.len();
    crowd::for_each(length - 1, 16, |index| {
        let hello = Hello::new(&config);
        // Lengths differ by a few bytes from hello to hello: tickets and padding.
        let record = hello.record.clone();
        let (first, second) = record.split_at((index + 1).min(record.len() - 1));
        served_after(&stage, hello, &[first, second], BETWEEN);
    });
    stage.serves_and_is_quiet();
}

#[test]
fn split_at_every_byte_with_tls12() {
    split_everywhere(Trust::version(Version::Tls12));
}

#[test]
fn split_at_every_byte_with_tls13() {
    split_everywhere(Trust::version(Version::Tls13));
}

#[test]
fn split_at_every_byte_with_a_post_quantum_key_share() {
    split_everywhere(Trust::version(Version::Tls13).post_quantum());
}

#[test]
fn byte_by_byte() {
    let stage = Stage::echo();
    for trust in [Trust::version(Version::Tls12), Trust::version(Version::Tls13).post_quantum()] {
        let hello = Hello::new(&trust.config());
        let record = hello.record.clone();
        let bytes: Vec<&[u8]> = record.chunks(1).collect();
        served_after(&stage, hello, &bytes, Duration::from_micros(100));
    }
    stage.serves_and_is_quiet();
}

#[test]
fn in_many_records() {
    let stage = Stage::echo();
    for trust in [Trust::version(Version::Tls12), Trust::version(Version::Tls13).post_quantum()] {
        for size in [1, 2, 3, 4, 5, 16, 100, 255, 256, 1000] {
            let hello = Hello::new(&trust.config());
            let framed = hello.in_records_of(size);
            served_after(&stage, hello, &[&framed], Duration::ZERO);
        }
    }
    stage.serves_and_is_quiet();
}

#[test]
fn in_records_of_one_byte_each_arriving_alone() {
    let stage = Stage::echo();
    let hello = Hello::new(&Trust::version(Version::Tls13).config());
    let framed = hello.in_records_of(1);
    let pieces: Vec<&[u8]> = framed.chunks(1).collect();
    served_after(&stage, hello, &pieces, Duration::from_micros(100));
    stage.serves_and_is_quiet();
}

/// A proxy that takes hellos of 2 KiB at most, and what it says to more.
fn is_refused_as_too_large(hello: &[u8]) {
    let stage = Stage::with(Backend::echo(), |config, _| config.text("service.limits", "hello", "2KiB"));
    let mut stream = dial(stage.proxy.address()).expect("the proxy listens");
    let _ = stream.write_all(hello);
    let record = stage.proxy.record_of("hello/client/hello-too-large");
    let mut alert = [0; 7];
    stream.read_exact(&mut alert).expect("an alert comes");
    assert_eq!(alert, [21, 3, 3, 0, 2, 2, 47], "illegal_parameter: no record was too long, but the message");
    assert_eq!(record.number("bytes_to_backend"), 0, "{record:?}");
    assert_eq!(stage.backend.accepted(), 0, "the backend receives nothing of it");
    drop(stream);
    stage.serves_and_is_quiet();
}

#[test]
fn a_hello_that_announces_more_than_the_limit_is_refused_and_named() {
    // It says it is long, and goes on.
    let mut long = vec![0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3];
    long.resize(5 + 0x4000, 0);
    is_refused_as_too_large(&long);
}

#[test]
fn headers_of_records_count_towards_the_limit() {
    let config = Trust::version(Version::Tls13).post_quantum().config();
    // Within the limit as one record, and far above it with a header before each byte.
    let hello = Hello::new(&config);
    assert!(hello.record.len() < 2_048, "{}", hello.record.len());
    let framed = hello.in_records_of(1);
    assert!(framed.len() > 3 * 2_048, "{}", framed.len());
    is_refused_as_too_large(&framed);
    let stage = Stage::with(Backend::echo(), |config, _| config.text("service.limits", "hello", "2KiB"));
    let record = hello.record.clone();
    served_after(&stage, hello, &[&record], Duration::ZERO);
}
