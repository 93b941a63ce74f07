//! `upstream` and `proxy_pass`: backends.

use super::grammar::Directive;
use super::scope::{Scope, own};
use super::state::Import;
use crate::address::Address;
use crate::draft::Draft;
use crate::note::Fate;
use crate::openssl;
use crate::toml::{Value, list, table};

/// Difference of the cookie by which a client stays at its backend.
const COOKIE: &str = "the cookie has another value and names no server: clients may come to another one once; it is HttpOnly, and ends with the browser's session";

/// A target of `proxy_pass`.
#[derive(Clone, Debug)]
pub(super) struct Target<'t> {
    pub(super) has_tls: bool,
    /// The part between the scheme and the path: the name of an upstream, or an address.
    pub(super) place: &'t str,
    /// The path behind it, if one is written.
    pub(super) path: Option<&'t str>,
}

impl<'t> Target<'t> {
    /// Parses a URL. `None`: it is none.
    pub(super) fn parse(url: &'t str) -> Option<Self> {
        let (has_tls, rest) = match url.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, url.strip_prefix("http://")?),
        };
        let split = |text: &'t str, at: Option<usize>| match at {
            Some(at) => (&text[..at], Some(&text[at..])),
            None => (text, None),
        };
        let (place, path) = match rest.strip_prefix("unix:") {
            Some(socket) => {
                let (place, path) = split(rest, socket.find(':').map(|at| at + 5));
                (place, path.map(|path| &path[1..]).filter(|path| !path.is_empty()))
            }
            None => split(rest, rest.find('/')),
        };
        (!place.is_empty()).then_some(Self { has_tls, place, path })
    }

    /// nginx's `$proxy_host`: the port is left out where it is that of the scheme.
    pub(super) fn host(&self) -> &'t str {
        let usual = if self.has_tls { ":443" } else { ":80" };
        if self.place.starts_with("unix:") {
            return "localhost";
        }
        self.place.strip_suffix(usual).unwrap_or(self.place)
    }
}

impl<'d> Import<'d> {
    /// The backends of an upstream, or an address as the one backend; `port`: where none is written. Nothing was refused if there are some.
    pub(super) fn backends(
        &mut self,
        directive: &Directive,
        place: &str,
        port: Option<u16>,
        draft: &mut Draft,
        service: &mut Draft,
    ) {
        let Some(upstream) = self.upstreams.iter().copied().find(|known| known.argument(0) == place) else {
            match backend(place, port) {
                Some(address) => draft.of("").append("backend", address),
                None => self.note(directive, Fate::Refused, format!("{place}: expected an address")),
            }
            return;
        };
        self.report(upstream.inner());
        let servers: Vec<_> = upstream.inner().iter().filter(|inner| inner.name == "server").collect();
        let mut addresses: Vec<String> = Vec::new();
        for server in &servers {
            match backend(server.argument(0), port.map(|_| 80)) {
                Some(address) if addresses.contains(&address) => {
                    let effect = "an address is a backend once: give it the weight of both";
                    self.note(server, Fate::Approximated, effect);
                }
                Some(address) => {
                    addresses.push(address.clone());
                    let value = self.server(server, address);
                    draft.of("").append("backend", value);
                }
                None => self.note(server, Fate::Refused, "expected an address"),
            }
        }
        if servers.is_empty() {
            self.note(upstream, Fate::Refused, "it has no server");
        }
        if servers.len() > 1 {
            self.balance(upstream, service);
            self.sticky(upstream, draft);
        }
    }

    fn server(&mut self, server: &Directive, address: String) -> Value {
        let mut keys: Vec<(&str, Value)> = Vec::new();
        for word in &server.arguments[1..] {
            match word.split_once('=').unwrap_or((word, "")) {
                ("weight", weight) => match weight.parse::<i64>() {
                    Ok(weight @ 1..=256) => keys.push(("weight", weight.into())),
                    _ => self.note(server, Fate::Refused, "expected a weight from 1 to 256"),
                },
                ("backup", "") => keys.push(("backup", true.into())),
                ("down", "") => keys.push(("weight", 0.into())),
                ("max_fails" | "fail_timeout", _) => {
                    let effect = "backends are marked down after limits.backend-failures (3) failures in a row, for \
                                  limits.backend-retry (10s)";
                    self.note_of(server, word, Fate::Approximated, effect);
                }
                ("resolve", "") => {}
                _ => self.note_of(server, word, Fate::Refused, "Handfast has no such setting of a backend"),
            }
        }
        // `down` with a weight has none.
        let is_down = server.arguments.iter().any(|word| word == "down");
        keys.retain(|(key, value)| !is_down || *key != "weight" || value.as_integer() == Some(0));
        if keys.is_empty() {
            return address.into();
        }
        keys.insert(0, ("address", address.into()));
        table(keys)
    }

