//! The keys inside of values that decide which requests are taken, and when.

use std::time::Duration;

use super::service::{PREFIX_V4, PREFIX_V6};
use crate::kind::{
    AddressPrefix, AuthPath, BackendEntry, Choice, CookieName, Count, CredentialPath, FieldName, List,
    RateKey, Realm, Share, Size, Span, Switch, seconds,
};
use crate::model::Maintenance;
use crate::schema::section;

section! {
    /// A limit on the requests of a route.
    RATE_LIMIT_TABLE = "rate-limit", "{ requests = …, per = … }";

    /// Requests in the time of `per`, in the long run.
    RATE_REQUESTS: Count<u32> = "requests", Count(1..=1_000_000),
        example "100", elsewhere "rate events limit count average max";

    /// The time in which this number of requests may be sent. Permission comes back evenly: with 60 requests a minute, one each second.
    RATE_PER: Span = "per", Span { range: seconds(1)..=seconds(3600), zero: None },
        default "\"1s\"",
        why "most limits are in requests a second",
        example "\"1m\"", elsewhere "window period interval";

    /// Requests that may be sent at once after a pause.
    RATE_BURST: Count<u32> = "burst", Count(1..=1_000_000),
        absent "as many as `requests`",
        why "a page loads dozens of files at once",
        example "200", elsewhere "nodelay bucket capacity max-burst";

    /// Requests that are counted together. `client`: those of one address. `route`: all of the route. `header:NAME`: those with the same
    /// value of this field; those without it are counted by their address.
    RATE_BY: RateKey = "by", RateKey,
        default "\"client\"",
        why "one client must not use up what others need",
        example "\"header:x-api-key\"", elsewhere "key zone match";

    use PREFIX_V4, PREFIX_V6;
}

section! {
    /// Names and passwords of clients.
    BASIC_AUTH_TABLE = "basic-auth", "{ file = …, realm = … }";

    /// The file of users, one `name:hash` a line, as `htpasswd -B` writes it. Hashes are bcrypt or Argon2; others can be guessed too quickly,
    /// and are refused. A changed file is read again.
    BASIC_AUTH_FILE: CredentialPath = "file", CredentialPath,
        example "\"users.htpasswd\"", elsewhere "users-file user-file auth-basic-user-file userlist users";

    /// Text that browsers show when they ask for the password.
    BASIC_AUTH_REALM: Realm = "realm", Realm,
        default "\"restricted\"",
        why "most browsers show only the host",
        example "\"Example\"", elsewhere "name auth-name title";

    /// Sends the field `Authorization` with the password to backends.
    BASIC_AUTH_PASS: Switch = "pass", Switch,
        default "true",
        why "backends may read the name of the user from it",
        example "false", elsewhere "remove-header forward";
}

section! {
    /// A server that is asked about each request.
    FORWARD_AUTH_TABLE = "forward-auth", "{ to = …, path = … }";

    /// Address of the server. Requests to it are HTTP/1.1 in plain text.
    AUTH_TO: List<BackendEntry> = "to", List::of(BackendEntry),
        example "\"10.0.0.9:4180\"", elsewhere "address uri url server upstream backend";

    /// The path that it is asked for.
    AUTH_PATH: AuthPath = "path", AuthPath,
        example "\"/oauth2/auth\"", elsewhere "uri location endpoint";

    /// Fields of its answer that the backend receives. Those of these names that clients send are removed.
    AUTH_COPY: List<FieldName> = "copy", List::of(FieldName),
        absent "none",
        why "each server has other names",
        example "[\"Remote-User\", \"Remote-Groups\"]",
        elsewhere "copy-headers auth-response-headers auth-request-set response-headers";

    /// Timeout until its answer begins.
    AUTH_TIMEOUT: Span = "timeout", Span { range: seconds(1)..=seconds(300), zero: None },
        default "\"10s\"",
        why "each request waits for it",
        example "\"3s\"", elsewhere "proxy-read-timeout response-timeout";
}

