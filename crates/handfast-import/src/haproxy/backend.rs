//! `backend`: servers, TLS towards them, checks, and what a service has once for all of its backends.

use super::grammar::Line;
use super::proxy::Proxy;
use super::rows;
use super::state::Import;
use super::tls::in_base;
use super::value::{bounded, time};
use crate::address::Address;
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::{Section, Value, table};

/// A server with its options, those of `default-server` first.
#[derive(Clone, Debug)]
pub(super) struct Server<'d> {
    pub(super) line: &'d Line,
    options: Vec<(String, String)>,
}

impl Server<'_> {
    /// The value of an option, unless a later `no-` option turns it off.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let of = |(option, _): &&(String, String)| {
            option == name
                || option.strip_prefix("no-") == Some(name)
                || (name == "disabled" && option == "enabled")
        };
        self.options
            .iter()
            .rev()
            .find(of)
            .filter(|(option, _)| option == name)
            .map(|(_, value)| value.as_str())
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }
}

/// A converted backend, with its requirements on the service that uses it.
#[derive(Debug)]
pub(super) struct Backend<'d> {
    pub(super) proxy: Proxy<'d>,
    /// Without any, requests receive 503.
    pub(super) has_servers: bool,
    /// The keys of a route, or of a rule: `backend`, `sticky`, and TLS.
    pub(super) draft: Draft,
    pub(super) check: Option<Section>,
    balance: &'static str,
    header: &'static str,
    pub(super) is_h2: bool,
    at_once: Option<i64>,
    queued: Option<i64>,
    slow_start: Option<String>,
    source: Option<String>,
}

impl<'d> Import<'d> {
    /// Reads a backend. `port`: that of the frontend, for servers without one.
    pub(super) fn backend(&mut self, proxy: &Proxy<'d>, port: Option<u16>) -> Backend<'d> {
        let servers: Vec<Server<'d>> =
            proxy.servers().into_iter().map(|line| self.server(line, proxy)).collect();
        let mut backend = Backend {
            proxy: proxy.clone(),
            has_servers: !proxy.is_empty(),
            draft: Draft::default(),
            check: None,
            balance: "round-robin",
            header: "off",
            is_h2: false,
            at_once: None,
            queued: None,
            slow_start: None,
            source: None,
        };
        let mut addresses: Vec<String> = Vec::new();
        for server in &servers {
            let Some(address) = self.address(server, port) else { continue };
            if addresses.contains(&address) {
                let effect = "an address is a backend once: give it the weight of both";
                self.note(server.line, Fate::Approximated, effect);
                continue;
            }
            addresses.push(address.clone());
            let value = self.entry(server, address);
            backend.draft.of("").append("backend", value);
        }
        if let Some(first) = servers.first() {
            self.of_all_servers(first, &servers, &mut backend);
            backend.check = self.check_of(proxy, &servers);
        }
        if servers.len() > 1 {
            self.balance(proxy, &mut backend);
            self.cookie(proxy, &servers, &mut backend);
            let backups = servers.iter().filter(|server| server.has("backup")).count();
            if backups > 1 && !proxy.has(&["option", "allbackups"]) {
                let effect = "all backups share the requests, not the first one alone";
                self.note_of(&proxy.section.head, &proxy.section.head.text(), Fate::Approximated, effect);
            }
        }
        if let Some(line) = proxy.last(&["source"]) {
            backend.source = self.source(line, line.word(1), line.from(2));
        }
        backend
    }

    fn server(&mut self, line: &'d Line, proxy: &Proxy<'d>) -> Server<'d> {
        let mut options = Vec::new();
        let mut inherited = proxy.all(&["default-server"]);
        inherited.push(line);
        for from in inherited {
            let skipped = if from.word(0) == "server" { 3 } else { 1 };
            let mut words = from.from(skipped).iter();
            while let Some(word) = words.next() {
                let name = rows::option_of("server", word);
                let start = from.words[..skipped.min(2)].join(" ");
                let Some(row) = rows::of(&name) else {
                    self.notes.report_unknown(&rows::ROWS, &from.place, &format!("{start} {word}"));
                    continue;
                };
                let value = if row.is_flag() { None } else { words.next().cloned() };
                let text = value.as_ref().map_or_else(|| word.clone(), |value| format!("{word} {value}"));
                self.notes.report(row, &from.place, &format!("{start} {text}"), "");
                options.push((word.clone(), value.unwrap_or_default()));
            }
        }
        Server { line, options }
    }

