//! Whether B is faster than A, or whether it is noise: for people and for programs.
//!
//! In: one or more reports of each side (an ABBA series has two of each), a name for each side, and a seed. Out: rates and
//! latencies with ratio and 95 % interval, and warnings where the runs cannot be compared. The first second (start-up), seconds
//! with a missing worker, and what lies beyond the measured part are left out on both sides.
//!
//! Percentiles of the main series come from its histograms, second by second, so they are those of all samples. Of the other
//! series the seconds hold percentiles only: there the median of the seconds' own is compared, and said to be. (Not their
//! mean: one bad second of ten would rule it.)

mod differences;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use handfast_stats::compare::{quantiles, rates};
use handfast_stats::{Comparison, Histogram};

use crate::model::{Report, Second, VerdictWord};
use crate::units::{bytes, counted, duration, plain, rate};
use crate::words::{RunKind, main_series};

/// Most runs that are named as unfit.
const MOST_NAMED: usize = 3;
/// What the JSON form calls itself.
pub const SCHEMA: &str = "handfast-compare/1";

/// One figure of both sides.
struct Figure {
    /// `rate`, `exchange rate`, `handshake p99`.
    name: String,
    /// What it is counted in.
    unit: Unit,
    /// Whether it is the median of the seconds' own percentiles.
    of_seconds: bool,
    /// `None`: too few seconds, or nothing there.
    found: Option<Comparison>,
}

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    PerSecond,
    BytesPerSecond,
    Nanoseconds,
}

impl Unit {
    /// Whether more is better.
    fn more_is_better(self) -> bool {
        self != Self::Nanoseconds
    }

    fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "per_second",
            Self::BytesPerSecond => "bytes_per_second",
            Self::Nanoseconds => "ns",
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::PerSecond => rate(value),
            Self::BytesPerSecond => format!("{}/s", bytes(value.round() as u64)),
            Self::Nanoseconds => duration(value),
        }
    }
}

/// The comparison for people. **Cost**: thousands of resamples over all seconds; a minute's runs take well under a second.
pub fn compare(a: &[Report], b: &[Report], names: (&str, &str), seed: u64) -> String {
    let (name_a, name_b) = (plain(names.0), plain(names.1));
    let figures = figures(a, b, seed);
    let (other, warnings) = (differences::incomparable(a, b), differences::warnings(a, b));
    let unfit = unfit(a, b);
    let mut text = match &unfit {
        Some(why) => format!("NOT COMPARED: {why}\n\n"),
        None if !other.is_empty() => {
            "NOT COMPARABLE: the two sides did different things, so their ratios mean nothing\n\n".to_owned()
        }
        None if warnings.is_empty() => format!("{}\n\n", verdict(&figures, &name_b)),
        None => format!("{} (but see the warnings)\n\n", verdict(&figures, &name_b)),
    };
    let _ = writeln!(text, "  A: {name_a}, {}", runs(a));
    let _ = writeln!(text, "  B: {name_b}, {}\n", runs(b));
    for warning in other.iter().chain(&warnings) {
        let _ = writeln!(text, "  warning: {}", plain(warning));
    }
    if !text.ends_with("\n\n") {
        text.push('\n');
    }
    let mut rows: Vec<[String; 5]> = figures.iter().map(|figure| row(figure, &name_b)).collect();
    if unfit.is_some() {
        // Which of them is faster is not known: the figures are somebody else's.
        rows.iter_mut().for_each(|row| row[4].clear());
    }
    let header = ["", "A", "B", "B / A (95 % interval)", ""].map(str::to_owned);
    table(&mut text, &header, &rows);
    if figures.iter().any(|figure| figure.of_seconds) {
        text.push_str(
            "\n  * median of the seconds' own percentiles; of these steps the seconds hold no histogram\n",
        );
    }
    text.push_str("\n  Noise: the interval holds 1, so runs of one and the same thing differ as much. Longer runs, or more of them\n");
    text.push_str("  in turn (A B B A), narrow it.\n");
    text
}

