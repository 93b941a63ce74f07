//! The second stage: every address is bound, what needs privileges is open, the privileges are given up, and the process is in its
//! sandbox.
//!
//! In: a [`Prepared`]. Out: a program that serves.

use handfast_observe::metrics::KeyProcessSnapshot;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_tls::load::FileStamp;
use tokio::sync::mpsc::{Receiver, channel};

use super::admin_address::AdminAddress;
use super::prepared::Prepared;
use crate::backends::checks::Checks;
use crate::backends::names::{Answer, Names};
use crate::control::admin_state::AdminState;
use crate::control::error::Error;
use crate::control::program::Program;
use crate::control::serving::Serving;
use crate::control::upgrade::Upgrades;
use crate::control::workers::Workers;
use crate::state::{SharedCarriedOver, State};
use handfast_config::model::{AccessLog, Config};
use handfast_observe::access_log::{self, AccessLogHandle};
use handfast_observe::metrics::Registry;
use handfast_process::key_process::KeyProcess;
use handfast_process::limits::log_limits;
use handfast_process::listeners::{ListenPlan, Listeners};
use handfast_process::log_lines::log_warnings;
use handfast_process::privileges::ServiceUser;
use handfast_process::sandbox::Sandbox;
use handfast_process::writable_files::{own_files, unreadable};

/// How long the names of backends may take at start before clients are served without them.
const FIRST_NAMES: Duration = Duration::from_secs(2);
/// Messages that may wait for the control thread: names send one for each answer (and wait when there is no room), the admin
/// listener one for each request (which is answered "try again").
const CHANNEL: usize = 256;

/// Everything that can fail for want of an address or a privilege is done.
#[derive(Debug)]
pub(crate) struct Bound {
    prepared: Prepared,
    admin: AdminAddress,
    upgrades: Upgrades,
    listeners: Listeners,
    /// Bound and not listening: who connects before all is ready is refused, and not kept waiting for nothing.
    plan: ListenPlan,
    log: AccessLogHandle,
    sandbox: Sandbox,
}

impl Prepared {
    /// Binds every address, opens what needs privileges, gives these up, and goes into the sandbox.
    ///
    /// **Errors**: every address that cannot be had; a file that cannot be opened; not being allowed to change the user.
    pub(crate) fn bind(mut self) -> Result<Bound, Error> {
        let mut given = std::mem::take(&mut self.given);
        let state = &self.state;
        let user = ServiceUser::from(&state.config.process);
        let admin = AdminAddress::bind(&state.config, given.take_admin(&state.config), &user)?;
        let config = &state.config;
        let path = config.process.upgrade_socket.as_deref();
        let asked_at = self.taking.as_mut().zip(path).and_then(|(taking, path)| taking.take_upgrade(path));
        let mut upgrades = Upgrades::bind(config, asked_at, admin.is_taken(), &user)?;
        let listeners = Listeners::new(admin.is_taken(), given);
        let plan = listeners.snapshot().plan(&state.config, self.threads)?;
        let process = &state.config.process;
        user.take_over(&own_files(&state.config))?;
        say_unreadable(state, self.carried.keys.as_deref());
        if process.sandbox {
            upgrades.keep_launcher().map_err(Error::system("start the thread that starts programs"))?;
        }
        let sandbox =
            Sandbox::enter(process.sandbox, &state.reach(&self.source), !self.notifier.is_abstract());
        // As the user that serves, who will have to open it again after a rotation.
        let log = open_log(&state.config)?;
        Ok(Bound { prepared: self, admin, upgrades, listeners, plan, log, sandbox })
    }
}

