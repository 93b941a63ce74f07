//! One run, or the runs of a search, from gathering workers to the report.
//!
//! In: a [`Task`]. Out: [`Ended`]. The run is a separate task, so that a second request to end is received while the
//! first one waits.

use std::collections::BTreeMap;

use handfast_load::Plan;
use handfast_load::account::Accountant;
use handfast_load::assemble::{self, Circumstances};
use handfast_load::distributed::{Lineup, Workers};
use handfast_load::outcome::Outcome;
use handfast_load::sample::Interval;
use handfast_load::search::{Found, Search, SearchSpec};
use handfast_report::ToolError;
use handfast_report::both_ends::BothEnds;
use handfast_report::model::{SearchStep, ServerUse, Verdict};
use handfast_report::{Report, units};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};

use super::both_ends;
use super::broadcast::Broadcast;
use super::display::Display;
use super::requested_load::RequestedLoad;
use super::signals::Signals;

/// The task.
pub(crate) struct Task {
    /// The request.
    pub(crate) requested: RequestedLoad,
    /// The command line, for the report.
    pub(crate) command: Vec<String>,
    /// Reports it to other programs during the run.
    pub(crate) broadcast: Broadcast,
}

/// The end of a run.
pub(crate) enum Ended {
    /// With a report, also after an early end: then with the exit code of the request.
    Report(Box<Report>, Option<u8>),
    /// It could not be done.
    Refused(ToolError),
    /// The end was requested twice; the second request has this exit code.
    AtOnce(u8),
}

/// Runs the task. Blocks until it has ended.
pub(crate) fn run(task: Task, display: Display) -> Ended {
    let built = Builder::new_multi_thread().worker_threads(2).thread_name("load").enable_all().build();
    let runtime = match built {
        Ok(runtime) => runtime,
        Err(error) => return Ended::Refused(ToolError::failed(format!("start the runtime: {error}"))),
    };
    let ended = runtime.block_on(attend(task, display));
    // Do not wait for threads that were ordered to end at once.
    runtime.shutdown_background();
    ended
}

/// Waits for the run, and for requests to end it.
async fn attend(task: Task, display: Display) -> Ended {
    let mut signals = match Signals::listen() {
        Ok(signals) => signals,
        Err(refusal) => return Ended::Refused(refusal),
    };
    let voice = display.voice();
    let (ask, stop) = watch::channel(false);
    let mut doing = JoinSet::new();
    doing.spawn(conduct(task, display, stop));
    let mut exit_code = None;
    loop {
        tokio::select! {
            done = doing.join_next() => return match done {
                Some(Ok(Ok(report))) => Ended::Report(Box::new(report), exit_code),
                Some(Ok(Err(refusal))) => Ended::Refused(refusal),
                Some(Err(error)) => Ended::Refused(ToolError::failed(format!("run: {error}; this is a bug of handfast"))),
                None => Ended::Refused(ToolError::failed("run: it ended without a result; this is a bug of handfast")),
            },
            code = signals.next() => {
                if ask.send_replace(true) {
                    return Ended::AtOnce(code);
                }
                exit_code = Some(code);
                voice.print_line("handfast: ending early, with a report of what was done; once more ends immediately");
            }
        }
    }
}

async fn conduct(
    mut task: Task,
    display: Display,
    mut stop: watch::Receiver<bool>,
) -> Result<Report, ToolError> {
    let workers = task.requested.workers.clone();
    let served = task.broadcast.serve();
    let (_serving, at) = served.map_err(|error| ToolError::failed(format!("serve --metrics: {error}")))?;
    if let Some(at) = at {
        display.print_line(format!("handfast: figures at http://{at}/metrics"));
    }
    if let Workers::Nats { machines, .. } = &workers {
        let workers = if *machines == 1 { "worker" } else { "workers" };
        display.print_line(format!("handfast: gathering {machines} {workers}"));
    }
    let lineup = tokio::select! {
        gathered = Lineup::gather(&workers) => gathered?,
        _ = stop.wait_for(|stop| *stop) => return Err(ToolError::failed("gather workers: interrupted before the run started")),
    };
    let mut session = Session { task, lineup, display, stop };
    let made = match session.task.requested.job.search.clone() {
        None => session.single().await,
        Some(spec) => session.search(spec).await,
    };
    session.task.broadcast.end(made.as_ref().ok());
    session.display.end();
    session.lineup.dismiss().await;
    made
}

/// Runs with the same workers.
struct Session {
    task: Task,
    lineup: Lineup,
    display: Display,
    stop: watch::Receiver<bool>,
}

