//! What an HTTP request is: method, path, headers, body; and how it is written by people.
//!
//! In: text as it is typed, or a file of it. Out: [`Request`]s, or what is wrong and what was expected. Nothing is opened.

use std::fmt;
use std::path::PathBuf;

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

/// Most requests in one plan: each has a histogram for each second.
pub const MOST_REQUESTS: usize = 100;
/// Most headers of one request; servers take about as many.
const MOST_HEADERS: usize = 100;

/// One kind of HTTP request, and how often it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// How often, against the weights of the others.
    pub weight: u32,
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers beyond those that every request has.
    pub headers: Vec<Header>,
    /// What is sent in it.
    pub body: Option<Body>,
}

/// A header of a request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Its name, in lower case.
    pub name: String,
    /// Its value; `None` in a report that was kept, when the name is one of those that carry secrets.
    pub value: Option<String>,
}

/// The body of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Body {
    /// This text.
    Text(String),
    /// The bytes of a file on the worker's machine.
    File(PathBuf),
}

impl Default for Request {
    fn default() -> Self {
        Self { weight: 1, method: "GET".into(), path: "/".into(), headers: Vec::new(), body: None }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.is_secret() { Some("***") } else { self.value.as_deref() };
        f.debug_struct("Header").field("name", &self.name).field("value", &value).finish()
    }
}

impl Header {
    /// Reads `Name: value`.
    ///
    /// **Errors**: what is wrong with it, and what was expected; never its value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) =
            text.split_once(':').ok_or("there is no colon in it, expected `Name: value`".to_owned())?;
        let (name, value) = (name.trim_ascii_end(), value.trim_ascii());
        let known = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| format!("`{name}` is no header's name, expected letters, digits and - alone"))?;
        if let Some(why) = refused(known.as_str()) {
            return Err(format!("`{known}` cannot be set: {why}"));
        }
        HeaderValue::from_str(value)
            .ok()
            .filter(|value| value.to_str().is_ok())
            .ok_or_else(|| format!("the value of `{known}` has characters that a header cannot have"))?;
        Ok(Self { name: known.as_str().to_owned(), value: Some(value.to_owned()) })
    }

    /// Whether its value is kept out of reports: by its name.
    pub fn is_secret(&self) -> bool {
        is_secret(&self.name)
    }
}

/// Whether a header of this name commonly carries something that only its owner may know.
pub fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 10] = [
        "auth",
        "cookie",
        "token",
        "secret",
        "password",
        "passwd",
        "api-key",
        "apikey",
        "session",
        "credential",
    ];
    let name = name.to_ascii_lowercase().replace('_', "-");
    WORDS.iter().any(|word| name.contains(word))
}

/// Why a header cannot be chosen; `None`: it can.
fn refused(name: &str) -> Option<&'static str> {
    Some(match name {
        "content-length" => "it is counted from the body (RFC 9112 §6.2)",
        "transfer-encoding" => {
            "the body's length is known, so it is sent with Content-Length (RFC 9112 §6.1)"
        }
        "connection" | "keep-alive" | "proxy-connection" => {
            "how long a connection lives is said with --exchanges and --close (RFC 9110 §7.6.1)"
        }
        "upgrade" | "http2-settings" => "another protocol is not spoken (RFC 9110 §7.8)",
        "te" | "trailer" => "no trailers are sent or waited for (RFC 9110 §6.5)",
        "expect" => "the body is sent at once, without waiting for 100 (RFC 9110 §10.1.1)",
        _ => return None,
    })
}

