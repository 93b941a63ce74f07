//! Tests of single values: keys, heads that clients receive, updates, `Cache-Status`.

use handfast_http::http1::RequestHead;

use super::{request, response};
use crate::rules::cache_status::{CacheStatus, Forwarded};
use crate::rules::key::Key;
use crate::rules::policy::Policy;
use crate::rules::reuse::OriginFailure;
use crate::rules::stored::{Stored, Times};
use crate::rules::validate::invalidated;

const NOW_MS: u64 = 1_800_000_000_000;
const TIMES: Times = Times { requested_ms: NOW_MS, received_ms: NOW_MS };
const DATE: &str = "Date: Fri, 15 Jan 2027 08:00:00 GMT";

fn stored(lines: &str) -> Stored {
    Stored::decide(&request(""), &response(lines), &Policy::default(), TIMES)
        .expect("a response that is stored")
}

fn head(answer: &[u8]) -> String {
    String::from_utf8_lossy(answer).replace("\r\n", "\n")
}

fn url(key: Option<Key>) -> String {
    key.map_or_else(|| "none".into(), |key| String::from_utf8_lossy(key.url()).into_owned())
}

#[test]
fn a_key_has_scheme_host_port_path_and_query() {
    let parsed = |start: &str, host: &str| {
        let text = format!("{start} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let fields: &mut Vec<_> = Box::leak(Box::default());
        let limits = handfast_http::http1::HeadLimits::default();
        let head: RequestHead<'static> = handfast_http::http1::parse_request(
            text.leak().as_bytes(),
            &mut Default::default(),
            fields,
            &limits,
        )
        .expect("a request")
        .expect("all of it");
        url(Key::of("https", &head, None))
    };
    let rows = [
        ("GET /a?b=c", "Example.COM", "https://example.com/a?b=c"),
        ("GET /", "example.com:443", "https://example.com/"),
        ("GET /", "example.com:80", "https://example.com:80/"),
        ("GET https://example.com/a", "example.com", "https://example.com/a"),
        ("GET https://example.com?q", "example.com", "https://example.com/?q"),
        ("GET /A%2f", "[::1]:8443", "https://[::1]:8443/A%2f"),
        ("OPTIONS *", "example.com", "none"),
    ];
    for (start, host, expected) in rows {
        assert_eq!(parsed(start, host), expected, "{start} at {host}");
    }
}

#[test]
fn an_identity_separates_keys_but_not_urls() {
    let one = Key::of("https", &request(""), Some("ab12")).expect("a key");
    let other = Key::of("https", &request(""), Some("cd34")).expect("a key");
    let none = Key::of("https", &request(""), None).expect("a key");
    assert_ne!(one, other);
    assert_ne!(one, none);
    assert_eq!(one.url(), none.url());
}

#[test]
fn unsafe_methods_invalidate_their_url_and_those_that_they_name_on_the_same_origin() {
    let key = Key::of_url("https://example.com/a/b?c", Some("id")).expect("a key");
    let of = |method: &str, answer: &str| {
        let keys =
            invalidated(&key, &request(&format!("{method} /a/b?c\nContent-Length: 0")), &response(answer));
        assert!(keys.iter().all(|key| key.text().ends_with(b" id")), "the identity stays: {keys:?}");
        keys.into_iter().map(|key| url(Some(key))).collect::<Vec<_>>().join(" ")
    };
    let rows = [
        ("POST", "200 OK", "https://example.com/a/b?c"),
        ("M-SEARCH", "200 OK", "https://example.com/a/b?c"),
        ("PUT", "500 Error", ""),
        ("PUT", "404 Not Found", ""),
        ("OPTIONS", "200 OK", ""),
        ("POST", "303 See\nLocation: /x", "https://example.com/a/b?c https://example.com/x"),
        ("POST", "201 Created\nLocation: y?z", "https://example.com/a/b?c https://example.com/a/y?z"),
        (
            "POST",
            "201 Created\nContent-Location: https://EXAMPLE.com:443/x",
            "https://example.com/a/b?c https://example.com/x",
        ),
        ("POST", "201 Created\nLocation: https://other.example/x", "https://example.com/a/b?c"),
        ("POST", "201 Created\nLocation: http://example.com/x", "https://example.com/a/b?c"),
        ("POST", "201 Created\nLocation: //example.com/x", "https://example.com/a/b?c https://example.com/x"),
    ];
    for (method, answer, expected) in rows {
        assert_eq!(of(method, answer), expected, "{method} {answer}");
    }
}