/// The result of one run.
struct Done {
    outcome: Outcome,
    server: Option<ServerUse>,
    notes: Vec<String>,
    /// The comparison with the target's counters, if requested.
    both_ends: Option<BothEnds>,
}

impl Session {
    /// The only run.
    async fn single(&mut self) -> Result<Report, ToolError> {
        let plan = self.task.requested.job.plan.clone();
        let done = self.run(&plan, String::new()).await?;
        Ok(self.report(&done, None))
    }

    /// Run after run, at the rates of the search. The report is that of the highest rate that held.
    async fn search(&mut self, spec: SearchSpec) -> Result<Report, ToolError> {
        let plan = self.task.requested.job.plan.clone();
        let mut search = Search::new(spec.clone());
        let mut shown = Shown::default();
        let mut number = 0;
        while let Some(rate) = search.next() {
            number += 1;
            let part = format!("step {number} at {}", units::rate(rate));
            let done = self.run(&SearchSpec::plan_at(&plan, rate, number), part.clone()).await?;
            if done.outcome.early_end.is_some() {
                // A partial step has no result for its rate.
                search.stop();
                shown.cut_short(done);
                continue;
            }
            let step = spec.step(rate, &self.report(&done, None));
            self.display.print_line(format!("handfast: {part}: {}", step_in_words(&spec, &step)));
            let held = step.held;
            search.result(step);
            shown.step(done, held, search.highest() == Some(rate));
        }
        let done = shown
            .best()
            .ok_or_else(|| ToolError::failed("search for the highest rate: no rate was tried"))?;
        let found = search.finish();
        let verdict = found.verdict.clone();
        let mut report = self.report(&done, Some(found));
        report.notes.push(format!(
            "each step of the search has a separate seed, {} plus its number: the step shown had {}",
            plan.seed, done.outcome.plan.seed
        ));
        if let Some(verdict) = verdict {
            report.verdict = instead(verdict, &report);
        }
        Ok(report)
    }

    /// One run.
    ///
    /// **Errors**: every reason why it cannot begin.
    async fn run(&mut self, plan: &Plan, part: String) -> Result<Done, ToolError> {
        let mut accountant = self.task.requested.job.account.as_ref().map(Accountant::new).transpose()?;
        let (display, broadcast, stop) = (&mut self.display, &mut self.task.broadcast, self.stop.clone());
        display.begin(plan, part);
        broadcast.begin(plan, display.run());
        let mut each_second = |interval: &Interval| {
            display.second(interval, *stop.borrow());
            // In this order, so that a reader that receives the second finds it on the page, too.
            broadcast.second(interval, display.run());
            display.show();
        };
        let on_lost = self.task.requested.on_lost;
        let status = self.task.requested.status.as_ref();
        let before = status.map(|status| block_in_place(|| status.counted())).transpose()?;
        let outcome = self.lineup.run(plan, on_lost, &mut each_second, &mut self.stop).await?;
        let tally = &outcome.totals.tally;
        let transactions = if plan.keeps_connections() { tally.exchanges } else { tally.transactions };
        let (mut server, mut notes) = (None, Vec::new());
        match accountant.as_mut().map(|accountant| accountant.end(transactions)) {
            Some(Ok(used)) => server = Some(used),
            // The run has ended, and its figures are valid without these.
            Some(Err(refusal)) => notes.push(refusal.what),
            None => {}
        }
        let both_ends = status.zip(before).map(|(status, before)| {
            block_in_place(|| both_ends::read_status(status, &before, &outcome))
                .unwrap_or_else(|refusal| BothEnds { refused: Some(refusal.what), ..BothEnds::default() })
        });
        Ok(Done { outcome, server, notes, both_ends })
    }

    fn report(&self, done: &Done, found: Option<Found>) -> Report {
        let (search, more) = found.map_or((None, Vec::new()), |found| (Some(found.search), found.notes));
        let circumstances = Circumstances {
            program: concat!("handfast ", env!("CARGO_PKG_VERSION")).to_owned(),
            libraries: libraries(),
            command: self.task.command.clone(),
            job: self.task.requested.job.clone(),
            account: done.server.clone(),
            search,
            notes: done.notes.iter().cloned().chain(more).collect(),
        };
        let mut report = assemble::report(&done.outcome, circumstances);
        report.both_ends.clone_from(&done.both_ends);
        report
    }
}

/// The run of a search to show.
#[derive(Debug)]
struct Shown<T> {
    /// At the present rate: the last run that held.
    candidate: Option<T>,
    /// The last run that held at the highest rate that most repeats held.
    best: Option<T>,
    /// The last run of all, for a search in which no rate held.
    last: Option<T>,
}

