//! Tests that httparse accepts everything that our parser accepts, with the same parts.

use handfast_http::http1::{HeadLimits, HeadProgress, Target, Version, parse_request, parse_response};
use proptest::prelude::*;

use crate::inputs::{changed, requests, responses};

/// Returns true if all parsers read the first line alike.
fn has_usual_line(input: &[u8]) -> bool {
    let line = input.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty());
    let is_usual = |line: &[u8]| {
        let versions = [&b"HTTP/1.0"[..], b"HTTP/1.1"];
        versions
            .iter()
            .any(|version| line.starts_with(&[version, &b" "[..]].concat()) || line.ends_with(version))
    };
    line.is_some_and(|line| is_usual(line) && !line.windows(2).any(|pair| pair == b"  " || pair == b" \t"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn requests_are_read_as_httparse_reads_them(input in changed(requests())) {
        let mut fields = Vec::new();
        let ours = parse_request(&input, &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
        let Ok(Some(ours)) = ours else { return Ok(()) };
        // It refuses higher minor versions.
        prop_assume!(has_usual_line(&input));
        let mut headers = [httparse::EMPTY_HEADER; 200];
        let mut theirs = httparse::Request::new(&mut headers);
        prop_assert_eq!(theirs.parse(&input), Ok(httparse::Status::Complete(ours.length)));
        prop_assert_eq!(theirs.method.map(str::as_bytes), Some(ours.method.as_bytes()));
        prop_assert_eq!(theirs.version, Some(u8::from(ours.version == Version::Http11)));
        let path = theirs.path.unwrap_or("");
        match ours.target {
            Target::Origin(target) => prop_assert_eq!(path.as_bytes(), target),
            Target::Asterisk => prop_assert_eq!(path, "*"),
            Target::Absolute { authority, path: rest, .. } => {
                let scheme = path.find("://").map_or(0, |at| at + 3);
                prop_assert_eq!(&path.as_bytes()[scheme..], [authority, rest].concat());
            }
        }
        let ours = ours.fields.iter().map(|field| (field.name(ours.text), field.value(ours.text)));
        let theirs = theirs.headers.iter().map(|header| (header.name.as_bytes(), header.value));
        prop_assert!(ours.eq(theirs));
    }

    #[test]
    fn responses_are_read_as_httparse_reads_them(input in changed(responses())) {
        let mut fields = Vec::new();
        let ours = parse_response(&input, &mut HeadProgress::default(), &mut fields, &HeadLimits::default());
        let Ok(Some(ours)) = ours else { return Ok(()) };
        // It refuses what other proxies tolerate of a backend.
        let is_control = |byte: &u8| byte.is_ascii_control() && !b"\r\n\t".contains(byte);
        prop_assume!(has_usual_line(&input) && !ours.text.iter().any(is_control));
        let mut headers = [httparse::EMPTY_HEADER; 200];
        let mut theirs = httparse::Response::new(&mut headers);
        prop_assert_eq!(theirs.parse(&input), Ok(httparse::Status::Complete(ours.length)));
        prop_assert_eq!(theirs.code, Some(ours.status));
        prop_assert_eq!(theirs.version, Some(u8::from(ours.version == Version::Http11)));
        if ours.reason.is_ascii() {
            prop_assert_eq!(theirs.reason.map(str::as_bytes), Some(ours.reason));
        }
        let ours = ours.fields.iter().map(|field| (field.name(ours.text), field.value(ours.text)));
        let theirs = theirs.headers.iter().map(|header| (header.name.as_bytes(), header.value));
        prop_assert!(ours.eq(theirs));
    }
}
