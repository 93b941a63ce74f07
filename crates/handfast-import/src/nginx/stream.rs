//! `stream`: services without HTTP, and TLS that is passed through by its name.

use super::grammar::Directive;
use super::listen;
use super::scope::{Scope, own};
use super::state::Import;
use super::value::time;
use crate::draft::{Draft, WholeDraft};
use crate::note::{Fate, Outcome};
use crate::toml::list;

/// The limits of a service, with nginx's defaults.
const TIMES: [(&str, Option<&str>, &str); 2] =
    [("proxy_timeout", Some("10m"), "idle"), ("proxy_connect_timeout", None, "connect")];

impl<'d> Import<'d> {
    pub(super) fn stream(&mut self, directives: &'d [Directive], of_all: Outcome, whole: &mut WholeDraft) {
        let Some(stream) = own(directives, "stream").map(Directive::inner) else { return };
        self.upstreams = stream.iter().filter(|inner| inner.name == "upstream").collect();
        let is_around =
            |directive: &&Directive| !["server", "upstream", "map"].contains(&directive.name.as_str());
        let before = self.notes.mark();
        for directive in stream.iter().filter(is_around) {
            self.report_one(directive, stream);
        }
        let of_all = of_all.max(self.notes.outcome_since(before));
        let servers: Vec<_> = stream.iter().filter(|inner| inner.name == "server").collect();
        for (at, server) in servers.iter().enumerate() {
            let name = format!("stream-{}", at + 1);
            let scope = Scope::new(stream).within(server.inner());
            let before = self.notes.mark();
            let service = self.stream_service(&name, server, &scope, stream);
            whole.add(name, service, of_all.max(self.notes.outcome_since(before)));
        }
    }

    fn stream_service(
        &mut self,
        name: &str,
        server: &'d Directive,
        scope: &Scope<'d>,
        stream: &'d [Directive],
    ) -> Draft {
        let mut service = Draft::default();
        service.put("", "name", name);
        self.report(server.inner());
        let sockets = listen::sockets(&[server], self);
        service.put("", "listen", list(self.addresses(server, &sockets)));
        let has_tls = sockets.iter().any(|socket| socket.has_tls);
        let reads_name = scope.is_on("ssl_preread");
        if has_tls {
            self.certificates(server, scope, &mut service);
            self.client_tls(scope, &mut service);
            if let Some(protocols) = scope.last("ssl_alpn") {
                service.put("", "alpn", list(protocols.arguments.iter().map(String::as_str)));
            }
        } else if reads_name {
            service.put("", "pass-through", true);
            let effect = "clients that do not speak TLS are refused";
            self.note_of(server, "ssl_preread on", Fate::Approximated, effect);
        } else {
            service.put("", "client-tls", false);
        }
        if sockets.iter().any(|socket| socket.has_header) {
            let effect = "a client that sends no header is refused; name the proxies in accept-from";
            service.put("proxy-protocol", "accept-from", list(["0.0.0.0/0", "::/0"]));
            self.note_of(server, "listen … proxy_protocol", Fate::Approximated, effect);
        }
        if scope.is_on("proxy_protocol") {
            service.put("proxy-protocol", "send", "v1");
        }
        self.networks(scope, &mut service);
        for (theirs, default, ours) in TIMES {
            let Some(text) = scope.text(theirs).or(default) else { continue };
            match time(text) {
                Some(time) => service.put("limits", ours, handfast_text::duration::written(time)),
                None => self.note_of(server, theirs, Fate::Refused, "expected a time"),
            }
        }
        match own(server.inner(), "proxy_pass") {
            Some(pass) => self.stream_pass(pass, scope, stream, reads_name && !has_tls, &mut service),
            None => self.note(server, Fate::Refused, "it has no proxy_pass"),
        }
        service
    }

    fn stream_pass(
        &mut self,
        pass: &'d Directive,
        scope: &Scope<'d>,
        stream: &'d [Directive],
        reads_name: bool,
        service: &mut Draft,
    ) {
        let text = pass.argument(0);
        let of_name = |map: &&Directive| {
            map.name == "map" && map.argument(0) == "$ssl_preread_server_name" && map.argument(1) == text
        };
        match stream.iter().find(of_name) {
            Some(map) if reads_name => self.by_name(map, service),
            _ => {
                let mut draft = Draft::default();
                self.backends(pass, text, None, &mut draft, service);
                for backend in draft.of("").take_list("backend") {
                    service.of("").append("backend", backend);
                }
            }
        }
        if scope.is_on("proxy_ssl") {
            self.backend_tls(pass, scope, text, service);
        }
    }

    /// A map from the server name that clients send to backends.
    fn by_name(&mut self, map: &'d Directive, service: &mut Draft) {
        let has_wildcards = own(map.inner(), "hostnames").is_some();
        for entry in map.inner() {
            let (name, place) = (entry.name.as_str(), entry.argument(0));
            let mut draft = Draft::default();
            match name {
                "hostnames" | "volatile" => continue,
                "default" => {
                    self.backends(entry, place, None, &mut draft, service);
                    for backend in draft.of("").take_list("backend") {
                        service.of("").append("backend", backend);
                    }
                    continue;
                }
                _ => {}
            }
            let is_wild = name.starts_with('.') || name.starts_with('*');
            if name.starts_with('~') || name.ends_with(".*") || name.is_empty() || is_wild && !has_wildcards {
                self.note(entry, Fate::Refused, "names are exact, or, with `hostnames`, begin with `*.`");
                continue;
            }
            let mut names = Vec::new();
            if is_wild {
                let domain = name.trim_start_matches('*').trim_start_matches('.');
                names.extend(name.starts_with('.').then(|| domain.to_owned()));
                names.push(format!("*.{domain}"));
                let effect = "`*` is one part of a name, not several";
                self.note(entry, Fate::Approximated, effect);
            } else {
                names.push(name.to_owned());
            }
            draft.put("", "names", list(names.iter().map(String::as_str)));
            self.backends(entry, place, None, &mut draft, service);
            service.rules.push(draft);
        }
        if !service.of("").has("backend") {
            self.note(
                map,
                Fate::Refused,
                "it has no `default`: where would clients without a known name go?",
            );
        }
    }
}
