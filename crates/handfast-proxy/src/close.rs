//! Step 7, close: the only place where a connection ends.
//!
//! In: the connection, what is left of the backend's side, and the reason. Out: both sockets closed in the way that
//! tells each peer the truth, one record in the metrics and in the access log.
//!
//! | what happened | the client sees | the backend sees |
//! |---|---|---|
//! | both directions ended in order | close_notify, FIN | FIN |
//! | no session came about | the alert that says why, FIN | nothing |
//! | the backend ended, the client had everything and stayed silent | close_notify, FIN | a reset: the client has not ended |
//! | anything else | every byte that was on its way, then a reset; no close_notify | the same: never a clean end |

use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::engine::{Woken, sleep};
use handfast_net::stream::{Read, Stream, Write};

use crate::cause::Cause;
use crate::connection::Connection;
use crate::reason::{CloseReason, Side, Step};
use crate::thread::{Phase, Thread};

/// How long an alert's reader may keep sending what it had on its way; closing before would reset the connection and
/// take the alert from the client's hands.
const LINGER: Duration = Duration::from_millis(500);
/// And how much: most clients write all of their flight before they read, and a chain of a megabyte is a mistake that
/// deserves its alert. It is read into the thread's buffer and dropped, which takes less than a millisecond.
const LINGER_BYTES: usize = 2 * 1024 * 1024;
/// How long the last bytes before an abort may make no progress on their way to the peer.
const DELIVERY: Duration = Duration::from_secs(5);

/// The backend's side of a connection that ends.
#[derive(Debug)]
pub(crate) struct Leftover {
    pub(crate) backend: Stream,
    /// Decrypted and not yet taken by its socket.
    pub(crate) unsent: Vec<u8>,
}

/// Ends a connection.
pub(crate) async fn end(mut connection: Box<Connection>, leftover: Option<Leftover>, reason: CloseReason) {
    let begun = Moment::now();
    match way(&reason) {
        Way::InOrder => {
            if let Some(leftover) = leftover {
                leftover.backend.finish();
            }
            connection.client.finish_at_drop();
        }
        Way::ClientInOrder => {
            // close_notify is with the client already.
            connection.client.end_writing();
            abort(&connection, leftover, &reason).await;
            linger(&mut connection).await;
            connection.client.finish_at_drop();
        }
        Way::WithAnAlert => {
            // Neither waits for the other: the alert goes as far as it can, then the backend is told, and only then is
            // the client waited for.
            let speaks = !connection.outgoing.is_empty();
            speak(&mut connection);
            abort(&connection, leftover, &reason).await;
            if speaks {
                linger(&mut connection).await;
            }
            connection.client.finish_at_drop();
        }
        Way::Aborted => {
            abort(&connection, leftover, &reason).await;
            deliver(&mut connection, &reason).await;
        }
    }
    connection.record.seconds.close = Moment::now().since(begun);
    // Dropping it counts and logs it.
    connection.reason = Some(reason);
}

enum Way {
    InOrder,
    ClientInOrder,
    WithAnAlert,
    Aborted,
}

fn way(reason: &CloseReason) -> Way {
    match (reason.step, reason.cause) {
        (_, Cause::Finished) => Way::InOrder,
        (_, Cause::BackendEnded) => Way::ClientInOrder,
        // The TLS stream has not begun, so a FIN cannot be mistaken for its end.
        (Step::Accept | Step::Hello | Step::Handshake, _) => Way::WithAnAlert,
        // Our own alert is on its way.
        (_, Cause::Tls | Cause::ClientCertificate) => Way::WithAnAlert,
        _ => Way::Aborted,
    }
}

/// Writes what the client takes at once.
fn speak(connection: &mut Connection) {
    if !connection.outgoing.is_empty()
        && let Ok(Write::Bytes(written)) = connection.client.try_write(&connection.outgoing)
    {
        connection.outgoing.drain(..written);
    }
}

/// Delivers the alert: writes what is left of it, ends our direction, and reads what still comes until the peer has ended too.
async fn linger(connection: &mut Connection) {
    if connection.client.fault().is_some() {
        return;
    }
    let deadline = Moment::now() + LINGER;
    if !write_out(&mut connection.client, &mut connection.outgoing, deadline).await {
        return;
    }
    connection.client.end_writing();
    let thread = std::rc::Rc::clone(&connection.thread);
    let mut drained = 0;
    while drained < LINGER_BYTES && thread.phase() != Phase::Ending {
        let read = connection.client.try_read(&mut thread.scratch.borrow_mut().received);
        match read {
            Ok(Read::Bytes(bytes)) => drained += bytes,
            Ok(Read::Blocked) => {
                if handfast_net::engine::wait(deadline).await == Woken::Deadline {
                    return;
                }
            }
            Ok(Read::End) | Err(_) => return,
        }
    }
}

/// Writes all of `bytes`; false when that could not be done before `deadline`.
async fn write_out(stream: &mut Stream, bytes: &mut Vec<u8>, deadline: Moment) -> bool {
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(Write::Bytes(written)) => drop(bytes.drain(..written)),
            Ok(Write::Blocked) => {
                if handfast_net::engine::wait(deadline).await == Woken::Deadline {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    true
}

/// Whether a peer still gets what was on its way to it: not when our own side decided to end it now.
fn delivers(connection: &Connection, reason: &CloseReason) -> bool {
    matches!(reason.side, Side::Client | Side::Backend) && connection.thread.phase() != Phase::Ending
}

/// The backend's end of an aborted connection.
async fn abort(connection: &Connection, leftover: Option<Leftover>, reason: &CloseReason) {
    let Some(mut leftover) = leftover else { return };
    if delivers(connection, reason) {
        flush(&connection.thread, &mut leftover.backend, &mut leftover.unsent).await;
    }
    // Dropped without having been finished: a reset.
}

/// The client's end of an aborted connection.
async fn deliver(connection: &mut Connection, reason: &CloseReason) {
    // Without a backend nothing was on its way but tickets.
    if reason.step == Step::Relay && delivers(connection, reason) {
        let mut outgoing = std::mem::take(&mut connection.outgoing);
        flush(&connection.thread, &mut connection.client, &mut outgoing).await;
    }
}

/// Writes `bytes` and waits until the peer has acknowledged everything, as a reset would overtake it: as long as it
/// makes progress. The kernel does not announce that its queue is empty, so it is asked, ever more seldom.
async fn flush(thread: &Thread, stream: &mut Stream, bytes: &mut Vec<u8>) {
    if stream.fault().is_some() {
        return;
    }
    let mut pause = Duration::from_millis(1);
    let mut left = usize::MAX;
    let mut progress = Moment::now();
    loop {
        if !bytes.is_empty() {
            match stream.try_write(bytes) {
                Ok(Write::Bytes(written)) => drop(bytes.drain(..written)),
                Ok(Write::Blocked) => {}
                Err(_) => return,
            }
        }
        let now_left = bytes.len() + stream.unsent();
        if now_left == 0 || stream.check().is_err() || thread.phase() == Phase::Ending {
            return;
        }
        if now_left < left {
            left = now_left;
            progress = Moment::now();
        } else if Moment::now().since(progress) > DELIVERY {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
