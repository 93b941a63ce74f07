//! The head of a request that owns its bytes, for what outlives the buffer that received it.
//!
//! In: an accepted head, or one that the proxy wrote. Out: the same [`RequestHead`] at any time, without a second parse.

use super::Version;
use super::error::HeadError;
use super::field::{Field, Kind};
use super::framing::Framing;
use super::head::HeadProgress;
use super::host::Host;
use super::limits::HeadLimits;
use super::request::{Method, RequestHead, Target, parse_request};
use super::write::WrittenHead;

/// Positions in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    /// Returns the positions of a part of the text; `None`: it is no part of it.
    fn of(text: &[u8], part: &[u8]) -> Option<Self> {
        let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        let end = start.checked_add(part.len()).filter(|end| *end <= text.len())?;
        Some(Self { start: u32::try_from(start).ok()?, end: u32::try_from(end).ok()? })
    }

    pub(crate) fn get(self, text: &[u8]) -> &[u8] {
        text.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// The head of a request with its text and the index of its fields. Its target is in the form in which it is forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    text: Vec<u8>,
    /// Bytes of the head; a target that had to be completed is behind it.
    length: usize,
    fields: Vec<Field>,
    method: Span,
    /// `None`: the server itself (`*`).
    target: Option<Span>,
    version: Version,
    host: Span,
    framing: Framing,
    keeps_open: bool,
    expects_continue: bool,
    accepts_trailers: bool,
    upgrade: Option<Span>,
}

impl OwnedRequest {
    /// Copies a head. **Cost**: two allocations.
    pub fn new(head: &RequestHead<'_>) -> Self {
        Self { fields: head.fields.to_vec(), ..Self::without_fields(head) }
    }

    fn without_fields(head: &RequestHead<'_>) -> Self {
        let mut text = head.text.to_vec();
        let span = |part: &[u8]| Span::of(head.text, part).unwrap_or_default();
        let mut completed = Vec::new();
        let target = match head.with_forwarded_target(&mut completed).target {
            Target::Asterisk => None,
            Target::Origin(path) | Target::Absolute { path, .. } => {
                Some(Span::of(head.text, path).unwrap_or_else(|| append(&mut text, path)))
            }
        };
        Self {
            length: head.text.len(),
            fields: Vec::new(),
            method: span(head.method.as_bytes()),
            target,
            version: head.version,
            host: span(head.host.text),
            framing: head.framing,
            keeps_open: head.keeps_open,
            expects_continue: head.expects_continue,
            accepts_trailers: head.accepts_trailers,
            upgrade: head.upgrade.map(span),
            text,
        }
    }

    /// Makes a head of what was written for `original`: request line, fields, and the [end for a backend](super::HeadEnd::for_backend).
    pub fn written(head: WrittenHead, original: &RequestHead<'_>) -> Self {
        let WrittenHead { mut text, fields } = head;
        let length = text.len();
        let of_length =
            |start: usize, length: usize| Span { start: start as u32, end: (start + length) as u32 };
        let method = of_length(0, original.method.as_bytes().len());
        let rest = text.get(method.end as usize + 1..).unwrap_or_default();
        let target = rest.iter().position(|byte| *byte == b' ').unwrap_or_default();
        let is_server = rest.starts_with(b"* ");
        let host = fields.iter().find(|field| field.kind() == Kind::Host);
        Self {
            length,
            method,
            target: (!is_server).then(|| of_length(method.end as usize + 1, target)),
            version: if host.is_some() { Version::Http11 } else { Version::Http10 },
            host: host
                .map_or_else(Span::default, |host| Span { start: host.value_start, end: host.value_end }),
            framing: original.framing,
            keeps_open: host.is_some(),
            expects_continue: original.expects_continue,
            accepts_trailers: original.accepts_trailers,
            upgrade: original.upgrade.map(|protocols| append(&mut text, protocols)),
            text,
            fields,
        }
    }

    /// Reads a head that the proxy wrote. **Errors**: it is not one. **Cost**: one parse and two allocations.
    pub fn of_written(text: &[u8]) -> Result<Option<Self>, HeadError> {
        let mut fields = Vec::with_capacity(32);
        let head = parse_request(text, &mut HeadProgress::default(), &mut fields, &HeadLimits::UNLIMITED)?;
        let owned = head.map(|head| Self::without_fields(&head));
        Ok(owned.map(|owned| Self { fields, ..owned }))
    }

    /// Returns the text of the head.
    pub fn text(&self) -> &[u8] {
        &self.text[..self.length]
    }

    /// Returns the head, as it was accepted but for the form of its target.
    pub fn head(&self) -> RequestHead<'_> {
        let text = &self.text[..];
        RequestHead {
            text,
            length: self.length,
            method: Method::of_accepted(self.method.get(text)),
            target: self.target.map_or(Target::Asterisk, |path| Target::Origin(path.get(text))),
            version: self.version,
            fields: &self.fields,
            host: Host::parse(self.host.get(text)).unwrap_or(Host::NONE),
            framing: self.framing,
            keeps_open: self.keeps_open,
            expects_continue: self.expects_continue,
            accepts_trailers: self.accepts_trailers,
            upgrade: self.upgrade.map(|list| list.get(text)),
        }
    }
}

fn append(text: &mut Vec<u8>, part: &[u8]) -> Span {
    let start = text.len();
    text.extend_from_slice(part);
    Span { start: start as u32, end: text.len() as u32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a head has, for comparison.
    fn described(head: &RequestHead<'_>) -> String {
        let mut completed = Vec::new();
        let RequestHead { text: _, length: _, fields, .. } = *head;
        let fields: Vec<_> = fields
            .iter()
            .map(|field| (field.name(head.text), field.value(head.text), field.kind()))
            .collect();
        let head = head.with_forwarded_target(&mut completed);
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?} {fields:?} {:?}",
            head.method,
            head.target,
            head.version,
            head.host,
            head.framing,
            [head.keeps_open, head.expects_continue, head.accepts_trailers],
            head.upgrade
        )
    }

    #[test]
    fn an_owned_head_is_the_head_that_it_was_made_of() {
        for text in [
            "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "\r\nGET /a?b=c HTTP/1.1\r\nHost: a.example:8443\r\nCookie: a=b\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
            "OPTIONS http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
            "GET http://a.example?b HTTP/1.1\r\nHost: a.example\r\nX: \r\n\r\n",
            "GET https://a.example/b HTTP/1.1\r\nHost: A.example\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTE: trailers\r\nConnection: TE\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade, X-Y\r\nX-Y: 1\r\n\r\n",
        ] {
            let mut fields = Vec::new();
            let head = parse_request(
                text.as_bytes(),
                &mut HeadProgress::default(),
                &mut fields,
                &HeadLimits::default(),
            );
            let head = head.expect(text).expect(text);
            let owned = OwnedRequest::new(&head);
            assert_eq!(described(&owned.head()), described(&head), "{text}");
            assert_eq!(owned.text(), head.text, "{text}");
            assert_eq!(
                described(&OwnedRequest::new(&owned.head()).head()),
                described(&head),
                "a copy of {text}"
            );
        }
    }
}
