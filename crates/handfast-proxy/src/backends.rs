//! The backends of a route as one thread sees them: which there are, which are up, which is next.
//!
//! In: targets and what their names resolve to. Out: the order in which a connection tries them.
//!
//! Whether a backend is up is known by all threads together (`standing.rs`): what one of them finds out spares the
//! others' clients. Connections are counted by each thread for itself: they are spread evenly over the threads.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::fault::{Cause as SocketCause, Fault};

use crate::cause::Cause;
use crate::config::model::{Address, Balance};
use crate::metrics::BackendMetrics;
use crate::reason::Side;
use crate::standing::{Patience, Standing, State, Trial};

/// One address that can be dialled.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) name: Rc<str>,
    pub(crate) address: Address,
    pub(crate) standing: Arc<Standing>,
    metrics: Arc<BackendMetrics>,
    connections: Cell<u32>,
}

impl Endpoint {
    pub(crate) fn new(
        name: &str,
        address: Address,
        standing: Arc<Standing>,
        metrics: Arc<BackendMetrics>,
    ) -> Rc<Self> {
        Rc::new(Self { name: name.into(), address, standing, metrics, connections: Cell::new(0) })
    }
}

/// What a connection is to do next.
#[derive(Debug)]
pub(crate) enum Pick {
    /// Dial this one.
    Dial(Attempt),
    /// There is only this one left, and another connection tries it out: wait for what comes of that.
    Wait(Rc<Endpoint>),
    /// There is none left.
    Nothing,
}

/// An attempt to connect. The trial of a backend that is down ends with it, whatever becomes of the connection, its task
/// or its thread.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) endpoint: Rc<Endpoint>,
    trial: Option<Trial>,
}

impl Attempt {
    /// A connection stands; it counts until the returned value is dropped.
    pub(crate) fn connected(self, after: Duration) -> InUse {
        let endpoint = Rc::clone(&self.endpoint);
        endpoint.standing.connected();
        endpoint.connections.set(endpoint.connections.get() + 1);
        endpoint.metrics.connected(after);
        InUse(endpoint)
    }

    /// Dialling failed.
    pub(crate) fn failed(self, fault: &Fault, patience: Patience) {
        self.endpoint.metrics.failed(fault.cause.into());
        if !is_ours(fault.cause) {
            let standing = &self.endpoint.standing;
            if let Some(marked) = standing.failed(fault, self.trial, patience) {
                standing.say_down(fault, &Cause::from(fault.cause).sentence(Side::Backend), marked);
            }
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(trial) = self.trial {
            self.endpoint.standing.give_back(trial);
        }
    }
}

/// Whether it is this machine that cannot dial, which says nothing about the backend.
fn is_ours(cause: SocketCause) -> bool {
    matches!(cause, SocketCause::OutOfFiles | SocketCause::OutOfPorts | SocketCause::OutOfMemory)
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
    /// Names without an address: connections that found no endpoint at all failed for want of these.
    nameless: RefCell<Vec<Arc<BackendMetrics>>>,
    next: Cell<usize>,
}

impl Group {
    /// `first`: where round robin begins, different for each thread so that they do not all begin at the same backend.
    pub(crate) fn new(balance: Balance, first: usize) -> Self {
        Self { balance, endpoints: RefCell::default(), nameless: RefCell::default(), next: Cell::new(first) }
    }

    /// Replaces the endpoints, and the names that stand for none.
    pub(crate) fn set(&self, endpoints: Vec<Rc<Endpoint>>, nameless: Vec<Arc<BackendMetrics>>) {
        *self.endpoints.borrow_mut() = endpoints;
        *self.nameless.borrow_mut() = nameless;
    }

    pub(crate) fn endpoints(&self) -> Vec<Rc<Endpoint>> {
        self.endpoints.borrow().clone()
    }

    /// A connection ended because there was no endpoint to try.
    pub(crate) fn nothing_to_try(&self) {
        self.nameless.borrow().iter().for_each(|metrics| metrics.failed(Cause::NameNotResolved));
    }

