//! How a request takes part in the cache of its service: its key, and what the rules are for its path.

use std::fmt::Write;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use handfast_cache::{Heuristic, Key, Policy, forwarding};
use handfast_config::{model, path_readings};
use handfast_wire::http1::RequestHead;

use crate::cache::ServiceCache;
use crate::http::connection::HttpConnection;
use crate::http::gate::{self, Routes};
use crate::http::rules::RequestFacts;
use crate::http::sender::Identified;
use crate::worker::http::ThreadRequestRoute;
use crate::worker::services::Chosen;

/// The longest time for which a response without a statement is fresh, in seconds.
const HEURISTIC_LIMIT: u64 = 86_400;
/// A larger object is not fetched whole for a client that wants a part of it.
pub(crate) const WHOLE: u64 = 16 * 1024 * 1024;

/// How a request takes part.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) cache: Arc<ServiceCache>,
    pub(crate) key: Key,
    pub(crate) policy: Policy,
}

impl Plan {
    /// `None`: the service has no cache, the route does not use it, or the request has no URL.
    pub(crate) fn new(facts: &RequestFacts<'_>, routes: &Routes<'_>) -> Option<Box<Self>> {
        let (head, connection, route) = (facts.head, facts.connection, routes.route);
        let cache = connection.http.cache.as_ref()?;
        if !routes.all(is_cached) {
            return None;
        }
        let identity = identity(head, connection, route, facts.sender);
        let key = Key::of(connection.scheme(), head, identity.as_deref())?;
        let mut policy = policy(&cache.model, is_immutable(&cache.model, facts.path));
        // It has the address of each client too, so nothing would be found again.
        policy.trusts_forwarding = !connection.is_trusted || head.values("forwarded").next().is_none();
        Some(Box::new(Self { cache: Arc::clone(cache), key, policy }))
    }
}

fn is_cached(route: Option<&ThreadRequestRoute>) -> bool {
    route.is_none_or(|route| route.is_cached)
}

/// Returns true if the content of a path never changes. A client can make others request `/pool/..%2faccount`, and a backend may take that for
/// `/account`: then the page of the first one would be kept for all. So every reading of the path must fit.
fn is_immutable(model: &model::Cache, path: &[u8]) -> bool {
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let fits = |path: &[u8]| str::from_utf8(path).is_ok_and(|path| model.immutable.fit(path));
    let fit = |readings: Vec<Vec<u8>>| {
        readings.iter().all(|reading| fits(reading) && !reading.iter().any(u8::is_ascii_control))
    };
    fits(path) && path_readings(path, gate::MAX_READINGS).is_ok_and(fit)
}

/// What distinguishes requests for the same URL whose responses may differ, though no field of the client shows it: a route that not every request
/// for the URL takes, backends that the connection decides about (a client without a name in TLS may name any host), who sends it, where the
/// backend receives that, and what a trusted proxy says of the host and the scheme: it may repeat what its own client sent.
fn identity(
    head: &RequestHead<'_>,
    connection: &HttpConnection,
    route: Option<&ThreadRequestRoute>,
    sender: Option<&Identified>,
) -> Option<String> {
    let mut text = String::new();
    let mut add = |what: &str, value: &[u8]| {
        // Writing to memory cannot fail.
        let _ = write!(text, "{what}={};", HEXLOWER.encode(value));
    };
    if let Some(route) = route.filter(|route| route.is_for_some) {
        add("route", route.name.as_bytes());
    }
    let is_inherited = route.is_none_or(|route| route.index.is_none());
    if is_inherited && connection.chosen != Chosen::SERVICE {
        add("backends", connection.service.targets(connection.chosen).as_bytes());
    }
    if connection.is_trusted {
        forwarding(head)
            .for_each(|(name, value)| add(&String::from_utf8_lossy(name).to_ascii_lowercase(), value));
    }
    if let Some(certificate) = &connection.client_certificate {
        add("certificate", certificate.fingerprint.as_bytes());
    }
    if let Some(sender) = sender {
        add("user", sender.user.as_deref().unwrap_or_default().as_bytes());
        sender.added.iter().for_each(|(name, value)| add(name, value));
    }
    (!text.is_empty()).then_some(text)
}

