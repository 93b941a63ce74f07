//! `auth_request` and `mirror`: requests that nginx sends to another location of the server.

use super::grammar::Directive;
use super::scope::{Scope, own};
use super::state::Import;
use super::upstream::Target;
use super::value::{time, with_constants};
use crate::cells::is_of_connection;
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::{Value, table};

/// Directives of such a location that change nothing about the request that is sent from it, or that are looked at.
const HARMLESS: [&str; 24] = [
    "access_log",
    "allow",
    "auth_basic",
    "auth_request",
    "client_max_body_size",
    "deny",
    "error_log",
    "internal",
    "limit_req",
    "log_not_found",
    "mirror",
    "proxy_buffer_size",
    "proxy_buffering",
    "proxy_buffers",
    "proxy_busy_buffers_size",
    "proxy_connect_timeout",
    "proxy_hide_header",
    "proxy_http_version",
    "proxy_pass",
    "proxy_pass_request_body",
    "proxy_read_timeout",
    "proxy_redirect",
    "proxy_send_timeout",
    "proxy_set_header",
];
/// Longest and shortest `timeout` of `forward-auth`, in seconds.
const AUTH_TIMEOUT: std::ops::RangeInclusive<u64> = 1..=300;
/// nginx's `proxy_read_timeout` where none is written, in seconds.
const DEFAULT_READ_TIMEOUT: u64 = 60;

/// A location from which a request is sent.
struct Subrequest<'d> {
    location: &'d Directive,
    pass: &'d Directive,
    scope: Scope<'d>,
}

impl<'d> Import<'d> {
    /// `auth_request`: the server that decides about requests.
    pub(super) fn auth_request(&mut self, scope: &Scope<'d>, route: &mut Draft) {
        let (Some(directive), Some(path)) = (scope.last("auth_request"), auth_path(scope)) else { return };
        let Some(sent) = self.subrequest(directive, path, scope) else { return };
        let url = with_constants(sent.pass.argument(0), &sent.scope);
        let target = Target::parse(&url).filter(|target| !url.contains(['$', '?']) && !target.has_tls);
        let Some(target) = target else {
            let effect = "the server that decides is asked in plain text, at a fixed address: expected http:// without variables";
            return self.note(sent.pass, Fate::Refused, effect);
        };
        if sent.pass.argument(0).ends_with("$request_uri") {
            self.note(sent.pass, Fate::Refused, "the server that decides is asked for one path");
        }
        self.question(&sent, &target);
        let start = sent.location.arguments.last().map_or("", String::as_str);
        let new = target.path.map(|new| format!("{new}{}", path.strip_prefix(start).unwrap_or_default()));
        let Some(to) = self.servers(sent.pass, &target) else { return };
        let mut keys: Vec<(&str, Value)> =
            vec![("to", to), ("path", new.unwrap_or_else(|| path.to_owned()).into())];
        let copied = copied_fields(scope);
        if !copied.is_empty() {
            keys.push(("copy", crate::toml::list(copied)));
        }
        let limit = sent.scope.last("proxy_read_timeout").and_then(|limit| time(limit.argument(0)));
        let seconds = limit.map_or(DEFAULT_READ_TIMEOUT, |limit| limit.as_secs());
        let seconds = seconds.clamp(*AUTH_TIMEOUT.start(), *AUTH_TIMEOUT.end());
        let limit = std::time::Duration::from_secs(seconds);
        keys.push(("timeout", handfast_text::duration::written(limit).into()));
        route.put("", "forward-auth", table(keys));
        let effect = "where the server does not consent, clients receive its response: nginx answers 401 and 403 by its own pages, and everything else by 500";
        self.note(directive, Fate::Approximated, effect);
    }

