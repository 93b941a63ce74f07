//! A state as one thread serves by it: its own copies of everything that is used for each connection.
//!
//! In: the [`State`] that all threads share. Out: services with TLS servers, rules, backends and limits, which the path
//! reads without touching what other cores write. State that outlives a reload (an endpoint's standing) is passed on.

use crate::backends::names::{Addresses, names_to_resolve};
use handfast_process::listeners::ListenerId;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
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
use crate::backends::pool::Identity;
use crate::backends::slots::Slots;
use crate::backends::standing::Standings;
use crate::backends::tls::{BackendPrelude, BackendTlsClient, BackendTlsSettings};
use crate::backends::tunnel::{DialAddress, ProxyHop, dial_addresses};
use crate::state::{RingId, RouteState, ServiceState, State};
use crate::worker::request_routes::ThreadHttp;
use handfast_config::RouteTable;
use handfast_config::model::{self, Address, Backend, Clients, ConnectThrough, RouteTls, Service, each_once};
use handfast_observe::cause::Cause;
use handfast_observe::metrics::{ServiceMetrics, ThreadMetrics};
use handfast_observe::reason::{CloseReason, Side, Step};

type Endpoints = HashMap<(Rc<str>, String), Rc<Endpoint>>;

#[derive(Debug)]
pub(crate) struct ThreadState {
    pub(crate) shared: Arc<State>,
    pub(crate) services: Vec<Rc<ThreadService>>,
    by_listener: HashMap<ListenerId, Rc<ThreadService>>,
}

/// Dialogue with clients of a service before TLS.
#[derive(Debug)]
pub(crate) enum Prelude {
    /// Nothing: TLS, or plain text, begins with the first byte.
    None,
    /// A protocol in which they ask for TLS; `name`: the proxy's own in it.
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

#[derive(Debug)]
pub(crate) struct ThreadService {
    pub(crate) index: usize,
    /// Its settings, which all threads share.
    pub(crate) model: Arc<Service>,
    pub(crate) name: Rc<str>,
    pub(crate) generation: u64,
    pub(crate) table: RouteTable,
    pub(crate) prelude: Prelude,
    pub(crate) metrics: Arc<ServiceMetrics>,
    /// Of this service, where it has a limit.
    pub(crate) share: Option<Rc<Share>>,
    pub(crate) address_limit: Option<Arc<AddressLimit>>,
    pub(crate) admission: Option<Arc<Admission>>,
    pub(crate) proxy_senders: Option<TrustedSenders>,
    /// `None`: its clients' bytes are relayed.
    pub(crate) http: Option<Rc<ThreadHttp>>,
    pub(crate) slots: Arc<Slots>,
    ring: Option<RingId>,
    pub(crate) through: Option<Arc<ProxyHop>>,
    /// Counts its connections to backends, so that each source address has its turn.
    turn: Cell<usize>,
    standings: Arc<Standings>,
    /// The service itself, then each of its rules.
    routes: Vec<ThreadRoute>,
}

/// One route of a service. Routes with equal settings share what is made of these.
#[derive(Debug)]
struct ThreadRoute {
    /// Demands on its clients; `None` where their TLS does not end here. Routes with equal demands share one value.
    tls: Option<Arc<RouteTls>>,
    /// The names and the protocols that its rule is for; empty: it has no rule.
    rule: Box<str>,
    /// `None` where the TLS of its clients does not end here.
    server: Option<Rc<Server>>,
    backends: Rc<ThreadBackends>,
    /// Of clients whose certificate failed. There are none where such clients are refused.
    failed_client_backends: Rc<ThreadBackends>,
    /// TLS towards `backends`; `None`: plain text. Not for failed clients, whose backends have other names.
    dialler: Option<Rc<BackendTlsClient>>,
    passes_through: bool,
}

#[derive(Debug)]
struct ThreadBackends {
    list: Arc<[Backend]>,
    group: Group,
}

impl ThreadState {
    /// **Errors**: TLS settings that cannot work; a reload is then refused before any thread serves by it, because the
    /// control thread makes one for trial.
    pub(crate) fn new(
        shared: Arc<State>,
        before: Option<&Self>,
        metrics: &ThreadMetrics,
        addresses: &Addresses,
        thread: usize,
    ) -> Result<Self, Failure> {
        let mut state = Self { shared, services: Vec::new(), by_listener: HashMap::new() };
        for (index, shared) in state.shared.services.iter().enumerate() {
            let name = &shared.model.name;
            let before =
                before.iter().flat_map(|before| &before.services).find(|known| *known.name == **name);
            // TLS towards its backends, with the sessions that it has.
            let known: Vec<_> = before.iter().flat_map(|service| service.diallers()).cloned().collect();
            let generation = state.shared.generation;
            let service = Rc::new(ThreadService::new(index, shared, generation, metrics, thread, &known)?);
            for address in &shared.model.listen {
                state.by_listener.insert(ListenerId::new(name, address), Rc::clone(&service));
            }
            state.services.push(service);
        }
        state.resolve(before.unwrap_or(&state), addresses);
        Ok(state)
    }

