//! The running program: the control thread's loop, and a stop from its first word to the last.
//!
//! In: signals, requests of the admin listener, answers about names, changed files, what workers say. Out: orders for
//! the workers. Reloading is in `reload.rs`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until, timeout};

use crate::access_log::AccessLogHandle;
use crate::admin::{self, ReloadRefusal};
use crate::control::{Request, Shared};
use crate::error::{Error, Outcome};
use crate::listeners::{Listeners, Plan};
use crate::metrics::{Configured, ConfiguredService, Registry};
use crate::reload::{Kind, Reloading};
use crate::resolve::{Answer, Names};
use crate::run::{Events, end_log};
use crate::signals::{Asked, Signals};
use crate::source::ConfigSource;
use crate::state::{ServiceState, SharedCarriedOver, State};
use crate::thread_state::stands_for;
use crate::watch::Watch;
use crate::worker::{Event, Handle, Order};

/// How long the workers may take to install a state, or to end.
const WORKERS: Duration = Duration::from_secs(10);

/// A stop that has not refused anybody yet.
#[derive(Debug)]
struct Leaving {
    until: Instant,
    /// Whether a signal asked for it; the next one ends it early.
    signalled: bool,
}

/// The running program.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) source: ConfigSource,
    pub(crate) carried: SharedCarriedOver,
    pub(crate) state: Arc<State>,
    pub(crate) listeners: Listeners,
    pub(crate) workers: Vec<Handle>,
    pub(crate) events: Events,
    pub(crate) answers: Receiver<Answer>,
    pub(crate) requests: Receiver<Request>,
    pub(crate) signals: Signals,
    pub(crate) names: Names,
    /// Connections that the process serves at once.
    pub(crate) max_connections: usize,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: AccessLogHandle,
    pub(crate) shared: Rc<Shared>,
}

impl Program {
    /// Opens the listeners and says that it is ready.
    pub(crate) async fn begin(&mut self, plan: Plan) -> Result<(), Error> {
        self.install(Arc::clone(&self.state), plan).await?;
        self.registry.reload_succeeded(self.state.generation);
        self.shared.serves();
        self.shared.waits_for(self.names.waiting_for());
        tracing::info!("ready");
        Ok(())
    }

    /// Gives every worker a state and its new listeners, and waits until all serve by it.
    ///
    /// **Errors**: a worker that cannot; the state was tried out before, so this is a fault of ours.
    pub(crate) async fn install(&mut self, state: Arc<State>, plan: Plan) -> Result<(), Error> {
        let shares = self.listeners.adopt(plan)?;
        for (worker, share) in self.workers.iter().zip(shares) {
            worker.orders.send(Order::Install(Arc::clone(&state), share));
        }
        let mut left = self.workers.len();
        while left > 0 {
            match timeout(WORKERS, self.events.recv()).await {
                Ok(Some(Event::Installed(Ok(())))) => left -= 1,
                Ok(Some(Event::Installed(Err(failure)))) => return Err(Error::Install(failure)),
                Ok(Some(Event::Failed(error))) => return Err(error),
                Ok(Some(Event::Drained | Event::Ended(_))) => {}
                Ok(None) => return Err(Error::WorkerEnded),
                Err(_) => return Err(Error::WorkerSilent(WORKERS)),
            }
        }
        self.shared.describe(self.source.name(), &state.config, &self.listeners);
        self.state = state;
        self.tell();
        Ok(())
    }

