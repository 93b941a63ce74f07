//! From a request's method, path and headers to its answer; bodies are not read. First whether the client may ask, then the request.

use std::borrow::Cow;
use std::cell::RefCell;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use percent_encoding::percent_decode_str;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::authorization::{Authenticator, RequiredToken};
use super::client::server_field;
use super::control::{BackendRefusal, CacheAct, Control, MaintenanceRefusal};
use super::page;
use super::rates::History;
use super::status::Status;
use handfast_observe::metrics::Format;
use handfast_observe::operator_state::OperatorState;

mod maintenance;

/// Time for which a client waits for a reload's outcome; the reload continues without it.
const RELOAD_DEADLINE: Duration = Duration::from_secs(30);

const BACKENDS: &str = "/backends/";
const CERTIFICATES: &str = "/acme/";
const MAINTENANCE: &str = "/maintenance/";
/// Objects of caches that are listed at once.
const MAX_LISTED_OBJECTS: usize = 100_000;

const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
const JSON: &str = "application/json";

const HELP: &str = "\
GET  /status       the status page (also at /)
GET  /status.json  the same as JSON
GET  /metrics      for Prometheus: OpenMetrics where that is accepted, else text
GET  /ready        200, or 503 with the reason
GET  /live         200
POST /reload       read the configuration again: 200, or 409 with the problems
POST /reopen       open the access log again, after a rotation: 202
POST /drain        stop accepting and let connections end: 202
POST /backends/SERVICE/BACKEND?state=drain
                   no new connections for this backend; down: nor checks; up: back in use. 200, or 404 with the names
POST /maintenance/SERVICE?state=on&allow=10.0.0.0/8&retry-after=10m
                   answer its requests with 503, except those of these addresses (with commas); off: end that. 200, 404 with the
                   services, or 409 with the reason
POST /acme/NAME?do=renew
                   order a new certificate for this name now; revoke: revoke its certificate, and order a new one.
                   200, or 409 with the reason
GET  /cache?prefix=URL&limit=100
                   objects of the caches, one a line: status, bytes, age, seconds until it is stale, hits, URL. With service=NAME of one
POST /cache?purge=URL
                   remove this object; prefix=URL: all whose URL begins so; tag=WORD: all with this tag. 200, with their number
POST /hand-over    give this address to the process that replaces this one: 202, or 409 unless this one is stopping
With admin.token-file each POST, and /cache, needs the token: curl --digest -u :TOKEN, or Authorization: Bearer TOKEN. Else 401.
";

/// Kind of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// TCP: a browser could be behind it.
    Tcp,
    /// A unix socket: no browser can.
    Unix,
}

pub(super) type HttpResponse = Response<Full<Bytes>>;

/// State of a listener that its requests share.
#[derive(Clone)]
pub(super) struct ServerContext {
    pub(super) control: Rc<dyn Control>,
    pub(super) authenticator: Rc<Authenticator>,
    pub(super) history: Rc<RefCell<History>>,
    /// Notified when the next process was promised the address.
    pub(super) handed_over: Rc<Notify>,
}

