//! The subject of `handfast check --explain`: a name, or the URL of a request.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use crate::scalar::sni_name;

/// A client's name to explain, or its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainTarget {
    /// The host, in lower case and without a port; an IPv6 address in its brackets.
    pub host: String,
    /// The rest of the URL, if it is one.
    pub request: Option<ExplainRequest>,
}

/// Parts of a URL beside its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainRequest {
    /// The method, if one is written before the URL: GET otherwise.
    pub method: Option<String>,
    /// True if it begins with `https://`, false with `http://`.
    pub is_https: bool,
    /// The port, if one is written.
    pub port: Option<u16>,
    /// The path and the query.
    pub path: String,
}

impl ExplainTarget {
    /// The name that a client asks for in its hello (SNI); `None` for an address (RFC 6066 §3).
    pub fn server_name(&self) -> Option<&str> {
        let is_address = self.host.starts_with('[') || self.host.parse::<IpAddr>().is_ok();
        (!is_address).then_some(self.host.as_str())
    }
}

impl fmt::Display for ExplainTarget {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(ExplainRequest { method, is_https, port, path }) = &self.request else {
            return to.write_str(&self.host);
        };
        if let Some(method) = method {
            write!(to, "{method} ")?;
        }
        let scheme = if *is_https { "https" } else { "http" };
        let port = port.map(|port| format!(":{port}")).unwrap_or_default();
        write!(to, "{scheme}://{}{port}{path}", self.host)
    }
}

/// Reason why a text is no request that can be explained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExplainTargetError {
    /// It is neither a name nor a URL.
    #[error("expected a host name, such as www.example.org, or a URL, such as https://www.example.org/path")]
    Form,
    /// The word before the URL is no method, or there is no URL behind it.
    #[error("expected a method in capitals, a space and a URL, such as `POST https://www.example.org/path`")]
    Method,
    /// The path has characters that no client sends.
    #[error("expected a URL as clients send it: write %20 for a space")]
    Path,
}

impl FromStr for ExplainTarget {
    type Err = ExplainTargetError;

    fn from_str(text: &str) -> Result<Self, ExplainTargetError> {
        let (method, text) = match text.split_once(' ') {
            Some((method, url)) => (Some(method.to_owned()), url),
            None => (None, text),
        };
        let is_method =
            |method: &String| method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
        if !method.as_ref().is_none_or(is_method) || (method.is_some() && !text.contains("://")) {
            return Err(ExplainTargetError::Method);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            let host = sni_name(text).ok_or(ExplainTargetError::Form)?;
            return Ok(Self { host, request: None });
        };
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(ExplainTargetError::Form),
        };
        // A fragment is never sent.
        let rest = rest.split_once('#').map_or(rest, |(sent, _)| sent);
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(ExplainTargetError::Path);
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = host_and_port(authority).ok_or(ExplainTargetError::Form)?;
        Ok(Self { host, request: Some(ExplainRequest { method, is_https, port, path }) })
    }
}

fn host_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    let end = match authority.starts_with('[') {
        true => authority.find(']')? + 1,
        false => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let port = match port {
        "" => None,
        port => Some(port.strip_prefix(':')?.parse().ok()?),
    };
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host = match (inner, host.parse::<IpAddr>()) {
        (Some(inner), _) => format!("[{}]", inner.parse::<Ipv6Addr>().ok()?),
        (None, Ok(address)) => address.to_string(),
        (None, Err(_)) => sni_name(host)?,
    };
    Some((host, port))
}
