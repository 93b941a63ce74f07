//! The fleet, as the control thread holds it: what this machine shares with others that serve the same names.
//!
//! In: configurations, ticket keys, answers to challenges, certificates; words of other machines. Out: the same, of all. The task that
//! listens and speaks is that of `handfast-fleet`; here its words become keys for the workers and files in the store.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use handfast_acme::{Answers, OrderEnd};
use handfast_config::model::{Config, Fleet as Joined};
use handfast_fleet::{BusAddress, Event, Machine, Purpose, Report, Request, Secret, Settings, Tag, member};
use handfast_observe::metrics::{FleetSnapshot, MachineSnapshot};
use handfast_process::privileges::ServiceUser;
use handfast_tls::ticket::{KeyText, Merged};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::state::GivenKeys;

/// Events that may wait for the control thread; the task waits then.
const MAX_WAITING_EVENTS: usize = 64;
/// Duration for which one machine alone may order a certificate. An attempt has ten minutes.
const LEASE: Duration = Duration::from_secs(11 * 60);
/// Time for the other machines to learn that this one leaves.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longest time for which other machines wait after a failure of this one.
const MAX_FAILURE_HOLD: Duration = Duration::from_secs(10 * 60);
/// Time for which another machine's answers are given if it does not take them back.
const REMOTE_ANSWERS_LIFETIME: Duration = Duration::from_secs(15 * 60);

/// Parameters with which a fleet was joined; a change joins it again.
#[derive(Debug, PartialEq, Eq)]
struct FleetParameters {
    joined: Joined,
    tag: Tag,
    orders: bool,
}

/// A fleet that was joined. Its events end with it: keys that were on their way when the secret changed are not taken.
#[derive(Debug)]
struct Membership {
    parameters: FleetParameters,
    requests: Sender<Request>,
    events: Receiver<Event>,
}

/// The fleet, if there is one.
#[derive(Debug)]
pub(crate) struct Fleet {
    joined: Option<Membership>,
    /// The member, and what it waits for.
    tasks: JoinSet<()>,
    report: Report,
    /// Time at which another machine last reported the key that encrypts here.
    shared_at: Option<SystemTime>,
    /// True if keys from a machine with a wrong clock were logged.
    logged_out_of_time: bool,
    /// Answers to this machine's challenges.
    own: Answers,
    /// … and to those of others, with the moment at which they came.
    remote_answers: BTreeMap<String, (Answers, Instant)>,
}

impl Fleet {
    /// Of no other machine yet.
    pub(crate) fn new() -> Self {
        Self {
            joined: None,
            tasks: JoinSet::new(),
            report: Report::default(),
            shared_at: None,
            logged_out_of_time: false,
            own: Answers::default(),
            remote_answers: BTreeMap::new(),
        }
    }

    /// Joins the fleet of this configuration, or leaves it: the fleet that ticket keys are of from now on. `None`: it stays as it was.
    pub(crate) fn follow(&mut self, config: &Config) -> Option<Option<Tag>> {
        let Some(joined) = &config.fleet else {
            self.forget_others();
            self.joined = None;
            return Some(None);
        };
        let secret = match Secret::read(&joined.secret) {
            Ok(secret) => secret,
            Err(error) => {
                tracing::error!("{}; the fleet stays as it was", unreadable(&joined.secret, &error));
                return None;
            }
        };
        let tag = secret.tag(&joined.name);
        let known =
            FleetParameters { joined: joined.clone(), tag: tag.clone(), orders: config.acme.is_some() };
        if self.joined.as_ref().is_some_and(|before| before.parameters == known) {
            return Some(Some(tag));
        }
        if self.joined.take().is_some_and(|before| before.parameters.tag != tag) {
            self.forget_others();
        }
        self.report = Report::default();
        let (sender, events) = channel(MAX_WAITING_EVENTS);
        match member(settings(&known, secret), sender) {
            Ok((requests, task)) => {
                self.tasks.spawn(task);
                self.joined = Some(Membership { parameters: known, requests, events });
            }
            Err(refusal) => tracing::error!("fleet: {refusal}; this machine continues without it"),
        }
        Some(Some(tag))
    }

    /// Removes everything that the machines of the previous fleet have sent.
    fn forget_others(&mut self) {
        self.shared_at = None;
        self.remote_answers.clear();
    }

