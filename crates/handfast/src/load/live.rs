//! The picture of a running test on a terminal, as lines of text.
//!
//! In: a [`Run`] and the terminal's size. Out: lines, which `talk.rs` draws over the last ones; `handfast top` draws the same. Pure.

use std::time::Duration;

use handfast_report::run::{Counts, Failed, Latency, Run};
use handfast_report::units::{self, count, nanos, share};

use crate::screen::{Line, Look, Pieces, Shade, curve};

/// Columns of the words at the left.
const LABEL: usize = 12;
/// Share of CPU time from which on a generator thread is shown as a warning.
const BUSY: f64 = 0.8;
/// Share of time without a CPU from which on it is shown as a warning.
const STARVED: f64 = 0.05;

/// The picture: never wider than `width`, never higher than `height`. The least important rows are dropped first.
pub(crate) fn frame(run: &Run, width: usize, height: usize, look: Look) -> Vec<Line> {
    if run.seconds == 0 {
        // Zeros would look like an inactive target.
        let rows = [title(run), Line::of(preparing(run), Shade::Plain)];
        let spare = rows.len().saturating_sub(height);
        return rows.into_iter().skip(spare).collect();
    }
    // Each row has a rank: the highest rank is dropped first.
    let mut rows: Vec<_> = [(7, title(run))].into_iter().chain(figures(run, width, look)).collect();
    while rows.len() > height {
        let least = rows.iter().enumerate().max_by_key(|(_, (rank, _))| *rank).map(|(index, _)| index);
        rows.remove(least.unwrap_or(0));
    }
    rows.into_iter().map(|(_, row)| row).collect()
}

/// All but the title, each with its rank.
pub(crate) fn figures(run: &Run, width: usize, look: Look) -> Vec<(u8, Line)> {
    let mut rows = vec![
        (0, bar(run, width, look)),
        (1, rates(run, width, look)),
        (2, percentiles(&run.so_far, label(&run.so_far.name), "so far")),
        (5, percentiles(&run.last, label(""), "last second")),
        (3, errors(run)),
        (6, handshakes(run)),
        (8, standing(run)),
        (4, generator(run)),
    ];
    // Short connections are not counted as open.
    if run.counts == Counts::Transactions && run.queued == 0 {
        rows.retain(|(rank, _)| *rank != 8);
    }
    rows
}

/// The display before the first second.
pub(crate) fn preparing(run: &Run) -> String {
    let tickets = if run.wanted_resumed > 0.0 { ", tickets" } else { "" };
    format!("preparing: one transaction to see that it works{tickets}; then the first second")
}

fn label(text: &str) -> Line {
    Line::of(format!("{text:LABEL$}"), Shade::Plain)
}

fn title(run: &Run) -> Line {
    let line = Line::of(&run.title, Shade::Strong);
    if run.part.is_empty() { line } else { line.and(format!("; {}", run.part), Shade::Plain) }
}

/// `[######----] 12 s of 30 s, 18 s left`.
fn bar(run: &Run, width: usize, look: Look) -> Line {
    let whole = Duration::try_from_secs_f64(run.duration_seconds).unwrap_or_default();
    let passed = Duration::from_secs(run.seconds.into());
    let end = match (run.ending, passed >= whole) {
        (true, _) => "ending early".to_owned(),
        (false, true) => "waiting for the last ones".to_owned(),
        (false, false) => format!("{} left", clock(whole.saturating_sub(passed))),
    };
    let words = format!(" {} of {}, {end}", clock(passed.min(whole)), clock(whole));
    // The text is more important than the bar.
    let room = width.saturating_sub(handfast_text::table::width(&words) + 2).min(50);
    if room <= 3 {
        return Line::of(words.trim_start(), Shade::Plain);
    }
    let (full, empty) = if look.unicode { ('█', '░') } else { ('#', '-') };
    let done = (passed.as_secs_f64() / whole.as_secs_f64().max(0.001)).min(1.0);
    let filled = (done * room as f64).round() as usize;
    let bar: String = (0..room).map(|at| if at < filled { full } else { empty }).collect();
    Line::of(format!("[{bar}]{words}"), Shade::Plain)
}

