//! A worker: waits for orders on a bus, and runs its share of one run after the other.
//!
//! In: [`Order`]s. Out: [`Reply`]s and [`Event`]s. One task; the load runs on separate threads (`share.rs`).

use std::sync::Arc;

use bytes::Bytes;
use handfast_net::clock::Moment;
use tokio::sync::watch;
use tokio::time::{Duration, MissedTickBehavior, interval};

use super::protocol::{
    Caller, Event, HELLO, Hello, Identity, Order, Reply, Subjects, decode, encode, of_bus,
};
use super::share::{Lease, Load, News, ShareThread, TrueLoad};
use super::{BEAT, BusAddress, LEASE};
use crate::generator::Share;
use crate::plan::Plan;
use handfast_bus::{Bus, Feed, Message, fresh_id, token};
use handfast_report::ToolError;

/// Time for which the final message is repeated, until a coordinator has received it.
const INSISTING: Duration = Duration::from_secs(20);
/// Time for which a bus may be unreachable before a worker ends.
const GIVING_UP: Duration = Duration::from_secs(600);
/// Time for which a worker with the order to end waits for its load to end.
const LEAVING: Duration = Duration::from_secs(5);

/// Serves run after run until `stop`, or until the bus was unreachable for ten minutes.
///
/// `name` is the worker's name in reports; by default host name and process.
///
/// **Errors**: a bus that cannot be joined or is not safe to join; one that did not come back.
///
/// **Cancel**: a dropped future stops the load, and the coordinator sees a lost worker.
pub async fn serve_worker(
    bus: &BusAddress,
    name: Option<String>,
    stop: watch::Receiver<bool>,
) -> Result<(), ToolError> {
    let subjects = Subjects::new(&bus.fleet)?;
    let name = name.unwrap_or_else(default_name);
    let id = format!("{}-{}", token(&name), fresh_id().map_err(of_bus)?);
    let joined = handfast_bus::join(bus, &id, &subjects.inbox(&id)).await.map_err(of_bus)?;
    let identity = own_identity().await?;
    tracing::info!(bus = joined.place(), worker = name, fleet = bus.fleet, "waiting for orders");
    Worker::new(joined, subjects, id, name, identity, Arc::new(TrueLoad)).serve(stop).await
}

/// [`Identity::own`], off the runtime's threads.
pub(super) async fn own_identity() -> Result<Identity, ToolError> {
    let read = tokio::task::spawn_blocking(Identity::own).await;
    read.unwrap_or_else(|error| Err(ToolError::failed(format!("read our own program: {error}"))))
}

/// Host name and process.
pub(super) fn default_name() -> String {
    let host = rustix::system::uname();
    format!("{}-{}", host.nodename().to_string_lossy(), std::process::id())
}

/// Waits until the end is requested; forever when no request can arrive any more.
pub(super) async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The coordinator that a worker works for.
#[derive(Debug)]
struct Held {
    by: Caller,
    until: Moment,
}

/// A run that a worker takes part in.
struct Assignment {
    run: String,
    by: String,
    thread: ShareThread,
    /// True once it has received the moment of the start.
    begun: bool,
    /// Its final message, and until when it is repeated.
    end: Option<(Bytes, Moment)>,
}

/// One worker on a bus.
pub(super) struct Worker {
    bus: Arc<dyn Bus>,
    subjects: Subjects,
    id: String,
    name: String,
    identity: Identity,
    load: Arc<dyn Load>,
    held: Option<Held>,
    assignment: Option<Assignment>,
    away_since: Option<Moment>,
}

impl Worker {
    /// A worker that has received nothing yet.
    pub(super) fn new(
        bus: Arc<dyn Bus>,
        subjects: Subjects,
        id: String,
        name: String,
        identity: Identity,
        load: Arc<dyn Load>,
    ) -> Self {
        Self { bus, subjects, id, name, identity, load, held: None, assignment: None, away_since: None }
    }