pub(super) async fn respond(head: Parts, transport: Transport, context: &ServerContext) -> HttpResponse {
    let ServerContext { control, authenticator, history, handed_over } = context;
    let control = &**control;
    if let Err(refusal) = allowed(&head, transport, control) {
        return text(StatusCode::FORBIDDEN, format!("refused: {refusal}"));
    }
    let reads = head.method == Method::GET || head.method == Method::HEAD;
    let posts = head.method == Method::POST;
    // A list of the cache has whole URLs, with what is secret in their queries.
    let needs_token = posts || head.uri.path() == "/cache";
    if needs_token && !may_change(&head, &control.required_token(), authenticator) {
        return no_token(authenticator);
    }
    match head.uri.path() {
        "/" | "/status" if reads && !accepts_json(&head.headers) => answer(
            StatusCode::OK,
            HTML,
            page::page(&status(control, history).await, refresh(head.uri.query())),
        ),
        "/" | "/status" | "/status.json" if reads => {
            let mut status = status(control, history).await;
            status.attention = page::findings(&status);
            match serde_json::to_string(&status) {
                Ok(json) => answer(StatusCode::OK, JSON, json),
                Err(error) => {
                    text(StatusCode::INTERNAL_SERVER_ERROR, format!("status: write as JSON: {error}"))
                }
            }
        }
        "/metrics" if reads => {
            let format = preferred_format(&head.headers);
            answer(StatusCode::OK, format.content_type(), format.write(control.snapshot()))
        }
        "/hand-over" if posts => {
            let threads = parameter(head.uri.query(), "threads").and_then(|threads| threads.parse().ok());
            match control.hand_over(threads.map_or(1, |threads: u32| threads.clamp(1, 1024))) {
                Ok(()) => {
                    handed_over.notify_one();
                    text(StatusCode::ACCEPTED, "handed over: this process no longer listens here".into())
                }
                Err(reason) => text(StatusCode::CONFLICT, format!("not handed over: {reason}")),
            }
        }
        "/ready" if reads => match control.ready() {
            Ok(()) => text(StatusCode::OK, "ready".into()),
            Err(reason) => text(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}")),
        },
        "/live" if reads => text(StatusCode::OK, "alive".into()),
        "/reload" if posts => reload(control).await,
        "/reopen" if posts => {
            control.reopen();
            text(StatusCode::ACCEPTED, "the access log is opened again by its name".into())
        }
        "/drain" if posts => {
            control.drain();
            text(StatusCode::ACCEPTED, "draining: no new connections; /ready says how many are left".into())
        }
        "/cache" if reads || posts => cache(head.uri.query(), posts, control).await,
        path if path.starts_with(CERTIFICATES) && posts => {
            certificate(&path[CERTIFICATES.len()..], head.uri.query(), control).await
        }
        path if path.starts_with(MAINTENANCE) && posts => {
            maintenance(&path[MAINTENANCE.len()..], head.uri.query(), control).await
        }
        path if path.starts_with(BACKENDS) && posts => {
            backend(&path[BACKENDS.len()..], head.uri.query(), control).await
        }
        "/" | "/status" | "/status.json" | "/metrics" | "/ready" | "/live" => {
            wrong_method(&head, "GET, HEAD")
        }
        "/cache" => wrong_method(&head, "GET, HEAD, POST"),
        "/reload" | "/reopen" | "/drain" | "/hand-over" => wrong_method(&head, "POST"),
        path if [BACKENDS, CERTIFICATES, MAINTENANCE].iter().any(|below| path.starts_with(below)) => {
            wrong_method(&head, "POST")
        }
        path => text(StatusCode::NOT_FOUND, format!("nothing at {path}; there is:\n{HELP}")),
    }
}

async fn status(control: &dyn Control, history: &RefCell<History>) -> Status {
    let open = control.open().await;
    Status { open, ..Status::of(control, &history.borrow()) }
}

async fn reload(control: &dyn Control) -> HttpResponse {
    match timeout(RELOAD_DEADLINE, control.reload()).await {
        Ok(Ok(outcome)) => text(StatusCode::OK, outcome),
        Ok(Err(refusal)) => text(StatusCode::CONFLICT, refusal.to_string()),
        Err(_) => {
            let seconds = RELOAD_DEADLINE.as_secs();
            let why = format!("the reload takes longer than {seconds} s and goes on; /status will tell");
            text(StatusCode::GATEWAY_TIMEOUT, why)
        }
    }
}

/// Sets the state of a backend: `SERVICE/BACKEND`, where the backend's name may contain slashes.
async fn backend(path: &str, query: Option<&str>, control: &dyn Control) -> HttpResponse {
    let bad = |what: String| text(StatusCode::BAD_REQUEST, what);
    let names = decoded(path);
    let Some((service, backend)) = names.as_deref().and_then(|names| names.split_once('/')) else {
        return bad(format!("{BACKENDS}{path} is not {BACKENDS}SERVICE/BACKEND"));
    };
    let Some(requested) = parameter(query, "state").and_then(OperatorState::named) else {
        let words = OperatorState::ALL
            .map(|requested| format!("?state={}  {}", requested.name(), requested.in_words()))
            .join("\n");
        return bad(format!("no state is asked for, or an unknown one; there is:\n{words}"));
    };
    match control.set_backend(service.to_owned(), backend.to_owned(), requested).await {
        Ok(outcome) => text(StatusCode::OK, outcome),
        Err(refusal @ BackendRefusal::Busy) => text(StatusCode::CONFLICT, refusal.to_string()),
        Err(refusal) => text(StatusCode::NOT_FOUND, refusal.to_string()),
    }
}

