//! Published smuggling cases (`../data/http-cases`): what each is, what we do with it, and where we decide otherwise.

use std::fs;
use std::path::Path;

use handfast_http::http1::{HeadLimits, HeadProgress, parse_request};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::relay::relay;

/// Cases where our verdict differs: a case in a file, whether we read such a request, and why.
const DIFFERENCES: &[(&str, &str, bool, &str)] = &[
    ("acceptable", "Get with a body and Content-Length:0", true, GET_WITH_BODY),
    ("ambiguous", "Get with a body and Content-Length", true, GET_WITH_BODY),
    ("ambiguous", "Get with a body and Transfer-Encoding", true, GET_WITH_BODY),
    ("ambiguous", "Head with a body and Content-Length", true, GET_WITH_BODY),
    ("ambiguous", "Head with a body and Transfer-Encoding", true, GET_WITH_BODY),
    ("real-life-test-cases", "Has a CL in GET", true, GET_WITH_BODY),
    ("real-life-test-cases", "Has a TE in GET", true, GET_WITH_BODY),
    ("acceptable", "Unknown but OK HTTP/1.2", true, "a higher minor version is read as 1.1 (RFC 9110 §2.5)"),
    ("ambiguous", "Transfer_Encoding with underscore.", true, UNDERSCORE),
    ("ambiguous", "Content_Length with underscore.", true, UNDERSCORE),
    ("ambiguous", "Transfer-Encoding with multiple delimiters", true, UNDERSCORE),
    ("ambiguous", "Transfer-Encoding with multiple hyphens", true, "a name that no server takes for another"),
    ("more-compliant-tests", "Correct TE OK", false, OTHER_CODING),
    ("more-compliant-tests", "Transfer-Encoding: identity and chunked OK", false, OTHER_CODING),
    (
        "more-compliant-tests",
        "Multiple transfer encoding headers in a single request OK",
        false,
        OTHER_CODING,
    ),
    ("more-compliant-tests", "TE with custom parameters OK", false, OTHER_CODING),
    ("rfc-compliant", "Different Transfer-Encoding headers", false, OTHER_CODING),
    ("rfc-compliant", "Different Transfer-Encoding headers combined", false, OTHER_CODING),
    ("rfc-compliant", "Transfer-Encoding with a param: chunked;custom_param", false, OTHER_CODING),
    (
        "rfc-compliant",
        "Compliant URL",
        false,
        "RFC 9112 §3.2 has no `#` in a target, and servers cut there or not",
    ),
    ("rfc-compliant", "International in URI", false, "a target is ASCII; other bytes come percent-encoded"),
    ("rfc-compliant", "Empty URI", false, "RFC 9112 §3.2 has no empty target"),
];
const GET_WITH_BODY: &str =
    "its end is known as of any other; only HTTP/1.0 servers disagree, and there it is refused";
const UNDERSCORE: &str = "the field is not forwarded, or refused by `Underscores::Refuse`";
const OTHER_CODING: &str = "no client sends it, and servers disagree: 501 (RFC 9112 §6.1)";

/// One request of the collection.
#[derive(Clone, Debug, Default)]
struct Case {
    file: String,
    name: String,
    tier: String,
    request: Vec<u8>,
}

/// Keys and values of a case, in their order.
type Parts = Vec<(String, Vec<u8>)>;

/// The cases of all files.
fn cases() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/http-cases");
    let mut files: Vec<_> = fs::read_dir(folder)
        .expect("the cases are there")
        .map(|entry| entry.expect("readable").path())
        .collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    files
        .iter()
        .flat_map(|file| {
            let name = file.file_stem().expect("has a name").to_string_lossy().into_owned();
            read(&name, &fs::read_to_string(file).expect("readable"))
        })
        .collect()
}

/// Reads as much of YAML as these files use: keys with plain or quoted values, and lists of headers.
fn read(file: &str, text: &str) -> Vec<Case> {
    let mut cases: Vec<(Case, Parts)> = Vec::new();
    let mut is_expected = false;
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty()) {
        let indent = line.len() - line.trim_start().len();
        let item = line.trim_start().trim_start_matches("- ");
        let Some((key, value)) = item.split_once(':') else { continue };
        let value = scalar(value.trim());
        match (indent, key) {
            (0, "name") => {
                let name = String::from_utf8_lossy(&value).into_owned();
                cases.push((Case { file: file.to_owned(), name, ..Case::default() }, Vec::new()));
                is_expected = false;
            }
            (2, "expected") => is_expected = true,
            (4, "tier") if is_expected => {
                cases.last_mut().expect("in a case").0.tier = String::from_utf8_lossy(&value).into_owned();
            }
            (2 | 4 | 6, "uri" | "method" | "version" | "name" | "value") => {
                cases.last_mut().expect("in a case").1.push((key.to_owned(), value));
            }
            _ => {}
        }
    }
    cases.into_iter().map(|(case, parts)| Case { request: request(&parts), ..case }).collect()
}