    /// `sticky cookie NAME`: the client stays at its server.
    fn sticky(&mut self, upstream: &Directive, draft: &mut Draft) {
        let Some(sticky) = own(upstream.inner(), "sticky") else { return };
        if sticky.argument(0) != "cookie" {
            return self.note(
                sticky,
                Fate::Refused,
                "the cookie is one that Handfast makes (`sticky cookie NAME`)",
            );
        }
        let mut keys: Vec<(&str, Value)> = vec![("cookie", sticky.argument(1).into())];
        if let Some(site) = sticky.arguments.iter().find_map(|word| word.strip_prefix("samesite=")) {
            keys.push(("same-site", site.to_ascii_lowercase().into()));
        }
        draft.put("", "sticky", table(keys));
        self.note(sticky, Fate::Approximated, COOKIE);
    }

    /// `balance` is of a service: the first upstream with several backends decides.
    fn balance(&mut self, upstream: &Directive, service: &mut Draft) {
        let has = |name: &str| own(upstream.inner(), name);
        let (balance, directive) = if let Some(found) = has("least_conn") {
            ("least-connections", found)
        } else if let Some(found) = has("ip_hash").or(has("hash")) {
            if found.name == "hash" && !matches!(found.argument(0), "$remote_addr" | "$binary_remote_addr") {
                self.note(found, Fate::Refused, "backends are chosen by the client's address, or in turn");
            }
            ("source-hash", found)
        } else if let Some(found) = has("random") {
            ("two-choices", found)
        } else {
            ("round-robin", upstream)
        };
        match service.of("").text("balance") {
            Some(known) if known != format!("\"{balance}\"") => {
                let effect = format!("a service has one way to choose backends, here {known}");
                self.note(directive, Fate::Approximated, effect);
            }
            _ => service.put("", "balance", balance),
        }
    }

    /// `proxy_ssl_…`: TLS towards backends. nginx verifies no certificate unless it is configured.
    pub(super) fn backend_tls(
        &mut self,
        directive: &Directive,
        scope: &Scope<'_>,
        host: &str,
        draft: &mut Draft,
    ) {
        let host =
            host.rsplit_once(':').filter(|(name, _)| !name.ends_with(':')).map_or(host, |(name, _)| name);
        let name = scope.text("proxy_ssl_name").unwrap_or(host);
        if name.contains('$') {
            self.note_of(directive, "proxy_ssl_name", Fate::Refused, "the name of a backend is a fixed text");
        }
        let sends_name = scope.is_on("proxy_ssl_server_name") && name.parse::<std::net::IpAddr>().is_err();
        if scope.is_on("proxy_ssl_verify") {
            draft.put("backend-tls", "name", name);
            if let Some(file) = scope.text("proxy_ssl_trusted_certificate") {
                draft.put("backend-tls", "ca", self.path(file));
            }
            if !sends_name {
                draft.put("backend-tls", "server-name", "none");
            }
        } else {
            draft.put("backend-tls", "verify", "insecure-nothing");
            draft.put("backend-tls", "server-name", if sends_name { name } else { "none" });
            let effect = "the backend's certificate is not verified, as before: remove `verify`, and name its authority in `ca`";
            self.note(directive, Fate::Same, effect);
        }
        for (theirs, ours) in [("proxy_ssl_certificate", "certificate"), ("proxy_ssl_certificate_key", "key")]
        {
            if let Some(file) = scope.text(theirs) {
                draft.put("backend-tls", ours, self.path(file));
            }
        }
        if let Some(versions) = scope.last("proxy_ssl_protocols") {
            self.versions(versions, draft.of("backend-tls"));
        }
        if let Some(ciphers) = scope.last("proxy_ssl_ciphers") {
            let known = openssl::suites(ciphers.argument(0));
            if !known.names.is_empty() {
                draft.put("backend-tls", "suites", list(known.names));
            }
        }
    }
}

/// An address as Handfast writes it.
pub(super) fn backend(text: &str, port: Option<u16>) -> Option<String> {
    if text.contains('$') {
        return None;
    }
    if let Some(path) = text.strip_prefix("unix:") {
        return Some(format!("unix:{path}"));
    }
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']'))
    });
    let text = if has_port { text.to_owned() } else { format!("{text}:{}", port?) };
    Address::parse(&text).map(|address| address.backend("127.0.0.1"))
}