    pub(crate) fn service_of(&self, listener: &ListenerId) -> Option<Rc<ThreadService>> {
        self.by_listener.get(listener).cloned()
    }

    /// Gives every group the endpoints that its targets resolve to now. Endpoints of `before` stay in use.
    pub(crate) fn resolve(&self, before: &Self, addresses: &Addresses) {
        let known = before.services.iter().flat_map(|service| {
            let endpoints = service.all_endpoints().into_iter();
            endpoints.map(|endpoint| ((Rc::clone(&service.name), endpoint.name.to_string()), endpoint))
        });
        let known: Endpoints = known.collect();
        for service in &self.services {
            for ThreadBackends { list, group } in service.backends().map(|backends| &**backends) {
                let (mut endpoints, mut nameless) = (Vec::new(), Vec::new());
                for Backend { target, weight, backup } in list.iter() {
                    let own = &self.shared.own_targets;
                    let found = dial_addresses(target, service.connect_through(), own, addresses);
                    if found.is_empty() {
                        nameless.push(service.metrics.backend(&target.to_string(), false));
                    }
                    let endpoint = |place: DialAddress| (service.endpoint(place, &known), *weight, *backup);
                    endpoints.extend(found.into_iter().map(endpoint));
                }
                group.set(endpoints, nameless);
            }
            // Routes may have the same TLS and other backends: what any of them dials is kept.
            let endpoints = service.all_endpoints();
            service.diallers().for_each(|dialler| dialler.keep_only(&endpoints));
        }
    }

    /// Returns a test that is true if requests of this configuration can go to an endpoint, with its TLS. An endpoint belongs to one
    /// service.
    ///
    /// **Cost**: all endpoints once, then one look-up for each call.
    pub(crate) fn uses(&self) -> impl Fn(&Identity) -> bool + use<> {
        let endpoints = self.services.iter().flat_map(|service| service.all_endpoints());
        let endpoints: HashSet<*const Endpoint> = endpoints.map(|endpoint| Rc::as_ptr(&endpoint)).collect();
        let diallers = self.services.iter().flat_map(|service| service.diallers());
        let diallers: HashSet<*const BackendTlsClient> = diallers.map(Rc::as_ptr).collect();
        move |Identity { endpoint, tls }| {
            endpoints.contains(&Rc::as_ptr(endpoint))
                && tls.as_ref().is_none_or(|tls| diallers.contains(&Rc::as_ptr(tls)))
        }
    }

    /// Takes new ticket keys for the services that use this ring.
    pub(crate) fn update_keys(&self, ring: RingId, keys: &Arc<KeySet>) {
        for service in self.services.iter().filter(|service| service.ring == Some(ring)) {
            service.servers().for_each(|server| server.update_keys(Arc::clone(keys)));
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
        known: &[Rc<BackendTlsClient>],
    ) -> Result<Self, Failure> {
        let model = &service.model;
        Ok(Self {
            index,
            model: Arc::clone(model),
            name: model.name.as_str().into(),
            generation,
            table: RouteTable::new(&model.rules),
            prelude: Prelude::new(model.starttls.as_ref()),
            metrics: metrics.service(&model.name),
            share: service.pool.as_ref().map(Share::new),
            address_limit: service.address_limit.clone(),
            admission: service.admission.clone(),
            proxy_senders: TrustedSenders::new(&model.proxy_protocol.accept_from),
            slots: Arc::clone(&service.slots),
            http: ThreadHttp::new(
                model,
                &service.gates,
                &service.sticky_keys,
                &service.files,
                service.cache.as_ref(),
                service.threads,
            ),
            ring: service.ring.as_ref().map(|ring| ring.0),
            through: service.through.clone(),
            turn: Cell::new(thread),
            standings: Arc::clone(&service.standings),
            routes: routes(service, thread, known)?,
        })
    }

    /// The TLS server for the clients of a route whose TLS ends here.
    pub(crate) fn server(&self, chosen: Chosen) -> &Server {
        self.routes[chosen.route].server.as_ref().expect("the TLS of its clients ends here")
    }

    /// Returns true if a client of the rule `chosen` meets everything that any rule for `host`, in canonical form, demands of its clients.
    /// `has_name`: the client sent a name in TLS. Then its connection must be as one for `host` would be, with the same backends; without, it
    /// could not choose a rule, so policy and client certificates alone must be the same.
    pub(crate) fn is_served_alike(&self, chosen: Chosen, host: &str, has_name: bool) -> bool {
        let own = &self.routes[chosen.route];
        let is_alike = |index: usize| {
            let other = &self.routes[index];
            let Some((own_tls, other_tls)) = own.tls.as_ref().zip(other.tls.as_ref()) else { return false };
            if has_name {
                Arc::ptr_eq(own_tls, other_tls) && Rc::ptr_eq(&own.backends, &other.backends)
            } else {
                own_tls.policy == other_tls.policy
                    && own_tls.client_certificates == other_tls.client_certificates
            }
        };
        self.table.all_for(host).into_iter().all(is_alike)
    }

    /// Returns true if the TLS of these clients ends here.
    pub(crate) fn ends_tls(&self, chosen: Chosen) -> bool {
        self.routes[chosen.route].tls.is_some()
    }

    /// Returns the source address of the next connection to a backend, for this client.
    pub(crate) fn source(&self, client: Option<SocketAddr>) -> SourceAddress<'_> {
        self.model.source.next(client.map(|client| client.ip()), &self.turn)
    }

