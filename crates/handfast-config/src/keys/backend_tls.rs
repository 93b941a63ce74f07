//! The keys of TLS towards the backends.

use super::{CERTIFICATE, CERTIFICATE_KEY, GROUPS, MISSING_CLOSE_NOTIFY, POLICY, STARTTLS, SUITES, VERSIONS};
use crate::kind::{
    AnnouncedName, BackendProtocols, Choice, FilePath, HostName, List, PublicKeyPin, SentServerName,
    StarttlsProtocol, Switch,
};
use crate::model::{BackendVerification, MissingCloseNotify};
use crate::schema::{Default, Key, Section};

/// Whether backends are spoken to in TLS, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendMode {
    /// They are.
    Tls,
    /// They are not: for rules that make an exception.
    Off,
}

/// `[service.backend-tls]`
pub(crate) static BACKEND_TLS: Section = Section {
    name: "backend-tls",
    header: "[service.backend-tls]",
    doc: "TLS towards the backends. `backend-tls = {}` is enough where the backend has a certificate that this machine \
          trusts. Without this section, backends are spoken to in plain text.",
    keys: BACKEND_TLS_KEYS,
    sections: &[],
};

/// `[service.rule.backend-tls]`
pub(crate) static RULE_BACKEND_TLS: Section = Section {
    name: "backend-tls",
    header: "[service.rule.backend-tls]",
    doc: "TLS towards the backends of this rule, with the same keys as `[service.backend-tls]`. Without it, that of the \
          service counts, as a whole.",
    keys: BACKEND_TLS_KEYS,
    sections: &[],
};

const BACKEND_TLS_KEYS: &[&dyn crate::schema::Entry] = &[
    &BACKEND_MODE,
    &BACKEND_STARTTLS,
    &BACKEND_STARTTLS_NAME,
    &BACKEND_VERIFY,
    &BACKEND_CA,
    &BACKEND_NAME,
    &BACKEND_SERVER_NAME,
    &BACKEND_PINS,
    &BACKEND_CERTIFICATE,
    &BACKEND_CERTIFICATE_KEY,
    &BACKEND_ALPN,
    &POLICY,
    &VERSIONS,
    &SUITES,
    &GROUPS,
    &BACKEND_RESUMPTION,
    &BACKEND_MISSING_CLOSE_NOTIFY,
];

pub(crate) static BACKEND_MODE: Key<Choice<BackendMode>> = Key {
    name: "mode",
    kind: Choice(&[("tls", BackendMode::Tls), ("off", BackendMode::Off)]),
    default: Default::Value("\"tls\""),
    doc: "`off`: plain text, for a rule that makes an exception from its service.",
    why: "who writes the section wants TLS",
    example: "\"off\"",
    elsewhere: &["enabled", "ssl", "on"],
};

pub(crate) static BACKEND_STARTTLS: Key<StarttlsProtocol> = Key {
    name: "starttls",
    kind: StarttlsProtocol,
    default: Default::Absent("the backend speaks TLS from the first byte"),
    doc: "What the backend speaks before TLS: it is asked for TLS in that protocol. One that does not offer it, or says no, is not \
          used. What it said before is not believed, nor passed on: a client that waits for a greeting is greeted by Handfast. With \
          `starttls` for clients, both are the same.",
    why: "TLS from the first byte is simpler and safer (RFC 8314); this is for backends that cannot do it",
    example: "\"postgresql\"",
    elsewhere: STARTTLS.elsewhere,
};

pub(crate) static BACKEND_STARTTLS_NAME: Key<AnnouncedName> = Key {
    name: "starttls-name",
    kind: AnnouncedName,
    default: Default::Absent("the machine's name; with `xmpp`, the name that the certificate must have"),
    doc: "What Handfast calls itself towards the backend before TLS (`EHLO`); with `xmpp`, the domain that is asked for.",
    why: "mail servers may look the name up",
    example: "\"proxy.example.org\"",
    elsewhere: &["helo", "ehlo", "helo-name", "domain", "xmpp-domain", "protocol-host"],
};

pub(crate) static BACKEND_VERIFY: Key<Choice<BackendVerification>> = Key {
    name: "verify",
    kind: Choice(&[
        ("full", BackendVerification::Full),
        ("pins", BackendVerification::Pins),
        ("insecure-any-name", BackendVerification::AnyName),
        ("insecure-nothing", BackendVerification::Nothing),
    ]),
    default: Default::Value("\"full\""),
    doc: "What is asked of a backend's certificate. `full`: an authority of `ca` signed it, its dates are right, it is for \
          `name`, and its key is one of `pins` if there are any. `pins`: its key is one of `pins`; nothing else counts. \
          `insecure-any-name`: as `full`, but for any name. `insecure-nothing`: nothing; an attacker on the network \
          path can then read and change everything.",
    why: "without it, encryption does not protect from an attacker on the network path",
    example: "\"pins\"",
    elsewhere: &[
        "verify-peer",
        "verify-chain",
        "ssl-verify",
        "insecure",
        "skip-verify",
        "verifychain",
        "verifypeer",
    ],
};

