//! The keys of a service and of what is inside it; the second half of `keys.rs`.

use super::pair::{CERTIFICATE_WORDS, KEY_WORDS};
use super::{ALLOW_CLIENTS, BACKEND_TLS, HANDSHAKE_RATE, REFUSE_CLIENTS, RULE_BACKEND_TLS};
use super::{
    BACKEND, BALANCE, CHECK, PROXY_PROTOCOL, RULE_BACKEND, SERVICE_LIMITS, SERVICE_TICKETS, SLOW_START,
    SOURCE,
};
use super::{CLIENT_CERTIFICATES, CONNECT_THROUGH, RULE_CLIENT_CERTIFICATES};
use crate::kind::{Certificates, ListenAddress, NamePattern, Protocol, ServiceName};
use crate::kind::{Choice, Count, FilePath, List, Mode, Switch, Text};
use crate::model::{MissingCloseNotify, PlainHttp, UnknownName};
use crate::schema::{Default, Key, Section};

/// `[[service]]`
pub(crate) static SERVICE: Section = Section {
    name: "service",
    header: "[[service]]",
    doc: "One service: where it listens, how it serves TLS, and where its connections go. There is at least one.",
    keys: &[
        &NAME,
        &LISTEN,
        &LISTEN_MODE,
        &super::STARTTLS,
        &super::STARTTLS_NAME,
        &BACKEND,
        &BALANCE,
        &SOURCE,
        &SLOW_START,
        &CLIENT_TLS,
        &PASS_THROUGH,
        &PLAIN_HTTP,
        &CERTIFICATE,
        &CERTIFICATE_KEY,
        &UNKNOWN_NAME,
        &POLICY,
        &VERSIONS,
        &SUITES,
        &GROUPS,
        &ALPN,
        &SERVICE_CONNECTIONS,
        &ADDRESS_CONNECTIONS,
        &ALLOW_CLIENTS,
        &REFUSE_CLIENTS,
        &MISSING_CLOSE_NOTIFY,
    ],
    sections: &[
        &CLIENT_CERTIFICATES,
        &BACKEND_TLS,
        &CONNECT_THROUGH,
        &CHECK,
        &HANDSHAKE_RATE,
        &PROXY_PROTOCOL,
        &SERVICE_LIMITS,
        &SERVICE_TICKETS,
        &RULE,
    ],
};

pub(crate) static NAME: Key<ServiceName> = Key {
    name: "name",
    kind: ServiceName,
    default: Default::Required,
    doc: "Its name in logs and metrics.",
    why: "",
    example: "\"web\"",
    elsewhere: &["service", "id", "label"],
};

pub(crate) static LISTEN: Key<List<ListenAddress>> = Key {
    name: "listen",
    kind: List { item: ListenAddress, bare: true, least: 1, unique: false },
    default: Default::Required,
    doc: "Where it listens. `*:8443` and `[::]:8443` take IPv6 and IPv4. Port 0 lets the kernel choose.",
    why: "",
    example: "\"127.0.0.1:8443\"",
    elsewhere: &["bind", "accept", "frontend", "address", "port", "addr", "local"],
};

pub(crate) static LISTEN_MODE: Key<Mode> = Key {
    name: "listen-mode",
    kind: Mode,
    default: Default::Value("\"0660\""),
    doc: "Mode of the unix sockets it listens on. Who may write may connect.",
    why: "the owner and the group, and no other user by accident",
    example: "\"0666\"",
    elsewhere: &["mode", "socket-mode"],
};

pub(crate) static CLIENT_TLS: Key<Switch> = Key {
    name: "client-tls",
    kind: Switch,
    default: Default::Value("true"),
    doc: "Whether clients speak TLS. `false`: in plain text, so that programs without TLS reach backends that have it (with \
          `backend-tls`), or a plain TCP proxy (without).",
    why: "plain text is only ever right on purpose",
    example: "false",
    elsewhere: &["client", "client-mode", "ssl", "plain", "tls-enabled"],
};

pub(crate) static PASS_THROUGH: Key<Switch> = Key {
    name: "pass-through",
    kind: Switch,
    default: Default::Value("false"),
    doc: "Whether the TLS of clients that no rule is about is passed on to the backend as it is: the ClientHello is read for \
          its name, nothing is decrypted, and no certificate is needed for them.",
    why: "a proxy that terminates TLS is the usual case",
    example: "true",
    elsewhere: &["passthrough", "ssl-preread", "no-decrypt", "sni-passthrough", "forward"],
};

pub(crate) static PLAIN_HTTP: Key<Choice<PlainHttp>> = Key {
    name: "plain-http",
    kind: Choice(&[("refuse", PlainHttp::Refuse), ("redirect", PlainHttp::Redirect)]),
    default: Default::Value("\"refuse\""),
    doc: "What a client gets that speaks plain HTTP on this port. `refuse`: status 400 and a sentence that says why. \
          `redirect`: status 308 to the same host, port and path by `https://`, if the request names its host; else 400.",
    why: "a request in plain text has already shown what it asked for: who sends it should learn that",
    example: "\"redirect\"",
    elsewhere: &["redirect", "https-redirect", "error-page-497", "redirect-scheme", "force-ssl"],
};

