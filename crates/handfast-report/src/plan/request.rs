//! An HTTP request: method, path, headers, body. The load tester parses the form that users write.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// One kind of HTTP request, and how often it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Its weight among the requests.
    pub weight: u32,
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers beyond those that every request has.
    pub headers: Vec<Header>,
    /// Its body.
    pub body: Option<Body>,
    /// Values of its answer for the requests after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub take: Vec<Take>,
}

/// A value of an answer: later requests on the same connection have it where they have `{NAME}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// Its name.
    pub name: String,
    /// Place of the value in an answer.
    pub from: Source,
}

/// Place of a value in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Source {
    /// In this header, in lower case.
    Header(String),
    /// In the body, which is JSON, at this pointer (RFC 6901).
    Json(String),
}

impl Source {
    /// In words: ``header `x-token` ``.
    pub fn shown(&self) -> String {
        match self {
            Self::Header(name) => format!("header `{name}`"),
            Self::Json(pointer) => format!("JSON value at `{pointer}`"),
        }
    }
}

/// A header of a request.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Its name, in lower case.
    pub name: String,
    /// Its value; `None` in a report, if the name is one of a secret header.
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
        Self {
            weight: 1,
            method: "GET".into(),
            path: "/".into(),
            headers: Vec::new(),
            body: None,
            take: Vec::new(),
        }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = if self.is_secret() { Some("***") } else { self.value.as_deref() };
        f.debug_struct("Header").field("name", &self.name).field("value", &value).finish()
    }
}

impl Header {
    /// Returns true if reports omit its value: decided by its name.
    pub fn is_secret(&self) -> bool {
        is_secret(&self.name)
    }

    /// As it may be shown: `accept: */*`, `cookie: ***`.
    pub fn shown(&self) -> String {
        let value = if self.is_secret() { "***" } else { self.value.as_deref().unwrap_or_default() };
        format!("{}: {value}", self.name)
    }
}

/// Returns true if a header of this name usually carries a secret.
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

impl Body {
    /// As it is written on the command line: the text, or `@` and the file's path.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::File(path) => format!("@{}", path.display()),
        }
    }
}

impl Request {
    /// Its name within a plan: `GET /a?b=c`.
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// Returns true if it is sent with a length: it has a body, or a method that usually has one (RFC 9110 §8.6).
    pub fn sends_length(&self) -> bool {
        self.body.is_some() || self.has_usually_a_body()
    }

    /// Returns true if requests with this method usually have a body.
    pub fn has_usually_a_body(&self) -> bool {
        matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
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
    pub fn without_secrets(mut self) -> Self {
        for header in self.headers.iter_mut().filter(|header| header.is_secret()) {
            header.value = None;
        }
        self
    }
}