    fn address(&mut self, server: &Server<'d>, port: Option<u16>) -> Option<String> {
        let address = backend(server.line.word(2), port);
        if address.is_none() {
            let effect = "expected an address and a port, or `unix@` and a path";
            self.note(server.line, Fate::Refused, effect);
        }
        address
    }

    /// An entry of `backend`.
    fn entry(&mut self, server: &Server<'d>, address: String) -> Value {
        let mut keys: Vec<(&str, Value)> = Vec::new();
        if server.has("disabled") {
            keys.push(("weight", 0.into()));
        } else if let Some(weight) = server.text("weight") {
            match weight.parse::<i64>() {
                Ok(1) => {}
                Ok(weight @ 0..=256) => keys.push(("weight", weight.into())),
                _ => self.note_of(
                    server.line,
                    &format!("weight {weight}"),
                    Fate::Refused,
                    "expected a weight from 0 to 256",
                ),
            }
        }
        if server.has("backup") {
            keys.push(("backup", true.into()));
        }
        if keys.is_empty() {
            return address.into();
        }
        keys.insert(0, ("address", address.into()));
        table(keys)
    }

    /// Converts the settings that all servers of a backend must share: TLS and the PROXY header.
    fn of_all_servers(&mut self, first: &Server<'d>, servers: &[Server<'d>], backend: &mut Backend<'d>) {
        const TLS: [&str; 13] = [
            "ssl",
            "verify",
            "ca-file",
            "crl-file",
            "sni",
            "verifyhost",
            "crt",
            "alpn",
            "proto",
            "ssl-min-ver",
            "ssl-max-ver",
            "ciphers",
            "ciphersuites",
        ];
        const HEADER: [&str; 4] =
            ["send-proxy", "send-proxy-v2", "send-proxy-v2-ssl", "send-proxy-v2-ssl-cn"];
        for name in TLS.iter().chain(&HEADER) {
            if let Some(other) = servers.iter().find(|other| other.text(name) != first.text(name)) {
                let effect = format!("{name}: all servers of a backend have the same");
                self.note(other.line, Fate::Refused, effect);
            }
        }
        if first.has("ssl") {
            self.server_tls(first, backend);
        }
        backend.header = match HEADER.map(|name| first.has(name)) {
            [_, true, ..] | [_, _, true, _] | [_, _, _, true] => "v2",
            [true, ..] => "v1",
            _ => "off",
        };
        let protocol = first.text("proto").or(first.text("alpn")).unwrap_or_default();
        backend.is_h2 = protocol == "h2";
        if protocol.contains("h2,") && self.is_http {
            self.note_of(
                first.line,
                &format!("alpn {protocol}"),
                Fate::Approximated,
                "backends are asked by HTTP/1.1",
            );
        }
        if self.is_http {
            let numbers = |name: &str| {
                servers.iter().filter_map(|server| server.text(name)?.parse::<i64>().ok()).collect::<Vec<_>>()
            };
            let most = numbers("maxconn");
            backend.at_once = most.iter().max().copied().filter(|most| *most > 0);
            if most.iter().any(|one| Some(*one) != backend.at_once)
                || (!most.is_empty() && most.len() < servers.len())
            {
                let effect = "the backends of a service have one limit, the largest";
                self.note_of(first.line, "maxconn", Fate::Approximated, effect);
            }
            backend.queued = numbers("maxqueue").into_iter().max().filter(|most| *most > 0);
        }
        if let Some(limited) = servers.iter().find(|server| server.has("maxconn")).filter(|_| !self.is_http) {
            let effect =
                "without HTTP, a backend has no limit of connections: write max-connections of the service";
            self.note_of(limited.line, "maxconn", Fate::Approximated, effect);
        }
        if let Some(text) = servers.iter().find_map(|server| server.text("slowstart")) {
            backend.slow_start = time(text).and_then(|time| bounded(time, 1_000, 86_400));
        }
        if let Some(text) = first.text("source") {
            backend.source = self.source(first.line, text, &[]);
        }
    }

    fn server_tls(&mut self, server: &Server<'d>, backend: &mut Backend<'d>) {
        let draft = &mut backend.draft;
        let (base, certificates) = (self.authority_base.clone(), self.certificate_base.clone());
        let name = match server.text("sni") {
            None => None,
            Some(text) => {
                let name = text.strip_prefix("str(").and_then(|text| text.strip_suffix(')'));
                let is_address = name.is_some_and(|name| name.parse::<std::net::IpAddr>().is_ok());
                if name.is_none() || is_address {
                    let effect = "the name of a backend is a fixed text: write sni str(NAME)";
                    self.note_of(server.line, &format!("sni {text}"), Fate::Refused, effect);
                }
                name
            }
        };
        let is_verified = server.text("verify").map_or(self.verifies_servers, |verify| verify == "required");
        if is_verified {
            match server.text("ca-file") {
                Some("@system-ca") => {}
                Some(file) if !file.starts_with('@') => {
                    draft.put("backend-tls", "ca", in_base(&base, file, self.folder))
                }
                _ => self.note(
                    server.line,
                    Fate::Refused,
                    "the server's certificate is verified: it needs ca-file, with a file",
                ),
            }
            match name.or(server.text("verifyhost")) {
                Some(name) => draft.put("backend-tls", "name", name),
                None => {
                    draft.put("backend-tls", "verify", "insecure-any-name");
                    let effect = "the name in the server's certificate is not verified, as before: remove `verify`, or write `name`";
                    self.note(server.line, Fate::Same, effect);
                }
            }
            if name.is_none() {
                draft.put("backend-tls", "server-name", "none");
            }
        } else {
            draft.put("backend-tls", "verify", "insecure-nothing");
            draft.put("backend-tls", "server-name", name.unwrap_or("none"));
            let effect = "the server's certificate is not verified, as before: remove `verify`, and name its authority in `ca`";
            self.note(server.line, Fate::Same, effect);
        }
        if let Some(file) = server.text("crt") {
            draft.put("backend-tls", "certificate", in_base(&certificates, file, self.folder));
        }
        if let Some(protocols) = server.text("alpn").filter(|_| !self.is_http) {
            draft.put("backend-tls", "alpn", crate::toml::list(protocols.split(',')));
        }
        let mut options = self.defaults_of("ssl-default-server");
        options.extend(server.options.iter().cloned());
        self.versions_and_suites(server.line, &options, backend.draft.of("backend-tls"));
    }

    fn source(&mut self, line: &'d Line, text: &str, rest: &[String]) -> Option<String> {
        let address = text
            .rsplit_once(':')
            .filter(|(_, port)| port.parse::<u16>().is_ok())
            .map_or(text, |(host, _)| host);
        let is_fixed = address
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| !address.is_unspecified());
        if !is_fixed || !rest.is_empty() || address != text {
            self.note(line, Fate::Refused, "expected an address of this machine, without a port or `usesrc`");
            return None;
        }
        Some(address.trim_matches(['[', ']']).to_owned())
    }

    fn balance(&mut self, proxy: &Proxy<'d>, backend: &mut Backend<'d>) {
        let Some(line) = proxy.last(&["balance"]) else { return };
        let (word, argument) = line
            .word(1)
            .split_once('(')
            .map_or((line.word(1), ""), |(word, rest)| (word, rest.trim_end_matches(')')));
        match word {
            "roundrobin" | "static-rr" => {}
            "leastconn" => backend.balance = "least-connections",
            "random" => backend.balance = "two-choices",
            "source" => {
                backend.balance = "source-hash";
                self.note(line, Fate::Approximated, "clients come to other backends than before");
            }
            "hdr" if self.is_http => {
                let effect = "clients come to other backends than before";
                self.note(line, Fate::Approximated, effect);
                backend.draft.put("", "sticky", table([("header", argument.to_ascii_lowercase().into())]));
            }
            _ => self.note(
                line,
                Fate::Refused,
                "backends are chosen in turn, by their connections, by the client's address or by a field",
            ),
        }
    }

    /// `cookie NAME insert`: the client stays at its server.
    fn cookie(&mut self, proxy: &Proxy<'d>, servers: &[Server<'d>], backend: &mut Backend<'d>) {
        let Some(line) = proxy.last(&["cookie"]).filter(|_| self.is_http) else { return };
        let has = |word: &str| line.from(2).iter().any(|written| written == word);
        if !servers.iter().any(|server| server.has("cookie")) && !has("dynamic") {
            self.note(line, Fate::Dropped, "no server has a cookie");
            return;
        }
        if !has("insert") || has("preserve") {
            self.note(
                line,
                Fate::Refused,
                "the cookie is one that Handfast makes (`insert`), and none of the application's",
            );
            return;
        }
        let mut keys = vec![("cookie", line.word(1).into())];
        if let Some(site) = line.words.iter().find_map(|word| word.strip_prefix("SameSite=")) {
            keys.push(("same-site", site.to_ascii_lowercase().into()));
        }
        backend.draft.put("", "sticky", table(keys));
        let effect = "the cookie has another value, which names no server: clients may come to another one once, and the cookie is HttpOnly";
        self.note(line, Fate::Approximated, effect);
    }

    /// Writes the settings that a service has once for all of its backends, and refuses backends that differ.
    pub(super) fn settle(&mut self, backends: &[Backend<'d>], service: &mut Draft) {
        let with_servers: Vec<&Backend<'d>> = backends.iter().filter(|backend| backend.has_servers).collect();
        let Some(first) = with_servers.first() else { return };
        for other in &with_servers[1..] {
            let head = &other.proxy.section.head;
            if other.header != first.header {
                self.note(
                    head,
                    Fate::Refused,
                    "send-proxy: all backends of a frontend receive the PROXY header, or none",
                );
            }
            if other.is_h2 != first.is_h2 && self.is_http {
                self.note(
                    head,
                    Fate::Refused,
                    "HTTP/2: all backends of a frontend are asked by the same version",
                );
            }
            if other.source != first.source {
                self.note(head, Fate::Refused, "source: all backends of a frontend have the same");
            }
        }
        if first.header != "off" {
            service.put("proxy-protocol", "send", first.header);
            if self.is_http {
                // A connection with a header is of one client.
                service.put("http", "pool", 0);
            }
        }
        if first.is_h2 && self.is_http {
            service.put("http", "backend-version", "h2");
        }
        if let Some(source) = &first.source {
            service.put("", "source", source.as_str());
        }
        let balanced: Vec<_> =
            with_servers.iter().filter(|backend| backend.proxy.servers().len() > 1).collect();
        if let Some(chosen) = balanced.first() {
            if chosen.balance != "round-robin" {
                service.put("", "balance", chosen.balance);
            }
            if let Some(other) = balanced.iter().find(|other| other.balance != chosen.balance) {
                let effect = format!("a service has one way to choose backends, here {}", chosen.balance);
                self.note_of(&other.proxy.section.head, "balance", Fate::Approximated, effect);
            }
        }
        if let Some(slow) = with_servers.iter().find_map(|backend| backend.slow_start.clone()) {
            service.put("", "slow-start", slow);
        }
        self.limits_of_servers(&with_servers, service);
        self.settle_check(&with_servers, service);
    }

    fn limits_of_servers(&mut self, backends: &[&Backend<'d>], service: &mut Draft) {
        let limits: Vec<_> = backends.iter().map(|backend| backend.at_once).collect();
        let Some(most) = limits.iter().flatten().max() else { return };
        let head = &backends[0].proxy.section.head;
        if limits.contains(&None) {
            let effect = "not every backend of the frontend has a limit, and a service has one for all: none is written";
            self.note_of(head, "maxconn", Fate::Approximated, effect);
            return;
        }
        service.put("http", "max-requests", *most);
        if limits.iter().any(|limit| *limit != Some(*most)) {
            let effect = format!("the backends of a service have one limit: maxconn {most}");
            self.note_of(head, "maxconn", Fate::Approximated, effect);
        }
        let waits =
            backends[0].proxy.last(&["timeout", "queue"]).or(backends[0].proxy.last(&["timeout", "connect"]));
        let wait = waits.and_then(|line| time(line.word(2))).and_then(|time| bounded(time, 1, 3_600));
        let length = backends.iter().filter_map(|backend| backend.queued).max().unwrap_or(1_000_000);
        let mut queue: Vec<(&str, Value)> = vec![("length", length.min(1_000_000).into())];
        queue.push(("timeout", wait.unwrap_or_else(|| "1h".into()).into()));
        service.put("http", "queue", table(queue));
    }
}

/// The address of a server as Handfast writes it.
pub(super) fn backend(text: &str, port: Option<u16>) -> Option<String> {
    if let Some(path) = text.strip_prefix("unix@").or(text.starts_with('/').then_some(text)) {
        return Some(format!("unix:{path}"));
    }
    let text = ["ipv4@", "ipv6@", "tcp@", "tcp4@", "tcp6@"]
        .iter()
        .find_map(|kind| text.strip_prefix(kind))
        .unwrap_or(text);
    if text.contains(['@', '*', '+']) || text.is_empty() {
        return None;
    }
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    let bare = text.trim_matches(['[', ']']);
    let text = match (has_port, bare.parse::<std::net::Ipv6Addr>()) {
        (true, _) => text.to_owned(),
        // `::1:80` without brackets has its port behind the last colon.
        (false, Ok(_)) if text.starts_with('[') => format!("{text}:{}", port?),
        (false, _) if text.contains(':') => text.to_owned(),
        (false, _) => format!("{text}:{}", port?),
    };
    let address = Address::parse(&text)?;
    let is_any = matches!(&address, Address::Tcp(Some(host), _) if host == "0.0.0.0" || host == "::");
    (!is_any && !matches!(&address, Address::Tcp(None, _))).then(|| address.backend(""))
}
