//! Heads of stored responses, read again; requests with conditions of the cache; and the time as the cache counts it.

use std::time::SystemTime;

use handfast_cache::{is_condition, unix_ms};
use handfast_http::http1::{
    Field, HeadEnd, HeadLimits, HeadProgress, OwnedRequest, ResponseHead, WrittenHead, end_head,
    parse_response, push_field, write_fields, write_request_line,
};

/// Fields of a head for which there is room at once.
const INITIAL_FIELDS: usize = 32;

/// Milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    unix_ms(SystemTime::now())
}

/// Reads the head of a response that this proxy wrote; `None`: it is none.
///
/// **Cost**: one pass over it, and room for its fields.
pub(super) fn with_response<T>(text: &[u8], read: impl FnOnce(&ResponseHead<'_>) -> T) -> Option<T> {
    let mut fields = Vec::with_capacity(INITIAL_FIELDS);
    let head = parse_response(text, &mut HeadProgress::default(), &mut fields, &HeadLimits::UNLIMITED);
    Some(read(&head.ok()??))
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
