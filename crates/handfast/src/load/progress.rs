//! The progress of a run for the live display.
//!
//! In: the seconds as they come. Out: a [`Progress`], which `live.rs` shows as a picture and `lines.rs` as lines.

use std::ops::Deref;
use std::time::Duration;

use handfast_load::Plan;
use handfast_load::plan::Model;
use handfast_load::sample::{Interval, Series};
use handfast_report::run::{Counts, Failed, Latency, Run, SCHEMA, Thread};
use handfast_report::units;
use handfast_stats::Histogram;

/// Seconds of the past that are kept for the curve of the rate: more than any terminal is wide.
const KEPT: usize = 512;

/// A run so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(super) run: Run,
    duration: Duration,
    series: Option<Series>,
    /// Samples of the step that the run is judged by.
    samples: Histogram,
    /// The sum of the measured part.
    sum: f64,
    /// Seconds of the measured part that have come.
    counted: u32,
}

impl Deref for Progress {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.run
    }
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
        let none = Latency::of(plan.main_series().name(), &Histogram::default());
        let run = Run {
            title: title(plan),
            part,
            duration_seconds: plan.duration.as_secs_f64(),
            counts,
            so_far: none.clone(),
            last: none,
            wanted_resumed: plan.wanted_resumed(),
            ..not_begun()
        };
        let series = Some(plan.main_series());
        Self { run, duration: plan.duration, series, ..Self::default() }
    }

    /// Adds the next second; `ending`: the run ends early. **Cost**: about what merging one histogram takes.
    pub(crate) fn add(&mut self, interval: &Interval, ending: bool) {
        let (run, tally) = (&mut self.run, &interval.tally);
        run.ending = ending;
        run.seconds = run.seconds.max(interval.second + 1);
        let counted = match run.counts {
            Counts::Transactions => tally.transactions,
            Counts::Exchanges => tally.exchanges,
            Counts::Bytes => tally.sent + tally.received,
            Counts::Handshakes => tally.full + tally.resumed,
        };
        run.tail = Duration::from_secs(u64::from(interval.second)) >= self.duration;
        if !run.tail {
            // Far below 2^53 in a second.
            run.rates.push(counted as f64);
            self.sum += counted as f64;
            self.counted += 1;
            run.mean_rate = self.sum / f64::from(self.counted);
        }
        if run.rates.len() > KEPT {
            run.rates.remove(0);
        }
        run.steps =
            interval.series.iter().map(|(series, samples)| Latency::of(series.name(), samples)).collect();
        run.steps.retain(|step| step.count > 0);
        let main = self.series.and_then(|series| interval.series.get(&series));
        run.last = Latency::of(&run.last.name, main.unwrap_or(&Histogram::default()));
        main.into_iter().for_each(|main| self.samples.merge(main));
        run.so_far = Latency::of(&run.last.name, &self.samples);
        add_failures(&mut run.failures, interval);
        run.full += tally.full;
        run.resumed += tally.resumed;
        run.queued += tally.queued;
        run.open = tally.open;
        let share = |some: u64, all: u64| if all > 0 { some as f64 / all as f64 } else { 0.0 };
        let threads = interval.threads.iter();
        run.threads = threads
            .map(|used| Thread {
                cpu: share(used.busy_ns, used.wall_ns),
                starved: share(used.starved_ns, used.wall_ns),
            })
            .collect();
        run.lag_p99_ns = interval.series.get(&Series::Lag).map(|lag| lag.quantile_nanos(0.99));
    }
}

/// A run of this process without any second.
pub(super) fn not_begun() -> Run {
    Run {
        schema: SCHEMA.to_owned(),
        program: concat!("handfast ", env!("CARGO_PKG_VERSION")).to_owned(),
        process: std::process::id(),
        title: "not begun".to_owned(),
        ..Run::default()
    }
}

fn add_failures(known: &mut Vec<Failed>, interval: &Interval) {
    known.iter_mut().for_each(|failed| failed.last = 0);
    for failures in &interval.failures {
        let (step, cause) = (failures.step.name(), failures.cause.name());
        let at = known.iter().position(|failed| failed.step == step && failed.cause == cause);
        let at = at.unwrap_or_else(|| {
            known.push(Failed { step: step.to_owned(), cause: cause.to_owned(), ..Failed::default() });
            known.len() - 1
        });
        known[at].count += failures.count;
        known[at].last += failures.count;
    }
}

fn peak(plan: &Plan) -> f64 {
    plan.rates().map_or(0.0, |rates| rates.peak())
}

/// `localhost:8443, 32 connections`, `localhost:8443, 500/s`.
fn title(plan: &Plan) -> String {
    let host = &plan.target.host;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let model = match &plan.model {
        Model::Closed => format!("{} connections", units::count(u64::from(plan.connections))),
        Model::Open { stages, .. } => match (plan.model.only_rate(), stages.as_slice()) {
            (Some(rate), _) => format!("{} offered", units::rate(rate)),
            (None, [one]) => format!("{} to {} offered", units::rate(one.from), units::rate(one.to)),
            (None, several) => {
                format!("{} stages of up to {} offered", several.len(), units::rate(peak(plan)))
            }
        },
    };
    format!("{host}:{}, {model}", plan.target.port)
}
