//! The parts of a program that serves, and what is done with them in both stages that own it (`serving.rs`, `draining.rs`).

use crate::state::check_plans;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, timeout};

use crate::backends::checks::Checks;
use crate::backends::names::Addresses;
use crate::backends::names::{LookupOutcome, Names};
use crate::backends::standing::Availability;
use crate::backends::tunnel::{DialAddress, dial_addresses};
use crate::cache::ServiceCache;
use crate::control::acme::{AcmeEvent, Ordering};
use crate::control::admin_state::{AdminState, Reply, Request};
use crate::control::error::Error;
use crate::control::fleet::{self, Fleet};
use crate::control::given_clients::GivenClients;
use crate::control::maintenance::MaintenanceState;
use crate::control::memory::Memory;
use crate::control::reload::Present;
use crate::control::upgrade::Upgrades;
use crate::control::watch::Watch;
use crate::control::workers::{Order, Workers};
use crate::state::{ServiceState, SharedCarriedOver, State};
use crate::worker::challenges::Challenges;
use handfast_acme::{Answers, NameStatus};
use handfast_admin::{BackendRefusal, MaintenanceRefusal};
use handfast_config::model;
use handfast_config::source::ConfigSource;
use handfast_fleet::Event;
use handfast_observe::access_log::AccessLogHandle;
use handfast_observe::metrics::{
    BackendStatus, CacheStatus, Configured, ConfiguredBackend, ConfiguredService, OrderedCertificate,
    Registry, resident,
};
use handfast_observe::operator_state::OperatorState;
use handfast_process::limits::Descriptors;
use handfast_process::listeners::{ListenPlan, Listeners};
use handfast_process::log_lines::without_severity;
use handfast_process::programs::Programs;
use handfast_process::sandbox::Sandbox;
use handfast_process::service_manager::Notifier;
use handfast_process::signals::Signals;
use handfast_text::units::counted;
use std::convert::Infallible;
use tokio::sync::mpsc::{Sender, channel};

/// Interval between attempts to bind a unix socket again after a failure.
const BIND_RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Time for the workers to act by a changed maintenance.
const MAINTENANCE_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) source: ConfigSource,
    pub(crate) carried: SharedCarriedOver,
    pub(crate) state: Arc<State>,
    /// See [`Present::started_with`].
    pub(crate) started_with: model::RestartSettings,
    pub(crate) listeners: Listeners,
    pub(crate) workers: Workers,
    pub(crate) answers: Receiver<LookupOutcome>,
    pub(crate) requests: Receiver<Request>,
    pub(crate) signals: Signals,
    pub(crate) names: Names,
    pub(crate) descriptors: Descriptors,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: AccessLogHandle,
    pub(crate) shared: Rc<AdminState>,
    pub(crate) checks: Checks,
    pub(crate) notifier: Notifier,
    pub(crate) upgrades: Upgrades,
    pub(crate) sandbox: Sandbox,
    /// Programs that it starts.
    pub(crate) programs: Programs,
    pub(crate) clients: GivenClients,
    pub(crate) ordering: Ordering,
    pub(crate) fleet: Fleet,
    pub(crate) maintenance: MaintenanceState,
}

impl Program {
    pub(crate) fn present(&self) -> Present {
        Present {
            source: self.source.clone(),
            carried: self.carried.clone(),
            state: Arc::clone(&self.state),
            started_with: self.started_with.clone(),
            taken: self.listeners.snapshot(),
            workers: self.workers.count(),
            sandbox: self.sandbox.clone(),
        }
    }

    /// Releases memory of a crowd that has left, and follows a changed limit on open files.
    pub(crate) fn check_resources(&mut self, memory: &mut Memory) {
        memory.check(self.registry.ended(), resident());
        self.descriptors.follow_limit();
    }

    /// Listens on what is planned, and has every worker serve by the state.
    ///
    /// **Errors**: listen(2), and then nothing has changed; a worker that cannot serve by it.
    pub(crate) async fn install(&mut self, state: Arc<State>, plan: ListenPlan) -> Result<(), Error> {
        let shares = self.listeners.adopt(plan)?;
        // Before their workers close them: a client that is still sent there would wait in vain.
        self.notifier.retain_sockets(&self.listeners.own(None));
        // Before clients are served by the new state.
        self.maintenance.follow(&state.config);
        self.order_maintenance();
        if let Err(error) = self.workers.install(&state, shares).await {
            self.maintenance.follow(&self.state.config);
            self.order_maintenance();
            return Err(error);
        }
        self.shared.describe(self.source.name(), &state, &self.listeners);
        ServiceCache::retire(self.state.caches(), &state.caches());
        self.state = state;
        self.publish_state();
        Ok(())
    }

