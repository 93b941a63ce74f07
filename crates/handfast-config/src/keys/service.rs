//! The keys of a service and of a rule.

use super::backend_tls::{BACKEND_TLS, RULE_BACKEND_TLS};
use super::cache::CACHE;
use super::check::CHECK;
use super::client_certificates::{CLIENT_CERTIFICATES, RULE_CLIENT_CERTIFICATES};
use super::http::HTTP;
use super::limits::{SERVICE_LIMITS, SERVICE_TICKETS};
use super::other_words::{BACKEND_WORDS, CERTIFICATE_WORDS, FILES_WORDS, KEY_WORDS};
use super::proxies::{CONNECT_THROUGH, PROXY_PROTOCOL};
use super::route::ROUTE;
use super::tls::{GROUPS, MISSING_CLOSE_NOTIFY, POLICY, STARTTLS, SUITES, VERSIONS};
use crate::kind::*;
use crate::model::{Balance, PlainHttp, UnknownName};
use crate::schema::section;

section! {
    /// One service: where it listens, how it serves TLS, and where its connections go. There is at least one.
    SERVICE = "service", "[[service]]", with CLIENT_CERTIFICATES, BACKEND_TLS, CONNECT_THROUGH, CHECK,
        HANDSHAKE_RATE, PROXY_PROTOCOL, SERVICE_LIMITS, SERVICE_TICKETS, RULE, HTTP, ROUTE, CACHE;

    /// Its name in logs and metrics.
    NAME: Name = "name", Name("service"),
        absent "the first address of `listen` as it is written, such as `*:443`",
        why "that is different for each service",
        example "\"web\"", elsewhere "service id label";

    /// Addresses to listen on. `*:8443` and `[::]:8443` take IPv6 and IPv4. Port 0 lets the kernel choose.
    LISTEN: List<ListenAddress> = "listen", List { unique: false, ..List::of(ListenAddress) },
        absent "an error, unless the service has an `only-client`",
        why "which addresses are taken is never guessed",
        example "\"127.0.0.1:8443\"", elsewhere "bind accept frontend address port addr local";

    /// Its one client, instead of those that connect to `listen`. `"stdin"`: who started this process and is at its standard input
    /// and output, as inetd is; the process ends with it, and has no other service. A program: it is started by this process.
    ONLY_CLIENT: ClientEntry = "only-client", ClientEntry,
        absent "clients connect to `listen`",
        why "most services have many clients",
        example "\"stdin\"", elsewhere "inetd accept-fd exec stdin",
        needs_restart "programs are started by another process, which knows those of the start";

    /// Mode of the unix sockets it listens on. Who may write may connect.
    LISTEN_MODE: Mode = "listen-mode", Mode,
        default "\"0660\"",
        why "the owner and the group, and no other user by accident",
        example "\"0666\"", elsewhere "socket-mode";

    /// Unit that is forwarded. `tcp`: the bytes of a connection, of any protocol, to one backend. `http`: requests, each separately,
    /// which clients send by HTTP/1.1 or HTTP/2. Backends receive the client's address in a field, and their connections are reused. See
    /// `[service.http]` and `[[service.route]]`.
    MODE: Choice<bool> = "mode", Choice(&[("tcp", false), ("http", true)]),
        absent "`tcp`; `http` if `backend` is a URL, or `files` is written",
        why "bytes can be forwarded of every protocol, and what is not read cannot be misread",
        example "\"http\"", elsewhere "http http-mode option-httplog layer proxy-mode";

    use STARTTLS;

    /// Name of Handfast in greetings before TLS; with `xmpp`, the domain where the client does not name one.
    STARTTLS_NAME: AnnouncedName = "starttls-name", AnnouncedName,
        absent "the machine's name",
        why "mail clients expect the server's name there",
        example "\"mail.example.org\"", elsewhere "server-name hostname myhostname greeting";

    /// Backends of its connections, in plain text. Names are looked up again and again, see `resolve`. In a table, a backend has a
    /// `weight` from 0 to 256 (else 1): its share in proportion to the others', and 0 for no new connections; each address of a name has
    /// it for itself. `backup = true`: it is used only while no other one is up. The URL of another site, such as
    /// `https://www.example.org`, is the only backend. It means `mode = "http"`, TLS (`backend-tls`) if it begins with `https`, and
    /// requests with the site's name as their `Host`. A server of your own is written as an address: its requests keep the client's
    /// `Host`.
    BACKEND: List<SiteOrBackend> = "backend", List::of(SiteOrBackend),
        absent "an error, unless `files` is written, or a route without conditions takes all requests and each route has `redirect`, `respond`, `files` or `backend`",
        why "a service without it could answer nothing else",
        example "\"127.0.0.1:8080\"", elsewhere BACKEND_WORDS;

    /// Files that the requests without a route are answered with, instead of a backend: a folder, or a table as for `files` in `[[service.route]]`.
    /// It means `mode = "http"`.
    FILES: Files = "files", Files,
        absent "backends respond",
        why "most services forward",
        example "\"/srv/www\"", elsewhere FILES_WORDS;

    /// Method of choosing one of several backends, by weight. `round-robin`: one after the other. `least-connections`: the one with the
    /// fewest connections from the same worker thread. `two-choices`: of two at random, the one with fewer. `source-hash`: by the
    /// client's address, so that a client comes to the same backend each time, also through another Handfast with the same backends; when
    /// a backend is lost, only its own clients go elsewhere. Clients of unix sockets have no address; they take turns.
    BALANCE: Choice<Balance> = "balance", Choice(&Balance::WORDS),
        default "\"round-robin\"",
        why "even and predictable; `least-connections` is better when connections differ much in length, `two-choices` when \
             there are many backends too",
        example "\"least-connections\"", elsewhere "load-balancing lb failover policy-balance algorithm";

    /// Addresses of this machine that connections to backends come from, in turn. Each has its own source ports: when one has
    /// none left towards a backend, the next one is tried. At most 16. `"client"`: the client's own address, which needs
    /// CAP_NET_ADMIN, and routes that bring the answers back to this machine; docs/proxy/outbound.md has them.
    SOURCE: List<SourceAddress> = "source", List::of(SourceAddress),
        absent "the address that the kernel chooses by the route",
        why "one address has 28,232 ports towards each backend by Linux's default, which is enough for most",
        example "[\"10.0.0.5\", \"10.0.0.6\"]",
        elsewhere "local bind-source source-address proxy-bind outgoing transparent usesrc";

    /// Time in which a backend that was down, and came up again, gets its whole share: it begins with next to nothing, and grows evenly.
    /// While no other backend is up it gets everything at once.
    SLOW_START: Span = "slow-start", Span { range: seconds(1)..=seconds(86_400), zero: Some("off") },
        default "\"off\"",
        why "most backends are as fast in their first second as later",
        example "\"30s\"", elsewhere "slowstart warm-up ramp-up";

    /// Expects TLS from clients. `false`: in plain text, so that programs without TLS reach backends that have it (with `backend-tls`),
    /// or a plain TCP proxy (without).
    CLIENT_TLS: Switch = "client-tls", Switch,
        default "true",
        why "plain text is only ever right on purpose",
        example "false", elsewhere "client client-mode ssl plain tls-enabled";

    /// Passes the TLS of clients that no rule is about to the backend unchanged: the ClientHello is read for its name, nothing is
    /// decrypted, and no certificate is needed for them.
    PASS_THROUGH: Switch = "pass-through", Switch,
        default "false",
        why "a proxy that terminates TLS is the usual case",
        example "true", elsewhere "passthrough ssl-preread no-decrypt sni-passthrough forward";

    /// Response to a client that speaks plain HTTP on this port. `refuse`: status 400 and a sentence that says why. `redirect`: status
    /// 308 to the same host, port and path by `https://`, if the request names its host; else 400.
    PLAIN_HTTP: Choice<PlainHttp> = "plain-http", Choice(&[("refuse", PlainHttp::Refuse), ("redirect", PlainHttp::Redirect)]),
        default "\"refuse\"",
        why "a request in plain text has already shown what it asked for: who sends it should learn that",
        example "\"redirect\"", elsewhere "redirect https-redirect error-page-497 redirect-scheme force-ssl";

    /// Its certificates: PEM files that hold the chain and its key, pairs of files, PKCS#12 files without a password, and
    /// folders, each file of which is checked. The name a client asks for decides; for one name there may be an RSA and an ECDSA certificate. A path that
    /// ends in `/` is a folder in any case. Changed files are taken up without a reload. `acme`: certificates are ordered, see `[acme]`;
    /// a file of that name is `./acme`.
    CERTIFICATE: Certificates = "certificate", Certificates,
        absent "it must be written, unless clients are plain or all passed through",
        why "which names are served is never guessed",
        example "\"web.pem\"", elsewhere CERTIFICATE_WORDS;

    /// Names to order a certificate for, beside those of its rules and routes. A name that a wildcard here covers needs none.
    ACME_NAMES: List<OrderedName> = "acme-names", List::of(OrderedName),
        absent "the names of its rules whose TLS ends here, and the hosts of its routes",
        why "most services name them there",
        example "\"www.example.org\"", elsewhere "domains domain names server_name server-name san sans hosts";

    /// The key of the certificate, when there is exactly one and its key is in a separate file.
    CERTIFICATE_KEY: CredentialPath = "key", CredentialPath,
        absent "the key is in the certificate's file",
        why "one file cannot be half replaced",
        example "\"web.key\"", elsewhere KEY_WORDS;

    /// Response to a client that asks for a name no certificate covers: the first certificate, or the alert `unrecognized_name`. A client
    /// that asks for no name gets the first certificate in both cases.
    UNKNOWN_NAME: Choice<UnknownName> = "unknown-name",
        Choice(&[("first", UnknownName::First), ("refuse", UnknownName::Refuse)]),
        default "\"first\"",
        why "the client then sees which name the certificate has, which explains the mistake best",
        example "\"refuse\"", elsewhere "sni-nomatch-abort strict-sni default-certificate sni-strict";

    use POLICY, VERSIONS, SUITES, GROUPS;

    /// Application protocols the backend speaks, best first. Empty: what the client offers is not answered.
    ALPN: List<Protocol> = "alpn", List { bare: false, least: 0, ..List::of(Protocol) },
        absent "none; with `mode = \"http\"` it is `[\"h2\", \"http/1.1\", \"http/1.0\"]`, and nothing else can be written",
        why "only the operator knows what the backend speaks",
        example "[\"h2\", \"http/1.1\"]", elsewhere "protocols alpn-protos npn alpn-protocols";

    /// Connections of this service served at once.
    SERVICE_CONNECTIONS: Count<usize> = "max-connections", Count(1..=10_000_000),
        absent "only the process's limit",
        why "one service alone may use the whole process",
        example "5000", elsewhere "maxconn max-conns";

    /// Connections of this service served at once for one client address. Those beyond it are closed at once.
    ADDRESS_CONNECTIONS: Count<usize> = "max-connections-per-address", Count(1..=10_000_000),
        absent "no limit",
        why "many clients may share one address behind a translator or another proxy",
        example "100", elsewhere "max-connections-per-ip limit-conn per-address";

    /// Addresses from which clients are served; all others are reset at once, with cause `client-refused` in the access log.
    /// Clients of unix sockets are always let in: their mode decides.
    ALLOW_CLIENTS: List<OrFile<AddressPrefix>> = "allow-clients", List::of(OrFile(AddressPrefix)),
        absent "clients from everywhere",
        why "a firewall may decide it already",
        example "[\"10.0.0.0/8\", \"2001:db8::/32\"]",
        elsewhere "allow allow-from whitelist allowlist allowed-ips source-ranges trusted";

    /// Addresses from which clients are reset at once. It wins over `allow-clients`, whichever prefix is longer: who is
    /// refused here never comes in.
    REFUSE_CLIENTS: List<OrFile<AddressPrefix>> = "refuse-clients", List::of(OrFile(AddressPrefix)),
        absent "no client is refused for its address",
        why "a firewall may decide it already",
        example "\"203.0.113.0/24\"", elsewhere "deny deny-from blacklist blocklist denylist deny-clients block reject";

    use MISSING_CLOSE_NOTIFY;
}

