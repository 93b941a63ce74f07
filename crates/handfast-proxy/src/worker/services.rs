//! A state as one thread serves by it: its own copies of everything that is used for each connection.
//!
//! In: the [`State`] that all threads share. Out: services with TLS servers, rules, backends and limits, which the path
//! reads without touching what other cores write. What outlives a reload (an endpoint's standing) is handed over.

use crate::backends::names::Addresses;
use handfast_process::listeners::ListenerId;
use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use handfast_net::dial::SourceAddress;
use handfast_net::host_name::host_name;
use handfast_tls::server::Server;
use handfast_tls::session::Failure;
use handfast_tls::ticket::KeySet;
use handfast_wire::starttls::Protocol;

use crate::admission::Admission;
use crate::admission::TrustedSenders;
use crate::admission::permits::{AddressLimit, Share};
use crate::backends::endpoint::Endpoint;
use crate::backends::group::Group;
use crate::backends::standing::Standings;
use crate::backends::tls::{BackendPrelude, Dialler};
use crate::backends::tunnel::{Place, Through, places};
use crate::config::RouteTable;
use crate::config::model::{
    self, Address, Backend, ClientCertificates, Clients, ConnectThrough, Limits, MissingCloseNotify,
    PlainHttp, Service, ServiceRule, Source, Target,
};
use crate::state::{Distinct, RingId, ServiceState, State};
use crate::worker::sent_header::SentHeader;
use handfast_observe::cause::Cause;
use handfast_observe::metrics::{ServiceMetrics, ThreadMetrics};
use handfast_observe::reason::{CloseReason, Side, Step};

/// Every endpoint of a thread by service and name.
type Endpoints = HashMap<(Rc<str>, String), Rc<Endpoint>>;

/// One thread's state.
#[derive(Debug)]
pub(crate) struct ThreadState {
    pub(crate) shared: Arc<State>,
    pub(crate) services: Vec<Rc<ThreadService>>,
    /// Services by the listener that accepts for them.
    by_listener: HashMap<ListenerId, Rc<ThreadService>>,
}

/// What clients of a service speak before TLS.
#[derive(Debug)]
pub(crate) enum Prelude {
    /// Nothing: TLS, or plain text, begins with the first byte.
    None,
    /// A protocol in which they ask for TLS; `name` is what the proxy calls itself in it.
    Standard { protocol: Protocol, name: Box<str> },
    /// MySQL: its server speaks first, with what the client needs to log in.
    ServerFirst,
}

impl Prelude {
    fn new(model: Option<&model::Starttls>) -> Self {
        match model {
            None => Self::None,
            Some(model) if model.protocol == Protocol::MySql => Self::ServerFirst,
            Some(model) => Self::Standard {
                protocol: model.protocol,
                name: model.name.clone().unwrap_or_else(host_name).into(),
            },
        }
    }
}

/// One service of a thread.
#[derive(Debug)]
pub(crate) struct ThreadService {
    pub(crate) index: usize,
    pub(crate) name: Rc<str>,
    pub(crate) generation: u64,
    pub(crate) table: RouteTable,
    pub(crate) limits: Limits,
    pub(crate) missing_close_notify: MissingCloseNotify,
    /// What clients speak before TLS.
    pub(crate) prelude: Prelude,
    pub(crate) metrics: Arc<ServiceMetrics>,
    /// Permits of this service, when it has a limit of its own.
    pub(crate) share: Option<Rc<Share>>,
    pub(crate) address_limit: Option<Arc<AddressLimit>>,
    pub(crate) admission: Option<Arc<Admission>>,
    /// Who must begin with a PROXY header.
    pub(crate) proxy_senders: Option<TrustedSenders>,
    /// What backends are told in one.
    pub(crate) proxy_out: Option<SentHeader>,
    /// What becomes of clients that no rule is about …
    pub(crate) clients: Clients,
    /// … and for each rule, whether its clients are passed through.
    passes_through: Vec<bool>,
    pub(crate) plain_http: PlainHttp,
    ring: Option<RingId>,
    source: Source,
    /// The proxy on the way to its backends.
    pub(crate) through: Option<Arc<Through>>,
    /// Counts its connections to backends, so that each source address has its turn.
    turn: Cell<usize>,
    /// How its backends do, for all threads.
    standings: Arc<Standings>,
    /// For the service's own clients, then for those of each rule; none where no TLS ends here.
    servers: Distinct<Server>,
    /// The same for backends, and again for those of clients whose certificate failed.
    groups: Distinct<(Vec<Backend>, Group)>,
    /// TLS towards these; `None`: plain text. Not where clients go whose certificate failed: they are not for our own
    /// certificate, nor known by the name of the others.
    diallers: Vec<Option<Rc<Dialler>>>,
}

