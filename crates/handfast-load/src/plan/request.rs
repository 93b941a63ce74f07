//! HTTP requests as people write them.
//!
//! In: text as it is typed, or a file of it. Out: [`Request`]s, or what is wrong and what was expected. Nothing is opened.

use handfast_http::http1::is_token;

use super::error::{FileError, PlanError};
use super::limits::{LINE, MAX_HEADERS};
use super::{Body, Header, Request};

/// Most requests in one plan: each has a histogram for each second.
pub const MAX_REQUESTS: usize = 100;

/// Reads `Name: value`.
///
/// **Errors**: what is wrong with it, and what was expected; never its value.
pub fn header(text: &str) -> Result<Header, PlanError> {
    let (name, value) = text.split_once(':').ok_or(PlanError::HeaderWithoutColon)?;
    let (name, value) = (name.trim_ascii_end(), value.trim_ascii());
    if !is_token(name.as_bytes()) {
        return Err(PlanError::HeaderName(name.to_owned()));
    }
    let known = name.to_ascii_lowercase();
    if let Some(why) = refused(&known) {
        return Err(PlanError::HeaderRefused { name: known, why });
    }
    // RFC 9110 §5.5.
    if value.bytes().any(|byte| byte != b'\t' && !(b' '..=b'~').contains(&byte)) {
        return Err(PlanError::HeaderValue(known));
    }
    Ok(Header { name: known, value: Some(value.to_owned()) })
}

/// Returns the reason why a header cannot be chosen; `None`: it can.
fn refused(name: &str) -> Option<&'static str> {
    Some(match name {
        "content-length" => "it is counted from the body (RFC 9112 §6.2)",
        "transfer-encoding" => {
            "the body's length is known, so it is sent with Content-Length (RFC 9112 §6.1)"
        }
        "connection" | "keep-alive" | "proxy-connection" => {
            "set the lifetime of a connection with --exchanges and --close (RFC 9110 §7.6.1)"
        }
        "upgrade" | "http2-settings" => "other protocols are not supported (RFC 9110 §7.8)",
        "te" | "trailer" => "no trailers are sent or waited for (RFC 9110 §6.5)",
        "expect" => "the body is sent at once, without waiting for 100 (RFC 9110 §10.1.1)",
        _ => return None,
    })
}

/// Reads a method.
///
/// **Errors**: what is wrong with it.
pub fn method(text: &str) -> Result<String, PlanError> {
    if !is_token(text.as_bytes()) {
        return Err(PlanError::Method(text.to_owned()));
    }
    match text {
        "CONNECT" => Err(PlanError::Tunnel),
        // RFC 9110 §9.1: methods have upper and lower case, and all that are registered are in capitals.
        _ if text.bytes().any(|byte| byte.is_ascii_lowercase()) => {
            Err(PlanError::MethodInLowerCase(text.to_owned()))
        }
        _ => Ok(text.to_owned()),
    }
}

/// Reads `TEXT` or `@FILE`.
pub fn body(text: &str) -> Body {
    match text.strip_prefix('@') {
        Some(file) => Body::File(file.into()),
        None => Body::Text(text.to_owned()),
    }
}

/// Reads a path with its query.
///
/// **Errors**: what is wrong with it.
fn path(text: &str) -> Result<String, PlanError> {
    let text = text.split('#').next().unwrap_or_default();
    if !text.starts_with('/') {
        return Err(PlanError::Path(text.to_owned()));
    }
    if text.bytes().any(|byte| byte <= b' ' || byte >= 0x7f) {
        return Err(PlanError::PathLetters(text.to_owned()));
    }
    Ok(text.to_owned())
}

