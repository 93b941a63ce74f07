//! Each kind of failure on the way to the backends is reported, with what an operator needs next.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::fake::{Fake, Script};
use crate::rates::{History, RecentRequests};
use handfast_observe::metrics::Registry;
use handfast_observe::open::OpenRequest;

/// A program with one service `web` and two backends that are up.
fn calm() -> Status {
    let registry = Registry::new();
    let web = registry.thread("worker-0").service("web");
    for name in ["10.0.0.7:80", "10.0.0.8:80"] {
        web.backend(name, true);
    }
    let fake = Fake { script: Arc::new(Script::default()), registry };
    let mut status = Status::of(&fake, &History::default());
    status.measured.services[0].backends.iter_mut().for_each(|backend| backend.state = BackendState::Up);
    status.recent.over_seconds = 60.0;
    status
}

fn assert_finding(status: &Status, urgency: Urgency, words: &[&str]) {
    let reported = sorted_findings(status);
    let fits = |(how, sentence): &(Urgency, String)| {
        *how == urgency && words.iter().all(|word| sentence.contains(word))
    };
    assert!(reported.iter().any(fits), "{urgency:?} {words:?} is not in {reported:#?}");
}

fn end(step: &str, side: &str, cause: &str, count: u64) -> End {
    End { step: Step::named(step), side: Side::named(side), cause: Cause::named(cause), count }
}

fn set_down(status: &mut Status, place: usize) {
    let now = status.measured.process.now;
    let backend = &mut status.measured.services[0].backends[place];
    backend.state = BackendState::Down;
    backend.down_since = Some(now - Duration::from_secs(125));
    backend.last_failure = Some("refused".into());
    backend.failures_in_a_row = 5;
    backend.pause_left_seconds = Some(4.2);
}

