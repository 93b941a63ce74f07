//! Backends' names: resolved at start and again when an answer expires, off the path.
//!
//! In: the names of a state. Out: a new table of addresses whenever one of them changes, and the state of lookups. A name that cannot be
//! resolved keeps the addresses it had last. For `handfast check`, each name is looked up once.

mod lookup;
mod system;

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::Sender;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

use handfast_config::model::{Config, ConnectThrough, Target};
use handfast_observe::metrics::NameSnapshot;

use self::lookup::{Resolved, Unresolved};
use self::system::SystemFiles;

/// Bounds on the time between two lookups, whatever the TTL is.
const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// The first and the longest pause after a failure.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The proxy waits 5 s for each of three nameservers, unless /etc/resolv.conf has another timeout.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(15);
/// Addresses of one name that are used. An answer may have thousands, each of which every worker would look at.
const MAX_ADDRESSES: usize = 256;
/// Timeout for all lookups of a trial. The second nameserver receives the query after 5 s without an answer of the first.
const TRIAL_TIMEOUT: Duration = Duration::from_secs(8);
/// Names of a trial that are listed one by one.
const MAX_LISTED_NAMES: usize = 20;

/// A name and port as written.
type NameKey = (String, u16);

/// Interval between lookups (zero: by the TTL), and the services that use the name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LookupSchedule {
    interval: Duration,
    services: Vec<String>,
}

/// The outcome of one lookup.
#[derive(Debug)]
pub(crate) struct LookupOutcome {
    name: NameKey,
    outcome: Result<Vec<SocketAddr>, Unresolved>,
    /// Time until the next lookup.
    again: Duration,
}

/// A name of the present configuration.
#[derive(Debug, Default)]
struct Name {
    /// The interval and the task of its lookups.
    lookups: Option<(Duration, AbortHandle)>,
    /// Of the last lookup that had any; empty before.
    addresses: Vec<SocketAddr>,
    /// True if DNS has ever answered, with an address or that there is none.
    is_answered: bool,
    /// Its `addresses` are filled in for each reader.
    report: NameSnapshot,
}

impl Name {
    fn is_waiting(&self) -> bool {
        self.report.answered + self.report.failed == 0
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        self.lookups.iter().for_each(|(_, task)| task.abort());
    }
}

/// Keeps names resolved; lives on the control thread.
#[derive(Debug)]
pub(crate) struct Names {
    files: Rc<RefCell<SystemFiles>>,
    names: BTreeMap<NameKey, Name>,
    answers: Sender<LookupOutcome>,
}

impl Names {
    /// Looks up no name yet. Answers come through `answers` and are to be given to [`Names::take`].
    pub(crate) fn new(answers: Sender<LookupOutcome>) -> Self {
        Self { files: Rc::default(), names: BTreeMap::new(), answers }
    }

    /// Looks up the names of `config` from now on, and no others.
    pub(crate) fn follow(&mut self, config: &Config) {
        let schedules = schedules(config);
        self.names.retain(|name, _| schedules.contains_key(name));
        for (key, LookupSchedule { interval, services }) in schedules {
            let name = self.names.entry(key.clone()).or_default();
            (name.report.name, name.report.services) = (written(&key), services);
            if name.lookups.as_ref().is_none_or(|(known, _)| *known != interval) {
                let lookups = resolve_repeatedly(Rc::clone(&self.files), key, interval, self.answers.clone());
                let task = tokio::task::spawn_local(lookups).abort_handle();
                if let Some((_, before)) = name.lookups.replace((interval, task)) {
                    before.abort();
                }
            }
        }
    }

    fn list(&self, is_listed: impl Fn(&Name) -> bool) -> Vec<String> {
        self.names.iter().filter(|(_, name)| is_listed(name)).map(|(key, _)| written(key)).collect()
    }

