//! Caches of services.

use super::*;

/// After that many requests, of which nine of ten were answered from the cache.
fn with_cache(requests: u64, problem: Option<&str>) -> Seen {
    let mut whole = status(1, 1_000);
    whole["caches"] = json!([{
        "service": "mirror", "folder": "/var/cache/mirror", "problem": problem, "objects": 1_204,
        "disk_bytes": 2_u64 << 30, "disk_bytes_limit": 50_u64 << 30,
        "requests": { "hit": requests / 10 * 8, "stale": requests / 10, "miss": requests / 20, "method": requests / 20 },
        "changes": { "evicted": requests / 10 }, "errors": 0, "bytes_read": requests * 1024,
        "disk": { "read": [requests, requests as f64 * 0.002] },
    }]);
    Seen::read(&whole.to_string()).expect("a status")
}

fn watched(counts: [u64; 2], problem: Option<&str>) -> Model {
    let mut model = Model::new("here".into());
    for (at, count) in [0.0, 10.0].into_iter().zip(counts) {
        model.answered(at, with_cache(count, problem));
    }
    key(&mut model, KeyCode::Char('9'));
    model
}

#[test]
fn caches_have_a_line_and_a_table() {
    let seen = text(&watched([1_000, 3_000], None), 200, 24);
    assert!(seen.contains("180/s of 200/s from caches, 90.0 %, 10.0/s of backends"), "{seen}");
    let row = seen.lines().find(|line| line.trim_start().starts_with("mirror ")).expect("a row");
    for expected in [
        "works",
        "1,204",
        "2.00 GiB of 50.0 GiB",
        "180/s",
        "90.0 %",
        "10.0/s",
        "200 KiB/s",
        "20.0/s",
        "2.00 ms",
    ] {
        assert!(row.contains(expected), "{expected}: {row}");
    }
}

#[test]
fn a_cache_that_does_not_work_reports_the_reason() {
    let seen = text(&watched([1_000, 3_000], Some("no space left")), 200, 24);
    let row = seen.lines().find(|line| line.trim_start().starts_with("mirror ")).expect("a row");
    assert!(row.contains("no space left"), "{row}");
}

#[test]
fn a_cache_that_was_opened_again_has_no_rates() {
    let seen = text(&watched([3_000, 1_000], None), 200, 24);
    assert!(seen.contains("– of – from caches, –, – of backends"), "{seen}");
}

#[test]
fn without_a_cache_there_is_no_line() {
    assert!(!text(&model(), 160, 24).contains("from caches"));
}
