//! A silent client is ended after its backend: when the backend has ended and the client has everything, a client that says
//! nothing more is closed cleanly within `limits.half-closed-client`. One that goes on is not disturbed.

use std::time::Duration;

use super::support::*;

const HUNDRED: [u8; 100] = [b'h'; 100];
const LIMIT: Duration = Duration::from_millis(500);

/// A backend that has ended is to be waited for `LIMIT` only; the other limits are out of reach.
fn stage(script: impl Fn(&mut backend::Peer) + Send + Sync + 'static) -> Stage {
    Stage::with(Backend::start(script), |config, _| {
        config.text("service.limits", "half-closed-client", "500ms")
    })
}

#[test]
fn a_client_that_stays_silent_is_ended_in_order() {
    let stage = stage(|peer| peer.send(&HUNDRED));
    let _silent = Version::BOTH.map(|version| {
        let mut client = stage.client(&Trust::version(version).config());
        let ending = client.read_to_end();
        assert_eq!(ending.bytes, HUNDRED);
        assert!(ending.is_clean(), "{version:?}: {ending:?}");
        client
    });
    let record = stage.proxy.record_of("relay/backend/backend-closed");
    assert!(record.detail().contains("nothing more came from it for 500ms"), "{record:?}");
    stage.counts("backend", "backend-closed", 2);
    stage.is_quiet();
}

#[test]
fn a_backend_that_still_reads_is_notified_that_the_client_did_not_end() {
    let stage = stage(|peer| {
        peer.send(&HUNDRED);
        peer.fin();
        peer.read_to_end();
    });
    let mut client = stage.any_client();
    client.send(b"half an upload");
    let ending = client.read_to_end();
    assert!(ending.is_clean(), "{ending:?}");
    assert_eq!(stage.backend.seen(), [Event::Data(b"half an upload".to_vec()), Event::Reset]);
    stage.is_quiet();
}

#[test]
fn a_client_that_goes_on_is_not_disturbed() {
    let stage = stage(|peer| {
        peer.send(&HUNDRED);
        peer.fin();
        peer.read_to_end();
    });
    let mut client = stage.any_client();
    assert_eq!(client.read_exactly(100), HUNDRED);
    for _ in 0..12 {
        client.send(b"more");
        pause(LIMIT / 4);
    }
    client.finish();
    assert_eq!(stage.backend.seen(), [Event::Data(b"more".repeat(12)), Event::Fin]);
    stage.proxy.record_of("relay/backend/finished");
    stage.is_quiet();
}

/// Some clients return at the FIN alone; others send nothing more after one.
#[test]
fn a_fin_comes_with_the_end_of_an_exchange() {
    let answers = |peer: &mut backend::Peer| {
        peer.read_exactly(4);
        peer.send(&HUNDRED);
    };
    let upload = |peer: &mut backend::Peer| {
        peer.fin();
        peer.read_to_end();
    };
    type Script = fn(&mut backend::Peer);
    let cases: [(Script, &[u8], usize, [bool; 2]); 4] = [
        (answers, b"GET\n", 100, [true, true]),
        (|peer| peer.send(&HUNDRED), b"", 100, [true, true]),
        // The client may be in the middle of it. In TLS 1.2 what follows is dropped all the same.
        (upload, b"half an upload", 0, [true, false]),
        (upload, b"QUIT\r\n", 0, [true, true]),
    ];
    for (script, sends, answered, fin) in cases {
        let stage = Stage::with(Backend::start(script), |config, _| {
            config.text("service.limits", "half-closed-client", "1h")
        });
        for (version, expected) in Version::BOTH.into_iter().zip(fin) {
            let mut client = stage.client(&Trust::version(version).config());
            client.send(sends);
            client.read_exactly(answered);
            assert_eq!(client.read(&mut [0; 1]).expect("the end is clean"), 0, "close_notify follows");
            if expected {
                let what = format!("a FIN for {version:?} after {sends:?}");
                wait_until(&what, || backend::has_fin(&client.stream).then_some(()));
            } else {
                pause(LIMIT / 4);
                assert!(!backend::has_fin(&client.stream), "{version:?} after {sends:?}");
            }
            client.finish();
        }
        stage.is_quiet();
    }
}

#[test]
fn a_client_that_still_receives_is_not_silent() {
    const ALL: u64 = 6_000_000;
    let stage = stage(|peer| {
        (0..ALL).step_by(50_000).for_each(|offset| peer.send(pattern::piece(offset, 50_000)));
    });
    let mut client = stage.any_client();
    // Left to itself, the client's kernel would take the whole of it and acknowledge it at once.
    rustix::net::sockopt::set_socket_recv_buffer_size(&client.stream, 65_536).expect("receive buffer");
    let mut checker = pattern::Checker::default();
    checker.take(&client.read_exactly(5_000_000));
    // The rest waits in the proxy's kernel, and the backend has ended, while the limit passes several times.
    for _ in 0..8 {
        pause(LIMIT / 2);
        checker.take(&client.read_exactly(75_000));
    }
    let ending = client.read_to_end();
    checker.take(&ending.bytes);
    assert_eq!(checker.arrived, ALL);
    assert!(ending.is_clean(), "{ending:?}");
    let record = stage.proxy.record_of("relay/backend/backend-closed");
    assert!(record.seconds("relay") > (LIMIT * 4).as_secs_f64(), "{record:?}");
    stage.is_quiet();
}

#[test]
fn what_a_client_sends_to_a_backend_that_is_gone_is_still_an_abort() {
    let stage = stage(|peer| peer.send(&HUNDRED));
    let mut client = stage.any_client();
    assert_eq!(client.read_exactly(100), HUNDRED);
    assert_eq!(client.read(&mut [0; 1]).expect("the end is clean"), 0, "close_notify follows");
    client.send(b"for nobody");
    wait_until("the client's own direction to be cut", || backend::is_cut(&client.stream).then_some(()));
    stage.proxy.record("an abort", |record| {
        ["relay/backend/reset", "relay/backend/closed-early"].contains(&record.reason().as_str())
    });
    stage.is_quiet();
}