    /// Publishes what is configured now, and what names resolve to, for metrics and status.
    pub(crate) fn publish_state(&mut self) {
        self.shared.retain_awaited_names(&self.names_needed());
        let addresses = self.names.addresses();
        let service = |service: &ServiceState| ConfiguredService {
            name: service.model.name.clone(),
            connections_limit: service.model.max_connections.map(|limit| limit as u64),
            address_limit: service.model.max_connections_per_address.map(|limit| limit as u64),
            sources: service.model.source.addresses(),
            backends: backends(&self.state, service, &addresses),
            requests_certificates: service.requests_certificates(),
            serves_requests: service.model.http.is_some(),
            cache: service.cache.as_ref().map(|cache| Arc::clone(cache) as Arc<dyn CacheStatus>),
            maintenance: self.maintenance.snapshot(&service.model.name),
        };
        self.checks.follow(check_plans(&self.state, &addresses));
        self.registry.set_configured(Configured {
            connections_limit: self.descriptors.connections as u64,
            services: self.state.services.iter().map(service).collect(),
            names: self.names.snapshots(),
        });
    }

    /// Names of backends that a process which has just started waits for before it is ready.
    pub(crate) fn names_needed(&self) -> Vec<String> {
        let addresses = self.names.addresses();
        let services = &self.state.services;
        let has_none = |service: &&ServiceState| {
            backends(&self.state, service, &addresses).iter().all(|backend| backend.status.is_none())
        };
        let without: Vec<_> =
            services.iter().filter(has_none).map(|service| service.model.name.clone()).collect();
        self.names.needed(&without, without.len() == services.len())
    }

    /// Sets a backend to the state that an operator requests, and logs it. **Errors**: there is none of this name.
    pub(crate) fn set_backend(
        &mut self,
        service: &str,
        name: &str,
        requested: OperatorState,
    ) -> Result<String, BackendRefusal> {
        let Some(found) = self.state.services.iter().find(|found| found.model.name == service) else {
            let known = self.state.services.iter().map(|known| known.model.name.clone()).collect();
            return Err(BackendRefusal::NoService { known });
        };
        let known = names_of(&self.state, found, &self.names.addresses());
        if !known.iter().any(|known| known == name) {
            return Err(BackendRefusal::NoBackend { known });
        }
        found.standings.set_operator_state(name, requested);
        let backends = backends(&self.state, found, &self.names.addresses());
        let with_address = backends.iter().filter(|backend| backend.status.is_some());
        let mut standings = with_address.map(|backend| found.standings.of(&backend.name)).peekable();
        let mut text = format!(
            "service {service}: backend {name} is set to {}: {}",
            requested.name(),
            requested.in_words()
        );
        if standings.peek().is_some()
            && standings.all(|standing| standing.availability() == Availability::Out)
        {
            text.push_str("; no backend of this service is in use now, so its clients are refused");
        }
        tracing::info!("{text}");
        self.publish_state();
        Ok(text)
    }

    /// Has every worker answer requests of services in maintenance. Returns a receiver that ends when all of them do.
    fn order_maintenance(&self) -> Receiver<Infallible> {
        let (table, (installed, all)) = (self.maintenance.table(), channel(1));
        self.workers.order_all(|| Order::Maintenance(Arc::clone(&table), installed.clone()));
        all
    }

    /// Puts a service in maintenance by command, or ends that, and replies when every worker acts by it.
    pub(crate) fn set_maintenance(
        &mut self,
        service: &str,
        requested: Option<model::Maintenance>,
        reply: Reply<MaintenanceRefusal>,
    ) {
        if self.upgrades.is_under_way() {
            // The requester may have disconnected.
            let _ = reply.send(Err(MaintenanceRefusal::Upgrading));
            return;
        }
        let (config, source) = (&self.state.config, self.source.name());
        let outcome = self.maintenance.change(config, &source, service, requested);
        let mut all = self.order_maintenance();
        self.publish_state();
        tokio::task::spawn_local(async move {
            // A worker that is stuck acts by it before its next request.
            let _ = timeout(MAINTENANCE_TIMEOUT, all.recv()).await;
            let _ = reply.send(outcome);
        });
    }

