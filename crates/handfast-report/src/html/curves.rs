//! Latency by percentile, and latency over time.
//!
//! In: a report. Out: two figures, each with the table of its data.

use handfast_html::axis::{Log, Tick, time};
use handfast_html::plot::{Line, Plot, area};
use handfast_html::{Table, details};
use handfast_stats::Histogram;
use maud::{Markup, html};

use super::seconds::{Column, reach};
use crate::model::{Report, Series};
use crate::units::{count, nanos};
use crate::words::main_series;

/// Points of one curve.
const POINTS: u32 = 240;
/// Rows of the heat map.
const ROWS: usize = 44;
/// Shades of it.
const SHADES: f64 = 9.0;

/// Colour and dashes of a step: related steps have one colour.
pub(super) fn class(step: &str) -> &'static str {
    match step {
        "connect" => "teal",
        "handshake" => "orange",
        "handshake-full" => "orange d1",
        "handshake-resumed" => "orange d2",
        "exchange" => "purple",
        "first-byte" => "purple d1",
        "total" => "blue",
        "service" => "blue d1",
        "lag" => "mauve d2",
        _ => "ink",
    }
}

/// The percentile curve: the axis gives every further nine as much room as the last.
pub(super) fn percentiles(report: &Report) -> Option<Markup> {
    let series: Vec<&Series> = report.series.iter().filter(|series| !series.histogram.is_empty()).collect();
    let most = series.iter().map(|series| series.histogram.count()).max()?;
    // The last nine that at least one sample decides.
    let nines = (most as f64).log10().floor().clamp(1.0, 6.0);
    let low = series.iter().map(|series| series.histogram.quantile_nanos(0.0)).min()?;
    let high = series.iter().map(|series| series.histogram.max_nanos()).max()?;
    let axis = Log::around(low, high);
    let main = main_series(report).map_or("", |series| series.name.as_str());
    let lines = series.iter().map(|series| {
        let weight = if series.name == main { " main" } else { "" };
        Line {
            name: series.name.clone(),
            class: format!("{}{weight}", class(&series.name)),
            pieces: vec![curve(&series.histogram, nines, axis)],
        }
    });
    let sentences = series.iter().map(|series| {
        let figure = |quantile| nanos(series.histogram.quantile_nanos(quantile));
        format!(
            "{}: half within {}, 99 % within {}, all within {}.",
            series.name,
            figure(0.5),
            figure(0.99),
            nanos(series.max_ns)
        )
    });
    let plot = Plot {
        title: "Latency by percentile",
        reading: "How slow the slowest were: at 99 %, one in a hundred took longer than the line says. Lower is better, and a \
                  line that stays flat to the right is better still."
            .into(),
        description: sentences.collect::<Vec<_>>().join(" "),
        across: nines_axis(nines),
        across_name: "share of the samples that took no longer",
        up: axis.ticks(),
        lines: lines.collect(),
        ..Plot::default()
    };
    Some(plot.draw())
}

fn curve(histogram: &Histogram, nines: f64, axis: Log) -> Vec<(f64, f64)> {
    let own = (histogram.count() as f64).log10().min(nines);
    let parts = (0..=POINTS)
        .map(|place| f64::from(place) / f64::from(POINTS))
        .filter(|part| part * nines <= own + 1e-9);
    parts.map(|part| (part, axis.part(histogram.quantile_nanos(1.0 - 10_f64.powf(-part * nines))))).collect()
}

