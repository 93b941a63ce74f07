//! Mistakes in a file: the place and the hint of each message.

use super::super::super::problem::{Place, Problem};
use super::{WEB, good, read};

/// The problems of a text, each as `severity line "what is there" clause | hint`.
fn problems(text: &str) -> Vec<String> {
    let problems = match read(text) {
        Ok((_, warnings)) => warnings,
        Err(problems) => problems,
    };
    problems
        .iter()
        .map(|problem| {
            let Place::Text { line, text, .. } = &problem.place else { panic!("{problem:?} has no place") };
            let hint = problem.hint.as_deref().unwrap_or("-");
            format!("{} {line} {text} {} | {hint}", problem.severity.name(), problem.what)
        })
        .collect()
}

#[test]
fn one_wrong_value_is_reported_with_its_place_and_cure() {
    for (added, expected) in ONE_WRONG {
        assert_eq!(problems(&format!("{WEB}{added}")), [*expected], "{added}");
    }
}

/// Lines that are added to a good file, and the one problem that they cause.
const ONE_WRONG: &[(&str, &str)] = &[
    // Names of keys and sections.
    (
        "lsiten-mode = \"0660\"",
        "error 6 lsiten-mode unknown key `lsiten-mode` in [[service]] | did you mean `listen-mode`?",
    ),
    ("curves = []", "error 6 curves unknown key `curves` in [[service]] | did you mean `groups`?"),
    ("idle = \"1s\"", "error 6 idle unknown key `idle` in [[service]] | `idle` belongs in [service.limits]"),
    ("drain = \"1s\"", "error 6 drain unknown key `drain` in [[service]] | `drain` belongs in [process]"),
    (
        "include = \"a.toml\"",
        "error 6 include unknown key `include` in [[service]] | `include` belongs at the top of the file",
    ),
    ("colour = 1", "error 6 colour unknown key `colour` in [[service]] | -"),
    ("[proces]", "error 6 proces unknown key `proces` at the top of the file | did you mean `process`?"),
    // Types.
    (
        "[process]\nthreads = \"4\"",
        "error 7 \"4\" expected a whole number, found a text | write `4` without quotes",
    ),
    ("[process]\nuser = 33", "error 7 33 expected a text, such as `\"handfast\"`, found a whole number | -"),
    ("[process]\nthreads = [1]", "error 7 [1] expected a whole number, found a list | -"),
    (
        "alpn = \"h2\"",
        "error 6 \"h2\" expected a list of text, such as `\"http/1.1\"`, found a text | write `[\"h2\"]`",
    ),
    (
        "listen-mode = 660",
        "error 6 660 expected a text of octal digits, such as `\"0660\"`, found a whole number | write it as text, as chmod takes it: `\"0660\"`",
    ),
    (
        "tickets = true",
        "error 6 true `tickets` is a section, not true or false | write [service.tickets] on a separate line, and its keys below",
    ),
    (
        "client-certificates = \"require\"",
        "error 6 \"require\" `client-certificates` is a section, not a text | write `client-certificates = { mode = \"require\", ca = \"clients-ca.pem\" }`",
    ),
    ("[[process]]\nthreads = 1", "error 6 [[process]] [process] is written once, in single brackets | -"),
    // Ranges, durations, sizes.
    ("[process]\nthreads = 0", "error 7 0 0 is out of range | -"),
    (
        "[process]\nthreads = 99999999999999999999",
        "error 7 99999999999999999999 99999999999999999999 is out of range | -",
    ),
    (
        "[process]\ndrain = 30",
        "error 7 30 expected a duration, such as `\"10s\"` or `\"1h30m\"`, found a whole number | give a unit: `\"30s\"`",
    ),
    ("[process]\ndrain = \"30\"", "error 7 \"30\" invalid duration `30`: no unit | write `30s` for seconds"),
    ("[process]\ndrain = \"2d\"", "error 7 \"2d\" 2d is out of range | -"),
    ("[limits]\nidle = \"0s\"", "error 7 \"0s\" 0s is out of range | write `\"none\"`"),
    ("[limits]\nidle = \"non\"", "error 7 \"non\" invalid duration `non` | did you mean `none`?"),
    (
        "[limits]\ntcp-keepalive = \"1500ms\"",
        "error 7 \"1500ms\" the kernel counts this limit in whole seconds | -",
    ),
    (
        "[limits]\nhello = 65536",
        "error 7 65536 expected a size, such as `\"16KiB\"`, found a whole number | give a unit: `\"65536B\"`",
    ),
    ("[limits]\nhello = \"1MiB\"", "error 7 \"1MiB\" 1MiB is out of range | -"),
    ("listen-mode = \"0999\"", "error 6 \"0999\" `0999` is not a file mode | -"),
    // Words.
    (
        "balance = \"least-connection\"",
        "error 6 \"least-connection\" `least-connection` is not one of the possible values | did you mean `least-connections`?",
    ),
    ("policy = \"2026-10\"", "error 6 \"2026-10\" `2026-10` is no policy | did you mean `2026-11`?"),
    (
        "versions = [\"1.3\", \"1.1\"]",
        "error 6 \"1.1\" `1.1` is not supported: it rests on SHA-1 and MD5, and RFC 8996 forbids it | -",
    ),
    (
        "send-proxy = true",
        "error 6 send-proxy unknown key `send-proxy` in [[service]] | PROXY headers have their own section: [service.proxy-protocol] with `accept-from` and `send`",
    ),
    (
        "client = true",
        "error 6 client unknown key `client` in [[service]] | for clients in plain text and TLS towards the backends, write `client-tls = false` and `backend-tls = {}` in [[service]]",
    ),
    (
        "CAfile = \"ca.pem\"",
        "error 6 CAfile unknown key `CAfile` in [[service]] | `ca` belongs in [service.client-certificates]",
    ),
    (
        "ssl_certificate = \"a.pem\"",
        "error 6 ssl_certificate unknown key `ssl_certificate` in [[service]] | did you mean `certificate`?",
    ),
    (
        "groups = [\"X25519\", \"P-256\"]",
        "error 6 \"P-256\" `P-256` is another program's name | write `secp256r1`",
    ),
    ("suites = []", "error 6 [] the list is empty | -"),
    (
        "policy = \"2026-11-modern\"\nversions = [\"1.2\"]",
        "error 7 [\"1.2\"] `suites` leave TLS 1.2, which is enabled, without any suite | -",
    ),
    ("alpn = [\"h2\", \"h2\"]", "error 6 \"h2\" written twice in this list | -"),
    (
        "alpn = [\"http2\"]",
        "warning 6 \"http2\" no client is known to ask for the protocol `http2` | did you mean `h2`?",
    ),
    (
        "[access-log]\nto = \"stdot\"",
        "error 7 \"stdot\" `stdot` is not a place for a log | did you mean `stdout`?",
    ),
    (
        "[access-log]\nto = \"access.log\"",
        "error 7 \"access.log\" `access.log` is not a place for a log | a file here is `./access.log`",
    ),
    ("[access-log]\nto = \"logs/\"", "error 7 \"logs/\" `logs/` is a folder; a file is needed | -"),
    (
        "[admin]\nlisten = 7643",
        "error 7 7643 expected a text, such as `\"*:8443\"`, found a whole number | write `\"*:7643\"`",
    ),
    // Certificates and keys.
    ("key = \"certificates\"", "error 6 \"certificates\" `certificates` is a folder; a file is needed | -"),
    ("key = \"\"", "error 6 \"\" the path is empty | -"),
    ("key = \"~/site.key\"", "error 6 \"~/site.key\" `~` is not expanded | write the whole path"),
    (
        "client-certificates = { mode = \"require\" }",
        "error 6 { mode = \"require\" } client certificates are asked for, but no `ca` says whose are good | add `ca = \"clients-ca.pem\"`, the authorities that sign your clients' certificates, or `pinned` with these certificates",
    ),
    (
        "client-certificates = { mode = \"require\", ca = \"ca.pem\", pinned = \"clients.pem\" }",
        "error 6 \"clients.pem\" `ca` and `pinned` exclude each other | remove one of them",
    ),
    (
        "client-certificates = { mode = \"require\", ca = \"ca.pem\", verify = \"insecure-anything\" }",
        "error 6 \"insecure-anything\" `ca` and `verify` exclude each other | remove one of them",
    ),
    (
        "client-certificates = { mode = \"require\", verify = \"insecure-anything\", allow = \"cn:alice\" }",
        "error 6 \"cn:alice\" `cn:alice` identifies no client: with `insecure-anything`, each can write any name into its certificate | name public keys (`pin:sha256/…`), or verify by `ca` or `pinned`",
    ),
    (
        "client-certificates = { mode = \"require\", pinned = \"clients.pem\", crl = \"list.pem\" }",
        "error 6 \"list.pem\" `crl` has no effect with `pinned` | a revocation list is for certificates that an authority of `ca` signed",
    ),
    (
        "client-certificates = { mode = \"off\", ca = \"ca.pem\" }",
        "error 6 \"ca.pem\" client certificates are off, so `ca` has no effect | remove `ca`, or set the mode",
    ),
    (
        "client-certificates = { ca = \"ca.pem\" }",
        "error 6 { ca = \"ca.pem\" } [service.client-certificates] has no `mode` | add a line such as `mode = \"require\"`",
    ),
    // Contradictions.
    (
        "[process]\ngroup = \"www\"",
        "error 7 \"www\" a `group` without a `user`: the process would keep its user's rights | add `user`, or remove `group`",
    ),
    (
        "[process]\nuser = \"root\"",
        "warning 7 \"root\" `root` may do everything, which a proxy need not | name a user made for this service",
    ),
    (
        "[limits]\nconnect = \"1m\"",
        "warning 7 \"1m\" `connect` is never reached: `handshake` ends the connection after 10s | -",
    ),
    (
        "[limits]\nhalf-closed = \"2h\"",
        "warning 7 \"2h\" `half-closed` is never reached: `idle` ends the connection after 1h | -",
    ),
    (
        "[limits]\nidle = \"2h\"\nlifetime = \"1h30m\"",
        "warning 7 \"2h\" `idle` is never reached: `lifetime` ends the connection after 1h30m | -",
    ),
    (
        "[tickets]\nper-handshake = 0\nkey-file = \"t\"",
        "warning 8 \"t\" `key-file` has no effect: `per-handshake` is 0, no tickets are sent | -",
    ),
    (
        "listen-mode = \"0600\"",
        "warning 6 \"0600\" `listen-mode` has no effect: no listener is a unix socket | -",
    ),
    (
        "max-connections = 9\n[process]\nmax-connections = 8",
        "warning 6 9 `max-connections` is never reached: the whole process has fewer, see [process] | -",
    ),
    (
        "max-connections-per-address = 9\n[process]\nmax-connections = 8",
        "warning 6 9 `max-connections-per-address` is never reached: the whole service has fewer | -",
    ),
    // Source addresses of connections to backends.
    (
        "source = \"10.0.0.5:80\"",
        "error 6 \"10.0.0.5:80\" `10.0.0.5:80` is no source address | write `10.0.0.5`",
    ),
    (
        "source = \"::1\"",
        "error 6 \"::1\" no source address is an IPv4 one, as the backend `10.0.0.9:80` is | -",
    ),
    (
        "source = \"0.0.0.0\"",
        "error 6 \"0.0.0.0\" `0.0.0.0` is every address, and a connection has one | leave `source` away to let the kernel choose",
    ),
    (
        "source = [\"client\", \"127.0.0.2\"]",
        "error 6 [\"client\", \"127.0.0.2\"] `client` cannot be combined with addresses: a connection has one source | write `\"client\"`",
    ),
    (
        "source = \"client\"\n[process]\nuser = \"handfast\"",
        "error 6 \"client\" as user `handfast` it cannot use its clients' addresses (CAP_NET_ADMIN) | leave `process.user` away, and let systemd set it: `User=` with `AmbientCapabilities=CAP_NET_ADMIN`",
    ),
    // Admission of clients.
    (
        "allow-clients = \"10.1.2.3/8\"",
        "error 6 \"10.1.2.3/8\" `10.1.2.3/8` has bits of an address behind its length | write `10.0.0.0/8` for all of it, or `10.1.2.3` for this address alone",
    ),
    (
        "refuse-clients = [\"10.0.0.0/8\", \"office\"]",
        "error 6 \"office\" `office` is not an address prefix | names are not looked up: write addresses",
    ),
    ("allow-clients = []", "error 6 [] the list is empty | -"),
    (
        "allow-clients = [\"10.1.0.0/16\", \"::1\"]\nrefuse-clients = \"10.0.0.0/8\"",
        "warning 6 \"10.1.0.0/16\" `10.1.0.0/16` is never let in: `refuse-clients` wins | take it out of one of the lists",
    ),
    (
        "allow-clients = \"10.0.0.0/8\"\nrefuse-clients = \"192.0.2.1\"",
        "warning 7 \"192.0.2.1\" `192.0.2.1` is refused already: `allow-clients` does not have it | -",
    ),
    (
        "deny = \"192.0.2.1\"",
        "error 6 deny unknown key `deny` in [[service]] | did you mean `refuse-clients`?",
    ),
    (
        "handshake-rate = { burst = 5 }",
        "error 6 { burst = 5 } [service.handshake-rate] has no `per-second` | add a line such as `per-second = 10`",
    ),
    ("handshake-rate = { per-second = 5, prefix-v4 = 33 }", "error 6 33 33 is out of range | -"),
    (
        "handshake-rate = 10",
        "error 6 10 `handshake-rate` is a section, not a whole number | write `handshake-rate = { per-second = 10, burst = 50 }`",
    ),
    // PROXY headers.
    (
        "proxy-protocol = { accept-from = \"10.1.2.3/8\" }",
        "error 6 \"10.1.2.3/8\" `10.1.2.3/8` has bits of an address behind its length | write `10.0.0.0/8` for all of it, or `10.1.2.3` for this address alone",
    ),
    (
        "proxy-protocol = { accept-from = \"0.0.0.0/0\" }",
        "warning 6 \"0.0.0.0/0\" `0.0.0.0/0` covers every client: each must send a header, and can claim any address | list the addresses of the proxies in front",
    ),
    (
        "proxy-protocol = { accept-from = \"unix\" }",
        "warning 6 \"unix\" `unix` has no effect: no listener is a unix socket | -",
    ),
    (
        "proxy-protocol = { send = \"v3\" }",
        "error 6 \"v3\" `v3` is not one of the possible values | did you mean `v1`?",
    ),
    (
        "proxy-protocol = { }",
        "warning 6 { } [service.proxy-protocol] has no effect without `accept-from` or `send` | add one of them, or remove the section",
    ),
    (
        "proxy-protocol = { send = \"v1\", client-certificate = \"cn\" }",
        "error 6 \"cn\" only headers of version 2 can say something of the client's certificate | add `send = \"v2\"`, or remove `client-certificate`",
    ),
    (
        "proxy-protocol = { send = \"v2\", client-certificate = \"cn\" }",
        "warning 6 \"cn\" `client-certificate` has no effect: clients are not asked for certificates | add [service.client-certificates]",
    ),
    // Addresses.
    (
        "[admin]\nlisten = \"127.0.0.1:8443\"",
        "error 3 \"127.0.0.1:8443\" this address is listened on twice | -",
    ),
    (
        "[admin]\nlisten = \"10.0.0.1:7643\"",
        "warning 7 \"10.0.0.1:7643\" the admin listener has no authentication, and others than this machine can reach it | use a loopback address or a unix socket, and a tunnel to get there; or set `token-file`",
    ),
    (
        "[admin]\nlisten = \"127.0.0.1\"",
        "error 7 \"127.0.0.1\" `127.0.0.1` is not an address to listen on | add a port: `127.0.0.1:8443`",
    ),
    // Rules.
    (
        "[[service.rule]]\nbackend = \"a:1\"",
        "error 6 [[service.rule]] [[service.rule]] has no `names` | add a line such as `names = [\"a.example.org\", \"*.b.example.org\"]`",
    ),
    (
        "[[service.rule]]\nmatch = \"a.example\"",
        "error 7 match unknown key `match` in [[service.rule]] | did you mean `names`?",
    ),
    (
        "[[service.rule]]\nnames = \"*\"\n[[service.rule]]\nnames = \"*\"",
        "error 9 \"*\" `*` has a rule already, and the first one is used | -",
    ),
    (
        "[[service.rule]]\nnames = \"a.b\"\n[[service.rule]]\nnames = \"A.B\"",
        "error 9 \"A.B\" `a.b` has a rule already, and the first one is used | -",
    ),
    (
        "[[service.rule]]\nnames = \"a\"\nbackend = \"127.0.0.1:8443\"",
        "error 8 \"127.0.0.1:8443\" this backend is the service itself: connections would loop forever | -",
    ),
];

