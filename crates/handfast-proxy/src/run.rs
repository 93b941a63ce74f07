//! Start → listen → serve → reload → drain → stop: the program's life, on the control thread.
//!
//! In: where the configuration comes from. Out: an exit code. Everything that can be refused is refused before a socket
//! is bound; everything that needs privileges is opened before they are dropped.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_net::engine::mailbox;
use handfast_net::limits::{FileLimit, raise_file_limit};
use handfast_tls::ticket;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::LocalSet;

use crate::access_log::{self, AccessLogHandle};
use crate::admin::{self, Neighbour};
use crate::builtin;
use crate::config::model::{AccessLog, Address, Config, Target};
use crate::control::{Request, Shared};
use crate::counted::counted;
use crate::listeners::{self, Listeners};
use crate::metrics::Registry;
use crate::permits::Pool;
use crate::privileges;
use crate::program::{Program, SharedLasting};
use crate::resolve::Names;
use crate::signals::Signals;
use crate::source::Source;
use crate::state::{self, Built, KeyRings, Lasting, State};
use crate::worker::{Event, Handle, Worker};

/// How the program ended; the exit codes of every verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As asked.
    Good,
    /// It failed while starting or running: a port in use, a thread that ended.
    Failed,
    /// The configuration or the flags are wrong.
    WrongUse,
}

/// A problem with how it ends the program.
type Refusal = (Outcome, String);

/// Descriptors kept for everything but connections (listeners, logs, certificates being read, admin): an eighth, but at
/// least and at most so many.
const RESERVED_FILES: (u64, u64) = (40, 128);
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
pub fn run(source: &Source, color: bool) -> Outcome {
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
            Err((outcome, problem)) => {
                tracing::error!("{}", unmarked(problem.trim(), "error"));
                outcome
            }
        }
    });
    // A file that hangs must not keep the program from ending.
    runtime.shutdown_timeout(Duration::from_millis(100));
    outcome
}

async fn start(source: &Source, color: bool) -> Result<Program, Refusal> {
    handfast_net::sys::release_memory_early();
    let signals = Signals::new().map_err(|error| failed("listen for signals", &error))?;
    let limit = raise_file_limit().map_err(|error| failed("raise the limit on open files", &error))?;
    let (config, warnings) = source.read(color).map_err(|problems| (Outcome::WrongUse, problems))?;
    say_warnings(&[warnings]);
    let process = &config.process;
    privileges::look_up(process.user.as_deref(), process.group.as_deref())
        .map_err(|problem| (Outcome::WrongUse, problem))?;
    let threads = threads(&config);
    let max_connections = max_connections(&config, limit).map_err(|problem| (Outcome::WrongUse, problem))?;

    let mut lasting = Lasting { rings: KeyRings::default(), throwaway: None, built_in: None, threads };
    if wants_built_in(&config) {
        lasting.built_in =
            Some(builtin::start().await.map_err(|error| failed("start the built-in backend", &error))?);
    }
    state::make_throwaway(&config, &mut lasting, SystemTime::now())
        .map_err(|problem| (Outcome::Failed, problem))?;
    let state = first_state(config, &mut lasting)?;

    let admin = bind_admin(&state.config)?;
    let listeners = match admin {
        Admin::Taken(..) => Listeners::beside_another(),
        Admin::Off | Admin::Bound(_) => Listeners::default(),
    };
    let plan =
        listeners.plan(&state.config, threads).map_err(|problems| (Outcome::Failed, problems.join("\n")))?;
    let process = &state.config.process;
    privileges::drop_to(process.user.as_deref(), process.group.as_deref(), &own_files(&state.config))
        .map_err(|problem| (Outcome::Failed, problem))?;
    say_unreadable(&state);
    let log = access_log::start(&state.config.access_log)
        .map_err(|error| failed(&log_act(&state.config), &error))?;

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
        let (orders, letterbox) = mailbox().map_err(|error| failed("start a worker", &error))?;
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
        let thread = worker.start().map_err(|error| failed("start a worker", &error))?;
        workers.push(Handle { orders, thread });
    }
    say_limits(limit, max_connections, threads);
    let (shared, requests) = shared(&registry);
    match admin {
        Admin::Off => {}
        Admin::Bound(listener) => {
            say_admin(&listener).map_err(|error| failed("listen for admin", &error))?;
            drop(tokio::task::spawn_local(serve_admin(listener, Rc::clone(&shared))));
        }
        Admin::Taken(address, neighbour) => {
            say_neighbour(&address, neighbour);
            drop(tokio::task::spawn_local(wait_for_admin(address, threads, Rc::clone(&shared))));
        }
    }
    let mut program = Program {
        source: source.clone(),
        lasting: SharedLasting::new(lasting),
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
    program.begin(plan).await.map_err(|problem| (Outcome::Failed, problem))?;
    Ok(program)
}

