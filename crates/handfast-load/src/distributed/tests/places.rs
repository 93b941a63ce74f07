//! Environments of tests: a bus of either kind, with workers that can vanish.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use super::script::Script;
use super::server::Server;
use crate::distributed::link::Link;
use crate::distributed::protocol::{Caller, Identity, Subjects, of_bus};
use crate::distributed::share::Load;
use crate::distributed::worker::Worker;
use crate::distributed::{BusAddress, Lineup};
use handfast_bus::{Bus, Local, fresh_id};
use handfast_report::ToolError;

enum Kind {
    Local(Arc<Local>),
    Nats(Server),
}

/// A bus and its workers.
pub(super) struct Place {
    kind: Kind,
    workers: JoinSet<Result<(), ToolError>>,
    handles: BTreeMap<String, (AbortHandle, watch::Sender<bool>)>,
    last: std::cell::RefCell<String>,
}

impl Place {
    fn new(kind: Kind) -> Self {
        Self { kind, workers: JoinSet::new(), handles: BTreeMap::new(), last: Default::default() }
    }

    /// The bus inside the process.
    pub(super) fn local() -> Self {
        Self::new(Kind::Local(Arc::new(Local::default())))
    }

    /// A separate server.
    pub(super) fn nats() -> Self {
        Self::new(Kind::Nats(Server::start(&[])))
    }

    /// This server.
    pub(super) fn on(server: Server) -> Self {
        Self::new(Kind::Nats(server))
    }

    pub(super) fn subjects(&self) -> Subjects {
        Subjects::new("default").unwrap()
    }

    /// The server, where there is one.
    pub(super) fn server(&mut self) -> &mut Server {
        match &mut self.kind {
            Kind::Nats(server) => server,
            Kind::Local(_) => panic!("there is no server"),
        }
    }

    /// The server's URL, where there is one.
    pub(super) fn url(&self) -> String {
        match &self.kind {
            Kind::Nats(server) => server.address("worker").url,
            Kind::Local(_) => panic!("there is no server"),
        }
    }

    /// A new connection, as a coordinator or as a worker.
    pub(super) async fn bus(&self, id: &str) -> Arc<dyn Bus> {
        match &self.kind {
            Kind::Local(local) => Arc::clone(local) as Arc<dyn Bus>,
            Kind::Nats(server) => join(&server.address("coordinator"), id).await,
        }
    }

    async fn worker_bus(&self, id: &str) -> Arc<dyn Bus> {
        match &self.kind {
            Kind::Local(_) => self.bus(id).await,
            Kind::Nats(server) => join(&server.address("worker"), id).await,
        }
    }

    /// Starts a worker, and tells its token in subjects.
    pub(super) async fn worker(&mut self, name: &str, script: Script) -> String {
        self.worker_of(name, Arc::new(script), |_| {}).await
    }

    /// The same, with another load or another program.
    pub(super) async fn worker_of(
        &mut self,
        name: &str,
        load: Arc<dyn Load>,
        change: impl Fn(&mut Identity),
    ) -> String {
        let mut identity = Identity::own().unwrap();
        change(&mut identity);
        let id = format!("{name}-{}", fresh_id().unwrap());
        let bus = self.worker_bus(&id).await;
        let worker = Worker::new(bus, self.subjects(), id.clone(), name.into(), identity, load);
        let (asker, stop) = watch::channel(false);
        let handle = self.workers.spawn(worker.serve(stop));
        self.handles.insert(name.into(), (handle, asker));
        id
    }

    /// Ends a worker without a word.
    pub(super) fn vanish(&self, name: &str) {
        self.handles[name].0.abort();
    }

    /// Ends a worker as its user would.
    pub(super) fn stop(&self, name: &str) {
        self.handles[name].1.send_replace(true);
    }

    /// A new coordinator's lineup.
    pub(super) async fn gather(&self, machines: u32) -> Result<Lineup, ToolError> {
        let me =
            Caller { id: fresh_id().map_err(of_bus)?, name: "tester".into(), identity: Identity::own()? };
        self.last.replace(me.id.clone());
        let bus = self.bus(&me.id).await;
        Lineup::on(Link { bus, subjects: self.subjects(), me, joining: "handfast worker".into() }, machines)
            .await
    }

    /// The token of the coordinator that gathered last.
    pub(super) fn last_coordinator(&self) -> String {
        self.last.borrow().clone()
    }
}

/// Joins as the program does.
pub(super) async fn join(address: &BusAddress, id: &str) -> Arc<dyn Bus> {
    let inbox = Subjects::new("default").unwrap().inbox(id);
    handfast_bus::join(address, id, &inbox).await.unwrap()
}
