//! State of the running program for the admin listener, and the requests of the listener.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, Sender};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::state::State;
use handfast_acme::RequestError;
use handfast_admin::AdminSocket;
use handfast_admin::{
    BackendOutcome, BackendRefusal, CacheAct, Control, MaintenanceOutcome, MaintenanceRefusal, NotReady,
    OpenOutcome, OrderOutcome, OrderRefusal, Overview, ReloadOutcome, ReloadRefusal, RequiredToken,
    ServiceOverview, StillServing,
};
use handfast_config::model::{ClientCertificates, Clients, Maintenance, Service, name_fits};
use handfast_net::file_id::FileId;
use handfast_observe::metrics::{
    FailureSnapshot, Registry, RequestFailureSnapshot, ServiceSnapshot, Snapshot,
};
use handfast_observe::open::OpenSnapshot;
use handfast_observe::operator_state::OperatorState;
use handfast_process::key_process::KeyProcessHealth;
use handfast_process::listeners::Listeners;

pub(crate) type Reply<R> = oneshot::Sender<Result<String, R>>;

type ReplyFuture<R> = Pin<Box<dyn Future<Output = Result<String, R>>>>;

#[derive(Debug)]
pub(crate) enum Request {
    Reload(Reply<ReloadRefusal>),
    Backend {
        service: String,
        backend: String,
        requested: OperatorState,
        reply: Reply<BackendRefusal>,
    },
    /// To put a service in maintenance, or to end that.
    Maintenance {
        service: String,
        requested: Option<Maintenance>,
        reply: Reply<MaintenanceRefusal>,
    },
    /// To order the certificate of a name now, or to revoke it.
    Ordered {
        name: String,
        revokes: bool,
        reply: Reply<RequestError>,
    },
    /// To list or purge objects of caches.
    Cache {
        service: Option<String>,
        act: CacheAct,
        reply: Reply<OrderRefusal>,
    },
    /// To describe what is open: the number of answers that will come, and where.
    Open(oneshot::Sender<(usize, Receiver<OpenSnapshot>)>),
    Reopen,
    /// Stop accepting, and end when the connections have.
    Drain,
    PredecessorClosed,
}

/// Time for the workers to describe what is open.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(1);
/// A process that requests the admin address repeats that several times a second; after this silence it is gone.
const ADMIN_REQUEST_LIFETIME: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Readiness {
    Starting,
    Serving,
    /// Still accepts, and reports that it is not ready.
    Leaving,
    Draining,
}

/// Shared by the program and the admin listener, on one thread.
#[derive(Debug)]
pub(crate) struct AdminState {
    registry: Arc<Registry>,
    requests: Sender<Request>,
    /// Of the process that holds the private keys, where it is another one.
    key_process: Option<Arc<KeyProcessHealth>>,
    phase: Cell<Readiness>,
    /// Names of backends that have had no address since the start, and are needed (`Names::needed`).
    waiting_for: RefCell<Vec<String>>,
    overview: RefCell<Overview>,
    /// Names under which the admin listener may be asked.
    hosts: RefCell<Vec<String>>,
    /// The token of this process, and of the one before it, which gives up the admin address.
    token: RefCell<RequiredToken>,
    has_admin: Cell<bool>,
    /// The file of its unix socket, where it is this process's too.
    admin_file: Cell<Option<FileId>>,
    /// Its socket, for the process that follows; and whether a service manager opened it.
    admin_socket: RefCell<Option<AdminSocket>>,
    /// Told when it is handed over with its socket.
    pub(crate) admin_given: Rc<Notify>,
    /// Time of the last request of another process for the admin address, and its number of threads.
    admin_request: Cell<Option<(Instant, u32)>>,
}

impl AdminState {
    pub(crate) fn new(
        registry: Arc<Registry>,
        requests: Sender<Request>,
        key_process: Option<Arc<KeyProcessHealth>>,
    ) -> Self {
        Self {
            registry,
            requests,
            key_process,
            phase: Cell::new(Readiness::Starting),
            waiting_for: RefCell::default(),
            overview: RefCell::default(),
            hosts: RefCell::default(),
            token: RefCell::new(RequiredToken::Unknown),
            has_admin: Cell::new(false),
            admin_file: Cell::new(None),
            admin_socket: RefCell::default(),
            admin_given: Rc::default(),
            admin_request: Cell::new(None),
        }
    }

    pub(crate) fn enter(&self, phase: Readiness) {
        self.phase.set(phase);
    }

