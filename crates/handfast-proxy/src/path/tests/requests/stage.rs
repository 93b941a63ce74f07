//! One service in HTTP mode, and the schedules that are played on it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_config::model::AccessLog;
use handfast_leg::memory::Memory;
use handfast_leg::memory::tasks::{self, InMemory};
use handfast_leg::runtime::Runtime;
use handfast_leg::{Leg, Side as LegSide};
use handfast_net::engine::Woken;
use handfast_observe::access_log::{self, AccessLogHandle};
use handfast_observe::metrics::{Registry, RequestSnapshot};

use super::plan::{Fate, Play};
use super::{h1, h2};
use crate::admission::permits::{Pool, Share};
use crate::backends::names::Addresses;
use crate::path;
use crate::path::account::Account;
use crate::path::connection::Connection;
use crate::state::{self, CarriedOver};
use crate::testing::Folder;
use crate::worker::context::{WorkerContext, WorkerPhase};
use crate::worker::services::ThreadState;

/// Bytes that a socket of [`Stage::play_single`] takes before its peer has read them.
const SOCKET_BYTES: usize = 2_000;

/// Sides that speak HTTP/2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Versions {
    pub(super) client_h2: bool,
    pub(super) backend_h2: bool,
}

pub(super) struct Stage {
    pub(super) versions: Versions,
    registry: Arc<Registry>,
    state: Rc<ThreadState>,
    log: RefCell<Option<AccessLogHandle>>,
    folder: Folder,
    /// Paths of all requests that a backend saw.
    seen: RefCell<Vec<String>>,
    /// Durations of requests for their clients, by path.
    took: RefCell<HashMap<String, Duration>>,
}

impl Stage {
    pub(super) fn new(versions: Versions) -> Self {
        let folder = Folder::new();
        let version = if versions.backend_h2 { "h2" } else { "http/1.1" };
        // Backends that fail in one schedule are there in the next one.
        let text = format!(
            "[admin]\nlisten = \"off\"\n[access-log]\nto = \"off\"\n[limits]\nbackend-failures = 1000\n\
             [[service]]\nname = \"web\"\nlisten = \"127.0.0.1:2\"\nbackend = \"127.0.0.1:1\"\nclient-tls = false\n\
             mode = \"http\"\nhttp = {{ backend-version = \"{version}\", half-close = \"answer\" }}\n"
        );
        let (config, _) = folder.configure_as(&text, &[]).read(false).expect("it is right");
        let mut carried = CarriedOver::with_threads(1);
        let built = state::build(config, 1, None, &mut carried, SystemTime::now());
        let shared = Arc::new(built.state.expect("it can serve"));
        let registry = Registry::new();
        let metrics = registry.thread("worker-0");
        let state = ThreadState::new(shared, None, &metrics, &Addresses::default(), 0).expect("it can serve");
        let log = access_log::start(&AccessLog::File(folder.path("access.log"))).expect("the folder is ours");
        let (log, seen, took) = (RefCell::new(Some(log)), RefCell::default(), RefCell::default());
        Self { versions, registry, state: Rc::new(state), log, folder, seen, took }
    }

    fn counted(&self) -> RequestSnapshot {
        let mut services = self.registry.snapshot().services.into_iter();
        services.find_map(|service| service.requests).unwrap_or_default()
    }

    pub(super) fn play(&self, seed: u64) {
        let play = Rc::new(Play::new(seed, self.versions));
        let thread = self.thread(play.clients.len());
        let before = self.counted();
        if play.fate == Fate::Drains {
            thread.enter(WorkerPhase::Draining);
        }
        tasks::run(seed, || Self::start(&play, &thread));
        assert_eq!(thread.connections(), 0, "a connection has no end in the books");
        play.judge();
        play.judge_counts([&before, &self.counted()]);
        self.seen.borrow_mut().extend(play.seen_paths());
        self.took.borrow_mut().extend(play.durations());
    }

    /// A thread for this number of clients.
    fn thread(&self, clients: usize) -> Rc<WorkerContext> {
        let log = self.log.borrow().as_ref().expect("it was not ended").for_thread();
        let share = Share::new(&Pool::new(clients, 1));
        let metrics = self.registry.thread("worker-0");
        WorkerContext::new(metrics, log, share, Rc::clone(&self.state), None, None)
    }

