//! The keys of `[service.client-certificates]`, and of the same section in a rule.

use crate::kind::{BackendEntry, Choice, FileOrFolder, FilePath, Identity, List};
use crate::schema::{Default, Key, Section};

/// `[service.client-certificates]`
pub(crate) static CLIENT_CERTIFICATES: Section = Section {
    name: "client-certificates",
    header: "[service.client-certificates]",
    doc: "Whether clients must show a certificate, and which. Also in one line: `client-certificates = { mode = \"require\", \
          ca = \"clients-ca.pem\" }`. Without it, clients are not asked.",
    keys: &[
        &CLIENT_MODE,
        &CLIENT_CA,
        &CLIENT_CRL,
        &CRL_EXPIRED,
        &CRL_MISSING,
        &CLIENT_ALLOW,
        &CLIENT_REFUSE,
        &CLIENT_FAILED_TO,
    ],
    sections: &[],
};

/// `[service.rule.client-certificates]`
pub(crate) static RULE_CLIENT_CERTIFICATES: Section = Section {
    name: "client-certificates",
    header: "[service.rule.client-certificates]",
    doc: "Whether clients that ask for these names must show a certificate, and which. Without it, the service decides; with \
          it, nothing of the service's own section counts.",
    keys: CLIENT_CERTIFICATES.keys,
    sections: &[],
};

/// How client certificates are requested, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientMode {
    /// Not at all.
    Off,
    /// Without insisting.
    Request,
    /// Insisting.
    Require,
}

pub(crate) static CLIENT_MODE: Key<Choice<ClientMode>> = Key {
    name: "mode",
    kind: Choice(&[
        ("require", ClientMode::Require),
        ("request", ClientMode::Request),
        ("off", ClientMode::Off),
    ]),
    default: Default::Required,
    doc: "`require`: a client without a good certificate is refused. `request`: a client without one is served, a client \
          with a bad one is refused. `off`: clients are not asked; for rules that make an exception.",
    why: "",
    example: "\"require\"",
    elsewhere: &["verify", "client-verify", "require"],
};

pub(crate) static CLIENT_CA: Key<FilePath> = Key {
    name: "ca",
    kind: FilePath,
    default: Default::Absent("needed, unless the mode is `off`"),
    doc: "PEM file with the certificates of the authorities that may sign clients' certificates. One that signed itself is \
          also good for the client that has exactly it.",
    why: "who may come in is never guessed: the machine's own list of authorities is for servers",
    example: "\"clients-ca.pem\"",
    elsewhere: &[
        "ca-file",
        "cafile",
        "cacert",
        "ca-certificate",
        "client-verify-ca",
        "ssl-client-certificate",
    ],
};

pub(crate) static CLIENT_CRL: Key<List<FileOrFolder>> = Key {
    name: "crl",
    kind: List { item: FileOrFolder, bare: true, least: 1, unique: true },
    default: Default::Absent("nothing is asked about revocation"),
    doc: "Certificate revocation lists of the authorities in `ca`: PEM or DER, files and folders, watched like certificates. \
          Complete lists only, each signed by an authority in `ca`. A client is refused when its certificate, or that of an \
          authority above it, is on one; also when it resumes a session. A list that cannot be used any more is kept as it \
          was, and named.",
    why: "who issues certificates decides whether lists are published",
    example: "\"clients-crl.pem\"",
    elsewhere: &["crl-file", "crlfile", "crl-path", "crlpath", "ssl-crl", "revocation"],
};

const ACCEPT: &[(&str, bool)] = &[("refuse", false), ("accept", true)];

pub(crate) static CRL_EXPIRED: Key<Choice<bool>> = Key {
    name: "crl-expired",
    kind: Choice(ACCEPT),
    default: Default::Value("\"refuse\""),
    doc: "What becomes of clients when the revocation list of their authority has expired. `accept`: they are let in unless \
          the old list names them.",
    why: "an attacker that withholds lists could use a stolen key again; a warning comes well before",
    example: "\"accept\"",
    elsewhere: &["crl-strict"],
};

pub(crate) static CRL_MISSING: Key<Choice<bool>> = Key {
    name: "crl-missing",
    kind: Choice(ACCEPT),
    default: Default::Value("\"refuse\""),
    doc: "What becomes of clients whose authority has no revocation list in `crl`. Only the authority that signed the client's \
          own certificate needs one; those above it are asked if they have one.",
    why: "a list that was forgotten would go unnoticed; authorities without one are named at the start",
    example: "\"accept\"",
    elsewhere: &["crl-check-all", "crl-check"],
};

pub(crate) static CLIENT_ALLOW: Key<List<Identity>> = Key {
    name: "allow",
    kind: List { item: Identity, bare: true, least: 1, unique: true },
    default: Default::Absent("every client with a good certificate"),
    doc: "Clients that are let in, by what their certificates say: `cn:alice` (common name), `subject:CN=alice, O=Example` (the \
          whole subject), `dns:web.example.org`, `dns:*.example.org` (one label), `ip:10.0.0.0/8`, `uri:…`, \
          `spiffe://example.org/web/*` (`*` is one part of a path, `**` at the end all below), `email:alice@example.org`, \
          `email:*@example.org`, `pin:sha256/…` (the public key, in base64). One that fits is enough. The certificate must be \
          good in any case.",
    why: "the authority decides which clients it signs",
    example: "[\"dns:*.clients.example.org\", \"spiffe://example.org/web/*\"]",
    elsewhere: &["allow-cn", "allow-ou", "allow-dns", "allow-uri", "allow-spiffe", "subject"],
};

pub(crate) static CLIENT_REFUSE: Key<List<Identity>> = Key {
    name: "refuse",
    kind: List { item: Identity, bare: true, least: 1, unique: true },
    default: Default::Absent("no client"),
    doc: "Clients that are refused although their certificates are good, in the same words as in `allow`. It wins over `allow`.",
    why: "as `allow`",
    example: "\"cn:mallory\"",
    elsewhere: &["deny", "deny-cn", "block"],
};

pub(crate) static CLIENT_FAILED_TO: Key<List<BackendEntry>> = Key {
    name: "failed-to",
    kind: List { item: BackendEntry, bare: true, least: 1, unique: true },
    default: Default::Absent("clients that fail are refused"),
    doc: "Where clients are served whose certificate is missing, by an unknown authority, expired, revoked or refused by a \
          rule, instead of being refused: a page that explains, or a honeypot. They complete the handshake and see no \
          difference; the access log says what was wrong with them. Their tickets lead there too. It is dialled in plain text, \
          whatever `backend-tls` says.",
    why: "a refusal tells the client what is wrong",
    example: "\"127.0.0.1:8404\"",
    elsewhere: &["honeypot", "fallback", "decoy", "crt-ignore-err", "ca-ignore-err", "redirect"],
};
