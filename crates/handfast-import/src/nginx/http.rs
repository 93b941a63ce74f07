//! `http`: addresses with the same servers become a service.

use std::time::Duration;

use super::cache;
use super::grammar::Directive;
use super::listen::{self, Socket};
use super::scope::{Scope, own};
use super::state::{Import, is_of_http};
use super::value::{size, time, written_size};
use crate::address::{listeners, networks};
use crate::draft::{Draft, WholeDraft};
use crate::note::{Fate, Outcome};
use crate::toml::list;

/// nginx's `client_max_body_size` where none is written.
const DEFAULT_MAX_BODY_BYTES: u64 = 1 << 20;
/// Directives of zones that others name.
const ZONES: [&str; 3] = ["limit_req_zone", "limit_conn_zone", "proxy_cache_path"];
/// Times of a service. nginx has them for each location; the longest one is written.
const TIMES: [(&str, &str, &str); 6] = [
    ("proxy_connect_timeout", "limits", "connect"),
    ("keepalive_timeout", "http", "idle"),
    ("client_header_timeout", "http", "header-timeout"),
    ("client_body_timeout", "http", "body-timeout"),
    ("proxy_read_timeout", "http", "body-timeout"),
    ("proxy_read_timeout", "http", "response-timeout"),
];

/// A server with its scope and names.
pub(super) struct Server<'d> {
    pub(super) directive: &'d Directive,
    pub(super) scope: Scope<'d>,
    /// Its names, exact ones first, as Handfast has them.
    pub(super) names: Vec<String>,
}

impl<'d> Import<'d> {
    pub(super) fn http(&mut self, directives: &'d [Directive], of_all: Outcome, whole: &mut WholeDraft) {
        let http = own(directives, "http");
        let block = http.map_or(directives, Directive::inner);
        let scope = Scope::new(block);
        let of_http = |directive: &&Directive| http.is_some() || is_of_http(&directive.name);
        self.upstreams = block.iter().filter(|inner| inner.name == "upstream").collect();
        let is_zone = |inner: &&Directive| ZONES.contains(&inner.name.as_str());
        self.zones = block.iter().filter(is_zone).collect();
        // Options of servers and upstreams are reported with the services that use them.
        let is_around = |directive: &&Directive| !["server", "upstream"].contains(&directive.name.as_str());
        let before = self.notes.mark();
        for directive in block.iter().filter(of_http).filter(is_around) {
            self.report_one(directive, block);
        }
        let servers: Vec<_> = block.iter().filter(of_http).filter(|inner| inner.name == "server").collect();
        let groups = listen::groups(listen::sockets(&servers, self));
        whole.acme = self.issuer(block);
        let of_all = of_all.max(self.notes.outcome_since(before));
        let mut names: Vec<String> = Vec::new();
        for group in groups {
            let name = name_of(&group[0], &names);
            names.push(name.clone());
            let of_group: Vec<_> = group[0].servers.iter().map(|index| servers[*index]).collect();
            let before = self.notes.mark();
            let service = self.service(&name, &group, &of_group, &scope);
            whole.add(name, service, of_all.max(self.notes.outcome_since(before)));
        }
    }

