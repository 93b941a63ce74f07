//! The rules of RFC 9113 §8, each with what breaks it.

use super::*;

/// The result of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Fine,
    Malformed,
    Refused(Rule),
}

use Verdict::{Fine, Malformed, Refused};

impl Verdict {
    fn of<T>(result: Result<T, HeadFault>) -> Self {
        match result {
            Ok(_) => Fine,
            Err(HeadFault::Malformed(sentence)) => {
                assert!(!sentence.is_empty() && !sentence.ends_with('.'));
                Malformed
            }
            Err(HeadFault::Refused(error)) => Refused(error.rule),
        }
    }
}

/// A rule, fields, and the verdict.
type Row<'a> = (&'a str, &'a Pairs<'a>, Verdict);

#[track_caller]
fn holds(part: Part, has_content: bool, rows: &[Row<'_>]) {
    let mut wrong = Vec::new();
    for (rule, fields, expected) in rows {
        for (mut head, form) in
            heads(part, fields, &HeadLimits::default()).into_iter().zip(["once", "kept", "repeated"])
        {
            let found = match part {
                Part::Request => Verdict::of(head.request(has_content, None)),
                Part::Response => Verdict::of(head.response(has_content)),
                Part::Trailers { .. } => Verdict::of(head.trailers()),
            };
            if found != *expected {
                wrong.push(format!("{rule}, {form}: {found:?}, expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const METHOD: (&str, &str) = (":method", "GET");
const SCHEME: (&str, &str) = (":scheme", "https");
const HOST: (&str, &str) = (":authority", "a.example");
const PATH: (&str, &str) = (":path", "/");
const STATUS: (&str, &str) = (":status", "200");

/// Fields behind the pseudo-fields of a request.
fn with<'a>(rows: &[(&'a str, (&'a str, &'a str), Verdict)]) {
    for (rule, field, verdict) in rows {
        holds(Part::Request, false, &[(rule, &[METHOD, SCHEME, HOST, PATH, *field], *verdict)]);
    }
}

#[test]
fn names_and_values_of_requests() {
    with(&[
        ("RFC 9113 §8.2.1 upper case", ("X-A", "1"), Malformed),
        ("RFC 9113 §8.2.1 blank in a name", ("x a", "1"), Malformed),
        ("RFC 9113 §8.2.1 colon in a name", ("x:a", "1"), Malformed),
        ("RFC 9113 §8.2.1 colon behind a name", ("x:", "1"), Malformed),
        ("RFC 9113 §8.2.1 control byte in a name", ("x\n", "1"), Malformed),
        ("RFC 9113 §8.2.1 NUL in a name", ("x\0", "1"), Malformed),
        ("RFC 9113 §8.2.1 DEL in a name", ("x\x7f", "1"), Malformed),
        ("RFC 9113 §8.2.1 byte outside ASCII in a name", ("x\u{e9}", "1"), Malformed),
        ("RFC 9113 §8.2.1 delimiter in a name", ("x(", "1"), Malformed),
        ("RFC 9113 §8.2.1 no name", ("", "1"), Malformed),
        ("RFC 9113 §8.2.1 all bytes of tokens", ("x!#$%&'*+-.^`|~9", "1"), Fine),
        ("RFC 9113 §8.2.1 NUL", ("x", "a\0b"), Malformed),
        ("RFC 9113 §8.2.1 CR", ("x", "a\rb"), Malformed),
        ("RFC 9113 §8.2.1 LF", ("x", "a\nb"), Malformed),
        ("RFC 9113 §8.2.1 LF at the end", ("x", "a\n"), Malformed),
        ("RFC 9113 §8.2.1 LF in a cookie", ("cookie", "a\n"), Malformed),
        ("RFC 9113 §8.2.1 LF in host", ("host", "a.example\n"), Malformed),
        ("RFC 9113 §8.2.1 blank in front", ("x", " a"), Refused(Rule::FieldBlank)),
        ("RFC 9113 §8.2.1 blank behind", ("x", "a\t"), Refused(Rule::FieldBlank)),
        ("RFC 9113 §8.2.1 blank alone", ("x", " "), Refused(Rule::FieldBlank)),
        ("RFC 9113 §8.2.1 blank around a crumb", ("cookie", " "), Refused(Rule::FieldBlank)),
        ("RFC 9113 §8.2.1 tab and blank within", ("x", "a\tb c"), Fine),
        ("RFC 9113 §8.2.1 bytes outside ASCII in a value", ("x", "\u{80}\u{ff}"), Fine),
        ("RFC 9113 §8.2.1 no value", ("x", ""), Fine),
        ("RFC 9110 §5.5 other control byte", ("x", "a\x01b"), Refused(Rule::FieldValue)),
        ("RFC 9110 §5.5 DEL", ("x", "a\x7fb"), Refused(Rule::FieldValue)),
        ("RFC 9113 §8.2.2 connection", ("connection", "close"), Malformed),
        ("RFC 9113 §8.2.2 keep-alive", ("keep-alive", "5"), Malformed),
        ("RFC 9113 §8.2.2 proxy-connection", ("proxy-connection", "close"), Malformed),
        ("RFC 9113 §8.2.2 transfer-encoding", ("transfer-encoding", "chunked"), Malformed),
        ("RFC 9113 §8.2.2 upgrade", ("upgrade", "websocket"), Malformed),
        ("RFC 9113 §8.2.2 te", ("te", "trailers"), Fine),
        ("RFC 9113 §8.2.2 te with another value", ("te", "gzip"), Malformed),
        ("RFC 9113 §8.2.2 te with more values", ("te", "trailers, gzip"), Malformed),
        ("RFC 9113 §8.2.2 te without a value", ("te", ""), Malformed),
        ("fields that end here", ("proxy-authorization", "x"), Fine),
        ("fields that end here", ("http2-settings", "x"), Fine),
        ("RFC 9113 §8.1.1 a length without content", ("content-length", "1"), Malformed),
        ("RFC 9113 §8.1.1 a length of nothing", ("content-length", "0"), Fine),
        ("RFC 9113 §8.1.1 a length that is none", ("content-length", "x"), Malformed),
        ("RFC 9113 §8.1.1 a length with a sign", ("content-length", "+0"), Malformed),
        ("RFC 9113 §8.1.1 a list of lengths", ("content-length", "0, 0"), Malformed),
        ("RFC 9113 §8.1.1 an empty length", ("content-length", ""), Malformed),
        ("RFC 9113 §8.1.1 a length of 20 digits", ("content-length", "18446744073709551616"), Malformed),
    ]);
    holds(
        Part::Request,
        true,
        &[
            (
                "RFC 9113 §8.1.1 two lengths",
                &[METHOD, SCHEME, HOST, PATH, ("content-length", "1"), ("content-length", "2")],
                Malformed,
            ),
            (
                "RFC 9113 §8.1.1 one length twice",
                &[METHOD, SCHEME, HOST, PATH, ("content-length", "1"), ("content-length", "1")],
                Refused(Rule::LengthRepeated),
            ),
            (
                "RFC 9113 §8.1.1 one length in two forms",
                &[METHOD, SCHEME, HOST, PATH, ("content-length", "1"), ("content-length", "01")],
                Refused(Rule::LengthRepeated),
            ),
            ("RFC 9113 §8.1.1 a length", &[METHOD, SCHEME, HOST, PATH, ("content-length", "1")], Fine),
        ],
    );
}

#[test]
fn pseudo_fields_of_requests() {
    let path = |value| [METHOD, SCHEME, HOST, (":path", value)];
    let authority = |value| [METHOD, SCHEME, PATH, (":authority", value)];
    let scheme = |value| [METHOD, (":scheme", value), HOST, PATH];
    let method = |value| [(":method", value), SCHEME, HOST, PATH];
    holds(
        Part::Request,
        false,
        &[
            ("in any order", &[HOST, PATH, METHOD, SCHEME, ("x", "1")], Fine),
            ("RFC 9113 §8.3 behind others", &[METHOD, SCHEME, HOST, ("x", "1"), PATH], Malformed),
            ("RFC 9113 §8.3 behind a cookie", &[METHOD, SCHEME, HOST, ("cookie", "1"), PATH], Malformed),
            ("RFC 9113 §8.3 behind host", &[METHOD, SCHEME, ("host", "a.example"), PATH], Malformed),
            ("RFC 9113 §8.3 unknown", &[METHOD, SCHEME, HOST, PATH, (":unknown", "1")], Malformed),
            ("RFC 9113 §8.3 no name", &[METHOD, SCHEME, HOST, PATH, (":", "1")], Malformed),
            ("RFC 9113 §8.3 upper case", &[(":Method", "GET"), SCHEME, HOST, PATH], Malformed),
            ("RFC 9113 §8.3 of a response", &[METHOD, SCHEME, HOST, PATH, STATUS], Malformed),
            ("RFC 9113 §8.3.1 no method", &[SCHEME, HOST, PATH], Malformed),
            ("RFC 9113 §8.3.1 no scheme", &[METHOD, HOST, PATH], Malformed),
            ("RFC 9113 §8.3.1 no path", &[METHOD, SCHEME, HOST], Malformed),
            ("RFC 9113 §8.3.1 nothing", &[], Malformed),
            ("RFC 9113 §8.3.1 two methods", &[METHOD, METHOD, SCHEME, HOST, PATH], Malformed),
            ("RFC 9113 §8.3.1 two schemes", &[METHOD, SCHEME, SCHEME, HOST, PATH], Malformed),
            ("RFC 9113 §8.3.1 two paths", &[METHOD, SCHEME, HOST, PATH, PATH], Malformed),
            ("RFC 9113 §8.3.1 two authorities", &[METHOD, SCHEME, HOST, HOST, PATH], Malformed),
            (
                "RFC 8441 §4 two protocols",
                &[METHOD, SCHEME, HOST, PATH, (":protocol", "a"), (":protocol", "a")],
                Malformed,
            ),
            ("RFC 9113 §8.3.1 empty method", &method(""), Malformed),
            ("RFC 9113 §8.3.1 method with a blank", &method("GE T"), Malformed),
            ("RFC 9113 §8.3.1 method with a line end", &method("GET\r\n"), Malformed),
            ("any method", &method("x-any"), Fine),
            ("RFC 9113 §8.3.1 empty scheme", &scheme(""), Malformed),
            ("RFC 9113 §8.3.1 scheme with a blank", &scheme("ht tp"), Malformed),
            ("RFC 9113 §8.3.1 scheme that begins with a digit", &scheme("1a"), Malformed),
            ("any scheme", &scheme("coap+ws"), Fine),
            ("RFC 9113 §8.3.1 empty path", &path(""), Malformed),
            ("RFC 9113 §8.3.1 path without a slash", &path("a"), Malformed),
            ("RFC 9113 §8.3.1 path that is a query", &path("?a"), Malformed),
            ("RFC 9113 §8.3.1 path that is a URL", &path("https://a.example/"), Malformed),
            ("RFC 9113 §8.3.1 path with a blank", &path("/a b"), Malformed),
            ("RFC 9113 §8.3.1 path with a control byte", &path("/a\x7fb"), Malformed),
            ("RFC 9113 §8.3.1 path with a line end", &path("/a\r\nx: 1"), Malformed),
            ("path with a fragment", &path("/a#b"), Refused(Rule::Target)),
            ("path with a byte outside ASCII", &path("/\u{e9}"), Refused(Rule::Target)),
            ("path with delimiters", &path("/<b>`{}|\\^\""), Fine),
            ("RFC 9113 §8.3.1 asterisk", &path("*"), Refused(Rule::TargetForm)),
            (
                "RFC 9113 §8.3.1 asterisk with OPTIONS",
                &[(":method", "OPTIONS"), SCHEME, HOST, (":path", "*")],
                Fine,
            ),
            ("RFC 9113 §8.3.1 path with OPTIONS", &[(":method", "OPTIONS"), SCHEME, HOST, PATH], Fine),
            ("RFC 9113 §8.3.1 no host", &[METHOD, SCHEME, PATH], Refused(Rule::HostMissing)),
            ("RFC 9113 §8.3.1 host alone", &[METHOD, SCHEME, PATH, ("host", "a.example")], Fine),
            (
                "RFC 9113 §8.3.1 another host",
                &[METHOD, SCHEME, HOST, PATH, ("host", "b.example")],
                Refused(Rule::HostMismatch),
            ),
            (
                "RFC 9113 §8.3.1 another port",
                &[METHOD, SCHEME, HOST, PATH, ("host", "a.example:80")],
                Refused(Rule::HostMismatch),
            ),
            (
                "RFC 9113 §8.3.1 host of another form",
                &[METHOD, SCHEME, HOST, PATH, ("host", "a.example, b")],
                Refused(Rule::HostMismatch),
            ),
            (
                "RFC 9110 §7.2 two hosts",
                &[METHOD, SCHEME, PATH, ("host", "a"), ("host", "a")],
                Refused(Rule::HostRepeated),
            ),
            (
                "RFC 9110 §7.2 two hosts beside the authority",
                &[METHOD, SCHEME, HOST, PATH, ("host", "a.example"), ("host", "a.example")],
                Refused(Rule::HostRepeated),
            ),
            (
                "RFC 9110 §7.2 host that is none",
                &[METHOD, SCHEME, PATH, ("host", "a/b")],
                Refused(Rule::HostSyntax),
            ),
            ("RFC 9113 §8.3.1 empty authority", &authority(""), Refused(Rule::HostSyntax)),
            (
                "RFC 9113 §8.3.1 user in the authority",
                &authority("user@a.example"),
                Refused(Rule::HostSyntax),
            ),
            ("RFC 9113 §8.3.1 authority with a blank", &authority("local host"), Malformed),
            ("RFC 9113 §8.3.1 authority with a line end", &authority("a\r\nx: 1"), Malformed),
            ("RFC 9113 §8.3.1 authority with a blank behind", &authority("a "), Malformed),
        ],
    );
}

#[test]
fn connect() {
    const CONNECT: (&str, &str) = (":method", "CONNECT");
    const PROTOCOL: (&str, &str) = (":protocol", "websocket");
    holds(
        Part::Request,
        true,
        &[
            ("RFC 9113 §8.5", &[CONNECT, HOST], Refused(Rule::Connect)),
            ("RFC 9113 §8.5 with a scheme", &[CONNECT, HOST, SCHEME], Malformed),
            ("RFC 9113 §8.5 with a path", &[CONNECT, HOST, PATH], Malformed),
            ("RFC 8441 §4", &[CONNECT, PROTOCOL, HOST, SCHEME, PATH], Fine),
            ("RFC 8441 §4 host alone", &[CONNECT, PROTOCOL, SCHEME, PATH, ("host", "a")], Fine),
            ("RFC 8441 §4 without a host", &[CONNECT, PROTOCOL, SCHEME, PATH], Refused(Rule::HostMissing)),
            ("RFC 8441 §4 without a scheme", &[CONNECT, PROTOCOL, HOST, PATH], Malformed),
            ("RFC 8441 §4 without a path", &[CONNECT, PROTOCOL, HOST, SCHEME], Malformed),
            ("RFC 8441 §4 path that is none", &[CONNECT, PROTOCOL, HOST, SCHEME, (":path", "a")], Malformed),
            ("RFC 8441 §4 with another method", &[METHOD, PROTOCOL, HOST, SCHEME, PATH], Malformed),
            (
                "RFC 8441 §4 no token",
                &[CONNECT, (":protocol", "web socket"), HOST, SCHEME, PATH],
                Refused(Rule::Protocol),
            ),
            (
                "RFC 8441 §4 list",
                &[CONNECT, (":protocol", "websocket, h2c"), HOST, SCHEME, PATH],
                Refused(Rule::Protocol),
            ),
            ("RFC 8441 §4 empty", &[CONNECT, (":protocol", ""), HOST, SCHEME, PATH], Refused(Rule::Protocol)),
            (
                "RFC 8441 §4 line end",
                &[CONNECT, (":protocol", "websocket\r\nX-User: admin"), HOST, SCHEME, PATH],
                Malformed,
            ),
            ("RFC 8441 §4 NUL", &[CONNECT, (":protocol", "websocket\0"), HOST, SCHEME, PATH], Malformed),
        ],
    );
}

#[test]
fn responses() {
    let status = |value| [(":status", value)];
    holds(
        Part::Response,
        true,
        &[
            ("RFC 9113 §8.3.2 status", &[STATUS], Fine),
            ("RFC 9113 §8.3.2 no status", &[("x", "1")], Malformed),
            ("RFC 9113 §8.3.2 two", &[STATUS, STATUS], Malformed),
            ("RFC 9113 §8.3 of a request", &[STATUS, PATH], Malformed),
            ("RFC 9113 §8.3 of a request", &[STATUS, (":protocol", "x")], Malformed),
            ("RFC 9113 §8.3 unknown", &[STATUS, (":unknown", "x")], Malformed),
            ("RFC 9113 §8.3 behind others", &[("x", "1"), STATUS], Malformed),
            ("RFC 9113 §8.3.2 above 599", &status("999"), Fine),
            ("RFC 9113 §8.3.2 two digits", &status("20"), Malformed),
            ("RFC 9113 §8.3.2 four digits", &status("2000"), Malformed),
            ("RFC 9113 §8.3.2 below 100", &status("099"), Malformed),
            ("RFC 9113 §8.3.2 letters", &status("2xx"), Malformed),
            ("RFC 9113 §8.3.2 blank", &status("200 "), Malformed),
            ("RFC 9113 §8.6 status 101", &status("101"), Malformed),
            ("RFC 9113 §8.1 interim", &status("103"), Fine),
            ("RFC 9113 §8.2.1 upper case", &[STATUS, ("X", "1")], Malformed),
            ("RFC 9113 §8.2.1 LF", &[STATUS, ("x", "a\nb")], Malformed),
            ("RFC 9113 §8.2.1 blanks, of a backend", &[STATUS, ("x", " a ")], Fine),
            ("RFC 9110 §5.5 other control byte, of a backend", &[STATUS, ("x", "a\x01")], Fine),
            ("RFC 9113 §8.2.2 connection", &[STATUS, ("connection", "close")], Malformed),
            ("RFC 9113 §8.2.2 transfer-encoding", &[STATUS, ("transfer-encoding", "chunked")], Malformed),
            ("RFC 9113 §8.2.2 te", &[STATUS, ("te", "gzip")], Malformed),
            ("RFC 9113 §8.1.1 a length that is none", &[STATUS, ("content-length", "x")], Malformed),
            (
                "RFC 9113 §8.1.1 two lengths",
                &[STATUS, ("content-length", "1"), ("content-length", "2")],
                Malformed,
            ),
            (
                "RFC 9113 §8.1.1 one length twice",
                &[STATUS, ("content-length", "1"), ("content-length", "1")],
                Refused(Rule::LengthRepeated),
            ),
        ],
    );
    holds(
        Part::Response,
        false,
        &[("RFC 9113 §8.1 interim at the end", &status("103"), Malformed), ("final", &[STATUS], Fine)],
    );
    let limits = HeadLimits { head: 80, ..HeadLimits::default() };
    for mut head in heads(Part::Response, &[STATUS, ("x", "1234567")], &limits) {
        let Err(HeadFault::Refused(error)) = head.response(true) else { panic!("accepted") };
        assert_eq!((error.rule, error.status()), (Rule::HeadTooLarge, 502));
    }
}

#[test]
fn trailers() {
    let either: &[Row<'_>] = &[
        ("RFC 9113 §8.1", &[("x-sum", "1")], Fine),
        ("RFC 9113 §8.1 empty", &[], Fine),
        ("RFC 9113 §8.1 pseudo-field", &[PATH], Malformed),
        ("RFC 9113 §8.1 pseudo-field", &[STATUS], Malformed),
        ("RFC 9113 §8.1 unknown pseudo-field", &[(":x", "1")], Malformed),
        ("RFC 9113 §8.1 pseudo-field behind others", &[("x", "1"), STATUS], Malformed),
        ("RFC 9113 §8.2.1 upper case", &[("X", "1")], Malformed),
        ("RFC 9113 §8.2.1 LF", &[("x", "1\n")], Malformed),
        ("RFC 9113 §8.2.1 blanks", &[("x", " 1 ")], Fine),
        ("RFC 9113 §8.2.2 connection", &[("connection", "x")], Malformed),
        ("RFC 9113 §8.2.2 te", &[("te", "gzip")], Malformed),
    ];
    holds(Part::Trailers { is_response: true }, false, either);
    holds(Part::Trailers { is_response: false }, false, either);
    for name in [
        "host",
        "content-length",
        "cookie",
        "authorization",
        "x-forwarded-for",
        "content-type",
        "trailer",
        "expect",
    ] {
        holds(
            Part::Trailers { is_response: false },
            false,
            &[(name, &[("x", "1"), (name, "1")], Refused(Rule::Trailer))],
        );
        holds(Part::Trailers { is_response: true }, false, &[(name, &[("x", "1"), (name, "1")], Fine)]);
    }
    let control: &Pairs<'_> = &[("x", "a\x01")];
    holds(
        Part::Trailers { is_response: false },
        false,
        &[("RFC 9110 §5.5", control, Refused(Rule::FieldValue))],
    );
    holds(Part::Trailers { is_response: true }, false, &[("RFC 9110 §5.5", control, Fine)]);
}

/// The first fault counts, whatever follows.
#[test]
fn a_fault_shows_its_place() {
    let [mut head, ..] = heads(
        Part::Request,
        &[METHOD, SCHEME, HOST, PATH, ("x-a", "a\x01b"), ("X", "1")],
        &HeadLimits::default(),
    );
    let Err(HeadFault::Refused(error)) = head.request(false, None) else { panic!("accepted") };
    assert_eq!(error.excerpt().escape_ascii().to_string(), "\\n:path: /\\r\\nx-a: a\\x01b\\r\\n");
}
