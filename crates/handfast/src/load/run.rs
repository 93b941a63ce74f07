//! One run, or the runs of a search, from gathering workers to the report.
//!
//! In: a [`Task`]. Out: [`Ended`]. The run is a task of its own, so that a second request to end is heard whatever the
//! first one waits for.

use std::collections::BTreeMap;

use handfast_load::Plan;
use handfast_load::account::Accountant;
use handfast_load::assemble::{self, Circumstances};
use handfast_load::fleet::{Crew, Muster};
use handfast_load::outcome::{Outcome, Refusal};
use handfast_load::sample::Interval;
use handfast_load::search::{Search, SearchSpec};
use handfast_report::model::{self, ServerUse};
use handfast_report::{Report, units};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::display::Display;
use super::signals::Signals;
use super::wanted::Wanted;

/// What is to be done.
pub(crate) struct Task {
    /// What was asked for.
    pub(crate) wanted: Wanted,
    /// The command line, for the report.
    pub(crate) command: Vec<String>,
}

/// How it ended.
pub(crate) enum Ended {
    /// With a report, also when it ended early.
    Report(Box<Report>),
    /// It could not be done.
    Refused(Refusal),
    /// Somebody asked for the end twice.
    AtOnce,
}

/// Does it. Blocks until it is done.
pub(crate) fn run(task: Task, display: Display) -> Ended {
    let built = Builder::new_multi_thread().worker_threads(2).thread_name("load").enable_all().build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => return Ended::Refused(Refusal::failed(format!("start the runtime: {error}"))),
    };
    let ended = runtime.block_on(attend(task, display));
    // Not waiting for threads that were told to end at once.
    runtime.shutdown_background();
    ended
}

/// Waits for the run, and for those who ask for its end.
async fn attend(task: Task, display: Display) -> Ended {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(refusal) => return Ended::Refused(refusal),
    };
    let voice = display.voice();
    let (ask, stop) = watch::channel(false);
    let mut doing = JoinSet::new();
    doing.spawn(conduct(task, display, stop));
    loop {
        tokio::select! {
            done = doing.join_next() => return match done {
                Some(Ok(Ok(report))) => Ended::Report(Box::new(report)),
                Some(Ok(Err(refusal))) => Ended::Refused(refusal),
                Some(Err(error)) => Ended::Refused(Refusal::failed(format!("run: {error}; this is a bug of handfast"))),
                None => Ended::AtOnce,
            },
            () = signals.next() => {
                if ask.send_replace(true) {
                    return Ended::AtOnce;
                }
                voice.say("handfast: ending early, with a report of what was done; once more ends at once");
            }
        }
    }
}

async fn conduct(task: Task, display: Display, mut stop: watch::Receiver<bool>) -> Result<Report, Refusal> {
    let crew = task.wanted.crew.clone();
    if let Crew::Nats { machines, .. } = &crew {
        display.say(format!("handfast: gathering {machines} workers"));
    }
    let muster = tokio::select! {
        gathered = Muster::gather(&crew) => gathered?,
        _ = stop.wait_for(|stop| *stop) => return Err(Refusal::failed("gather workers: ended before the run began")),
    };
    let mut session = Session { task, muster, display, stop };
    let made = match session.task.wanted.job.search.clone() {
        None => session.single().await,
        Some(spec) => session.search(spec).await,
    };
    session.display.end();
    session.muster.dismiss().await;
    made
}

/// Runs with the same workers.
struct Session {
    task: Task,
    muster: Muster,
    display: Display,
    stop: watch::Receiver<bool>,
}

/// What one run gave.
struct Done {
    outcome: Outcome,
    server: Option<ServerUse>,
    notes: Vec<String>,
}

impl Session {
    /// The only run.
    async fn single(&mut self) -> Result<Report, Refusal> {
        let plan = self.task.wanted.job.plan.clone();
        let done = self.run(&plan, String::new()).await?;
        Ok(self.report(&done, None))
    }