    /// A load balancer that chooses between this process and another one should wait until these names have an address or are not needed:
    /// a process that has just started must not replace one that has addresses.
    pub(crate) fn set_awaited_names(&self, names: Vec<String>) {
        *self.waiting_for.borrow_mut() = names;
    }

    /// Only these have none yet. Names that come with a reload are not waited for.
    pub(crate) fn retain_awaited_names(&self, unanswered: &[String]) {
        self.waiting_for.borrow_mut().retain(|name| unanswered.contains(name));
    }

    /// Reports that the previous process has closed its listeners.
    pub(crate) fn report_predecessor_closed(&self) {
        self.send(Request::PredecessorClosed);
    }

    /// The admin address is this process's from now on, until it is handed over.
    ///
    /// `file`: that of its unix socket, where it is this process's to remove.
    pub(crate) fn set_admin_listener(&self, file: Option<FileId>, socket: Option<AdminSocket>) {
        self.has_admin.set(true);
        self.admin_file.set(file);
        self.admin_socket.replace(socket);
    }

    /// The admin listener's socket; `None` when this process has none.
    pub(crate) fn admin_socket(&self) -> Option<AdminSocket> {
        self.admin_socket.borrow().clone()
    }

    /// Another process has the admin address, with its socket.
    pub(crate) fn release_admin(&self) {
        self.has_admin.set(false);
        self.admin_socket.replace(None);
        self.admin_given.notify_one();
    }

    /// The file of the admin listener's unix socket, where both are this process's.
    pub(crate) fn admin_file(&self) -> Option<FileId> {
        self.admin_file.get().filter(|_| self.has_admin.get())
    }

    /// The threads of another process that serves the same addresses: it has the admin address by now, or keeps asking.
    pub(crate) fn successor(&self) -> Option<u32> {
        let (requested_at, threads) = self.admin_request.get()?;
        (requested_at.elapsed() < ADMIN_REQUEST_LIFETIME || !self.has_admin.get()).then_some(threads)
    }

    /// Checks that a connection that is accepted now can be served, as far as that depends on this process.
    fn can_serve(&self) -> Result<(), NotReady> {
        if let Some(silence) = self.key_process.as_ref().and_then(|health| health.outage()) {
            return Err(NotReady::KeyProcess { silence });
        }
        match &self.waiting_for.borrow()[..] {
            [] => Ok(()),
            names => Err(NotReady::NamesUnanswered(names.to_vec())),
        }
    }

    fn send(&self, request: Request) {
        // The receiver is gone when the program ends.
        let _ = self.requests.try_send(request);
    }

    /// Sends a request that is answered; `busy` where there is no room for it, or the program ends.
    fn send_request<R: 'static>(&self, request: impl FnOnce(Reply<R>) -> Request, busy: R) -> ReplyFuture<R> {
        let (sender, outcome) = oneshot::channel();
        let is_sent = self.requests.try_send(request(sender)).is_ok();
        Box::pin(async move {
            match is_sent {
                true => outcome.await.unwrap_or(Err(busy)),
                false => Err(busy),
            }
        })
    }

    pub(crate) fn describe(&self, source: String, state: &State, listeners: &Listeners) {
        let config = &state.config;
        let token = state.admin_token.as_ref().map(|token| token.text().clone());
        self.token.replace(token.map_or(RequiredToken::None, RequiredToken::Token));
        let services = config.services.iter().map(|service| service_overview(service, listeners)).collect();
        self.hosts.borrow_mut().clone_from(&config.admin_hosts);
        *self.overview.borrow_mut() = Overview { configuration: source, services };
    }
}

fn service_overview(service: &Service, listeners: &Listeners) -> ServiceOverview {
    let client_certificates = match service.tls.as_ref().map(|tls| &tls.client_certificates) {
        None | Some(ClientCertificates::Off) => "off",
        Some(ClientCertificates::Request(_)) => "request",
        Some(ClientCertificates::Require(_)) => "require",
    };
    let policy = match (service.clients, &service.tls) {
        (Clients::Tls, Some(tls)) => tls.policy.base.clone(),
        (Clients::Plain, _) => "plain text".into(),
        (Clients::PassedThrough | Clients::Tls, _) => "passed through".into(),
    };
    let exceptions =
        service.rules.iter().map(|rule| format!("{} has separate settings", rule.names.join(", ")));
    ServiceOverview {
        name: service.name.clone(),
        listen: listeners.of_service(service),
        policy,
        client_certificates: client_certificates.into(),
        backends: service.backends.iter().map(|backend| backend.target.to_string()).collect(),
        balance: service.balance.name().into(),
        exceptions: exceptions.collect(),
    }
}