#[test]
fn one_changed_line_is_reported_with_its_place_and_cure() {
    let table = [
        (
            "listen = \"127.0.0.1:8443\"\n",
            "",
            "error 1 [[service]] [[service]] has no `listen` | add a line such as `listen = \"127.0.0.1:8443\"`",
        ),
        (
            "backend = \"10.0.0.9:80\"\n",
            "",
            "error 1 [[service]] [[service]] has no `backend` | add a line such as `backend = \"127.0.0.1:8080\"`",
        ),
        (
            "certificate = \"site.pem\"\n",
            "",
            "error 1 [[service]] [[service]] has no `certificate` | add a line such as `certificate = \"web.pem\"`",
        ),
        (
            "certificate",
            "certifcate",
            "error 5 certifcate unknown key `certifcate` in [[service]] | did you mean `certificate`?",
        ),
        (
            "certificate",
            "pem-file",
            "error 5 pem-file unknown key `pem-file` in [[service]] | did you mean `certificate`?",
        ),
        ("\"web\"", "\"my web\"", "error 2 \"my web\" `my web` cannot be a service's name | -"),
        ("\"site.pem\"", "[]", "error 5 [] the list is empty | -"),
        (
            "\"site.pem\"",
            "7",
            "error 5 7 expected a path of a PEM file or of a folder, or `\"acme\"`; or a list of such and of `{ certificate = \"chain.pem\", key = \"key.pem\", ocsp = \"response.der\" }`, found a whole number | -",
        ),
        ("\"site.pem\"", "[\"a.pem\", \"a.pem\"]", "error 5 \"a.pem\" written twice in this list | -"),
        (
            "\"site.pem\"",
            "\"certificates\"\nkey = \"k\"",
            "error 6 \"k\" `key` cannot go with a folder | put the key into the folder, in the certificate's file or beside it",
        ),
        (
            "\"site.pem\"",
            "[{ certificate = \"a.pem\" }]",
            "error 5 { certificate = \"a.pem\" } { certificate = …, key = …, ocsp = … } has no `key` | add a line such as `key = \"web.key\"`",
        ),
        (
            "\"127.0.0.1:8443\"",
            "8443",
            "error 3 8443 expected a text, such as `\"*:8443\"`, found a whole number | write `\"*:8443\"`",
        ),
        (
            "\"127.0.0.1:8443\"",
            "[\"*:1\", \"0.0.0.0:1\"]",
            "error 3 \"0.0.0.0:1\" `[::]` and `*` take IPv4 too, so `0.0.0.0` would be listened on twice | keep the one of them that you mean",
        ),
        (
            "\"127.0.0.1:8443\"",
            "[\"*:1\", \"[::]:1\"]",
            "error 3 \"[::]:1\" this address is listened on twice | -",
        ),
        (
            "\"127.0.0.1:8443\"",
            "[\"unix:/a\", \"unix:/a\"]",
            "error 3 \"unix:/a\" this address is listened on twice | -",
        ),
        (
            "\"127.0.0.1:8443\"",
            "[\"127.0.0.1:1\", \"0.0.0.0:1\"]",
            "warning 3 \"0.0.0.0:1\" `0.0.0.0:1` includes `127.0.0.1:1`: connections to that one go to the more exact listener | -",
        ),
        (
            "\"10.0.0.9:80\"",
            "\"127.0.0.1:8443\"",
            "error 4 \"127.0.0.1:8443\" this backend is the service itself: connections would loop forever | -",
        ),
        ("\"10.0.0.9:80\"", "[\"a:1\", \"A:1\"]", "error 4 \"A:1\" written twice in this list | -"),
        ("\"10.0.0.9:80\"", "[]", "error 4 [] the list is empty | -"),
        (
            "[[service]]",
            "listen = \"*:443\"\n[[service]]",
            "error 1 listen unknown key `listen` at the top of the file | `listen` belongs in [[service]]",
        ),
        (
            "[[service]]",
            "[service]",
            "error 1 [service] there may be several of these, so each begins with [[service]] | -",
        ),
    ];
    for (from, to, expected) in table {
        assert_eq!(problems(&WEB.replacen(from, to, 1)), [expected], "{from} → {to}");
    }
}

