//! Active checks of backends: one thread asks all of them, and tells their standings what it found.
//!
//! In: what is to be checked, from the control thread, whenever a state or the addresses of a name change. Out:
//! [`Standing::check_passed`] and [`Standing::check_failed`], which all worker threads see. The thread has a separate engine,
//! and is there from the first service with checks on.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Mailbox, Priority, Sender, TaskHandle, mailbox, spawn};
use handfast_tls::buffer::Scratch;
use handfast_wire::proxy_header::Version;

use crate::backends::balance::{fraction, next_random};
use crate::backends::standing::Standing;
use crate::backends::tls::BackendTlsSettings;
use crate::backends::tunnel::{ProxyHop, TunnelDestination};
use handfast_config::model::{Address, Check, Source};
use handfast_observe::operator_state::OperatorState;
use handfast_process::sandbox;

mod probe;
mod verdict;

/// Checks that are under way at once; the others wait for their turn. Each has a descriptor, which the limit on connections
/// leaves free (`limits.rs`).
pub(crate) const SLOTS: u32 = 64;

/// New checks begin at random times within this period, so that a start with many backends is spread.
const BEGIN: Duration = Duration::from_secs(1);

/// Orders that may wait; a newer one takes the place of an older one.
const MOST_ORDERS: usize = 4;

/// One backend to be checked.
#[derive(Clone, Debug)]
pub(crate) struct CheckPlan {
    pub(crate) service: Arc<str>,
    pub(crate) name: String,
    /// Where it is asked.
    pub(crate) address: Address,
    /// The tunnel destination to request from the proxy at this address, and how; `None`: it is the backend itself.
    pub(crate) behind: Option<TunnelDestination>,
    pub(crate) through: Option<Arc<ProxyHop>>,
    /// The `Host` of a check over HTTP.
    pub(crate) host: String,
    /// The form of the PROXY header that it expects; `None` where backends get none.
    pub(crate) header: Option<Version>,
    /// How TLS is spoken with it, and the name that its certificate must have; `None`: it is asked in the clear.
    pub(crate) tls: Option<(Arc<BackendTlsSettings>, Option<String>)>,
    pub(crate) check: Arc<Check>,
    /// Where it is asked from: what keeps connections from a backend by their source keeps its checks from it too.
    pub(crate) source: Arc<Source>,
    pub(crate) standing: Arc<Standing>,
}

impl CheckPlan {
    /// Whether this is the same check of the same backend.
    fn is_same(&self, other: &Self) -> bool {
        self.address == other.address
            && self.behind == other.behind
            && self.through == other.through
            && self.host == other.host
            && self.header == other.header
            && self.check == other.check
            && self.source == other.source
            && self.tls.as_ref().map(|(tls, _)| Arc::as_ptr(tls))
                == other.tls.as_ref().map(|(tls, _)| Arc::as_ptr(tls))
            && Arc::ptr_eq(&self.standing, &other.standing)
    }
}

/// The checks, as the control thread holds them.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Once there was something to check.
    orders: Option<Sender<Vec<CheckPlan>>>,
}

impl Checks {
    /// Checks these from now on, and no others. A check that stays goes on as it was.
    pub(crate) fn follow(&mut self, wanted: Vec<CheckPlan>) {
        if self.orders.is_none() {
            if wanted.is_empty() {
                return;
            }
            match start() {
                Ok(orders) => self.orders = Some(orders),
                Err(error) => {
                    tracing::error!(
                        "checks of backends: start their thread: {error}; backends are used unchecked"
                    );
                    return;
                }
            }
        }
        let told = self.orders.as_ref().map(|orders| orders.send_instead(wanted, |_| true));
        if matches!(told, Some(Err(_))) {
            // Each takes the place of the one before: there is always room.
            tracing::error!("checks of backends: their thread takes no orders");
        }
    }
}

/// Starts the thread `checks`.
fn start() -> std::io::Result<Sender<Vec<CheckPlan>>> {
    let (orders, letterbox) = mailbox(MOST_ORDERS)?;
    std::thread::Builder::new().name("checks".to_owned()).spawn(move || {
        handfast_tls::warm_up();
        sandbox::confine_this_thread();
        let outcome = engine::run((), move || {
            spawn(Priority::Flow, follow(letterbox.open()));
        });
        if let Err(error) = outcome {
            tracing::error!("checks of backends: {error}; backends stay as they are now");
        }
    })?;
    Ok(orders)
}

/// What the tasks of the thread share.
#[derive(Debug)]
struct CheckQueue {
    scratch: RefCell<Scratch>,
    under_way: Cell<u32>,
    /// Tasks that wait for one to end.
    waiting: RefCell<VecDeque<TaskHandle>>,
    random: Cell<u64>,
}

