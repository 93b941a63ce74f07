//! Transactions start when they were asked to: exactly the planned number of them, in stages, or after a pause of their client.

use super::support::delays::{Manners, TlsServer};
use super::support::load::{Ended, Load};

/// A short run with these words.
fn run(words: &str) -> Ended {
    let server = TlsServer::start(Manners::default());
    Load::at(server.address).with("-n unlimited").with(words).run_well()
}

/// Every transaction that was due, whatever became of it: on a busy machine the last ones may be due too late to start.
fn due(ended: &Ended) -> u64 {
    let notes = ended.lines("/notes");
    let late = notes.lines().find(|note| note.ends_with("due never started"));
    let late = late
        .map_or(0, |note| note.split(' ').next().and_then(|number| number.parse().ok()).expect("a number"));
    ended.count("/totals/transactions") + ended.count("/totals/failed") + late
}

#[test]
fn an_open_model_starts_exactly_what_was_planned() {
    for (words, planned) in [
        ("--rate 150 -d 1s --threads 2 --seed 1", 150),
        ("--rate 150 -d 1s --threads 2 --seed 2", 150),
        ("--rate 33..100 -d 500ms --threads 1", 33),
        ("--rate 77 -d 500ms --arrivals fixed", 39),
    ] {
        let ended = run(words);
        assert_eq!(due(&ended), planned, "{words}\n{}", ended.all());
    }
}

#[test]
fn stages_have_their_rates_and_make_the_duration() {
    let ended = run("--rate 0@200ms,200@500ms,100..300@500ms --arrivals fixed --threads 1");
    assert_eq!(due(&ended), 200, "{}", ended.all());
    assert_eq!(ended.value("/totals/duration_seconds").as_f64(), Some(1.2), "{}", ended.all());
    let model = "open: 0/s for 0.2 s, then 200/s for 0.5 s, then from 100/s to 300/s in 0.5 s start, at even distances";
    assert!(ended.output.replace(&[' ', '\n'][..], "").contains(&model.replace(' ', "")), "{}", ended.all());
    // As the plan is kept, so it is repeated.
    assert_eq!(
        ended.value("/manifest/job/plan/model/stages/stages/2/to").as_f64(),
        Some(300.0),
        "{}",
        ended.all()
    );
}

#[test]
fn clients_think_between_transactions() {
    for words in ["-n unlimited", "-n 1", "-n unlimited --think 150ms..300ms"] {
        let words =
            if words.contains("--think") { words.to_owned() } else { format!("{words} --think 150ms") };
        let server = TlsServer::start(Manners::default());
        let load = Load::at(server.address).with("-c 2 -d 1s --threads 1").with(&words);
        let ended = load.run_well();
        let all = ended.count("/totals/transactions");
        // One at the start, and one after each pause: more do not fit into a second.
        assert!((2..=2 * 7).contains(&all), "{words}: {all}\n{}", ended.all());
        assert!(ended.output.contains("think time"), "{words}\n{}", ended.all());
    }
}
