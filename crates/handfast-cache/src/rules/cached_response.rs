//! Response to the client from a stored one: all of it, a part, or that the client's copy is current
//! (RFC 9110 §13 and RFC 9110 §14).
//!
//! In: a stored response, its size, a request. Out: a [`CachedResponse`]: a head as text, and which bytes follow.

use std::ops::Range;

use handfast_http::http1::{Method, RequestHead, push_field, write_fields};

use super::conditional::{Form, Validators};
use super::stored::{Stored, parsed};

/// Response to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachedResponse {
    /// A whole head in HTTP/1: status line, fields with `Age` and the framing, empty line; no connection fields. If the size is not known yet it
    /// has `Transfer-Encoding: chunked`; the content is not chunked.
    pub head: Vec<u8>,
    /// The status.
    pub status: u16,
    /// The bytes of the object that follow; the end is `u64::MAX` if the size is not known yet. Empty for HEAD, 304, 416.
    pub content: Range<u64>,
}

impl Stored {
    /// The answer to a request which this response was selected for. `size` is that of the object; `None` while it is being fetched without an
    /// announced length.
    pub fn answer(&self, request: &RequestHead<'_>, size: Option<u64>, now_ms: u64) -> CachedResponse {
        self.answer_with(&self.head, request, size, now_ms)
    }

    /// The same with another head, for the client whose request was validated.
    pub(crate) fn answer_with(
        &self,
        head: &[u8],
        request: &RequestHead<'_>,
        size: Option<u64>,
        now_ms: u64,
    ) -> CachedResponse {
        let form = self.form(request, size);
        let (status, reason): (u16, Option<&str>) = match form {
            Form::Whole => (self.status, None),
            Form::Part(_) => (206, Some("Partial Content")),
            Form::Unsatisfiable => (416, Some("Range Not Satisfiable")),
            Form::NotModified => (304, Some("Not Modified")),
        };
        // Room for the following fields, and for the one that reports the cache's action.
        let mut out = Vec::with_capacity(head.len() + 192);
        match reason {
            // It has nothing that is left out.
            None => out.extend_from_slice(head.strip_suffix(b"\r\n").unwrap_or(head)),
            Some(reason) => {
                let is_written = parsed(head, |head| {
                    out.extend(format!("HTTP/1.1 {status} {reason}\r\n").bytes());
                    write_fields(&mut out, head.text, head.fields, |field| {
                        is_left_out(field.name(head.text), &form)
                    });
                });
                debug_assert!(is_written.is_some(), "a stored head was parsed before");
            }
        }
        push(&mut out, "Age", &self.age(now_ms).min(1 << 31).to_string());
        let content = match form {
            Form::Whole => {
                match size {
                    // RFC 9110 §8.6: no length where there can be no content.
                    Some(_) if self.status == 204 => {}
                    Some(size) => push(&mut out, "Content-Length", &size.to_string()),
                    None => push(&mut out, "Transfer-Encoding", "chunked"),
                }
                0..size.unwrap_or(u64::MAX)
            }
            Form::Part(part) => {
                let total = size.unwrap_or(u64::MAX);
                push(&mut out, "Content-Range", &format!("bytes {}-{}/{total}", part.start, part.end - 1));
                push(&mut out, "Content-Length", &(part.end - part.start).to_string());
                part
            }
            Form::Unsatisfiable => {
                push(&mut out, "Content-Range", &format!("bytes */{}", size.unwrap_or(0)));
                push(&mut out, "Content-Length", "0");
                0..0
            }
            Form::NotModified => 0..0,
        };
        out.extend_from_slice(b"\r\n");
        CachedResponse {
            head: out,
            status,
            content: if request.method == Method::HEAD { 0..0 } else { content },
        }
    }

    fn form(&self, request: &RequestHead<'_>, size: Option<u64>) -> Form {
        if self.status != 200 { Form::Whole } else { self.validators().form(request, size) }
    }

    fn validators(&self) -> Validators<'_> {
        let (etag, last_modified) = (self.etag.as_deref(), self.last_modified.as_deref());
        Validators { etag, last_modified, date: self.date }
    }
}

fn is_left_out(name: &[u8], form: &Form) -> bool {
    let is = |names: &[&str]| names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()));
    match form {
        Form::Whole => false,
        Form::Part(_) => is(&["content-range"]),
        // RFC 9110 §15.4.5: what describes content is not repeated.
        Form::NotModified => {
            is(&["content-encoding", "content-language", "content-type", "content-range", "content-md5"])
        }
        Form::Unsatisfiable => name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case(b"content-")),
    }
}

fn push(out: &mut Vec<u8>, name: &str, value: &str) {
    let is_written = push_field(out, name, value.as_bytes());
    debug_assert!(is_written, "{name} is a name and {value} a value");
}
