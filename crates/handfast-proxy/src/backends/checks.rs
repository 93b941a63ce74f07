//! Health checks of backends: one thread, with its own engine, checks all of them. It is started for the first service with checks.
//!
//! In: what is to be checked, from the control thread, whenever a state or the addresses of a name change. Out:
//! [`Standing::check_passed`] and [`Standing::check_failed`], which all worker threads see.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{self, Mailbox, Priority, Sender, TaskHandle, mailbox, spawn};
use handfast_tls::buffer::Scratch;

use crate::backends::balance::{fraction, next_random};
use crate::backends::standing::Standing;
use crate::backends::tls::BackendTlsSettings;
use crate::backends::tunnel::{ProxyHop, TunnelDestination};
use handfast_config::model::{Address, Check, SentHeader, Source};
use handfast_observe::operator_state::OperatorState;
use handfast_process::sandbox;

mod probe;
mod verdict;

/// Checks that run at once. Each has a descriptor, which the limit on connections leaves free (`limits.rs`).
pub(crate) const MAX_CONCURRENT_CHECKS: u32 = 64;

/// New checks begin at random times within this period.
const START_JITTER: Duration = Duration::from_secs(1);

/// Orders that may wait; a newer one takes the place of an older one.
const MAX_WAITING_ORDERS: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct CheckPlan {
    pub(crate) service: Arc<str>,
    pub(crate) name: String,
    /// Address to check.
    pub(crate) address: Address,
    /// The tunnel destination to request from the proxy at this address, and how; `None`: it is the backend itself.
    pub(crate) destination: Option<TunnelDestination>,
    pub(crate) through: Option<Arc<ProxyHop>>,
    /// The `Host` of a check over HTTP.
    pub(crate) host: String,
    /// The form of the PROXY header that it expects; `None` where backends get none.
    pub(crate) header: Option<SentHeader>,
    /// TLS settings, and the name that its certificate must have; `None`: it is checked in plain text.
    pub(crate) tls: Option<(Arc<BackendTlsSettings>, Option<String>)>,
    pub(crate) check: Arc<Check>,
    /// Source addresses of checks. They are those of connections, so a firewall that blocks those by their source blocks checks too.
    pub(crate) source: Arc<Source>,
    pub(crate) standing: Arc<Standing>,
}

impl CheckPlan {
    /// Returns true if this is the same check of the same backend.
    fn is_same(&self, other: &Self) -> bool {
        let settings = |plan: &Self| plan.tls.as_ref().map(|(tls, _)| Arc::as_ptr(tls));
        (&self.address, &self.destination, &self.through, &self.host)
            == (&other.address, &other.destination, &other.through, &other.host)
            && (self.header, &self.check, &self.source) == (other.header, &other.check, &other.source)
            && settings(self) == settings(other)
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
    pub(crate) fn follow(&mut self, plans: Vec<CheckPlan>) {
        let orders = match &self.orders {
            None if plans.is_empty() => return,
            None => match start() {
                Ok(orders) => self.orders.insert(orders),
                Err(error) => {
                    tracing::error!(
                        "checks of backends: start their thread: {error}; backends are used unchecked"
                    );
                    return;
                }
            },
            Some(orders) => orders,
        };
        // Each takes the place of the one before: there is always room.
        if orders.send_instead(plans, |_| true).is_err() {
            tracing::error!("health checks: their thread is unresponsive");
        }
    }
}

fn start() -> std::io::Result<Sender<Vec<CheckPlan>>> {
    let (orders, letterbox) = mailbox(MAX_WAITING_ORDERS)?;
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

#[derive(Debug)]
struct CheckQueue {
    scratch: RefCell<Scratch>,
    running: Cell<u32>,
    /// Tasks that wait for one to end.
    waiting: RefCell<VecDeque<TaskHandle>>,
    random: Cell<u64>,
}

impl CheckQueue {
    /// A random duration below `most`.
    fn random(&self, most: Duration) -> Duration {
        most.mul_f64(fraction(next_random(&self.random)))
    }

    async fn wait_for_turn(&self) -> CheckPermit<'_> {
        while self.running.get() >= MAX_CONCURRENT_CHECKS {
            let task = engine::current();
            self.waiting.borrow_mut().push_back(task);
            engine::wait(Moment::NEVER).await;
            // No task waits twice: a permit for a task that has ended would be lost.
            self.waiting.borrow_mut().retain(|waiting| *waiting != task);
        }
        self.running.set(self.running.get() + 1);
        CheckPermit(self)
    }
}

struct CheckPermit<'a>(&'a CheckQueue);

