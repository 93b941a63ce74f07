//! A frontend becomes a service for each kind of its addresses. Its rules, and those of its backends, become routes.

use std::collections::BTreeMap;

use super::around::Around;
use super::backend::Backend;
use super::grammar::Line;
use super::listen::Bind;
use super::pages::{self, Pages};
use super::proxy::Proxy;
use super::rules::{Action, OfResponses};
use super::state::Import;
use super::value::{ServiceFacts, bounded, time};
use super::walk::{Cell, End, Walk};
use crate::address::listeners;
use crate::cells::{Changes, Formula, add_route, covers};
use crate::draft::{Draft, WholeDraft};
use crate::note::{Fate, Outcome};
use crate::toml::{Value, list, table};

/// Number of the first phase of a backend's rules, after those of its frontend.
const BACKEND_RULES_START: usize = 10;

impl<'d> Import<'d> {
    /// Adds the services of a frontend or `listen`. `of_all`: the conversion of what all services have.
    pub(super) fn services(&mut self, proxy: &Proxy<'d>, of_all: Outcome, whole: &mut WholeDraft) {
        let before = self.notes.mark();
        let lines: Vec<_> = proxy.section.lines.iter().filter(|line| line.begins(&["bind"])).collect();
        let groups = self.binds(&lines);
        let is_alone = groups.len() == 1;
        // A refused `bind` concerns all services of the proxy: a redirect to an address that does not exist helps no client.
        let of_all = of_all.max(self.notes.outcome_since(before));
        for group in &groups {
            let kind = match (is_alone, group[0].has("ssl")) {
                (true, _) => "",
                (false, true) => "-tls",
                (false, false) => "-plain",
            };
            let name = self.new_name(&format!("{}{kind}", proxy.name()));
            let before = self.notes.mark();
            let service = self.service(&name, proxy, group);
            whole.add(name, service, of_all.max(self.notes.outcome_since(before)));
        }
    }

