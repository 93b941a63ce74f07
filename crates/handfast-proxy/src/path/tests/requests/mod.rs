//! Requests from accept to close, in thousands of orders of events, each from a seed: both versions on both sides, over memory.
//!
//! Every client and every backend follows the plan of the request that is in the path, so each can check the bytes of the other.
//! `judge` checks what must hold in every schedule. A schedule that fails prints its seed; `HANDFAST_SEED=…` replays it alone.

mod h1;
mod h2;
mod h2_pipe;
mod malformed;
mod plan;
mod single;
mod stage;
mod wire;

use handfast_testkit::cases::draws;
use plan::Play;
use stage::{Stage, Versions};

use crate::testing::on_engine;

/// Schedules for each pair of versions; and where there is time.
const SCHEDULES: (u64, u64) = (500, 5_000);

/// On an engine, since a stop wakes its tasks.
fn run(client_h2: bool, backend_h2: bool) {
    on_engine(move || async move { play_all(client_h2, backend_h2) });
}

fn play_all(client_h2: bool, backend_h2: bool) {
    let stage = Stage::new(Versions { client_h2, backend_h2 });
    if let Ok(seed) = std::env::var("HANDFAST_SEED") {
        stage.play(seed.parse().expect("HANDFAST_SEED is a number"));
        return;
    }
    for seed in 0..draws(SCHEDULES.0, SCHEDULES.1) {
        if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| stage.play(seed))) {
            eprintln!("the schedule that failed: HANDFAST_SEED={seed} {:?}", Play::new(seed, stage.versions));
            std::panic::resume_unwind(panic);
        }
    }
    stage.check_records();
}

#[test]
fn requests_of_http1_reach_http1() {
    run(false, false);
}

#[test]
fn requests_of_http1_reach_http2() {
    run(false, true);
}

#[test]
fn requests_of_http2_reach_http1() {
    run(true, false);
}

#[test]
fn requests_of_http2_reach_http2() {
    run(true, true);
}