impl Drop for CheckPermit<'_> {
    fn drop(&mut self) {
        self.0.running.set(self.0.running.get() - 1);
        let next = self.0.waiting.borrow_mut().pop_front();
        // One that is to end passes it on.
        next.into_iter().for_each(TaskHandle::wake);
    }
}

#[derive(Debug)]
struct Watch {
    plan: CheckPlan,
    is_stopped: Cell<bool>,
    task: Cell<Option<TaskHandle>>,
}

impl Watch {
    fn begin(plan: CheckPlan, queue: &Rc<CheckQueue>) -> Rc<Self> {
        let watch = Rc::new(Self { plan, is_stopped: Cell::new(false), task: Cell::new(None) });
        spawn(Priority::Handshake, Rc::clone(&watch).run(Rc::clone(queue)));
        watch
    }

    /// The task ends now, or with the check that runs, whose outcome does not count.
    fn stop(&self) {
        self.is_stopped.set(true);
        if let Some(task) = self.task.get() {
            task.wake();
        }
    }

    /// Waits for a moment, or for the end.
    async fn wait(&self, until: Moment) {
        while !self.is_stopped.get() && engine::now() < until {
            engine::wait(until).await;
        }
    }

    /// Checks the backend until it is stopped.
    async fn run(self: Rc<Self>, queue: Rc<CheckQueue>) {
        self.task.set(Some(engine::current()));
        let plan = &self.plan;
        let Check { interval, rise, fall, .. } = *plan.check;
        // Each backend has its own turns: every source is used, also if several backends are checked in step.
        let sources = Cell::new(0);
        self.wait(engine::now() + queue.random(interval.min(START_JITTER))).await;
        while !self.is_stopped.get() {
            let begun = engine::now();
            // A backend that an operator has switched off is not checked.
            if plan.standing.operator_state() != Some(OperatorState::Down) {
                let permit = queue.wait_for_turn().await;
                if self.is_stopped.get() {
                    return;
                }
                let begun = Moment::now();
                let outcome = probe::probe(plan, &sources, &queue.scratch).await;
                drop(permit);
                let after = Moment::now().since(begun);
                match outcome {
                    _ if self.is_stopped.get() => return,
                    Ok(()) => plan.standing.check_passed(after, rise),
                    // The cause is on this machine, and does not blame the backend.
                    Err(failed) if failed.is_ours() => {
                        tracing::warn!("service {}: check of backend {}: {failed}", plan.service, plan.name);
                    }
                    Err(failed) => plan.standing.check_failed(&failed, fall),
                }
            }
            let pause = interval.mul_f64(0.9) + queue.random(interval / 5);
            self.wait(begun + pause).await;
        }
    }
}

/// Starts and stops checks by the control thread's orders.
async fn follow(mut orders: Mailbox<Vec<CheckPlan>>) {
    let queue = Rc::new(CheckQueue {
        scratch: RefCell::new(Scratch::new(handfast_leg::READ)),
        running: Cell::new(0),
        waiting: RefCell::default(),
        random: Cell::new(Moment::now().nanos()),
    });
    let mut watches: HashMap<(Arc<str>, String), Rc<Watch>> = HashMap::new();
    loop {
        let plans = match orders.receive().await {
            Ok(letters) => letters.into_iter().next_back(),
            Err(error) => {
                tracing::error!("checks of backends: {error}; backends stay as they are now");
                return engine::stop();
            }
        };
        let Some(plans) = plans else { continue };
        let mut before = std::mem::take(&mut watches);
        for plan in plans {
            let key = (Arc::clone(&plan.service), plan.name.clone());
            let watch = match before.remove(&key) {
                Some(watch) if watch.plan.is_same(&plan) => watch,
                other => {
                    other.into_iter().for_each(|watch| watch.stop());
                    Watch::begin(plan, &queue)
                }
            };
            watches.insert(key, watch);
        }
        before.into_values().for_each(|watch| watch.stop());
    }
}
