//! The requests of a plan in the form in which they are sent: built once, sent many times.
//!
//! In: a plan. Out: one [`PreparedRequest`] for each of its requests, with their files read. Values of headers that carry
//! secrets are never printed.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use handfast_http::http1::{HeadError, OwnedRequest, is_token};
use handfast_pki::files::read_input;

use crate::plan::{self, Body, Header, HttpVersion, Plan, Work};
use handfast_report::ToolError;

/// Largest file that is sent: every one is kept in memory, once.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A request that is ready to be sent.
#[derive(Clone)]
pub(crate) struct PreparedRequest {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) path: String,
    /// Its fields, `host` first.
    pub(crate) fields: Vec<Header>,
    pub(crate) body: Arc<[u8]>,
    pub(crate) head: WrittenHead,
}

/// The head of a request, written for its version.
#[derive(Clone)]
pub(crate) enum WrittenHead {
    /// The bytes that are sent.
    Http1(Vec<u8>),
    /// The fields that are encoded for each connection.
    Http2 { head: OwnedRequest, scheme: &'static str },
}

/// Without the head, which has the values of secrets.
impl fmt::Debug for PreparedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { method, path, fields, body, .. } = self;
        let mut debug = f.debug_struct("PreparedRequest");
        debug.field("method", method).field("path", path).field("fields", fields);
        debug.field("body", &body.len()).finish_non_exhaustive()
    }
}

/// Reason why a request cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsendable {
    /// Its path has a byte that it cannot have.
    #[error("invalid path")]
    Path,
    /// The value of this field has a control byte.
    #[error("the value of {0}")]
    Value(String),
    /// HTTP/2 has no such field.
    #[error("{0} belongs to a connection of HTTP/1 or its proxy, expected no such header with HTTP/2")]
    NotInHttp2(String),
    /// HTTP/2 has no such head.
    #[error("{0}")]
    Head(HeadError),
}

impl PreparedRequest {
    /// Writes the head: for HTTP/2 if there is a `scheme`, otherwise for HTTP/1.1.
    ///
    /// **Errors**: what cannot be sent.
    pub(crate) fn new(
        (method, path): (&str, &str),
        fields: Vec<Header>,
        body: Arc<[u8]>,
        scheme: Option<&'static str>,
    ) -> Result<Self, Unsendable> {
        if !path.starts_with('/') || path.bytes().any(|byte| !(b'!'..=b'~').contains(&byte) || byte == b'#') {
            return Err(Unsendable::Path);
        }
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        for field in &fields {
            let value = field.value.as_deref().unwrap_or_default();
            if !is_token(field.name.as_bytes()) || value.chars().any(|c| c.is_ascii_control() && c != '\t') {
                return Err(Unsendable::Value(field.name.clone()));
            }
            text.extend([&field.name, ": ", value, "\r\n"]);
        }
        text.push_str("\r\n");
        let head = match scheme {
            None => WrittenHead::Http1(text.into_bytes()),
            Some(scheme) => WrittenHead::Http2 { head: head_of(&text)?, scheme },
        };
        Ok(Self { method: method.to_owned(), path: path.to_owned(), fields, body, head })
    }

    /// The scheme of its URL, with HTTP/2.
    pub(crate) fn scheme(&self) -> Option<&'static str> {
        match self.head {
            WrittenHead::Http1(_) => None,
            WrittenHead::Http2 { scheme, .. } => Some(scheme),
        }
    }
}

/// Returns the head that HTTP/2 encodes.
///
/// **Errors**: the field that it would leave out.
fn head_of(text: &str) -> Result<OwnedRequest, Unsendable> {
    use handfast_http::http1::Kind;
    let owned = OwnedRequest::of_written(text.as_bytes()).map_err(Unsendable::Head)?;
    let owned = owned.ok_or(Unsendable::Path)?;
    let is_sent = |kind: Kind| kind.is_forwarded() || kind == Kind::ContentLength;
    let head = owned.head();
    match head.fields.iter().find(|field| !is_sent(field.kind())) {
        Some(field) => {
            Err(Unsendable::NotInHttp2(String::from_utf8_lossy(field.name(head.text)).into_owned()))
        }
        None => Ok(owned),
    }
}

/// Every request of the plan, in its order; none of works without HTTP.
///
/// **Errors**: files that cannot be read, and what cannot be sent.
///
/// **Cost**: the files in memory, shared by all threads.
pub(crate) fn prepare(plan: &Plan) -> Result<Vec<Arc<PreparedRequest>>, ToolError> {
    let Work::Http { version, authority, requests, .. } = &plan.work else { return Ok(Vec::new()) };
    // RFC 9113 §8.3.1: HTTP/2 names the scheme.
    let scheme = (*version == HttpVersion::Http2).then_some(plan.target.scheme());
    requests.iter().map(|request| prepare_one(scheme, authority, request).map(Arc::new)).collect()
}

fn prepare_one(
    scheme: Option<&'static str>,
    authority: &str,
    planned: &plan::Request,
) -> Result<PreparedRequest, ToolError> {
    let body = match &planned.body {
        None => Arc::default(),
        Some(Body::Text(text)) => Arc::from(text.as_bytes()),
        Some(Body::File(path)) => read(path)?,
    };
    let own = |name: &str| planned.headers.iter().find(|header| header.name == name);
    let header = |name: &str, value: &str| Header { name: name.to_owned(), value: Some(value.to_owned()) };
    let host = own("host").and_then(|header| header.value.as_deref()).unwrap_or(authority);
    // RFC 9112 §3.2: the authority is in Host; HTTP/2 makes :authority of it (RFC 9113 §8.3.1).
    let mut fields = vec![header("host", host)];
    let usual = [("user-agent", concat!("handfast/", env!("CARGO_PKG_VERSION"))), ("accept", "*/*")];
    fields.extend(
        usual.iter().filter(|(name, _)| own(name).is_none()).map(|(name, value)| header(name, value)),
    );
    if planned.sends_length() {
        fields.push(header("content-length", &body.len().to_string()));
    }
    fields.extend(planned.headers.iter().filter(|header| header.name != "host").cloned());
    PreparedRequest::new((&planned.method, &planned.path), fields, body, scheme)
        .map_err(|error| ToolError::wrong_use(format!("make the request {}: {error}", planned.name())))
}

