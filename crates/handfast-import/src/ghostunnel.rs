//! Converts ghostunnel's command line; `ROWS` has the conversion of each flag.

mod durations;

use std::path::Path;

use crate::address::Address;
use crate::draft::{Draft, Whole};
use crate::imported::{ImportError, Imported, in_folder};
use crate::note::Fate::{self, Approximated, Dropped, Refused, Same};
use crate::note::{Notes, Place};
use crate::row::Scope::{Global, Service};
use crate::row::{Row, row};
use crate::toml::{list, table};

const STORE: &str = "keys are read from files, PEM or PKCS#12 without a password: `openssl pkcs12 -in FILE -nodes -out FILE.pem` takes one away";
const METRICS: &str = "metrics are fetched by Prometheus from the admin address";
const CERTIFICATES: &str =
    "certificates are read from files; a program such as certbot or spiffe-helper writes them";
const OPA: &str = "rules are written in allow and refuse";

/// The flags of ghostunnel 1.7 and 1.8.
pub(crate) const ROWS: [Row; 72] = [
    row("listen", Service, Same, "--listen=127.0.0.1:9443", "listen = [\"127.0.0.1:9443\"]", ""),
    row("target", Service, Same, "--target=127.0.0.1:81", "backend = [\"127.0.0.1:81\"]", ""),
    row("cert", Service, Same, "--cert=a.pem --key=a.key", "certificate = \"a.pem\"", ""),
    row("key", Service, Same, "--cert=a.pem --key=a.key", "key = \"a.key\"", ""),
    row("cacert", Service, Same, "--cacert=ca.pem", "ca = \"ca.pem\"", ""),
    row(
        "keystore",
        Service,
        Same,
        "--keystore=a.pem",
        "certificate = [\"a.pem\"]",
        "PEM with the chain and the key, or PKCS#12 without a password",
    ),
    row("storepass", Service, Refused, "--storepass=x", "", STORE),
    row("keychain-identity", Service, Refused, "--keychain-identity=x", "", STORE),
    row("keychain-issuer", Service, Refused, "--keychain-issuer=x", "", STORE),
    row("keychain-serial", Service, Refused, "--keychain-serial=x", "", STORE),
    row("keychain-require-token", Service, Refused, "--keychain-require-token", "", STORE),
    row("pkcs11-module", Service, Refused, "--pkcs11-module=x", "", STORE),
    row("pkcs11-token-label", Service, Refused, "--pkcs11-token-label=x", "", STORE),
    row("pkcs11-pin", Service, Refused, "--pkcs11-pin=x", "", STORE),
    row("use-workload-api", Service, Refused, "--use-workload-api", "", CERTIFICATES),
    row("use-workload-api-addr", Service, Refused, "--use-workload-api-addr=unix:/x", "", CERTIFICATES),
    row("auto-acme-cert", Service, Refused, "--auto-acme-cert=a.example", "", CERTIFICATES),
    row("auto-acme-email", Service, Dropped, "--auto-acme-email=a@b.example", "", CERTIFICATES),
    row("auto-acme-agree-to-tos", Service, Dropped, "--auto-acme-agree-to-tos", "", CERTIFICATES),
    row("auto-acme-ca", Service, Dropped, "--auto-acme-ca=x", "", CERTIFICATES),
    row("auto-acme-testca", Service, Dropped, "--auto-acme-testca=x", "", CERTIFICATES),
    row(
        "allow-all",
        Service,
        Same,
        "--allow-all",
        "mode = \"require\"",
        "every client with a good certificate",
    ),
    row("allow-cn", Service, Same, "--allow-cn=alice", "allow = [\"cn:alice\"]", ""),
    row(
        "allow-ou",
        Service,
        Refused,
        "--allow-ou=ops",
        "",
        "organizational units alone are no rule: use names, or subject: with the whole of it",
    ),
    row("allow-dns", Service, Same, "--allow-dns=a.example", "allow = [\"dns:a.example\"]", ""),
    row("allow-dns-san", Service, Same, "--allow-dns-san=a.example", "allow = [\"dns:a.example\"]", ""),
    row("allow-ip", Service, Same, "--allow-ip=192.0.2.1", "allow = [\"ip:192.0.2.1\"]", ""),
    row("allow-ip-san", Service, Same, "--allow-ip-san=192.0.2.1", "allow = [\"ip:192.0.2.1\"]", ""),
    row(
        "allow-uri",
        Service,
        Same,
        "--allow-uri=spiffe://a/*",
        "allow = [\"spiffe://a/*\"]",
        "* is one part of a path, ** at the end all below, as in ghostunnel",
    ),
    row("allow-uri-san", Service, Same, "--allow-uri-san=spiffe://a/b", "allow = [\"spiffe://a/b\"]", ""),
    row("allow-policy", Service, Refused, "--allow-policy=x", "", OPA),
    row("allow-query", Service, Refused, "--allow-query=x", "", OPA),
    row(
        "disable-authentication",
        Service,
        Same,
        "--disable-authentication",
        "",
        "for a server: clients are not asked; for a client: no certificate of ours is shown",
    ),
    row(
        "override-server-name",
        Service,
        Same,
        "--override-server-name=a.example",
        "name = \"a.example\"",
        "",
    ),
    row(
        "verify-cn",
        Service,
        Refused,
        "--verify-cn=a",
        "",
        "names of backends are those in subjectAltName: use --verify-dns",
    ),
    row(
        "verify-ou",
        Service,
        Refused,
        "--verify-ou=a",
        "",
        "names of backends are those in subjectAltName: use --verify-dns",
    ),
    row("verify-dns", Service, Same, "--verify-dns=a.example", "name = \"a.example\"", "one name"),
    row("verify-dns-san", Service, Same, "--verify-dns-san=a.example", "name = \"a.example\"", "one name"),
    row("verify-ip", Service, Same, "--verify-ip=192.0.2.1", "name = \"192.0.2.1\"", "one address"),
    row("verify-ip-san", Service, Same, "--verify-ip-san=192.0.2.1", "name = \"192.0.2.1\"", "one address"),
    row(
        "verify-uri",
        Service,
        Refused,
        "--verify-uri=spiffe://a/b",
        "",
        "of backends URIs are not checked: pin their keys",
    ),
    row(
        "verify-uri-san",
        Service,
        Refused,
        "--verify-uri-san=spiffe://a/b",
        "",
        "of backends URIs are not checked: pin their keys",
    ),
    row("verify-policy", Service, Refused, "--verify-policy=x", "", OPA),
    row("verify-query", Service, Refused, "--verify-query=x", "", OPA),
    row(
        "proxy",
        Service,
        Same,
        "--proxy=http://127.0.0.1:3128",
        "address = \"127.0.0.1:3128\"",
        "http:// and socks5://; older versions call it connect-proxy",
    ),
    row(
        "connect-proxy",
        Service,
        Same,
        "--connect-proxy=http://127.0.0.1:3128",
        "address = \"127.0.0.1:3128\"",
        "http:// and socks5://",
    ),
    row("unsafe-target", Service, Dropped, "--unsafe-target", "", "backends may be anywhere"),
    row("unsafe-listen", Service, Dropped, "--unsafe-listen", "", "it may listen on any address"),
    row("proxy-protocol", Service, Same, "--proxy-protocol", "send = \"v2\"", ""),
    row(
        "proxy-protocol-mode",
        Service,
        Approximated,
        "--proxy-protocol-mode=tls",
        "send = \"v2\"",
        "the header has the TLS facts in any case; conn: more than before, tls-full: the client's certificate too",
    ),
    row(
        "target-status",
        Service,
        Dropped,
        "--target-status=http://127.0.0.1:81/s",
        "",
        "backends are watched by [service.check]",
    ),
    row(
        "status",
        Global,
        Approximated,
        "--status=127.0.0.1:9902",
        "listen = \"127.0.0.1:9902\"",
        "plain HTTP, with /status, /ready, /live and /metrics",
    ),
    row("enable-pprof", Global, Dropped, "--enable-pprof", "", "it is about Go"),
    row("enable-shutdown", Global, Dropped, "--enable-shutdown", "", "TERM stops it"),
    row("metrics-graphite", Global, Dropped, "--metrics-graphite=127.0.0.1:2003", "", METRICS),
    row("metrics-url", Global, Dropped, "--metrics-url=http://x", "", METRICS),
    row("metrics-prefix", Global, Dropped, "--metrics-prefix=x", "", METRICS),
    row("metrics-interval", Global, Dropped, "--metrics-interval=30s", "", METRICS),
    row("syslog", Global, Dropped, "--syslog", "", "systemd puts what it writes into the journal"),
    row("eventlog", Global, Dropped, "--eventlog", "", "it is about Windows"),
    row(
        "quiet",
        Global,
        Dropped,
        "--quiet=all",
        "",
        "the access log has a line for each connection; access-log.to = \"off\" ends that",
    ),
    row(
        "skip-resolve",
        Service,
        Same,
        "--skip-resolve",
        "",
        "a name that does not resolve at the start is resolved again later",
    ),
    row(
        "timed-reload",
        Global,
        Same,
        "--timed-reload=90s",
        "watch-interval = \"1m30s\"",
        "changed files are always noticed at once",
    ),
    row(
        "shutdown-timeout",
        Global,
        Same,
        "--shutdown-timeout=7m",
        "drain = \"7m\"",
        "5m where it is not given",
    ),
    row(
        "connect-timeout",
        Service,
        Approximated,
        "--connect-timeout=7s",
        "connect = \"7s\"",
        "a client's handshake and connecting to the backend had this time each, and now have twice that together \
         (`handshake`); 10s where it is not given",
    ),
    row(
        "close-timeout",
        Service,
        Approximated,
        "--close-timeout=3s",
        "half-closed = \"3s\"",
        "the time that a connection has when one direction has ended: as long as nothing moves, and no more in all; 10s \
         where it is not given",
    ),
    row(
        "max-conn-lifetime",
        Service,
        Same,
        "--max-conn-lifetime=1h",
        "lifetime = \"1h\"",
        "from accept, not from the end of the handshake; 0s is no limit",
    ),
    row("max-concurrent-conns", Service, Same, "--max-concurrent-conns=100", "max-connections = 100", ""),
    row(
        "max-tls-version",
        Service,
        Same,
        "--max-tls-version=TLS1.2",
        "versions = [\"1.2\"]",
        "TLS1.3 is not written: it is on by default",
    ),
    row("use-landlock", Global, Dropped, "--use-landlock", "", "process.sandbox is on by default"),
    row(
        "allow-unsafe-cipher-suites",
        Service,
        Dropped,
        "--allow-unsafe-cipher-suites",
        "",
        "the policy's suites are used",
    ),
    row("cipher-suites", Service, Dropped, "--cipher-suites=AES,CHACHA", "", "the policy's suites are used"),
];

