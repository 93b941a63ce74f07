//! A half-close stays a half-close: who has said everything can still be answered, in both directions, for as long as it
//! takes; and the end that was not sent is not invented.

use std::time::Duration;

use super::support::*;

/// Longer than any timer that could hide a missing timeout.
const LATE: Duration = Duration::from_millis(500);

#[test]
fn the_client_ends_and_a_long_answer_follows() {
    let stage = Stage::new(|peer| {
        peer.read_to_end();
        for offset in (0..1_000_000).step_by(50_000) {
            peer.send(pattern::piece(offset, 50_000));
            pause(LATE / 20);
        }
    });
    for version in Version::BOTH {
        let mut client = stage.client(&Trust::version(version).config());
        client.send(b"question");
        client.close_notify();
        client.fin();
        let ending = client.read_to_end();
        let mut checker = pattern::Checker::default();
        checker.take(&ending.bytes);
        assert_eq!(checker.arrived, 1_000_000);
        assert!(ending.is_clean(), "{version:?}: {ending:?}");
        assert_eq!(stage.backend.seen(), [Event::Data(b"question".to_vec()), Event::Fin]);
    }
    let record = stage.proxy.record("a clean end", |record| record.reason().ends_with("/finished"));
    assert_eq!(
        (record.number("bytes_to_backend"), record.number("bytes_to_client")),
        (8, 1_000_000),
        "{record:?}"
    );
    stage.is_quiet();
}

#[test]
fn the_backend_ends_and_the_client_goes_on() {
    let stage = Stage::new(|peer| {
        peer.send(b"all I have");
        peer.fin();
        peer.read_to_end();
    });
    for version in Version::BOTH {
        let mut client = stage.client(&Trust::version(version).config());
        assert_eq!(client.read_exactly(10), b"all I have");
        assert_eq!(client.read(&mut [0; 1]).expect("the end is clean"), 0);
        let mut sent = Vec::new();
        for offset in (0..500_000).step_by(50_000) {
            client.send(pattern::piece(offset, 50_000));
            sent.extend_from_slice(pattern::piece(offset, 50_000));
            pause(LATE / 10);
        }
        client.finish();
        assert_eq!(stage.backend.seen(), [Event::Data(sent), Event::Fin]);
    }
    stage.is_quiet();
}

#[test]
fn an_open_direction_is_not_ended_for_symmetry() {
    let stage = Stage::new(|peer| {
        peer.send(b"!");
        peer.fin();
        peer.read_to_end();
    });
    let mut client = stage.any_client();
    assert_eq!(client.read_exactly(1), b"!");
    assert_eq!(client.read(&mut [0; 1]).expect("the end is clean"), 0);
    pause(LATE);
    client.send(b"x");
    client.finish();
    assert_eq!(stage.backend.seen(), [Event::Data(b"x".to_vec()), Event::Fin]);
    stage.is_quiet();
}
