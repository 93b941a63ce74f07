//! Step 6, relay: bytes both ways, exactly, until both directions have ended or one has broken.
//!
//! In: a secured client and a connected backend. Out: why it ended, and the backend for `close.rs`.
//!
//! One task carries both directions. Bytes pass through the thread's buffers; a connection keeps bytes of its own only
//! when somebody cannot take them: at most 64 KiB in each direction, since nothing is read for a peer that has not
//! taken what came before. An idle connection owns no buffer.

mod client_to_backend;
mod backend_to_client;
mod missing_close_notify;

use std::rc::Rc;

use handfast_net::clock::Moment;
use handfast_net::engine::{Woken, yield_now};
use handfast_net::fault::Cause as SocketCause;
use handfast_net::fault::Fault;
use handfast_net::stream::{Stream, Write};
use handfast_tls::session::Session;

use crate::backends::InUse;
use crate::cause::Cause;
use crate::close::Leftover;
use crate::config::show_duration;
use crate::connect::Connected;
use crate::connection::Connection;
use crate::handshake::Secured;
use crate::reason::{CloseReason, Side, Step};

/// Rounds that one connection may go on before the others of its thread have their turn: 1 MiB of bulk.
const ROUNDS: u32 = 16;
/// How long tickets wait for the first data to ride on.
const TICKET_DELAY: std::time::Duration = std::time::Duration::from_millis(5);
/// Wake-ups in a row that move nothing are spinning from here on. A few happen: the kernel announces an end that was
/// read already, or names are resolved anew.
const IN_VAIN: u32 = 64;
/// When a connection has proved not to be a short one, and its backend's socket gets the options that only matter
/// from then on: keep-alive and the user timeout.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(1);

/// A relay at work.
pub(crate) struct Relay {
    session: Box<dyn Session>,
    backend: Stream,
    /// Counts the connection at its endpoint, until it ends.
    _in_use: InUse,
    /// Decrypted and not yet taken by the backend.
    to_backend: Vec<u8>,
    /// The client has said close_notify: its direction ends in order.
    client_done: bool,
    /// … or has not, and its FIN was taken for that.
    unsaid: bool,
    /// The client has spoken since the backend last did.
    unanswered: bool,
    /// … and the backend has been told so.
    backend_told: bool,
    /// The backend has ended its direction …
    backend_done: bool,
    /// … and had done so before the client did.
    backend_first: bool,
    /// … and the client has been told so by close_notify.
    client_told: bool,
    /// Until when tickets wait for company; NEVER when none are held.
    hold: Moment,
    /// Whether the backend has been written to before.
    backend_written: bool,
    /// Whether Nagle's algorithm is still on towards the backend.
    delays: bool,
    /// Why the backend takes nothing more, while its last words are still passed on.
    refused: Option<CloseReason>,
    /// When the socket options of longer connections are set; NEVER once they are.
    settle: Moment,
    /// When a byte last moved.
    progress: Moment,
    /// When it was last looked whether the client has acknowledged everything …
    looked: Moment,
    /// … and the bytes that it had not, then.
    unacknowledged: usize,
    began: Moment,
}

/// Whether a step moved anything.
type Moved = Result<bool, CloseReason>;

impl Relay {
    /// What is to be carried between a client and the backend that was found for it.
    pub(crate) fn new(connection: &mut Connection, secured: Secured, connected: Connected) -> Self {
        let now = Moment::now();
        let Connected { backend, sent, in_use } = connected;
        // What the backend has taken is not kept, nor its room.
        let to_backend = secured.plaintext[sent..].to_vec();
        count_to_backend(connection, sent);
        Self {
            session: secured.session,
            backend,
            _in_use: in_use,
            to_backend,
            client_done: secured.client_closed,
            unsaid: false,
            unanswered: !secured.plaintext.is_empty(),
            backend_told: false,
            backend_done: false,
            backend_first: false,
            client_told: false,
            hold: if connection.outgoing.is_empty() { Moment::NEVER } else { now + TICKET_DELAY },
            backend_written: sent > 0,
            delays: true,
            refused: None,
            settle: now + SETTLED,
            progress: now,
            looked: now,
            unacknowledged: 0,
            began: now,
        }
    }

