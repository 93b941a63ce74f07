//! The requests of a plan in hyper's form: built once, sent many times.
//!
//! In: a plan. Out: one [`PreparedRequest`] for each of its requests, with their files read. Values of headers that carry
//! secrets are marked as such: HTTP/2 does not index them (RFC 7541 §7.1.3), and they are never printed.

use std::path::Path;

use bytes::Bytes;
use handfast_pki::files::read_input;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Request, Version};

use crate::plan::{self, Body, HttpVersion, Plan, Work};
use handfast_report::ToolError;

/// A request that is ready to be sent.
pub(crate) type PreparedRequest = Request<Full<Bytes>>;

/// Largest file that is sent: every one is kept in memory, once.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Every request of the plan, in its order; none of works without HTTP.
///
/// **Errors**: files that cannot be read, and what hyper cannot send.
///
/// **Cost**: the files in memory, shared by all threads.
pub(crate) fn prepare(plan: &Plan) -> Result<Vec<PreparedRequest>, ToolError> {
    let Work::Http { version, authority, requests, .. } = &plan.work else { return Ok(Vec::new()) };
    let scheme = plan.target.scheme();
    requests.iter().map(|request| prepare_one(*version, (scheme, authority), request)).collect()
}

fn prepare_one(
    version: HttpVersion,
    (scheme, authority): (&str, &str),
    planned: &plan::Request,
) -> Result<PreparedRequest, ToolError> {
    let wrong = |what: String| ToolError::wrong_use(format!("make the request {}: {what}", planned.name()));
    let body = match &planned.body {
        None => Bytes::new(),
        Some(Body::Text(text)) => Bytes::copy_from_slice(text.as_bytes()),
        Some(Body::File(path)) => read(path)?,
    };
    let own_host = planned.headers.iter().find(|header| header.name == "host");
    let authority = own_host.and_then(|header| header.value.as_deref()).unwrap_or(authority);
    let method = planned.method.as_str();
    let mut builder = match version {
        // RFC 9112 §3.2.1 and §3.2: the path alone, and the authority in Host.
        HttpVersion::Http11 => Request::builder()
            .method(method)
            .uri(planned.path.as_str())
            .version(Version::HTTP_11)
            .header(HOST, authority),
        // RFC 9113 §8.3.1: :authority instead of Host.
        HttpVersion::Http2 => Request::builder()
            .method(method)
            .uri(format!("{scheme}://{authority}{}", planned.path))
            .version(Version::HTTP_2),
    };
    let usual = [(USER_AGENT, concat!("handfast/", env!("CARGO_PKG_VERSION"))), (ACCEPT, "*/*")];
    for (name, value) in usual {
        if !planned.headers.iter().any(|header| header.name == name.as_str()) {
            builder = builder.header(name, value);
        }
    }
    if planned.sends_length() {
        builder = builder.header(CONTENT_LENGTH, body.len());
    }
    for header in planned.headers.iter().filter(|header| header.name != "host") {
        let name =
            HeaderName::from_bytes(header.name.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        let text = header.value.as_deref().unwrap_or_default();
        let mut value = HeaderValue::from_str(text).map_err(|_| wrong(format!("the value of {name}")))?;
        value.set_sensitive(header.is_secret());
        builder = builder.header(name, value);
    }
    builder.body(Full::new(body)).map_err(|error| wrong(error.to_string()))
}

fn read(path: &Path) -> Result<Bytes, ToolError> {
    let failed =
        |what: String| ToolError::wrong_use(format!("read the body from {}: {what}", path.display()));
    let read = read_input(path, MAX_FILE_BYTES).map(|bytes| Bytes::copy_from_slice(&bytes));
    read.map_err(|error| failed(format!("{error}; expected at most {MAX_FILE_BYTES} bytes")))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use http_body_util::BodyExt as _;

    use super::*;
    use crate::plan::Header;

    fn made(version: HttpVersion, request: plan::Request) -> Result<PreparedRequest, ToolError> {
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
        assert_eq!((request.method().as_str(), request.uri().to_string().as_str()), ("POST", "/a?b"));
        let value = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        assert_eq!(value("host"), Some("a.example:8443"));
        assert_eq!((value("user-agent"), value("accept")), (Some("mine"), Some("*/*")));
        assert_eq!((value("content-length"), value("content-type")), (Some("2"), None));
        assert!(!format!("{request:?}").contains("geheim"), "{request:?}");
        let request = made(HttpVersion::Http2, planned).unwrap();
        assert_eq!(request.uri().to_string(), "https://a.example:8443/a?b");
        assert!(!request.headers().contains_key("host"));
    }

    #[test]
    fn a_host_of_ones_own_and_a_length_without_a_body() {
        let request = |method: &str| plan::Request {
            method: method.into(),
            headers: vec![header("Host: b.example")],
            ..plan::Request::default()
        };
        let one = made(HttpVersion::Http11, request("PUT")).unwrap();
        assert_eq!(one.headers()["host"], "b.example");
        assert_eq!(one.headers()["content-length"], "0", "RFC 9110 §8.6");
        let two = made(HttpVersion::Http2, request("DELETE")).unwrap();
        assert_eq!(two.uri().authority().map(|authority| authority.as_str()), Some("b.example"));
        assert!(!two.headers().contains_key("content-length"));
    }

    #[test]
    fn a_body_is_the_bytes_of_its_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"\0\xff bytes").unwrap();
        let with =
            |path: &Path| plan::Request { body: Some(Body::File(path.into())), ..plan::Request::default() };
        let request = made(HttpVersion::Http11, with(file.path())).unwrap();
        let mut body = std::pin::pin!(request.into_body().collect());
        let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(Ok(body)) = body.as_mut().poll(context) else { panic!("it is there") };
        assert_eq!(body.to_bytes().as_ref(), b"\0\xff bytes");
        let refusal = made(HttpVersion::Http11, with(Path::new("/no/such/file"))).unwrap_err();
        assert!(refusal.is_wrong_use() && refusal.what.contains("/no/such/file"), "{refusal}");
    }
}