/// The comparison for programs.
pub fn compare_json(a: &[Report], b: &[Report], names: (&str, &str), seed: u64) -> String {
    let figures = figures(a, b, seed);
    let unfit = unfit(a, b);
    let rows = figures.iter().map(|figure| {
        let found = figure.found.map(|found| {
            serde_json::json!({
                "a": found.a, "b": found.b, "ratio": found.ratio, "low": found.low, "high": found.high,
                "noise": found.noise, "seconds": [found.samples.0, found.samples.1],
            })
        });
        serde_json::json!({
            "name": figure.name,
            "unit": figure.unit.name(),
            "better": found.as_ref().map(|_| if unfit.is_some() { "unknown" } else { word(figure) }),
            "median_of_seconds": figure.of_seconds,
            "comparison": found,
        })
    });
    let whole = serde_json::json!({
        "schema": SCHEMA, "a": names.0, "b": names.1, "runs": [a.len(), b.len()], "seed": seed,
        "not_compared": unfit, "not_comparable": differences::incomparable(a, b),
        "warnings": differences::warnings(a, b), "figures": rows.collect::<Vec<_>>(),
    });
    format!("{whole:#}\n")
}

/// Seconds that count: whole ones, with everybody there, after the first.
fn seconds(report: &Report) -> Vec<&Second> {
    let counts = |second: &&Second| {
        let whole = f64::from(second.second) + 1.0 <= report.totals.duration_seconds + 0.01;
        second.second > 0 && whole && second.missing.is_empty()
    };
    report.timeline.iter().filter(counts).collect()
}

fn figures(a: &[Report], b: &[Report], seed: u64) -> Vec<Figure> {
    let (seconds_a, seconds_b): (Vec<_>, Vec<_>) =
        (a.iter().map(seconds).collect(), b.iter().map(seconds).collect());
    let mut figures = Vec::new();
    let mut by_rate = |name: &str, unit: Unit, of: fn(&Second) -> f64| {
        let found = of_values(&seconds_a, &seconds_b, |second| Some(of(second)), seed);
        figures.push(Figure { name: name.into(), unit, of_seconds: false, found });
    };
    let every = |is: fn(&Report) -> bool| a.iter().chain(b).all(is);
    // Bulk and idle connections end with the run: so many of them a second mean nothing.
    if every(|report| RunKind::of(report) == RunKind::Bulk) {
        by_rate("bytes", Unit::BytesPerSecond, |second| second.bytes as f64);
    } else if !every(|report| RunKind::of(report) == RunKind::Idle) {
        by_rate("rate", Unit::PerSecond, |second| second.transactions as f64);
    }
    let same = |report: &Report| [0, report.totals.transactions].contains(&report.totals.exchanges);
    if !every(same) {
        by_rate("exchange rate", Unit::PerSecond, |second| second.exchanges as f64);
    }
    let main = |side: &[Report]| side.first().and_then(main_series).map(|series| series.name.clone());
    let same_main = main(a).filter(|name| main(b).as_ref() == Some(name));
    for name in common(a, b) {
        for (percentile, quantile) in [("p50", 0.5), ("p99", 0.99)] {
            let is_main = same_main.as_deref() == Some(name);
            let found = match is_main {
                true => of_histograms(&seconds_a, &seconds_b, quantile, seed),
                false => of_medians(&seconds_a, &seconds_b, |s| own_percentile(s, name, percentile), seed),
            };
            let name = format!("{name} {percentile}");
            figures.push(Figure { name, unit: Unit::Nanoseconds, of_seconds: !is_main, found });
        }
    }
    figures
}

fn own_percentile(second: &Second, series: &str, percentile: &str) -> Option<u64> {
    second.percentiles_ns.get(series)?.get(percentile).copied()
}

