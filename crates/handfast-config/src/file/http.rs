//! HTTP mode: `mode` and `[service.http]`, and which keys contradict it.

use handfast_http::http1::HeadLimits;

use super::access::ClientFacts;
use super::admission::split;
use super::around::Around;
use super::proxy_protocol::check_senders;
use super::{access, cache, request_rules, site};
use crate::check::{no_effect, warn_no_effect};
use crate::keys;
use crate::kind::{List, Protocol, Site};
use crate::model::{
    BackendAlpn, BackendVersion, Concurrency, ErrorPages, Forwarded, Http, HttpTimeouts, Maintenance,
    PoolLimits, ProxyProtocol, RequestRoute, Source,
};
use crate::problem::Fault;
use crate::reading::{Written, values};
use crate::schema::default_of;
use crate::schema::{Entry, Key};
use crate::table::Table;
use toml::de::DeValue;

/// The application protocols of HTTP mode, best first. Some clients of HTTP/1.0 offer nothing else (`curl --http1.0`).
const PROTOCOLS: [&str; 3] = ["h2", "http/1.1", "http/1.0"];

/// Reads `mode` and reports sections that need `mode = "http"`. Out: the version towards backends; `None`: the service relays bytes.
/// `site`: its backend, if that is one; requests go there.
pub(super) fn mode(service: &Table<'_>, site: Option<&Written<Site>>) -> Option<BackendVersion> {
    let is_written = service.written(&keys::MODE).is_some();
    let has_files = service.written(&keys::FILES).is_some();
    let mode =
        service.optional(&keys::MODE).or((!is_written && (site.is_some() || has_files)).then_some(true));
    if mode == Some(false) {
        let fault = Fault::new("`files` has no effect: the service relays bytes (`mode = \"tcp\"`)");
        service.error(&keys::FILES, fault.hint("remove `mode`, or `files`"));
    }
    if let Some(site) = site.filter(|_| mode == Some(false)) {
        let fault = Fault::new("a URL says where requests go, and `tcp` forwards bytes");
        let hint = "remove `mode`, or write `host:port` as the backend";
        service.error(&keys::MODE, fault.hint(hint).see(site.span.clone(), "the URL"));
    }
    // A word that is no mode is reported; nothing is known of the rest then.
    if mode == Some(false) || (mode.is_none() && !is_written) {
        for inner in [&keys::HTTP, &keys::ROUTE, &keys::CACHE] {
            let Some(span) = service.span_of(inner) else { continue };
            let what = format!("`{}` has no effect: the service relays bytes (`mode = \"tcp\"`)", inner.name);
            let hint = format!("add `mode = \"http\"` to [[service]], or remove {}", inner.header);
            service.reading().error(&span, Fault::new(what).hint(hint));
        }
    }
    let section = service.inner(&keys::HTTP);
    mode.unwrap_or_default().then(|| section.or_default(&keys::BACKEND_VERSION))
}

/// Reads `[service.http]`, also where it has no effect, for the problems in it; `have_addresses`: whether some clients have one.
pub(super) fn http(
    service: &Table<'_>,
    around: &Around<'_>,
    routes: Vec<RequestRoute>,
    have_addresses: bool,
) -> Option<Http> {
    let section = service.inner(&keys::HTTP);
    let (x_forwarded, standard) = section.or_default(&keys::FORWARDED);
    let (trusted, trusted_files) = split(section.optional(&keys::TRUST_FORWARDED_FROM));
    if !around.listen.is_empty() && around.http.is_some() {
        check_senders(&section, &trusted, around.listen, have_addresses, "each can claim any address");
    }
    let mut rules = request_rules::of_service(&section, around.clients);
    let facts = ClientFacts::of(service, around);
    let access = access::access(&section, None, facts);
    for key in [&keys::ROUTE_BASIC_AUTH as &dyn Entry, &keys::ROUTE_FORWARD_AUTH] {
        if matches!(section.item(key).map(|item| item.value), Some(DeValue::Boolean(false))) {
            warn_no_effect(&section, key, "there is nothing to remove from: it is the default of all routes");
        }
    }
    if let Some(site) = around.site {
        site::name_host(&mut rules, &site.value);
    }
    let http = Http {
        maintenance: maintenance(&section, facts),
        backend_version: section.or_default(&keys::BACKEND_VERSION),
        forwarded: Forwarded { x_forwarded, standard, trusted: values(trusted), trusted_files },
        request_id: section.or_default(&keys::REQUEST_ID),
        trace_context: section.or_default(&keys::TRACE_CONTEXT),
        head: head(&section),
        half_close: section.or_default(&keys::HALF_CLOSE),
        body_limit: section.optional(&keys::MAX_BODY).map(|most| most as u64),
        timeouts: HttpTimeouts {
            idle: section.or_default(&keys::HTTP_IDLE),
            head: section.or_default(&keys::HEADER_TIMEOUT),
            content: section.or_default(&keys::BODY_TIMEOUT),
            answer: section.or_default(&keys::RESPONSE_TIMEOUT),
        },
        min_rate: section.or_default(&keys::MIN_RATE),
        pool: pool(&section),
        concurrency: concurrency(&section),
        streams: section.or_default(&keys::MAX_STREAMS),
        http2_window: u32::try_from(section.or_default(&keys::HTTP2_WINDOW)).unwrap_or(u32::MAX),
        retries: section.or_default(&keys::RETRIES),
        count_failures: section.or_default(&keys::COUNT_FAILURES),
        failure_ratio: section.optional(&keys::FAILURE_RATIO),
        cache: cache::cache(service)?,
        compression: section.or_default(&keys::COMPRESSION).resolve(None),
        error_pages: error_pages(&section)?,
        rules,
        access: access?,
        routes,
    };
    around.http.map(|_| http)
}

