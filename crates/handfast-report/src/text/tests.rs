//! Tests of facts that a person must find in the text, and of their places.

use super::*;
use crate::made_up;

fn text() -> String {
    to_text(&made_up::report(), Style::default())
}

#[test]
fn the_verdict_is_the_first_word() {
    let first = |text: &str| {
        text.split(|c: char| !c.is_ascii_alphabetic() && c != '-').find(|w| !w.is_empty()).map(str::to_owned)
    };
    assert_eq!(first(&text()).as_deref(), Some("VALID"));
    let mut report = made_up::report();
    for word in [
        VerdictWord::GeneratorLimited,
        VerdictWord::PortLimited,
        VerdictWord::TargetLimited,
        VerdictWord::Errors,
    ] {
        report.verdict.word = word;
        assert_eq!(first(&to_text(&report, Style::default())).as_deref(), Some(word.name()));
    }
}

#[test]
fn the_verdict_and_the_answer_of_a_search_are_the_last_line_too() {
    let mut report = made_up::report();
    let last = |report: &Report| to_text(report, Style::default()).lines().last().map(str::to_owned).unwrap();
    let found = "7,200/s held total.p99=10ms in ";
    assert!(last(&report).starts_with(&format!("VALID: {found}")), "{}", last(&report));
    assert!(
        last(&report).contains(" transactions a second of 5,000 offered; total p50 "),
        "{}",
        last(&report)
    );
    assert!(last(&report).ends_with("1 of 2 limits did not hold"), "{}", last(&report));
    let text = text();
    let head: Vec<&str> = text.lines().take(4).collect();
    assert!(head.iter().any(|line| line.contains(found)), "{head:?}");
    report.search = None;
    report.verdict.word = VerdictWord::Errors;
    assert!(last(&report).starts_with("ERRORS: "), "{}", last(&report));
    report.verdict.word = VerdictWord::Valid;
    let coloured = to_text(&report, Style { color: true, ..Style::default() });
    assert!(coloured.lines().last().unwrap().starts_with("\u{1b}[1;32mVALID\u{1b}[0m: "), "{coloured}");
}

#[test]
fn sentences_are_wrapped_at_the_terminals_width_and_nowhere_in_a_pipe() {
    let mut report = made_up::report();
    report.notes.push("word ".repeat(100));
    // Tables with many columns, and the command.
    report.members.clear();
    report.requests.clear();
    report.manifest.command.clear();
    for columns in [80, 100, 140] {
        let text = to_text(&report, Style { columns: Some(columns), ..Style::default() });
        for line in text.lines() {
            assert!(width(line) <= columns, "{} columns of {columns}: {line}", width(line));
        }
        let widest = text.lines().map(width).max().unwrap();
        assert!(widest > columns - 12, "{widest} of {columns} are used");
    }
    let text = to_text(&report, Style::default());
    assert!(text.lines().any(|line| width(line) > 480), "{text}");
}

#[test]
fn a_peers_escapes_do_not_reach_the_terminal() {
    assert!(!text().contains('\u{1b}'));
    assert!(text().contains("\\u{1b}[31m came at byte 17"));
}

#[test]
fn colours_change_nothing_but_colours() {
    let coloured = to_text(&made_up::report(), Style { color: true, ..Style::default() });
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        bare.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    bare.push_str(rest);
    let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    assert_eq!(trimmed(&bare), trimmed(&text()));
    assert!(coloured.contains("\u{1b}[1;32mVALID"));
}

#[test]
fn everything_that_matters_is_there() {
    let text = text();
    for part in [
        "X25519",
        "not verified",
        "resumed ",
        "no ticket left",
        "MISSED  errors=0.01%",
        "held    handshake.p99=5ms",
        "e.g. read from 10.0.0.7:8443",
        "1,882 connections a second",
        "pid 4711",
        "7,200/s held total.p99=10ms in 1 of 1 step; 7,600/s did not in 1 of 1 step.",
        "Tcp.RetransSegs +41",
        "handfast load '<shop>.example:8443' --rate 5000",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(!text.contains("ListenOverflows"), "a counter that did not move is shown");
}

#[test]
fn an_empty_report_is_written_too() {
    let text = to_text(&Report::default(), Style::default());
    assert!(text.contains("Nothing was timed") && text.contains("full     0"), "{text}");
}