pub(crate) fn import(arguments: &[String], folder: &Path) -> Result<Imported, ImportError> {
    let flags = flags(arguments)?;
    let mut import =
        Import { flags, folder, notes: Notes::default(), draft: Draft::default(), whole: Whole::default() };
    import.process();
    import.sides();
    import.limits();
    import.tell();
    let Import { notes, draft, mut whole, .. } = import;
    let is_whole = !notes.refused_since(0);
    if is_whole {
        whole.services.push(draft);
    }
    let mut config = whole.write("ghostunnel's command line");
    if !is_whole {
        config.push_str("\n# The service is not here: something it needs was refused.\n");
    }
    Ok(Imported { config, notes: notes.0 })
}

/// The typed arguments.
struct Flags {
    is_client: bool,
    given: Vec<(&'static Row, String)>,
}

/// `server` or `client`, and flags as `--name=value` or `--name value`; `--no-name` takes one back.
fn flags(arguments: &[String]) -> Result<Flags, ImportError> {
    let (mut verb, mut given, mut problems) = (None, Vec::new(), Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            match argument.as_str() {
                word @ ("server" | "client") => verb = Some(word == "client"),
                word => problems.push(format!("{word:?}: expected `server`, `client` or a flag")),
            }
            continue;
        };
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let Some(row) = ROWS.iter().find(|row| row.name == name) else {
            let meant = handfast_text::suggest::did_you_mean(name, ROWS.iter().map(|row| row.name))
                .unwrap_or_default();
            problems.push(format!("--{name}: ghostunnel has no such flag{meant}"));
            continue;
        };
        let takes_value = row.example.split(' ').any(|example| example.starts_with(&format!("--{name}=")));
        let value = match value {
            Some(value) => value.to_owned(),
            None if takes_value => arguments.next().cloned().unwrap_or_default(),
            None => String::new(),
        };
        given.push((row, value));
    }
    if verb.is_none() {
        problems.push("expected `server` or `client`, and then ghostunnel's flags".to_owned());
    }
    if problems.is_empty() {
        Ok(Flags { is_client: verb == Some(true), given })
    } else {
        Err(ImportError::Grammar(problems))
    }
}

