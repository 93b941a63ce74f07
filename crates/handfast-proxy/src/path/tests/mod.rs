//! The whole path, from hello to close, in thousands of orders of events, each from a seed (ten times as many with `scripts/every-case`): no socket, no waiting.
//!
//! A client that speaks real TLS and a backend, each with a plan (go through with it, stall, vanish, reset, at any
//! step), meet the path over memory, on a clock that the test holds. What must hold whatever happens is in
//! `judge.rs`: the invariants of ARCHITECTURE.md that speak of the path. A schedule that fails prints its seed;
//! `HANDFAST_SEED=…` replays it alone. (TLS draws its own random numbers; with an Ed25519 certificate their lengths
//! are the same each time.)

mod size;
mod backend;
mod by_hand;
mod client;
mod judge;
mod peers;
mod requests;
mod scene;
mod world;

use handfast_testkit::cases::draws;
use scene::{Mode, Scene};

/// Schedules for each version of TLS, and for each way in which the two sides may speak; and where there is time.
const SCHEDULES: (u64, u64) = (1_000, 10_000);

/// TLS ends here.
const TERMINATES: Mode = Mode { client_tls: true, backend_tls: false };
/// Plain on both sides.
const RELAYS: Mode = Mode { client_tls: false, backend_tls: false };

fn run(mode: Mode, version: &str) {
    let scene = Scene::new(mode);
    if let Ok(seed) = std::env::var("HANDFAST_SEED") {
        scene.play(version, seed.parse().expect("HANDFAST_SEED is a number"), true);
        return;
    }
    for seed in 0..draws(SCHEDULES.0, SCHEDULES.1) {
        scene.play(version, seed, false);
    }
    scene.has_seen_everything();
}

#[test]
fn tickets_go_alone_where_no_side_sends() {
    Scene::new(TERMINATES).tickets_go_alone();
}

#[test]
fn every_order_of_events_ends_well_in_tls_1_3() {
    run(TERMINATES, "1.3");
}

#[test]
fn every_order_of_events_ends_well_in_tls_1_2() {
    run(TERMINATES, "1.2");
}

#[test]
fn every_order_of_events_ends_well_between_two_sessions() {
    run(Mode { client_tls: true, backend_tls: true }, "1.3");
}

#[test]
fn every_order_of_events_ends_well_towards_a_backend_with_tls() {
    run(Mode { client_tls: false, backend_tls: true }, "1.3");
}

#[test]
fn every_order_of_events_ends_well_without_tls() {
    run(Mode { client_tls: false, backend_tls: false }, "1.3");
}