/// Files that the program itself writes, and the unix sockets that it has made.
fn own_files(config: &Config) -> Vec<PathBuf> {
    let keys = config.services.iter().filter_map(|service| service.tls.tickets.key_file.as_deref());
    let locks = keys.clone().map(ticket::lock_path);
    let log = match &config.access_log {
        AccessLog::File(path) => Some(path.as_path()),
        _ => None,
    };
    let addresses = config.services.iter().flat_map(|service| &service.listen).chain(&config.admin);
    let sockets = addresses.filter_map(|address| match address {
        Address::Unix(path) => Some(path.as_path()),
        Address::Ip(_) => None,
    });
    keys.chain(log).chain(sockets).map(Path::to_path_buf).chain(locks).collect()
}

/// Says which files a later reload could not read again, now that the privileges are gone.
fn say_unreadable(state: &State) {
    let process = &state.config.process;
    if process.user.is_some() || process.group.is_some() {
        let files: Vec<_> = state.files.iter().map(|(path, _)| path.clone()).collect();
        say_warnings(&unreadable(&state.config, &files));
    }
}

/// What the present user cannot do with the files of a configuration, and will have to.
pub(crate) fn unreadable(config: &Config, files: &[PathBuf]) -> Vec<String> {
    let key_files = config.services.iter().filter_map(|service| service.tls.tickets.key_file.as_deref());
    let folder = |file: &Path| match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    };
    let folders: BTreeSet<PathBuf> = key_files.map(folder).collect();
    let is_closed = |folder: &PathBuf| rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err();
    let folders = folders.into_iter().filter(is_closed).map(|folder| {
        format!(
            "{}: the user that serves cannot write there, so the ticket keys in it will not be rotated; give it to the \
             user",
            folder.display()
        )
    });
    let is_unreadable = |path: &&PathBuf| std::fs::File::open(path).is_err();
    let files = files.iter().filter(is_unreadable).take(10).map(|path| {
        format!(
            "{}: the user that serves cannot read it, so no reload will; give it to the user or its group",
            path.display()
        )
    });
    folders.chain(files).collect()
}

fn log_act(config: &Config) -> String {
    match &config.access_log {
        AccessLog::File(path) => {
            format!("open the access log {}{}", path.display(), config.places.suffix(path))
        }
        _ => "open the access log".into(),
    }
}