pub(crate) static BACKEND_CA: Key<FilePath> = Key {
    name: "ca",
    kind: FilePath,
    default: Default::Absent("the authorities that this machine trusts"),
    doc: "PEM file with the authorities that may sign the backends' certificates. A backend's own certificate may stand \
          there too, self-signed or not: then exactly that one is good, for its names.",
    why: "the list of the machine (package ca-certificates) is what other programs use; it is read at start and at each \
          reload",
    example: "\"backend-ca.pem\"",
    elsewhere: &["ca-file", "cafile", "cacert", "ca-certificate", "trusted-certificate", "capath"],
};

pub(crate) static BACKEND_NAME: Key<HostName> = Key {
    name: "name",
    kind: HostName,
    default: Default::Absent(
        "the backend's own, as it is written in `backend`: its name, or else its IP address",
    ),
    doc: "The DNS name or IP address that a backend's certificate must have.",
    why: "who is dialled is who must answer; a unix socket has no name, so it must be written there",
    example: "\"backend.example.org\"",
    elsewhere: &[
        "host",
        "verify-name",
        "checkhost",
        "check-host",
        "verifyhost",
        "hostname",
        "server",
        "override-server-name",
    ],
};

pub(crate) static BACKEND_SERVER_NAME: Key<SentServerName> = Key {
    name: "server-name",
    kind: SentServerName,
    default: Default::Absent("`name`, unless that is an IP address"),
    doc: "The name sent to the backend as the one asked for (SNI); `none` sends no name.",
    why: "a server with several certificates chooses by it",
    example: "\"tenant.example.org\"",
    elsewhere: &["sni", "servername", "ssl-server-name", "sni-name"],
};

pub(crate) static BACKEND_PINS: Key<List<PublicKeyPin>> = Key {
    name: "pins",
    kind: List { item: PublicKeyPin, bare: true, least: 1, unique: true },
    default: Default::Absent("any key"),
    doc: "Public keys, one of which a backend's certificate must have: `sha256/` and the base64 of the SHA-256 of its \
          SubjectPublicKeyInfo. `openssl x509 -in backend.pem -noout -pubkey | openssl pkey -pubin -outform der | openssl \
          dgst -sha256 -binary | base64` makes one. Write the next key beside the present one before it is changed.",
    why: "an authority is enough for most; a pin ends the service when the key changes unexpectedly",
    example: "\"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"",
    elsewhere: &["pin", "pinned", "pinnedpubkey", "pinned-public-key", "key-pins", "fingerprint"],
};

pub(crate) static BACKEND_CERTIFICATE: Key<FilePath> = Key {
    name: "certificate",
    kind: FilePath,
    default: Default::Absent("none is shown"),
    doc: "PEM file with the chain, and its key unless `key` names it, that is shown to a backend which asks for a certificate.",
    why: "most backends ask for none",
    example: "\"client.pem\"",
    elsewhere: CERTIFICATE.elsewhere,
};

pub(crate) static BACKEND_CERTIFICATE_KEY: Key<FilePath> = Key {
    name: "key",
    kind: FilePath,
    default: Default::Absent("the key is in the certificate's file"),
    doc: "PEM file of that certificate's key.",
    why: "one file cannot be half replaced",
    example: "\"client.key\"",
    elsewhere: CERTIFICATE_KEY.elsewhere,
};

pub(crate) static BACKEND_ALPN: Key<BackendProtocols> = Key {
    name: "alpn",
    kind: BackendProtocols,
    default: Default::Value("[]"),
    doc: "Application protocols that are offered to the backend, best first; `client`: the one that was agreed on with the \
          client. A backend that then chooses another one, or none for anything but HTTP/1.1, is not used for the \
          connection: both sides would speak different protocols.",
    why: "only the operator knows what the backend speaks",
    example: "\"client\"",
    elsewhere: &["protocols", "alpn-protos", "npn", "alpn-protocols"],
};

pub(crate) static BACKEND_RESUMPTION: Key<Switch> = Key {
    name: "resumption",
    kind: Switch,
    default: Default::Value("true"),
    doc: "Whether sessions with the backend are resumed, by tickets that each thread keeps for each backend. After an hour \
          they are thrown away, so that the certificate is checked again.",
    why: "it spares the backend a signature and both sides the certificate",
    example: "false",
    elsewhere: &["session-cache", "session-reuse", "no-tls-tickets", "reuse", "session-resumption"],
};

pub(crate) static BACKEND_MISSING_CLOSE_NOTIFY: Key<Choice<MissingCloseNotify>> = Key {
    name: "missing-close-notify",
    kind: Choice(&[("abort", MissingCloseNotify::Abort), ("end", MissingCloseNotify::End)]),
    default: Default::Value("\"abort\""),
    doc: "What a backend's FIN without close_notify is. `abort`: the client is reset, so that it does not take a part for \
          the whole. `end`: it is passed on as an end in order; only for protocols that say by themselves where a message \
          ends.",
    why: MISSING_CLOSE_NOTIFY.why,
    example: "\"end\"",
    elsewhere: MISSING_CLOSE_NOTIFY.elsewhere,
};
