//! A standard transaction takes few system calls: eighteen for connect, full handshake with TLS 1.3, 4 KiB there and
//! back, close_notify and close, and while many clients keep a worker busy not many more for waiting.

use super::support::tracer::{Calls, Tracer, needs_tracing};
use super::support::*;

/// Calls of each transaction itself: eighteen. One in a hundred has its bytes in two parts where the
/// machine is busy; a call more in each would be 19.
const OWN: f64 = 18.1;
/// With its share of waiting and of looking for new connections. On a quiet machine it is below twenty.
const CALLS: f64 = 21.5;
/// Calls that wait, or wake another thread: how many there are is the machine's.
const WAITS: [&str; 3] = ["epoll_pwait", "futex", "mprotect"];
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
    // System calls that happen only once are not counted.
    transactions(&stage, CLIENTS);
    let mut rounds: Vec<(f64, Calls)> = Vec::new();
    while rounds.len() < ROUNDS && rounds.iter().all(|(each, _)| *each > CALLS) {
        rounds.push(round(&stage));
    }
    let (each, calls) = rounds.last().expect("there was at least one");
    assert!(*each > 5.0, "strace has seen too little to judge by: {calls:?}");
    let of_waiting = |call: &str| WAITS.contains(&call);
    let own = calls.iter().filter(|(call, _)| !of_waiting(call)).map(|(call, count)| match call.as_str() {
        // One for each client; a call that finds none is waiting too.
        "accept4" => (*count).min(TRANSACTIONS as u64),
        _ => *count,
    });
    let own = own.sum::<u64>() as f64 / TRANSACTIONS as f64;
    assert!(own <= OWN, "{own} other calls for each of {TRANSACTIONS} transactions: {calls:?}");
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

/// This number, and all of them closed cleanly.
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
    wait_until("all of them to have closed cleanly", || (finished() == before + count).then_some(()));
}
