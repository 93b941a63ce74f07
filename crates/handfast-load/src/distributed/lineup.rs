//! The workers of a coordinator: gathered once, kept over several runs, then dismissed.
//!
//! In: a [`Workers`]. Out: a [`Lineup`] that runs plans.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Duration;

use super::coordinator;
use super::gather;
use super::link::{Clock, Link};
use super::orders::{Member, Orders};
use super::protocol::{Caller, Order, Subjects, of_bus};
use super::share::{Load, TrueLoad};
use super::worker::{Worker, default_name, own_identity};
use super::{BusAddress, OnLost, Workers};
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::sample::Interval;
use handfast_bus::{Bus, Feed, Local, fresh_id};
use handfast_report::ToolError;

/// Name of the only worker of [`Workers::Local`].
const HERE: &str = "this machine";
/// The least that a server must take in one message. A second of nine full histograms has some hundred kilobytes, and
/// this is the default of servers.
const MIN_MESSAGE_LIMIT: usize = 1_048_576;
/// Between the order to begin and the beginning, in this process: threads are made meanwhile.
const LEAD_HERE: Duration = Duration::from_millis(500);
/// The same over a network.
const LEAD: Duration = Duration::from_secs(1);

/// Workers that have answered, and work for no other coordinator until they are dismissed.
///
/// Dropped without [`Lineup::dismiss`], they are free after [`super::LEASE`].
pub struct Lineup {
    link: Link,
    feed: Feed,
    members: Vec<Member>,
    lead: Duration,
    /// The worker of [`Workers::Local`]; ends with us.
    here: JoinSet<Result<(), ToolError>>,
}

impl Lineup {
    /// Gathers workers: this process, or a number of them on a bus; waits up to ten seconds for them.
    ///
    /// **Errors**: a bus that cannot be joined or is not safe to join; too few workers, with the names of those that
    /// answered and why others cannot take part.
    pub async fn gather(workers: &Workers) -> Result<Self, ToolError> {
        match workers {
            Workers::Local => Self::here(Arc::new(TrueLoad)).await,
            Workers::Nats { bus, machines } => {
                let subjects = Subjects::new(&bus.fleet)?;
                let me = Caller {
                    id: fresh_id().map_err(of_bus)?,
                    name: default_name(),
                    identity: own_identity().await?,
                };
                let joined =
                    handfast_bus::join(bus, &me.name, &subjects.inbox(&me.id)).await.map_err(of_bus)?;
                let joining = joining(bus, joined.place());
                Self::on(Link { bus: joined, subjects, me, joining }, *machines).await
            }
        }
    }

    /// This process alone, with this load.
    pub(super) async fn here(load: Arc<dyn Load>) -> Result<Self, ToolError> {
        let bus: Arc<dyn Bus> = Arc::new(Local::default());
        let (subjects, identity) = (Subjects::new("here")?, own_identity().await?);
        let id = "here".to_owned();
        let worker = Worker::new(Arc::clone(&bus), subjects.clone(), id, HERE.into(), identity.clone(), load);
        let mut here = JoinSet::new();
        // This worker gets no order to end: it is ended with the set.
        here.spawn(worker.serve(watch::channel(false).1));
        let me = Caller { id: fresh_id().map_err(of_bus)?, name: HERE.into(), identity };
        let mut lineup = Self::on(Link { bus, subjects, me, joining: "handfast load".into() }, 1).await?;
        lineup.here = here;
        lineup.lead = LEAD_HERE;
        Ok(lineup)
    }