    /// Names of which no lookup has ended yet.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        self.list(Name::is_waiting)
    }

    /// Names that a process which has just started should wait for, before it replaces one that has addresses: those
    /// without an outcome, and those without which a service has no backend at all. `without`: these services. A name that does
    /// not exist is waited for only where no service has a backend (`all`): one dead name must not keep the others from being served.
    pub(crate) fn needed(&self, without: &[String], all: bool) -> Vec<String> {
        self.list(|name| {
            let is_missed = || name.report.services.iter().any(|service| without.contains(service));
            name.is_waiting() || (name.addresses.is_empty() && is_missed() && (all || !name.is_answered))
        })
    }

    /// Names that have no address yet.
    pub(crate) fn unresolved(&self) -> Vec<String> {
        self.list(|name| name.addresses.is_empty())
    }

    /// Takes an answer; `Some` when the table has changed.
    pub(crate) fn take(&mut self, answer: LookupOutcome) -> Option<Addresses> {
        let LookupOutcome { name: key, outcome, again } = answer;
        // An answer that was on its way when a reload let go of the name.
        let name = self.names.get_mut(&key)?;
        let report = &mut name.report;
        let addresses = match outcome {
            Ok(addresses) => addresses,
            Err(problem) => {
                let kept = match &name.addresses[..] {
                    [] => "; there is no address to connect to".into(),
                    addresses => format!("; {} stays in use", list(addresses)),
                };
                let services = report.services.join(", ");
                tracing::warn!(
                    "resolve {} (service {services}): {problem}{kept}; retrying in {again:?}",
                    key.0
                );
                report.failed += 1;
                name.is_answered |= problem.is_an_answer();
                report.problem = Some(problem.to_string());
                report.failing_since.get_or_insert_with(SystemTime::now);
                return None;
            }
        };
        report.answered += 1;
        name.is_answered = true;
        report.problem = None;
        let changed = name.addresses != addresses;
        if let Some(since) = report.failing_since.take() {
            let time = since.elapsed().unwrap_or_default().as_secs();
            tracing::info!("resolve {}: works again after {time} s: {}", key.0, list(&addresses));
        } else if changed && !name.addresses.is_empty() {
            tracing::info!("{} resolves to {} now", key.0, list(&addresses));
        }
        name.addresses = addresses;
        changed.then(|| self.addresses())
    }

    /// Returns the state of all lookups, for metrics and the status page.
    pub(crate) fn snapshots(&self) -> Vec<NameSnapshot> {
        let snapshot = |name: &Name| NameSnapshot {
            addresses: name.addresses.iter().map(|address| address.ip().to_string()).collect(),
            ..name.report.clone()
        };
        self.names.values().map(snapshot).collect()
    }

    /// The table as it is.
    pub(crate) fn addresses(&self) -> Addresses {
        let known = self.names.iter().filter(|(_, name)| !name.addresses.is_empty());
        Arc::new(known.map(|(key, name)| (key.clone(), name.addresses.clone())).collect())
    }
}

/// A name as it is written in a configuration.
fn written(name: &NameKey) -> String {
    format!("{}:{}", name.0, name.1)
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(", ")
}

/// The names that are looked up to dial these targets. Behind a proxy, only the proxy's own name is.
pub(crate) fn names_to_resolve<'a>(
    targets: impl Iterator<Item = &'a Target>,
    through: Option<&'a ConnectThrough>,
) -> impl Iterator<Item = (&'a String, u16)> {
    let direct = targets.filter(move |_| through.is_none());
    direct.chain(through.map(|through| &through.proxy)).filter_map(|target| match target {
        Target::Name(name, port) => Some((name, *port)),
        _ => None,
    })
}

/// The names of a configuration, each with the shortest interval of its services.
fn schedules(config: &Config) -> BTreeMap<NameKey, LookupSchedule> {
    let mut schedules: BTreeMap<NameKey, LookupSchedule> = BTreeMap::new();
    for service in &config.services {
        let sets = service.backend_sets();
        let targets = sets.iter().flat_map(|set| set.backends.iter()).map(|backend| &backend.target);
        for (name, port) in names_to_resolve(targets, service.connect_through.as_ref()) {
            let interval = service.limits.resolve;
            let schedule = schedules.entry((name.clone(), port));
            let schedule = schedule.or_insert_with(|| LookupSchedule { interval, services: Vec::new() });
            schedule.interval = schedule.interval.min(interval);
            if !schedule.services.contains(&service.name) {
                schedule.services.push(service.name.clone());
            }
        }
    }
    schedules
}

