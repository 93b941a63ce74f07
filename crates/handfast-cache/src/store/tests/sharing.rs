//! One response for many requests: followers, variants, what breaks off.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};

use super::bench::{Bench, FRESH, NOW_MS, content, get, key, poll_read, read, times, until, wait};
use super::faults::Fault;
use crate::rules::policy::Policy;
use crate::rules::tests::{request, response};
use crate::store::cache::{Begin, Lookup};
use crate::store::filler::{Followed, Follower};
use crate::store::reader::ReadError;

fn follower(bench: &Bench, path: &str) -> Follower {
    match bench.cache.begin(&key(&get(path)), &get(path), true) {
        Begin::Follow(follower) => follower,
        Begin::Fill(_) | Begin::Alone => panic!("a fill runs"),
    }
}

fn word(followed: &Followed) -> &'static str {
    match followed {
        Followed::Hit(_) => "hit",
        Followed::Repeat => "look again",
        Followed::OtherVariant => "other variant",
        Followed::Alone => "alone",
        Followed::Failed => "failed",
    }
}

#[test]
fn a_thousand_requests_for_one_missing_object_are_one_fill() {
    const READERS: usize = 1000;
    const THREADS: usize = 10;
    let bench = Bench::new();
    let text = content(200_000);
    let fills = AtomicU64::new(0);
    let barrier = Barrier::new(THREADS);
    // A lookup just before the object is in the index, and `begin` just after it, would be a second fill: not in this test.
    bench.cache.shared().folder.faults.plan(Some((0, Fault::Hang)));
    let client = || {
        let head = get("/");
        let hit = match bench.lookup(&head) {
            Lookup::Hit(hit) => hit,
            _ => match bench.cache.begin(&key(&head), &head, true) {
                Begin::Fill(mut filler) => {
                    fills.fetch_add(1, Ordering::Relaxed);
                    let hit = filler
                        .head(&head, &response(FRESH), &Policy::default(), times())
                        .expect("it is stored");
                    for piece in text.chunks(999) {
                        assert!(wait(|waker| filler.poll_put(piece, waker)));
                    }
                    assert!(filler.end());
                    hit
                }
                Begin::Follow(mut follower) => match wait(|waker| follower.poll(&head, waker)) {
                    Followed::Hit(hit) => hit,
                    other => panic!("{}", word(&other)),
                },
                Begin::Alone => panic!("a fill or an object is there"),
            },
        };
        assert!(read(&hit, &head) == Ok(text.clone()));
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                barrier.wait();
                (0..READERS / THREADS).for_each(|_| client());
            });
        }
    });
    assert_eq!(fills.load(Ordering::Relaxed), 1);
    bench.cache.shared().folder.faults.end_hang();
    until("it is stored", || bench.cache.statistics().stored == 1);
}

#[test]
fn followers_receive_what_came_of_the_request() {
    let rows = [
        (FRESH, "hit"),
        ("Cache-Control: private", "alone"),
        ("Cache-Control: no-cache\nETag: \"a\"", "alone"),
        ("Cache-Control: max-age=60\nVary: Foo", "hit"),
        ("503 Unavailable", "alone"),
    ];
    for (fields, expected) in rows {
        let bench = Bench::new();
        let mut filler = bench.begin(&get("/"));
        let mut follower = follower(&bench, "/");
        assert!(follower.poll(&get("/"), Waker::noop()).is_pending());
        let _stored = filler.head(&get("/"), &response(fields), &Policy::default(), times());
        assert_eq!(word(&wait(|waker| follower.poll(&get("/"), waker))), expected, "{fields}");
    }
    let bench = Bench::new();
    let filler = bench.begin(&get("/"));
    let mut first = follower(&bench, "/");
    drop(filler);
    assert_eq!(word(&wait(|waker| first.poll(&get("/"), waker))), "failed");
    let filler = bench.begin(&get("/"));
    let mut first = follower(&bench, "/");
    filler.restart_followers();
    assert_eq!(word(&wait(|waker| first.poll(&get("/"), waker))), "look again");
}

#[test]
fn a_follower_of_another_variant_is_notified() {
    let bench = Bench::new();
    let (one, two) = (request("GET /\nFoo: 1"), request("GET /\nFoo: 2"));
    let mut filler = bench.begin(&one);
    let Begin::Follow(mut follower) = bench.cache.begin(&key(&two), &two, true) else {
        panic!("the head is unknown")
    };
    assert!(matches!(bench.cache.begin(&key(&two), &two, false), Begin::Alone), "it does not want to wait");
    assert!(
        filler
            .head(&one, &response("Cache-Control: max-age=60\nVary: Foo"), &Policy::default(), times())
            .is_ok()
    );
    assert_eq!(word(&wait(|waker| follower.poll(&two, waker))), "other variant");
    assert!(matches!(bench.cache.begin(&key(&two), &two, true), Begin::Fill(_)), "a separate fill");
}