fn failed(act: &str, error: &io::Error) -> Refusal {
    (Outcome::Failed, format!("{act}: {error}"))
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

/// Connections that may be served at once: two descriptors each, and some for everything else.
pub(crate) fn max_connections(config: &Config, limit: FileLimit) -> Result<usize, String> {
    let reserved = (limit.now / 8).clamp(RESERVED_FILES.0, RESERVED_FILES.1);
    let possible = usize::try_from(limit.now.saturating_sub(reserved) / 2).unwrap_or(usize::MAX);
    if possible == 0 {
        return Err(format!(
            "this process may have {}, it needs {reserved} and two for each connection\n  \
             hint: raise the limit (ulimit -n, LimitNOFILE= in a unit file)",
            counted(limit.now, "open file")
        ));
    }
    match config.process.max_connections {
        Some(wanted) if wanted > possible => Err(format!(
            "process.max-connections: {} open files are needed for {}, this process may have {}\n  \
             hint: raise the limit (ulimit -n, LimitNOFILE= in a unit file) or set max-connections to {possible} or less",
            2 * wanted as u64 + reserved,
            counted(wanted, "connection"),
            limit.now
        )),
        Some(wanted) => Ok(wanted),
        None => Ok(possible.min(1_000_000)),
    }
}

fn say_limits(limit: FileLimit, max_connections: usize, threads: usize) {
    let raised =
        if limit.now == limit.before { String::new() } else { format!(" (raised from {})", limit.before) };
    tracing::info!(
        "up to {}: {} allowed{raised}, {}",
        counted(max_connections, "connection"),
        counted(limit.now, "open file"),
        counted(threads, "worker thread")
    );
}

fn first_state(config: Config, lasting: &mut Lasting) -> Result<State, Refusal> {
    let Built { state, report, .. } = state::build(config, 1, None, lasting, SystemTime::now());
    say_warnings(&report.warnings);
    // Reading 10,000 certificates takes a third more than keeping them.
    handfast_net::sys::release_memory();
    state.ok_or_else(|| (Outcome::WrongUse, report.errors.join("\nerror: ")))
}

/// Warnings, one log line for each of their lines.
pub(crate) fn say_warnings(warnings: &[String]) {
    for warning in warnings {
        let lines = warning.lines().filter(|line| !line.trim().is_empty());
        lines.for_each(|line| tracing::warn!("{}", unmarked(line, "warning")));
    }
}

/// A line without the mark that it begins with, plain or in color: the event that says it has the same one.
pub(crate) fn unmarked<'l>(line: &'l str, mark: &str) -> Cow<'l, str> {
    let (title, rest) = line.split_at(line.find('\n').unwrap_or(line.len()));
    let mut plain = String::new();
    let mut parts = title.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    parts.for_each(|part| plain.push_str(part.split_once('m').map_or(part, |(_, text)| text)));
    match plain.strip_prefix(mark).and_then(|text| text.strip_prefix(": ")) {
        Some(text) => Cow::Owned(format!("{text}{rest}")),
        None => Cow::Borrowed(line),
    }
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

fn bind_admin(config: &Config) -> Result<Admin, Refusal> {
    let Some(address) = &config.admin else { return Ok(Admin::Off) };
    match admin::bind(address) {
        Ok(listener) => Ok(Admin::Bound(listener)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => match admin::neighbour(address) {
            Some(neighbour) => Ok(Admin::Taken(address.clone(), neighbour)),
            None => Err((
                Outcome::Failed,
                format!(
                    "listen on {address} (admin): {error}\n  hint: what listens there is no Handfast that serves (`ss \
                     -ltnp` names it); choose another address with [admin] listen, or \"off\""
                ),
            )),
        },
        Err(error) => Err((Outcome::Failed, listeners::problem(address, "admin", &error))),
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
                tracing::error!(
                    "{}; asking again until it works",
                    listeners::problem(&address, "admin", &error)
                );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_said_once() {
        assert_eq!(
            unmarked("error: unknown key\n --> a:1:1\n\nerror: b", "error"),
            "unknown key\n --> a:1:1\n\nerror: b"
        );
        assert_eq!(unmarked("\u{1b}[1m\u{1b}[91merror\u{1b}[0m\u{1b}[1m: x\u{1b}[0m\n", "error"), "x\n");
        assert_eq!(unmarked("warning: y", "error"), "warning: y");
        assert_eq!(unmarked("listen on 127.0.0.1:1: error", "error"), "listen on 127.0.0.1:1: error");
    }
}
