//! Head of a request for its backend, written by the proxy, with the fields that name the client.
//!
//! Fields of the client with these names are removed first; they are continued only if the client is a proxy that is trusted.

use std::borrow::Cow;
use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

use data_encoding::HEXLOWER;
use handfast_http::http1::{
    Field, HeadEnd, Host, Kind, OwnedRequest, RequestHead, Target, WrittenHead, end_head, push_field,
    write_fields, write_request_line,
};

use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::rules::{self, RequestFacts, write_request_fields};
use crate::requests::decide::trace;
use crate::worker::request_routes::{TRACEPARENT, TRACESTATE};
use handfast_config::model::RequestRules;
use handfast_config::{PathRule, new_target};

/// Bytes that the fields of the proxy need beside those of the client.
const OWN_FIELDS_BYTES: usize = 256;
/// Fields of the proxy for which there is room at once.
const OWN_FIELDS: usize = 6;
/// Room for an identifier, and for the method, host and path of most requests behind it.
const ID_ROOM: usize = 128;
/// Most bytes of a request id that a trusted proxy sent.
const ID_LIMIT: usize = 128;

/// Writes the head for the backend.
pub(crate) fn write_head(
    facts: &RequestFacts<'_>,
    rules: Option<&RequestRules>,
    prefix: Option<&PathRule>,
) -> OwnedRequest {
    let RequestFacts { head, connection, id, trace, path, sender, .. } = *facts;
    let http = &connection.http.model;
    let own_id = http.request_id.as_deref();
    let host = rules.and_then(|rules| rules::host(rules, facts));
    // A request with a value that is no host is refused, and its head goes nowhere.
    let new_host = host.as_deref().map(|host| Host::parse(host).unwrap_or(Host::NONE));
    let head_host = new_host.unwrap_or(head.host);
    let mut written =
        WrittenHead::with_capacity(head.length + OWN_FIELDS_BYTES, head.fields.len() + OWN_FIELDS);
    let out = &mut written;
    match new_target(path, prefix, rules) {
        Some((target, _)) => {
            let target = Target::Origin(&target);
            write_request_line(&mut out.text, &RequestHead { target, host: head_host, ..*head });
        }
        None => write_request_line(&mut out.text, &RequestHead { host: head_host, ..*head }),
    }
    let of_route = rules.map_or(&[][..], |rules| &rules.request);
    let drops = |field: &Field| {
        field.kind() == Kind::Forwarding
            || (field.kind() == Kind::Host && host.is_some())
            || (field.kind() != Kind::Host && rules::drops(of_route, field.name(head.text)))
            || own_id.is_some_and(|name| field.name(head.text).eq_ignore_ascii_case(name.as_bytes()))
            || trace.is_some_and(|own| is_of_trace(field.name(head.text), head, own))
    };
    // In HTTP/1.0 the host may be in the target alone.
    let has_field = host.is_none() && head.fields.iter().any(|field| field.kind() == Kind::Host);
    if !has_field && !head_host.is_none() {
        let _ = push_field(out, "Host", head_host.text);
    }
    write_fields(out, head.text, head.fields, drops);
    if connection.is_trusted {
        keep_others(out, head, connection);
    }
    if http.forwarded.x_forwarded {
        x_forwarded(out, head, connection);
    }
    if http.forwarded.standard {
        forwarded(out, head, connection);
    }
    if let Some(name) = own_id {
        push(out, name, id.as_bytes());
    }
    if let Some(trace) = trace {
        push(out, TRACEPARENT, trace.as_bytes());
    }
    if let Some(sender) = sender {
        sender.write(out);
    }
    write_request_fields(out, of_route, facts);
    end_head(&mut out.text, &HeadEnd::for_backend(head));
    OwnedRequest::written(written, head)
}

/// Returns true for fields of a trace that are written again, or that belong to a trace which was not continued.
fn is_of_trace(name: &[u8], head: &RequestHead<'_>, own: &str) -> bool {
    name.eq_ignore_ascii_case(TRACEPARENT.as_bytes())
        || name.eq_ignore_ascii_case(TRACESTATE.as_bytes()) && trace::of_client(head) != Some(own)
}

/// The names of fields that are continued, in the order of [`x_forwarded`].
const CONTINUED: [&str; 3] = ["X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host"];