struct Import<'f> {
    flags: Flags,
    folder: &'f Path,
    notes: Notes,
    draft: Draft,
    whole: Whole,
}

impl Import<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.flags.given.iter().rev().find(|(row, _)| row.name == name).map(|(_, value)| value.clone())
    }

    fn all(&self, names: &[&str]) -> Vec<String> {
        self.flags
            .given
            .iter()
            .filter(|(row, _)| names.contains(&row.name))
            .map(|(_, value)| value.clone())
            .collect()
    }

    fn file(&self, name: &str) -> Option<String> {
        self.get(name).map(|path| in_folder(self.folder, &path))
    }

    fn note(&mut self, name: &str, fate: Fate, effect: &str) {
        self.notes.add(&Place::Flag, &format!("--{name}"), fate, effect);
    }

    fn process(&mut self) {
        let status = self.get("status");
        if let Some(status) = &status {
            let address = status.trim_start_matches("http://").trim_start_matches("https://");
            match Address::parse(address).and_then(|address| address.listener("127.0.0.1")) {
                Some(listener) => self.whole.admin.put("listen", listener),
                None => self.note("status", Refused, "expected an address and a port"),
            }
        }
    }

    fn address(&mut self, name: &'static str) -> Option<Address> {
        let text = self.get(name);
        let path = text.as_deref().and_then(|text| text.strip_prefix("unix:"));
        let address = match path {
            Some(path) => Some(Address::Unix(path.to_owned())),
            None => text.as_deref().and_then(Address::parse),
        };
        if address.is_none() {
            self.note(name, Refused, "expected HOST:PORT or unix:PATH");
        }
        address
    }

    fn sides(&mut self) {
        let name = if self.flags.is_client { "ghostunnel-client" } else { "ghostunnel" };
        self.draft.put("", "name", name);
        match self.address("listen").map(|address| address.listener("0.0.0.0")) {
            Some(Some(listener)) => self.draft.of("").append("listen", listener),
            Some(None) => self.note("listen", Refused, "names are not listened on: write the address"),
            None => {}
        }
        if let Some(address) = self.address("target") {
            self.draft.of("").append("backend", address.backend("localhost"));
        }
        if self.flags.is_client {
            self.client()
        } else {
            self.server()
        }
        if self
            .flags
            .given
            .iter()
            .any(|(row, _)| ["proxy-protocol", "proxy-protocol-mode"].contains(&row.name))
        {
            self.draft.put("proxy-protocol", "send", "v2");
        }
        if self.get("proxy-protocol-mode").as_deref() == Some("tls-full") {
            self.draft.put("proxy-protocol", "client-certificate", "der");
        }
    }

    /// The chain and its key, from two files or from one.
    fn identity(&mut self) -> Option<(String, Option<String>)> {
        if let Some(cert) = self.file("cert") {
            return Some((cert, self.file("key")));
        }
        Some((self.file("keystore")?, None))
    }

    fn server(&mut self) {
        match self.identity() {
            Some((cert, None)) => self.draft.of("").append("certificate", cert),
            Some((cert, Some(key))) => {
                let pair = table([("certificate", cert.into()), ("key", key.into())]);
                self.draft.of("").append("certificate", pair);
            }
            None => self.note("cert", Refused, "a server needs a certificate"),
        }
        if self.get("disable-authentication").is_some() {
            return;
        }
        let mut allow = Vec::new();
        for (names, word) in [
            (&["allow-cn"][..], "cn:"),
            (&["allow-dns", "allow-dns-san"], "dns:"),
            (&["allow-ip", "allow-ip-san"], "ip:"),
            (&["allow-uri", "allow-uri-san"], ""),
        ] {
            for value in self.all(names) {
                let word = if word.is_empty() && !value.starts_with("spiffe://") { "uri:" } else { word };
                allow.push(format!("{word}{value}"));
            }
        }
        let everybody = self.get("allow-all").is_some();
        let section = "client-certificates";
        self.draft.put(section, "mode", "require");
        match self.file("cacert") {
            Some(path) => self.draft.put(section, "ca", path),
            None => self.note(
                "cacert",
                Refused,
                "whose certificates are good? the machine's own list is for servers",
            ),
        }
        match (everybody, allow.is_empty()) {
            (true, _) => {}
            (false, false) => self.draft.put(section, "allow", list(allow)),
            (false, true) => {
                self.note("allow-all", Refused, "expected --allow-…, --allow-all or --disable-authentication")
            }
        }
    }

    fn client(&mut self) {
        let section = "backend-tls";
        self.draft.put("", "client-tls", false);
        self.draft.put(section, "mode", "tls");
        if let Some((cert, key)) = self.identity().filter(|_| self.get("disable-authentication").is_none()) {
            self.draft.put(section, "certificate", cert);
            if let Some(key) = key {
                self.draft.put(section, "key", key);
            }
        }
        if let Some(path) = self.file("cacert") {
            self.draft.put(section, "ca", path);
        }
        let names =
            self.all(&["verify-dns", "verify-dns-san", "verify-ip", "verify-ip-san", "override-server-name"]);
        match names.as_slice() {
            [] => {}
            [name] => self.draft.put(section, "name", name.as_str()),
            _ => self.note("verify-dns", Refused, "one name is checked, not one of several"),
        }
        let Some(proxy) = self.get("proxy").or_else(|| self.get("connect-proxy")) else { return };
        let (kind, address) = proxy.split_once("://").unwrap_or(("http", &proxy));
        let kind = if kind.starts_with("socks5") { "socks5" } else { "http" };
        match Address::parse(address.trim_end_matches('/')) {
            Some(address) => {
                self.draft.put("connect-through", "type", kind);
                self.draft.put("connect-through", "address", address.backend("localhost"));
            }
            None => self.note("connect-proxy", Refused, "expected http://HOST:PORT or socks5://HOST:PORT"),
        }
    }

    fn limits(&mut self) {
        self.durations();
        match self.get("max-tls-version").as_deref() {
            None | Some("" | "TLS1.3") => {}
            Some("TLS1.2") if self.flags.is_client => {
                self.draft.put("backend-tls", "versions", list(["1.2"]))
            }
            Some("TLS1.2") => self.draft.put("", "versions", list(["1.2"])),
            Some(_) => self.note("max-tls-version", Refused, "expected TLS1.2 or TLS1.3"),
        }
        let Some(value) = self.get("max-concurrent-conns") else { return };
        match value.parse::<i64>() {
            Ok(0) => {}
            Ok(count @ 1..) => self.draft.put("", "max-connections", count),
            _ => self.note("max-concurrent-conns", Refused, "expected a number"),
        }
    }

    /// The notes of the table.
    fn tell(&mut self) {
        for (row, value) in &self.flags.given {
            if row.fate != Same && !(row.name == "quiet" && value.is_empty()) {
                self.notes.add(&Place::Flag, &format!("--{}", row.name), row.fate, row.effect);
            }
        }
    }
}
