//! Keys of objects, and requests that never touch the cache.
//!
//! In: a request. Out: a [`Key`]. The key has the scheme, the host, the port if it is not the default one, and the path with its query as sent:
//! nothing is decoded or sorted, because two backends may read two spellings differently. An identity separates clients whose
//! certificates the route uses.
//!
//! A field that changes a response but not its key lets one client choose what others receive. Handling of each class:
//!
//! | what a client could use | what happens |
//! |---|---|
//! | `Forwarded`, `X-Forwarded-…` except `-For` | the request bypasses the cache, unless the policy says that the proxy writes them or that they are in the key |
//! | `X-Host`, `X-HTTP-Host-Override`, `X-Forwarded`, `X-URL-Scheme`, `Front-End-Https` | bypass: they replace the host or the scheme |
//! | `X-Original-URL`, `X-Original-URI`, `X-Rewrite-URL`, `X-Original-Host` | bypass: they replace the path that is in the key |
//! | `X-Forwarded-For`, `X-Real-IP` | nothing: a backend whose content depends on the address must not be cached |
//! | `X-HTTP-Method-Override`, `X-HTTP-Method`, `X-Method-Override` | bypass: the response is that of another method |
//! | a GET with content ("fat GET") | bypass: never answered from the cache, never stored |
//! | absolute form of the target | its authority is that of `Host`, else the parser refuses it; the key is the same |
//! | case of the host, its default port | normalised in the key; any other port is part of it |
//! | several `Host` fields, several lengths, odd line ends, control bytes | the parser of `handfast-wire` refuses them before |
//! | field names with `_` | the parser drops or refuses them, unless the route forwards them |
//! | `Range` | a partial response is never stored; ranges are cut from complete objects |
//! | `If-…` conditions of a client | a 304 or 412 is never stored |
//! | `Accept-Encoding`, `Accept-Language`, `Origin`, `Cookie` | part of the selection where `Vary` names them; a backend that varies without `Vary` must be configured not to be cached |
//! | `Authorization` | RFC 9111 §3.5: not stored unless the response permits it |
//! | oversized or malformed fields that make the backend refuse (400, 413, 414, 431) | 413, 431 and others that are about one request are never stored; 400 and 414 only with explicit freshness |
//! | `Upgrade`, `Expect`, `TE` | end at the proxy, or the request bypasses the cache (`Upgrade`) |
//! | userinfo in the target | the parser refuses it |
//! | a fragment in the target | part of the key, as it is sent |

use std::sync::Arc;

use handfast_http::http1::{Framing, Kind, RequestHead, Target};

/// The key of an object: URL and perhaps an identity.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The URL, then, if there is an identity, a blank and the identity. No URL has a blank.
    text: Arc<[u8]>,
}

impl Key {
    /// The key of a request; `None` where there is none (`OPTIONS *`).
    ///
    /// `scheme` is that of the client's connection, `https` or `http`. `identity` is the fingerprint of the client's certificate where the
    /// route uses it; it must not contain a blank.
    pub fn of(scheme: &str, request: &RequestHead<'_>, identity: Option<&str>) -> Option<Self> {
        let path = match request.target {
            Target::Origin(path) | Target::Absolute { path, .. } => path,
            Target::Asterisk => return None,
        };
        Some(Self::new(scheme, request.host.name, request.host.port, path, identity))
    }

