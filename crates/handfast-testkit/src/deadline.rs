//! Waiting for something to become true, with a deadline. In: a question. Out: its answer, or a panic that says what was
//! seen so far.

use std::time::{Duration, Instant};

/// Time limit for everything on a busy machine before a test gives up. No test waits for it when all is well.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Interval between two checks of a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Asks until there is an answer.
pub fn wait_until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    wait_until_seeing(what, &mut ask, String::new)
}

/// As [`wait_until`]; `seen` tells what there is instead when the deadline passes.
pub fn wait_until_seeing<T>(
    what: &str,
    mut ask: impl FnMut() -> Option<T>,
    seen: impl FnOnce() -> String,
) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "waited {DEADLINE:?} for {what}; seen so far: {}", seen());
        pause(POLL_INTERVAL);
    }
}

/// As [`wait_until`], asking without a pause: for loops that also do something at each turn.
pub fn spin_until<T>(what: &str, mut turn: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = turn() {
            return answer;
        }
        assert!(Instant::now() < end, "waited {DEADLINE:?} for {what}");
        std::thread::yield_now();
    }
}

/// A delay that is part of what a test provokes: a slow peer, a late answer. Never a wait for something to happen.
#[expect(clippy::disallowed_methods, reason = "the one place where a test may let time pass")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Starts a thread with a name.
pub fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::Builder::new()
        .name(name.into())
        .spawn(work)
        .expect("the machine has room for another thread")
}