    /// The protocol in which clients ask for TLS.
    pub(crate) fn starttls_protocol(&self) -> Option<Protocol> {
        match self.prelude {
            Prelude::None => None,
            Prelude::Standard { protocol, .. } => Some(protocol),
            Prelude::ServerFirst => Some(Protocol::MySql),
        }
    }

    /// Returns the dialogue with the backends of a route before TLS.
    pub(crate) fn backend_prelude(&self, chosen: Chosen) -> BackendPrelude {
        self.dialler(chosen).map_or(BackendPrelude::None, |dialler| dialler.prelude())
    }

    /// The protocol in which backends are asked for TLS.
    pub(crate) fn starttls_of_backends(&self) -> Option<Protocol> {
        self.diallers().find_map(|dialler| dialler.starttls())
    }

    pub(crate) fn group(&self, chosen: Chosen) -> &Group {
        &self.backends_of(chosen).group
    }

    /// The rule that made a connection take its route, for keys that outlive a reload; empty: the service itself.
    pub(crate) fn rule(&self, chosen: Chosen) -> &str {
        &self.routes[chosen.route].rule
    }

    /// Returns true if its TLS is passed on as it is.
    pub(crate) fn passes_through(&self, chosen: Chosen) -> bool {
        self.routes[chosen.route].passes_through
    }

    /// TLS towards its backends; `None`: plain text.
    pub(crate) fn dialler(&self, chosen: Chosen) -> Option<&Rc<BackendTlsClient>> {
        self.routes[chosen.route].dialler.as_ref().filter(|_| !chosen.failed)
    }

    fn backends_of(&self, chosen: Chosen) -> &ThreadBackends {
        let route = &self.routes[chosen.route];
        if chosen.failed { &route.failed_client_backends } else { &route.backends }
    }

    fn servers(&self) -> impl Iterator<Item = &Rc<Server>> {
        let servers = self.routes.iter().filter_map(|route| route.server.as_ref());
        each_once(servers, |server| Rc::as_ptr(server))
    }

    fn all_endpoints(&self) -> Vec<Rc<Endpoint>> {
        self.backends().flat_map(|backends| backends.group.endpoints()).collect()
    }

    /// Every list of backends; those of clients whose certificate fails come last.
    fn backends(&self) -> impl Iterator<Item = &Rc<ThreadBackends>> {
        let own = self.routes.iter().map(|route| &route.backends);
        let all = own.chain(self.routes.iter().map(|route| &route.failed_client_backends));
        each_once(all, |backends| Rc::as_ptr(backends))
    }

    /// Returns true if its requests can use a connection to this endpoint, with this TLS.
    pub(crate) fn uses(&self, Identity { endpoint, tls }: &Identity) -> bool {
        let is_known = |tls: &Rc<BackendTlsClient>| self.diallers().any(|known| Rc::ptr_eq(known, tls));
        tls.as_ref().is_none_or(is_known)
            && self.all_endpoints().iter().any(|known| Rc::ptr_eq(known, endpoint))
    }

    fn diallers(&self) -> impl Iterator<Item = &Rc<BackendTlsClient>> {
        let diallers = self.routes.iter().filter_map(|route| route.dialler.as_ref());
        each_once(diallers, |dialler| Rc::as_ptr(dialler))
    }

