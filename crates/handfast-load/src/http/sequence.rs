//! Requests in order on one connection, with values from earlier answers in later requests.
//!
//! In: the requests of a plan, and what answers had. Out: which request is next, filled in. A request that fails begins the order again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use handfast_http::http1::ResponseHead;

use crate::failure::{Cause, Step, StepFailure};
use crate::plan::{Header, Source, Take};
use crate::requests::{PreparedRequest, Unsendable};

/// Longest body of which a value is taken.
const MAX_BODY_BYTES: usize = 1 << 20;

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
    pub(super) fn fill(&self, request: &Arc<PreparedRequest>) -> Result<Arc<PreparedRequest>, StepFailure> {
        if self.values.is_empty() {
            return Ok(Arc::clone(request));
        }
        fill(request, &self.values).map(Arc::new)
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
    let body = match str::from_utf8(&request.body).map(|text| filled(text, values)) {
        Ok(Cow::Owned(text)) => Arc::from(text.into_bytes()),
        _ => Arc::clone(&request.body),
    };
    let field = |Header { name, value }: &Header| {
        let value = match name.as_str() {
            "content-length" => body.len().to_string(),
            _ => filled(value.as_deref().unwrap_or_default(), values).into_owned(),
        };
        Header { name: name.clone(), value: Some(value) }
    };
    let fields = request.fields.iter().map(field).collect();
    let path = filled(&request.path, values);
    PreparedRequest::new((&request.method, &path), fields, Arc::clone(&body), request.scheme()).map_err(
        |unsendable| {
            let place = if matches!(unsendable, Unsendable::Path) { "a path" } else { "a header" };
            let name = request.path.split('?').next().unwrap_or_default();
            let detail = format!("fill in the request {name}: a value cannot be in {place}");
            StepFailure::new(Step::Exchange, Cause::Http, detail)
        },
    )
}

/// A value that is not in an answer, described as in messages.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the answer has no {0}")]
pub(super) struct MissingValue(String);

/// An answer of which values are taken, as far as it has come.
#[derive(Debug)]
pub(super) struct Taking {
    /// For each value: the header that has it.
    headers: Vec<Option<String>>,
    /// The body, up to [`MAX_BODY_BYTES`].
    text: Vec<u8>,
}

impl Taking {
    /// Begins with the head of an answer; `None`: nothing is taken.
    pub(super) fn begin(takes: &[Take], head: &ResponseHead<'_>) -> Option<Box<Self>> {
        let header = |take: &Take| match &take.from {
            Source::Header(name) => head.values(name).next().and_then(shown).map(str::to_owned),
            Source::Json(_) => None,
        };
        let headers = takes.iter().map(header).collect();
        (!takes.is_empty()).then(|| Box::new(Self { headers, text: Vec::new() }))
    }

    /// Takes more of the body.
    pub(super) fn push(&mut self, content: &[u8]) {
        let room = MAX_BODY_BYTES.saturating_sub(self.text.len());
        self.text.extend_from_slice(&content[..content.len().min(room)]);
    }

    /// The values of the answer, which has ended.
    ///
    /// **Errors**: the value that is not there.
    pub(super) fn finish(self, takes: &[Take]) -> Result<Values, MissingValue> {
        let json = takes.iter().any(|take| matches!(take.from, Source::Json(_)));
        let parsed: Option<serde_json::Value> =
            json.then(|| serde_json::from_slice(&self.text).ok()).flatten();
        let mut values = Values::new();
        for (Take { name, from }, header) in takes.iter().zip(self.headers) {
            let value = match from {
                Source::Header(_) => header,
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
}

/// The value of a header as text; `None`: it has other bytes than visible ASCII, blanks and tabs.
fn shown(value: &[u8]) -> Option<&str> {
    let is_shown = value.iter().all(|byte| *byte == b'\t' || (b' '..=b'~').contains(byte));
    str::from_utf8(value).ok().filter(|_| is_shown)
}

#[cfg(test)]
mod tests {
    use handfast_http::http1::{HeadLimits, HeadProgress, parse_response};

    use super::*;

    fn values() -> Values {
        [("t", "42"), ("u", "a b")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn values_are_filled_in_everywhere() {
        let header = |name: &str, value: &str| Header { name: name.into(), value: Some(value.into()) };
        let request = |path: &str, body: &[u8]| {
            let fields = vec![header("authorization", "Bearer {u}"), header("content-length", "9")];
            PreparedRequest::new(("GET", path), fields, Arc::from(body), None).expect("a request")
        };
        let filled = fill(&request("/a/{t}?x={t}", b"{\"t\":{t}}"), &values()).expect("good values");
        assert_eq!(filled.path, "/a/42?x=42");
        assert_eq!(filled.fields, [header("authorization", "Bearer a b"), header("content-length", "8")]);
        assert_eq!(&filled.body[..], b"{\"t\":42}");
        let request = request("/{u}", b"");
        assert!(
            fill(&request, &values()).expect_err("a blank in a path").detail.contains("cannot be in a path")
        );
    }

    #[test]
    fn values_are_taken_from_headers_and_json() {
        let take_of = |text: &str| crate::plan::take::parse(text).expect("good").1;
        let taken = |takes: &[Take], body: &[u8]| {
            let (text, mut fields) = (b"HTTP/1.1 200 OK\r\nX-Token: abc\r\n\r\n", Vec::new());
            let limits = HeadLimits::default();
            let head = parse_response(text, &mut HeadProgress::default(), &mut fields, &limits);
            let mut taking = Taking::begin(takes, &head.expect("a head").expect("all of it")).expect("some");
            body.chunks(7).for_each(|part| taking.push(part));
            taking.finish(takes)
        };
        let body = br#"{"a": [{"b": "text"}, 7]}"#;
        let takes = ["h=header:X-Token", "s=json:/a/0/b", "n=json:/a/1"].map(take_of);
        let found = taken(&takes, body).expect("all are there");
        assert_eq!(found.values().collect::<Vec<_>>(), ["abc", "7", "text"]);
        let missing = |text: &str, body: &[u8]| taken(&[take_of(text)], body).expect_err(text).to_string();
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
