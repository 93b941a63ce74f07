//! State that one worker thread owns: buffers for all its connections, its counters and log, the state that it serves.
//!
//! In: what the control thread sends. Out: borrowed by the path; only counters are shared with other threads.

use std::cell::{Cell, Ref, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_http::http1::Field;
use handfast_http::http2::HeadText;
use handfast_net::clock::Moment;
use handfast_net::engine::{self, TaskHandle};
use handfast_tls::buffer::Scratch;
use handfast_tls::policy::contexts;

use crate::admission::maintenance::MaintenanceTable;
use crate::admission::permits::Share;
use crate::admission::verifier::Remembered;
use crate::backends::pool::{Identity, Pool};
use crate::worker::challenges::ThreadChallenges;
use crate::worker::open::OpenList;
use crate::worker::services::{ThreadService, ThreadState};
use crate::worker::signer::Signer;
use handfast_observe::access_log::{LINE_DELAY, ThreadLog};
use handfast_observe::metrics::ThreadMetrics;
use handfast_observe::reason::CloseReason;
use handfast_observe::record::Record;
use handfast_observe::request_record::RequestRecord;
use handfast_process::key_process::KeyProcessHealth;
use handfast_process::listeners::ListenerId;

/// The process that serves the addresses when this one stops.
#[derive(Clone, Debug, Default)]
pub(crate) enum Successor {
    #[default]
    None,
    /// It has its own sockets there, and this number of threads.
    Beside(u32),
    /// It has the very sockets of these listeners.
    HandedOver(Arc<HashSet<ListenerId>>),
}

/// Progress of a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerPhase {
    /// Connections are accepted.
    Serving,
    /// None are accepted; open ones go on.
    Draining,
    /// Open ones are ended.
    Ending,
}

/// Room of a thread for heads and framing, used between two waits.
#[derive(Debug, Default)]
pub(crate) struct HttpBuffers {
    /// Fields of the head that is parsed.
    pub(crate) fields: Vec<Field>,
    /// Head of HTTP/2 that is decoded.
    pub(crate) head: HeadText,
    /// Bytes to send next: a head, and content with its framing.
    pub(crate) out: Vec<u8>,
    /// Buffers for heads that have not come whole, given back when they are empty.
    pub(crate) spare: Vec<Vec<u8>>,
}

/// A connection of this age is no newcomer; one that carried bytes within this time is in use.
const RECENT_USE_PERIOD: Duration = Duration::from_millis(100);
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// A tenth of a second, the tick of [`contexts::time_is`].
const TICK_NANOS: u64 = 100_000_000;

/// Memory of a thread for compression, where the configuration sets no other.
const COMPRESSION_MEMORY: usize = 32 * 1024 * 1024;

/// Memory that the compression of one response takes.
#[derive(Debug)]
pub(crate) struct CompressionMemory {
    thread: Rc<WorkerContext>,
    bytes: usize,
}

impl Drop for CompressionMemory {
    fn drop(&mut self) {
        let held = &self.thread.compression;
        held.set(held.get().saturating_sub(self.bytes));
    }
}

#[derive(Debug)]
pub(crate) struct WorkerContext {
    pub(crate) metrics: Arc<ThreadMetrics>,
    log: RefCell<ThreadLog>,
    /// Connections and requests that have not ended.
    pub(crate) open: OpenList,
    /// The task of [`WorkerContext::run_log_flush`].
    log_task: Cell<Option<TaskHandle>>,
    /// The task of [`WorkerContext::sweep_contexts`], while it waits for something to sweep.
    sweeper: Cell<Option<TaskHandle>>,
    pub(crate) scratch: Rc<RefCell<Scratch>>,
    /// Of requests; borrowed together with `scratch`.
    pub(crate) buffers: RefCell<HttpBuffers>,
    /// Connections to backends between two requests.
    pub(crate) pool: Pool,
    /// Time at which a connection that has been open for a while last carried bytes.
    carried: Cell<Option<Moment>>,
    /// `None` where no thread could be started for it.
    pub(crate) signer: Option<Signer>,
    /// `None` where this process has the private keys.
    key_process: Option<Arc<KeyProcessHealth>>,
    /// Passwords that were right lately.
    pub(crate) passwords: RefCell<Remembered>,
    /// Permits of the whole process.
    pub(crate) share: Rc<Share>,
    state: RefCell<Rc<ThreadState>>,
    challenges: RefCell<Rc<ThreadChallenges>>,
    maintenance: RefCell<MaintenanceTable>,
    phase: Cell<WorkerPhase>,
    successor: RefCell<Successor>,
    /// Acceptors that have not yet been notified that the previous process has closed its listeners.
    close_notices: Cell<usize>,
    connections: Cell<usize>,
    /// Bytes of memory that responses are compressed with.
    compression: Cell<usize>,
    /// Tasks that wait for a connection to end.
    waiting: RefCell<Vec<TaskHandle>>,
    /// Tasks that accept; a new state wakes them.
    acceptors: RefCell<Vec<TaskHandle>>,
}

