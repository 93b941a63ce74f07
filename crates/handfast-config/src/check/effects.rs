//! Keys that are written where they have no effect.
//!
//! In: sections, and what was read of them. Out: an error for a key that a user would rely on for protection, a warning for any
//! other one, each with the reason. `file/tests/effects.rs` has the outcome of every key in every mode.

use crate::keys;
use crate::model::{
    Address, BackendAlpn, BackendTls, BackendVersion, Balance, CertificateEntry, Check, CheckKind, Clients,
    Config, Http, OnlyClient, ProxyProtocol, ProxySender, Route, RouteAccess, RouteAction, RouteCompression,
    Service, Source, Target, Tickets,
};
use crate::problem::Fault;
use crate::request_routes::Uncompressed;
use crate::schema::{Entry, Section};
use crate::table::Table;

/// Reports each of these keys as an error where it is written; `why` it has no effect.
pub(crate) fn no_effect<'k>(section: &Table<'_>, keys: impl IntoIterator<Item = &'k dyn Entry>, why: &str) {
    for key in keys {
        section.error(key, without_effect(key.name, why).hint(REMOVE));
    }
}

/// The same for a section inside of `section`, as a whole.
pub(crate) fn no_effect_of_section(section: &Table<'_>, inner: &Section, why: &str) {
    if let Some(span) = section.span_of(inner) {
        section.reading().error(&span, without_effect(inner.name, why).hint(REMOVE));
    }
}

/// Warns of a key that is written and has no effect.
pub(crate) fn warn_no_effect(section: &Table<'_>, key: &dyn Entry, why: &str) {
    section.warn(key, without_effect(key.name, why));
}

const REMOVE: &str = "remove it, or change what the reason names";

fn without_effect(name: &str, why: &str) -> Fault {
    Fault::new(format!("`{name}` has no effect: {why}"))
}

/// Returns true if some clients of a service have an address: that of a socket, or that in a PROXY header.
pub(crate) fn have_addresses<'a>(
    listen: impl IntoIterator<Item = &'a Address>,
    proxy_protocol: &ProxyProtocol,
) -> bool {
    let names_clients = proxy_protocol.accept_from.contains(&ProxySender::Unix);
    names_clients || listen.into_iter().any(|address| matches!(address, Address::Ip(_)))
}

/// Reports settings without effect in a service, once the whole service has been read.
pub(crate) fn of_service(section: &Table<'_>, service: &Service) {
    if let Some(starttls) = &service.starttls {
        let why = format!("clients speak {} before TLS, see `starttls`", starttls.protocol);
        warn_no_effect(section, &keys::PLAIN_HTTP, &why);
    }
    addresses(section, service);
    backends(section, service);
    http(section, service);
    limits(&section.inner(&keys::SERVICE_LIMITS), std::slice::from_ref(service));
    if let Some(tls) = &service.tls {
        tickets(&section.inner(&keys::SERVICE_TICKETS), std::iter::once(&tls.tickets));
    }
}

/// Keys that need a client's address.
fn addresses(section: &Table<'_>, service: &Service) {
    let is_unknown = service.only_client == Some(OnlyClient::Stdin);
    if is_unknown || have_addresses(&service.listen, &service.proxy_protocol) {
        return;
    }
    if service.balance == Balance::SourceHash {
        let why = "clients of unix sockets have no address, so backends take turns";
        warn_no_effect(section, &keys::BALANCE, why);
    }
    if service.source == Source::Client {
        warn_no_effect(section, &keys::SOURCE, "clients of unix sockets have no address");
    }
}

