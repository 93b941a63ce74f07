//! The program's life, on the control thread, in stages that are types: each consumes the one before it.
//!
//! | stage | type | what is certain then |
//! |---|---|---|
//! | prepared | [`Prepared`] | everything that can be refused without a socket was looked at: configuration, files, limits |
//! | bound | [`Bound`] | every address is bound, what needs privileges is open, they are given up, and the sandbox is entered |
//! | serving | [`Serving`] | every worker accepts |
//!
//! Dropping a stage undoes it: sockets that were bound and never listened cost no client anything.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_net::limits::raise_file_limit;
use handfast_pki::apart::Holder;
use handfast_pki::load::FileStamp;
use rustix::fs::OFlags;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::LocalSet;

use crate::backends::checks::{self, Checks};
use crate::backends::names::{LookupOutcome, Names};
use crate::cache;
use crate::control::acme::{self, Ordering};
use crate::control::admin_state::AdminState;
use crate::control::built_in_backend;
use crate::control::dns_command::DnsCommand;
use crate::control::error::{Error, Outcome};
use crate::control::fleet::{self, Fleet};
use crate::control::given_clients::GivenClients;
use crate::control::maintenance::MaintenanceState;
use crate::control::program::Program;
use crate::control::serving::Serving;
use crate::control::upgrade::{Taking, Upgrades};
use crate::control::workers::Workers;
use crate::state::{self, Built, CarriedOver, KeyRings, SharedCarriedOver, State, certificate_needs};
use handfast_config::model::{AccessLog, Backend, Config, Service, Target};
use handfast_config::source::ConfigSource;
use handfast_observe::access_log::{self, AccessLogHandle};
use handfast_observe::metrics::{KeyProcessSnapshot, Registry};
use handfast_process::key_process::KeyProcess;
use handfast_process::limits::Descriptors;
use handfast_process::listeners::{ListenPlan, Listeners, PassedSockets};
use handfast_process::log_lines::{log_warnings, without_severity};
use handfast_process::privileges::ServiceUser;
use handfast_process::programs::Programs;
use handfast_process::sandbox::{self, Sandbox};
use handfast_process::service_manager::{Notifier, ServiceManager};
use handfast_process::signals::Signals;
use handfast_process::writable_files::{own_files, unreadable};

use admin_address::AdminAddress;

mod admin_address;

/// Timeout for the names of backends at start. After it clients are served without them.
const FIRST_NAMES: Duration = Duration::from_secs(2);
/// Messages that may wait for the control thread: names send one for each answer (and wait when there is no room), the admin
/// listener one for each request (which is answered "try again").
const MAX_WAITING_MESSAGES: usize = 256;

/// Runs the proxy until a signal or a request stops it. Problems are logged through `tracing`; `color` is for those of the
/// configuration; `manager` is what a service manager passed, `take_over` where a running process is asked for its sockets.
pub fn run(source: &ConfigSource, color: bool, manager: ServiceManager, take_over: Option<&Path>) -> Outcome {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("start the control thread: {error}");
            return Outcome::Failed;
        }
    };
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async {
        match start(source, color, manager, take_over).await {
            Ok(serving) => serving.serve().await,
            Err(error) => {
                tracing::error!("{}", without_severity(error.to_string().trim(), "error"));
                sandbox::log_remaining_refusals();
                error.outcome()
            }
        }
    });
    // A file that hangs must not keep the program from ending.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn start(
    source: &ConfigSource,
    color: bool,
    manager: ServiceManager,
    take_over: Option<&Path>,
) -> Result<Serving, Error> {
    let taking = take_over.map(Taking::begin).transpose()?;
    let giver = taking.as_ref().map(Taking::connection).transpose()?;
    let stages = async { Prepared::new(source, color, manager, taking).await?.bind()?.serve().await };
    let outcome = stages.await;
    if let (Err(error), Some(giver)) = (&outcome, &giver) {
        giver.report_failure(error);
    }
    outcome
}

