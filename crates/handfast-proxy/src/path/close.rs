//! Step 7, close: the only place where a connection ends.
//!
//! In: the connection, its legs, and the reason. Out: both sockets closed in the way that is true for each peer, one
//! record in the metrics and in the access log.
//!
//! | what happened | the client sees | the backend sees |
//! |---|---|---|
//! | both directions ended cleanly | close_notify, FIN | FIN |
//! | no session was made | the alert with the reason, FIN | nothing |
//! | the backend ended, the client had everything and stayed silent | close_notify, FIN | a reset: the client has not ended |
//! | the last response was sent (HTTP) | close_notify, FIN | as its pool ends it |
//! | a side broke TLS | its alert, FIN, if it was the client; else as below | the same, the other way round |
//! | the client is gone without an end of TLS | nothing | every byte that was on its way, and a reset a second later |
//! | anything else | every byte that was on its way, then a reset; no close_notify | the same: never a clean end |
//!
//! `handfast-leg` implements each of these endings.

use handfast_leg::{Ending, Leg, Way};
use handfast_net::clock::Moment;
use handfast_tls::buffer::Scratch;
use handfast_wire::starttls::Protocol;

use crate::path::connection::Connection;
use crate::worker::context::WorkerPhase;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Ends a connection.
pub(crate) async fn end<R: Runtime>(connection: &mut Connection<R>, reason: CloseReason) {
    let begun = R::now();
    let (client, backend) = begin(connection, &reason, begun);
    finish(connection, client, backend).await;
    let account = &mut connection.account;
    account.record.seconds.close = R::now().since(begun);
    // Counted before its last socket is closed: a peer that sees the end finds the log line.
    account.close(&reason);
}

/// Begins the ends of both legs. Not part of the async function, whose locals would take room in each connection's task.
fn begin<R: Runtime>(
    connection: &mut Connection<R>,
    reason: &CloseReason,
    begun: Moment,
) -> (Option<Ending>, Option<Ending>) {
    let delivers = matches!(reason.side, Side::Client | Side::Backend) && !is_hurried(connection);
    // MySQL's client has its server's refusal: before its own TLS, which is not counted, or as the first message to it.
    let has_refusal = connection.account.service.starttls_protocol() == Some(Protocol::MySql)
        || connection.client.as_ref().is_some_and(|leg| leg.sent() > 0);
    let has_spoken = connection.client.as_ref().is_some_and(|leg| leg.received() > 0);
    let last_sent = if has_spoken { connection.progress } else { Moment::START };
    let (client, backend) = end_modes(reason, delivers, has_refusal, last_sent);
    (
        connection.client.as_mut().map(|leg| Ending::new(leg, client, begun)),
        connection.backend.as_mut().map(|leg| Ending::new(leg, backend, begun)),
    )
}

/// Waits until both legs have come to their ends. Neither waits for the other: the one that is done first is closed at once.
async fn finish<R: Runtime>(
    connection: &mut Connection<R>,
    mut client: Option<Ending>,
    mut backend: Option<Ending>,
) {
    loop {
        let hurry = is_hurried(connection);
        // The loan of the thread's buffers ends before the wait: others use them meanwhile.
        let until = {
            let scratch = &mut *connection.account.thread.scratch.borrow_mut();
            // The backend first: it is not to learn of an abort later than the client of its alert.
            let backend = step::<R>(&mut connection.backend, &mut backend, scratch, hurry);
            backend.min(step::<R>(&mut connection.client, &mut client, scratch, hurry))
        };
        // The last socket is left open: `end` writes the books first.
        if client.is_none() && backend.is_none() {
            return;
        }
        if client.is_none() {
            connection.client = None;
        }
        if backend.is_none() {
            connection.backend = None;
        }
        R::wait(until).await;
    }
}

/// Goes on with a leg; until when it waits at most, and NEVER when it is to be closed.
fn step<R: Runtime>(
    leg: &mut Option<Leg<R::Socket>>,
    ending: &mut Option<Ending>,
    scratch: &mut Scratch,
    hurry: bool,
) -> Moment {
    let (Some(leg), Some(stage)) = (leg, ending.as_mut()) else { return Moment::NEVER };
    let until = stage.step(leg, scratch, R::now(), hurry);
    if until.is_none() {
        *ending = None;
    }
    until.unwrap_or(Moment::NEVER)
}

/// Returns true if the program is ending, and no longer waits for any peer.
fn is_hurried<R: Runtime>(connection: &Connection<R>) -> bool {
    connection.account.thread.phase() == WorkerPhase::Ending
}

