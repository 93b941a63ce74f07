//! Fields that a backend receives, from clients, proxies and attackers.

use handfast_http::http1::HeadLimits;

use super::*;
use crate::requests::testing::{Fixture, head, with_head};

const GET: &str = "GET /a?b HTTP/1.1";
const NO_ID: &str = "http = { request-id = \"off\" }";

/// The lines that a backend receives.
fn lines(fixture: &Fixture, sent: &[&str]) -> Vec<String> {
    fixture.forwarded(&head(sent)).split("\r\n").map(str::to_owned).collect()
}

/// The values of a field that a backend receives.
fn values(fixture: &Fixture, sent: &[&str], name: &str) -> Vec<String> {
    let lines = lines(fixture, sent);
    let fields = lines.iter().filter_map(|line| line.split_once(": "));
    fields.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
}

#[test]
fn fields_keep_their_order_and_case_and_those_of_the_proxy_come_behind_them() {
    let sent = [GET, "hOST: Shop.example:8080", "X-b: 2", "x-A: 1", "X-b:   3 ", "ACCEPT: */*"];
    let received = [
        GET,
        "hOST: Shop.example:8080",
        "X-b: 2",
        "x-A: 1",
        "X-b: 3",
        "ACCEPT: */*",
        "X-Forwarded-For: 192.0.2.7",
        "X-Forwarded-Proto: http",
        "X-Forwarded-Host: Shop.example:8080",
    ];
    assert_eq!(lines(&Fixture::new(NO_ID), &sent), received);
}

#[test]
fn what_a_client_claims_to_be_is_removed() {
    let claims = [
        "X-Forwarded-For: 10.0.0.1",
        "x-forwarded-for: 10.0.0.2",
        "X-FORWARDED-PROTO: https",
        "X-Forwarded-Host: admin.example",
        "X-Forwarded-Port: 443",
        "X-Forwarded-Whatever: yes",
        "X-Real-IP: 10.0.0.3",
        "Forwarded: for=10.0.0.4",
    ];
    let sent = [&[GET, "Host: a"], &claims[..]].concat();
    let own = ["X-Forwarded-For: 192.0.2.7", "X-Forwarded-Proto: http", "X-Forwarded-Host: a"];
    let standard = ["Forwarded: for=192.0.2.7;proto=http;host=\"a\""];
    for (written, own) in [
        ("x-forwarded", &own[..]),
        ("forwarded", &standard[..]),
        ("both", &[&own[..], &standard[..]].concat()[..]),
        ("off", &[]),
    ] {
        let fixture = Fixture::new(&format!("http = {{ request-id = \"off\", forwarded = \"{written}\" }}"));
        assert_eq!(lines(&fixture, &sent), [&[GET, "Host: a"], own].concat(), "{written}");
    }
}

#[test]
fn what_a_trusted_proxy_sends_is_continued_or_stays_as_it_is() {
    let sent = [
        GET,
        "Host: a",
        "X-Forwarded-For: 203.0.113.1, 203.0.113.2",
        "X-Real-IP: 203.0.113.1",
        "x-forwarded-for: 203.0.113.3",
        "X-Forwarded-Proto: https",
        "Forwarded: for=203.0.113.1",
        "X-Forwarded-Port: 443",
    ];
    let both = Fixture::new("http = { request-id = \"off\", forwarded = \"both\" }").trusted();
    let received = [
        GET,
        "Host: a",
        "X-Real-IP: 203.0.113.1",
        "X-Forwarded-Port: 443",
        "X-Forwarded-For: 203.0.113.1, 203.0.113.2, 203.0.113.3, 192.0.2.7",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: a",
        "Forwarded: for=203.0.113.1, for=192.0.2.7;proto=http;host=\"a\"",
    ];
    assert_eq!(lines(&both, &sent), received);
    let off = Fixture::new("http = { request-id = \"off\", forwarded = \"off\" }").trusted();
    assert_eq!(lines(&off, &sent), sent, "it writes none itself");
}

#[test]
fn a_connection_field_does_not_remove_the_fields_of_the_proxy() {
    let fixture = Fixture::new("http = { forwarded = \"both\" }");
    let own = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded", "X-Request-Id"];
    let listed = format!("Connection: close, {}, X-Other", own.join(", "));
    let sent = [GET, "Host: a", "X-Forwarded-For: 10.0.0.1", &listed, "X-Other: 1"];
    for name in own {
        let values = values(&fixture, &sent, name);
        assert_eq!(values.len(), 1, "{name}: {values:?}");
        assert!(!values[0].contains("10.0.0.1"), "{name}: {values:?}");
    }
    assert_eq!(values(&fixture, &sent, "X-Other"), Vec::<String>::new(), "it is nominated");
}

