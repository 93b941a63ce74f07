//! Step 6, relay: bytes both ways, exactly, until both directions have ended or one has broken.
//!
//! In: a leg to the client and one to the backend. Out: why it ended; the legs are for `close.rs`.
//!
//! How bytes go from one leg to the other is in `handfast-leg`. Here is what a connection adds to that: whose turn it is,
//! how long silence may last, what is counted, and what a broken leg means.

mod delivered;
mod limits;

use std::rc::Rc;

use handfast_leg::{Broken, Leg, Progress, Socket, relay};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;

use crate::backends::connector::Connected;
use crate::backends::endpoint::InUse;
use crate::path::account::Account;
use crate::path::connect::attempt::ConnectedBackend;
use crate::path::connection::Connection;
use handfast_config::model::MissingCloseNotify;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Rounds that one connection may go on before the others of its thread have their turn: 1 MiB of bulk.
const ROUNDS: u32 = 16;
/// How long tickets wait for the first data to ride on.
const TICKET_DELAY: std::time::Duration = std::time::Duration::from_millis(5);
/// Wake-ups in a row that move nothing are spinning from here on. A few happen: the kernel announces an end that was
/// read already, or names are resolved again.
const IN_VAIN: u32 = 64;
/// When a connection has proved not to be a short one, and its backend's socket gets the options that only matter
/// from then on: keep-alive and the user timeout.
const SETTLED: std::time::Duration = std::time::Duration::from_secs(1);

/// A relay at work: what it adds to the two legs.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Counts the connection at its endpoint, until it ends.
    in_use: InUse,
    /// Since when the client has spoken and the backend has not; NEVER while it has.
    asked: Moment,
    /// The backend ended its direction before the client did.
    backend_first: bool,
    /// Bytes that the backend had sent when the client ended with its answer; WAITING until then.
    received_at_end: u64,
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

impl Relay {
    /// Begins to carry between a client and the backend that was found for it; `first` are the client's first bytes.
    ///
    /// **Errors**: a leg that breaks at once.
    pub(crate) fn begin<R: Runtime>(
        connection: &mut Connection<R>,
        first: &[u8],
        backend: ConnectedBackend<R::Socket>,
    ) -> Result<Self, CloseReason> {
        let now = R::now();
        let ConnectedBackend { connected: Connected { mut leg, given, spoken }, in_use } = backend;
        let service = Rc::clone(&connection.account.service);
        let client = connection.client();
        client.hold(now + TICKET_DELAY);
        if service.missing_close_notify == MissingCloseNotify::End {
            client.be_lenient();
        }
        let is_secured = leg.is_secured();
        if is_secured {
            // What is left of the handshake goes with the client's first bytes, if they are there, or else at once.
            leg.hold(now);
        }
        connection.backend = Some(leg);
        let mut relay = Self {
            in_use,
            asked: if first.is_empty() { Moment::NEVER } else { now },
            backend_first: false,
            received_at_end: delivered::WAITING,
            settle: now + SETTLED,
            progress: now,
            looked: now,
            unacknowledged: 0,
            began: now,
        };
        if given < first.len() || !spoken.is_empty() {
            relay.pass_on_what_came(connection, &first[given..], &spoken)?;
        }
        Ok(relay)
    }

    /// What either side had said when the handshake with the backend was done.
    fn pass_on_what_came<R: Runtime>(
        &mut self,
        connection: &mut Connection<R>,
        first: &[u8],
        spoken: &[u8],
    ) -> Result<(), CloseReason> {
        let thread = Rc::clone(&connection.account.thread);
        let records = &mut thread.scratch.borrow_mut().records;
        let broken = |broken: Broken| CloseReason::broken(Step::Relay, &broken);
        let (client, backend) = connection.legs();
        if !first.is_empty() {
            backend.write(first, records).map_err(broken)?;
        }
        if !spoken.is_empty() {
            client.write(spoken, records).map_err(broken)?;
            self.asked = Moment::NEVER;
        }
        Ok(())
    }

    /// Carries bytes until the connection ends; why it did.
    pub(crate) async fn run<R: Runtime>(&mut self, connection: &mut Connection<R>) -> CloseReason {
        let reason = match self.carry(connection).await {
            Ok(()) => self.finished(connection),
            Err(reason) => reason,
        };
        // A turn that broke a leg may have moved bytes before.
        self.count(connection);
        connection.account.record.seconds.relay = R::now().since(self.began);
        reason
    }

    async fn carry<R: Runtime>(&mut self, connection: &mut Connection<R>) -> Result<(), CloseReason> {
        // It cannot have answered yet: asking would be a call for nothing. One that speaks TLS has, and may have sent tickets.
        let fault = |fault| CloseReason::fault(Step::Relay, Side::Backend, &fault);
        let backend = connection.legs().1;
        if !backend.is_secured() {
            backend.socket_mut().expect_later().map_err(fault)?;
        }
        let mut woken = false;
        let mut in_vain = 0;
        loop {
            let mut rounds = 0;
            while rounds < ROUNDS {
                match self.turn(connection)? {
                    Progress::Blocked => break,
                    Progress::Moved => rounds += 1,
                    Progress::Finished => return Ok(()),
                }
            }
            self.count(connection);
            if rounds > 0 {
                self.progress = R::now();
                connection.account.thread.carries(self.began, self.progress);
                in_vain = 0;
            } else if woken {
                in_vain += 1;
                // Counted where people depend on it, and an error where it is tested: see invariant 5.
                debug_assert!(in_vain < IN_VAIN, "the relay was woken {in_vain} times and moved nothing");
                connection.account.record.idle_turns = connection.account.record.idle_turns.saturating_add(1);
                connection.account.thread.metrics.spurious(1);
            }
            if rounds == ROUNDS {
                R::yield_now().await;
                // It woke itself: if nothing moves then, that is no spurious wake.
                woken = false;
                continue;
            }
            woken = self.pause(connection).await? == Woken::Event;
        }
    }

