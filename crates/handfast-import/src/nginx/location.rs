//! `location`, `return` and `if`: the routes of a service.

use super::grammar::Directive;
use super::http::Server;
use super::listen::Socket;
use super::pattern;
use super::scope::{Scope, own};
use super::state::Import;
use super::upstream::Target;
use super::value::{ServerFacts, template, with_constants};
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::{list, table};

/// Context in which the routes of a service are made.
pub(super) struct Routes<'s> {
    pub(super) service: &'s mut Draft,
    pub(super) facts: ServerFacts<'s>,
    pub(super) has_tls: bool,
    pub(super) uses_backends: bool,
    pub(super) is_forwarded: bool,
}

impl<'d> Import<'d> {
    /// The routes of all servers, the default one last. Returns whether there are backends, and whether fields name the client to them.
    pub(super) fn routes(
        &mut self,
        servers: &[Server<'d>],
        socket: &Socket,
        service: &mut Draft,
    ) -> (bool, bool) {
        let (mut uses_backends, mut is_forwarded) = (false, false);
        let mut parts: Vec<(Vec<String>, &Server<'d>)> = Vec::new();
        // A name of the default server comes first if the wildcard of another one has it too.
        let of_default =
            servers[0].names.iter().filter(|name| servers[1..].iter().any(|other| is_covered(name, other)));
        let of_default: Vec<_> = of_default.cloned().collect();
        if !of_default.is_empty() {
            parts.push((of_default, &servers[0]));
        }
        // All exact names come before all wildcards, whichever server they belong to.
        for is_wild in [false, true] {
            for server in &servers[1..] {
                let names = server.names.iter().filter(|name| name.starts_with('*') == is_wild);
                parts.push((names.cloned().collect(), server));
            }
        }
        parts.retain(|(names, _)| !names.is_empty());
        parts.push((Vec::new(), &servers[0]));
        for (hosts, server) in parts {
            let facts = ServerFacts {
                server_name: own(server.directive.inner(), "server_name")
                    .map_or("", |names| names.argument(0)),
                port: socket.port,
                verified: match server.scope.text("ssl_verify_client") {
                    _ if !socket.has_tls => None,
                    Some("on") => Some("SUCCESS"),
                    None | Some("off") => Some("NONE"),
                    Some(_) => None,
                },
            };
            let mut routes = Routes {
                service: &mut *service,
                facts,
                has_tls: socket.has_tls,
                uses_backends,
                is_forwarded,
            };
            let first = routes.service.routes.len();
            self.of_server(server, &hosts, &mut routes);
            self.error_pages(&server.scope, &mut routes.service.routes[first..]);
            (uses_backends, is_forwarded) = (routes.uses_backends, routes.is_forwarded);
        }
        (uses_backends, is_forwarded)
    }

    fn of_server(&mut self, server: &Server<'d>, hosts: &[String], routes: &mut Routes<'_>) {
        let block = server.directive.inner();
        let mut all = with_hosts(hosts);
        for condition in block.iter().filter(|inner| inner.name == "if") {
            if self.condition(condition, server, hosts, routes) {
                return;
            }
        }
        if let Some(answer) = own(block, "return") {
            self.answer(answer, &server.scope, &mut all, routes);
            routes.service.routes.push(all);
            return;
        }
        let patterns: Vec<(String, &'d Directive)> = block.iter().flat_map(expanded).collect();
        let locations = self.ordered_locations(block, &patterns);
        for (path, is_exact, location) in &locations {
            self.location(location, (path, *is_exact), &server.scope, hosts, routes);
            self.guards((path, *is_exact, location), &locations, &server.scope);
            if location.argument(0) != "~" {
                self.with_slash((path, location), &server.scope, &locations, hosts, routes);
            }
        }
        if !locations.iter().any(|(path, ..)| *path == "/") {
            if server.scope.last("root").is_some() {
                self.files(server.directive, ("/", false), &server.scope, &mut all, routes);
            } else {
                all.put("", "respond", 404);
                let effect = "paths of no location are answered with 404; nginx looks for files";
                self.note_of(server.directive, "server", Fate::Approximated, effect);
            }
            routes.service.routes.push(all);
        }
    }

    /// The locations in the order in which their routes are compared. nginx takes the longest path that fits, unless an expression does;
    /// Handfast takes the first one.
    fn ordered_locations<'p>(
        &mut self,
        block: &'d [Directive],
        patterns: &'p [(String, &'d Directive)],
    ) -> Vec<(&'p str, bool, &'d Directive)>
    where
        'd: 'p,
    {
        let mut locations: Vec<(&str, bool, &'d Directive)> = Vec::new();
        for location in block.iter().filter(|inner| inner.name == "location") {
            match location.arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [path] | ["^~", path] if path.starts_with('/') => locations.push((path, false, location)),
                ["=", path] if path.starts_with('/') && path != "/" => locations.push((path, true, location)),
                // Only error_page can lead to it, which is noted there.
                [name] if name.starts_with('@') && own(location.inner(), "return").is_some() => {}
                ["=", "/"] => self.note(location, Fate::Refused, "a route cannot be for the path `/` alone: the application must answer it"),
                ["~", expression] if pattern::beginnings(expression).is_some() => {}
                _ => self.note(location, Fate::Refused, "routes have the beginning of a path, and no other regular expressions: write a location for each beginning"),
            }
        }
        let comes_first = |location: &Directive| ["=", "^~"].contains(&location.argument(0));
        for (start, location) in patterns {
            let is_near = |path: &str| path.starts_with(start.as_str()) || start.starts_with(path);
            let is_between = |(path, _, other): &(&str, bool, &Directive)| {
                is_near(path)
                    && (other.argument(0) == "="
                        || other.argument(0) == "^~"
                            && locations
                                .iter()
                                .any(|(longer, ..)| longer.len() > path.len() && longer.starts_with(path)))
            };
            if locations.iter().any(is_between) {
                let effect = "it is for some paths of another location, with `=` or `^~`: write a location for each beginning";
                self.note(location, Fate::Refused, effect);
            }
        }
        let class = |location: &Directive| u8::from(!patterns.is_empty() && !comes_first(location));
        locations.sort_by_key(|(path, is_exact, location)| {
            (class(location), std::cmp::Reverse(path.len()), !is_exact)
        });
        let at = locations.iter().position(|(.., location)| class(location) == 1).unwrap_or(locations.len());
        locations.splice(at..at, patterns.iter().map(|(start, location)| (start.as_str(), false, *location)));
        locations
    }

