//! Heads between HTTP/2 and HTTP/1 text.
//!
//! In: fields as the `h2` crate has them, or an accepted head. Out: the other form. Text is parsed by the strict parser
//! afterwards, so nothing is checked here that it checks.

use bytes::Bytes;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};
use handfast_http::http1::{
    BodyReader, Field, Framing, HeadLimits, HeadProgress, Host, Piece, RequestHead, ResponseHead, Target,
    Underscores, is_token, parse_request,
};
use http::header::{CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, SEC_WEBSOCKET_KEY};
use http::{Method, Request, Response, Uri};

use crate::requests::head::fault::Fault;
use crate::requests::head::websocket;

/// A request as text. `has_content`: its stream has not ended with its head.
///
/// **Errors**: it names two hosts, or none.
/// **Source**: RFC 9113 §8.3.1, RFC 8441 §4.
pub(crate) fn request_text(request: &Request<()>, has_content: bool) -> Result<Vec<u8>, Fault> {
    let uri = request.uri();
    let fields = request.headers();
    let protocol = request.extensions().get::<h2::ext::Protocol>();
    // The `h2` crate takes any bytes for it (RFC 8441 §4).
    if protocol.is_some_and(|protocol| !is_token(protocol.as_str().as_bytes())) {
        return wrong(":protocol is not a token");
    }
    let is_websocket = protocol.is_some_and(|protocol| protocol.as_str().eq_ignore_ascii_case("websocket"));
    let host = host(uri, fields)?;
    let mut text = Vec::with_capacity(512);
    let method = if protocol.is_some() { "GET" } else { request.method().as_str() };
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let target = match (request.method(), path) {
        (&Method::CONNECT, _) if protocol.is_none() => host,
        (&Method::OPTIONS, "*") => b"*",
        _ => path.as_bytes(),
    };
    line(&mut text, &[method.as_bytes(), b" ", target, b" HTTP/1.1"]);
    line(&mut text, &[b"host: ", host]);
    for (name, value) in fields {
        // RFC 9113 §8.2.1; in HTTP/1 they would be no part of the value.
        if matches!(value.as_bytes(), [b' ' | b'\t', ..] | [.., b' ' | b'\t']) {
            return wrong("the value of a field begins or ends with a blank");
        }
        // RFC 8441 §5: the key is not used; a client's own would come beside the proxy's.
        let is_key = is_websocket && *name == SEC_WEBSOCKET_KEY;
        if *name != HOST && *name != COOKIE && !is_key {
            line(&mut text, &[name.as_str().as_bytes(), b": ", value.as_bytes()]);
        }
    }
    cookies(&mut text, fields);
    if let Some(protocol) = protocol {
        line(&mut text, &[b"connection: upgrade"]);
        line(&mut text, &[b"upgrade: ", protocol.as_str().as_bytes()]);
        if is_websocket {
            let none =
                || CloseReason::new(Step::Hello, Side::Local, Cause::Internal).because("no random numbers");
            let key = websocket::websocket_key().ok_or_else(|| Fault::of(none()))?;
            line(&mut text, &[b"sec-websocket-key: ", key.as_bytes()]);
        }
    } else if has_content && !fields.contains_key(CONTENT_LENGTH) {
        line(&mut text, &[b"transfer-encoding: chunked"]);
    } else if !has_content && has_usually_content(request.method()) && !fields.contains_key(CONTENT_LENGTH) {
        line(&mut text, &[b"content-length: 0"]);
    }
    text.extend_from_slice(b"\r\n");
    Ok(text)
}

/// Servers of HTTP/1 answer 411 to these without a length (RFC 9110 §8.6).
fn has_usually_content(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH].contains(method)
}

fn wrong<T>(what: &str) -> Result<T, Fault> {
    Err(Fault::new(Step::Hello, Side::Client, Cause::HttpRequest, 400).because(what))
}

/// RFC 9113 §8.3.1: `:authority` and `Host` must not differ, whatever form they have.
fn host<'a>(uri: &'a Uri, fields: &'a HeaderMap) -> Result<&'a [u8], Fault> {
    let authority = uri.authority().map(|authority| authority.as_str().as_bytes());
    let mut named = fields.get_all(HOST).iter().map(HeaderValue::as_bytes);
    match (authority, named.next(), named.next()) {
        (_, _, Some(_)) => wrong("there is more than one Host field"),
        (Some(authority), Some(host), None) if !are_equivalent(authority, host, uri) => {
            wrong(":authority and Host differ")
        }
        (Some(host), ..) | (None, Some(host), None) => Ok(host),
        (None, None, None) => wrong("it names no host"),
    }
}

/// Returns true if both are forms of the same host and port, by the port of the request's scheme.
fn are_equivalent(authority: &[u8], host: &[u8], uri: &Uri) -> bool {
    let port = if uri.scheme() == Some(&http::uri::Scheme::HTTP) { 80 } else { 443 };
    match (Host::parse(authority), Host::parse(host)) {
        (Some(authority), Some(host)) => authority.is_equivalent(&host, port),
        // The parser of the text refuses what is no host.
        _ => authority.eq_ignore_ascii_case(host),
    }
}

/// RFC 9113 §8.2.3: crumbs become one field.
fn cookies(text: &mut Vec<u8>, fields: &HeaderMap) {
    let mut separator: &[u8] = b"cookie: ";
    for crumb in fields.get_all(COOKIE) {
        text.extend_from_slice(separator);
        text.extend_from_slice(crumb.as_bytes());
        separator = b"; ";
    }
    if separator == b"; " {
        text.extend_from_slice(b"\r\n");
    }
}

