//! One service with its thread, and the schedules that are played on it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use handfast_leg::memory::{Link, Memory};
use handfast_leg::{Leg, Side as LegSide};
use handfast_net::clock::Moment;
use handfast_stats::random::Random;
use handfast_tls::client::{Client as TlsClient, ClientSession, ClientSettings, Verification};
use handfast_tls::server::Server;

use super::backend::Backend;
use super::client::Client;
use super::judge::Outcome;
use super::world::{self, Simulated, World, world};
use crate::admission::permits::{Pool, Share};
use crate::backends::names::Addresses;
use crate::path;
use crate::path::account::Account;
use crate::path::connection::Connection;
use crate::state::{self, CarriedOver};
use crate::testing::Folder;
use crate::worker::context::WorkerContext;
use crate::worker::services::ThreadState;
use crate::worker::signer::Signer;
use handfast_config::model::AccessLog;
use handfast_observe::access_log::{self, AccessLogHandle};
use handfast_observe::cause::Cause;
use handfast_observe::metrics::{Registry, Snapshot};
use handfast_observe::reason::{Side, Step};

/// No schedule has this number of events.
const MAX_EVENTS: usize = 20_000;
/// Looks in a row without a change after which no side is going to act without an event.
const QUIET_ROUNDS: u32 = 8;

/// Reason why a connection ended, in the words of the metrics.
pub(super) type Reason = (&'static str, &'static str, &'static str);

/// Use of TLS on the two sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    /// True if clients speak TLS.
    pub(super) client_tls: bool,
    /// True if the backend speaks TLS.
    pub(super) backend_tls: bool,
}

impl Mode {
    /// As a service has it.
    pub(super) fn service(self) -> String {
        let client = if self.client_tls { "certificate = \"web.pem\"" } else { "client-tls = false" };
        // The backend's identity is not tested here; its certificate is not for 127.0.0.1.
        let backend =
            if self.backend_tls { "backend-tls = { ca = \"web.pem\", name = \"localhost\" }" } else { "" };
        format!(
            "[[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\nbackend = \"127.0.0.1:1\"\n{client}\n{backend}\n"
        )
    }
}

pub(super) struct Scene {
    thread: Rc<WorkerContext>,
    mode: Mode,
    /// TLS server of the backend, if it speaks TLS.
    server: Option<Rc<Server>>,
    registry: Arc<Registry>,
    /// Every end that has been seen.
    seen: RefCell<BTreeSet<Reason>>,
    log: RefCell<Option<AccessLogHandle>>,
    folder: Folder,
}

impl Scene {
    pub(super) fn new(mode: Mode) -> Self {
        Self::made(mode, &mode.service(), false)
    }

    /// The same with `more` in the service's section.
    pub(super) fn with(mode: Mode, more: &str) -> Self {
        Self::of(mode, &format!("{}{more}", mode.service()))
    }

    /// The same with a first service of one's own.
    pub(super) fn of(mode: Mode, service: &str) -> Self {
        Self::made(mode, service, true)
    }

    fn made(mode: Mode, service: &str, logs: bool) -> Self {
        let folder = Folder::new();
        folder.ed25519_certificate("web.pem");
        // The second service has what a server of TLS needs.
        let off = "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n";
        let source = folder.configure_as(&format!("{off}{service}\n"), &[("with-tls", &["127.0.0.1:3"])]);
        let (config, _) = source.read(false).expect("it is right");
        let mut carried = CarriedOver::with_threads(1);
        let built = state::build(config, 1, None, &mut carried, SystemTime::now());
        let shared = Arc::new(built.state.expect("it can serve"));
        let service = &shared.services[1];
        let keys = &service.ring.as_ref().expect("it has tickets").1;
        let settings = service.routes[0].server.as_deref().expect("TLS ends here");
        let server = Server::new(settings.clone(), Arc::clone(keys)).expect("it can serve");
        let server = mode.backend_tls.then(|| Rc::new(server));
        let registry = Registry::new();
        let metrics = registry.thread("worker-0");
        let state =
            ThreadState::new(shared, None, &metrics, &Addresses::default(), 0).expect("TLS is set up");
        let log = if logs { AccessLog::File(folder.path("access.log")) } else { AccessLog::Off };
        let log = access_log::start(&log).expect("the folder is ours");
        // One permit: a connection that does not give it back is the last one.
        let share = Share::new(&Pool::new(1, 1));
        let signer = Some(Signer::by_hand());
        let thread = WorkerContext::new(metrics, log.for_thread(), share, Rc::new(state), signer, None);
        let (seen, log) = (RefCell::default(), RefCell::new(Some(log)));
        Self { thread, mode, server, registry, seen, log, folder }
    }