fn backends(section: &Table<'_>, service: &Service) {
    if service.check.is_some() && all_targets(service).iter().all(Target::is_unix) {
        let check = section.inner(&keys::CHECK);
        warn_no_effect(&check, &keys::CHECK_PORT, "backends that are unix sockets have no port");
    }
    let routes = service.routes();
    let agrees_on_none = |route: &Route| route.tls.as_ref().is_some_and(|tls| tls.alpn.is_empty());
    let is_clients = |tls: &BackendTls| tls.alpn == BackendAlpn::Client;
    let why = "Handfast agrees on no application protocol with clients, see `alpn`";
    if service.tls.is_some()
        && routes.iter().all(|route| route.tls.is_none() || agrees_on_none(route))
        && service.backend_tls.as_ref().is_some_and(is_clients)
    {
        warn_no_effect(&section.inner(&keys::BACKEND_TLS), &keys::BACKEND_ALPN, why);
    }
    let rules = service.rules.iter().zip(section.inner_list(&keys::RULE));
    for ((rule, section), route) in rules.zip(&routes[1..]) {
        if agrees_on_none(route) && rule.backend_tls.iter().flatten().any(is_clients) {
            warn_no_effect(&section.inner(&keys::RULE_BACKEND_TLS), &keys::BACKEND_ALPN, why);
        }
    }
}

/// Reports settings that have no effect in HTTP mode, or that fail in it.
fn http(section: &Table<'_>, service: &Service) {
    let Some(http) = &service.http else { return };
    if all_targets(service).is_empty() {
        without_backends(section, http);
    }
    compression(section, http);
    let agrees_on_h2 = |route: &Route| {
        route.tls.as_ref().is_some_and(|tls| tls.alpn.iter().any(|protocol| protocol == "h2"))
    };
    if service.tls.is_some() && !service.routes().iter().any(agrees_on_h2) {
        let why = "Handfast agrees on `h2` with no client, see `alpn`";
        warn_no_effect(&section.inner(&keys::HTTP), &keys::MAX_STREAMS, why);
        warn_no_effect(&section.inner(&keys::CACHE), &keys::CACHE_EARLY_HINTS, why);
        if http.backend_version != BackendVersion::Http2 {
            warn_no_effect(&section.inner(&keys::HTTP), &keys::HTTP2_WINDOW, why);
        }
    }
    let checks_by_http1 =
        |check: &Check| matches!(check.kind, CheckKind::Http { .. }) && check.port.is_none();
    if http.backend_version == BackendVersion::Http2 && service.check.as_ref().is_some_and(checks_by_http1) {
        let what = "a check of type `http` asks by HTTP/1.1, but requests go to these backends by HTTP/2";
        let hint =
            "write `type = \"tcp\"` or `type = \"tls\"`, or the `port` of a server that speaks HTTP/1.1";
        section.inner(&keys::CHECK).warn(&keys::CHECK_TYPE, Fault::new(what).hint(hint));
    }
}

/// Compression of a route, or of the service where no route has it, that the rest of the configuration prevents.
fn compression(service: &Table<'_>, http: &Http) {
    let of_service = service.inner(&keys::HTTP);
    let mut is_used = false;
    for (route, section) in http.routes.iter().zip(service.inner_list(&keys::ROUTE)) {
        let Some(own) = route.compression.resolve(http.compression.as_ref()) else { continue };
        match Uncompressed::find(&own, &route.rules, &route.access, http) {
            None => is_used = true,
            Some(why) if route.compression != RouteCompression::Inherit => {
                uncompressed(&section, &of_service, (why, &route.access));
            }
            Some(_) => {}
        }
    }
    let own = http.compression.as_ref().filter(|_| !is_used);
    if let Some(why) = own.and_then(|own| Uncompressed::find(own, &http.rules, &http.access, http)) {
        uncompressed(&of_service, &of_service, (why, &http.access));
    }
}

/// Reports `compression` in a section. `access`: the conditions that hold there.
fn uncompressed(section: &Table<'_>, of_service: &Table<'_>, (why, access): (Uncompressed, &RouteAccess)) {
    let key = &keys::ROUTE_COMPRESSION;
    let no_effect = |why: String| Fault::new(format!("`{}` has no effect: {why}", key.name));
    let guards = [
        (access.basic.is_some(), &keys::ROUTE_BASIC_AUTH as &dyn Entry),
        (access.forward.is_some(), &keys::ROUTE_FORWARD_AUTH),
        (true, &keys::ROUTE_ALLOW_CERTIFICATES),
    ];
    let written = guards.into_iter().filter(|(holds, _)| *holds).find_map(|(_, key)| {
        let place = section.written(key).or_else(|| of_service.written(key))?;
        Some((key.name, place))
    });
    let fault = match (why, written) {
        (Uncompressed::BySecrets, Some((guard, place))) => {
            let hint = "write `compression = { with-secrets = true }` where they have none, or none that a request could guess";
            let why = format!("responses of a route with `{guard}` may have secrets");
            no_effect(why).hint(hint).see(place, "this condition")
        }
        (Uncompressed::BySecrets, None) => no_effect("responses may have secrets".to_owned()),
        (Uncompressed::ByRule, _) => {
            let why = "a rule sets or removes `Vary` or `Content-Encoding`, which compressed responses need";
            no_effect(why.to_owned()).hint("remove that rule, or add to the field")
        }
    };
    section.error(key, fault);
}

