//! A configuration's life, last part: reload. All or nothing: on any fault the old state keeps serving, and the fault is logged and
//! counted. Only a certificate file that cannot be used, and of which there is an old version in memory, keeps nothing from the others.
//!
//! In: requests, from signals, the admin listener and the watch on files; what is served at present, as a value. Out: what could be
//! served next, with its sockets, or why not: the caller installs it. One reload runs at a time, on a separate thread, so that a file that
//! hangs holds up nothing; requests that come meanwhile become one.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_pki::load::FileStamp;
use tokio::task::JoinHandle;

use crate::backends::tunnel::OwnTargets;
use crate::control::admin_state::Reply;
use crate::control::error::Error;
use crate::control::fleet;
use crate::state::{self, Built, Report, SharedCarriedOver, State};
use handfast_admin::ReloadRefusal;
use handfast_config::model::{Backend, Config, RestartSettings, Target};
use handfast_config::source::{ConfigSource, ReadConfig, read_file};
use handfast_process::key_process::KeyProcess;
use handfast_process::listeners::{ListenPlan, ListenerSnapshot};
use handfast_process::sandbox::Sandbox;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// The files that the present configuration names.
    Files,
    /// The configuration itself, and its files.
    Configuration,
}

/// State before a reload.
///
/// It may be kept for as long as a file hangs, whatever happens to the program meanwhile; so it holds no socket.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    pub(crate) source: ConfigSource,
    /// State that is carried over. Keys of a reload that is refused stay in it; no service uses them.
    pub(crate) carried: SharedCarriedOver,
    pub(crate) state: Arc<State>,
    /// Values at the start of this process of the keys that need a restart: they are still in effect, whatever was reloaded since.
    pub(crate) started_with: RestartSettings,
    pub(crate) taken: ListenerSnapshot,
    /// Number of worker sockets per listener.
    pub(crate) workers: usize,
    pub(crate) sandbox: Sandbox,
}

#[derive(Debug)]
pub(crate) struct Reloaded {
    pub(crate) state: Arc<State>,
    /// Sockets for addresses that are new; dropping it closes them.
    pub(crate) plan: ListenPlan,
    pub(crate) found: ReloadNotes,
    scope: Scope,
}

#[derive(Debug, Default)]
pub(crate) struct ReloadNotes {
    pub(crate) warnings: Vec<String>,
    /// Certificate files that had to be left out, a line for each; empty when there is none.
    pub(crate) left_out: String,
    /// Keys that were changed and need a restart.
    pub(crate) needs_restart: Vec<String>,
}

/// Files that could not be served, as they were.
type Unusable = Vec<(PathBuf, FileStamp)>;

impl ReloadNotes {
    /// Everything that did not take effect, a line each; empty: all did.
    pub(crate) fn not_in_effect(&self) -> String {
        let keys = self.needs_restart.iter();
        let keys = keys.map(|key| {
            format!("{key} has changed, which takes effect only at a restart or `handfast upgrade`")
        });
        let left_out = (!self.left_out.is_empty()).then(|| self.left_out.clone());
        left_out.into_iter().chain(keys).collect::<Vec<_>>().join("\n")
    }
}

#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) problems: String,
    /// Warnings about the configuration, rendered.
    pub(crate) warnings: String,
    /// The files of the present configuration as they were, if it is for them: not tried again until they change.
    unusable: Option<Unusable>,
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self { problems: error.to_string(), warnings: String::new(), unusable: None }
    }
}

/// A pair of files may be in the middle of being replaced: looked at again so often, in such steps.
const HALF_WRITTEN_RETRIES: (u32, Duration) = (5, Duration::from_millis(100));