    /// One round of both directions.
    fn turn<R: Runtime>(&mut self, connection: &mut Connection<R>) -> Result<Progress, CloseReason> {
        let thread = Rc::clone(&connection.account.thread);
        let scratch = &mut *thread.scratch.borrow_mut();
        let (client, backend) = connection.legs();
        let before = (client.received(), backend.received());
        let had_ended = client.has_ended();
        // The clock matters only to what waits for company, which is rarely anything.
        let now = if alarm(client, backend) == Moment::NEVER { self.progress } else { R::now() };
        let outcome = relay::turn(client, backend, scratch, now)
            .map_err(|broken| relay::better_reason(client, backend, broken, scratch, now));
        // In the order in which the directions are served.
        if client.received() != before.0 && !self.is_unanswered() {
            self.asked = R::turn();
        }
        if client.has_ended() && !had_ended {
            self.client_ended(connection, before.1);
        }
        let (client, backend) = connection.legs();
        if backend.received() != before.1 && self.is_unanswered() {
            self.in_use.answered(R::turn().since(self.asked));
            self.asked = Moment::NEVER;
        }
        self.backend_first |= backend.has_ended() && !client.has_ended();
        outcome.map_err(|broken| self.reason(connection, &broken))
    }

    /// The client has spoken since the backend last did.
    fn is_unanswered(&self) -> bool {
        self.asked != Moment::NEVER
    }

    /// What a broken leg means for the connection.
    fn reason<R: Runtime>(&self, connection: &mut Connection<R>, broken: &Broken) -> CloseReason {
        self.judge(connection, broken).unwrap_or_else(|| CloseReason::broken(Step::Relay, broken))
    }

    /// Counts what has moved since it was asked last.
    fn count<R: Runtime>(&self, connection: &mut Connection<R>) {
        let (client, backend) = connection.legs();
        let (to_backend, to_client) = (backend.sent(), client.sent());
        let Account { service, record, .. } = &mut connection.account;
        if to_backend != record.bytes_to_backend {
            service.metrics.bytes_to_backend(to_backend - record.bytes_to_backend);
            record.bytes_to_backend = to_backend;
        }
        if to_client != record.bytes_to_client {
            service.metrics.bytes_to_client(to_client - record.bytes_to_client);
            record.bytes_to_client = to_client;
        }
    }

    /// Both directions have ended cleanly; which side first.
    fn finished<R: Runtime>(&self, connection: &mut Connection<R>) -> CloseReason {
        let side = if self.backend_first { Side::Backend } else { Side::Client };
        let reason = CloseReason::new(Step::Relay, side, Cause::Finished);
        let (client, backend) = connection.legs();
        match (client.ended_without_close_notify(), backend.ended_without_close_notify()) {
            (true, true) => reason.because("both sides' FIN without close_notify were taken for their ends"),
            (true, false) => reason.because("the client's FIN without close_notify was taken for its end"),
            (false, true) => reason.because("the backend's FIN without close_notify was taken for its end"),
            (false, false) => reason,
        }
    }

    /// Waits until something may move, and sees to the limits.
    async fn pause<R: Runtime>(&mut self, connection: &mut Connection<R>) -> Result<Woken, CloseReason> {
        let (limit, limit_cause) = self.limit(connection);
        let (client, backend) = connection.legs();
        let until = limit.min(alarm(client, backend)).min(self.settle);
        let woken = connection.wait(Step::Relay, until).await?;
        // Before the limits: a peer that broke off in the same turn is the reason, and not the clock.
        self.look_for_faults(connection)?;
        if woken == Woken::Event {
            return Ok(woken);
        }
        let now = R::now();
        if now >= limit {
            self.limit_reached(connection, limit_cause, now)?;
        }
        if now >= self.settle {
            self.settle(connection);
        }
        Ok(woken)
    }

    fn look_for_faults<R: Runtime>(&mut self, connection: &mut Connection<R>) -> Result<(), CloseReason> {
        let (client, backend) = connection.legs();
        let Err(broken) = relay::check(client, backend) else { return Ok(()) };
        let thread = Rc::clone(&connection.account.thread);
        let scratch = &mut *thread.scratch.borrow_mut();
        let (client, backend) = connection.legs();
        let broken = relay::better_reason(client, backend, broken, scratch, R::now());
        Err(self.reason(connection, &broken))
    }

    /// The connection is here to stay.
    fn settle<R: Runtime>(&mut self, connection: &mut Connection<R>) {
        self.settle = Moment::NEVER;
        let timeouts = connection.account.service.limits.socket_timeouts();
        let (_, backend) = connection.legs();
        backend.no_delay();
        backend.socket().set_timeouts(timeouts);
    }
}

/// When something is to be done even if no socket becomes ready: what waits for company goes alone.
fn alarm<S: Socket>(client: &Leg<S>, backend: &Leg<S>) -> Moment {
    client.held_until().min(backend.held_until())
}
