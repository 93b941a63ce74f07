//! All worker threads, as the control thread holds them.
//!
//! In: orders for all of them. Out: what they say, and how many connections were cut when they end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handfast_net::engine::mailbox;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::time::timeout;

use crate::admission::permits::Pool;
use crate::backends::names::Addresses;
use crate::control::error::Error;
use crate::control::worker::{Event, Handle, Order, WAITING_ORDERS_LIMIT, Worker};
use crate::state::State;
use handfast_observe::access_log::AccessLogHandle;
use handfast_observe::metrics::Registry;
use handfast_process::listeners::Share;

/// How long they may take to install a state.
const INSTALLING: Duration = Duration::from_secs(10);
/// … and to end, after the order to do so.
const ENDING: Duration = Duration::from_secs(2);
/// Events that may wait for the control thread. Each worker sends one for each order, and orders are rare.
const EVENTS: usize = 256;

#[derive(Debug)]
pub(crate) struct Workers {
    handles: Vec<Handle>,
    events: Receiver<Event>,
    /// How often they were asked whether they turn.
    asked: u64,
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
        let (sender, events) = channel(EVENTS);
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
        Ok(Self { handles, events, asked: 0 })
    }

    pub(crate) fn count(&self) -> usize {
        self.handles.len()
    }

    /// Gives every one of them an order.
    pub(crate) fn tell(&self, order: impl Fn() -> Order) {
        self.handles.iter().for_each(|worker| worker.tell(order()));
    }

    /// Requests a heartbeat of every worker; returns the names of those that have not answered the last one.
    pub(crate) fn turn(&mut self) -> Vec<String> {
        let asked = self.asked;
        let late = self.handles.iter().filter(|worker| worker.heartbeat_seen.load(Ordering::Relaxed) < asked);
        let name = |worker: &Handle| worker.thread.thread().name().unwrap_or("a worker").to_owned();
        let late = late.map(name).collect();
        self.asked += 1;
        let asked = self.asked;
        self.tell(|| Order::Heartbeat(asked));
        late
    }

    /// Gives every one of them a state and its new listeners, and waits until all serve by it.
    ///
    /// **Errors**: one that cannot, has ended, or does not answer; the state was tried out before, so this is a fault of
    /// ours.
    pub(crate) async fn install(&mut self, state: &Arc<State>, shares: Vec<Share>) -> Result<(), Error> {
        for (worker, share) in self.handles.iter().zip(shares) {
            worker.order(Order::Install(Arc::clone(state), share))?;
        }
        let mut left = self.handles.len();
        while left > 0 {
            match timeout(INSTALLING, self.events.recv()).await {
                Ok(Some(Event::Installed(Ok(())))) => left -= 1,
                Ok(Some(Event::Installed(Err(failure)))) => return Err(Error::failed(failure.to_string())),
                Ok(Some(Event::Failed(error))) => return Err(error),
                Ok(Some(Event::Drained | Event::Ended(_))) => {}
                Ok(None) => return Err(Error::failed("a worker thread has ended")),
                Err(_) => {
                    return Err(Error::failed(format!(
                        "a worker thread did not answer within {INSTALLING:?}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// What one of them says next; `None` when all have ended. **Cancel**: loses nothing.
    pub(crate) async fn event(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// Ends them all; how many connections were cut.
    pub(crate) async fn end(mut self) -> usize {
        self.tell(|| Order::End);
        let mut cut = 0;
        let mut left = self.handles.len();
        while left > 0 {
            match timeout(ENDING, self.events.recv()).await {
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
