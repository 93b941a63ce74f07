//! The worker threads: all of them as the control thread holds them, and what each does with its orders.
//!
//! In: orders. Out: events that report their completion, and how many connections were cut at the end. A thread has an engine and its
//! own listeners; everything that a connection needs lives on it.

use std::convert::Infallible;
use std::io;
use std::mem::{Discriminant, discriminant};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use handfast_net::engine::{self, Letterbox, Mailbox, Observer, Priority, mailbox, sleep, spawn};
use handfast_tls::session::Failure;
use handfast_tls::ticket::KeySet;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use crate::admission::maintenance::MaintenanceTable;
use crate::admission::permits::{Pool, Share};
use crate::backends::names::Addresses;
use crate::control::error::Error;
use crate::path::accept;
use crate::state::{RingId, State};
use crate::worker::challenges::{Challenges, ThreadChallenges};
use crate::worker::context::{Successor, WorkerContext, WorkerPhase};
use crate::worker::services::ThreadState;
use crate::worker::signer::Signer;
use handfast_observe::access_log::{AccessLogHandle, ThreadLog};
use handfast_observe::metrics::{Registry, ThreadMetrics};
use handfast_observe::open::OpenSnapshot;
use handfast_process::key_process;
use handfast_process::listeners;
use handfast_process::sandbox;

/// Orders that may wait for a worker, which takes all of them at each look. New keys and addresses take the place of older
/// ones, and a reload waits for the one before; so only a worker that is stuck, through as many reloads, reaches this number.
const WAITING_ORDERS_LIMIT: usize = 64;
/// Time for connections that are ended to write their log lines.
const ENDING_TIMEOUT: Duration = Duration::from_millis(500);
/// Timeout for workers to install a state.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for workers to end.
const END_ALL_TIMEOUT: Duration = Duration::from_secs(2);
/// Events that may wait for the control thread. Each worker sends one for each order, and orders are rare.
const MAX_WAITING_EVENTS: usize = 256;

#[derive(Debug)]
pub(crate) enum Order {
    /// Serve new connections by this state, from these listeners too.
    Install(Arc<State>, listeners::Share),
    Keys(RingId, Arc<KeySet>),
    Addresses(Addresses),
    /// Serve a client that came through no listener, by the service of this name.
    Client(String, OwnedFd),
    /// Answer challenges of certificate authorities by these, and by no earlier ones.
    Challenges(Challenges),
    /// Answer requests of these services, and of no others, as in maintenance. The sender is dropped when it is done.
    Maintenance(Arc<MaintenanceTable>, Sender<Infallible>),
    /// No other process gives way to this one any more.
    PredecessorClosed,
    /// Describe what is open.
    Describe(Sender<OpenSnapshot>),
    /// Confirm that the event loop is running.
    Heartbeat(u64),
    /// Accept nothing more; the process that serves the same addresses.
    Drain(Successor),
    /// End what is left, and then the thread.
    End,
}

#[derive(Debug)]
pub(crate) enum Event {
    Installed(Result<(), Failure>),
    /// The last connection has ended while draining.
    Drained,
    /// The thread is about to end; the number of connections that were cut.
    Ended(usize),
    Failed(Error),
}

#[derive(Debug)]
pub(crate) struct Workers {
    handles: Vec<Handle>,
    events: Receiver<Event>,
    /// Number of the last heartbeat that was sent.
    last_heartbeat: u64,
    /// Index of the worker that received the last client.
    turn: usize,
}

/// Starts the threads that verify passwords, if a service asks its clients for them.
fn start_verifier(state: &State) -> io::Result<()> {
    let gates = state.services.iter().flat_map(|service| service.gates.all());
    match gates.filter_map(|gate| gate.basic.as_ref()).next() {
        Some(basic) => basic.verifier.start(),
        None => Ok(()),
    }
}

/// Opens the caches of services, in the background.
fn open_caches(state: &State) -> io::Result<()> {
    state.services.iter().filter_map(|service| service.cache.as_ref()).try_for_each(|cache| cache.open())
}

/// Starts the threads that open and read files of services.
fn start_file_threads(state: &State) -> io::Result<()> {
    state.services.iter().try_for_each(|service| service.files.start())
}

