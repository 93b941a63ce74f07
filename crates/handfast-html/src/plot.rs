//! A plot whose geometry stretches with the page and whose text keeps its size.
//!
//! In: lines and ticks as shares of the plot (0 to 1, upward). Out: a figure. The texts at its edges are SVG with percentages, because no
//! element may have a `style` attribute. A screen reader gets the title and a description.

use std::fmt::Write;

use maud::{Markup, html};

use crate::axis::Tick;
use crate::percent;

/// Units of the drawing's own coordinates along each side.
const SIDE: f64 = 1_000.0;

/// One line of a plot.
pub struct Line {
    /// Its name, for the label at its end and the key.
    pub name: String,
    /// CSS classes: colour, dashes, weight.
    pub class: String,
    /// Points from left to right, in pieces: between two of them there is nothing to draw a line through.
    pub pieces: Vec<Vec<(f64, f64)>>,
}

/// Size of a plot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// For many lines or a heat map.
    #[default]
    Full,
    /// For one figure.
    Low,
    /// One of several beside each other; the names of its lines are below it.
    Small,
}

impl Size {
    /// CSS class, and the height of a label as a share of the plot's.
    const fn facts(self) -> (&'static str, f64) {
        match self {
            Self::Full => ("plot", 0.047),
            Self::Low => ("plot low", 0.085),
            Self::Small => ("plot small", 0.2),
        }
    }
}

/// A plot to be drawn.
#[derive(Default)]
pub struct Plot<'a> {
    /// Title of the plot.
    pub title: &'a str,
    /// Instruction for reading it.
    pub reading: String,
    /// A description for screen readers.
    pub description: String,
    /// Along the bottom.
    pub across: Vec<Tick>,
    /// Name of that axis.
    pub across_name: &'a str,
    /// Along the side.
    pub up: Vec<Tick>,
    /// Shapes below the lines, in the drawing's coordinates.
    pub below: Markup,
    /// The lines.
    pub lines: Vec<Line>,
    /// Its room.
    pub size: Size,
    /// Content below it: keys, tables.
    pub after: Markup,
}

fn x(part: f64) -> f64 {
    part * SIDE
}

/// Coordinates of the drawing go down.
fn y(part: f64) -> f64 {
    (1.0 - part.clamp(0.0, 1.0)) * SIDE
}

/// The lines between points, piece by piece. A piece of one point is a dot.
pub fn path(pieces: &[Vec<(f64, f64)>], class: &str) -> Markup {
    let mut data = String::new();
    for points in pieces {
        for (place, (across, up)) in points.iter().enumerate() {
            let _ = write!(data, "{}{:.1} {:.1}", if place == 0 { 'M' } else { 'L' }, x(*across), y(*up));
        }
        if points.len() == 1 {
            data.push_str("h4");
        }
    }
    html! { path class=(class) d=(data) {} }
}

/// Adds a box to the data of a path.
pub fn area(data: &mut String, (left, right): (f64, f64), (low, high): (f64, f64)) {
    let (top, bottom) = (y(high), y(low));
    let _ = write!(data, "M{:.1} {top:.1}H{:.1}V{bottom:.1}H{:.1}z", x(left), x(right), x(left));
}

impl Plot<'_> {
    /// The figure.
    pub fn draw(&self) -> Markup {
        let several = self.lines.len() > 1;
        let label = format!("{}. {}", self.title, self.description);
        html! {
            figure {
                figcaption { h3 { (self.title) } p { (self.reading) } }
                div class=(self.size.facts().0) {
                    svg.ys aria-hidden="true" { @for (part, text) in &self.up {
                        text x="100%" dx="-8" y=(percent(100.0 - part * 100.0)) dy="4" text-anchor="end" { (text) }
                    } }
                    svg.area viewBox="0 0 1000 1000" preserveAspectRatio="none" role="img" aria-label=(label.trim_end()) {
                        (self.grid())
                        (self.below)
                        @for line in &self.lines { (path(&line.pieces, &format!("l {}", line.class))) }
                    }
                    @if several && self.size != Size::Small {
                        svg.ends aria-hidden="true" { @for (part, line) in self.ends() {
                            text class=(line.class) x="8" y=(percent(100.0 - part * 100.0)) dy="4" { (line.name) }
                        } }
                    }
                    svg.xs aria-hidden="true" { (self.across()) }
                }
                @if several || self.size == Size::Small { (self.key()) }
                (self.after)
            }
        }
    }

    fn across(&self) -> Markup {
        let last = self.across.len().saturating_sub(1);
        html! {
            @for (place, (part, text)) in self.across.iter().enumerate() {
                @let anchor = if place == 0 { "start" } else if place == last && *part > 0.9 { "end" } else { "middle" };
                text.odd[place % 2 == 1 && last > 5] x=(percent(part * 100.0)) y="18" text-anchor=(anchor) { (text) }
            }
            text x="100%" y="36" text-anchor="end" { (self.across_name) }
        }
    }

    fn grid(&self) -> Markup {
        let mut data = String::new();
        for (part, _) in &self.up {
            let _ = write!(data, "M0 {:.1}H1000", y(*part));
        }
        for (part, _) in &self.across {
            let _ = write!(data, "M{:.1} 0V1000", x(*part));
        }
        html! { path.g d=(data) {} }
    }

    /// Places of the names at the lines' ends, pushed apart where they would cover each other.
    fn ends(&self) -> Vec<(f64, &Line)> {
        let gap = self.size.facts().1;
        let end = |line: &'_ Line| Some(line.pieces.last()?.last()?.1.clamp(0.0, 1.0));
        let mut ends: Vec<(f64, &Line)> =
            self.lines.iter().filter_map(|line| Some((end(line)?, line))).collect();
        ends.sort_by(|a, b| b.0.total_cmp(&a.0));
        // From the top down, each at least a line's height below the last; then, if the lowest fell out, upward again.
        for place in 1..ends.len() {
            ends[place].0 = ends[place].0.min(ends[place - 1].0 - gap);
        }
        let mut floor = 0.0;
        for end in ends.iter_mut().rev() {
            end.0 = end.0.max(floor);
            floor = end.0 + gap;
        }
        ends
    }

    /// Returns a key, where there is no room at the ends of the lines.
    fn key(&self) -> Markup {
        html! { ul.key.narrow[self.size != Size::Small] { @for line in &self.lines {
            li {
                svg viewBox="0 0 30 10" aria-hidden="true" { path class={ "l " (line.class) } d="M0 5H30" {} }
                (line.name)
            }
        } } }
    }
}