/// Settings about backends, where no request goes to one.
fn without_backends(service: &Table<'_>, http: &Http) {
    let why = "no request goes to a backend";
    no_effect(service, [&keys::BALANCE as &dyn Entry, &keys::SLOW_START, &keys::SOURCE], why);
    for section in [&keys::BACKEND_TLS, &keys::CHECK, &keys::CONNECT_THROUGH] {
        no_effect_of_section(service, section, why);
    }
    no_effect(&service.inner(&keys::PROXY_PROTOCOL), [&keys::SEND as &dyn Entry], why);
    let of_requests: [&dyn Entry; 13] = [
        &keys::MAX_REQUESTS,
        &keys::QUEUE,
        &keys::BACKEND_VERSION,
        &keys::FORWARDED,
        &keys::POOL,
        &keys::POOL_IDLE,
        &keys::POOL_REQUESTS,
        &keys::RETRIES,
        &keys::COUNT_FAILURES,
        &keys::FAILURE_RATIO,
        &keys::ROUTE_SET_REQUEST,
        &keys::ROUTE_ADD_REQUEST,
        &keys::ROUTE_REMOVE_REQUEST,
    ];
    let section = service.inner(&keys::HTTP);
    no_effect(&section, of_requests, why);
    let has_files = http.routes.iter().any(|route| matches!(route.action, RouteAction::Files(_)));
    if !has_files {
        no_effect(&section, [&keys::RESPONSE_TIMEOUT as &dyn Entry, &keys::COMPRESSION], why);
    }
}

/// `[limits]` and `[service.limits]`; `services`: those that they are for.
fn limits(section: &Table<'_>, services: &[Service]) {
    let is_plain = |service: &Service| service.clients == Clients::Plain;
    if services.iter().all(is_plain) {
        warn_no_effect(section, &keys::HELLO_BYTES, "clients speak plain text, and send no ClientHello");
    }
    if !services.iter().any(resolves_names) {
        warn_no_effect(section, &keys::RESOLVE, "no backend is written as a name that is looked up here");
    }
    if !services.iter().any(uses_tcp) {
        for key in [&keys::TCP_USER_TIMEOUT as &dyn Entry, &keys::TCP_KEEPALIVE] {
            warn_no_effect(section, key, "it is about TCP, and both sides are unix sockets");
        }
    }
}

/// Every backend of a service: its own, those of its rules, and those of clients whose certificate fails.
fn all_targets(service: &Service) -> Vec<Target> {
    let sets = service.backend_sets();
    sets.iter().flat_map(|set| set.backends.iter()).map(|backend| backend.target.clone()).collect()
}

/// Targets that a service connects to: its backends, or the proxy in front of them.
fn dialled(service: &Service) -> Vec<Target> {
    match &service.connect_through {
        Some(through) => vec![through.proxy.clone()],
        None => all_targets(service),
    }
}

fn resolves_names(service: &Service) -> bool {
    dialled(service).iter().any(|target| matches!(target, Target::Name(..)))
}

fn uses_tcp(service: &Service) -> bool {
    service.listen.iter().any(|address| matches!(address, Address::Ip(_)))
        || !dialled(service).iter().all(Target::is_unix)
}

/// `[tickets]` and `[service.tickets]`; `used`: what those that they are for have.
fn tickets<'t>(section: &Table<'_>, used: impl IntoIterator<Item = &'t Tickets>) {
    if used.into_iter().all(|tickets| tickets.per_handshake == 0) {
        for key in [&keys::KEY_FILE as &dyn Entry, &keys::ROTATE, &keys::TICKET_LIFETIME] {
            warn_no_effect(section, key, "`per-handshake` is 0, no tickets are sent");
        }
    }
}

