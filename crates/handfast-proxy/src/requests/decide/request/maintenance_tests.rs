//! Requests of a service in maintenance.

use std::collections::BTreeMap;

use handfast_acme::Answers;
use handfast_config::model::Maintenance;

use super::*;
use crate::admission::maintenance::MaintenanceTable;
use crate::requests::testing::{Fixture, head};
use crate::worker::challenges::{Challenges, ThreadChallenges};

fn in_maintenance(more: &str, allow: &[&str]) -> Fixture {
    let fixture = Fixture::new(more);
    let allow = allow.iter().map(|prefix| prefix.parse().expect("a prefix")).collect();
    let maintenance = Maintenance { allow, retry_after: Duration::from_secs(77) };
    let table = MaintenanceTable::new([("web", &maintenance)].into_iter());
    fixture.connection.thread.set_maintenance(table);
    fixture
}

fn is_refused(fixture: &Fixture, line: &str) -> bool {
    let request = fixture.request(&head(&[line, "Host: a"]));
    let Action::Refuse(refusal) = &request.action else { return false };
    assert_eq!((refusal.status, refusal.reason.cause), (Some(503), Cause::Maintenance), "{line}");
    assert_eq!(refusal.fields, [(Cow::Borrowed("Retry-After"), b"77".to_vec())]);
    true
}

/// It comes before conditions of routes, limits, passwords and responses; a client that is served meets all of these.
#[test]
fn maintenance_comes_before_everything_that_a_route_does() {
    let routes = "[[service.route]]\npath = \"/a\"\nrespond = 404\n[[service.route]]\npath = \"/b\"\nredirect = { to = \"/c\" }\n\
                  [[service.route]]\npath = \"/c\"\nrefuse-clients = \"0.0.0.0/0\"\n\
                  [[service.route]]\npath = \"/d\"\nforward-auth = { to = \"127.0.0.1:9\", path = \"/\" }\n\
                  [[service.route]]\npath = \"/e\"\nrate-limit = { requests = 1, per = \"1h\" }\n";
    let paths = ["/a", "/b", "/c", "/d", "/e", "/e", "/f"];
    let fixture = in_maintenance(routes, &[]);
    for path in paths {
        assert!(is_refused(&fixture, &format!("GET {path} HTTP/1.1")), "{path}");
    }
    fixture.connection.thread.set_maintenance(MaintenanceTable::default());
    let request = fixture.request(&head(&["GET /e HTTP/1.1", "Host: a"]));
    assert!(matches!(request.action, Action::Forward(_)), "no request was counted");
    let other = in_maintenance(routes, &["192.0.2.7"]);
    for path in &paths[..5] {
        let request = other.request(&head(&[&format!("GET {path} HTTP/1.1"), "Host: a"]));
        assert_eq!(matches!(request.action, Action::Refuse(_)), *path == "/c", "{path}");
    }
}

#[test]
fn challenges_are_answered_in_maintenance() {
    let fixture = in_maintenance("", &[]);
    let (installed, _) = tokio::sync::mpsc::channel(1);
    let answers =
        Answers { files: BTreeMap::from([("token".into(), "content".into())]), ..Answers::default() };
    let challenges = ThreadChallenges::new(&Challenges::new(answers, installed));
    fixture.connection.thread.answer_challenges(challenges);
    let request = fixture.request(&head(&["GET /.well-known/acme-challenge/token HTTP/1.1", "Host: a"]));
    assert!(matches!(request.action, Action::Challenge(_)));
    assert!(is_refused(&fixture, "GET /.well-known/acme-challenge/other HTTP/1.1"));
}

#[test]
fn a_request_that_is_too_large_is_refused_as_such() {
    let fixture = in_maintenance("http = { max-body = \"10B\" }", &[]);
    let large = fixture.try_request(&head(&["POST / HTTP/1.1", "Host: a", "Content-Length: 11"]));
    assert_eq!(large.expect_err("it is too large").fault.status, Some(413));
}
