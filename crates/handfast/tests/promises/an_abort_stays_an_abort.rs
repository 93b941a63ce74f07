//! An abort stays an abort: a reset or a truncated stream on one side is never a clean end on the other, in either direction;
//! a clean end stays clean.
//!
//! The seven cases that no other proxy gets right in full, most of them a hundred times with TLS 1.2 and with 1.3, and again while the
//! other side keeps writing: then it is a write that meets the error first, and the read after it looks like a clean end.

use std::time::Duration;

use super::support::backend::Peer;
use super::support::ending::Ending;
use super::support::*;

const TIMES: usize = 100;
const HUNDRED: [u8; 100] = [b'h'; 100];

/// The number for cases in which a backend has a second to read what came before the abort.
const TIMES_SERVED: usize = 4;

/// Plays one case with both versions, each time with a new connection.
fn each(stage: &Stage, play: impl Fn(Client)) {
    repeat(stage, TIMES, play);
}

fn repeat(stage: &Stage, times: usize, play: impl Fn(Client)) {
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        for _ in 0..times {
            play(stage.client(&config));
        }
    }
}

fn assert_hundred_then_clean(ending: &Ending) {
    assert_eq!(ending.bytes, HUNDRED);
    assert!(ending.is_clean(), "a clean end stays clean: {ending:?}");
}

fn assert_hundred_then_abort(ending: &Ending) {
    assert_eq!(ending.bytes, HUNDRED, "what came before the abort is delivered");
    assert!(ending.is_abort(), "an abort stays an abort: {ending:?}");
}

/// Sends a byte first, so that the client knows that the tunnel is open, then reads.
fn greet_then_listen(peer: &mut Peer) {
    peer.send(b"!");
    peer.read_to_end();
}

fn greeted(client: &mut Client) {
    assert_eq!(client.read_exactly(1), b"!");
}

fn hundred_then_fin(peer: &mut Peer) {
    peer.send(&HUNDRED);
    peer.fin();
    peer.read_to_end();
}

fn hundred_then_reset(peer: &mut Peer) {
    peer.send(&HUNDRED);
    peer.reset();
}

#[test]
fn t1_the_backend_ends_in_order() {
    let stage = Stage::new(hundred_then_fin);
    each(&stage, |mut client| {
        assert_hundred_then_clean_halfway(&mut client);
        client.finish();
        assert_eq!(stage.backend.seen(), [Event::Fin]);
    });
    stage.is_quiet();
}

/// The backend has ended its direction: the client is notified, and may still send.
fn assert_hundred_then_clean_halfway(client: &mut Client) {
    assert_eq!(client.read_exactly(100), HUNDRED);
    assert_eq!(client.read(&mut [0; 1]).expect("the end is clean"), 0, "close_notify follows");
}

#[test]
fn t1_the_backend_closes_altogether() {
    let stage = Stage::new(|peer| peer.send(&HUNDRED));
    each(&stage, |mut client| {
        assert_hundred_then_clean_halfway(&mut client);
        client.finish();
    });
    stage.is_quiet();
}

#[test]
fn t2_the_backend_resets() {
    let stage = Stage::new(hundred_then_reset);
    each(&stage, |mut client| assert_hundred_then_abort(&client.read_to_end()));
    stage.counts("backend", "reset", 2 * TIMES);
    stage.is_quiet();
}

#[test]
fn t2_the_backend_resets_while_the_client_writes() {
    let stage = Stage::new(|peer| {
        // Something of the client's is in flight both ways when the reset comes.
        peer.read_exactly(10_000);
        hundred_then_reset(peer);
    });
    each(&stage, |mut client| assert_hundred_then_abort(&client.read_to_end_while_writing()));
    stage.counts("backend", "reset", 2 * TIMES);
    stage.is_quiet();
}

#[test]
fn t2_the_backend_resets_after_it_ended_its_own_direction() {
    let stage = Stage::new(|peer| {
        peer.send(&HUNDRED);
        peer.fin();
        peer.read_exactly(1);
        peer.reset();
    });
    each(&stage, |mut client| {
        assert_hundred_then_clean_halfway(&mut client);
        client.send(b"x");
        // Everything to be read had been read, in order; the abort of the other direction shows without reading.
        wait_until("the client's own direction to be cut", || backend::is_cut(&client.stream).then_some(()));
    });
    stage.is_quiet();
}

