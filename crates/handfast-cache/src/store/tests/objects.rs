//! Tests that stored objects are returned, updated, purged and listed.

use super::bench::{Bench, FRESH, NOW_MS, content, get, key, times};
use super::faults::Fault;
use crate::rules::policy::Policy;
use crate::rules::reuse::Bypass;
use crate::rules::tests::{request, response};
use crate::store::cache::{Begin, Lookup};
use crate::store::filler::Filler;
use crate::store::purge::Purge;
use crate::store::reader::ReadError;

#[test]
fn what_was_stored_is_read_back_also_by_the_next_process() {
    let mut bench = Bench::new();
    let sizes = [0, 1, 65_535, 65_536, 65_537, 300_000];
    for size in sizes {
        bench.store(&get(&format!("/{size}")), FRESH, &content(size));
    }
    for _ in 0..2 {
        for size in sizes {
            assert!(bench.get(&get(&format!("/{size}"))) == Some(Ok(content(size))), "{size} bytes");
        }
        let part = request("GET /300000\nRange: bytes=65530-131080");
        assert!(
            bench.get(&part) == Some(Ok(content(300_000)[65_530..=131_080].to_vec())),
            "a part over three blocks"
        );
        assert_eq!(bench.cache.statistics().objects, sizes.len() as u64);
        bench = bench.reopened();
    }
    assert_eq!(bench.files("t").len(), 0);
}

#[test]
fn a_head_keeps_all_that_the_rules_need() {
    let bench = Bench::new();
    let fields = "Cache-Control: max-age=9, stale-while-revalidate=7, stale-if-error=8\nAge: 3\nETag: \"a\"\nVary: Foo\nCache-Tag: x\n\
                  Content-Language: de\nLast-Modified: Fri, 15 Jan 2027 07:00:00 GMT";
    let head = request("GET /\nFoo: 1, 2");
    bench.store(&head, fields, b"abc");
    let known = |bench: &Bench| match bench.lookup(&head) {
        Lookup::Hit(hit) => hit.stored().clone(),
        _ => panic!("it is stored"),
    };
    let before = known(&bench);
    assert_eq!(
        (before.lifetime, before.stale_while_revalidate, before.stale_if_error, before.initial_age),
        (9, Some(7), Some(8), 3)
    );
    assert_eq!(known(&bench.reopened()), before);
}

#[test]
fn a_304_updates_what_is_stored_for_this_process_and_the_next() {
    let bench = Bench::new();
    let head = get("/");
    bench.store(&head, "Cache-Control: max-age=0\nETag: \"a\"\nX-A: 1", b"abc");
    let Lookup::Stale(stale, _) = bench.lookup(&head) else { panic!("it is stale") };
    assert_eq!(stale.conditions(), [("If-None-Match", b"\"a\"".to_vec())]);
    let filler = bench.begin(&head);
    let fresh = bench.cache.unchanged(
        &stale,
        &head,
        &response("304 Not Modified\nCache-Control: max-age=60\nX-A: 2"),
        &Policy::default(),
        times(),
    );
    filler.restart_followers();
    assert!(String::from_utf8_lossy(&fresh.answer(&head, NOW_MS).head).contains("X-A: 2"));
    assert!(bench.get(&head) == Some(Ok(b"abc".to_vec())), "it is fresh now");
    // The head is written by a thread: the next process finds it when it is there.
    super::bench::until("the head is written", || {
        bench.files("h").iter().any(|path| {
            let text = std::fs::read(path).unwrap_or_default();
            text.windows(6).any(|part| part == b"X-A: 2")
        })
    });
    let bench = bench.reopened();
    assert!(bench.get(&head) == Some(Ok(b"abc".to_vec())), "it is fresh for the next process");
    assert_eq!(bench.files("t").len(), 0);
}

#[test]
fn a_304_that_forbids_to_store_ends_the_object_after_this_answer() {
    let bench = Bench::new();
    let head = get("/");
    bench.store(&head, "Cache-Control: max-age=0\nETag: \"a\"", b"abc");
    let Lookup::Stale(stale, _) = bench.lookup(&head) else { panic!("it is stale") };
    let answer = response("304 Not Modified\nCache-Control: no-store");
    let hit = bench.cache.unchanged(&stale, &head, &answer, &Policy::default(), times());
    assert!(
        super::bench::read(&hit, &head) == Ok(b"abc".to_vec())
            || super::bench::read(&hit, &head) == Err(ReadError::Broken)
    );
    assert!(matches!(bench.lookup(&head), Lookup::Miss(_)));
}