pub(crate) static CERTIFICATE: Key<Certificates> = Key {
    name: "certificate",
    kind: Certificates,
    default: Default::Absent("it must be written, unless clients are plain or all passed through"),
    doc: "Its certificates: PEM files that hold the chain and its key, pairs of files, and folders, each file of which is \
          checked. The name a client asks for decides; for one name there may be an RSA and an ECDSA certificate. A path \
          that ends in `/` is a folder in any case. Changed files are taken up without a reload.",
    why: "which names are served is never guessed",
    example: "\"web.pem\"",
    elsewhere: CERTIFICATE_WORDS,
};

pub(crate) static CERTIFICATE_KEY: Key<FilePath> = Key {
    name: "key",
    kind: FilePath,
    default: Default::Absent("the key is in the certificate's file"),
    doc: "The key of the certificate, when there is exactly one and its key is in a separate file.",
    why: "one file cannot be half replaced",
    example: "\"web.key\"",
    elsewhere: KEY_WORDS,
};

pub(crate) static UNKNOWN_NAME: Key<Choice<UnknownName>> = Key {
    name: "unknown-name",
    kind: Choice(&[("first", UnknownName::First), ("refuse", UnknownName::Refuse)]),
    default: Default::Value("\"first\""),
    doc: "What a client gets that asks for a name no certificate covers: the first certificate, or the alert \
          `unrecognized_name`. A client that asks for no name gets the first certificate in both cases.",
    why: "the client then sees which name the certificate has, which explains the mistake best",
    example: "\"refuse\"",
    elsewhere: &["sni-nomatch-abort", "strict-sni", "default-certificate", "sni-strict"],
};

const POLICY_WHY: &str = "safe with every client of the last ten years";

pub(crate) static POLICY: Key<Text> = Key {
    name: "policy",
    kind: Text { form: "text" },
    default: Default::Value("\"2026-11\""),
    doc: "Versions, suites and groups as a named policy. A policy never changes after its date; see the list at the end.",
    why: POLICY_WHY,
    example: "\"2026-11-modern\"",
    elsewhere: &["tls-policy", "security-policy", "security-level", "profile"],
};

pub(crate) static VERSIONS: Key<List<Text>> = Key {
    name: "versions",
    kind: List { item: Text { form: "text, such as `\"1.3\"`" }, bare: false, least: 1, unique: false },
    default: Default::Absent("those of the policy"),
    doc: "TLS versions, instead of the policy's.",
    why: "the policy decides",
    example: "[\"1.3\"]",
    elsewhere: &["tls-versions", "tls-protos", "ssl-protocols", "ssl-version", "min-version", "protocols"],
};

pub(crate) static SUITES: Key<List<Text>> = Key {
    name: "suites",
    kind: List {
        item: Text { form: "text, such as `\"TLS_AES_128_GCM_SHA256\"`" },
        bare: false,
        least: 1,
        unique: false,
    },
    default: Default::Absent("those of the policy"),
    doc: "Cipher suites by their IANA names, best first, instead of the policy's.",
    why: "the policy decides",
    example: "[\"TLS_AES_256_GCM_SHA384\", \"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384\"]",
    elsewhere: &["ciphers", "ciphersuites", "cipher-suites", "ssl-ciphers"],
};

pub(crate) static GROUPS: Key<List<Text>> = Key {
    name: "groups",
    kind: List { item: Text { form: "text, such as `\"X25519\"`" }, bare: false, least: 1, unique: false },
    default: Default::Absent("those of the policy"),
    doc: "Key exchange groups by their IANA names, best first, instead of the policy's.",
    why: "the policy decides",
    example: "[\"X25519\", \"secp256r1\"]",
    elsewhere: &["curves", "ecdh-curve", "ssl-ecdh-curve", "curve"],
};

pub(crate) static ALPN: Key<List<Protocol>> = Key {
    name: "alpn",
    kind: List { item: Protocol, bare: false, least: 0, unique: true },
    default: Default::Value("[]"),
    doc: "Application protocols the backend speaks, best first. Empty: what the client offers is not answered.",
    why: "only the operator knows what the backend speaks",
    example: "[\"h2\", \"http/1.1\"]",
    elsewhere: &["protocols", "alpn-protos", "npn", "alpn-protocols"],
};

pub(crate) static SERVICE_CONNECTIONS: Key<Count> = Key {
    name: "max-connections",
    kind: Count(1..=10_000_000),
    default: Default::Absent("only the process's limit"),
    doc: "Connections of this service served at once.",
    why: "one service alone may use the whole process",
    example: "5000",
    elsewhere: &["maxconn", "max-conns"],
};

