//! What a page must be: whole, escaped, alone.

use super::*;
use crate::made_up;
use crate::model::Second;

/// Every element that is opened is closed in order; attributes are quoted.
fn balanced(html: &str) {
    const VOID: [&str; 3] = ["meta", "br", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, further) = after.split_once('>').expect("a tag has no end");
        rest = further;
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        assert!(tag.matches('"').count() % 2 == 0, "{tag}");
        if name == "style" && !tag.starts_with('/') {
            rest = &rest[rest.find("</style").unwrap()..];
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn it_is_whole_and_alone() {
    let html = to_html(&made_up::report());
    balanced(&html);
    for banned in ["<script", "http:", "https:", "url(", "@import", " src=", "href=", "onload", "NaN", "inf%"]
    {
        assert!(!html.contains(banned), "{banned} is in it");
    }
    assert!(html.contains("prefers-color-scheme:dark"));
    assert!(html.len() < 600_000, "{} bytes", html.len());
}

#[test]
fn what_peers_said_is_escaped() {
    let mut report = made_up::report();
    let nasty = "\"><img x=y onerror=z>'&\u{202e}";
    report.errors[0].cause = nasty.into();
    report.notes.push(nasty.into());
    report.workers[0].name = nasty.into();
    report.verdict.evidence.push(nasty.into());
    report.series[0].name = nasty.into();
    report.manifest.program = nasty.into();
    report.manifest.job["target"]["host"] = nasty.into();
    report.mix.agreed.insert(nasty.into(), 1);
    let html = to_html(&report);
    balanced(&html);
    assert!(!html.contains("<img") && !html.contains('\u{202e}'));
    assert!(html.contains("&quot;&gt;&lt;img x=y onerror=z&gt;&#39;&amp;\\u{202e}"));
}

#[test]
fn every_plot_can_be_read_without_eyes() {
    let html = to_html(&made_up::report());
    for id in ["percentiles", "heat", "rate", "errors", "generator"] {
        assert!(html.contains(&format!("aria-labelledby=\"{id}-t {id}-d\"")), "{id}");
        let description =
            html.split_once(&format!("<desc id=\"{id}-d\">")).unwrap().1.split_once('<').unwrap().0;
        assert!(description.len() > 20, "{id}: {description}");
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
    balanced(&html);
    assert!(html.len() < 600_000, "{} bytes", html.len());
}

#[test]
fn an_empty_report_is_a_page_too() {
    let html = to_html(&Report::default());
    balanced(&html);
    assert!(html.contains("Nothing was timed") && !html.contains("NaN"));
}

#[test]
fn bulk_and_idle_are_drawn_as_what_they_are() {
    let of = |work: serde_json::Value| {
        let mut report = made_up::report();
        report.manifest.job["work"] = work;
        report.manifest.job["model"] = "closed".into();
        report.totals.exchanges = 0;
        report.totals.offered_rate = None;
        to_html(&report)
    };
    let bulk = of(serde_json::json!({"bulk": {"send": true, "receive": true}}));
    balanced(&bulk);
    assert!(bulk.contains("Bytes a second") && bulk.contains("<span>sent, "), "no bytes");
    let idle = of(serde_json::json!({"idle": {"send": 0, "receive": 0}}));
    balanced(&idle);
    assert!(
        idle.contains("Connections that stood") && idle.contains("stood at the end</span>"),
        "no connections"
    );
    assert!([bulk, idle].iter().all(|html| !html.contains("Transactions a second")));
}
