//! Responses to clients when no backend answers.

use super::*;
use crate::requests::testing::{Fixture, head};

/// The head, line by line, and the content.
fn written(answer: &OwnResponse, close: bool, is_head: bool) -> (Vec<String>, String) {
    let mut out = b"before".to_vec();
    answer.write(&mut out, close, is_head, None);
    let text = String::from_utf8(out).expect("text");
    let (head, content) =
        text.strip_prefix("before").and_then(|text| text.split_once("\r\n\r\n")).expect("a head");
    (head.split("\r\n").map(str::to_owned).collect(), content.to_owned())
}

#[test]
fn an_error_names_its_status_and_the_request_and_never_the_cause() {
    let fixture = Fixture::new("");
    let request = fixture.request(&head(&["GET / HTTP/1.1", "Host: a", "Accept: text/html"]));
    let id = request.record.id();
    for (status, title, request, content) in [
        (502, "Bad Gateway", Some(&*request), format!("502 Bad Gateway\nrequest id: {id}\n")),
        (421, "Misdirected Request", None, "421 Misdirected Request\n".to_owned()),
        (599, "Error", None, "599 Error\n".to_owned()),
    ] {
        let head = [
            format!("HTTP/1.1 {status} {title}"),
            "Content-Type: text/plain; charset=utf-8".to_owned(),
            "Cache-Control: no-store".to_owned(),
            format!("Content-Length: {}", content.len()),
        ];
        assert_eq!(written(&OwnResponse::error(status, request), false, false), (head.to_vec(), content));
    }
}

#[test]
fn a_client_that_prefers_json_receives_a_problem() {
    let fixture = Fixture::new("").trusted();
    // An id that a trusted proxy chose.
    let id = "a\"b\\c</d>";
    let id_field = format!("X-Request-Id: {id}");
    let request =
        fixture.request(&head(&["GET / HTTP/1.1", "Host: a", "Accept: application/json", &id_field]));
    let (head, content) = written(&OwnResponse::error(504, Some(&request)), false, false);
    assert!(head.contains(&"Content-Type: application/problem+json".to_owned()), "{head:?}");
    let found: serde_json::Value = serde_json::from_str(&content).expect("JSON");
    assert_eq!(found, json!({ "status": 504, "title": "Gateway Timeout", "request_id": id }));
}

#[test]
fn the_answer_to_head_has_the_fields_of_the_content_and_none_of_it() {
    let answer = OwnResponse::error(503, None);
    let (head, content) = written(&answer, false, true);
    assert_eq!(content, "");
    assert_eq!(head, written(&answer, false, false).0);
    assert!(head.contains(&format!("Content-Length: {}", answer.content.len())), "{head:?}");
}

#[test]
fn the_end_of_the_connection_is_announced() {
    let answer = OwnResponse::error(400, None);
    for close in [true, false] {
        let (head, _) = written(&answer, close, false);
        assert_eq!(head.contains(&"Connection: close".to_owned()), close, "{head:?}");
    }
}

#[test]
fn a_redirect_has_its_target() {
    let (head, content) = written(&OwnResponse::redirect(308, b"https://a.example/?b".to_vec()), true, false);
    assert_eq!((&*head[0], &*content), ("HTTP/1.1 308 Permanent Redirect", "308 Permanent Redirect\n"));
    assert!(head.contains(&"Location: https://a.example/?b".to_owned()), "{head:?}");
}