fn policy(model: &model::Cache, is_immutable: bool) -> Policy {
    Policy {
        is_immutable,
        object_limit: model.object,
        heuristic: model.heuristic.map(|share| Heuristic {
            percent: u64::from(share.hundredths().div_ceil(100)),
            limit: HEURISTIC_LIMIT,
        }),
        stores_set_cookie: model.stores_set_cookie,
        honours_requests: model.clients_decide,
        trusts_forwarding: true,
        stale_while_revalidate: model.while_revalidate.as_secs(),
        stale_if_error: model.if_error.as_secs(),
        stale_if_unreachable: model.if_unreachable.as_secs(),
        fetches_whole: true,
    }
}

#[cfg(test)]
mod tests {
    use handfast_cache::bypass;
    use handfast_wire::http1::HeadLimits;

    use super::*;
    use crate::http::testing::{Fixture, head, with_head};

    /// The plan of a request with this field, by its route in the fixture, or by the first one as if its condition held.
    fn plan<T>(
        fixture: &Fixture,
        (path, field): (&str, &str),
        sender: Option<&Identified>,
        of: impl Fn(&RequestHead<'_>, Box<Plan>) -> T,
    ) -> Option<T> {
        let text = head(&[&format!("GET {path} HTTP/1.1"), "Host: localhost", field]);
        with_head(&text, &HeadLimits::default(), |head| {
            let connection = &fixture.connection;
            let facts = RequestFacts { head, path: path.as_bytes(), connection, id: "", sender };
            let mut routes = Routes::find(&connection.http, head, 0);
            routes.route = routes.route.or(connection.http.routes.first());
            Plan::new(&facts, &routes).map(|plan| of(head, plan))
        })
    }

    fn key(fixture: &Fixture, sender: Option<&Identified>) -> Option<Key> {
        plan(fixture, ("/a", "A: b"), sender, |_, plan| plan.key)
    }

    #[test]
    fn no_field_about_host_or_scheme_is_without_effect_on_the_key() {
        let known = |fixture: &Fixture, field: &str| {
            plan(fixture, ("/a", field), None, |head, plan| (plan.key, bypass(head, &plan.policy).is_some()))
        };
        let (strange, trusted) = (fixture(""), fixture("").trusted());
        let usual = known(&strange, "A: b");
        assert_eq!(known(&trusted, "A: b"), usual);
        for (field, in_key, bypasses) in [
            // It does not reach the backend.
            ("X-Forwarded-Host: evil.example", false, false),
            ("X-Host: evil.example", false, true),
            ("Front-End-Https: off", false, true),
        ] {
            let found = known(&strange, field).expect("there is a cache");
            assert_eq!(
                (Some(&found.0) != usual.as_ref().map(|usual| &usual.0), found.1),
                (in_key, bypasses),
                "{field}"
            );
        }
        for (field, in_key, bypasses) in [
            ("X-Forwarded-Host: evil.example", true, false),
            ("X-Forwarded-Proto: http", true, false),
            ("x-forwarded-prefix: /a", true, false),
            ("X-Forwarded-For: 192.0.2.1", false, false),
            ("X-Real-IP: 192.0.2.1", false, false),
            ("Forwarded: for=192.0.2.1;host=evil.example", true, true),
            ("X-Host: evil.example", false, true),
        ] {
            let found = known(&trusted, field).expect("there is a cache");
            assert_eq!(
                (Some(&found.0) != usual.as_ref().map(|usual| &usual.0), found.1),
                (in_key, bypasses),
                "{field}"
            );
        }
    }

    fn fixture(more: &str) -> Fixture {
        Fixture::with_tls(&format!("{more}\n[service.cache]\nfolder = \"kept\"\nsize = \"1MiB\""))
    }

    #[test]
    fn another_way_to_write_a_path_makes_nothing_immutable() {
        let keys = "folder = \"kept\"\nsize = \"1MiB\"\nimmutable = [\"/pool/**\", \"/**/*.css\"]";
        let fixture = Fixture::with_tls(&format!("[service.cache]\n{keys}"));
        let is_immutable =
            |path: &str| plan(&fixture, (path, "A: b"), None, |_, plan| plan.policy.is_immutable);
        for path in ["/pool/a.deb", "/pool/a%2Bb.deb?x=/..", "/pool//a.deb", "/a;x/b.css"] {
            assert_eq!(is_immutable(path), Some(true), "{path}");
        }
        let strange =
            ["/pool/..%2faccount", "/pool/%2e%2e/account", "/pool/..;/account", "/pool\\..\\account"];
        for path in strange.into_iter().chain([
            "/account;a.css",
            "/account%3f/a.css",
            "/account%23a.css",
            "/account%00.css",
            "/account",
        ]) {
            assert_eq!(is_immutable(path), Some(false), "{path}");
        }
    }

    #[test]
    fn another_way_to_write_a_path_is_no_way_into_the_cache() {
        let route = "[[service.route]]\npath = \"/account\"\ncache = false\n[[service.route]]\nbackend = \"127.0.0.1:9\"";
        let fixture = fixture(route);
        let is_cached = |path: &str| plan(&fixture, (path, "A: b"), None, |_, _| ()).is_some();
        for path in ["/account/1", "/%61ccount/1", "//account/1", "/a/..%2faccount/1", "/account;x/1"] {
            assert!(!is_cached(path), "{path}");
        }
        for path in ["/a", "/%61", "//a", "/accounts/1"] {
            assert!(is_cached(path), "{path}");
        }
    }

    #[test]
    fn what_the_connection_decides_is_part_of_the_key() {
        let rule = "[[service.rule]]\nnames = \"api.example\"\nbackend = \"127.0.0.1:9\"";
        let mut fixture = fixture(rule);
        let of_service = key(&fixture, None);
        fixture.connection.chosen = Chosen { route: 1, failed: false };
        let of_rule = key(&fixture, None);
        assert!(of_service.is_some() && of_rule.is_some() && of_service != of_rule);
    }

    #[test]
    fn who_sends_a_request_is_part_of_the_key_where_its_backend_is_told() {
        let fixture = fixture("[[service.route]]\nbackend = \"127.0.0.1:9\"");
        let nobody = key(&fixture, None);
        let user = |name: &str| Identified { user: Some(name.into()), added: Vec::new() };
        let told = |value: &str| Identified { user: None, added: vec![("x-user".into(), value.into())] };
        let keys = [
            nobody.clone(),
            key(&fixture, Some(&user("a"))),
            key(&fixture, Some(&user("b"))),
            key(&fixture, Some(&told("a"))),
            key(&fixture, Some(&told("b"))),
        ];
        for (index, one) in keys.iter().enumerate() {
            assert!(one.is_some() && keys[index + 1..].iter().all(|other| other != one), "{index}: {keys:?}");
        }
        assert_eq!(key(&fixture, None), nobody);
    }

    #[test]
    fn a_route_that_not_every_request_takes_has_its_own_keys() {
        let of_all = fixture("[[service.route]]\nbackend = \"127.0.0.1:9\"");
        for condition in ["share = \"5%\"", "headers = \"x-beta\""] {
            let of_some = fixture(&format!("[[service.route]]\nbackend = \"127.0.0.1:9\"\n{condition}"));
            assert!(key(&of_some, None) != key(&of_all, None), "{condition}");
        }
        assert_eq!(key(&fixture("[[service.route]]\nbackend = \"127.0.0.1:9\"\ncache = false"), None), None);
    }

    #[test]
    fn a_certificate_separates_clients_only_where_a_route_tells_it() {
        for (route, tells) in [
            ("", false),
            ("set-request-fields = \"x-by: {client-address}\"", false),
            ("set-request-fields = \"host: www.example\"", false),
            ("respond = { status = 204 }", false),
            ("set-request-fields = \"x-dn: a {client-subject}\"", true),
            ("add-request-fields = \"x-print: {client-fingerprint}\"", true),
            ("set-response-fields = \"x-dn: {client-subject}\"", true),
            ("redirect = { to = \"https://www.example/{client-fingerprint}\", status = \"302\" }", true),
        ] {
            let fixture = Fixture::new(&format!("[[service.route]]\npath = \"/a\"\n{route}\n"));
            assert_eq!(fixture.connection.http.tells_certificates(), tells, "{route}");
        }
    }
}
