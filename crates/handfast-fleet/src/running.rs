//! The task that receives and sends.
//!
//! In: [`Request`]s of this machine, messages of others. Out: [`Event`]s. It joins the bus as soon as that can be, goes on without it, and
//! joins again; requests are always answered in bounded time. Once their sender is dropped, it announces its end and stops.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use handfast_bus::{Bus, BusAddress, BusError, Feed, fresh_id};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::members::{Machine, Members, Now, Verdict};
use crate::secret::Secret;
use crate::words::{FleetMessage, Word, subject};

/// Interval between heartbeats of a machine.
const BEAT: Duration = Duration::from_secs(5);
/// Interval between a machine's announcements of its keys.
const KEYS: Duration = Duration::from_secs(60);
/// Time for others to object to a claim.
const OBJECTING: Duration = Duration::from_millis(500);
/// Time after joining during which a machine orders nothing: the state of the others is still arriving.
const LEARNING: Duration = Duration::from_secs(2);
/// Time for which a machine that starts waits for the bus before it orders certificates alone.
const ALONE: Duration = Duration::from_secs(5);
/// Time for the other machines to publish answers to a challenge; then the issuer is notified to check it.
const ANSWERING: Duration = Duration::from_secs(2);
/// A connection that is lost for longer is given up, and the bus joined as at a start.
const REJOINING: Duration = Duration::from_secs(15);
/// The first and the longest pause between two attempts to join.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Difference between clocks from which it is reported. **Units**: milliseconds.
const SKEW: u64 = 30_000;
/// Maximum number of machines whose clocks are reported as different.
const MAX_SKEWED: usize = 256;
/// Requests that may wait.
const REQUESTS: usize = 64;

/// Settings to join a fleet.
#[derive(Debug)]
pub struct Settings {
    /// The bus.
    pub bus: BusAddress,
    /// The fleet's secret.
    pub secret: Secret,
    /// This machine's name, for people.
    pub machine: String,
    /// The program's version.
    pub version: String,
    /// True if this machine orders certificates.
    pub orders: bool,
}

/// Request of this machine to the fleet.
#[derive(Debug)]
pub enum Request {
    /// Keys of tickets, in the form of their file.
    Keys {
        /// Of the services whose keys have this life.
        rotate: Duration,
        /// See there.
        lifetime: Duration,
        /// The text.
        text: String,
    },
    /// Request for permission to order the certificate of a name.
    Claim {
        /// The name.
        name: String,
        /// For how long.
        lease: Duration,
        /// The answer comes within seconds; without one it may.
        reply: oneshot::Sender<bool>,
    },
    /// The order is over.
    Released {
        /// Of this name.
        name: String,
    },
    /// A failed order: no other machine needs to try before this one does.
    Held {
        /// Of this name.
        name: String,
        /// For how long.
        lease: Duration,
    },
    /// Answers to this machine's challenges.
    Answers {
        /// The content of each file of HTTP-01.
        files: BTreeMap<String, String>,
        /// Certificate and key for each server name of TLS-ALPN-01, in PEM.
        certificates: BTreeMap<String, String>,
        /// Dropped when all machines give them, or have had their time.
        given: Sender<Infallible>,
    },
    /// This machine gives the answers of another one, see [`Event::Answers`].
    Answering {
        /// The other one.
        of: String,
        /// Number of the answers.
        number: u64,
    },
    /// A certificate that this machine has.
    Certificate {
        /// Its name.
        name: String,
        /// Certificate and key, in PEM.
        pem: String,
    },
}