    /// [`serve_worker`].
    pub(super) async fn serve(mut self, mut stop: watch::Receiver<bool>) -> Result<(), ToolError> {
        let subscribed = |error| ToolError::failed(format!("subscribe on the bus: {error}"));
        let mut calls = self.bus.subscribe(&self.subjects.all()).await.map_err(subscribed)?;
        let mut orders = self.bus.subscribe(&self.subjects.orders(&self.id)).await.map_err(subscribed)?;
        let mut beats = interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                message = next_of(&mut calls, &mut orders) => match message {
                    Some(message) => self.receive(&message).await,
                    None => return Err(self.gone()),
                },
                news = news_of(&mut self.assignment) => self.forward_news(news).await,
                _ = beats.tick() => self.beat().await?,
                () = stop_requested(&mut stop) => {
                    self.leave().await;
                    return Ok(());
                }
            }
        }
    }

    fn gone(&self) -> ToolError {
        ToolError::failed(format!("serve on the bus {}: it is gone and did not come back", self.bus.place()))
            .hint("check whether the server runs, and start the worker again")
    }

    /// Every half second: sends a heartbeat, repeats the final message, and checks the bus.
    async fn beat(&mut self) -> Result<(), ToolError> {
        let now = Moment::now();
        self.away_since = if self.bus.is_connected() { None } else { self.away_since.or(Some(now)) };
        if self.away_since.is_some_and(|since| now.since(since) > GIVING_UP) {
            return Err(self.gone());
        }
        let Some(assignment) = &self.assignment else { return Ok(()) };
        match &assignment.end {
            None => self.send_event(&Event::Beat).await,
            Some((word, until)) if now < *until => self.send_bytes(word.clone()).await,
            Some(_) => {
                tracing::warn!(run = assignment.run, "the coordinator did not confirm this run's result");
                self.assignment = None;
            }
        }
        Ok(())
    }

    async fn send_event(&self, event: &Event) {
        self.send_bytes(encode(event)).await;
    }

    async fn send_bytes(&self, word: Bytes) {
        let Some(assignment) = &self.assignment else { return };
        let subject = self.subjects.events(&assignment.by, &assignment.run, &self.id);
        if let Err(fault) = self.bus.publish(&subject, word).await {
            tracing::warn!(%fault, run = assignment.run, "sending a message to the coordinator failed");
        }
    }

    /// Forwards the messages of the load.
    async fn forward_news(&mut self, news: Option<News>) {
        let last = |why: String| (Event::Gone { why }, true);
        let (event, over) = match news {
            Some(News::Prepared(facts)) => (Event::Prepared(facts), false),
            Some(News::Refused(refusal)) => (Event::Refused(refusal), true),
            Some(News::Dropped(why)) => last(why),
            Some(News::Second(interval)) => (Event::Second(interval), false),
            Some(News::End(end, cut)) => {
                if let Some(cut) = &cut {
                    tracing::warn!(cut, "the load ended early");
                }
                return self.insist(&Event::End { end, cut }).await;
            }
            None => last("its load ended without a result (a bug)".into()),
        };
        let word = encode(&event);
        let limit = self.bus.limit();
        if word.len() > limit {
            // The limit was looked at before the run; this is a server that has changed.
            let why = format!("its seconds have {} bytes, and the bus takes at most {limit}", word.len());
            self.send_event(&Event::Gone { why }).await;
            self.assignment = None;
            return;
        }
        self.send_bytes(word).await;
        if over {
            self.assignment = None;
        }
    }

    /// Sends the final message, and keeps it until its receipt is confirmed.
    async fn insist(&mut self, event: &Event) {
        let word = encode(event);
        if let Some(assignment) = &mut self.assignment {
            assignment.end = Some((word.clone(), Moment::now() + INSISTING));
        }
        self.send_bytes(word).await;
    }

    async fn receive(&mut self, message: &Message) {
        let Some(order) = decode::<Order>(&message.payload) else { return };
        let answer = match order {
            Order::RollCall { from } => return self.answer_call(&from).await,
            Order::TurnedAway { why } => {
                tracing::warn!(%why, "rejected by a coordinator");
                return;
            }
            Order::Clock => Reply::Clock(Moment::now().nanos()),
            Order::Enlist { by } => self.enlist(by),
            Order::Prepare { by, run, plan, share, until_ns } => {
                self.prepare(by, run, *plan, share, Moment::from_nanos(until_ns))
            }
            Order::Go { run, start_ns } => self.go(&run, Moment::from_nanos(start_ns)),
            Order::Lease { by, run, until_ns } => {
                self.renew(&by, &run, Moment::from_nanos(until_ns));
                return;
            }
            Order::Stop { run } => {
                if let Some(assignment) = self.assignment.as_ref().filter(|assignment| assignment.run == run)
                {
                    assignment.thread.stop();
                }
                return;
            }
            Order::Received { run } => {
                self.assignment = self
                    .assignment
                    .take()
                    .filter(|assignment| assignment.run != run || assignment.end.is_none());
                return;
            }
            Order::Dismiss { by } => return self.dismiss(&by),
        };
        if let Some(reply) = &message.reply
            && let Err(fault) = self.bus.publish(reply, encode(&answer)).await
        {
            tracing::warn!(%fault, "sending an answer to the coordinator failed");
        }
    }

    async fn answer_call(&self, from: &Caller) {
        let hello =
            Hello { name: self.name.clone(), identity: self.identity.clone(), busy: self.busy_for(&from.id) };
        let subject = self.subjects.events(&token(&from.id), HELLO, &self.id);
        if let Err(fault) = self.bus.publish(&subject, encode(&Event::Hello(hello))).await {
            tracing::warn!(%fault, "sending the answer to a call failed");
        }
    }

    /// The coordinator of this worker, if it is not `asker`.
    fn busy_for(&self, asker: &str) -> Option<String> {
        let held = self.held.as_ref().filter(|held| held.by.id != asker)?;
        let loading = self.assignment.as_ref().is_some_and(|assignment| assignment.end.is_none());
        (loading || Moment::now() < held.until).then(|| held.by.name.clone())
    }

    fn busy(&self, with: &str) -> Reply {
        let what = format!("worker {} works for {with}", self.name);
        Reply::No(ToolError::failed(what).hint("wait for that run's end, or start more workers"))
    }

    fn enlist(&mut self, by: Caller) -> Reply {
        if let Some(other) = self.busy_for(&by.id) {
            return self.busy(&other);
        }
        if let Some(why) = self.identity.differs(&by.identity) {
            return Reply::No(ToolError::failed(format!("worker {}: {why}", self.name)));
        }
        tracing::info!(coordinator = by.name, "enlisted");
        self.held = Some(Held { by, until: Moment::now() + LEASE });
        Reply::Yes
    }

    /// Takes an order of the coordinator that has enlisted this worker; `None` when another one has, meanwhile.
    fn hold(&mut self, by: &str) -> Option<()> {
        let held = self.held.as_mut().filter(|held| held.by.id == by)?;
        held.until = Moment::now() + LEASE;
        Some(())
    }

    fn prepare(&mut self, by: String, run: String, plan: Plan, share: Share, until: Moment) -> Reply {
        if self.hold(&by).is_none() {
            return match self.busy_for(&by) {
                Some(other) => self.busy(&other),
                None => Reply::No(ToolError::failed(format!("worker {} was restarted", self.name))),
            };
        }
        if let Some(assignment) =
            self.assignment.as_ref().filter(|assignment| assignment.begun && assignment.end.is_none())
        {
            let what = format!("worker {} has not ended run {} yet", self.name, assignment.run);
            return Reply::No(ToolError::failed(what));
        }
        // A run that has not begun is dropped: its coordinator has abandoned it.
        tracing::info!(run, share = share.index, of = share.of, "preparing");
        match ShareThread::begin(Arc::clone(&self.load), plan, share, Lease::new(until)) {
            Ok(thread) => {
                self.assignment = Some(Assignment { run, by, thread, begun: false, end: None });
                Reply::Yes
            }
            Err(error) => Reply::No(ToolError::failed(format!(
                "worker {}: make a thread for the load: {error}",
                self.name
            ))),
        }
    }

    fn go(&mut self, run: &str, start: Moment) -> Reply {
        let no = |what: &str| Reply::No(ToolError::failed(format!("worker {}: {what}", self.name)));
        let Some(assignment) = self.assignment.as_mut().filter(|assignment| assignment.run == run) else {
            return no("it no longer takes part in this run");
        };
        if Moment::now() > start {
            return no("the order to start came after the start");
        }
        assignment.begun = true;
        if assignment.thread.start(start) { Reply::Yes } else { no("it has started already") }
    }

    fn renew(&mut self, by: &str, run: &str, until: Moment) {
        let Some(held) = self.held.as_mut().filter(|held| held.by.id == by) else { return };
        // Extended from its end, and not from now: a renewal that waited while this process was stopped must not enlist it again.
        held.until = held.until.max(until.min(Moment::now() + LEASE));
        if let Some(assignment) =
            self.assignment.as_ref().filter(|assignment| assignment.by == by && assignment.run == run)
        {
            assignment.thread.lease.renew(until);
        }
    }

    fn dismiss(&mut self, by: &str) {
        if self.held.as_ref().is_some_and(|held| held.by.id == by) {
            tracing::info!("dismissed");
            self.held = None;
            self.assignment = None;
        }
    }

    /// Ends on a local request: stops the load first, then notifies the coordinator.
    async fn leave(&mut self) {
        if self.assignment.is_some() {
            self.send_event(&Event::Gone { why: "it was stopped on its own machine".into() }).await;
        }
        if let Some(assignment) = &mut self.assignment {
            assignment.thread.stop();
            let ended = async { while assignment.thread.news.recv().await.is_some() {} };
            if tokio::time::timeout(LEAVING, ended).await.is_err() {
                tracing::warn!("transactions in flight did not end in time");
            }
        }
        self.bus.flush().await;
    }
}

/// The next message of two feeds.
async fn next_of(calls: &mut Feed, orders: &mut Feed) -> Option<Message> {
    tokio::select! {
        message = calls.next() => message,
        message = orders.next() => message,
    }
}

/// The next news of a load; forever without one, or after its end.
async fn news_of(assignment: &mut Option<Assignment>) -> Option<News> {
    match assignment {
        Some(assignment) if assignment.end.is_none() => assignment.thread.news.recv().await,
        _ => std::future::pending().await,
    }
}
