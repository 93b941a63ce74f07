//! One service, in three steps: its parts are read, then checked against each other, then made into the model.
//!
//! A part that is wrong is noted where it is read, and is `None` from then on.

use std::time::Duration;

use super::around::Around;
use super::proxy_protocol::proxy_protocol;
use super::site::{self, WrittenTls};
use super::{
    acme, admission, backend_tls, check_section, clients, http, limits, programs, route, rules, source,
    starttls, tls,
};
use crate::check::{self, Listeners};
use crate::keys;
use crate::kind::Site;
use crate::model::{
    Acme, Address, Admission, Backend, BackendVersion, Balance, Check, ClientCertificates, Clients,
    ConnectThrough, Http, Limits, OnlyClient, Policy, Process, ProxyProtocol, RequestRoute, Service,
    ServiceRule, Source, Starttls, Target, Tls,
};
use crate::policy;
use crate::reading::{Written, values};
use crate::schema::default_of;
use crate::table::Table;

/// The parts that are read without any other one.
struct OwnParts {
    only_client: Option<Option<OnlyClient>>,
    listen: Option<Vec<Written<Address>>>,
    name: Option<String>,
    listen_mode: Option<u32>,
    backends: Option<Vec<Written<Backend>>>,
    limits: Limits,
    policy: Policy,
    clients: Clients,
    site: Option<Written<Site>>,
    http: Option<BackendVersion>,
    backend_tls: Option<Option<WrittenTls>>,
    balance: Balance,
    slow_start: Duration,
    starttls: Option<Starttls>,
}

/// The parts whose meaning depends on others.
struct DependentParts {
    rules: Option<Vec<ServiceRule>>,
    routes: Option<Vec<RequestRoute>>,
    tls: Option<Option<Tls>>,
    connect_through: Option<Option<ConnectThrough>>,
    source: Option<Source>,
    proxy_protocol: ProxyProtocol,
    admission: Option<Admission>,
    http: Option<Http>,
    check: Option<Option<Check>>,
}

/// Reads, checks and makes a service. `None`: something is wrong with it, which is noted.
pub(super) fn service(
    section: &Table<'_>,
    root: &Table<'_>,
    (process, acme): (&Process, Option<&Option<Acme>>),
    listeners: &mut Listeners,
) -> Option<Service> {
    let own = OwnParts::read(section, root);
    let around = own.around();
    let dependent = DependentParts::read(section, root, (&own, &around), (process, acme));
    check_parts(section, (&own, &around), &dependent, listeners);
    let service = made(section, own, dependent)?;
    check::connections(section, &service, process);
    check::of_service(section, &service);
    Some(service)
}

impl OwnParts {
    fn read(section: &Table<'_>, root: &Table<'_>) -> Self {
        let only_client = programs::only_client(section);
        let listen = programs::listen(section);
        let name = name(section, listen.as_deref().unwrap_or_default());
        let backends = section.optional(&keys::BACKEND);
        let limits = limits(&section.inner(&keys::SERVICE_LIMITS).inheriting(&root.inner(&keys::LIMITS)));
        let policy = policy::of_service(section);
        let clients = clients::of(section);
        let site = site::of(section, &keys::BACKEND);
        let http = http::mode(section, site.as_ref());
        let backend_tls = site::backend_tls(section, &keys::BACKEND_TLS, http, (site.as_ref(), None));
        Self {
            only_client,
            listen,
            name,
            listen_mode: section.optional(&keys::LISTEN_MODE),
            backends,
            limits,
            policy,
            clients,
            site,
            http,
            backend_tls,
            balance: section.or_default(&keys::BALANCE),
            slow_start: section.or_default(&keys::SLOW_START),
            starttls: starttls::starttls(section, clients),
        }
    }

    fn around(&self) -> Around<'_> {
        Around {
            http: self.http,
            policy: &self.policy,
            listen: self.listen.as_deref().unwrap_or_default(),
            clients: self.clients,
            backends: self.backends.as_deref().unwrap_or_default(),
            site: self.site.as_ref(),
            backend_tls: self.backend_tls.as_ref().and_then(Option::as_ref),
        }
    }
}

