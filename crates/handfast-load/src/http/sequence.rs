//! Requests in order on one connection, with values from earlier answers in later requests.
//!
//! In: the requests of a plan, and what answers had. Out: which request is next, filled in. A request that fails begins the order again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::Full;
use hyper::HeaderMap;
use hyper::body::Body as _;
use hyper::header::{CONTENT_LENGTH, HeaderValue};

use crate::failure::{Cause, Step, StepFailure};
use crate::plan::{Source, Take};
use crate::requests::PreparedRequest;

/// Longest body of which a value is taken.
pub(super) const MAX_BODY_BYTES: usize = 1 << 20;

/// Values by their names.
pub(super) type Values = BTreeMap<String, String>;

/// The state of a connection.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    place: usize,
    values: Values,
}

impl Sequence {
    /// The place of the next request among the plan's.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// The next request, with all values that were taken.
    pub(super) fn fill(&self, request: &PreparedRequest) -> Result<PreparedRequest, StepFailure> {
        if self.values.is_empty() {
            return Ok(request.clone());
        }
        fill(request, &self.values)
    }

    /// The request succeeded with these values, or failed; there are `all` requests.
    pub(super) fn ended(&mut self, taken: Option<Values>, all: usize) {
        self.place = if taken.is_some() { (self.place + 1) % all.max(1) } else { 0 };
        match taken {
            Some(taken) if self.place > 0 => self.values.extend(taken),
            _ => self.values.clear(),
        }
    }
}

fn filled<'t>(text: &'t str, values: &Values) -> Cow<'t, str> {
    if !text.contains('{') {
        return Cow::Borrowed(text);
    }
    let mut text = text.to_owned();
    for (name, value) in values {
        text = text.replace(&format!("{{{name}}}"), value);
    }
    Cow::Owned(text)
}

fn fill(request: &PreparedRequest, values: &Values) -> Result<PreparedRequest, StepFailure> {
    let wrong = |what: &str| {
        let name = request.uri().path();
        StepFailure::new(
            Step::Exchange,
            Cause::Http,
            format!("fill in the request {name}: a value cannot be in {what}"),
        )
    };
    let mut filled_in = request.clone();
    let uri = request.uri().to_string();
    *filled_in.uri_mut() = filled(&uri, values).parse().map_err(|_| wrong("a path"))?;
    for value in filled_in.headers_mut().values_mut() {
        let Ok(text) = value.to_str().map(str::to_owned) else { continue };
        if let Cow::Owned(text) = filled(&text, values) {
            let mut new = HeaderValue::from_str(&text).map_err(|_| wrong("a header"))?;
            new.set_sensitive(value.is_sensitive());
            *value = new;
        }
    }
    let bytes = bytes_of(filled_in.body().clone());
    if let Ok(Cow::Owned(text)) = std::str::from_utf8(&bytes).map(|text| filled(text, values)) {
        let body = Bytes::from(text);
        if filled_in.headers().contains_key(CONTENT_LENGTH) {
            filled_in.headers_mut().insert(CONTENT_LENGTH, body.len().into());
        }
        *filled_in.body_mut() = Full::new(body);
    }
    Ok(filled_in)
}

/// The bytes of a body that is in memory.
fn bytes_of(mut body: Full<Bytes>) -> Bytes {
    match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}

/// A value that is not in an answer, described as in messages.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the answer has no {0}")]
pub(super) struct MissingValue(String);

/// The values of an answer.
///
/// **Errors**: the value that is not there.
pub(super) fn take(takes: &[Take], headers: &HeaderMap, body: &[u8]) -> Result<Values, MissingValue> {
    let json = takes.iter().any(|take| matches!(take.from, Source::Json(_)));
    let parsed: Option<serde_json::Value> = json.then(|| serde_json::from_slice(body).ok()).flatten();
    let mut values = Values::new();
    for Take { name, from } in takes {
        let value = match from {
            Source::Header(header) => {
                headers.get(header).and_then(|value| value.to_str().ok()).map(str::to_owned)
            }
            Source::Json(pointer) => {
                parsed.as_ref().and_then(|json| json.pointer(pointer)).map(|value| match value {
                    serde_json::Value::String(text) => text.clone(),
                    other => other.to_string(),
                })
            }
        };
        values.insert(name.clone(), value.ok_or_else(|| MissingValue(from.shown()))?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        [("t", "42"), ("u", "a b")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn values_are_filled_in_everywhere() {
        let request = hyper::Request::builder()
            .uri("/a/{t}?x={t}")
            .header("authorization", "Bearer {u}")
            .header("content-length", "9")
            .body(Full::new(Bytes::from_static(b"{\"t\":{t}}")))
            .expect("a request");
        let filled = fill(&request, &values()).expect("good values");
        assert_eq!(filled.uri(), "/a/42?x=42");
        assert_eq!(filled.headers()["authorization"], "Bearer a b");
        assert_eq!(bytes_of(filled.body().clone()).as_ref(), b"{\"t\":42}");
        assert_eq!(filled.headers()["content-length"], "8");
        let request = hyper::Request::builder().uri("/{u}").body(Full::new(Bytes::new())).expect("a request");
        assert!(
            fill(&request, &values()).expect_err("a blank in a path").detail.contains("cannot be in a path")
        );
    }

    #[test]
    fn values_are_taken_from_headers_and_json() {
        let take_of = |text: &str| crate::plan::take::parse(text).expect("good").1;
        let headers: HeaderMap =
            [("x-token".parse().expect("a name"), HeaderValue::from_static("abc"))].into_iter().collect();
        let body = br#"{"a": [{"b": "text"}, 7]}"#;
        let takes = ["h=header:X-Token", "s=json:/a/0/b", "n=json:/a/1"].map(take_of);
        let found = take(&takes, &headers, body).expect("all are there");
        assert_eq!(found.values().collect::<Vec<_>>(), ["abc", "7", "text"]);
        let missing =
            |text: &str, body: &[u8]| take(&[take_of(text)], &headers, body).expect_err(text).to_string();
        assert_eq!(missing("h=header:other", body), "the answer has no header `other`");
        assert_eq!(missing("h=json:/a/2", body), "the answer has no JSON value at `/a/2`");
        assert_eq!(missing("h=json:/a", b"no JSON"), "the answer has no JSON value at `/a`");
    }

    #[test]
    fn a_failure_begins_the_order_again() {
        let mut sequence = Sequence::default();
        sequence.ended(Some(values()), 3);
        assert_eq!((sequence.place(), sequence.values.len()), (1, 2));
        sequence.ended(Some(Values::new()), 3);
        assert_eq!((sequence.place(), sequence.values.len()), (2, 2));
        sequence.ended(Some(Values::new()), 3);
        assert_eq!((sequence.place(), sequence.values.len()), (0, 0));
        sequence.ended(Some(values()), 3);
        sequence.ended(None, 3);
        assert_eq!((sequence.place(), sequence.values.len()), (0, 0));
    }
}
