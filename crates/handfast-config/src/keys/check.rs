//! The keys about active checks.

use std::time::Duration;

use super::TENTH;
use crate::kind::{Bytes, Choice, Count, List, Span, StatusRange, Switch, Text, seconds};
use crate::schema::{Default, Key, Section};

/// `[service.check]`
pub(crate) static CHECK: Section = Section {
    name: "check",
    header: "[service.check]",
    doc: "Asks each backend of the service, and of its rules, again and again whether it works, and uses only those that do. \
          Without it, backends are known by the connections that fail.",
    keys: &[
        &CHECK_TYPE,
        &CHECK_INTERVAL,
        &CHECK_TIMEOUT,
        &CHECK_RISE,
        &CHECK_FALL,
        &CHECK_PORT,
        &CHECK_TLS,
        &CHECK_PATH,
        &CHECK_HOST,
        &CHECK_STATUS,
        &CHECK_SEND,
        &CHECK_EXPECT,
    ],
    sections: &[],
};

/// What is asked, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckWord {
    /// That a connection can be opened.
    Tcp,
    /// That a TLS handshake succeeds.
    Tls,
    /// A request over HTTP.
    Http,
    /// Bytes.
    SendExpect,
}

pub(crate) static CHECK_TYPE: Key<Choice<CheckWord>> = Key {
    name: "type",
    kind: Choice(&[
        ("tcp", CheckWord::Tcp),
        ("tls", CheckWord::Tls),
        ("http", CheckWord::Http),
        ("send-expect", CheckWord::SendExpect),
    ]),
    default: Default::Required,
    doc: "`tcp`: a connection can be opened. `tls`: a TLS handshake succeeds, with all that `backend-tls` asks of the backend. `http`: `GET` of `path` over HTTP/1.1 is answered with one of `status`. \
          `send-expect`: the answer to `send`, or the greeting without it, contains `expect` in its first 16 KiB.",
    why: "",
    example: "\"http\"",
    elsewhere: &["kind", "check", "protocol", "httpchk", "tcp-check"],
};

pub(crate) static CHECK_INTERVAL: Key<Span> = Key {
    name: "interval",
    kind: Span { range: TENTH..=seconds(3600), zero: None },
    default: Default::Value("\"5s\""),
    doc: "From the beginning of one check of a backend to that of the next; a tenth longer or shorter by lot, so that checks of many \
          backends spread.",
    why: "with `fall` 3 a backend that is silent is out of use after 15 seconds; connections that fail are noticed sooner",
    example: "\"2s\"",
    elsewhere: &["inter", "every", "period", "check-interval"],
};

pub(crate) static CHECK_TIMEOUT: Key<Span> = Key {
    name: "timeout",
    kind: Span { range: Duration::from_millis(10)..=seconds(3600), zero: None },
    default: Default::Value("\"2s\""),
    doc: "From the beginning of a check to its answer; not longer than `interval`.",
    why: "a lost packet is tolerated: it is sent again after one second",
    example: "\"500ms\"",
    elsewhere: &["timeout-check", "check-timeout"],
};

pub(crate) static CHECK_RISE: Key<Count> = Key {
    name: "rise",
    kind: Count(1..=1000),
    default: Default::Value("2"),
    doc: "Checks in a row that must pass before a backend that is down is used again.",
    why: "one that has just started may answer once and fail again",
    example: "3",
    elsewhere: &["passes", "healthy-threshold", "up-after"],
};

pub(crate) static CHECK_FALL: Key<Count> = Key {
    name: "fall",
    kind: Count(1..=1000),
    default: Default::Value("3"),
    doc: "Checks in a row that must fail before a backend is out of use. One that has never passed a check is out with the first \
          that fails.",
    why: "one answer that is late is no failure of a backend",
    example: "2",
    elsewhere: &["fails", "unhealthy-threshold", "down-after", "max-fails"],
};

pub(crate) static CHECK_PORT: Key<Count> = Key {
    name: "port",
    kind: Count(1..=65_535),
    default: Default::Absent("the backend's own"),
    doc: "The port that is asked. Backends that are unix sockets have none.",
    why: "what serves is best asked itself",
    example: "8081",
    elsewhere: &["check-port"],
};

pub(crate) static CHECK_TLS: Key<Switch> = Key {
    name: "tls",
    kind: Switch,
    default: Default::Absent(
        "as connections to the backend are made: TLS where the service or rule has `backend-tls`",
    ),
    doc: "Whether `http` and `send-expect` ask over TLS. `false` is for a `port` that is plain; `true` says what holds anyway. Each \
          check shakes hands in full, so it sees the certificate that is served now.",
    why: "what serves is best asked as clients ask it",
    example: "false",
    elsewhere: &["check-ssl", "ssl"],
};

pub(crate) static CHECK_PATH: Key<Text> = Key {
    name: "path",
    kind: Text { form: "text, such as `\"/health\"`" },
    default: Default::Absent("`/`"),
    doc: "What `http` asks for.",
    why: "every HTTP server has it",
    example: "\"/health\"",
    elsewhere: &["uri", "url", "check-path"],
};

pub(crate) static CHECK_HOST: Key<Text> = Key {
    name: "host",
    kind: Text { form: "text, such as `\"www.example.org\"`" },
    default: Default::Absent("the backend's name or address"),
    doc: "The `Host` that `http` names.",
    why: "it is the only name that is known",
    example: "\"www.example.org\"",
    elsewhere: &["hostname", "host-header"],
};

pub(crate) static CHECK_STATUS: Key<List<StatusRange>> = Key {
    name: "status",
    kind: List { item: StatusRange, bare: true, least: 1, unique: true },
    default: Default::Absent("200 to 399"),
    doc: "The statuses that are good for `http`.",
    why: "a redirect is an answer of a server that works",
    example: "[200, \"300-308\"]",
    elsewhere: &["expect-status", "http-check-expect", "valid-status"],
};

pub(crate) static CHECK_SEND: Key<Bytes> = Key {
    name: "send",
    kind: Bytes,
    default: Default::Absent("nothing: the backend speaks first"),
    doc: "What `send-expect` sends.",
    why: "many protocols begin with the server's greeting",
    example: "\"PING\\r\\n\"",
    elsewhere: &["tcp-check-send", "request"],
};

pub(crate) static CHECK_EXPECT: Key<Bytes> = Key {
    name: "expect",
    kind: Bytes,
    default: Default::Absent("needed for `send-expect`"),
    doc: "What the answer to `send-expect` must contain.",
    why: "only the operator knows what the backend says",
    example: "\"+PONG\"",
    elsewhere: &["tcp-check-expect", "response", "match"],
};

// ── inside `send` and `expect` ──

/// `{ hex = "…" }`
pub(crate) static HEX_TABLE: Section = Section {
    name: "hex",
    header: "{ hex = … }",
    doc: "Bytes that are no text.",
    keys: &[&HEX],
    sections: &[],
};

pub(crate) static HEX: Key<Text> = Key {
    name: "hex",
    kind: Text { form: "hexadecimal digits, such as `\"0d0a\"`" },
    default: Default::Required,
    doc: "The bytes, two digits each.",
    why: "",
    example: "\"0d0a\"",
    elsewhere: &["bytes", "binary"],
};
