//! Telling TLS from what else arrives on a TLS port: the first bytes decide.
//!
//! In: the first bytes of a connection. Out: [`Sorted`]. A verdict never changes when more bytes come, so bytes that
//! may still become one of the known greetings are [`Sorted::Undecided`]; at most [`GREETING_LIMIT`] bytes are needed.

use std::fmt;

/// Another protocol than TLS, recognised by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Foreign {
    /// An HTTP request, of any version.
    Http,
    /// PostgreSQL's request to begin TLS: the client expects one byte of its protocol before TLS starts.
    PostgresSslRequest,
    /// A PROXY header, version 1 or 2: a proxy in front of us sends one although it is not configured here.
    ProxyProtocol,
    /// A mail client's greeting.
    Smtp,
    /// An SSH greeting.
    Ssh,
    /// The hello of SSL 2.0, which even clients of later versions once used (RFC 5246 appendix E.2; RFC 6176 §3).
    Sslv2Hello,
    /// Printable characters of no protocol known here.
    Text,
    /// None of these.
    Other,
}

impl Foreign {
    /// The word used in logs, labels and documents: kebab-case, stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::PostgresSslRequest => "postgres-ssl-request",
            Self::ProxyProtocol => "proxy-protocol",
            Self::Smtp => "smtp",
            Self::Ssh => "ssh",
            Self::Sslv2Hello => "sslv2-hello",
            Self::Text => "text",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "an HTTP request",
            Self::PostgresSslRequest => "a PostgreSQL SSLRequest",
            Self::ProxyProtocol => "a PROXY header",
            Self::Smtp => "an SMTP greeting",
            Self::Ssh => "an SSH greeting",
            Self::Sslv2Hello => "an SSL 2.0 hello",
            Self::Text => "plain text",
            Self::Other => "an unknown protocol",
        })
    }
}

/// Kind of a connection's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sorted {
    /// TLS records, well-formed or not.
    Tls,
    /// Too few bytes to decide.
    Undecided,
    /// Not TLS.
    Foreign(Foreign),
}

/// Most bytes that [`sort`] needs for a verdict.
pub const GREETING_LIMIT: usize = 12;

/// Sorts the first bytes of a connection; looks at [`GREETING_LIMIT`] bytes at most.
pub fn sort(first: &[u8]) -> Sorted {
    match *first {
        [] | [20..=24] => Sorted::Undecided,
        // Major version 3 is SSL 3.0 and every TLS since; the minor version in a record means nothing (RFC 9846 §5.1).
        [20..=24, 3, ..] => Sorted::Tls,
        [20..=24, ..] => Sorted::Foreign(Foreign::Other),
        [0x80..=0xff, ..] => sort_sslv2(first),
        _ => sort_greeting(first),
    }
}

/// A first byte with its high bit set: the two-byte length of an SSL 2.0 record, then message type 1 and a version.
fn sort_sslv2(first: &[u8]) -> Sorted {
    match *first {
        [_] | [_, _] | [_, _, 1] | [_, _, 1, 0 | 3] => Sorted::Undecided,
        [_, _, 1, 0, 2, ..] | [_, _, 1, 3, ..] => Sorted::Foreign(Foreign::Sslv2Hello),
        _ => Sorted::Foreign(Foreign::Other),
    }
}

fn sort_greeting(first: &[u8]) -> Sorted {
    let mut undecided = false;
    for (greeting, foreign) in GREETINGS {
        if first.starts_with(greeting) {
            return Sorted::Foreign(*foreign);
        }
        undecided |= greeting.starts_with(first);
    }
    match first {
        _ if undecided => Sorted::Undecided,
        [b'\t' | b'\n' | b'\r' | b' '..=b'~', ..] => Sorted::Foreign(Foreign::Text),
        _ => Sorted::Foreign(Foreign::Other),
    }
}