/// Reads everything again, and binds what is new.
///
/// **Errors**: everything that is wrong with the configuration, its files, or addresses that are in use.
/// **Cost**: that of [`state::build`]; waits for files, and up to half a second for their writer.
pub(crate) fn reload(present: &Present, scope: Scope) -> Result<Reloaded, Refused> {
    let before = &present.state;
    let (config, odd) = match scope {
        Scope::Files => (before.config.clone(), String::new()),
        Scope::Configuration => {
            let keys = present.carried.lock().keys.clone();
            let read = |file: &Path| read_again(file, keys.as_deref());
            let ReadConfig { config, notes, .. } =
                present.source.read_counted(false, &read).map_err(Error::from)?;
            (config, notes)
        }
    };
    let refused = |error: Error, beyond: Option<String>| {
        let problems: Vec<_> = Some(error.to_string()).into_iter().chain(beyond).collect();
        Refused { problems: problems.join("\n"), warnings: odd.clone(), unusable: None }
    };
    let Built { state, report, files, .. } =
        read(present, &config).map_err(|error| refused(error, present.sandbox.out_of_reach(&config, [])))?;
    if let Some(problem) = fleet::secret_problem(&config) {
        return Err(refused(problem.into(), None));
    }
    if let Some(error) = new_program(&config, &before.own_targets) {
        return Err(refused(error, None));
    }
    // Links in a folder may lead out of it, and are named in no configuration. Where all was read, all is within reach.
    let is_silent = [&report.errors, &report.warnings, &report.left_out].iter().all(|lines| lines.is_empty());
    let read = files.iter().map(|(path, _)| path).filter(|_| !is_silent);
    let beyond = present.sandbox.out_of_reach(&config, read);
    let Report { errors, mut warnings, left_out } = report;
    let left_out = left_out.join("\n");
    let Some(state) = state else {
        let problems: Vec<_> = errors.into_iter().chain(Some(left_out)).chain(beyond).collect();
        // Those of another configuration do not describe the one that is served.
        let unusable = (scope == Scope::Files).then_some(files);
        return Err(Refused { problems: problems.join("\n"), warnings: odd, unusable });
    };
    let plan = present
        .taken
        .plan(&state.config, present.workers)
        .map_err(|error| refused(error.into(), beyond.clone()))?;
    warnings.insert(0, odd);
    warnings.extend(beyond);
    let needs_restart = state.config.restart.changed_since(&present.started_with);
    let found = ReloadNotes { warnings, left_out, needs_restart };
    Ok(Reloaded { state: Arc::new(state), plan, found, scope })
}

/// Reads the configuration's file. One that only root can read is read by the key process, which is still root (`process.user`) and
/// reads the file that this process was started with, and no other.
fn read_again(file: &Path, keys: Option<&KeyProcess>) -> io::Result<Vec<u8>> {
    match (read_file(file), keys) {
        (Err(error), Some(keys)) if error.kind() == io::ErrorKind::PermissionDenied => keys.configuration(),
        (outcome, _) => outcome,
    }
}

/// The first program that was in no configuration of the start: the process that starts programs does not know it.
fn new_program(config: &Config, own: &OwnTargets) -> Option<Error> {
    let is_new = |target: &Target| target.is_program() && !own.contains_key(target);
    config.services.iter().find_map(|service| {
        let sets = service.backend_sets();
        let target =
            sets.iter().flat_map(|set| set.backends.iter()).find(|backend| is_new(&backend.target))?;
        let Backend { target, .. } = target;
        Some(Error::NewProgram { service: service.name.clone(), target: target.clone() })
    })
}

