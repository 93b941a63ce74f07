//! The end of the process at each step, and a disk that fails at each step.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::bench::{Bench, FRESH, content, get, key, poll_read, read, times, until, wait};
use super::faults::Fault;
use crate::rules::policy::Policy;
use crate::rules::tests::response;
use crate::store::cache::{Begin, Lookup};
use crate::store::filler::Followed;
use crate::store::lock::locked;
use crate::store::purge::Purge;

/// More steps than a fill has.
const MAX_STEPS: u64 = 100;
const SIZE: usize = 200_000;

/// Files of whole objects only.
fn assert_tidy(bench: &Bench, what: &str) {
    let stems = |letter: &str| -> BTreeSet<_> {
        bench.files(letter).iter().map(|path| path.file_stem().expect("a name").to_owned()).collect()
    };
    assert_eq!(stems("c"), stems("h"), "{what}");
    assert!(stems("t").is_empty(), "{what}");
    assert_eq!(stems("c").len() as u64, bench.cache.statistics().objects, "{what}");
}

/// A fill in a process whose disk has this fault; steps that were made.
fn fill_with(bench: &Bench, fault: Option<(u64, Fault)>) -> u64 {
    let faults = &bench.cache.shared().folder.faults;
    faults.plan(fault);
    let before = bench.cache.statistics();
    bench.fill(&get("/"), FRESH, &content(SIZE));
    until("the fill is over", || {
        let now = bench.cache.statistics();
        now.stored + now.given_up > before.stored + before.given_up
    });
    faults.steps()
}

#[test]
fn after_a_crash_at_any_step_an_object_is_whole_or_not_there() {
    let mut seen = BTreeSet::new();
    for step in 0..MAX_STEPS {
        let bench = Bench::new();
        bench.store(&get("/before"), FRESH, b"abc");
        let steps = fill_with(&bench, Some((step, Fault::Crash)));
        let bench = bench.reopened();
        assert!(bench.get(&get("/before")) == Some(Ok(b"abc".to_vec())), "crash at step {step}");
        let found = bench.get(&get("/"));
        assert!(matches!(&found, None | Some(Ok(_))), "crash at step {step}: {found:?}");
        if let Some(Ok(found)) = &found {
            assert!(*found == content(SIZE), "crash at step {step}: other content");
        }
        seen.insert(found.is_some());
        assert_tidy(&bench, &format!("crash at step {step}"));
        if steps <= step {
            assert_eq!(seen, BTreeSet::from([false, true]), "{step} steps");
            return;
        }
    }
    panic!("a fill has more than {MAX_STEPS} steps");
}

#[test]
fn after_a_crash_while_a_head_is_updated_the_object_has_one_of_both() {
    for step in 0..MAX_STEPS {
        let bench = Bench::new();
        let head = get("/");
        bench.store(&head, "Cache-Control: max-age=0\nETag: \"a\"", b"abc");
        let faults = Arc::clone(&bench.cache.shared().folder.faults);
        faults.plan(Some((step, Fault::Crash)));
        let Lookup::Stale(stale, _) = bench.lookup(&head) else { panic!("it is stale") };
        let writes = bench.cache.statistics().writes.count;
        let answer = response(&format!("304 Not Modified\n{FRESH}"));
        bench.cache.unchanged(&stale, &head, &answer, &Policy::default(), times());
        until("the head was written or not", || bench.cache.statistics().writes.count > writes);
        let bench = bench.reopened();
        let hit = match bench.lookup(&head) {
            Lookup::Hit(hit) | Lookup::Stale(hit, _) => hit,
            _ => panic!("it is there after a crash at step {step}"),
        };
        assert!(read(&hit, &head) == Ok(b"abc".to_vec()), "crash at step {step}");
        assert_tidy(&bench, &format!("crash at step {step}"));
        if faults.steps() <= step {
            assert!(step > 2, "the head was written in {step} steps");
            return;
        }
    }
    panic!("an update has more than {MAX_STEPS} steps");
}

#[test]
fn a_disk_that_is_full_at_any_step_costs_the_object_and_a_pause() {
    for fault in [Fault::Full, Fault::Once] {
        for step in 0..MAX_STEPS {
            let bench = Bench::new();
            bench.store(&get("/before"), FRESH, b"abc");
            let steps = fill_with(&bench, Some((step, fault)));
            let is_stored = bench.cache.statistics().stored == 2;
            bench.cache.shared().folder.faults.plan(None);
            let what = format!("{fault:?} at step {step}");
            if !is_stored {
                assert!(bench.cache.problem().is_some_and(|text| text.contains("cache folder")), "{what}");
                assert!(matches!(bench.lookup(&get("/before")), Lookup::Bypass(_)), "{what}: it pauses");
                bench.cache.shared().error.end_pause();
                assert!(bench.get(&get("/")).is_none(), "{what}");
            }
            bench.idle();
            assert!(bench.get(&get("/before")) == Some(Ok(b"abc".to_vec())), "{what}");
            // It works again.
            bench.store(&get("/after"), FRESH, b"abc");
            assert_eq!(bench.cache.problem(), None, "{what}");
            // A file that could not be deleted is deleted by the next process.
            assert_tidy(&bench.reopened(), &what);
            if steps <= step {
                break;
            }
        }
    }
}