#[test]
fn head_updates_and_unsafe_methods_invalidate() {
    let bench = Bench::new();
    let observe = |head: &handfast_http::http1::RequestHead<'_>, answer: &str| {
        bench.cache.observe(&key(head), head, &response(answer), &Policy::default(), times());
    };
    bench.store(&get("/"), "Cache-Control: max-age=0\nETag: \"a\"", b"abc");
    observe(&request("HEAD /"), "Cache-Control: max-age=60\nContent-Length: 3");
    assert!(bench.get(&get("/")) == Some(Ok(b"abc".to_vec())), "HEAD made it fresh");
    observe(&request("POST /\nContent-Length: 0"), "500 Error");
    assert!(bench.get(&get("/")).is_some(), "a failed request changes nothing");
    observe(&request("POST /other\nContent-Length: 0"), "303 See\nLocation: /");
    assert!(bench.get(&get("/")).is_none(), "it was named in Location");
    bench.store(&get("/"), FRESH, b"abc");
    observe(&request("HEAD /"), "Cache-Control: max-age=60\nContent-Length: 4");
    assert!(bench.get(&get("/")).is_none(), "HEAD showed another length");
}

#[test]
fn variants_are_kept_side_by_side_up_to_a_number() {
    let bench = Bench::with(|settings| settings.variants = 2);
    let variant = |value: &str| request(&format!("GET /\nFoo: {value}"));
    for value in ["1", "2", "3", "3"] {
        bench.store(&variant(value), "Cache-Control: max-age=60\nVary: Foo", value.as_bytes());
    }
    assert!(bench.get(&variant("1")).is_none(), "the oldest made room");
    for value in ["2", "3"] {
        assert!(bench.get(&variant(value)) == Some(Ok(value.as_bytes().to_vec())), "variant {value}");
    }
    bench.idle();
    assert_eq!((bench.files("c").len(), bench.files("h").len()), (2, 2));
}

#[test]
fn purges_are_exact_and_files_go_with_them() {
    let bench = Bench::new();
    for (path, tag) in [("/a/1", "x"), ("/a/2", "y"), ("/b", "x"), ("/a", "z"), ("/a?q", "z")] {
        bench.store(&get(path), &format!("{FRESH}\nCache-Tag: {tag}, all"), b"abc");
    }
    let paths = |bench: &Bench| {
        let mut urls: Vec<String> =
            bench.cache.list("", 99, NOW_MS).into_iter().map(|listed| listed.url).collect();
        urls.sort_unstable();
        urls.join(" ").replace("https://example.com", "")
    };
    assert_eq!(paths(&bench), "/a /a/1 /a/2 /a?q /b");
    for (what, number, rest) in [
        (Purge::Url("https://EXAMPLE.com:443/a"), 1, "/a/1 /a/2 /a?q /b"),
        (Purge::Prefix("https://example.com/a/2"), 1, "/a/1 /a?q /b"),
        (Purge::Tag("X"), 2, "/a?q"),
        (Purge::Tag("al"), 0, "/a?q"),
        (Purge::Prefix(""), 1, ""),
    ] {
        assert_eq!((bench.cache.purge(what), paths(&bench).as_str()), (number, rest), "{what:?}");
    }
    bench.idle();
    assert_eq!((bench.files("c").len(), bench.files("h").len()), (0, 0));
    let statistics = bench.cache.statistics();
    assert_eq!((statistics.objects, statistics.disk_bytes, statistics.memory_bytes), (0, 0, 0));
}

#[test]
fn a_fill_that_began_before_a_purge_is_not_stored() {
    for what in [Purge::Url("https://example.com/"), Purge::Prefix("https://example.com"), Purge::Tag("x")] {
        let bench = Bench::new();
        let mut filler = bench.begin(&get("/"));
        let fields = format!("{FRESH}\nCache-Tag: x");
        assert!(filler.head(&get("/"), &response(&fields), &Policy::default(), times()).is_ok());
        bench.cache.purge(what);
        assert!(
            matches!(bench.cache.begin(&key(&get("/")), &get("/"), true), Begin::Fill(_)),
            "no request follows it"
        );
        assert!(super::bench::wait(|waker| filler.poll_put(b"abc", waker)));
        filler.end();
        super::bench::until("it is given up", || bench.cache.statistics().given_up == 1);
        assert!(bench.get(&get("/")).is_none(), "{what:?}");
        assert_eq!(bench.files("h").len(), 0);
    }
}

#[test]
fn a_purge_by_tag_is_for_fills_that_have_it_or_may_have_it() {
    let bench = Bench::new();
    let (mut other, mut unknown) = (bench.begin(&get("/other")), bench.begin(&get("/unknown")));
    let fields = format!("{FRESH}\nCache-Tag: y");
    let head = |filler: &mut Filler, path| {
        assert!(filler.head(&get(path), &response(&fields), &Policy::default(), times()).is_ok());
    };
    head(&mut other, "/other");
    bench.cache.purge(Purge::Tag("x"));
    head(&mut unknown, "/unknown");
    for (mut filler, path, is_stored) in [(other, "/other", true), (unknown, "/unknown", false)] {
        assert!(super::bench::wait(|waker| filler.poll_put(b"abc", waker)));
        filler.end();
        bench.idle();
        assert_eq!(bench.get(&get(path)).is_some(), is_stored, "{path}");
    }
}

