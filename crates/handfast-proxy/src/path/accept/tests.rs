//! Accepting on real sockets of loopback: clients that are taken, that wait, that are refused, and the last ones in a queue.

use std::cell::Cell;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::time::{Instant, SystemTime};

use handfast_net::address::Address;
use handfast_net::fault::Operation;
use handfast_net::listen::{ListeningSocket, Sharing, listen};
use rustix::net::{Shutdown, shutdown};

use super::*;
use crate::admission::permits::{Pool, Share};
use crate::backends::names::Addresses;
use crate::state::{self, CarriedOver};
use crate::testing::{Folder, logged_lines, on_engine};
use crate::worker::context::Successor;
use crate::worker::services::ThreadState;
use handfast_config::model::AccessLog;
use handfast_observe::access_log;
use handfast_observe::metrics::{Registry, ServiceSnapshot, ThreadSnapshot};

/// Long enough for a busy machine; nothing waits for it when all is well.
const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A worker in miniature: one service, one listener on a free port.
struct Door {
    thread: Rc<WorkerContext>,
    registry: Arc<Registry>,
    pool: Arc<Pool>,
    id: ListenerId,
    port: u16,
    socket: Option<ListeningSocket>,
    folder: Folder,
}

impl Door {
    /// With this number of permits for the process, and `more` in the service's section; no task accepts yet.
    fn new(permits: usize, more: &str) -> Self {
        let (registry, folder) = (Registry::new(), Folder::new());
        let metrics = registry.thread("worker-0");
        let state = state_of(&folder, &metrics, "web", "127.0.0.1:1", more);
        let any = Address::Ip((Ipv4Addr::LOCALHOST, 0).into());
        let timeouts = state.services[0].model.limits.socket_timeouts();
        let (address, mut sockets) =
            listen(&any, 0, 1, timeouts, Sharing::Alone).expect("loopback has a free port");
        let Address::Ip(bound) = address else { panic!("it is TCP") };
        let log = access_log::start(&AccessLog::Off).expect("nothing to open").for_thread();
        let pool = Pool::new(permits, 1);
        let thread = WorkerContext::new(metrics, log, Share::new(&pool), state, None, None);
        let id = ListenerId::new("web", &Address::Ip((Ipv4Addr::LOCALHOST, 1).into()));
        Self { thread, registry, pool, id, port: bound.port(), socket: sockets.pop(), folder }
    }

    /// Accepts from now on.
    fn opened(mut self) -> Self {
        let socket = self.socket.take().expect("it is opened once");
        spawn(Priority::Flow, accept(socket.open(), self.id.clone(), Rc::clone(&self.thread)));
        self
    }

    /// Replaces the state by one with this service alone.
    fn install(&self, name: &str, listen: &str) {
        self.thread.install(state_of(&self.folder, &self.thread.metrics, name, listen, ""));
    }

    /// A client: its connection is in the kernel's queue when this returns.
    fn client(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, self.port).into(), TEST_TIMEOUT);
        let stream = stream.expect("there is a listener");
        stream.set_nonblocking(true).expect("it is a socket");
        stream
    }

    fn clients(&self, count: usize) -> Vec<TcpStream> {
        (0..count).map(|_| self.client()).collect()
    }

    fn service(&self) -> ServiceSnapshot {
        self.registry.snapshot().services.swap_remove(0)
    }

    fn worker(&self) -> ThreadSnapshot {
        self.registry.snapshot().threads.swap_remove(0)
    }

    fn waiting(&self, limit: Limit) -> u64 {
        self.service().waiting[limit.name()]
    }

    /// Waits for something that is about to happen.
    async fn until(&self, what: &str, has_happened: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !has_happened(self) {
            assert!(begun.elapsed() < TEST_TIMEOUT, "{what}: {:?}", self.service());
            sleep(Duration::from_millis(1)).await;
        }
    }
}

