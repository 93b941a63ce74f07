//! Requests with conditions of the cache, and the time as the cache counts it.

use std::time::SystemTime;

use handfast_cache::{is_condition, unix_ms};
use handfast_http::http1::{
    Field, HeadEnd, OwnedRequest, WrittenHead, end_head, push_field, write_fields, write_request_line,
};

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    unix_ms(SystemTime::now())
}

/// Returns a request for all of a response, under these conditions instead of those of the client.
pub(super) fn conditional(original: &OwnedRequest, conditions: &[(&'static str, Vec<u8>)]) -> OwnedRequest {
    let head = &original.head();
    let mut out =
        WrittenHead::with_capacity(original.text().len() + 128, head.fields.len() + conditions.len());
    write_request_line(&mut out.text, head);
    write_fields(&mut out, head.text, head.fields, |field: &Field| is_condition(field.name(head.text)));
    for (name, value) in conditions {
        // A value that was parsed is one.
        let _ = push_field(&mut out, name, value);
    }
    end_head(&mut out.text, &HeadEnd::for_backend(head));
    OwnedRequest::written(out, head)
}
