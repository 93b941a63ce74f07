//! The picture of a running test on a terminal, as lines of text.
//!
//! In: a [`Progress`] and the terminal's size. Out: rows, which `talk.rs` draws in place of the last ones. Pure.
//!
//! Not ratatui: with its terminal library it would add 35 to 43 packages to a lock file that may have 300; and a dozen
//! rows that are drawn once a second, without alternate screen, raw mode or hidden cursor, leave nothing to restore.

use std::time::Duration;

use handfast_report::units::{count, nanos, share};
use handfast_stats::Histogram;
use handfast_text::sort::SmallSort as _;

use super::progress::{Counts, Progress};

/// How rows are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// Whether with colors.
    pub(crate) color: bool,
    /// Whether the terminal shows more than ASCII.
    pub(crate) unicode: bool,
}

/// Columns of the words at the left.
const LABEL: usize = 12;
/// Share of CPU time from which on a generator thread is shown as a warning.
const BUSY: f64 = 0.8;
/// Share of time without a CPU from which on it is shown as a warning.
const STARVED: f64 = 0.05;

/// The picture: never wider than `width`, never higher than `height`. What matters least goes first.
pub(crate) fn frame(progress: &Progress, width: u16, height: u16, look: Look) -> Vec<String> {
    let width = usize::from(width);
    let row = |label: &str| {
        let mut row = Row { text: String::new(), room: width, look };
        row.put(&format!("{label:LABEL$}"), Shade::Plain);
        row
    };
    if progress.seconds == 0 {
        // Zeros would look like a target that does nothing.
        let mut preparing = Row { text: String::new(), room: width, look };
        preparing.put(&progress.preparing(), Shade::Plain);
        let rows = [title(progress, Row { text: String::new(), room: width, look }), preparing];
        let spare = rows.len().saturating_sub(usize::from(height));
        return rows.into_iter().skip(spare).map(|row| row.text).collect();
    }
    // Each with its rank: of what does not fit, the highest goes first.
    let mut rows = vec![
        (7, title(progress, Row { text: String::new(), room: width, look })),
        (0, bar(progress, Row { text: String::new(), room: width, look })),
        (1, rates(progress, row("rate"))),
        (2, percentiles(&progress.so_far, row(progress.series), "so far")),
        (5, percentiles(&progress.last, row(""), "last second")),
        (3, errors(progress, row("errors"))),
        (6, handshakes(progress, row("handshakes"))),
        (8, standing(progress, row("connections"))),
        (4, generator(progress, row("generator"))),
    ];
    // Connections that are made and closed all the time do not stand, and are not counted.
    if progress.counts == Counts::Transactions && progress.queued == 0 {
        rows.retain(|(rank, _)| *rank != 8);
    }
    while rows.len() > usize::from(height) {
        let least = rows.iter().enumerate().max_by_key(|(_, (rank, _))| *rank).map(|(index, _)| index);
        rows.remove(least.unwrap_or(0));
    }
    rows.into_iter().map(|(_, row)| row.text).collect()
}

/// How a piece of text is shown.
#[derive(Clone, Copy)]
enum Shade {
    Plain,
    Strong,
    Faint,
    Good,
    Warning,
    Bad,
}

impl Shade {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "\u{1b}[1m",
            Self::Faint => "\u{1b}[2m",
            Self::Good => "\u{1b}[32m",
            Self::Warning => "\u{1b}[33m",
            Self::Bad => "\u{1b}[31m",
        }
    }
}

/// One row, cut at the terminal's edge.
struct Row {
    text: String,
    room: usize,
    look: Look,
}

impl Row {
    fn put(&mut self, text: &str, shade: Shade) {
        let shown = |character| if character == 'µ' && !self.look.unicode { 'u' } else { character };
        let fits: String = text.chars().map(shown).take(self.room).collect();
        self.room -= fits.chars().count();
        match (shade.code(), self.look.color && !fits.is_empty()) {
            (code, true) if !code.is_empty() => {
                self.text.push_str(&format!("{code}{fits}\u{1b}[0m"));
            }
            _ => self.text.push_str(&fits),
        }
    }
}

fn title(progress: &Progress, mut row: Row) -> Row {
    row.put(&progress.title, Shade::Strong);
    if !progress.part.is_empty() {
        row.put(&format!("; {}", progress.part), Shade::Plain);
    }
    row
}

/// `[######----] 12 s of 30 s, 18 s left`.
fn bar(progress: &Progress, mut row: Row) -> Row {
    let over = progress.seconds as f64 >= progress.duration.as_secs_f64();
    let end = match (progress.ending, over) {
        (true, _) => "ending early".to_owned(),
        (false, true) => "waiting for the last ones".to_owned(),
        (false, false) => format!("{} left", clock(progress.left())),
    };
    let passed = clock(Duration::from_secs(u64::from(progress.seconds)).min(progress.duration));
    let words = format!(" {passed} of {}, {end}", clock(progress.duration));
    // The words matter more than the bar.
    let room = row.room.saturating_sub(words.chars().count() + 2).min(50);
    let (full, empty) = if row.look.unicode { ('█', '░') } else { ('#', '-') };
    let filled = (progress.done() * room as f64).round() as usize;
    let bar: String = (0..room).map(|at| if at < filled { full } else { empty }).collect();
    if room > 3 {
        row.put(&format!("[{bar}]"), Shade::Plain);
    }
    row.put(if room > 3 { &words } else { words.trim_start() }, Shade::Plain);
    row
}

