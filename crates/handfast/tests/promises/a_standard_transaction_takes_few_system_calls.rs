//! A standard transaction takes few system calls: at most twenty for connect, full handshake with TLS 1.3, 4 KiB there and
//! back, close_notify and close, while many clients keep a worker busy.

use super::support::tracer::{Calls, Tracer, needs_tracing};
use super::support::*;

/// What is promised for each.
const CALLS: f64 = 20.0;
/// At once, and all at one worker: a call that waits, or looks for new connections, is shared by those whose turn has come.
/// A client that is alone pays for its own, and needs two more.
const CLIENTS: usize = 48;
const TRANSACTIONS: usize = 480;
/// A machine that is busy with other things adds waits, and never takes calls away: the best of several rounds counts.
const ROUNDS: usize = 3;
const SIZE: usize = 4096;

#[test]
fn at_load() {
    needs_tracing!();
    let stage = Stage::with(Backend::echo(), |config, _| config.set("process", "threads", 1));
    // What is done once is not to be counted.
    transactions(&stage, CLIENTS);
    let mut rounds: Vec<(f64, Calls)> = Vec::new();
    while rounds.len() < ROUNDS && rounds.iter().all(|(each, _)| *each > CALLS) {
        rounds.push(round(&stage));
    }
    let (each, calls) = rounds.last().expect("there was at least one");
    assert!(*each > 5.0, "strace has seen too little to judge by: {calls:?}");
    assert!(*each <= CALLS, "calls for each of {TRANSACTIONS} transactions, and their sums: {rounds:?}");
    stage.is_quiet();
}

/// Calls for each transaction of a round, and how often each call was made.
fn round(stage: &Stage) -> (f64, Calls) {
    let tracer = Tracer::count(&stage.proxy);
    transactions(stage, TRANSACTIONS);
    let mut calls = tracer.counted();
    if cfg!(debug_assertions) {
        // Such a build asks the kernel about each descriptor that it closes; one for use does not.
        calls.remove("fcntl");
    }
    (calls.values().sum::<u64>() as f64 / TRANSACTIONS as f64, calls)
}

/// So many, and all of them ended in order.
fn transactions(stage: &Stage, count: usize) {
    let config = Trust::version(Version::Tls13).forgetful().config();
    let finished =
        || stage.proxy.records().iter().filter(|record| record.reason() == "relay/client/finished").count();
    let before = finished();
    crowd::for_each(count, CLIENTS, |_| {
        let mut client = stage.client(&config);
        assert!(!client.resumed(), "the handshake is a full one");
        client.echo(&[b'x'; SIZE]);
        client.close_notify();
    });
    wait_until("all of them to have ended in order", || (finished() == before + count).then_some(()));
}
