//! The relay and the ends of legs over memory, in thousands of orders of events, each from a seed.
//!
//! Two peers with a plan each (send, stall, end, break off) talk through a relay. Its sockets take and give in pieces,
//! return "would block" for no reason, and pass on ends and resets late. The rules for every outcome are in
//! `world.rs::judge`. A schedule that fails prints its seed; `HANDFAST_SEED=… cargo test -p handfast-leg` replays it
//! alone, with every event.

#![forbid(unsafe_code)]

mod peer;
mod world;

use world::{Shape, World};

/// Schedules for each of the four shapes.
const SCHEDULES: u64 = 2_500;

fn run(shape: Shape) {
    if let Ok(seed) = std::env::var("HANDFAST_SEED") {
        let seed = seed.parse().expect("HANDFAST_SEED is a number");
        World::new(shape, seed, true).run();
        return;
    }
    for seed in 0..SCHEDULES {
        World::new(shape, seed, false).run();
    }
}

#[test]
fn tls_to_plain() {
    run(Shape { client_tls: true, backend_tls: false });
}

#[test]
fn tls_to_tls() {
    run(Shape { client_tls: true, backend_tls: true });
}

#[test]
fn plain_to_tls() {
    run(Shape { client_tls: false, backend_tls: true });
}

#[test]
fn plain_to_plain() {
    run(Shape { client_tls: false, backend_tls: false });
}
