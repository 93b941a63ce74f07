//! One target that is measured repeatedly: its last figures as a line of bars, and all of them as a summary.
//!
//! In: a time, or a failure. Out: text. The last [`MAX_FIGURES`] figures are kept, and sums of all.

use std::collections::VecDeque;

use handfast_text::table::{cut, padded};
use handfast_text::units::{self, plain};

/// Figures that are kept: more than a line has columns.
const MAX_FIGURES: usize = 240;
/// Columns of a target's name.
const NAME: usize = 28;

/// The measurements of a target.
#[derive(Clone, Debug)]
pub struct Series {
    name: String,
    recent: VecDeque<Option<f64>>,
    good: u64,
    failed: u64,
    sum: f64,
    least: f64,
    most: f64,
}

impl Series {
    /// Nothing yet.
    pub fn new(name: &str) -> Self {
        let name = plain(name);
        Self { name, recent: VecDeque::new(), good: 0, failed: 0, sum: 0.0, least: f64::MAX, most: 0.0 }
    }

    /// Takes a figure in, in milliseconds; `None`: it failed.
    pub fn take(&mut self, ms: Option<f64>) {
        if self.recent.len() == MAX_FIGURES {
            self.recent.pop_front();
        }
        self.recent.push_back(ms);
        match ms {
            None => self.failed += 1,
            Some(ms) => {
                self.good += 1;
                self.sum += ms;
                self.least = self.least.min(ms);
                self.most = self.most.max(ms);
            }
        }
    }

    /// The target with its last figure and a bar for each of those before it, the newest at the end.
    pub fn row(&self, columns: usize) -> String {
        let last = match self.recent.back() {
            Some(Some(last)) => ms(*last),
            Some(None) => "failed".to_owned(),
            None => String::new(),
        };
        let room = columns.saturating_sub(NAME + 1 + 9 + 2).max(1);
        let shown = self.recent.iter().skip(self.recent.len().saturating_sub(room));
        let figures = || shown.clone().flatten().copied();
        let (least, most) = (figures().fold(f64::MAX, f64::min), figures().fold(0.0, f64::max));
        let bars: String = shown.clone().map(|ms| bar(*ms, least, most)).collect();
        format!("{} {last:>9}  {bars}", self.short())
    }

    /// All figures in a line, under [`summary_head`].
    pub fn summary(&self) -> String {
        let figure = |figure: f64| if self.good > 0 { ms(figure) } else { "–".to_owned() };
        let all = self.good + self.failed;
        format!(
            "{} {:>9} {:>9} {:>9}  {} of {}",
            self.short(),
            figure(self.least),
            figure(self.sum / self.good as f64),
            figure(self.most),
            units::count(self.failed),
            units::count(all)
        )
    }

    /// The name in its columns.
    fn short(&self) -> String {
        padded(&cut(&self.name, NAME), NAME, false)
    }
}

/// The heading over [`Series::summary`]'s lines.
pub fn summary_head() -> String {
    format!("{:<NAME$} {:>9} {:>9} {:>9}  failed", "connect and full handshake", "least", "mean", "most")
}

fn ms(ms: f64) -> String {
    units::duration(ms * 1e6)
}

/// A bar between the least and the most of the line; figures that hardly differ are all low.
fn bar(figure: Option<f64>, least: f64, most: f64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let Some(figure) = figure else { return '×' };
    // A tenth of the figure is not worth a bar of full height.
    let span = (most - least).max(least / 10.0);
    let step = if span > 0.0 { (figure - least) / span * (BARS.len() - 1) as f64 } else { 0.0 };
    BARS[(step.round() as usize).min(BARS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_bars_between_the_least_and_the_most() {
        let mut series = Series::new("a.example:443");
        for figure in [Some(10.0), Some(80.0), None, Some(45.0)] {
            series.take(figure);
        }
        let row = series.row(80);
        assert!(row.starts_with("a.example:443 ") && row.ends_with("45.0 ms  ▁█×▅"), "{row}");
        assert!(series.summary().ends_with("  10.0 ms   45.0 ms   80.0 ms  1 of 4"), "{}", series.summary());
        let mut even = Series::new("b");
        [20.0, 20.2, 20.1].into_iter().for_each(|figure| even.take(Some(figure)));
        assert!(even.row(80).ends_with("▁▂▁") || even.row(80).ends_with("▁▂▂"), "{}", even.row(80));
        even.take(None);
        assert!(even.row(80).contains("failed"));
    }

    #[test]
    fn a_line_has_its_columns_and_the_past_its_bound() {
        let mut series = Series::new(&"long".repeat(20));
        (0..10_000).for_each(|number| series.take(Some(f64::from(number % 100))));
        assert_eq!(series.recent.len(), MAX_FIGURES);
        for columns in [80, 120] {
            assert_eq!(series.row(columns).chars().count(), columns);
        }
        assert!(series.row(80).ends_with('█') && series.summary().ends_with("0 of 10,000"));
        assert!(series.summary().chars().count() <= 80 && summary_head().chars().count() <= 80);
        let mut dead = Series::new("a\u{1b}b");
        dead.take(None);
        assert!(dead.summary().ends_with("–  1 of 1") && !dead.row(80).contains('\u{1b}'));
    }
}
