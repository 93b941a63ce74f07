//! `allow`, `deny`, `satisfy`, `auth_basic` and `limit_req`: access to a location, and its rate limit.

use super::grammar::Directive;
use super::scope::{Scope, own};
use super::state::Import;
use super::subrequests::auth_path;
use crate::address::networks;
use crate::draft::Draft;
use crate::note::Fate;
use crate::toml::{Value, table};

impl<'d> Import<'d> {
    /// Writes the access rules of a location that is passed to a backend. nginx applies none of them where it answers by `return`.
    pub(super) fn access(&mut self, scope: &Scope<'d>, route: &mut Draft) {
        if self.needs_addresses(scope) {
            self.networks(scope, route);
        }
        self.password(scope, route);
        self.rate(scope, route);
        self.auth_request(scope, route);
    }

    /// Returns true if addresses restrict access. With `satisfy any`, one of several conditions is enough: a list that admits no client is none of
    /// them, and a list that admits some cannot be an alternative to a password.
    fn needs_addresses(&mut self, scope: &Scope<'d>) -> bool {
        let Some(satisfy) = scope.last("satisfy").filter(|satisfy| satisfy.argument(0) == "any") else {
            return true;
        };
        let others = usize::from(has_password(scope)) + usize::from(auth_path(scope).is_some());
        let rules = scope.all_of(&["allow", "deny"]);
        let admits = rules.iter().any(|rule| rule.name == "allow");
        if others + usize::from(admits) > 1 {
            self.note(satisfy, Fate::Refused, "a request must satisfy all that a route demands");
        }
        others == 0
    }