impl ThreadState {
    /// Makes a thread's copies.
    ///
    /// **Errors**: TLS settings that cannot work; a reload is then refused before any thread serves by it, because the
    /// control thread makes one for trial.
    pub(crate) fn new(
        shared: Arc<State>,
        before: Option<&Self>,
        metrics: &ThreadMetrics,
        addresses: &Addresses,
        thread: usize,
    ) -> Result<Self, Failure> {
        let services = shared
            .services
            .iter()
            .enumerate()
            .map(|(index, service)| {
                let known = before.map(|before| before.diallers_of(&service.model.name)).unwrap_or_default();
                ThreadService::new(index, service, shared.generation, metrics, thread, &known).map(Rc::new)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let by_listener = shared
            .services
            .iter()
            .zip(&services)
            .flat_map(|(state, service)| {
                let id = |address: &Address| ListenerId::new(&state.model.name, address);
                state.model.listen.iter().map(move |address| (id(address), Rc::clone(service)))
            })
            .collect();
        let state = Self { shared, services, by_listener };
        state.resolve(before.unwrap_or(&state), addresses);
        Ok(state)
    }

    /// The service that a listener's connections belong to; `None` when this state has none for it.
    pub(crate) fn service_of(&self, listener: &ListenerId) -> Option<Rc<ThreadService>> {
        self.by_listener.get(listener).cloned()
    }

    /// TLS towards the backends of a service, with the sessions that it has.
    fn diallers_of(&self, service: &str) -> Vec<Rc<Dialler>> {
        let service = self.services.iter().find(|known| *known.name == *service);
        service.iter().flat_map(|service| service.diallers.iter().flatten().cloned()).collect()
    }

    /// Gives every group the endpoints that its targets stand for now. Endpoints of `before` stay in use.
    pub(crate) fn resolve(&self, before: &Self, addresses: &Addresses) {
        let known: Endpoints = before
            .services
            .iter()
            .flat_map(|service| {
                service
                    .groups
                    .values()
                    .iter()
                    .flat_map(|(_, group)| group.endpoints())
                    .map(|endpoint| ((Rc::clone(&service.name), endpoint.name.to_string()), endpoint))
            })
            .collect();
        for service in &self.services {
            for (backends, group) in service.groups.values() {
                let (mut endpoints, mut nameless) = (Vec::new(), Vec::new());
                for Backend { target, weight, backup } in backends {
                    let built_in = self.shared.built_in.as_ref();
                    let found = places(target, service.connect_through(), built_in, addresses);
                    if found.is_empty() {
                        nameless.push(service.metrics.backend(&target.to_string(), false));
                    }
                    let endpoint = |place: Place| (service.endpoint(place, &known), *weight, *backup);
                    endpoints.extend(found.into_iter().map(endpoint));
                }
                group.set(endpoints, nameless);
            }
            // Rules may share their service's TLS and have other backends: what any of them dials is kept.
            let endpoints: Vec<_> =
                service.groups.values().iter().flat_map(|(_, group)| group.endpoints()).collect();
            service.diallers.iter().flatten().for_each(|dialler| dialler.keep_only(&endpoints));
        }
    }

    /// Takes new ticket keys for the services that use this ring.
    pub(crate) fn update_keys(&self, ring: RingId, keys: &Arc<KeySet>) {
        for service in self.services.iter().filter(|service| service.ring == Some(ring)) {
            for server in service.servers.values() {
                server.update_keys(Arc::clone(keys));
            }
        }
    }
}

impl ThreadService {
    fn new(
        index: usize,
        service: &ServiceState,
        generation: u64,
        metrics: &ThreadMetrics,
        thread: usize,
        known: &[Rc<Dialler>],
    ) -> Result<Self, Failure> {
        let model = &service.model;
        let servers = match &service.ring {
            Some((_, keys)) => {
                service.settings.try_map(|settings| Server::new(settings.clone(), Arc::clone(keys)))?
            }
            None => Distinct::default(),
        };
        Ok(Self {
            index,
            name: model.name.as_str().into(),
            generation,
            table: RouteTable::new(&model.rules),
            limits: model.limits.clone(),
            missing_close_notify: model.missing_close_notify,
            prelude: Prelude::new(model.starttls.as_ref()),
            metrics: metrics.service(&model.name),
            share: service.pool.as_ref().map(Share::new),
            address_limit: service.address_limit.clone(),
            admission: service.admission.clone(),
            proxy_senders: TrustedSenders::new(&model.proxy_protocol.accept_from),
            proxy_out: SentHeader::new(&model.proxy_protocol),
            clients: model.clients,
            passes_through: passes_through(model),
            plain_http: model.plain_http,
            ring: service.ring.as_ref().map(|ring| ring.0),
            source: model.source.clone(),
            through: service.through.clone(),
            turn: Cell::new(thread),
            standings: Arc::clone(&service.standings),
            servers,
            groups: groups(model, thread),
            diallers: diallers(service, known),
        })
    }

    /// The TLS server for clients that `choice` decides about.
    pub(crate) fn server(&self, choice: Choice) -> &Server {
        self.servers.at(place(choice))
    }

    /// Where the next connection to a backend comes from; `client` is whose it is.
    pub(crate) fn source(&self, client: Option<SocketAddr>) -> SourceAddress<'_> {
        self.source.next(client.map(|client| client.ip()), &self.turn)
    }

    /// The protocol in which clients ask for TLS.
    pub(crate) fn starttls_protocol(&self) -> Option<Protocol> {
        match self.prelude {
            Prelude::None => None,
            Prelude::Standard { protocol, .. } => Some(protocol),
            Prelude::ServerFirst => Some(Protocol::MySql),
        }
    }

    /// What is spoken with the backends of `choice` before TLS.
    pub(crate) fn backend_prelude(&self, choice: Choice) -> BackendPrelude {
        self.dialler(choice).map_or(BackendPrelude::None, |dialler| dialler.prelude())
    }

    /// The protocol in which backends are asked for TLS.
    pub(crate) fn starttls_of_backends(&self) -> Option<Protocol> {
        self.diallers.iter().flatten().find_map(|dialler| dialler.starttls())
    }

    /// The backends for them.
    pub(crate) fn group(&self, choice: Choice) -> &Group {
        &self.groups.at(self.group_place(choice)).1
    }

    /// Whether their TLS is passed on as it is.
    pub(crate) fn passes_through(&self, choice: Choice) -> bool {
        choice.rule.map_or(self.clients == Clients::PassedThrough, |rule| self.passes_through[rule])
    }

    /// TLS towards the backends of `choice`; `None`: plain text.
    pub(crate) fn dialler(&self, choice: Choice) -> Option<&Rc<Dialler>> {
        self.diallers[place(choice)].as_ref().filter(|_| !choice.failed)
    }

    /// Backends of the service and of its rules that are wanted, each once, with TLS towards it; the first `most` of them.
    pub(crate) fn endpoints(
        &self,
        is_wanted: impl Fn(&Endpoint) -> bool,
        most: usize,
    ) -> Vec<(Rc<Endpoint>, Option<Rc<Dialler>>)> {
        let mut all: Vec<(Rc<Endpoint>, Option<Rc<Dialler>>)> = Vec::new();
        // Behind these places are the backends of failed clients.
        let groups = self.groups.with_first_places().filter(|(place, _)| *place < self.diallers.len());
        for (place, (_, group)) in groups {
            for endpoint in group.endpoints().into_iter().filter(|endpoint| is_wanted(endpoint)) {
                if all.len() == most {
                    return all;
                }
                if all.iter().all(|(known, _)| known.name != endpoint.name) {
                    all.push((endpoint, self.diallers[place].clone()));
                }
            }
        }
        all
    }

    /// Why there is no backend to try; counted.
    pub(crate) fn no_backend(&self, choice: Choice) -> CloseReason {
        let (backends, group) = self.groups.at(self.group_place(choice));
        group.nothing_to_try();
        // Behind a proxy, only the proxy's own name is looked up.
        let looked_up: Vec<&Target> = match self.connect_through() {
            Some(through) => vec![&through.proxy],
            None => backends.iter().map(|backend| &backend.target).collect(),
        };
        let names = looked_up.into_iter().filter_map(|target| match target {
            Target::Name(name, _) => Some(name.as_str()),
            _ => None,
        });
        let names: Vec<_> = names.collect();
        let reason = CloseReason::new(Step::Connect, Side::Operator, Cause::NoBackend);
        if group.is_all_out() {
            reason.because("checks find every one down, or an operator has taken it out of use")
        } else if names.is_empty() {
            reason
        } else {
            CloseReason::new(Step::Connect, Side::Operator, Cause::NameNotResolved).because(names.join(", "))
        }
    }

    fn connect_through(&self) -> Option<&ConnectThrough> {
        self.through.as_ref().map(|through| &through.model)
    }

    fn group_place(&self, choice: Choice) -> usize {
        place(choice) + if choice.failed { self.diallers.len() } else { 0 }
    }

    fn endpoint(&self, Place { name, address, behind }: Place, known: &Endpoints) -> Rc<Endpoint> {
        let key = (Rc::clone(&self.name), name);
        match known.get(&key) {
            Some(endpoint) => Rc::clone(endpoint),
            None => {
                let tcp = matches!(address, Address::Ip(_));
                let metrics = self.metrics.backend(&key.1, tcp);
                Endpoint::new(&key.1, address, behind, self.standings.of(&key.1), metrics)
            }
        }
    }
}

/// The service's own settings come first, then the rules'.
fn place(choice: Choice) -> usize {
    choice.rule.map_or(0, |rule| rule + 1)
}

/// The backends of the service and of each rule, and again of their clients whose certificate failed. Rules without backends of
/// their own share those of the service.
fn groups(model: &Service, thread: usize) -> Distinct<(Vec<Backend>, Group)> {
    let whole =
        |backends: &[Backend]| (backends.to_vec(), Group::new(model.balance, model.slow_start, thread));
    let of_service = model.tls.as_ref().map(|tls| &tls.client_certificates);
    let places = || std::iter::once(None).chain(model.rules.iter().map(Some));
    // Where the list is written is what tells one from another.
    let own = places().map(|rule: Option<&ServiceRule>| {
        rule.and_then(|rule| rule.backends.as_deref()).unwrap_or(&model.backends)
    });
    let failed = places().map(|rule| {
        let asked = rule.and_then(|rule| rule.client_certificates.as_ref()).or(of_service);
        asked.and_then(ClientCertificates::failed_to).map(|list| &**list).unwrap_or_default()
    });
    let lists: Vec<&[Backend]> = own.chain(failed).collect();
    Distinct::new(lists.iter().map(|list| (list.as_ptr(), ())), |place| whole(lists[place]))
}

/// For each rule, whether its clients are passed through.
fn passes_through(model: &Service) -> Vec<bool> {
    let of_service = model.clients == Clients::PassedThrough;
    model.rules.iter().map(|rule| rule.pass_through.unwrap_or(of_service)).collect()
}

/// TLS towards the backends: the one that was used before, with its sessions, where nothing about it has changed.
fn diallers(service: &ServiceState, known: &[Rc<Dialler>]) -> Vec<Option<Rc<Dialler>>> {
    let mut made: Vec<Option<Rc<Dialler>>> = Vec::new();
    for settings in &service.dialling {
        let dialler = settings.as_ref().map(|settings| {
            let same = |dialler: &&Rc<Dialler>| Arc::ptr_eq(dialler.settings(), settings);
            let twin = made.iter().flatten().find(same).or_else(|| known.iter().find(same));
            twin.map_or_else(|| Rc::new(Dialler::new(Arc::clone(settings))), Rc::clone)
        });
        made.push(dialler);
    }
    made
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    /// Place of the rule among the service's exceptions; `None`: the service's own settings.
    pub(crate) rule: Option<usize>,
    /// Whether the client's certificate failed, and the backends are those of such clients (`failed-to`).
    pub(crate) failed: bool,
}

impl Choice {
    /// Nothing but the service itself decides.
    pub(crate) const SERVICE: Self = Self { rule: None, failed: false };
}

#[cfg(test)]
mod tests;