section! {
    /// An exception for certain server names or application protocols: another backend, policy, or rule about client
    /// certificates, or TLS that is passed through. A rule with the very name comes before one with a wildcard, and that
    /// before one with `*`, and that before one without names; of several, the first one that fits. Keys that are not written are taken from the service.
    RULE = "rule", "[[service.rule]]", with RULE_CLIENT_CERTIFICATES, RULE_BACKEND_TLS;

    /// Server names. A wildcard matches exactly one part: `*.example.org` has `a.example.org`, but neither `example.org` nor
    /// `a.b.example.org`. `*` fits every client that sends a name.
    RULE_NAMES: List<RuleName> = "names", List::of(RuleName),
        absent "any name, and none; then `client-alpn` must be written",
        why "a rule for every client is the service itself",
        example "[\"a.example.org\", \"*.b.example.org\"]",
        elsewhere "match name sni host hosts server-name server-names match-sni-wildcard";

    /// Application protocols, one of which the client must offer (ALPN) for the rule to fit. The first 64 that it offers are
    /// looked at.
    RULE_CLIENT_ALPN: List<Protocol> = "client-alpn", List::of(Protocol),
        absent "whatever the client offers",
        why "the name decides for most",
        example "[\"acme-tls/1\"]", elsewhere "match-alpn ssl-alpn alpn-match offers";

    /// Passes the TLS of these clients unchanged, without decrypting it, on the same port.
    RULE_PASS_THROUGH: Switch = "pass-through", Switch,
        of_service "that", example "true", elsewhere PASS_THROUGH.about.elsewhere;

    /// Backends of connections for these names.
    RULE_BACKEND: List<BackendEntry> = "backend", List::of(BackendEntry),
        of_service "those", example "\"10.0.0.3:8080\"", elsewhere BACKEND.about.elsewhere;

    /// Policy for these names. With it, `versions`, `suites` and `groups` of the service do not count; without it they do.
    RULE_POLICY: Text = "policy", Text("text"),
        of_service "that", example "\"2026-11-modern\"", elsewhere POLICY.about.elsewhere;

    use VERSIONS, SUITES, GROUPS;

    /// Application protocols for these names.
    RULE_ALPN: List<Protocol> = "alpn", List { bare: false, least: 0, ..List::of(Protocol) },
        of_service "those", example "[\"http/1.1\"]", elsewhere ALPN.about.elsewhere;
}