/// Maintenance of the service. Reports addresses in it where clients have none.
fn maintenance(section: &Table<'_>, clients: ClientFacts) -> Option<Maintenance> {
    let maintenance = section.or_default(&keys::MAINTENANCE);
    if !clients.have_addresses
        && maintenance.as_ref().is_some_and(|maintenance| !maintenance.allow.is_empty())
    {
        let what = "`allow` of `maintenance` has no effect: clients of unix sockets have no address, unless a proxy in front names it";
        section.error(&keys::MAINTENANCE, Fault::new(what).hint("remove it, and write `maintenance = true`"));
    }
    maintenance
}

/// Pages for errors; `None`: something is wrong with them, which is noted.
fn error_pages(section: &Table<'_>) -> Option<ErrorPages> {
    let pages = access::unless_wrong(section, &keys::ERROR_PAGES)?;
    if pages.is_none() {
        let own = "the service has no `error-pages`, those of a route need the key there";
        warn_no_effect(section, &keys::ERROR_PAGES_BACKENDS, own);
    }
    let replace_backends = section.or_default(&keys::ERROR_PAGES_BACKENDS);
    Some(ErrorPages { pages: pages.unwrap_or_default(), replace_backends })
}

fn head(section: &Table<'_>) -> HeadLimits {
    let limits = HeadLimits {
        head: section.or_default(&keys::MAX_HEADER_SIZE),
        start_line: section.or_default(&keys::MAX_START_LINE),
        fields: section.or_default(&keys::MAX_HEADERS),
        underscores: section.or_default(&keys::UNDERSCORES),
    };
    if limits.start_line > limits.head {
        let what = "`max-start-line` is never reached: the whole head has fewer bytes, see `max-header-size`";
        section.warn(&keys::MAX_START_LINE, Fault::new(what));
    }
    limits
}

fn concurrency(section: &Table<'_>) -> Option<Concurrency> {
    let requests = section.optional(&keys::MAX_REQUESTS);
    let queue = section.optional(&keys::QUEUE);
    if section.written(&keys::MAX_REQUESTS).is_none() {
        warn_no_effect(
            section,
            &keys::QUEUE,
            "backends get any number of requests, so none waits (`max-requests`)",
        );
    }
    let default =
        || (default_of(&keys::route_access::QUEUE_LENGTH), default_of(&keys::route_access::QUEUE_TIMEOUT));
    let (queue, wait) = queue.unwrap_or_else(default);
    Some(Concurrency { requests: requests?, queue, wait })
}

fn pool(section: &Table<'_>) -> PoolLimits {
    let pool = PoolLimits {
        connections: section.or_default(&keys::POOL),
        idle: section.or_default(&keys::POOL_IDLE),
        requests: section.or_default(&keys::POOL_REQUESTS),
    };
    if pool.connections == 0 {
        for key in [&keys::POOL_IDLE as &dyn Entry, &keys::POOL_REQUESTS] {
            warn_no_effect(section, key, "no connection is kept for another request (`pool = 0`)");
        }
    }
    pool
}

