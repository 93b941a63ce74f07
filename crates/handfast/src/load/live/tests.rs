//! Pictures as text.

use handfast_load::Plan;
use handfast_load::cause::{Cause, Step};
use handfast_load::sample::{Failures, Interval, Series, ThreadUse};

use handfast_stats::Histogram;

use super::*;
use crate::load::progress::Progress;

const PLAIN: Look = Look { color: false, unicode: false, terminal: false };

fn frame(progress: &Progress, width: usize, height: usize, look: Look) -> Vec<String> {
    super::frame(progress, width, height, look)
        .into_iter()
        .map(|row| row.cut_to(width).fit_for(look).bytes())
        .collect()
}

fn second(number: u32, transactions: u64) -> Interval {
    let mut interval = Interval { second: number, ..Interval::default() };
    interval.tally.transactions = transactions;
    interval.tally.full = transactions;
    interval.tally.open = 32;
    let mut total = Histogram::new();
    total.record_nanos(1_200_000);
    total.record_nanos(3_400_000);
    interval.series.insert(Series::Total, total);
    let mut lag = Histogram::new();
    lag.record_nanos(20_000);
    interval.series.insert(Series::Lag, lag);
    interval.threads = vec![
        ThreadUse { busy_ns: 450_000_000, starved_ns: 0, wall_ns: 1_000_000_000, ..ThreadUse::default() },
        ThreadUse {
            busy_ns: 520_000_000,
            starved_ns: 20_000_000,
            wall_ns: 1_000_000_000,
            ..ThreadUse::default()
        },
    ];
    interval
}

fn progress() -> Progress {
    let mut progress = Progress::new(&Plan::default(), String::new());
    for (number, transactions) in [(0, 1000), (1, 2000), (2, 4000)] {
        progress.add(&second(number, transactions), false);
    }
    progress
}

#[test]
fn a_picture_says_how_it_goes() {
    let rows = frame(&progress(), 90, 24, PLAIN);
    let expected = [
        "localhost:8443, 32 connections",
        "[###############-----------------------------------] 3 s of 10 s, 7 s left",
        "rate             4,000/s  mean 2,333/s (transactions)  -=#",
        "total        p50  1.20 ms p90  3.40 ms p99  3.40 ms max  3.40 ms  so far",
        "             p50  1.20 ms p90  3.40 ms p99  3.40 ms max  3.40 ms  last second",
        "errors                 0",
        "handshakes         7,000 full, 0 resumed",
        "generator    cpu 52 % 45 %  lag p99 20.0 us  waiting for cpu 1.0 %",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn before_the_first_second_it_says_what_is_prepared() {
    let mut progress = Progress::new(&Plan::default(), "step 1".into());
    let preparing = "preparing: one transaction to see that it works; then the first second";
    assert_eq!(frame(&progress, 79, 24, PLAIN), ["localhost:8443, 32 connections; step 1", preparing]);
    progress.run.wanted_resumed = 0.5;
    for height in 0..3 {
        let rows = frame(&progress, 60, height, PLAIN);
        assert_eq!(rows.len(), height);
        assert!(rows.last().is_none_or(|row| row.contains("works, tickets") && row.len() <= 60), "{rows:?}");
    }
    progress.add(&second(0, 10), false);
    assert!(frame(&progress, 79, 24, PLAIN).len() > 5);
}

#[test]
fn what_goes_wrong_is_in_it() {
    let mut progress = progress();
    progress.run.wanted_resumed = 0.7;
    let mut interval = second(3, 100);
    interval.tally.resumed = 60;
    interval.tally.queued = 12;
    for (step, cause, count) in [(Step::Connect, Cause::Refused, 5), (Step::Handshake, Cause::Deadline, 1200)]
    {
        let failures = Failures { step, cause, count, examples: Vec::new() };
        interval.failures.push(failures);
    }
    progress.add(&interval, false);
    let rows = frame(&progress, 100, 24, PLAIN).join("\n");
    for words in [
        "errors             1,205  1,205 in the last second; most often: handshake deadline (1,200)",
        "7,100 full, 60 resumed (0.84 % of them; 70 % wanted)",
        "connections           12 starts had to wait for a free one",
    ] {
        assert!(rows.contains(words), "{rows}");
    }
}

#[test]
fn it_fits_every_terminal() {
    let progress = progress();
    for width in [0, 1, 5, 11, 20, 40, 79, 300] {
        for height in [0, 1, 2, 5, 9, 50] {
            let rows = frame(&progress, width, height, PLAIN);
            assert!(rows.len() <= height, "{width} {height}");
            assert!(rows.iter().all(|row| row.chars().count() <= width), "{width} {rows:#?}");
        }
    }
    let short = frame(&progress, 80, 3, PLAIN);
    assert!(short[0].contains("7 s left") && short[1].starts_with("rate") && short[2].starts_with("total"));
}

#[test]
fn colors_take_no_room() {
    let colorful = Look { color: true, unicode: true, terminal: true };
    let rows = frame(&progress(), 60, 24, colorful);
    assert!(rows[0].starts_with("\u{1b}[1mlocalhost"), "{rows:#?}");
    let plain = frame(&progress(), 60, 24, Look { color: false, terminal: false, ..colorful });
    let bare = |row: &String| {
        let pieces = row.split('\u{1b}').enumerate();
        let text = pieces
            .map(|(place, text)| if place == 0 { text } else { text.split_once('m').unwrap_or_default().1 });
        text.collect::<String>()
    };
    assert_eq!(rows.iter().map(bare).collect::<Vec<_>>(), plain);
    assert!(rows.iter().any(|row| row.contains("▃▅█")), "{rows:#?}");
}

#[test]
fn standing_connections_are_counted_where_they_stand() {
    let mut progress = Progress::new(&Plan { exchanges: None, ..Plan::default() }, String::new());
    progress.add(&second(0, 10), false);
    let rows = frame(&progress, 80, 24, PLAIN);
    assert!(rows.contains(&"connections           32 open".to_owned()), "{rows:#?}");
    assert!(rows[2].contains("(exchanges)"), "{rows:#?}");
}

#[test]
fn what_is_left_is_rounded_up() {
    assert_eq!(clock(Duration::from_millis(1)), "1 s");
    assert_eq!(clock(Duration::from_secs(200)), "3 min 20 s");
    assert_eq!(clock(Duration::from_secs(7260)), "2 h 1 min");
}