    /// One client's connection, whose peers follow no plan: they spawn their tasks. The lines of the log.
    pub(super) fn play_single(
        self,
        backend: impl Fn(Memory) + 'static,
        client: impl FnOnce(Memory),
    ) -> Vec<serde_json::Value> {
        let thread = self.thread(1);
        tasks::run(1, || {
            tasks::listen(SOCKET_BYTES, move |_, socket| backend(socket));
            let (near, far) = tasks::pair(SOCKET_BYTES);
            client(near);
            let thread = Rc::clone(&thread);
            tasks::spawn(async move { path::serve::<InMemory>(accept(&thread, far)).await });
        });
        thread.flush_log();
        self.lines()
    }

    fn start(play: &Rc<Play>, thread: &Rc<WorkerContext>) {
        let of_backends = Rc::clone(play);
        tasks::listen(play.room, move |_, socket| {
            let play = Rc::clone(&of_backends);
            match play.versions.backend_h2 {
                true => tasks::spawn(h2::backend(play, socket)),
                false => tasks::spawn(h1::backend(play, socket)),
            };
        });
        for ids in play.clients.clone() {
            let (near, far) = tasks::pair(play.room);
            let link = Rc::clone(&near.link);
            match play.versions.client_h2 {
                true => tasks::spawn(h2::client(Rc::clone(play), near, ids)),
                false => tasks::spawn(h1::client(Rc::clone(play), near, ids)),
            };
            let thread = Rc::clone(thread);
            tasks::spawn(async move { path::serve::<InMemory>(accept(&thread, far)).await });
            let fate = play.fate;
            tasks::spawn(async move {
                let (Fate::Cut(after) | Fate::Forged(after)) = fate else { return };
                let end = InMemory::now() + after;
                while InMemory::wait(end).await == Woken::Event {}
                if matches!(fate, Fate::Cut(_)) { tasks::cut(&link) } else { tasks::end(&link) }
            });
        }
    }

    /// The lines of the log, which ends with this.
    fn lines(&self) -> Vec<serde_json::Value> {
        let log = self.log.take().expect("it was not ended");
        assert!(log.stop(Duration::from_secs(20)).finished, "its thread has written everything");
        let text = std::fs::read_to_string(self.folder.path("access.log")).expect("it was written");
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Each request that a backend saw has one line, and none has two; a line has the time that its client waited, whatever its end.
    pub(super) fn check_records(&self) {
        let mut lines: HashMap<String, usize> = HashMap::new();
        for line in self.lines() {
            if let Some(path) = line["path"].as_str().filter(|path| !path.is_empty()) {
                *lines.entry(path.to_owned()).or_default() += 1;
                if let Some(took) = self.took.borrow().get(path) {
                    check_duration(&line, *took);
                }
            }
        }
        for path in &*self.seen.borrow() {
            assert_eq!(lines.get(path), Some(&1), "lines of {path}");
        }
        assert!(lines.values().all(|count| *count == 1), "a request has two lines");
    }
}

/// The parts of a request are as long together as its client waited. Everything but a timeout takes moments here, and one second in which a
/// client of HTTP/2 may go on sending after its response.
fn check_duration(line: &serde_json::Value, took: Duration) {
    let parts = line["seconds"].as_object().expect("a line has them").values();
    let logged: f64 = parts.map(|part| part.as_f64().expect("a number")).sum();
    assert!((logged - took.as_secs_f64()).abs() < 1.5, "its client waited {took:?}: {line}");
}

fn accept(thread: &Rc<WorkerContext>, socket: Memory) -> Connection<InMemory> {
    let service = Rc::clone(&thread.state().services[0]);
    let permit = thread.share.take().expect("there is one for each");
    let now = InMemory::now();
    Connection {
        account: Account::open(thread, &service, None, (permit, None)),
        accepted: now,
        deadline: now.deadline(service.model.limits.handshake),
        progress: now,
        client: Some(Leg::plain(LegSide::Client, socket)),
        backend: None,
    }
}
