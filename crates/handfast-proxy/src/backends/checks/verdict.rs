//! Judges an answer to a health check. Pure: bytes in, a verdict out.

use std::fmt;
use std::ops::RangeInclusive;

/// Verdict on the bytes received so far; `None`: more are needed.
pub(super) type Judged = Option<Result<(), Wrong>>;

/// Bytes of an answer that are shown.
const MAX_SHOWN_BYTES: usize = 60;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// Another status than those that are good.
    Status { status: u16, expected: Vec<RangeInclusive<u16>> },
    /// It does not begin as an answer of HTTP does; its beginning.
    NotHttp(String),
    /// The expected bytes did not come; the answer's beginning.
    Unexpected(String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { status, expected } => {
                let range = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
                    (one, other) if one == other => one.to_string(),
                    (first, last) => format!("{first} to {last}"),
                };
                let expected: Vec<_> = expected.iter().map(range).collect();
                write!(f, "status {status}, expected {}", expected.join(" or "))
            }
            Self::NotHttp(begins) => write!(f, "the answer is not HTTP; it begins with \"{begins}\""),
            Self::Unexpected(begins) => {
                write!(
                    f,
                    "what was expected is not in the first 16 KiB of the answer, which begins with \"{begins}\""
                )
            }
        }
    }
}

/// The beginning of what came, as it can be shown and logged.
fn beginning(answer: &[u8]) -> String {
    answer[..answer.len().min(MAX_SHOWN_BYTES)].escape_ascii().to_string()
}

/// The request of a check over HTTP (RFC 9112 §3).
pub(super) fn request(path: &str, host: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: handfast-check/{version}\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
}

/// Judges a status line (RFC 9112 §4): `HTTP/1.1 200 OK`. An interim status (RFC 9110 §15.2) was not requested.
pub(super) fn of_http(answer: &[u8], expected: &[RangeInclusive<u16>]) -> Judged {
    // Without its fields, which do not matter.
    let line = answer.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut head = httparse::Response::new(&mut []);
    let status = match (head.parse(line), head.code) {
        // The byte after the third digit has arrived too, and is no digit.
        (Ok(_), Some(status)) if line.len() > "HTTP/1.1 200".len() => status,
        (Ok(_), _) if !line.ends_with(b"\n") => return None,
        _ => return Some(Err(Wrong::NotHttp(beginning(answer)))),
    };
    if expected.iter().any(|range| range.contains(&status)) {
        return Some(Ok(()));
    }
    Some(Err(Wrong::Status { status, expected: expected.to_vec() }))
}

pub(super) fn of_bytes(answer: &[u8], expect: &[u8]) -> Judged {
    let has = answer.windows(expect.len()).any(|window| window == expect);
    has.then_some(Ok(()))
}

/// Nothing of what was looked at decided.
pub(super) fn never(answer: &[u8]) -> Wrong {
    Wrong::Unexpected(beginning(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn http(answer: &[u8]) -> Judged {
        of_http(answer, &[200..=299, 401..=401])
    }

    #[test]
    fn a_status_line_decides_as_soon_as_it_is_there() {
        let whole = b"HTTP/1.1 204 No Content\r\n\r\n";
        for length in 0..whole.len() {
            assert_eq!(http(&whole[..length]).is_some(), length >= 13, "{length}");
        }
        assert_eq!(http(whole), Some(Ok(())));
        assert_eq!(http(b"HTTP/1.0 401\r\n"), Some(Ok(())));
        let wrong = http(b"HTTP/1.1 503 \r\n").expect("it is whole").expect_err("503 is not good");
        assert_eq!(wrong.to_string(), "status 503, expected 200 to 299 or 401");
    }

    #[test]
    fn what_is_not_http_is_detected_at_its_first_wrong_byte() {
        for other in [
            &b"SSH-2.0-OpenSSH\r\n"[..],
            b"H",
            b"HTTP/2.0 200 OK\r\n",
            b"HTTP/1.1  200 OK",
            b"HTTP/1.1 2000 OK",
            b"HTTP/1.1 +20 OK\r",
            b"HTTP/x.1 200 OK\r",
            b"HTTP/1.x 200 OK\r",
            b"\x15\x03\x03\x00\x02\x02\x0a",
            &[0xff; 40],
        ] {
            match http(other) {
                None => assert_eq!(other, b"H"),
                Some(outcome) => assert!(matches!(outcome, Err(Wrong::NotHttp(_))), "{other:?}: {outcome:?}"),
            }
        }
        let refusal = http(b"\x15\x03\x03\n\"").expect("it is wrong").expect_err("at once").to_string();
        assert_eq!(refusal, "the answer is not HTTP; it begins with \"\\x15\\x03\\x03\\n\\\"\"");
    }

    #[test]
    fn any_change_of_a_byte_is_judged_and_nothing_panics() {
        let line = b"HTTP/1.1 200 OK\r\n";
        for (place, byte) in (0..line.len()).flat_map(|place| (0..=255).map(move |byte| (place, byte))) {
            let mut changed = *line;
            changed[place] = byte;
            let _ = http(&changed);
            let _ = of_bytes(&changed, b"OK");
        }
    }

    #[test]
    fn expected_bytes_may_come_anywhere_and_in_pieces() {
        assert_eq!(of_bytes(b"", b"+PONG"), None);
        assert_eq!(of_bytes(b"noise +PON", b"+PONG"), None);
        assert_eq!(of_bytes(b"noise +PONG\r\n", b"+PONG"), Some(Ok(())));
        assert_eq!(of_bytes(b"\x00\xff\x00", b"\xff"), Some(Ok(())));
        assert!(never(b"-LOADING").to_string().ends_with("begins with \"-LOADING\""));
    }

    #[test]
    fn a_request_names_its_host_and_requests_a_close() {
        let request = request("/health", "db.example:80");
        assert!(request.starts_with("GET /health HTTP/1.1\r\nHost: db.example:80\r\n"), "{request}");
        assert!(request.ends_with("Connection: close\r\n\r\n"), "{request}");
    }
}