    fn service(&mut self, name: &str, proxy: &Proxy<'d>, group: &[Bind<'d>]) -> Draft {
        let mut service = Draft::default();
        let addresses: Vec<_> = group.iter().flat_map(|bind| bind.addresses.iter()).collect();
        let first = &group[0];
        self.is_http = proxy.is_http();
        if let Some(mode) = proxy.last(&["mode"]).filter(|mode| !["tcp", "http"].contains(&mode.word(1))) {
            self.note(mode, Fate::Refused, "expected `tcp` or `http`");
        }
        self.is_forwarded = false;
        service.put("", "name", name);
        service.put("", "listen", listeners(addresses.iter().map(|(address, _)| address)));
        if self.is_http {
            service.put("", "mode", "http");
        }
        self.report_proxy(proxy);
        let ports: Vec<_> = addresses.iter().map(|(_, port)| *port).collect();
        let port =
            ports.first().copied().flatten().filter(|first| ports.iter().all(|port| *port == Some(*first)));
        let facts = ServiceFacts { has_tls: first.has("ssl"), port };
        let is_passed_through = !facts.has_tls && !self.is_http && reads_hello(proxy);
        if facts.has_tls {
            self.client_tls(first, &proxy.own(&["ssl-f-use"]), &mut service);
            if let Some(protocols) = first.text("alpn") {
                self.protocols(protocols, &mut service);
            }
        } else if is_passed_through {
            service.put("", "pass-through", true);
            let effect = "clients that do not speak TLS are refused";
            self.note(&proxy.section.head, Fate::Approximated, effect);
        } else {
            service.put("", "client-tls", false);
        }
        self.of_sockets(group, &mut service);
        if let Some(line) = proxy.last(&["maxconn"]).filter(|line| line.word(1) != "0") {
            service.put("", "max-connections", line.word(1).parse::<i64>().unwrap_or(1).clamp(1, 10_000_000));
        }
        if self.is_http {
            compression(proxy, &mut service);
        }
        self.routes(proxy, facts, is_passed_through, first.has("accept-proxy"), &mut service);
        service
    }

    /// ALPN: in HTTP mode the two versions of HTTP.
    fn protocols(&mut self, protocols: &str, service: &mut Draft) {
        if !self.is_http {
            service.put("", "alpn", list(protocols.split(',')));
        } else if !protocols.split(',').any(|protocol| protocol == "h2") {
            service.put("", "alpn", list(["http/1.1", "http/1.0"]));
        }
    }

    /// Options of addresses.
    fn of_sockets(&mut self, group: &[Bind<'d>], service: &mut Draft) {
        let first = &group[0];
        if first.has("accept-proxy") {
            let is_unix = |(address, _): &(String, Option<u16>)| address.starts_with("unix:");
            let has_unix = group.iter().any(|bind| bind.addresses.iter().any(is_unix));
            let has_tcp = group.iter().any(|bind| !bind.addresses.iter().all(is_unix));
            for (from, is_there) in [("0.0.0.0/0", has_tcp), ("::/0", has_tcp), ("unix", has_unix)] {
                if is_there {
                    service.of("proxy-protocol").append("accept-from", from);
                }
            }
        }
        if let Some(mode) = group.iter().find_map(|bind| bind.text("mode")) {
            service.put("", "listen-mode", format!("0{}", mode.trim_start_matches('0')));
        }
        if let Some(wait) = first.text("tcp-ut").and_then(time).and_then(|time| bounded(time, 1_000, 3_600)) {
            service.put("limits", "tcp-user-timeout", wait);
        }
    }

    fn routes(
        &mut self,
        proxy: &Proxy<'d>,
        facts: ServiceFacts,
        is_passed_through: bool,
        accepts_header: bool,
        service: &mut Draft,
    ) {
        let folder = self.folder;
        let empty: Vec<String> = self
            .proxies
            .iter()
            .filter(|other| other.kind() != "frontend" && other.is_empty())
            .map(|other| other.name().to_owned())
            .collect();
        let around = |proxy: Proxy<'d>| Around {
            proxy,
            facts,
            is_passed_through,
            accepts_header,
            folder,
            empty: &empty,
            remarks: Vec::new(),
        };
        let mut own = around(proxy.clone());
        let frontend = self.rules(&mut own, 0);
        let of_frontend = self.of_responses(&mut own);
        let has_servers = proxy.kind() == "listen" && !proxy.is_empty();
        let mut used: Vec<(String, &'d Line)> = Vec::new();
        for rule in &frontend {
            if let Action::Backend(name) = &rule.action
                && rule.formula != Formula::Always(false)
                && !used.iter().any(|(known, _)| known == name)
            {
                used.push((name.clone(), rule.line));
            }
        }
        let (mut rules, mut responses) = (BTreeMap::new(), BTreeMap::new());
        let mut backends: Vec<Backend<'d>> = Vec::new();
        for (name, line) in used {
            let found =
                self.proxies.iter().find(|other| other.name() == name && other.kind() != "frontend").cloned();
            let Some(found) = found else {
                self.note(line, Fate::Refused, format!("there is no backend {name}"));
                continue;
            };
            if found.is_http() != self.is_http {
                self.note(line, Fate::Refused, format!("{name} has another mode than its frontend"));
            }
            self.report_proxy(&found);
            let mut around = around(found.clone());
            rules.insert(
                name.clone(),
                self.rules(&mut around, BACKEND_RULES_START)
                    .into_iter()
                    .filter(|rule| !matches!(rule.action, Action::Backend(_)))
                    .collect(),
            );
            responses.insert(name, self.of_responses(&mut around));
            backends.push(self.backend(&found, facts.port));
        }
        if has_servers {
            backends.push(self.backend(proxy, facts.port));
        }
        let mut walk = Walk {
            import: self,
            frontend,
            backends: rules,
            own: has_servers.then(|| proxy.name().to_owned()),
            head: &proxy.section.head,
            cells: Vec::new(),
            allow: None,
            refuse: Vec::new(),
            depth: 0,
            is_stopped: false,
        };
        walk.run(Cell::default(), 0);
        let Walk { cells, allow, refuse, .. } = walk;
        if let Some(allow) = allow {
            service.put("", "allow-clients", list(allow));
        }
        if !refuse.is_empty() {
            service.put("", "refuse-clients", list(refuse));
        }
        let is_reached = |backend: &Backend<'d>| {
            cells.iter().any(|(_, end)| matches!(end, End::Backend(name) if name == backend.proxy.name()))
        };
        backends.retain(is_reached);
        self.settle(&backends, service);
        if self.is_http {
            self.limits(proxy, &backends, service);
            let pages = self.pages(proxy);
            for (cell, end) in cells {
                let route = self.route(&cell, &end, &backends, (&responses, &of_frontend), &pages, service);
                let rest = cell.path.is_some() && cell.conditions.path.is_none();
                add_route(service, cell.conditions.hosts.as_ref(), route);
                if rest {
                    // A target without a path, `*`, has none to change.
                    let cell = Cell { path: None, ..cell };
                    let route =
                        self.route(&cell, &end, &backends, (&responses, &of_frontend), &pages, service);
                    add_route(service, cell.conditions.hosts.as_ref(), route);
                }
            }
            pages::move_to_service(service);
        } else {
            self.limits_of_bytes(proxy, &backends, service);
            self.rules_by_name(proxy, &cells, &backends, service);
        }
    }

    /// The route of a cell, without its hosts.
    fn route(
        &mut self,
        cell: &Cell,
        end: &End,
        backends: &[Backend<'d>],
        (responses, of_frontend): (&BTreeMap<String, OfResponses<'d>>, &OfResponses<'d>),
        pages: &Pages,
        service: &mut Draft,
    ) -> Draft {
        let mut route = Draft::default();
        if let Some(path) = &cell.conditions.path {
            path.write(&mut route);
        }
        if let Some(methods) = &cell.conditions.methods {
            route.put("", "methods", list(methods.iter().map(String::as_str)));
        }
        for (name, value) in &cell.conditions.fields {
            let text = value.as_ref().map_or_else(|| name.clone(), |value| format!("{name}: {value}"));
            route.of("").append("headers", text);
        }
        let mut response = Changes::default();
        match end {
            End::Respond(value, fields, has_page) => {
                route.put("", "respond", value.clone());
                response.then(fields);
                if *has_page {
                    self.error_pages(pages, cell.backend.as_deref(), &[], &mut route);
                }
            }
            End::Redirect(to, status) => {
                route.put("", "redirect", table([("to", to.as_str().into()), ("status", (*status).into())]));
            }
            End::Backend(name) => {
                if let Some(backend) = backends.iter().find(|backend| backend.proxy.name() == name) {
                    self.forward(backend, cell, &mut route, service);
                }
                let of_backend = responses.get(name);
                if let Some(rules) = of_backend {
                    self.change_response(rules, cell, true, &mut response);
                }
                let replaced = of_backend.into_iter().chain([of_frontend]).flat_map(|rules| &rules.pages);
                let replaced: Vec<_> = replaced.cloned().collect();
                self.error_pages(pages, Some(name), &replaced, &mut route);
            }
        }
        self.change_response(of_frontend, cell, matches!(end, End::Backend(_)), &mut response);
        response.write("response", route.of(""));
        for (key, networks) in
            [("allow-clients", &cell.allow.clone().unwrap_or_default()), ("refuse-clients", &cell.refuse)]
        {
            if !networks.is_empty() {
                route.put("", key, list(networks.iter().map(String::as_str)));
            }
        }
        if let Some(names) = &cell.certificates {
            route.put("", "allow-certificates", list(names.iter().map(String::as_str)));
        }
        if let Some((name, realm)) = &cell.password {
            let mut keys: Vec<(&str, Value)> = vec![("file", format!("{name}.htpasswd").into())];
            keys.extend(realm.as_ref().map(|realm| ("realm", realm.as_str().into())));
            route.put("", "basic-auth", table(keys));
        }
        route
    }

    fn forward(&mut self, backend: &Backend<'d>, cell: &Cell, route: &mut Draft, service: &mut Draft) {
        let mut draft = backend.draft.clone();
        for entry in draft.of("").take_list("backend") {
            route.of("").append("backend", entry);
        }
        if let Some(sticky) = draft.of("").value("sticky") {
            route.put("", "sticky", sticky);
        }
        if !draft.of("backend-tls").is_empty() {
            *route.of("backend-tls") = draft.of("backend-tls").clone();
        }
        let (answer, content) = times(backend, self.client_time);
        for (key, time) in [("response-timeout", answer), ("body-timeout", content)] {
            if service.of("http").text(key) != Some(format!("\"{time}\"")) {
                route.put("", key, time);
            }
        }
        if let Some((from, to)) = &cell.path {
            route.put("", "path", from.as_str());
            route.put("", "rewrite-path", to.as_str());
        }
        let mut request = cell.request.clone();
        if let Some(line) = backend.proxy.last(&["option", "forwardfor"])
            && let Some(name) = header_of(line)
        {
            request.set(name, "{client-address}".into());
        }
        request.write("request", route.of(""));
    }

    fn change_response(
        &mut self,
        rules: &OfResponses<'d>,
        cell: &Cell,
        is_forwarded: bool,
        changes: &mut Changes,
    ) {
        for (line, formula, change, is_for_all) in &rules.rules {
            if !is_forwarded && !is_for_all {
                continue;
            }
            match formula.within(&cell.conditions) {
                Formula::Always(true) => changes.then(change),
                Formula::Always(false) => {}
                _ => self.note(line, Fate::Refused, "responses are changed for all clients of a route"),
            }
        }
    }

    /// Rules by the name in the ClientHello.
    fn rules_by_name(
        &mut self,
        proxy: &Proxy<'d>,
        cells: &[(Cell, End)],
        backends: &[Backend<'d>],
        service: &mut Draft,
    ) {
        let mut taken: Vec<String> = Vec::new();
        for (cell, end) in cells {
            let End::Backend(name) = end else {
                self.note(&proxy.section.head, Fate::Refused, "connections are refused by the client's address alone: write a backend for all other names");
                continue;
            };
            let Some(backend) = backends.iter().find(|backend| backend.proxy.name() == name) else {
                continue;
            };
            let mut draft = backend.draft.clone();
            match &cell.conditions.hosts {
                None => {
                    for entry in draft.of("").take_list("backend") {
                        service.of("").append("backend", entry);
                    }
                    *service.of("backend-tls") = draft.of("backend-tls").clone();
                }
                Some(hosts) => {
                    // An exact name comes before a wildcard in Handfast, wherever it is written.
                    let names: Vec<String> =
                        hosts.iter().filter(|host| !covers(&taken, host)).cloned().collect();
                    taken.extend(names.iter().cloned());
                    if names.is_empty() {
                        continue;
                    }
                    let mut rule = Draft::default();
                    rule.put("", "names", list(names));
                    for entry in draft.of("").take_list("backend") {
                        rule.of("").append("backend", entry);
                    }
                    *rule.of("backend-tls") = draft.of("backend-tls").clone();
                    service.rules.push(rule);
                }
            }
        }
        let has_tls = !service.of("backend-tls").is_empty();
        for rule in &mut service.rules {
            if has_tls && rule.of("backend-tls").is_empty() {
                rule.put("backend-tls", "mode", "off");
            }
        }
    }

    /// Times of a service in HTTP mode.
    fn limits(&mut self, proxy: &Proxy<'d>, backends: &[Backend<'d>], service: &mut Draft) {
        let of = |proxy: &Proxy<'d>, name: &str| {
            proxy.last(&["timeout", name]).and_then(|line| time(line.word(2)))
        };
        let client = of(proxy, "client");
        self.client_time = client;
        let request = of(proxy, "http-request").or(client);
        let idle = of(proxy, "http-keep-alive").or(of(proxy, "http-request")).or(client);
        if let Some(text) = request.and_then(|time| bounded(time, 100, 3_600)) {
            service.put("http", "header-timeout", text);
        }
        if let Some(text) = idle.and_then(|time| bounded(time, 100, 86_400)) {
            service.put("http", "idle", text);
        }
        let Some(first) = backends.iter().find(|backend| backend.has_servers) else { return };
        self.fields_of_client(proxy, backends, service);
        let (answer, content) = times(first, client);
        service.put("http", "body-timeout", content);
        service.put("http", "response-timeout", answer);
        let proxies: Vec<_> = backends.iter().map(|backend| &backend.proxy).collect();
        if let Some(text) = of(&first.proxy, "connect").and_then(|time| bounded(time, 100, 3_600)) {
            service.put("limits", "connect", text);
        }
        let tunnel = of(&first.proxy, "tunnel").or(client.max(of(&first.proxy, "server")));
        let tunnel = tunnel.and_then(|time| bounded(time, 100, 30 * 86_400));
        service.put("limits", "idle", tunnel.unwrap_or_else(|| "none".into()));
        let closes = |proxy: &&&Proxy<'d>| {
            proxy.has(&["option", "http-server-close"]) || proxy.has(&["option", "httpclose"])
        };
        if std::iter::once(&proxy).chain(&proxies).any(|proxy| closes(&proxy)) {
            service.put("http", "pool", 0);
        }
        if let Some(line) = first.proxy.last(&["retries"]) {
            service.put("http", "retries", line.word(1).parse::<i64>().unwrap_or(3).clamp(0, 10));
        }
    }

    /// Converts the fields that name the client and the request to backends.
    fn fields_of_client(&mut self, proxy: &Proxy<'d>, backends: &[Backend<'d>], service: &mut Draft) {
        let is_forwarded = self.is_forwarded
            || std::iter::once(proxy).chain(backends.iter().map(|backend| &backend.proxy)).any(|proxy| {
                proxy.last(&["option", "forwardfor"]).is_some_and(|line| header_of(line).is_none())
            });
        let has_forwarded = std::iter::once(proxy)
            .chain(backends.iter().map(|backend| &backend.proxy))
            .any(|proxy| proxy.has(&["option", "forwarded"]));
        let forwarded = match (is_forwarded, has_forwarded) {
            (true, true) => "both",
            (true, false) => "x-forwarded",
            (false, true) => "forwarded",
            (false, false) => "off",
        };
        service.put("http", "forwarded", forwarded);
        let id = proxy.last(&["unique-id-header"]).map_or("off", |line| line.word(1)).to_ascii_lowercase();
        service.put("http", "request-id", id);
        service.put("http", "underscores", "forward");
    }

    /// Times of a service without HTTP.
    fn limits_of_bytes(&mut self, proxy: &Proxy<'d>, backends: &[Backend<'d>], service: &mut Draft) {
        let of = |proxy: &Proxy<'d>, name: &str| {
            proxy.last(&["timeout", name]).and_then(|line| time(line.word(2)))
        };
        let Some(first) = backends.iter().find(|backend| backend.has_servers).map(|backend| &backend.proxy)
        else {
            return;
        };
        let ends: Vec<_> = [of(proxy, "client"), of(first, "server")].into_iter().flatten().collect();
        let idle = of(first, "tunnel").or(ends.into_iter().min());
        let idle = idle.and_then(|time| bounded(time, 100, 30 * 86_400));
        service.put("limits", "idle", idle.unwrap_or_else(|| "none".into()));
        if let Some(text) = of(first, "connect").and_then(|time| bounded(time, 100, 3_600)) {
            service.put("limits", "connect", text);
        }
        let ended = of(proxy, "client-fin").max(of(first, "server-fin"));
        if let Some(text) = ended.and_then(|time| bounded(time, 100, 30 * 86_400)) {
            service.put("limits", "half-closed", text);
        }
    }
}