impl DependentParts {
    fn read(
        section: &Table<'_>,
        root: &Table<'_>,
        (own, around): (&OwnParts, &Around<'_>),
        (process, acme): (&Process, Option<&Option<Acme>>),
    ) -> Self {
        let rules = rules(section, around);
        let written = rules.as_deref().unwrap_or_default();
        let files = route::files(section);
        let routes = files.and_then(|files| route::routes(section, around, files));
        let mut tls = tls(section, root, around, clients::terminate(own.clients, written));
        acme::order(section, acme, (written, routes.as_deref()), &mut tls);
        if let Some(Some(tls)) = &mut tls {
            starttls::fit(section, (own.starttls.as_ref(), around.backend_tls), written, tls);
        }
        let targets = targets(around, written, routes.as_deref(), tls.as_ref());
        let connect_through =
            section.read(&keys::CONNECT_THROUGH, |inner| source::connect_through(inner, &targets));
        let dialled = connect_through.iter().flatten().next().map_or(targets, |through| vec![&through.proxy]);
        let source = source::source(section, &dialled, process.user.as_deref());
        let requests_certificates =
            client_certificates(tls.as_ref(), written).any(|settings| settings.checks().is_some());
        let proxy_protocol = proxy_protocol(section, around.listen, requests_certificates);
        // It is unknown in advance if the client at standard input has an address.
        let have_addresses = own.listen.is_none()
            || own.only_client == Some(Some(OnlyClient::Stdin))
            || check::have_addresses(around.listen.iter().map(|address| &address.value), &proxy_protocol);
        let has_tls = has_backend_tls(around, written, routes.as_deref());
        Self {
            connect_through,
            source,
            proxy_protocol,
            admission: admission::admission(section, have_addresses),
            http: http::http(section, around, routes.clone().unwrap_or_default(), have_addresses),
            check: section.read(&keys::CHECK, |inner| check_section::check(inner, has_tls)),
            rules,
            routes,
            tls,
        }
    }
}

/// Checks the parts against each other.
fn check_parts(
    section: &Table<'_>,
    (own, around): (&OwnParts, &Around<'_>),
    dependent: &DependentParts,
    listeners: &mut Listeners,
) {
    let DependentParts { rules, routes, tls, .. } = dependent;
    let rules = rules.as_deref().unwrap_or_default();
    check_backend_tls(section, around);
    if own.http.is_some() {
        http::check_keys(section, own.site.as_ref());
    }
    let fails_elsewhere =
        client_certificates(tls.as_ref(), rules).any(|settings| settings.failed_to().is_some());
    starttls::fit_backends(section, own.starttls.as_ref(), around.backend_tls, rules, fails_elsewhere);
    let targets = targets(around, rules, routes.as_deref(), tls.as_ref());
    programs::check_backends(section, &targets, own.http.is_some());
    check::balance(section, around.backends, own.balance, own.slow_start);
    if let Some(http) = &dependent.http {
        http::check_pool(section, http, &dependent.proxy_protocol, dependent.source.as_ref());
    }
    if own.listen.is_some() {
        check::backends(section, &keys::BACKEND, around.listen, around.backends);
        listeners.service(section, around.listen);
        check::listen_mode(section, own.listen_mode, around.listen);
    }
}

/// The service of its parts; `None`: one of them is wrong.
fn made(section: &Table<'_>, own: OwnParts, dependent: DependentParts) -> Option<Service> {
    let DependentParts { routes, http, .. } = dependent;
    let takes_none = route::is_without_backend(section, own.http, routes.as_deref());
    Some(Service {
        name: own.name?,
        listen: values(own.listen?),
        only_client: own.only_client?,
        listen_mode: own.listen_mode.unwrap_or_else(|| default_of(&keys::LISTEN_MODE)),
        max_connections: section.optional(&keys::SERVICE_CONNECTIONS),
        max_connections_per_address: section.optional(&keys::ADDRESS_CONNECTIONS),
        admission: dependent.admission?,
        tls: dependent.tls?,
        clients: own.clients,
        plain_http: section.or_default(&keys::PLAIN_HTTP),
        rules: dependent.rules?,
        backends: if takes_none { [].into() } else { values(own.backends?).into() },
        backend_tls: own.backend_tls?.and_then(|tls| tls.value),
        connect_through: dependent.connect_through?,
        balance: own.balance,
        source: dependent.source?,
        slow_start: own.slow_start,
        starttls: own.starttls,
        check: dependent.check?,
        missing_close_notify: section.or_default(&keys::MISSING_CLOSE_NOTIFY),
        proxy_protocol: dependent.proxy_protocol,
        limits: own.limits,
        http: http.filter(|_| routes.is_some()),
    })
}

/// The demands on certificates of the service's clients, and of those of its rules.
fn client_certificates<'a>(
    tls: Option<&'a Option<Tls>>,
    rules: &'a [ServiceRule],
) -> impl Iterator<Item = &'a ClientCertificates> {
    let of_service = tls.into_iter().flatten().map(|tls| &tls.client_certificates);
    of_service.chain(rules.iter().filter_map(|rule| rule.client_certificates.as_ref()))
}

