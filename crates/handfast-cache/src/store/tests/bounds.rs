//! Tests that the cache never exceeds its limits.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::bench::{Bench, FRESH, NOW_MS, content, get, key, poll_read, times, until, wait};
use crate::rules::policy::Policy;
use crate::rules::tests::{request, response};
use crate::store::cache::Lookup;

/// Returns the disk space of the objects' files: bytes of whole blocks.
fn on_disk(bench: &Bench) -> u64 {
    let sizes = ["c", "h", "t"].into_iter().flat_map(|letter| bench.files(letter)).map(|path| {
        // A file may be deleted between the listing and this.
        std::fs::metadata(path).map_or(0, |metadata| metadata.len().div_ceil(4096) * 4096)
    });
    sizes.sum()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_disk_never_holds_more_than_the_size_and_what_is_being_received(
        size in 20_000_u64..400_000,
        objects in 1_usize..20,
        steps in proptest::collection::vec((0_u8..30, 0_usize..150_000), 1..40),
    ) {
        let bench = Bench::with(|settings| {
            settings.size = size;
            settings.objects = objects;
        });
        for (number, length) in steps {
            let before = bench.cache.statistics();
            bench.fill(&get(&format!("/{number}")), FRESH, &content(length));
            let running = (length as u64).div_ceil(4096) * 4096 + 8192;
            prop_assert!(on_disk(&bench) <= size + running, "while {} bytes are stored", length);
            until("the fill is over", || {
                let now = bench.cache.statistics();
                now.stored + now.given_up > before.stored + before.given_up
            });
            bench.idle();
            let now = bench.cache.statistics();
            prop_assert!(now.disk_bytes <= size && now.objects <= objects as u64, "{:?}", now);
            // An object that was given up is deleted a moment later.
            until("what is counted is there, and no more", || {
                now.disk_bytes == on_disk(&bench) && now.objects as usize == bench.files("c").len()
            });
        }
    }
}

#[test]
fn the_least_recently_used_goes_first() {
    let bench = Bench::with(|settings| settings.objects = 3);
    let store = |path: &str| bench.store(&get(path), FRESH, b"abc");
    let mut now_ms = NOW_MS;
    let mut touch = |path: &str| {
        now_ms += 1;
        matches!(bench.cache.lookup(&key(&get(path)), &get(path), &Policy::default(), now_ms), Lookup::Hit(_))
    };
    for path in ["/1", "/2", "/3"] {
        store(path);
        assert!(touch(path));
    }
    assert!(touch("/1"));
    store("/4");
    assert_eq!(["/1", "/2", "/3", "/4"].map(&mut touch), [true, false, true, true]);
    assert_eq!(bench.cache.statistics().evicted, 1);
}

#[test]
fn memory_for_heads_is_bounded() {
    let bench = Bench::with(|settings| settings.memory = 20_000);
    for number in 0..50 {
        let fields = format!("{FRESH}\nX-Long: {}", "x".repeat(1000));
        bench.store(&get(&format!("/{number}")), &fields, b"");
        let now = bench.cache.statistics();
        assert!(now.memory_bytes <= 20_000 && now.objects >= (number + 1).min(5), "{now:?}");
    }
}

#[test]
fn an_object_that_is_read_stays_readable_after_it_made_room() {
    let bench = Bench::with(|settings| settings.objects = 1);
    bench.store(&get("/old"), FRESH, &content(200_000));
    let Lookup::Hit(hit) = bench.lookup(&get("/old")) else { panic!("it is stored") };
    let mut reader = hit.reader(0..200_000);
    let mut text = vec![0; 1000];
    assert_eq!(wait(|waker| poll_read(&mut reader, &mut text, waker)), Ok(1000));
    bench.store(&get("/new"), FRESH, b"abc");
    assert!(bench.get(&get("/old")).is_none());
    assert_eq!(bench.files("c").len(), 1);
    let mut buffer = [0; 9999];
    while text.len() < 200_000 {
        let length = wait(|waker| poll_read(&mut reader, &mut buffer, waker)).expect("the file is open");
        text.extend_from_slice(&buffer[..length]);
    }
    assert!(text == content(200_000));
}

#[test]
fn what_is_larger_than_the_cache_is_not_stored_and_moves_nothing() {
    let bench = Bench::with(|settings| settings.size = 100_000);
    bench.store(&get("/"), FRESH, b"abc");
    bench.fill(&get("/large"), FRESH, &content(200_000));
    until("it is given up", || bench.cache.statistics().given_up == 1);
    assert!(bench.get(&get("/large")).is_none());
    assert!(bench.get(&get("/")).is_some());
}

#[test]
fn open_files_are_bounded() {
    let bench = Bench::with(|settings| settings.open_files = 4);
    for number in 0..20 {
        let head = get(&format!("/{number}"));
        bench.store(&head, FRESH, b"abc");
        assert!(bench.get(&head) == Some(Ok(b"abc".to_vec())));
    }
    assert_eq!(crate::store::lock::locked(&bench.cache.shared().open_files).len(), 4);
}

#[test]
fn a_smaller_cache_over_the_same_folder_deletes_what_is_too_much() {
    let bench = Bench::new();
    for number in 0..10 {
        bench.store(&get(&format!("/{number}")), FRESH, &content(10_000));
    }
    let folder = Arc::clone(&bench.folder);
    drop(bench);
    let bench = Bench::over(folder, |settings| settings.size = 60_000);
    assert!(on_disk(&bench) <= 60_000, "{}", on_disk(&bench));
    assert_eq!(bench.files("c").len() as u64, bench.cache.statistics().objects);
}

#[test]
fn a_cache_ends_at_once_whatever_runs() {
    let bench = Bench::with(|settings| settings.disk_timeout = Duration::from_secs(3600));
    let mut filler = bench.begin(&get("/"));
    let head = request("GET /\n");
    assert!(filler.head(&head, &response(FRESH), &Policy::default(), times()).is_ok());
    assert!(wait(|waker| filler.poll_put(b"abc", waker)));
    drop(bench);
    assert!(!wait(|waker| filler.poll_put(b"def", waker)), "its client goes on alone");
}
