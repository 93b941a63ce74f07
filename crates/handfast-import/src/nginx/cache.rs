//! `proxy_cache` and its kin: the cache of a service.

use super::grammar::Directive;
use super::scope::Scope;
use super::state::Import;
use super::value::{size, written_size};
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::Section;

/// Variables that Handfast's key has too, or that are the same in all requests of a service for a host: a key of these is no finer than Handfast's.
const KEYS: [&str; 12] = [
    "args",
    "host",
    "http_host",
    "is_args",
    "proxy_host",
    "query_string",
    "request_method",
    "request_uri",
    "scheme",
    "server_name",
    "server_port",
    "uri",
];
/// Size of a cache where nginx has no limit.
const DEFAULT_SIZE: u64 = 10 << 30;
/// Smallest cache of Handfast.
const MIN_SIZE: u64 = 1 << 20;
/// Fields by which clients ask for a response of the backend.
const ASKING_FIELDS: [&str; 2] = ["$http_pragma", "$http_cache_control"];

/// Marks the other routes of a service with a cache: nothing of theirs is cached.
pub(super) fn mark_others(service: &mut Draft) {
    let has_cache = !service.of("cache").is_empty();
    for route in &mut service.routes {
        let is_cached = route.of("").remove("cache");
        if has_cache && !is_cached && route.of("").has("backend") {
            route.put("", "cache", false);
        }
    }
}

impl<'d> Import<'d> {
    /// Writes the cache of the service, and marks a route whose responses it may keep. Where nginx's conditions cannot be kept, nothing is cached.
    pub(super) fn cache(&mut self, scope: &Scope<'d>, route: &mut Draft, service: &mut Draft) {
        let Some(cache) = scope.last("proxy_cache").filter(|cache| cache.argument(0) != "off") else {
            return;
        };
        if scope.text("proxy_buffering") == Some("off") {
            return self.note(cache, Fate::Same, "nothing is cached, as in nginx: proxy_buffering is off");
        }
        let name = cache.argument(0);
        let is_it = |path: &&&Directive| {
            path.name == "proxy_cache_path"
                && path.option("keys_zone=").is_some_and(|zone| zone.split(':').next() == Some(name))
        };
        let Some(path) = self.zones.iter().find(is_it).copied() else {
            let effect = format!("nothing is cached: there is no proxy_cache_path with the zone {name}");
            return self.note(cache, Fate::Approximated, effect);
        };
        if let Some((directive, word)) = finer_condition(scope) {
            let effect = format!(
                "nothing is cached where this holds: {word} would decide what is kept, and which clients receive it"
            );
            return self.note(directive, Fate::Approximated, effect);
        }
        route.put("", "cache", true);
        let settings = self.settings(path, scope, service);
        let written = |section: &Section| {
            let mut text = String::new();
            section.write("", &mut text);
            text
        };
        if service.of("cache").is_empty() {
            *service.of("cache") = settings;
        } else if written(service.of("cache")) != written(&settings) {
            let effect = "a service has one cache, with the settings of its first location";
            self.note(cache, Fate::Approximated, effect);
        }
        self.differences(path, scope);
    }

    /// The keys of the section.
    fn settings(&mut self, path: &'d Directive, scope: &Scope<'d>, service: &mut Draft) -> Section {
        let mut section = Section::default();
        // Folders of nginx's cache are emptied of all that is not nginx's.
        let name = service.of("").text("name").unwrap_or_default().replace('"', "");
        let folder = self.path(path.argument(0).trim_end_matches('/'));
        section.put("folder", format!("{folder}-{name}"));
        let most = path.option("max_size=").and_then(size);
        section.put("size", written_size(most.unwrap_or(DEFAULT_SIZE).max(MIN_SIZE)));
        if most.is_none() {
            let effect = format!("a cache has a size: {} are written", written_size(DEFAULT_SIZE));
            self.note_of(path, "proxy_cache_path … max_size", Fate::Approximated, effect);
        }
        // With more, responses would be kept that nginx does not keep: those that are stale from the start.
        section.put("stale-if-error", "off");
        let asks = |word: &String| ASKING_FIELDS.contains(&word.as_str());
        if !scope.all("proxy_cache_bypass").iter().any(|bypass| bypass.arguments.iter().any(asks)) {
            section.put("client-directives", false);
        }
        section
    }

    fn differences(&mut self, path: &'d Directive, scope: &Scope<'d>) {
        let effect = "responses are kept in another folder until there is no room for them, whatever `inactive` says; the key is the URL that the client requests; \
                      responses have Cache-Status and Age";
        self.note(path, Fate::Approximated, effect);
        if let Some(stale) = scope.last("proxy_cache_use_stale").filter(|stale| stale.argument(0) != "off") {
            let effect = "a stale response is served where the backend permits it (stale-while-revalidate and stale-if-error of Cache-Control, RFC 5861): for others, write the keys \
                          of these names in [service.cache], if nothing that it caches is for one client alone";
            self.note(stale, Fate::Approximated, effect);
        }
        if let Some(bypass) = scope.last("proxy_cache_bypass")
            && bypass.arguments.iter().any(|word| ASKING_FIELDS.contains(&word.as_str()))
        {
            let effect = "`no-cache` of clients has the backend asked, and no other value";
            self.note(bypass, Fate::Approximated, effect);
        }
        if let Some(methods) = scope.last("proxy_cache_methods")
            && methods.arguments.iter().any(|method| !["GET", "HEAD"].contains(&method.as_str()))
        {
            self.note(methods, Fate::Approximated, "responses to GET are cached, and no others");
        }
        if let Some(ignored) = scope.last("proxy_ignore_headers") {
            let effect = "no field is ignored: fewer responses are cached";
            self.note(ignored, Fate::Approximated, effect);
        }
    }
}

/// Finds a condition that Handfast's cache does not have, by which responses would be kept or sent that nginx fetches.
fn finer_condition<'d>(scope: &Scope<'d>) -> Option<(&'d Directive, String)> {
    let key = scope.last("proxy_cache_key").and_then(|key| {
        let text = key.arguments.concat();
        let unknown = variables(&text).into_iter().find(|name| !KEYS.contains(&name.as_str()))?;
        Some((key, format!("${unknown}")))
    });
    let of = |name: &str, known: &[&str]| {
        let directives = scope.all(name).into_iter();
        let words =
            directives.flat_map(|directive| directive.arguments.iter().map(move |word| (directive, word)));
        let mut unknown = words.filter(|(_, word)| !known.contains(&word.as_str()));
        unknown.next().map(|(directive, word)| (directive, word.clone()))
    };
    // Changes of protocol are not cached.
    let bypass =
        || of("proxy_cache_bypass", &["", "0", "$http_upgrade", "$http_pragma", "$http_cache_control"]);
    let kept = || of("proxy_no_cache", &["", "0", "$http_upgrade"]);
    key.or_else(bypass).or_else(kept)
}

/// Returns the names of the variables in a text.
fn variables(text: &str) -> Vec<String> {
    let after = text.split('$').skip(1).map(|rest| rest.strip_prefix('{').unwrap_or(rest));
    let name = |rest: &str| {
        rest.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '_').next().map(str::to_owned)
    };
    after.filter_map(name).collect()
}
