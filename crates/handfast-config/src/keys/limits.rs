//! The keys of limits and tickets: those of all services, and those of one.

use std::time::Duration;

use crate::kind::*;
use crate::schema::section;

pub(super) const TENTH: Duration = Duration::from_millis(100);
pub(super) const HOUR: Duration = seconds(3600);
pub(super) const DAY: Duration = seconds(86_400);
pub(super) const WEEK: Duration = seconds(7 * 86_400);
/// The longest duration that can be written: a month, which every clock can count.
pub(super) const MONTH: Duration = seconds(30 * 86_400);

section! {
    /// Time and size limits for all services; a service can have its own in `[service.limits]`, key by key.
    LIMITS = "limits", "[limits]";

    /// From accepting a connection to relaying its first byte: hello, handshake and connecting to the backend together.
    /// Nothing a client sends extends it. With `mode = "http"`: to the end of the TLS handshake.
    HANDSHAKE: Span = "handshake", Span { range: TENTH..=HOUR, zero: None },
        default "\"10s\"",
        why "ten times what a bad mobile link needs; until then a client costs memory and has not proved anything",
        example "\"15s\"", elsewhere "timeout handshake-timeout ssl-handshake-timeout timeout-busy";

    /// Most bytes of a ClientHello, headers of its records included. It is also what a client can make us keep before it has
    /// said which name it wants.
    HELLO_BYTES: Size = "hello", Size(2048..=128 * 1024),
        default "\"64KiB\"",
        why "real ones have 250 to 4,000 bytes, but the standard allows more and tests ask for it; the time limit bounds how \
             long they are kept",
        example "\"16KiB\"", elsewhere "hello-bytes hello-size max-hello max-hello-size";

    /// For connecting to one backend, with its TLS and what is said before it. When it is over, the next backend is tried, as
    /// long as `handshake` allows.
    CONNECT: Span = "connect", Span { range: TENTH..=HOUR, zero: None },
        default "\"5s\"",
        why "two lost packets are survived (they are sent again after 1 s and 3 s), and there is still time for a second \
             backend",
        example "\"2s\"", elsewhere "connect-timeout backend-connect-timeout timeout-connect";

    /// Without a byte in either direction for so long, a connection is ended. With `mode = "http"` this limit, `half-closed` and
    /// `half-closed-client` are for connections that have changed their protocol (WebSocket); `[service.http]` has those of requests.
    IDLE: Span = "idle", Span { range: TENTH..=MONTH, zero: Some("none") },
        default "\"1h\"",
        why "long enough for database and shell sessions that people leave open over lunch, short enough that what was \
             forgotten goes away the same day",
        example "\"10m\"", elsewhere "idle-timeout timeout-idle proxy-timeout";

    /// Timeout after one side has ended its direction: without a byte in the other direction for this time, the connection is ended.
    HALF_CLOSED: Span = "half-closed", Span { range: TENTH..=MONTH, zero: Some("none") },
        default "\"60s\"",
        why "an answer on its way has begun by then; without it, half-closed connections pile up behind dead peers",
        example "\"10s\"", elsewhere "half-close timeout-client-fin timeout-close tunnel-timeout";

    /// Timeout after the backend has ended and the client has everything: without a byte from the client for this time, the connection is
    /// closed cleanly. Only silence counts: a client that still sends is not disturbed. `none`: `half-closed` alone decides.
    HALF_CLOSED_CLIENT: Span = "half-closed-client", Span { range: TENTH..=MONTH, zero: Some("none") },
        default "\"5s\"",
        why "a backend that has closed altogether cannot be told from one that has only ended its own direction and still \
             reads. A client that goes on after the backend's end does so within a round trip; one that waits for the end of \
             the connection, as in a pool, would hold it open for `half-closed`",
        example "\"30s\"", elsewhere "timeout-server-fin server-fin linger lingering-timeout";

    /// Age at which a connection is ended, busy or not.
    LIFETIME: Span = "lifetime", Span { range: seconds(1)..=MONTH, zero: Some("none") },
        default "\"none\"",
        why "ending a connection that works is the operator's decision",
        example "\"12h\"", elsewhere "max-age max-lifetime max-conn-lifetime";

    /// Timeout of a peer that acknowledges nothing of what was sent to it, or has no room for more all the while: the connection is ended
    /// (TCP_USER_TIMEOUT), on both sides.
    TCP_USER_TIMEOUT: Span = "tcp-user-timeout", Span { range: seconds(1)..=HOUR, zero: None },
        default "\"30s\"",
        why "the kernel alone takes 15 minutes to notice that a path is dead; 30 s are longer than a switch takes to reboot",
        example "\"1m\"", elsewhere "user-timeout tcp-ut";

    /// Idle time after which TCP probes whether the peer still answers, on both sides. Whole seconds; the largest value is the
    /// kernel's.
    TCP_KEEPALIVE: Span = "tcp-keepalive", Span { range: seconds(1)..=seconds(32_767), zero: Some("none") },
        default "\"60s\"",
        why "notices peers that vanished in silence, and keeps the state of firewalls and address translators, which forget \
             after a few minutes",
        example "\"5m\"", elsewhere "keep-alive so-keepalive";

    /// Interval at which a backend's name is resolved again. Connections never wait for it.
    RESOLVE: Span = "resolve", Span { range: seconds(1)..=DAY, zero: Some("ttl") },
        default "\"ttl\"",
        why "with `ttl` the name's owner decides how soon a change is seen",
        example "\"30s\"", elsewhere "resolve-interval refresh backend-refresh resolvers dns";

    /// Failures to connect in a row, over all worker threads, after which a backend is marked down.
    BACKEND_FAILURES: Count<u32> = "backend-failures", Count(1..=1000),
        default "3",
        why "one may be chance; three in a row rarely are",
        example "5", elsewhere "max-fails fall";

    /// Time for which a backend that is marked down is not used before one connection tries it. Where no other is up, one connection at a
    /// time tries it at once.
    BACKEND_RETRY: Span = "backend-retry", Span { range: TENTH..=DAY, zero: None },
        default "\"10s\"",
        why "a restarted backend is back in use soon, and a dead one costs one slower connection every ten seconds",
        example "\"30s\"", elsewhere "fail-timeout retry rise";
}