/// Series that every run of both sides has, in the order of the first. Where all handshakes were full, or all resumed, the
/// series of that kind is the one of all.
fn common<'a>(a: &'a [Report], b: &'a [Report]) -> Vec<&'a str> {
    let count = |report: &Report, name: &str| {
        report.series.iter().find(|series| series.name == name).map(|series| series.count)
    };
    let every = |is: &dyn Fn(&Report) -> bool| a.iter().chain(b).all(is);
    let told = |name: &str| {
        let again = name.starts_with("handshake-")
            && every(&|report: &Report| count(report, name) == count(report, "handshake"));
        every(&|report: &Report| count(report, name).is_some()) && !again
    };
    let first = a.first().map(|report| report.series.as_slice()).unwrap_or_default();
    first.iter().map(|series| series.name.as_str()).filter(|name| told(name)).collect()
}

type Runs<'a> = [Vec<&'a Second>];

fn of_values(
    a: &Runs<'_>,
    b: &Runs<'_>,
    of: impl Fn(&Second) -> Option<f64>,
    seed: u64,
) -> Option<Comparison> {
    let values = |runs: &Runs<'_>| -> Vec<Vec<f64>> {
        runs.iter().map(|run| run.iter().filter_map(|second| of(second)).collect()).collect()
    };
    let (a, b) = (values(a), values(b));
    let (a, b): (Vec<&[f64]>, Vec<&[f64]>) =
        (a.iter().map(Vec::as_slice).collect(), b.iter().map(Vec::as_slice).collect());
    rates(&a, &b, seed)
}

/// The median of a value that each second has: that of all samples, when each second is a histogram with one.
fn of_medians(
    a: &Runs<'_>,
    b: &Runs<'_>,
    of: impl Fn(&Second) -> Option<u64>,
    seed: u64,
) -> Option<Comparison> {
    let single = |nanos: u64| {
        let mut histogram = Histogram::new();
        histogram.record_nanos(nanos);
        histogram.pack();
        histogram
    };
    let singles = |runs: &Runs<'_>| -> Vec<Vec<Histogram>> {
        runs.iter().map(|run| run.iter().filter_map(|second| of(second)).map(single).collect()).collect()
    };
    let (a, b) = (singles(a), singles(b));
    let (a, b) = (borrowed(&a), borrowed(&b));
    let (a, b): (Vec<&[&Histogram]>, Vec<&[&Histogram]>) =
        (a.iter().map(Vec::as_slice).collect(), b.iter().map(Vec::as_slice).collect());
    quantiles(&a, &b, 0.5, seed)
}

fn borrowed(runs: &[Vec<Histogram>]) -> Vec<Vec<&Histogram>> {
    runs.iter().map(|run| run.iter().collect()).collect()
}

fn of_histograms(a: &Runs<'_>, b: &Runs<'_>, quantile: f64, seed: u64) -> Option<Comparison> {
    let (a, b) = (histograms(a), histograms(b));
    let (a, b): (Vec<&[&Histogram]>, Vec<&[&Histogram]>) =
        (a.iter().map(Vec::as_slice).collect(), b.iter().map(Vec::as_slice).collect());
    quantiles(&a, &b, quantile, seed)
}

fn histograms<'a>(runs: &Runs<'a>) -> Vec<Vec<&'a Histogram>> {
    runs.iter().map(|run| run.iter().map(|second| &second.main).collect()).collect()
}

/// `faster`, `slower` or `noise`, of B.
fn word(figure: &Figure) -> &'static str {
    match figure.found {
        Some(found) if found.noise => "noise",
        Some(found) if (found.ratio > 1.0) == figure.unit.more_is_better() => "faster",
        Some(_) => "slower",
        None => "unknown",
    }
}

