//! Many machines make one run: they share the load, begin together, and their report is the one that a single machine would
//! have made, to the last sample.

use std::collections::BTreeSet;

use handfast_stats::Histogram;
use serde_json::Value;

use super::support::load_workers::{Ended, LoadWorkers};
use super::support::skip::needs;

const NAMES: [&str; 3] = ["north", "south", "west"];
/// 300 a second for four seconds, at even distances: each worker has exactly 400 of the 1200.
const EVENLY: [&str; 6] = ["--rate", "300", "--arrivals", "fixed", "--duration", "4s"];

#[test]
fn a_run_on_three_machines_adds_up() {
    needs!("nats-server");
    let fleet = LoadWorkers::of(&NAMES);
    let ended = fleet.load(3, &EVENLY).ended();
    ended.exits_by_verdict();
    let totals = &ended.report()["totals"];
    let count = |name: &str| totals[name].as_u64().expect("it is counted");
    assert_eq!((count("failed"), count("transactions")), (0, sum_of_workers(&ended)), "{}", ended.text);
    for name in NAMES {
        let (worker, transactions) = (ended.worker(name), ended.transactions(name));
        assert_eq!((&worker["sums_agree"], &worker["lost"]), (&Value::Bool(true), &Value::Null), "{worker}");
        // Those that are due while a busy machine does not let the worker run at the very end do not begin.
        assert!((300..=400).contains(&transactions), "{name} has a third of the rate: {transactions}");
        assert!(ended.text.contains(name), "{name} is named:\n{}", ended.text);
        let (offset, error) = (worker["clock_offset_ns"].as_i64(), worker["clock_error_ns"].as_u64());
        assert!(offset.map(i64::unsigned_abs) <= error, "they have one clock: {worker}");
    }
    assert!(ended.text.contains("the workers started within"), "{}", ended.text);
    let skew = ended.report()["manifest"]["start_skew_ns"].as_u64();
    // A worker that begins more than a second late has not waited for the agreed moment.
    assert!(skew > Some(0) && skew < Some(1_000_000_000), "{skew:?}");
    assert_eq!(count("connections"), fleet.arrived(), "the target counted the same");
    assert_eq!(count("warm_up_connections"), 3, "each has tried the target once");
    no_gaps(&ended);
    every_sample_is_there_once(&ended);
}

fn sum_of_workers(ended: &Ended) -> u64 {
    NAMES.iter().map(|name| ended.transactions(name)).sum()
}

fn timeline(ended: &Ended) -> &[Value] {
    ended.report()["timeline"].as_array().expect("a report has a timeline")
}

fn no_gaps(ended: &Ended) {
    let seconds: Vec<u64> = timeline(ended).iter().filter_map(|second| second["second"].as_u64()).collect();
    let length = u64::try_from(seconds.len()).expect("few seconds");
    assert!(length >= 4, "{seconds:?}");
    assert_eq!(seconds, (0..length).collect::<Vec<_>>());
    let missing = timeline(ended).iter().any(|second| second["missing"] != Value::Array(Vec::new()));
    assert!(!missing, "every worker was there in every second");
}

/// The whole run's histogram comes from the workers' last words, those of the seconds came one by one.
fn every_sample_is_there_once(ended: &Ended) {
    let histogram = |value: &Value| -> Histogram {
        serde_json::from_value(value.clone()).expect("histograms are readable")
    };
    let series = ended.report()["series"].as_array().expect("a report has series");
    let total = series.iter().find(|series| series["name"] == "total").expect("transactions are timed");
    let mut seconds = Histogram::new();
    for second in timeline(ended) {
        seconds.merge(&histogram(&second["main"]));
    }
    assert_eq!(histogram(&total["histogram"]).buckets(), seconds.buckets(), "bucket by bucket");
    assert_eq!(Some(seconds.count()), ended.report()["totals"]["transactions"].as_u64());
}

#[test]
fn one_machine_and_many_have_the_same_report() {
    needs!("nats-server");
    let fleet = LoadWorkers::of(&NAMES[..2]);
    let words = ["--rate", "60", "--duration", "1s"];
    let (here, many) = (fleet.load_here(&words).ended(), fleet.load(2, &words).ended());
    here.exits_by_verdict();
    many.exits_by_verdict();
    let (here, many) = (fields(here.report()), fields(many.report()));
    assert_eq!(here.symmetric_difference(&many).collect::<Vec<_>>(), [""; 0], "fields of one report only");
    assert!(here.contains(".totals.transactions") && here.len() > 80, "{here:?}");
}

/// The paths of all fields. Counts of the kernel differ from run to run.
fn fields(report: &Value) -> BTreeSet<String> {
    fn collect_paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) if path != ".kernel" => {
                for (name, value) in map {
                    collect_paths(value, &format!("{path}.{name}"), found);
                }
            }
            Value::Array(items) => {
                for item in items {
                    collect_paths(item, &format!("{path}[]"), found);
                }
            }
            _ => {}
        }
        found.insert(path.to_owned());
    }
    let mut found = BTreeSet::new();
    collect_paths(report, "", &mut found);
    found
}
