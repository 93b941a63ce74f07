//! Whole runs with loads that follow a script, over the bus inside the process and over a real NATS server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use handfast_stats::Histogram;
use handfast_testkit::needs;
use handfast_testkit::servers::Openssl;
use tokio::sync::watch;

use super::protocol::{Event, Order};
use super::share::TrueLoad;
use super::{LEASE, Lineup, OnLost, WORKER_TIMEOUT, Workers};
use crate::outcome::{EarlyEnd, Outcome};
use crate::plan::Plan;
use crate::sample::{Interval, Series};
use handfast_report::ToolError;

mod places;
mod script;
mod server;

use places::Place;
use script::Script;

/// One test for each bus, with the same words.
macro_rules! on_both {
    ($($name:ident),* $(,)?) => {
        mod on_local {
            $(#[tokio::test]
            async fn $name() {
                super::$name(super::Place::local()).await;
            })*
        }
        mod on_nats {
            $(#[tokio::test]
            async fn $name() {
                handfast_testkit::needs!("nats-server");
                super::$name(super::Place::nats()).await;
            })*
        }
    };
}

on_both!(
    three_workers_are_one_process_fed_the_same_samples,
    a_lost_worker_fails_the_run,
    a_lost_worker_may_be_done_without,
    another_program_is_refused_by_name,
    a_silent_coordinator_stops_the_load,
    a_busy_worker_is_refused_by_name,
    an_interrupted_run_has_an_outcome,
    a_lineup_runs_many_plans,
    a_refusal_comes_in_the_workers_own_words,
    totals_that_are_no_sums_are_seen,
    too_few_workers_are_named,
    a_worker_that_is_stopped_says_so,
    the_true_load_takes_the_same_path,
);

/// A plan whose target is never used.
fn plan() -> Plan {
    Plan { duration: Duration::from_secs(3), timeout: Duration::from_secs(2), ..Plan::default() }
}

/// Runs a plan and remembers which seconds were shown.
async fn run(lineup: &mut Lineup, on_lost: OnLost) -> (Result<Outcome, ToolError>, Vec<u32>) {
    let (_asker, mut stop) = watch::channel(false);
    let mut shown = Vec::new();
    let outcome = lineup.run(&plan(), on_lost, &mut |second| shown.push(second.second), &mut stop).await;
    (outcome, shown)
}

/// Waits until something is so, for so long at most.
async fn within(limit: Duration, what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < limit, "{what}: not within {limit:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn three_workers_are_one_process_fed_the_same_samples(mut place: Place) {
    for name in ["c", "a", "b"] {
        place.worker(name, Script::of(4)).await;
    }
    let mut lineup = place.gather(3).await.unwrap();
    assert_eq!(lineup.workers(), ["a", "b", "c"]);
    let (outcome, shown) = run(&mut lineup, OnLost::Fail).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.early_end.as_ref(), shown), (None, vec![0, 1, 2, 3]));

    let mut all = Histogram::new();
    for (second, merged) in (0u32..).zip(&outcome.seconds) {
        let mut one = Histogram::new();
        for index in 0..3 {
            for nanos in script::samples(index, second) {
                one.record_nanos(nanos);
                all.record_nanos(nanos);
            }
        }
        assert_eq!(merged.second, second);
        assert_eq!(merged.series[&Series::Total].buckets(), one.buckets());
        let threads: Vec<u64> = merged.threads.iter().map(|thread| thread.busy_ns).collect();
        assert_eq!(threads, [1, 2, 3], "in the order of the workers");
        assert_eq!(merged.machine.len(), 3);
    }
    let total = &outcome.totals.series[&Series::Total];
    assert_eq!(total.buckets(), all.buckets());
    for quantile in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0] {
        assert_eq!(total.quantile_nanos(quantile), all.quantile_nanos(quantile), "at {quantile}");
    }
    assert_eq!(outcome.totals.tally.transactions, all.count());
    for worker in &outcome.workers {
        assert!(worker.sums_agree && worker.missing.is_empty() && worker.lost.is_none(), "{worker:?}");
        assert_eq!(worker.facts.notes, ["a script"]);
        assert!(worker.clock_offset_ns.unsigned_abs() <= worker.clock_error_ns, "one clock: {worker:?}");
        assert!(worker.clock_error_ns < 50_000_000, "{worker:?}");
    }
    lineup.dismiss().await;
}