    /// Returns the next event. **Cancel**: loses nothing.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        loop {
            tokio::select! {
                event = next_event(&mut self.joined) => return event,
                Some(_) = self.tasks.join_next() => {}
            }
        }
    }

    /// Leaves it.
    pub(crate) fn stop(&mut self) {
        self.joined = None;
    }

    /// Waits until the others know that it has left, for a bounded time.
    pub(crate) async fn left(mut self) {
        // The task does not wait for room for its events: their channel is closed.
        self.joined = None;
        let ending = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(LEAVE_TIMEOUT, ending).await;
    }

    fn send_request(&self, request: Request) {
        if let Some(Membership { requests, .. }) = &self.joined {
            // A dropped one is sent again, or its waiters have a timeout.
            let _ = requests.try_send(request);
        }
    }

    /// Tells keys to the others.
    pub(crate) fn share_keys(&self, keys: Vec<GivenKeys>) {
        for GivenKeys { rotate, lifetime, text } in keys {
            self.send_request(Request::Keys { rotate, lifetime, text: text.reveal().to_owned() });
        }
    }

    /// Notes what came of keys of another machine.
    pub(crate) fn merged(&mut self, machine: &str, merged: Merged) {
        if merged.has_ours {
            self.shared_at = Some(SystemTime::now());
        }
        if merged.out_of_time > 0 && !std::mem::replace(&mut self.logged_out_of_time, true) {
            tracing::warn!(
                "fleet: {} ticket keys of {machine} are of another time, and not taken\n  hint: synchronize the clocks of all machines",
                merged.out_of_time
            );
        }
    }

    /// Requests permission to order the certificate of a name on this machine. Without a fleet it is granted.
    pub(crate) fn claim(&self, name: String, reply: oneshot::Sender<bool>) {
        match &self.joined {
            // A request that finds no room is answered by its end.
            Some(Membership { requests, .. }) => {
                drop(requests.try_send(Request::Claim { name, lease: LEASE, reply }))
            }
            None => drop(reply.send(true)),
        }
    }

    /// Tells what became of an order.
    pub(crate) fn ended(&self, name: String, end: OrderEnd) {
        match end {
            OrderEnd::Made(pem) => {
                self.send_request(Request::Certificate { name: name.clone(), pem });
                self.send_request(Request::Released { name });
            }
            // Another machine has its turn before this one tries again: its way to the issuer may be open.
            OrderEnd::Failed(pause) => {
                self.send_request(Request::Held { name, lease: (pause / 2).min(MAX_FAILURE_HOLD) })
            }
            OrderEnd::NotNeeded => self.send_request(Request::Released { name }),
        }
    }

    /// Tells a certificate.
    pub(crate) fn share_certificate(&self, name: String, pem: String) {
        self.send_request(Request::Certificate { name, pem });
    }

    /// Takes the answers to this machine's own challenges, sends them to others, and gives all that are open. `given` is dropped when the
    /// others give them too.
    pub(crate) fn own_answers(&mut self, own: Answers, given: Sender<Infallible>) -> Answers {
        let texts = |map: &BTreeMap<Box<str>, Box<str>>| {
            map.iter().map(|(name, text)| (name.to_string(), text.to_string())).collect()
        };
        self.send_request(Request::Answers {
            files: texts(&own.files),
            certificates: texts(&own.texts),
            given,
        });
        self.own = own;
        self.all_answers()
    }

    /// Takes the answers of another machine, and gives all that are open.
    pub(crate) fn receive_answers(
        &mut self,
        of: &str,
        files: &BTreeMap<String, String>,
        certificates: &BTreeMap<String, String>,
    ) -> Answers {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let remote = Answers::from_remote(pairs(files), pairs(certificates), now);
        match remote.is_empty() {
            true => drop(self.remote_answers.remove(of)),
            false => drop(self.remote_answers.insert(of.to_owned(), (remote, Instant::now()))),
        }
        self.all_answers()
    }

    /// Confirms that this machine gives the answers of another one, once all workers do: when `installed` has ended.
    pub(crate) fn confirm(&mut self, of: String, number: u64, mut installed: Receiver<Infallible>) {
        let Some(Membership { requests, .. }) = &self.joined else { return };
        let requests = requests.clone();
        self.tasks.spawn(async move {
            // Nothing is ever sent. A worker that hangs is not waited for: most answers come from others.
            if timeout(Duration::from_secs(5), installed.recv()).await.is_ok() {
                let _ = requests.send(Request::Answering { of, number }).await;
            }
        });
    }

    fn all_answers(&mut self) -> Answers {
        self.remote_answers.retain(|_, (_, at)| at.elapsed() < REMOTE_ANSWERS_LIFETIME);
        let mut all = self.own.clone();
        self.remote_answers.values().for_each(|(answers, _)| all.extend(answers));
        all
    }

    /// Takes a report.
    pub(crate) fn reported(&mut self, report: Report) {
        self.report = report;
    }

    /// The state of the fleet, for metrics and pages; `None`: there is none.
    pub(crate) fn snapshot(&self) -> Option<FleetSnapshot> {
        let Membership { parameters: FleetParameters { joined, .. }, .. } = self.joined.as_ref()?;
        let Report { bus, problem, machines, foreign } = self.report.clone();
        let machine =
            |Machine { name, version, last_received_at: received_at, clock_ahead, .. }| MachineSnapshot {
                name,
                version,
                last_seen_at: SystemTime::UNIX_EPOCH + Duration::from_millis(received_at),
                clock_offset_seconds: clock_ahead.unsigned_abs() as f64 / 1_000.0,
                clock_behind: clock_ahead < 0,
            };
        Some(FleetSnapshot {
            name: joined.name.clone(),
            machine: machine_name(joined),
            bus,
            problem: problem.map(|problem| problem.replace('\n', "; ")),
            machines: machines.into_iter().map(machine).collect(),
            keys_shared_at: self.shared_at,
            foreign_messages: foreign,
        })
    }
}

