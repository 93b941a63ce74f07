//! Requirements for a page: complete, escaped, self-contained.

use super::*;
use crate::made_up;
use crate::model::Second;
use crate::plan::{Model, Work};

#[test]
fn it_is_whole_and_alone() {
    let html = to_html(&made_up::report());
    for banned in ["<script", "http:", "https:", "url(", "@import", " src=", "href=", "onload", "NaN", "inf%"]
    {
        assert!(!html.contains(banned), "{banned} is in it");
    }
    assert!(html.contains("prefers-color-scheme:dark"));
    assert!(html.len() < 600_000, "{} bytes", html.len());
}

#[test]
fn text_from_peers_is_escaped() {
    let mut report = made_up::report();
    let nasty = "\"><img x=y onerror=z>'&\u{202e}";
    report.errors[0].cause = nasty.into();
    report.notes.push(nasty.into());
    report.workers[0].name = nasty.into();
    report.verdict.evidence.push(nasty.into());
    report.series[0].name = nasty.into();
    report.manifest.program = nasty.into();
    report.manifest.job.as_mut().unwrap().plan.target.host = nasty.into();
    report.mix.agreed.insert(nasty.into(), 1);
    let html = to_html(&report);
    assert!(!html.contains("<img") && !html.contains('\u{202e}'));
    assert!(html.contains("&quot;&gt;&lt;img x=y onerror=z&gt;'&amp;\\u{202e}"));
}

#[test]
fn every_plot_can_be_read_without_eyes() {
    let html = to_html(&made_up::report());
    let titles = [
        "Latency by percentile",
        "Latency over time",
        "Transactions a second",
        "Failures a second",
        "The load generator itself",
    ];
    for title in titles {
        let (_, after) = html.split_once(&format!("role=\"img\" aria-label=\"{title}. ")).expect(title);
        let description = after.split_once('"').expect("an end").0;
        assert!(description.len() > 20, "{title}: {description}");
    }
}

#[test]
fn the_verdict_comes_before_everything_else() {
    let mut report = made_up::report();
    for word in [VerdictWord::GeneratorLimited, VerdictWord::TargetLimited] {
        report.verdict.word = word;
        let html = to_html(&report);
        let body = html.split_once("<body>").unwrap().1;
        assert!(
            body.find(&format!("<h1>{}</h1>", word.name())).unwrap() < body.find("class=\"tile\"").unwrap()
        );
    }
}

#[test]
fn a_long_run_is_merged_and_loses_nothing() {
    let mut report = made_up::report();
    let second = |number: u32| Second { second: number, transactions: 7, ..Second::default() };
    report.timeline = (0..86_400).map(second).collect();
    report.timeline[80_000].main.record_nanos(1_000_000);
    let columns = seconds::columns(&report);
    assert!(columns.len() <= seconds::COLUMNS && columns.len() > 500, "{}", columns.len());
    assert_eq!(columns.iter().map(|column| column.main.count()).sum::<u64>(), 1);
    let html = to_html(&report);
    assert!(html.len() < 600_000, "{} bytes", html.len());
}

#[test]
fn an_empty_report_is_a_page_too() {
    let html = to_html(&Report::default());
    assert!(html.contains("Nothing was timed") && !html.contains("NaN"));
}

#[test]
fn bulk_and_idle_are_drawn_as_what_they_are() {
    let of = |work: Work| {
        let mut report = made_up::report();
        let plan = &mut report.manifest.job.as_mut().unwrap().plan;
        (plan.work, plan.model) = (work, Model::Closed);
        report.totals.exchanges = 0;
        report.totals.offered_rate = None;
        to_html(&report)
    };
    let bulk = of(Work::Bulk { send: true, receive: true });
    assert!(bulk.contains("Bytes a second") && bulk.contains("<span>sent, "), "no bytes");
    let idle = of(Work::Idle { send: 0, receive: 0 });
    assert!(idle.contains("Open connections") && idle.contains("open at the end</span>"), "no connections");
    assert!([bulk, idle].iter().all(|html| !html.contains("Transactions a second")));
}

#[test]
fn no_line_is_drawn_through_a_moment_without_samples() {
    let mut report = made_up::report();
    let heat = |report: &Report| {
        let html = to_html(report);
        let plot =
            html.split_once("aria-label=\"Latency over time.").unwrap().1.split_once("</svg>").unwrap().0;
        let line = plot.split_once("<path class=\"l over d1\" d=\"").unwrap().1.split_once('"').unwrap().0;
        line.to_owned()
    };
    assert_eq!(heat(&report).matches('M').count(), 1);
    for second in [20, 21, 40, 42] {
        report.timeline[second].main = handfast_stats::Histogram::new();
    }
    let line = heat(&report);
    assert_eq!(line.matches('M').count(), 4, "{line}");
    // A single moment between two gaps is visible: its line has two ends.
    assert!(line.split('M').skip(1).all(|piece| piece.contains('L')), "{line}");
    assert!(to_html(&report).contains(">20 s</th><td class=\"number\" data-label=\"samples\"><div>0</div>"));
}

#[test]
fn backticks_become_code() {
    let mut report = made_up::report();
    report.verdict.evidence.push("`service` is without it".into());
    report.notes.push("see `--rate`".into());
    let html = to_html(&report);
    assert!(html.contains("<code>service</code> is without it") && html.contains("<code>--rate</code>"));
}

#[test]
fn the_answer_of_a_search_stands_first() {
    let html = to_html(&made_up::report());
    let head = html.split_once("</header>").unwrap().0;
    assert!(head.contains(
        "<strong>7,200/s held total.p99=10ms in 1 of 1 step; 7,600/s did not in 1 of 1 step.</strong>"
    ));
}
