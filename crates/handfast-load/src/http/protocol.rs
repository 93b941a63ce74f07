//! The interface of a protocol to its connection: bytes in, bytes out, and the events of requests.

use std::sync::Arc;

use handfast_http::http1::{HeadLimits, Underscores};
use handfast_net::clock::Moment;

use super::in_flight::{Requests, TransportEnd};
use crate::requests::PreparedRequest;

/// Limits of the head of an answer.
pub(super) const LIMITS: HeadLimits =
    HeadLimits { head: 262_144, start_line: 65_536, fields: 1_000, underscores: Underscores::Forward };

/// One version of HTTP on a connection. It reads no clock and no socket.
pub(super) trait Protocol {
    /// Returns true if a request can begin now.
    fn has_room(&self) -> bool;

    /// Returns true if no request can begin any more.
    fn is_closed(&self) -> bool;

    /// Returns the rule that the target broke, if it did.
    fn fault(&self) -> Option<String>;

    /// Begins a request; [`output`](Self::output) has its bytes.
    fn begin(&mut self, place: usize, request: Arc<PreparedRequest>, requests: &mut Requests);

    /// Reads bytes of the target.
    fn receive(&mut self, bytes: &[u8], now: Moment, requests: &mut Requests);

    /// The transport ended: no request gets an answer any more.
    fn end(&mut self, end: &TransportEnd, now: Moment, requests: &mut Requests);

    /// Returns the bytes to send next; none: there is nothing to send. `spent` is memory to use again.
    fn output(&mut self, spent: Vec<u8>, now: Moment, requests: &mut Requests) -> Vec<u8>;

    /// The answer to a request is not waited for any more.
    fn give_up(&mut self, place: usize);
}

#[cfg(test)]
mod tests;
