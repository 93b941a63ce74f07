//! `reverse_proxy`: backends, TLS towards them, checks and fields.

use super::matchers::ServiceFacts;
use super::walk::Cell;
use super::{At, Import, bounded, template};
use crate::address::Address;
use crate::cells::{Changes, is_of_connection, names_client};
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::{Section, Value, list, table};

impl<'v> Import<'v> {
    /// The authorization server of each request, if the `reverse_proxy` comes from `forward_auth`.
    pub(super) fn auth_server(&mut self, handler: &At<'v>) -> Option<Value> {
        let rewrite = handler.get("rewrite");
        if !handler.get("handle_response").is_there() && !rewrite.is_there() {
            return None;
        }
        self.report_keys(handler.clone(), "reverse_proxy");
        let upstreams = handler.get("upstreams").items();
        let address = upstreams.first().and_then(|upstream| backend(upstream.get("dial").text()?));
        let uri = rewrite.get("uri").text().filter(|uri| uri.starts_with('/') && !uri.contains('{'));
        let responses = handler.get("handle_response").items();
        let is_good = rewrite.get("method").text() == Some("GET")
            && upstreams.len() == 1
            && !handler.get("transport").is_there()
            && responses.len() == 1
            && responses[0]
                .get("match")
                .get("status_code")
                .items()
                .iter()
                .all(|code| code.number() == Some(2));
        let sent = handler.get("headers").get("request").get("set").entries();
        let is_usual = sent.iter().all(|(name, _)| ["X-Forwarded-Method", "X-Forwarded-Uri"].contains(name));
        let (Some(address), Some(uri), true, true) = (address, uri, is_good, is_usual) else {
            let effect = "responses of backends are forwarded as they are; `forward_auth` with one server, in plain text, is forward-auth";
            self.note(handler, "handle_response", Fate::Refused, effect);
            return None;
        };
        let mut copied: Vec<String> = Vec::new();
        for route in responses[0].get("routes").items() {
            for inner in route.get("handle").items() {
                let name = inner.get("handler").text().unwrap_or_default();
                if name != "headers" && name != "vars" {
                    self.note(
                        &inner,
                        name,
                        Fate::Refused,
                        "fields of the answer are copied, and nothing else",
                    );
                }
                for (field, values) in inner.get("request").get("set").entries() {
                    let same = format!("{{http.reverse_proxy.header.{field}}}");
                    if values.texts() != [same] {
                        self.note(&values, field, Fate::Refused, "a field is copied with its name");
                    }
                    copied.push(field.to_owned());
                }
            }
        }
        let mut keys: Vec<(&str, Value)> = vec![("to", address.into()), ("path", uri.into())];
        if !copied.is_empty() {
            keys.push(("copy", list(copied)));
        }
        Some(table(keys))
    }

    /// `set`, `add` and `delete` of requests. `upstream`: what its placeholder is.
    pub(super) fn request_fields(
        &mut self,
        ops: &At<'v>,
        facts: ServiceFacts,
        upstream: Option<&str>,
        changes: &mut Changes,
    ) {
        for kind in ["set", "add"] {
            for (name, values) in ops.get(kind).entries() {
                let lower = name.to_ascii_lowercase();
                for (at, text) in values.texts().iter().enumerate() {
                    let text = upstream.map_or_else(
                        || text.clone(),
                        |upstream| text.replace("{http.reverse_proxy.upstream.hostport}", upstream),
                    );
                    let usual = match lower.as_str() {
                        "x-forwarded-for" => {
                            ["{http.request.remote.host}", "{http.request.remote}"].contains(&text.as_str())
                        }
                        "x-forwarded-proto" => {
                            text == "{http.request.scheme}" || (text == "https" && facts.has_tls)
                        }
                        "x-forwarded-host" => {
                            ["{http.request.host}", "{http.request.hostport}"].contains(&text.as_str())
                        }
                        "host" => ["{http.request.host}", "{http.request.hostport}"].contains(&text.as_str()),
                        name => is_of_connection(name),
                    };
                    if usual {
                        continue;
                    }
                    if names_client(&lower) {
                        let effect =
                            "Handfast writes X-Forwarded-For, -Proto and -Host by itself, and no others";
                        self.note(&values, name, Fate::Refused, effect);
                        continue;
                    }
                    match template(&text, facts.port) {
                        Ok(text) if kind == "set" && at == 0 => changes.set(name, text),
                        Ok(text) => changes.add(name, text),
                        Err(what) => {
                            self.note(&values, name, Fate::Refused, format!("Handfast has no {what}"))
                        }
                    }
                }
            }
        }
        self.deleted(ops, changes);
    }