/// Fields of a trusted proxy that are not continued here stay as they are (`X-Forwarded-Port`, `X-Real-IP`). Those about certificates do not: the
/// client whose certificate counts is the one that is connected (RFC 9440 §4).
fn keep_others(out: &mut WrittenHead, head: &RequestHead<'_>, connection: &HttpConnection) {
    let forwarded = &connection.http.model.forwarded;
    let is_continued = |name: &[u8]| {
        let is_x = CONTINUED.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
        let is_certificate = name.get(..11).is_some_and(|name| name.eq_ignore_ascii_case(b"client-cert"));
        is_certificate
            || (is_x && forwarded.x_forwarded)
            || (name.eq_ignore_ascii_case(b"forwarded") && forwarded.standard)
    };
    let drops = |field: &Field| field.kind() != Kind::Forwarding || is_continued(field.name(head.text));
    write_fields(out, head.text, head.fields, drops);
}

#[inline]
pub(crate) fn x_forwarded(out: &mut WrittenHead, head: &RequestHead<'_>, connection: &HttpConnection) {
    let [for_, proto, host] = CONTINUED;
    let client = connection.client_address.as_deref().unwrap_or_default().as_bytes();
    let mut chain = earlier(head, connection, for_);
    if !chain.is_empty() {
        add(&mut chain, client);
    }
    let continued = if chain.is_empty() { client } else { &chain };
    if !continued.is_empty() {
        push(out, for_, continued);
    }
    for (name, own) in [(proto, connection.scheme().as_bytes()), (host, head.host.text)] {
        let sent = earlier(head, connection, name);
        let value = if sent.is_empty() { own } else { &sent };
        if !value.is_empty() {
            push(out, name, value);
        }
    }
}

/// RFC 7239 §4.
fn forwarded(out: &mut WrittenHead, head: &RequestHead<'_>, connection: &HttpConnection) {
    let mut chain = earlier(head, connection, "Forwarded");
    let client = connection.client_address.as_deref().map_or(Cow::Borrowed("unknown"), node);
    let mut element = format!("for={client};proto={}", connection.scheme()).into_bytes();
    if !head.host.is_none() {
        element.extend_from_slice(b";host=\"");
        element.extend_from_slice(head.host.text);
        element.push(b'"');
    }
    add(&mut chain, &element);
    push(out, "Forwarded", &chain);
}

/// RFC 7239 §6: an IPv6 address is in brackets and quoted.
fn node(address: &str) -> Cow<'_, str> {
    if address.contains(':') { format!("\"[{address}]\"").into() } else { address.into() }
}

/// The values that a trusted proxy sent, joined as one list (RFC 9110 §5.2).
fn earlier(head: &RequestHead<'_>, connection: &HttpConnection, name: &str) -> Vec<u8> {
    let mut chain = Vec::new();
    if connection.is_trusted {
        head.values(name).for_each(|value| add(&mut chain, value));
    }
    chain
}

fn add(chain: &mut Vec<u8>, element: &[u8]) {
    if !chain.is_empty() && !element.is_empty() {
        chain.extend_from_slice(b", ");
    }
    chain.extend_from_slice(element);
}

/// Values come from a head that was accepted, or are ours.
pub(crate) fn push(out: &mut WrittenHead, name: &str, value: &[u8]) {
    let is_written = push_field(out, name, value);
    debug_assert!(is_written, "{name}: {}", value.escape_ascii());
}

/// The identifier of a request: that of a trusted proxy, or else 32 hexadecimal digits.
pub(super) fn request_id(head: &RequestHead<'_>, connection: &HttpConnection) -> String {
    let name = connection.http.model.request_id.as_deref().filter(|_| connection.is_trusted);
    let sent = name.and_then(|name| head.values(name).next());
    let is_usable =
        |id: &&[u8]| !id.is_empty() && id.len() <= ID_LIMIT && id.iter().all(u8::is_ascii_graphic);
    if let Some(id) = sent.filter(is_usable) {
        return String::from_utf8_lossy(id).into_owned();
    }
    new_id()
}

/// An identifier of a request, or of a connection: 32 hexadecimal digits, with room for the other texts of a request's record.
pub(crate) fn new_id() -> String {
    thread_local! {
        // The standard library's keys come from the kernel, so no two threads begin with the same number.
        static NEXT: Cell<(u64, u64)> = Cell::new((RandomState::new().build_hasher().finish(), 0));
    }
    let (thread, number) = NEXT.get();
    NEXT.set((thread, number.wrapping_add(1)));
    let mut id = String::with_capacity(ID_ROOM);
    HEXLOWER.encode_append(&(u128::from(thread) << 64 | u128::from(number)).to_be_bytes(), &mut id);
    id
}

#[cfg(test)]
mod tests;
