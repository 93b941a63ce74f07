//! Every key in every mode: it has an effect there, or the reader says that it has none.
//!
//! A key that is added to `keys.rs` fails here until it has a row in [`ROWS`]. Long: one table has all keys.

use std::collections::HashSet;
use std::fmt::Write as _;

use handfast_text::renamed;

use super::*;
use crate::Severity;
use crate::schema::Section;

/// A configuration to which each key is added in turn: its sections in any order, each with its lines.
struct Mode {
    name: &'static str,
    sections: &'static [(&'static str, &'static [&'static str])],
}

const NAME: &str = "name = \"web\"";
const LISTEN: &str = "listen = \"127.0.0.1:8443\"";
const UNIX_LISTEN: &str = "listen = \"unix:/run/web.sock\"";
const TO: &str = "backend = \"10.0.0.9:80\"";
const UNIX_TO: &str = "backend = \"unix:/run/backend.sock\"";
const CERTIFIED: &str = "certificate = \"site.pem\"";
const TLS: (&str, &[&str]) = ("[[service]]", &[NAME, LISTEN, TO, CERTIFIED]);
const FLEET: &[(&str, &[&str])] =
    &[("[fleet]", &["bus = \"nats://127.0.0.1:4222\"", "secret = \"other.secret\""])];
const KEPT: &[(&str, &[&str])] = &[("[service.cache]", &["folder = \"kept\"", "size = \"2GiB\""])];
const THROUGH: &str = "pass-through = true";
const PLAIN: &str = "client-tls = false";
const RULE: &str = "names = \"z.example\"";
const HTTP: &str = "mode = \"http\"";
const REQUESTS: (&str, &[&str]) = ("[[service]]", &[NAME, LISTEN, TO, CERTIFIED, HTTP]);

/// Lines that a row's sections need beside its key.
type Lines = &'static [(&'static str, &'static [&'static str])];
const REVOCATION: &[&str] = &["mode = \"request\"", "ca = \"ca.pem\"", "crl = \"list.pem\""];
const CLIENT_REVOCATION: Lines = &[("[service.client-certificates]", REVOCATION)];
/// Keys that exclude `ca`.
const WITHOUT_CA: Lines = &[("[service.client-certificates]", &["mode = \"request\""])];
const WITHOUT_CA_IN_A_RULE: Lines = &[("[service.rule.client-certificates]", &["mode = \"request\""])];
const RULE_CLIENT_REVOCATION: Lines = &[("[service.rule.client-certificates]", REVOCATION)];

/// The columns of [`ROWS`], in groups of five.
const MODES: &[Mode] = &[
    Mode { name: "TLS", sections: &[TLS] },
    Mode {
        name: "TLS, many backends, a folder",
        sections: &[(
            "[[service]]",
            &[
                NAME,
                LISTEN,
                "backend = [\"a.example:80\", \"10.0.0.8:80\"]",
                "certificate = \"certificates\"",
            ],
        )],
    },
    Mode {
        name: "STARTTLS",
        sections: &[("[[service]]", &[NAME, LISTEN, TO, CERTIFIED, "starttls = \"smtp\""])],
    },
    Mode { name: "TLS, backend TLS", sections: &[TLS, ("[service.backend-tls]", &[])] },
    Mode { name: "TLS, backend TLS off", sections: &[TLS, ("[service.backend-tls]", &["mode = \"off\""])] },
    Mode { name: "passed through", sections: &[("[[service]]", &[NAME, LISTEN, TO, THROUGH])] },
    Mode {
        name: "passed through, a rule ends TLS",
        sections: &[
            ("[[service]]", &[NAME, LISTEN, TO, CERTIFIED, THROUGH]),
            ("[[service.rule]]", &[RULE, "pass-through = false"]),
        ],
    },
    Mode { name: "TLS, a rule passes through", sections: &[TLS, ("[[service.rule]]", &[RULE, THROUGH])] },
    Mode { name: "plain", sections: &[("[[service]]", &[NAME, LISTEN, TO, PLAIN])] },
    Mode {
        name: "plain, backend TLS",
        sections: &[("[[service]]", &[NAME, LISTEN, TO, PLAIN]), ("[service.backend-tls]", &[])],
    },
    Mode { name: "unix socket", sections: &[("[[service]]", &[NAME, UNIX_LISTEN, TO, CERTIFIED])] },
    Mode {
        name: "unix sockets on both sides",
        sections: &[("[[service]]", &[NAME, UNIX_LISTEN, UNIX_TO, CERTIFIED])],
    },
    Mode {
        name: "unix socket, a PROXY header",
        sections: &[
            ("[[service]]", &[NAME, UNIX_LISTEN, TO, CERTIFIED]),
            ("[service.proxy-protocol]", &["accept-from = \"unix\""]),
        ],
    },
    Mode {
        name: "connect-through",
        sections: &[
            ("[[service]]", &[NAME, LISTEN, "backend = \"a.example:80\"", CERTIFIED]),
            ("[service.connect-through]", &["type = \"http\"", "address = \"10.0.0.3:3128\""]),
        ],
    },
    Mode {
        name: "client certificates",
        sections: &[TLS, ("[service.client-certificates]", &["mode = \"require\"", "ca = \"ca.pem\""])],
    },
    Mode { name: "no tickets", sections: &[TLS, ("[tickets]", &["per-handshake = 0"])] },
    Mode { name: "admin off", sections: &[TLS, ("[admin]", &["listen = \"off\""])] },
    Mode {
        name: "admin at a unix socket",
        sections: &[TLS, ("[admin]", &["listen = \"unix:/run/admin.sock\""])],
    },
    Mode { name: "no sandbox", sections: &[TLS, ("[process]", &["sandbox = \"off\""])] },
    Mode { name: "keys apart", sections: &[TLS, ("[process]", &["private-keys = \"separate-process\""])] },
    Mode { name: "HTTP", sections: &[REQUESTS] },
    Mode {
        name: "HTTP/2 to backends with TLS",
        sections: &[
            REQUESTS,
            ("[service.http]", &["backend-version = \"h2\""]),
            ("[service.backend-tls]", &[]),
        ],
    },
    Mode { name: "HTTP, plain", sections: &[("[[service]]", &[NAME, LISTEN, TO, PLAIN, HTTP])] },
    Mode { name: "HTTP, no pool", sections: &[REQUESTS, ("[service.http]", &["pool = 0"])] },
    Mode {
        name: "HTTP, a unix socket, a route",
        sections: &[
            ("[[service]]", &[NAME, UNIX_LISTEN, TO, CERTIFIED, HTTP]),
            ("[[service.route]]", &["path = \"/z\"", "backend = \"10.0.0.7:80\""]),
        ],
    },
    Mode {
        name: "a program as the backend",
        sections: &[("[[service]]", &[NAME, LISTEN, "backend = { program = \"/bin/true\" }", CERTIFIED])],
    },
    Mode {
        name: "a program as the client",
        sections: &[("[[service]]", &[NAME, "only-client = { program = \"/bin/true\" }", TO, CERTIFIED])],
    },
    Mode {
        name: "the client at standard input",
        sections: &[("[[service]]", &[NAME, "only-client = \"stdin\"", TO, CERTIFIED])],
    },
];