section! {
    /// Limit on the rate at which clients of one address begin handshakes, full or resumed. Those beyond it are reset before they have
    /// cost anything, with cause `handshake-rate`. Also in one line: `handshake-rate = { per-second = 10, burst = 50 }`. It takes 512 KiB
    /// of memory for the service, however many clients there are. Without it, there is no limit.
    HANDSHAKE_RATE = "handshake-rate", "[service.handshake-rate]",
        short "`handshake-rate = { per-second = 10, burst = 50 }`";

    /// New handshakes a second that one address may begin in the long run.
    PER_SECOND: Count<u32> = "per-second", Count(1..=1_000_000),
        example "10", elsewhere "rate rps limit average fill-rate";

    /// New handshakes that one address may begin at once after a pause.
    BURST: Count<u32> = "burst", Count(1..=1_000_000),
        absent "as many as `per-second`",
        why "a browser opens six connections at once, a pool of a service all of its connections: with a small `per-second` \
             it should be written",
        example "50", elsewhere "bucket bucket-size max-tokens capacity";

    /// IPv4 clients whose addresses share so many bits are counted together.
    PREFIX_V4: Count<u8> = "prefix-v4", Count(0..=32),
        default "32",
        why "each address by itself",
        example "24", elsewhere "v4-prefix ipv4-prefix ipv4-mask mask-v4 netmask";

    /// The same for IPv6 clients.
    PREFIX_V6: Count<u8> = "prefix-v6", Count(0..=128),
        default "64",
        why "one machine has a whole /64, and changes its address in it when it likes",
        example "56", elsewhere "v6-prefix ipv6-prefix ipv6-mask mask-v6";
}
