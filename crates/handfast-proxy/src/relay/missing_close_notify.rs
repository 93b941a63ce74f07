//! A client's FIN without close_notify that is no end: whether anything was in flight.
//!
//! In: the relay at the moment of the FIN. Out: why the connection is aborted. Whether it is aborted at all was decided
//! by the leg, as the service says.

use handfast_leg::{Broken, Side as LegSide, Socket, Why};
use handfast_net::clock::Moment;

use super::Relay;
use crate::cause::Cause;
use crate::connection::Connection;
use crate::reason::{CloseReason, Side, Step};
use crate::runtime::Runtime;

/// Our own close_notify as the longest record of it: a header (5), an explicit nonce (8), an alert (2) and a tag (16) of
/// TLS 1.2.
const CLOSE_NOTIFY: usize = 31;

impl Relay {
    /// RFC 9846 §6.1: data may have been cut off by anybody; only close_notify is an end.
    pub(super) fn missing_close_notify<R: Runtime>(
        &self,
        connection: &mut Connection<R>,
        broken: &Broken,
    ) -> Option<CloseReason> {
        if broken.side != LegSide::Client || broken.why != Why::Truncated {
            return None;
        }
        let (cause, what) = match self.in_flight(connection) {
            Some(what) => (Cause::Truncated, what),
            None => (Cause::NoCloseNotify, "nothing was in flight"),
        };
        let detail = format!("FIN without close_notify; {what}");
        Some(CloseReason::new(Step::Relay, Side::Client, cause).because(detail))
    }

    /// What a FIN now may have cut, as far as it can be seen from here: what never arrived, cannot.
    fn in_flight<R: Runtime>(&self, connection: &mut Connection<R>) -> Option<&'static str> {
        let (client, backend) = connection.legs();
        if client.is_in_a_record() {
            return Some("in the middle of a record");
        }
        if self.is_unanswered() {
            return Some("the backend had not answered what came last");
        }
        if backend.socket().unacknowledged() > 0 {
            return Some("the backend had not acknowledged what came last");
        }
        // Tickets that wait for company are nobody's data.
        let waits = client.unsent() > 0 && client.held_until() == Moment::NEVER;
        let own = if client.is_told() { CLOSE_NOTIFY } else { 0 };
        if waits || (client.sent() > 0 && client.socket().unacknowledged() > own) {
            return Some("the client had not taken all of the answer");
        }
        None
    }
}
