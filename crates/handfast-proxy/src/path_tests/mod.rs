//! The whole path, from hello to close, in thousands of orders of events, each from a seed: no socket, no waiting.
//!
//! A client that speaks real TLS and a backend, each with a plan (go through with it, stall, vanish, reset, at any
//! step), meet the path over memory, on a clock that the test holds. What must hold whatever happens is in
//! `judge.rs`: the invariants of ARCHITECTURE.md that speak of the path. A schedule that fails prints its seed;
//! `HANDFAST_SEED=…` replays it alone. (TLS draws random numbers of its own; with an Ed25519 certificate their lengths
//! are the same each time.)

mod backend;
mod client;
mod judge;
mod peers;
mod scene;
mod world;

use scene::Scene;

/// Schedules for each version of TLS.
const SCHEDULES: u64 = 2_500;

fn run(version: &str) {
    let scene = Scene::new();
    if let Ok(seed) = std::env::var("HANDFAST_SEED") {
        scene.play(version, seed.parse().expect("HANDFAST_SEED is a number"), true);
        return;
    }
    for seed in 0..SCHEDULES {
        scene.play(version, seed, false);
    }
    scene.has_seen_everything();
}

#[test]
fn tickets_go_alone_where_nobody_speaks() {
    Scene::new().tickets_go_alone();
}

#[test]
fn every_order_of_events_ends_well_in_tls_1_3() {
    run("1.3");
}

#[test]
fn every_order_of_events_ends_well_in_tls_1_2() {
    run("1.2");
}