    /// The line of every connection so far. To be asked once: it ends the log.
    pub(super) fn lines(&self) -> Vec<serde_json::Value> {
        self.thread.flush_log();
        let log = self.log.take().expect("it was not ended before");
        assert!(log.stop(Duration::from_secs(20)).finished, "its thread has written everything");
        let text = std::fs::read_to_string(self.folder.path("access.log")).expect("it was written");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Returns the TLS server of the backend.
    pub(super) fn server(&self) -> &Rc<Server> {
        self.server.as_ref().expect("the backend speaks TLS")
    }

    /// Plays one schedule, and prints its seed if it fails.
    pub(super) fn play(&self, version: &str, seed: u64, loud: bool) {
        let verdict = catch_unwind(AssertUnwindSafe(|| self.live(version, seed, loud)));
        if let Err(panic) = verdict {
            let mode = self.mode;
            print_line(&format!("the schedule that failed: HANDFAST_SEED={seed}, TLS {version}, {mode:?}"));
            resume_unwind(panic);
        }
    }

    fn live(&self, version: &str, seed: u64, loud: bool) {
        let mut random = Random::stream(seed, 0);
        let room = 1 + (random.next() as usize) % 100_000;
        let link = || Rc::new(RefCell::new(Link { room, ..Link::default() }));
        let (to_client, to_backend) = (link(), link());
        let capricious = Rc::new(Cell::new(true));
        let own = self.mode.client_tls.then(|| session(version));
        let mut client = Client::new(Rc::clone(&to_client), own, Random::stream(seed, 1));
        let server = self.server.as_ref();
        let mut backend = Backend::new(Rc::clone(&to_backend), Random::stream(seed, 2), server);
        if loud {
            print_line(&format!(
                "client: {:?} {:?}; backend: {:?} {:?}",
                client.reach, client.end, backend.dial, backend.end
            ));
        }
        let began = Moment::now();
        world::begin(World::new(began, backend.dial, to_backend, &capricious, seed));
        let before = self.ends();
        let recorded = self.recorded();
        let socket = world::socket(&to_client, &capricious, seed, 4);
        let mut task = pin!(path::serve::<Simulated>(self.accept(began, socket)));
        let mut context = Context::from_waker(Waker::noop());
        let (mut looked, mut idle) = (Default::default(), 0);
        let (mut moved, mut quiet) = (Default::default(), 0);
        for event in 0.. {
            assert!(event < MAX_EVENTS, "it never ended");
            self.sign(&mut random);
            let settles = event > MAX_EVENTS / 2;
            capricious.set(!settles);
            match random.next() % 8 {
                0 | 1 => client.act(settles),
                2 | 3 => backend.act(settles),
                4 => client.listen(settles),
                5 => backend.listen(settles),
                6 => {
                    let now = (client.progress(), backend.progress());
                    // A side with something to read is going to act.
                    let unread = client.wire.has_unread() || backend.wire.has_unread();
                    quiet = if settles && now == moved && !unread { quiet + 1 } else { 0 };
                    moved = now;
                    pass_time(&mut random, quiet > QUIET_ROUNDS);
                }
                _ => {
                    // As the engine does: woken by what has changed, or by the deadline; and now and then for nothing.
                    let now = (client.wire.readiness(), backend.wire.readiness(), settles);
                    let is_due =
                        world(|world| world.now >= world.deadline || std::mem::take(&mut world.yields));
                    let for_nothing = !settles && idle < 20 && random.next().is_multiple_of(4);
                    if now == looked && !is_due && !for_nothing {
                        continue;
                    }
                    idle = if now == looked { idle + 1 } else { 0 };
                    if task.as_mut().poll(&mut context) == Poll::Ready(()) {
                        break;
                    }
                    looked = (client.wire.readiness(), backend.wire.readiness(), settles);
                }
            }
        }
        client.listen(true);
        backend.listen(true);
        // The times of all steps add up to the lifetime of the connection.
        let (lived, recorded) =
            (world(|world| world.now).since(began).as_secs_f64(), self.recorded() - recorded);
        assert!((lived - recorded).abs() < 1e-5, "{recorded} seconds of {lived} are in the record");
        self.judge(&client, &backend, &before, began, loud);
    }

    /// The signer works when it comes to it, and wakes the task that it worked for.
    fn sign(&self, random: &mut Random) {
        let signer = self.thread.signer.as_ref().expect("it has one");
        if signer.is_busy() && random.next().is_multiple_of(8) && signer.work_once() {
            world(|world| world.yields = true);
        }
    }

    /// Tickets wait for company, but not for ever: on a silent connection they go alone.
    pub(super) fn tickets_go_alone(&self) {
        let link = || Rc::new(RefCell::new(Link { room: 100_000, ..Link::default() }));
        let (to_client, to_backend) = (link(), link());
        let peers = |seed| {
            let client = Client::new(Rc::clone(&to_client), Some(session("1.3")), Random::stream(seed, 1));
            (client, Backend::new(Rc::clone(&to_backend), Random::stream(seed, 2), None))
        };
        let (mut client, backend) = (0..100_000)
            .map(peers)
            .find(|(client, backend)| client.is_silent() && backend.is_silent())
            .expect("some seed has two mute peers");
        let began = Moment::now();
        let capricious = Rc::new(Cell::new(false));
        world::begin(World::new(began, backend.dial, to_backend, &capricious, 0));
        let socket = world::socket(&to_client, &capricious, 0, 4);
        let mut task = pin!(path::serve::<Simulated>(self.accept(began, socket)));
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..40 {
            client.act(false);
            assert!(task.as_mut().poll(&mut context).is_pending(), "no side has ended it");
            client.listen(true);
            world(|world| world.now = world.now + Duration::from_millis(100));
        }
        assert!(world(|world| world.is_connected), "the relay has begun");
        assert!(client.tickets() > 0, "the tickets were never sent");
    }

    pub(super) fn thread(&self) -> &Rc<WorkerContext> {
        &self.thread
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.registry.snapshot()
    }

    pub(super) fn accept(&self, now: Moment, socket: Memory) -> Connection<Simulated> {
        self.accept_from(None, now, socket)
    }

    /// A client at this address.
    pub(super) fn accept_from(
        &self,
        client: Option<SocketAddr>,
        now: Moment,
        socket: Memory,
    ) -> Connection<Simulated> {
        let service = Rc::clone(&self.thread.state().services[0]);
        let permit = self.thread.share.take().expect("the connection before has given its permit back");
        Connection {
            account: Account::open(&self.thread, &service, client, (permit, None)),
            accepted: now,
            deadline: now.deadline(service.model.limits.handshake),
            progress: now,
            client: Some(Leg::plain(LegSide::Client, socket)),
            backend: None,
        }
    }

    /// The seconds of all steps of all connections so far.
    fn recorded(&self) -> f64 {
        self.registry.snapshot().services[0].duration.sum_seconds()
    }

    pub(super) fn ends(&self) -> Vec<(Reason, u64)> {
        let snapshot = self.registry.snapshot();
        let service = &snapshot.services[0];
        assert_eq!(service.accepted, service.closed, "each is counted once");
        service.ends.iter().map(|end| (end.words().into(), end.count)).collect()
    }

    fn judge(&self, client: &Client, backend: &Backend, before: &[(Reason, u64)], began: Moment, loud: bool) {
        assert_eq!(self.thread.connections(), 0, "invariant 3: it ended in the books too");
        let after = self.ends();
        let count = |counts: &[(Reason, u64)], reason: Reason| {
            counts.iter().find(|(known, _)| *known == reason).map_or(0, |(_, count)| *count)
        };
        let mut new = after.iter().filter(|(reason, number)| count(before, *reason) < *number);
        let (reason, _) = new.next().expect("invariant 3: an end is counted");
        assert!(new.next().is_none(), "and one only");
        let (step, side, cause) = *reason;
        if loud {
            print_line(&format!("{step}/{side}/{cause}; alert: {:?}", client.alert));
            print_line(&format!(
                "client: {:?} of {}, {:?}",
                client.progress(),
                client.means,
                client.wire.link
            ));
            print_line(&format!(
                "backend: {:?} of {}, {:?}",
                backend.progress(),
                backend.means,
                backend.wire.link
            ));
            print_line(&format!(
                "backend's handshake: {:?}, alert: {:?}",
                backend.handshake(),
                backend.alert
            ));
        }
        self.seen.borrow_mut().insert(*reason);
        let state = self.thread.state();
        let limits = &state.services[0].model.limits;
        let outcome = Outcome {
            client,
            backend,
            step: Step::named(step).expect("a step"),
            side: Side::named(side).expect("a side"),
            cause: Cause::named(cause).expect("a cause"),
            took: world(|world| world.now).since(began),
            handshake: limits.handshake,
            idle: limits.idle,
            is_connected: world(|world| world.is_connected),
        };
        outcome.judge();
    }

    /// The schedules are worth something only if they reach every step and most ends.
    pub(super) fn has_seen_everything(&self) {
        let seen = self.seen.borrow();
        let always = [
            ("connect", "backend", "refused"),
            ("connect", "backend", "network-unreachable"),
            ("connect", "backend", "connect-timeout"),
            ("relay", "client", "finished"),
            ("relay", "backend", "finished"),
            ("relay", "client", "reset"),
            ("relay", "backend", "reset"),
            ("relay", "backend", "backend-closed"),
        ];
        let of_clients = [
            ("hello", "client", "closed-early"),
            ("hello", "client", "reset"),
            ("hello", "client", "handshake-timeout"),
            ("hello", "client", "not-tls"),
            ("handshake", "client", "closed-early"),
            ("handshake", "client", "reset"),
            ("handshake", "client", "handshake-timeout"),
            ("relay", "client", "truncated"),
        ];
        let of_backends = [
            ("connect", "backend", "closed-early"),
            ("connect", "backend", "reset"),
            ("relay", "backend", "truncated"),
        ];
        let of_clients = of_clients.iter().filter(|_| self.mode.client_tls);
        let of_backends = of_backends.iter().filter(|_| self.mode.backend_tls);
        for expected in always.iter().chain(of_clients).chain(of_backends) {
            assert!(seen.contains(expected), "no schedule ended as {expected:?}: {seen:?}");
        }
    }
}

/// A client's session without tickets of an earlier one.
pub(super) fn session(version: &str) -> ClientSession {
    client(version).connect(false).expect("a session")
}

/// Returns a client that makes such sessions, and keeps their tickets.
pub(super) fn client(version: &str) -> TlsClient {
    let settings = ClientSettings {
        versions: vec![version.to_owned()],
        groups: vec!["X25519".to_owned()],
        server_name: Some("localhost".to_owned()),
        verification: Verification::Off,
        ..ClientSettings::default()
    };
    TlsClient::new(&settings, "localhost").expect("these settings work")
}

/// Some milliseconds; as far as the connection waits, when no other side acts any more.
fn pass_time(random: &mut Random, far: bool) {
    world(|world| {
        let some = Duration::from_micros(random.next() % 3_000);
        world.now = if far { world.now.max(world.deadline) } else { world.now + some };
    });
}

/// For replaying a schedule.
fn print_line(line: &str) {
    eprintln!("{line}");
}
