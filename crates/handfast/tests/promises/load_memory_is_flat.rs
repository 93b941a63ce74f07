//! Memory is flat: what a run holds does not grow with what it has done, be it connections, exchanges or errors.

use std::time::Duration;

use super::support::deadline::wait_until_seeing;
use super::support::delays::{Action, Manners, Request, TlsServer};
use super::support::load::Load;

/// Bytes of the allocator and the histograms of the first seconds; from the tenth second on a run of any length was seen to stay at 19
/// MB. Less than 200 bytes kept for each exchange would be more, where 20,000 are done in a second.
const ALLOWANCE: u64 = 14 << 20;

#[test]
fn memory_does_not_grow_with_what_was_done() {
    let every_fiftieth = |request: Request| {
        if request.number % 50 == 49 { Action::Reset } else { Action::After(Duration::ZERO) }
    };
    let server =
        TlsServer::start(Manners { size: 64, answer: Box::new(every_fiftieth), ..Manners::default() });
    let running = Load::at(server.address).with("-c 8 -n 20 -d 7s --resume 50% --send 64").start();
    running.seconds(1);
    let (early, requests) = (running.process().memory(), server.requests());
    assert!(requests > 0);
    // The same work again, and again: by requests, not by the clock.
    wait_until_seeing(
        "three times as many requests",
        || (server.requests() >= 3 * requests).then_some(()),
        || format!("{} of {}", server.requests(), 3 * requests),
    );
    let late = running.process().memory();
    let ended = running.ended();
    assert_eq!(ended.verdict(), "errors", "{}", ended.all());
    assert!(
        late <= early + ALLOWANCE,
        "{early} bytes after {requests} requests, {late} after three times as many"
    );
}