impl Workers {
    /// Starts them. They serve by the state, and accept nothing until they are given listeners.
    ///
    /// **Errors**: the system has no thread or descriptor left.
    pub(crate) fn start(
        threads: usize,
        max_connections: usize,
        registry: &Arc<Registry>,
        log: &AccessLogHandle,
        state: &Arc<State>,
        addresses: &Addresses,
    ) -> io::Result<Self> {
        start_verifier(state)?;
        open_caches(state)?;
        start_file_threads(state)?;
        let (sender, events) = channel(MAX_WAITING_EVENTS);
        let pool = Pool::new(max_connections, threads);
        let mut handles = Vec::new();
        for number in 0..threads {
            let (orders, letterbox) = mailbox(WAITING_ORDERS_LIMIT)?;
            let heartbeat_seen = Arc::new(AtomicU64::new(0));
            let worker = Worker {
                number,
                letterbox,
                events: sender.clone(),
                registry: Arc::clone(registry),
                log: log.for_thread(),
                pool: Arc::clone(&pool),
                state: Arc::clone(state),
                addresses: Arc::clone(addresses),
                heartbeat_seen: Arc::clone(&heartbeat_seen),
            };
            let thread = worker.start()?;
            handles.push(Handle { orders, thread, heartbeat_seen });
        }
        Ok(Self { handles, events, last_heartbeat: 0, turn: 0 })
    }

    pub(crate) fn count(&self) -> usize {
        self.handles.len()
    }

    /// Gives every one of them an order.
    pub(crate) fn order_all(&self, order: impl Fn() -> Order) {
        self.handles.iter().for_each(|worker| worker.order_or_log(order()));
    }

    /// Gives a client that came through no listener to one of them.
    pub(crate) fn serve(&mut self, service: String, socket: OwnedFd) {
        self.turn = (self.turn + 1) % self.handles.len();
        self.handles[self.turn].order_or_log(Order::Client(service, socket));
    }

    /// Requests a description of what is open of every worker; the number of answers that will come.
    pub(crate) fn describe(&self) -> (usize, Receiver<OpenSnapshot>) {
        let (sender, answers) = channel(self.handles.len().max(1));
        self.order_all(|| Order::Describe(sender.clone()));
        (self.handles.len(), answers)
    }

    /// Requests a heartbeat of every worker; returns the names of those that have not answered the last one.
    pub(crate) fn request_heartbeats(&mut self) -> Vec<String> {
        let expected = self.last_heartbeat;
        let late =
            self.handles.iter().filter(|worker| worker.heartbeat_seen.load(Ordering::Relaxed) < expected);
        let late = late.map(Handle::name).collect();
        self.last_heartbeat += 1;
        let heartbeat = self.last_heartbeat;
        self.order_all(|| Order::Heartbeat(heartbeat));
        late
    }

    /// Gives every one of them a state and its new listeners, and waits until all serve by it.
    ///
    /// **Errors**: one that cannot, has ended, or does not answer; the state was tried out before, so this is a fault of
    /// ours.
    pub(crate) async fn install(
        &mut self,
        state: &Arc<State>,
        shares: Vec<listeners::Share>,
    ) -> Result<(), Error> {
        if let Err(error) = start_verifier(state) {
            tracing::error!(
                "verify passwords: start a thread: {error}; clients that must send one receive 503"
            );
        }
        if let Err(error) = open_caches(state) {
            tracing::error!("open the cache of a service: start a thread: {error}; requests bypass it");
        }
        if let Err(error) = start_file_threads(state) {
            tracing::error!("serve files: start a thread: {error}; requests for them receive 504");
        }
        for (worker, share) in self.handles.iter().zip(shares) {
            worker.order(Order::Install(Arc::clone(state), share))?;
        }
        let mut left = self.handles.len();
        while left > 0 {
            match timeout(INSTALL_TIMEOUT, self.events.recv()).await {
                Ok(Some(Event::Installed(Ok(())))) => left -= 1,
                Ok(Some(Event::Installed(Err(failure)))) => return Err(Error::Install(failure)),
                Ok(Some(Event::Failed(error))) => return Err(error),
                Ok(Some(Event::Drained | Event::Ended(_))) => {}
                Ok(None) => return Err(Error::WorkerEnded),
                Err(_) => return Err(Error::WorkerSilent(INSTALL_TIMEOUT)),
            }
        }
        Ok(())
    }