/// Puts a service in maintenance, or ends it.
async fn maintenance(path: &str, query: Option<&str>, control: &dyn Control) -> HttpResponse {
    let bad = |what: String| text(StatusCode::BAD_REQUEST, what);
    let Some(service) = decoded(path).filter(|name| !name.is_empty()) else {
        return bad(format!("{MAINTENANCE}{path} is not {MAINTENANCE}SERVICE"));
    };
    let requested = match maintenance::requested(query) {
        Ok(requested) => requested,
        Err(problem) => return bad(problem.to_string()),
    };
    match control.set_maintenance(service, requested).await {
        Ok(outcome) => text(StatusCode::OK, outcome),
        Err(refusal @ MaintenanceRefusal::NoService { .. }) => {
            text(StatusCode::NOT_FOUND, refusal.to_string())
        }
        Err(refusal) => text(StatusCode::CONFLICT, refusal.to_string()),
    }
}

/// Orders or revokes the certificate of a name.
async fn certificate(path: &str, query: Option<&str>, control: &dyn Control) -> HttpResponse {
    let bad = |what: String| text(StatusCode::BAD_REQUEST, what);
    let Some(name) = decoded(path).filter(|name| !name.is_empty()) else {
        return bad(format!("{CERTIFICATES}{path} is not {CERTIFICATES}NAME"));
    };
    let revokes = match parameter(query, "do") {
        Some("renew") => false,
        Some("revoke") => true,
        _ => {
            return bad(
                "nothing is asked for, or something unknown; there is: ?do=renew, ?do=revoke".to_owned()
            );
        }
    };
    match timeout(RELOAD_DEADLINE, control.order(name, revokes)).await {
        Ok(Ok(outcome)) => text(StatusCode::OK, outcome),
        Ok(Err(refusal)) => text(StatusCode::CONFLICT, refusal.to_string()),
        Err(_) => {
            let why = "an order is under way; this request is carried out after it; /status will tell";
            text(StatusCode::GATEWAY_TIMEOUT, why.to_owned())
        }
    }
}

/// Lists or purges objects of caches.
async fn cache(query: Option<&str>, purges: bool, control: &dyn Control) -> HttpResponse {
    let bad = |what: &str| text(StatusCode::BAD_REQUEST, what.to_owned());
    let value = |name: &str| parameter(query, name).and_then(decoded);
    let act = match (purges, value("purge"), value("prefix"), value("tag")) {
        (false, None, prefix, None) => {
            let limit =
                parameter(query, "limit").map_or(Some(MAX_LISTED_OBJECTS), |limit| limit.parse().ok());
            let Some(limit) = limit else { return bad("limit is no number") };
            CacheAct::List(prefix.unwrap_or_default(), limit.min(MAX_LISTED_OBJECTS))
        }
        (true, Some(url), None, None) => CacheAct::PurgeUrl(url),
        (true, None, Some(prefix), None) => CacheAct::PurgePrefix(prefix),
        (true, None, None, Some(tag)) => CacheAct::PurgeTag(tag),
        _ => {
            return bad(
                "expected one of purge=URL, prefix=URL and tag=WORD with POST, or prefix=URL with GET",
            );
        }
    };
    match timeout(RELOAD_DEADLINE, control.cache(value("service"), act)).await {
        Ok(Ok(outcome)) => text(StatusCode::OK, outcome),
        Ok(Err(refusal)) => text(StatusCode::NOT_FOUND, refusal.to_string()),
        Err(_) => text(StatusCode::GATEWAY_TIMEOUT, "it takes longer than 30 s, and goes on".to_owned()),
    }
}

