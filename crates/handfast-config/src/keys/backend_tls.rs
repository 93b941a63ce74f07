//! The keys of TLS towards the backends.

use super::other_words::{CERTIFICATE_WORDS, KEY_WORDS};
use super::tls::{GROUPS, MISSING_CLOSE_NOTIFY, POLICY, STARTTLS, SUITES, VERSIONS};
use crate::kind::*;
use crate::model::{BackendRevocation, BackendVerification, MissingCloseNotify};
use crate::schema::section;

section! {
    /// TLS towards the backends. `backend-tls = {}` is enough where the backend has a certificate that this machine trusts.
    /// Without this section, backends are spoken to in plain text.
    BACKEND_TLS = "backend-tls", "[service.backend-tls]",
        short "`backend-tls = {}`, or with its keys between the braces";

    /// `off`: plain text, for a rule that makes an exception from its service.
    BACKEND_MODE: Choice<bool> = "mode", Choice(&[("tls", true), ("off", false)]),
        default "\"tls\"",
        why "who writes the section wants TLS",
        example "\"off\"", elsewhere "enabled ssl on";

    /// Protocol of the backend before TLS: TLS is requested in that protocol. A backend that does not offer it, or refuses it, is not used.
    /// Its earlier output is not trusted, nor passed on: a client that waits for a greeting is greeted by Handfast. With `starttls` for
    /// clients, both are the same.
    BACKEND_STARTTLS: StarttlsProtocol = "starttls", StarttlsProtocol,
        absent "the backend speaks TLS from the first byte",
        why "TLS from the first byte is simpler and safer (RFC 8314); this is for backends that cannot do it",
        example "\"postgresql\"", elsewhere STARTTLS.about.elsewhere;

    /// Name of Handfast towards the backend before TLS (`EHLO`); with `xmpp`, the requested domain.
    BACKEND_STARTTLS_NAME: AnnouncedName = "starttls-name", AnnouncedName,
        absent "the machine's name; with `xmpp`, the name that the certificate must have",
        why "mail servers may look the name up",
        example "\"proxy.example.org\"", elsewhere "helo ehlo helo-name domain xmpp-domain protocol-host";

    /// Checks of a backend's certificate. `full`: an authority of `ca` signed it, its dates are right, it is for `name`, and its key is
    /// one of `pins` if there are any. `pins`: its key is one of `pins`; nothing else counts. `insecure-common-name`: as `full`, but of a
    /// certificate without alternative names the common name counts. `insecure-any-name`: as `full`, but for any name.
    /// `insecure-nothing`: nothing; an attacker on the network path can then read and change everything.
    BACKEND_VERIFY: Choice<BackendVerification> = "verify", Choice(&[
        ("full", BackendVerification::Full),
        ("pins", BackendVerification::Pins),
        ("insecure-common-name", BackendVerification::CommonName),
        ("insecure-any-name", BackendVerification::AnyName),
        ("insecure-nothing", BackendVerification::Nothing),
    ]),
        default "\"full\"",
        why "without it, encryption does not protect from an attacker on the network path",
        example "\"pins\"", elsewhere "verify-peer verify-chain ssl-verify insecure skip-verify verifychain verifypeer";

    /// PEM file with the authorities that may sign the backends' certificates. It may also contain a backend's own
    /// certificate, self-signed or not: then exactly that one is good, for its names.
    BACKEND_CA: CredentialPath = "ca", CredentialPath,
        absent "the authorities that this machine trusts",
        why "the list of the machine (package ca-certificates) is what other programs use; it is read at start and at each \
             reload",
        example "\"backend-ca.pem\"", elsewhere "ca-file cafile cacert ca-certificate trusted-certificate capath";

    /// The DNS name or IP address that a backend's certificate must have.
    BACKEND_NAME: HostName = "name", HostName,
        absent "the backend's own, as it is written in `backend`: its name, or else its IP address",
        why "who is dialled is who must answer; a unix socket has no name, so it must be written there",
        example "\"backend.example.org\"",
        elsewhere "host verify-name checkhost check-host verifyhost hostname server override-server-name";

    /// The name sent to the backend as the one asked for (SNI); `none` sends no name.
    BACKEND_SERVER_NAME: SentServerName = "server-name", SentServerName,
        absent "`name`, unless that is an IP address",
        why "a server with several certificates chooses by it",
        example "\"tenant.example.org\"", elsewhere "sni servername ssl-server-name sni-name";

    /// Public keys, one of which a backend's certificate must have: `sha256/` and the base64 of the SHA-256 of its
    /// SubjectPublicKeyInfo. `openssl x509 -in backend.pem -noout -pubkey | openssl pkey -pubin -outform der | openssl dgst
    /// -sha256 -binary | base64` makes one. Write the next key beside the present one before it is changed.
    BACKEND_PINS: List<PublicKeyPin> = "pins", List::of(PublicKeyPin),
        absent "any key",
        why "an authority is enough for most; a pin ends the service when the key changes unexpectedly",
        example "\"sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=\"",
        elsewhere "pin pinned pinnedpubkey pinned-public-key key-pins fingerprint";

    /// File with the chain, and its key unless `key` names it, that is shown to a backend which asks for a certificate: PEM, or
    /// PKCS#12 without a password.
    BACKEND_CERTIFICATE: CredentialPath = "certificate", CredentialPath,
        absent "none is shown",
        why "most backends ask for none",
        example "\"client.pem\"", elsewhere CERTIFICATE_WORDS;

    /// PEM file of that certificate's key.
    BACKEND_CERTIFICATE_KEY: CredentialPath = "key", CredentialPath,
        absent "the key is in the certificate's file",
        why "one file cannot be half replaced",
        example "\"client.key\"", elsewhere KEY_WORDS;

    /// Application protocols that are offered to the backend, best first; `client`: the one that was agreed on with the
    /// client. A backend that then chooses another one, or none for anything but HTTP/1.1, is not used for the connection:
    /// both sides would speak different protocols. With `mode = "http"` it is what `backend-version` says, and need not be written.
    BACKEND_ALPN: BackendProtocols = "alpn", BackendProtocols,
        default "[]",
        why "only the operator knows what the backend speaks",
        example "\"client\"", elsewhere "protocols alpn-protos npn alpn-protocols";

    use POLICY, VERSIONS, SUITES, GROUPS;

    /// Refuses a revoked certificate of a backend, by the OCSP response that the backend sends with it (stapling); no
    /// request is sent to an authority. `stapled`: if there is a good response that revokes it. `staple-required`: there must be a good response: one by the certificate's
    /// issuer or its responder, about this certificate, not expired, with the status "not revoked".
    BACKEND_REVOCATION: Choice<BackendRevocation> = "revocation", Choice(&[
        ("off", BackendRevocation::Off),
        ("stapled", BackendRevocation::Stapled),
        ("staple-required", BackendRevocation::StapleRequired),
    ]),
        default "\"off\"",
        why "most backends staple nothing; a thief of the key staples nothing either, which `staple-required` alone notices",
        example "\"staple-required\"", elsewhere "ocsp ocspaia ocsp-require must-staple ssl-ocsp crl revocation-check";

    /// Resumes sessions with the backend, by tickets that are kept for each backend. After an hour they are thrown away, so that the
    /// certificate is checked again.
    BACKEND_RESUMPTION: Switch = "resumption", Switch,
        default "true",
        why "it spares the backend a signature and both sides the certificate",
        example "false", elsewhere "session-cache session-reuse no-tls-tickets reuse session-resumption";

    /// Meaning of a backend's FIN without close_notify. `abort`: the client is reset, so that it does not take a part for the whole.
    /// `end`: it is passed on as a clean end; only for protocols whose messages show where they end. With `mode = "http"` it is about
    /// responses that end with the connection.
    BACKEND_MISSING_CLOSE_NOTIFY: Choice<MissingCloseNotify> = "missing-close-notify", Choice(MISSING_CLOSE_NOTIFY.kind.0),
        default "\"abort\"",
        why MISSING_CLOSE_NOTIFY.about.why,
        example "\"end\"", elsewhere MISSING_CLOSE_NOTIFY.about.elsewhere;
}

section! {
    /// TLS towards the backends of this rule, with the same keys as `[service.backend-tls]`. Without it, that of the service
    /// counts, as a whole.
    RULE_BACKEND_TLS = "backend-tls", "[service.rule.backend-tls]", keys of BACKEND_TLS;
}

section! {
    /// TLS towards the backends of this route, with the same keys as `[service.backend-tls]`. Without it, that of the service
    /// counts, as a whole.
    ROUTE_BACKEND_TLS = "backend-tls", "[service.route.backend-tls]", keys of BACKEND_TLS;
}