#[test]
fn each_kind_of_client_is_named_in_its_notation() {
    let named = |client: Option<&str>| {
        let mut fixture = Fixture::with_tls("http = { forwarded = \"both\" }");
        fixture.change_facts(|facts| facts.client = client.map(|client| client.parse().expect("an address")));
        let sent = [GET, "Host: localhost"];
        (values(&fixture, &sent, "X-Forwarded-For"), values(&fixture, &sent, "Forwarded"))
    };
    for (client, plain, node) in [
        (Some("192.0.2.7:1"), Some("192.0.2.7"), "192.0.2.7"),
        (Some("[::ffff:192.0.2.7]:1"), Some("192.0.2.7"), "192.0.2.7"),
        (Some("[2001:db8::7]:1"), Some("2001:db8::7"), "\"[2001:db8::7]\""),
        (None, None, "unknown"),
    ] {
        let forwarded = format!("for={node};proto=https;host=\"localhost\"");
        assert_eq!(named(client), (plain.map(str::to_owned).into_iter().collect(), vec![forwarded]));
    }
}

#[test]
fn what_is_for_one_connection_or_deceives_programs_is_dropped() {
    let kept = [GET, "Host: a", "Proxied: 1", "X-Proxy: 2"];
    let dropped = [
        "Proxy: http://evil.example",
        "Proxy-Connection: keep-alive",
        "Proxy-Authorization: Basic eDp5",
        "X_Forwarded_For: 10.0.0.1",
        "Content_Length: 5",
        "Keep-Alive: timeout=5",
        "HTTP2-Settings: AAMAAABkAAQAAP__",
        "Connection: Keep-Alive, X-Listed",
        "X-Listed: 1",
        "Upgrade: h2c",
        "TE: gzip",
    ];
    let sent = [&kept[..2], &dropped[..], &kept[2..]].concat();
    let received = lines(&Fixture::new("http = { request-id = \"off\", forwarded = \"off\" }"), &sent);
    assert_eq!(received, kept);
}

#[test]
fn only_a_trusted_proxy_chooses_the_request_id_and_within_bounds() {
    let id = |fixture: &Fixture, sent: &[&str]| {
        let sent = [&[GET, "Host: a"], sent].concat();
        let mut values = values(fixture, &sent, "x-request-id");
        assert_eq!(values.len(), 1, "{values:?}");
        values.remove(0)
    };
    let is_ours = |id: &str| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (client, proxy) = (Fixture::new(""), Fixture::new("").trusted());
    assert!(is_ours(&id(&client, &["X-Request-Id: mine"])));
    assert_eq!(id(&proxy, &["X-REQUEST-ID: mine\"\\<>"]), "mine\"\\<>");
    assert_eq!(id(&proxy, &["X-Request-Id: one", "X-Request-Id: two"]), "one");
    let longest = "x".repeat(ID_LIMIT);
    assert_eq!(id(&proxy, &[&format!("X-Request-Id: {longest}")]), longest);
    for unusable in ["", "two words", "tab\tbed", "caf\u{e9}", &format!("{longest}x")] {
        assert!(is_ours(&id(&proxy, &[&format!("X-Request-Id: {unusable}")])), "{unusable}");
    }
    assert_ne!(id(&client, &[]), id(&client, &[]));
}

#[test]
fn the_record_has_the_id_that_the_backend_receives() {
    let fixture = Fixture::new("");
    let request = fixture.request(&head(&[GET, "Host: a"]));
    let text = String::from_utf8_lossy(request.head.text());
    assert!(text.contains(&format!("x-request-id: {}\r\n", request.record.id())), "{text}");
}

#[test]
fn without_a_field_for_it_a_client_s_own_request_id_is_any_field() {
    let sent = [GET, "Host: a", "X-Request-Id: mine"];
    assert_eq!(values(&Fixture::new(NO_ID), &sent, "x-request-id"), ["mine"]);
}

#[test]
fn the_room_for_our_fields_is_enough_for_usual_ones() {
    let fixture = Fixture::new("http = { forwarded = \"both\" }");
    let text = head(&[GET, "Host: www.shop.example"]);
    let length = with_head(&text, &HeadLimits::default(), |head| head.length);
    assert!(fixture.request(&text).head.text().len() <= length + OWN_FIELDS_BYTES);
}