/// A configuration that was read, with its files, and what this process may have.
#[derive(Debug)]
pub(crate) struct Prepared {
    source: ConfigSource,
    /// Listened for from the beginning: a stop during a start is a stop.
    signals: Signals,
    descriptors: Descriptors,
    threads: usize,
    carried: CarriedOver,
    state: State,
    given: PassedSockets,
    notifier: Notifier,
    taking: Option<Taking>,
    programs: Programs,
    clients: GivenClients,
}

impl Prepared {
    /// Reads the configuration and its files.
    ///
    /// **Errors**: all that is wrong with them, an unknown user, a limit on open files that is too low, a throwaway
    /// certificate or a built-in backend that cannot be made.
    pub(crate) async fn new(
        source: &ConfigSource,
        color: bool,
        manager: ServiceManager,
        mut taking: Option<Taking>,
    ) -> Result<Self, Error> {
        handfast_net::sys::release_memory_early();
        let (mut given, notifier) = manager.take();
        if let Some(taking) = &mut taking {
            given.sockets.extend(taking.take_sockets().sockets);
        }
        let signals = Signals::new().map_err(Error::system("listen for signals"))?;
        let limit = raise_file_limit().map_err(Error::system("raise the limit on open files"))?;
        let (config, warnings) = source.read(color)?;
        log_warnings(&[warnings]);
        let user = ServiceUser::from(&config.process);
        user.resolve()?;
        let threads = threads(&config);
        let descriptors = Descriptors::share_out(&config, limit, checks::MAX_CONCURRENT_CHECKS, threads)?;
        descriptors.reserve();
        acme::prepare_keys(&config).map_err(|error| Error::not_servable(&[error]))?;
        let needs = certificate_needs(&config);
        let private_keys =
            KeyProcess::start(&config.process, threads, &needs, source.file().map(PathBuf::as_path))
                .map_err(Error::system("start the key process"))?;
        if let Some(keys) = &private_keys {
            keys.monitor();
        }
        let given_keys = taking.as_mut().map(Taking::take_keys).unwrap_or_default();
        let rings = KeyRings::with(given_keys, fleet::tag(&config, &user), user);
        let mut carried = CarriedOver { rings, threads, keys: private_keys, ..CarriedOver::default() };
        let programs = Programs::of(&config).map_err(Error::system("make sockets for programs"))?;
        let mut own_targets: HashMap<_, _> = programs.addresses().collect();
        if has_built_in_backend(&config) {
            let address =
                built_in_backend::start().await.map_err(Error::system("start the built-in backend"))?;
            own_targets.insert(Target::BuiltIn, address);
        }
        carried.own_targets = Arc::new(own_targets);
        let clients = GivenClients::of(&config).map_err(Error::system("take standard input"))?;
        state::make_throwaway(&config, &mut carried, SystemTime::now())?;
        let now = SystemTime::now();
        let state = first_state(config, &mut carried, now)?;
        as_the_user_could(&state, now)?;
        state.report_needed_keys(&carried);
        if let Some(taking) = &mut taking {
            taking.restore(&state);
        }
        Ok(Self {
            source: source.clone(),
            signals,
            descriptors,
            threads,
            carried,
            state,
            given,
            notifier,
            taking,
            programs,
            clients,
        })
    }
}

/// Everything that can fail for want of an address or a privilege is done.
#[derive(Debug)]
pub(crate) struct Bound {
    prepared: Prepared,
    admin: AdminAddress,
    upgrades: Upgrades,
    listeners: Listeners,
    /// Bound and not listening: a client that connects before all is ready is refused, and does not wait for nothing.
    plan: ListenPlan,
    log: AccessLogHandle,
    sandbox: Sandbox,
    ordering: Ordering,
    maintenance: MaintenanceState,
}