fn nines_axis(nines: f64) -> Vec<Tick> {
    const NAMES: [(f64, &str); 8] = [
        (0.0, "0 %"),
        (0.5, "50 %"),
        (0.9, "90 %"),
        (0.99, "99 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.99999, "99.999 %"),
        (0.999_999, "99.9999 %"),
    ];
    let places = NAMES.iter().map(|(share, name)| (-(1.0_f64 - share).log10() / nines, (*name).to_owned()));
    places.filter(|(part, _)| *part <= 1.001).collect()
}

/// The heat map: how many samples of a moment took how long.
pub(super) fn heat(report: &Report, columns: &[Column]) -> Option<Markup> {
    let occupied = || columns.iter().filter(|column| !column.main.is_empty());
    let low = occupied().map(|column| column.main.quantile_nanos(0.0)).min()?;
    let high = occupied().map(|column| column.main.max_nanos()).max()?;
    let axis = Log::around(low, high);
    let cells: Vec<[u64; ROWS]> = columns.iter().map(|column| rows(&column.main, axis)).collect();
    let most = cells.iter().flatten().copied().max().unwrap_or(1).max(1);
    let end = reach(columns);
    let line = |quantile: f64, name: &str, dash: &str| Line {
        name: name.into(),
        class: format!("over{dash}"),
        pieces: pieces(columns, end, |column| axis.part(column.main.quantile_nanos(quantile))),
    };
    let name = main_series(report).map_or("latency", |series| series.name.as_str());
    let plot = Plot {
        title: "Latency over time",
        reading: format!(
            "Each column is a moment, each row a latency ({name}); the stronger the colour, the more samples. A mark alone at the top is a pause."
        ),
        description: describe(columns, name),
        across: time(end),
        across_name: "time since the start",
        up: axis.ticks(),
        below: shades(&cells, columns, most, end),
        lines: vec![line(0.99, "p99", " d1"), line(0.5, "p50", "")],
        after: html! { (scale(most)) (data(columns)) },
        ..Plot::default()
    };
    Some(plot.draw())
}

/// A line through the moments that have samples. A moment without samples has no latency: the line has a gap there. A single
/// moment between two gaps becomes a line of its width.
fn pieces(columns: &[Column], end: f64, part: impl Fn(&Column) -> f64) -> Vec<Vec<(f64, f64)>> {
    let with_samples = columns.split(|column| column.main.is_empty()).filter(|piece| !piece.is_empty());
    let drawn = with_samples.map(|piece| match piece {
        [only] => vec![(only.from / end, part(only)), (only.to / end, part(only))],
        several => {
            several.iter().map(|column| ((column.from + column.to) / 2.0 / end, part(column))).collect()
        }
    });
    drawn.collect()
}

/// Counts of the heat map's rows, lowest first.
fn rows(histogram: &Histogram, axis: Log) -> [u64; ROWS] {
    let mut counts = [0; ROWS];
    for (value, count) in histogram.buckets() {
        counts[((axis.part(value) * ROWS as f64) as usize).min(ROWS - 1)] += count;
    }
    counts
}

/// One path for each shade, so that a day fits a file.
fn shades(cells: &[[u64; ROWS]], columns: &[Column], most: u64, end: f64) -> Markup {
    let mut paths = vec![String::new(); SHADES as usize + 1];
    for (counts, column) in cells.iter().zip(columns) {
        for (row, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            // The square root keeps one sample visible, and the bulk distinct from its edges. A logarithm would make the bulk
            // one dark band.
            let strength = (*count as f64 / most as f64).sqrt();
            let shade = ((strength * SHADES).ceil() as usize).clamp(1, SHADES as usize);
            let (low, high) = (row as f64 / ROWS as f64, (row + 1) as f64 / ROWS as f64);
            area(&mut paths[shade], (column.from / end, column.to / end), (low, high));
        }
    }
    html! { @for (shade, data) in paths.iter().enumerate().filter(|(_, data)| !data.is_empty()) {
        path class={ "h h" (shade) } d=(data) {}
    } }
}

fn scale(most: u64) -> Markup {
    html! { ul.key { li {
        "1 sample "
        span.scale aria-hidden="true" { @for shade in 1..=SHADES as u32 { i class={ "swatch h" (shade) } {} } }
        " " (count(most)) " samples"
    } } }
}

fn describe(columns: &[Column], name: &str) -> String {
    let slowest = columns.iter().max_by_key(|column| column.main.quantile_nanos(0.99));
    slowest.map_or(String::new(), |column| {
        let (median, slow) = (column.main.quantile_nanos(0.5), column.main.quantile_nanos(0.99));
        format!(
            "The slowest moment of {name} was at {:.0} s: p99 {}, p50 {}. The table below has every moment.",
            column.from,
            nanos(slow),
            nanos(median)
        )
    })
}

/// The same moments in figures.
fn data(columns: &[Column]) -> Markup {
    let rows = columns.iter().map(|column| {
        let main = &column.main;
        let shown = |value| if main.is_empty() { "–".to_owned() } else { nanos(value) };
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|quantile| shown(main.quantile_nanos(quantile)));
        vec![column.name(), count(main.count()), p50, p90, p99, shown(main.max_nanos())]
    });
    let header = "time|samples|p50|p90|p99|max";
    details("The same as a table", &Table::of_numbers("Latency over time", header, rows))
}