    /// Run after run, at the rates that the search asks for. The report is that of the best one.
    async fn search(&mut self, spec: SearchSpec) -> Result<Report, Refusal> {
        let plan = self.task.wanted.job.plan.clone();
        let mut search = Search::new(spec.clone());
        let (mut best, mut best_rate) = (None, None);
        let mut number = 0;
        while let Some(rate) = search.next() {
            number += 1;
            let part = format!("step {number} at {}", units::rate(rate));
            let done = self.run(&SearchSpec::plan_at(&plan, rate), part.clone()).await?;
            if done.outcome.early_end.is_some() {
                // Half a step says nothing of its rate.
                search.stop();
                best = best.or(Some(done));
                continue;
            }
            let step = spec.step(rate, &self.report(&done, None));
            let held = if step.held { "held" } else { "missed" };
            let found = (spec.bound.written(), &step.found, step.verdict.name());
            self.display.say(format!("handfast: {part}: {held} {} with {} ({})", found.0, found.1, found.2));
            // Rates that are tried once more: the last try is as good as the first.
            if step.held && best_rate.is_none_or(|best| rate >= best) {
                (best, best_rate) = (Some(done), Some(rate));
            } else if best_rate.is_none() {
                best = Some(done);
            }
            search.result(step);
        }
        let best = best.ok_or_else(|| Refusal::failed("search for the highest rate: no rate was tried"))?;
        Ok(self.report(&best, Some(search.finish())))
    }

    /// One run.
    ///
    /// **Errors**: whatever keeps it from beginning.
    async fn run(&mut self, plan: &Plan, part: String) -> Result<Done, Refusal> {
        let mut accountant = self.task.wanted.job.account.as_ref().map(Accountant::new).transpose()?;
        let (display, asked) = (&mut self.display, self.stop.clone());
        display.begin(plan, part);
        let mut each_second = |interval: &Interval| display.second(interval, *asked.borrow());
        let on_lost = self.task.wanted.on_lost;
        let outcome = self.muster.run(plan, on_lost, &mut each_second, &mut self.stop).await?;
        let tally = &outcome.totals.tally;
        let transactions = if plan.keeps_connections() { tally.exchanges } else { tally.transactions };
        let (mut server, mut notes) = (None, Vec::new());
        match accountant.as_mut().map(|accountant| accountant.end(transactions)) {
            Some(Ok(used)) => server = Some(used),
            // The run was made, and its figures are good without these.
            Some(Err(refusal)) => notes.push(refusal.what),
            None => {}
        }
        Ok(Done { outcome, server, notes })
    }

    fn report(&self, done: &Done, search: Option<(model::Search, Vec<String>)>) -> Report {
        let (search, more) = search.map_or((None, Vec::new()), |(search, notes)| (Some(search), notes));
        let circumstances = Circumstances {
            program: concat!("handfast ", env!("CARGO_PKG_VERSION")).to_owned(),
            libraries: libraries(),
            command: self.task.command.clone(),
            job: self.task.wanted.job.clone(),
            account: done.server.clone(),
            search,
            notes: done.notes.iter().cloned().chain(more).collect(),
        };
        assemble::report(&done.outcome, circumstances)
    }
}

/// Versions of the libraries that decide about TLS, from the lock file that this was built with.
fn libraries() -> BTreeMap<String, String> {
    const LOCKED: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.lock"));
    let version = |name: &str| {
        let (_, rest) = LOCKED.split_once(&format!("name = \"{name}\"\nversion = \""))?;
        Some((name.to_owned(), rest.split_once('"')?.0.to_owned()))
    };
    ["rustls", "aws-lc-rs", "aws-lc-sys"].into_iter().filter_map(version).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_libraries_are_known() {
        let libraries = libraries();
        assert_eq!(libraries.len(), 3, "{libraries:?}");
        assert!(libraries["rustls"].starts_with("0.23."), "{libraries:?}");
    }
}
