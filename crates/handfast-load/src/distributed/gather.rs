//! Finds workers before a run.
//!
//! In: a coordinator's end of the bus. Out: workers that can take part, or why there are too few.

use handfast_text::units::counted;
use std::collections::BTreeMap;

use tokio::time::{Duration, interval, timeout_at};

use super::GATHERING;
use super::link::Link;
use super::protocol::{Event, HELLO, Hello, Order, Subjects, decode, encode};
use handfast_bus::Feed;
use handfast_report::ToolError;

/// Interval at which the call is repeated: workers may be starting at this moment.
const CALLING: Duration = Duration::from_millis(250);
/// Time for which more workers may answer, when enough have answered and some of them cannot take part.
const SETTLING: Duration = Duration::from_millis(500);

/// A worker that can take part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its token in subjects.
    pub(super) id: String,
    /// Its name for people, unique among these.
    pub(super) name: String,
}

/// Calls until `machines` workers can take part.
///
/// **Errors**: too few did in [`GATHERING`], or enough answered and cannot all take part; with the names of all.
pub(super) async fn call(link: &Link, feed: &mut Feed, machines: u32) -> Result<Vec<Found>, ToolError> {
    let required = usize::try_from(machines).unwrap_or(usize::MAX);
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
                    receive_hello(link, &mut answered, worker, hello).await;
                }
            }
            _ = calls.tick() => {
                if let Err(fault) = link.bus.publish(&link.subjects.all(), order.clone()).await {
                    tracing::debug!(%fault, "sending a call failed");
                }
            }
            _ = timeout_at(settled, std::future::pending::<()>()) => break,
        }
        if usable(link, &answered).count() >= required {
            return Ok(choose(link, &answered, required));
        }
        if answered.len() >= required {
            settled = settled.min(tokio::time::Instant::now() + SETTLING);
        }
    }
    Err(too_few(link, &answered, machines))
}

async fn receive_hello(link: &Link, answered: &mut BTreeMap<String, Hello>, worker: &str, hello: Hello) {
    let why = hello.identity.differs(&link.me.identity);
    let first = answered.insert(worker.to_owned(), hello).is_none();
    if let (Some(why), true) = (why, first) {
        let why = ToolError::failed(format!("take part in a run of {}: {why}", link.me.name))
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

/// The first ones of them, in the order of their names.
fn choose(link: &Link, answered: &BTreeMap<String, Hello>, required: usize) -> Vec<Found> {
    let mut found: Vec<Found> = usable(link, answered)
        .map(|(id, hello)| Found { id: id.clone(), name: hello.name.clone() })
        .collect();
    found.sort_by(|one, other| (&one.name, &one.id).cmp(&(&other.name, &other.id)));
    found.truncate(required);
    let names: Vec<String> = found.iter().map(|found| found.name.clone()).collect();
    for found in &mut found {
        if names.iter().filter(|name| **name == found.name).count() > 1 {
            found.name.clone_from(&found.id);
        }
    }
    found
}

fn too_few(link: &Link, answered: &BTreeMap<String, Hello>, machines: u32) -> ToolError {
    let ready: Vec<&str> = usable(link, answered).map(|(_, hello)| hello.name.as_str()).collect();
    let mut what = format!(
        "gather {} on {}: {} can take part{}{}",
        counted(machines.into(), "worker"),
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
    ToolError::failed(what).hint(hint)
}
