//! A load that follows a script: known samples, known times, known ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use handfast_net::clock::Moment;

use crate::distributed::share::{Live, Load, Ready};
use crate::generator::Share;
use crate::outcome::{Facts, WorkerEnd};
use crate::plan::Plan;
use crate::sample::{Interval, Series, ThreadUse};
use handfast_report::ToolError;

/// Samples in each second of each worker.
pub(super) const SAMPLES: u64 = 1000;

/// Samples of a worker in a second.
pub(super) fn samples(index: u32, second: u32) -> impl Iterator<Item = u64> {
    let first = u64::from(index) * 7919 + u64::from(second) * 104_729 + 1;
    // Steps of a generator with a full period (Knuth's constants), bent to span eight orders of magnitude.
    let mut state = first;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1_000u64 << ((state >> 33) % 22) | (state >> 54)
    })
    .take(SAMPLES as usize)
}

/// Behavior of a worker's load.
#[derive(Clone)]
pub(super) struct Script {
    seconds: u32,
    pace: Duration,
    refusal: Option<String>,
    lie: bool,
    loading: Arc<AtomicBool>,
}

impl Script {
    /// A load of this number of seconds, each of which takes a fiftieth of one.
    pub(super) fn of(seconds: u32) -> Self {
        Self {
            seconds,
            pace: Duration::from_millis(20),
            refusal: None,
            lie: false,
            loading: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Seconds that take a second.
    pub(super) fn slow(mut self) -> Self {
        self.pace = Duration::from_secs(1);
        self
    }

    /// Does not begin.
    pub(super) fn refusing(mut self, why: &str) -> Self {
        self.refusal = Some(why.into());
        self
    }

    /// Says one more at the end than it did.
    pub(super) fn lying(mut self) -> Self {
        self.lie = true;
        self
    }

    /// Returns a flag that is true while load is being made.
    pub(super) fn loading(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.loading)
    }

    fn measure(&self, index: u32, second: u32) -> Interval {
        let mut interval = Interval { second, ..Interval::default() };
        for nanos in samples(index, second) {
            interval.series.entry(Series::Total).or_default().record_nanos(nanos);
        }
        interval.tally.transactions = SAMPLES;
        interval.tally.open = 3;
        interval.threads = vec![ThreadUse {
            busy_ns: u64::from(index) + 1,
            starved_ns: 0,
            wall_ns: 10,
            ..ThreadUse::default()
        }];
        interval.machine = vec![0.5];
        interval
    }

    /// The script, until its end or until it is stopped.
    fn play(
        &self,
        index: u32,
        start: Moment,
        seconds: &SyncSender<Interval>,
        stop: &Receiver<()>,
    ) -> Interval {
        let mut totals = Interval::default();
        self.loading.store(true, Ordering::SeqCst);
        for second in 0..self.seconds {
            let due = start + self.pace * (second + 1);
            let stopped = stop.recv_timeout(due.since(Moment::now())) != Err(RecvTimeoutError::Timeout);
            if stopped {
                break;
            }
            let interval = self.measure(index, second);
            totals.merge_later(&interval);
            if seconds.send(interval).is_err() {
                break;
            }
        }
        self.loading.store(false, Ordering::SeqCst);
        totals.tally.transactions += u64::from(self.lie);
        totals
    }
}

struct Waiting {
    script: Script,
    index: u32,
}

struct Playing {
    stop: SyncSender<()>,
    thread: JoinHandle<Interval>,
}

impl Load for Script {
    fn prepare(&self, _: &Plan, share: Share) -> Result<Box<dyn Ready>, ToolError> {
        match &self.refusal {
            Some(why) => Err(ToolError::failed(why.clone())),
            None => Ok(Box::new(Waiting { script: self.clone(), index: share.index })),
        }
    }
}

impl Ready for Waiting {
    fn facts(&self) -> Facts {
        Facts { notes: vec!["a script".into()], ..Facts::default() }
    }

    fn start(
        self: Box<Self>,
        start: Moment,
        seconds: SyncSender<Interval>,
    ) -> Result<Box<dyn Live>, ToolError> {
        let (stop, stopped) = sync_channel(1);
        let play = move || self.script.play(self.index, start, &seconds, &stopped);
        let thread = Builder::new().name("script".into()).spawn(play).unwrap();
        Ok(Box::new(Playing { stop, thread }))
    }
}

impl Live for Playing {
    /// A script is not asked to be quick.
    fn lease(&self, _: Moment) {}

    fn stop(&self) {
        let _ = self.stop.try_send(());
    }

    fn join(self: Box<Self>) -> WorkerEnd {
        WorkerEnd { totals: self.thread.join().unwrap(), ..WorkerEnd::default() }
    }
}