    /// Keeps the operator states of backends that remain after a reload, and logs them.
    pub(crate) fn retain_operator_states(&self) {
        let addresses = self.names.addresses();
        for service in &self.state.services {
            let known = names_of(&self.state, service, &addresses);
            let name = &service.model.name;
            for (backend, requested) in
                service.standings.retain_operator_states(|name| known.iter().any(|known| known == name))
            {
                tracing::info!(
                    "service {name}: backend {backend} is still set to {} by an operator",
                    requested.name()
                );
            }
        }
    }

    /// Takes what the thread that orders certificates has.
    pub(crate) fn take_acme(&mut self, event: AcmeEvent) {
        match event {
            AcmeEvent::Answers(answers, given) => {
                let all = self.fleet.own_answers(answers, given.clone());
                self.answer_by(all, given);
            }
            AcmeEvent::Claim(name, reply) => self.fleet.claim(name, reply),
            AcmeEvent::Ended(name, end) => self.fleet.ended(name, end),
            AcmeEvent::Share(name, pem) => self.fleet.share_certificate(name, pem),
            AcmeEvent::Report(names) => self.registry.set_ordered_certificates(ordered(names)),
        }
    }

    /// Has every worker answer by these; `installed` is dropped when all do.
    fn answer_by(&self, answers: Answers, installed: Sender<Infallible>) {
        let challenges = Challenges::new(answers, installed);
        self.workers.order_all(|| Order::Challenges(challenges.clone()));
    }

    /// Joins the fleet of what is served, or leaves it.
    pub(crate) fn follow_fleet(&mut self) {
        if let Some(fleet) = self.fleet.follow(&self.state.config) {
            // No wait: no files are read while those that were read are installed.
            self.carried.lock().rings.follow(fleet, SystemTime::now());
        }
        self.refresh_keys();
        self.registry.set_fleet(self.fleet.snapshot());
    }

    /// Takes what other machines of the fleet have.
    pub(crate) fn take_fleet(&mut self, event: Event) {
        match event {
            Event::Keys { machine, rotate, lifetime, text } => {
                let theirs = fleet::given(rotate, lifetime, text);
                // During a reload they are not taken; they are sent each minute.
                let merged = self
                    .carried
                    .try_lock()
                    .and_then(|mut carried| carried.rings.merge(&theirs, SystemTime::now()));
                if let Some(merged) = merged {
                    self.fleet.merged(&machine, merged);
                    self.refresh_keys();
                }
            }
            Event::Requested { certificates } => {
                self.share_keys();
                if certificates {
                    self.ordering.share();
                }
            }
            Event::Answers { of, number, files, certificates } => {
                let (installed, all) = channel(1);
                let answers = self.fleet.receive_answers(&of, &files, &certificates);
                self.answer_by(answers, installed);
                self.fleet.confirm(of, number, all);
            }
            Event::Certificate { name, pem } => self.ordering.take(name, pem),
            Event::Report(report) => self.fleet.reported(report),
        }
        self.registry.set_fleet(self.fleet.snapshot());
    }

    fn share_keys(&self) {
        if let Some(carried) = self.carried.try_lock() {
            self.fleet.share_keys(carried.rings.to_share());
        }
    }

    pub(crate) fn follow_files(&self, watch: &mut Watch) {
        watch.follow(&self.state.folders, self.state.config.process.watch_interval);
    }

    /// Returns true if a reload should bind unix sockets again whose file was removed: at once, and every [`BIND_RETRY_INTERVAL`] while that fails.
    /// `at`: time of the last attempt.
    pub(crate) fn is_to_bind_again(&self, at: &mut Option<Instant>) -> bool {
        let lost: Vec<_> = self.listeners.lost().map(ToString::to_string).collect();
        if lost.is_empty() {
            *at = None;
            return false;
        }
        let is_due = at.is_none_or(|at| at.elapsed() >= BIND_RETRY_INTERVAL);
        if is_due {
            *at = Some(Instant::now());
            tracing::error!("the file of {} was removed; a reload binds it again", lost.join(", "));
        }
        is_due
    }

    /// The process before this one has closed its listeners.
    pub(crate) fn report_predecessor_closed(&mut self) {
        self.listeners.predecessor_ended();
        self.workers.order_all(|| Order::PredecessorClosed);
    }

