//! Conditions of responses and requests, each with its decision, and the heads that clients receive.

use handfast_compress::{default_level, levels};
use handfast_http::http1::{Field, HeadLimits, HeadProgress, parse_response};

use super::*;
use crate::requests::decide::request::Request;
use crate::requests::testing::{Fixture, head};

const SERVICE: &str = "http = { compression = true }";
const BROWSER: &str = "Accept-Encoding: gzip, deflate, br, zstd";
const HTML: [&str; 3] = ["HTTP/1.1 200 OK", "Content-Type: text/html", "Content-Length: 5000"];

fn request(fixture: &Fixture, more: &[&str]) -> Box<Request> {
    fixture.request(&head(&[&["GET /a HTTP/1.1", "Host: a"], more].concat()))
}

/// The decision, and the head that the client receives, without the status line.
fn judged(plan: &CompressionPlan, response: &[&str]) -> (Judgement, Vec<String>) {
    let (text, mut fields) = (head(response), Vec::new());
    let parsed =
        parse_response(text.as_bytes(), &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
    let parsed = parsed.expect("it is right").expect("it is whole");
    let judgement = plan.judge(&parsed, false);
    let mut room = WrittenHead::default();
    let changed = judgement.apply(&parsed, &mut room);
    let line = |field: &Field| {
        let [name, value] =
            [field.name(changed.text), field.value(changed.text)].map(String::from_utf8_lossy);
        format!("{name}: {value}")
    };
    let lines = changed.fields.iter().map(line).collect();
    let has_length = changed.content_length.is_some();
    assert!(!(matches!(judgement, Judgement::Coded(..)) && has_length), "{judgement:?}");
    (judgement, lines)
}

fn judgement(request: &Request, response: &[&str]) -> Judgement {
    judged(request.compression.as_ref().expect("the route compresses"), response).0
}

const ZSTD: Judgement = Judgement::Coded(ContentCoding::Zstd, 3);

#[test]
fn every_condition_of_a_response_has_its_own_effect() {
    use Judgement::{Untouched, Varies};
    let fixture = Fixture::new(SERVICE);
    let (browser, plain) = (request(&fixture, &[BROWSER]), request(&fixture, &[]));
    let of =
        |status: &'static str, more: &[&'static str]| [&[status, "Content-Type: text/html"], more].concat();
    let ok = |more: &[&'static str]| of("HTTP/1.1 200 OK", more);
    for (response, for_browser, for_others) in [
        (HTML.to_vec(), ZSTD, Varies),
        (ok(&["Transfer-Encoding: chunked"]), ZSTD, Varies),
        (ok(&[]), ZSTD, Varies),
        (ok(&["Content-Length: 1024"]), ZSTD, Varies),
        (ok(&["Content-Length: 1023"]), Untouched, Untouched),
        (ok(&["Content-Length: 0"]), Untouched, Untouched),
        // Statuses.
        (of("HTTP/1.1 404 Not Found", &[]), ZSTD, Varies),
        (of("HTTP/1.1 500 Oops", &[]), ZSTD, Varies),
        (of("HTTP/1.1 201 Created", &[]), ZSTD, Varies),
        (of("HTTP/1.1 204 No Content", &[]), Untouched, Untouched),
        (of("HTTP/1.1 205 Reset", &[]), Untouched, Untouched),
        (of("HTTP/1.1 206 Partial", &["Content-Range: bytes 0-1/2"]), Untouched, Untouched),
        (of("HTTP/1.1 206 Partial", &[]), Untouched, Untouched),
        (of("HTTP/1.1 226 IM Used", &[]), Untouched, Untouched),
        (of("HTTP/1.1 304 Not Modified", &["ETag: \"a\""]), Untouched, Untouched),
        (of("HTTP/1.1 101 Switching", &["Upgrade: websocket"]), Untouched, Untouched),
        (ok(&["Content-Range: bytes 0-1/2"]), Untouched, Untouched),
        // Coded already.
        (ok(&["Content-Encoding: gzip"]), Untouched, Untouched),
        (ok(&["Content-Encoding: identity"]), Untouched, Untouched),
        (ok(&["content-encoding: aes128gcm"]), Untouched, Untouched),
        // Not to be changed.
        (ok(&["Cache-Control: no-transform"]), Untouched, Untouched),
        (ok(&["Cache-Control: max-age=1, No-Transform"]), Untouched, Untouched),
        (ok(&["Cache-Control: max-age=1", "Cache-Control: no-transform"]), Untouched, Untouched),
        (ok(&["Cache-Control: no-store"]), ZSTD, Varies),
        (ok(&["Content-Digest: sha-256=:YQ==:"]), Untouched, Untouched),
        (ok(&["Repr-Digest: sha-256=:YQ==:"]), Untouched, Untouched),
        (ok(&["Digest: sha-256=YQ=="]), Untouched, Untouched),
        (ok(&["Content-MD5: YQ=="]), Untouched, Untouched),
        (ok(&["Signature-Input: a=(\"@status\")"]), Untouched, Untouched),
        (ok(&["Trailer: Server-Timing, Content-Digest"]), Untouched, Untouched),
        (ok(&["Trailer: Server-Timing"]), ZSTD, Varies),
        (ok(&["Want-Repr-Digest: sha-256=1"]), ZSTD, Varies),
        // Secrets.
        (ok(&["Set-Cookie: a=b"]), Untouched, Untouched),
        // Types.
        (vec!["HTTP/1.1 200 OK"], Untouched, Untouched),
        (vec!["HTTP/1.1 200 OK", "Content-Type: image/png"], Untouched, Untouched),
        (ok(&["Content-Type: text/html"]), Untouched, Untouched),
        (vec!["HTTP/1.1 200 OK", "Content-Type: application/json;charset=utf-8"], ZSTD, Varies),
    ] {
        assert_eq!(judgement(&browser, &response), for_browser, "{response:?}");
        assert_eq!(judgement(&plain, &response), for_others, "{response:?}");
    }
}

#[test]
fn grpc_is_never_compressed_whatever_the_types_are() {
    let fixture = Fixture::new("http = { compression = { types = \"*/*\" } }");
    let browser = request(&fixture, &[BROWSER]);
    for (value, expected) in [
        ("application/grpc", Judgement::Untouched),
        ("Application/gRPC+proto", Judgement::Untouched),
        ("application/grpc-web+proto", Judgement::Untouched),
        ("image/png", ZSTD),
    ] {
        let content_type = format!("Content-Type: {value}");
        assert_eq!(judgement(&browser, &["HTTP/1.1 200 OK", &content_type]), expected, "{value}");
    }
}

#[test]
fn the_client_chooses_among_the_algorithms_of_the_route() {
    let all = Fixture::new(SERVICE);
    let two = Fixture::new("http = { compression = { algorithms = [\"gzip\", \"br\"], gzip-level = 1 } }");
    let coded = |coding, level| Judgement::Coded(coding, level);
    for (fields, by_all, by_two) in [
        (vec![BROWSER], ZSTD, coded(ContentCoding::Gzip, 1)),
        (vec!["Accept-Encoding: br"], coded(ContentCoding::Brotli, 4), coded(ContentCoding::Brotli, 4)),
        (
            vec!["Accept-Encoding: gzip;q=0.5", "Accept-Encoding: br"],
            coded(ContentCoding::Brotli, 4),
            coded(ContentCoding::Brotli, 4),
        ),
        (vec!["Accept-Encoding: zstd"], ZSTD, Judgement::Varies),
        (vec!["Accept-Encoding: identity"], Judgement::Varies, Judgement::Varies),
        (vec!["Accept-Encoding: "], Judgement::Varies, Judgement::Varies),
        (vec![BROWSER, "Cache-Control: no-transform"], Judgement::Varies, Judgement::Varies),
    ] {
        assert_eq!(judgement(&request(&all, &fields), &HTML), by_all, "{fields:?}");
        assert_eq!(judgement(&request(&two, &fields), &HTML), by_two, "{fields:?}");
    }
    let old = all.request(&head(&["GET /a HTTP/1.0", "Host: a", BROWSER]));
    assert_eq!(judgement(&old, &HTML), Judgement::Varies, "HTTP/1.0");
}

#[test]
fn a_coded_response_has_the_fields_of_its_coding() {
    let fixture = Fixture::new(SERVICE);
    let browser = request(&fixture, &[BROWSER]);
    let plan = browser.compression.as_ref().expect("the route compresses");
    let sent = [&HTML[..], &["ETag: \"a\"", "Accept-Ranges: bytes", "Vary: Origin", "X-A: b"]].concat();
    let (judgement, lines) = judged(plan, &sent);
    assert_eq!(judgement, ZSTD);
    assert_eq!(
        lines,
        [
            "Content-Type: text/html",
            "Content-Length: 5000",
            "Vary: Origin",
            "X-A: b",
            "Vary: Accept-Encoding",
            "Content-Encoding: zstd",
            "ETag: W/\"a\"",
        ]
    );
    // A weak tag stays, and so does a Vary that names it already.
    for vary in ["Vary: Origin, accept-encoding", "Vary: *"] {
        let (_, lines) = judged(plan, &[&HTML[..], &["ETag: W/\"a\"", vary]].concat());
        assert_eq!(lines[2..], ["ETag: W/\"a\"", vary, "Content-Encoding: zstd"]);
    }
}

#[test]
fn a_response_for_another_client_keeps_its_fields() {
    let fixture = Fixture::new(SERVICE);
    let other = request(&fixture, &["Accept-Encoding: deflate"]);
    let plan = other.compression.as_ref().expect("the route compresses");
    let (judgement, lines) = judged(plan, &[&HTML[..], &["ETag: \"a\"", "Accept-Ranges: bytes"]].concat());
    assert_eq!(judgement, Judgement::Varies);
    assert_eq!(
        lines[2..],
        ["ETag: \"a\"".to_owned(), "Accept-Ranges: bytes".to_owned(), "Vary: Accept-Encoding".to_owned()]
    );
}

#[test]
fn an_unchanged_response_has_the_tag_that_its_client_has() {
    let fixture = Fixture::new(SERVICE);
    for (known, sent, received) in [
        ("W/\"a\"", "\"a\"", vec!["Vary: Accept-Encoding", "ETag: W/\"a\""]),
        ("\"b\", W/\"a\"", "\"a\"", vec!["Vary: Accept-Encoding", "ETag: W/\"a\""]),
        ("\"a\"", "\"a\"", vec!["ETag: \"a\""]),
        ("W/\"a\"", "W/\"a\"", vec!["ETag: W/\"a\""]),
        ("*", "\"a\"", vec!["ETag: \"a\""]),
    ] {
        let browser = request(&fixture, &[BROWSER, &format!("If-None-Match: {known}")]);
        let plan = browser.compression.as_ref().expect("the route compresses");
        let (_, lines) = judged(plan, &["HTTP/1.1 304 Not Modified", &format!("ETag: {sent}")]);
        assert_eq!(lines, received, "{known} {sent}");
    }
}

#[test]
fn secrets_are_compressed_only_where_the_configuration_says_so() {
    let cookie = [&HTML[..], &["Set-Cookie: a=b"]].concat();
    for (settings, expected, for_verified) in
        [("true", Judgement::Untouched, None), ("{ with-secrets = true }", ZSTD, Some(ZSTD))]
    {
        let mut fixture = Fixture::new(&format!("http = {{ compression = {settings} }}"));
        assert_eq!(judgement(&request(&fixture, &[BROWSER]), &cookie), expected, "{settings}");
        fixture.change_facts(|facts| facts.client_subject = Some("CN=a".into()));
        let verified = request(&fixture, &[BROWSER]);
        let found = verified.compression.as_ref().map(|plan| judged(plan, &HTML).0);
        assert_eq!(found, for_verified, "{settings}");
    }
}

#[test]
fn a_path_that_a_backend_may_read_as_another_route_is_not_compressed() {
    let lines = format!("{SERVICE}\n[[service.route]]\npath = \"/secret\"\ncompression = false");
    let fixture = Fixture::new(&lines);
    let compresses = |path: &str| {
        let request = fixture.request(&head(&[&format!("GET {path} HTTP/1.1"), "Host: a", BROWSER]));
        request.compression.is_some()
    };
    assert!(compresses("/a") && !compresses("/secret"));
    assert!(!compresses("/a/../secret") && !compresses("/%73ecret"));
}

#[test]
fn without_the_key_nothing_is_decided() {
    assert!(request(&Fixture::new(""), &[BROWSER]).compression.is_none());
}

#[test]
fn levels_of_a_configuration_are_those_of_the_encoders() {
    for (coding, level) in Compression::default().codings {
        assert_eq!(level, default_level(coding), "{coding:?}");
        let name = coding.name();
        let is_right = |level: u8| {
            let lines = format!("http = {{ compression = {{ {name}-level = {level} }} }}");
            Fixture::try_with_tls(&lines).is_some()
        };
        assert!(is_right(*levels(coding).end()) && !is_right(levels(coding).end() + 1), "{name}");
    }
}