/// `compression algo`: by gzip, whose level is 1 by default; without `type` all types.
fn compression(proxy: &Proxy<'_>, service: &mut Draft) {
    let words = ["algo", "algo-res"].map(|option| proxy.last(&["compression", option]));
    let algorithms = words.into_iter().flatten().flat_map(|line| line.words.iter().skip(2));
    if !algorithms.into_iter().any(|algorithm| algorithm == "gzip") {
        return;
    }
    let types = ["type", "type-res"].map(|option| proxy.last(&["compression", option]));
    let mut types: Vec<String> = types
        .into_iter()
        .flatten()
        .flat_map(|line| line.words.iter().skip(2))
        .filter(|kind| kind.split('/').count() == 2)
        .map(|kind| kind.to_ascii_lowercase())
        .collect();
    if types.is_empty() {
        types.push("*/*".to_owned());
    }
    let least = proxy.last(&["compression", "minsize-res"]).and_then(|line| line.word(2).parse::<u64>().ok());
    let least = format!("{}B", least.unwrap_or(1).max(1));
    let keys: [(&str, Value); 4] = [
        ("algorithms", list(["gzip"])),
        ("types", list(types)),
        ("min-size", least.into()),
        ("gzip-level", 1.into()),
    ];
    service.put("http", "compression", table(keys));
}

/// Returns true if a proxy inspects the ClientHello of TLS that it does not terminate.
fn reads_hello(proxy: &Proxy<'_>) -> bool {
    let reads = |word: &String| ["req.ssl_", "req_ssl_"].iter().any(|name| word.contains(name));
    proxy.lines().any(|line| line.words.iter().any(reads))
}

/// `option forwardfor header NAME`.
fn header_of(line: &Line) -> Option<&str> {
    let at = line.words.iter().position(|word| word == "header")?;
    line.words.get(at + 1).map(String::as_str).filter(|name| !name.eq_ignore_ascii_case("x-forwarded-for"))
}

/// `response-timeout` and `body-timeout` towards a backend.
fn times(backend: &Backend<'_>, client: Option<std::time::Duration>) -> (String, String) {
    let server = backend.proxy.last(&["timeout", "server"]).and_then(|line| time(line.word(2)));
    let none = || "none".to_owned();
    let written = |time: Option<std::time::Duration>| {
        time.and_then(|time| bounded(time, 100, 86_400)).unwrap_or_else(none)
    };
    let longer = if client.is_none() || server.is_none() { None } else { client.max(server) };
    (written(server), written(longer))
}
