//! A lost worker fails the run: it is noticed within three seconds, named, the others are stopped; what was lost makes no
//! load when it comes back. Or, when that was asked for, the others go on as before and what is missing is said.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use super::support::load_workers::LoadWorkers;
use super::support::skip::needs;
use super::support::*;

/// Time limit to notice a loss.
const NOTICED: Duration = Duration::from_secs(3);
/// Allowance for a machine that is busy with other tests, and for a transaction in flight that is waited for.
const SLACK: Duration = Duration::from_secs(3);
/// Longer than a worker may go on without a word from its coordinator.
const LONGER_THAN_A_LEASE: Duration = Duration::from_secs(6);
/// Connections that a worker may still begin when it runs again: those that were past their last look at the clock.
/// More than six hundred are overdue then.
const UNDER_WAY: u64 = 3;
const LONG: [&str; 6] = ["--rate", "200", "--arrivals", "fixed", "--duration", "60s"];

/// The time in `the run was ended after 4.2 s of 60 s because …`, and the words after it.
fn when(notes: &str) -> (f64, &str) {
    let after = notes.split_once("the run was ended after ").expect(notes).1;
    let (time, rest) = after.split_once(' ').expect(notes);
    (time.parse().expect(notes), rest)
}

/// Their bounds are seconds, so a few run at once.
mod seconds {
    use super::*;

    #[test]
    fn one_that_is_killed() {
        needs!("nats-server");
        let mut fleet = LoadWorkers::of(&["leaves", "stays"]);
        let mut run = fleet.load(2, &LONG);
        run.shows_second(2);
        fleet.worker("leaves").program.signal(Signal::KILL);
        let lost = Instant::now();
        let line = run.wait_for_line("a worker is lost");
        assert!(lost.elapsed() < NOTICED + SLACK, "noticed after {:?}", lost.elapsed());
        assert!(line.contains("leaves"), "{line}");
        let ended = run.ended();
        assert!(lost.elapsed() < NOTICED + SLACK + SLACK, "ended after {:?}", lost.elapsed());
        let arrived = fleet.arrived();
        assert_eq!(ended.code, Some(5), "{}", ended.text);
        assert!(
            ended.worker("leaves")["lost"].as_str().is_some_and(|why| why.contains("nothing came from it"))
        );
        assert_eq!(ended.worker("stays")["lost"], Value::Null);
        assert_eq!(ended.worker("stays")["sums_agree"], Value::Bool(true));
        assert!(ended.text.contains("worker leaves was lost"), "who:\n{}", ended.text);
        let notes = ended.notes();
        let (when, rest) = when(&notes);
        assert!(
            (1.0..30.0).contains(&when) && rest.starts_with("s of 60 s because worker leaves"),
            "{when} {rest}"
        );
        fleet.last_arrival();
        assert_eq!(fleet.arrived(), arrived, "the other was stopped before the run ended");
        fleet.serves(1);
    }

    #[test]
    fn one_that_stands_still_and_comes_back() {
        needs!("nats-server");
        let mut fleet = LoadWorkers::of(&["frozen", "stays"]);
        let mut run = fleet.load(2, &LONG);
        run.shows_second(2);
        fleet.worker("frozen").program.signal(Signal::STOP);
        let frozen = Instant::now();
        run.wait_for_line("a worker is lost");
        assert!(frozen.elapsed() < NOTICED + SLACK, "noticed after {:?}", frozen.elapsed());
        let ended = run.ended();
        assert_eq!(ended.code, Some(5), "{}", ended.text);
        assert!(
            ended.worker("frozen")["lost"].as_str().is_some_and(|why| why.contains("nothing came from it"))
        );
        pause(LONGER_THAN_A_LEASE.saturating_sub(frozen.elapsed()));
        fleet.last_arrival();
        let arrived = fleet.arrived();
        fleet.worker("frozen").program.signal(Signal::CONT);
        fleet.last_arrival();
        let begun = fleet.arrived() - arrived;
        assert!(begun <= UNDER_WAY, "{begun} connections came from a worker whose lease was over");
        fleet.serves(2);
    }

    #[test]
    fn one_that_can_be_done_without() {
        needs!("nats-server");
        let mut fleet = LoadWorkers::of(&["leaves", "stays", "stays-too"]);
        let words =
            ["--rate", "150", "--arrivals", "fixed", "--duration", "7s", "--on-worker-lost", "continue"];
        let mut run = fleet.load(3, &words);
        run.shows_second(2);
        fleet.worker("leaves").program.signal(Signal::KILL);
        let ended = run.ended();
        // A user that requested three machines and had two needs to know it, also with the option to continue.
        assert_eq!(ended.code, Some(5), "{}", ended.text);
        for name in ["stays", "stays-too"] {
            let transactions = ended.transactions(name);
            assert!((300..=350).contains(&transactions), "{name}: 50 a second for seven: {transactions}");
            assert_eq!(ended.worker(name)["lost"], Value::Null);
        }
        let notes = ended.notes();
        assert!(notes.contains("worker leaves was lost") && notes.contains("less than planned"), "{notes}");
        assert!(!notes.contains("the run was ended"), "{notes}");
        let timeline = ended.report()["timeline"].as_array().expect("a report has a timeline");
        let missing: Vec<u64> = timeline
            .iter()
            .filter(|second| second["missing"] == serde_json::json!(["leaves"]))
            .filter_map(|second| second["second"].as_u64())
            .collect();
        assert!(missing.ends_with(&[5, 6]) || missing.ends_with(&[6, 7]), "{missing:?}");
        assert!(!missing.contains(&0), "it was there at first: {missing:?}");
    }
}
