//! The trace of a request: the field `traceparent` of W3C Trace Context, level 1.
//!
//! In: the head of a request. Out: the field that its backend receives. That of a client is kept if it is valid; Handfast itself records no span.

use std::fmt::Write;

use handfast_http::http1::RequestHead;

use crate::worker::request_routes::TRACEPARENT;

/// Length of a field of version 00: version, trace, parent and flags, with hyphens.
const LENGTH: usize = 55;
/// Most bytes of one of a later version.
const MAX_LENGTH: usize = 256;

/// Returns the field of a client; `None`: it has none, several, or one that is not valid.
pub(crate) fn of_client<'h>(head: &RequestHead<'h>) -> Option<&'h str> {
    let mut values = head.values(TRACEPARENT);
    let value = values.next().filter(|value| is_valid(value))?;
    if values.next().is_some() {
        return None;
    }
    str::from_utf8(value).ok()
}

/// Makes the field of a request that begins a trace, which is sampled.
pub(crate) fn made() -> String {
    let (trace, parent) = (fastrand::u128(1..), fastrand::u64(1..));
    let mut text = String::with_capacity(LENGTH);
    let _ = write!(text, "00-{trace:032x}-{parent:016x}-01");
    text
}

/// A later version may have more behind these parts (W3C Trace Context, "Versioning of traceparent").
fn is_valid(value: &[u8]) -> bool {
    let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_some = |part: &[u8]| part.iter().any(|byte| *byte != b'0');
    let Some((known, more)) = value.split_at_checked(LENGTH) else { return false };
    let [version, trace, parent, flags] = [&known[..2], &known[3..35], &known[36..52], &known[53..]];
    [2, 35, 52].iter().all(|hyphen| known[*hyphen] == b'-')
        && [version, trace, parent, flags].into_iter().all(is_hex)
        && is_some(trace)
        && is_some(parent)
        && version != b"ff"
        && value.len() <= MAX_LENGTH
        && (more.is_empty() || version != b"00" && more[0] == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::testing::{head, with_head};
    use handfast_http::http1::HeadLimits;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn kept(fields: &[&str]) -> bool {
        let lines = [&["GET / HTTP/1.1", "Host: a.example"], fields].concat();
        with_head(&head(&lines), &HeadLimits::default(), |head| of_client(head).is_some())
    }

    #[test]
    fn a_field_of_a_client_is_kept_if_it_is_valid() {
        let field = |value: &str| format!("Traceparent: {value}");
        assert!(kept(&[&field(VALID)]));
        assert!(kept(&[&field(&format!("cc{}-what-the-future-adds", &VALID[2..]))]), "of a later version");
        assert!(!kept(&[]));
        assert!(!kept(&[&field(VALID), &field(VALID)]), "two");
        for wrong in [
            "".to_owned(),
            format!("ff{}", &VALID[2..]),
            format!("{VALID}-more"),
            format!("cc{}.", &VALID[2..]),
            format!("cc{}-{}", &VALID[2..], "a".repeat(MAX_LENGTH)),
            VALID.to_uppercase(),
            VALID.replace('-', "_"),
            VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            VALID.replace("00f067aa0ba902b7", &"0".repeat(16)),
            VALID[..54].to_owned(),
        ] {
            assert!(!kept(&[&field(&wrong)]), "{wrong}");
        }
    }

    #[test]
    fn what_is_made_is_valid_and_another_one_each_time() {
        let (one, other) = (made(), made());
        assert!(is_valid(one.as_bytes()) && is_valid(other.as_bytes()) && one != other, "{one} {other}");
    }
}
