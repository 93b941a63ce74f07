//! A client cannot flood the log: what is logged for each event of a peer has a limit for each kind, what is left out is counted, and other
//! messages are written. The kinds and their floods are in a table in `crates/handfast/src/talk/tests.rs`.

use rustix::process::Signal;

use super::support::http2::*;
use super::support::*;

/// Answers to no question cost a connection of HTTP/2, and one line.
#[test]
fn by_frames_of_http2() {
    // They fit into the buffers of its socket.
    const ACKS: usize = 2_500;
    let mut stage = Stage::with(Backend::echo(), |config, _| config.text("service", "mode", "http"));
    let mut client = stage.client(&Trust::version(Version::Tls13).protocol("h2").config());
    client.send(&preface(&[]));
    client.send(&frame(PING, ACK, 0, &[7; 8]).repeat(ACKS));
    let goodbye = receive_one_of(&mut client, &[GOAWAY]);
    assert_eq!(goodbye.last_stream(), u32::MAX >> 1, "the first one announces the end");
    let goodbye = receive_one_of(&mut client, &[GOAWAY]);
    assert_eq!(goodbye.payload[4..8], 11_u32.to_be_bytes(), "ENHANCE_YOUR_CALM");
    drop(client);
    stage.proxy.rewrite("nonsense");
    assert!(!stage.proxy.reload(), "the configuration is refused");
    stage.proxy.signal(Signal::TERM);
    stage.proxy.ended();
    let lines = stage.proxy.talk.so_far();
    assert!(lines.len() < 20, "{} lines", lines.len());
    assert!(
        lines.iter().any(|line| line.contains("reload refused")),
        "other messages are written: {lines:?}"
    );
}