fn rates(progress: &Progress, mut row: Row) -> Row {
    let what = match progress.counts {
        Counts::Transactions => "transactions",
        Counts::Exchanges => "exchanges",
        Counts::Bytes => "bytes, both ways",
        Counts::Handshakes => "handshakes",
    };
    row.put(&format!("{:>12}", progress.show(progress.rate())), Shade::Strong);
    row.put(&format!("  mean {} ({what})  ", progress.show(progress.mean_rate())), Shade::Plain);
    let curve = curve(&progress.rates, row.room, row.look.unicode);
    row.put(&curve, Shade::Good);
    row
}

/// `12 s`, `3 min 20 s`: whole seconds, rounded up.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

/// The last figures as heights, from zero to the highest of them.
pub(crate) fn curve(figures: &[f64], width: usize, unicode: bool) -> String {
    let heights: &[char] = if unicode {
        &['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']
    } else {
        &['_', '.', '-', '=', '+', '*', '#']
    };
    let shown = &figures[figures.len().saturating_sub(width)..];
    let most = shown.iter().copied().fold(0.0, f64::max);
    let height = |figure: &f64| {
        let share = if most > 0.0 { figure / most } else { 0.0 };
        let at = (share * (heights.len() - 1) as f64).round() as usize;
        heights[at.min(heights.len() - 1)]
    };
    shown.iter().map(height).collect()
}

fn percentiles(histogram: &Histogram, mut row: Row, when: &str) -> Row {
    if histogram.is_empty() {
        row.put(&format!("{:>12}", "none"), Shade::Plain);
    } else {
        for (name, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
            row.put(&format!(" {name} "), Shade::Faint);
            row.put(&format!("{:>8}", nanos(histogram.quantile_nanos(quantile))), Shade::Plain);
        }
    }
    row.put(&format!("  {when}"), Shade::Faint);
    row
}

fn errors(progress: &Progress, mut row: Row) -> Row {
    let failed = progress.failed();
    row.put(&format!("{:>12}", count(failed)), if failed > 0 { Shade::Bad } else { Shade::Good });
    if let Some((what, times)) = progress.worst() {
        row.put(
            &format!("  {} in the last second; most often: {what}", count(progress.failures_last)),
            Shade::Plain,
        );
        row.put(&format!(" ({})", count(times)), Shade::Plain);
    }
    row
}

fn handshakes(progress: &Progress, mut row: Row) -> Row {
    let all = progress.full + progress.resumed;
    row.put(&format!("{:>12} full", count(progress.full)), Shade::Plain);
    row.put(&format!(", {} resumed", count(progress.resumed)), Shade::Plain);
    if all > 0 && (progress.resumed > 0 || progress.wanted_resumed > 0.0) {
        let resumed = progress.resumed as f64 / all as f64;
        let words = format!(" ({} of them; {} wanted)", share(resumed), share(progress.wanted_resumed));
        row.put(&words, Shade::Plain);
    }
    row
}

fn standing(progress: &Progress, mut row: Row) -> Row {
    if progress.counts != Counts::Transactions {
        row.put(&format!("{:>12} open", count(progress.open)), Shade::Plain);
    }
    if progress.queued > 0 {
        row.put(&format!(" {:>11}", count(progress.queued)), Shade::Warning);
        row.put(" starts had to wait for a free one", Shade::Warning);
    }
    row
}

fn generator(progress: &Progress, mut row: Row) -> Row {
    let part = |some: u64, all: u64| if all > 0 { some as f64 / all as f64 } else { 0.0 };
    row.put(" cpu", Shade::Faint);
    // Many threads would fill the row; the busiest tell.
    let mut used: Vec<f64> =
        progress.threads.iter().map(|thread| part(thread.busy_ns, thread.wall_ns)).collect();
    used.small_sort_by(|a, b| b.total_cmp(a));
    for cpu in used.iter().take(8) {
        row.put(&format!(" {}", share(*cpu)), if *cpu > BUSY { Shade::Warning } else { Shade::Plain });
    }
    if used.len() > 8 {
        row.put(&format!(" and {} more", used.len() - 8), Shade::Plain);
    }
    if let Some(lag) = progress.lag {
        row.put("  lag p99 ", Shade::Faint);
        row.put(&nanos(lag), Shade::Plain);
    }
    let starved: u64 = progress.threads.iter().map(|thread| thread.starved_ns).sum();
    let wall: u64 = progress.threads.iter().map(|thread| thread.wall_ns).sum();
    let starved = part(starved, wall);
    row.put("  waiting for cpu ", Shade::Faint);
    row.put(&share(starved), if starved > STARVED { Shade::Warning } else { Shade::Plain });
    row
}

#[cfg(test)]
mod tests;