/// None of these begins another, so the order does not matter.
const GREETINGS: &[(&[u8], Foreign)] = &[
    (b"CONNECT ", Foreign::Http),
    (b"DELETE ", Foreign::Http),
    (b"GET ", Foreign::Http),
    (b"HEAD ", Foreign::Http),
    (b"OPTIONS ", Foreign::Http),
    (b"PATCH ", Foreign::Http),
    (b"POST ", Foreign::Http),
    (b"PRI * HTTP/2", Foreign::Http),
    (b"PUT ", Foreign::Http),
    (b"TRACE ", Foreign::Http),
    // Length 8, code 80877103: PostgreSQL documentation, "Message Formats", SSLRequest.
    (&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f], Foreign::PostgresSslRequest),
    (b"PROXY ", Foreign::ProxyProtocol),
    (b"\r\n\r\n\0\r\nQUIT\n", Foreign::ProxyProtocol),
    (b"EHLO ", Foreign::Smtp),
    (b"HELO ", Foreign::Smtp),
    (b"LHLO ", Foreign::Smtp),
    (b"SSH-", Foreign::Ssh),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(bytes: &[u8]) -> Foreign {
        match sort(bytes) {
            Sorted::Foreign(foreign) => foreign,
            other => panic!("{bytes:?} is {other:?}"),
        }
    }

    #[test]
    fn known_greetings_are_named() {
        assert_eq!(verdict(b"GET / HTTP/1.1\r\n"), Foreign::Http);
        assert_eq!(verdict(b"PRI * HTTP/2.0\r\n"), Foreign::Http);
        assert_eq!(verdict(b"SSH-2.0-OpenSSH_9.2\r\n"), Foreign::Ssh);
        assert_eq!(verdict(b"EHLO mail.example\r\n"), Foreign::Smtp);
        assert_eq!(verdict(b"PROXY TCP4 "), Foreign::ProxyProtocol);
        assert_eq!(verdict(b"\r\n\r\n\0\r\nQUIT\n\x21"), Foreign::ProxyProtocol);
        assert_eq!(verdict(&[0, 0, 0, 8, 4, 210, 22, 47]), Foreign::PostgresSslRequest);
        assert_eq!(verdict(&[0x80, 0x2e, 1, 0, 2, 0, 15]), Foreign::Sslv2Hello);
        assert_eq!(verdict(&[0x80, 0x2e, 1, 3, 1, 0, 15]), Foreign::Sslv2Hello);
    }

    #[test]
    fn the_rest_is_text_or_other() {
        assert_eq!(verdict(b"hello\r\n"), Foreign::Text);
        assert_eq!(verdict(b"GETTING"), Foreign::Text);
        assert_eq!(verdict(b"\r\n\r\nQUIT"), Foreign::Text);
        assert_eq!(verdict(&[5, 1, 0]), Foreign::Other);
        assert_eq!(verdict(&[0, 0, 0, 9]), Foreign::Other);
        assert_eq!(verdict(&[22, 0xfe, 0xfd]), Foreign::Other);
        assert_eq!(verdict(&[0x80, 0x2e, 2]), Foreign::Other);
    }

    #[test]
    fn an_ssl_2_hello_is_undecided_until_its_version() {
        for hello in [&[0x80, 0x2e, 1, 0, 2][..], &[0x80, 0x2e, 1, 3, 1]] {
            for end in 1..hello.len() {
                assert_eq!(sort(&hello[..end]), Sorted::Undecided, "{hello:?} at {end}");
            }
            assert_eq!(verdict(hello), Foreign::Sslv2Hello);
        }
        assert_eq!(verdict(&[0x80, 0x2e, 1, 0, 3]), Foreign::Other);
    }

    #[test]
    fn each_has_a_word_for_logs_and_words_for_people() {
        let all = [
            (Foreign::Http, "http", "an HTTP request"),
            (Foreign::PostgresSslRequest, "postgres-ssl-request", "a PostgreSQL SSLRequest"),
            (Foreign::ProxyProtocol, "proxy-protocol", "a PROXY header"),
            (Foreign::Smtp, "smtp", "an SMTP greeting"),
            (Foreign::Ssh, "ssh", "an SSH greeting"),
            (Foreign::Sslv2Hello, "sslv2-hello", "an SSL 2.0 hello"),
            (Foreign::Text, "text", "plain text"),
            (Foreign::Other, "other", "an unknown protocol"),
        ];
        for (foreign, name, words) in all {
            assert_eq!((foreign.name(), foreign.to_string().as_str()), (name, words));
        }
    }

    #[test]
    fn every_record_type_is_tls() {
        for content_type in 20..=24 {
            assert_eq!(sort(&[content_type]), Sorted::Undecided);
            assert_eq!(sort(&[content_type, 3]), Sorted::Tls);
        }
    }

    #[test]
    fn a_greeting_is_undecided_until_its_last_byte_and_decided_after() {
        for (greeting, foreign) in GREETINGS {
            assert!(greeting.len() <= GREETING_LIMIT);
            for end in 0..greeting.len() {
                assert_eq!(sort(&greeting[..end]), Sorted::Undecided, "{greeting:?} at {end}");
            }
            assert_eq!(verdict(greeting), *foreign);
        }
    }
}
