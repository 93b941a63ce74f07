//! A route as its requests are served has all that it sets and the rest of its service, and a request of the proxy's own has all of its route.
//!
//! Every property is named here: one that is added does not compile before it was compared.

use super::*;
use crate::requests::testing::{Fixture, head};
use crate::worker::request_routes::{ThreadMirror, ThreadServers};

const SERVICE: &str = r#"
[service.http]
response-timeout = "11s"
body-timeout = "12s"
max-body = "13B"
retries = 4
compression = true
[service.cache]
folder = "kept"
size = "1MiB"
[[service.route]]
name = "all"
path = "/all"
methods = "GET"
backend = "127.0.0.1:3"
response-timeout = "21s"
body-timeout = "22s"
max-body = "23B"
retries = 0
cache = false
sticky = { cookie = "at" }
mirror = { to = "127.0.0.1:5" }
forward-auth = { to = "127.0.0.1:6", path = "/", timeout = "31s" }
set-request-headers = "x-a: b"
[[service.route]]
name = "nothing"
path = "/nothing"
"#;

fn limits(answer: u64, content: u64, body: u64, retries: u32) -> RequestLimits {
    let (answer, content) = (Duration::from_secs(answer), Duration::from_secs(content));
    RequestLimits { answer, content, body: Some(body), retries }
}

fn limits_of(servers: &ThreadServers) -> &RequestLimits {
    &servers.http.fallback.limits
}

/// A request for this path.
fn request(fixture: &Fixture, path: &str) -> Box<Request> {
    fixture.request(&head(&[&format!("GET {path} HTTP/1.1"), "Host: a.example", "Cookie: at=x"]))
}

