//! Backends' names: resolved at start and again when what was said runs out, off the path.
//!
//! In: the names of a state. Out: a new table of addresses whenever one of them changes, and how asking goes for those
//! who look in. A name that cannot be resolved keeps the addresses it had last.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hickory_resolver::TokioResolver;
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use handfast_config::model::{Config, Target};
use handfast_observe::metrics::NameSnapshot;

mod trial;

pub(crate) use trial::unresolvable;

/// Bounds on how soon and how late a name is asked for again, whatever its TTL says.
const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// After a failure: asked again so soon, and less and less often up to a minute.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(10);
/// Addresses of one name that are used. An answer may have thousands, each of which every worker would look at.
const ADDRESSES: usize = 256;
/// Where the system has no resolver configuration, the C library answers without a TTL.
const WITHOUT_TTL: Duration = Duration::from_secs(30);

/// A name and port as written.
type NameKey = (String, u16);

/// How often to resolve it (zero: by its TTL), and for which services.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LookupSchedule {
    interval: Duration,
    services: Vec<String>,
}

/// Why a question about a name brought no address.
#[derive(Debug)]
pub(crate) enum Unresolved {
    /// The name does not exist (NXDOMAIN).
    NoSuchName,
    /// It exists, and has no address.
    NoAddress,
    /// No answer came within this time.
    Deadline(Duration),
    /// The resolver failed otherwise.
    Resolver(Box<hickory_resolver::net::NetError>),
    /// The C library did.
    Library(io::Error),
}