impl<T> Default for Shown<T> {
    fn default() -> Self {
        Self { candidate: None, best: None, last: None }
    }
}

impl<T> Shown<T> {
    /// Adds a run: whether it held, and whether its rate now counts as held.
    fn step(&mut self, run: T, held: bool, decided: bool) {
        if !held {
            self.last = Some(run);
            return;
        }
        self.candidate = Some(run);
        if decided {
            self.best = self.candidate.take();
        }
    }

    /// Adds an interrupted run: shown only if there is no other.
    fn cut_short(&mut self, run: T) {
        self.last.get_or_insert(run);
    }

    fn best(self) -> Option<T> {
        self.best.or(self.last).or(self.candidate)
    }
}

/// `held total.p99=50ms with 12.3 ms (VALID)`.
fn step_in_words(spec: &SearchSpec, step: &SearchStep) -> String {
    let (bound, found, verdict) = (spec.bound.written(), &step.found, step.verdict.name());
    match step.held {
        true => format!("held {bound} with {found} ({verdict})"),
        false if step.verdict.is_unusable() => {
            format!("{found} does not describe the target ({verdict}), so it has no vote on {bound}")
        }
        false => format!("missed {bound} with {found} ({verdict})"),
    }
}

/// The search's verdict, with the evidence of the shown step.
fn instead(search: Verdict, report: &Report) -> Verdict {
    let step = &report.verdict;
    let offered = units::rate(report.totals.offered_rate.unwrap_or_default());
    let mut evidence = search.evidence;
    evidence.push(format!(
        "the figures are those of a step at {offered}, which by itself was {}:",
        step.word.name()
    ));
    evidence.extend(step.evidence.iter().cloned());
    Verdict { word: search.word, evidence }
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
    use handfast_report::model::VerdictWord;

    use super::*;

    #[test]
    fn the_report_of_a_search_is_of_the_highest_rate_that_held() {
        let mut shown = Shown::default();
        shown.step("1600, 1", true, false);
        shown.step("1600, 2", true, true);
        shown.step("1650, 1", true, false);
        shown.step("1650, 2", false, false);
        shown.step("1650, 3", false, false);
        assert_eq!(shown.best(), Some("1600, 2"), "one that held by chance is not shown");
        let mut shown = Shown::default();
        shown.step("1600, 1", true, false);
        shown.step("1600, 2", false, false);
        shown.step("1600, 3", true, true);
        shown.cut_short("half of 3200");
        assert_eq!(shown.best(), Some("1600, 3"));
        let mut shown = Shown::default();
        shown.step("100", false, false);
        shown.step("50", false, false);
        assert_eq!(shown.best(), Some("50"), "nothing held: the last that was tried");
        let mut shown = Shown::default();
        shown.cut_short("half of 100");
        assert_eq!(shown.best(), Some("half of 100"));
    }

    #[test]
    fn a_step_that_the_generator_spoilt_is_not_called_missed() {
        let spec = SearchSpec::new("total.p99=100ms").expect("good");
        let message_for = |held, verdict| {
            let step = SearchStep { found: "25.3 ms".into(), held, verdict, ..SearchStep::default() };
            step_in_words(&spec, &step)
        };
        assert_eq!(message_for(true, VerdictWord::Valid), "held total.p99=100ms with 25.3 ms (VALID)");
        assert!(message_for(false, VerdictWord::TargetLimited).starts_with("missed "));
        let spoilt = message_for(false, VerdictWord::GeneratorLimited);
        assert!(spoilt.contains("no vote") && !spoilt.contains("missed"), "{spoilt}");
    }

    #[test]
    fn a_search_that_the_generator_ended_is_not_valid() {
        let mut report = Report::default();
        report.totals.offered_rate = Some(100.0);
        report.verdict.evidence.push("the generator had spare capacity".into());
        let search = Verdict { word: VerdictWord::GeneratorLimited, evidence: vec!["not known".into()] };
        let verdict = instead(search, &report);
        assert_eq!(verdict.word, VerdictWord::GeneratorLimited);
        assert_eq!(verdict.evidence[0], "not known");
        assert!(verdict.evidence[1].contains("at 100/s, which by itself was VALID"), "{verdict:?}");
    }

    #[test]
    fn the_libraries_are_known() {
        let libraries = libraries();
        assert_eq!(libraries.len(), 3, "{libraries:?}");
        assert!(libraries["rustls"].starts_with("0.23."), "{libraries:?}");
    }
}