    fn deleted(&mut self, ops: &At<'v>, changes: &mut Changes) {
        let delete = ops.get("delete");
        for name in delete.texts() {
            let lower = name.to_ascii_lowercase();
            if name.contains('*') {
                self.note(&delete, &name, Fate::Refused, "a field is removed by its name");
            } else if !is_of_connection(&lower) && !lower.starts_with("x-forwarded-") && lower != "forwarded"
            {
                changes.remove(&name);
            }
        }
    }

    /// `set`, `add` and `delete` of responses.
    pub(super) fn fields(&mut self, ops: &At<'v>, facts: ServiceFacts, changes: &mut Changes) {
        for kind in ["set", "add"] {
            for (name, values) in ops.get(kind).entries() {
                for (at, text) in values.texts().iter().enumerate() {
                    match template(text, facts.port) {
                        Ok(text) if kind == "set" && at == 0 => changes.set(name, text),
                        Ok(text) => changes.add(name, text),
                        Err(what) => {
                            self.note(&values, name, Fate::Refused, format!("Handfast has no {what}"))
                        }
                    }
                }
            }
        }
        self.deleted(ops, changes);
    }

    /// The keys of a route that forwards to this handler's upstreams.
    pub(super) fn proxied(
        &mut self,
        proxy: &At<'v>,
        facts: ServiceFacts,
        cell: &Cell,
        route: &mut Draft,
        service: &mut Draft,
    ) {
        self.report_keys(proxy.clone(), "reverse_proxy");
        let upstreams = proxy.get("upstreams").items();
        let mut addresses = Vec::new();
        for upstream in &upstreams {
            self.report_keys(upstream.clone(), "upstream");
            match upstream.get("dial").text().and_then(backend) {
                Some(address) if addresses.contains(&address) => {
                    self.note(
                        upstream,
                        "dial",
                        Fate::Approximated,
                        "an address is a backend once: give it the weight of both",
                    );
                }
                Some(address) => addresses.push(address),
                None => self.note(
                    upstream,
                    "dial",
                    Fate::Refused,
                    "expected an address and a port, or `unix/` and a path",
                ),
            }
        }
        if addresses.is_empty() {
            self.note(proxy, "upstreams", Fate::Refused, "expected one upstream at least");
        }
        self.selection(proxy, &addresses, route, service);
        let transport = proxy.get("transport");
        if transport.is_there() {
            self.transport(&transport, &addresses, route, service);
        }
        let has_tls = transport.get("tls").is_there();
        let mut request = cell.request.clone();
        let ops = proxy.get("headers").get("request");
        let upstream = Some(addresses.as_slice()).filter(|all| all.len() == 1).map(|all| all[0].clone());
        self.request_fields(&ops, facts, upstream.as_deref(), &mut request);
        if has_tls && !request.has("host") && !ops.get("set").get("Host").is_there() {
            match &upstream {
                Some(upstream) => {
                    request.set("Host", upstream.clone());
                    let effect = "backends with TLS receive their own address as Host, as from Caddy 2.11; before, it was the client's: remove it from set-request-headers";
                    self.note(&transport, "tls", Fate::Approximated, effect);
                }
                None => self.note(
                    &transport,
                    "tls",
                    Fate::Refused,
                    "each upstream would receive its own address as Host: write header_up Host",
                ),
            }
        }
        request.write("request", route.of(""));
        self.report_keys(proxy.get("headers"), "headers");
        self.report_keys(ops, "headers request");
        self.report_keys(proxy.get("headers").get("response"), "headers response");
        self.check(proxy, service);
        let limit = |time: Option<std::time::Duration>| {
            time.and_then(|time| bounded(time, 100, 86_400)).unwrap_or_else(|| "none".into())
        };
        let answer = limit(transport.get("response_header_timeout").time());
        self.put(service, "http", "response-timeout", &answer, route);
        let content = limit(transport.get("read_timeout").time());
        self.put(service, "http", "body-timeout", &content, route);
    }

    /// A time that a service has, and its routes if theirs is another one.
    fn put(&mut self, service: &mut Draft, section: &str, key: &str, text: &str, route: &mut Draft) {
        match service.of(section).text(key) {
            None => service.put(section, key, text),
            Some(known) if known != format!("\"{text}\"") => route.put("", key, text),
            Some(_) => {}
        }
    }

