//! Who is there, and what their clocks say: the coordinator's questions before a run.
//!
//! In: a bus. Out: workers that can take part, and the difference between their clocks and ours.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use handfast_net::clock::Moment;
use tokio::task::JoinSet;
use tokio::time::{Duration, interval, timeout_at};

use super::bus::{Bus, Fault, Feed};
use super::protocol::{Answer, Caller, Event, HELLO, Hello, Order, Subjects, decode, encode};
use super::{ANSWER, GATHERING};
use crate::outcome::Refusal;
use crate::words::things;

/// How often the call is repeated: workers may be starting at this moment.
const CALLING: Duration = Duration::from_millis(250);
/// When enough have answered and some of them cannot take part, how long others may still come.
const SETTLING: Duration = Duration::from_millis(500);
/// Questions about the time to one worker.
const SAMPLES: u32 = 32;
/// No more of them after this time: what lies behind slow links is no better known by asking longer.
const SAMPLING: Duration = Duration::from_secs(2);

/// A coordinator's end of the bus.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) subjects: Subjects,
    pub(super) me: Caller,
    /// What starts a worker on this bus, as it is typed.
    pub(super) joining: String,
}

impl Link {
    /// Sends an order; whether it went is seen by what the worker does.
    pub(super) async fn order(&self, worker: &str, order: &Order) {
        if let Err(fault) = self.bus.publish(&self.subjects.orders(worker), encode(order)).await {
            tracing::debug!(%fault, worker, "an order did not go");
        }
    }

    /// Sends an order and waits for the answer.
    async fn ask_bytes(&self, worker: &str, order: Bytes) -> Result<Answer, Fault> {
        let answer = self.bus.request(&self.subjects.orders(worker), order, ANSWER).await?;
        decode(&answer).ok_or_else(|| Fault::Gone("the answer makes no sense".into()))
    }

    /// [`Link::ask_bytes`], of several workers at once. Answers stand in the order of the questions.
    pub(super) async fn ask_all(&self, questions: Vec<(String, Order)>) -> Vec<Result<Answer, Fault>> {
        self.each(
            questions,
            |link, (worker, order)| async move { link.ask_bytes(&worker, encode(&order)).await },
        )
        .await
    }

    /// Runs one future for each item at once, with results in the order of the items.
    async fn each<I, T, F, R>(&self, items: Vec<I>, make: F) -> Vec<Result<T, Fault>>
    where
        F: Fn(Self, I) -> R,
        R: Future<Output = Result<T, Fault>> + Send + 'static,
        T: Send + 'static,
    {
        let mut results: Vec<_> = items.iter().map(|_| Err(Fault::Gone("it did not run".into()))).collect();
        let mut tasks = JoinSet::new();
        for (index, item) in items.into_iter().enumerate() {
            let future = make(self.clone(), item);
            tasks.spawn(async move { (index, future.await) });
        }
        while let Some(done) = tasks.join_next().await {
            if let Ok((index, result)) = done {
                results[index] = result;
            }
        }
        results
    }

    /// The clocks of several workers, measured at once.
    pub(super) async fn clocks(&self, workers: Vec<String>) -> Vec<Result<Clock, Fault>> {
        self.each(workers, |link, worker| async move { link.clock(&worker).await }).await
    }

    async fn clock(&self, worker: &str) -> Result<Clock, Fault> {
        let order = encode(&Order::Clock);
        let begun = Moment::now();
        let mut best: Option<Clock> = None;
        for _ in 0..SAMPLES {
            let sent = Moment::now();
            let answer = self.ask_bytes(worker, order.clone()).await?;
            let received = Moment::now();
            let Answer::Clock(theirs) = answer else {
                return Err(Fault::Gone("the answer makes no sense".into()));
            };
            let clock = Clock::of(sent, Moment::from_nanos(theirs), received);
            best = Some(best.map_or(clock, |best| if clock.error_ns < best.error_ns { clock } else { best }));
            if received.since(begun) > SAMPLING {
                break;
            }
        }
        best.ok_or(Fault::Late(ANSWER))
    }
}

/// A worker's monotonic clock, seen from ours (Cristian's method: the answer was given in the middle of the round
/// trip, give or take half of it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    /// Its clock minus ours.
    pub(super) offset_ns: i64,
    /// How far that may be off.
    pub(super) error_ns: u64,
}

impl Clock {
    fn of(sent: Moment, theirs: Moment, received: Moment) -> Self {
        let round_trip = received.nanos().saturating_sub(sent.nanos());
        let middle = i128::from(sent.nanos()) + i128::from(round_trip / 2);
        let offset = i128::from(theirs.nanos()) - middle;
        let offset_ns = i64::try_from(offset).unwrap_or(if offset < 0 { i64::MIN } else { i64::MAX });
        Self { offset_ns, error_ns: round_trip.div_ceil(2) }
    }

