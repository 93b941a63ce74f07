//! A worker thread: an engine, the listeners of this thread, and the orders of the control thread.
//!
//! In: orders. Out: events that say they were carried out. Everything a connection needs lives on this thread.

use std::io;
use std::mem::{Discriminant, discriminant};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handfast_net::engine::{self, Letterbox, Mailbox, Observer, Priority, sleep, spawn};
use handfast_net::listen::ListeningSocket;
use handfast_tls::session::Failure;
use handfast_tls::ticket::KeySet;
use tokio::sync::mpsc::Sender;

use crate::admission::permits::{Pool, Share};
use crate::backends::names::Addresses;
use crate::control::error::Error;
use crate::path::accept::accept;
use crate::state::{RingId, State};
use crate::worker::context::{Successor, WorkerContext, WorkerPhase};
use crate::worker::services::ThreadState;
use crate::worker::signer::Signer;
use handfast_observe::access_log::ThreadLog;
use handfast_observe::metrics::{Registry, ThreadMetrics};
use handfast_process::key_process;
use handfast_process::listeners::ListenerId;
use handfast_process::sandbox;

/// Orders that may wait for a worker, which takes all of them at each look. New keys and addresses take the place of older
/// ones, and a reload waits for the one before; so only a worker that is stuck, through as many reloads, has so many.
pub(crate) const WAITING_ORDERS_LIMIT: usize = 64;

#[derive(Debug)]
pub(crate) enum Order {
    /// Serve new connections by this state, from these listeners too.
    Install(Arc<State>, Vec<(ListenerId, ListeningSocket)>),
    Keys(RingId, Arc<KeySet>),
    Addresses(Addresses),
    /// No other process gives way to this one any more.
    StandAlone,
    /// Confirm that the event loop is running.
    Heartbeat(u64),
    /// Accept nothing more; who serves the same addresses.
    Drain(Successor),
    /// End what is left, and then the thread.
    End,
}

#[derive(Debug)]
pub(crate) enum Event {
    Installed(Result<(), Failure>),
    /// The last connection has ended while draining.
    Drained,
    /// The thread is about to end; so many connections were cut.
    Ended(usize),
    Failed(Error),
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) number: usize,
    pub(crate) letterbox: Letterbox<Order>,
    pub(crate) events: Sender<Event>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: ThreadLog,
    pub(crate) pool: Arc<Pool>,
    pub(crate) state: Arc<State>,
    pub(crate) addresses: Addresses,
    /// The last [`Order::Heartbeat`] that it has looked at.
    pub(crate) heartbeat_seen: Arc<AtomicU64>,
}

/// Time for connections that are ended to write their log lines.
const ENDING_TIMEOUT: Duration = Duration::from_millis(500);

impl Worker {
    /// Starts the thread `worker-N`.
    ///
    /// **Errors**: thread creation (pthread_create(3)).
    pub(crate) fn start(self) -> io::Result<std::thread::JoinHandle<()>> {
        let name = format!("worker-{}", self.number);
        std::thread::Builder::new().name(name.clone()).spawn(move || {
            let events = self.events.clone();
            if let Err(source) = self.run(&name) {
                // The receiver is gone only when the program has ended.
                let _ = events.try_send(Event::Failed(Error::system(&name)(source)));
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
        let (log, sweeper) = (Rc::clone(&thread), Rc::clone(&thread));
        engine::run(Watch { thread, metrics }, move || {
            spawn(Priority::Flow, log.tend_log());
            spawn(Priority::Flow, sweeper.sweep_contexts());
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
                    self.say(Event::Failed(Error::system(&name)(source)));
                    return engine::stop();
                }
            }
        }
    }

    fn say(&self, event: Event) {
        // The control thread listens for as long as there is one.
        let _ = self.events.try_send(event);
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Install(state, listeners) => {
                let outcome = self.install(state);
                if outcome.is_ok() {
                    for (id, socket) in listeners {
                        spawn(Priority::Flow, accept(socket.open(), id, Rc::clone(&self.thread)));
                    }
                }
                self.say(Event::Installed(outcome));
            }
            Order::Keys(ring, keys) => self.thread.state().update_keys(ring, &keys),
            Order::Addresses(addresses) => {
                self.addresses = addresses;
                let state = self.thread.state();
                state.resolve(&state, &self.addresses);
            }
            Order::StandAlone => self.thread.stand_alone(),
            Order::Heartbeat(number) => self.heartbeat_seen.store(number, Ordering::Relaxed),
            Order::Drain(after) => {
                self.thread.is_followed_by(after);
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
        self.say(Event::Ended(cut));
        engine::stop();
    }
}

impl Order {
    /// What it brings news of, where a later order about the same makes it pointless.
    fn news(&self) -> Option<(Discriminant<Self>, Option<RingId>)> {
        match self {
            Self::Keys(ring, _) => Some((discriminant(self), Some(*ring))),
            Self::Addresses(_) | Self::Heartbeat(_) => Some((discriminant(self), None)),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) orders: handfast_net::engine::Sender<Order>,
    pub(crate) thread: std::thread::JoinHandle<()>,
    /// The last [`Order::Heartbeat`] that it has looked at.
    pub(crate) heartbeat_seen: Arc<AtomicU64>,
}

impl Handle {
    /// Gives an order, and does not wait for it to be carried out: the control thread waits for no worker but with a
    /// deadline.
    ///
    /// **Errors**: the worker has not looked for so many orders that it takes no more. What was ordered does not happen there.
    pub(crate) fn order(&self, order: Order) -> Result<(), Error> {
        let news = order.news();
        self.orders.send_instead(order, |waiting| news.is_some() && waiting.news() == news).map_err(|_| {
            let name = self.thread.thread().name().unwrap_or("a worker").to_owned();
            Error::failed(format!(
                "{name} takes no orders: {WAITING_ORDERS_LIMIT} wait there, and it does not look at them"
            ))
        })
    }

    /// The same for orders whose failure has no caller: a refused one is logged.
    pub(crate) fn tell(&self, order: Order) {
        if let Err(problem) = self.order(order) {
            tracing::error!("{problem}");
        }
    }
}
