//! The head of a response with a file (RFC 9110).

use std::ops::Range;

use handfast_http::http1::{Method, RequestHead, push_field};

use super::found_file::{FoundFile, OpenFile};
use super::media_type::media_type;
use crate::rules::conditional::{Form, Validators};
use crate::rules::lists::date_text;

/// Time within which two changes of a file can have the same time: the clock of the file system has steps.
const UNSETTLED_NS: i128 = 2_000_000_000;

/// Response to a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileResponse {
    /// A whole head in HTTP/1: status line, fields, empty line; no connection fields.
    pub head: Vec<u8>,
    /// The status.
    pub status: u16,
    /// The bytes of the file that follow. Empty for HEAD, 304, 412, 416.
    pub content: Range<u64>,
}

impl FoundFile {
    /// Returns the response to a request with GET or HEAD. `now_ms`: milliseconds since 1970.
    pub fn respond(&self, request: &RequestHead<'_>, now_ms: u64) -> FileResponse {
        let file = &*self.file;
        let now = now_ms / 1000;
        // RFC 9110 §8.8.2.1: not after the date of the response.
        let (etag, last_modified) = (etag(file, now_ms), date_text(file.modified.min(now)));
        let validators = Validators {
            etag: Some(etag.as_bytes()),
            last_modified: Some(last_modified.as_bytes()),
            date: now,
        };
        let size = file.size;
        // RFC 9110 §13.2.2.
        let form = match validators.fails_precondition(request) {
            true => None,
            false => Some(validators.form(request, Some(size))),
        };
        let (status, reason, content) = match &form {
            None => (412, "Precondition Failed", 0..0),
            Some(Form::Whole) => (200, "OK", 0..size),
            Some(Form::Part(part)) => (206, "Partial Content", part.clone()),
            Some(Form::Unsatisfiable) => (416, "Range Not Satisfiable", 0..0),
            Some(Form::NotModified) => (304, "Not Modified", 0..0),
        };
        let mut head = format!("HTTP/1.1 {status} {reason}\r\n").into_bytes();
        let mut push = |name: &str, value: &str| {
            let is_written = push_field(&mut head, name, value.as_bytes());
            debug_assert!(is_written, "{name} is a name and {value} a value");
        };
        push("Date", &date_text(now));
        if matches!(status, 200 | 206) {
            push("Content-Type", &media_type(&self.name));
            file.coding.iter().for_each(|coding| push("Content-Encoding", coding));
        }
        if matches!(status, 200 | 206 | 304) {
            push("Last-Modified", &last_modified);
            push("ETag", &etag);
        }
        if self.varies {
            push("Vary", "Accept-Encoding");
        }
        match status {
            206 => push("Content-Range", &format!("bytes {}-{}/{size}", content.start, content.end - 1)),
            416 => push("Content-Range", &format!("bytes */{size}")),
            _ => push("Accept-Ranges", "bytes"),
        }
        if status != 304 {
            push("Content-Length", &(content.end - content.start).to_string());
        }
        head.extend_from_slice(b"\r\n");
        FileResponse { head, status, content: if request.method == Method::HEAD { 0..0 } else { content } }
    }
}

/// The tag of a file's content. The time of its last change cannot be set by programs as that of its content can, so two files of the same size
/// and date have different tags. A file that was changed a moment ago may change again within the same step of the clock: its tag is weak.
pub(super) fn etag(file: &OpenFile, now_ms: u64) -> String {
    let age = i128::from(now_ms) * 1_000_000 - file.changed_ns;
    let weak = if age < UNSETTLED_NS { "W/" } else { "" };
    format!("{weak}\"{:x}-{:x}-{:x}\"", file.changed_ns, file.size, file.inode)
}
