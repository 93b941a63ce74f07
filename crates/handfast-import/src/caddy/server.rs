//! `apps.http.servers`: each becomes a service, by its listeners with and without TLS.

use super::matchers::ServiceFacts;
use super::tls::Certificates;
use super::walk::{Cell, End, Walk};
use super::{At, Import, REDIRECTS, bounded};
use crate::address::{listeners, networks};
use crate::cells::{Changes, add_route};
use crate::draft::{Draft, WholeDraft};
use crate::note::{Fate, Outcome};
use crate::toml::{Section, list, table};

/// Maximum number of addresses for a range of ports.
const PORTS: u16 = 64;

/// An address of a server.
#[derive(Clone, Debug)]
struct Listener {
    address: String,
    port: Option<u16>,
}

impl<'v> Import<'v> {
    /// The services of all servers, and the conversion of each. `of_all`: that of what all of them have.
    pub(super) fn servers(
        &mut self,
        http: &At<'v>,
        certificates: &Certificates,
        of_all: Outcome,
        whole: &mut WholeDraft,
    ) -> Vec<(String, Draft, Outcome)> {
        let port = |key: &str, usual: i64| http.get(key).number().unwrap_or(usual);
        let (plain_port, tls_port) = (port("http_port", 80), port("https_port", 443));
        let mut services = Vec::new();
        let (mut redirects, mut has_plain) = (false, false);
        let servers = http.get("servers").entries();
        for (_, server) in &servers {
            redirects |= !server.get("automatic_https").get("disable_redirects").is_true()
                && !server.get("automatic_https").get("disable").is_true()
                && !qualifying(server).is_empty();
        }
        for (name, server) in servers {
            let before = self.notes.mark();
            self.report_keys(server.clone(), "server");
            let mut groups: Vec<(bool, Vec<Listener>)> = Vec::new();
            let listeners = self.listeners(&server);
            let names = qualifying(&server);
            let is_automatic = !server.get("automatic_https").get("disable").is_true();
            let has_policies = !server.get("tls_connection_policies").items().is_empty();
            for listener in listeners {
                let port = listener.port.map(i64::from);
                let has_tls = port != Some(plain_port)
                    && (has_policies || is_automatic && (!names.is_empty() || port == Some(tls_port)));
                has_plain |= port == Some(plain_port);
                match groups.iter_mut().find(|(tls, _)| *tls == has_tls) {
                    Some((_, group)) => group.push(listener),
                    None => groups.push((has_tls, vec![listener])),
                }
            }
            let of_server = of_all.max(self.notes.outcome_since(before));
            let is_alone = groups.len() == 1;
            for (has_tls, group) in groups {
                let kind = if is_alone {
                    ""
                } else if has_tls {
                    "-tls"
                } else {
                    "-plain"
                };
                let name = format!("{}{kind}", service_name(name));
                let rest = if !has_tls
                    && redirects
                    && group.iter().all(|one| one.port.map(i64::from) == Some(plain_port))
                {
                    End::Redirect("https://{host}{target}".into(), 308)
                } else {
                    End::Nothing
                };
                let before = self.notes.mark();
                let service =
                    self.service(&name, &server, (has_tls, &group), rest, (&names, certificates), whole);
                services.push((name, service, of_server.max(self.notes.outcome_since(before))));
            }
        }
        if redirects && !has_plain {
            let mut service = Draft::default();
            service.put("", "name", REDIRECTS);
            service.put("", "listen", list([format!("*:{plain_port}")]));
            service.put("", "mode", "http");
            service.put("", "client-tls", false);
            let mut route = Draft::default();
            route.put("", "redirect", "https");
            service.routes.push(route);
            services.push((REDIRECTS.into(), service, of_all));
        }
        services
    }

    fn listeners(&mut self, server: &At<'v>) -> Vec<Listener> {
        let mut all = Vec::new();
        let listen = server.get("listen");
        for (at, text) in listen.items().into_iter().zip(listen.texts()) {
            match addresses(&text) {
                Ok(found) => all.extend(found),
                Err(error) => self.note(&at, &text, Fate::Refused, error.to_string()),
            }
        }
        if all.is_empty() && !listen.is_there() {
            self.note(server, "listen", Fate::Refused, "expected an address");
        }
        all
    }