/// Reports keys that cannot go with `mode = "http"`.
pub(super) fn check_keys(service: &Table<'_>, site: Option<&Written<Site>>) {
    let by_site = site.map(|site| site.span.clone());
    let mode = service.written(&keys::MODE).or(by_site).unwrap_or_default();
    let fault = |what: &str, hint: &str| Fault::new(what).hint(hint).see(mode.clone(), "asked for here");
    let starttls = fault(
        "clients of HTTP speak TLS from the first byte: `starttls` cannot go with `mode = \"http\"`",
        "remove `starttls`, or serve that protocol by a separate service",
    );
    service.error(&keys::STARTTLS, starttls);
    let passed_through = fault(
        "requests cannot be read in TLS that is passed through: `pass-through` cannot go with `mode = \"http\"`",
        "remove `pass-through`, or serve these names by a separate service",
    );
    if service.optional(&keys::PASS_THROUGH) == Some(true) {
        service.error(&keys::PASS_THROUGH, passed_through.clone());
    }
    for rule in service.inner_list(&keys::RULE) {
        if rule.optional(&keys::RULE_PASS_THROUGH) == Some(true) {
            rule.error(&keys::RULE_PASS_THROUGH, passed_through.clone());
        }
    }
    // Where clients are plain, that is the reason, and reported with the rest of their keys.
    if service.or_default(&keys::CLIENT_TLS) {
        let why = "messages of HTTP show where they end, and a part is never taken for the whole";
        no_effect(service, [&keys::MISSING_CLOSE_NOTIFY as &dyn Entry], why);
    }
}

/// Reports connections to backends that belong to one client, and would be kept for the requests of others.
pub(super) fn check_pool(
    service: &Table<'_>,
    http: &Http,
    proxy_protocol: &ProxyProtocol,
    source: Option<&Source>,
) {
    if http.pool.connections == 0 {
        return;
    }
    let fault = |what: &str| {
        let fault = Fault::new(format!(
            "a connection {what} belongs to one client, and must not be kept for the requests of others"
        ));
        fault.hint("set `pool = 0` in [service.http]")
    };
    if proxy_protocol.send.is_some() {
        service.inner(&keys::PROXY_PROTOCOL).error(&keys::SEND, fault("with a PROXY header"));
    }
    if source == Some(&Source::Client) {
        service.error(&keys::SOURCE, fault("from the client's own address"));
    }
}

/// The protocols that are agreed on with the clients of a service.
pub(super) fn client_alpn(service: &Table<'_>, http: Option<BackendVersion>) -> Vec<String> {
    check_client_alpn(service, &keys::ALPN, http);
    let without = || http.map(|_| PROTOCOLS.map(str::to_owned).into()).unwrap_or_default();
    service.optional(&keys::ALPN).map_or_else(without, values)
}

/// Reports protocols that are not HTTP; `key` is that of a service or of a rule.
pub(super) fn check_client_alpn(
    section: &Table<'_>,
    key: &Key<List<Protocol>>,
    http: Option<BackendVersion>,
) {
    let written = http.and_then(|_| section.optional(key)).unwrap_or_default();
    for protocol in written.iter().filter(|protocol| !PROTOCOLS.contains(&protocol.value.as_str())) {
        let what = format!("`{}` cannot be spoken with `mode = \"http\"`", protocol.value);
        let hint = "list only `h2`, `http/1.1` and `http/1.0`, or leave `alpn` out";
        section.reading().error(&protocol.span, Fault::new(what).hint(hint));
    }
}

/// The protocols that are offered to backends, where the version is known, and what contradicts it in their section.
pub(super) fn backend_alpn(section: &Table<'_>, version: BackendVersion) -> BackendAlpn {
    let protocol = match version {
        BackendVersion::Http1 => PROTOCOLS[1],
        BackendVersion::Http2 => PROTOCOLS[0],
    };
    let fits = BackendAlpn::Own(vec![protocol.to_owned()]);
    let written = section.optional(&keys::BACKEND_ALPN);
    // A server that is not offered anything speaks HTTP/1.1.
    let is_silent =
        version == BackendVersion::Http1 && written.as_ref() == Some(&BackendAlpn::Own(Vec::new()));
    if written.is_some_and(|written| written != fits) && !is_silent {
        let what = format!("this contradicts `backend-version`: requests go to backends by `{protocol}`");
        let hint = "remove `alpn`, or change `backend-version` in [service.http]";
        section.error(&keys::BACKEND_ALPN, Fault::new(what).hint(hint));
    }
    let starttls = Fault::new(
        "backends of HTTP speak TLS from the first byte: `starttls` cannot go with `mode = \"http\"`",
    );
    section.error(&keys::BACKEND_STARTTLS, starttls.hint("remove `starttls`"));
    if version == BackendVersion::Http2 {
        let why = "messages of HTTP/2 show where they end";
        no_effect(section, [&keys::BACKEND_MISSING_CLOSE_NOTIFY as &dyn Entry], why);
    }
    if is_silent { BackendAlpn::Own(Vec::new()) } else { fits }
}