/// A head for requests of the proxy's own.
fn root() -> OwnedRequest {
    OwnedRequest::of_written(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").expect("a head").expect("whole")
}

#[test]
fn a_route_has_what_it_sets() {
    let fixture = Fixture::new(SERVICE);
    let request = request(&fixture, "/all");
    let ThreadRequestRoute {
        name,
        action,
        path,
        rules,
        dropped_trailers,
        gate,
        limits: own,
        sticky,
        auth,
        is_for_some,
        files,
        cache,
        compression,
        mirror,
        index,
        is_guard,
    } = &*request.route;
    assert!(*is_guard && compression.is_none(), "it asks a server");
    assert!(files.folder.is_none() && files.error_pages.pages.is_empty());
    assert_eq!(
        (name.as_deref(), path.as_ref().map(|path| &*path.prefix), *index),
        (Some("all"), Some("/all"), Some(1))
    );
    assert_eq!(dropped_trailers.len(), 2, "its field, and the identifier: {dropped_trailers:?}");
    assert!(matches!(action, RouteAction::Backends(..)), "{action:?}");
    assert!(rules.as_ref().is_some_and(|rules| rules.request.len() == 1) && sticky.is_some());
    assert!(gate.as_ref().is_some_and(|gate| gate.forward.is_some()) && *is_for_some && cache.is_none());
    assert_eq!(*own, limits(21, 22, 23, 0));
    let auth = auth.as_ref().expect("it asks a server");
    // One more connection where a kept one was closed.
    assert_eq!((auth.index, limits_of(auth)), (2, &limits(31, 31, 23, 1)));
    let ThreadMirror { servers, share: _, content: _, under_way: _ } =
        &**mirror.as_ref().expect("it has a mirror");
    assert_eq!((servers.index, limits_of(servers)), (3, &limits(21, 22, 23, 1)));
}

#[test]
fn a_route_that_sets_nothing_and_no_route_have_what_their_service_has() {
    let fixture = Fixture::new(SERVICE);
    for (path, expected) in [("/nothing", Some("nothing")), ("/other", None)] {
        let request = request(&fixture, path);
        let ThreadRequestRoute {
            name,
            action,
            path,
            rules,
            dropped_trailers,
            gate,
            limits: own,
            sticky,
            auth,
            is_for_some,
            files,
            cache,
            compression,
            mirror,
            index,
            is_guard: false,
        } = &*request.route
        else {
            panic!("nothing restricts access to {path}");
        };
        assert_eq!((name.as_deref(), path.is_some(), *index), (expected, expected.is_some(), None));
        assert_eq!(*action, RouteAction::Inherit);
        assert!(rules.is_none() && gate.is_none() && sticky.is_none() && auth.is_none() && mirror.is_none());
        assert!(!is_for_some && cache.is_some() && compression.is_some());
        assert!(files.folder.is_none());
        assert_eq!(dropped_trailers.len(), 1, "the identifier: {dropped_trailers:?}");
        assert_eq!(*own, limits(11, 12, 13, 4));
    }
}

#[test]
fn a_request_of_the_proxys_own_has_everything_of_its_route() {
    let mut fixture = Fixture::new(SERVICE);
    for (path, failed) in [("/all", false), ("/all", true), ("/nothing", false), ("/other", false)] {
        fixture.connection.chosen = Chosen { route: 0, failed };
        let mut request = request(&fixture, path);
        if let Action::Authenticate(_) = request.action {
            let text = String::from_utf8(request.head.text().to_vec()).expect("text");
            crate::requests::testing::with_head(&text, &fixture.connection.http.model.head.clone(), |head| {
                request.admit(head, &fixture.connection, &Identified::default());
            });
        }
        let connection = fixture.connection.for_own_requests();
        let again = request.own_with_head(root(), &connection);
        let Request {
            head: own_head,
            action,
            is_head,
            is_idempotent,
            route,
            body_limit,
            affinity,
            slot,
            thread,
            service,
            // Of the client: nothing of it is sent or waited for again.
            version: _,
            framing,
            keeps_open: _,
            expects_continue,
            requests_upgrade: wants_upgrade,
            websocket_accept,
            is_about_the_connection,
            is_grpc: _,
            prefers_json: _,
            response_fields,
            cached,
            compression,
            copy,
            record: _,
            open,
            part: _,
            totals,
            has_ended,
        } = &again;
        assert!(own_head.text().starts_with(b"GET / "), "{path}");
        assert_eq!((action, *is_head), (&request.action, request.is_head), "{path}");
        assert!(Rc::ptr_eq(route, &request.route) && *is_idempotent, "{path}");
        assert_eq!(*body_limit, request.body_limit, "{path}");
        assert_eq!(format!("{affinity:?}"), format!("{:?}", request.affinity), "{path}");
        assert!(
            slot.is_none() && Rc::ptr_eq(thread, &request.thread) && Rc::ptr_eq(service, &request.service)
        );
        assert_eq!(*framing, Framing::None);
        assert!(!expects_continue && !wants_upgrade && !is_about_the_connection, "{path}");
        assert!(
            websocket_accept.is_none()
                && response_fields.is_none()
                && cached.is_none()
                && copy.is_none()
                && compression.is_none(),
            "{path}"
        );
        // It is neither counted nor logged.
        assert!(open.is_none() && *has_ended && !Rc::ptr_eq(totals, &request.totals), "{path}");
    }
}

#[test]
fn servers_beside_the_backends_are_those_of_the_route_also_for_failed_clients() {
    let mut fixture = Fixture::new(SERVICE);
    fixture.connection.chosen = Chosen { route: 0, failed: true };
    let request = request(&fixture, "/all");
    let mirror = request.route.mirror.as_ref().expect("it has a mirror");
    for servers in [&mirror.servers, request.route.auth.as_ref().expect("it asks a server")] {
        let connection = fixture.connection.towards(servers);
        let own = Request::own(root(), &connection, &connection.http.fallback);
        assert_eq!(own.action, Action::Forward(Chosen { route: servers.index, failed: false }));
        assert_eq!(own.limits(), limits_of(servers));
    }
}
