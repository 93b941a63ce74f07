//! A client cannot flood the log: what is logged for each event of a peer has a limit for each kind, what is left out is counted, and other
//! messages are written. The kinds and their floods are in a table in `crates/handfast/src/talk/tests.rs`.

use rustix::process::Signal;

use super::support::http2::*;
use super::support::*;

/// The HTTP/2 library warns of each of these.
#[test]
fn by_frames_of_http2() {
    const ACKS: usize = 50_000;
    let mut stage = Stage::with(Backend::echo(), |config, _| config.text("service", "mode", "http"));
    let mut client = stage.client(&Trust::version(Version::Tls13).protocol("h2").config());
    client.send(&preface(&[]));
    client.send(&frame(PING, ACK, 0, &[7; 8]).repeat(ACKS));
    // It is through with them when it answers this one.
    client.send(&frame(PING, 0, 0, &[1; 8]));
    while receive_one_of(&mut client, &[PING]).flags & ACK == 0 {}
    stage.proxy.rewrite("nonsense");
    assert!(!stage.proxy.reload(), "the configuration is refused");
    stage.proxy.signal(Signal::TERM);
    client.finish();
    stage.proxy.ended();
    let lines = stage.proxy.talk.so_far();
    let about_pings = |line: &&String| line.contains("PING");
    let (summaries, own): (Vec<_>, Vec<_>) =
        lines.iter().filter(about_pings).partition(|line| line.contains("left out"));
    assert!((1..=200).contains(&own.len()), "{} lines", own.len());
    let left_out = summaries.iter().map(|line| {
        let (before, _) = line.split_once(" more line").unwrap_or_else(|| panic!("no number in {line}"));
        let number = before.rsplit(' ').next().expect("splitting gives at least one");
        number.replace(',', "").parse::<usize>().unwrap_or_else(|_| panic!("no number in {line}"))
    });
    assert_eq!(left_out.sum::<usize>() + own.len(), ACKS, "{summaries:?}");
    assert!(
        lines.iter().any(|line| line.contains("reload refused")),
        "other messages are written: {lines:?}"
    );
}