/// `B is 12 % faster`, for a rate as for a latency.
fn sentence(figure: &Figure, name_b: &str) -> String {
    let Some(found) = figure.found else { return "in too few seconds to say".into() };
    let change = (found.ratio - 1.0).abs() * 100.0;
    let change = if change < 10.0 { format!("{change:.1} %") } else { format!("{change:.0} %") };
    match (word(figure), figure.unit.more_is_better()) {
        ("noise", _) => "noise".into(),
        (word, true) => format!("{name_b} is {change} {word}"),
        ("faster", _) => format!("{name_b} takes {change} less time"),
        _ => format!("{name_b} takes {change} more time"),
    }
}

/// Why there is no answer: a run whose figures are not the target's, or do not hold. What was TARGET-LIMITED is no such run
/// where all of them were: then the rates are the targets' limits, and that is a comparison.
fn unfit(a: &[Report], b: &[Report]) -> Option<String> {
    let all_at_their_limit =
        a.iter().chain(b).all(|report| report.verdict.word == VerdictWord::TargetLimited);
    let fit = |word| word == VerdictWord::Valid || all_at_their_limit;
    let mut named = Vec::new();
    for (side, reports) in [("A", a), ("B", b)] {
        for (place, report) in reports.iter().enumerate().filter(|(_, report)| !fit(report.verdict.word)) {
            named.push(format!("run {} of {side} is {}", place + 1, report.verdict.word.name()));
        }
    }
    let more = named.len().saturating_sub(MOST_NAMED);
    named.truncate(MOST_NAMED);
    if more > 0 {
        named.push(format!("{more} more are not VALID"));
    }
    (!named.is_empty()).then(|| format!("{}, so which side is faster is not known", named.join(", ")))
}

/// The answer in a line: of the rate, and of the main series when the rate was given.
fn verdict(figures: &[Figure], name_b: &str) -> String {
    let said: Vec<String> = figures
        .iter()
        .filter(|figure| figure.found.is_some_and(|found| !found.noise) && !figure.of_seconds)
        .map(|figure| format!("{}: {}", figure.name, sentence(figure, name_b)))
        .collect();
    match (said.is_empty(), figures.iter().any(|figure| figure.found.is_some())) {
        (false, _) => said.join("; "),
        (true, true) => "NOISE: no difference that is more than chance".into(),
        (true, false) => "NOT COMPARED: too few seconds; each side needs two beyond the first".into(),
    }
}

fn runs(side: &[Report]) -> String {
    let seconds: usize = side.iter().map(|report| seconds(report).len()).sum();
    let words: Vec<&str> = side.iter().map(|report| report.verdict.word.name()).collect();
    format!(
        "{}, {} used ({})",
        counted(side.len() as u64, "run"),
        counted(seconds as u64, "second"),
        words.join(", ")
    )
}

fn row(figure: &Figure, name_b: &str) -> [String; 5] {
    let value = |value: f64| figure.unit.show(value);
    let name = format!("{}{}", figure.name, if figure.of_seconds { " *" } else { "" });
    match figure.found {
        Some(found) => {
            // A second of A with nothing in it makes ratios that have no end.
            let part = |ratio: f64| if ratio < 999.0 { format!("{ratio:.3}") } else { "over 999".into() };
            let interval = format!("{} ({} to {})", part(found.ratio), part(found.low), part(found.high));
            [name, value(found.a), value(found.b), interval, sentence(figure, name_b)]
        }
        None => [name, "-".into(), "-".into(), "-".into(), sentence(figure, name_b)],
    }
}

fn table(text: &mut String, header: &[String; 5], rows: &[[String; 5]]) {
    let wide =
        |place: usize| rows.iter().chain([header]).map(|row| row[place].chars().count()).max().unwrap_or(0);
    let widths = [wide(0), wide(1), wide(2), wide(3)];
    for row in [header].into_iter().chain(rows) {
        let [name, a, b, interval, sentence] = row;
        let [first, second, third, fourth] = widths;
        let line = format!("  {name:first$}  {a:>second$}  {b:>third$}  {interval:>fourth$}  {sentence}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