async fn resolve_repeatedly(
    files: Rc<RefCell<SystemFiles>>,
    name: NameKey,
    interval: Duration,
    answers: Sender<LookupOutcome>,
) {
    let mut retry = RETRY.0;
    loop {
        let before = files.borrow().clone();
        let lookup = tokio::time::timeout(LOOKUP_TIMEOUT, lookup::resolve(&name.0, before)).await;
        let outcome = match lookup {
            Ok((read, outcome)) => {
                files.replace(read);
                outcome.and_then(|found| used(&name, found))
            }
            Err(_) => Err(Unresolved::Deadline(LOOKUP_TIMEOUT)),
        };
        let (again, next_retry) = match &outcome {
            Ok((_, ttl)) if interval.is_zero() => ((*ttl).clamp(BOUNDS.0, BOUNDS.1), RETRY.0),
            Ok(_) => (interval, RETRY.0),
            Err(_) => (retry, (retry * 2).min(RETRY.1)),
        };
        retry = next_retry;
        let outcome = outcome.map(|(addresses, _)| addresses);
        if answers.send(LookupOutcome { name: name.clone(), outcome, again }).await.is_err() {
            return;
        }
        sleep(again).await;
    }
}

/// Servers rotate their answers; the order is ours, and so is the number.
fn usable(found: &mut Vec<IpAddr>) {
    found.sort_unstable();
    found.dedup();
    found.truncate(MAX_ADDRESSES);
}

/// The addresses of a lookup that are used, in a stable order, and how long they hold.
fn used(name: &NameKey, found: Resolved) -> Result<(Vec<SocketAddr>, Duration), Unresolved> {
    let (mut found, ttl) = found;
    let answered = found.len();
    usable(&mut found);
    if answered > MAX_ADDRESSES {
        tracing::warn!("resolve {}: {answered} addresses; {} of them are used", name.0, found.len());
    }
    if found.is_empty() {
        return Err(Unresolved::NoAddress);
    }
    Ok((found.into_iter().map(|address| SocketAddr::new(address, name.1)).collect(), ttl))
}

/// Addresses of all names at present; replaced as a whole when any of them changes.
pub(crate) type Addresses = Arc<HashMap<(String, u16), Vec<SocketAddr>>>;

/// The names that cannot be resolved now, a line for each.
///
/// **Cost**: blocks until each name has an answer, at most [`TRIAL_TIMEOUT`]; all are looked up at the same time.
pub(crate) fn unresolvable(config: &Config) -> Vec<String> {
    let names = schedules(config);
    if names.is_empty() {
        return Vec::new();
    }
    // A thread, since the caller may be in a runtime already.
    let thread = std::thread::Builder::new().name("names".to_owned());
    let resolution = std::thread::scope(|scope| {
        let spawned = thread.spawn_scoped(scope, || resolve_all(names.keys().cloned()));
        spawned.map(|lookup| lookup.join().unwrap_or_default())
    });
    let outcomes = match resolution {
        Ok(outcomes) => outcomes,
        Err(error) => return vec![format!("resolve the names of backends: start a thread: {error}")],
    };
    let lines = names.iter().filter_map(|(name, LookupSchedule { services, .. })| {
        let (_, problem) = outcomes.iter().find(|(known, _)| known == name)?;
        Some(format!("resolve {} (service {}): {problem}", name.0, services.join(", ")))
    });
    let mut listed: Vec<String> = lines.collect();
    let more = listed.len().saturating_sub(MAX_LISTED_NAMES);
    listed.truncate(MAX_LISTED_NAMES);
    if more > 0 {
        listed.push(format!("{more} more names of backends cannot be resolved"));
    }
    if let Some(last) = listed.last_mut() {
        last.push_str("\n  hint: a start serves without them, and asks again until there is an answer");
    }
    listed
}

/// Looks each name up; those without an address, and why.
fn resolve_all(names: impl Iterator<Item = NameKey>) -> Vec<(NameKey, Unresolved)> {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let failed = runtime.block_on(async {
        let deadline = Instant::now() + TRIAL_TIMEOUT;
        let mut lookups = JoinSet::new();
        for name in names {
            lookups.spawn(async move {
                let lookup = lookup::resolve(&name.0, SystemFiles::default());
                let outcome = match tokio::time::timeout_at(deadline, lookup).await {
                    Ok((_, outcome)) => outcome.and_then(|found| used(&name, found)),
                    Err(_) => Err(Unresolved::Deadline(TRIAL_TIMEOUT)),
                };
                (name, outcome)
            });
        }
        let outcomes = lookups.join_all().await.into_iter();
        outcomes.filter_map(|(name, outcome)| Some((name, outcome.err()?))).collect()
    });
    // A file that is being read cannot be cancelled.
    runtime.shutdown_background();
    failed
}

#[cfg(test)]
mod tests {
    use super::*;
    use handfast_config::parse;

