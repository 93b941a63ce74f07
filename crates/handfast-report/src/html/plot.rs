//! A plot whose geometry stretches with the page and whose text does not.
//!
//! In: lines and ticks in parts of the plot (0 to 1, upward). Out: a `<figure>`. The SVG has the shapes and, for screen readers,
//! a title and a description; the text around it is HTML, so that it keeps its size on a phone.

use std::fmt::Write;

use super::escape::escape;

/// Units of the SVG's own coordinates along each side.
const SIDE: f64 = 1_000.0;

/// A place along an axis, and what is written there.
pub(super) type Tick = (f64, String);

/// One line of a plot.
pub(super) struct Line {
    /// Its name, for the label at its end and the key.
    pub(super) name: String,
    /// CSS classes: colour, dashes, weight.
    pub(super) class: String,
    /// Points from left to right, in pieces: between two of them there is nothing to draw a line through.
    pub(super) pieces: Vec<Vec<(f64, f64)>>,
}

/// A plot to be drawn.
#[derive(Default)]
pub(super) struct Plot<'a> {
    /// For references within the page.
    pub(super) id: &'a str,
    /// What it shows.
    pub(super) title: &'a str,
    /// How to read it.
    pub(super) reading: String,
    /// A description for screen readers.
    pub(super) description: String,
    /// Along the bottom.
    pub(super) across: Vec<Tick>,
    /// Name of that axis.
    pub(super) across_name: &'a str,
    /// Along the side.
    pub(super) up: Vec<Tick>,
    /// Shapes below the lines, in SVG's coordinates.
    pub(super) below: String,
    /// The lines.
    pub(super) lines: Vec<Line>,
    /// Whether a lower plot is enough.
    pub(super) low: bool,
    /// HTML after it: keys, tables.
    pub(super) after: String,
}

/// Across, in SVG's coordinates.
pub(super) fn x(part: f64) -> f64 {
    part * SIDE
}

/// Up, in SVG's coordinates, which go down.
pub(super) fn y(part: f64) -> f64 {
    (1.0 - part.clamp(0.0, 1.0)) * SIDE
}

/// A `<path>` of the lines between points, piece by piece.
pub(super) fn path(pieces: &[Vec<(f64, f64)>], class: &str) -> String {
    let mut data = String::new();
    for points in pieces {
        for (place, (across, up)) in points.iter().enumerate() {
            let _ = write!(data, "{}{:.1} {:.1}", if place == 0 { 'M' } else { 'L' }, x(*across), y(*up));
        }
    }
    format!("<path class=\"{class}\" d=\"{data}\"/>")
}

/// The path data of a box.
pub(super) fn area(data: &mut String, (left, right): (f64, f64), (low, high): (f64, f64)) {
    let (top, bottom) = (y(high), y(low));
    let _ = write!(data, "M{:.1} {top:.1}H{:.1}V{bottom:.1}H{:.1}z", x(left), x(right), x(left));
}

impl Plot<'_> {
    pub(super) fn draw(&self) -> String {
        let id = self.id;
        let labels = self.lines.len() > 1;
        let class =
            format!("plot{}{}", if self.low { " low" } else { "" }, if labels { "" } else { " bare" });
        let mut html = format!(
            "<figure class=\"card\"><figcaption><h3>{}</h3><p>{}</p></figcaption>\n<div class=\"{class}\"><div class=\"ys\">",
            escape(self.title),
            escape(&self.reading)
        );
        for (part, text) in &self.up {
            let _ = write!(html, "<span style=\"top:{:.1}%\">{}</span>", 100.0 - part * 100.0, escape(text));
        }
        let _ = write!(
            html,
            "</div><div class=\"area\"><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\"><title id=\"{id}-t\">{}</title><desc id=\"{id}-d\">{}</desc>",
            escape(self.title),
            escape(&self.description)
        );
        self.grid(&mut html);
        html.push_str(&self.below);
        self.lines.iter().for_each(|line| html.push_str(&path(&line.pieces, &format!("l {}", line.class))));
        html.push_str("</svg></div><div class=\"ends\">");
        if labels {
            self.ends(&mut html);
        }
        html.push_str("</div><div class=\"xs\">");
        for (place, (part, text)) in self.across.iter().enumerate() {
            let odd = if place % 2 == 1 && self.across.len() > 6 { " class=\"odd\"" } else { "" };
            let _ = write!(html, "<span{odd} style=\"left:{:.1}%\">{}</span>", part * 100.0, escape(text));
        }
        let _ = write!(html, "<i>{}</i></div></div>", escape(self.across_name));
        if labels {
            html.push_str(&self.key());
        }
        let _ = write!(html, "{}</figure>", self.after);
        html
    }

    fn grid(&self, html: &mut String) {
        let mut data = String::new();
        for (part, _) in &self.up {
            let _ = write!(data, "M0 {:.1}H1000", y(*part));
        }
        for (part, _) in &self.across {
            let _ = write!(data, "M{:.1} 0V1000", x(*part));
        }
        let _ = write!(html, "<path class=\"g\" d=\"{data}\"/>");
    }

    /// Names at the lines' ends, pushed apart where they would cover each other.
    fn ends(&self, html: &mut String) {
        let gap = if self.low { 0.085 } else { 0.047 };
        let mut ends: Vec<(f64, &Line)> = self
            .lines
            .iter()
            .filter_map(|line| Some((line.pieces.last()?.last()?.1.clamp(0.0, 1.0), line)))
            .collect();
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
        for (part, line) in ends {
            let top = 100.0 - part * 100.0;
            let _ = write!(
                html,
                "<span class=\"{}\" style=\"top:{top:.1}%\">{}</span>",
                line.class,
                escape(&line.name)
            );
        }
    }

    /// Where there is no room at the ends of the lines.
    fn key(&self) -> String {
        let sample = |line: &Line| {
            let class = &line.class;
            format!(
                "<li><svg viewBox=\"0 0 30 10\" aria-hidden=\"true\"><line class=\"{class}\" x1=\"0\" y1=\"5\" x2=\"30\" \
                 y2=\"5\"/></svg>{}</li>",
                escape(&line.name)
            )
        };
        format!("<ul class=\"key narrow\">{}</ul>", self.lines.iter().map(sample).collect::<String>())
    }
}