    /// The key of a URL such as `https://host/path?query`, for a purge; `None` if this is no such URL.
    pub fn of_url(url: &str, identity: Option<&str>) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        if !matches!(scheme, "http" | "https") || url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let (host, port) = split_port(authority)?;
        Some(Self::new(scheme, host.as_bytes(), port, path.as_bytes(), identity))
    }

    fn new(scheme: &str, host: &[u8], port: Option<u16>, path: &[u8], identity: Option<&str>) -> Self {
        let default_port = if scheme == "https" { 443 } else { 80 };
        let mut text = Vec::with_capacity(scheme.len() + host.len() + path.len() + 12);
        text.extend_from_slice(scheme.as_bytes());
        text.extend_from_slice(b"://");
        text.extend(host.to_ascii_lowercase());
        if let Some(port) = port.filter(|port| *port != default_port) {
            text.extend(format!(":{port}").bytes());
        }
        if path.first() != Some(&b'/') {
            text.push(b'/');
        }
        text.extend_from_slice(path);
        if let Some(identity) = identity {
            text.push(b' ');
            text.extend(identity.bytes().filter(|byte| *byte != b' '));
        }
        Self { text: text.into() }
    }

    /// The URL, without the identity.
    pub fn url(&self) -> &[u8] {
        self.text.split(|byte| *byte == b' ').next().unwrap_or(&self.text)
    }

    /// URL and identity, as they are stored.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// A key that was stored.
    pub(crate) fn from_text(text: &[u8]) -> Self {
        Self { text: text.into() }
    }

    /// The key of the content of an object in a coding; `number`: that of its files. No other key has two blanks.
    pub(crate) fn coded(&self, coding: &str, number: u64) -> Self {
        Self { text: [&*self.text, format!(" {coding} {number:016x}").as_bytes()].concat().into() }
    }

    /// The key of a reference in a response, if it has the same origin (RFC 9111 §4.4); the identity stays.
    pub(crate) fn same_origin(&self, reference: &[u8]) -> Option<Self> {
        let url = self.url();
        let (scheme, rest) = str::from_utf8(url).ok()?.split_once("://")?;
        let authority = &rest[..rest.find('/')?];
        let reference = str::from_utf8(reference).ok()?;
        let identity = self.text.get(url.len() + 1..).and_then(|text| str::from_utf8(text).ok());
        let absolute = if reference.contains("://") {
            reference.to_owned()
        } else if reference.starts_with("//") {
            format!("{scheme}:{reference}")
        } else if reference.starts_with('/') {
            format!("{scheme}://{authority}{reference}")
        } else {
            let path = rest[authority.len()..].split('?').next()?;
            format!("{scheme}://{authority}{}{reference}", &path[..=path.rfind('/')?])
        };
        let key = Self::of_url(&absolute, identity)?;
        let origin = format!("{scheme}://{authority}/");
        key.url().starts_with(origin.as_bytes()).then_some(key)
    }
}

fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let name_end = if authority.starts_with('[') {
        authority.find(']')? + 1
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (name, port) = authority.split_at(name_end);
    let port = match port.strip_prefix(':') {
        Some(port) => Some(port.parse().ok()?),
        None if port.is_empty() => None,
        None => return None,
    };
    (!name.is_empty()).then_some((name, port))
}

/// Fields that replace the host, the scheme, the path or the method. No proxy writes them for each request.
const REPLACING: [&str; 12] = [
    "front-end-https",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-original-host",
    "x-original-uri",
    "x-original-url",
    "x-rewrite-url",
    "x-url-scheme",
];

/// The fields of proxies that can change a response, with their values: all of [`Kind::Forwarding`] but those about the client's address, which
/// backends log.
pub fn forwarding<'h>(request: &RequestHead<'h>) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
    let RequestHead { text, fields, .. } = *request;
    let is_address = |name: &[u8]| ["x-forwarded-for", "x-real-ip"].iter().any(|known| is(name, known));
    let of_proxies = fields.iter().filter(|field| field.kind() == Kind::Forwarding);
    of_proxies
        .map(move |field| (field.name(text), field.value(text)))
        .filter(move |(name, _)| !is_address(name))
}

/// Returns true if a field of this request could change the response but is not in the key.
pub(crate) fn has_unkeyed_field(request: &RequestHead<'_>, trusts_forwarding: bool) -> bool {
    let replaces = |name: &[u8]| REPLACING.iter().any(|known| is(name, known));
    !trusts_forwarding && forwarding(request).next().is_some()
        || request.fields.iter().any(|field| replaces(field.name(request.text)))
}

fn is(name: &[u8], known: &str) -> bool {
    name.eq_ignore_ascii_case(known.as_bytes())
}

/// Returns true if the request has content.
pub(crate) fn has_content(request: &RequestHead<'_>) -> bool {
    !matches!(request.framing, Framing::None | Framing::Length(0))
}