/// Event from other machines.
#[derive(Debug)]
pub enum Event {
    /// Keys of tickets.
    Keys {
        /// The machine that has them.
        machine: String,
        /// Of the services whose keys have this life.
        rotate: Duration,
        /// See there.
        lifetime: Duration,
        /// The keys, in the form of their file.
        text: String,
    },
    /// Say what you have.
    Requested {
        /// The certificates too.
        certificates: bool,
    },
    /// Answers to another machine's challenges; they replace those that it gave before. To be confirmed by [`Request::Answering`].
    Answers {
        /// The other one.
        of: String,
        /// Number of the answers.
        number: u64,
        /// The content of each file of HTTP-01.
        files: BTreeMap<String, String>,
        /// Certificate and key for each server name of TLS-ALPN-01, in PEM.
        certificates: BTreeMap<String, String>,
    },
    /// The certificate of a name.
    Certificate {
        /// Its name.
        name: String,
        /// Certificate and key, in PEM.
        pem: String,
    },
    /// The members have changed, or were checked again.
    Report(Report),
}

/// The fleet as this machine sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The bus, without a password.
    pub bus: String,
    /// Reason why there is none; `None`: there is.
    pub problem: Option<String>,
    /// The other machines.
    pub machines: Vec<Machine>,
    /// Messages that were not sealed with our secret, or for another fleet.
    pub foreign: u64,
}

/// The task, which the caller runs, and where requests to it go. A request that finds no room can be dropped: each is repeated, or has a
/// bound.
///
/// **Errors**: the system has no random numbers.
pub fn member(
    settings: Settings,
    events: Sender<Event>,
) -> Result<(Sender<Request>, impl Future<Output = ()> + Send + 'static), BusError> {
    let me = fresh_id()?;
    let (requests, received) = channel(REQUESTS);
    Ok((requests, Task::new(settings, me, events).run(received)))
}

type Joining = Pin<Box<dyn Future<Output = Result<(Arc<dyn Bus>, Feed), BusError>> + Send>>;

/// A claim that others may object to.
struct Claiming {
    name: String,
    decided_at: Instant,
    reply: oneshot::Sender<bool>,
}

/// Answers that others do not give yet.
struct Sharing {
    number: u64,
    missing: BTreeSet<String>,
    until: Instant,
    _given: Sender<Infallible>,
}

struct Task {
    settings: Settings,
    me: String,
    started: Instant,
    /// Of the last message.
    number: u64,
    events: Sender<Event>,
    members: Members,
    bus: Option<(Arc<dyn Bus>, Feed)>,
    /// Time when the connection was lost; `None`: it is established, or there is none.
    lost_at: Option<Instant>,
    problem: Option<String>,
    /// Certificates are not ordered before; then as a fleet, or alone.
    orders_from: Instant,
    claiming: Vec<Claiming>,
    sharing: Option<Sharing>,
    answers: u64,
    foreign: u64,
    /// Machines whose clocks were found to differ.
    skewed: BTreeSet<String>,
    reported: Report,
}

impl Task {
    fn new(settings: Settings, me: String, events: Sender<Event>) -> Self {
        Self {
            members: Members::new(&me),
            me,
            started: Instant::now(),
            number: 0,
            events,
            bus: None,
            lost_at: None,
            problem: Some("not joined yet".to_owned()),
            orders_from: Instant::now() + ALONE,
            claiming: Vec::new(),
            sharing: None,
            answers: 0,
            foreign: 0,
            skewed: BTreeSet::new(),
            reported: Report::default(),
            settings,
        }
    }

    async fn run(mut self, mut requests: Receiver<Request>) {
        let mut pause = PAUSES.0;
        let mut joining = self.join();
        let mut join_at = None;
        let mut beat_at = Instant::now();
        let mut keys_at = Instant::now() + KEYS;
        loop {
            let next = self.next_moment().min(beat_at);
            tokio::select! {
                request = requests.recv() => match request {
                    Some(request) => self.do_request(request).await,
                    None => return self.leave().await,
                },
                joined = &mut joining, if self.bus.is_none() && join_at.is_none() => match joined {
                    Ok(bus) => {
                        pause = PAUSES.0;
                        self.joined(bus).await;
                    }
                    Err(refusal) => {
                        self.has_problem(refusal.to_string());
                        join_at = Some(Instant::now() + pause);
                        pause = (pause * 2).min(PAUSES.1);
                    }
                },
                () = sleep_until(join_at.unwrap_or_else(Instant::now)), if join_at.is_some() => {
                    join_at = None;
                    joining = self.join();
                }
                event = next_event(&mut self.bus, self.lost_at.is_some()) => match event {
                    BusEvent::Message(payload) => self.receive_message(&payload).await,
                    BusEvent::Changed => {
                        self.follow_connection().await;
                        self.report().await;
                    }
                    BusEvent::Ended => {
                        (self.bus, self.lost_at) = (None, None);
                        joining = self.join();
                    }
                },
                () = sleep_until(next) => {}
            }
            self.decide().await;
            if Instant::now() >= beat_at {
                beat_at = Instant::now() + BEAT;
                self.beat().await;
                if self.lost_at.is_some_and(|at| at.elapsed() >= REJOINING) {
                    // With the files as they are now: the password may be another one.
                    (self.bus, self.lost_at) = (None, None);
                    joining = self.join();
                }
                if Instant::now() >= keys_at {
                    keys_at = Instant::now() + KEYS;
                    self.send_event(Event::Requested { certificates: false }).await;
                }
            }
        }
    }