fn read(path: &Path) -> Result<Arc<[u8]>, ToolError> {
    let failed =
        |what: String| ToolError::wrong_use(format!("read the body from {}: {what}", path.display()));
    let read = read_input(path, MAX_FILE_BYTES).map(|bytes| Arc::from(&bytes[..]));
    read.map_err(|error| failed(format!("{error}; expected at most {MAX_FILE_BYTES} bytes")))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::plan::Header;

    fn made(version: HttpVersion, request: plan::Request) -> Result<Arc<PreparedRequest>, ToolError> {
        let work = Work::Http {
            version,
            authority: "a.example:8443".into(),
            requests: vec![request],
            streams: 1,
            expect: plan::ExpectedStatuses::default(),
            in_order: false,
        };
        prepare(&Plan { work, ..Plan::default() }).map(|mut requests| requests.remove(0))
    }

    fn header(text: &str) -> Header {
        plan::request::header(text).unwrap()
    }

    fn value<'a>(request: &'a PreparedRequest, name: &str) -> Option<&'a str> {
        let mut fields = request.fields.iter();
        fields.find(|field| field.name == name).and_then(|field| field.value.as_deref())
    }

    /// Scheme, authority, path and field names, as HTTP/2 sends them.
    fn encoded(request: &PreparedRequest) -> (String, Vec<String>) {
        let WrittenHead::Http2 { head, scheme } = &request.head else { panic!("{request:?}") };
        let head = head.head();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let names = head.fields.iter().map(|field| text(field.name(head.text)));
        let url = format!("{scheme}://{}{}", text(head.host.text), text(head.target.path()));
        (url, names.filter(|name| name != "host").collect())
    }

    #[test]
    fn a_request_has_what_was_given_and_the_default_otherwise() {
        let planned = plan::Request {
            method: "POST".into(),
            path: "/a?b".into(),
            headers: vec![header("Authorization: Bearer geheim"), header("User-Agent: mine")],
            body: Some(Body::Text("{}".into())),
            ..plan::Request::default()
        };
        let request = made(HttpVersion::Http11, planned.clone()).unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/a?b"));
        let WrittenHead::Http1(text) = &request.head else { panic!("{request:?}") };
        assert_eq!(
            str::from_utf8(text).unwrap(),
            "POST /a?b HTTP/1.1\r\nhost: a.example:8443\r\naccept: */*\r\ncontent-length: 2\r\n\
             authorization: Bearer geheim\r\nuser-agent: mine\r\n\r\n"
        );
        let value = |name: &str| value(&request, name);
        assert_eq!(value("host"), Some("a.example:8443"));
        assert_eq!((value("user-agent"), value("accept")), (Some("mine"), Some("*/*")));
        assert_eq!((value("content-length"), value("content-type")), (Some("2"), None));
        assert!(!format!("{request:?}").contains("geheim"), "{request:?}");
        let request = made(HttpVersion::Http2, planned).unwrap();
        let (url, names) = encoded(&request);
        assert_eq!(url, "https://a.example:8443/a?b");
        assert_eq!(names, ["accept", "content-length", "authorization", "user-agent"], ":authority, no host");
    }

    #[test]
    fn a_host_of_ones_own_and_a_length_without_a_body() {
        let request = |method: &str| plan::Request {
            method: method.into(),
            headers: vec![header("Host: b.example")],
            ..plan::Request::default()
        };
        let one = made(HttpVersion::Http11, request("PUT")).unwrap();
        assert_eq!(value(&one, "host"), Some("b.example"));
        assert_eq!(value(&one, "content-length"), Some("0"), "RFC 9110 §8.6");
        let two = made(HttpVersion::Http2, request("DELETE")).unwrap();
        assert_eq!(encoded(&two).0, "https://b.example/");
        assert_eq!(value(&two, "content-length"), None);
    }

    #[test]
    fn a_header_that_http2_would_leave_out_is_refused() {
        let with = |name: &str| plan::Request {
            headers: vec![header(&format!("{name}: x"))],
            ..plan::Request::default()
        };
        for name in ["proxy-authorization", "proxy"] {
            assert!(made(HttpVersion::Http11, with(name)).is_ok(), "{name}");
            let refusal = made(HttpVersion::Http2, with(name)).unwrap_err();
            assert!(refusal.is_wrong_use() && refusal.what.contains(name), "{refusal}");
        }
        for name in ["forwarded", "x-forwarded-for", "x_y", "cookie"] {
            assert_eq!(encoded(&made(HttpVersion::Http2, with(name)).unwrap()).1.last().unwrap(), name);
        }
    }

    #[test]
    fn a_body_is_the_bytes_of_its_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\0\xff bytes").unwrap();
        let with =
            |path: &Path| plan::Request { body: Some(Body::File(path.into())), ..plan::Request::default() };
        let request = made(HttpVersion::Http11, with(file.path())).unwrap();
        assert_eq!(&request.body[..], b"\0\xff bytes");
        let refusal = made(HttpVersion::Http11, with(Path::new("/no/such/file"))).unwrap_err();
        assert!(refusal.is_wrong_use() && refusal.what.contains("/no/such/file"), "{refusal}");
    }
}
