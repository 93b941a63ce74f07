//! Tests of content in a coding: kept once, for the object that it is made of and no other.

use super::bench::{Bench, FRESH, NOW_MS, content, get, key, poll_read, times, until, wait};
use crate::rules::policy::Policy;
use crate::rules::tests::response;
use crate::store::cache::Lookup;
use crate::store::coded::Coded;
use crate::store::hit::Hit;
use crate::store::purge::Purge;
use crate::store::reader::Reader;

fn hit(bench: &Bench) -> Hit {
    match bench.lookup(&get("/")) {
        Lookup::Hit(hit) | Lookup::Stale(hit, _) => hit,
        _ => panic!("it is stored"),
    }
}

/// Codes it; whether it was to be kept.
fn code(bench: &Bench, coding: &str, coded: &[u8]) -> bool {
    let before = bench.cache.statistics().stored;
    let Coded::Missing(mut filler) = hit(bench).coded(coding, NOW_MS) else { return false };
    assert!(coded.chunks(7777).all(|piece| filler.put(piece)));
    filler.end();
    until("it is stored", || bench.cache.statistics().stored > before);
    true
}

fn text(mut reader: Reader) -> Vec<u8> {
    wait(|waker| reader.poll_ready(waker)).expect("it can be read");
    let (mut text, mut buffer) = (Vec::new(), [0; 7777]);
    loop {
        match wait(|waker| poll_read(&mut reader, &mut buffer, waker)).expect("it can be read") {
            0 => return text,
            length => text.extend_from_slice(&buffer[..length]),
        }
    }
}

fn found(bench: &Bench, coding: &str) -> Option<Vec<u8>> {
    match hit(bench).coded(coding, NOW_MS) {
        Coded::Stored(reader, size) => Some(text(reader)).filter(|text| text.len() as u64 == size),
        Coded::Missing(_) | Coded::NotKept => None,
    }
}

#[test]
fn it_is_kept_for_its_coding_also_by_the_next_process() {
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, &content(300_000));
    let coded = content(100_001);
    assert!(code(&bench, "gzip-5", &coded));
    assert!(found(&bench, "gzip-5").as_deref() == Some(&coded));
    assert_eq!((found(&bench, "gzip-6"), found(&bench, "br-5")), (None, None));
    assert!(bench.get(&get("/")) == Some(Ok(content(300_000))), "the object is what it was");
    let bench = bench.reopened();
    assert!(found(&bench, "gzip-5").as_deref() == Some(&coded));
}

#[test]
fn one_request_codes_it_and_what_it_does_not_end_is_not_kept() {
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, &content(3000));
    let Coded::Missing(mut first) = hit(&bench).coded("br-4", NOW_MS) else { panic!("it is missing") };
    assert!(first.put(b"half of"));
    assert!(matches!(hit(&bench).coded("br-4", NOW_MS), Coded::NotKept), "another one codes it");
    drop(first);
    bench.idle();
    assert!(code(&bench, "br-4", b"all of it"), "the next one");
    assert_eq!(found(&bench, "br-4").as_deref(), Some(&b"all of it"[..]));
    assert_eq!(bench.cache.statistics().objects, 2);
}

/// A 304 leaves the content as it is; another response has another.
#[test]
fn it_ends_with_the_object_that_it_is_made_of() {
    let bench = Bench::new();
    let revalidated = "Cache-Control: max-age=0\nETag: \"a\"";
    bench.store(&get("/"), revalidated, b"old");
    assert!(code(&bench, "zstd-3", b"coded old"));
    let stale = hit(&bench);
    let filler = bench.begin(&get("/"));
    let confirmed = response("304 Not Modified\nCache-Control: max-age=0\nX-A: 2");
    drop(bench.cache.unchanged(&stale, &get("/"), &confirmed, &Policy::default(), times()));
    filler.restart_followers();
    assert_eq!(found(&bench, "zstd-3").as_deref(), Some(&b"coded old"[..]));
    bench.store(&get("/"), revalidated, b"new");
    assert_eq!(found(&bench, "zstd-3"), None);
    assert!(code(&bench, "zstd-3", b"coded new"));
    assert_eq!(found(&bench, "zstd-3").as_deref(), Some(&b"coded new"[..]));
}

#[test]
fn a_purge_of_the_url_removes_it_too() {
    let bench = Bench::new();
    bench.store(&get("/"), FRESH, b"text");
    assert!(code(&bench, "gzip-5", b"coded"));
    let url = String::from_utf8_lossy(key(&get("/")).url()).into_owned();
    assert_eq!(bench.cache.purge(Purge::Url(&url)), 2);
    bench.idle();
    assert_eq!((bench.files("c").len(), bench.files("h").len()), (0, 0));
}