#[test]
fn listeners_that_are_not_the_same_are_not_reported() {
    for listen in [
        "[\"127.0.0.1:0\", \"127.0.0.1:0\"]",
        "[\"0.0.0.0:1\", \"[::1]:1\"]",
        "[\"127.0.0.1:1\", \"[::1]:1\"]",
    ] {
        good(&WEB.replace("\"127.0.0.1:8443\"", listen));
    }
}

#[test]
fn two_services_may_not_share_a_name_or_an_address() {
    assert_eq!(
        problems(&format!("{WEB}{WEB}")),
        [
            "error 7 \"web\" two services are called `web` | metrics and logs need different names",
            "error 8 \"127.0.0.1:8443\" this address is listened on twice | -",
        ]
    );
}

#[test]
fn a_file_without_services_says_how_to_begin() {
    for text in ["", "# nothing\n", "[process]\nthreads = 1\n"] {
        assert_eq!(problems(text).len(), 1, "{text}");
        assert!(problems(text)[0].contains("there is no service | write [[service]]"), "{text}");
    }
}

#[test]
fn everything_that_is_wrong_is_reported_in_the_order_of_the_file() {
    let text = "[process]\nthread = 4\ndrain = 10\n[[service]]\nname = \"a b\"\nlisten = [\"8443\", \"x\"]\nbackends = 1\n\
                certificate = \"a.pem\"\nsuites = [\"x\", \"TLS_AES_128_GCM_SHA256\", \"y\"]\n[service.limits]\nhello = \"1k\"\n";
    let lines: Vec<usize> = read(text).expect_err("nothing is right").iter().map(Problem::line).collect();
    assert_eq!(lines, [2, 3, 5, 6, 6, 7, 9, 9, 11]);
}

#[test]
fn problems_without_end_are_cut() {
    let text: String = (0..10_000).map(|number| format!("key-{number} = 1\n")).collect();
    let text = format!("[process]\n{text}");
    let problems = read(&text).expect_err("no key is known");
    assert!((100..=1000).contains(&problems.len()), "{}", problems.len());
}

#[test]
fn the_second_place_is_the_first_use() {
    let text = format!(
        "{WEB}[[service]]\nname = \"web\"\nlisten = \"*:1\"\nbackend = \"a:1\"\ncertificate = \"b.pem\"\n"
    );
    let problems = read(&text).expect_err("a name twice");
    let (first, why) = problems[0].see.clone().expect("a second place");
    let Place::Text { span, text: seen, .. } = first else { panic!("{first:?}") };
    assert_eq!((seen.as_str(), why.as_str()), ("\"web\"", "the first one"));
    assert!(span.end < WEB.len());
}
