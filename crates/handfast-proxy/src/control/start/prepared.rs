//! The first stage: everything that can be refused before a socket is bound.
//!
//! In: where the configuration comes from. Out: a state that could be served, and what it is to be served with.

use crate::state::certificate_needs;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use handfast_net::limits::{FileLimit, raise_file_limit};
use handfast_tls::load::FileStamp;
use rustix::fs::OFlags;

use crate::backends::checks;
use crate::control::built_in_backend;
use crate::control::error::Error;
use crate::control::upgrade::Taking;
use crate::state::{self, Built, CarriedOver, KeyRings, State};
use handfast_config::model::{Backend, Config, Service, Target};
use handfast_config::source::ConfigSource;
use handfast_process::key_process::KeyProcess;
use handfast_process::limits::max_connections;
use handfast_process::listeners::PassedSockets;
use handfast_process::log_lines::log_warnings;
use handfast_process::privileges::ServiceUser;
use handfast_process::service_manager::{Notifier, ServiceManager};
use handfast_process::signals::Signals;

/// A configuration that was read, with its files, and what this process may have.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) source: ConfigSource,
    /// Listened for from the beginning: a stop during a start is a stop.
    pub(super) signals: Signals,
    pub(super) limit: FileLimit,
    pub(super) max_connections: usize,
    pub(super) threads: usize,
    pub(super) carried: CarriedOver,
    pub(super) state: State,
    pub(super) given: PassedSockets,
    pub(super) notifier: Notifier,
    pub(super) taking: Option<Taking>,
}

/// What a process has that does not begin from nothing.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    pub(crate) manager: ServiceManager,
    pub(crate) taking: Option<Taking>,
}

impl Prepared {
    /// Reads the configuration and its files.
    ///
    /// **Errors**: all that is wrong with them, an unknown user, a limit on open files that is too low, a throwaway
    /// certificate or a built-in backend that cannot be made.
    pub(crate) async fn new(source: &ConfigSource, color: bool, passed: Passed) -> Result<Self, Error> {
        handfast_net::sys::release_memory_early();
        let Passed { manager, mut taking } = passed;
        let (mut given, notifier) = manager.take();
        if let Some(taking) = &mut taking {
            given.sockets.extend(taking.take_sockets().sockets);
        }
        let signals = Signals::new().map_err(Error::system("listen for signals"))?;
        let limit = raise_file_limit().map_err(Error::system("raise the limit on open files"))?;
        let (config, warnings) = source.read(color)?;
        log_warnings(&[warnings]);
        let process = &config.process;
        let user = ServiceUser::from(process);
        user.look_up()?;
        let threads = threads(&config);
        let max_connections = max_connections(&config, limit, checks::SLOTS)?;
        let private_keys = KeyProcess::start(&config.process, threads, &certificate_needs(&config))
            .map_err(Error::system("start the key process"))?;
        if let Some(keys) = &private_keys {
            keys.monitor();
        }
        let keys = taking.as_mut().map(Taking::take_keys).unwrap_or_default();
        let rings = KeyRings::with(keys, user);
        let mut carried = CarriedOver { rings, threads, keys: private_keys, ..CarriedOver::default() };
        if wants_built_in(&config) {
            carried.built_in =
                Some(built_in_backend::start().await.map_err(Error::system("start the built-in backend"))?);
        }
        state::make_throwaway(&config, &mut carried, SystemTime::now()).map_err(Error::Throwaway)?;
        let now = SystemTime::now();
        let state = first_state(config, &mut carried, now)?;
        as_the_user_could(&state, now)?;
        state.needs_keys(&carried);
        if let Some(taking) = &mut taking {
            taking.restore(&state);
        }
        Ok(Self {
            source: source.clone(),
            signals,
            limit,
            max_connections,
            threads,
            carried,
            state,
            given,
            notifier,
            taking,
        })
    }
}

/// Refuses what root has read by a path that the service user can change, unless that user may read the very same file: its link could
/// lead to any key on the machine.
fn as_the_user_could(state: &State, now: SystemTime) -> Result<(), Error> {
    let user = ServiceUser::from(&state.config.process);
    let changeable = state.files.iter().filter(|(path, stamp)| stamp.is_there() && user.can_change(path));
    let changeable: Vec<_> = changeable.collect();
    if changeable.is_empty() {
        return Ok(());
    }
    let problems: Vec<String> = user.act(|| {
        let is_same = |path: &Path, stamp: &FileStamp| {
            // A named pipe in its place must not hold the start.
            let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
            let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
            opened.and_then(|file| file.metadata()).is_ok_and(|file| FileStamp::from(&file).settled(now) == *stamp)
        };
        let refused = changeable.iter().filter(|(path, stamp)| !path.is_dir() && !is_same(path, stamp));
        let problem = |(path, _): &&(PathBuf, FileStamp)| {
            format!(
                "{}{}: the user that serves can change where this path leads, and may not read what root reads there\n  hint: let \
                 the user read the file, or let only root change its folder and those above it",
                path.display(),
                state.config.places.suffix(path)
            )
        };
        refused.map(problem).collect()
    })?;
    if problems.is_empty() { Ok(()) } else { Err(Error::NotServable { problems }) }
}

fn threads(config: &Config) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    config.process.threads.unwrap_or(cpus).max(1)
}

fn wants_built_in(config: &Config) -> bool {
    let is_built_in = |backend: &Backend| backend.target == Target::BuiltIn;
    let mut sets = config.services.iter().flat_map(Service::backend_sets);
    sets.any(|set| set.backends.iter().any(is_built_in))
}

fn first_state(config: Config, carried: &mut CarriedOver, now: SystemTime) -> Result<State, Error> {
    let Built { state, report, .. } = state::build(config, 1, None, carried, now);
    log_warnings(&report.warnings);
    // Reading 10,000 certificates takes a third more than keeping them.
    handfast_net::sys::release_memory();
    state.ok_or(Error::NotServable { problems: report.errors })
}