section! {
    /// Limits of this service. Keys that are not written are taken from `[limits]`.
    SERVICE_LIMITS = "limits", "[service.limits]", keys of LIMITS;
}

section! {
    /// Session tickets of all services: they let a returning client skip the expensive half of the handshake. A service can
    /// have its own in `[service.tickets]`, key by key. A ticket is only good where it was issued: never across services or
    /// across rules that ask for different things.
    TICKETS = "tickets", "[tickets]";

    /// Tickets sent after a full TLS 1.3 handshake. A resumption uses one ticket, and is followed by one. A client can
    /// request another number, up to this one (RFC 9149). 0 turns resumption off, in TLS 1.2 too.
    PER_HANDSHAKE: Count<u8> = "per-handshake", Count(0..=8),
        default "2",
        why "browsers keep two for each host; each one costs about 250 bytes and some CPU in a full handshake",
        example "1", elsewhere "num-tickets tickets count enabled";

    /// File that keeps the ticket keys over restarts, and shares them among machines. It is created when it is not there,
    /// readable by its owner only, replaced as a whole, and watched. Access to it is enough to decrypt recorded TLS 1.2
    /// sessions that were resumed.
    KEY_FILE: CredentialPath = "key-file", CredentialPath,
        absent "the keys are in memory only: a restart makes all tickets useless",
        why "a secret is written to disk only on request",
        example "\"tickets.key\"", elsewhere "keys ticket-key ticket-keys tls-ticket-keys session-ticket-key file";

    /// Time for which one key encrypts new tickets. Older keys are kept until the last ticket they encrypted has expired.
    ROTATE: Span = "rotate", Span { range: seconds(1)..=WEEK, zero: None },
        default "\"6h\"",
        why "a stolen key opens the tickets of a quarter of a day; rotating costs nothing",
        example "\"1h\"", elsewhere "rotation rotate-every interval";

    /// Lifetime of a ticket. At most 7 days (RFC 9846, section 4.6.1).
    TICKET_LIFETIME: Span = "lifetime", Span { range: seconds(1)..=WEEK, zero: None },
        default "\"12h\"",
        why "covers a working day; a client that comes back the next morning pays for one full handshake",
        example "\"1d\"", elsewhere "timeout session-timeout ssl-session-timeout session-cache-timeout";
}

section! {
    /// Session tickets of this service. Keys that are not written are taken from `[tickets]`.
    SERVICE_TICKETS = "tickets", "[service.tickets]", keys of TICKETS;
}
