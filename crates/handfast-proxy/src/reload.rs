//! A configuration's life, last part: reload. All or nothing: on any fault the old state keeps serving, and the fault
//! is said, logged and counted. One thing is told apart: a certificate file that cannot be used, and of which there is an
//! old version in memory, is left out by itself, so that it keeps nothing from the others.
//!
//! In: HUP, a request of the admin listener, or files that have changed. Out: a new state in every worker. Files are
//! read on a thread of their own, so that one that hangs holds up nothing; while it does, further wishes wait.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use handfast_tls::load::{self, FileStamp};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::admin::ReloadRefusal;
use crate::config::model::Config;
use crate::error::Error;
use crate::program::Program;
use crate::say::{say_refusal, say_warnings};
use crate::source::ConfigSource;
use crate::state::{self, Built, Report, SharedCarriedOver, State};

/// What is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The files that the present configuration names.
    Files,
    /// The configuration itself, and its files.
    Configuration,
}

/// Somebody who waits for the outcome.
type Reply = oneshot::Sender<Result<String, ReloadRefusal>>;

/// What came of reading: the state, or why there is none.
pub(crate) type Reading = Result<Built, Error>;

/// A pair of files may be in the middle of being replaced: looked at again so often, in such steps.
const AGAIN: (u32, Duration) = (5, Duration::from_millis(100));

/// Where a reload is.
#[derive(Debug, Default)]
pub(crate) struct Reloading {
    task: Option<JoinHandle<Reading>>,
    kind: Option<Kind>,
    replies: Vec<Reply>,
    /// What was asked for while files were being read.
    next: Option<(Kind, Vec<Reply>)>,
    /// Files as they were when they could not be served: not tried again until they change.
    refused: Vec<(PathBuf, FileStamp)>,
}

impl Reloading {
    /// Begins, or waits for its turn.
    pub(crate) fn ask(&mut self, program: &Program, kind: Kind, reply: Option<Reply>) {
        if self.task.is_some() {
            let (next, replies) = self.next.get_or_insert((kind, Vec::new()));
            *next = kind.max(*next);
            replies.extend(reply);
            return;
        }
        self.kind = Some(kind);
        self.replies.extend(reply);
        let (source, carried) = (program.source.clone(), program.carried.clone());
        let state = Arc::clone(&program.state);
        self.task = Some(tokio::task::spawn_blocking(move || {
            // A thread that ends gives back what it kept of freed memory for itself; those of the pool stay.
            thread::scope(|scope| scope.spawn(|| read(kind, &source, &carried, &state)).join())
                .unwrap_or_else(|_| Err(Error::ReadingPanicked))
        }));
    }

    /// Reloads if files that are served have changed, and were not found wanting as they are.
    pub(crate) fn files_may_have_changed(&mut self, program: &Program) {
        let outdated = program.state.is_outdated(SystemTime::now());
        let tried = !self.refused.is_empty() && !load::changed(&self.refused);
        if self.task.is_none() && outdated && !tried {
            self.ask(program, Kind::Files, None);
        }
    }

    /// Waits until files have been read; for ever when nothing is asked for.
    pub(crate) async fn built(&mut self) -> Reading {
        match &mut self.task {
            Some(task) => {
                let outcome = task.await;
                self.task = None;
                outcome.unwrap_or_else(|error| Err(Error::ReadingLost(error)))
            }
            None => std::future::pending().await,
        }
    }

    /// Serves by what was read, or says why not.
    pub(crate) async fn finish(&mut self, program: &mut Program, reading: Reading) {
        let kind = self.kind.take().unwrap_or(Kind::Configuration);
        let outcome = self.adopt(program, kind, reading).await.map_err(|error| in_lines(&error));
        match &outcome {
            Ok(Adopted { text, left_out }) if left_out.is_empty() => tracing::info!("{text}"),
            Ok(Adopted { text, left_out }) => say_refusal(text, left_out),
            Err(problem) => {
                program.registry.reload_failed(problem);
                let head = format!("reload refused, generation {} goes on", program.state.generation);
                say_refusal(&head, problem);
            }
        }
        let reply = outcome.map_err(|problems| ReloadRefusal::Refused { problems }).and_then(Adopted::reply);
        for asked in self.replies.drain(..) {
            // Whoever asked may have left.
            let _ = asked.send(reply.clone());
        }
        if let Some((kind, replies)) = self.next.take() {
            self.replies = replies;
            self.ask(program, kind, None);
        }
    }