    /// Tells those who look in what is configured now, and what names stand for.
    pub(crate) fn tell(&self) {
        self.shared.waits_no_more_for(&self.names.waiting_for());
        let addresses = self.names.addresses();
        let backends = |service: &ServiceState| {
            let rules = service.model.names.iter().filter_map(|rule| rule.backends.as_ref()).flatten();
            let mut found = Vec::new();
            for target in service.model.backends.iter().chain(rules) {
                let stands_for = stands_for(target, self.state.built_in.as_ref(), &addresses);
                if stands_for.is_empty() {
                    found.push((target.to_string(), None));
                }
                let standing = |(name, _): (String, _)| {
                    let standing = service.standings.of(&name);
                    (name, Some(standing))
                };
                found.extend(stands_for.into_iter().map(standing));
            }
            found.sort_by(|(one, _), (other, _)| one.cmp(other));
            found.dedup_by(|(one, _), (other, _)| one == other);
            found
        };
        let service = |service: &ServiceState| ConfiguredService {
            name: service.model.name.clone(),
            connections_limit: service.model.max_connections.map(|limit| limit as u64),
            address_limit: service.model.max_connections_per_address.map(|limit| limit as u64),
            backends: backends(service),
        };
        self.registry.set_configured(Configured {
            connections_limit: self.max_connections as u64,
            services: self.state.services.iter().map(service).collect(),
            names: self.names.snapshots(),
        });
    }

    /// Serves until it is told to stop.
    pub(crate) async fn serve(mut self) -> Outcome {
        let mut reloading = Reloading::default();
        let mut watch = self.watch();
        let mut next_keys = self.next_keys();
        let mut leaving: Option<Leaving> = None;
        loop {
            let leaves_at = leaving.as_ref().map(|leaving| leaving.until);
            tokio::select! {
                asked = self.signals.next() => match asked {
                    Asked::Reload => reloading.ask(&self, Kind::Configuration, None),
                    Asked::Reopen => self.log.reopen(),
                    Asked::Stop => match self.leave(leaving.take(), true) {
                        Ok(further) => leaving = Some(further),
                        Err(signalled) => return self.stop(signalled).await,
                    },
                },
                Some(request) = self.requests.recv() => match request {
                    Request::Reload(reply) => reloading.ask(&self, Kind::Configuration, Some(reply)),
                    Request::StandAlone => self.stand_alone(),
                    Request::Drain if leaving.is_some() => {}
                    Request::Drain => match self.leave(None, false) {
                        Ok(further) => leaving = Some(further),
                        Err(signalled) => return self.stop(signalled).await,
                    },
                },
                () = sleep_until(leaves_at.unwrap_or_else(Instant::now)), if leaves_at.is_some() => {
                    return self.stop(leaving.is_some_and(|leaving| leaving.signalled)).await;
                }
                Some(event) = self.events.recv() => if let Event::Failed(error) = event {
                    tracing::error!("{error}");
                    return Outcome::Failed;
                },
                Some(answer) = self.answers.recv() => self.take_answer(answer),
                () = watch.changed() => reloading.files_may_have_changed(&self),
                built = reloading.built() => {
                    reloading.finish(&mut self, built).await;
                    watch = self.watch();
                    next_keys = self.next_keys();
                }
                () = sleep_until(next_keys) => {
                    self.refresh_keys();
                    next_keys = self.next_keys();
                }
            }
        }
    }

    /// Begins to stop, as far as that goes without refusing anybody; `Err` when it is time to: whether by a signal.
    ///
    /// The first signal after a drain that was asked for over the admin listener changes nothing, here as in `stop`.
    fn leave(&self, before: Option<Leaving>, by_signal: bool) -> Result<Leaving, bool> {
        let delay = self.state.config.process.drain_delay;
        match before {
            Some(before) if before.signalled => Err(true),
            Some(before) => Ok(Leaving { signalled: true, ..before }),
            // Who asks this machine finds the other process ready.
            None if delay.is_zero() || self.shared.successor().is_some() => Err(by_signal),
            None => {
                self.shared.leaves();
                tracing::info!("stopping: not ready, and new connections are served for {delay:?} yet");
                Ok(Leaving { until: Instant::now() + delay, signalled: by_signal })
            }
        }
    }

    /// The process before this one has closed its listeners.
    fn stand_alone(&mut self) {
        self.listeners.stands_alone();
        self.workers.iter().for_each(|worker| worker.orders.send(Order::StandAlone));
    }

