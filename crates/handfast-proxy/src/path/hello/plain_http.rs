//! Answers to a client that speaks plain HTTP on a port for TLS: a browser that opens it with `http://`.
//!
//! In: the bytes of its request so far. Out: an answer, 400 or a redirect. Nothing of the request is written into the answer
//! that could end a line.

use std::rc::Rc;

use handfast_config::model::PlainHttp;
use handfast_observe::record::Record;
use handfast_observe::request_record::{ConnectionFacts, HttpVersion, RequestRecord};

use crate::requests::new_id;
use crate::worker::challenges::ThreadChallenges;

/// Text that a browser shows.
const REFUSED: &str = "This port speaks TLS: use https:// instead of http:// to connect.\n";
/// Longest target of a redirect; longer ones are refused.
const MAX_LOCATION_BYTES: usize = 8 * 1024;

/// The status of a redirect. It keeps the method (RFC 9110 §15.4.9).
const REDIRECT_STATUS: u16 = 308;

/// The bytes that are sent back, and their meaning.
#[derive(Debug)]
pub(super) struct PlainHttpResponse {
    pub(super) text: Vec<u8>,
    pub(super) kind: ResponseKind,
}

/// The meaning of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseKind {
    /// The request is not served.
    Refusal,
    /// It is the answer to a challenge of a certificate authority.
    Challenge,
    /// The request is redirected, as the configuration requires.
    Redirect,
}

/// The answer to a request; `None`: more of it is needed.
pub(super) fn answer(
    request: &[u8],
    plain_http: PlainHttp,
    challenges: &ThreadChallenges,
    limit: usize,
) -> Option<PlainHttpResponse> {
    let refusal = || Some(PlainHttpResponse { text: refused(), kind: ResponseKind::Refusal });
    if plain_http == PlainHttp::Refuse && !challenges.has_files() {
        return refusal();
    }
    let Some(head) = head(request) else {
        return if request.len() < limit { None } else { refusal() };
    };
    if let Some(text) = challenge(head, challenges) {
        return Some(PlainHttpResponse { text, kind: ResponseKind::Challenge });
    }
    match Redirected::of(head).filter(|_| plain_http == PlainHttp::Redirect) {
        Some(redirected) => {
            Some(PlainHttpResponse { text: redirected.response(), kind: ResponseKind::Redirect })
        }
        None => refusal(),
    }
}

/// Returns the record of a request that was answered with a redirect. `connection`: that of its connection.
pub(super) fn redirect_record(
    request: &[u8],
    connection: &Record,
    has_client_fields: bool,
) -> Option<RequestRecord> {
    let head = head(request)?;
    let Redirected { method, host, path, version } = Redirected::of(head)?;
    let facts = ConnectionFacts {
        service: Rc::clone(&connection.service),
        generation: connection.generation,
        client: connection.client,
        server_name: None,
        tls_version: None,
        client_subject: None,
    };
    let texts = [method.as_bytes(), host.as_bytes(), path.as_bytes()];
    let mut record = RequestRecord::new(&Rc::new(facts), version, new_id(), texts);
    record.status = Some(REDIRECT_STATUS);
    if has_client_fields {
        values(head, "referer").take(1).for_each(|value| record.set_referer(value.as_bytes()));
        values(head, "user-agent").take(1).for_each(|value| record.set_user_agent(value.as_bytes()));
    }
    Some(record)
}

/// The request without its content and the empty line before it; `None`: more of it is needed.
fn head(request: &[u8]) -> Option<&[u8]> {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n")?;
    Some(&request[..end])
}

/// The values of a field.
fn values<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h str> {
    let lines = str::from_utf8(head).unwrap_or_default().split("\r\n").skip(1);
    lines.filter_map(move |line| {
        let (field, value) = line.split_once(':')?;
        field.eq_ignore_ascii_case(name).then(|| value.trim_matches([' ', '\t']))
    })
}

/// The file of a challenge (RFC 8555 §8.3), if it is requested.
fn challenge(head: &[u8], challenges: &ThreadChallenges) -> Option<Vec<u8>> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let target = line.strip_prefix(b"GET ")?.split(|byte| *byte == b' ').next()?;
    let content = challenges.file(target)?;
    let text = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: no-store\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{content}",
        content.len()
    );
    Some(text.into_bytes())
}

