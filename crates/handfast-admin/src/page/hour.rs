//! The last hour as plots, and the last connections that failed.

use handfast_html::axis::{Tick, even, plain_rate};
use handfast_html::plot::{Line, Plot, Size};
use handfast_html::{Table, card, with_small};
use handfast_text::calendar::Utc;
use maud::{Markup, html};

use super::format::{bytes, seconds};
use super::sections::capitalised;
use crate::hour::{APART, POINTS, Point};
use crate::status::Status;

/// One plot: its title, how to read it, how a figure is written, and its lines.
type Drawing = (&'static str, &'static str, fn(f64) -> String, &'static [Curve]);

/// One line: its colour, its name, and where its figures are.
type Curve = (&'static str, &'static str, fn(&Point) -> Option<f32>);

const DRAWINGS: [Drawing; 5] = [
    (
        "New connections and handshakes",
        "each second",
        plain_rate,
        &[
            ("purple", "connections", |point| Some(point.connections)),
            ("orange", "full handshakes", |point| Some(point.full)),
            ("teal", "resumed handshakes", |point| Some(point.resumed)),
        ],
    ),
    (
        "Bytes",
        "each second",
        |figure| bytes(figure as u64),
        &[
            ("orange", "to backends", |point| Some(point.to_backend)),
            ("blue", "to clients", |point| Some(point.to_client)),
        ],
    ),
    (
        "Open connections",
        "at the end of each point",
        plain_rate,
        &[("blue", "open", |point| Some(point.open))],
    ),
    (
        "Time of a handshake",
        "half of them, and 99 %, took no longer",
        seconds,
        &[
            ("teal", "median", |point| point.handshake.map(|[half, _]| half)),
            ("orange", "99 %", |point| point.handshake.map(|[_, most]| most)),
        ],
    ),
    (
        "Connections that failed",
        "each second",
        plain_rate,
        &[("red", "failed", |point| Some(point.failures))],
    ),
];

/// Further ones, where a service serves HTTP.
const REQUEST_DRAWINGS: [Drawing; 3] = [
    ("HTTP requests", "each second", plain_rate, &[("blue", "requests", |point| Some(point.requests))]),
    (
        "Server errors",
        "each second",
        plain_rate,
        &[
            ("red", "status 5xx", |point| Some(point.server_errors)),
            ("orange", "ended without a status", |point| Some(point.no_status)),
        ],
    ),
    (
        "Time of a request",
        "half of them, and 99 %, took no longer",
        seconds,
        &[
            ("teal", "median", |point| point.request.map(|[half, _]| half)),
            ("orange", "99 %", |point| point.request.map(|[_, most]| most)),
        ],
    ),
];

pub(super) fn hour(status: &Status) -> Markup {
    let minutes = (status.hour.len() as u64 * APART.as_secs()).div_ceil(60);
    let meaning = match minutes {
        0 => "Lines appear twenty seconds after the start.".to_owned(),
        _ => format!(
            "Of this process, a point every {} seconds; {minutes} of 60 minutes are known.",
            APART.as_secs()
        ),
    };
    let plots = html! { @if minutes > 0 { div.plots {
        @for drawing in &DRAWINGS { (plot(drawing, &status.hour)) }
        @if status.measured.services.iter().any(|service| service.requests.is_some()) {
            @for drawing in &REQUEST_DRAWINGS { (plot(drawing, &status.hour)) }
        }
    } } };
    card("The last hour", &meaning, &plots)
}

fn plot((title, reading, words, curves): &Drawing, points: &[Point]) -> Markup {
    let figures = |curve: &Curve| points.iter().filter_map(curve.2).fold(0.0, f32::max);
    let most = curves.iter().map(figures).fold(0.0, f32::max);
    let (up, top) = even(most.into(), *words);
    let line = |curve: &Curve| {
        let now = points.last().and_then(curve.2).map_or("none".into(), |now| words(now.into()));
        Line {
            name: format!("{}: {now}", curve.1),
            class: curve.0.to_owned(),
            pieces: pieces(points, curve.2, top),
        }
    };
    let ago = [(0.0, "1 h ago"), (0.5, "30 min"), (1.0, "now")];
    let plot = Plot {
        title,
        reading: (*reading).to_owned(),
        description: format!("Highest {}.", words(most.into())),
        across: ago.map(|(part, text)| -> Tick { (part, text.to_owned()) }).to_vec(),
        up,
        lines: curves.iter().map(line).collect(),
        size: Size::Small,
        ..Plot::default()
    };
    plot.draw()
}

/// The line, interrupted where nothing is known. The last point is at the right edge.
fn pieces(points: &[Point], figure: fn(&Point) -> Option<f32>, top: f64) -> Vec<Vec<(f64, f64)>> {
    let first = POINTS.saturating_sub(points.len());
    let across = |place: usize| (first + place) as f64 / (POINTS - 1) as f64;
    let known: Vec<(usize, Option<f32>)> = points.iter().map(figure).enumerate().collect();
    let pieces = known.split(|(_, figure)| figure.is_none()).filter(|piece| !piece.is_empty());
    let piece = |piece: &[(usize, Option<f32>)]| {
        piece
            .iter()
            .map(|(place, figure)| (across(*place), f64::from(figure.unwrap_or_default()) / top))
            .collect()
    };
    pieces.map(piece).collect()
}

pub(super) fn failures(status: &Status) -> Markup {
    if status.failures.is_empty() {
        return Markup::default();
    }
    let headings = "Time|Service|Client|Backend|What happened";
    let mut table = Table::new("The last connections that failed", headings);
    for failure in &status.failures {
        let client = failure.client.map_or_else(|| "unix socket".to_owned(), |client| client.to_string());
        let detail = failure.detail.as_deref().unwrap_or_default();
        table.row([
            html! { (Utc::of(failure.time).time_of_day()) },
            html! { (failure.service) },
            html! { (client) },
            html! { (failure.backend.as_deref().unwrap_or("–")) },
            with_small(&capitalised(&failure.sentence), detail),
        ]);
    }
    card(
        "The last connections that failed",
        "A few of each kind, the newest first; all are counted above, and are in the access log. Times are of accept, in UTC.",
        &table.draw(),
    )
}