impl WorkerContext {
    pub(crate) fn new(
        metrics: Arc<ThreadMetrics>,
        log: ThreadLog,
        share: Rc<Share>,
        state: Rc<ThreadState>,
        signer: Option<Signer>,
        key_process: Option<Arc<KeyProcessHealth>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            metrics,
            log: RefCell::new(log),
            open: OpenList::default(),
            log_task: Cell::new(None),
            sweeper: Cell::new(None),
            scratch: Rc::new(RefCell::new(Scratch::new(handfast_leg::READ))),
            buffers: RefCell::default(),
            pool: Pool::default(),
            carried: Cell::new(None),
            signer,
            key_process,
            passwords: RefCell::default(),
            share,
            state: RefCell::new(state),
            challenges: RefCell::default(),
            maintenance: RefCell::default(),
            phase: Cell::new(WorkerPhase::Serving),
            successor: RefCell::default(),
            close_notices: Cell::new(0),
            connections: Cell::new(0),
            compression: Cell::new(0),
            waiting: RefCell::default(),
            acceptors: RefCell::default(),
        })
    }

    /// A connection that began to carry bytes at `since` does so at `now`.
    pub(crate) fn record_carried(&self, since: Moment, now: Moment) {
        if now.since(since) >= RECENT_USE_PERIOD {
            self.carried.set(Some(now));
        }
    }

    /// Returns true if an older connection carried bytes a moment ago: new handshakes may delay it.
    pub(crate) fn has_carried(&self, now: Moment) -> bool {
        self.carried.get().is_some_and(|last| now.since(last) < RECENT_USE_PERIOD)
    }

    /// Returns true if private keys are in another process that does not answer now.
    pub(crate) fn key_process_is_unresponsive(&self) -> bool {
        self.key_process.as_ref().is_some_and(|health| health.is_unresponsive())
    }

    pub(crate) fn state(&self) -> Rc<ThreadState> {
        Rc::clone(&self.state.borrow())
    }

    /// Open challenges of certificate authorities.
    pub(crate) fn challenges(&self) -> Rc<ThreadChallenges> {
        Rc::clone(&self.challenges.borrow())
    }

    /// Answers by these from now on.
    pub(crate) fn answer_challenges(&self, challenges: ThreadChallenges) {
        *self.challenges.borrow_mut() = Rc::new(challenges);
    }

    /// The services in maintenance.
    pub(crate) fn maintenance(&self) -> Ref<'_, MaintenanceTable> {
        self.maintenance.borrow()
    }

    /// Answers by these services in maintenance from now on.
    pub(crate) fn set_maintenance(&self, services: MaintenanceTable) {
        self.maintenance.replace(services);
    }

    /// Returns true if the service is still configured, in whichever version.
    pub(crate) fn has_service(&self, service: &ThreadService) -> bool {
        self.present(service).is_some()
    }

    /// The present version of a service.
    fn present(&self, service: &ThreadService) -> Option<Rc<ThreadService>> {
        let services = &self.state.borrow().services;
        let is_same = |known: &&Rc<ThreadService>| known.name == service.name;
        // It rarely has another place after a reload.
        services.get(service.index).filter(is_same).or_else(|| services.iter().find(is_same)).cloned()
    }

    pub(crate) fn install(&self, state: Rc<ThreadState>) {
        let before = self.state.replace(state);
        self.close_unused();
        // Connections keep the state they have, so only these are woken, however many those are …
        self.acceptors.borrow().iter().for_each(|task| task.wake());
        // … unless idle ones have to end because their service is gone.
        if before.services.iter().any(|service| service.http.is_some() && !self.has_service(service)) {
            engine::wake_all();
        }
    }

    /// Takes memory for the compression of a response, given back when it is dropped; `None`: this thread has no more of it.
    pub(crate) fn compression_memory(self: &Rc<Self>, bytes: usize) -> Option<CompressionMemory> {
        let shared = &self.state().shared;
        let threads = shared.services.first().map_or(1, |service| service.threads.max(1));
        let limit = shared.config.process.compression_memory.map_or(COMPRESSION_MEMORY, |all| all / threads);
        let taken = self.compression.get() + bytes;
        // One response at a time is always compressed, whatever the number of threads.
        let is_free = taken <= limit || self.compression.get() == 0;
        is_free.then(|| {
            self.compression.set(taken);
            CompressionMemory { thread: Rc::clone(self), bytes }
        })
    }

    /// Closes connections of the pool to backends that are configured no more.
    pub(crate) fn close_unused(&self) {
        self.pool.keep_only(self.state().uses(), &mut self.scratch.borrow_mut());
    }

    /// Returns true if other requests can use a connection of this service: a service of an older configuration may have other backends.
    pub(crate) fn uses(&self, identity: &Identity, service: &ThreadService) -> bool {
        let is_present = service.generation == self.state.borrow().shared.generation;
        is_present || self.present(service).is_some_and(|present| present.uses(identity))
    }

    /// The present task accepts from now on.
    pub(crate) fn acceptor_began(&self) {
        self.acceptors.borrow_mut().push(engine::current());
    }

    /// … and no more.
    pub(crate) fn acceptor_ended(&self) {
        self.acceptors.borrow_mut().retain(|task| *task != engine::current());
        self.waiting.borrow_mut().drain(..).for_each(|task| task.wake());
    }

    pub(crate) fn accepts(&self) -> bool {
        !self.acceptors.borrow().is_empty()
    }

    pub(crate) fn set_successor(&self, after: Successor) {
        self.successor.replace(after);
    }

    /// The threads of another process that listens on the same addresses too.
    pub(crate) fn successor(&self) -> Option<u32> {
        if let Successor::Beside(threads) = *self.successor.borrow() { Some(threads) } else { None }
    }

    /// Returns true if another process serves the addresses of this one, which drains.
    pub(crate) fn is_replaced(&self) -> bool {
        !matches!(*self.successor.borrow(), Successor::None)
    }

    /// Returns true if another process has the very sockets of this listener.
    pub(crate) fn is_handed_over(&self, listener: &ListenerId) -> bool {
        matches!(&*self.successor.borrow(), Successor::HandedOver(listeners) if listeners.contains(listener))
    }

    /// The process before this one has closed its listeners.
    pub(crate) fn announce_predecessor_closed(&self) {
        self.close_notices.set(self.acceptors.borrow().len());
        self.acceptors.borrow().iter().for_each(|task| task.wake());
    }

    /// Returns true, once for each acceptor, if the present one has to be notified of that.
    pub(crate) fn take_close_notice(&self) -> bool {
        let left = self.close_notices.get();
        self.close_notices.set(left.saturating_sub(1));
        left > 0
    }

    pub(crate) fn phase(&self) -> WorkerPhase {
        self.phase.get()
    }

    pub(crate) fn enter(&self, phase: WorkerPhase) {
        self.phase.set(phase);
        if phase != WorkerPhase::Serving {
            self.pool.close(&mut self.scratch.borrow_mut());
        }
        engine::wake_all();
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.get()
    }

    pub(crate) fn connection_began(&self) {
        self.connections.set(self.connections.get() + 1);
    }

    pub(crate) fn connection_ended(&self) {
        self.connections.set(self.connections.get() - 1);
        self.open.connection_ended();
        self.waiting.borrow_mut().drain(..).for_each(|task| task.wake());
    }

    pub(crate) fn log(&self, record: &Record, reason: &CloseReason) {
        self.write_log(|log| log.write(record, reason));
    }

    fn write_log(&self, write: impl FnOnce(&mut ThreadLog)) {
        let mut log = self.log.borrow_mut();
        let first = log.due().is_none();
        write(&mut log);
        if first && let Some(task) = self.log_task.get() {
            task.wake();
        }
    }

    /// Writes the line of a request that has ended, and keeps it for the status where it failed.
    pub(crate) fn log_request(&self, record: &RequestRecord) {
        self.metrics.request_ended(record);
        self.write_log(|log| log.write_request(record));
    }

    /// Returns true if log lines of requests have the client's `Referer` and `User-Agent`.
    pub(crate) fn logs_client_fields(&self) -> bool {
        self.log.borrow().has_client_fields()
    }

    /// Hands over the log's lines a moment after the first of them, for as long as the thread lives.
    pub(crate) async fn run_log_flush(self: Rc<Self>) {
        self.log_task.set(Some(engine::current()));
        loop {
            while self.log.borrow().due().is_none() {
                engine::wait(Moment::NEVER).await;
            }
            engine::sleep(LINE_DELAY).await;
            self.flush_log();
        }
    }

    /// Takes away what sessions compute with, one to two seconds after its last use, for as long as the thread lives: an idle
    /// connection keeps no more than its keys.
    pub(crate) async fn sweep_contexts(self: Rc<Self>) {
        loop {
            self.sweeper.set(Some(engine::current()));
            while self.sweeper.get().is_some() {
                engine::wait(Moment::NEVER).await;
            }
            engine::sleep(SWEEP_INTERVAL).await;
            while !contexts::sweep() {
                engine::yield_now().await;
            }
        }
    }

    /// Closes connections of the pool whose time has come, for as long as the thread lives.
    pub(crate) async fn sweep_pool(self: Rc<Self>) {
        loop {
            self.pool.wait_until_used().await;
            engine::sleep(SWEEP_INTERVAL).await;
            self.pool.sweep(&mut self.scratch.borrow_mut());
        }
    }

    /// Is called at the end of each iteration: sets the clock of the sessions' contexts, and wakes the sweeper where there are some.
    pub(crate) fn tick_contexts(&self) {
        let held = contexts::time_is((engine::now().nanos() / TICK_NANOS) as u32);
        if held > 0
            && let Some(task) = self.sweeper.take()
        {
            task.wake();
        }
    }

    pub(crate) fn flush_log(&self) {
        self.log.borrow_mut().flush();
    }

    /// Wakes the present task when a connection of this thread ends.
    pub(crate) fn wake_at_end(&self) {
        let task = engine::current();
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.contains(&task) {
            waiting.push(task);
        }
    }
}