#[test]
fn readers_of_a_fill_that_breaks_off_are_aborted_and_nothing_is_stored() {
    for is_short in [false, true] {
        let bench = Bench::new();
        let mut filler = bench.begin(&get("/"));
        let fields = format!("{FRESH}\nContent-Length: 200000");
        let hit =
            filler.head(&get("/"), &response(&fields), &Policy::default(), times()).expect("it is stored");
        let mut reader = hit.reader(0..200_000);
        let mut buffer = [0; 1000];
        assert!(poll_read(&mut reader, &mut buffer, Waker::noop()).is_pending());
        assert!(wait(|waker| filler.poll_put(&content(100_000), waker)));
        assert_eq!(wait(|waker| poll_read(&mut reader, &mut buffer, waker)), Ok(1000));
        if is_short {
            assert!(!filler.end(), "half of the announced length");
        } else {
            drop(filler);
        }
        let end = loop {
            match wait(|waker| poll_read(&mut reader, &mut buffer, waker)) {
                Ok(length) => assert!(length > 0, "it must not look complete"),
                Err(error) => break error,
            }
        };
        assert_eq!(end, ReadError::Aborted);
        assert!(bench.get(&get("/")).is_none());
        until("the file is deleted", || bench.files("c").is_empty());
        assert_eq!(bench.cache.statistics().stored, 0);
    }
}

#[test]
fn more_than_announced_or_permitted_is_not_stored_but_goes_on() {
    for fields in [format!("{FRESH}\nContent-Length: 5"), FRESH.into()] {
        let bench = Bench::new();
        let policy = Policy { object_limit: 9, ..Policy::default() };
        let mut filler = bench.begin(&get("/"));
        assert!(filler.head(&get("/"), &response(&fields), &policy, times()).is_ok());
        assert!(wait(|waker| filler.poll_put(b"01234", waker)));
        for _ in 0..3 {
            assert!(!wait(|waker| filler.poll_put(b"56789", waker)));
        }
        assert!(!filler.end());
        assert!(bench.get(&get("/")).is_none());
        until("the file is deleted", || bench.files("c").is_empty());
        assert_eq!(bench.cache.statistics().given_up, 1);
    }
}

#[test]
fn a_hit_is_served_while_it_is_revalidated_and_one_client_does_that() {
    let bench = Bench::new();
    let head = get("/");
    bench.store(&head, "Cache-Control: max-age=5, stale-while-revalidate=60", b"old");
    let later = NOW_MS + 6000;
    let lookup = || bench.cache.lookup(&key(&head), &head, &Policy::default(), later);
    let Lookup::Hit(hit) = lookup() else { panic!("stale, but permitted") };
    assert_eq!(hit.verdict(), crate::Verdict::WhileRevalidated);
    let filler = bench.begin(&head);
    assert!(matches!(bench.cache.begin(&key(&head), &head, true), Begin::Follow(_)), "one request is enough");
    assert!(matches!(lookup(), Lookup::Hit(_)));
    drop(filler);
    assert!(matches!(wait(|_| Poll::Ready(bench.cache.begin(&key(&head), &head, true))), Begin::Fill(_)));
}

#[test]
fn what_was_received_is_found_before_it_is_on_the_disk() {
    let bench = Bench::new();
    let faults = &bench.cache.shared().folder.faults;
    faults.plan(Some((0, Fault::Hang)));
    assert!(bench.fill(&get("/fresh"), FRESH, b"abc"));
    assert!(bench.fill(&get("/stale"), "Cache-Control: no-cache\nETag: \"a\"", b"abc"));
    assert!(bench.fill(&get("/purged"), FRESH, b"abc"));
    assert!(bench.get(&get("/fresh")) == Some(Ok(b"abc".to_vec())));
    assert!(bench.get(&request("GET /fresh\nRange: bytes=1-")) == Some(Ok(b"bc".to_vec())));
    let Lookup::Stale(stale, _) = bench.lookup(&get("/stale")) else { panic!("it is to be validated") };
    assert_eq!(stale.conditions(), [("If-None-Match", b"\"a\"".to_vec())]);
    bench.cache.invalidate(&key(&get("/purged")));
    assert!(matches!(bench.lookup(&get("/purged")), Lookup::Miss(_)));
    faults.end_hang();
    until("two are stored", || bench.cache.statistics().stored == 2);
    // Confirmed when it is an object: that one is updated.
    let answer = response(&format!("304 Not Modified\n{FRESH}"));
    let hit = bench.cache.unchanged(&stale, &get("/stale"), &answer, &Policy::default(), times());
    assert!(read(&hit, &get("/stale")) == Ok(b"abc".to_vec()));
    assert!(bench.get(&get("/stale")) == Some(Ok(b"abc".to_vec())));
}

#[test]
fn a_request_that_demands_the_origin_gets_no_earlier_response() {
    let bench = Bench::new();
    let demanding = request("GET /\nCache-Control: no-cache");
    let mut filler = bench.begin(&get("/"));
    assert!(filler.head(&get("/"), &response(FRESH), &Policy::default(), times()).is_ok());
    assert!(
        matches!(bench.cache.begin(&key(&demanding), &demanding, false), Begin::Fill(_)),
        "while it is received"
    );
    let faults = &bench.cache.shared().folder.faults;
    faults.plan(Some((0, Fault::Hang)));
    assert!(filler.end());
    assert!(matches!(bench.lookup(&demanding), Lookup::Stale(_, crate::Forwarded::Request)));
    assert!(
        matches!(bench.cache.begin(&key(&demanding), &demanding, false), Begin::Fill(_)),
        "when it was received"
    );
}