/// The bytes of a value: `\xNN` is one byte, and other text is UTF-8.
fn scalar(text: &str) -> Vec<u8> {
    if let Some(text) = text.strip_prefix('\'') {
        return text.trim_end_matches('\'').replace("''", "'").into_bytes();
    }
    let Some(text) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.as_bytes().to_vec();
    };
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((byte, after)) = rest.split_first() {
        let (byte, used) = match (byte, after) {
            (b'\\', [b'x', high, low, ..]) => {
                let digits = String::from_utf8_lossy(&[*high, *low]).into_owned();
                (u8::from_str_radix(&digits, 16).expect("two digits"), 3)
            }
            (b'\\', [b't', ..]) => (b'\t', 1),
            (b'\\', [b'r', ..]) => (b'\r', 1),
            (b'\\', [b'n', ..]) => (b'\n', 1),
            (b'\\', [other, ..]) => (*other, 1),
            _ => (*byte, 0),
        };
        bytes.push(byte);
        rest = &after[used..];
    }
    bytes
}

/// The request on the wire. The collection leaves Host out.
fn request(parts: &Parts) -> Vec<u8> {
    let find = |key: &str| parts.iter().find(|(part, _)| part == key).map_or(&[][..], |(_, value)| value);
    let mut request = [find("method"), b" ", find("uri")].concat();
    if !find("version").is_empty() {
        request.extend([b" ", find("version")].concat());
    }
    request.extend(b"\r\n");
    let headers: Vec<_> = parts.iter().filter(|(part, _)| part == "name" || part == "value").collect();
    if !headers.iter().any(|(_, value)| value.eq_ignore_ascii_case(b"host")) {
        request.extend(b"Host: localhost\r\n");
    }
    for header in headers.chunks(2) {
        request.extend(&header[0].1);
        request.extend(b": ");
        request.extend(&header[1].1);
        request.extend(b"\r\n");
    }
    request.extend(b"\r\n");
    request
}

fn is_read(request: &[u8]) -> bool {
    let limits = HeadLimits::default();
    let mut fields = Vec::new();
    matches!(parse_request(request, &mut HeadProgress::default(), &mut fields, &limits), Ok(Some(_)))
}

#[test]
fn every_case_has_its_verdict() {
    let cases = cases();
    let mut wrong = Vec::new();
    for case in &cases {
        let difference = DIFFERENCES.iter().find(|(file, name, ..)| *file == case.file && *name == case.name);
        let expected = match (difference, case.tier.as_str()) {
            (Some((_, _, expected, _)), _) => *expected,
            (None, "Compliant") => true,
            (None, "Acceptable" | "Ambiguous" | "Severe") => false,
            (None, other) => panic!("{}, {}: tier {other}", case.file, case.name),
        };
        if is_read(&case.request) != expected {
            wrong.push(format!(
                "(\"{}\", \"{}\", {}, \"{}\"),\n{}",
                case.file,
                case.name,
                !expected,
                case.tier,
                case.request.escape_ascii()
            ));
        }
    }
    let named = |(file, name, ..): &&(&str, &str, bool, &str)| {
        cases.iter().any(|case| case.file == *file && case.name == *name)
    };
    assert!(DIFFERENCES.iter().all(|difference| named(&difference)), "a difference names no case");
    assert_eq!(cases.len(), 158);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

proptest! {
    #[test]
    fn a_changed_case_is_refused_or_read_alike(index in any::<Index>(), at in any::<Index>(), byte in select(&b"\r\n\0 \t:,x"[..])) {
        let cases = cases();
        let mut input = cases[index.index(cases.len())].request.clone();
        let at = at.index(input.len());
        input.insert(at, byte);
        let once = relay(&input);
        if once.requests.iter().all(|request| request.is_complete) {
            prop_assert_eq!(relay(&once.sent).requests, once.requests);
        }
    }
}