    fn service(
        &mut self,
        name: &str,
        server: &At<'v>,
        (has_tls, group): (bool, &[Listener]),
        rest: End<'v>,
        (names, certificates): (&[String], &Certificates),
        whole: &mut WholeDraft,
    ) -> Draft {
        let mut service = Draft::default();
        service.put("", "name", name);
        service.put("", "listen", listeners(group.iter().map(|listener| &listener.address)));
        service.put("", "mode", "http");
        let port = group[0].port.filter(|first| group.iter().all(|other| other.port == Some(*first)));
        if has_tls {
            self.client_tls(server, (names, certificates), &mut service, whole);
        } else {
            service.put("", "client-tls", false);
        }
        self.wrappers(server, &mut service);
        self.report_keys(server.get("automatic_https"), "automatic_https");
        let trusted = server.get("trusted_proxies");
        if trusted.is_there() {
            match trusted.get("source").text() {
                Some("static") => {
                    service.put("http", "trust-forwarded-from", networks(trusted.get("ranges").texts()))
                }
                _ => self.note(&trusted, "source", Fate::Refused, "proxies in front are listed: static"),
            }
        }
        let facts = ServiceFacts { has_tls, port, trusts: trusted.is_there() };
        let mut walk = Walk::new(self, facts, server.clone(), rest);
        walk.run();
        let cells = walk.cells;
        let proxies: Vec<&At<'v>> = cells
            .iter()
            .filter_map(|(_, end)| match end {
                End::Backend(proxy) => Some(proxy),
                _ => None,
            })
            .collect();
        self.settle(&proxies, &mut service);
        let forwards = !proxies.is_empty();
        self.limits(server, forwards, &mut service);
        for (cell, end) in &cells {
            let route = self.route_of(server, cell, end, facts, &mut service);
            let rest = cell.path.is_some() && cell.conditions.path.is_none();
            add_route(&mut service, cell.conditions.hosts.as_ref(), route);
            if rest {
                // A target without a path, `*`, has none to change.
                let cell = Cell { path: None, ..cell.clone() };
                let route = self.route_of(server, &cell, end, facts, &mut service);
                add_route(&mut service, cell.conditions.hosts.as_ref(), route);
            }
        }
        if std::mem::take(&mut self.has_unchecked) && !service.of("check").is_empty() {
            // A backend without a check must not receive check requests that it does not answer.
            let mut plain = Section::default();
            plain.put("type", "tcp");
            *service.of("check") = plain;
            let effect = "a service has one check, and not all of its backends have one: a connection that is opened is enough";
            self.note(server, "health_checks", Fate::Approximated, effect);
        }
        if forwards && !service.of("limits").has("connect") {
            service.put("limits", "connect", "3s");
        }
        service
    }

    /// `listener_wrappers`: the PROXY protocol.
    fn wrappers(&mut self, server: &At<'v>, service: &mut Draft) {
        for wrapper in server.get("listener_wrappers").items() {
            let name = wrapper.get("wrapper").text().unwrap_or_default();
            self.module(&wrapper, &format!("wrapper {name}"), name);
            if name == "proxy_protocol" {
                let allow = wrapper.get("allow").texts();
                let from =
                    if allow.is_empty() { vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()] } else { allow };
                service.put("proxy-protocol", "accept-from", networks(from));
            }
        }
        let protocols = server.get("protocols").texts();
        if !protocols.is_empty()
            && !protocols.iter().any(|protocol| protocol == "h2")
            && !service.of("").has("client-tls")
        {
            service.put("", "alpn", list(["http/1.1", "http/1.0"]));
        }
    }

    /// Times of a server, with Caddy's defaults.
    fn limits(&mut self, server: &At<'v>, forwards: bool, service: &mut Draft) {
        let text = |key: &str, usual: &str, most: u64| {
            let time = server.get(key).time();
            time.map_or_else(|| Some(usual.to_owned()), |time| bounded(time, 100, most))
        };
        if let Some(time) = text("read_header_timeout", "1m", 3_600) {
            service.put("http", "header-timeout", time);
        }
        if let Some(time) = text("idle_timeout", "5m", 86_400) {
            service.put("http", "idle", time);
        }
        if let Some(bytes) = server.get("max_header_bytes").number() {
            let kibibytes = (bytes / 1_024).clamp(1, 48);
            service.put("http", "max-header-size", format!("{kibibytes}KiB"));
        }
        if forwards {
            service.put("http", "forwarded", "x-forwarded");
            service.put("http", "request-id", "off");
        }
    }

    /// The route of a cell, without its hosts.
    fn route_of(
        &mut self,
        server: &At<'v>,
        cell: &Cell,
        end: &End<'v>,
        facts: ServiceFacts,
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
        let mut response = cell.beside.clone();
        match end {
            End::Respond { value, .. } => {
                route.put("", "respond", value.clone());
                response.then(&cell.response);
            }
            End::Files(value) => {
                route.put("", "files", value.clone());
                towards(cell, &mut route);
                response.then(&cell.response);
            }
            End::Nothing => {
                route.put("", "respond", 200);
            }
            End::Redirect(to, status) => {
                route.put("", "redirect", table([("to", to.as_str().into()), ("status", (*status).into())]));
                response.then(&cell.response);
            }
            End::Backend(proxy) => {
                self.proxied(proxy, facts, cell, &mut route, service);
                let ops = proxy.get("headers").get("response");
                response = Changes::default();
                self.fields(&ops, facts, &mut response);
                // Caddy sets these before the backend's are added to them.
                cell.beside.beside(&mut response);
                response.then(&cell.response);
                towards(cell, &mut route);
            }
        }
        if matches!(end, End::Respond { is_error: true, .. } | End::Files(_) | End::Backend(_)) {
            self.error_pages(server, cell, facts, &mut route);
        }
        response.write("response", route.of(""));
        if let Some(clients) = &cell.allow {
            route.put("", "allow-clients", list(clients.iter().map(String::as_str)));
        }
        if !cell.refuse.is_empty() {
            route.put("", "refuse-clients", list(cell.refuse.iter().map(String::as_str)));
        }
        if let Some(password) = &cell.password {
            route.put("", "basic-auth", password.clone());
        }
        route
    }
}