    /// `mirror`: copies of requests for another server.
    pub(super) fn mirror(&mut self, scope: &Scope<'d>, route: &mut Draft) {
        let mirrors = scope.all("mirror");
        let Some(directive) = mirrors.first().filter(|mirror| mirror.argument(0) != "off") else { return };
        if let Some(second) = mirrors.get(1) {
            self.note(second, Fate::Refused, "a route has copies for one server");
        }
        let Some(sent) = self.subrequest(directive, directive.argument(0), scope) else { return };
        let url = with_constants(sent.pass.argument(0), &sent.scope);
        let target = Target::parse(&url).filter(|target| !url.contains('$') && !target.has_tls);
        let target =
            target.filter(|target| target.path.is_none() && sent.pass.argument(0).ends_with("$request_uri"));
        let Some(target) = target.filter(|_| !route.of("").has("rewrite-path")) else {
            let effect = "copies are sent in plain text, and have the path that the backend receives: http://ADDRESS$request_uri, and no other path in proxy_pass of the location itself";
            return self.note(sent.pass, Fate::Refused, effect);
        };
        let Some(to) = self.servers(sent.pass, &target) else { return };
        let has_content = scope.text("mirror_request_body") != Some("off")
            && sent.scope.text("proxy_pass_request_body") != Some("off");
        let (most, effect) = if has_content {
            ("1MiB", "requests with more than 1 MiB of content are not copied")
        } else {
            ("0B", "requests with content are not copied; nginx copies them without it")
        };
        let effect = format!("copies have the fields that the backend receives, Host too; {effect}");
        self.note(directive, Fate::Approximated, effect);
        route.put("", "mirror", table([("to", to), ("content", most.into())]));
    }

    /// `proxy_pass_request_body off` of a location that clients reach: the content is forwarded, which only a server that decides does not mind.
    pub(super) fn without_content(&mut self, pass: &Directive, scope: &Scope<'d>) {
        let Some(off) = scope.last("proxy_pass_request_body").filter(|content| !content.is_on()) else {
            return;
        };
        let is_target = |location: &&Directive| {
            let paths = every_auth_path(scope.server());
            paths
                .iter()
                .any(|path| location_of(scope.server(), path).is_some_and(|it| std::ptr::eq(it, *location)))
        };
        let mut locations = scope.server().iter().filter(|inner| inner.name == "location");
        let has_this = |location: &&Directive| location.inner().iter().any(|inner| std::ptr::eq(inner, pass));
        if locations.any(|location| has_this(&location) && is_target(&location)) {
            let effect = "the server that decides receives no content; requests of clients for this location keep theirs";
            self.note(off, Fate::Approximated, effect);
        } else {
            self.note(off, Fate::Refused, "the content of a request is forwarded with it");
        }
    }

    /// Finds the location that a request is sent from. `None`: it cannot be converted, which is noted.
    fn subrequest(
        &mut self,
        directive: &'d Directive,
        path: &str,
        scope: &Scope<'d>,
    ) -> Option<Subrequest<'d>> {
        let location = location_of(scope.server(), path);
        let pass = location.and_then(|location| own(location.inner(), "proxy_pass"));
        let (Some(location), Some(pass)) = (location, pass) else {
            let effect = "expected a path without variables and query, and a location with proxy_pass for it";
            self.note(directive, Fate::Refused, effect);
            return None;
        };
        let is_cache = |name: &str| name.starts_with("proxy_cache") || name == "proxy_ignore_headers";
        let is_known = |name: &str| HARMLESS.contains(&name) || is_cache(name);
        let before = self.notes.refusals();
        for inner in location.inner() {
            if !is_known(&inner.name) {
                let effect = format!("the request to {path} has no such setting");
                self.note(inner, Fate::Refused, effect);
            } else if inner.name == "proxy_cache" && inner.argument(0) != "off" {
                self.note(
                    inner,
                    Fate::Approximated,
                    format!("responses to requests for {path} are not cached"),
                );
            }
        }
        let scope = scope.of_location(location);
        (!self.notes.refused_since(before)).then_some(Subrequest { location, pass, scope })
    }

    /// The servers of a target, by their addresses. `None`: there is none, which is noted.
    fn servers(&mut self, pass: &'d Directive, target: &Target<'_>) -> Option<Value> {
        let before = self.notes.refusals();
        let (mut servers, mut settings) = (Draft::default(), Draft::default());
        self.backends(pass, target.place, Some(80), &mut servers, &mut settings);
        let servers = servers.of("").take_list("backend");
        (!self.notes.refused_since(before)).then_some(Value::Array(servers))
    }

    /// The fields that the server that decides receives: it must not decide by one that it does not get, or that a client sends.
    fn question(&mut self, sent: &Subrequest<'d>, target: &Target<'_>) {
        let mut has_host = false;
        for field in sent.scope.all("proxy_set_header") {
            let name = field.argument(0).to_ascii_lowercase();
            has_host |= name == "host";
            let same = format!("$http_{}", name.replace('-', "_"));
            match (name.as_str(), field.argument(1)) {
                ("accept-encoding" | "content-encoding" | "content-type" | "range", "") => {}
                (name, _) if is_of_connection(name) => {}
                ("host" | "x-forwarded-host", "$host" | "$http_host")
                | ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr")
                | ("x-forwarded-proto", "$scheme")
                | ("x-forwarded-uri", "$request_uri")
                | ("x-forwarded-method", "$request_method") => {}
                (name, value) if value == same && !name.starts_with("x-") => {}
                ("x-real-ip", "$remote_addr") => {
                    let effect = "the server that decides receives the client in X-Forwarded-For alone";
                    self.note(field, Fate::Approximated, effect);
                }
                ("x-auth-request-redirect", _) => {
                    let effect = "the server that decides receives the path in X-Forwarded-Uri alone";
                    self.note(field, Fate::Approximated, effect);
                }
                _ => {
                    let effect = "the server that decides receives the fields of the client and X-Forwarded-For, -Proto, -Host, -Method and -Uri: have it use these, and remove this line";
                    self.note(field, Fate::Refused, effect);
                }
            }
        }
        let is_upstream = self.upstreams.iter().any(|upstream| upstream.argument(0) == target.place);
        let host = target.place.rsplit_once(':').map_or(target.place, |(host, _)| host);
        let is_address = is_upstream
            || target.place.starts_with("unix:")
            || host == "localhost"
            || host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_ok();
        if !has_host && is_address {
            self.note(sent.pass, Fate::Approximated, "the server that decides receives the client's Host");
        } else if !has_host {
            let effect = "the server that decides receives the client's Host: write `proxy_set_header Host $host`, if it decides without this name";
            self.note(sent.pass, Fate::Refused, effect);
        }
    }
}

