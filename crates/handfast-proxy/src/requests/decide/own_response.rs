//! Responses of our own: errors and redirects.
//!
//! In: a status, and the request. Out: HTTP/1 text. A client learns the status and the request id; the cause is in the operator's log.

use std::borrow::Cow;

use handfast_config::model::FixedResponse;
use http::StatusCode;
use serde_json::json;

use handfast_http::http1::{Framing, HeadEnd, ResponseHead, end_head, push_field};

use crate::files::ErrorPage;
use crate::requests::decide::request::Request;

/// A response of our own.
#[derive(Debug)]
pub(crate) struct OwnResponse {
    pub(crate) status: u16,
    /// The target of a redirect.
    location: Option<Vec<u8>>,
    /// Other fields.
    others: Vec<(Cow<'static, str>, Vec<u8>)>,
    content_type: Cow<'static, str>,
    pub(crate) content: Vec<u8>,
    /// It takes the place of an error that the backend sent.
    pub(crate) is_of_backend: bool,
}

/// Fields of an error that a backend sent, beside a page in its place.
const KEPT_OF_BACKENDS: [&str; 4] = ["WWW-Authenticate", "Proxy-Authenticate", "Retry-After", "Allow"];

impl OwnResponse {
    /// Without content.
    fn new(status: u16, content_type: Cow<'static, str>) -> Self {
        Self {
            status,
            location: None,
            others: Vec::new(),
            content_type,
            content: Vec::new(),
            is_of_backend: false,
        }
    }

    /// An error; `request` is known once its head was accepted.
    pub(crate) fn error(status: u16, request: Option<&Request>) -> Self {
        let id = request.map(|request| request.record.id());
        let title = reason(status);
        if let Some(page) = request.and_then(|request| request.error_page(status)) {
            return Self::page(status, page);
        }
        let (content_type, content) = if request.is_some_and(|request| request.prefers_json) {
            // RFC 9457.
            let problem = json!({ "status": status, "title": title, "request_id": id });
            ("application/problem+json", format!("{problem}\n"))
        } else {
            let id = id.map(|id| format!("request id: {id}\n")).unwrap_or_default();
            ("text/plain; charset=utf-8", format!("{status} {title}\n{id}"))
        };
        let content = content.into_bytes();
        Self { content, ..Self::new(status, content_type.into()) }
    }

    /// A page in the place of an error.
    fn page(status: u16, page: &ErrorPage) -> Self {
        let content_type = page.content_type.clone().into_string().into();
        Self { content: page.content.as_bytes().to_vec(), ..Self::new(status, content_type) }
    }

    /// A page in the place of an error that the backend sent, with the fields that a client acts by; `None`: the client gets that.
    pub(crate) fn for_backend(head: &ResponseHead<'_>, request: &Request) -> Option<Self> {
        let page = request.page_for_backend(head.status)?;
        let values = |name: &'static str| head.values(name).map(move |value| (name.into(), value.to_vec()));
        let others = KEPT_OF_BACKENDS.into_iter().flat_map(values).collect();
        Some(Self { others, is_of_backend: true, ..Self::page(head.status, page) })
    }

    /// A response that the configuration has. One without content has the page for its status.
    pub(crate) fn fixed(response: &FixedResponse, request: &Request) -> Self {
        let FixedResponse { status, content, content_type } = response;
        if let Some(page) = request.error_page(*status).filter(|_| content.is_empty()) {
            return Self::page(*status, page);
        }
        let content_type = content_type.clone().into_string().into();
        Self { content: content.as_bytes().to_vec(), ..Self::new(*status, content_type) }
    }

    pub(crate) fn redirect(status: u16, location: Vec<u8>) -> Self {
        let content = format!("{status} {}\n", reason(status)).into_bytes();
        let content_type = "text/plain; charset=utf-8".into();
        Self { location: Some(location), content, ..Self::new(status, content_type) }
    }

    /// The file of a challenge (RFC 8555 §8.3).
    pub(crate) fn file(content: &str) -> Self {
        let content_type = "application/octet-stream".into();
        Self { content: content.as_bytes().to_vec(), ..Self::new(200, content_type) }
    }

    /// That of a server which was asked about the request.
    pub(crate) fn passed(status: u16, fields: Vec<(Cow<'static, str>, Vec<u8>)>, content: Vec<u8>) -> Self {
        let is = |name: &str, own: &str| name.eq_ignore_ascii_case(own);
        let (own, others): (Vec<_>, _) =
            fields.into_iter().partition(|(name, _)| is(name, "content-type") || is(name, "cache-control"));
        let found = own.into_iter().find(|(name, _)| is(name, "content-type"));
        let content_type = found.map(|(_, value)| String::from_utf8_lossy(&value).into_owned());
        let content_type = content_type.map_or("application/octet-stream".into(), Cow::Owned);
        Self { others, content, ..Self::new(status, content_type) }
    }

    /// With these fields too.
    pub(crate) fn with(self, others: Vec<(Cow<'static, str>, Vec<u8>)>) -> Self {
        Self { others, ..self }
    }

    /// Its fields, beside those of the framing, and those that the rules of its request's route add; they replace none.
    pub(crate) fn fields<'a>(
        &'a self,
        request: Option<&'a Request>,
    ) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        const OWN: [&str; 3] = ["content-type", "cache-control", "location"];
        let content_type = ("Content-Type", self.content_type.as_bytes());
        let location = self.location.iter().map(|location| ("Location", location.as_slice()));
        let others = self.others.iter().map(|(name, value)| (name.as_ref(), value.as_slice()));
        let rules = request.and_then(|request| request.response_fields.as_deref());
        let has = |name: &str| self.others.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let added = rules.into_iter().flat_map(move |rules| rules.added(has));
        let added = added.filter(|(name, _)| !OWN.iter().any(|own| name.eq_ignore_ascii_case(own)));
        // A cache must not take it for the backend's.
        [content_type, ("Cache-Control", b"no-store".as_slice())]
            .into_iter()
            .chain(location)
            .chain(others)
            .chain(added)
    }

    /// Writes it. `is_head`: its content is announced and not sent.
    pub(crate) fn write(&self, out: &mut Vec<u8>, close: bool, is_head: bool, request: Option<&Request>) {
        out.extend_from_slice(format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status)).as_bytes());
        for (name, value) in self.fields(request) {
            // Values come from a head that was accepted, or are ours.
            let is_written = push_field(out, name, value);
            debug_assert!(is_written, "{name}");
        }
        end_head(out, &HeadEnd { close, ..HeadEnd::new(Framing::Length(self.content.len() as u64)) });
        if !is_head {
            out.extend_from_slice(&self.content);
        }
    }
}

/// RFC 9110 §15.
fn reason(status: u16) -> &'static str {
    StatusCode::from_u16(status).ok().and_then(|status| status.canonical_reason()).unwrap_or("Error")
}

#[cfg(test)]
mod tests;
