//! Start → listen → serve → reload → drain → stop: the program's life, on the control thread.
//!
//! In: where the configuration comes from. Out: an exit code. Everything that can be refused is refused before a socket
//! is bound; everything that needs privileges is opened before they are dropped.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_net::engine::mailbox;
use handfast_net::limits::raise_file_limit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::LocalSet;

use crate::access_log::{self, AccessLogHandle};
use crate::admin::{self, Neighbour};
use crate::builtin;
use crate::config::model::{AccessLog, Address, Config, Target};
use crate::control::{Request, Shared};
use crate::counted::counted;
use crate::error::{Error, Outcome};
use crate::limits::{max_connections, say_limits};
use crate::listeners::Listeners;
use crate::metrics::Registry;
use crate::own_files::{own_files, unreadable};
use crate::permits::Pool;
use crate::privileges;
use crate::program::Program;
use crate::resolve::Names;
use crate::say::{say_warnings, unmarked};
use crate::signals::Signals;
use crate::source::ConfigSource;
use crate::state::{self, Built, CarriedOver, KeyRings, SharedCarriedOver, State};
use crate::worker::{Event, Handle, Worker};

/// How long the names of backends may take at start before clients are served without them.
const FIRST_NAMES: Duration = Duration::from_secs(2);

/// How soon the admin address is tried again: when it was just given up, and otherwise.
const ADMIN_AGAIN: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(250));

/// The process before this one closes its listeners two seconds after it gave up the admin address, if it is not too busy.
const GIVES_WAY: Duration = Duration::from_secs(4);

/// Messages that may wait for the control thread. Workers send one for each order, names one for each answer (and wait
/// when there is no room), the admin listener one for each request (and is told to try again).
const CHANNEL: usize = 256;

/// Runs the proxy until it is told to stop. Problems are logged through `tracing`; `color` is for those of the
/// configuration.
pub fn run(source: &ConfigSource, color: bool) -> Outcome {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("start the control thread: {error}");
            return Outcome::Failed;
        }
    };
    let local = LocalSet::new();
    let outcome = local.block_on(&runtime, async {
        match start(source, color).await {
            Ok(program) => program.serve().await,
            Err(error) => {
                tracing::error!("{}", unmarked(error.to_string().trim(), "error"));
                error.outcome()
            }
        }
    });
    // A file that hangs must not keep the program from ending.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn start(source: &ConfigSource, color: bool) -> Result<Program, Error> {
    handfast_net::sys::release_memory_early();
    let signals = Signals::new().map_err(failed("listen for signals"))?;
    let limit = raise_file_limit().map_err(failed("raise the limit on open files"))?;
    let (config, warnings) = source.read(color)?;
    say_warnings(&[warnings]);
    let process = &config.process;
    privileges::look_up(process.user.as_deref(), process.group.as_deref())?;
    let threads = threads(&config);
    let max_connections = max_connections(&config, limit)?;

    let mut carried = CarriedOver { rings: KeyRings::default(), throwaway: None, built_in: None, threads };
    if wants_built_in(&config) {
        carried.built_in = Some(builtin::start().await.map_err(failed("start the built-in backend"))?);
    }
    state::make_throwaway(&config, &mut carried, SystemTime::now())?;
    let state = first_state(config, &mut carried)?;

    let admin = bind_admin(&state.config)?;
    let listeners = Listeners::nothing(matches!(admin, Admin::Taken(..)));
    let plan = listeners.taken().plan(&state.config, threads)?;
    let process = &state.config.process;
    privileges::drop_to(process.user.as_deref(), process.group.as_deref(), &own_files(&state.config))?;
    say_unreadable(&state);
    let log = open_log(&state.config)?;

    let registry = Registry::new();
    registry.set_access_log(log.totals());
    registry.set_certificates(state.certificate_snapshots());
    registry.set_file_problems(state.file_problems());
    let (answer_sender, mut answers) = channel(CHANNEL);
    let mut names = Names::new(answer_sender);
    names.follow(&state.config);
    first_names(&mut names, &mut answers).await;

    let (event_sender, events) = channel(CHANNEL);
    let pool = Pool::new(max_connections, threads);
    let mut workers = Vec::new();
    let state = Arc::new(state);
    for number in 0..threads {
        let (orders, letterbox) = mailbox().map_err(failed("start a worker"))?;
        let worker = Worker {
            number,
            letterbox,
            events: event_sender.clone(),
            registry: Arc::clone(&registry),
            log: log.for_thread(),
            pool: Arc::clone(&pool),
            state: Arc::clone(&state),
            addresses: names.addresses(),
        };
        let thread = worker.start().map_err(failed("start a worker"))?;
        workers.push(Handle { orders, thread });
    }
    say_limits(limit, max_connections, threads);
    let (shared, requests) = shared(&registry);
    match admin {
        Admin::Off => {}
        Admin::Bound(listener) => {
            say_admin(&listener).map_err(failed("listen for admin"))?;
            drop(tokio::task::spawn_local(serve_admin(listener, Rc::clone(&shared))));
        }
        Admin::Taken(address, neighbour) => {
            say_neighbour(&address, neighbour);
            drop(tokio::task::spawn_local(wait_for_admin(address, threads, Rc::clone(&shared))));
        }
    }
    let mut program = Program {
        source: source.clone(),
        carried: SharedCarriedOver::new(carried),
        state,
        listeners,
        workers,
        events,
        answers,
        requests,
        signals,
        names,
        max_connections,
        registry,
        log,
        shared,
    };
    program.begin(plan).await?;
    Ok(program)
}