async fn a_lost_worker_fails_the_run(mut place: Place) {
    let scripts = [Script::of(60).slow(), Script::of(60).slow()];
    let others_load = scripts[1].loading();
    let [first, second] = scripts;
    place.worker("a", first).await;
    place.worker("b", second).await;
    let mut lineup = place.gather(2).await.unwrap();
    let begun = Instant::now();
    let lost_at = Duration::from_secs(3);
    let (outcome, ()) = tokio::join!(run(&mut lineup, OnLost::Fail), async {
        tokio::time::sleep(lost_at).await;
        place.vanish("a");
    });
    let outcome = outcome.0.unwrap();
    assert_eq!(outcome.early_end, Some(EarlyEnd::WorkerLost("a".into())));
    assert!(begun.elapsed() < lost_at + WORKER_TIMEOUT + Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(outcome.workers[0].lost.as_ref().unwrap().contains("2.5 s"), "{:?}", outcome.workers[0].lost);
    assert!(outcome.workers[0].end.is_none() && !outcome.workers[0].sums_agree);
    assert!(outcome.workers[1].lost.is_none() && outcome.workers[1].sums_agree, "{:?}", outcome.workers[1]);
    assert!(!others_load.load(Ordering::SeqCst), "the others were stopped");
    assert!(!outcome.seconds.is_empty());
}

async fn a_lost_worker_may_be_done_without(mut place: Place) {
    place.worker("a", Script::of(8).slow()).await;
    place.worker("b", Script::of(8).slow()).await;
    let mut lineup = place.gather(2).await.unwrap();
    let begun = Instant::now();
    let (outcome, ()) = tokio::join!(run(&mut lineup, OnLost::Continue), async {
        tokio::time::sleep(Duration::from_millis(3500)).await;
        place.vanish("b");
    });
    assert!(begun.elapsed() < Duration::from_secs(12), "the run did not wait for it: {:?}", begun.elapsed());
    let (outcome, shown) = (outcome.0.unwrap(), outcome.1);
    assert_eq!(outcome.early_end, None);
    assert_eq!(shown, (0..8).collect::<Vec<_>>(), "in order, without gaps");
    let (stayed, went) = (&outcome.workers[0], &outcome.workers[1]);
    assert!(stayed.sums_agree && stayed.missing.is_empty(), "{stayed:?}");
    assert_eq!(stayed.end.as_ref().unwrap().totals.tally.transactions, 8 * script::SAMPLES);
    assert!(went.lost.is_some() && went.end.is_none());
    let delivered = 8 - went.missing.len() as u64;
    assert!(went.missing.ends_with(&[7]) && delivered > 0, "{:?}", went.missing);
    assert_eq!(outcome.totals.tally.transactions, (8 + delivered) * script::SAMPLES);
}

async fn another_program_is_refused_by_name(mut place: Place) {
    let id = place.worker_of("old", Arc::new(Script::of(1)), |identity| identity.protocol = 7).await;
    let bus = place.bus("listener").await;
    let mut orders = bus.subscribe(&place.subjects().orders(&id)).await.unwrap();
    let begun = Instant::now();
    let refusal = place.gather(1).await.unwrap_err();
    assert!(refusal.what.contains("old cannot: it uses protocol 7, this program 1"), "{refusal}");
    assert!(refusal.hint.unwrap().contains("same program"));
    assert!(begun.elapsed() < Duration::from_secs(5), "nothing was left to wait for");
    let message = tokio::time::timeout(Duration::from_secs(5), orders.next()).await.unwrap().unwrap();
    let order: Order = serde_json::from_slice(&message.payload).unwrap();
    assert!(matches!(order, Order::TurnedAway { why } if why.what.contains("protocol 7")));

    place.worker_of("newer", Arc::new(Script::of(1)), |identity| identity.program = "f00".into()).await;
    let refusal = place.gather(2).await.unwrap_err();
    assert!(
        refusal.what.contains("newer cannot: it runs handfast") && refusal.what.contains("old"),
        "{refusal}"
    );
}

async fn a_silent_coordinator_stops_the_load(mut place: Place) {
    let script = Script::of(60).slow();
    let loading = script.loading();
    place.worker("a", script).await;
    let mut lineup = place.gather(1).await.unwrap();
    let until = async {
        within(Duration::from_secs(10), "the load begins", || loading.load(Ordering::SeqCst)).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
    };
    tokio::select! {
        outcome = run(&mut lineup, OnLost::Fail) => panic!("ended by itself: {outcome:?}"),
        () = until => {}
    }
    let silent = Instant::now();
    assert!(loading.load(Ordering::SeqCst));
    within(LEASE + Duration::from_secs(1), "the load ends", || !loading.load(Ordering::SeqCst)).await;
    assert!(silent.elapsed() > LEASE - Duration::from_millis(1500), "{:?}: too soon", silent.elapsed());
}

async fn a_busy_worker_is_refused_by_name(mut place: Place) {
    let script = Script::of(4).slow();
    let loading = script.loading();
    place.worker("only", script).await;
    let mut first = place.gather(1).await.unwrap();
    let (outcome, refusal) = tokio::join!(run(&mut first, OnLost::Fail), async {
        within(Duration::from_secs(10), "the load begins", || loading.load(Ordering::SeqCst)).await;
        place.gather(1).await.unwrap_err()
    });
    assert!(refusal.what.contains("only cannot: it works for tester"), "{refusal}");
    assert_eq!(outcome.0.unwrap().early_end, None, "the first run was not disturbed");
    first.dismiss().await;
    let second = place.gather(1).await.unwrap();
    assert_eq!(second.workers(), ["only"], "free at once");
}

async fn an_interrupted_run_has_an_outcome(mut place: Place) {
    place.worker("a", Script::of(60).slow()).await;
    let mut lineup = place.gather(1).await.unwrap();
    let (asker, mut stop) = watch::channel(false);
    let mut shown = 0;
    let begun = Instant::now();
    let mut each = |_: &Interval| {
        shown += 1;
        asker.send_replace(shown == 2);
    };
    let outcome = lineup.run(&plan(), OnLost::Fail, &mut each, &mut stop).await.unwrap();
    assert_eq!(outcome.early_end, Some(EarlyEnd::Interrupted));
    assert!(begun.elapsed() < Duration::from_secs(8));
    let worker = &outcome.workers[0];
    assert!(worker.sums_agree && worker.lost.is_none() && worker.end.is_some(), "{worker:?}");
    assert!(outcome.seconds.len() >= 2 && outcome.seconds.len() < 10);
}

async fn a_lineup_runs_many_plans(mut place: Place) {
    place.worker("a", Script::of(2)).await;
    place.worker("b", Script::of(2)).await;
    let mut lineup = place.gather(2).await.unwrap();
    for round in 0..3 {
        let (outcome, shown) = run(&mut lineup, OnLost::Fail).await;
        let outcome = outcome.unwrap();
        assert_eq!(shown, [0, 1], "run {round}");
        assert_eq!(
            outcome.totals.tally.transactions,
            4 * script::SAMPLES,
            "nothing of other runs is counted"
        );
        assert!(outcome.workers.iter().all(|worker| worker.sums_agree));
    }
}

async fn a_refusal_comes_in_the_workers_own_words(mut place: Place) {
    place.worker("a", Script::of(1)).await;
    place.worker("b", Script::of(1).refusing("open 9 files: the limit is 8")).await;
    let mut lineup = place.gather(2).await.unwrap();
    let (outcome, _) = run(&mut lineup, OnLost::Fail).await;
    assert_eq!(outcome.unwrap_err().what, "open 9 files: the limit is 8");
    let (outcome, _) = run(&mut lineup, OnLost::Fail).await;
    assert!(outcome.unwrap_err().what.contains("the limit is 8"), "and the next run asks again");
}

async fn totals_that_are_no_sums_are_seen(mut place: Place) {
    place.worker("honest", Script::of(2)).await;
    place.worker("wrong", Script::of(2).lying()).await;
    let mut lineup = place.gather(2).await.unwrap();
    let outcome = run(&mut lineup, OnLost::Fail).await.0.unwrap();
    let agree: Vec<bool> = outcome.workers.iter().map(|worker| worker.sums_agree).collect();
    assert_eq!(agree, [true, false]);
}

async fn too_few_workers_are_named(mut place: Place) {
    place.worker("alone", Script::of(1)).await;
    let begun = Instant::now();
    let refusal = place.gather(2).await.unwrap_err();
    assert!(refusal.what.contains("gather 2 workers") && refusal.what.contains("1 can take part: alone"));
    assert!(!refusal.is_wrong_use() && begun.elapsed() < Duration::from_secs(12));
    assert!(place.gather(0).await.unwrap_err().is_wrong_use());
}

async fn a_worker_that_is_stopped_says_so(mut place: Place) {
    place.worker("a", Script::of(60).slow()).await;
    let mut lineup = place.gather(1).await.unwrap();
    let (outcome, took) = tokio::join!(run(&mut lineup, OnLost::Fail), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        place.stop("a");
        Instant::now()
    });
    let outcome = outcome.0.unwrap();
    assert!(took.elapsed() < WORKER_TIMEOUT, "it was not waited for");
    assert_eq!(outcome.workers[0].lost.as_deref(), Some("it was stopped on its own machine"));
}

