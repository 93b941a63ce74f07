//! A comparison for people: the answer first, then why, then the figures.
//!
//! In: a [`Compared`]. Out: a page.

use handfast_text::table::{Column, lines, width};
use handfast_text::wrap::wrapped;

use super::figures::Figure;
use super::{Compared, ComparisonResult};
use crate::model::Report;
use crate::units::{counted, plain};

/// From this ratio on, a difference is written as a factor instead of per cent.
const FACTOR: f64 = 2.0;

pub(super) fn page(compared: &Compared<'_>, columns: Option<usize>) -> String {
    let names = compared.sides.names;
    let (name_a, name_b) = (plain(names.0), plain(names.1));
    let mut page = Page { text: String::new(), width: columns.unwrap_or(usize::MAX) };
    page.sentence("", &headline(compared, &name_b));
    for reason in match &compared.answer {
        ComparisonResult::NotComparable(reasons) => reasons.as_slice(),
        _ => &[],
    } {
        page.sentence("  - ", reason);
    }
    page.line("");
    page.sentence("  A: ", &format!("{name_a}, {}", runs(compared.sides.a)));
    page.sentence("  B: ", &format!("{name_b}, {}", runs(compared.sides.b)));
    page.line("");
    for warning in &compared.warnings {
        page.sentence("  warning: ", warning);
    }
    if !compared.warnings.is_empty() {
        page.line("");
    }
    table(&mut page, compared, &name_b);
    if compared.figures.iter().any(|figure| figure.decides) {
        page.line("");
        page.sentence(
            "  ",
            "Each value is the geometric mean of the runs; ± is how far the farthest of them is from it. Rows without an interval \
             are shown, and not compared.",
        );
    }
    page.text
}

struct Page {
    text: String,
    width: usize,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn sentence(&mut self, first: &str, sentence: &str) {
        let rest = " ".repeat(width(first));
        wrapped(first, &rest, sentence, self.width).iter().for_each(|line| self.line(line));
    }
}

/// The answer in a line.
fn headline(compared: &Compared<'_>, name_b: &str) -> String {
    match &compared.answer {
        ComparisonResult::NotComparable(_) => {
            "NOT COMPARABLE: the two sides did different things, so their ratios mean nothing".into()
        }
        ComparisonResult::NotCompared(why) => format!("NOT COMPARED: {why}"),
        ComparisonResult::SideBySide(why) => format!("SIDE BY SIDE, no claim: {why}"),
        ComparisonResult::Different => {
            let different = compared.figures.iter().filter(|figure| figure.better().is_some());
            let each = different.map(|figure| format!("{}: {}", figure.name, sentence(figure, name_b)));
            format!("DIFFERENT: {}", each.collect::<Vec<_>>().join("; "))
        }
        ComparisonResult::NoDifference => {
            let seen = compared.figures.iter().filter_map(|figure| {
                let resolution = figure.found?.resolution();
                Some(format!("{} from {} on", figure.name, change(resolution)))
            });
            let seen = seen.collect::<Vec<_>>().join(", ");
            match seen.is_empty() {
                true => "NO DIFFERENCE FOUND: the runs have no figure that could be compared".into(),
                false => format!(
                    "NO DIFFERENCE FOUND: these runs could have shown one of {seen}; more runs show smaller ones"
                ),
            }
        }
    }
}

/// `12 %` more or less; from twice on `52 times`.
fn change(ratio: f64) -> String {
    if ratio >= FACTOR {
        return if ratio < 10.0 { format!("{ratio:.1} times") } else { format!("{ratio:.0} times") };
    }
    let percent = (ratio - 1.0).abs() * 100.0;
    if percent < 10.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `B is 12 % faster` of a rate, `B takes 12 % less time`, `B takes 52 times as long`.
fn sentence(figure: &Figure, name_b: &str) -> String {
    let (Some(better), Some(found)) = (figure.better(), figure.found) else { return String::new() };
    let change = change(found.ratio);
    match (better, figure.unit.more_is_better(), found.ratio >= FACTOR) {
        (_, true, true) => format!("{name_b} is {change} as fast"),
        (better, true, false) => format!("{name_b} is {change} {better}"),
        ("faster", ..) => format!("{name_b} takes {change} less time"),
        (_, _, true) => format!("{name_b} takes {change} as long"),
        _ => format!("{name_b} takes {change} more time"),
    }
}

/// `3 runs (VALID)`.
fn runs(side: &[Report]) -> String {
    let mut words: Vec<&str> = side.iter().map(|report| report.verdict.word.name()).collect();
    words.dedup();
    format!("{} ({})", counted(side.len() as u64, "run"), words.join(", "))
}

fn table(page: &mut Page, compared: &Compared<'_>, name_b: &str) {
    let judged = compared.figures.iter().any(|figure| figure.decides);
    let interval = if judged { "B / A (interval)" } else { "" };
    let [a, b, interval] = ["A", "B", interval].map(|title| Column::figures(title, 0));
    let columns = [Column::words("", 0, 0), a, b, interval, Column::words("", 0, 0)];
    let rows: Vec<_> = compared.figures.iter().map(|figure| row(figure, name_b).to_vec()).collect();
    lines(&columns, &rows, usize::MAX).iter().for_each(|line| page.line(&format!("  {line}")));
}

fn row(figure: &Figure, name_b: &str) -> [String; 5] {
    let (a, b) = (side(figure, &figure.a), side(figure, &figure.b));
    let (interval, sentence) = match figure.found {
        Some(found) => {
            let interval = format!("{} ({} to {})", ratio(found.ratio), ratio(found.low), ratio(found.high));
            let sentence =
                figure.better().map_or("no difference found".to_owned(), |_| sentence(figure, name_b));
            (interval, sentence)
        }
        None => (String::new(), String::new()),
    };
    [figure.name.clone(), a, b, interval, sentence]
}

/// `1.12 ms ±4.0 %`: the mean of a side's runs, and how far the farthest of them is from it.
fn side(figure: &Figure, runs: &[f64]) -> String {
    let Some(mean) = figure.mean(runs) else { return "-".into() };
    let farthest = runs.iter().map(|run| (run / mean - 1.0).abs()).fold(0.0, f64::max);
    match runs {
        [_] => figure.unit.show(mean),
        _ => format!("{} ±{}", figure.unit.show(mean), change(1.0 + farthest)),
    }
}

fn ratio(ratio: f64) -> String {
    if ratio < 999.0 { format!("{ratio:.3}") } else { "over 999".into() }
}