    /// Carries bytes until the connection ends; why it did.
    pub(crate) async fn run(&mut self, connection: &mut Connection) -> CloseReason {
        let reason = match self.carry(connection).await {
            Ok(()) => self.finished(),
            Err(reason) => self.last_words(connection, reason),
        };
        connection.record.seconds.relay = Moment::now().since(self.began);
        reason
    }

    /// What `close.rs` has to end.
    pub(crate) fn leftover(self) -> Leftover {
        Leftover { backend: self.backend, unsent: self.to_backend }
    }

    async fn carry(&mut self, connection: &mut Connection) -> Result<(), CloseReason> {
        // It cannot have answered yet: asking would be a call for nothing.
        self.backend.expect_later().map_err(|fault| fault_of(Side::Backend, &fault))?;
        let mut woken = false;
        let mut in_vain = 0;
        loop {
            let mut rounds = 0;
            while rounds < ROUNDS && self.turn(connection)? {
                rounds += 1;
                if self.is_finished(connection) {
                    return Ok(());
                }
            }
            if rounds > 0 {
                self.progress = Moment::now();
                in_vain = 0;
            } else if woken {
                in_vain += 1;
                // Counted where people depend on it, and an error where it is tested: see invariant 5.
                debug_assert!(in_vain < IN_VAIN, "the relay was woken {in_vain} times and moved nothing");
                connection.record.idle_turns = connection.record.idle_turns.saturating_add(1);
                connection.thread.metrics.spurious(1);
            }
            if rounds == ROUNDS {
                yield_now().await;
                woken = false;
                continue;
            }
            woken = self.pause(connection).await? == Woken::Event;
        }
    }

    /// One round of both directions.
    fn turn(&mut self, connection: &mut Connection) -> Moved {
        let thread = Rc::clone(&connection.thread);
        let scratch = &mut *thread.scratch.borrow_mut();
        let up = self.client_to_backend(connection, scratch)?;
        let down = self.backend_to_client(connection, scratch)?;
        Ok(up || down)
    }

    /// Both directions have ended and everything has been delivered to the kernel.
    fn is_finished(&self, connection: &Connection) -> bool {
        self.backend_told && self.client_told && self.to_backend.is_empty() && connection.outgoing.is_empty()
    }

    /// Both directions have ended in order; by whom first.
    fn finished(&self) -> CloseReason {
        let side = if self.backend_first { Side::Backend } else { Side::Client };
        let reason = CloseReason::new(Step::Relay, side, Cause::Finished);
        if self.unsaid {
            reason.because("the client's FIN without close_notify was taken for its end")
        } else {
            reason
        }
    }

    /// Waits until something may move, and sees to the limits.
    async fn pause(&mut self, connection: &mut Connection) -> Result<Woken, CloseReason> {
        let (limit, limit_cause) = self.limit(connection);
        let woken = connection.wait(Step::Relay, limit.min(self.hold).min(self.settle)).await?;
        self.look_for_faults(connection)?;
        if woken == Woken::Event {
            return Ok(woken);
        }
        let now = Moment::now();
        if now >= limit {
            self.limit_reached(connection, limit_cause, now)?;
        }
        if now >= self.settle {
            self.settle(connection);
        }
        Ok(woken)
    }

    /// A peer that is gone is noticed even while nobody reads from it. Where something is still read, reading tells:
    /// what the peer sent before comes first.
    fn look_for_faults(&mut self, connection: &mut Connection) -> Result<(), CloseReason> {
        let client_unread = self.client_done || self.refused.is_some() || !self.to_backend.is_empty();
        match connection.client.check() {
            Err(fault) if client_unread => return Err(fault_of(Side::Client, &fault)),
            _ => {}
        }
        match self.backend.check() {
            Err(fault) if self.backend_done => Err(fault_of(Side::Backend, &fault)),
            _ => Ok(()),
        }
    }

    /// A client that broke off may have said why: its alert is in what it sent before.
    fn last_words(&mut self, connection: &mut Connection, reason: CloseReason) -> CloseReason {
        let broke_off = reason.side == Side::Client
            && matches!(reason.cause, Cause::Socket(SocketCause::Reset) | Cause::CLOSED_EARLY);
        if !broke_off || self.client_done || !self.to_backend.is_empty() || self.refused.is_some() {
            return reason;
        }
        let thread = Rc::clone(&connection.thread);
        let scratch = &mut *thread.scratch.borrow_mut();
        match self.client_to_backend(connection, scratch) {
            Err(said) if said.cause == Cause::Alert => said,
            _ => reason,
        }
    }