    fn join(&self) -> Joining {
        let (address, name) = (self.settings.bus.clone(), self.settings.machine.clone());
        let inbox = address.inbox(&self.me);
        Box::pin(async move {
            let bus = handfast_bus::join(&address, &name, &inbox).await?;
            let feed = bus.subscribe(&subject(&address.fleet)).await;
            let feed = feed.map_err(BusError::not_listening)?;
            Ok((bus, feed))
        })
    }

    async fn joined(&mut self, bus: (Arc<dyn Bus>, Feed)) {
        tracing::info!("fleet: joined {} on {}", self.settings.bus.fleet, bus.0.place());
        self.bus = Some(bus);
        self.is_back().await;
        self.report().await;
    }

    /// The bus is there, for the first time or again.
    async fn is_back(&mut self) {
        (self.problem, self.lost_at) = (None, None);
        self.orders_from = Instant::now() + LEARNING;
        // Those that waited for the bus need not wait any longer than this.
        self.claiming.iter_mut().for_each(|claiming| claiming.decided_at = self.orders_from);
        self.publish(Word::Ask).await;
        self.send_event(Event::Requested { certificates: true }).await;
    }

    fn has_problem(&mut self, problem: String) {
        if self.problem.as_ref() != Some(&problem) {
            let (what, hint) = problem.split_once('\n').unwrap_or((&problem, ""));
            let hint = if hint.is_empty() { String::new() } else { format!("\n  {hint}") };
            tracing::warn!("fleet: {what}; this machine continues without it, and tries again{hint}");
            self.problem = Some(problem);
        }
    }

    /// The next moment at which something is decided.
    fn next_moment(&self) -> Instant {
        let claims = self.claiming.iter().map(|claiming| claiming.decided_at);
        let sharing = self.sharing.iter().map(|sharing| sharing.until);
        claims.chain(sharing).min().unwrap_or_else(|| Instant::now() + BEAT)
    }

    async fn do_request(&mut self, request: Request) {
        match request {
            Request::Keys { rotate, lifetime, text } => {
                self.publish(Word::Keys { rotate: rotate.as_secs(), lifetime: lifetime.as_secs(), text })
                    .await;
            }
            Request::Claim { name, lease, reply } => self.claim(name, lease, reply).await,
            Request::Released { name } => {
                if self.members.release(&name) {
                    self.publish(Word::Released { name }).await;
                }
            }
            Request::Held { name, lease } => {
                if let Some(word) = self.members.claim(&name, lease.as_secs(), self.now().steady) {
                    self.publish(word).await;
                }
            }
            Request::Answers { files, certificates, given } => {
                self.answers += 1;
                let number = self.answers;
                let missing = self.members.lively(self.now().steady).into_iter().collect::<BTreeSet<_>>();
                // Answers that are taken back need no confirmation.
                let is_over =
                    missing.is_empty() || !self.is_connected() || files.is_empty() && certificates.is_empty();
                self.sharing = (!is_over).then(|| Sharing {
                    number,
                    missing,
                    until: Instant::now() + ANSWERING,
                    _given: given,
                });
                self.publish(Word::Answers { number, files, certificates }).await;
            }
            Request::Answering { of, number } => self.publish(Word::Answering { of, number }).await,
            Request::Certificate { name, pem } => self.publish(Word::Certificate { name, pem }).await,
        }
    }

