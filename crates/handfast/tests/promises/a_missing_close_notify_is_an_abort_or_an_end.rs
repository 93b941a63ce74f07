//! A missing close_notify is an abort or an end: by default the backend is reset, with a word that tells whether anything was
//! in flight; with `missing-close-notify = "end"` a client's FIN is passed on, and the answer is delivered.

use std::io::Write;
use std::time::Duration;

use super::support::*;

fn ending() -> Backend {
    Backend::start(|peer| {
        peer.read_to_end();
        pause(Duration::from_millis(50));
        peer.send(b"the answer");
    })
}

fn stage_that_takes_it_for_an_end(backend: Backend) -> Stage {
    Stage::with(backend, |config, _| config.text("service", "missing-close-notify", "end"))
}

#[test]
fn a_session_that_had_its_answer_has_a_word_of_its_own() {
    let stage = Stage::new(|peer| {
        peer.read_exactly(4);
        peer.send(b"PONG");
        peer.read_to_end();
    });
    for version in Version::BOTH {
        let mut client = stage.client(&Trust::version(version).config());
        client.send(b"PING");
        assert_eq!(client.read_exactly(4), b"PONG");
        client.fin();
        assert_eq!(stage.backend.seen(), [Event::Data(b"PING".to_vec()), Event::Reset], "it stays an abort");
    }
    let record = stage.proxy.record_of("relay/client/no-close-notify");
    assert_eq!(record.detail(), "FIN without close_notify; nothing was in flight");
    stage.counts("client", "no-close-notify", 2);
    stage.is_quiet();
}

#[test]
fn what_was_in_flight_is_named() {
    let stage = Stage::new(peer_that_answers_nothing);
    let mut client = stage.any_client();
    client.send(b"half an upload");
    client.fin();
    assert_eq!(stage.backend.seen(), [Event::Data(b"half an upload".to_vec()), Event::Reset]);
    let record = stage.proxy.record_of("relay/client/truncated");
    assert_eq!(record.detail(), "FIN without close_notify; the backend had not answered what came last");
    stage.is_quiet();
}

fn peer_that_answers_nothing(peer: &mut backend::Peer) {
    peer.read_to_end();
}

#[test]
fn where_it_is_an_end_the_answer_is_delivered() {
    let stage = stage_that_takes_it_for_an_end(ending());
    for version in Version::BOTH {
        let mut client = stage.client(&Trust::version(version).config());
        client.send(b"the question");
        client.fin();
        let ending = client.read_to_end();
        assert_eq!(ending.bytes, b"the answer");
        assert!(ending.is_clean(), "{version:?}: {ending:?}");
        assert_eq!(stage.backend.seen(), [Event::Data(b"the question".to_vec()), Event::Fin]);
    }
    let record = stage.proxy.record_of("relay/client/finished");
    assert_eq!(record.detail(), "the client's FIN without close_notify was taken for its end");
    stage.is_quiet();
}

#[test]
fn half_a_record_is_never_an_end() {
    let stage = stage_that_takes_it_for_an_end(Backend::start(peer_that_answers_nothing));
    let mut client = stage.any_client();
    client.send(b"whole");
    // A record of a hundred bytes, of which three come.
    client.stream.write_all(&[23, 3, 3, 0, 100, 1, 2, 3]).expect("the proxy reads");
    client.fin();
    assert_eq!(stage.backend.seen(), [Event::Data(b"whole".to_vec()), Event::Reset]);
    let record = stage.proxy.record_of("relay/client/truncated");
    assert_eq!(record.detail(), "FIN without close_notify; in the middle of a record");
    stage.is_quiet();
}
