//! The last hour as lines, drawn as SVG in the page itself; and the last connections that failed.

use handfast_text::calendar::Utc;

use super::format::{bytes, count, rate, seconds};
use super::html::Html;
use crate::hour::{APART, POINTS, Point};
use crate::status::Status;

/// Height of a drawing in its own units; its width is a unit for each point.
const HEIGHT: f32 = 60.0;
/// Room for half a line's width at the top and the bottom.
const EDGE: f32 = 2.0;

/// One drawing: its title, how a figure is written, and its lines.
type Drawing = (&'static str, fn(f64) -> String, &'static [Line]);

/// One line: its class in the style sheet, its name, and where its figures are.
type Line = (&'static str, &'static str, fn(&Point) -> Option<f32>);

const DRAWINGS: [Drawing; 5] = [
    (
        "New connections and handshakes",
        rate,
        &[
            ("queue", "connections", |point| Some(point.connections)),
            ("crypto", "full handshakes", |point| Some(point.full)),
            ("client", "resumed handshakes", |point| Some(point.resumed)),
        ],
    ),
    (
        "Bytes",
        |figure| format!("{}/s", bytes(figure as u64)),
        &[
            ("crypto", "to backends", |point| Some(point.to_backend)),
            ("hello", "to clients", |point| Some(point.to_client)),
        ],
    ),
    ("Open connections", |figure| count(figure as u64), &[("hello", "open", |point| Some(point.open))]),
    (
        "Time of a handshake",
        seconds,
        &[
            ("client", "median", |point| point.handshake.map(|[half, _]| half)),
            ("crypto", "99 %", |point| point.handshake.map(|[_, most]| most)),
        ],
    ),
    ("Connections that failed", rate, &[("failed", "failed", |point| Some(point.failures))]),
];

pub(super) fn hour(html: &mut Html, status: &Status) {
    let minutes = (status.hour.len() as u64 * APART.as_secs()).div_ceil(60);
    let meaning = match minutes {
        0 => "Lines appear twenty seconds after the start.".to_owned(),
        _ => format!(
            "Of this process, a point every {} seconds; {minutes} of 60 minutes are known. The right edge is now, the scale begins at 0.",
            APART.as_secs()
        ),
    };
    html.section("The last hour", &meaning);
    if minutes > 0 {
        html.raw("<div class=hour>");
        DRAWINGS.iter().for_each(|drawing| draw(html, drawing, &status.hour));
        html.raw("</div>");
    }
    html.raw("</section>");
}

fn draw(html: &mut Html, (title, words, lines): &Drawing, points: &[Point]) {
    let figures = |line: &Line| points.iter().filter_map(line.2).fold(0.0, f32::max);
    let most = lines.iter().map(figures).fold(0.0, f32::max);
    let highest = format!("highest {}", words(most.into()));
    html.raw("<figure><figcaption><strong>").text(title).raw("</strong> <small>").text(&highest);
    html.raw("</small></figcaption>");
    html.raw(&format!(
        "<svg class=lines viewBox=\"0 0 {POINTS} {HEIGHT}\" preserveAspectRatio=none role=img aria-label=\""
    ));
    html.text(&format!("{title}: {highest}")).raw("\">");
    for (class, _, figure) in *lines {
        html.raw(&format!("<path class={class} d=\"{}\" />", path(points, *figure, most)));
    }
    html.raw("</svg><ul class=legend>");
    for (class, name, figure) in *lines {
        let now = points.last().and_then(figure).map_or("none".into(), |now| words(now.into()));
        html.raw(&format!("<li class={class}>")).text(&format!("{name}: {now}")).raw("</li>");
    }
    html.raw("</ul></figure>");
}

/// The line as SVG's path data; where nothing is known it is interrupted. The last point is at the right edge.
fn path(points: &[Point], figure: fn(&Point) -> Option<f32>, most: f32) -> String {
    let mut path = String::new();
    let mut pen = false;
    let first = POINTS.saturating_sub(points.len());
    for (place, point) in points.iter().enumerate() {
        let Some(figure) = figure(point) else {
            pen = false;
            continue;
        };
        let share = if most > 0.0 { figure / most } else { 0.0 };
        let y = HEIGHT - EDGE - share * (HEIGHT - 2.0 * EDGE);
        // A point without neighbours would not be drawn: each line begins with a dash.
        let (command, dash) = if pen { ('L', "") } else { ('M', "h.9") };
        path.push_str(&format!("{command}{} {y:.1}{dash}", first + place));
        pen = true;
    }
    path
}

pub(super) fn failures(html: &mut Html, status: &Status) {
    if status.failures.is_empty() {
        return;
    }
    html.section(
        "The last connections that failed",
        "A few of each kind, the newest first; all are counted above, and are in the access log. Times are of accept, in UTC.",
    );
    html.table("Time|Service|Client|Backend|What happened");
    for failure in &status.failures {
        let client = failure.client.map(|client| client.to_string());
        html.raw("<tr>").element("td class=code", &Utc::of(failure.time).time_of_day().to_string());
        html.cell(&failure.service).element("td class=code", client.as_deref().unwrap_or("unix socket"));
        html.element("td class=code", failure.backend.as_deref().unwrap_or("–"));
        html.raw("<td>").text(&super::sections::capitalised(&failure.sentence));
        html.element("small", failure.detail.as_deref().unwrap_or_default()).raw("</td></tr>");
    }
    html.end_table().raw("</section>");
}
