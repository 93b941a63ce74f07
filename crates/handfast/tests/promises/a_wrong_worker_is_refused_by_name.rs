//! A wrong worker is refused by name: too few of them, one that works for another coordinator, one that is another program. And no
//! worker acts without an order of a coordinator.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::bus::Wire;
use super::support::folder::Folder;
use super::support::load_workers::{LoadWorkers, Worker};
use super::support::skip::needs;

/// Time for which a coordinator waits for workers, and an allowance for a busy machine.
const GATHERED: Duration = Duration::from_secs(10 + 10);

#[test]
fn too_few_are_named() {
    needs!("nats-server");
    let fleet = LoadWorkers::of(&["alone"]);
    let begun = Instant::now();
    let ended = fleet.load(2, &["--duration", "1s"]).ended();
    assert!(begun.elapsed() < GATHERED, "{:?}", begun.elapsed());
    assert_eq!((ended.code, ended.text.as_str()), (Some(1), ""), "{}", ended.talk);
    assert!(ended.talk.contains("gather 2 workers on nats://"), "{}", ended.talk);
    assert!(ended.talk.contains("1 can take part: alone"), "{}", ended.talk);
    assert!(ended.talk.contains(&format!("hint: start them with `handfast worker {}`", fleet.bus.url())));
    fleet.serves(1);
}

#[test]
fn a_busy_one_refuses_a_second_coordinator() {
    needs!("nats-server");
    let fleet = LoadWorkers::of(&["only"]);
    let mut first = fleet.load(1, &["--rate", "50", "--arrivals", "fixed", "--duration", "5s"]);
    first.shows_second(1);
    let begun = Instant::now();
    let second = fleet.load(1, &["--duration", "1s"]).ended();
    assert_eq!(second.code, Some(1), "{}", second.talk);
    assert!(second.talk.contains("only cannot: it works for "), "{}", second.talk);
    assert!(begun.elapsed() < GATHERED, "{:?}", begun.elapsed());
    let first = first.ended();
    first.exits_by_verdict();
    assert!(
        (200..=250).contains(&first.transactions("only")),
        "the first run was not disturbed: {}",
        first.text
    );
    fleet.serves(1);
}

#[test]
fn another_program_is_named_with_both_hashes() {
    needs!("nats-server");
    let (folder, mut fleet) = (Folder::new(), LoadWorkers::of(&[]));
    let path = Worker::other_program(&folder);
    fleet.workers.push(Worker::of(&path, &[&fleet.bus.url()], "changed"));
    let begun = Instant::now();
    let ended = fleet.load(1, &["--duration", "1s"]).ended();
    assert_eq!(ended.code, Some(1), "{}", ended.talk);
    assert!(ended.talk.contains("changed cannot: it runs handfast "), "{}", ended.talk);
    assert_eq!(ended.talk.matches("SHA-256").count(), 1, "{}", ended.talk);
    assert!(ended.talk.contains("hint: install the same program on every machine"), "{}", ended.talk);
    assert!(begun.elapsed() < GATHERED, "{:?}", begun.elapsed());
    let line = fleet.worker("changed").program.talk.containing("rejected by a coordinator");
    assert!(line.contains("SHA-256"), "{line}");
}

#[test]
fn nonsense_is_not_obeyed() {
    needs!("nats-server");
    let mut fleet = LoadWorkers::of(&["calm"]);
    let mut wire = Wire::to(&fleet.bus);
    wire.subscribe("hf.default.>");
    let mut run = fleet.load(1, &["--rate", "50", "--arrivals", "fixed", "--duration", "4s"]);
    let [coordinator, name, worker] = wire.message("a beat of the worker", |message| {
        let tokens: Vec<&str> = message.subject.split('.').collect();
        let beat = message.payload == br#""beat""#;
        let tokens = tokens.get(3..)?.iter().map(ToString::to_string).collect::<Vec<_>>();
        if beat { tokens.try_into().ok() } else { None }
    });
    // Before the run, while it is made, and when it is over.
    run.shows_second(1);
    for subject in [
        "hf.default.c.all".to_owned(),
        format!("hf.default.c.{worker}"),
        format!("hf.default.w.{coordinator}.{name}.{worker}"),
        format!("hf.default.w.{coordinator}.hello.{worker}"),
        format!("hf.default.w.{coordinator}.{name}.unknown"),
        format!("hf.default.w.{coordinator}.another.{worker}"),
        format!("hf.default.w.{coordinator}.short"),
    ] {
        for payload in nonsense(&name) {
            wire.publish(&subject, &payload);
        }
    }
    refuses_strangers(&mut wire, &worker, &name);
    assert_eq!(wire.settle().1, [""; 0], "the server took everything");
    let ended = run.ended();
    ended.exits_by_verdict();
    assert!((150..=200).contains(&ended.transactions("calm")), "{}", ended.text);
    assert_eq!(ended.worker("calm")["sums_agree"], Value::Bool(true));
    assert!(fleet.worker("calm").program.lives());
    fleet.serves(1);
}

/// Invalid messages, and messages of clients without permission.
fn nonsense(run: &str) -> Vec<Vec<u8>> {
    let words = [
        json!({}),
        json!(null),
        json!("roll-call"),
        json!({"roll-call": {}}),
        json!({"roll-call": {"from": {"id": "a.b >*", "name": "\u{1b}[2J", "identity": {}}}}),
        json!({"go": {"run": "another", "start_ns": 0}}),
        json!({"go": {"run": run, "start_ns": 0}}),
        json!({"stop": {"run": "another"}}),
        json!({"lease": {"by": "unknown", "run": run, "until_ns": u64::MAX}}),
        json!({"dismiss": {"by": "unknown"}}),
        json!({"received": {"run": run}}),
        json!({"second": {"second": u32::MAX}}),
        json!({"hello": {"name": 7}}),
        json!({"end": null}),
    ];
    let mut all: Vec<Vec<u8>> = words.iter().map(|word| word.to_string().into_bytes()).collect();
    all.extend([Vec::new(), b"\0\xff\xfe{".to_vec(), vec![b'['; 100_000], vec![b'x'; 1_000_000]]);
    all
}

/// Well-formed orders of another client.
fn refuses_strangers(wire: &mut Wire, worker: &str, run: &str) {
    let orders = format!("hf.default.c.{worker}");
    let identity = json!({"protocol": 1, "version": "0", "program": "0"});
    let stranger = json!({"id": "stranger", "name": "a stranger", "identity": identity});
    for order in [
        json!({"enlist": {"by": stranger}}),
        json!({"go": {"run": run, "start_ns": u64::MAX}}),
        json!({"go": {"run": "another", "start_ns": u64::MAX}}),
    ] {
        let answer = wire.request(&orders, order.to_string().as_bytes()).json();
        let why = answer["no"]["what"].as_str().unwrap_or_default();
        assert!(why.contains("worker calm"), "{order} is refused by name: {answer}");
    }
}