impl Bound {
    /// Starts the workers and lets clients in.
    ///
    /// **Errors**: a thread that cannot be started or does not answer; listen(2).
    pub(crate) async fn serve(self) -> Result<Serving, Error> {
        let Self { prepared, admin, upgrades, listeners, plan, log, sandbox } = self;
        let Prepared {
            source,
            signals,
            limit,
            max_connections,
            threads,
            carried,
            state,
            notifier,
            taking,
            ..
        } = prepared;
        let registry = Registry::new();
        registry.set_access_log(log.totals());
        registry.set_certificates(state.certificate_snapshots());
        registry.set_revocation_lists(state.revocation_lists());
        registry.set_file_problems(state.file_problems());
        let key_process = carried.keys.as_ref().map(|keys| Arc::clone(keys.health()));
        if let Some(health) = key_process.clone() {
            registry.set_key_process(move || KeyProcessSnapshot {
                answers: !health.is_unresponsive(),
                restarts: health.restarts(),
            });
        }
        let (answer_sender, mut answers) = channel(CHANNEL);
        let mut names = Names::new(answer_sender);
        names.follow(&state.config);
        first_names(&mut names, &mut answers).await;
        let state = Arc::new(state);
        let workers = Workers::start(threads, max_connections, &registry, &log, &state, &names.addresses());
        let workers = workers.map_err(Error::system("start a worker"))?;
        log_limits(limit, max_connections, threads);
        let (request_sender, requests) = channel(CHANNEL);
        let shared = Rc::new(AdminState::new(Arc::clone(&registry), request_sender, key_process));
        let carried = SharedCarriedOver::new(carried);
        let program = Program {
            source,
            carried,
            state,
            listeners,
            workers,
            answers,
            requests,
            signals,
            names,
            max_connections,
            registry,
            log,
            shared: Rc::clone(&shared),
            checks: Checks::default(),
            notifier,
            upgrades,
            sandbox,
        };
        let opens_admin = |admin: AdminAddress, shared| {
            admin.open(threads, shared).map_err(Error::system("listen for admin"))
        };
        match taking {
            None => {
                opens_admin(admin, &shared)?;
                Serving::begin(program, plan, None).await
            }
            // Not before it is ready: until then it is the other process's to answer.
            Some(taking) => {
                let given = admin.given();
                let serving = Serving::begin(program, plan, Some((taking, given))).await?;
                opens_admin(admin, &shared)?;
                Ok(serving)
            }
        }
    }
}

/// Says which files a later reload could not read again, now that the privileges are gone.
fn say_unreadable(state: &State, keys: Option<&KeyProcess>) {
    let process = &state.config.process;
    if process.user.is_some() || process.group.is_some() {
        // What the key process reads it reads as who it was started by. What was not there has no rights yet.
        let theirs = keys.map(KeyProcess::take_requested_files).unwrap_or_default();
        let is_ours = |(path, stamp): &&(PathBuf, FileStamp)| stamp.is_there() && !theirs.contains(path);
        let files: Vec<_> = state.files.iter().filter(is_ours).map(|(path, _)| path.clone()).collect();
        log_warnings(&unreadable(&state.config, &files));
    }
}

fn open_log(config: &Config) -> Result<AccessLogHandle, Error> {
    access_log::start(&config.access_log).map_err(|source| {
        let object = match &config.access_log {
            AccessLog::File(path) => format!(" {}{}", path.display(), config.places.suffix(path)),
            AccessLog::Syslog(path) | AccessLog::Journald(path) => {
                format!(" at the socket {}", path.display())
            }
            _ => String::new(),
        };
        Error::AccessLog { object, source }
    })
}

/// Waits a moment for the names of backends, so that the first clients find them.
async fn first_names(names: &mut Names, answers: &mut Receiver<Answer>) {
    let deadline = tokio::time::Instant::now() + FIRST_NAMES;
    while !names.waiting_for().is_empty() {
        match tokio::time::timeout_at(deadline, answers.recv()).await {
            Ok(Some(answer)) => drop(names.take(answer)),
            _ => break,
        }
    }
    let unresolved = names.unresolved();
    if !unresolved.is_empty() {
        tracing::warn!("serving without an address yet for: {}", unresolved.join(", "));
    }
}