    /// Returns the present state in a sentence for the service manager.
    pub(crate) fn sentence(&self) -> String {
        let State { config, generation, .. } = &*self.state;
        let addresses = config.services.iter().map(|service| service.listen.len() as u64).sum();
        let services = counted(config.services.len() as u64, "service");
        let mut sentence =
            format!("Serving {services} on {}, generation {generation}", counted(addresses, "address"));
        if let Some(problem) = self.registry.reload_problem() {
            let line = problem.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            sentence.push_str(&format!("; the last reload was refused: {}", without_severity(line, "error")));
        }
        sentence
    }

    /// Pings the watchdog if every thread has answered its heartbeat. Otherwise the late threads are logged, and the service manager
    /// restarts this process after the interval that it expects.
    pub(crate) fn ping_watchdog(&mut self) {
        match &self.workers.request_heartbeats()[..] {
            [] => self.notifier.ping_watchdog(),
            late => tracing::error!(
                "{} stalled: the watchdog ping to the service manager is withheld",
                late.join(", ")
            ),
        }
    }

    pub(crate) fn take_answer(&mut self, answer: LookupOutcome) {
        if let Some(addresses) = self.names.take(answer) {
            self.workers.order_all(|| Order::Addresses(Arc::clone(&addresses)));
        }
        self.publish_state();
    }

    /// Returns the time of the next check of ticket keys: a moment later while files are being read.
    pub(crate) fn next_keys(&self) -> Instant {
        const BOUNDS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
        let next = self.carried.try_lock().map(|carried| carried.rings.next_refresh());
        let wait = match next {
            None => BOUNDS.0,
            Some(None) => BOUNDS.1,
            Some(Some(next)) => next.duration_since(SystemTime::now()).unwrap_or_default(),
        };
        Instant::now() + wait.clamp(BOUNDS.0, BOUNDS.1)
    }

    /// Tells the key process which keys what is served needs, when there is one.
    pub(crate) fn report_needed_keys(&self) {
        if let Some(carried) = self.carried.try_lock() {
            self.state.report_needed_keys(&carried);
        }
    }

    /// Rotates ticket keys that are due, and takes those that other processes wrote.
    pub(crate) fn refresh_keys(&self) {
        let Some(mut carried) = self.carried.try_lock() else { return };
        if let Some(keys) = &carried.keys {
            keys.drop_expired();
        }
        let (changed, problems) = carried.rings.refresh(SystemTime::now());
        problems
            .iter()
            .for_each(|problem| tracing::warn!("ticket keys: {problem}; the old ones stay in use"));
        let has_changed = !changed.is_empty();
        for (ring, keys) in changed {
            self.workers.order_all(|| Order::Keys(ring, Arc::clone(&keys)));
        }
        if has_changed {
            self.fleet.share_keys(carried.rings.to_share());
        }
    }
}

fn ordered(names: Vec<NameStatus>) -> Vec<OrderedCertificate> {
    let time =
        |seconds: i64| SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let of = |status: NameStatus| OrderedCertificate {
        name: status.name,
        not_after: status.not_after.map(time),
        next_try: time(status.next_try),
        last_error: status.last_error,
        failures: status.failures.into(),
    };
    names.into_iter().map(of).collect()
}

/// Returns the names by which an operator may refer to the backends of a service: as written, or as names resolve.
fn names_of(state: &State, service: &ServiceState, addresses: &Addresses) -> Vec<String> {
    let written = service.backends().map(|backend| backend.target.to_string());
    let resolved = backends(state, service, addresses).into_iter().map(|backend| backend.name);
    let mut names: Vec<_> = written.chain(resolved).collect();
    names.sort();
    names.dedup();
    names
}

/// Every endpoint of a service by its name, those of its rules too, each once.
fn backends(state: &State, service: &ServiceState, addresses: &Addresses) -> Vec<ConfiguredBackend> {
    let mut found = Vec::new();
    for model::Backend { target, weight, backup } in service.backends() {
        let backend = |name, status| ConfiguredBackend { name, weight: *weight, backup: *backup, status };
        let through = service.model.connect_through.as_ref();
        let places = dial_addresses(target, through, &state.own_targets, addresses);
        if places.is_empty() {
            found.push(backend(target.to_string(), None));
        }
        let standing = |place: DialAddress| {
            let status: Arc<dyn BackendStatus> = service.standings.of(&place.name);
            backend(place.name, Some(status))
        };
        found.extend(places.into_iter().map(standing));
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    found.dedup_by(|one, other| one.name == other.name);
    found
}