    /// This number of workers on this bus.
    pub(super) async fn on(link: Link, machines: u32) -> Result<Self, ToolError> {
        if machines == 0 {
            return Err(ToolError::wrong_use("0 machines: expected at least 1"));
        }
        let (place, limit) = (link.bus.place(), link.bus.limit());
        if limit < MIN_MESSAGE_LIMIT {
            let what = format!(
                "use the bus {place}: it takes messages of {limit} bytes, expected {MIN_MESSAGE_LIMIT}"
            );
            return Err(ToolError::failed(what).hint("set `max_payload: 1MB` in the server's configuration"));
        }
        let subject = link.subjects.all_events(&link.me.id);
        let subscribed = link.bus.subscribe(&subject).await;
        let mut feed = subscribed
            .map_err(|fault| ToolError::failed(format!("subscribe on the bus {place}: {fault}")))?;
        let found = gather::call(&link, &mut feed, machines).await?;
        let members = found
            .into_iter()
            .map(|found| Member { id: found.id, name: found.name, clock: Clock::default() })
            .collect();
        let mut lineup = Self { link, feed, members, lead: LEAD, here: JoinSet::new() };
        if let Err(refusal) = lineup.enlist().await {
            lineup.dismiss().await;
            return Err(refusal);
        }
        Ok(lineup)
    }

    async fn enlist(&mut self) -> Result<(), ToolError> {
        let orders = Orders { link: &self.link };
        orders.all(&self.members, |_, _| Order::Enlist { by: self.link.me.clone() }).await?;
        orders.clocks(&mut self.members).await?;
        Ok(())
    }

    /// The workers, in the order of their numbers.
    pub fn workers(&self) -> Vec<String> {
        self.members.iter().map(|member| member.name.clone()).collect()
    }

    /// Runs a plan. `each_second` sees each merged second as soon as all have delivered it, or three seconds later;
    /// `stop` ends the run early.
    ///
    /// **Errors**: whatever keeps the run from beginning. Once it has begun there is an outcome, and `early_end` says
    /// what happened.
    ///
    /// **Cancel**: workers stop by themselves within [`super::LEASE`].
    pub async fn run(
        &mut self,
        plan: &Plan,
        on_lost: OnLost,
        each_second: &mut (dyn FnMut(&Interval) + Send),
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Outcome, ToolError> {
        let run =
            coordinator::Run::new(&self.link, &mut self.feed, &mut self.members, plan, on_lost, self.lead)?;
        run.conduct(each_second, stop).await
    }

    /// Sets the workers free.
    pub async fn dismiss(mut self) {
        for member in &self.members {
            self.link.order(&member.id, &Order::Dismiss { by: self.link.me.id.clone() }).await;
        }
        self.link.bus.flush().await;
        self.here.shutdown().await;
    }
}

impl std::fmt::Debug for Lineup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lineup")
            .field("bus", &self.link.bus.place())
            .field("workers", &self.workers())
            .finish()
    }
}

/// Command line that starts a worker of this fleet. Its user and password are not the coordinator's:
/// the file has the name that `handfast worker setup` gives it.
fn joining(bus: &BusAddress, place: &str) -> String {
    let default = BusAddress::new("");
    let mut typed = format!("handfast worker {place}");
    if bus.fleet != default.fleet {
        typed.push_str(&format!(" --fleet {}", bus.fleet));
    }
    if let Some(ca) = &bus.ca {
        typed.push_str(&format!(" --bus-ca {}", ca.display()));
    }
    if bus.credentials.is_some() {
        typed.push_str(" --bus-credentials worker.secret");
    }
    if bus.tls_first {
        typed.push_str(" --bus-tls-first");
    }
    typed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_is_started_with_what_its_bus_asks_for() {
        let mut bus = BusAddress::new("nats://me:secret@bus:4222");
        assert_eq!(joining(&bus, "nats://bus:4222"), "handfast worker nats://bus:4222");
        bus.fleet = "blue".into();
        bus.ca = Some("bus/ca.pem".into());
        bus.credentials = Some("bus/coordinator.secret".into());
        let typed =
            "handfast worker tls://bus:4222 --fleet blue --bus-ca bus/ca.pem --bus-credentials worker.secret";
        assert_eq!(joining(&bus, "tls://bus:4222"), typed);
        bus.tls_first = true;
        assert_eq!(joining(&bus, "tls://bus:4222"), format!("{typed} --bus-tls-first"));
    }
}
