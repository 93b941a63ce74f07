//! Backends' names: resolved at start and again when what was said runs out, off the path.
//!
//! In: the names of a state. Out: a new table of addresses whenever one of them changes. A name that cannot be resolved
//! keeps the addresses it had last.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use tokio::sync::mpsc::Sender;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::config::model::{Config, Target};
use crate::thread_state::Addresses;

/// Bounds on how soon and how late a name is asked for again, whatever its TTL says.
const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3600));
/// After a failure: asked again so soon, and ever more seldom up to a minute.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// How long one question may take.
const QUESTION: Duration = Duration::from_secs(10);
/// Where the system has no resolver configuration, the C library answers without a TTL.
const WITHOUT_TTL: Duration = Duration::from_secs(30);

/// A name and port as written, and how often to ask (zero: by its TTL).
type Wanted = (String, u16);

/// What one question brought.
#[derive(Debug)]
pub(crate) struct Answer {
    name: Wanted,
    addresses: Vec<SocketAddr>,
}

/// Keeps names resolved; lives on the control thread.
#[derive(Debug)]
pub(crate) struct Names {
    resolver: Option<Rc<TokioResolver>>,
    asking: HashMap<Wanted, (Duration, AbortHandle)>,
    known: HashMap<Wanted, Vec<SocketAddr>>,
    /// Names for which the first answer was that there is none.
    failed: HashSet<Wanted>,
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
            asking: HashMap::new(),
            known: HashMap::new(),
            failed: HashSet::new(),
            answers,
        }
    }

    /// Asks for the names of `config` from now on, and no more for others.
    pub(crate) fn follow(&mut self, config: &Config) {
        let wanted = wanted(config);
        self.asking.retain(|name, (_, task)| {
            let keep = wanted.contains_key(name);
            if !keep {
                task.abort();
            }
            keep
        });
        self.known.retain(|name, _| wanted.contains_key(name));
        for (name, interval) in wanted {
            let same = self.asking.get(&name).is_some_and(|(known, _)| *known == interval);
            if same {
                continue;
            }
            let ask = ask_for_ever(self.resolver.clone(), name.clone(), interval, self.answers.clone());
            let task = tokio::task::spawn_local(ask).abort_handle();
            if let Some((_, before)) = self.asking.insert(name, (interval, task)) {
                before.abort();
            }
        }
    }

    /// Whether some name has not been answered for at all yet.
    pub(crate) fn is_waiting(&self) -> bool {
        self.asking.keys().any(|name| !self.known.contains_key(name) && !self.failed.contains(name))
    }

    /// Names that have no address yet.
    pub(crate) fn unresolved(&self) -> Vec<String> {
        let without = self.asking.keys().filter(|name| !self.known.contains_key(*name));
        without.map(|(name, _)| name.clone()).collect::<HashSet<_>>().into_iter().collect()
    }

    /// Takes an answer; `Some` when the table has changed.
    pub(crate) fn take(&mut self, answer: Answer) -> Option<Addresses> {
        let Answer { name, addresses } = answer;
        if addresses.is_empty() {
            self.failed.insert(name);
            return None;
        }
        if self.known.get(&name) == Some(&addresses) {
            return None;
        }
        if self.known.contains_key(&name) {
            tracing::info!("{} resolves to {} now", name.0, list(&addresses));
        }
        self.known.insert(name, addresses);
        Some(self.addresses())
    }

    /// The table as it is.
    pub(crate) fn addresses(&self) -> Addresses {
        Arc::new(self.known.clone())
    }
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(|address| address.ip().to_string()).collect::<Vec<_>>().join(", ")
}

/// The names of a configuration; of two services that want the same one, the more eager counts.
fn wanted(config: &Config) -> HashMap<Wanted, Duration> {
    let mut wanted: HashMap<Wanted, Duration> = HashMap::new();
    for service in &config.services {
        let exceptions = service.names.iter().filter_map(|rule| rule.backends.as_ref()).flatten();
        for target in service.backends.iter().chain(exceptions) {
            if let Target::Name(name, port) = target {
                let interval = wanted.entry((name.clone(), *port)).or_insert(service.limits.resolve);
                *interval = (*interval).min(service.limits.resolve);
            }
        }
    }
    wanted
}

async fn ask_for_ever(
    resolver: Option<Rc<TokioResolver>>,
    name: Wanted,
    interval: Duration,
    answers: Sender<Answer>,
) {
    let mut retry = RETRY.0;
    loop {
        let outcome = tokio::time::timeout(QUESTION, ask(resolver.as_deref(), &name)).await;
        let pause = match outcome.unwrap_or_else(|_| Err(format!("no answer within {QUESTION:?}"))) {
            Ok((addresses, ttl)) => {
                retry = RETRY.0;
                if answers.send(Answer { name: name.clone(), addresses }).await.is_err() {
                    return;
                }
                if interval.is_zero() { ttl.clamp(BOUNDS.0, BOUNDS.1) } else { interval }
            }
            Err(problem) => {
                tracing::warn!("resolve {}: {problem}; asking again in {retry:?}", name.0);
                if answers.send(Answer { name: name.clone(), addresses: Vec::new() }).await.is_err() {
                    return;
                }
                let pause = retry;
                retry = (retry * 2).min(RETRY.1);
                pause
            }
        };
        sleep(pause).await;
    }
}

/// One question; the addresses in a stable order, and how long they hold.
async fn ask(resolver: Option<&TokioResolver>, name: &Wanted) -> Result<(Vec<SocketAddr>, Duration), String> {
    let (mut found, ttl): (Vec<IpAddr>, _) = match resolver {
        Some(resolver) => {
            let lookup = resolver.lookup_ip(name.0.as_str()).await.map_err(|error| {
                if error.is_nx_domain() {
                    "there is no such name".into()
                } else if error.is_no_records_found() {
                    "it has no address".into()
                } else {
                    error.to_string()
                }
            })?;
            let ttl = Instant::from_std(lookup.valid_until()).saturating_duration_since(Instant::now());
            (lookup.iter().collect(), ttl)
        }
        None => {
            let found = tokio::net::lookup_host((name.0.as_str(), name.1))
                .await
                .map_err(|error| error.to_string())?;
            (found.map(|address| address.ip()).collect(), WITHOUT_TTL)
        }
    };
    // Servers rotate their answers; the order is ours.
    found.sort_unstable();
    found.dedup();
    if found.is_empty() {
        return Err("it has no address".into());
    }
    Ok((found.into_iter().map(|address| SocketAddr::new(address, name.1)).collect(), ttl))
}
