//! The backends of a route as one thread sees them: which there are, which are set aside, which is next.
//!
//! In: targets and what their names resolve to. Out: the order in which a connection tries them.
//!
//! Each thread keeps its own view: with evenly spread connections it is the same everywhere, and the path touches no
//! memory of other cores. A backend that fails is found out by each thread with the connections that it tries there,
//! which are then served by another backend.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::clock::Moment;

use crate::config::model::{Address, Balance};
use crate::metrics::BackendMetrics;

/// One address that can be dialled.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: Rc<str>,
    pub(crate) address: Address,
    pub(crate) metrics: Arc<BackendMetrics>,
    connections: Cell<u32>,
    failures: Cell<u32>,
    /// Set aside until then; the first connection after it is the trial.
    aside_until: Cell<Option<Moment>>,
}

impl Endpoint {
    pub(crate) fn new(name: &str, address: Address, metrics: Arc<BackendMetrics>) -> Rc<Self> {
        Rc::new(Self {
            name: name.into(),
            address,
            metrics,
            connections: Cell::new(0),
            failures: Cell::new(0),
            aside_until: Cell::new(None),
        })
    }

    /// A connection stands; it counts until the returned value is dropped.
    pub(crate) fn connected(self: &Rc<Self>, after: Duration) -> InUse {
        self.failures.set(0);
        if self.aside_until.take().is_some() {
            self.metrics.set_aside(false);
            tracing::info!(backend = %self.name, "backend is back");
        }
        self.connections.set(self.connections.get() + 1);
        self.metrics.connected(after);
        InUse(Rc::clone(self))
    }

    /// Dialling failed.
    pub(crate) fn failed(&self, now: Moment, limit: u32, retry: Duration) {
        self.metrics.failed();
        self.failures.set(self.failures.get().saturating_add(1));
        if self.failures.get() >= limit && self.aside_until.replace(Some(now + retry)).is_none() {
            self.metrics.set_aside(true);
            tracing::warn!(
                backend = %self.name, failures = self.failures.get(), "backend is set aside for {retry:?}"
            );
        }
    }
}

/// A standing connection to an endpoint.
#[derive(Debug)]
pub(crate) struct InUse(Rc<Endpoint>);

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
        self.0.metrics.disconnected();
    }
}

/// The endpoints of one route.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) balance: Balance,
    endpoints: RefCell<Vec<Rc<Endpoint>>>,
    next: Cell<usize>,
}

impl Group {
    /// `first`: where round robin begins, different for each thread so that they do not all begin at the same backend.
    pub(crate) fn new(balance: Balance, first: usize) -> Self {
        Self { balance, endpoints: RefCell::default(), next: Cell::new(first) }
    }

    /// Replaces the endpoints. Those that stay keep their standing: `known` are the ones of before.
    pub(crate) fn set(&self, endpoints: Vec<Rc<Endpoint>>) {
        *self.endpoints.borrow_mut() = endpoints;
    }

    pub(crate) fn endpoints(&self) -> Vec<Rc<Endpoint>> {
        self.endpoints.borrow().clone()
    }

    /// The endpoint to try next, other than those tried; `None` when there is none left.
    ///
    /// Healthy ones come first. One that is set aside is tried when its time has come, by one connection, or when
    /// nothing else is left: a guess at a failing backend is better than a certain refusal.
    pub(crate) fn pick(&self, now: Moment, tried: &[Rc<Endpoint>]) -> Option<Rc<Endpoint>> {
        let endpoints = self.endpoints.borrow();
        let left = |endpoint: &&Rc<Endpoint>| !tried.iter().any(|tried| Rc::ptr_eq(tried, endpoint));
        let start = self.next.get() % endpoints.len().max(1);
        let turn = || endpoints.iter().cycle().skip(start).take(endpoints.len()).filter(left);
        if let Some(due) =
            turn().find(|endpoint| endpoint.aside_until.get().is_some_and(|until| until <= now))
        {
            // One at a time: until this trial has ended, the others stay with the healthy ones.
            due.aside_until.set(Some(now + Duration::from_secs(1)));
            return Some(Rc::clone(due));
        }
        let healthy = || turn().filter(|endpoint| endpoint.aside_until.get().is_none());
        let picked = match self.balance {
            Balance::RoundRobin => healthy().next(),
            Balance::LeastConnections => healthy().min_by_key(|endpoint| endpoint.connections.get()),
        };
        let picked = picked.or_else(|| turn().next())?;
        let place = endpoints.iter().position(|endpoint| Rc::ptr_eq(endpoint, picked)).unwrap_or(start);
        self.next.set(place + 1);
        Some(Rc::clone(picked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;

    fn group(balance: Balance, names: &[&str]) -> Group {
        let registry = Registry::new();
        let service = registry.thread("worker-0").service("test");
        let group = Group::new(balance, 0);
        let address = Address::Unix("/nowhere".into());
        group.set(
            names
                .iter()
                .map(|name| Endpoint::new(name, address.clone(), service.backend(name, false)))
                .collect(),
        );
        group
    }

    fn picks(group: &Group, now: Moment, count: usize) -> Vec<String> {
        (0..count).filter_map(|_| group.pick(now, &[])).map(|endpoint| endpoint.name.to_string()).collect()
    }

    #[test]
    fn round_robin_takes_turns() {
        let group = group(Balance::RoundRobin, &["a", "b", "c"]);
        assert_eq!(picks(&group, Moment::from_nanos(0), 6), ["a", "b", "c", "a", "b", "c"]);
    }

    #[test]
    fn least_connections_fills_up_the_emptiest() {
        let group = group(Balance::LeastConnections, &["a", "b"]);
        let now = Moment::from_nanos(0);
        let busy = group.pick(now, &[]).expect("one").connected(Duration::ZERO);
        for _ in 0..3 {
            assert_ne!(group.pick(now, &[]).expect("one").name, busy.0.name);
        }
    }

    #[test]
    fn a_failing_backend_is_set_aside_and_tried_again_once() {
        let group = group(Balance::RoundRobin, &["a", "b"]);
        let (start, retry) = (Moment::from_nanos(0), Duration::from_secs(10));
        let a = Rc::clone(&group.endpoints()[0]);
        (0..3).for_each(|_| a.failed(start, 3, retry));
        assert_eq!(picks(&group, start, 4), ["b", "b", "b", "b"]);
        let later = start + Duration::from_secs(11);
        assert_eq!(picks(&group, later, 3), ["a", "b", "b"], "one trial, the others stay with b");
        drop(a.connected(Duration::ZERO));
        assert_eq!(picks(&group, later, 2).len(), 2);
        assert!(picks(&group, later, 2).contains(&"a".into()), "it is back");
    }

    #[test]
    fn when_all_are_set_aside_one_is_tried_all_the_same() {
        let group = group(Balance::RoundRobin, &["a"]);
        let now = Moment::from_nanos(0);
        let a = Rc::clone(&group.endpoints()[0]);
        (0..3).for_each(|_| a.failed(now, 3, Duration::from_secs(10)));
        assert!(group.pick(now, &[]).is_some());
        assert!(group.pick(now, &[a]).is_none(), "but not twice by the same connection");
    }
}