async fn the_true_load_takes_the_same_path(mut place: Place) {
    needs!("openssl");
    let target = Openssl::start("-www");
    for name in ["a", "b"] {
        place.worker_of(name, Arc::new(TrueLoad), |_| {}).await;
    }
    let mut lineup = place.gather(2).await.unwrap();
    let plan = Plan {
        target: crate::plan::Target {
            host: target.address.ip().to_string(),
            port: target.address.port(),
            plain: false,
        },
        work: crate::plan::Work::Handshake,
        connections: 2,
        threads: 1,
        ..plan()
    };
    let (_asker, mut stop) = watch::channel(false);
    let mut shown = 0;
    let mut each = |second: &Interval| shown += second.tally.transactions;
    let outcome = lineup.run(&plan, OnLost::Fail, &mut each, &mut stop).await.unwrap();
    assert_eq!(outcome.early_end, None);
    let tally = &outcome.totals.tally;
    assert!(tally.transactions > 10 && tally.failed == 0, "{tally:?} {:?}", outcome.totals.failures);
    assert_eq!(shown, tally.transactions, "what was shown is what was counted");
    assert_eq!(outcome.totals.series[&Series::Handshake].count(), tally.full + tally.resumed);
    for worker in &outcome.workers {
        assert!(worker.sums_agree && worker.missing.is_empty(), "{worker:?}");
        assert_eq!(worker.facts.threads, 1);
        assert!(worker.end.as_ref().unwrap().start_error_ns.abs() < 500_000_000, "{:?}", worker.end);
    }
}