    /// `if ($host = NAME) { return … }`, as certbot writes it, and a test of the scheme. Returns whether it holds for all requests.
    fn condition(
        &mut self,
        condition: &'d Directive,
        server: &Server<'d>,
        hosts: &[String],
        routes: &mut Routes<'_>,
    ) -> bool {
        let text = condition.arguments.join(" ");
        let words: Vec<_> = text.trim_matches(['(', ')']).split_whitespace().collect();
        let answer = own(condition.inner(), "return").filter(|_| condition.inner().len() == 1);
        let Some(answer) = answer else {
            self.note(condition, Fate::Refused, "only `return` can be in it");
            return false;
        };
        let mut route = match words[..] {
            ["$host", "=", name] => with_hosts(&[name.to_ascii_lowercase()]),
            ["$scheme", "=", "http"] | ["$scheme", "!=", "https"] if routes.has_tls => return false,
            ["$scheme", "=", "http"] | ["$scheme", "!=", "https"] => with_hosts(hosts),
            _ => {
                self.note(condition, Fate::Refused, "conditions are hosts, paths, methods and fields of a [[service.route]]: write it by hand");
                return false;
            }
        };
        self.answer(answer, &server.scope.within(condition.inner()), &mut route, routes);
        routes.service.routes.push(route);
        words[0] == "$scheme"
    }