    fn watch(&self) -> Watch {
        Watch::new(&self.state.folders, self.state.config.process.watch_interval)
    }

    fn take_answer(&mut self, answer: Answer) {
        if let Some(addresses) = self.names.take(answer) {
            for worker in &self.workers {
                worker.orders.send(Order::Addresses(Arc::clone(&addresses)));
            }
        }
        self.tell();
    }

    /// When ticket keys are to be looked at next; while files are being read, a moment later.
    fn next_keys(&self) -> Instant {
        let next = self.carried.try_lock().and_then(|carried| carried.rings.next_refresh());
        let wait = next.and_then(|next| next.duration_since(SystemTime::now()).ok()).unwrap_or_default();
        Instant::now() + wait.clamp(Duration::from_secs(1), Duration::from_secs(60))
    }

    fn refresh_keys(&self) {
        let Some(mut carried) = self.carried.try_lock() else { return };
        let (changed, problems) = carried.rings.refresh(SystemTime::now());
        problems
            .iter()
            .for_each(|problem| tracing::warn!("ticket keys: {problem}; the old ones stay in use"));
        for (ring, keys) in changed {
            for worker in &self.workers {
                worker.orders.send(Order::Keys(ring, Arc::clone(&keys)));
            }
        }
    }

    /// Stops: no new connections, those that stand may end by themselves until the drain deadline, the rest is cut.
    ///
    /// A drain that was asked for over the admin listener is the same stop: the first signal after it (a service manager
    /// sends one when its pre-stop hook has asked for the drain) changes nothing.
    async fn stop(mut self, by_signal: bool) -> Outcome {
        let drain = self.state.config.process.drain;
        self.shared.drains();
        tracing::info!("stopping: no new connections; those that stand have {drain:?} to end");
        let successor = self.shared.successor();
        // Each worker closes its own sockets when their queues are empty; nobody may keep them open behind it.
        self.listeners.release();
        self.workers.iter().for_each(|worker| worker.orders.send(Order::Drain(successor)));
        let deadline = Instant::now() + drain;
        let mut left = self.workers.len();
        let mut cut_why = "";
        let mut signalled = by_signal;
        while left > 0 {
            tokio::select! {
                Some(event) = self.events.recv() => if matches!(event, Event::Drained | Event::Failed(_)) {
                    left -= 1;
                },
                Some(request) = self.requests.recv() => if let Request::Reload(reply) = request {
                    // Whoever asked may have left.
                    let _ = reply.send(Err(ReloadRefusal::Stopping));
                },
                asked = self.signals.next() => {
                    if asked == Asked::Stop && std::mem::replace(&mut signalled, true) {
                        cut_why = " at a second signal";
                        break;
                    }
                }
                () = sleep_until(deadline) => {
                    cut_why = " at the drain deadline";
                    break;
                }
            }
        }
        self.end(cut_why).await
    }

    async fn end(mut self, cut_why: &str) -> Outcome {
        self.workers.iter().for_each(|worker| worker.orders.send(Order::End));
        let mut cut = 0;
        let mut left = self.workers.len();
        while left > 0 {
            match timeout(Duration::from_secs(2), self.events.recv()).await {
                Ok(Some(Event::Ended(count))) => {
                    cut += count;
                    left -= 1;
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        if left == 0 {
            for worker in std::mem::take(&mut self.workers) {
                // A thread that panicked has said so.
                let _ = worker.thread.join();
            }
        }
        self.listeners.close();
        if let Some(address) = self.state.config.admin.as_ref().filter(|_| self.shared.has_admin()) {
            admin::forget(address);
        }
        end_log(self.log);
        match cut {
            0 => tracing::info!("stopped: every connection had ended"),
            1 => tracing::info!("stopped: 1 connection was cut{cut_why}"),
            _ => tracing::info!("stopped: {cut} connections were cut{cut_why}"),
        }
        Outcome::Good
    }
}