/// The next event of the fleet that was joined; none ever comes while there is none.
async fn next_event(joined: &mut Option<Membership>) -> Option<Event> {
    match joined {
        Some(membership) => membership.events.recv().await,
        None => std::future::pending().await,
    }
}

fn pairs(map: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    map.iter().map(|(name, text)| (&**name, &**text))
}

fn settings(FleetParameters { joined, orders, .. }: &FleetParameters, secret: Secret) -> Settings {
    Settings {
        orders: *orders,
        bus: bus(joined),
        secret,
        machine: machine_name(joined),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// The bus of a fleet.
pub(crate) fn bus(joined: &Joined) -> BusAddress {
    BusAddress {
        url: joined.bus.clone(),
        fleet: joined.name.clone(),
        ca: joined.ca.clone(),
        credentials: joined.credentials.clone(),
        tls_first: joined.tls_first,
        purpose: Purpose::Fleet,
    }
}

fn machine_name(joined: &Joined) -> String {
    let host = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    joined.machine.clone().unwrap_or_else(host)
}

/// The fleet of a configuration. `None`: there is none, or its secret cannot be read; [`secret_problem`] returns why.
pub(crate) fn tag(config: &Config, user: &ServiceUser) -> Option<Tag> {
    let joined = config.fleet.as_ref()?;
    let secret = user.try_on(&joined.secret, || Secret::read(&joined.secret));
    Some(secret.ok()?.tag(&joined.name))
}

/// Reason why the fleet's secret cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}{place}\n  hint: `handfast fleet setup --host NAME DIR` writes one, which every machine needs",
    unreadable(.file, .source)
)]
pub(crate) struct FleetSecretError {
    file: PathBuf,
    place: String,
    source: io::Error,
}

/// Looks for a problem with the file of the secret. `None`: there is no fleet, or no problem.
pub(crate) fn secret_problem(config: &Config) -> Option<FleetSecretError> {
    let joined = config.fleet.as_ref()?;
    let source = Secret::read(&joined.secret).err()?;
    let place = config.places.suffix(&joined.secret);
    Some(FleetSecretError { file: joined.secret.clone(), place, source })
}

fn unreadable(file: &Path, error: &io::Error) -> String {
    format!("read the fleet's secret {}: {error}", file.display())
}

/// Keys as another machine sent them.
pub(crate) fn given(rotate: Duration, lifetime: Duration, text: String) -> GivenKeys {
    GivenKeys { rotate, lifetime, text: KeyText::from(text) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::testing::Folder;

    fn config(folder: &Folder, secret: &str) -> Config {
        let path = folder.path("fleet.secret");
        folder.write("fleet.secret", &secret.repeat(4));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
        let head = format!(
            "[admin]\nlisten = \"off\"\n[fleet]\nbus = \"nats://127.0.0.1:1\"\nsecret = \"{}\"\n",
            path.display()
        );
        folder.configure(&head, &[("web", &["127.0.0.1:0"])]).read(false).expect("it is right").0
    }

    #[tokio::test]
    async fn what_was_on_its_way_from_another_fleet_is_not_taken() {
        let folder = Folder::new();
        let mut fleet = Fleet::new();
        let first = fleet.follow(&config(&folder, "0123456789abcdef")).expect("there is a secret");
        // As if the task of this fleet had received keys just before.
        let (sender, events) = channel(1);
        fleet.joined.as_mut().expect("it was joined").events = events;
        let keys = Event::Keys {
            machine: "m1".to_owned(),
            rotate: Duration::from_secs(3600),
            lifetime: Duration::from_secs(7200),
            text: String::new(),
        };
        sender.try_send(keys).expect("there is room");
        let second = fleet.follow(&config(&folder, "fedcba9876543210")).expect("there is a secret");
        assert!(first.is_some() && second.is_some() && first != second, "another secret is another fleet");
        // Once: the task of the new one has not run yet.
        tokio::select! {
            biased;
            event = fleet.event() => panic!("{event:?}"),
            () = std::future::ready(()) => {}
        }
        assert!(sender.is_closed(), "its task need not wait for room");
    }
}