/// Four to eight even ticks from 0 to `most`, and where `most` lies when the axis ends at the last of them.
pub(super) fn even(most: f64, name: impl Fn(f64) -> String) -> (Vec<Tick>, f64) {
    let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
    let rough = most / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .iter()
        .map(|s| s * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power);
    let steps = (most / step).ceil().max(1.0);
    let ticks = (0..=steps as u32).map(|place| (f64::from(place) / steps, name(f64::from(place) * step)));
    (ticks.collect(), step * steps)
}

/// A logarithmic axis of nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Log {
    low: f64,
    high: f64,
}

impl Log {
    /// From below `low` to above `high`, in whole halves of a decade.
    pub(super) fn around(low: u64, high: u64) -> Self {
        let low = ((low.max(100) as f64).log10() * 4.0).floor() / 4.0;
        let high = ((high.max(100) as f64).log10() * 4.0 + 0.001).ceil() / 4.0;
        Self { low, high: high.max(low + 1.0) }
    }

    /// Where a value lies, 0 to 1.
    pub(super) fn part(self, nanos: u64) -> f64 {
        (((nanos.max(1) as f64).log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The value at a place.
    #[cfg(test)]
    fn value(self, part: f64) -> f64 {
        10_f64.powf(self.low + part * (self.high - self.low))
    }

    /// Every power of ten; with twos and fives between when there are few.
    pub(super) fn ticks(self) -> Vec<Tick> {
        let between: &[f64] = if self.high - self.low < 2.6 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let mut ticks = Vec::new();
        for power in self.low.floor() as i32..=self.high.ceil() as i32 {
            for factor in between {
                let value = factor * 10_f64.powi(power);
                let part = (value.log10() - self.low) / (self.high - self.low);
                if (-0.001..=1.001).contains(&part) {
                    ticks.push((part.clamp(0.0, 1.0), round(value)));
                }
            }
        }
        ticks
    }
}

/// A round duration without useless digits: `10 ms`.
fn round(nanos: f64) -> String {
    short(&crate::units::duration(nanos))
}

/// A round rate or count without them: `50`, `2.5`, `4,000`.
pub(super) fn plain_rate(value: f64) -> String {
    short(&crate::words::per_second(value)).trim_end().to_owned()
}

fn short(text: &str) -> String {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {unit}")
}

/// Seconds since the start, with at most eight ticks: `30 s`, from two minutes on `2:30`, from two hours on `2:30:00`.
pub(super) fn time(seconds: f64) -> Vec<Tick> {
    const STEPS: [u32; 16] =
        [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400];
    let seconds = seconds.max(1.0);
    let step = STEPS.into_iter().find(|step| seconds / f64::from(*step) <= 8.0).unwrap_or(86_400 * 7);
    let name = |at: u32| match seconds {
        total if total < 120.0 => format!("{at} s"),
        total if total < 7_200.0 => format!("{}:{:02}", at / 60, at % 60),
        _ => format!("{}:{:02}:{:02}", at / 3_600, at / 60 % 60, at % 60),
    };
    (0..)
        .map(|n| n * step)
        .take_while(|at| f64::from(*at) <= seconds)
        .take(1_000)
        .map(|at| (f64::from(at) / seconds, name(at)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_axes_end_at_a_round_number_above() {
        for most in [0.3, 1.0, 7.0, 99.0, 4_999.0, 1e7] {
            let (ticks, end) = even(most, |value| value.to_string());
            assert!(end >= most * 0.999 && end <= most * 1.7, "{most}: {end}");
            assert!((4..=7).contains(&ticks.len()), "{most}: {}", ticks.len());
            assert_eq!(ticks.last().unwrap().0, 1.0);
        }
        assert_eq!(even(f64::NAN, |value| value.to_string()).1, 1.0);
    }

    #[test]
    fn logarithmic_axes_hold_their_ends() {
        for (low, high) in [(0, 0), (61_000, 181_000_000), (100, 3_600_000_000_000), (5_000, 5_001)] {
            let axis = Log::around(low, high);
            assert!(axis.value(0.0) <= low.max(100) as f64 * 1.001 && axis.value(1.0) >= high as f64 * 0.999);
            assert!((2..=12).contains(&axis.ticks().len()), "{low} {high}: {:?}", axis.ticks());
        }
        assert_eq!(Log::around(1_000, 1_000_000).ticks()[1].1, "10 µs");
    }

    #[test]
    fn time_has_few_ticks_however_long() {
        for seconds in [0.0, 1.0, 10.0, 60.0, 3_600.0, 86_400.0, 1e6] {
            assert!((1..=9).contains(&time(seconds).len()), "{seconds}: {}", time(seconds).len());
        }
        assert_eq!(time(300.0)[1].1, "1:00");
    }
}