    /// Refuses a location if requests would go past what guards them, because a route has no exact path: with `= /a`, nginx does not take `/a/b`.
    pub(super) fn guards(
        &mut self,
        (path, is_exact, location): (&str, bool, &'d Directive),
        all: &[(&str, bool, &'d Directive)],
        server: &Scope<'d>,
    ) {
        let guard_of = |location: &'d Directive| guard(location, &server.within(location.inner()));
        if own(location.inner(), "internal").is_some() {
            return;
        }
        let mine = guard_of(location);
        // They are sorted, the longest first.
        let reached = format!("{path}/");
        let other = all.iter().find(|(start, is_exact, _)| !is_exact && reached.starts_with(start));
        let theirs = other.map(|(.., other)| guard_of(other)).unwrap_or_default();
        if is_exact && !theirs.is_empty() && theirs != mine {
            let effect = format!(
                "{path}/a would be as open as {path}: write a location for {path}/ too, or the same rules"
            );
            let has_own = all.iter().any(|(start, is_exact, _)| !is_exact && *start == reached);
            if !has_own {
                self.note(location, Fate::Refused, effect);
            }
        }
    }

    /// `allow` and `deny`: the first one that fits decides, and without one the client is admitted.
    pub(super) fn networks(&mut self, scope: &Scope<'d>, draft: &mut Draft) {
        let (mut allowed, mut denied) = (Vec::new(), Vec::new());
        let mut is_closed = false;
        for rule in scope.all_of(&["allow", "deny"]) {
            let network = rule.argument(0);
            match (rule.name.as_str(), network) {
                ("allow", "all") => break,
                ("deny", "all") => {
                    is_closed = true;
                    break;
                }
                (_, "unix:") => {
                    self.note(rule, Fate::Refused, "clients are named by their addresses");
                }
                ("allow", _) => allowed.push(network),
                // Handfast looks for those that are denied first.
                _ if !allowed.is_empty() => {
                    self.note(
                        rule,
                        Fate::Refused,
                        "write those that are denied first, and those that are allowed after them",
                    );
                }
                _ => denied.push(network),
            }
        }
        if is_closed && allowed.is_empty() {
            denied = vec!["0.0.0.0/0", "::/0"];
        } else if is_closed {
            draft.put("", "allow-clients", networks(allowed));
        }
        if !denied.is_empty() {
            draft.put("", "refuse-clients", networks(denied));
        }
    }

    /// `auth_basic` and `auth_basic_user_file`: without one of them, nginx requires no password.
    fn password(&mut self, scope: &Scope<'d>, route: &mut Draft) {
        let (Some(realm), Some(file)) = (scope.last("auth_basic"), scope.last("auth_basic_user_file")) else {
            return;
        };
        if !has_password(scope) {
            return;
        }
        let is_plain = |sign: char| (sign.is_ascii_graphic() || sign == ' ') && !"\"\\$".contains(sign);
        for directive in [realm, file] {
            let text = directive.argument(0);
            if text.is_empty() || !text.chars().all(is_plain) {
                self.note(
                    directive,
                    Fate::Refused,
                    "expected letters and signs of ASCII, without variables and quotes",
                );
            }
        }
        let keys = [("file", self.path(file.argument(0)).into()), ("realm", realm.argument(0).into())];
        route.put("", "basic-auth", table(keys));
    }

    /// `limit_req`, with the settings of its zone.
    fn rate(&mut self, scope: &Scope<'d>, route: &mut Draft) {
        let limits = scope.all("limit_req");
        let Some(limit) = limits.first() else { return };
        if let Some(second) = limits.get(1) {
            self.note(second, Fate::Refused, "a route has one limit");
        }
        let Some(name) = limit.option("zone=") else {
            return self.note(limit, Fate::Refused, "expected a zone");
        };
        let is_it = |zone: &&&Directive| {
            zone.option("zone=").is_some_and(|zone| zone.split(':').next() == Some(name))
        };
        let zones = self.zones.iter().filter(|zone| zone.name == "limit_req_zone");
        let Some(zone) = zones.clone().find(is_it).copied() else {
            return self.note(
                limit,
                Fate::Refused,
                format!("there is no limit_req_zone with the name {name}"),
            );
        };
        let rate = zone.option("rate=").and_then(|rate| {
            let (number, per) = rate.split_once("r/")?;
            let per = match per {
                "s" => "1s",
                "m" => "1m",
                _ => return None,
            };
            Some((number.parse::<i64>().ok().filter(|number| (1..=1_000_000).contains(number))?, per))
        });
        // One fits always, and `burst` more.
        let more = limit.option("burst=").map_or(Some(0), |more| more.parse::<i64>().ok());
        let burst = more.filter(|more| (0..1_000_000).contains(more)).map(|more| more + 1);
        let (Some((requests, per)), Some(burst)) = (rate, burst) else {
            return self.note(
                limit,
                Fate::Refused,
                "expected a rate from 1 to 1000000, and a burst below that",
            );
        };
        let mut keys: Vec<(&str, Value)> =
            vec![("requests", requests.into()), ("per", per.into()), ("burst", burst.into())];
        match zone.argument(0) {
            "$binary_remote_addr" | "$remote_addr" => {}
            "$server_name" => keys.push(("by", "route".into())),
            key => match key.strip_prefix("$http_") {
                Some(field) => {
                    keys.push(("by", format!("header:{}", field.replace('_', "-")).into()));
                    let effect =
                        "requests without the field are counted by their address; nginx does not count them";
                    self.note(zone, Fate::Approximated, effect);
                }
                None => self.note(
                    zone,
                    Fate::Refused,
                    "expected the address of the client, a field ($http_…) or $server_name as the key",
                ),
            },
        }
        route.put("", "rate-limit", table(keys));
    }
}

/// Returns true if nginx requires a password.
fn has_password(scope: &Scope<'_>) -> bool {
    scope.last("auth_basic_user_file").is_some()
        && scope.text("auth_basic").is_some_and(|realm| realm != "off")
}

/// Returns the directives that restrict access to a location, as written; empty without a restriction.
fn guard(location: &Directive, scope: &Scope<'_>) -> Vec<String> {
    if own(location.inner(), "return").is_some() {
        return Vec::new();
    }
    let mut rules = scope.all_of(&["allow", "deny"]);
    if scope.text("auth_basic").is_some_and(|realm| realm != "off") {
        rules.extend(["auth_basic", "auth_basic_user_file"].iter().filter_map(|name| scope.last(name)));
    }
    rules.extend(scope.last("auth_request").filter(|_| auth_path(scope).is_some()));
    rules.extend(own(location.inner(), "internal"));
    rules.into_iter().map(Directive::text).collect()
}
