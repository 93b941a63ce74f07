//! What the admin listener sees of the running program, and how it asks for something.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

use crate::admin::{Control, Overview, ReloadOutcome, ServiceOverview};
use crate::config::model::{Balance, ClientCertificates, Config, Service, name_fits};
use crate::counted::counted;
use crate::listeners::Listeners;
use crate::metrics::{Registry, ServiceSnapshot, Snapshot};

/// What the admin listener asks for.
#[derive(Debug)]
pub(crate) enum Request {
    /// Read the configuration again and answer.
    Reload(oneshot::Sender<Result<String, String>>),
    /// Stop accepting, and end when the connections have.
    Drain,
}

/// How far the program is.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Starting,
    Serving,
    Draining,
}

/// Shared by the program and the admin listener, on one thread.
#[derive(Debug)]
pub(crate) struct Shared {
    registry: Arc<Registry>,
    requests: Sender<Request>,
    phase: RefCell<Phase>,
    /// Names of backends for which no question has had an outcome since the start.
    waiting_for: RefCell<Vec<String>>,
    overview: RefCell<Overview>,
    /// Names under which the admin listener may be asked.
    hosts: RefCell<Vec<String>>,
}

impl Shared {
    pub(crate) fn new(registry: Arc<Registry>, requests: Sender<Request>) -> Self {
        Self {
            registry,
            requests,
            phase: RefCell::new(Phase::Starting),
            waiting_for: RefCell::default(),
            overview: RefCell::default(),
            hosts: RefCell::default(),
        }
    }

    /// Connections are accepted from now on.
    pub(crate) fn serves(&self) {
        *self.phase.borrow_mut() = Phase::Serving;
    }

    /// … but whoever chooses between this process and another one should wait until these names have had an answer, which
    /// may be that there is none: a process that has just started must not take the place of one that knows addresses.
    pub(crate) fn waits_for(&self, names: Vec<String>) {
        *self.waiting_for.borrow_mut() = names;
    }

    /// Only these have none yet. Names that come with a reload are not waited for.
    pub(crate) fn waits_no_more_for(&self, unanswered: &[String]) {
        self.waiting_for.borrow_mut().retain(|name| unanswered.contains(name));
    }

    /// Connections are accepted no more.
    pub(crate) fn drains(&self) {
        *self.phase.borrow_mut() = Phase::Draining;
    }

    /// Describes what is served from now on.
    pub(crate) fn describe(&self, source: String, config: &Config, listeners: &Listeners) {
        let services = config.services.iter().map(|service| service_overview(service, listeners)).collect();
        self.hosts.borrow_mut().clone_from(&config.admin_hosts);
        *self.overview.borrow_mut() = Overview { configuration: source, services };
    }
}

fn service_overview(service: &Service, listeners: &Listeners) -> ServiceOverview {
    let client_certificates = match &service.tls.client_certificates {
        ClientCertificates::Off => "off",
        ClientCertificates::Request { .. } => "request",
        ClientCertificates::Require { .. } => "require",
    };
    let balance = match service.balance {
        Balance::RoundRobin => "round-robin",
        Balance::LeastConnections => "least-connections",
    };
    ServiceOverview {
        name: service.name.clone(),
        listen: listeners.of_service(service),
        policy: service.tls.policy.base.clone(),
        client_certificates: client_certificates.into(),
        backends: service.backends.iter().map(ToString::to_string).collect(),
        balance: balance.into(),
        exceptions: service
            .names
            .iter()
            .map(|rule| format!("{} has settings of its own", rule.names.join(", ")))
            .collect(),
    }
}

impl Control for Shared {
    fn ready(&self) -> Result<(), String> {
        match *self.phase.borrow() {
            Phase::Starting => Err("starting".into()),
            Phase::Serving => match &self.waiting_for.borrow()[..] {
                [] => Ok(()),
                names => Err(format!("no answer yet about the backends' names {}", names.join(", "))),
            },
            Phase::Draining => {
                let services = self.registry.snapshot().services;
                let left: u64 = services.iter().map(ServiceSnapshot::connections).sum();
                Err(format!("draining: {} left", counted(left, "connection")))
            }
        }
    }

    fn has_host(&self, name: &str) -> bool {
        name_fits(&self.hosts.borrow(), name)
    }

    fn reload(&self) -> ReloadOutcome {
        let (sender, outcome) = oneshot::channel();
        let asked = self.requests.try_send(Request::Reload(sender));
        Box::pin(async move {
            let ended = || Err("the program is ending, or busy with earlier requests".to_owned());
            if asked.is_err() { ended() } else { outcome.await.unwrap_or_else(|_| ended()) }
        })
    }

    fn drain(&self) {
        // When nobody listens any more, the program has ended anyway.
        let _ = self.requests.try_send(Request::Drain);
    }

    fn overview(&self) -> Overview {
        self.overview.borrow().clone()
    }

    fn snapshot(&self) -> Snapshot {
        self.registry.snapshot()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_ready_when_every_name_has_had_an_answer() {
        let (sender, _requests) = tokio::sync::mpsc::channel(1);
        let shared = Shared::new(Registry::new(), sender);
        assert_eq!(shared.ready(), Err("starting".into()));
        shared.serves();
        shared.waits_for(vec!["db.example:5432".into(), "web.example:80".into()]);
        shared.waits_no_more_for(&["db.example:5432".into()]);
        assert_eq!(shared.ready(), Err("no answer yet about the backends' names db.example:5432".into()));
        shared.waits_no_more_for(&[]);
        assert_eq!(shared.ready(), Ok(()));
        shared.waits_no_more_for(&["of-a-reload.example:80".into()]);
        assert_eq!(shared.ready(), Ok(()), "a reload takes nothing back");
    }
}