    #[test]
    fn the_same_addresses_in_any_order_are_the_same_and_not_too_many() {
        let address = |number: u32| IpAddr::V4((0x0a00_0000 + number % 2_000).into());
        let mut one: Vec<_> = (0..4_000).map(address).collect();
        let mut other: Vec<_> = (0..4_000).rev().map(address).collect();
        usable(&mut one);
        usable(&mut other);
        assert_eq!((one.len(), &one), (MAX_ADDRESSES, &other));
    }

    #[test]
    fn a_start_waits_for_names_without_which_a_service_has_no_backend() {
        let (answers, _receiver) = tokio::sync::mpsc::channel(1);
        let name = |name: &str| (name.to_owned(), 80);
        let of = |service: &str| {
            let mut name = Name::default();
            name.report.services = vec![service.into()];
            name
        };
        let mut names = Names {
            files: Rc::default(),
            names: BTreeMap::from([(name("a.example"), of("a")), (name("b.example"), of("b"))]),
            answers,
        };
        let answer = |names: &mut Names, of: &str, outcome| {
            names.take(LookupOutcome { name: name(of), outcome, again: RETRY.0 });
        };
        let (both, only_a): (&[String], &[String]) = (&["a".into(), "b".into()], &["a".into()]);
        assert_eq!(names.needed(&[], false), ["a.example:80", "b.example:80"], "no outcome yet");
        answer(&mut names, "a.example", Err(Unresolved::Deadline(Duration::from_secs(5))));
        answer(&mut names, "b.example", Err(Unresolved::NoSuchName));
        assert_eq!(names.needed(&[], false), [""; 0], "all services have other backends");
        assert_eq!(names.needed(only_a, false), ["a.example:80"], "DNS has not answered");
        assert_eq!(names.needed(both, true), ["a.example:80", "b.example:80"], "nothing can be served");
        let address = SocketAddr::from(([10, 0, 0, 9], 80));
        answer(&mut names, "a.example", Ok(vec![address]));
        assert_eq!(
            names.needed(&["b".into()], false),
            [""; 0],
            "one dead name does not keep other services from being served"
        );
    }

    /// Snapshots show a name from its first lookup on.
    #[test]
    fn a_name_keeps_its_addresses_while_it_cannot_be_resolved() {
        let (answers, _receiver) = tokio::sync::mpsc::channel(1);
        let name: NameKey = ("db.example".into(), 5_432);
        let mut names =
            Names { files: Rc::default(), names: BTreeMap::from([(name.clone(), Name::default())]), answers };
        assert_eq!(names.waiting_for(), ["db.example:5432"]);
        let address = SocketAddr::from(([10, 0, 0, 9], 5_432));
        let answer = |outcome| LookupOutcome { name: name.clone(), outcome, again: RETRY.0 };
        assert!(names.take(answer(Ok(vec![address]))).is_some());
        assert!(names.take(answer(Err(Unresolved::NoSuchName))).is_none(), "the table stays as it was");
        assert!(names.waiting_for().is_empty() && names.unresolved().is_empty());
        assert!(names.needed(&["web".into()], true).is_empty(), "it has an address");
        let seen = &names.snapshots()[0];
        assert_eq!((seen.addresses.len(), seen.answered, seen.failed), (1, 1, 1));
        assert!(seen.problem.as_deref() == Some("there is no such name") && seen.failing_since.is_some());
        assert!(names.take(answer(Ok(vec![address]))).is_none(), "nothing has changed");
        let seen = &names.snapshots()[0];
        assert!(seen.problem.is_none() && seen.failing_since.is_none(), "{seen:?}");
        let gone =
            LookupOutcome { name: ("gone.example".into(), 80), outcome: Ok(vec![address]), again: RETRY.0 };
        assert!(names.take(gone).is_none(), "a name that a reload let go of");
    }

    /// The name is reserved for having no address (RFC 6761 §6.4), whatever this machine resolves names with.
    #[test]
    fn a_name_without_an_address_is_named_with_its_service_and_the_cause() {
        let text = "[[service]]\nname = \"db\"\nlisten = \"127.0.0.1:1\"\nclient-tls = false\n\
                    backend = [\"no-such-name.invalid:80\", \"10.0.0.1:80\"]\n";
        let (config, _) = parse("handfast.toml", text, &|_| false).expect("a good configuration");
        let lines = unresolvable(&config);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert!(line.starts_with("resolve no-such-name.invalid (service db): "), "{line}");
        assert!(
            line.ends_with("\n  hint: a start serves without them, and asks again until there is an answer"),
            "{line}"
        );
    }
}