/// Returns the path that `auth_request` names, if it is on.
pub(super) fn auth_path<'d>(scope: &Scope<'d>) -> Option<&'d str> {
    scope.text("auth_request").filter(|path| *path != "off")
}

/// Returns the paths of all `auth_request` of a server.
fn every_auth_path(server: &[Directive]) -> Vec<&str> {
    let locations = server.iter().filter(|inner| inner.name == "location").flat_map(Directive::inner);
    let all = server.iter().chain(locations).filter(|inner| inner.name == "auth_request");
    all.map(|auth| auth.argument(0)).collect()
}

/// Finds the location of a path as nginx does. `None`: there is none, or an expression may be for the path.
fn location_of<'d>(server: &'d [Directive], path: &str) -> Option<&'d Directive> {
    if !path.starts_with('/') || path.contains(['$', '?', '%']) {
        return None;
    }
    let locations = || server.iter().filter(|inner| inner.name == "location");
    if let Some(exact) = locations().find(|location| words(location)[..] == ["=", path]) {
        return Some(exact);
    }
    let fits = |location: &&Directive| match words(location)[..] {
        [start] | ["^~", start] => path.starts_with(start),
        _ => false,
    };
    let length = |location: &&Directive| location.arguments.last().map_or(0, String::len);
    let longest = locations().filter(fits).max_by_key(length)?;
    let has_expressions = locations().any(|location| location.argument(0).starts_with('~'));
    (!has_expressions || longest.argument(0) == "^~").then_some(longest)
}

fn words(location: &Directive) -> Vec<&str> {
    location.arguments.iter().map(String::as_str).collect()
}

/// Returns the field of the server that decides which a variable of `auth_request_set` has.
pub(super) fn copied_field(scope: &Scope<'_>, value: &str) -> Option<String> {
    auth_path(scope)?;
    let set = scope.all("auth_request_set");
    let set = set.into_iter().rfind(|set| value.starts_with('$') && set.argument(0) == value)?;
    let field = set.argument(1).strip_prefix("$upstream_http_")?;
    let is_name = field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then(|| field.replace('_', "-"))
}

/// Returns the fields that the backend receives.
fn copied_fields(scope: &Scope<'_>) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    let sent = scope.all("proxy_set_header");
    for field in sent.iter().filter_map(|sent| copied_field(scope, sent.argument(1))) {
        if !fields.contains(&field) {
            fields.push(field);
        }
    }
    fields
}

/// Returns true if a copied field is the variable `{user}`: the one whose name ends so.
pub(super) fn is_user(scope: &Scope<'_>, field: &str) -> bool {
    let users = copied_fields(scope).into_iter().filter(|field| field.ends_with("user"));
    users.collect::<Vec<_>>() == [field]
}