impl Control for AdminState {
    fn ready(&self) -> Result<(), NotReady> {
        match self.phase.get() {
            Readiness::Starting => Err(NotReady::Starting),
            Readiness::Serving => self.can_serve(),
            Readiness::Leaving => Err(NotReady::Leaving),
            Readiness::Draining => {
                let services = self.registry.snapshot().services;
                let connections = services.iter().map(ServiceSnapshot::connections).sum();
                Err(NotReady::Draining { connections })
            }
        }
    }

    fn has_host(&self, name: &str) -> bool {
        name_fits(&self.hosts.borrow(), name)
    }

    fn required_token(&self) -> RequiredToken {
        self.token.borrow().clone()
    }

    fn hand_over(&self, threads: u32) -> Result<(), StillServing> {
        self.admin_request.set(Some((Instant::now(), threads)));
        match self.phase.get() {
            Readiness::Draining => {
                self.admin_socket.replace(None);
                if self.has_admin.replace(false) {
                    tracing::info!("admin: handed over to the process that replaces this one");
                }
                Ok(())
            }
            _ => Err(StillServing),
        }
    }

    fn reload(&self) -> ReloadOutcome {
        self.send_request(Request::Reload, ReloadRefusal::Busy)
    }

    fn set_backend(&self, service: String, backend: String, requested: OperatorState) -> BackendOutcome {
        let request = |reply| Request::Backend { service, backend, requested, reply };
        self.send_request(request, BackendRefusal::Busy)
    }

    fn set_maintenance(&self, service: String, requested: Option<Maintenance>) -> MaintenanceOutcome {
        let request = |reply| Request::Maintenance { service, requested, reply };
        self.send_request(request, MaintenanceRefusal::Busy)
    }

    fn order(&self, name: String, revokes: bool) -> OrderOutcome {
        let answer = self.send_request(|reply| Request::Ordered { name, revokes, reply }, RequestError::Busy);
        Box::pin(async move {
            answer.await.map_err(|error| match error {
                RequestError::Busy => OrderRefusal::Busy,
                refused => OrderRefusal::Refused(refused.into()),
            })
        })
    }

    fn cache(&self, service: Option<String>, act: CacheAct) -> OrderOutcome {
        self.send_request(|reply| Request::Cache { service, act, reply }, OrderRefusal::Busy)
    }

    fn reopen(&self) {
        self.send(Request::Reopen);
    }

    fn drain(&self) {
        self.send(Request::Drain);
    }

    fn overview(&self) -> Overview {
        self.overview.borrow().clone()
    }

    fn snapshot(&self) -> Snapshot {
        self.registry.snapshot()
    }

    fn failures(&self) -> Vec<FailureSnapshot> {
        self.registry.failures()
    }

    fn request_failures(&self) -> Vec<RequestFailureSnapshot> {
        self.registry.request_failures()
    }

    fn open(&self) -> OpenOutcome {
        let (sender, answers) = oneshot::channel();
        self.send(Request::Open(sender));
        Box::pin(async move {
            let mut parts = Vec::new();
            // Without an answer of the control thread at least one is missing.
            let mut workers = 1;
            let gather = async {
                let Ok((number, mut answers)) = answers.await else { return };
                workers = number;
                while parts.len() < number
                    && let Some(part) = answers.recv().await
                {
                    parts.push(part);
                }
            };
            // A worker that is stuck is missing, and counted.
            let _ = timeout(DESCRIBE_TIMEOUT, gather).await;
            let missing = workers.saturating_sub(parts.len()) as u64;
            OpenSnapshot { missing_workers: missing, ..OpenSnapshot::merged(parts) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_ready_when_every_name_has_had_an_answer() {
        let (sender, _requests) = tokio::sync::mpsc::channel(1);
        let shared = AdminState::new(Registry::new(), sender, None);
        assert_eq!(shared.ready(), Err(NotReady::Starting));
        shared.enter(Readiness::Serving);
        shared.set_awaited_names(vec!["db.example:5432".into(), "web.example:80".into()]);
        shared.retain_awaited_names(&["db.example:5432".into()]);
        let reason = shared.ready().expect_err("one has had none");
        assert_eq!(reason.to_string(), "no address yet for the backends' names db.example:5432");
        shared.retain_awaited_names(&[]);
        assert_eq!(shared.ready(), Ok(()));
        shared.retain_awaited_names(&["of-a-reload.example:80".into()]);
        assert_eq!(shared.ready(), Ok(()), "a reload takes nothing back");
    }
}