/// Says which files a later reload could not read again, now that the privileges are gone.
fn say_unreadable(state: &State) {
    let process = &state.config.process;
    if process.user.is_some() || process.group.is_some() {
        let files: Vec<_> = state.files.iter().map(|(path, _)| path.clone()).collect();
        say_warnings(&unreadable(&state.config, &files));
    }
}

/// Opens the access log.
fn open_log(config: &Config) -> Result<AccessLogHandle, Error> {
    access_log::start(&config.access_log).map_err(|source| {
        let object = match &config.access_log {
            AccessLog::File(path) => format!(" {}{}", path.display(), config.places.suffix(path)),
            _ => String::new(),
        };
        Error::AccessLog { object, source }
    })
}

fn failed(act: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::System { act, source }
}

fn threads(config: &Config) -> usize {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    config.process.threads.unwrap_or(cpus).max(1)
}

fn wants_built_in(config: &Config) -> bool {
    let of_rules = |rule: &crate::config::model::NameRule| {
        rule.backends.iter().flatten().any(|target| *target == Target::BuiltIn)
    };
    config
        .services
        .iter()
        .any(|service| service.backends.contains(&Target::BuiltIn) || service.names.iter().any(of_rules))
}

fn first_state(config: Config, carried: &mut CarriedOver) -> Result<State, Error> {
    let Built { state, report, .. } = state::build(config, 1, None, carried, SystemTime::now());
    say_warnings(&report.warnings);
    // Reading 10,000 certificates takes a third more than keeping them.
    handfast_net::sys::release_memory();
    state.ok_or(Error::NotServable { problems: report.errors })
}

/// What has become of the admin address.
enum Admin {
    /// None is wanted.
    Off,
    /// It is ours.
    Bound(admin::AdminListener),
    /// Another Handfast has it, which this one is to follow.
    Taken(Address, Neighbour),
}

fn bind_admin(config: &Config) -> Result<Admin, Error> {
    let Some(address) = &config.admin else { return Ok(Admin::Off) };
    match admin::bind(address) {
        Ok(listener) => Ok(Admin::Bound(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match admin::neighbour(address) {
            Some(neighbour) => Ok(Admin::Taken(address.clone(), neighbour)),
            None => Err(Error::AdminInUse { address: address.clone(), source: error }),
        },
        Err(source) => Err(Error::Listen { address: address.clone(), whose: "admin".into(), source }),
    }
}

fn say_admin(listener: &admin::AdminListener) -> io::Result<()> {
    let address = listener.address()?;
    tracing::info!("admin on {address}");
    Ok(())
}

async fn serve_admin(listener: admin::AdminListener, shared: Rc<Shared>) {
    shared.opens_admin();
    if let Err(error) = admin::serve(listener, shared).await {
        tracing::error!("admin: {error}");
    }
}

/// A second process with the same addresses is what a restart without a gap begins with; and what happens to somebody who
/// did not know of the first one.
fn say_neighbour(address: &Address, Neighbour { process }: Neighbour) {
    tracing::warn!(
        "process {process} is a Handfast that has the admin address {address}: this one shares the listening addresses \
         with it, and gets the admin address once it is stopped (kill -TERM {process})"
    );
}

/// Asks for the admin address until this process has it. Nothing else waits for that.
async fn wait_for_admin(address: Address, threads: usize, shared: Rc<Shared>) {
    let mut said = None;
    loop {
        match admin::bind(&address) {
            Ok(listener) => {
                if say_admin(&listener).is_ok() {
                    let alone = async {
                        tokio::time::sleep(GIVES_WAY).await;
                        shared.stands_alone();
                    };
                    tokio::join!(serve_admin(listener, Rc::clone(&shared)), alone);
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) if said == Some(error.kind()) => {}
            Err(error) => {
                said = Some(error.kind());
                let error = Error::Listen { address: address.clone(), whose: "admin".into(), source: error };
                tracing::error!("{error}; asking again until it works");
            }
        }
        let asked = address.clone();
        let given = tokio::task::spawn_blocking(move || admin::ask_for_address(&asked, threads));
        let pause = if matches!(given.await, Ok(Ok(true))) { ADMIN_AGAIN.0 } else { ADMIN_AGAIN.1 };
        tokio::time::sleep(pause).await;
    }
}

/// Waits a moment for the names of backends, so that the first clients find them.
async fn first_names(names: &mut Names, answers: &mut Receiver<crate::resolve::Answer>) {
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

fn shared(registry: &Arc<Registry>) -> (Rc<Shared>, Receiver<Request>) {
    let (sender, requests): (Sender<Request>, _) = channel(CHANNEL);
    (Rc::new(Shared::new(Arc::clone(registry), sender)), requests)
}

/// What the program holds of its parts; see `program.rs`.
pub(crate) type Events = Receiver<Event>;

/// Ends the access log, and says so when lines were lost.
pub(crate) fn end_log(log: AccessLogHandle) {
    let stopped = log.stop(Duration::from_secs(2));
    if stopped.dropped > 0 {
        tracing::warn!("access log: {} written, {} lost", counted(stopped.written, "line"), stopped.dropped);
    }
}