pub(crate) static ADDRESS_CONNECTIONS: Key<Count> = Key {
    name: "max-connections-per-address",
    kind: Count(1..=10_000_000),
    default: Default::Absent("no limit"),
    doc: "Connections of this service served at once for one client address. Those beyond it are closed at once.",
    why: "many clients may share one address behind a translator or another proxy",
    example: "100",
    elsewhere: &["max-connections-per-ip", "limit-conn", "per-address"],
};

pub(crate) static MISSING_CLOSE_NOTIFY: Key<Choice<MissingCloseNotify>> = Key {
    name: "missing-close-notify",
    kind: Choice(&[("abort", MissingCloseNotify::Abort), ("end", MissingCloseNotify::End)]),
    default: Default::Value("\"abort\""),
    doc: "What a client's FIN without close_notify is. `abort`: the backend is reset, and an answer that is still to come is \
          lost. `end`: it is passed on as an end in order, and the answer is delivered; but then anyone on the network path can cut \
          a client's upload short, and the backend takes the part for the whole, unless its protocol says by itself where \
          a message ends. A FIN in the middle of a TLS record is an abort in both cases.",
    why: "only close_notify proves that the stream was not cut (RFC 9846 §6.1), and a proxy does not know the protocol",
    example: "\"end\"",
    elsewhere: &[
        "close-notify",
        "ignore-unexpected-eof",
        "unexpected-eof",
        "ssl-unclean-shutdown",
        "tls-eof",
    ],
};

/// `[[service.rule]]`
pub(crate) static RULE: Section = Section {
    name: "rule",
    header: "[[service.rule]]",
    doc: "An exception for certain server names or application protocols: another backend, policy, or rule about client \
          certificates, or TLS that is passed through. A rule with the very name comes before one with a wildcard, and \
          that before one without names; of several, the first one that fits. Keys that are not written are taken from \
          the service.",
    keys: &[
        &RULE_NAMES,
        &RULE_CLIENT_ALPN,
        &RULE_PASS_THROUGH,
        &RULE_BACKEND,
        &RULE_POLICY,
        &VERSIONS,
        &SUITES,
        &GROUPS,
        &RULE_ALPN,
    ],
    sections: &[&RULE_CLIENT_CERTIFICATES, &RULE_BACKEND_TLS],
};

pub(crate) static RULE_NAMES: Key<List<NamePattern>> = Key {
    name: "names",
    kind: List { item: NamePattern, bare: true, least: 1, unique: true },
    default: Default::Absent("any name, and none; then `client-alpn` must be written"),
    doc: "Server names. A wildcard matches exactly one part: `*.example.org` has `a.example.org`, but neither \
          `example.org` nor `a.b.example.org`.",
    why: "a rule for every client is the service itself",
    example: "[\"a.example.org\", \"*.b.example.org\"]",
    elsewhere: &[
        "match",
        "name",
        "sni",
        "host",
        "hosts",
        "server-name",
        "server-names",
        "match-sni-wildcard",
    ],
};

pub(crate) static RULE_CLIENT_ALPN: Key<List<Protocol>> = Key {
    name: "client-alpn",
    kind: List { item: Protocol, bare: true, least: 1, unique: true },
    default: Default::Absent("whatever the client offers"),
    doc: "Application protocols, one of which the client must offer (ALPN) for the rule to fit. The first 64 that it offers are \
          looked at.",
    why: "the name decides for most",
    example: "[\"acme-tls/1\"]",
    elsewhere: &["match-alpn", "ssl-alpn", "alpn-match", "offers"],
};

pub(crate) static RULE_PASS_THROUGH: Key<Switch> = Key {
    name: "pass-through",
    kind: Switch,
    default: Default::Absent("that of the service"),
    doc: "Whether the TLS of these clients is passed on as it is, without being decrypted, on the same port.",
    why: "the service decides",
    example: "true",
    elsewhere: PASS_THROUGH.elsewhere,
};

pub(crate) static RULE_POLICY: Key<Text> = Key {
    name: "policy",
    kind: Text { form: "text" },
    default: Default::Absent("that of the service"),
    doc: "Policy for these names. With it, `versions`, `suites` and `groups` of the service do not count; without it they do.",
    why: "the service decides",
    example: "\"2026-11-modern\"",
    elsewhere: POLICY.elsewhere,
};

pub(crate) static RULE_ALPN: Key<List<Protocol>> = Key {
    name: "alpn",
    kind: List { item: Protocol, bare: false, least: 0, unique: true },
    default: Default::Absent("those of the service"),
    doc: "Application protocols for these names.",
    why: "the service decides",
    example: "[\"http/1.1\"]",
    elsewhere: ALPN.elsewhere,
};

// ── inside the list of `certificate` ──
