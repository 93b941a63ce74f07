//! The keys of `[service.client-certificates]`, and of the same section in a rule.

use handfast_tls::client_certificates::Demand;

use crate::kind::*;
use crate::schema::section;

section! {
    /// Requirements for certificates of clients. Also in one line: `client-certificates = { mode = "require", ca = "clients-ca.pem" }`.
    /// Without it, clients are not asked.
    CLIENT_CERTIFICATES = "client-certificates", "[service.client-certificates]",
        short "`client-certificates = { mode = \"require\", ca = \"clients-ca.pem\" }`";

    /// `require`: a client without a good certificate is refused. `request`: a client without one is served, a client with a
    /// bad one is refused. `off`: clients are not asked; for rules that make an exception.
    CLIENT_MODE: Choice<Option<Demand>> = "mode",
        Choice(&[("require", Some(Demand::Require)), ("request", Some(Demand::Request)), ("off", None)]),
        example "\"require\"", elsewhere "verify client-verify require";

    /// PEM file with the certificates of the authorities that may sign clients' certificates. One that signed itself is also
    /// good for the client that has exactly it.
    CLIENT_CA: CredentialPath = "ca", CredentialPath,
        absent "needed, unless the mode is `off`, or `pinned` or `verify` is there",
        why "who may come in is never guessed: the machine's own list of authorities is for servers",
        example "\"clients-ca.pem\"",
        elsewhere "ca-file cafile cacert ca-certificate client-verify-ca ssl-client-certificate";

    /// PEM file with certificates of clients, instead of `ca`: a client that shows exactly one of them is let in, by any
    /// issuer, while it is valid. Neither an authority nor a revocation list counts: to revoke one, take it out of the file.
    CLIENT_PINNED: CredentialPath = "pinned", CredentialPath,
        absent "clients are let in by the authorities in `ca`",
        why "a few known clients need no authority",
        example "\"clients.pem\"", elsewhere "verifypeer peer-certificates";

    /// Checks of a client's certificate. `full`: it is valid by `ca` or `pinned`. `insecure-anything`, without either: the client has any
    /// certificate and its key: a client can make one for itself. Backends learn from a PROXY header that it was not verified.
    CLIENT_VERIFY: Choice<bool> = "verify", Choice(&[("full", false), ("insecure-anything", true)]),
        default "\"full\"",
        why "a certificate that no authority confirms identifies no client",
        example "\"insecure-anything\"", elsewhere "ssl-verify-client optional-no-ca requirecert";

    /// Certificate revocation lists of the authorities in `ca`: PEM or DER, files and folders, watched like certificates.
    /// Complete lists only, each signed by an authority in `ca`. A client is refused when its certificate, or that of an
    /// authority above it, is on one; also when it resumes a session. A list that cannot be used any more is kept as it was,
    /// and named.
    CLIENT_CRL: List<FileOrFolder> = "crl", List::of(FileOrFolder),
        absent "nothing is asked about revocation",
        why "who issues certificates decides whether lists are published",
        example "\"clients-crl.pem\"", elsewhere "crl-file crlfile crl-path crlpath ssl-crl revocation";

    /// Handling of clients when the revocation list of their authority has expired. `accept`: they are let in unless the old list names
    /// them.
    CRL_EXPIRED: Choice<bool> = "crl-expired", Choice(&[("refuse", false), ("accept", true)]),
        default "\"refuse\"",
        why "an attacker that withholds lists could use a stolen key again; a warning comes well before",
        example "\"accept\"", elsewhere "crl-strict";

    /// Handling of clients whose authority has no revocation list in `crl`. Only the authority that signed the client's own certificate
    /// needs one; lists of those above it are used if there are any.
    CRL_MISSING: Choice<bool> = "crl-missing", Choice(&[("refuse", false), ("accept", true)]),
        default "\"refuse\"",
        why "a list that was forgotten would go unnoticed; authorities without one are named at the start",
        example "\"accept\"", elsewhere "crl-check-all crl-check";

    /// Clients that are let in, by what their certificates say: `cn:alice` (common name), `subject:CN=alice, O=Example` (the
    /// whole subject), `dns:web.example.org`, `dns:*.example.org` (one label), `ip:10.0.0.0/8`, `uri:…`,
    /// `spiffe://example.org/web/*` (`*` is one part of a path, `**` at the end all below), `email:alice@example.org`,
    /// `email:*@example.org`, `pin:sha256/…` (the public key, in base64). One that fits is enough. The certificate must be
    /// good in any case.
    CLIENT_ALLOW: List<Identity> = "allow", List::of(Identity),
        absent "every client with a good certificate",
        why "the authority decides which clients it signs",
        example "[\"dns:*.clients.example.org\", \"spiffe://example.org/web/*\"]",
        elsewhere "allow-cn allow-ou allow-dns allow-uri allow-spiffe subject";

    /// Clients that are refused although their certificates are good, in the same words as in `allow`. It wins over `allow`.
    CLIENT_REFUSE: List<Identity> = "refuse", List::of(Identity),
        absent "no client",
        why "as `allow`",
        example "\"cn:mallory\"", elsewhere "deny deny-cn block";

    /// Backends for clients whose certificate is missing, by an unknown authority, expired, revoked or refused by a rule, instead of
    /// being refused: a page that explains, or a honeypot. They complete the handshake and see no difference; the access log has what
    /// was wrong with them. Their tickets lead there too. It is dialled in plain text, whatever `backend-tls` says.
    CLIENT_FALLBACK_BACKEND: List<BackendEntry> = "fallback-backend", List::of(BackendEntry),
        absent "clients that fail are refused",
        why "a refusal tells the client what is wrong",
        example "\"127.0.0.1:8404\"", elsewhere "honeypot fallback decoy crt-ignore-err ca-ignore-err redirect";
}

section! {
    /// Requirements for certificates of clients that ask for these names. Without it, the service decides; with it, nothing of the
    /// service's own section counts.
    RULE_CLIENT_CERTIFICATES = "client-certificates", "[service.rule.client-certificates]", keys of CLIENT_CERTIFICATES;
}
