//! The keys about active checks.

use std::time::Duration;

use super::limits::TENTH;
use crate::kind::*;
use crate::schema::section;

/// The type of a check, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckWord {
    Tcp,
    Tls,
    Http,
    SendExpect,
}

section! {
    /// Asks each backend of the service, and of its rules, again and again whether it works, and uses only those that do.
    /// Without it, backends are known by the connections that fail.
    CHECK = "check", "[service.check]";

    /// `tcp`: a connection can be opened. `tls`: a TLS handshake succeeds, with all that `backend-tls` asks of the backend.
    /// `http`: `GET` of `path` over HTTP/1.1 is answered with one of `status`. `send-expect`: the answer to `send`, or the
    /// greeting without it, contains `expect` in its first 16 KiB.
    CHECK_TYPE: Choice<CheckWord> = "type", Choice(&[
        ("tcp", CheckWord::Tcp),
        ("tls", CheckWord::Tls),
        ("http", CheckWord::Http),
        ("send-expect", CheckWord::SendExpect),
    ]),
        example "\"http\"", elsewhere "kind check protocol httpchk tcp-check";

    /// From the beginning of one check of a backend to that of the next, ±10 % at random, so that checks of many backends
    /// spread.
    CHECK_INTERVAL: Span = "interval", Span { range: TENTH..=seconds(3600), zero: None },
        default "\"5s\"",
        why "with `fall` 3 a backend that is silent is out of use after 15 seconds; connections that fail are noticed sooner",
        example "\"2s\"", elsewhere "inter every period check-interval";

    /// From the beginning of a check to its answer; not longer than `interval`.
    CHECK_TIMEOUT: Span = "timeout", Span { range: Duration::from_millis(10)..=seconds(3600), zero: None },
        default "\"2s\"",
        why "a lost packet is tolerated: it is sent again after one second",
        example "\"500ms\"", elsewhere "timeout-check check-timeout";

    /// Checks in a row that must pass before a backend that is down is used again.
    CHECK_RISE: Count<u32> = "rise", Count(1..=1000),
        default "2",
        why "one that has just started may answer once and fail again",
        example "3", elsewhere "passes healthy-threshold up-after";

    /// Checks in a row that must fail before a backend is out of use. One that has never passed a check is out with the first
    /// that fails.
    CHECK_FALL: Count<u32> = "fall", Count(1..=1000),
        default "3",
        why "one answer that is late is no failure of a backend",
        example "2", elsewhere "fails unhealthy-threshold down-after max-fails";

    /// The port that is asked. Backends that are unix sockets have none.
    CHECK_PORT: Count<u16> = "port", Count(1..=65_535),
        absent "the backend's own",
        why "what serves is best asked itself",
        example "8081", elsewhere "check-port";

    /// Uses TLS for `http` and `send-expect`. `false` is for a `port` that is plain; `true` confirms the default. Each check shakes
    /// hands in full, so it sees the certificate that is served now.
    CHECK_TLS: Switch = "tls", Switch,
        absent "as connections to the backend are made: TLS where the service or rule has `backend-tls`",
        why "what serves is best asked as clients ask it",
        example "false", elsewhere "check-ssl ssl";

    /// Path of the request of `http`.
    CHECK_PATH: Text = "path", Text("text, such as `\"/health\"`"),
        absent "`/`",
        why "every HTTP server has it",
        example "\"/health\"", elsewhere "uri url check-path";

    /// The `Host` that `http` names.
    CHECK_HOST: Text = "host", Text("text, such as `\"www.example.org\"`"),
        absent "the backend's name or address",
        why "it is the only name that is known",
        example "\"www.example.org\"", elsewhere "hostname host-header";

    /// The statuses that are good for `http`.
    CHECK_STATUS: List<StatusRange> = "status", List::of(StatusRange),
        absent "200 to 399",
        why "a redirect is an answer of a server that works",
        example "[200, \"300-308\"]", elsewhere "expect-status http-check-expect valid-status";

    /// Bytes that `send-expect` sends.
    CHECK_SEND: Bytes = "send", Bytes,
        absent "nothing: the backend speaks first",
        why "many protocols begin with the server's greeting",
        example "\"PING\\r\\n\"", elsewhere "tcp-check-send request";

    /// Bytes that the answer to `send-expect` must contain.
    CHECK_EXPECT: Bytes = "expect", Bytes,
        absent "needed for `send-expect`",
        why "only the operator knows what the backend says",
        example "\"+PONG\"", elsewhere "tcp-check-expect response match";
}