#[test]
fn a_client_receives_what_was_stored_without_the_fields_of_one_connection() {
    let stored = stored(&format!(
        "200 Fine\n{DATE}\nCache-Control: max-age=60\nConnection: X-Hop\nX-Hop: 1\nKeep-Alive: 5\nProxy-Authenticate: x\nTE: x\nTrailer: \
         X-Sum\nUpgrade: h2c\nAge: 7\nX-Kept: 1\nX-Kept: 2"
    ));
    let answer = stored.answer(&request(""), Some(10), NOW_MS + 3_900);
    assert_eq!(
        head(&answer.head),
        format!(
            "HTTP/1.1 200 Fine\n{DATE}\nCache-Control: max-age=60\nX-Kept: 1\nX-Kept: 2\nAge: 10\nContent-Length: 10\n\n"
        )
    );
    assert_eq!(answer.content, 0..10);
    let answer = stored.answer(&request("HEAD /"), Some(10), NOW_MS);
    assert!(head(&answer.head).contains("Content-Length: 10\n"), "HEAD announces the length");
    assert_eq!(answer.content, 0..0);
    let answer = stored.answer(&request(""), None, NOW_MS);
    assert!(head(&answer.head).contains("Transfer-Encoding: chunked\n"), "{}", head(&answer.head));
}

#[test]
fn a_missing_date_is_added_and_a_part_says_which() {
    let stored = stored("Cache-Control: max-age=60\nContent-Type: text/plain\nETag: \"a\"");
    let part = stored.answer(&request("Range: bytes=2-3"), Some(10), NOW_MS);
    assert_eq!(
        head(&part.head),
        format!(
            "HTTP/1.1 206 Partial Content\nCache-Control: max-age=60\nContent-Type: text/plain\nETag: \"a\"\n{DATE}\nAge: \
             0\nContent-Range: bytes 2-3/10\nContent-Length: 2\n\n"
        )
    );
    let none = stored.answer(&request("Range: bytes=10-"), Some(10), NOW_MS);
    assert!(
        head(&none.head).contains("Content-Range: bytes */10\nContent-Length: 0\n"),
        "{}",
        head(&none.head)
    );
    let same = stored.answer(&request("If-None-Match: \"a\""), Some(10), NOW_MS);
    assert_eq!(
        head(&same.head),
        format!("HTTP/1.1 304 Not Modified\nCache-Control: max-age=60\nETag: \"a\"\n{DATE}\nAge: 0\n\n")
    );
}

#[test]
fn a_304_replaces_fields_but_not_those_about_the_content() {
    let old = stored(&format!(
        "{DATE}\nCache-Control: max-age=1\nETag: \"a\"\nContent-Encoding: gzip\nContent-Length: 10\nX-A: 1\nX-A: 2\nX-Kept: 1\nVary: Foo"
    ));
    let new = response(
        "304 Not Modified\nDate: Fri, 15 Jan 2027 08:00:09 GMT\nCache-Control: max-age=60\nETag: \"b\"\nContent-Encoding: br\nX-A: 3\nConnection: \
         X-Hop\nX-Hop: 1\nAge: 5",
    );
    let times = Times { requested_ms: NOW_MS + 9000, received_ms: NOW_MS + 9000 };
    let fresh = old.freshened(&request(""), &new, &Policy::default(), times).expect("it stays stored");
    assert_eq!(
        head(&fresh.head),
        "HTTP/1.1 200 OK\nETag: \"a\"\nContent-Encoding: gzip\nX-Kept: 1\nVary: Foo\nDate: Fri, 15 Jan 2027 08:00:09 GMT\nCache-Control: \
         max-age=60\nX-A: 3\n\n"
    );
    assert_eq!((fresh.age(times.received_ms), fresh.ttl(times.received_ms)), (5, 55));
}

#[test]
fn the_time_that_a_response_took_counts_as_age() {
    let times = Times { requested_ms: NOW_MS - 7_000, received_ms: NOW_MS };
    let fields = "Cache-Control: max-age=60\nAge: 3\nDate: Fri, 15 Jan 2027 07:59:55 GMT";
    let stored =
        Stored::decide(&request(""), &response(fields), &Policy::default(), times).expect("it is stored");
    assert_eq!((stored.age(NOW_MS), stored.ttl(NOW_MS + 1_500)), (10, 49));
}

#[test]
fn a_304_may_end_that_a_response_is_stored() {
    let old = stored("Cache-Control: max-age=1\nETag: \"a\"");
    for directive in ["no-store", "private"] {
        let new = response(&format!("304 Not Modified\nCache-Control: {directive}"));
        assert!(old.freshened(&request(""), &new, &Policy::default(), TIMES).is_err(), "{directive}");
    }
    let new =
        response("304 Not Modified\nSet-Cookie: a=b\nCache-Control: max-age=60, no-cache=\"Set-Cookie\"");
    let fresh = old.freshened(&request(""), &new, &Policy::default(), TIMES).expect("it stays stored");
    assert!(!head(&fresh.head).contains("Set-Cookie:"), "{}", head(&fresh.head));
    assert!(head(&old.updated_head(&new)).contains("Set-Cookie: a=b"), "its own client receives the cookie");
}