    /// Writes what backends would not work without, and what a service has once: the version of HTTP, the PROXY header and the local address.
    pub(super) fn settle(&mut self, proxies: &[&At<'v>], service: &mut Draft) {
        let Some(first) = proxies.first() else { return };
        let essentials_of_first = essentials(first);
        for (at, (section, key)) in ESSENTIALS.into_iter().enumerate() {
            if let Some(other) = proxies.iter().find(|other| essentials(other)[at] != essentials_of_first[at])
            {
                let effect = format!(
                    "{key}: all backends of an address have the same, but others have another one or none: write a service for this site by hand, on another address"
                );
                self.note(other, "transport", Fate::Refused, effect);
            } else if let Some(value) = &essentials_of_first[at] {
                service.put(section, key, value.as_str());
                if section == "proxy-protocol" {
                    // A connection with a header is of one client.
                    service.put("http", "pool", 0);
                }
            }
        }
    }

    /// A key that a service has once, for all of its backends.
    fn once(&mut self, at: &At<'v>, service: &mut Draft, (section, key): (&str, &str), value: Value) {
        let written = value.to_string();
        match service.of(section).text(key) {
            Some(known) if known != written.trim() => {
                let effect = format!("a service has one {key} for all of its backends, here {known}");
                self.note(at, key, Fate::Approximated, effect);
            }
            _ => service.put(section, key, value),
        }
    }

    /// `load_balancing`: which upstream is chosen.
    fn selection(&mut self, proxy: &At<'v>, addresses: &[String], route: &mut Draft, service: &mut Draft) {
        let balancing = proxy.get("load_balancing");
        self.report_keys(balancing.clone(), "load_balancing");
        let policy = balancing.get("selection_policy");
        let name = policy.get("policy").text().unwrap_or_default();
        let weights: Vec<i64> = policy.get("weights").items().iter().filter_map(At::number).collect();
        for (at, address) in addresses.iter().enumerate() {
            let mut keys: Vec<(&str, Value)> = vec![("address", address.as_str().into())];
            if name == "first" && at > 0 {
                keys.push(("backup", true.into()));
            }
            if let Some(weight) = weights.get(at).filter(|_| name == "weighted_round_robin") {
                keys.push(("weight", (*weight).clamp(0, 256).into()));
            }
            let value = if keys.len() == 1 { address.as_str().into() } else { table(keys) };
            route.of("").append("backend", value);
        }
        if let Some(retries) = balancing.get("retries").number() {
            route.put("", "retries", retries.clamp(0, 10));
        }
        if addresses.len() < 2 {
            return;
        }
        if policy.is_there() {
            self.module(&policy, &format!("policy {name}"), name);
        }
        let balance = match name {
            "least_conn" => "least-connections",
            "random_choose" => "two-choices",
            "ip_hash" | "client_ip_hash" => "source-hash",
            "header" => {
                let field = policy.get("field").text().unwrap_or_default().to_ascii_lowercase();
                route.put("", "sticky", table([("header", field.into())]));
                return;
            }
            "cookie" => {
                let name = policy.get("name").text().unwrap_or("lb");
                route.put("", "sticky", table([("cookie", name.into())]));
                return;
            }
            _ => "round-robin",
        };
        self.once(&policy, service, ("", "balance"), balance.into());
    }

    fn transport(
        &mut self,
        transport: &At<'v>,
        addresses: &[String],
        route: &mut Draft,
        service: &mut Draft,
    ) {
        let protocol = transport.get("protocol").text().unwrap_or("http");
        if protocol != "http" {
            self.module(transport, &format!("protocol {protocol}"), protocol);
            return;
        }
        self.report_keys(transport.clone(), "transport");
        self.report_keys(transport.get("keep_alive"), "keep_alive");
        if transport.get("tls").is_there() {
            self.backend_tls(&transport.get("tls"), addresses, route);
        }
        if let Some(time) = transport.get("dial_timeout").time().and_then(|time| bounded(time, 100, 3_600)) {
            self.once(transport, service, ("limits", "connect"), time.into());
        }
        let keep = transport.get("keep_alive");
        if keep.get("enabled").value.and_then(serde_json::Value::as_bool) == Some(false) {
            service.put("http", "pool", 0);
        }
        if let Some(time) = keep.get("idle_timeout").time().and_then(|time| bounded(time, 100, 3_600)) {
            self.once(&keep, service, ("http", "pool-idle"), time.into());
        }
    }

    fn backend_tls(&mut self, tls: &At<'v>, addresses: &[String], route: &mut Draft) {
        self.report_keys(tls.clone(), "transport tls");
        let section = route.of("backend-tls");
        let name = tls.get("server_name").text();
        if let Some(name) = name.filter(|name| name.contains('{')) {
            self.note(
                tls,
                "server_name",
                Fate::Refused,
                format!("{name}: the name of a backend is a fixed text"),
            );
            return;
        }
        if tls.get("insecure_skip_verify").is_true() {
            section.put("verify", "insecure-nothing");
            if let Some(name) = name {
                section.put("server-name", name);
            }
            let effect = "the backend's certificate is not verified, as before: remove `verify`, and name its authority in `ca`";
            self.note(tls, "insecure_skip_verify", Fate::Same, effect);
        } else {
            match name {
                Some(name) => section.put("name", name),
                None if addresses.iter().any(|address| address.starts_with("unix:")) => {
                    self.note(tls, "tls", Fate::Refused, "a unix socket has no name: write server_name");
                    return;
                }
                // An empty section would not be written.
                None => section.put("mode", "tls"),
            }
        }
        let pool = tls.get("ca");
        let files = match pool.get("provider").text() {
            Some("file") => pool.get("pem_files").texts(),
            Some("system") | None => tls.get("root_ca_pem_files").texts(),
            Some(other) => {
                self.note(&pool, other, Fate::Refused, "authorities are read from one file");
                return;
            }
        };
        match &files[..] {
            [] => {}
            [file] => {
                let path = self.path(file);
                route.put("backend-tls", "ca", path);
            }
            _ => self.note(tls, "ca", Fate::Refused, "authorities are read from one file"),
        }
        for (theirs, ours) in
            [("client_certificate_file", "certificate"), ("client_certificate_key_file", "key")]
        {
            if let Some(file) = tls.get(theirs).text() {
                let path = self.path(file);
                route.put("backend-tls", ours, path);
            }
        }
    }

    /// `health_checks`: a service has one check.
    fn check(&mut self, proxy: &At<'v>, service: &mut Draft) {
        let checks = proxy.get("health_checks");
        self.report_keys(checks.clone(), "health_checks");
        let (active, passive) = (checks.get("active"), checks.get("passive"));
        self.report_keys(active.clone(), "active");
        self.report_keys(passive.clone(), "passive");
        if let Some(time) = passive.get("fail_duration").time().and_then(|time| bounded(time, 100, 86_400)) {
            self.once(&passive, service, ("limits", "backend-retry"), time.into());
            let most = passive.get("max_fails").number().unwrap_or(1).clamp(1, 1_000);
            self.once(&passive, service, ("limits", "backend-failures"), most.into());
        }
        let path = active.get("uri").text().or(active.get("path").text());
        let Some(path) = path.filter(|path| path.starts_with('/')) else {
            self.has_unchecked = true;
            return;
        };
        let mut section = Section::default();
        section.put("type", "http");
        section.put("path", path);
        let seconds = std::time::Duration::from_secs;
        let interval = active.get("interval").time().unwrap_or(seconds(30));
        let timeout = active.get("timeout").time().unwrap_or(seconds(5)).min(interval);
        for (key, time) in [("interval", interval), ("timeout", timeout)] {
            if let Some(text) = bounded(time, 100, 3_600) {
                section.put(key, text);
            }
        }
        section.put("rise", active.get("passes").number().unwrap_or(1).clamp(1, 1_000));
        section.put("fall", active.get("fails").number().unwrap_or(1).clamp(1, 1_000));
        if let Some(port) = active.get("port").number() {
            section.put("port", port);
        }
        if let Some(host) = active.get("headers").get("Host").texts().first() {
            section.put("host", host.as_str());
        }
        match active.get("expect_status").number() {
            Some(class @ 1..=5) => section.append("status", format!("{class}00-{class}99")),
            Some(status) => section.append("status", status),
            None => section.append("status", "200-299"),
        }
        let text = |section: &Section| {
            let mut text = String::new();
            section.write("", &mut text);
            text
        };
        if service.of("check").is_empty() {
            *service.of("check") = section;
        } else if text(service.of("check")) != text(&section) {
            let mut plain = Section::default();
            plain.put("type", "tcp");
            *service.of("check") = plain;
            let effect = "a service has one check, and its backends have different ones: a connection that is opened is enough";
            self.note(&active, "active", Fate::Approximated, effect);
        }
    }
}

/// Keys of a service without which backends would not work.
const ESSENTIALS: [(&str, &str); 3] =
    [("http", "backend-version"), ("proxy-protocol", "send"), ("", "source")];

/// The values of [`ESSENTIALS`] for the upstreams of a handler.
fn essentials(proxy: &At<'_>) -> [Option<String>; 3] {
    let transport = proxy.get("transport");
    let versions = transport.get("versions").texts();
    let has = |name: &str| versions.iter().any(|version| version == name);
    let is_h2 = has("h2c") || (has("2") && !has("1.1"));
    let text = |key: &str| transport.get(key).text().map(ToOwned::to_owned);
    [
        is_h2.then(|| "h2".to_owned()),
        text("proxy_protocol").filter(|version| version != "off"),
        text("local_address"),
    ]
}

/// The address of an upstream as Handfast writes it.
fn backend(text: &str) -> Option<String> {
    let text = text.strip_prefix("tcp/").unwrap_or(text);
    if let Some(path) = text.strip_prefix("unix/") {
        return Some(format!("unix:{path}"));
    }
    if text.contains(['{', '/'])
        || text.contains('-') && text.rsplit(':').next().is_some_and(|port| port.contains('-'))
    {
        return None;
    }
    Address::parse(text).filter(|_| text.contains(':')).map(|address| address.backend("127.0.0.1"))
}