/// Returns how the client's leg ends, and how the backend's. `delivers`: peers still receive the bytes that were on their way to them,
/// unless our own side decided to end it now. `has_refusal`: a backend's refusal to begin TLS is passed on in its own protocol. `last_sent`:
/// latest time at which the client's last bytes went to the backend.
fn end_modes(reason: &CloseReason, delivers: bool, has_refusal: bool, last_sent: Moment) -> (Way, Way) {
    let abort = if delivers { Way::Abort } else { Way::AtOnce };
    match (reason.step, reason.cause, reason.side) {
        (_, Cause::Finished, _) => (Way::InOrder, Way::InOrder),
        // close_notify is with the client already.
        (_, Cause::BackendEnded | Cause::HttpClosed, _) => (Way::EndFirst, abort),
        // The client has our GOAWAY, or spoke no HTTP/2; each stream has a separate end.
        (_, Cause::Http2, Side::Client) => (Way::EndFirst, abort),
        // Too many from one address: reset at once, so that one address does not use up what others wait for.
        (Step::Accept, _, _) => (Way::AtOnce, Way::AtOnce),
        // The TLS stream has not begun, so a FIN cannot be mistaken for its end.
        (Step::Hello | Step::Handshake, _, _) => (Way::Alert, abort),
        // Our own alert is on its way to the peer that caused it. For the other side it is another peer's fault, and an abort: an
        // alert and a FIN would mean that everything had arrived.
        (_, Cause::Tls | Cause::ClientCertificate, Side::Backend) => (abort, Way::Alert),
        (_, Cause::Tls | Cause::ClientCertificate, _) => (Way::Alert, abort),
        // A backend that refuses MySQL's client before TLS: its answer is on its way. Other clients have received nothing, and to one
        // without TLS a FIN would be a whole answer.
        (Step::Connect, Cause::StarttlsRefused, _) if has_refusal => (Way::Alert, abort),
        // Without a backend nothing was on its way to the client but tickets.
        (Step::Route | Step::Connect, _, _) => (Way::AtOnce, abort),
        // It cannot have the answers to its last messages, which the backend's program is to read nevertheless.
        (Step::Relay, _, Side::Client) if delivers => (abort, Way::AbortOnceServed(last_sent)),
        (Step::Relay | Step::Close, _, _) => (abort, abort),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_modes_of(step: Step, side: Side, cause: Cause) -> (Way, Way) {
        end_modes(&CloseReason::new(step, side, cause), true, false, Moment::START)
    }

    /// RFC 9846 §6.1 from both sides: a clean end means that the other side has sent everything.
    #[test]
    fn only_an_end_in_order_is_a_clean_end_for_both() {
        for (step, side) in Step::ALL.into_iter().flat_map(|step| Side::ALL.map(|side| (step, side))) {
            for cause in Cause::all() {
                let (client, backend) = end_modes_of(step, side, cause);
                assert_eq!(backend == Way::InOrder, cause == Cause::Finished, "{step:?} {side:?} {cause:?}");
                assert_eq!(client == Way::InOrder, cause == Cause::Finished, "{step:?} {side:?} {cause:?}");
                // EndFirst is a FIN behind a close_notify that the backend's own end had caused.
                assert_eq!(
                    client == Way::EndFirst,
                    matches!(cause, Cause::BackendEnded | Cause::HttpClosed)
                        || (cause, side) == (Cause::Http2, Side::Client),
                    "{step:?} {side:?} {cause:?}"
                );
                assert_ne!(backend, Way::EndFirst, "{step:?} {side:?} {cause:?}");
            }
        }
    }

    #[test]
    fn the_side_that_broke_tls_gets_the_alert_and_the_other_side_an_abort() {
        assert_eq!(end_modes_of(Step::Relay, Side::Client, Cause::Tls), (Way::Alert, Way::Abort));
        assert_eq!(end_modes_of(Step::Relay, Side::Backend, Cause::Tls), (Way::Abort, Way::Alert));
        assert_eq!(end_modes_of(Step::Relay, Side::Local, Cause::Internal), (Way::Abort, Way::Abort));
    }

    #[test]
    fn nothing_is_delivered_when_our_own_side_ends_it() {
        let stopped = CloseReason::new(Step::Relay, Side::Operator, Cause::Stopped);
        assert_eq!(end_modes(&stopped, false, false, Moment::START), (Way::AtOnce, Way::AtOnce));
        let refused = CloseReason::new(Step::Accept, Side::Operator, Cause::AddressLimit);
        assert_eq!(end_modes(&refused, false, false, Moment::START), (Way::AtOnce, Way::AtOnce));
    }

    /// A client without TLS takes a FIN for a whole answer, unless its own protocol has a sign for that.
    #[test]
    fn a_refusal_to_begin_tls_is_no_clean_end_for_a_client_that_received_nothing() {
        let refused = CloseReason::new(Step::Connect, Side::Backend, Cause::StarttlsRefused);
        assert_eq!(end_modes(&refused, true, false, Moment::START), (Way::AtOnce, Way::Abort));
        assert_eq!(end_modes(&refused, true, true, Moment::START), (Way::Alert, Way::Abort));
    }
}