#[test]
fn what_cannot_be_deleted_counts_as_used_and_is_deleted_when_it_can_be() {
    let bench = Bench::new();
    let shared = bench.cache.shared();
    bench.store(&get("/purged"), FRESH, b"abc");
    bench.store(&get("/kept"), FRESH, b"abc");
    let used = bench.cache.statistics().disk_bytes;
    shared.folder.faults.plan(Some((0, Fault::Undeletable)));
    assert_eq!(bench.cache.purge(Purge::Url("https://example.com/purged")), 1);
    bench.idle();
    assert!(bench.cache.problem().is_some_and(|text| text.contains("delete a file")), "it is told");
    shared.error.end_pause();
    let of = |bench: &Bench| {
        let now = bench.cache.statistics();
        (now.objects, now.disk_bytes, now.undeleted)
    };
    assert_eq!(of(&bench), (1, used, 1));
    assert!(bench.get(&get("/purged")).is_none() && bench.get(&get("/kept")).is_some());
    // The disk stores, so it is tried again at once, and in vain; the cache works.
    bench.store(&get("/after"), FRESH, b"abc");
    until("it to be tried again", || bench.cache.statistics().errors > 1);
    assert_eq!((bench.cache.problem(), of(&bench)), (None, (2, used / 2 * 3, 1)));
    // Later nothing but time is needed.
    shared.folder.faults.plan(None);
    locked(&shared.leftovers).hurry();
    until("it is deleted", || of(&bench) == (2, used, 0));
    assert_tidy(&bench, "then");
    let errors = bench.cache.statistics().errors;
    assert!((2..10).contains(&errors), "{errors} errors");
}

#[test]
fn a_folder_does_not_grow_past_its_size_when_nothing_can_be_deleted() {
    let bench = Bench::with(|settings| settings.size = 10 * 8192);
    for number in 0..10 {
        bench.store(&get(&format!("/{number}")), FRESH, b"abc");
    }
    let shared = bench.cache.shared();
    shared.folder.faults.plan(Some((0, Fault::Undeletable)));
    for number in 10..13 {
        let before = bench.cache.statistics().given_up;
        bench.fill(&get(&format!("/{number}")), FRESH, b"abc");
        until("it is not stored", || bench.cache.statistics().given_up > before);
        shared.error.end_pause();
    }
    // Each one costs one object, and its content stays too.
    let now = bench.cache.statistics();
    assert_eq!((now.objects, now.stored, now.undeleted), (7, 10, 6));
    assert_eq!(now.disk_bytes, 10 * 8192 + 3 * 4096);
    shared.folder.faults.plan(None);
    locked(&shared.leftovers).hurry();
    until("all of it is deleted", || bench.cache.statistics().undeleted == 0);
    assert_eq!(bench.cache.statistics().disk_bytes, 7 * 8192);
    bench.store(&get("/after"), FRESH, b"abc");
    assert_tidy(&bench, "then");
}

#[test]
fn clients_go_on_when_the_disk_is_full() {
    let bench = Bench::new();
    bench.cache.shared().folder.faults.plan(Some((2, Fault::Full)));
    let head = get("/");
    let mut filler = bench.begin(&head);
    let Begin::Follow(mut follower) = bench.cache.begin(&key(&head), &head, true) else {
        panic!("a fill runs")
    };
    let own = filler.head(&head, &response(FRESH), &Policy::default(), times()).expect("it is to be stored");
    let Followed::Hit(hit) = wait(|waker| follower.poll(&head, waker)) else { panic!("it is for all") };
    let mut readers = [own.reader(0..u64::MAX), hit.reader(0..u64::MAX)];
    let (mut received, mut is_stored) = ([Vec::new(), Vec::new()], true);
    // Both read what is there, and then the filler brings more.
    let mut read = |most: usize| {
        for (reader, received) in readers.iter_mut().zip(&mut received) {
            while received.len() < most {
                let mut buffer = vec![0; 65_536];
                let length =
                    wait(|waker| poll_read(reader, &mut buffer, waker)).expect("they are not cut off");
                received.extend_from_slice(&buffer[..length]);
            }
        }
    };
    let all = content(3_000_000);
    for (number, piece) in all.chunks(50_000).enumerate() {
        is_stored &= wait(|waker| filler.poll_put(piece, waker));
        read((number + 1) * 50_000);
    }
    assert!(!is_stored && !filler.is_over(), "the filler learns it, and that it is still read");
    assert!(!filler.end());
    let mut buffer = [0];
    assert!(readers.iter_mut().all(|reader| wait(|waker| poll_read(reader, &mut buffer, waker)) == Ok(0)));
    assert!(received.iter().all(|received| *received == all));
}

#[test]
fn what_is_not_stored_waits_for_its_slowest_reader_and_for_nobody_else() {
    let bench = Bench::new();
    bench.cache.shared().folder.faults.plan(Some((2, Fault::Full)));
    let head = get("/");
    let mut filler = bench.begin(&head);
    let own = filler.head(&head, &response(FRESH), &Policy::default(), times()).expect("it is to be stored");
    let mut reader = own.reader(0..u64::MAX);
    let piece = [7; 50_000];
    let mut put = 0;
    until("the memory to be full, after the disk", || {
        let is_full = filler.poll_put(&piece, std::task::Waker::noop()).is_pending();
        put += 1;
        assert!(put < 1_000_000, "what is kept in memory has a bound");
        is_full && bench.cache.statistics().errors > 0
    });
    let mut buffer = vec![0; 65_536];
    assert!(wait(|waker| poll_read(&mut reader, &mut buffer, waker)).is_ok_and(|length| length > 0));
    drop(reader);
    assert!(!wait(|waker| filler.poll_put(&piece, waker)));
    assert!(filler.is_over(), "no client reads it");
}