    /// Returns the next event of a worker; `None` when all have ended. **Cancel**: loses nothing.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Ends all workers, and returns the number of connections that were cut.
    pub(crate) async fn end(mut self) -> usize {
        self.order_all(|| Order::End);
        let mut cut = 0;
        let mut left = self.handles.len();
        while left > 0 {
            match timeout(END_ALL_TIMEOUT, self.events.recv()).await {
                Ok(Some(Event::Ended(count))) => {
                    cut += count;
                    left -= 1;
                }
                Ok(Some(_)) => {}
                // One hangs or has panicked: the process ends without it.
                Ok(None) | Err(_) => return cut,
            }
        }
        for worker in self.handles {
            // A thread that panicked has logged it.
            let _ = worker.thread.join();
        }
        cut
    }
}

#[derive(Debug)]
struct Handle {
    orders: handfast_net::engine::Sender<Order>,
    thread: JoinHandle<()>,
    heartbeat_seen: Arc<AtomicU64>,
}

impl Handle {
    fn name(&self) -> String {
        self.thread.thread().name().unwrap_or("a worker").to_owned()
    }

    /// Gives an order, and does not wait for it to be carried out: the control thread waits for no worker but with a
    /// deadline.
    ///
    /// **Errors**: the worker's mailbox is full, because it did not read its orders. This order is not carried out there.
    fn order(&self, order: Order) -> Result<(), Error> {
        let news = order.news();
        self.orders
            .send_instead(order, |waiting| news.is_some() && waiting.news() == news)
            .map_err(|_| Error::MailboxFull { worker: self.name(), waiting: WAITING_ORDERS_LIMIT })
    }

    /// The same for orders whose failure has no caller: a refused one is logged.
    fn order_or_log(&self, order: Order) {
        if let Err(problem) = self.order(order) {
            tracing::error!("{problem}");
        }
    }
}

#[derive(Debug)]
struct Worker {
    number: usize,
    letterbox: Letterbox<Order>,
    events: Sender<Event>,
    registry: Arc<Registry>,
    log: ThreadLog,
    pool: Arc<Pool>,
    state: Arc<State>,
    addresses: Addresses,
    /// The last [`Order::Heartbeat`] that it has looked at.
    heartbeat_seen: Arc<AtomicU64>,
}

impl Worker {
    /// Starts the thread `worker-N`.
    fn start(self) -> io::Result<JoinHandle<()>> {
        let name = format!("worker-{}", self.number);
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            let events = self.events.clone();
            if let Err(source) = self.run(&name) {
                // The receiver is gone only when the program has ended.
                let _ = events.try_send(Event::Failed(Error::system(name.as_str())(source)));
            }
        })
    }

    fn run(self, name: &str) -> io::Result<()> {
        handfast_tls::warm_up();
        key_process::this_thread_carries_connections();
        let metrics = self.registry.thread(name);
        let state = ThreadState::new(self.state, None, &metrics, &self.addresses, self.number)
            .map_err(|failure| io::Error::other(failure.to_string()))?;
        // Without it the thread signs everything itself.
        let signer = Signer::start(self.number).ok();
        let key_process = state.shared.key_process_health();
        let share = Share::new(&self.pool);
        let thread =
            WorkerContext::new(Arc::clone(&metrics), self.log, share, Rc::new(state), signer, key_process);
        let orders = OrderTask {
            thread: Rc::clone(&thread),
            mailbox: self.letterbox.open(),
            events: self.events,
            addresses: self.addresses,
            number: self.number,
            heartbeat_seen: self.heartbeat_seen,
        };
        // Everything above may have needed more system calls.
        sandbox::confine_this_thread();
        let (log, sweeper, pool) = (Rc::clone(&thread), Rc::clone(&thread), Rc::clone(&thread));
        engine::run(Watch { thread, metrics }, move || {
            spawn(Priority::Flow, log.run_log_flush());
            spawn(Priority::Flow, sweeper.sweep_contexts());
            spawn(Priority::Flow, pool.sweep_pool());
            spawn(Priority::Flow, orders.run());
        })
    }
}

/// Counts the loop's turns, and hands over what was gathered when the thread ends.
struct Watch {
    thread: Rc<WorkerContext>,
    metrics: Arc<ThreadMetrics>,
}

impl Observer for Watch {
    fn turn(&mut self, busy: Duration, tasks: usize) {
        self.metrics.loop_turn(busy);
        self.metrics.tasks(tasks);
        self.thread.tick_contexts();
    }

    fn before_sleep(&mut self) {
        if self.thread.phase() == WorkerPhase::Ending {
            self.thread.flush_log();
        }
    }

