//! HTTP/1.1 as both ends of a case speak it: requests, responses, and the change of protocol that a tunnel in HTTP mode begins with.
//!
//! In: a peer that may send. Out: heads, responses with their content, or a tunnel.

use handfast_testkit::connection::Connection;

use crate::error::{CaseError, broken};
use crate::mode::Mode;

/// The request to change the protocol (RFC 6455 §1.3).
const UPGRADE: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";
/// Its answer.
const SWITCHING: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";
/// Most bytes of a head that is read here.
const HEAD: usize = 64 << 10;

/// Returns the bytes that a client sends before its first byte.
pub(crate) const fn before_client(mode: Mode) -> &'static [u8] {
    if mode.is_http() { UPGRADE } else { &[] }
}

/// Returns the bytes that a backend sends before its first byte.
pub(crate) const fn before_backend(mode: Mode) -> &'static [u8] {
    if mode.is_http() { SWITCHING } else { &[] }
}

/// A client asks for a tunnel. It may send at once: what it sends waits for the backend's answer.
pub(crate) fn upgrade(mode: Mode, client: &mut Connection) -> Result<(), CaseError> {
    if mode.is_http() {
        client.skip_switch();
    }
    Ok(client.try_send(before_client(mode))?)
}

/// A backend agrees to a tunnel.
pub(crate) fn switch(mode: Mode, backend: &mut Connection) -> Result<(), CaseError> {
    if mode.is_http() {
        let head = head(backend)?;
        if !head.to_ascii_lowercase().contains("\r\nupgrade: websocket\r\n") {
            return broken(format!("the backend received no upgrade: {head:?}"));
        }
    }
    Ok(backend.try_send(before_backend(mode))?)
}

/// Reads a head, and nothing behind it.
pub(crate) fn head(peer: &mut Connection) -> Result<String, CaseError> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > HEAD {
            return broken(format!("a head of more than {HEAD} bytes"));
        }
        head.extend(peer.try_read_exactly(1)?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// A response as a client received it.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) content: Vec<u8>,
}

impl Response {
    /// The value of a field, in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        field(&self.head, name)
    }

    /// It has this status.
    pub(crate) fn must_be(self, status: u16) -> Result<Self, CaseError> {
        if self.status == status {
            return Ok(self);
        }
        broken(format!(
            "the client received {:?}, not {status}",
            self.head.lines().next().unwrap_or_default()
        ))
    }
}

/// The next response that is final. Its content has a length here.
pub(crate) fn response(client: &mut Connection) -> Result<Response, CaseError> {
    loop {
        let head = head(client)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        if (100..200).contains(&status) {
            continue;
        }
        let Some(length) = field(&head, "content-length").and_then(|length| length.parse().ok()) else {
            return broken(format!("a response without a length: {head:?}"));
        };
        return Ok(Response { status, content: client.try_read_exactly(length)?, head });
    }
}

fn field(head: &str, name: &str) -> Option<String> {
    let lines = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    let mut named = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
    named.next().map(|(_, value)| value.trim().to_ascii_lowercase())
}