/// Reads a method.
///
/// **Errors**: what is wrong with it.
pub fn method(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is no method, expected one such as GET, POST, PUT or DELETE");
    Method::from_bytes(text.as_bytes()).map_err(|_| wrong())?;
    match text {
        "CONNECT" => Err("CONNECT asks a proxy for a tunnel, which is not supported".into()),
        // RFC 9110 §9.1: methods have upper and lower case, and all that are registered are in capitals.
        _ if text.bytes().any(|byte| byte.is_ascii_lowercase()) => {
            Err(format!("`{text}`: methods are in capital letters, expected {}", text.to_ascii_uppercase()))
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
pub fn path(text: &str) -> Result<String, String> {
    let text = text.split('#').next().unwrap_or_default();
    if !text.starts_with('/') {
        return Err(format!("`{text}` is no path, expected one that begins with /"));
    }
    if text.bytes().any(|byte| byte <= b' ' || byte >= 0x7f) {
        return Err(format!("`{text}` has spaces or letters beyond ASCII, expected them as %XX"));
    }
    Ok(text.to_owned())
}

impl Request {
    /// What tells it from the others of a plan: `GET /a?b=c`.
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Whether it is sent with a length although it has no body: RFC 9110 §8.6 wants that of methods that usually have one.
    pub(crate) fn says_its_length(&self) -> bool {
        self.body.is_some() || self.has_usually_a_body()
    }

    fn has_usually_a_body(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    /// Reads `[WEIGHT] [METHOD] PATH`; what is not said comes from `base`, but its body not to a method that usually has
    /// none. A URL instead of the path must be of `authority`.
    ///
    /// **Errors**: what is wrong with it.
    pub fn parse(line: &str, base: &Self, authority: &str) -> Result<Self, String> {
        let mut words: Vec<&str> = line.split_ascii_whitespace().collect();
        let mut request = base.clone();
        let last = words.pop().ok_or("empty, expected `[WEIGHT] [METHOD] PATH`".to_owned())?;
        request.path = path(path_of(last, authority)?)?;
        let mut words = words.into_iter().peekable();
        if let Some(weight) = words.peek().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
            let read = weight.parse::<u32>().ok().filter(|weight| (1..=1_000_000).contains(weight));
            request.weight = read.ok_or_else(|| format!("`{weight}` is no weight, expected 1 to 1000000"))?;
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
            Some(word) => Err(format!("`{word}` is too much, expected `[WEIGHT] [METHOD] PATH`")),
            None => Ok(request),
        }
    }

    /// Reads a file of requests: a line for each as [`Request::parse`] has it, then its own headers, `Name: value`, and its
    /// body, `@FILE`, a line for each. Empty lines and lines that begin with `#` mean nothing. The target files of vegeta
    /// are such files.
    ///
    /// **Errors**: each line that is wrong, with its number.
    pub fn parse_file(text: &str, base: &Self, authority: &str) -> Result<Vec<Self>, Vec<String>> {
        let (mut requests, mut wrong) = (Vec::<Self>::new(), Vec::new());
        // Headers of a line that is wrong belong to no request.
        let mut lost = false;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_ascii();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let more = more(line);
            let outcome = match (requests.last_mut().filter(|_| !lost), more) {
                (Some(request), true) => request.take(line),
                (None, true) if lost => Ok(()),
                (None, true) => {
                    Err("it belongs to no request, expected `[WEIGHT] [METHOD] PATH` first".into())
                }
                (_, false) => Self::parse(line, base, authority).map(|request| requests.push(request)),
            };
            if !more {
                lost = outcome.is_err();
            }
            wrong.extend(outcome.err().map(|what| format!("line {number}: {what}")));
        }
        if requests.is_empty() && wrong.is_empty() {
            wrong.push("there is no request in it, expected lines of `[WEIGHT] [METHOD] PATH`".into());
        }
        if wrong.is_empty() { Ok(requests) } else { Err(wrong) }
    }

    /// Takes a line that belongs to it.
    fn take(&mut self, line: &str) -> Result<(), String> {
        if line.starts_with('@') {
            self.body = Some(body(line));
        } else {
            self.set(Header::parse(line)?);
        }
        Ok(())
    }

    /// Adds a header, or changes it if it is there.
    pub fn set(&mut self, header: Header) {
        match self.headers.iter_mut().find(|known| known.name == header.name) {
            Some(known) => *known = header,
            None => self.headers.push(header),
        }
    }

    /// Itself, without the values of headers that carry secrets.
    #[must_use]
    pub(crate) fn without_secrets(mut self) -> Self {
        for header in self.headers.iter_mut().filter(|header| header.is_secret()) {
            header.value = None;
        }
        self
    }

    /// What makes no sense in it; its path first.
    pub(crate) fn mistakes(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        wrong.extend(method(&self.method).err());
        wrong.extend(path(&self.path).err());
        if self.headers.len() > MOST_HEADERS {
            wrong.push(format!("{} headers, expected at most {MOST_HEADERS}", self.headers.len()));
        }
        for header in &self.headers {
            match &header.value {
                Some(value) => wrong.extend(Header::parse(&format!("{}: {value}", header.name)).err()),
                None => wrong.push(format!("the value of `{}` was not kept in the report", header.name)),
            }
        }
        if self.weight == 0 {
            wrong.push("a weight of 0, expected at least 1".into());
        }
        wrong
    }
}

/// Whether a line of a file says more of the request before it.
fn more(line: &str) -> bool {
    let first = line.split_ascii_whitespace().next().unwrap_or_default();
    line.starts_with('@') || (first.contains(':') && !is_url(first))
}

fn is_url(text: &str) -> bool {
    text.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
        || text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("http://"))
}

/// The path of a URL, which must be of the target; or what is a path already.
fn path_of<'a>(text: &'a str, authority: &str) -> Result<&'a str, String> {
    if !is_url(text) {
        return Ok(text);
    }
    let Some((_, rest)) = text.split_once("://") else { return Ok(text) };
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let plain = |host: &str| host.to_ascii_lowercase().trim_end_matches(":443").to_owned();
    if plain(host) != plain(authority) || !text.to_ascii_lowercase().starts_with("https") {
        return Err(format!(
            "`{text}` is not on https://{authority}: one run has one target; start a run for each"
        ));
    }
    Ok(if path.is_empty() { "/" } else { path })
}

#[cfg(test)]
mod tests;