    fn service(
        &mut self,
        name: &str,
        group: &[Socket],
        servers: &[&'d Directive],
        http: &Scope<'d>,
    ) -> Draft {
        let (mut service, socket) = (Draft::default(), &group[0]);
        service.put("", "name", name);
        service.put("", "listen", listeners(self.addresses(servers[0], group)));
        service.put("", "mode", "http");
        let mut known = Vec::new();
        for server in servers {
            self.report(server.inner());
            let scope = http.within(server.inner());
            let names = self.names(server);
            known.push(Server { directive: server, scope, names });
        }
        if socket.has_tls {
            self.tls(&known, socket, &mut service);
        } else {
            service.put("", "client-tls", false);
        }
        if socket.has_header {
            self.header(&known[0], &mut service);
        }
        self.connections(&known, socket, &mut service);
        let (uses_backends, is_forwarded) = self.routes(&known, socket, &mut service);
        cache::mark_others(&mut service);
        if uses_backends {
            service.put("http", "forwarded", if is_forwarded { "x-forwarded" } else { "off" });
            self.limits(&known, &mut service);
        }
        service
    }

    fn tls(&mut self, servers: &[Server<'d>], socket: &Socket, service: &mut Draft) {
        let is_h2 = |server: &Server<'_>| server.scope.is_on("http2");
        if !socket.has_http2 && !servers.iter().any(is_h2) {
            service.put("", "alpn", list(["http/1.1", "http/1.0"]));
        }
        for server in servers {
            self.certificates(server.directive, &server.scope, service);
        }
        if servers[0].scope.is_on("ssl_reject_handshake") {
            service.put("", "unknown-name", "refuse");
        }
        self.client_tls(&servers[0].scope, service);
        let text = |draft: &mut Draft, key: &str| draft.of("").text(key);
        for server in &servers[1..] {
            let mut rule = Draft::default();
            rule.put("", "names", list(server.names.iter().map(String::as_str)));
            self.client_tls(&server.scope, &mut rule);
            let is_like =
                |rule: &mut Draft, key: &str, service: &mut Draft| text(rule, key) == text(service, key);
            let mut differs =
                ["versions", "suites", "groups"].iter().any(|key| !is_like(&mut rule, key, service));
            if differs && !["versions", "suites", "groups"].iter().any(|key| rule.of("").has(key)) {
                rule.put("", "policy", "2026-11");
            }
            let (mine, theirs) =
                (rule.of("client-certificates").clone(), service.of("client-certificates").clone());
            if ["mode", "ca", "crl"].iter().any(|key| mine.text(key) != theirs.text(key)) {
                differs = true;
                if mine.is_empty() {
                    rule.put("client-certificates", "mode", "off");
                }
            }
            if differs && !server.names.is_empty() {
                service.rules.push(rule);
            }
        }
    }

    /// The header of the PROXY protocol: nginx reads it from every client, and believes it from those of `set_real_ip_from`.
    fn header(&mut self, server: &Server<'d>, service: &mut Draft) {
        let trusted: Vec<_> =
            server.scope.all("set_real_ip_from").iter().map(|from| from.argument(0)).collect();
        let (from, effect) = if trusted.is_empty() {
            (
                vec!["0.0.0.0/0", "::/0"],
                "the address in the header counts as the client's for every use; name the proxies in accept-from",
            )
        } else {
            (
                trusted,
                "a client that is not in set_real_ip_from is served without a header, and refused with one",
            )
        };
        service.put("proxy-protocol", "accept-from", networks(from));
        self.note_of(server.directive, "listen … proxy_protocol", Fate::Approximated, effect);
    }

    /// The names of a server, exact ones first.
    fn names(&mut self, server: &Directive) -> Vec<String> {
        let mut names = Vec::new();
        for directive in server.inner().iter().filter(|inner| inner.name == "server_name") {
            for name in &directive.arguments {
                let wildcard = name.strip_prefix('.').or_else(|| name.strip_prefix("*."));
                if name.starts_with('~') || name.ends_with(".*") || name.contains('$') {
                    let effect = "names are exact, or begin with `*.`: write each one";
                    self.note_of(directive, &format!("server_name {name}"), Fate::Refused, effect);
                } else if let Some(domain) = wildcard {
                    if name.starts_with('.') {
                        names.push(domain.to_ascii_lowercase());
                    }
                    names.push(format!("*.{}", domain.to_ascii_lowercase()));
                    let effect =
                        "`*` is one part of a name, not several: a.b.example.org is not in *.example.org";
                    self.note_of(directive, &format!("server_name {name}"), Fate::Approximated, effect);
                } else if !name.contains('_') && !name.is_empty() {
                    names.push(name.to_ascii_lowercase());
                }
            }
        }
        names.sort_by_key(|name| name.starts_with('*'));
        names
    }

    /// Times and sizes, which a service has once.
    fn limits(&mut self, servers: &[Server<'d>], service: &mut Draft) {
        let mut scopes: Vec<Scope<'d>> = Vec::new();
        for server in servers {
            let locations = server.directive.inner().iter().filter(|inner| inner.name == "location");
            let locations = locations.filter(|location| own(location.inner(), "proxy_pass").is_some());
            scopes.extend(locations.map(|location| server.scope.within(location.inner())));
        }
        for (theirs, section, ours) in TIMES {
            let mut longest: Option<Duration> = None;
            for directive in scopes.iter().filter_map(|scope| scope.last(theirs)) {
                match time(directive.argument(0)) {
                    Some(time) => longest = longest.max(Some(time)),
                    None => self.note(directive, Fate::Refused, "expected a time"),
                }
            }
            let known = longest.filter(|time| !time.is_zero());
            if let Some(time) = known
                && !service.of(section).has(ours)
            {
                service.put(section, ours, handfast_text::duration::written(time));
            }
        }
        let versions: Vec<_> = scopes.iter().map(|scope| scope.last("proxy_http_version")).collect();
        let has_2 = |version: &Option<&Directive>| version.is_some_and(|version| version.argument(0) == "2");
        if versions.iter().all(has_2) && !versions.is_empty() {
            service.put("http", "backend-version", "h2");
        } else if let Some(directive) = versions.iter().flatten().find(|version| version.argument(0) == "2") {
            let effect =
                "all backends of an address receive requests by the same version: write it for each location";
            self.note(directive, Fate::Refused, effect);
        }
        let most = scopes.iter().filter_map(|scope| scope.text("max_headers")?.parse::<i64>().ok()).max();
        if let Some(most) = most {
            service.put("http", "max-headers", most.clamp(1, 1_024));
        }
        let has_text = |name: &str, text: &str| scopes.iter().any(|scope| scope.text(name) == Some(text));
        if has_text("underscores_in_headers", "on") || has_text("ignore_invalid_headers", "off") {
            service.put("http", "underscores", "forward");
        }
        let has_id = |scope: &Scope<'_>| {
            scope.all("proxy_set_header").iter().any(|field| field.argument(1).contains("$request_id"))
        };
        if !scopes.iter().any(has_id) {
            service.put("http", "request-id", "off");
        }
        let bodies: Vec<_> = scopes.iter().map(|scope| scope.last("client_max_body_size")).collect();
        let size = |directive: &Option<&Directive>| {
            directive.map_or(Some(DEFAULT_MAX_BODY_BYTES), |found| size(found.argument(0)))
        };
        let sizes: Vec<u64> = bodies.iter().filter_map(size).collect();
        if let (Some(largest), false) = (sizes.iter().max(), sizes.contains(&0)) {
            service.put("http", "max-body", written_size(*largest));
            if let (true, Some(smaller)) =
                (sizes.iter().any(|size| size != largest), bodies.iter().flatten().next())
            {
                self.note(
                    smaller,
                    Fate::Approximated,
                    format!("the service has one limit, the largest: {}", written_size(*largest)),
                );
            }
        }
    }
}

/// A name for a service that no other one has.
fn name_of(socket: &Socket, taken: &[String]) -> String {
    let scheme = if socket.has_tls { "https" } else { "http" };
    let name = socket.port.map_or_else(|| format!("{scheme}-unix"), |port| format!("{scheme}-{port}"));
    let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
    names.find(|name| !taken.contains(name)).unwrap_or(name)
}