/// A path without its percent-encoding (RFC 3986 §2.1); `None`: it is no text.
fn decoded(path: &str) -> Option<String> {
    percent_decode_str(path).decode_utf8().ok().map(Cow::into_owned)
}

fn wrong_method(head: &Parts, allowed: &'static str) -> HttpResponse {
    let path = head.uri.path();
    let (method, first) = (&head.method, allowed.split(',').next().unwrap_or_default());
    let why = format!("{path} answers {allowed}, not {method}; for example: curl -X {first} …{path}");
    let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, why);
    answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    answer
}

/// Reason why a browser could have been tricked into a request.
#[derive(Debug, thiserror::Error)]
enum ForeignRequest {
    /// The name in it is none of this machine's.
    #[error(
        "asked for as {name:?}; ask by IP address or as localhost, or allow the name:\n\n  [admin]\n  hosts = [{:?}]\n",
        without_port(.name)
    )]
    Name { name: String },
    #[error("a page of another site asked for this; use curl -X POST")]
    Site,
}

/// Refuses a request into which a browser could have been tricked, with the reason.
///
/// A page of another site may send requests to this machine but not read the answers, unless its own name was made to
/// point here ("DNS rebinding"): then the `Host` is that name. And it may `POST`: then `Origin` and, in browsers since
/// 2020, `Sec-Fetch-Site` (W3C Fetch Metadata) show it.
fn allowed(head: &Parts, transport: Transport, control: &dyn Control) -> Result<(), ForeignRequest> {
    let host = head.headers.get(header::HOST).map(|host| host.to_str().unwrap_or("\u{fffd}"));
    let named = [host, head.uri.authority().map(|authority| authority.as_str())];
    let is_known = |name: &&str| {
        is_local_name(name)
            || control.has_host(without_port(name).trim_end_matches('.').to_ascii_lowercase().as_str())
    };
    if transport == Transport::Tcp
        && let Some(name) = named.into_iter().flatten().find(|name| !is_known(name))
    {
        return Err(ForeignRequest::Name { name: name.to_owned() });
    }
    if head.method != Method::POST {
        return Ok(());
    }
    let value = |name: HeaderName| head.headers.get(name).map(|value| value.to_str().unwrap_or("\u{fffd}"));
    let foreign_site = value(HeaderName::from_static("sec-fetch-site"))
        .is_some_and(|site| site != "same-origin" && site != "none");
    let foreign_origin = value(header::ORIGIN)
        .is_some_and(|origin| origin.strip_prefix("http://").is_none_or(|origin| Some(origin) != host));
    match foreign_site || foreign_origin {
        true => Err(ForeignRequest::Site),
        false => Ok(()),
    }
}

fn may_change(head: &Parts, required: &RequiredToken, authenticator: &Authenticator) -> bool {
    match required {
        RequiredToken::Unknown => false,
        RequiredToken::None => true,
        RequiredToken::Token(token) => {
            let target = head.uri.path_and_query().map_or("/", |target| target.as_str());
            let value = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
            value.is_some_and(|value| authenticator.is_authorized(token, value, head.method.as_str(), target))
        }
    }
}

fn no_token(authenticator: &Authenticator) -> HttpResponse {
    let why = "refused: this needs the token of admin.token-file:\n\n  \
               curl -X POST --digest -u \":$(cat FILE)\" …\n\n\
               handfast reload, stop and the like read it from the configuration (-c), or from --token-file";
    let mut answer = text(StatusCode::UNAUTHORIZED, why.to_owned());
    // Digest first: it keeps the token secret. A challenge has letters of this program alone.
    let challenges =
        [HeaderValue::from_str(&authenticator.challenge()).ok(), Some(HeaderValue::from_static("Bearer"))];
    for challenge in challenges.into_iter().flatten() {
        answer.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
    }
    answer
}

/// Returns true if a `Host` is an IP address or `localhost`, with or without a port.
fn is_local_name(host: &str) -> bool {
    let name = without_port(host);
    match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(name) => name.parse::<Ipv6Addr>().is_ok(),
        None => name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok(),
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains(JSON) && !accept.contains("text/html"))
}