    async fn adopt(&mut self, program: &mut Program, kind: Kind, reading: Reading) -> Result<Adopted, Error> {
        let Built { state, report, files, .. } = reading?;
        let Report { errors, warnings, left_out } = report;
        let left_out = left_out.join("\n");
        let Some(state) = state else {
            self.refused = files;
            return Err(Error::NotServable { problems: errors.into_iter().chain(Some(left_out)).collect() });
        };
        // They are in the state too; before memory is given back.
        drop(files);
        let plan = program.listeners.taken().plan(&state.config, program.workers.len())?;
        self.refused = Vec::new();
        say_warnings(&warnings);
        say_unused(&program.state.config, &state.config);
        let state = Arc::new(state);
        program.install(Arc::clone(&state), plan).await?;
        program.names.follow(&state.config);
        program.tell();
        program.registry.set_certificates(state.certificate_snapshots());
        program.registry.set_file_problems(state.file_problems());
        // The old state's memory goes with its last connection, most of it now.
        handfast_net::sys::release_memory();
        match left_out.is_empty() {
            true => program.registry.reload_succeeded(state.generation),
            false => program.registry.reload_left_out(state.generation, &left_out),
        }
        let what = match kind {
            Kind::Files => "files have changed and were read again",
            Kind::Configuration => "configuration was read again",
        };
        let text = match left_out.is_empty() {
            true => format!("reloaded: {what}; generation {}", state.generation),
            false => format!(
                "reloaded in part: {what}; generation {} is served, with the old versions of certificates that cannot \
                 be used",
                state.generation
            ),
        };
        Ok(Adopted { text, left_out })
    }
}

/// A reload that took effect.
#[derive(Debug)]
struct Adopted {
    text: String,
    /// Certificate files that it had to leave out, a line for each; empty when there is none.
    left_out: String,
}

impl Adopted {
    /// What whoever asked for it is told: a file that was left out is no success.
    fn reply(self) -> Result<String, ReloadRefusal> {
        let Self { text, left_out } = self;
        if left_out.is_empty() { Ok(text) } else { Err(ReloadRefusal::InPart { served: text, left_out }) }
    }
}

/// Every problem, on lines of its own.
fn in_lines(error: &Error) -> String {
    match error {
        Error::NotServable { problems } => problems.join("\n"),
        other => other.to_string(),
    }
}

/// Reads everything anew; on a thread of its own.
fn read(kind: Kind, source: &ConfigSource, carried: &SharedCarriedOver, before: &Arc<State>) -> Reading {
    let config = match kind {
        Kind::Files => before.config.clone(),
        Kind::Configuration => {
            let (config, warnings) = source.read(false)?;
            say_warnings(&[warnings]);
            config
        }
    };
    let mut carried = carried.lock();
    state::make_throwaway(&config, &mut carried, SystemTime::now())?;
    let mut tries = 0;
    loop {
        let now = SystemTime::now();
        let built = state::build(config.clone(), before.generation + 1, Some(before), &mut carried, now);
        tries += 1;
        if !built.may_be_half_written || tries > AGAIN.0 {
            return Ok(built);
        }
        wait_for_writer();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this thread serves nobody, and waits for somebody else's next write"
)]
fn wait_for_writer() {
    std::thread::sleep(AGAIN.1);
}

/// Names what a reload cannot change.
fn say_unused(before: &Config, after: &Config) {
    let (old, new) = (&before.process, &after.process);
    let changed = [
        ("process.threads", old.threads != new.threads),
        ("process.user", old.user != new.user || old.group != new.group),
        ("process.max-connections", old.max_connections != new.max_connections),
        ("access-log", before.access_log != after.access_log),
        ("admin", before.admin != after.admin),
    ];
    for (key, _) in changed.iter().filter(|(_, changed)| *changed) {
        tracing::warn!("{key} has changed, which takes effect at a restart only");
    }
}