fn rates(run: &Run, width: usize, look: Look) -> Line {
    let what = match run.counts {
        Counts::Transactions => "transactions",
        Counts::Exchanges => "exchanges",
        Counts::Bytes => "bytes, both ways",
        Counts::Handshakes => "handshakes",
    };
    let line = label("rate")
        .and(format!("{:>12}", shown(run, run.rate())), Shade::Strong)
        .and(format!("  mean {} ({what})  ", shown(run, run.mean_rate)), Shade::Plain);
    let curve = curve(&run.rates, width.saturating_sub(line.width()), look.unicode);
    line.and(curve, Shade::Good)
}

/// A figure of the rate with its unit.
pub(crate) fn shown(run: &Run, rate: f64) -> String {
    match run.counts {
        Counts::Bytes => format!("{}/s", units::bytes(rate as u64)),
        _ => units::rate(rate),
    }
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

fn percentiles(latency: &Latency, mut line: Line, when: &str) -> Line {
    if latency.count == 0 {
        line = line.and(format!("{:>12}", "none"), Shade::Plain);
    } else {
        let known = [
            ("p50", latency.p50_ns),
            ("p90", latency.p90_ns),
            ("p99", latency.p99_ns),
            ("max", latency.max_ns),
        ];
        for (name, figure) in known {
            line = line
                .and(format!(" {name} "), Shade::Faint)
                .and(format!("{:>8}", nanos(figure)), Shade::Plain);
        }
    }
    line.and(format!("  {when}"), Shade::Faint)
}

fn errors(run: &Run) -> Line {
    let failed = run.failed();
    let line = label("errors");
    let line = line.and(format!("{:>12}", count(failed)), if failed > 0 { Shade::Bad } else { Shade::Good });
    let Some(worst) = run.worst() else { return line };
    let (last, Failed { step, cause, .. }) = (count(run.failed_last()), worst);
    let words = format!("  {last} in the last second; most often: {step} {cause} ({})", count(worst.count));
    line.and(words, Shade::Plain)
}

fn handshakes(run: &Run) -> Line {
    let all = run.full.saturating_add(run.resumed);
    let line = label("handshakes")
        .and(format!("{:>12} full, {} resumed", count(run.full), count(run.resumed)), Shade::Plain);
    if all == 0 || (run.resumed == 0 && run.wanted_resumed <= 0.0) {
        return line;
    }
    let resumed = run.resumed as f64 / all as f64;
    line.and(format!(" ({} of them; {} wanted)", share(resumed), share(run.wanted_resumed)), Shade::Plain)
}

fn standing(run: &Run) -> Line {
    let mut line = label("connections");
    if run.counts != Counts::Transactions {
        line = line.and(format!("{:>12} open", count(run.open)), Shade::Plain);
    }
    if run.queued > 0 {
        let words = format!(" {:>11} starts had to wait for a free one", count(run.queued));
        line = line.and(words, Shade::Warning);
    }
    line
}

/// The shade of a thread's CPU time.
pub(crate) fn of_cpu(cpu: f64) -> Shade {
    if cpu > BUSY { Shade::Warning } else { Shade::Plain }
}

/// The shade of a thread's time of waiting for a CPU.
pub(crate) fn of_starved(starved: f64) -> Shade {
    if starved > STARVED { Shade::Warning } else { Shade::Plain }
}

fn generator(run: &Run) -> Line {
    let mut line = label("generator").and(" cpu", Shade::Faint);
    // Many threads would fill the row, so it shows the busiest ones.
    let mut used: Vec<f64> = run.threads.iter().map(|thread| thread.cpu).collect();
    used.sort_by(|a, b| b.total_cmp(a));
    for cpu in used.iter().take(8) {
        line = line.and(format!(" {}", share(*cpu)), of_cpu(*cpu));
    }
    if used.len() > 8 {
        line = line.and(format!(" and {} more", used.len() - 8), Shade::Plain);
    }
    if let Some(lag) = run.lag_p99_ns {
        line = line.and("  lag p99 ", Shade::Faint).and(nanos(lag), Shade::Plain);
    }
    // Both are from the same second.
    let starved =
        run.threads.iter().map(|thread| thread.starved).sum::<f64>() / run.threads.len().max(1) as f64;
    line.and("  waiting for cpu ", Shade::Faint).and(share(starved), of_starved(starved))
}

#[cfg(test)]
mod tests;
