//! One machine's share of a run: threads that make load, and their seconds merged.
//!
//! In: a plan, and which part of it is ours. Out: one [`Interval`] for each second, and the sum of all of them.

mod threads;

use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

use handfast_net::clock::Moment;

pub use crate::assignment::Share;
use crate::machine::{self, KernelCounters, MachineCpu};
use crate::outcome::{Facts, WorkerEnd};
use crate::plan::Plan;
use crate::sample::{Interval, ThreadUse};
use crate::thread::Order;
use crate::{ports, requests, target};
use handfast_report::ToolError;
use threads::Threads;

/// A share that is ready to start.
#[derive(Debug)]
pub struct Generator {
    facts: Facts,
    duration: Duration,
    threads: Threads,
}

/// A share that is being run.
#[derive(Debug)]
pub struct Running {
    threads: Threads,
    summing: Option<JoinHandle<Interval>>,
    before: KernelCounters,
}

impl Generator {
    /// Resolves the target, reads certificates, checks descriptors and ports, does one transaction to see that it works
    /// at all, fills the ticket pool, and opens the connections that are to stand. Blocks: for a few times the plan's
    /// timeout and a minute at most.
    ///
    /// **Errors**: everything that would make the run meaningless, reported before it begins.
    pub fn prepare(plan: &Plan, share: Share) -> Result<Self, ToolError> {
        target::check(plan)?;
        let addresses = target::resolve(plan, &plan.target)?;
        let also: Vec<_> =
            plan.also.iter().map(|target| target::resolve(plan, target)).collect::<Result<_, _>>()?;
        let (settings, requests) = (target::settings(plan)?, requests::prepare(plan)?);
        // More descriptors are welcome; whether there are enough is checked below.
        let _ = handfast_net::limits::raise_file_limit();
        let destinations: Vec<_> =
            [&addresses].into_iter().chain(&also).filter_map(|all| all.first()).map(SocketAddr::ip).collect();
        let arithmetic = ports::arithmetic(plan, &destinations);
        if let Some(refusal) = ports::objection(plan, share, arithmetic.as_ref(), machine::file_limit()) {
            return Err(refusal);
        }
        let threads = Threads::start(plan, share, &settings, &requests, addresses[0])?;
        let mut notes = Vec::new();
        let mut chosen_also = Vec::new();
        for addresses in &also {
            chosen_also.push(threads.rehearse(plan, addresses, &mut notes)?.0);
        }
        let (chosen, took) = threads.rehearse(plan, &addresses, &mut notes)?;
        threads.warm_up(plan, chosen, &mut notes)?;
        threads.also(&chosen_also)?;
        threads.open(plan, took, &mut notes)?;
        let facts = Facts {
            machine: machine::facts(),
            addresses: [chosen].iter().chain(&chosen_also).map(ToString::to_string).collect(),
            threads: threads.count(),
            notes,
        };
        Ok(Self { facts, duration: plan.duration, threads })
    }

    /// The facts before the start.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Begins at `start`. Each second's measurement goes to `seconds` when it is over, in order and without gaps, the
    /// last ones after the plan's duration; then the channel is dropped. A receiver that is gone is no error.
    ///
    /// **Errors**: threads that could not be made.
    pub fn start(mut self, start: Moment, seconds: SyncSender<Interval>) -> Result<Running, ToolError> {
        let before = KernelCounters::read();
        let measured = self.threads.take_seconds();
        let summing = std::thread::Builder::new()
            .name("load-sum".into())
            .spawn(move || sum(&measured, &seconds))
            .map_err(|error| ToolError::failed(format!("start the thread that adds up: {error}")))?;
        self.threads.order(|| Order::Begin(start, start + self.duration))?;
        Ok(Running { threads: self.threads, summing: Some(summing), before })
    }
}

impl Running {
    /// Nothing begins after `until`, unless the lease is extended before. Each thread checks the clock itself.
    pub fn lease(&self, until: Moment) {
        self.threads.lease(until);
    }

    /// Ends the measured part now: what is in flight is finished, nothing new begins.
    pub fn stop(&self) {
        self.threads.stop();
    }

    /// Waits for the end (the plan's duration, or [`Running::stop`], and what is in flight).
    pub fn join(mut self) -> WorkerEnd {
        // A panic of a thread outside its tasks is already logged; the other threads' measurements still count.
        let totals = self.summing.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let start_error_ns = self.threads.join();
        WorkerEnd { totals, start_error_ns, kernel: KernelCounters::read().moved_since(&self.before) }
    }
}

/// Merges what the threads measured, second by second, until all of them have ended.
fn sum(threads: &[Receiver<Interval>], seconds: &SyncSender<Interval>) -> Interval {
    let mut totals = Interval::default();
    let mut cpu = MachineCpu::new();
    let mut is_required = true;
    for second in 0.. {
        let mut merged = Interval { second, ..Interval::default() };
        let mut ended = 0;
        for thread in threads {
            match thread.recv() {
                Ok(interval) => merged.merge_parallel(&interval),
                Err(_) => {
                    ended += 1;
                    merged.threads.push(ThreadUse::default());
                }
            }
        }
        if ended == threads.len() {
            break;
        }
        merged.machine.push(cpu.share());
        totals.merge_later(&merged);
        is_required = is_required && seconds.send(merged).is_ok();
    }
    totals
}
