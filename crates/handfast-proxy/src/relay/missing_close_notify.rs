//! A client's FIN without close_notify: an abort, or an end where the service says so; and whether anything was in flight.
//!
//! In: the relay at the moment of the FIN. Out: the client's direction ended, or why the connection is aborted.

use handfast_net::clock::Moment;

use super::{Moved, Relay};
use crate::cause::Cause;
use crate::config::model::MissingCloseNotify;
use crate::connection::Connection;
use crate::reason::{CloseReason, Side, Step};

/// Our own close_notify as the longest record of it: a header (5), an explicit nonce (8), an alert (2) and a tag (16) of
/// TLS 1.2.
const CLOSE_NOTIFY: usize = 31;

impl Relay {
    /// RFC 9846 §6.1: data may have been cut off by anybody; only close_notify is an end.
    pub(super) fn end_without_close_notify(&mut self, connection: &Connection) -> Moved {
        let in_a_record = !self.session.kept().is_empty();
        if !in_a_record && connection.service.missing_close_notify == MissingCloseNotify::End {
            self.client_done = true;
            self.unsaid = true;
            self.tell_backend();
            return Ok(true);
        }
        let in_flight =
            if in_a_record { Some("in the middle of a record") } else { self.in_flight(connection) };
        let (cause, what) = match in_flight {
            Some(what) => (Cause::Truncated, what),
            None => (Cause::NoCloseNotify, "nothing was in flight"),
        };
        let detail = format!("FIN without close_notify; {what}");
        Err(CloseReason::new(Step::Relay, Side::Client, cause).because(detail))
    }

    /// What a FIN now may have cut, as far as it can be seen from here: what never arrived, cannot.
    fn in_flight(&self, connection: &Connection) -> Option<&'static str> {
        if self.unanswered {
            return Some("the backend had not answered what came last");
        }
        if self.backend.unsent() > 0 {
            return Some("the backend had not acknowledged what came last");
        }
        // Tickets that wait for company are nobody's data.
        let waits = !connection.outgoing.is_empty() && self.hold == Moment::NEVER;
        let own = if self.client_told { CLOSE_NOTIFY } else { 0 };
        if waits || (connection.record.bytes_to_client > 0 && connection.client.unsent() > own) {
            return Some("the client had not taken all of the answer");
        }
        None
    }
}