/// The hosts of a server's routes for which Caddy obtains certificates automatically.
fn qualifying(server: &At<'_>) -> Vec<String> {
    fn hosts(routes: &At<'_>, depth: usize, found: &mut Vec<String>) {
        for route in routes.items() {
            for set in route.get("match").items() {
                found.extend(set.get("host").texts().into_iter().filter(|host| !host.contains('{')));
            }
            if depth < 16 {
                for handler in route.get("handle").items() {
                    hosts(&handler.get("routes"), depth + 1, found);
                }
            }
        }
    }
    let skipped = server.get("automatic_https").get("skip").texts();
    let mut found = Vec::new();
    hosts(&server.get("routes"), 0, &mut found);
    let mut names: Vec<String> = Vec::new();
    for host in found {
        if !skipped.contains(&host) && !names.contains(&host) {
            names.push(host);
        }
    }
    names
}

/// A name that a service can have.
fn service_name(name: &str) -> String {
    let is_good = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
    name.chars().take(56).map(|sign| if is_good(sign) { sign } else { '-' }).collect()
}

/// The keys of a route whose requests go to backends or files.
fn towards(cell: &Cell, route: &mut Draft) {
    if let Some((from, to)) = &cell.path {
        route.put("", "path", from.as_str());
        route.put("", "rewrite-path", to.as_str());
    }
    if let Some(server) = &cell.auth_server {
        route.put("", "forward-auth", server.clone());
    }
    if let Some(most) = cell.max_body {
        route.put("", "max-body", format!("{most}B"));
    }
    let is_open = cell.auth_server.is_none() && cell.password.is_none();
    if let Some(compression) = cell.compression.as_ref().filter(|_| is_open) {
        route.put("", "compression", compression.clone());
    }
}

/// Reason why an address cannot be listened on.
#[derive(Debug, thiserror::Error)]
enum ListenError {
    #[error("listeners are for TCP and unix sockets")]
    OtherNetwork,
    #[error("expected an address and a port")]
    NoPort,
    #[error("expected a port")]
    WrongPort,
    #[error("a range has at most {PORTS} ports here")]
    LongRange,
    #[error("listeners need an IP address, and no name")]
    HostName,
}

/// `:443`, `127.0.0.1:80`, `tcp/[::1]:80`, `unix//run/x.sock|0660`, `:8000-8002`.
fn addresses(text: &str) -> Result<Vec<Listener>, ListenError> {
    let (network, address) = match text.split_once('/') {
        Some((network @ ("tcp" | "tcp4" | "tcp6" | "unix"), address)) => (network, address),
        Some(_) => return Err(ListenError::OtherNetwork),
        None => ("tcp", text),
    };
    if network == "unix" {
        let path = address.split('|').next().unwrap_or_default();
        return Ok(vec![Listener { address: format!("unix:{path}"), port: None }]);
    }
    let (host, ports) = address.rsplit_once(':').ok_or(ListenError::NoPort)?;
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let ports = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
    let (first, last) = ports.filter(|(first, last)| first <= last).ok_or(ListenError::WrongPort)?;
    if last - first >= PORTS {
        return Err(ListenError::LongRange);
    }
    let host = match (host, network) {
        ("", "tcp4") => "0.0.0.0",
        ("" | "[::]", _) => "*",
        ("localhost", _) => "127.0.0.1",
        (host, _) => host,
    };
    if host != "*" && host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_err() {
        return Err(ListenError::HostName);
    }
    Ok((first..=last).map(|port| Listener { address: format!("{host}:{port}"), port: Some(port) }).collect())
}
