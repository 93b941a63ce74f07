//! What a run has come to so far, as far as somebody who watches it wants to know.
//!
//! In: the seconds as they come. Out: a [`Progress`], of which `live.rs` makes a picture and `lines.rs` lines.

use std::collections::BTreeMap;
use std::time::Duration;

use handfast_load::Plan;
use handfast_load::plan::Model;
use handfast_load::sample::{Interval, Series, ThreadUse};
use handfast_report::units;
use handfast_stats::Histogram;

/// Seconds of the past that are kept for the curve of the rate: more than any terminal is wide.
const KEPT: usize = 512;

/// A run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    /// What it does and to whom: `localhost:8443, 32 connections`.
    pub(crate) title: String,
    /// Which part of a search this is; empty when there is no search.
    pub(crate) part: String,
    /// Length of the measured part.
    pub(crate) duration: Duration,
    /// Asked for early, by Ctrl-C.
    pub(crate) ending: bool,
    /// Name of the series that the run is judged by.
    pub(crate) series: &'static str,
    /// Whether what is counted are exchanges on kept connections, bytes, or standing connections.
    pub(crate) counts: Counts,
    /// Seconds that have come.
    pub(crate) seconds: u32,
    /// What was counted in each of the last [`KEPT`] seconds, per second.
    pub(crate) rates: Vec<f64>,
    /// The sum of the measured part.
    pub(crate) sum: f64,
    /// Seconds of the measured part that have come.
    pub(crate) counted: u32,
    /// Whether the last second was after the measured part, in which the last transactions end.
    pub(crate) tail: bool,
    /// The main series so far.
    pub(crate) so_far: Histogram,
    /// The main series in the last second.
    pub(crate) last: Histogram,
    /// Failures by `step cause`.
    pub(crate) failures: BTreeMap<String, u64>,
    /// Failures in the last second.
    pub(crate) failures_last: u64,
    /// Full handshakes so far.
    pub(crate) full: u64,
    /// Resumed handshakes so far.
    pub(crate) resumed: u64,
    /// Share of resumed handshakes that was asked for.
    pub(crate) wanted_resumed: f64,
    /// Open connections.
    pub(crate) open: u64,
    /// Arrivals that had to wait because too many were in flight.
    pub(crate) queued: u64,
    /// Generator threads in the last second.
    pub(crate) threads: Vec<ThreadUse>,
    /// p99 of the generator's lag in the last second, in nanoseconds; `None` without one.
    pub(crate) lag: Option<u64>,
}

/// What a second of the run is counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Counts {
    /// Transactions: connections from connect to close.
    #[default]
    Transactions,
    /// Exchanges on connections that are kept.
    Exchanges,
    /// Bytes of bulk transfers, both ways.
    Bytes,
    /// Handshakes, of connections that then stand idle.
    Handshakes,
}

impl Progress {
    /// Nothing done yet.
    pub(crate) fn new(plan: &Plan, part: String) -> Self {
        let counts = match plan.main_series() {
            Series::Handshake => match plan.work {
                handfast_load::plan::Work::Bulk { .. } => Counts::Bytes,
                _ => Counts::Handshakes,
            },
            _ if plan.keeps_connections() => Counts::Exchanges,
            _ => Counts::Transactions,
        };
        Self {
            title: title(plan),
            part,
            duration: plan.duration,
            series: plan.main_series().name(),
            counts,
            wanted_resumed: plan.wanted_resumed(),
            ..Self::default()
        }
    }

    /// Takes in the next second. **Cost**: about what merging one histogram takes.
    pub(crate) fn add(&mut self, interval: &Interval) {
        let tally = &interval.tally;
        self.seconds = self.seconds.max(interval.second + 1);
        let counted = match self.counts {
            Counts::Transactions => tally.transactions,
            Counts::Exchanges => tally.exchanges,
            Counts::Bytes => tally.sent + tally.received,
            Counts::Handshakes => tally.full + tally.resumed,
        };
        self.tail = Duration::from_secs(u64::from(interval.second)) >= self.duration;
        if !self.tail {
            // Far below 2^53 in a second.
            self.rates.push(counted as f64);
            self.sum += counted as f64;
            self.counted += 1;
        }
        if self.rates.len() > KEPT {
            self.rates.remove(0);
        }
        let main = interval.series.iter().find(|(series, _)| series.name() == self.series);
        self.last = main.map(|(_, histogram)| histogram.clone()).unwrap_or_default();
        self.so_far.merge(&self.last);
        for failures in &interval.failures {
            *self
                .failures
                .entry(format!("{} {}", failures.step.name(), failures.cause.name()))
                .or_default() += failures.count;
        }
        self.failures_last = interval.failures.iter().map(|failures| failures.count).sum();
        self.full += tally.full;
        self.resumed += tally.resumed;
        self.queued += tally.queued;
        self.open = tally.open;
        self.threads.clone_from(&interval.threads);
        self.lag = interval.series.get(&Series::Lag).map(|lag| lag.quantile_nanos(0.99));
    }

    /// What is done before the first second has come.
    pub(crate) fn preparing(&self) -> String {
        let tickets = if self.wanted_resumed > 0.0 { ", tickets" } else { "" };
        format!("preparing: one transaction to see that it works{tickets}; then the first second")
    }

    /// What was counted in the last second, per second.
    pub(crate) fn rate(&self) -> f64 {
        self.rates.last().copied().unwrap_or(0.0)
    }

    /// The mean over the run.
    pub(crate) fn mean_rate(&self) -> f64 {
        self.sum / f64::from(self.counted.max(1))
    }

    /// A figure of the rate with its unit.
    pub(crate) fn show(&self, rate: f64) -> String {
        match self.counts {
            Counts::Bytes => format!("{}/s", units::bytes(rate as u64)),
            _ => units::rate(rate),
        }
    }

    /// All failures.
    pub(crate) fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// The most frequent failure, and how often it was.
    pub(crate) fn worst(&self) -> Option<(&str, u64)> {
        self.failures.iter().max_by_key(|(_, count)| **count).map(|(what, count)| (what.as_str(), *count))
    }

    /// Share of the measured part that is over.
    pub(crate) fn done(&self) -> f64 {
        (f64::from(self.seconds) / self.duration.as_secs_f64().max(0.001)).min(1.0)
    }

    /// What is left of the measured part.
    pub(crate) fn left(&self) -> Duration {
        self.duration.saturating_sub(Duration::from_secs(u64::from(self.seconds)))
    }
}

/// `localhost:8443, 32 connections`, `localhost:8443, 500/s`.
fn title(plan: &Plan) -> String {
    let host = &plan.target.host;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let model = match plan.model {
        Model::Closed => format!("{} connections", units::count(u64::from(plan.connections))),
        Model::Open { rate, .. } => format!("{} offered", units::rate(rate)),
        Model::Ramp { from, to, .. } => {
            format!("{} to {} offered", units::rate(from), units::rate(to))
        }
    };
    format!("{host}:{}, {model}", plan.target.port)
}