#[tokio::test]
async fn what_the_true_load_refuses_is_reported() {
    // Tcpmux, which no program serves; a port that was free a moment ago may be another test's now.
    let plan =
        Plan { target: crate::plan::Target { host: "127.0.0.1".into(), port: 1, plain: false }, ..plan() };
    let mut lineup = Lineup::gather(&Workers::Local).await.unwrap();
    let (_asker, mut stop) = watch::channel(false);
    let refusal = lineup.run(&plan, OnLost::Fail, &mut |_| {}, &mut stop).await.unwrap_err();
    assert!(refusal.what.contains("127.0.0.1:1") && refusal.what.contains("refused"), "{refusal}");
}

#[tokio::test]
async fn one_machine_is_a_crew_of_one() {
    let mut lineup = Lineup::here(Arc::new(Script::of(3))).await.unwrap();
    assert_eq!(lineup.workers(), ["this machine"]);
    let (outcome, shown) = run(&mut lineup, OnLost::Fail).await;
    assert_eq!(shown, [0, 1, 2]);
    assert!(outcome.unwrap().workers[0].sums_agree);
    lineup.dismiss().await;
}

#[tokio::test]
async fn a_dropped_lineup_stops_its_own_load() {
    let script = Script::of(60).slow();
    let loading: Arc<AtomicBool> = script.loading();
    let mut lineup = Lineup::here(Arc::new(script)).await.unwrap();
    tokio::select! {
        _ = run(&mut lineup, OnLost::Fail) => panic!("ended by itself"),
        () = within(Duration::from_secs(10), "the load begins", || loading.load(Ordering::SeqCst)) => {}
    }
    drop(lineup);
    within(Duration::from_secs(1), "the load ends", || !loading.load(Ordering::SeqCst)).await;
}

#[tokio::test]
async fn messages_of_other_runs_are_not_counted() {
    let mut place = Place::local();
    let id = place.worker("a", Script::of(3).slow()).await;
    let mut lineup = place.gather(1).await.unwrap();
    let bus = place.bus("stranger").await;
    let (subjects, coordinator) = (place.subjects(), place.last_coordinator());
    let second = Interval {
        tally: crate::sample::Tally { transactions: 5000, ..Default::default() },
        ..Interval::default()
    };
    let (outcome, ()) = tokio::join!(run(&mut lineup, OnLost::Fail), async {
        for _ in 0..20 {
            let subject = subjects.events(&coordinator, "anotherrun", &id);
            let event = super::protocol::encode(&Event::Second(Box::new(second.clone())));
            bus.publish(&subject, event).await.unwrap();
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let outcome = outcome.0.unwrap();
    let counted: Vec<u64> = outcome.seconds.iter().map(|second| second.tally.transactions).collect();
    assert_eq!(counted, [script::SAMPLES; 3]);
    assert!(outcome.workers[0].sums_agree);
}