/// Appends one line. The types of the `http` crate hold no line end; what has none of these is checked before.
fn line(text: &mut Vec<u8>, parts: &[&[u8]]) {
    debug_assert!(!parts.concat().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{parts:?}");
    parts.iter().for_each(|part| text.extend_from_slice(part));
    text.extend_from_slice(b"\r\n");
}

/// A response as text. `has_content`: its stream has not ended with its head.
pub(crate) fn response_text(response: &Response<()>, has_content: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(512);
    line(&mut text, &[b"HTTP/1.1 ", response.status().as_str().as_bytes(), b" "]);
    for (name, value) in response.headers() {
        line(&mut text, &[name.as_str().as_bytes(), b": ", value.as_bytes()]);
    }
    if has_content && !response.headers().contains_key(CONTENT_LENGTH) {
        line(&mut text, &[b"transfer-encoding: chunked"]);
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// The same from text that the strict parser accepts.
pub(crate) fn request_of_text(text: &[u8], limits: &HeadLimits, scheme: &str) -> Option<Request<()>> {
    let mut fields = Vec::new();
    // The proxy's own fields come on top of what a client may send, and the operator may have chosen a name with an underscore.
    let limits =
        HeadLimits { head: usize::MAX, fields: usize::MAX, underscores: Underscores::Forward, ..*limits };
    let head = parse_request(text, &mut HeadProgress::default(), &mut fields, &limits).ok()??;
    let path = match head.target {
        Target::Origin(path) => path,
        Target::Asterisk => b"*",
        Target::Absolute { .. } => return None,
    };
    request(&head, path, scheme)
}

/// A request as the `h2` crate sends it.
///
/// **Errors**: the fields or the target have a byte that HTTP/2 does not carry.
fn request(head: &RequestHead<'_>, path: &[u8], scheme: &str) -> Option<Request<()>> {
    let path = http::uri::PathAndQuery::from_maybe_shared(Bytes::copy_from_slice(path)).ok()?;
    let mut request = Request::new(());
    let (uri, version) = if head.host.is_none() {
        // The `h2` crate sends no :authority and :scheme http then, and takes it of a request in HTTP/1 alone (RFC 9113 §8.3.1).
        (Uri::from(path), http::Version::HTTP_11)
    } else {
        let authority = Bytes::copy_from_slice(head.host.text);
        let authority = http::uri::Authority::from_maybe_shared(authority).ok()?;
        let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(path).build().ok()?;
        (uri, http::Version::HTTP_2)
    };
    *request.method_mut() = Method::from_bytes(head.method.as_bytes()).ok()?;
    *request.uri_mut() = uri;
    *request.version_mut() = version;
    *request.headers_mut() =
        fields(head.text, head.fields, |field| !field.name(head.text).eq_ignore_ascii_case(b"host"))?;
    if let Framing::Length(length) = head.framing {
        request.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    if head.accepts_trailers {
        request.headers_mut().insert(http::header::TE, HeaderValue::from_static("trailers"));
    }
    Some(request)
}

/// A response as the `h2` crate sends it; `length`: that of its content, where it is announced.
///
/// **Errors**: as [`request`].
pub(crate) fn response(head: &ResponseHead<'_>, length: Option<u64>) -> Option<Response<()>> {
    let mut response = Response::new(());
    *response.status_mut() = http::StatusCode::from_u16(head.status).ok()?;
    *response.version_mut() = http::Version::HTTP_2;
    *response.headers_mut() = fields(head.text, head.fields, |_| true)?;
    if let Some(length) = length {
        response.headers_mut().insert(CONTENT_LENGTH, length.into());
    }
    Some(response)
}

/// The value of a field. HTTP/2 has no control bytes; RFC 9110 §5.5 has a blank in their place.
fn value(text: &Bytes, field: &Field) -> Option<HeaderValue> {
    let value = field.value(text);
    if value.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t') {
        let replaced = value.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte });
        return HeaderValue::from_bytes(replaced.collect::<Vec<_>>().trim_ascii()).ok();
    }
    HeaderValue::from_maybe_shared(text.slice_ref(value)).ok()
}

/// Fields that are forwarded and that `is_kept` names.
pub(crate) fn fields(text: &[u8], fields: &[Field], is_kept: impl Fn(&Field) -> bool) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(fields.len());
    // One copy for all values.
    let text = Bytes::copy_from_slice(text);
    for field in fields.iter().filter(|field| field.kind().is_forwarded() && is_kept(field)) {
        let name = HeaderName::from_bytes(field.name(&text)).ok()?;
        map.append(name, value(&text, field)?);
    }
    Some(map)
}

/// Passes a trailer section on as text that the strict parser has accepted.
pub(crate) fn with_trailers<T>(
    trailers: &HeaderMap,
    limits: &HeadLimits,
    is_response: bool,
    take: impl FnOnce(&[u8], &[Field]) -> T,
) -> Result<T, Fault> {
    let mut text = b"0\r\n".to_vec();
    for (name, value) in trailers {
        line(&mut text, &[name.as_str().as_bytes(), b": ", value.as_bytes()]);
    }
    text.extend_from_slice(b"\r\n");
    let mut fields = Vec::new();
    match BodyReader::new(Framing::Chunked, limits, is_response).next(&text, &mut fields) {
        Ok(Piece::End { trailers, .. }) => Ok(take(&text[trailers], &fields)),
        Ok(_) => Ok(take(&[], &[])),
        Err(error) => Err(Fault::message(Step::Relay, &error)),
    }
}

#[cfg(test)]
mod tests;