/// Every backend of the service, its rules, its routes and of clients whose certificate failed.
fn targets<'a>(
    around: &Around<'a>,
    rules: &'a [ServiceRule],
    routes: Option<&'a [RequestRoute]>,
    tls: Option<&'a Option<Tls>>,
) -> Vec<&'a Target> {
    let of_rules = rules.iter().filter_map(|rule| rule.backends.as_ref());
    let of_routes = routes.into_iter().flatten().filter_map(RequestRoute::backends);
    let of_failed = client_certificates(tls, rules).filter_map(ClientCertificates::failed_to);
    let others = of_rules.chain(of_routes).chain(of_failed).flat_map(|list| list.iter());
    let of_service = around.backends.iter().map(|backend| &backend.value);
    of_service.chain(others).map(|backend| &backend.target).collect()
}

/// The service's name. Without one it is the address that it listens on, which no other service has. Port 0 is another port at each start, and a
/// path is no name.
fn name(section: &Table<'_>, listen: &[Written<Address>]) -> Option<String> {
    let is_written = section.written(&keys::NAME).is_some();
    match (listen, &section.item(&keys::LISTEN)) {
        ([Written { value: Address::Ip(first), .. }, ..], Some(item)) if !is_written && first.port() != 0 => {
            let first = item.value.as_array().map_or(Some(item.value), |list| Some(list.first()?.get_ref()));
            first?.as_str().map(str::to_owned)
        }
        // Errors in `listen`, or its absence, are reported elsewhere.
        ([], _) if !is_written && section.written(&keys::ONLY_CLIENT).is_none() => None,
        _ => section.required(&keys::NAME),
    }
}

/// Returns true if some connections to backends use TLS.
fn has_backend_tls(around: &Around<'_>, rules: &[ServiceRule], routes: Option<&[RequestRoute]>) -> bool {
    let of_rules = rules.iter().filter_map(|rule| rule.backend_tls.as_ref());
    of_rules.chain(around.backend_tls.map(|tls| &tls.value)).any(Option::is_some)
        || routes.iter().copied().flatten().any(RequestRoute::has_backend_tls)
}

/// TLS towards the backends of the service, and what they are.
fn check_backend_tls(section: &Table<'_>, around: &Around<'_>) {
    if let Some(tls) = around.backend_tls {
        backend_tls::check_names(section, tls, around.backends);
        let is_plain = around.clients == Clients::Plain;
        if is_plain {
            starttls::check_plain_clients(section, tls);
        }
        backend_tls::check_alpn(&section.inner(&keys::BACKEND_TLS), tls.value.as_ref(), is_plain);
    }
}