/// Reads `[WEIGHT] [METHOD] PATH`; missing parts come from `base`, except its body if the method usually has
/// none. A URL instead of the path must be of `origin`, such as `https://a.example:8443`.
///
/// **Errors**: what is wrong with it.
pub fn parse(line: &str, base: &Request, origin: &str) -> Result<Request, PlanError> {
    let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
    let mut request = base.clone();
    let last = words.pop().ok_or(PlanError::Empty { expected: LINE })?;
    request.path = path(path_of(last, origin)?)?;
    let mut words = words.into_iter().peekable();
    if let Some(weight) = words.peek().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
        request.weight = super::weight::weight(weight)?;
        words.next();
    }
    if let Some(word) = words.next() {
        request.method = method(word)?;
        // RFC 9110 §9.3.1: in a GET it would mean nothing, and a server may take it for an attack.
        if !request.has_usually_a_body() {
            request.body = None;
        }
    }
    match words.next() {
        Some(word) => Err(PlanError::TooMuch { word: word.to_owned(), expected: LINE }),
        None => Ok(request),
    }
}

/// Reads a file of requests: a line for each as [`parse`] has it, then its own headers, `Name: value`, and its body,
/// `@FILE`, a line for each. Empty lines and lines that begin with `#` mean nothing. The target files of vegeta are such
/// files.
///
/// **Errors**: each line that is wrong, with its number.
pub fn parse_file(text: &str, base: &Request, origin: &str) -> Result<Vec<Request>, Vec<FileError>> {
    let (mut requests, mut wrong) = (Vec::<Request>::new(), Vec::new());
    // Headers of a line that is wrong belong to no request.
    let mut lost = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_ascii();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let more = more(line);
        let outcome = match (requests.last_mut().filter(|_| !lost), more) {
            (Some(request), true) => take(request, line),
            (None, true) if lost => Ok(()),
            (None, true) => Err(PlanError::BelongsToNoRequest),
            (_, false) => parse(line, base, origin).map(|request| requests.push(request)),
        };
        if !more {
            lost = outcome.is_err();
        }
        wrong.extend(outcome.err().map(|mistake| FileError::at_line(number, mistake)));
    }
    if requests.is_empty() && wrong.is_empty() {
        let mistake = PlanError::NothingInFile { entry: "request", expected: "of `[WEIGHT] [METHOD] PATH`" };
        wrong.push(mistake.into());
    }
    if wrong.is_empty() { Ok(requests) } else { Err(wrong) }
}

/// Adds a line of a file to its request.
fn take(request: &mut Request, line: &str) -> Result<(), PlanError> {
    if line.starts_with('@') {
        request.body = Some(body(line));
    } else {
        request.set(header(line)?);
    }
    Ok(())
}

/// Mistakes in a request; those in its path first.
pub(crate) fn mistakes(request: &Request) -> Vec<PlanError> {
    let mut wrong = Vec::new();
    wrong.extend(method(&request.method).err());
    wrong.extend(path(&request.path).err());
    if request.headers.len() > MAX_HEADERS {
        wrong.push(PlanError::TooManyHeaders(request.headers.len()));
    }
    for known in &request.headers {
        match &known.value {
            Some(value) => wrong.extend(header(&format!("{}: {value}", known.name)).err()),
            None => wrong.push(PlanError::HeaderNotKept(known.name.clone())),
        }
    }
    if request.weight == 0 {
        wrong.push(PlanError::NoWeight);
    }
    wrong
}

/// Returns true if a line of a file belongs to the request before it.
fn more(line: &str) -> bool {
    let first = line.split_ascii_whitespace().next().unwrap_or_default();
    line.starts_with('@') || (first.contains(':') && !is_url(first))
}

fn is_url(text: &str) -> bool {
    text.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
        || text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://"))
}

/// An origin in small letters, without the scheme's own port.
fn normal(origin: &str) -> String {
    let origin = origin.to_ascii_lowercase();
    let port = if origin.starts_with("https:") { ":443" } else { ":80" };
    origin.strip_suffix(port).unwrap_or(&origin).to_owned()
}

/// The path of a URL, which must be of the target; or what is a path already.
fn path_of<'a>(text: &'a str, origin: &str) -> Result<&'a str, PlanError> {
    let Some((scheme, rest)) = text.split_once("://").filter(|_| is_url(text)) else { return Ok(text) };
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if normal(&format!("{scheme}://{host}")) != normal(origin) {
        return Err(PlanError::OtherTarget { url: text.to_owned(), origin: origin.to_owned() });
    }
    Ok(if path.is_empty() { "/" } else { path })
}

#[cfg(test)]
mod tests;
