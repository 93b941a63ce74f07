//! Connections that are kept, the one that is taken, and the time at which they are closed.

use crate::backends::tunnel::DialAddress;
use std::sync::Arc;
use std::time::SystemTime;

use handfast_config::model::Address;
use handfast_net::engine::{Priority, spawn, yield_now};
use handfast_observe::metrics::Registry;

use super::*;
use crate::backends::names::Addresses;
use crate::backends::standing::Standings;
use crate::state::{self, CarriedOver};
use crate::testing::{Folder, on_engine};
use crate::worker::services::{Chosen, ThreadState};

const IDLE: Duration = Duration::from_secs(30);
const BOUNDS: Bounds = Bounds { connections: 3, idle: IDLE };

/// A connection of the test: what is done to it goes into the list.
#[derive(Debug)]
struct Tested {
    number: u32,
    is_idle: bool,
    done: Rc<RefCell<Vec<String>>>,
}

impl Tested {
    fn note(&self, what: &str) {
        self.done.borrow_mut().push(format!("{what} {}", self.number));
    }
}

impl Connection for Tested {
    fn release(&self) {
        self.note("release");
    }

    fn is_idle(&mut self, _: &mut Scratch) -> bool {
        self.is_idle
    }

    fn close(self: Box<Self>, _: &mut Scratch) {
        self.note("close");
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// One that several requests share: its number, and whether it was asked to end.
#[derive(Debug, Default)]
struct Shared(u32, Cell<bool>);

impl SharedConnection for Shared {
    fn retire(&self) {
        self.1.set(true);
    }
}

/// A pool, and what happened to its connections.
struct Bench {
    pool: Pool,
    done: Rc<RefCell<Vec<String>>>,
    scratch: RefCell<Scratch>,
}

impl Bench {
    fn new() -> Self {
        Self { pool: Pool::default(), done: Rc::default(), scratch: RefCell::new(Scratch::new(64)) }
    }

    fn keep(&self, identity: &Identity, number: u32, now: Moment) {
        self.keep_as(identity, number, true, now);
    }

    fn keep_as(&self, identity: &Identity, number: u32, is_idle: bool, now: Moment) {
        let connection = Tested { number, is_idle, done: Rc::clone(&self.done) };
        self.pool.keep(identity, Box::new(connection), BOUNDS, now, &mut self.scratch.borrow_mut());
    }

    fn take(&self, identity: &Identity, now: Moment) -> Option<u32> {
        let taken = self.pool.take::<Tested>(identity, now, &mut self.scratch.borrow_mut());
        taken.map(|connection| connection.number)
    }

    /// Returns the actions since the last call.
    fn done(&self) -> String {
        std::mem::take(&mut *self.done.borrow_mut()).join(", ")
    }
}

fn at(seconds: u64) -> Moment {
    Moment::from_nanos(1) + Duration::from_secs(seconds)
}

fn identity(name: &str) -> Identity {
    let metrics = Registry::new().thread("worker-0").service("web").backend(name, false);
    let address = Address::Unix("/nowhere".into());
    Identity {
        endpoint: Endpoint::new(
            DialAddress::of(name.to_string(), &address, false),
            Standings::new("web").of(name),
            metrics,
        ),
        tls: None,
    }
}

/// TLS settings as a configuration makes them.
fn tls() -> Rc<BackendTlsClient> {
    let folder = Folder::new();
    let text = "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\n\
                certificate = \"web.pem\"\nbackend = \"127.0.0.1:1\"\nbackend-tls = { ca = \"web.pem\" }\n";
    let (config, _) = folder.configure_as(text, &[]).read(false).expect("it is right");
    let built = state::build(config, 1, None, &mut CarriedOver::with_threads(1), SystemTime::now());
    let shared = Arc::new(built.state.expect("it can serve"));
    let metrics = Registry::new().thread("worker-0");
    let state = ThreadState::new(shared, None, &metrics, &Addresses::default(), 0).expect("TLS is set up");
    Rc::clone(state.services[0].dialler(Chosen::SERVICE).expect("it has one"))
}

#[test]
fn the_newest_connection_is_taken_and_each_one_once() {
    let (bench, web) = (Bench::new(), identity("web:1"));
    (1..=3).for_each(|number| bench.keep(&web, number, at(0)));
    assert_eq!(bench.done(), "release 1, release 2, release 3", "their tasks are done with them");
    let taken: Vec<_> = (0..4).map(|_| bench.take(&web, at(1))).collect();
    assert_eq!(taken, [Some(3), Some(2), Some(1), None]);
    assert_eq!(bench.done(), "");
}

#[test]
fn no_more_are_kept_than_allowed_for_each_identity() {
    let (bench, web, other) = (Bench::new(), identity("web:1"), identity("web:2"));
    (1..=4).for_each(|number| bench.keep(&web, number, at(0)));
    bench.keep(&other, 5, at(0));
    assert_eq!(bench.done(), "release 1, release 2, release 3, close 4, release 5");
    assert_eq!(bench.take(&web, at(1)), Some(3));
    bench.keep(&web, 6, at(1));
    assert_eq!(bench.done(), "release 6", "there is room again");
}

#[test]
fn a_connection_whose_backend_does_anything_but_wait_is_closed() {
    let (bench, web) = (Bench::new(), identity("web:1"));
    for (number, is_idle) in [(1, true), (2, false), (3, false)] {
        bench.keep_as(&web, number, is_idle, at(0));
    }
    bench.done();
    assert_eq!(bench.take(&web, at(1)), Some(1));
    assert_eq!(bench.done(), "close 3, close 2");
}

#[test]
fn a_connection_whose_time_has_come_is_closed() {
    let (bench, web) = (Bench::new(), identity("web:1"));
    bench.keep(&web, 1, at(0));
    bench.keep(&web, 2, at(1));
    bench.done();
    assert_eq!(bench.take(&web, at(30)), Some(2));
    assert_eq!(bench.take(&web, at(30)), None);
    assert_eq!(bench.done(), "close 1");
}

#[test]
fn a_closed_pool_keeps_nothing() {
    let (bench, web, other) = (Bench::new(), identity("web:1"), identity("web:2"));
    bench.keep(&web, 1, at(0));
    bench.keep(&other, 2, at(0));
    bench.done();
    bench.pool.close(&mut bench.scratch.borrow_mut());
    let mut closed: Vec<_> = std::mem::take(&mut *bench.done.borrow_mut());
    closed.sort();
    assert_eq!(closed, ["close 1", "close 2"]);
    bench.keep(&web, 3, at(0));
    assert_eq!(bench.done(), "close 3");
    assert_eq!(bench.take(&web, at(1)), None);
}

#[test]
fn connections_that_no_configuration_uses_are_closed() {
    let (bench, web, removed) = (Bench::new(), identity("web:1"), identity("web:2"));
    let [stays, ends] = [Rc::new(Shared::default()), Rc::new(Shared::default())];
    for (identity, number, shared) in [(&web, 1, &stays), (&removed, 2, &ends)] {
        bench.keep(identity, number, at(0));
        bench.pool.share(identity, Rc::clone(shared) as Rc<dyn SharedConnection>);
    }
    bench.done();
    bench.pool.keep_only(|identity| identity.is_same_as(&web), &mut bench.scratch.borrow_mut());
    assert_eq!(bench.done(), "close 2");
    assert_eq!([stays.1.get(), ends.1.get()], [false, true]);
    assert_eq!([bench.take(&removed, at(1)), bench.take(&web, at(1))], [None, Some(1)]);
    let is_found =
        |identity| bench.pool.find_shared(identity, |_: &Shared| false, |_: &Shared| true).is_some();
    assert_eq!([is_found(&web), is_found(&removed)], [true, false]);
}

#[test]
fn a_connection_serves_the_same_endpoint_with_the_same_tls_alone() {
    let (bench, web, one, other) = (Bench::new(), identity("web:1"), tls(), tls());
    let secured = |tls: &Rc<BackendTlsClient>| Identity { tls: Some(Rc::clone(tls)), ..web.clone() };
    // The same name, as after a reload.
    let namesake = identity("web:1");
    let identities = [web.clone(), secured(&one), secured(&other), namesake];
    for (number, identity) in (0..).zip(&identities) {
        assert_eq!(bench.take(identity, at(1)), None, "{number}");
        bench.keep(identity, number, at(0));
    }
    for (number, identity) in (0..).zip(&identities) {
        assert_eq!(bench.take(identity, at(1)), Some(number));
        let same: Vec<_> = identities.iter().map(|known| known.is_same_as(identity)).collect();
        assert_eq!(same.iter().filter(|same| **same).count(), 1, "{number}: {same:?}");
    }
}

#[test]
fn a_shared_connection_is_found_while_it_lives_and_has_room() {
    let (bench, web, other) = (Bench::new(), identity("web:1"), identity("web:2"));
    for number in 1..=3_u32 {
        bench.pool.share(&web, Rc::new(Shared(number, Cell::default())));
    }
    let find = |identity: &Identity, over: &[u32], full: &[u32]| {
        let is_over = |Shared(number, _): &Shared| over.contains(number);
        let found =
            bench.pool.find_shared(identity, is_over, |Shared(number, _): &Shared| !full.contains(number));
        found.map(|found| found.0)
    };
    assert_eq!(find(&web, &[], &[]), Some(1));
    assert_eq!(find(&web, &[], &[1]), Some(2));
    assert_eq!(find(&web, &[], &[1, 2, 3]), None);
    assert_eq!(find(&other, &[], &[]), None);
    assert_eq!(find(&web, &[1], &[2]), Some(3));
    assert_eq!(find(&web, &[], &[]), Some(2), "what is over is forgotten");
    assert_eq!(find(&web, &[2, 3], &[]), None);
}

#[test]
fn the_sweeper_waits_for_the_first_connection_and_closes_what_cannot_serve() {
    on_engine(|| async {
        let (bench, web) = (Rc::new(Bench::new()), identity("web:1"));
        let swept = Rc::clone(&bench);
        spawn(Priority::Flow, async move {
            swept.pool.wait_until_used().await;
            swept.pool.sweep(&mut swept.scratch.borrow_mut());
            swept.done.borrow_mut().push("swept".into());
        });
        yield_now().await;
        assert_eq!(bench.done(), "", "there is nothing to sweep");
        let now = engine::now();
        bench.keep(&web, 1, now);
        bench.keep_as(&web, 2, false, now);
        bench.keep(&web, 3, Moment::from_nanos(0));
        bench.done();
        while bench.done.borrow().last().is_none_or(|last| last != "swept") {
            yield_now().await;
        }
        assert_eq!(bench.done(), "close 2, close 3, swept");
        assert_eq!(bench.take(&web, now), Some(1));
    });
}