fn state_of(
    folder: &Folder,
    metrics: &handfast_observe::metrics::ThreadMetrics,
    name: &str,
    listen: &str,
    more: &str,
) -> Rc<ThreadState> {
    let text = format!(
        "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n[[service]]\nname = \"{name}\"\nlisten = \"{listen}\"\n\
         backend = \"127.0.0.1:9\"\ncertificate = \"web.pem\"\n{more}\n"
    );
    let (config, _) = folder.configure_as(&text, &[]).read(false).expect("it is right");
    let mut carried = CarriedOver::with_threads(1);
    let built = state::build(config, 1, None, &mut carried, SystemTime::now());
    let shared = Arc::new(built.state.expect("it can serve"));
    Rc::new(ThreadState::new(shared, None, metrics, &Addresses::default(), 0).expect("TLS is set up"))
}

/// Returns how a client's connection ended; `None` while it is open.
fn ended(client: &mut TcpStream) -> Option<ErrorKind> {
    match client.read(&mut [0; 16]) {
        Ok(0) => Some(ErrorKind::UnexpectedEof),
        Ok(_) => panic!("no side speaks before the client"),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => Some(error.kind()),
    }
}

#[test]
fn every_waiting_client_is_accepted_and_those_that_come_later() {
    on_engine(|| async {
        let door = Door::new(1_000, "");
        let _early = door.clients(3 * MAX_BATCH);
        let door = door.opened();
        door.until("all that waited", |door| door.thread.connections() == 3 * MAX_BATCH).await;
        let _late = door.clients(3);
        door.until("a later client", |door| door.service().accepted == 3 * MAX_BATCH as u64 + 3).await;
        assert!(door.thread.accepts(), "it goes on");
    });
}

#[test]
fn at_a_limit_clients_wait_and_each_end_makes_room_for_one() {
    for (limit, permits, more) in [(Limit::Process, 2, ""), (Limit::Service, 100, "max-connections = 2")] {
        on_engine(move || async move {
            let door = Door::new(permits, more);
            let mut clients = door.clients(4);
            let door = door.opened();
            door.until("two are in, two wait", |door| door.waiting(limit) == 2).await;
            assert_eq!((door.thread.connections(), door.service().accepted), (2, 2));
            for (left, accepted) in [(1, 3), (0, 4)] {
                clients.remove(0);
                door.until("the next one is in", |door| door.service().accepted == accepted).await;
                door.until("one fewer waits", |door| door.waiting(limit) == left).await;
                assert_eq!(door.thread.connections(), 2);
            }
            // However many times it was reached in one go.
            assert_eq!(door.service().refused[limit.name()], 1);
            assert!(clients.iter_mut().all(|client| ended(client).is_none()), "no client was refused");
        });
    }
}

#[test]
fn a_permit_that_another_thread_gives_back_lets_a_client_in() {
    on_engine(|| async {
        let door = Door::new(1, "");
        let elsewhere = Share::new(&door.pool);
        let permit = elsewhere.take().expect("it is the first");
        let _client = door.client();
        let door = door.opened();
        door.until("it waits", |door| door.waiting(Limit::Process) == 1).await;
        drop(permit);
        door.until("it is in", |door| door.thread.connections() == 1).await;
    });
}