impl Unresolved {
    /// Whether DNS has said that there is no address. The C library does not tell that from a failure.
    fn is_an_answer(&self) -> bool {
        matches!(self, Self::NoSuchName | Self::NoAddress | Self::Library(_))
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchName => f.write_str("there is no such name"),
            Self::NoAddress => f.write_str("it has no address"),
            Self::Deadline(time) => write!(f, "no answer within {time:?}"),
            Self::Resolver(error) => write!(f, "{error}"),
            Self::Library(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Unresolved {}

/// What one question brought.
#[derive(Debug)]
pub(crate) struct Answer {
    name: NameKey,
    outcome: Result<Vec<SocketAddr>, Unresolved>,
    /// When it is asked for again.
    again: Duration,
}

/// How asking for a name goes.
#[derive(Debug, Default)]
struct Progress {
    services: Vec<String>,
    answered: u64,
    failed: u64,
    /// Why the last question failed.
    problem: Option<String>,
    /// Whether DNS has ever answered: with an address, or that there is none.
    is_answered: bool,
    failing_since: Option<SystemTime>,
}

/// Keeps names resolved; lives on the control thread.
#[derive(Debug)]
pub(crate) struct Names {
    resolver: Option<Rc<TokioResolver>>,
    lookups: HashMap<NameKey, (Duration, AbortHandle)>,
    known: HashMap<NameKey, Vec<SocketAddr>>,
    progress: BTreeMap<NameKey, Progress>,
    answers: Sender<Answer>,
}

impl Names {
    /// Reads the system's resolver configuration. Answers come through `answers` and are to be given to
    /// [`Names::take`].
    pub(crate) fn new(answers: Sender<Answer>) -> Self {
        let resolver = TokioResolver::builder_tokio().and_then(|builder| builder.build());
        if let Err(error) = &resolver {
            tracing::debug!("no resolver configuration ({error}): asking the C library instead");
        }
        Self {
            resolver: resolver.ok().map(Rc::new),
            lookups: HashMap::new(),
            known: HashMap::new(),
            progress: BTreeMap::new(),
            answers,
        }
    }

    /// Asks for the names of `config` from now on, and no more for others.
    pub(crate) fn follow(&mut self, config: &Config) {
        let wanted = wanted(config);
        self.lookups.retain(|name, (_, task)| {
            let keep = wanted.contains_key(name);
            if !keep {
                task.abort();
            }
            keep
        });
        self.known.retain(|name, _| wanted.contains_key(name));
        self.progress.retain(|name, _| wanted.contains_key(name));
        for (name, LookupSchedule { interval, services }) in wanted {
            self.progress.entry(name.clone()).or_default().services = services;
            let same = self.lookups.get(&name).is_some_and(|(known, _)| *known == interval);
            if same {
                continue;
            }
            let ask = resolve_repeatedly(self.resolver.clone(), name.clone(), interval, self.answers.clone());
            let task = tokio::task::spawn_local(ask).abort_handle();
            if let Some((_, before)) = self.lookups.insert(name, (interval, task)) {
                before.abort();
            }
        }
    }

    /// Names for which no question has had an outcome yet.
    pub(crate) fn waiting_for(&self) -> Vec<String> {
        let waiting = self.progress.iter().filter(|(_, progress)| progress.answered + progress.failed == 0);
        waiting.map(|(name, _)| written(name)).collect()
    }

    /// Names that a process which has just started should wait for, before it takes the place of one that knows addresses: those
    /// without an outcome, and those without which a service has no backend at all. `without`: these services. A name that does
    /// not exist is waited for only where no service has a backend (`all`): one dead name must not keep the others from being served.
    pub(crate) fn needed(&self, without: &[String], all: bool) -> Vec<String> {
        let is_needed = |name: &NameKey, progress: &Progress| {
            let is_missed = progress.services.iter().any(|service| without.contains(service));
            !self.known.contains_key(name) && is_missed && (all || !progress.is_answered)
        };
        let needed = self
            .progress
            .iter()
            .filter(|(name, progress)| progress.answered + progress.failed == 0 || is_needed(name, progress));
        needed.map(|(name, _)| written(name)).collect()
    }

    /// Names that have no address yet.
    pub(crate) fn unresolved(&self) -> Vec<String> {
        let without = self.progress.keys().filter(|name| !self.known.contains_key(*name));
        without.map(written).collect()
    }

    /// Takes an answer; `Some` when the table has changed.
    pub(crate) fn take(&mut self, answer: Answer) -> Option<Addresses> {
        let Answer { name, outcome, again } = answer;
        // An answer that was on its way when a reload let go of the name.
        let progress = self.progress.get_mut(&name)?;
        let addresses = match outcome {
            Ok(addresses) => addresses,
            Err(problem) => {
                let kept = match self.known.get(&name) {
                    Some(addresses) => format!("; {} stays in use", list(addresses)),
                    None => "; there is no address to connect to".into(),
                };
                let services = progress.services.join(", ");
                tracing::warn!(
                    "resolve {} (service {services}): {problem}{kept}; retrying in {again:?}",
                    name.0
                );
                progress.failed += 1;
                progress.is_answered |= problem.is_an_answer();
                progress.problem = Some(problem.to_string());
                progress.failing_since.get_or_insert_with(SystemTime::now);
                return None;
            }
        };
        progress.answered += 1;
        progress.is_answered = true;
        progress.problem = None;
        let failed = progress.failing_since.take();
        let changed = self.known.get(&name) != Some(&addresses);
        if let Some(since) = failed {
            let time = since.elapsed().unwrap_or_default().as_secs();
            tracing::info!("resolve {}: works again after {time} s: {}", name.0, list(&addresses));
        } else if changed && self.known.contains_key(&name) {
            tracing::info!("{} resolves to {} now", name.0, list(&addresses));
        }
        if !changed {
            return None;
        }
        self.known.insert(name, addresses);
        Some(self.addresses())
    }

    /// How asking goes, for metrics and the status page.
    pub(crate) fn snapshots(&self) -> Vec<NameSnapshot> {
        let snapshot = |(name, progress): (&NameKey, &Progress)| NameSnapshot {
            name: written(name),
            services: progress.services.clone(),
            addresses: self.known.get(name).map_or_else(Vec::new, |addresses| {
                addresses.iter().map(|address| address.ip().to_string()).collect()
            }),
            answered: progress.answered,
            failed: progress.failed,
            problem: progress.problem.clone(),
            failing_since: progress.failing_since,
        };
        self.progress.iter().map(snapshot).collect()
    }

    /// The table as it is.
    pub(crate) fn addresses(&self) -> Addresses {
        Arc::new(self.known.clone())
    }
}

/// A name as it is written in a configuration.
fn written(name: &NameKey) -> String {
    format!("{}:{}", name.0, name.1)
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(", ")
}

/// The names of a configuration; of two services that want the same one, the more eager counts.
fn wanted(config: &Config) -> HashMap<NameKey, LookupSchedule> {
    let mut wanted: HashMap<NameKey, LookupSchedule> = HashMap::new();
    for service in &config.services {
        let sets = service.backend_sets();
        let backends = sets.iter().flat_map(|set| set.backends.iter());
        // Behind a proxy, only the proxy's own name is looked up.
        let through = service.connect_through.as_ref().map(|through| &through.proxy);
        let direct = backends.map(|backend| &backend.target).filter(|_| through.is_none());
        for target in direct.chain(through) {
            if let Target::Name(name, port) = target {
                let interval = service.limits.resolve;
                let wish = wanted.entry((name.clone(), *port));
                let wish = wish.or_insert_with(|| LookupSchedule { interval, services: Vec::new() });
                wish.interval = wish.interval.min(interval);
                if !wish.services.contains(&service.name) {
                    wish.services.push(service.name.clone());
                }
            }
        }
    }
    wanted
}

async fn resolve_repeatedly(
    resolver: Option<Rc<TokioResolver>>,
    name: NameKey,
    interval: Duration,
    answers: Sender<Answer>,
) {
    let mut retry = RETRY.0;
    loop {
        let outcome = tokio::time::timeout(QUESTION, ask(resolver.as_deref(), &name)).await;
        let (outcome, again) = match outcome.unwrap_or(Err(Unresolved::Deadline(QUESTION))) {
            Ok((addresses, ttl)) => {
                retry = RETRY.0;
                let again = if interval.is_zero() { ttl.clamp(BOUNDS.0, BOUNDS.1) } else { interval };
                (Ok(addresses), again)
            }
            Err(problem) => {
                let again = retry;
                retry = (retry * 2).min(RETRY.1);
                (Err(problem), again)
            }
        };
        if answers.send(Answer { name: name.clone(), outcome, again }).await.is_err() {
            return;
        }
        sleep(again).await;
    }
}

/// Servers rotate their answers; the order is ours, and so is the number.
fn usable(found: &mut Vec<IpAddr>) {
    found.sort_unstable();
    found.dedup();
    found.truncate(ADDRESSES);
}

/// One question; the addresses in a stable order, and how long they hold.
async fn ask(
    resolver: Option<&TokioResolver>,
    name: &NameKey,
) -> Result<(Vec<SocketAddr>, Duration), Unresolved> {
    let (mut found, ttl): (Vec<IpAddr>, _) = match resolver {
        Some(resolver) => {
            let lookup = resolver.lookup_ip(name.0.as_str()).await.map_err(|error| {
                if error.is_nx_domain() {
                    Unresolved::NoSuchName
                } else if error.is_no_records_found() {
                    Unresolved::NoAddress
                } else {
                    Unresolved::Resolver(Box::new(error))
                }
            })?;
            let ttl = Instant::from_std(lookup.valid_until()).saturating_duration_since(Instant::now());
            (lookup.iter().collect(), ttl)
        }
        None => {
            let found =
                tokio::net::lookup_host((name.0.as_str(), name.1)).await.map_err(Unresolved::Library)?;
            (found.map(|address| address.ip()).collect(), WITHOUT_TTL)
        }
    };
    let answered = found.len();
    usable(&mut found);
    if answered > ADDRESSES {
        tracing::warn!("resolve {}: {answered} addresses; {} of them are used", name.0, found.len());
    }
    if found.is_empty() {
        return Err(Unresolved::NoAddress);
    }
    Ok((found.into_iter().map(|address| SocketAddr::new(address, name.1)).collect(), ttl))
}

/// What names resolve to now; replaced as a whole when any of it changes.
pub(crate) type Addresses = Arc<HashMap<(String, u16), Vec<SocketAddr>>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_addresses_in_any_order_are_the_same_and_not_too_many() {
        let address = |number: u32| IpAddr::V4((0x0a00_0000 + number % 2_000).into());
        let mut one: Vec<_> = (0..4_000).map(address).collect();
        let mut other: Vec<_> = (0..4_000).rev().map(address).collect();
        usable(&mut one);
        usable(&mut other);
        assert_eq!((one.len(), &one), (ADDRESSES, &other));
    }

    #[test]
    fn a_start_waits_for_names_without_which_a_service_has_no_backend() {
        let (answers, _receiver) = tokio::sync::mpsc::channel(1);
        let name = |name: &str| (name.to_owned(), 80);
        let of = |service: &str| Progress { services: vec![service.into()], ..Progress::default() };
        let mut names = Names {
            resolver: None,
            lookups: HashMap::new(),
            known: HashMap::new(),
            progress: BTreeMap::from([(name("a.example"), of("a")), (name("b.example"), of("b"))]),
            answers,
        };
        let answer = |names: &mut Names, of: &str, outcome| {
            names.take(Answer { name: name(of), outcome, again: RETRY.0 });
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

    /// What those who look in see of a name, from its first question on.
    #[test]
    fn a_name_keeps_its_addresses_while_it_cannot_be_resolved() {
        let (answers, _receiver) = tokio::sync::mpsc::channel(1);
        let name: NameKey = ("db.example".into(), 5_432);
        let mut names = Names {
            resolver: None,
            lookups: HashMap::new(),
            known: HashMap::new(),
            progress: BTreeMap::from([(name.clone(), Progress::default())]),
            answers,
        };
        assert_eq!(names.waiting_for(), ["db.example:5432"]);
        let address = SocketAddr::from(([10, 0, 0, 9], 5_432));
        let answer = |outcome| Answer { name: name.clone(), outcome, again: RETRY.0 };
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
        let gone = Answer { name: ("gone.example".into(), 80), outcome: Ok(vec![address]), again: RETRY.0 };
        assert!(names.take(gone).is_none(), "a name that a reload let go of");
    }
}