/// The format of metrics that a scraper prefers. One that does not name OpenMetrics possibly cannot read it.
fn preferred_format(headers: &HeaderMap) -> Format {
    let ranges = headers.get_all(header::ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
    let ranges: Vec<&str> = ranges.flat_map(|accept| accept.split(',')).collect();
    // RFC 9110 §12.4.2.
    let quality = |kind: &str| {
        let of_range = |range: &&str| {
            let mut parts = range.split(';').map(str::trim);
            let is_it = parts.next().is_some_and(|known| known.eq_ignore_ascii_case(kind));
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
            is_it.then(|| weight.unwrap_or(1.0))
        };
        ranges.iter().filter_map(of_range).fold(0.0, f32::max)
    };
    let openmetrics = quality("application/openmetrics-text");
    match openmetrics > 0.0 && openmetrics >= quality("text/plain") {
        true => Format::OpenMetrics,
        false => Format::Text,
    }
}

/// The value of a parameter, as in `threads=4`.
fn parameter<'q>(query: Option<&'q str>, name: &str) -> Option<&'q str> {
    query?.split('&').filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name).map(|it| it.1)
}

/// The seconds of `refresh=5`, from 1 to 3600.
fn refresh(query: Option<&str>) -> Option<u32> {
    parameter(query, "refresh")?.parse().ok().filter(|seconds| (1..=3_600).contains(seconds))
}

fn text(status: StatusCode, mut body: String) -> HttpResponse {
    if !body.ends_with('\n') {
        body.push('\n');
    }
    answer(status, TEXT, body)
}

fn answer(status: StatusCode, content_type: &'static str, body: String) -> HttpResponse {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    *answer.status_mut() = status;
    if let Ok(server) = HeaderValue::from_str(&server_field()) {
        answer.headers_mut().insert(header::SERVER, server);
    }
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, handfast_html::policy()),
        // Browsers ignore this in a page's own policy.
        (header::CONTENT_SECURITY_POLICY, "frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        answer.headers_mut().append(name, HeaderValue::from_static(value));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_local() {
        for local in
            ["127.0.0.1", "127.0.0.1:9090", "[::1]:9090", "[::1]", "localhost", "LocalHost:1", "10.0.0.7:80"]
        {
            assert!(is_local_name(local), "{local}");
        }
        for foreign in [
            "example.org",
            "example.org:9090",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "",
            "::1",
            "[x]",
            "\u{fffd}",
        ] {
            assert!(!is_local_name(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_scraper_gets_the_format_that_it_prefers() {
        let openmetrics = [
            "application/openmetrics-text",
            // Prometheus 2.5 to 3, as it comes.
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "text/plain;q=0.5, Application/OpenMetrics-Text; version=1.0.0",
        ];
        let text = [
            "",
            "*/*",
            // Prometheus before 2.5, Telegraf, VictoriaMetrics.
            "text/plain;version=0.0.4;q=1,*/*;q=0.1",
            // Prometheus 3 with `scrape_protocols: [PrometheusText0.0.4, OpenMetricsText1.0.0]`.
            "text/plain;version=0.0.4;q=0.5,application/openmetrics-text;version=1.0.0;q=0.4,*/*;q=0.2",
            "application/openmetrics-text;q=0",
            "application/openmetrics-textile",
        ];
        let format = |accept: &str| {
            let value = HeaderValue::from_str(accept).expect("a header");
            preferred_format(&HeaderMap::from_iter([(header::ACCEPT, value)]))
        };
        openmetrics.iter().for_each(|accept| assert_eq!(format(accept), Format::OpenMetrics, "{accept}"));
        text.iter().for_each(|accept| assert_eq!(format(accept), Format::Text, "{accept}"));
    }

    #[test]
    fn refreshing_is_bounded() {
        assert_eq!(refresh(Some("refresh=5")), Some(5));
        assert_eq!(refresh(Some("a=b&refresh=3600")), Some(3_600));
        for wrong in ["refresh=0", "refresh=3601", "refresh=", "refresh=5;url=x", "refresh=-1", ""] {
            assert_eq!(refresh(Some(wrong)), None, "{wrong}");
        }
        assert_eq!(refresh(None), None);
    }
}