section! {
    /// Servers that receive copies of requests.
    MIRROR_TABLE = "mirror", "{ to = …, share = … }";

    /// Addresses of the servers. They are reached by HTTP/1.1 in plain text.
    MIRROR_TO: List<BackendEntry> = "to", List::of(BackendEntry),
        example "\"10.0.0.9:8080\"", elsewhere "address uri url server upstream backend";

    /// The share of the requests that is copied: each one by chance.
    MIRROR_SHARE: Share = "share", Share,
        default "\"100%\"",
        why "who tries another server wants to see what the first one gets",
        example "\"10%\"", elsewhere "percent percentage runtime-fraction";

    /// Most bytes of content of a request that is copied: it is kept in memory until the request was answered. Requests with more are not copied.
    MIRROR_CONTENT: Size = "content", Size(0..=1024 * 1024),
        default "\"64KiB\"",
        why "forms and calls of an API have less, and uploads would need memory",
        example "\"0B\"", elsewhere "mirror-request-body body max-body";
}

section! {
    /// The requests that wait for a backend.
    QUEUE_TABLE = "queue", "{ length = …, timeout = … }";

    /// Requests that wait for backends of the service at the same time, over all threads; 0: none does.
    QUEUE_LENGTH: Count<usize> = "length", Count(0..=1_000_000),
        default "100",
        why "it bounds the memory, and the time that the last one waits",
        example "500", elsewhere "maxqueue size max";

    /// Time for which a request waits.
    QUEUE_TIMEOUT: Span = "timeout", Span { range: Duration::from_millis(1)..=seconds(3600), zero: None },
        default "\"5s\"",
        why "people wait for a page for a few seconds",
        example "\"2s\"", elsewhere "timeout-queue wait";
}

section! {
    /// Session affinity: the requests of a client go to one backend.
    STICKY_TABLE = "sticky", "{ cookie = … }";

    /// The name of the cookie. Its value is a keyed hash of the backend's name, which says nothing about it. It is `HttpOnly`, lasts as long as
    /// the browser's session, and is `Secure` where the client speaks TLS.
    STICKY_COOKIE: CookieName = "cookie", CookieName,
        absent "a field decides, see `header`",
        why "one of both is written",
        example "\"srv\"", elsewhere "name cookie-name insert";

    /// The field whose value decides: requests with the same value go to the same backend, also by other proxies with the same backends. One that
    /// goes or comes moves only its own share. Requests without the field go to any backend.
    STICKY_HEADER: FieldName = "header", FieldName,
        absent "a cookie decides, see `cookie`",
        why "one of both is written",
        example "\"x-user\"", elsewhere "field hdr hash-on";

    /// A file with a secret of 16 to 1,024 bytes, from which the cookies are made. Proxies with the same file understand each other's.
    STICKY_KEY: CredentialPath = "key-file", CredentialPath,
        absent "a random key, which a restart or an upgrade replaces: clients then may have another backend",
        why "no file is needed to begin",
        example "\"sticky.key\"", elsewhere "secret key dynamic-cookie-key";

    /// Requests from pages of other sites that have the cookie (`SameSite`). `none` needs TLS.
    STICKY_SAME_SITE: Choice<&'static str> = "same-site",
        Choice(&[("lax", "Lax"), ("strict", "Strict"), ("none", "None")]),
        default "\"lax\"",
        why "a link from another site finds the session, a form that another site sends does not",
        example "\"strict\"", elsewhere "samesite attr";
}

section! {
    /// Maintenance of a service.
    MAINTENANCE_TABLE = "maintenance", "{ allow = …, retry-after = … }";

    /// Addresses of clients whose requests are served nevertheless. Behind a proxy of `trust-forwarded-from`, that of its client counts.
    MAINTENANCE_ALLOW: List<AddressPrefix> = "allow", List::of(AddressPrefix),
        absent "no client",
        why "only the operator knows the addresses of those who test",
        example "[\"10.0.0.0/8\", \"2001:db8::/32\"]", elsewhere "allow-clients except bypass from";

    /// Time after which clients should try again, in the field `Retry-After`.
    RETRY_AFTER: Span = "retry-after", Span { range: Maintenance::RETRY_AFTER, zero: None },
        default "\"5m\"",
        why "search engines come back later and keep their index; most work is done in minutes",
        example "\"10m\"", elsewhere "retry after";
}