fn with_requests(by_status: &[(&'static str, u64)], new: u64, reused: u64) -> Status {
    let mut status = calm();
    let web = status.recent.services.entry("web".into()).or_default();
    web.requests = Some(RecentRequests {
        by_status: by_status.iter().map(|(class, count)| ((*class).into(), *count)).collect(),
        new_connection: new,
        reused_connection: reused,
        ..RecentRequests::default()
    });
    status
}

/// Clients that do not trust a new certificate are no server error, and others get through.
#[test]
fn handshakes_that_end_at_a_certificate_are_reported_by_their_share() {
    let with = |alerts: u64, handshakes: u64| {
        let mut status = calm();
        let web = status.recent.services.entry("web".into()).or_default();
        (web.ends, web.handshakes) = (vec![end("handshake", "client", "alert", alerts)], handshakes);
        status
    };
    for calm in [with(4, 10), with(9, 91), with(0, 100)] {
        assert_eq!(sorted_findings(&calm), []);
    }
    assert_finding(
        &with(10, 90),
        Urgency::Soon,
        &["10 of 100 handshakes (10 %) of web failed at a certificate in the last 60 s"],
    );
    let mut most = with(30, 10);
    most.failures = vec![FailureSnapshot {
        time: most.measured.process.now,
        service: "web".into(),
        client: None,
        backend: None,
        step: "handshake".into(),
        side: "client".into(),
        cause: "alert".into(),
        sentence: "".into(),
        detail: Some("alert unknown_ca (48)".into()),
    }];
    assert_finding(
        &most,
        Urgency::Bad,
        &[
            "30 of 40 handshakes (75 %) of web",
            "(handshake / client / alert); the last one: alert unknown_ca (48).",
        ],
    );
    let other = |cause| {
        let mut status = calm();
        let web = status.recent.services.entry("web".into()).or_default();
        (web.ends, web.handshakes) = (vec![end("handshake", "client", cause, 30)], 10);
        sorted_findings(&status)
    };
    assert_eq!(other("closed-early"), [], "scanners and health checks do so");
}

#[test]
fn requests_that_wait_and_uploads_that_are_too_slow_are_reported() {
    let mut status = with_requests(&[("2xx", 90), ("4xx", 10)], 0, 0);
    assert_eq!(sorted_findings(&status), []);
    let web = status.recent.services.get_mut("web").and_then(|web| web.requests.as_mut()).expect("there");
    web.failures = vec![end("relay", "client", "body-timeout", 10)];
    assert_finding(
        &status,
        Urgency::Soon,
        &[
            "10 of 100 requests of web ended in the last 60 s because their client was too slow",
            "body-timeout",
        ],
    );
    let open = |seconds: f64, bytes: u64, part: &str| OpenRequest {
        service: "web".into(),
        part: part.into(),
        seconds,
        bytes_from_client: bytes,
        backend: Some("10.0.0.7:80".into()),
        ..OpenRequest::default()
    };
    for (requests, words) in [
        (vec![open(29.0, 0, "response"); 9], None),
        (vec![open(300.0, 0, "relay"); 9], None),
        (vec![open(300.0, 0, "response"); 4], None),
        (
            vec![open(300.0, 0, "response"); 5],
            Some(
                "5 requests of web are open for more than 30 s without an answer, the oldest for 5 min: they wait for 10.0.0.7:80.",
            ),
        ),
        (
            vec![open(300.0, 7, "response"); 5],
            Some("they have content: their clients send slowly, or 10.0.0.7:80 does not read it"),
        ),
    ] {
        let mut status = calm();
        status.open.requests = requests;
        match words {
            None => assert_eq!(sorted_findings(&status), []),
            Some(words) => assert_finding(&status, Urgency::Soon, &[words]),
        }
    }
}

#[test]
fn server_errors_are_reported_by_their_share() {
    for calm in [
        &[("2xx", 1_000), ("5xx", 9)][..],
        &[("2xx", 20), ("5xx", 1)],
        &[("4xx", 500)],
        &[("2xx", 0), ("5xx", 0)],
    ] {
        assert_eq!(sorted_findings(&with_requests(calm, 0, 0)), [], "{calm:?}");
    }
    let mut some = with_requests(&[("2xx", 980), ("5xx", 20)], 0, 0);
    let from_backends = "20 of 1,000 requests (2.0 %) of web were answered with a server error (5xx) in the last 60 s; the backends sent them.";
    assert_finding(&some, Urgency::Soon, &[from_backends]);
    if let Some(requests) = some.recent.services.get_mut("web").and_then(|web| web.requests.as_mut()) {
        requests.failures = vec![end("connect", "backend", "refused", 15)];
    }
    assert_finding(
        &some,
        Urgency::Soon,
        &["no backend answered 15 completely: ", "connect / backend / refused"],
    );
    assert_finding(&with_requests(&[("5xx", 3)], 0, 0), Urgency::Bad, &["3 of 3 requests (100 %)"]);
}

#[test]
fn maintenance_is_reported_and_its_responses_are_no_server_errors() {
    let mut status = with_requests(&[("2xx", 980), ("5xx", 500)], 0, 0);
    let since = std::time::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let allow = vec!["10.0.0.0/8".to_owned()];
    let by = "command".into();
    let maintenance = MaintenanceSnapshot { by, since, allow, retry_after_seconds: 300 };
    status.measured.services[0].maintenance = Some(maintenance);
    let requests = status.recent.services.get_mut("web").and_then(|web| web.requests.as_mut());
    requests.expect("they are there").failures = vec![end("route", "operator", "maintenance", 500)];
    let expected = "web is in maintenance since 2023-11-14 22:13:20 UTC by command, except for clients from 10.0.0.0/8: its requests are \
                    answered with 503 (maintenance).";
    assert_eq!(sorted_findings(&status), [(Urgency::Soon, expected.to_owned())]);
    let requests = status.recent.services.get_mut("web").and_then(|web| web.requests.as_mut());
    requests.expect("they are there").failures[0].count = 480;
    assert_finding(&status, Urgency::Soon, &["20 of 1,000 requests (2.0 %)"]);
}

#[test]
fn backend_connections_that_are_not_reused_are_reported() {
    for (new, reused) in [(99, 0), (50, 50), (10, 990)] {
        assert_eq!(sorted_findings(&with_requests(&[("2xx", 1_000)], new, reused)), [], "{new} {reused}");
    }
    let words = ["Only 20 % of 1,000 requests to backends of web in the last 60 s used a pooled connection"];
    assert_finding(&with_requests(&[("2xx", 1_000)], 800, 200), Urgency::Soon, &words);
}

/// For a look at it in a browser.
pub(in super::super) fn bring_findings(status: &mut Status) {
    let now = status.measured.process.now;
    for service in &mut status.measured.services {
        service.backends.iter_mut().for_each(|backend| backend.state = BackendState::Up);
    }
    let web = status.measured.services.iter_mut().find(|service| service.name == "web").expect("a web");
    web.backends[1].state = BackendState::Down;
    web.backends[1].down_since = Some(now - Duration::from_secs(125));
    web.backends[1].last_failure = Some("connect-timeout".into());
    web.backends[1].failures_in_a_row = 14;
    web.backends[1].pause_left_seconds = Some(4.2);
    web.connections_limit = Some(200);
    web.waiting.insert("service".into(), 12);
    status.measured.names = vec![
        NameSnapshot {
            name: "db.example.org:5432".into(),
            services: vec!["mail".into()],
            addresses: vec!["10.0.0.9".into()],
            answered: 12,
            failed: 3,
            problem: Some("no answer within 10s".into()),
            failing_since: Some(now - Duration::from_secs(61)),
        },
        NameSnapshot {
            name: "imap.example.org:143".into(),
            services: vec!["mail".into()],
            addresses: vec!["10.0.0.11".into()],
            answered: 7,
            ..NameSnapshot::default()
        },
    ];
}

#[test]
fn nothing_is_reported_when_all_is_well() {
    let mut status = calm();
    assert_eq!(sorted_findings(&status), []);
    let recent = status.recent.services.entry("web".into()).or_default();
    recent.ends = vec![end("relay", "client", "finished", 90), end("hello", "client", "closed-early", 40)];
    recent.handshakes = 90;
    recent.backends.insert("10.0.0.7:80".into(), Attempts { connected: 90, failed: 0 });
    assert_eq!(sorted_findings(&status), [], "health checks that only connect are no failures");
}

#[test]
fn a_backend_that_is_down_is_reported_with_cause_and_time() {
    let mut status = calm();
    set_down(&mut status, 1);
    let down = [
        "Backend 10.0.0.8:80 of web is down since 20",
        "(2 min ago)",
        "ago): refused: nobody listened at the backend's address (connection refused). 5 attempts in a row failed",
        "in 4 s",
    ];
    assert_finding(&status, Urgency::Soon, &down);
    set_down(&mut status, 0);
    assert_finding(&status, Urgency::Bad, &down);
    assert_finding(&status, Urgency::Bad, &["Clients of web reach no backend. None of its backends is up."]);
    status.measured.services[0].backends.pop();
    assert_finding(&status, Urgency::Bad, &["Its only backend is not up."]);
}

#[test]
fn a_name_without_an_address_is_reported() {
    let mut status = calm();
    let now = status.measured.process.now;
    status.measured.services[0].backends.truncate(1);
    status.measured.services[0].backends[0].name = "missing.invalid:80".into();
    status.measured.services[0].backends[0].state = BackendState::NoAddress;
    status.measured.names = vec![NameSnapshot {
        name: "missing.invalid:80".into(),
        services: vec!["web".into()],
        failed: 4,
        problem: Some("there is no such name".into()),
        failing_since: Some(now - Duration::from_secs(20)),
        ..NameSnapshot::default()
    }];
    assert_finding(&status, Urgency::Bad, &["Clients of web reach no backend"]);
    let words = [
        "missing.invalid:80 of backends of web",
        "(20 s ago): there is no such name",
        "getent ahosts missing.invalid ",
    ];
    assert_finding(&status, Urgency::Bad, &words);
    status.measured.services[0].backends[0].state = BackendState::Up;
    status.measured.names[0].addresses = vec!["10.0.0.7".into()];
    assert_finding(&status, Urgency::Soon, &["cannot be resolved", "Its last address 10.0.0.7 stays in use"]);
}

#[test]
fn failing_connections_are_reported_by_their_share() {
    let mut status = calm();
    let recent = status.recent.services.entry("web".into()).or_default();
    recent.ends = vec![end("connect", "backend", "connect-timeout", 13)];
    assert_finding(
        &status,
        Urgency::Bad,
        &["13 of 13 connections (100 %) of web reached no backend in the last 60 s", "connect-timeout"],
    );
    let recent = status.recent.services.entry("web".into()).or_default();
    recent.backends.insert("10.0.0.7:80".into(), Attempts { connected: 987, failed: 3 });
    assert_finding(&status, Urgency::Soon, &["13 of 1,000 connections (1.3 %) of web"]);
    assert_finding(
        &status,
        Urgency::Soon,
        &["3 of 990 attempts to connect to backend 10.0.0.7:80 of web failed"],
    );
    let recent = status.recent.services.entry("web".into()).or_default();
    recent.ends = vec![end("relay", "backend", "reset", 9), end("connect", "local", "out-of-ports", 2)];
    assert_finding(&status, Urgency::Soon, &["The backend broke off 9 of 11 connections of web"]);
    assert_finding(&status, Urgency::Soon, &["2 of 989 connections (0.20 %)", "out of source ports"]);
    let recent = status.recent.services.entry("web".into()).or_default();
    recent.ends = vec![end("handshake", "client", "alert", 7), end("handshake", "client", "tls", 1)];
    assert_finding(
        &status,
        Urgency::Soon,
        &["None of 8 TLS clients of web completed its handshake", "mostly"],
    );
}

#[test]
fn limits_that_hold_clients_up_are_reported() {
    let mut status = calm();
    let web = &mut status.measured.services[0];
    (web.accepted, web.closed, web.connections_limit, web.address_limit) = (4, 0, Some(4), Some(3));
    assert_finding(&status, Urgency::Soon, &["web has 4 of 4 connections (max-connections)"]);
    status.measured.services[0].waiting.insert("service".into(), 2);
    assert_finding(
        &status,
        Urgency::Bad,
        &["2 clients wait for web: 4 of 4 connections are open", "max-connections of the service"],
    );
    status.measured.connections_limit = 5;
    assert_finding(&status, Urgency::Soon, &["4 of the 5 connections that the process may serve"]);
    status.recent.services.entry("web".into()).or_default().rate_limited = 7;
    assert_finding(&status, Urgency::Soon, &["7 connections to web refused by a reset", "(handshake-rate)"]);
    status.recent.services.entry("web".into()).or_default().rejected = 6;
    assert_finding(
        &status,
        Urgency::Soon,
        &["6 connections to web refused by a reset", "had 3 already (max-connections-per-address)"],
    );
}
