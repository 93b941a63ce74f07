//! Fields of a request: what is written for a backend, in either version, is read there as it was accepted here.
#![no_main]

use handfast_http::http1::{
    Framing, HeadEnd, HeadLimits, HeadProgress, OwnedRequest, RequestHead, Underscores, end_head,
    parse_request, write_fields, write_request_line,
};
use handfast_http::http2::head::{HeadText, Part, encode_request};
use handfast_http::http2::hpack::{Decoder, Encoder};
use libfuzzer_sys::fuzz_target;

const NAMES: [&[u8]; 24] = [
    b":method",
    b":scheme",
    b":authority",
    b":path",
    b":protocol",
    b":status",
    b"host",
    b"cookie",
    b"content-length",
    b"te",
    b"expect",
    b"x_a",
    b"x-a",
    b"x-forwarded-for",
    b"proxy",
    b"sec-websocket-key",
    b"upgrade",
    b"connection",
    b"transfer-encoding",
    b"trailer",
    b"http2-settings",
    b"accept-encoding",
    b"authorization",
    b"x-real-ip",
];
const VALUES: [&[u8]; 16] = [
    b"GET",
    b"POST",
    b"CONNECT",
    b"OPTIONS",
    b"https",
    b"http",
    b"a.example",
    b"a.example:443",
    b"/",
    b"/a?b",
    b"*",
    b"websocket",
    b"trailers",
    b"100-continue",
    b"5",
    b"0",
];

/// A field block: a byte for each name, one for each value, and bytes of values that are in no list. The first four fields are those of a GET
/// unless the input has its own.
fn block(input: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut push = |pattern: u8, name: &[u8], value: &[u8]| {
        out.push(pattern);
        for text in [name, value] {
            out.push(text.len() as u8);
            out.extend_from_slice(text);
        }
    };
    let Some((flags, mut rest)) = input.split_first() else { return out };
    let usual: [(&[u8], &[u8]); 4] =
        [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a.example"), (b":path", b"/")];
    for (index, (name, value)) in usual.into_iter().enumerate() {
        if flags >> index & 1 == 0 {
            push(0x40, name, value);
        }
    }
    while let Some((&[name, value], behind)) = rest.split_first_chunk() {
        rest = behind;
        let pattern = if name & 0x80 != 0 { 0x40 } else { 0x00 };
        let name = NAMES[usize::from(name & 0x7F) % NAMES.len()];
        match VALUES.get(usize::from(value)) {
            Some(value) => push(pattern, name, value),
            None => {
                let (value, behind) = rest.split_at(usize::from(value % 100).min(rest.len()));
                rest = behind;
                push(pattern, name, value);
            }
        }
    }
    out
}

/// All that rules read, but for the fields.
fn described(head: &RequestHead<'_>) -> String {
    let RequestHead { method, target, host, framing, accepts_trailers, expects_continue, .. } = *head;
    format!("{method:?} {target:?} {host:?} {framing:?} {accepts_trailers} {expects_continue}")
}

/// Fields that are forwarded, sorted: a cookie goes behind the others.
fn forwarded(head: &RequestHead<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let kept = head.fields.iter().filter(|field| field.kind().is_forwarded());
    let mut kept: Vec<_> =
        kept.map(|field| (field.name(head.text).to_vec(), field.value(head.text).to_vec())).collect();
    kept.sort();
    kept
}

fuzz_target!(|input: &[u8]| {
    let limits = HeadLimits::default();
    let mut first = HeadText::default();
    first.begin(Part::Request, &limits);
    if Decoder::default().decode(&block(input), &mut first).is_err() {
        return;
    }
    let has_content = input.first().is_some_and(|flags| flags & 0x80 != 0);
    let Ok(head) = first.request(has_content, Some("a2V5")) else { return };
    let owned = OwnedRequest::new(&head);
    assert_eq!(described(&owned.head()), described(&head));
    assert_eq!(forwarded(&owned.head()), forwarded(&head));

    let mut text = Vec::new();
    write_request_line(&mut text, &head);
    write_fields(&mut text, head.text, head.fields, |_| false);
    end_head(&mut text, &HeadEnd::for_backend(&head));
    let mut fields = Vec::new();
    let unlimited = HeadLimits {
        head: usize::MAX,
        start_line: usize::MAX,
        fields: usize::MAX,
        underscores: Underscores::Forward,
    };
    let parsed = parse_request(&text, &mut HeadProgress::default(), &mut fields, &unlimited);
    let parsed =
        parsed.unwrap_or_else(|error| panic!("{error}: {}", text.escape_ascii())).expect("a whole head");
    assert_eq!((parsed.length, parsed.upgrade), (text.len(), head.upgrade));
    assert_eq!(described(&parsed), described(&head), "{}", text.escape_ascii());
    assert_eq!(forwarded(&parsed), forwarded(&head), "{}", text.escape_ascii());

    let (mut encoded, mut second) = (Vec::new(), HeadText::default());
    encode_request(&mut encoded, &mut Encoder::default(), &head, "https");
    second.begin(Part::Request, &unlimited);
    Decoder::default().decode(&encoded, &mut second).expect("a field block");
    let has_content = !matches!(head.framing, Framing::None | Framing::Length(0));
    let again = second.request(has_content, None).expect("a request");
    assert_eq!(described(&again), described(&head));
    assert_eq!(forwarded(&again), forwarded(&head));
});
