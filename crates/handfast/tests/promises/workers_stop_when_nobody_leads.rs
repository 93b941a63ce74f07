//! Workers stop without a coordinator: within five seconds after the coordinator or the bus is lost, by their own clocks. This
//! includes workers whose process was stopped meanwhile. Then they serve the next run.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::support::load_workers::LoadWorkers;
use super::support::skip::needs;

/// Time for which a worker continues without a message.
const LEASE: Duration = Duration::from_secs(5);
/// Allowance for a machine that is busy with other tests.
const SLACK: Duration = Duration::from_secs(2);
/// Connections that a worker may still begin when it runs again: those that were past their last look at the clock.
const UNDER_WAY: u64 = 3;
const LONG: [&str; 6] = ["--rate", "150", "--arrivals", "fixed", "--duration", "60s"];

/// Their bounds are seconds, so a few run at once.
mod seconds {
    use super::*;

    #[test]
    fn the_coordinator_is_gone() {
        needs!("nats-server");
        let mut fleet = LoadWorkers::of(&["first", "frozen", "second"]);
        let mut run = fleet.load(3, &LONG);
        run.shows_second(2);
        // No order to stop will ever reach this one: it has only its own clock.
        fleet.worker("frozen").program.signal(Signal::STOP);
        run.kill();
        let silent = Instant::now();
        assert!(fleet.arrived() > 100, "there was load");
        let stopped = fleet.last_arrival().saturating_duration_since(silent);
        assert!(stopped < LEASE + SLACK, "load came for {stopped:?} after the coordinator's end");
        let arrived = fleet.arrived();
        fleet.worker("frozen").program.signal(Signal::CONT);
        for name in ["first", "frozen", "second"] {
            fleet.worker(name).program.talk.containing("its coordinator was silent for 5 s");
        }
        fleet.last_arrival();
        let begun = fleet.arrived() - arrived;
        assert!(begun <= UNDER_WAY, "{begun} connections came from a worker whose lease was over");
        fleet.serves(3);
    }

    #[test]
    fn the_bus_is_gone() {
        needs!("nats-server");
        let mut fleet = LoadWorkers::of(&["first", "second"]);
        let mut run = fleet.load(2, &LONG);
        run.shows_second(2);
        fleet.bus.kill();
        let silent = Instant::now();
        let ended = run.ended();
        assert_eq!(ended.code, Some(5), "{}", ended.text);
        let lost = format!("the bus {} was lost", fleet.bus.url());
        for name in ["first", "second"] {
            let why = ended.worker(name)["lost"].as_str().expect("it is lost");
            assert!(why.contains(&lost), "{why}");
        }
        assert!(ended.text.contains(&lost), "{}", ended.text);
        let stopped = fleet.last_arrival().saturating_duration_since(silent);
        assert!(stopped < LEASE + SLACK, "load came for {stopped:?} after the end of the bus");
        assert!(fleet.workers.iter_mut().all(|worker| worker.program.lives()), "they wait for the bus");
        fleet.bus.back();
        fleet.serves(2);
    }
}