impl Prepared {
    /// Binds every address, opens what needs privileges, gives these up, and goes into the sandbox.
    ///
    /// **Errors**: every address that cannot be had; a file that cannot be opened; not being allowed to change the user.
    pub(crate) fn bind(mut self) -> Result<Bound, Error> {
        let mut given = std::mem::take(&mut self.given);
        let (state, config) = (&self.state, &self.state.config);
        let user = ServiceUser::from(&config.process);
        let admin = AdminAddress::bind(config, given.take_admin(config), &user)?;
        let path = config.process.upgrade_socket.as_deref();
        let upgrade_socket =
            self.taking.as_mut().zip(path).and_then(|(taking, path)| taking.take_upgrade(path));
        let mut upgrades = Upgrades::bind(config, upgrade_socket, admin.is_taken(), &user)?;
        let listeners = Listeners::new(admin.is_taken(), given);
        let plan = listeners.snapshot().plan(config, self.threads)?;
        user.take_over(&own_files(config))?;
        // As the user that serves: no folder can be made in the sandbox.
        acme::prepare(config).map_err(|error| Error::not_servable(&[error]))?;
        cache::prepare(config).map_err(|errors| Error::not_servable(&errors))?;
        let given = self.taking.as_mut().and_then(Taking::take_maintenance);
        let maintenance =
            MaintenanceState::begin(config, given).map_err(|error| Error::not_servable(&[error]))?;
        // The same user reads it again when a reload names another one.
        if let Some(problem) = fleet::secret_problem(config) {
            return Err(Error::not_servable(&[problem]));
        }
        let dns_command = config.acme.as_ref().and_then(|acme| acme.dns_command.clone());
        let dns_command = dns_command.map(DnsCommand::start).transpose();
        let dns_command = dns_command.map_err(Error::system("start the thread for acme.dns-command"))?;
        log_unreadable_files(state, self.carried.keys.as_deref());
        self.programs.start().map_err(Error::system("start the process that starts programs"))?;
        if config.process.sandbox {
            upgrades.keep_launcher().map_err(Error::system("start the thread that starts programs"))?;
        }
        let reach = state.reach(&self.source);
        let sandbox = Sandbox::enter(config.process.sandbox, &reach, !self.notifier.is_abstract());
        if let Some(keys) = config.acme.as_ref().and_then(|acme| acme.key_folder.as_ref())
            && sandbox.reaches(keys)
        {
            tracing::warn!(
                "acme.key-folder {} is below a folder that the sandbox of this process opens; the user's permissions alone keep it from \
                 the keys\n  hint: name a folder that has no other files of this configuration beside it",
                keys.display()
            );
        }
        // As the user that serves, which has to open it again after a rotation.
        let log = open_log(config)?;
        let holder = self.carried.keys.clone().map(|keys| keys as Arc<dyn Holder>);
        Ok(Bound {
            prepared: self,
            admin,
            upgrades,
            listeners,
            plan,
            log,
            sandbox,
            ordering: Ordering::new(dns_command, holder),
            maintenance,
        })
    }
}

impl Bound {
    /// Starts the workers and lets clients in. **Errors**: a thread that cannot be started or does not answer; listen(2).
    pub(crate) async fn serve(self) -> Result<Serving, Error> {
        let Self { prepared, admin, upgrades, listeners, plan, log, sandbox, ordering, maintenance } = self;
        let Prepared { descriptors, threads, carried, state, .. } = prepared;
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
        let (answer_sender, mut answers) = channel(MAX_WAITING_MESSAGES);
        let mut names = Names::new(answer_sender);
        names.follow(&state.config);
        first_names(&mut names, &mut answers).await;
        let state = Arc::new(state);
        let workers =
            Workers::start(threads, descriptors.connections, &registry, &log, &state, &names.addresses());
        let workers = workers.map_err(Error::system("start a worker"))?;
        descriptors.log(threads);
        let (request_sender, requests) = channel(MAX_WAITING_MESSAGES);
        let shared = Rc::new(AdminState::new(Arc::clone(&registry), request_sender, key_process));
        let program = Program {
            source: prepared.source,
            started_with: state.config.restart.clone(),
            carried: SharedCarriedOver::new(carried),
            state,
            listeners,
            workers,
            answers,
            requests,
            signals: prepared.signals,
            names,
            descriptors,
            registry,
            log,
            shared: Rc::clone(&shared),
            checks: Checks::default(),
            notifier: prepared.notifier,
            upgrades,
            sandbox,
            programs: prepared.programs,
            clients: prepared.clients,
            ordering,
            fleet: Fleet::new(),
            maintenance,
        };
        let open_admin = |admin: AdminAddress, shared| {
            admin.open(threads, shared).map_err(Error::system("listen for admin"))
        };
        match prepared.taking {
            None => {
                open_admin(admin, &shared)?;
                Serving::begin(program, plan, None).await
            }
            // Not before it is ready: until then it is the other process's to answer.
            Some(taking) => {
                let given = admin.given();
                let serving = Serving::begin(program, plan, Some((taking, given))).await?;
                open_admin(admin, &shared)?;
                Ok(serving)
            }
        }
    }
}

