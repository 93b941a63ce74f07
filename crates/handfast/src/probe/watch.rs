//! `handfast probe --watch`: the same targets repeatedly, until the user ends it.
//!
//! In: the prepared targets. Out: for programs a line of JSON for each round. For people on a terminal a line for each target, which is
//! updated in place; elsewhere a line for each measurement; and at the end a summary. One thread measures and one
//! receives signals; this one displays, and ends at once on request.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use handfast_net::clock::Moment;
use handfast_probe::rounds::{Round, SCHEMA, Sample, to_line as to_json};
use handfast_probe::text::{line_head, to_line};
use handfast_probe::watch::{Series, summary_head};
use handfast_probe::{ProbeError, ProbeSettings, Report, run};
use handfast_report::ToolError;
use handfast_text::calendar::Utc;
use tracing::Level;

use super::output::USUAL;
use super::{Prepared, report_failure};
use crate::load::refused;
use crate::load::signals::Signals;
use crate::talk::{self, color, print, terminal_size};

/// An event.
enum Event {
    /// The target with this number was measured.
    Measured(usize, Box<Result<Report, ProbeError>>),
    /// The user requested the end.
    End,
}

/// The output of rounds, for programs.
pub(super) struct Rounds {
    path: PathBuf,
    /// `None`: standard output.
    file: Option<File>,
    count: u64,
    targets: Vec<Sample>,
}

impl Rounds {
    /// Creates the file. It is not a temporary file, since it is read while it grows.
    ///
    /// **Errors**: it cannot be created.
    pub(super) fn prepare(path: &Path) -> Result<Self, ToolError> {
        let file =
            match path.as_os_str() == "-" {
                true => None,
                false => Some(File::create(path).map_err(|error| {
                    ToolError::failed(format!("--json: write {}: {error}", path.display()))
                })?),
            };
        Ok(Self { path: path.to_path_buf(), file, count: 0, targets: Vec::new() })
    }

    fn is_standard_output(&self) -> bool {
        self.file.is_none()
    }

    /// Adds the result of a target; with the last of `targets` the round is written.
    ///
    /// **Errors**: it cannot be written.
    fn take(&mut self, sample: Sample, of: usize, now: &str) -> Result<(), ToolError> {
        self.targets.push(sample);
        if self.targets.len() < of {
            return Ok(());
        }
        self.count += 1;
        let targets = std::mem::take(&mut self.targets);
        let line = to_json(&Round { schema: SCHEMA, round: self.count, ended: now.to_owned(), targets });
        let written = match &mut self.file {
            Some(file) => file.write_all(line.as_bytes()),
            None => io::stdout().write_all(line.as_bytes()).and_then(|()| io::stdout().flush()),
        };
        written.map_err(|error| ToolError::failed(format!("--json: write {}: {error}", self.path.display())))
    }
}

/// Text for people; on standard error where standard output is for programs.
fn print_text(text: &str, aside: bool) {
    match aside {
        true => talk::err(text.trim_end()),
        false => {
            print(text, true);
        }
    }
}

/// Measures until it is ended.
pub(super) fn watch(prepared: Prepared, mut rounds: Option<Rounds>, seconds: f64) -> ExitCode {
    let talk = talk::start(color(), Level::WARN, talk::Stamp::Absent);
    let voice = talk.voice();
    let (events, coming) = sync_channel(4);
    // Dropping this ends the worker.
    let (alive, ended) = sync_channel(0);
    let targets = prepared.targets.clone();
    let settings = targets.iter().map(|target| ProbeSettings { runs: 1, ..prepared.of(target) }).collect();
    if let Err(error) = begin(events, settings, Duration::from_secs_f64(seconds), ended) {
        return refused(&ToolError::failed(format!("start a thread: {error}")));
    }
    let aside = rounds.as_ref().is_some_and(Rounds::is_standard_output);
    let in_place = (aside || io::stdout().is_terminal()) && io::stderr().is_terminal();
    let mut all: Vec<Series> = targets.iter().map(|target| Series::new(&target.to_string())).collect();
    let (mut failed, mut missed) = (false, false);
    // The last message about each target: the same error is reported once.
    let mut reported: Vec<Option<ProbeError>> = vec![None; targets.len()];
    if !in_place {
        print_text(&format!("{:<21}{}\n", "", line_head()), aside);
    }
    for event in coming {
        let Event::Measured(number, outcome) = event else { break };
        all[number].take((*outcome).as_ref().ok().map(|report| report.full.timers.appconnect.p50));
        let now = Utc::of(SystemTime::now()).to_seconds().to_string();
        if let Some(rounds) = &mut rounds {
            let sample = Sample::of(&targets[number].to_string(), (*outcome).as_ref());
            if let Err(refusal) = rounds.take(sample, targets.len(), &now) {
                voice.wipe();
                talk.finish();
                return refused(&refusal);
            }
        }
        match &*outcome {
            Err(failure) => {
                failed = true;
                if reported[number].as_ref() != Some(failure) {
                    report_failure(&targets[number], failure, &voice);
                    reported[number] = Some(failure.clone());
                }
            }
            Ok(report) => {
                reported[number] = None;
                missed |= report.limits.iter().any(|limit| !limit.held);
                if !in_place {
                    print_text(&format!("{now:<21}{}\n", to_line(report)), aside);
                }
            }
        }
        if in_place {
            let (columns, rows) = terminal_size(std::io::stderr()).unwrap_or((USUAL, 24));
            let shown = all.iter().take(usize::from(rows).saturating_sub(2));
            voice.show(shown.map(|one| one.row(usize::from(columns))));
        }
    }
    drop(alive);
    voice.wipe();
    talk.finish();
    let summary: String = all.iter().map(|one| one.summary() + "\n").collect();
    print_text(&format!("{}\n{summary}", summary_head()), aside);
    ExitCode::from(match (failed, missed) {
        (true, _) => 1,
        (false, true) => 4,
        (false, false) => 0,
    })
}

/// Starts the threads that measure and receive signals. Both end with this process at the latest.
fn begin(
    events: SyncSender<Event>,
    settings: Vec<ProbeSettings>,
    every: Duration,
    ended: Receiver<()>,
) -> io::Result<()> {
    let ending = events.clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        runtime.block_on(async {
            if let Ok(mut signals) = Signals::listen() {
                signals.next().await;
                let _ = ending.send(Event::End);
            }
        });
    })?;
    std::thread::Builder::new()
        .name("probe".into())
        .spawn(move || measure(&events, &settings, every, &ended))?;
    Ok(())
}

fn measure(events: &SyncSender<Event>, settings: &[ProbeSettings], every: Duration, ended: &Receiver<()>) {
    loop {
        let next = Moment::now() + every;
        for (number, settings) in settings.iter().enumerate() {
            let outcome = Box::new(run(settings, &mut |_| {}));
            if events.send(Event::Measured(number, outcome)).is_err() {
                return;
            }
        }
        if ended.recv_timeout(next.since(Moment::now())) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