/// Reports settings without effect in the sections about the whole process.
pub(crate) fn of_file(root: &Table<'_>, config: &Config) {
    let services = &config.services;
    limits(&root.inner(&keys::LIMITS), services);
    process(&root.inner(&keys::PROCESS), config);
    if services.iter().all(|service| service.http.is_none()) {
        let why = "no service has `mode = \"http\"`, and lines of connections have no queries";
        warn_no_effect(&root.inner(&keys::ACCESS_LOG), &keys::LOG_REDACT_QUERY, why);
    }
    let ends_tls: Vec<_> = services.iter().filter_map(|service| service.tls.as_ref()).collect();
    let of_all = root.inner(&keys::TICKETS);
    if ends_tls.is_empty() {
        let why = "no service has TLS that ends here, and issues tickets";
        of_all.entries().for_each(|key| warn_no_effect(&of_all, key, why));
    } else {
        tickets(&of_all, ends_tls.iter().map(|tls| &tls.tickets));
    }
    let admin = root.inner(&keys::ADMIN);
    match &config.admin {
        None => {
            for key in [&keys::ADMIN_HOSTS as &dyn Entry, &keys::ADMIN_TOKEN_FILE] {
                warn_no_effect(&admin, key, "the admin listener is off");
            }
        }
        Some(Address::Unix(_)) => {
            let why = "requests at a unix socket are answered under any name";
            warn_no_effect(&admin, &keys::ADMIN_HOSTS, why);
        }
        Some(Address::Ip(_)) => {}
    }
}

/// `[process]`
fn process(section: &Table<'_>, config: &Config) {
    let (process, services) = (&config.process, &config.services);
    if !process.sandbox {
        let why = "there is no sandbox, and a reload reads files anywhere";
        warn_no_effect(section, &keys::SANDBOX_FOLDERS, why);
    }
    let compresses = |http: &Http| {
        let mut routes = http.routes.iter().map(|route| &route.compression);
        http.compression.is_some() || routes.any(|own| own.resolve(None).is_some())
    };
    if !services.iter().filter_map(|service| service.http.as_ref()).any(compresses) {
        warn_no_effect(section, &keys::COMPRESSION_MEMORY, "no service has `compression`");
    }
    if services.iter().all(|service| service.http.is_none()) {
        let why = "no service has `mode = \"http\"`, and only those can be in maintenance";
        warn_no_effect(section, &keys::STATE_FOLDER, why);
    } else if config.admin.is_none() {
        let why = "the admin listener is off, so no command reaches the proxy";
        warn_no_effect(section, &keys::STATE_FOLDER, why);
    }
    let ends_tls = || services.iter().filter_map(|service| service.tls.as_ref());
    let routes = services.iter().flat_map(Service::routes);
    let dials: Vec<_> = routes.filter_map(|route| route.backends.tls).collect();
    if ends_tls().next().is_none() && dials.is_empty() {
        let why = "no service has TLS that ends here, or TLS towards its backends";
        no_effect(section, [&keys::WEAK_KEYS as &dyn Entry], why);
        let mut proxies = services.iter().filter_map(|service| service.connect_through.as_ref());
        if !proxies.any(|through| through.login.is_some()) {
            warn_no_effect(section, &keys::WATCH_INTERVAL, "no file is read that could change");
        }
    }
    if process.private_keys_apart
        && ends_tls().next().is_none()
        && dials.iter().all(|tls| tls.identity.is_none())
    {
        let why = "no certificate of this configuration has a private key";
        warn_no_effect(section, &keys::PRIVATE_KEYS, why);
    }
    let mut certificates = ends_tls().flat_map(|tls| &tls.certificates);
    if !certificates.any(|source| matches!(source, CertificateEntry::Folder(_))) {
        let why = "no certificates are in a folder; those that are named themselves are served until they are fixed";
        warn_no_effect(section, &keys::KEEP_REMOVED, why);
    }
}
