//! A head that comes by HTTP/2 is the head that the parser of HTTP/1 reads from the same fields as text.

use handfast_http::http1::{
    Field, Framing, HeadLimits, HeadProgress, Host, RequestHead, Underscores, parse_request, parse_response,
};
use handfast_http::http2::head::{HeadFault, HeadText, Part, encode_request, encode_response};
use handfast_http::http2::hpack::{Decoder, Encoder};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

type Pairs = Vec<(String, String)>;

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

/// Fields behind the pseudo-fields; none is malformed by itself.
const FIELDS: &[(&str, &str)] = &[
    ("host", "a.example"),
    ("host", "A.EXAMPLE:443"),
    ("host", "b.example"),
    ("host", "a.example/"),
    ("cookie", "a=1"),
    ("cookie", "b=2; c=3"),
    ("cookie", ""),
    ("content-length", "0"),
    ("content-length", "5"),
    ("content-length", "05"),
    ("te", "trailers"),
    ("expect", "100-continue"),
    ("expect", "100-Continue"),
    ("expect", "other"),
    ("x-a", "1"),
    ("x-a", "a\tb"),
    ("x-b", ""),
    ("x-c", " 1"),
    ("x-c", "a\x01"),
    ("x_a", "1"),
    ("x.!#$%&'*+^`|~9", "odd"),
    ("x-forwarded-for", "192.0.2.1"),
    ("forwarded", "for=unknown"),
    ("x-real-ip", "192.0.2.1"),
    ("proxy", "http://a"),
    ("proxy-authorization", "x"),
    ("http2-settings", "x"),
    ("trailer", "x-sum"),
    ("sec-websocket-key", "bm8="),
    ("sec-websocket-version", "13"),
    ("accept", "*/*"),
    ("accept-encoding", "gzip, deflate"),
    ("authorization", "Basic YTpi"),
];

/// Requests of HTTP/2, mostly well-formed, and whether their stream goes on.
fn requests() -> impl Strategy<Value = (Pairs, bool)> {
    let authority = select(vec![
        "a.example",
        "a.example:443",
        "A.Example.",
        "a.example:8443",
        "[::1]",
        "user@a.example",
        "",
        "-",
    ]);
    let methods = select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "x-any"]);
    let paths = select(vec!["/", "/a?b=c", "/index.html", "*", "/%20/../", "/\u{e9}", "//a"]);
    let protocol = select(vec!["", "", "", "websocket", "WebSocket", "connect-udp", "h2c", "a b"]);
    let fields = vec(select(FIELDS), 0..8);
    (methods, paths, authority, protocol, select(vec!["https", "http"]), fields, any::<bool>()).prop_map(
        |(method, path, authority, protocol, scheme, fields, has_content)| {
            let method = if protocol.is_empty() { method } else { "CONNECT" };
            let mut pairs = vec![(":method", method)];
            if method != "CONNECT" || !protocol.is_empty() {
                pairs.extend([(":scheme", scheme), (":path", path)]);
            }
            // A minus is none, as an empty authority is something else.
            if authority != "-" {
                pairs.push((":authority", authority));
            }
            if !protocol.is_empty() {
                pairs.push((":protocol", protocol));
            }
            pairs.extend(fields);
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            (pairs.into_iter().map(owned).collect(), has_content)
        },
    )
}