impl CheckQueue {
    /// A random duration below `most`.
    fn random(&self, most: Duration) -> Duration {
        most.mul_f64(fraction(next_random(&self.random)))
    }

    /// Waits for a turn.
    async fn turn(&self) -> CheckPermit<'_> {
        while self.under_way.get() >= SLOTS {
            let task = engine::current();
            self.waiting.borrow_mut().push_back(task);
            engine::wait(Moment::NEVER).await;
            // No task waits twice: a permit for a task that has ended would be lost.
            self.waiting.borrow_mut().retain(|waiting| *waiting != task);
        }
        self.under_way.set(self.under_way.get() + 1);
        CheckPermit(self)
    }
}

/// One of the checks that are under way.
struct CheckPermit<'a>(&'a CheckQueue);

impl Drop for CheckPermit<'_> {
    fn drop(&mut self) {
        self.0.under_way.set(self.0.under_way.get() - 1);
        let next = self.0.waiting.borrow_mut().pop_front();
        // One that is to end passes it on.
        next.into_iter().for_each(TaskHandle::wake);
    }
}

/// A task that checks one backend, as the one that starts and stops them holds it.
#[derive(Debug)]
struct Running {
    checked: Rc<CheckPlan>,
    stop: Rc<Stop>,
}

/// Whether a task is to end, and which it is.
#[derive(Debug, Default)]
struct Stop {
    asked: Cell<bool>,
    task: Cell<Option<TaskHandle>>,
}

impl Stop {
    /// The task ends now, or with the check that is under way, whose outcome does not count.
    fn ask(&self) {
        self.asked.set(true);
        if let Some(task) = self.task.get() {
            task.wake();
        }
    }

    /// Waits for a moment, or for the end.
    async fn wait(&self, until: Moment) {
        while !self.asked.get() && engine::now() < until {
            engine::wait(until).await;
        }
    }
}

/// Starts and stops checks by the control thread's orders.
async fn follow(mut orders: Mailbox<Vec<CheckPlan>>) {
    let shared = Rc::new(CheckQueue {
        scratch: RefCell::new(Scratch::new(handfast_leg::READ)),
        under_way: Cell::new(0),
        waiting: RefCell::default(),
        random: Cell::new(Moment::now().nanos()),
    });
    let mut running: HashMap<(Arc<str>, String), Running> = HashMap::new();
    loop {
        let wanted = match orders.receive().await {
            Ok(letters) => letters.into_iter().next_back(),
            Err(error) => {
                tracing::error!("checks of backends: {error}; backends stay as they are now");
                return engine::stop();
            }
        };
        let Some(wanted) = wanted else { continue };
        let mut before = std::mem::take(&mut running);
        for checked in wanted {
            let key = (Arc::clone(&checked.service), checked.name.clone());
            let same = before.remove(&key).filter(|running| {
                let same = running.checked.is_same(&checked);
                if !same {
                    running.stop.ask();
                }
                same
            });
            running.insert(key, same.unwrap_or_else(|| begin(checked, &shared)));
        }
        before.into_values().for_each(|gone| gone.stop.ask());
    }
}

fn begin(checked: CheckPlan, shared: &Rc<CheckQueue>) -> Running {
    let running = Running { checked: Rc::new(checked), stop: Rc::default() };
    spawn(
        Priority::Handshake,
        watch(Rc::clone(&running.checked), Rc::clone(&running.stop), Rc::clone(shared)),
    );
    running
}

/// Checks one backend until it is stopped.
async fn watch(checked: Rc<CheckPlan>, stop: Rc<Stop>, shared: Rc<CheckQueue>) {
    stop.task.set(Some(engine::current()));
    let Check { interval, rise, fall, .. } = *checked.check;
    // Each backend has its own turns: every source is asked from, also where several backends are asked in step.
    let sources = Cell::new(0);
    stop.wait(engine::now() + shared.random(interval.min(BEGIN))).await;
    while !stop.asked.get() {
        let begun = engine::now();
        // A backend that an operator has switched off is not checked.
        if checked.standing.operator_state() != Some(OperatorState::Down) {
            let turn = shared.turn().await;
            if stop.asked.get() {
                return;
            }
            let begun = Moment::now();
            let outcome = probe::probe(&checked, &sources, &shared.scratch).await;
            drop(turn);
            let after = Moment::now().since(begun);
            match outcome {
                _ if stop.asked.get() => return,
                Ok(()) => checked.standing.check_passed(after, rise),
                // It is this machine that cannot ask, which says nothing about the backend.
                Err(failed) if failed.is_ours() => {
                    tracing::warn!(
                        "service {}: check of backend {}: {failed}",
                        checked.service,
                        checked.name
                    );
                }
                Err(failed) => checked.standing.check_failed(&failed, fall),
            }
        }
        let pause = interval.mul_f64(0.9) + shared.random(interval / 5);
        stop.wait(begun + pause).await;
    }
}
