//! What a page must be: whole, escaped, alone.

use super::*;
use crate::made_up;
use crate::model::Second;
use crate::plan::{Model, Work};

/// Elements are closed in reverse order of opening; attributes are quoted.
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
    report.manifest.job.as_mut().unwrap().plan.target.host = nasty.into();
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
    let of = |work: Work| {
        let mut report = made_up::report();
        let plan = &mut report.manifest.job.as_mut().unwrap().plan;
        (plan.work, plan.model) = (work, Model::Closed);
        report.totals.exchanges = 0;
        report.totals.offered_rate = None;
        to_html(&report)
    };
    let bulk = of(Work::Bulk { send: true, receive: true });
    balanced(&bulk);
    assert!(bulk.contains("Bytes a second") && bulk.contains("<span>sent, "), "no bytes");
    let idle = of(Work::Idle { send: 0, receive: 0 });
    balanced(&idle);
    assert!(idle.contains("Open connections") && idle.contains("open at the end</span>"), "no connections");
    assert!([bulk, idle].iter().all(|html| !html.contains("Transactions a second")));
}

/// Colours of the page by name: light, then dark.
fn palettes() -> [std::collections::BTreeMap<String, [f64; 3]>; 2] {
    let style = include_str!("style.css");
    let (light, rest) =
        style.split_once("@media(prefers-color-scheme:dark)").expect("a light palette comes first");
    let dark = rest.split_once("\n\n").expect("the palettes end with an empty line").0;
    [light, dark].map(|text| {
        let declared =
            text.split([';', '{', '}']).filter_map(|part| part.trim().strip_prefix("--")?.split_once(":#"));
        let part = |hex: &str| f64::from(u8::from_str_radix(hex, 16).expect("hexadecimal")) / 255.0;
        let colour = |hex: &str| match hex.len() {
            3 => [0, 1, 2].map(|at| part(&hex[at..=at].repeat(2))),
            _ => [0, 2, 4].map(|at| part(&hex[at..at + 2])),
        };
        declared.map(|(name, hex)| (name.to_owned(), colour(hex))).collect()
    })
}

/// WCAG 2.2, "contrast ratio" and "relative luminance".
fn contrast(one: [f64; 3], other: [f64; 3]) -> f64 {
    let linear = |part: f64| if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) };
    let luminance =
        |[red, green, blue]: [f64; 3]| 0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue);
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

#[test]
fn every_text_has_contrast_enough() {
    assert!((contrast([0.0; 3], [1.0; 3]) - 21.0).abs() < 1e-9);
    // What is written in which colour, and on what: as in style.css.
    let everywhere = ["page", "card", "goodback", "warnback", "badback"];
    let written = [
        ("ink", &everywhere[..]),
        ("soft", &everywhere),
        ("good", &["goodback", "card"]),
        ("warn", &["warnback"]),
        ("bad", &["badback", "card"]),
    ];
    // Labels at the ends of lines, by the classes that `curves.rs` and `seconds.rs` give them.
    let labels = ["connect", "handshake", "exchange", "total", "lag", "mark", "over", "bad"]
        .map(|ink| (ink, &["card"][..]));
    for (palette, name) in palettes().iter().zip(["light", "dark"]) {
        for (ink, papers) in written.iter().chain(&labels) {
            for paper in *papers {
                let found = contrast(palette[*ink], palette[*paper]);
                // Level AA, success criterion 1.4.3.
                assert!(found >= 4.5, "{name}: {ink} on {paper} has {found:.2}, expected 4.5 at least");
            }
        }
    }
}

#[test]
fn no_line_is_drawn_through_a_moment_without_samples() {
    let mut report = made_up::report();
    let heat = |report: &Report| {
        let html = to_html(report);
        let plot = html.split_once("aria-labelledby=\"heat-t").unwrap().1.split_once("</svg>").unwrap().0;
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
    assert!(to_html(&report).contains("<th scope=\"row\">20 s</th><td>0</td><td>–</td>"));
}

#[test]
fn backticks_become_code() {
    assert_eq!(prose("`service` is <without> it"), "<code>service</code> is &lt;without&gt; it");
    assert_eq!(prose("one ` alone, `two`"), "one <code> alone, </code>two`");
    assert_eq!(prose("none"), "none");
    let mut report = made_up::report();
    report.verdict.evidence.push("`service` is without it".into());
    report.notes.push("see `--rate`".into());
    let html = to_html(&report);
    balanced(&html);
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