    /// Returns the backends of the service and of its rules for which `is_wanted` is true, each once, with their TLS; `most` at most.
    pub(crate) fn endpoints(
        &self,
        is_wanted: impl Fn(&Endpoint) -> bool,
        most: usize,
    ) -> Vec<(Rc<Endpoint>, Option<Rc<BackendTlsClient>>)> {
        let mut all: Vec<(Rc<Endpoint>, Option<Rc<BackendTlsClient>>)> = Vec::new();
        for route in each_once(self.routes.iter(), |route| Rc::as_ptr(&route.backends)) {
            let endpoints = route.backends.group.endpoints();
            for endpoint in endpoints.into_iter().filter(|endpoint| is_wanted(endpoint)) {
                if all.len() == most {
                    return all;
                }
                if all.iter().all(|(known, _)| known.name != endpoint.name) {
                    all.push((endpoint, route.dialler.clone()));
                }
            }
        }
        all
    }

    /// Counts a connection without a backend to try, and returns the reason.
    pub(crate) fn no_backend(&self, chosen: Chosen) -> CloseReason {
        let ThreadBackends { list, group } = self.backends_of(chosen);
        group.nothing_to_try();
        let names = names_to_resolve(list.iter().map(|backend| &backend.target), self.connect_through());
        let names: Vec<_> = names.map(|(name, _)| name.as_str()).collect();
        let reason = |cause| CloseReason::new(Step::Connect, Side::Operator, cause);
        match (group.is_all_out(), names.is_empty()) {
            (true, _) => {
                reason(Cause::NoBackend).because("checks find every one down, or an operator has disabled it")
            }
            (false, true) => reason(Cause::NoBackend),
            (false, false) => reason(Cause::NameNotResolved).because(names.join(", ")),
        }
    }

    fn connect_through(&self) -> Option<&ConnectThrough> {
        self.through.as_ref().map(|through| &through.model)
    }

    fn endpoint(&self, place: DialAddress, known: &Endpoints) -> Rc<Endpoint> {
        let key = (Rc::clone(&self.name), place.name.clone());
        known.get(&key).cloned().unwrap_or_else(|| {
            let metrics = self.metrics.backend(&key.1, matches!(place.address, Address::Ip(_)));
            Endpoint::new(place, self.standings.of(&key.1), metrics)
        })
    }
}

/// Makes the routes of a service. `known`: the previous TLS clients, which are kept with their sessions where their settings are the same.
fn routes(
    service: &ServiceState,
    thread: usize,
    known: &[Rc<BackendTlsClient>],
) -> Result<Vec<ThreadRoute>, Failure> {
    let model = &service.model;
    let (mut servers, mut diallers, mut made) = (HashMap::new(), HashMap::new(), HashMap::new());
    if let Some((_, keys)) = &service.ring {
        for settings in service.server_settings() {
            let server = Server::new((**settings).clone(), Arc::clone(keys))?;
            servers.insert(Arc::as_ptr(settings), Rc::new(server));
        }
    }
    let dialler = |settings: &Arc<BackendTlsSettings>| {
        let same = known.iter().find(|known| Arc::ptr_eq(known.settings(), settings));
        same.map_or_else(|| Rc::new(BackendTlsClient::new(Arc::clone(settings))), Rc::clone)
    };
    // Routes share the backends that they inherit, and their turns.
    let mut backends = |list: &Arc<[Backend]>| {
        let turns = || service.turns.of(list);
        let group = || Group::new(model.balance, model.slow_start, thread, turns());
        let make = || Rc::new(ThreadBackends { list: Arc::clone(list), group: group() });
        Rc::clone(made.entry(Arc::as_ptr(list)).or_insert_with(make))
    };
    let none: Arc<[Backend]> = Arc::default();
    let rule = |index: usize| {
        let rule = index.checked_sub(1).and_then(|index| model.rules.get(index));
        rule.map(|rule| format!("{} {}", rule.names.join(","), rule.client_alpn.join(",")))
            .unwrap_or_default()
    };
    let route = |(index, RouteState { route, server, backend_tls }): (usize, &RouteState)| ThreadRoute {
        rule: rule(index).into(),
        tls: route.tls.clone(),
        server: server.as_ref().and_then(|settings| servers.get(&Arc::as_ptr(settings)).cloned()),
        backends: backends(&route.backends.backends),
        failed_client_backends: backends(
            route.failed_client_backends.as_ref().map_or(&none, |set| &set.backends),
        ),
        dialler: backend_tls.as_ref().map(|settings| {
            Rc::clone(diallers.entry(Arc::as_ptr(settings)).or_insert_with(|| dialler(settings)))
        }),
        passes_through: route.clients == Clients::PassedThrough,
    };
    Ok(service.routes.iter().enumerate().map(route).collect())
}

/// Choice of the settings by which a service serves a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The index of its route; 0: the service itself.
    pub(crate) route: usize,
    /// True if the client's certificate failed, and the backends are those of such clients (`fallback-backend`).
    pub(crate) failed: bool,
}

impl Chosen {
    /// Nothing but the service itself decides.
    pub(crate) const SERVICE: Self = Self { route: 0, failed: false };
}

#[cfg(test)]
mod tests;
