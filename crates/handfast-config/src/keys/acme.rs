//! The keys of `[acme]`: from which issuers certificates are ordered.

use crate::kind::*;
use crate::model::AcmeChallenge;
use crate::schema::section;

section! {
    /// Certificates that are ordered by ACME (RFC 8555) and renewed in time, for services with `certificate = "acme"`. Each of their
    /// names gets a separate certificate. The old one is served until a new one has been tried.
    ACME = "acme", "[acme]", with ACME_FALLBACK;

    /// Accepts the terms of service of each issuer that is named here. Without it nothing is ordered.
    ACCEPT_TERMS: Switch = "accept-terms-of-service", Switch,
        default "false",
        why "it is a contract, which only you can accept",
        example "true", elsewhere "terms-of-service tos agree-tos agree-to-terms terms-of-service-agreed accept-tos";

    /// The folder in which accounts, certificates and what is remembered of each name are kept. It is made if it is not there, and
    /// belongs to the user that serves.
    ACME_FOLDER: FolderPath = "folder", FolderPath,
        example "\"/var/lib/handfast/acme\"", elsewhere "storage store state-path data-dir path config-dir";

    /// The folder of the private keys of certificates and accounts, where they are in the key process (`private-keys = "separate-process"`). It
    /// belongs to the user that starts the proxy, and no other user can enter it. It is made if it is not there.
    KEY_FOLDER: FolderPath = "key-folder", FolderPath,
        absent "needed with `private-keys = \"separate-process\"`; otherwise keys are in `folder`",
        why "only you know where the user that serves has no access",
        example "\"/var/lib/handfast-keys\"", elsewhere "keys-dir key-dir private-key-folder key-store key-path",
        needs_restart "the key process is started before privileges are given up";

    /// The URL of the issuer's directory.
    DIRECTORY: DirectoryUrl = "directory", DirectoryUrl,
        default "\"https://acme-v02.api.letsencrypt.org/directory\"",
        why "Let's Encrypt's certificates are free, and trusted everywhere",
        example "\"https://ca.example.org/acme/directory\"",
        elsewhere "server ca-server acme-server uri issuer ca directory-url";

    /// Directory where an order is tried after a failure, before the issuer itself is tried again: its rate limits are not used up by
    /// mistakes.
    STAGING: DirectoryUrl = "staging", DirectoryUrl,
        absent "Let's Encrypt's staging directory with its own directory, else none",
        why "only the issuer knows where it has one",
        example "\"https://ca.example.org/acme-staging/directory\"", elsewhere "test-directory test-ca staging-directory";

    /// The issuer's own name in DNS records, as in those for CAA: the TXT record of `dns-persist-01` begins with it.
    ISSUER_NAME: HostName = "issuer-name", HostName,
        absent "`letsencrypt.org` with Let's Encrypt's directory; else needed with `dns-persist-01` only",
        why "only the issuer knows its name there",
        example "\"ca.example.org\"", elsewhere "issuer-domain issuer-domain-name caa caa-identity caa-identities";

    /// PEM file of the authorities that may sign the certificate of the issuer's server.
    ACME_CA: CredentialPath = "ca", CredentialPath,
        absent "those that this machine trusts",
        why "public issuers have public certificates",
        example "\"ca.pem\"", elsewhere "ca-file trusted-ca ssl-trusted-certificate ca-root ca-certificates";

    /// The profile that is ordered, such as `shortlived` or `tlsserver`. Each issuer has its own; IP addresses may need one.
    PROFILE: Text = "profile", Text("text, such as `\"shortlived\"`"),
        absent "the issuer's default",
        why "the issuer's default fits most",
        example "\"shortlived\"", elsewhere "acme-profile certificate-profile";

    /// The identifier of an account that the issuer gave you elsewhere (external account binding).
    EAB_ID: Text = "eab-key-id", Text("text, such as `\"kid-1\"`"),
        absent "an account is made without",
        why "most issuers need none",
        example "\"kid-1\"", elsewhere "eab-kid kid external-account-key-id external-account";

    /// File with the key that belongs to it, in base64url.
    EAB_KEY: CredentialPath = "eab-key-file", CredentialPath,
        absent "needed with `eab-key-id` only",
        why "a configuration is read by more people than may know it",
        example "\"eab-key\"", elsewhere "eab-hmac-key hmac external-account-hmac mac-key";

    /// Mail addresses that issuers may write to.
    CONTACT: List<MailAddress> = "contact", List::of(MailAddress),
        absent "none",
        why "no issuer needs one, and Let's Encrypt sends no mail any more",
        example "\"admin@example.org\"", elsewhere "email mail account-email";

    /// Methods to prove to issuers that a name is yours, best first. After a failure the next one that fits the name is tried.
    /// `tls-alpn-01`: on port 443, where a service with this certificate listens. `http-01`: on port 80, where any service listens, also
    /// one that only redirects; nothing but the answer comes from there. `dns-persist-01`: by a TXT record that you set once; `handfast
    /// acme list` prints it. `dns-01`: by a TXT record that `dns-command` sets for each order. Wildcards can be proven by these two
    /// alone.
    CHALLENGES: List<Choice<AcmeChallenge>> = "challenges", List::of(Choice(&AcmeChallenge::WORDS)),
        absent "`tls-alpn-01`, then `http-01`",
        why "both need nothing but the ports that are served anyway",
        example "[\"http-01\"]", elsewhere "challenge preferred-challenges solver solvers challenge-type http-challenge";

    /// The program that sets and removes records for `dns-01`. It is run as the user that serves, with three arguments: `set` or
    /// `remove`, the name of the record (`_acme-challenge.example.org`), and its text. It ends with 0 when the record is set and can be
    /// looked up, within three minutes.
    DNS_COMMAND: FilePath = "dns-command", FilePath,
        absent "needed with `dns-01` only",
        why "each provider of DNS has another interface",
        example "\"/usr/local/bin/dns-record\"", elsewhere "dns-provider dns hook manual-auth-hook auth-hook dns-script",
        needs_restart "programs are started by another process, which knows those of the start";
}

section! {
    /// A further issuer, which is asked when those before it have failed twice in a row.
    ACME_FALLBACK = "fallback", "[[acme.fallback]]";

    /// The URL of its directory.
    FALLBACK_DIRECTORY: DirectoryUrl = "directory", DirectoryUrl,
        example "\"https://acme.zerossl.com/v2/DV90\"", elsewhere "server ca-server acme-server uri issuer directory-url";

    use STAGING, ISSUER_NAME, ACME_CA, PROFILE, EAB_ID, EAB_KEY;
}