#[test]
fn a_listener_that_closes_accepts_every_client_in_its_queue() {
    on_engine(|| async {
        let door = Door::new(1_000, "").opened();
        door.until("it accepts", |door| door.thread.accepts()).await;
        let _clients = door.clients(3 * MAX_BATCH);
        // The acceptor runs after this task: it finds the phase changed and its queue full.
        door.thread.enter(WorkerPhase::Draining);
        door.until("it closes", |door| !door.thread.accepts()).await;
        assert_eq!(door.service().accepted, 3 * MAX_BATCH as u64);
        let refused = TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, door.port).into(), TEST_TIMEOUT);
        assert_eq!(refused.expect_err("it is closed").kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_program_that_ends_accepts_no_client_any_more() {
    on_engine(|| async {
        let door = Door::new(1_000, "").opened();
        door.until("it accepts", |door| door.thread.accepts()).await;
        let _client = door.client();
        door.thread.enter(WorkerPhase::Ending);
        door.until("it closes", |door| !door.thread.accepts()).await;
        assert_eq!(door.service().accepted, 0);
    });
}

#[test]
fn a_listener_that_a_reload_takes_away_serves_those_in_its_queue_by_what_is_left_of_its_service() {
    for (name, taken) in [("web", 5), ("mail", 0)] {
        on_engine(move || async move {
            let door = Door::new(1_000, "").opened();
            door.until("it accepts", |door| door.thread.accepts()).await;
            let _clients = door.clients(5);
            door.install(name, "127.0.0.1:2");
            door.until("it closes", |door| !door.thread.accepts()).await;
            assert_eq!(door.thread.connections(), taken, "{name}");
        });
    }
}

#[test]
fn while_it_gives_way_it_accepts_clients_that_had_begun_to_connect() {
    on_engine(|| async {
        let door = Door::new(1_000, "").opened();
        door.until("it accepts", |door| door.thread.accepts()).await;
        door.thread.set_successor(Successor::Beside(2));
        let begun = engine::now();
        door.thread.enter(WorkerPhase::Draining);
        // Its turn, and then a client whose connection is complete only now.
        engine::yield_now().await;
        let _client = door.client();
        door.until("it is in", |door| door.thread.connections() == 1).await;
        door.until("it closes", |door| !door.thread.accepts()).await;
        assert!(
            Moment::now().since(begun) >= IN_FLIGHT_TIMEOUT,
            "a segment that was lost comes a second later"
        );
    });
}

#[test]
fn a_program_that_ends_does_not_give_way_for_long() {
    on_engine(|| async {
        let door = Door::new(1_000, "").opened();
        door.until("it accepts", |door| door.thread.accepts()).await;
        door.thread.set_successor(Successor::Beside(2));
        let begun = engine::now();
        door.thread.enter(WorkerPhase::Draining);
        engine::yield_now().await;
        door.thread.enter(WorkerPhase::Ending);
        door.until("it closes", |door| !door.thread.accepts()).await;
        assert!(Moment::now().since(begun) < IN_FLIGHT_TIMEOUT, "it ends on request");
    });
}

#[test]
fn a_client_refused_by_address_is_reset_and_returns_its_permit() {
    on_engine(|| async {
        let door = Door::new(1, "refuse-clients = \"127.0.0.1\"").opened();
        for _ in 0..3 {
            let client = Cell::new(Some(door.client()));
            let is_reset = |_: &Door| {
                let mut stream = client.take().expect("it was put back");
                let end = ended(&mut stream);
                client.set(Some(stream));
                end == Some(ErrorKind::ConnectionReset)
            };
            door.until("it is reset", is_reset).await;
        }
        let service = door.service();
        let ends: Vec<_> = service.ends.iter().map(|end| (end.words(), end.count)).collect();
        assert_eq!(ends, [(["accept", "operator", "client-refused"], 3)]);
        assert_eq!((service.refused[Limit::Prefix.name()], door.thread.connections()), (3, 0));
    });
}

/// The client that the header names is checked, once it is known.
#[test]
fn a_proxy_in_front_is_not_refused_for_its_own_address() {
    on_engine(|| async {
        let more = "refuse-clients = \"127.0.0.1\"\nproxy-protocol = { accept-from = \"127.0.0.1\" }";
        let door = Door::new(10, more).opened();
        let _client = door.client();
        door.until("it is in", |door| door.thread.connections() == 1).await;
        assert_eq!(door.service().refused[Limit::Prefix.name()], 0);
    });
}

#[test]
fn a_failed_accept_is_retried_until_it_works() {
    on_engine(|| async {
        let door = Door::new(10, "");
        let socket = door.socket.as_ref().expect("no task accepts yet").descriptor();
        // accept(2) fails from here on, until it listens again.
        shutdown(&socket, Shutdown::Both).expect("it listens");
        let door = door.opened();
        let failures = |door: &Door| door.worker().accept_errors.values().sum::<u64>();
        let begun = Instant::now();
        door.until("it has failed four times", |door| failures(door) >= 4).await;
        assert!(
            begun.elapsed() >= RETRY_PAUSES.0 * 6,
            "ever more seldom: 50, 100 and 200 ms lie between them"
        );
        assert!(door.worker().backing_off);
        rustix::net::listen(&socket, 16).expect("no other has its address");
        // The kernel has chosen another port.
        let address = rustix::net::getsockname(&socket).expect("it is bound").try_into().expect("to TCP");
        let _client = TcpStream::connect_timeout(&address, TEST_TIMEOUT).expect("it listens again");
        door.until("it is in", |door| door.thread.connections() == 1).await;
        door.until("it is over", |door| !door.worker().backing_off).await;
    });
}

#[test]
fn pauses_double_to_the_longest_and_restart_when_some_were_accepted() {
    let mut back_off = BackOff::default();
    let pauses: Vec<_> = (0..6).map(|_| back_off.next_pause(RETRY_PAUSES.1).as_millis()).collect();
    assert_eq!(pauses, [50, 100, 200, 400, 800, 800]);
    back_off.reset_pause();
    assert_eq!(back_off.next_pause(RETRY_PAUSES.1), Duration::from_millis(50));
}

fn ago(time: Duration) -> Moment {
    let nanos = u64::try_from(time.as_nanos()).expect("seconds");
    Moment::from_nanos(Moment::now().nanos() - nanos)
}

/// One success between two failures is not the end of it: else a machine at its limit would say both, twice a second.
#[test]
fn a_failure_is_logged_once_and_is_over_when_it_has_not_come_back_for_a_while() {
    let door = Door::new(1, "");
    let fault = Fault::own(Operation::Accept, SocketCause::OutOfFiles);
    let mut back_off = BackOff::default();
    let listener = door.socket.expect("no task accepts").open();
    assert_eq!(back_off.failed(&door.thread, &door.id, &listener, &fault), RETRY_PAUSES.0);
    let worker = || door.registry.snapshot().threads.swap_remove(0);
    assert!(worker().backing_off);
    assert_eq!(worker().accept_errors["out-of-files"], 1);
    let (since, logged) = (back_off.since, back_off.logged);
    assert!(since.is_some() && logged.is_some());

    back_off.over(&door.thread, &door.id, &listener);
    assert!(!worker().backing_off);
    assert_eq!(back_off.since, since, "a success a moment later is not the end");
    assert_eq!(
        back_off.failed(&door.thread, &door.id, &listener, &fault),
        RETRY_PAUSES.0,
        "but the pause is a short one"
    );
    assert_eq!((back_off.since, back_off.logged), (since, logged), "it is the same failure, and was logged");

    back_off.logged = Some(ago(LOG_REPEAT_INTERVAL + FAILURE_QUIET_PERIOD));
    back_off.failed(&door.thread, &door.id, &listener, &fault);
    assert!(back_off.logged > logged, "it lasts, and is logged again");

    back_off.last = Some(ago(FAILURE_QUIET_PERIOD * 2));
    back_off.over(&door.thread, &door.id, &listener);
    assert_eq!((back_off.since, back_off.last), (None, None), "now it is over");
}

#[test]
fn a_limit_is_over_when_it_was_not_reached_for_a_while() {
    let door = Door::new(1, "");
    let listener = door.socket.expect("no task accepts").open();
    let service = Rc::clone(&door.thread.state().services[0]);
    let client = || {
        TcpStream::connect_timeout(&(Ipv4Addr::LOCALHOST, door.port).into(), TEST_TIMEOUT).expect("it waits")
    };
    let waiting = |limit: Limit| door.registry.snapshot().services[0].waiting[limit.name()];
    let mut back_off = BackOff::default();
    let _first = client();
    back_off.at_limit(&door.id, &listener, Limit::Process, &service);
    assert_eq!(waiting(Limit::Process), 1);
    // A task that waits, waits for one of them.
    let _second = client();
    back_off.at_limit(&door.id, &listener, Limit::Service, &service);
    assert_eq!((waiting(Limit::Process), waiting(Limit::Service)), (0, 2));
    let _third = client();
    back_off.over(&door.thread, &door.id, &listener);
    assert_eq!(waiting(Limit::Service), 3, "one success at a limit is room for one");
    assert!(back_off.waiting.is_some());
    back_off.waiting.as_mut().expect("clients wait").at = ago(FAILURE_QUIET_PERIOD * 2);
    back_off.over(&door.thread, &door.id, &listener);
    assert!(waiting(Limit::Service) == 0 && back_off.waiting.is_none());
}

#[test]
fn an_obstacle_is_logged_when_it_begins_and_when_it_is_over() {
    let door = Door::new(1, "");
    let listener = door.socket.expect("no task accepts").open();
    let service = Rc::clone(&door.thread.state().services[0]);
    // The bound port, not the written one.
    let begin = format!("accept on 127.0.0.1:{} (service web): ", door.port);
    let is = |expected: &[&str], lines: Vec<String>| {
        let expected: Vec<_> = expected.iter().map(|line| format!("{begin}{line}")).collect();
        let fits = |(line, expected): (&String, &String)| line.starts_with(expected);
        assert!(lines.len() == expected.len() && lines.iter().zip(&expected).all(fits), "{lines:?}");
    };
    let mut back_off = BackOff::default();
    let failed = |back_off: &mut BackOff, cause| {
        let fault = Fault::own(Operation::Accept, cause);
        logged_lines(|| _ = back_off.failed(&door.thread, &door.id, &listener, &fault))
    };
    let lines = failed(&mut back_off, SocketCause::OutOfFiles);
    assert!(lines[0].ends_with(
        "it works again; raise the limit on open files (ulimit -n, LimitNOFILE=) or lower max-connections"
    ));
    is(&["out-of-files; clients wait"], lines);
    is(&[], failed(&mut back_off, SocketCause::OutOfFiles));
    back_off.logged = Some(ago(LOG_REPEAT_INTERVAL * 2));
    let lines = failed(&mut back_off, SocketCause::OutOfMemory);
    assert!(lines[0].ends_with("; clients wait until it works again"), "no limit to raise: {lines:?}");
    is(&["out-of-memory"], lines);
    is(&[], logged_lines(|| back_off.over(&door.thread, &door.id, &listener)));
    back_off.last = Some(ago(FAILURE_QUIET_PERIOD * 2));
    is(&["works again after "], logged_lines(|| back_off.over(&door.thread, &door.id, &listener)));

    let mut at_limit = || logged_lines(|| back_off.at_limit(&door.id, &listener, Limit::Process, &service));
    is(&["max-connections of the process is reached"], at_limit());
    is(&[], at_limit());
    back_off.waiting.as_mut().expect("clients wait").at = ago(FAILURE_QUIET_PERIOD * 2);
    is(&["below the limit again"], logged_lines(|| back_off.over(&door.thread, &door.id, &listener)));
}

/// The number of clients that wait at a limit is a gauge: it must be zero again when the listener is closed.
#[test]
fn clients_that_wait_are_counted_while_they_do() {
    let registry = Registry::new();
    let metrics = registry.thread("worker-0").service("web");
    let counted = || registry.snapshot().services[0].waiting[Limit::Process.name()];
    let mut waiting = Waiting { metrics, limit: Limit::Process, counted: 0, at: Moment::now() };
    waiting.count(3);
    assert_eq!(counted(), 3);
    waiting.count(2);
    assert_eq!(counted(), 2);
    drop(waiting);
    assert_eq!(counted(), 0);
}