/// Refuses what root has read by a path that the service user can change, unless that user may read the very same file: its link could
/// lead to any key on the machine.
fn as_the_user_could(state: &State, now: SystemTime) -> Result<(), Error> {
    let user = ServiceUser::from(&state.config.process);
    let is_changeable = |(path, stamp): &&(PathBuf, FileStamp)| stamp.is_there() && user.can_change(path);
    let changeable: Vec<_> = state.files.iter().filter(is_changeable).collect();
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
                "{}{}: the user that serves can change where this path leads, and must not read what root reads there\n  hint: let \
                 the user read the file, or let only root change its folder and those above it",
                path.display(),
                state.config.places.suffix(path)
            )
        };
        refused.map(problem).collect()
    })?;
    if problems.is_empty() { Ok(()) } else { Err(Error::not_servable(&problems)) }
}

pub(crate) fn threads(config: &Config) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    config.process.threads.unwrap_or(cpus).max(1)
}

fn has_built_in_backend(config: &Config) -> bool {
    let is_built_in = |backend: &Backend| backend.target == Target::BuiltIn;
    let mut sets = config.services.iter().flat_map(Service::backend_sets);
    sets.any(|set| set.backends.iter().any(is_built_in))
}

fn first_state(config: Config, carried: &mut CarriedOver, now: SystemTime) -> Result<State, Error> {
    let Built { state, report, .. } = state::build(config, 1, None, carried, now);
    log_warnings(&report.warnings);
    // Reading 10,000 certificates takes a third more than keeping them.
    handfast_net::sys::release_memory();
    state.ok_or_else(|| Error::not_servable(&report.errors))
}

/// Says which files a later reload could not read again, now that the privileges are gone.
fn log_unreadable_files(state: &State, keys: Option<&KeyProcess>) {
    let process = &state.config.process;
    if process.user.is_some() || process.group.is_some() {
        // The key process reads files as the user that started it. A file that did not exist has no permissions yet.
        let theirs = keys.map(KeyProcess::take_requested_files).unwrap_or_default();
        let is_ours = |(path, stamp): &&(PathBuf, FileStamp)| stamp.is_there() && !theirs.contains(path);
        let files: Vec<_> = state.files.iter().filter(is_ours).map(|(path, _)| path.clone()).collect();
        log_warnings(&unreadable(&state.config, &files));
    }
}

fn open_log(config: &Config) -> Result<AccessLogHandle, Error> {
    let started = access_log::start(&config.access_log);
    let as_configured = |log: AccessLogHandle| {
        log.with_format(config.access_log_format).without_parameters(&config.access_log_redact)
    };
    started.map(as_configured).map_err(|source| {
        let object = match &config.access_log {
            AccessLog::File(path) => format!(" {}{}", path.display(), config.places.suffix(path)),
            AccessLog::Syslog(path) | AccessLog::Journald(path) => {
                format!(" at the socket {}", path.display())
            }
            _ => String::new(),
        };
        Error::System { act: format!("open the access log{object}"), source }
    })
}

/// Waits a moment for the names of backends, so that the first clients find them.
async fn first_names(names: &mut Names, answers: &mut Receiver<LookupOutcome>) {
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