    async fn claim(&mut self, name: String, lease: Duration, reply: oneshot::Sender<bool>) {
        let decided_at = self.orders_from.max(Instant::now() + OBJECTING);
        if let Some(word) = self.members.claim(&name, lease.as_secs(), self.now().steady) {
            self.publish(word).await;
            self.claiming.push(Claiming { name, decided_at, reply });
        } else {
            // The requester may have ended.
            let _ = reply.send(false);
        }
    }

    /// Answers what is due: claims, and waits for other machines.
    async fn decide(&mut self) {
        let now = Instant::now();
        let is_due = |claiming: &Claiming| now >= claiming.decided_at || !self.members.holds(&claiming.name);
        let (due, rest) = std::mem::take(&mut self.claiming).into_iter().partition(is_due);
        self.claiming = rest;
        let due: Vec<Claiming> = due;
        for Claiming { name, reply, .. } in due {
            let word = self.members.confirm(&name, self.now().steady);
            let _ = reply.send(word.is_some());
            if let Some(word) = word {
                self.publish(word).await;
            }
        }
        if let Some(sharing) = self.sharing.take_if(|sharing| now >= sharing.until) {
            let missing = sharing.missing.iter().filter_map(|id| Some(&*self.members.machine(id)?.name));
            tracing::warn!(
                "fleet: {} did not confirm in time that it answers a challenge too",
                missing.collect::<Vec<_>>().join(", ")
            );
        }
    }

    async fn beat(&mut self) {
        self.follow_connection().await;
        self.publish(Word::Here).await;
        self.report().await;
    }

    async fn follow_connection(&mut self) {
        match (self.bus.as_ref().map(|(bus, _)| bus.is_connected()), self.lost_at) {
            (Some(false), None) => {
                let place = self.bus.as_ref().map_or_else(String::new, |(bus, _)| bus.place().to_owned());
                self.has_problem(format!("the connection to the bus {place} is lost"));
                self.lost_at = Some(Instant::now());
            }
            (Some(true), Some(_)) => self.is_back().await,
            _ => {}
        }
    }

    async fn report(&mut self) {
        let bus =
            self.bus.as_ref().map_or_else(|| self.settings.bus.place(), |(bus, _)| bus.place().to_owned());
        let report = Report {
            bus,
            problem: self.problem.clone(),
            machines: self.members.machines(self.now().steady),
            foreign: self.foreign,
        };
        if report != self.reported {
            self.reported = report.clone();
            self.send_event(Event::Report(report)).await;
        }
    }

    fn is_connected(&self) -> bool {
        self.bus.as_ref().is_some_and(|(bus, _)| bus.is_connected())
    }

    async fn receive_message(&mut self, payload: &[u8]) {
        let opened = self.settings.secret.open(&self.settings.bus.fleet, payload);
        let Some(message) =
            opened.as_ref().and_then(|plain| serde_json::from_slice::<FleetMessage>(plain).ok())
        else {
            // A later version's word is no stranger's.
            if opened.is_none() {
                self.count_foreign();
            }
            return;
        };
        if message.from == self.me {
            return;
        }
        let before = self.members.lively(self.now().steady).len();
        match self.members.receive(&message, self.now()) {
            Verdict::Repeated => return,
            Verdict::OtherTime => {
                self.compare_clocks(&message);
                // The union of all keys is the same whenever they come.
                if let FleetMessage { word: Word::Keys { .. }, .. } = message {
                    self.take(message).await;
                }
                return;
            }
            Verdict::New(None) => {}
            Verdict::New(Some(answer)) => self.publish(answer).await,
        }
        self.compare_clocks(&message);
        self.take(message).await;
        if self.members.lively(self.now().steady).len() != before {
            self.report().await;
        }
    }