/// A key, and what comes of it.
struct Row {
    section: &'static str,
    key: &'static str,
    /// Line in place of the key's usual line with its example.
    line: &'static str,
    /// Lines that the section, and others, need beside it.
    with: Lines,
    /// For each mode: `+` it has an effect, `=` it is what the mode has already, `!` an error says that it has none, `?` a warning
    /// does, `x` it is refused for another reason.
    outcomes: &'static str,
}

const fn row(section: &'static str, key: &'static str, outcomes: &'static str) -> Row {
    Row { section, key, line: "", with: &[], outcomes }
}

impl Row {
    const fn line(self, line: &'static str) -> Self {
        Self { line, ..self }
    }

    const fn with(self, with: Lines) -> Self {
        Self { with, ..self }
    }
}

const ROWS: &[Row] = &[
    row("[process]", "threads", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[process]", "user", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[process]", "max-connections", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[process]", "drain-delay", "+++++ +++++ +++++ +++++ +++++ ++?"),
    row("[process]", "drain", "+++++ +++++ +++++ +++++ +++++ ++?"),
    row("[process]", "watch-interval", "+++++ ?++?+ +++++ +++++ ++?++ ++?"),
    row("[process]", "keep-removed-certificates", "?+??? ????? ????? ????? ????? ???"),
    row("[process]", "weak-keys", "+++++ !++!+ +++++ +++++ ++!++ +++"),
    row("[process]", "upgrade-socket", "+++++ +++++ +++++ +++++ +++++ ++?"),
    row("[process]", "private-keys", "+++++ ?++?? +++++ ++++= ++?++ +++"),
    row("[process]", "sandbox", "+++++ +++++ +++++ +++=+ +++++ +++"),
    row("[process]", "sandbox-folders", "+++++ +++++ +++++ +++?+ +++++ ++?"),
    row("[process]", "compression-memory", "????? ????? ????? ????? ????? ???"),
    row("[process]", "state-folder", "????? ????? ????? ????? +++++ ???"),
    row("[process]", "group", "+++++ +++++ +++++ +++++ +++++ +++")
        .with(&[("[process]", &["user = \"nobody\""])]),
    row("[access-log]", "to", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[access-log]", "format", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[access-log]", "redact-query", "????? ????? ????? ????? +++++ ???"),
    row("[admin]", "listen", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[admin]", "hosts", "+++++ +++++ +++++ +??++ +++++ ++?"),
    row("[admin]", "token-file", "+++++ +++++ +++++ +?+++ +++++ ++?"),
    row("[limits]", "handshake", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[limits]", "hello", "+++++ +++?? +++++ +++++ ++?++ +++"),
    row("[limits]", "connect", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[limits]", "idle", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[limits]", "half-closed", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[limits]", "half-closed-client", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[limits]", "lifetime", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[limits]", "tcp-user-timeout", "+++++ +++++ +?+++ +++++ +++++ +++"),
    row("[limits]", "tcp-keepalive", "+++++ +++++ +?+++ +++++ +++++ +++"),
    row("[limits]", "resolve", "?+??? ????? ????? ????? ????? ???"),
    row("[limits]", "backend-failures", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[limits]", "backend-retry", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[tickets]", "per-handshake", "+++++ ?++?? +++++ +++++ ++?++ +++"),
    row("[tickets]", "key-file", "+++++ ?++?? +++++ ?++++ ++?++ +++"),
    row("[tickets]", "rotate", "+++++ ?++?? +++++ ?++++ ++?++ +++"),
    row("[tickets]", "lifetime", "+++++ ?++?? +++++ ?++++ ++?++ +++"),
    row("[acme]", "accept-terms-of-service", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "folder", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "key-folder", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "directory", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "staging", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "issuer-name", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "ca", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "profile", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "eab-key-id", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "eab-key-file", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "contact", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "dns-command", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[acme]", "challenges", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[acme.fallback]]", "directory", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[acme.fallback]]", "staging", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[acme.fallback]]", "issuer-name", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[acme.fallback]]", "ca", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[acme.fallback]]", "profile", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[acme.fallback]]", "eab-key-id", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[acme.fallback]]", "eab-key-file", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[fleet]", "name", "+++++ !++!! +++++ !++++ ++!++ +++").with(FLEET),
    row("[fleet]", "bus", "+++++ !++!! +++++ !++++ ++!++ +++").with(FLEET),
    row("[fleet]", "ca", "+++++ !++!! +++++ !++++ ++!++ +++").with(FLEET),
    row("[fleet]", "tls-first", "+++++ !++!! +++++ !++++ ++!++ +++").with(FLEET),
    row("[fleet]", "credentials", "+++++ !++!! +++++ !++++ ++!++ +++").with(FLEET),
    row("[fleet]", "secret", "+++++ !++!! +++++ !++++ ++!++ +++").with(FLEET),
    row("[fleet]", "machine", "+++++ !++!! +++++ !++++ ++!++ +++").with(FLEET),
    row("[[service]]", "name", "+++++ +++++ +++++ +++++ +++++ +++").line("name = \"other\""),
    row("[[service]]", "listen", "+++++ +++++ +++++ +++++ +++++ +xx").line("listen = \"127.0.0.1:8444\""),
    row("[[service]]", "only-client", "xxxxx xxxxx xxxxx xxxxx xxxxx x+="),
    row("[[service]]", "mode", "++x++ xxx++ +++++ +++++ ===== x++"),
    row("[[service]]", "listen-mode", "????? ????? +++?? ????? ????+ ???"),
    row("[[service]]", "starttls", "+++++ !!x!! +++++ +++++ xx!xx +++").line("starttls = \"imap\""),
    row("[[service]]", "starttls-name", "??+?? !!?!! ????? ????? ??!?? ???"),
    row("[[service]]", "backend", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[[service]]", "files", "xxxxx xxxxx xxxxx xxxxx xxxxx xxx"),
    row("[[service]]", "balance", "?+??? ?++?? ???+? ????? ????+ ???"),
    row("[[service]]", "source", "+++++ +++++ +?+++ +++++ +++++ ?++"),
    row("[[service]]", "slow-start", "?+??? ?++?? ???+? ????? ????+ ???"),
    row("[[service]]", "client-tls", "xxxxx xxx== xxxxx xxxxx xx=xx xxx"),
    row("[[service]]", "pass-through", "xxxxx ==x!! xxxxx xxxxx xx!xx xxx"),
    row("[[service]]", "plain-http", "++?++ +++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "certificate", "+++++ !++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "acme-names", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[service]]", "key", "+x+++ !++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "unknown-name", "+++++ !++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "policy", "+++++ !++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "versions", "+++++ !++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "suites", "+++++ !++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "groups", "+++++ !++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "alpn", "+++++ !++!! +++++ +++++ ++!++ +++"),
    row("[[service]]", "max-connections", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[[service]]", "max-connections-per-address", "+++++ +++++ !!+++ +++++ ++++! +!+"),
    row("[[service]]", "allow-clients", "+++++ +++++ !!+++ +++++ ++++! +!+"),
    row("[[service]]", "refuse-clients", "+++++ +++++ !!+++ +++++ ++++! +!+"),
    row("[[service]]", "missing-close-notify", "+++++ !++!! +++++ +++++ !!!!! +++"),
    row("[service.client-certificates]", "mode", "+++++ !++!! +++++ +++++ ++!++ +++").with(CLIENT_REVOCATION),
    row("[service.client-certificates]", "ca", "+++++ !++!! +++++ +++++ ++!++ +++").with(CLIENT_REVOCATION),
    row("[service.client-certificates]", "pinned", "+++++ !++!! ++++x +++++ ++!++ +++").with(WITHOUT_CA),
    row("[service.client-certificates]", "verify", "+++++ !++!! ++++x +++++ ++!++ +++")
        .line("verify = \"insecure-anything\"")
        .with(WITHOUT_CA),
    row("[service.client-certificates]", "crl", "+++++ !++!! +++++ +++++ ++!++ +++").with(CLIENT_REVOCATION),
    row("[service.client-certificates]", "crl-expired", "+++++ !++!! +++++ +++++ ++!++ +++")
        .with(CLIENT_REVOCATION),
    row("[service.client-certificates]", "crl-missing", "+++++ !++!! +++++ +++++ ++!++ +++")
        .with(CLIENT_REVOCATION),
    row("[service.client-certificates]", "allow", "+++++ !++!! +++++ +++++ ++!++ +++")
        .with(CLIENT_REVOCATION),
    row("[service.client-certificates]", "refuse", "+++++ !++!! +++++ +++++ ++!++ +++")
        .with(CLIENT_REVOCATION),
    row("[service.client-certificates]", "fallback-backend", "+++++ !++!! +++++ +++++ ++!++ +++")
        .with(CLIENT_REVOCATION),
    row("[service.rule.client-certificates]", "mode", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(RULE_CLIENT_REVOCATION),
    row("[service.rule.client-certificates]", "ca", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(RULE_CLIENT_REVOCATION),
    row("[service.rule.client-certificates]", "pinned", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(WITHOUT_CA_IN_A_RULE),
    row("[service.rule.client-certificates]", "verify", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .line("verify = \"insecure-anything\"")
        .with(WITHOUT_CA_IN_A_RULE),
    row("[service.rule.client-certificates]", "crl", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(RULE_CLIENT_REVOCATION),
    row("[service.rule.client-certificates]", "crl-expired", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(RULE_CLIENT_REVOCATION),
    row("[service.rule.client-certificates]", "crl-missing", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(RULE_CLIENT_REVOCATION),
    row("[service.rule.client-certificates]", "allow", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(RULE_CLIENT_REVOCATION),
    row("[service.rule.client-certificates]", "refuse", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(RULE_CLIENT_REVOCATION),
    row("[service.rule.client-certificates]", "fallback-backend", "+++++ !+!!! +++++ +++++ ++!++ +++")
        .with(RULE_CLIENT_REVOCATION),
    row("[service.backend-tls]", "mode", "++++= !++++ +++++ +++++ +++++ +++"),
    row("[service.backend-tls]", "starttls", "++x+! !++++ +x+++ +++++ xxxxx x++"),
    row("[service.backend-tls]", "starttls-name", "++++! !++++ +x+++ +++++ xxxxx x++")
        .with(&[("[service.backend-tls]", &["starttls = \"smtp\""])]),
    row("[service.backend-tls]", "verify", "++++! !++++ +++++ +++++ +++++ x++").with(&[(
        "[service.backend-tls]",
        &["pins = \"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\""],
    )]),
    row("[service.backend-tls]", "ca", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "name", "++++! !++++ +++++ +++++ +++++ x++"),
    row("[service.backend-tls]", "server-name", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "pins", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "certificate", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "key", "++++! !++++ +x+++ +++++ +++++ x++")
        .with(&[("[service.backend-tls]", &["certificate = \"c.pem\""])]),
    row("[service.backend-tls]", "alpn", "++++! !++!! +x+++ +++++ xx!xx x++")
        .line("alpn = \"client\"")
        .with(&[("[[service]]", &["alpn = [\"h2\"]"])]),
    row("[service.backend-tls]", "policy", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "versions", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "suites", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "groups", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "revocation", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "resumption", "++++! !++++ +x+++ +++++ +++++ x++"),
    row("[service.backend-tls]", "missing-close-notify", "++++! !++++ +x+++ +++++ +!+++ x++"),
    row("[service.rule.backend-tls]", "mode", "+++++ !+!!! +++++ +++++ ++!++ +++"),
    row("[service.rule.backend-tls]", "starttls", "++x++ !+!!! +x+++ +++++ xx!xx x++"),
    row("[service.rule.backend-tls]", "starttls-name", "+++++ !+!!! +x+++ +++++ xx!xx x++")
        .with(&[("[service.rule.backend-tls]", &["starttls = \"smtp\""])]),
    row("[service.rule.backend-tls]", "verify", "+++++ !+!!! +++++ +++++ ++!++ x++").with(&[(
        "[service.rule.backend-tls]",
        &["pins = \"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\""],
    )]),
    row("[service.rule.backend-tls]", "ca", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "name", "+++++ !+!!! +++++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "server-name", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "pins", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "certificate", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "key", "+++++ !+!!! +x+++ +++++ ++!++ x++")
        .with(&[("[service.rule.backend-tls]", &["certificate = \"c.pem\""])]),
    row("[service.rule.backend-tls]", "alpn", "+++++ !+!!! +x+++ +++++ xx!xx x++")
        .line("alpn = \"client\"")
        .with(&[("[[service]]", &["alpn = [\"h2\"]"])]),
    row("[service.rule.backend-tls]", "policy", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "versions", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "suites", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "groups", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "revocation", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "resumption", "+++++ !+!!! +x+++ +++++ ++!++ x++"),
    row("[service.rule.backend-tls]", "missing-close-notify", "+++++ !+!!! +x+++ +++++ +!!++ x++"),
    row("[service.connect-through]", "type", "+++++ +++++ +x+++ +++++ +++++ x++")
        .with(&[("[service.connect-through]", &["type = \"http\"", "address = \"10.0.0.4:3128\""])]),
    row("[service.connect-through]", "address", "+++++ +++++ +x+++ +++++ +++++ x++")
        .with(&[("[service.connect-through]", &["type = \"http\"", "address = \"10.0.0.4:3128\""])]),
    row("[service.connect-through]", "user", "+++++ +++++ +x+++ +++++ +++++ x++").with(&[(
        "[service.connect-through]",
        &["type = \"http\"", "address = \"10.0.0.4:3128\"", "password-file = \"p\""],
    )]),
    row("[service.connect-through]", "password-file", "+++++ +++++ +x+++ +++++ +++++ x++").with(&[(
        "[service.connect-through]",
        &["type = \"http\"", "address = \"10.0.0.4:3128\"", "user = \"u\""],
    )]),
    row("[service.check]", "type", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"tcp\""])]),
    row("[service.check]", "interval", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"tcp\""])]),
    row("[service.check]", "timeout", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"tcp\""])]),
    row("[service.check]", "rise", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"tcp\""])]),
    row("[service.check]", "fall", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"tcp\""])]),
    row("[service.check]", "port", "+++++ +++++ +?+++ +++++ +++++ ?++")
        .with(&[("[service.check]", &["type = \"tcp\""])]),
    row("[service.check]", "tls", "???+? ????+ ????? ????? ?+??? ???")
        .with(&[("[service.check]", &["type = \"http\""])]),
    row("[service.check]", "path", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"http\""])]),
    row("[service.check]", "host", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"http\""])]),
    row("[service.check]", "status", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"http\""])]),
    row("[service.check]", "send", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"send-expect\"", "expect = \"x\""])]),
    row("[service.check]", "expect", "+++++ +++++ +++++ +++++ +++++ x++")
        .with(&[("[service.check]", &["type = \"send-expect\"", "expect = \"x\""])]),
    row("[service.handshake-rate]", "per-second", "+++++ +++++ !!+++ +++++ ++++! +!+")
        .with(&[("[service.handshake-rate]", &["per-second = 7"])]),
    row("[service.handshake-rate]", "burst", "+++++ +++++ !!+++ +++++ ++++! +!+")
        .with(&[("[service.handshake-rate]", &["per-second = 7"])]),
    row("[service.handshake-rate]", "prefix-v4", "+++++ +++++ !!+++ +++++ ++++! +!+")
        .with(&[("[service.handshake-rate]", &["per-second = 7"])]),
    row("[service.handshake-rate]", "prefix-v6", "+++++ +++++ !!+++ +++++ ++++! +!+")
        .with(&[("[service.handshake-rate]", &["per-second = 7"])]),
    row("[service.proxy-protocol]", "accept-from", "+++++ +++++ ???++ +++++ ++++? +++"),
    row("[service.proxy-protocol]", "send", "+++++ +++++ +++++ +++++ xxx+x ?++"),
    row("[service.proxy-protocol]", "client-certificate", "????? ????? ????+ ????? ????? ???")
        .with(&[("[service.proxy-protocol]", &["send = \"v2\""])]),
    row("[service.limits]", "handshake", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[service.limits]", "hello", "+++++ +++?? +++++ +++++ ++?++ +++"),
    row("[service.limits]", "connect", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[service.limits]", "idle", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[service.limits]", "half-closed", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[service.limits]", "half-closed-client", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[service.limits]", "lifetime", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[service.limits]", "tcp-user-timeout", "+++++ +++++ +?+++ +++++ +++++ +++"),
    row("[service.limits]", "tcp-keepalive", "+++++ +++++ +?+++ +++++ +++++ +++"),
    row("[service.limits]", "resolve", "?+??? ????? ????? ????? ????? ???"),
    row("[service.limits]", "backend-failures", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[service.limits]", "backend-retry", "+++++ +++++ +++++ +++++ +++++ +++"),
    row("[service.tickets]", "per-handshake", "+++++ !++!! +++++ +++++ ++!++ +++"),
    row("[service.tickets]", "key-file", "+++++ !++!! +++++ ?++++ ++!++ +++"),
    row("[service.tickets]", "rotate", "+++++ !++!! +++++ ?++++ ++!++ +++"),
    row("[service.tickets]", "lifetime", "+++++ !++!! +++++ ?++++ ++!++ +++"),
    row("[[service.rule]]", "names", "+++++ +++!! +++++ +++++ ++!++ +++"),
    row("[[service.rule]]", "client-alpn", "+++++ +++!! +++++ +++++ ++!++ +++"),
    row("[[service.rule]]", "pass-through", "++x++ +x=!! +++++ +++++ xx!xx +++"),
    row("[[service.rule]]", "backend", "+++++ +++!! +++++ +++++ ++!++ +++"),
    row("[[service.rule]]", "policy", "+++++ !+!!! +++++ +++++ ++!++ +++"),
    row("[[service.rule]]", "versions", "+++++ !+!!! +++++ +++++ ++!++ +++"),
    row("[[service.rule]]", "suites", "+++++ !+!!! +++++ +++++ ++!++ +++"),
    row("[[service.rule]]", "groups", "+++++ !+!!! +++++ +++++ ++!++ +++"),
    row("[[service.rule]]", "alpn", "+++++ !+!!! +++++ +++++ ++!++ +++"),
    row("[service.http]", "backend-version", "!!!!! !!!!! !!!!! !!!!! +=+++ !!!"),
    row("[service.http]", "forwarded", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "trust-forwarded-from", "!!!!! !!!!! !!!!! !!!!! ++++? !!!"),
    row("[service.http]", "request-id", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "trace-context", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "max-header-size", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "max-start-line", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "max-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "underscores", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "half-close", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "max-body", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "idle", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "header-timeout", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "body-timeout", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "response-timeout", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "pool", "!!!!! !!!!! !!!!! !!!!! +++=+ !!!"),
    row("[service.http]", "pool-idle", "!!!!! !!!!! !!!!! !!!!! +++?+ !!!"),
    row("[service.http]", "min-rate", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "pool-requests", "!!!!! !!!!! !!!!! !!!!! +++?+ !!!"),
    row("[service.http]", "max-requests", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "queue", "!!!!! !!!!! !!!!! !!!!! +++++ !!!")
        .with(&[("[service.http]", &["max-requests = 9"])]),
    row("[service.http]", "max-streams", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "http2-window", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "retries", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "count-failures", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "failure-ratio", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "set-request-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "add-request-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "remove-request-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "set-response-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "add-response-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "remove-response-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "security-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "allow-clients", "!!!!! !!!!! !!!!! !!!!! ++++! !!!"),
    row("[service.http]", "refuse-clients", "!!!!! !!!!! !!!!! !!!!! ++++! !!!"),
    row("[service.http]", "allow-certificates", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[service.http]", "basic-auth", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "forward-auth", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "rate-limit", "!!!!! !!!!! !!!!! !!!!! ++++! !!!"),
    row("[service.http]", "compression", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "error-pages", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.http]", "error-pages-for-backends", "!!!!! !!!!! !!!!! !!!!! +++++ !!!")
        .with(&[("[service.http]", &["error-pages = { 404 = \"404.html\" }"])]),
    row("[service.http]", "maintenance", "!!!!! !!!!! !!!!! !!!!! ++++! !!!"),
    row("[[service.route]]", "name", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "hosts", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "path", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "methods", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "share", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "backend", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "redirect", "!!!!! !!!!! !!!!! !!!!! xx+xx !!!"),
    row("[[service.route]]", "set-request-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "add-request-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "remove-request-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "set-response-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "add-response-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "remove-response-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "security-headers", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "respond", "!!!!! !!!!! !!!!! !!!!! ++++x !!!"),
    row("[[service.route]]", "files", "!!!!! !!!!! !!!!! !!!!! ++++x !!!"),
    row("[[service.route]]", "error-pages", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "error-pages-for-backends", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "rewrite-path", "!!!!! !!!!! !!!!! !!!!! +++++ !!!")
        .with(&[("[[service.route]]", &["path = \"/z\""])]),
    row("[[service.route]]", "ignore-case", "!!!!! !!!!! !!!!! !!!!! +++++ !!!")
        .with(&[("[[service.route]]", &["path = \"/z\""])]),
    row("[[service.route]]", "allow-clients", "!!!!! !!!!! !!!!! !!!!! ++++! !!!"),
    row("[[service.route]]", "refuse-clients", "!!!!! !!!!! !!!!! !!!!! ++++! !!!"),
    row("[[service.route]]", "allow-certificates", "!!!!! !!!!! !!!!! !!!!! !!!!! !!!"),
    row("[[service.route]]", "basic-auth", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "forward-auth", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "mirror", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "sticky", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "cache", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[[service.route]]", "compression", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "response-timeout", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "body-timeout", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "max-body", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "retries", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[[service.route]]", "rate-limit", "!!!!! !!!!! !!!!! !!!!! ++++! !!!"),
    row("[service.cache]", "folder", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "size", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "immutable", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "max-object", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "heuristic", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "stale-while-revalidate", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "stale-if-error", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "store-set-cookie", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "client-directives", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.cache]", "early-hints", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(KEPT),
    row("[service.route.backend-tls]", "mode", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "starttls", "!!!!! !!!!! !!!!! !!!!! xxxxx !!!"),
    row("[service.route.backend-tls]", "starttls-name", "!!!!! !!!!! !!!!! !!!!! xxxxx !!!")
        .with(&[("[service.route.backend-tls]", &["starttls = \"smtp\""])]),
    row("[service.route.backend-tls]", "verify", "!!!!! !!!!! !!!!! !!!!! +++++ !!!").with(&[(
        "[service.route.backend-tls]",
        &["pins = \"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\""],
    )]),
    row("[service.route.backend-tls]", "ca", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "name", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "server-name", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "pins", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "certificate", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "key", "!!!!! !!!!! !!!!! !!!!! +++++ !!!")
        .with(&[("[service.route.backend-tls]", &["certificate = \"c.pem\""])]),
    row("[service.route.backend-tls]", "alpn", "!!!!! !!!!! !!!!! !!!!! xx!xx !!!")
        .line("alpn = \"client\"")
        .with(&[("[[service]]", &["alpn = [\"h2\"]"])]),
    row("[service.route.backend-tls]", "policy", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "versions", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "suites", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "groups", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "revocation", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "resumption", "!!!!! !!!!! !!!!! !!!!! +++++ !!!"),
    row("[service.route.backend-tls]", "missing-close-notify", "!!!!! !!!!! !!!!! !!!!! +!+++ !!!"),
    row("{ address = …, weight = … }", "address", "+++++ +++++ +++++ +++++ +++++ +++")
        .line("backend = { address = \"10.0.0.2:80\" }"),
    row("{ address = …, weight = … }", "program", "+++x+ ++++x +++x+ +++++ xxxxx +++")
        .line("backend = { program = \"/bin/cat\" }"),
    row("{ address = …, weight = … }", "weight", "+++++ +++++ +++++ +++++ +++++ +++")
        .line("backend = [\"10.0.0.1:80\", { address = \"10.0.0.2:80\", weight = 3 }]"),
    row("{ address = …, weight = … }", "backup", "+++++ +++++ +++++ +++++ +++++ +++")
        .line("backend = [\"10.0.0.1:80\", { address = \"10.0.0.2:80\", backup = true }]"),
    row("{ certificate = …, key = …, ocsp = … }", "certificate", "+++++ !++!! +++++ +++++ ++!++ +++")
        .line("certificate = [{ certificate = \"a.pem\", key = \"a.key\" }]"),
    row("{ certificate = …, key = …, ocsp = … }", "key", "+++++ !++!! +++++ +++++ ++!++ +++")
        .line("certificate = [{ certificate = \"a.pem\", key = \"a.key\" }]"),
    row("{ certificate = …, key = …, ocsp = … }", "ocsp", "+++++ !++!! +++++ +++++ ++!++ +++")
        .line("certificate = [{ certificate = \"a.pem\", key = \"a.key\", ocsp = \"a.der\" }]"),
    row("{ program = …, again = … }", "program", "xxxxx xxxxx xxxxx xxxxx xxxxx x++")
        .line("only-client = { program = \"/bin/cat\" }"),
    row("{ program = …, again = … }", "again", "xxxxx xxxxx xxxxx xxxxx xxxxx x++")
        .line("only-client = { program = \"/bin/cat\", again = true }"),
    row("{ to = …, status = … }", "to", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("redirect = { to = \"/x\" }"),
    row("{ to = …, status = … }", "status", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("redirect = { to = \"/x\", status = 301 }"),
    row("{ status = …, content = … }", "status", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("respond = { status = 404 }"),
    row("{ status = …, content = … }", "content", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("respond = { status = 404, content = \"x\" }"),
    row("{ status = …, content = … }", "type", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("respond = { status = 404, content = \"x\", type = \"text/html\" }"),
    row("{ folder = …, fallback = … }", "folder", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("files = { folder = \"www\" }"),
    row("{ folder = …, fallback = … }", "index", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("files = { folder = \"www\", index = \"a.html\" }"),
    row("{ folder = …, fallback = … }", "extension", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("files = { folder = \"www\", extension = \".html\" }"),
    row("{ folder = …, fallback = … }", "fallback", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("files = { folder = \"www\", fallback = \"/a.html\" }"),
    row("{ folder = …, fallback = … }", "precompressed", "xxxxx xxxxx xxxxx xxxxx ++++x xxx")
        .line("files = { folder = \"www\", precompressed = \"gzip\" }"),
    row("{ requests = …, per = … }", "requests", "xxxxx xxxxx xxxxx xxxxx ++++! xxx")
        .line("rate-limit = { requests = 7 }"),
    row("{ requests = …, per = … }", "per", "xxxxx xxxxx xxxxx xxxxx ++++! xxx")
        .line("rate-limit = { requests = 7, per = \"1m\" }"),
    row("{ requests = …, per = … }", "burst", "xxxxx xxxxx xxxxx xxxxx ++++! xxx")
        .line("rate-limit = { requests = 7, burst = 9 }"),
    row("{ requests = …, per = … }", "by", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("rate-limit = { requests = 7, by = \"header:x-key\" }"),
    row("{ requests = …, per = … }", "prefix-v4", "xxxxx xxxxx xxxxx xxxxx ++++! xxx")
        .line("rate-limit = { requests = 7, prefix-v4 = 24 }"),
    row("{ requests = …, per = … }", "prefix-v6", "xxxxx xxxxx xxxxx xxxxx ++++! xxx")
        .line("rate-limit = { requests = 7, prefix-v6 = 56 }"),
    row("{ file = …, realm = … }", "file", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("basic-auth = { file = \"users\" }"),
    row("{ file = …, realm = … }", "realm", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("basic-auth = { file = \"users\", realm = \"x\" }"),
    row("{ file = …, realm = … }", "pass", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("basic-auth = { file = \"users\", pass = false }"),
    row("{ to = …, path = … }", "to", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("forward-auth = { to = \"10.0.0.9:80\", path = \"/\" }"),
    row("{ to = …, path = … }", "path", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("forward-auth = { to = \"10.0.0.9:80\", path = \"/a\" }"),
    row("{ to = …, path = … }", "copy", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("forward-auth = { to = \"10.0.0.9:80\", path = \"/\", copy = \"x-user\" }"),
    row("{ to = …, path = … }", "timeout", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("forward-auth = { to = \"10.0.0.9:80\", path = \"/\", timeout = \"3s\" }"),
    row("{ to = …, share = … }", "to", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("mirror = { to = \"10.0.0.9:80\" }"),
    row("{ to = …, share = … }", "share", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("mirror = { to = \"10.0.0.9:80\", share = \"1%\" }"),
    row("{ to = …, share = … }", "content", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("mirror = { to = \"10.0.0.9:80\", content = \"1KiB\" }"),
    row("{ length = …, timeout = … }", "length", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("queue = { length = 7 }")
        .with(&[("[service.http]", &["max-requests = 9"])]),
    row("{ length = …, timeout = … }", "timeout", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("queue = { timeout = \"7s\" }")
        .with(&[("[service.http]", &["max-requests = 9"])]),
    row("{ algorithms = …, types = … }", "algorithms", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("compression = { algorithms = [\"br\"] }"),
    row("{ algorithms = …, types = … }", "types", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("compression = { types = \"text/*\" }"),
    row("{ algorithms = …, types = … }", "min-size", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("compression = { min-size = \"7B\" }"),
    row("{ algorithms = …, types = … }", "gzip-level", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("compression = { gzip-level = 1 }"),
    row("{ algorithms = …, types = … }", "br-level", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("compression = { br-level = 1 }"),
    row("{ algorithms = …, types = … }", "zstd-level", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("compression = { zstd-level = 1 }"),
    row("{ algorithms = …, types = … }", "with-secrets", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("compression = { with-secrets = true }"),
    row("{ allow = …, retry-after = … }", "allow", "xxxxx xxxxx xxxxx xxxxx ++++! xxx")
        .line("maintenance = { allow = \"10.0.0.0/8\" }"),
    row("{ allow = …, retry-after = … }", "retry-after", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("maintenance = { retry-after = \"7m\" }"),
    row("{ cookie = … }", "cookie", "xxxxx xxxxx xxxxx xxxxx +++++ xxx").line("sticky = { cookie = \"a\" }"),
    row("{ cookie = … }", "header", "xxxxx xxxxx xxxxx xxxxx +++++ xxx").line("sticky = { header = \"a\" }"),
    row("{ cookie = … }", "key-file", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("sticky = { cookie = \"a\", key-file = \"k\" }"),
    row("{ cookie = … }", "same-site", "xxxxx xxxxx xxxxx xxxxx +++++ xxx")
        .line("sticky = { cookie = \"a\", same-site = \"none\" }"),
    row("{ hex = … }", "hex", "+++++ +++++ +++++ +++++ +++++ x++")
        .line("expect = { hex = \"0d0a\" }")
        .with(&[("[service.check]", &["type = \"send-expect\"", "expect = \"x\""])]),
];

/// The sections whose keys are written inside of a value, with the section that the value is in.
const INSIDE: &[(&Section, &str)] = &[
    (&keys::backend_values::BACKEND_TABLE, "[[service]]"),
    (&keys::certificate_values::CERTIFICATE_PAIR, "[[service]]"),
    (&keys::client_values::CLIENT_TABLE, "[[service]]"),
    (&keys::compression::COMPRESSION_TABLE, "[service.http]"),
    (&keys::route_access::MAINTENANCE_TABLE, "[service.http]"),
    (&keys::route_access::QUEUE_TABLE, "[service.http]"),
    (&keys::route_access::STICKY_TABLE, "[[service.route]]"),
    (&keys::route_access::BASIC_AUTH_TABLE, "[[service.route]]"),
    (&keys::route_access::FORWARD_AUTH_TABLE, "[[service.route]]"),
    (&keys::route_access::MIRROR_TABLE, "[[service.route]]"),
    (&keys::route_access::RATE_LIMIT_TABLE, "[[service.route]]"),
    (&keys::file_values::FILES_TABLE, "[[service.route]]"),
    (&keys::route_values::REDIRECT_TABLE, "[[service.route]]"),
    (&keys::route_values::RESPOND_TABLE, "[[service.route]]"),
    (&keys::values::HEX_TABLE, "[service.check]"),
];

/// The text of a mode, with the lines of a row beside its key, and with `line` in the row's section.
fn text(mode: &Mode, row: &Row, line: Option<&str>) -> String {
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let at = INSIDE.iter().find(|(inside, _)| inside.header == row.section).map_or(row.section, |(_, at)| at);
    let mut text = String::new();
    for section in keys::FILE.all() {
        let of = |sections: &[(&str, &'static [&'static str])]| -> Option<Vec<&'static str>> {
            let lines = sections.iter().find(|(header, _)| *header == section.header)?.1;
            Some(lines.to_vec())
        };
        let (base, with) = (of(mode.sections), of(row.with));
        let is_target = section.header == at;
        let holds_target = (section.header == "[[service.rule]]" && at.starts_with("[service.rule."))
            || (section.header == "[[service.route]]" && at.starts_with("[service.route."));
        if base.is_none() && with.is_none() && !is_target && !holds_target {
            continue;
        }
        let mut lines: Vec<&str> = base.unwrap_or_default();
        if section.header == "[[service.rule]]" && lines.is_empty() {
            lines.push(RULE);
        }
        if section.header == "[[service.route]]" && lines.is_empty() && holds_target {
            lines.push("backend = \"10.0.0.8:80\"");
        }
        for line in with.iter().flatten().copied().chain(line.filter(|_| is_target)) {
            lines.retain(|other| name(other) != name(line));
            lines.push(line);
        }
        let _ = writeln!(text, "{}\n{}", section.header, lines.join("\n"));
    }
    text
}

/// The outcome of a key in a mode, with the text that was read.
fn outcome(mode: &Mode, row: &Row, example: &str) -> (char, String) {
    let line = if row.line.is_empty() { format!("{} = {example}", row.key) } else { row.line.to_owned() };
    let with = text(mode, row, Some(&line));
    // The sections that enclose the key: `[service.rule.client-certificates]` is in `rule`.
    let inside =
        INSIDE.iter().find(|(inside, _)| inside.header == row.section).map(|(inside, _)| inside.name);
    let enclosing = row.section.trim_matches(['[', ']']).split('.').chain(inside).chain([row.key]);
    let names: Vec<String> = enclosing.map(|name| format!("`{name}` has no effect")).collect();
    let parsed = read(&with);
    let (config, problems) = match parsed {
        Ok((config, warnings)) => (Some(config), warnings),
        Err(problems) => (None, problems),
    };
    let is_hit = |problem: &&Problem| {
        let is_at_key = with.lines().nth(problem.line().wrapping_sub(1)) == Some(&*line);
        names.iter().any(|name| problem.what.contains(name))
            || is_at_key && problem.what.contains("has no effect")
    };
    let mut hits = problems.iter().filter(is_hit);
    let outcome = match (hits.next().map(|problem| problem.severity), config) {
        (Some(Severity::Error), _) => '!',
        (Some(Severity::Warning), _) => '?',
        (None, None) => 'x',
        (None, Some(config)) => {
            let without = read(&text(mode, row, None));
            let is_same = without.is_ok_and(|(without, _)| meaning(without) == meaning(config));
            if is_same { '=' } else { '+' }
        }
    };
    (outcome, format!("{with}{problems:#?}"))
}

/// All but the file itself, whose keys are about its parts.
fn sections() -> impl Iterator<Item = &'static Section> {
    keys::FILE.all().into_iter().skip(1).chain(INSIDE.iter().map(|(inside, _)| *inside))
}

#[test]
fn every_key_has_an_effect_in_every_mode_or_is_reported_to_have_none() {
    let mut wrong = String::new();
    for section in sections() {
        for key in section.keys {
            let name = (section.header, key.name);
            let rows: Vec<_> = ROWS.iter().filter(|row| (row.section, row.key) == name).collect();
            let [known] = rows[..] else {
                let _ = writeln!(wrong, "{name:?}: {} rows", rows.len());
                report(&row(section.header, key.name, ""), key.example, &mut wrong);
                continue;
            };
            report(known, key.example, &mut wrong);
            if let Default::Value(value) = key.default
                && known.line.is_empty()
            {
                let (found, text) = outcome(&MODES[0], known, value);
                if found == 'x' && known.outcomes.starts_with('+') {
                    let _ = writeln!(wrong, "{name:?}: its default cannot be written:\n{text}");
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// The settings of the configuration without what moves with its lines.
fn meaning(config: Config) -> Config {
    Config { places: Places::default(), restart: RestartSettings::default(), ..config }
}

/// A change of a key needs a restart if its description has `needs_restart`, and of no other key.
#[test]
fn a_change_needs_a_restart_where_the_description_of_the_key_says_so() {
    let mut seen = HashSet::new();
    for section in keys::FILE.all() {
        for row in ROWS.iter().filter(|row| row.section == section.header) {
            let key = section.keys.iter().find(|key| key.name == row.key).expect("another test asks for it");
            let path = section.path_of(*key);
            let line = if row.line.is_empty() {
                format!("{} = {}", key.name, key.example)
            } else {
                row.line.to_owned()
            };
            for mode in MODES {
                let (with, without) = (text(mode, row, Some(&line)), text(mode, row, None));
                let (Ok((with, _)), Ok((without, _))) = (read(&with), read(&without)) else { continue };
                let changed = with.restart.changed_since(&without.restart);
                let is_new = meaning(with.clone()) != meaning(without);
                // The client of a service is compared with its name.
                let names_a_client = path == "service.name" && with.services[0].only_client.is_some();
                let expected = match (is_new && !key.needs_restart.is_empty(), names_a_client) {
                    (true, _) => vec![path.clone()],
                    (_, true) => vec!["service.only-client".to_owned()],
                    _ => Vec::new(),
                };
                assert_eq!(changed, expected, "{path} in the mode {}", mode.name);
                seen.extend(changed);
            }
        }
    }
    let config = good(WEB);
    let not_seen: Vec<&str> = config.restart.keys().filter(|key| !seen.contains(*key)).collect();
    assert_eq!(
        not_seen,
        ["acme.key-folder", "acme.dns-command"],
        "no mode has [acme]; the test of reload has"
    );
}

/// The configuration by old words means the same, with one warning for each.
#[test]
fn old_names_of_keys_and_values_are_accepted_with_a_warning() {
    for (old, new) in renamed::KEYS {
        let rows: Vec<_> = ROWS.iter().filter(|row| row.key == new).collect();
        assert!(!rows.is_empty(), "no section has `{new}`");
        for row in rows {
            let section = sections().find(|section| section.header == row.section).expect("a section");
            let key = section.keys.iter().find(|key| key.name == new).expect("a key");
            let line =
                if row.line.is_empty() { format!("{new} = {}", key.example) } else { row.line.to_owned() };
            let old_line = line.replacen(new, old, 1);
            let mode = MODES.iter().find(|mode| outcome(mode, row, key.example).0 == '+');
            let mode = mode.unwrap_or_else(|| panic!("{new} has no effect in any mode"));
            let (config, warnings) = read(&text(mode, row, Some(&line))).expect("it is right");
            let (by_old, old_warnings) = read(&text(mode, row, Some(&old_line))).expect("it is accepted");
            assert_eq!(meaning(by_old), meaning(config), "{old}");
            let messages = |problems: &[Problem]| -> Vec<String> {
                let is_new = |problem: &&Problem| problem.what != format!("`{old}` is now called `{new}`");
                problems.iter().filter(is_new).map(|problem| problem.what.clone()).collect()
            };
            assert_eq!(messages(&old_warnings), messages(&warnings), "{old}");
            assert_eq!(old_warnings.len(), warnings.len() + 1, "{old}: {old_warnings:#?}");
            let both = read(&text(mode, row, Some(&format!("{line}\n{old_line}"))))
                .expect_err("one value is wanted");
            let expected = format!("`{old}` is the old name of `{new}`, which is written too");
            assert!(both.iter().any(|problem| problem.what == expected), "{both:#?}");
        }
    }
    let keys_apart =
        |word: &str| read(&format!("{WEB}[process]\nprivate-keys = \"{word}\"\n")).expect("it is accepted");
    for (old, new) in renamed::VALUES {
        let ((by_old, warnings), (config, none)) = (keys_apart(old), keys_apart(new));
        assert_eq!(meaning(by_old), meaning(config));
        assert_eq!(none, []);
        let [warning] = &warnings[..] else { panic!("{warnings:#?}") };
        assert_eq!(warning.what, format!("`{old}` is now called `{new}`"));
    }
}

/// Beside the table: a value, or several keys together.
#[test]
fn combinations_without_effect_are_reported() {
    let web = |listen: &str, more: &str| format!("[[service]]\n{NAME}\n{listen}\n{more}\n");
    let two = "backend = [\"10.0.0.1:80\", \"10.0.0.2:80\"]\ncertificate = \"site.pem\"";
    let one = format!("{TO}\n{CERTIFIED}");
    for (text, expected) in [
        (
            web(UNIX_LISTEN, &format!("{two}\nbalance = \"source-hash\"")),
            "Warning: `balance` has no effect: clients of unix sockets have no address, so backends take turns",
        ),
        (
            web(UNIX_LISTEN, &format!("{one}\nsource = \"client\"")),
            "Warning: `source` has no effect: clients of unix sockets have no address",
        ),
        (
            web(LISTEN, &format!("backend = {{ address = \"10.0.0.1:80\", weight = 3 }}\n{CERTIFIED}")),
            "Warning: `weight` has no effect: there is one backend, which gets everything",
        ),
        (
            web(LISTEN, &format!("{one}\nbackend-tls = {{ alpn = \"client\" }}")),
            "Warning: `alpn` has no effect: Handfast agrees on no application protocol with clients, see `alpn`",
        ),
        (
            web(
                LISTEN,
                &format!(
                    "{one}\nbackend-tls = {{ verify = \"insecure-nothing\", name = \"a\", server-name = \"b\" }}"
                ),
            ),
            "Error: `name` has no effect: `verify` compares no name, and `server-name` is what is sent",
        ),
        (
            web(
                LISTEN,
                &format!(
                    "{one}\n{THROUGH}\nalpn = [\"h2\"]\n[[service.rule]]\n{RULE}\npass-through = false\nalpn = []"
                ),
            ),
            "Error: `alpn` has no effect: clients are passed through (`pass-through = true`), and each rule whose TLS ends here has its own",
        ),
        (
            web(
                LISTEN,
                &format!(
                    "{one}\n[tickets]\nper-handshake = 0\nkey-file = \"k\"\n[service.tickets]\nper-handshake = 1"
                ),
            ),
            "",
        ),
        // The proxy is dialled, so its family counts.
        (
            web(
                LISTEN,
                &format!(
                    "{one}\nsource = \"::1\"\nconnect-through = {{ type = \"http\", address = \"[::1]:3128\" }}"
                ),
            ),
            "",
        ),
    ] {
        let problems = match read(&text) {
            Ok((_, warnings)) => warnings,
            Err(problems) => problems,
        };
        let messages: Vec<_> =
            problems.iter().map(|problem| format!("{:?}: {}", problem.severity, problem.what)).collect();
        let is_found = if expected.is_empty() {
            messages.is_empty()
        } else {
            messages.iter().any(|message| message == expected)
        };
        assert!(is_found, "{text}\n{messages:#?}");
    }
}

fn report(row: &Row, example: &str, wrong: &mut String) {
    let expected: Vec<char> = row.outcomes.chars().filter(|outcome| *outcome != ' ').collect();
    let found: Vec<(char, String)> = MODES.iter().map(|mode| outcome(mode, row, example)).collect();
    let differs = |place: &usize| expected.get(*place) != Some(&found[*place].0);
    let Some(first) = (0..MODES.len()).find(differs) else { return };
    let line: Vec<String> =
        found.chunks(5).map(|group| group.iter().map(|(outcome, _)| outcome).collect()).collect();
    let _ = writeln!(
        wrong,
        "{} {}: found {}, first otherwise in the mode {}:\n{}\n",
        row.section,
        row.key,
        line.join(" "),
        MODES[first].name,
        found[first].1
    );
}