    /// What to do next, other than with those that were tried.
    ///
    /// One that is down and whose pause has ended comes first, for one connection of the whole process. Then those that
    /// are up. When there is none of these left, the pause of the others is no reason to refuse a client: a guess at a
    /// failing backend is better than a certain refusal. But still one connection at a time makes that guess, and the
    /// others learn from it.
    pub(crate) fn pick(&self, now: Moment, tried: &[Rc<Endpoint>]) -> Pick {
        let endpoints = self.endpoints.borrow();
        let left = |endpoint: &&Rc<Endpoint>| !tried.iter().any(|tried| Rc::ptr_eq(tried, endpoint));
        let start = self.next.get() % endpoints.len().max(1);
        let turn = || endpoints.iter().cycle().skip(start).take(endpoints.len()).filter(left);
        let is_due = |endpoint: &&Rc<Endpoint>| matches!(endpoint.standing.state(), State::Down(until) if until <= now);
        if let Some(due) = turn().filter(is_due).find_map(try_out) {
            return Pick::Dial(due);
        }
        let up = || turn().filter(|endpoint| endpoint.standing.state() == State::Up);
        let picked = match self.balance {
            Balance::RoundRobin => up().next(),
            Balance::LeastConnections => up().min_by_key(|endpoint| endpoint.connections.get()),
        };
        if let Some(picked) = picked {
            let place = endpoints.iter().position(|endpoint| Rc::ptr_eq(endpoint, picked)).unwrap_or(start);
            self.next.set(place + 1);
            return Pick::Dial(Attempt { endpoint: Rc::clone(picked), trial: None });
        }
        match turn().find_map(try_out) {
            Some(attempt) => Pick::Dial(attempt),
            None => turn().next().map_or(Pick::Nothing, |endpoint| Pick::Wait(Rc::clone(endpoint))),
        }
    }
}

/// The trial of a backend, if it is to be had.
fn try_out(endpoint: &Rc<Endpoint>) -> Option<Attempt> {
    let trial = endpoint.standing.try_out()?;
    Some(Attempt { endpoint: Rc::clone(endpoint), trial: Some(trial) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Registry;
    use crate::standing::Standings;
    use handfast_net::fault::Operation;

    const PATIENCE: Patience = Patience { failures: 3, pause: Duration::from_secs(10) };

    /// What as many threads have of the same backends.
    fn groups<const THREADS: usize>(balance: Balance, names: &[&str]) -> [Group; THREADS] {
        let (registry, standings) = (Registry::new(), Standings::new("test"));
        std::array::from_fn(|thread| {
            let service = registry.thread(&format!("worker-{thread}")).service("test");
            let group = Group::new(balance, 0);
            let endpoint = |name: &&str| {
                let address = Address::Unix("/nowhere".into());
                Endpoint::new(name, address, standings.of(name), service.backend(name, false))
            };
            group.set(names.iter().map(endpoint).collect(), Vec::new());
            group
        })
    }

    fn group(balance: Balance, names: &[&str]) -> Group {
        let [group] = groups(balance, names);
        group
    }

    fn dial(group: &Group, now: Moment, tried: &[Rc<Endpoint>]) -> Attempt {
        match group.pick(now, tried) {
            Pick::Dial(attempt) => attempt,
            other => panic!("{other:?}"),
        }
    }

    /// Backends of so many connections that come one after the other and have no outcome yet.
    fn picks(group: &Group, now: Moment, count: usize) -> Vec<Attempt> {
        (0..count).map(|_| dial(group, now, &[])).collect()
    }

    fn names(attempts: &[Attempt]) -> Vec<&str> {
        attempts.iter().map(|attempt| &*attempt.endpoint.name).collect()
    }

    fn fail(group: &Group, name: &str, times: usize) {
        for _ in 0..times {
            let endpoint =
                group.endpoints().into_iter().find(|known| *known.name == *name).expect("it is there");
            let fault = Fault::own(Operation::Connect, SocketCause::Refused);
            Attempt { endpoint, trial: None }.failed(&fault, PATIENCE);
        }
    }

    #[test]
    fn round_robin_takes_turns() {
        let group = group(Balance::RoundRobin, &["a", "b", "c"]);
        assert_eq!(names(&picks(&group, Moment::now(), 6)), ["a", "b", "c", "a", "b", "c"]);
    }

    #[test]
    fn least_connections_fills_up_the_emptiest() {
        let group = group(Balance::LeastConnections, &["a", "b"]);
        let now = Moment::now();
        let busy = dial(&group, now, &[]).connected(Duration::ZERO);
        for _ in 0..3 {
            assert_ne!(dial(&group, now, &[]).endpoint.name, busy.0.name);
        }
    }

    #[test]
    fn a_backend_that_one_thread_finds_failing_is_spared_by_all() {
        let [one, other] = groups(Balance::RoundRobin, &["a", "b"]);
        fail(&one, "a", 2);
        fail(&other, "a", 1);
        for group in [&one, &other] {
            assert_eq!(names(&picks(group, Moment::now(), 4)), ["b", "b", "b", "b"]);
        }
    }

    #[test]
    fn a_retry_is_one_connection_until_it_has_an_outcome() {
        let [one, other] = groups(Balance::RoundRobin, &["a", "b"]);
        fail(&one, "a", 3);
        let later = Moment::now() + Duration::from_secs(11);
        let trial = dial(&one, later, &[]);
        assert_eq!(&*trial.endpoint.name, "a", "the pause is over");
        // However long it takes.
        for now in [later, later + Duration::from_secs(5), later + Duration::from_secs(3_600)] {
            for group in [&one, &other] {
                assert_eq!(names(&picks(group, now, 3)), ["b", "b", "b"]);
            }
        }
        drop(trial.connected(Duration::ZERO));
        assert!(names(&picks(&other, later, 2)).contains(&"a"), "it is up for everybody");
    }

    #[test]
    fn a_trial_whose_connection_vanishes_is_the_next_ones() {
        let [one, other] = groups(Balance::RoundRobin, &["a", "b"]);
        fail(&one, "a", 3);
        let later = Moment::now() + Duration::from_secs(11);
        drop(dial(&one, later, &[]));
        assert_eq!(names(&picks(&other, later, 3)), ["a", "b", "b"]);
    }

    #[test]
    fn when_none_is_up_one_connection_tries_and_the_others_wait_for_it() {
        let [one, other] = groups(Balance::RoundRobin, &["a"]);
        fail(&one, "a", 3);
        let now = Moment::now();
        let guess = dial(&one, now, &[]);
        assert!(matches!(other.pick(now, &[]), Pick::Wait(_)));
        let a = Rc::clone(&guess.endpoint);
        guess.failed(&Fault::own(Operation::Connect, SocketCause::Refused), PATIENCE);
        assert!(matches!(one.pick(now, &[a]), Pick::Nothing), "not twice by the same connection");
        assert!(dial(&other, now, &[]).trial.is_some(), "the pause is no reason to refuse a client");
    }
}