/// A field block; some fields are kept, and repeated by their index.
fn block(fields: &Pairs) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, (name, value)) in fields.iter().enumerate() {
        out.push(if index % 2 == 0 { 0x40 } else { 0x00 });
        for text in [name, value] {
            out.push(u8::try_from(text.len()).expect("a short text"));
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// The text of a request in HTTP/1 with the same fields; `None`: it has none, because it is refused.
fn text(fields: &Pairs, has_content: bool) -> Option<Vec<u8>> {
    let all =
        |name: &'static str| fields.iter().filter(move |field| field.0 == name).map(|field| &field.1[..]);
    let first = |name| all(name).next();
    let (method, scheme, protocol) = (first(":method")?, first(":scheme"), first(":protocol"));
    let is_token = |text: &&str| !text.is_empty() && !text.contains(' ');
    if protocol.is_some_and(|protocol| !is_token(&protocol)) {
        return None;
    }
    let port = if scheme == Some("http") { 80 } else { 443 };
    let host = match (first(":authority"), all("host").collect::<Vec<_>>()[..].as_ref()) {
        (Some(authority), []) => authority,
        (None, [host]) => host,
        (Some(authority), [host]) => {
            let (one, other) = (Host::parse(authority.as_bytes())?, Host::parse(host.as_bytes())?);
            one.is_equivalent(&other, port).then_some(authority)?
        }
        _ => return None,
    };
    let lengths: Vec<u64> = all("content-length").map(|length| length.parse().expect("a number")).collect();
    // RFC 9113 §8.1.1.
    if lengths.windows(2).any(|pair| pair[0] != pair[1])
        || (!has_content && lengths.iter().any(|length| *length > 0))
    {
        return None;
    }
    let is_websocket = protocol.is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket"));
    let method_text = if protocol.is_some() { "GET" } else { method };
    let mut lines =
        vec![format!("{method_text} {} HTTP/1.1", first(":path").unwrap_or(host)), format!("host: {host}")];
    for (name, value) in fields.iter().filter(|(name, _)| !name.starts_with(':')) {
        if value.trim() != value {
            return None;
        }
        let is_dropped =
            matches!(&name[..], "host" | "cookie") || (is_websocket && name == "sec-websocket-key");
        if !is_dropped {
            lines.push(format!("{name}: {value}"));
        }
    }
    let cookie: Vec<_> = all("cookie").collect();
    if !cookie.is_empty() {
        lines.push(format!("cookie: {}", cookie.join("; ")));
    }
    match protocol {
        Some(protocol) => {
            lines.push(format!("connection: upgrade\r\nupgrade: {protocol}"));
            lines.extend(is_websocket.then(|| format!("sec-websocket-key: {KEY}")));
        }
        None if has_content && lengths.is_empty() => lines.push("transfer-encoding: chunked".to_owned()),
        None if !has_content && ["POST", "PUT", "PATCH"].contains(&method) && lengths.is_empty() => {
            lines.push("content-length: 0".to_owned());
        }
        None => {}
    }
    Some(format!("{}\r\n\r\n", lines.join("\r\n")).into_bytes())
}

/// All that rules and writers read of a head. Framing fields are written again, so those of the client do not count.
fn described(head: &RequestHead<'_>) -> String {
    let RequestHead { method, target, version, host, framing, keeps_open, upgrade, text, fields, .. } = *head;
    let flags = [keeps_open, head.expects_continue, head.accepts_trailers];
    let fields: Vec<_> = fields
        .iter()
        .filter(|field| field.kind().is_forwarded() || !b"ctu".contains(&field.name(text)[0]))
        .map(|field| (field.name(text), field.value(text), field.kind()))
        .collect();
    format!("{method:?} {target:?} {version:?} {host:?} {framing:?} {flags:?} {upgrade:?} {fields:?}")
}

fn forwarded<'a>(text: &'a [u8], fields: &'a [Field]) -> Vec<(Vec<u8>, &'a [u8])> {
    let kept = fields.iter().filter(|field| field.kind().is_forwarded());
    kept.map(|field| (field.name(text).to_ascii_lowercase(), field.value(text))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn a_request_by_http2_is_that_of_its_text((fields, has_content) in requests(), refuses in any::<bool>()) {
        let underscores = if refuses { Underscores::Refuse } else { Underscores::Drop };
        let limits = HeadLimits { underscores, ..HeadLimits::default() };
        let mut list = Vec::new();
        let text = text(&fields, has_content);
        let expected = text.as_ref().map(|text| parse_request(text, &mut HeadProgress::default(), &mut list, &limits));
        let expected = expected.and_then(Result::ok).map(|head| head.expect("a whole head"));

        let mut head = HeadText::default();
        let mut decoder = Decoder::default();
        // Twice, so that nothing of the first one is left.
        for _ in 0..2 {
            head.begin(Part::Request, &limits);
            decoder.decode(&block(&fields), &mut head).expect("a field block");
        }
        let found = head.request(has_content, Some(KEY));
        match (found, &expected) {
            (Ok(found), Some(expected)) => prop_assert_eq!(described(&found), described(expected)),
            (Err(HeadFault::Refused(error)), None) => prop_assert!(error.status() < 500, "{}", error),
            (Err(HeadFault::Malformed(_)), None) => {}
            (found, _) => prop_assert!(false, "{:?}\n{:?}", found, expected),
        }
    }

    /// A request that was forwarded by HTTP/2 arrives as it was accepted.
    #[test]
    fn a_request_that_is_forwarded_is_the_same_request((fields, has_content) in requests()) {
        let limits = HeadLimits::default();
        let [mut first, mut second] = [HeadText::default(), HeadText::default()];
        first.begin(Part::Request, &limits);
        Decoder::default().decode(&block(&fields), &mut first).expect("a field block");
        let Ok(head) = first.request(has_content, Some(KEY)) else { return Ok(()) };
        let mut out = Vec::new();
        encode_request(&mut out, &mut Encoder::default(), &head, "https");
        second.begin(Part::Request, &limits);
        Decoder::default().decode(&out, &mut second).expect("a field block");
        let has_content = !matches!(head.framing, Framing::None | Framing::Length(0));
        let again = second.request(has_content, None).expect("a request");
        prop_assert_eq!((again.method, again.target, again.host), (head.method, head.target, head.host));
        prop_assert_eq!(again.accepts_trailers, head.accepts_trailers);
        prop_assert_eq!(again.expects_continue, head.expects_continue);
        prop_assert_eq!(again.framing, head.framing);
        let mut kept = forwarded(again.text, again.fields);
        let mut expected = forwarded(head.text, head.fields);
        // A cookie goes behind all others once more.
        kept.sort();
        expected.sort();
        prop_assert_eq!(kept, expected);
    }

    #[test]
    fn a_response_that_is_forwarded_is_the_same_response(
        status in 200_u16..1000,
        fields in vec(("[a-zA-Z-]{1,20}", "[ -~\t]{0,30}"), 0..10),
        length in any::<Option<u32>>(),
    ) {
        let mut text = format!("HTTP/1.1 {status} x\r\n");
        fields.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
        text.push_str("\r\n");
        let (limits, mut list) = (HeadLimits::default(), Vec::new());
        let head = parse_response(text.as_bytes(), &mut HeadProgress::default(), &mut list, &limits);
        let Ok(Some(head)) = head else { return Ok(()) };
        let length = length.map(u64::from);
        let (mut out, mut second) = (Vec::new(), HeadText::default());
        let none = std::iter::empty();
        encode_response(&mut out, &mut Encoder::default(), &head, status, length, |_| false, none);
        second.begin(Part::Response, &limits);
        Decoder::default().decode(&out, &mut second).expect("a field block");
        let again = second.response(true).expect("a response");
        prop_assert_eq!((again.status, again.content_length), (status, length));
        prop_assert_eq!(forwarded(again.text, again.fields), forwarded(head.text, head.fields));
    }
}