#[test]
fn t3_the_client_ends_first_and_gets_a_late_answer() {
    let stage = Stage::new(|peer| {
        peer.read_to_end();
        pause(Duration::from_millis(20));
        peer.send(&HUNDRED);
    });
    each(&stage, |mut client| {
        client.send(b"question");
        client.close_notify();
        assert_hundred_then_clean(&client.read_to_end());
        assert_eq!(stage.backend.seen(), [Event::Data(b"question".to_vec()), Event::Fin]);
    });
    stage.is_quiet();
}

#[test]
fn t4_the_client_ends_without_close_notify() {
    let stage = Stage::new(greet_then_listen);
    repeat(&stage, TIMES_SERVED, |mut client| {
        greeted(&mut client);
        client.send(&HUNDRED);
        client.fin();
        assert_eq!(stage.backend.seen(), [Event::Data(HUNDRED.to_vec()), Event::Reset]);
    });
    stage.counts("client", "truncated", 2 * TIMES_SERVED);
    stage.is_quiet();
}

#[test]
fn t4_the_client_ends_without_close_notify_while_the_backend_writes() {
    let stage = Stage::new(Peer::read_to_end_while_writing);
    each(&stage, |mut client| {
        client.send(&HUNDRED);
        client.read_exactly(10_000);
        client.fin();
        let seen = stage.backend.seen();
        assert_eq!(seen.last(), Some(&Event::Reset), "{seen:?}");
    });
    stage.is_quiet();
}

#[test]
fn t5_the_client_resets() {
    let stage = Stage::new(greet_then_listen);
    each(&stage, |mut client| {
        greeted(&mut client);
        client.reset();
        assert_eq!(stage.backend.seen(), [Event::Reset]);
    });
    stage.is_quiet();
}

#[test]
fn t5_the_client_resets_after_some_bytes() {
    let stage = Stage::new(greet_then_listen);
    repeat(&stage, TIMES_SERVED, |mut client| {
        greeted(&mut client);
        client.send(&HUNDRED);
        client.reset();
        let seen = stage.backend.seen();
        // Delivery of the hundred bytes depends on the kernels; delivery of the abort depends on us.
        assert_eq!(seen.last(), Some(&Event::Reset), "{seen:?}");
    });
    stage.counts("client", "reset", 2 * TIMES_SERVED);
    stage.is_quiet();
}

#[test]
fn t5_the_client_resets_while_the_backend_writes() {
    let stage = Stage::new(Peer::read_to_end_while_writing);
    each(&stage, |mut client| {
        client.read_exactly(10_000);
        client.reset();
        let seen = stage.backend.seen();
        assert_eq!(seen.last(), Some(&Event::Reset), "{seen:?}");
    });
    stage.is_quiet();
}

#[test]
fn t6_nobody_listens_at_the_backend() {
    let stage = Stage::with(Backend::echo(), |_, folder| Config::to(folder, Backend::refusing()));
    for version in Version::BOTH {
        let config = Trust::version(version).config();
        for _ in 0..TIMES {
            match Client::try_connect(stage.proxy.address(), &config, "localhost") {
                Ok(mut client) => {
                    let ending = client.read_to_end();
                    assert!(
                        ending.is_abort() || ending.alert.is_some(),
                        "the client sees a failure: {ending:?}"
                    );
                    assert!(!ending.close_notify, "{ending:?}");
                }
                Err(Refusal::Ended(SocketEnd::Fin)) => panic!("the client sees no failure"),
                Err(_) => {}
            }
        }
    }
    let record = stage.proxy.record_of("connect/backend/refused");
    assert!(record.text("backend").starts_with("127.0.0.1:"), "{record:?}");
    stage.is_quiet();
}

#[test]
fn t7_the_backend_half_closes_and_the_client_speaks_later() {
    let stage = Stage::new(|peer| {
        peer.send(&HUNDRED);
        peer.fin();
        peer.read_to_end();
    });
    each(&stage, |mut client| {
        assert_hundred_then_clean_halfway(&mut client);
        client.send(b"later");
        client.finish();
        assert_eq!(stage.backend.seen(), [Event::Data(b"later".to_vec()), Event::Fin]);
    });
    stage.is_quiet();
}