fn refused() -> Vec<u8> {
    format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{REFUSED}",
        REFUSED.len()
    )
    .into_bytes()
}

/// A request that has a place to be redirected to.
struct Redirected<'h> {
    method: &'h str,
    host: &'h str,
    path: &'h str,
    version: HttpVersion,
}

impl<'h> Redirected<'h> {
    /// `None`: the request does not name its place.
    fn of(head: &'h [u8]) -> Option<Self> {
        let mut words = str::from_utf8(head).ok()?.split("\r\n").next()?.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let version =
            if words.next() == Some("HTTP/1.0") { HttpVersion::Http10 } else { HttpVersion::Http11 };
        let mut hosts = values(head, "host");
        let host = hosts.next()?;
        // The absolute form names its host too; the field is what counts here (RFC 9112 §3.2.2 makes them equal).
        let path = match target.strip_prefix("http://") {
            Some(rest) => rest.find('/').map_or("/", |slash| &rest[slash..]),
            None => target,
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        let is_good = !host.is_empty() && host.bytes().all(is_host) && hosts.next().is_none();
        let is_path = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
        (is_good && is_path && host.len() + path.len() < MAX_LOCATION_BYTES).then_some(Self {
            method,
            host,
            path,
            version,
        })
    }

    /// The same place by `https://`. It is not to be remembered: the port may serve something else tomorrow.
    fn response(&self) -> Vec<u8> {
        let Self { host, path, .. } = self;
        format!(
            "HTTP/1.1 {REDIRECT_STATUS} Permanent Redirect\r\nLocation: https://{host}{path}\r\nCache-Control: no-store\r\n\
             Connection: close\r\nContent-Length: 0\r\n\r\n"
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &str, plain_http: PlainHttp) -> Option<String> {
        let none = ThreadChallenges::default();
        let answer = answer(request.as_bytes(), plain_http, &none, 65_536)?;
        Some(String::from_utf8(answer.text).expect("text"))
    }

    /// A length beside the text was once counted by hand, and wrong by one.
    #[test]
    fn the_answer_has_the_length_it_declares() {
        let answer = text("GET / HTTP/1.1", PlainHttp::Refuse).expect("at once");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an empty line");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).expect("a length");
        assert_eq!(length.parse(), Ok(body.len()));
    }

    #[test]
    fn a_redirect_goes_to_the_same_host_port_and_path() {
        for (request, location) in [
            ("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n", "https://a.example/"),
            (
                "POST /x?y=1 HTTP/1.1\r\nAccept: */*\r\nhost:\ta.example:8443 \r\n\r\nbody",
                "https://a.example:8443/x?y=1",
            ),
            ("GET http://a.example/b HTTP/1.1\r\nHost: a.example\r\n\r\n", "https://a.example/b"),
            ("GET http://a.example HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "https://[::1]:80/"),
        ] {
            let answer = text(request, PlainHttp::Redirect).expect("the head is whole");
            assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
            assert!(answer.contains(&format!("\r\nLocation: {location}\r\n")), "{answer}");
        }
    }

    #[test]
    fn a_request_that_names_no_place_is_refused() {
        for request in [
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: \r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a.example/b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET /a\nb HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET\r\nHost: a\r\n\r\n",
        ] {
            let answer = text(request, PlainHttp::Redirect).expect("the head is whole");
            assert!(answer.starts_with("HTTP/1.1 400 "), "{request:?}: {answer}");
        }
    }

    #[test]
    fn a_place_is_redirected_to_if_it_is_shorter_than_8_kib() {
        for (length, status) in [(8_191, "308"), (8_192, "400")] {
            let path = "x".repeat(length - "a.example/".len());
            let request = format!("GET /{path} HTTP/1.1\r\nHost: a.example\r\n\r\n");
            let answer = text(&request, PlainHttp::Redirect).expect("the head is whole");
            assert_eq!(answer[9..12], *status, "{length} bytes of host and path");
        }
    }

    #[test]
    fn more_is_waited_for_up_to_the_limit() {
        let request = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n";
        for end in 0..request.len() {
            assert_eq!(text(&request[..end], PlainHttp::Redirect), None, "{end} bytes");
        }
        let endless = vec![b'G'; 2048];
        assert!(answer(&endless, PlainHttp::Redirect, &ThreadChallenges::default(), 2048).is_some());
    }
}
