//! The keys of HTTP mode: how requests are read, forwarded and routed.

use handfast_http::http1::Underscores;

use super::limits::{DAY, HOUR, TENTH};
use super::route::{
    ROUTE_ADD_REQUEST, ROUTE_ADD_RESPONSE, ROUTE_ALLOW_CERTIFICATES, ROUTE_ALLOW_CLIENTS, ROUTE_BASIC_AUTH,
    ROUTE_FORWARD_AUTH, ROUTE_RATE_LIMIT, ROUTE_REFUSE_CLIENTS, ROUTE_REMOVE_REQUEST, ROUTE_REMOVE_RESPONSE,
    ROUTE_SECURITY, ROUTE_SET_REQUEST, ROUTE_SET_RESPONSE,
};
use crate::kind::*;
use crate::model::{BackendVersion, HalfClose};
use crate::schema::section;

section! {
    /// Reading, limits and forwarding of the requests of a service with `mode = "http"`. All keys have defaults: the section may be left
    /// out. Keys that a [[service.route]] may have too are for all routes, and for requests without a route. A route has all of them unless it
    /// says otherwise: its fields replace those of the same name, its values those of the same key. `allow-clients`, `refuse-clients`,
    /// `allow-certificates` and `rate-limit` of service and route both apply; `basic-auth = false` and `forward-auth = false` remove the
    /// service's.
    HTTP = "http", "[service.http]";

    use ROUTE_SET_REQUEST, ROUTE_ADD_REQUEST, ROUTE_REMOVE_REQUEST, ROUTE_SET_RESPONSE, ROUTE_ADD_RESPONSE, ROUTE_REMOVE_RESPONSE,
        ROUTE_SECURITY, ROUTE_ALLOW_CLIENTS, ROUTE_REFUSE_CLIENTS, ROUTE_ALLOW_CERTIFICATES, ROUTE_BASIC_AUTH, ROUTE_FORWARD_AUTH,
        ROUTE_RATE_LIMIT;

    /// The version of HTTP towards the backends of the service, of its rules and of its routes. `h2`: agreed on by ALPN where
    /// they have TLS, else with prior knowledge (h2c). Each client may use either version.
    BACKEND_VERSION: Choice<BackendVersion> = "backend-version",
        Choice(&[("http/1.1", BackendVersion::Http1), ("h2", BackendVersion::Http2)]),
        default "\"http/1.1\"",
        why "every HTTP server has it; gRPC needs `h2`",
        example "\"h2\"", elsewhere "proto http-version proxy-http-version upstream-http-version backend-protocol";

    /// The fields that name the client to backends. `x-forwarded`: `X-Forwarded-For`, `X-Forwarded-Proto` and
    /// `X-Forwarded-Host`. `forwarded`: `Forwarded` (RFC 7239). All fields of these kinds that a client sends are removed, whichever is
    /// written, unless `trust-forwarded-from` has the client.
    FORWARDED: Choice<(bool, bool)> = "forwarded", Choice(&[
        ("x-forwarded", (true, false)),
        ("forwarded", (false, true)),
        ("both", (true, true)),
        ("off", (false, false)),
    ]),
        default "\"x-forwarded\"",
        why "most servers and frameworks read these, and few read `Forwarded`",
        example "\"both\"", elsewhere "forwardfor option-forwardfor x-forwarded-for forwarded-headers";

    /// Addresses of the proxies in front. The fields that they send are kept, and continued by the proxy's own address; those of
    /// all other clients are removed. `unix`: clients that connect to a unix socket of this service.
    TRUST_FORWARDED_FROM: List<OrFile<ProxySenders>> = "trust-forwarded-from", List::of(OrFile(ProxySenders)),
        absent "no client",
        why "a sender of these fields can claim any address",
        example "[\"10.0.0.0/8\", \"2001:db8::5\"]",
        elsewhere "trusted-proxies trusted-ips set-real-ip-from real-ip-from xff-trusted";

    /// The field with an identifier of the request, which is in the access log too; `off`: none is sent. One that a client of
    /// `trust-forwarded-from` sends is kept.
    REQUEST_ID: RequestIdField = "request-id", RequestIdField,
        default "\"x-request-id\"",
        why "with it, a line in a log of the backend is found in the access log; most frameworks read this name",
        example "\"x-trace\"", elsewhere "unique-id unique-id-header request-id-header";

    /// Gives each request a trace (W3C Trace Context): backends receive the `traceparent` of the client if it is valid, or a new one, and the
    /// access log has the trace's identifier. Without it, the fields of clients are forwarded as they are.
    TRACE_CONTEXT: Switch = "trace-context", Switch,
        default "false",
        why "a new trace is sampled, so every request would be recorded by systems that follow it",
        example "true", elsewhere "tracing opentelemetry otel-trace otel-trace-context traceparent";

    /// Most bytes of a request's head or trailers, and of a response's. A request beyond it is answered with 431, a response
    /// with 502.
    MAX_HEADER_SIZE: Size = "max-header-size", Size(1024..=128 * 1024),
        default "\"32KiB\"",
        why "large cookies and tokens have 8 to 16 KiB, Kerberos tickets up to 64; more is kept in memory for each client that sends slowly",
        example "\"16KiB\"", elsewhere "large-client-header-buffers bufsize header-limit";

    /// Most bytes of the first line, which has the path and the query. A longer one is answered with 414.
    MAX_START_LINE: Size = "max-start-line", Size(256..=48 * 1024),
        default "\"16KiB\"",
        why "browsers and search forms stay below 8 KiB",
        example "\"8KiB\"", elsewhere "max-request-line max-uri limit-request-line";

    /// Most fields of a head, and of trailers.
    MAX_HEADERS: Count<usize> = "max-headers", Count(1..=1024),
        default "128",
        why "browsers send about 20; each one costs a search",
        example "64", elsewhere "maxhdr limit-request-fields";

    /// Handling of fields whose name has an underscore. `drop`: they are not forwarded. `refuse`: the request is answered with 400.
    /// `forward`: they are forwarded.
    UNDERSCORES: Choice<Underscores> = "underscores", Choice(&[
        ("drop", Underscores::Drop),
        ("refuse", Underscores::Refuse),
        ("forward", Underscores::Forward),
    ]),
        default "\"drop\"",
        why "CGI and WSGI take `X_Real_IP` for `X-Real-IP`, so a client could set a field that only proxies should set",
        example "\"refuse\"", elsewhere "underscores-in-headers headers-with-underscores-action";

    /// Most bytes of a request's content. A larger one is answered with 413.
    MAX_BODY: Size = "max-body", Size(1..=MAX_BODY_BYTES),
        absent "any number",
        why "content is forwarded while it arrives and is not kept, so only the backend knows what is too much",
        example "\"10MiB\"", elsewhere "client-max-body-size max-body-size max-request-body limit-request-body";

    /// The meaning of a FIN that a client of HTTP/1 sends before its response. `cancel`: it has left, and the backend's
    /// connection is closed. `answer`: it may still read; only a reset ends the request.
    HALF_CLOSE: Choice<HalfClose> = "half-close", Choice(&[
        ("cancel", HalfClose::Cancel),
        ("answer", HalfClose::Answer),
    ]),
        default "\"cancel\"",
        why "clients that give up send a FIN; those that still read after it are rare (`nc -N`)",
        example "\"answer\"", elsewhere "proxy-ignore-client-abort abortonclose";

    /// Time for which a connection of a client is kept without a request under way.
    HTTP_IDLE: Span = "idle", Span { range: TENTH..=DAY, zero: None },
        default "\"60s\"",
        why "browsers come back within seconds; later a new connection costs less than keeping this one",
        example "\"15s\"", elsewhere "keepalive-timeout timeout-http-keep-alive idle-timeout";

    /// From the first byte of a request's head to its last one. Nothing a client sends extends it.
    HEADER_TIMEOUT: Span = "header-timeout", Span { range: TENTH..=HOUR, zero: None },
        default "\"10s\"",
        why "a head is a few packets; clients that send it byte by byte would hold connections (slowloris)",
        example "\"5s\"", elsewhere "timeout-http-request client-header-timeout request-header-timeout";

    /// Without a byte of a request's or a response's content for so long, the request is ended.
    BODY_TIMEOUT: Span = "body-timeout", Span { range: TENTH..=DAY, zero: Some("none") },
        default "\"60s\"",
        why "longer than a stalled network recovers; streams of events should send something sooner",
        example "\"5m\"", elsewhere "client-body-timeout proxy-read-timeout send-timeout timeout-client";

    /// From the end of a request to the head of its response. A backend that does not answer in time costs the client a 504.
    RESPONSE_TIMEOUT: Span = "response-timeout", Span { range: TENTH..=DAY, zero: Some("none") },
        default "\"60s\"",
        why "users give up before; long polling needs more",
        example "\"30s\"", elsewhere "timeout-server response-header-timeout";

    /// Connections to each backend that are kept for the next request, over all worker threads. 0: each request opens its own.
    POOL: Count<usize> = "pool", Count(0..=100_000),
        default "256",
        why "a kept connection spares a round trip, and the handshake where the backend has TLS",
        example "0", elsewhere "keepalive http-reuse pool-max-conn max-idle-connections pool-size";

    /// Bytes of content that must move in each second, as a mean of ten seconds, while a client sends a request or takes a response. A slower
    /// client is ended. 0: a client may be as slow as `body-timeout` allows.
    MIN_RATE: Count<u32> = "min-rate", Count(0..=1_000_000),
        default "240",
        why "the slowest modem is faster; a client that holds a place with a byte a minute is not",
        example "0", elsewhere "minrate mindatarate request-read-timeout reset-timedout-connection";

    /// Time for which a connection to a backend is kept without a request. It should be shorter than the backend's own limit.
    POOL_IDLE: Span = "pool-idle", Span { range: TENTH..=HOUR, zero: None },
        default "\"30s\"",
        why "most servers close theirs after 60 s or more, so a request rarely meets a connection that is just being closed",
        example "\"4s\"", elsewhere "pool-purge-delay keepalive-idle idle-conn-timeout";

    /// Requests after which a connection to a backend is closed.
    POOL_REQUESTS: Count<u32> = "pool-requests", Count(1..=10_000_000),
        default "1000",
        why "new connections spread over backends that were added later",
        example "10000", elsewhere "keepalive-requests max-reuse";

    /// Requests that each backend gets at the same time, over all threads. Others wait in `queue` for one of them to end, those that came first
    /// in front. A backup gets none of them while another backend is up.
    MAX_REQUESTS: Count<u32> = "max-requests", Count(1..=1_000_000),
        absent "any number",
        why "only the operator knows how many requests a backend can answer at once",
        example "100", elsewhere "maxconn max-conns max-concurrent max-concurrency max-connections-per-backend in-flight";

    /// Number of requests that wait for backends with `max-requests`, and their timeout. One that finds the queue full, or waits for too
    /// long, receives 503.
    QUEUE: Queue = "queue", Queue,
        absent "`{ length = 100, timeout = \"5s\" }`",
        why "a short wait is better than an error, and a long one is not",
        example "{ length = 500, timeout = \"2s\" }", elsewhere "timeout-queue maxqueue max-queue pending";

    /// Streams that one HTTP/2 client may have open at once.
    MAX_STREAMS: Count<u32> = "max-streams", Count(1..=1000),
        default "100",
        why "what RFC 9113 (section 6.5.2) recommends at least; each one costs memory and a connection to a backend",
        example "32", elsewhere "http2-max-concurrent-streams max-concurrent-streams h2-max-concurrent-streams";

    /// Content of all streams of one HTTP/2 connection that is received before the other side takes it; towards clients and backends. One upload
    /// alone has a window of 256 KiB less, and so at most this window for each round trip.
    HTTP2_WINDOW: Size = "http2-window", Size(524_288..=67_108_864),
        default "\"2MiB\"",
        why "one upload gets 140 Mbit/s at 100 ms of round trip; a client that uploads to a slow backend holds that much memory",
        example "\"8MiB\"", elsewhere "http2-body-preread-size h2-initial-window-size tune-h2-fe-rxbuf initial-window-size flow-control-window";

    /// Other backends that a request is tried with after a failure, if it cannot have been processed: the connection could not be
    /// opened, the stream was refused, or a connection that was kept is closed now, the method is idempotent and no content was read.
    RETRIES: Count<u32> = "retries", Count(0..=10),
        default "1",
        why "one backend that has just failed is not noticed by clients; more tries would multiply the load of an outage",
        example "0", elsewhere "retry proxy-next-upstream redispatch retry-on max-retries tries";

    /// Counts responses with status 500 to 599, and those that do not come within `response-timeout`, as failures of the backend (see
    /// `backend-failures`).
    COUNT_FAILURES: Switch = "count-failures", Switch,
        default "false",
        why "one page that fails would take the whole backend out of use",
        example "true", elsewhere "observe-layer7 outlier-detection passive-health-check";

    /// The share of a backend's requests in ten seconds that may fail: with status 500 to 599, without an answer in `response-timeout`, or with
    /// one that breaks off. With more, and at least 20 requests, the backend is marked down for `backend-retry`.
    FAILURE_RATIO: Share = "failure-ratio", Share,
        absent "failures of single requests mark no backend down",
        why "a backend with one page that fails would be out of use where that page is asked for much",
        example "\"50%\"",
        elsewhere "error-ratio error-limit circuit-breaker outlier-detection max-fails fail-timeout failure-ratio";

    /// Compresses responses for clients that accept it, where the backend has not done so. `true`, or a table for other than the default
    /// settings; a route can have its own.
    COMPRESSION: Compression = "compression", Compression,
        default "false",
        why "it takes CPU time, backends may do it already, and where responses have secrets it can help to guess them (BREACH)",
        example "true", elsewhere "gzip brotli zstd encode compress deflate mod-deflate gzip-on";

    /// Pages for errors that the proxy itself answers with, by status or class; a status wins over its class. A file has at most 64 KiB of text,
    /// and its extension gives its type. Clients that prefer JSON, and gRPC, get no page.
    ERROR_PAGES: ErrorPages = "error-pages", ErrorPages,
        absent "a short text with the status and the identifier of the request",
        why "programs read the status, and only the operator knows what people should read",
        example "{ 502 = \"/etc/handfast/502.html\", \"4xx\" = \"/etc/handfast/4xx.html\" }",
        elsewhere "error-page errorfile errorfiles http-errors handle-errors errordocument custom-errors errors";

    /// Uses the pages of `error-pages` also for errors that backends answer with: they keep their status.
    ERROR_PAGES_BACKENDS: Switch = "error-pages-for-backends", Switch,
        default "false",
        why "backends describe their errors better, and programs read them",
        example "true", elsewhere "proxy-intercept-errors intercept-errors";

    /// Answers every request with 503 and `Retry-After` (5 minutes), except those of clients with an address in `allow`: `true`, or a table for
    /// other settings. `handfast maintenance on` does so without a change of the configuration, and wins over this key until `handfast
    /// maintenance off`.
    MAINTENANCE: Maintenance = "maintenance", Maintenance,
        default "false",
        why "a service serves",
        example "{ allow = [\"10.0.0.0/8\"], retry-after = \"10m\" }", elsewhere "maintenance-mode offline sorry";
}

/// Largest limit of a content that can be written.
pub(super) const MAX_BODY_BYTES: usize = handfast_text::size::MAX_BYTES as usize;