    /// The earliest of the limits on silence and age, and what it is called.
    fn limit(&self, connection: &Connection) -> (Moment, Cause) {
        let limits = &connection.service.limits;
        let half_closed = self.client_done || self.backend_done;
        let (silence, cause) = if half_closed {
            (limits.half_closed, Cause::HalfClosedIdle)
        } else {
            (limits.idle, Cause::Idle)
        };
        let mut first = (self.progress.deadline(silence), cause);
        let age = (connection.accepted.deadline(limits.lifetime), Cause::Lifetime);
        if age.0 < first.0 {
            first = age;
        }
        if self.waits_for_nothing_but_the_client(connection) {
            let ended = self.progress.max(self.looked).deadline(limits.backend_ended);
            if ended < first.0 {
                first = (ended, Cause::BackendEnded);
            }
        }
        first
    }

    /// The backend has ended, the client has been told, and everything that it sent has been passed on.
    fn waits_for_nothing_but_the_client(&self, connection: &Connection) -> bool {
        let nothing_waits = connection.outgoing.is_empty() && self.to_backend.is_empty();
        self.client_told && !self.client_done && nothing_waits && self.session.kept().is_empty()
    }

    /// What a limit that has passed means: an end, unless it turns out that the client is still receiving.
    ///
    /// The kernel does not say at its FIN whether a backend has closed or may still be sent to; a reset would tell, but
    /// comes only when something is sent. So its end is waited for by the clock.
    fn limit_reached(
        &mut self,
        connection: &Connection,
        cause: Cause,
        now: Moment,
    ) -> Result<(), CloseReason> {
        if cause != Cause::BackendEnded {
            return Err(CloseReason::new(Step::Relay, Side::Operator, cause));
        }
        let unacknowledged = connection.client.unsent();
        if unacknowledged == 0 {
            let limit = show_duration(connection.service.limits.backend_ended);
            let detail = format!("the client had everything, and nothing more came from it for {limit}");
            return Err(CloseReason::new(Step::Relay, Side::Backend, cause).because(detail));
        }
        if unacknowledged < self.unacknowledged {
            self.progress = now;
        }
        self.unacknowledged = unacknowledged;
        self.looked = now;
        Ok(())
    }

    /// The connection is here to stay.
    fn settle(&mut self, connection: &Connection) {
        self.settle = Moment::NEVER;
        if std::mem::take(&mut self.delays) {
            self.backend.no_delay();
        }
        self.backend.be_patient(connection.service.limits.patience());
    }
}

/// A way to write to a stream.
type Writing = fn(&mut Stream, &[u8]) -> Result<Write, Fault>;

/// Writes the beginning of `bytes` to the client and keeps the rest; whether anything moved.
fn write_client(connection: &mut Connection, bytes: &[u8], write: Writing) -> Moved {
    if bytes.is_empty() {
        return Ok(false);
    }
    match write(&mut connection.client, bytes) {
        Ok(Write::Bytes(written)) => {
            connection.outgoing.extend_from_slice(&bytes[written..]);
            Ok(true)
        }
        Ok(Write::Blocked) => {
            connection.outgoing.extend_from_slice(bytes);
            Ok(false)
        }
        Err(fault) => Err(fault_of(Side::Client, &fault)),
    }
}

/// Writes as much as possible of what is kept in `bytes`; whether anything moved. Gives its memory back when done.
fn flush(stream: &mut Stream, bytes: &mut Vec<u8>, side: Side) -> Result<usize, CloseReason> {
    match stream.try_write(bytes) {
        Ok(Write::Bytes(written)) if written == bytes.len() => {
            *bytes = Vec::new();
            Ok(written)
        }
        Ok(Write::Bytes(written)) => {
            bytes.drain(..written);
            Ok(written)
        }
        Ok(Write::Blocked) => Ok(0),
        Err(fault) => Err(fault_of(side, &fault)),
    }
}

fn count_to_backend(connection: &mut Connection, bytes: usize) {
    connection.record.bytes_to_backend += bytes as u64;
    connection.service.metrics.bytes_to_backend(bytes as u64);
}

fn fault_of(side: Side, fault: &Fault) -> CloseReason {
    CloseReason::fault(Step::Relay, side, fault)
}