#[test]
fn a_head_updates_what_it_describes_and_ends_what_it_does_not() {
    let old = stored("Cache-Control: max-age=1\nETag: \"a\"\nX-A: 1");
    let after =
        |lines: &str| old.after_head(&request("HEAD /"), &response(lines), 10, &Policy::default(), TIMES);
    let fresh =
        after("Cache-Control: max-age=60\nETag: \"a\"\nX-A: 2\nContent-Length: 10").expect("it is the same");
    assert!(head(&fresh.head).contains("X-A: 2\n"), "{}", head(&fresh.head));
    assert!(after("Cache-Control: max-age=60\nETag: \"b\"").is_none(), "another tag");
    assert!(after("Cache-Control: max-age=60\nContent-Length: 11").is_none(), "another length");
}

#[test]
fn cache_status_is_a_structured_field() {
    let status = |status: CacheStatus| status.value();
    let rows = [
        (CacheStatus { ttl: Some(-3), ..CacheStatus::default() }, "Handfast; hit; ttl=-3"),
        (
            CacheStatus {
                forwarded: Some(Forwarded::UriMiss),
                forwarded_status: Some(200),
                is_stored: true,
                ..CacheStatus::default()
            },
            "Handfast; fwd=uri-miss; fwd-status=200; stored",
        ),
        (
            CacheStatus { forwarded: Some(Forwarded::Stale), is_collapsed: true, ..CacheStatus::default() },
            "Handfast; fwd=stale; collapsed",
        ),
        (
            CacheStatus {
                forwarded: Some(Forwarded::Bypass),
                detail: Some("a \"b\"\\\n\u{fc}".into()),
                ..CacheStatus::default()
            },
            "Handfast; fwd=bypass; detail=\"a \\\"b\\\"\\\\\"",
        ),
        (CacheStatus { ttl: Some(i64::MAX), ..CacheStatus::default() }, "Handfast; hit; ttl=999999999999999"),
    ];
    for (value, expected) in rows {
        assert_eq!(status(value), expected);
    }
}

#[test]
fn tags_are_a_list_in_any_case() {
    let stored = stored("Cache-Control: max-age=60\nCache-Tag: One, two\nCache-Tag: three,,");
    for (tag, expected) in [("one", true), ("two", true), ("three", true), ("on", false), ("", false)] {
        assert_eq!(stored.has_tag(tag.as_bytes()), expected, "{tag}");
    }
}

proptest::proptest! {
    #[test]
    fn no_value_of_a_field_causes_a_panic(
        value in "[ -~]{0,60}",
        other in "(max-age|bytes|no-cache|q|\"a|W/)[=;,\" 0-9a-z*-]{0,30}",
        seconds in 0_u64..9999,
    ) {
        let fields: String = [
            "Cache-Control", "CDN-Cache-Control", "Age", "Expires", "Vary", "Cache-Tag", "ETag", "Last-Modified",
            "Content-Language",
        ]
        .iter()
        .map(|name| format!("{name}: {value}\n{name}: {other}\n"))
        .collect();
        let policy = Policy {
            is_immutable: true,
            stale_if_error: u64::MAX,
            stale_while_revalidate: u64::MAX,
            ..Policy::default()
        };
        let known = Stored::decide(&request(""), &response(&fields), &policy, TIMES)
            .unwrap_or_else(|_| stored("Cache-Control: max-age=60\nETag: \"a\""));
        for value in [&value, &other] {
            let request_text = request(&format!(
                "GET /\nRange: {value}\nIf-Range: {value}\nIf-None-Match: {value}\nIf-Modified-Since: {value}\nCache-Control: \
                 {value}\nAccept-Language: {value}"
            ));
            let now_ms = NOW_MS + seconds * 1000;
            known.verdict(&request_text, &Policy::default(), now_ms);
            known.serves_on_error(&request_text, &policy, now_ms, OriginFailure::Status);
            known.selection.is_preferred(&request_text);
            let answer = known.answer(&request_text, Some(seconds), now_ms);
            proptest::prop_assert!(answer.content.end <= seconds && answer.content.start <= answer.content.end);
            proptest::prop_assert!(crate::rules::stored::parsed(&answer.head, |_| ()).is_some(), "a head that a client can read");
        }
    }
}