    fn panicked(&mut self) {
        self.metrics.panicked();
    }
}

struct OrderTask {
    thread: Rc<WorkerContext>,
    mailbox: Mailbox<Order>,
    events: Sender<Event>,
    addresses: Addresses,
    number: usize,
    heartbeat_seen: Arc<AtomicU64>,
}

impl OrderTask {
    async fn run(mut self) {
        loop {
            match self.mailbox.receive().await {
                Ok(orders) => {
                    for order in orders {
                        if matches!(order, Order::End) {
                            return self.end().await;
                        }
                        self.carry_out(order);
                    }
                }
                Err(source) => {
                    let name = format!("worker-{}: mailbox", self.number);
                    self.send_event(Event::Failed(Error::system(name.as_str())(source)));
                    return engine::stop();
                }
            }
        }
    }

    fn send_event(&self, event: Event) {
        // The control thread listens for as long as there is one.
        let _ = self.events.try_send(event);
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Install(state, listeners) => {
                let outcome = self.install(state);
                if outcome.is_ok() {
                    for (id, socket) in listeners {
                        spawn(Priority::Flow, accept::accept(socket.open(), id, Rc::clone(&self.thread)));
                    }
                }
                self.send_event(Event::Installed(outcome));
            }
            Order::Keys(ring, keys) => self.thread.state().update_keys(ring, &keys),
            Order::Addresses(addresses) => {
                self.addresses = addresses;
                let state = self.thread.state();
                state.resolve(&state, &self.addresses);
                self.thread.close_unused();
            }
            Order::Client(service, socket) => accept::adopt(&self.thread, &service, socket),
            Order::Challenges(challenges) => {
                self.thread.answer_challenges(ThreadChallenges::new(&challenges));
                drop(challenges);
            }
            // A copy: a count of references would be shared with other threads.
            Order::Maintenance(services, _done) => self.thread.set_maintenance((*services).clone()),
            Order::PredecessorClosed => self.thread.announce_predecessor_closed(),
            Order::Describe(to) => {
                let thread = Rc::clone(&self.thread);
                spawn(Priority::Flow, async move {
                    // The requester may have disconnected.
                    let _ = to.try_send(thread.open.snapshot().await);
                });
            }
            Order::Heartbeat(number) => self.heartbeat_seen.store(number, Ordering::Relaxed),
            Order::Drain(after) => {
                self.thread.set_successor(after);
                self.thread.enter(WorkerPhase::Draining);
                let (thread, events) = (Rc::clone(&self.thread), self.events.clone());
                spawn(Priority::Flow, async move {
                    // Listeners empty their queues first; they are awake already.
                    engine::yield_now().await;
                    while thread.connections() > 0 || thread.accepts() {
                        thread.wake_at_end();
                        engine::wait(handfast_net::clock::Moment::NEVER).await;
                    }
                    let _ = events.try_send(Event::Drained);
                });
            }
            Order::End => {}
        }
    }

    fn install(&self, state: Arc<State>) -> Result<(), Failure> {
        let before = self.thread.state();
        if Arc::ptr_eq(&before.shared, &state) {
            return Ok(());
        }
        let metrics = &self.thread.metrics;
        let state = ThreadState::new(state, Some(&before), metrics, &self.addresses, self.number)?;
        self.thread.install(Rc::new(state));
        Ok(())
    }

    async fn end(self) {
        let cut = self.thread.connections();
        self.thread.enter(WorkerPhase::Ending);
        let deadline = engine::now() + ENDING_TIMEOUT;
        while self.thread.connections() > 0 && engine::now() < deadline {
            sleep(Duration::from_millis(5)).await;
        }
        self.thread.flush_log();
        self.send_event(Event::Ended(cut));
        engine::stop();
    }
}

impl Order {
    /// Returns the subject of the order, if a later order about the same subject replaces it.
    fn news(&self) -> Option<(Discriminant<Self>, Option<RingId>)> {
        match self {
            Self::Keys(ring, _) => Some((discriminant(self), Some(*ring))),
            // Of a worker that is stuck: the status is requested each second, and must not fill its mailbox.
            Self::Addresses(_)
            | Self::Challenges(_)
            | Self::Maintenance(..)
            | Self::Heartbeat(_)
            | Self::Describe(_) => Some((discriminant(self), None)),
            _ => None,
        }
    }
}