    /// A moment of ours on its clock. **Units**: nanoseconds.
    pub(super) fn theirs(self, ours: Moment) -> u64 {
        ours.nanos().saturating_add_signed(self.offset_ns)
    }
}

/// A worker that can take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its token in subjects.
    pub(super) id: String,
    /// Its name for people, among these nobody else's.
    pub(super) name: String,
}

/// Calls until `machines` workers can take part.
///
/// **Errors**: too few did in [`GATHERING`], or enough answered and cannot all take part; with everybody's name.
pub(super) async fn call(link: &Link, feed: &mut Feed, machines: u32) -> Result<Vec<Found>, Refusal> {
    let wanted = usize::try_from(machines).unwrap_or(usize::MAX);
    let end = tokio::time::Instant::now() + GATHERING;
    let mut settled = end;
    let mut answered = BTreeMap::new();
    let mut calls = interval(CALLING);
    let order = encode(&Order::RollCall { from: link.me.clone() });
    loop {
        tokio::select! {
            message = feed.next() => {
                let Some(message) = message else { break };
                let Some((HELLO, worker)) = Subjects::run_and_worker(&message.subject) else { continue };
                if let Some(Event::Hello(hello)) = decode(&message.payload) {
                    hear_hello(link, &mut answered, worker, hello).await;
                }
            }
            _ = calls.tick() => {
                if let Err(fault) = link.bus.publish(&link.subjects.all(), order.clone()).await {
                    tracing::debug!(%fault, "a call did not go");
                }
            }
            _ = timeout_at(settled, std::future::pending::<()>()) => break,
        }
        if usable(link, &answered).count() >= wanted {
            return Ok(choose(link, &answered, wanted));
        }
        if answered.len() >= wanted {
            settled = settled.min(tokio::time::Instant::now() + SETTLING);
        }
    }
    Err(too_few(link, &answered, machines))
}

async fn hear_hello(link: &Link, answered: &mut BTreeMap<String, Hello>, worker: &str, hello: Hello) {
    let why = hello.identity.differs(&link.me.identity);
    let first = answered.insert(worker.to_owned(), hello).is_none();
    if let (Some(why), true) = (why, first) {
        let why = Refusal::failed(format!("take part in a run of {}: {why}", link.me.name))
            .hint("install the same program on every machine");
        link.order(worker, &Order::TurnedAway { why }).await;
    }
}

/// Workers that can take part.
fn usable<'a>(
    link: &'a Link,
    answered: &'a BTreeMap<String, Hello>,
) -> impl Iterator<Item = (&'a String, &'a Hello)> {
    let fits = |hello: &Hello| hello.busy.is_none() && hello.identity.differs(&link.me.identity).is_none();
    answered.iter().filter(move |(_, hello)| fits(hello))
}

/// So many of them, in the order of their names.
fn choose(link: &Link, answered: &BTreeMap<String, Hello>, wanted: usize) -> Vec<Found> {
    let mut found: Vec<Found> = usable(link, answered)
        .map(|(id, hello)| Found { id: id.clone(), name: hello.name.clone() })
        .collect();
    found.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    found.truncate(wanted);
    let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
    for found in &mut found {
        if names.iter().filter(|name| **name == found.name).count() > 1 {
            found.name.clone_from(&found.id);
        }
    }
    found
}

fn too_few(link: &Link, answered: &BTreeMap<String, Hello>, machines: u32) -> Refusal {
    let ready: Vec<&str> = usable(link, answered).map(|(_, hello)| hello.name.as_str()).collect();
    let mut what = format!(
        "gather {} on {}: {} can take part{}{}",
        things(machines.into(), "worker"),
        link.bus.place(),
        ready.len(),
        if ready.is_empty() { "" } else { ": " },
        ready.join(", "),
    );
    let mut hint = format!("start them with `{}`", link.joining);
    for hello in answered.values() {
        if let Some(why) = hello.identity.differs(&link.me.identity) {
            what.push_str(&format!("; {} cannot: {why}", hello.name));
            hint = "install the same program on every machine".into();
        } else if let Some(other) = &hello.busy {
            what.push_str(&format!("; {} cannot: it works for {other}", hello.name));
        }
    }
    Refusal::failed(what).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_read_in_the_middle_of_the_round_trip() {
        let at = Moment::from_nanos;
        let clock = Clock::of(at(1_000), at(5_500), at(2_001));
        assert_eq!(clock, Clock { offset_ns: 4_000, error_ns: 501 });
        assert_eq!(clock.theirs(at(10)), 4_010);
        let behind = Clock::of(at(5_000), at(1_000), at(5_000));
        assert_eq!(behind, Clock { offset_ns: -4_000, error_ns: 0 });
        assert_eq!(behind.theirs(at(4_500)), 500);
        assert_eq!(behind.theirs(at(10)), 0, "a clock that began later than the moment");
    }
}