    fn count_foreign(&mut self) {
        self.foreign += 1;
        if self.foreign == 1 {
            tracing::warn!(
                "fleet: a message was not sealed with this fleet's secret, and is ignored\n  hint: one machine has another `secret` \
                 file, or somebody else has the password of the bus"
            );
        }
    }

    fn compare_clocks(&mut self, message: &FleetMessage) {
        let (theirs, ours) = (message.at, unix_millis());
        let (name, differs) = (&message.machine, theirs.abs_diff(ours));
        if differs <= SKEW {
            self.skewed.remove(name);
        } else if self.skewed.len() < MAX_SKEWED && self.skewed.insert(name.clone()) {
            let (seconds, how) = ((differs + 500) / 1_000, if theirs < ours { "behind" } else { "ahead of" });
            tracing::warn!(
                "fleet: the clock of {name} is {seconds} s {how} this machine's: its ticket keys may be refused, or begin early\n  \
                 hint: synchronize the clocks of all machines"
            );
        }
    }

    async fn take(&mut self, FleetMessage { from, machine, word, .. }: FleetMessage) {
        match word {
            Word::Ask => {
                let certificates =
                    self.settings.orders && self.members.reports_for_all(&from, self.now().steady);
                self.send_event(Event::Requested { certificates }).await;
            }
            Word::Keys { rotate, lifetime, text } => {
                let [rotate, lifetime] = [rotate, lifetime].map(Duration::from_secs);
                self.send_event(Event::Keys { machine, rotate, lifetime, text }).await;
            }
            Word::Answers { number, files, certificates } => {
                self.send_event(Event::Answers { of: from, number, files, certificates }).await;
            }
            Word::Answering { of, number } if of == self.me => {
                if let Some(sharing) = self.sharing.as_mut().filter(|sharing| sharing.number == number) {
                    sharing.missing.remove(&from);
                }
                self.sharing.take_if(|sharing| sharing.missing.is_empty());
            }
            Word::Certificate { name, pem } => self.send_event(Event::Certificate { name, pem }).await,
            Word::Here
            | Word::Leaving
            | Word::Claim { .. }
            | Word::Released { .. }
            | Word::Answering { .. } => {}
        }
    }

    async fn send_event(&self, event: Event) {
        // No receiver: the process ends.
        let _ = self.events.send(event).await;
    }

    fn now(&self) -> Now {
        let steady = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { steady, wall: unix_millis() }
    }

    async fn publish(&mut self, word: Word) {
        let Some((bus, _)) = &self.bus else { return };
        self.number += 1;
        let fleet = &self.settings.bus.fleet;
        let message = FleetMessage {
            from: self.me.clone(),
            number: self.number,
            machine: self.settings.machine.clone(),
            version: self.settings.version.clone(),
            orders: self.settings.orders,
            at: unix_millis(),
            word,
        };
        let sealed =
            serde_json::to_vec(&message).ok().and_then(|plain| self.settings.secret.seal(fleet, &plain));
        if let Some(sealed) = sealed
            && let Err(fault) = bus.publish(&subject(fleet), Bytes::from(sealed)).await
        {
            tracing::debug!("fleet: {fault}");
        }
    }

    async fn leave(mut self) {
        self.publish(Word::Leaving).await;
        if let Some((bus, _)) = &self.bus {
            bus.flush().await;
        }
    }
}

/// An event of a bus.
enum BusEvent {
    Message(Bytes),
    /// The connection was lost, or is there again.
    Changed,
    /// No message can come any more.
    Ended,
}

/// The next event; none ever comes while there is no bus. `is_lost`: what the connection was last.
async fn next_event(bus: &mut Option<(Arc<dyn Bus>, Feed)>, is_lost: bool) -> BusEvent {
    let Some((bus, feed)) = bus else { return std::future::pending().await };
    tokio::select! {
        message = feed.next() => message.map_or(BusEvent::Ended, |message| BusEvent::Message(message.payload)),
        () = bus.until(is_lost) => BusEvent::Changed,
    }
}

fn unix_millis() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
