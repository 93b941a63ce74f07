//! The keys of a route for requests.

use super::backend_tls::ROUTE_BACKEND_TLS;
use super::http::{
    BODY_TIMEOUT, COMPRESSION, ERROR_PAGES, ERROR_PAGES_BACKENDS, MAX_BODY, MAX_BODY_BYTES, RESPONSE_TIMEOUT,
    RETRIES,
};
use super::limits::{DAY, TENTH};
use super::other_words::{BACKEND_WORDS, FILES_WORDS};
use crate::kind::*;
use crate::schema::section;

section! {
    /// A route for certain requests of a service with `mode = "http"`: those that match everything that is written. The first route
    /// that matches is used, in the order written. Other requests go to the backends of their connection: those of its rule, or of
    /// the service. A route without `backend`, `redirect`, `respond` and `files` sends its requests there too, as an exception from later routes.
    ROUTE = "route", "[[service.route]]", with ROUTE_BACKEND_TLS;

    /// Its name in logs and metrics.
    ROUTE_NAME: Name = "name", Name("route"),
        absent "`route 1` for the first one, and so on",
        why "the number is unique, too",
        example "\"api\"", elsewhere "id label";

    /// Names, one of which the request must be for, without a port. A wildcard matches exactly one part: `*.example.org` has
    /// `a.example.org`, but neither `example.org` nor `a.b.example.org`. IPv6 addresses are written in brackets.
    ROUTE_HOSTS: List<HostPattern> = "hosts", List::of(HostPattern),
        absent "any name",
        why "most services have one",
        example "[\"api.example.org\", \"*.api.example.org\"]",
        elsewhere "host names server-name hostnames match-host hdr-host";

    /// The beginning of the path, at whole parts: `/api` matches `/api`, `/api/v1` and `/api?x=1`, but not `/apis`; `/api*` matches that too. The
    /// path is compared as it is forwarded: `/a/../api` and `/%61pi` are other paths, also where the backend takes them for `/api`. Where routes
    /// restrict access, a request whose path has two readings that lead to different decisions is refused.
    ROUTE_PATH: PathStart = "path", PathStart,
        absent "any path",
        why "most routes are about a name",
        example "\"/api\"", elsewhere "location prefix path-prefix path-beg uri url match-path";

    /// Compares `path` without regard to case, as backends on Windows and some frameworks do.
    ROUTE_IGNORE_CASE: Switch = "ignore-case", Switch,
        default "false",
        why "to most servers they are different paths",
        example "true", elsewhere "case-insensitive nocase case-sensitive path-i regex-case";

    /// Methods, one of which the request must have.
    ROUTE_METHODS: List<MethodName> = "methods", List::of(MethodName),
        absent "any method",
        why "most servers answer all of a path",
        example "[\"GET\", \"HEAD\"]", elsewhere "method verbs match-method limit-except";

    /// Fields that the request must have, all of them: `"name"` with any value, or `"name: value"` with exactly this one.
    ROUTE_HEADERS: List<FieldCondition> = "headers", List::of(FieldCondition),
        absent "whatever fields it has",
        why "name and path decide for most",
        example "[\"x-beta\", \"x-tenant: blue\"]", elsewhere "header fields field match-header hdr";

    /// The share of the requests that match everything else: each one by chance. The others go to the next route that they match. A client that
    /// is to stay where it was needs `sticky`, with weights in one `backend` list.
    ROUTE_SHARE: Share = "share", Share,
        absent "all of them",
        why "most routes are for every request that they match",
        example "\"5%\"", elsewhere "weight split-clients percentage canary traffic-split rand";

    /// Backends for its requests; also the URL of another site, as for the service.
    ROUTE_BACKEND: List<SiteOrBackend> = "backend", List::of(SiteOrBackend),
        absent "the backends of the connection: those of its rule, or of the service",
        why "the connection decides",
        example "\"10.0.0.4:8080\"", elsewhere BACKEND_WORDS;

    /// `https`: its requests are redirected to the same host and path by `https://`, with status 308. For services whose clients
    /// speak plain text. A table has another target and status.
    ROUTE_REDIRECT: Redirect = "redirect", Redirect,
        absent "they are not redirected",
        why "most requests are forwarded",
        example "\"https\"", elsewhere "return redirect-scheme https-redirect redirect-to-https rewrite";

    /// The response to all of its requests: a status, or a table with the content too. For maintenance, and for what no client
    /// should reach.
    ROUTE_RESPOND: Respond = "respond", Respond,
        absent "backends respond",
        why "most requests are forwarded",
        example "404", elsewhere "return deny static-response http-request-return maintenance";

    /// Files that its requests are answered with: a folder, or a table with rules for finding them. `GET` and `HEAD` only. Paths that have a
    /// part beginning with a dot are answered with 404, except `/.well-known/`.
    ROUTE_FILES: Files = "files", Files,
        absent "backends respond",
        why "most requests are forwarded",
        example "{ folder = \"/srv/www\", fallback = \"/index.html\" }",
        elsewhere FILES_WORDS;

    /// Pages for errors that the proxy itself answers its requests with, by status or class: instead of those of the service. A file has at most
    /// 64 KiB of text, and its extension gives its type. Clients that prefer JSON, and gRPC, get no page.
    ROUTE_ERROR_PAGES: ErrorPages = "error-pages", ErrorPages,
        of_service "those", example "{ 404 = \"/etc/handfast/404.html\" }", elsewhere ERROR_PAGES.about.elsewhere;

    /// Uses the pages of `error-pages` also for errors that backends answer with.
    ROUTE_ERROR_PAGES_BACKENDS: Switch = "error-pages-for-backends", Switch,
        of_service "that", example "true", elsewhere ERROR_PAGES_BACKENDS.about.elsewhere;

    /// Servers that receive a copy of its requests. No client waits for them, and what they answer is dropped.
    ROUTE_MIRROR: Mirror = "mirror", Mirror,
        absent "no request is copied",
        why "most servers do something for each request",
        example "{ to = \"10.0.0.9:8080\", share = \"10%\" }",
        elsewhere "mirror-request-body request-mirror shadow traffic-mirroring http-request-mirror spoe-mirror";

    /// Sends the requests of a client to the same backend: by a cookie that Handfast sets, or by the value of a field. When that backend
    /// is down they go to another one.
    ROUTE_STICKY: Sticky = "sticky", Sticky,
        absent "each request goes to any backend",
        why "backends that keep no sessions can share every request",
        example "{ cookie = \"srv\" }",
        elsewhere "sticky-cookie sticky-session session-affinity affinity persistence appsession lb-policy ip-hash hash hdr stick";

    /// Stores responses of this route in the cache of the service, and serves them from it.
    ROUTE_CACHE: Switch = "cache", Switch,
        default "true",
        why "the fields of the backend say what may be kept",
        example "false", elsewhere "proxy-cache proxy-no-cache proxy-cache-bypass cacheenable cachedisable";

    /// Compresses the responses of this route, or not: `true`, `false`, or a table. `true` is with the settings of the service where that has
    /// some.
    ROUTE_COMPRESSION: Compression = "compression", Compression,
        of_service "that", example "false", elsewhere COMPRESSION.about.elsewhere;

    /// From the end of a request to the head of its response, for the requests of this route.
    ROUTE_RESPONSE_TIMEOUT: Span = "response-timeout", Span { range: TENTH..=DAY, zero: Some("none") },
        of_service "that", example "\"5m\"", elsewhere RESPONSE_TIMEOUT.about.elsewhere;

    /// Timeout for a pause in content, in requests of this route and their responses.
    ROUTE_BODY_TIMEOUT: Span = "body-timeout", Span { range: TENTH..=DAY, zero: Some("none") },
        of_service "that", example "\"5m\"", elsewhere BODY_TIMEOUT.about.elsewhere;

    /// Most bytes of content in a request of this route.
    ROUTE_MAX_BODY: Size = "max-body", Size(1..=MAX_BODY_BYTES),
        of_service "that", example "\"1GiB\"", elsewhere MAX_BODY.about.elsewhere;

    /// Number of times that a request of this route is sent again after a failure, where that is safe.
    ROUTE_RETRIES: Count<u32> = "retries", Count(0..=10),
        of_service "that", example "0", elsewhere RETRIES.about.elsewhere;

    /// Replacement for `path` in the target that backends receive: with `path = "/api"` and `rewrite-path = "/v2"` they get `/v2/users` for
    /// `/api/users`. `"/"` removes it.
    ROUTE_REWRITE_PATH: PathPrefix = "rewrite-path", PathPrefix { is_open: false },
        absent "backends receive the path as the client sent it",
        why "links in pages then lead where they should",
        example "\"/v2\"", elsewhere "strip-prefix strip-path-prefix replace-path rewrite uri-strip-prefix";

    /// Fields that backends receive with this value alone, whatever the client sent. Variables are in braces, and two braces are one:
    /// `{client-address}`, `{client-subject}`, `{client-fingerprint}`, `{client-certificate}`, `{client-certificate-chain}`,
    /// `{client-certificate-der}` and `{client-certificate-pem}` (of a verified certificate), `{host}`, `{path}`, `{query}`, `{request-id}`,
    /// `{scheme}`, `{server-name}`, `{target}`, `{tls-version}`, `{user}` (of `basic-auth`). A field whose value is empty is not sent.
    ROUTE_SET_REQUEST: List<FieldValue> = "set-request-headers", List::of(FieldValue),
        absent "the fields of the client are forwarded",
        why "only the backend knows what it needs",
        example "\"x-client: {client-address}\"",
        elsewhere "proxy-set-header request-header http-request-set-header header-up add-request-header";

    /// Fields that backends receive beside those of the same name.
    ROUTE_ADD_REQUEST: List<FieldValue> = "add-request-headers", List::of(FieldValue),
        absent "none is added",
        why "only the backend knows what it needs",
        example "\"via: 1.1 handfast\"", elsewhere "http-request-add-header";

    /// Fields that backends do not receive.
    ROUTE_REMOVE_REQUEST: List<FieldName> = "remove-request-headers", List::of(FieldName),
        absent "none is removed",
        why "fields may have a meaning that only the backend knows",
        example "\"x-debug\"", elsewhere "http-request-del-header";

    /// Fields that clients receive with this value alone, whatever the backend sent; with variables as above.
    ROUTE_SET_RESPONSE: List<FieldValue> = "set-response-headers", List::of(FieldValue),
        absent "the fields of the backend are forwarded",
        why "the backend decides",
        example "\"cache-control: no-store\"",
        elsewhere "add-header response-header http-response-set-header header-down set-header";

    /// Fields that clients receive beside those of the same name.
    ROUTE_ADD_RESPONSE: List<FieldValue> = "add-response-headers", List::of(FieldValue),
        absent "none is added",
        why "the backend decides",
        example "\"x-served-by: {server-name}\"", elsewhere "http-response-add-header";

    /// Fields that clients do not receive.
    ROUTE_REMOVE_RESPONSE: List<FieldName> = "remove-response-headers", List::of(FieldName),
        absent "none is removed",
        why "the backend decides",
        example "\"server\"", elsewhere "proxy-hide-header http-response-del-header more-clear-headers";

    /// Adds the usual fields for the security of browsers to responses, where the backend sends none of that name:
    /// `Strict-Transport-Security: max-age=31536000` (over TLS), `X-Content-Type-Options: nosniff`, `X-Frame-Options: SAMEORIGIN`,
    /// `Referrer-Policy: strict-origin-when-cross-origin`.
    ROUTE_SECURITY: Switch = "security-headers", Switch,
        absent "as [service.http] says; there `false`",
        why "browsers remember the first one for a year, also when the site has no TLS any more",
        example "true", elsewhere "hsts strict-transport-security add-security-headers";

    /// Addresses of the clients whose requests are taken. Those of others receive 403.
    ROUTE_ALLOW_CLIENTS: List<OrFile<AddressPrefix>> = "allow-clients", List::of(OrFile(AddressPrefix)),
        absent "clients from everywhere",
        why "most routes are for every client",
        example "[\"10.0.0.0/8\", \"2001:db8::/32\"]", elsewhere "allow allow-from ip-allow-list whitelist remote-ip src acl";

    /// Addresses of clients whose requests receive 403. It wins over `allow-clients`.
    ROUTE_REFUSE_CLIENTS: List<OrFile<AddressPrefix>> = "refuse-clients", List::of(OrFile(AddressPrefix)),
        absent "no client",
        why "as `allow-clients`",
        example "\"192.0.2.0/24\"", elsewhere "deny deny-from blacklist";

    /// Clients whose requests are taken, by what their certificates contain, in the same words as `allow` in
    /// [service.client-certificates]. Others receive 403.
    ROUTE_ALLOW_CERTIFICATES: List<Identity> = "allow-certificates", List::of(Identity),
        absent "clients with any certificate, and with none",
        why "the service decides which certificates are requested",
        example "[\"spiffe://example.org/web/*\", \"dns:*.clients.example.org\"]",
        elsewhere "client-certificates allow-cn allow-dns allow-uri allow-spiffe ssl-client-s-dn client-san";

    /// Name and password that clients must send (RFC 7617). Others receive 401. `false` in a route: clients need none here.
    ROUTE_BASIC_AUTH: BasicAuth = "basic-auth", BasicAuth,
        absent "clients need no password",
        why "the backend knows its users",
        example "{ file = \"users.htpasswd\", realm = \"Example\" }",
        elsewhere "auth-basic auth-basic-user-file basicauth http-request-auth userlist auth-type";

    /// A server that is asked about each request, by GET with the method, URI, host and client in `X-Forwarded-…`. If it answers with 200 to 299,
    /// the request goes on with the fields of `copy`; the client receives any other answer. `false` in a route: no server is asked here.
    ROUTE_FORWARD_AUTH: ForwardAuth = "forward-auth", ForwardAuth,
        absent "no server is asked",
        why "the backend knows its users",
        example "{ to = \"10.0.0.9:4180\", path = \"/oauth2/auth\", copy = [\"X-Auth-Request-User\"] }",
        elsewhere "auth-request external-auth ext-authz forwardauth http-request-auth-intercept";

    /// Number of requests that one client, one value of a field, or the whole route may send. Those beyond it receive 429 with
    /// `Retry-After`, and no backend gets them. It takes 512 KiB of memory for the route, however many clients there are.
    ROUTE_RATE_LIMIT: RateLimit = "rate-limit", RateLimit,
        absent "any number",
        why "only the operator knows how many requests a backend can answer",
        example "{ requests = 100, per = \"1s\", burst = 200 }",
        elsewhere "limit-req limit-req-zone rate rate-limits ratelimit throttle http-request-rate stick-table sc-http-req-rate";
}