    fn location(
        &mut self,
        location: &'d Directive,
        (path, is_exact): (&str, bool),
        scope: &Scope<'d>,
        hosts: &[String],
        routes: &mut Routes<'_>,
    ) {
        let mut route = with_hosts(hosts);
        let scope = scope.within(location.inner());
        if path != "/" {
            route.put("", "path", written(path, is_exact));
            if !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"%?#".contains(&byte)) {
                self.note(
                    location,
                    Fate::Refused,
                    "paths are compared as clients send them: letters, digits and signs of a URL",
                );
            }
        }
        if is_exact {
            self.note(location, Fate::Approximated, format!("paths below it, such as {path}/a, match too"));
        }
        if own(location.inner(), "if").is_some() || own(location.inner(), "location").is_some() {
            self.note(location, Fate::Refused, "`if` and `location` in a location are not converted");
        } else if own(location.inner(), "internal").is_some() {
            route.put("", "respond", 404);
        } else if let Some(answer) = own(location.inner(), "return") {
            self.answer(answer, &scope, &mut route, routes);
        } else if let Some(pass) = own(location.inner(), "proxy_pass") {
            self.pass(pass, (path, is_exact), &scope, &mut route, routes);
        } else {
            self.files(location, (path, is_exact), &scope, &mut route, routes);
        }
        if own(location.inner(), "error_page").is_some() {
            self.error_pages(&scope, std::slice::from_mut(&mut route));
        }
        routes.service.routes.push(route);
    }

    /// Without a location for `/a`, nginx redirects it to `/a/` if that is passed to a backend.
    fn with_slash(
        &mut self,
        (path, location): (&str, &'d Directive),
        scope: &Scope<'d>,
        all: &[(&str, bool, &Directive)],
        hosts: &[String],
        routes: &mut Routes<'_>,
    ) {
        let Some(without) = path.strip_suffix('/').filter(|without| !without.is_empty()) else { return };
        let is_passed =
            own(location.inner(), "proxy_pass").is_some() && own(location.inner(), "internal").is_none();
        if is_passed && !all.iter().any(|(other, ..)| *other == without) {
            let mut route = with_hosts(hosts);
            route.put("", "path", without);
            let to = path.replace('{', "{{").replace('}', "}}") + "{query}";
            route.put("", "redirect", table([("to", to.into()), ("status", 301.into())]));
            self.response_fields(&scope.within(location.inner()), &mut route, routes.facts);
            routes.service.routes.push(route);
        }
    }

    /// `return`.
    fn answer(&mut self, answer: &Directive, scope: &Scope<'d>, route: &mut Draft, routes: &Routes<'_>) {
        let (status, text) = match (answer.argument(0), answer.argument(1)) {
            (url, "") if url.parse::<u16>().is_err() => ("302", url),
            (status, text) => (status, text),
        };
        self.response_fields(scope, route, routes.facts);
        let status = status.parse::<i64>();
        if let Ok(status @ (301 | 302 | 303 | 307 | 308)) = status {
            let to = template(text, routes.facts);
            let is_url = |to: &String| {
                ["http://", "https://", "{scheme}://"].iter().any(|start| to.starts_with(start))
                    || to.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '{']))
            };
            match to.ok().filter(is_url) {
                Some(to) => route.put("", "redirect", table([("to", to.into()), ("status", status.into())])),
                None => self.note(
                    answer,
                    Fate::Refused,
                    "expected a URL, or a path, with variables that Handfast has",
                ),
            }
            return;
        }
        match status {
            Ok(444) => {
                route.put("", "respond", 404);
                self.note(
                    answer,
                    Fate::Approximated,
                    "the client receives a 404; nginx closes the connection",
                );
            }
            Ok(status @ 200..=599) if text.is_empty() => {
                route.put("", "respond", status);
                if status >= 400 {
                    self.note(answer, Fate::Approximated, "the response has no page of nginx's");
                }
            }
            Ok(status @ 200..=599) if !text.contains('$') => {
                let kind = scope.text("default_type").unwrap_or("text/plain");
                let keys = [("status", status.into()), ("content", text.into()), ("type", kind.into())];
                route.put("", "respond", table(keys));
            }
            Ok(_) => self.note(
                answer,
                Fate::Refused,
                "a response has a status from 200 to 599 and a text without variables",
            ),
            Err(_) => self.note(answer, Fate::Refused, "expected a status"),
        }
    }

    fn pass(
        &mut self,
        pass: &'d Directive,
        (path, is_exact): (&str, bool),
        scope: &Scope<'d>,
        route: &mut Draft,
        routes: &mut Routes<'_>,
    ) {
        let url = with_constants(pass.argument(0), scope);
        let target = Target::parse(&url).filter(|target| {
            // With a variable in it, a path would replace the whole path.
            !url.contains('$') && (url == pass.argument(0) || target.path.is_none())
        });
        let Some(target) = target else {
            self.note(pass, Fate::Refused, "expected http:// or https:// and an address, without variables but those that `set` gives a fixed text");
            return;
        };
        routes.uses_backends = true;
        let port = if target.has_tls { 443 } else { 80 };
        self.backends(pass, target.place, Some(port), route, routes.service);
        if target.has_tls {
            self.backend_tls(pass, scope, target.host(), route);
        }
        if let Some(new) = target.path.filter(|new| *new != path) {
            if new.ends_with('/') != path.ends_with('/') {
                self.note(
                    pass,
                    Fate::Refused,
                    "both paths, that of the location and this one, must end with `/`, or none",
                );
            }
            route.put("", "path", written(path, is_exact));
            route.put("", "rewrite-path", new);
        }
        self.access(scope, route);
        self.without_content(pass, scope);
        self.mirror(scope, route);
        self.cache(scope, route, routes.service);
        self.compression(scope, route);
        let has_host = self.request_fields(scope, &target, route, routes);
        self.response_fields(scope, route, routes.facts);
        let is_changed = match scope.text("proxy_redirect") {
            None | Some("default") => !has_host || target.path.is_some_and(|new| new != path),
            Some(word) => word != "off",
        };
        if is_changed {
            let effect = "redirects of the backend reach clients as they are: nginx's proxy_redirect would change their host or path";
            self.note(pass, Fate::Approximated, effect);
        }
    }
}

/// Returns the beginnings of the paths of a location with an expression.
fn expanded(location: &Directive) -> Vec<(String, &Directive)> {
    let is_expression = location.name == "location" && location.argument(0) == "~";
    let beginnings = Some(location.argument(1)).filter(|_| is_expression).and_then(pattern::beginnings);
    beginnings.unwrap_or_default().into_iter().map(|start| (start, location)).collect()
}

/// The path of a location: nginx compares letters, so `/api` is for `/apis` too.
pub(super) fn written(path: &str, is_exact: bool) -> String {
    let is_for_letters = !is_exact && !path.ends_with('/');
    format!("{path}{}", if is_for_letters { "*" } else { "" })
}

fn with_hosts(hosts: &[String]) -> Draft {
    let mut route = Draft::default();
    if !hosts.is_empty() {
        route.put("", "hosts", list(hosts.iter().map(String::as_str)));
    }
    route
}

/// Returns true if a wildcard of this server matches the name.
fn is_covered(name: &str, server: &Server<'_>) -> bool {
    let parent = name.split_once('.').map(|(_, parent)| parent);
    !name.starts_with('*')
        && server.names.iter().any(|other| other.strip_prefix("*.") == parent && parent.is_some())
}