#[test]
fn what_is_not_storable_is_remembered_so_that_no_request_waits() {
    let bench = Bench::new();
    assert!(!bench.fill(&get("/"), "Cache-Control: private", b""));
    assert!(matches!(bench.lookup(&get("/")), Lookup::Bypass(Bypass::NotStorable)));
    let later = bench.cache.lookup(&key(&get("/")), &get("/"), &Policy::default(), NOW_MS + 10_001);
    assert!(matches!(later, Lookup::Miss(_)), "for ten seconds");
    assert!(!bench.fill(&get("/503"), "503 Unavailable", b""));
    assert!(
        matches!(bench.lookup(&get("/503")), Lookup::Miss(_)),
        "a failure says nothing of the next response"
    );
}

#[test]
fn a_response_that_is_not_stored_ends_the_one_before_it_unless_it_is_a_failure() {
    for (answer, is_there) in [
        ("Cache-Control: private", false),
        ("404 Not Found", false),
        ("503 Unavailable", true),
        ("401 Unauthorized\nETag: \"b\"", true),
    ] {
        let bench = Bench::new();
        bench.store(&get("/"), "Cache-Control: max-age=0\nETag: \"a\"", b"abc");
        assert!(!bench.fill(&get("/"), answer, b""));
        assert_eq!(matches!(bench.lookup(&get("/")), Lookup::Stale(..)), is_there, "{answer}");
    }
}

#[test]
fn a_304_for_a_request_with_authorization_changes_nothing_for_others() {
    let bench = Bench::new();
    bench.store(&get("/"), "Cache-Control: max-age=0\nETag: \"a\"", b"abc");
    let head = request("GET /\nAuthorization: x");
    let Lookup::Stale(stale, _) = bench.lookup(&head) else { panic!("it is stale") };
    let answer = response("304 Not Modified\nCache-Control: max-age=60\nX-Secret: 1");
    let hit = bench.cache.unchanged(&stale, &head, &answer, &Policy::default(), times());
    assert_eq!(super::bench::read(&hit, &head), Ok(b"abc".to_vec()));
    let Lookup::Stale(stale, _) = bench.lookup(&get("/")) else { panic!("it is stale still") };
    assert!(!String::from_utf8_lossy(&stale.answer(&get("/"), NOW_MS).head).contains("X-Secret"));
}

#[test]
fn an_exact_variant_goes_before_one_in_the_preferred_language() {
    let bench = Bench::new();
    let head = |languages: &str| request(&format!("GET /\nAccept-Language: {languages}"));
    let fields = |language: &str| format!("{FRESH}\nVary: Accept-Language\nContent-Language: {language}");
    bench.store(&head("de, fr;q=0.5"), &fields("fr"), b"exact");
    bench.store(&head("en, de"), &fields("de"), b"preferred");
    assert!(bench.get(&head("de, fr;q=0.5")) == Some(Ok(b"exact".to_vec())));
    assert!(bench.get(&head("de, it;q=0.5")) == Some(Ok(b"preferred".to_vec())));
}

#[test]
fn a_purge_while_an_object_gets_its_name_removes_it() {
    let bench = Bench::new();
    let faults = &bench.cache.shared().folder.faults;
    // Content: create, write, sync; head: create, write, sync, rename.
    const RENAME: u64 = 6;
    faults.plan(Some((RENAME, Fault::Hang)));
    assert!(bench.fill(&get("/"), FRESH, b"abc"));
    super::bench::until("the head is to be renamed", || faults.steps() > RENAME);
    assert_eq!(bench.files("t").len(), 1);
    assert_eq!(bench.cache.purge(Purge::Prefix("")), 0, "there is no object yet");
    faults.end_hang();
    super::bench::until("it is stored", || bench.cache.statistics().stored == 1);
    assert!(bench.get(&get("/")).is_none());
    bench.idle();
    assert_eq!((bench.files("c").len(), bench.files("h").len()), (0, 0));
}

#[test]
fn an_older_response_does_not_replace_a_newer_one() {
    let bench = Bench::new();
    let head = get("/");
    let mut slow = bench.begin(&head);
    bench.cache.shared().index.remove_fill(&bench.cache.shared().running_fills()[0]);
    bench.store(&head, FRESH, b"newer");
    let earlier = crate::rules::stored::Times { requested_ms: NOW_MS - 9, received_ms: NOW_MS - 1 };
    assert!(slow.head(&head, &response(FRESH), &Policy::default(), earlier).is_ok());
    assert!(super::bench::wait(|waker| slow.poll_put(b"older", waker)) && slow.end());
    super::bench::until("it was looked at", || bench.cache.statistics().stored == 2);
    assert!(bench.get(&head) == Some(Ok(b"newer".to_vec())));
    assert_eq!((bench.files("c").len(), bench.cache.statistics().objects), (1, 1));
}