/// Compares the files that are served with those on disk, and reads them again where they differ; `None`: there is nothing new.
///
/// `unusable`: files that were read before, as they were then, and could not be served.
///
/// **Errors**: as [`reload`]. **Cost**: one system call for each file; that of [`reload`] when one has changed.
pub(crate) fn reload_if_changed(present: &Present, unusable: &Unusable) -> Result<Option<Reloaded>, Refused> {
    let state = &present.state;
    let is_due = state.is_due(SystemTime::now());
    let was_tried = !unusable.is_empty() && !state.have_changed(unusable);
    if was_tried || !(is_due || state.have_changed(&state.files)) {
        return Ok(None);
    }
    match reload(present, Scope::Files) {
        // Unreadable files were already reported.
        Ok(reloaded) if !is_due && Arc::ptr_eq(&reloaded.state.files, &state.files) => Ok(None),
        Err(refused) if refused.unusable.as_ref() == Some(unusable) => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Reads the files; again for as long as they seem to be half written.
fn read(present: &Present, config: &Config) -> Result<Built, Error> {
    let before = &present.state;
    let mut carried = present.carried.lock();
    state::make_throwaway(config, &mut carried, SystemTime::now())?;
    let mut tries = 0;
    loop {
        let now = SystemTime::now();
        let built = state::build(config.clone(), before.generation + 1, Some(before), &mut carried, now);
        tries += 1;
        if !built.may_be_half_written || tries > HALF_WRITTEN_RETRIES.0 {
            return Ok(built);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "this thread serves no client; another process is writing"
        )]
        std::thread::sleep(HALF_WRITTEN_RETRIES.1);
    }
}

impl Reloaded {
    pub(crate) fn text(&self) -> String {
        let what = match self.scope {
            Scope::Files => "files have changed and were read again",
            Scope::Configuration => "configuration was read again",
        };
        let generation = self.state.generation;
        let ReloadNotes { left_out, needs_restart, .. } = &self.found;
        let kept = match (left_out.is_empty(), needs_restart.is_empty()) {
            (true, true) => return format!("reloaded: {what}; generation {generation}"),
            (false, true) => "the old versions of files that cannot be used",
            (true, false) => "the old values of keys that take effect at a restart",
            (false, false) => "old versions of files, and old values of keys that take effect at a restart",
        };
        format!("reloaded in part: {what}; generation {generation} is served, with {kept}")
    }
}

/// Outcome of a reload; `None`: the files were compared and have not changed.
pub(crate) type Outcome = Option<Result<Reloaded, Refused>>;

#[derive(Debug, Default)]
pub(crate) struct Reloads {
    running: Option<JoinHandle<Result<Option<Reloaded>, Refused>>>,
    replies: Vec<Reply<ReloadRefusal>>,
    /// Requests that came while files were being read.
    next: Option<(Scope, Vec<Reply<ReloadRefusal>>)>,
    /// True if files may have changed since the running reload has read them.
    has_pending_check: bool,
    unusable: Unusable,
}

impl Reloads {
    /// Begins with what is served then, or waits for its turn.
    pub(crate) fn request_reload(
        &mut self,
        scope: Scope,
        reply: Option<Reply<ReloadRefusal>>,
        present: impl FnOnce() -> Present,
    ) {
        if self.running.is_some() {
            let (next, replies) = self.next.get_or_insert((scope, Vec::new()));
            *next = scope.max(*next);
            replies.extend(reply);
            return;
        }
        self.replies.extend(reply);
        let present = present();
        self.begin(move || reload(&present, scope).map(Some));
    }

    /// Reloads if files that are served have changed, and were not found wanting as they are.
    pub(crate) fn check_files(&mut self, present: impl FnOnce() -> Present) {
        if self.running.is_some() {
            self.has_pending_check = true;
            return;
        }
        let (present, unusable) = (present(), self.unusable.clone());
        self.begin(move || reload_if_changed(&present, &unusable));
    }

    fn begin(&mut self, work: impl FnOnce() -> Result<Option<Reloaded>, Refused> + Send + 'static) {
        self.running = Some(tokio::task::spawn_blocking(move || {
            // A thread that ends gives back what it kept of freed memory for itself; those of the pool stay.
            std::thread::scope(|thread| thread.spawn(work).join())
                .unwrap_or_else(|_| Err(Error::ReadingPanicked.into()))
        }));
    }

    pub(crate) fn are_over(&self) -> bool {
        self.running.is_none() && self.next.is_none()
    }

    /// Waits until one has come to an end; forever without any request. **Cancel**: loses nothing.
    pub(crate) async fn done(&mut self) -> Outcome {
        let Some(task) = &mut self.running else { return std::future::pending().await };
        let outcome = task.await.unwrap_or_else(|error| Err(Error::Reading(error).into()));
        self.running = None;
        match outcome {
            Ok(None) => None,
            Ok(Some(reloaded)) => {
                self.unusable = Vec::new();
                Some(Ok(reloaded))
            }
            Err(mut refused) => {
                if let Some(files) = refused.unusable.take() {
                    self.unusable = files;
                }
                Some(Err(refused))
            }
        }
    }

    pub(crate) fn answer(&mut self, result: &Result<String, ReloadRefusal>) {
        for reply in self.replies.drain(..) {
            // The requester may have disconnected.
            let _ = reply.send(result.clone());
        }
    }

    /// Begins what was requested meanwhile.
    pub(crate) fn go_on(&mut self, present: impl FnOnce() -> Present) {
        if let Some((scope, replies)) = self.next.take() {
            self.replies = replies;
            self.request_reload(scope, None, present);
        } else if std::mem::take(&mut self.has_pending_check) {
            self.check_files(present);
        }
    }
}

#[cfg(test)]
mod tests;
