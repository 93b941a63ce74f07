//! Step 6, relay: bytes both ways, exactly, until both directions have ended or one has broken.
//!
//! In: a leg to the client and one to the backend. Out: why it ended; the legs are for `close.rs`.
//!
//! `handfast-leg` moves bytes from one leg to the other. This file adds what a connection needs: whose turn it is, timeouts for silence,
//! counters, and the meaning of a broken leg.

mod delivered;

use std::time::Duration;

use handfast_leg::{Broken, Leg, Progress, Socket, relay};
use handfast_net::clock::Moment;
use handfast_net::engine::Woken;
use handfast_text::duration;
use handfast_wire::farewell;

use crate::backends::connector::Connected;
use crate::backends::endpoint::InUse;
use crate::path::account::Account;
use crate::path::connect::ConnectedBackend;
use crate::path::connection::Connection;
use handfast_config::model::MissingCloseNotify;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

/// Rounds that one connection may go on before the others of its thread have their turn: 1 MiB of bulk.
const MAX_ROUNDS: u32 = 16;
/// Limit for what a client sent before it was gone, while its backend takes nothing.
const CLIENT_GONE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which tickets wait for the first data, to be sent with it.
pub(super) const TICKET_DELAY: Duration = Duration::from_millis(5);
/// Wake-ups in a row that move nothing are spinning from here on. A few happen: the kernel announces an end that was
/// read already, or names are resolved again.
const SPIN_LIMIT: u32 = 64;
/// Age at which a connection is no longer a short one. Its backend's socket gets the options that only matter from then on: keep-alive and
/// the user timeout.
const SETTLED_AGE: Duration = Duration::from_secs(1);

/// A relay at work: what it adds to the two legs.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Counts the connection at its endpoint, until it ends.
    in_use: InUse,
    /// Since when the client has spoken and the backend has not; NEVER while it has.
    unanswered_since: Moment,
    /// The backend ended its direction before the client did.
    backend_first: bool,
    /// Bytes that the backend had sent when the client ended with its answer; WAITING until then.
    received_at_end: u64,
    /// The socket options of longer connections are set.
    is_settled: bool,
    /// Time of the last check that the client has acknowledged everything …
    looked: Moment,
    /// … and the number of bytes that it had not, then.
    unacknowledged: u32,
    began: Moment,
}

struct Parts<'a, S> {
    account: &'a mut Account,
    client: &'a mut Leg<S>,
    backend: &'a mut Leg<S>,
    /// Time of the last byte that moved.
    progress: &'a mut Moment,
}

impl<'a, S> Parts<'a, S> {
    fn of<R: Runtime<Socket = S>>(connection: &'a mut Connection<R>) -> Self {
        let Connection { account, client, backend, progress, .. } = connection;
        let client = client.as_mut().expect("taken by close.rs alone, after every other step");
        let backend = backend.as_mut().expect("put there before the relay begins");
        Self { account, client, backend, progress }
    }
}

impl<S: Socket> Parts<'_, S> {
    /// Counts what has moved since it was called last.
    fn count(&mut self) {
        let (to_backend, to_client) = (self.backend.sent(), self.client.sent());
        let Account { service, record, open, .. } = &mut *self.account;
        open.bytes_to_backend.set(to_backend);
        open.bytes_to_client.set(to_client);
        if to_backend != record.bytes_to_backend {
            service.metrics.bytes_to_backend(to_backend - record.bytes_to_backend);
            record.bytes_to_backend = to_backend;
        }
        if to_client != record.bytes_to_client {
            service.metrics.bytes_to_client(to_client - record.bytes_to_client);
            record.bytes_to_client = to_client;
        }
    }
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
        if leg.is_secured() {
            // The rest of the handshake is sent with the client's first bytes, if they are there, or else at once.
            leg.hold(now);
        }
        connection.backend = Some(leg);
        let Parts { account, client, backend, progress } = Parts::of(connection);
        *progress = now;
        client.hold(now + TICKET_DELAY);
        client.outlive_refusal();
        if first.is_empty() {
            client.acknowledge_flight();
        }
        if account.service.model.missing_close_notify == MissingCloseNotify::End {
            client.be_lenient();
        }
        let mut relay = Self {
            in_use,
            unanswered_since: if first.is_empty() { Moment::NEVER } else { now },
            backend_first: false,
            received_at_end: delivered::WAITING,
            is_settled: false,
            looked: now,
            unacknowledged: 0,
            began: now,
        };
        // Bytes that either side had sent when the handshake with the backend was done.
        let records = &mut account.thread.scratch.borrow_mut().records;
        let broken = |broken: Broken| CloseReason::broken(Step::Relay, &broken);
        if given < first.len() {
            backend.write(&first[given..], records).map_err(broken)?;
        }
        if !spoken.is_empty() {
            client.write(&spoken, records).map_err(broken)?;
            relay.unanswered_since = Moment::NEVER;
        }
        Ok(relay)
    }

    /// Carries bytes until the connection ends, and returns the close reason.
    pub(crate) async fn run<R: Runtime>(&mut self, connection: &mut Connection<R>) -> CloseReason {
        let outcome = self.carry(connection).await;
        let mut parts = Parts::of(connection);
        let reason = outcome.map_or_else(|reason| reason, |()| self.finished(&parts));
        // An iteration that broke a leg may have moved bytes before.
        parts.count();
        parts.account.record.seconds.relay = R::now().since(self.began);
        reason
    }

    async fn carry<R: Runtime>(&mut self, connection: &mut Connection<R>) -> Result<(), CloseReason> {
        // It cannot have answered yet: asking would be a call for nothing. One that speaks TLS has, and may have sent tickets.
        let fault = |fault| CloseReason::fault(Step::Relay, Side::Backend, &fault);
        let Parts { backend, .. } = Parts::of(connection);
        if !backend.is_secured() {
            backend.socket_mut().expect_later().map_err(fault)?;
        }
        let mut woken = false;
        let mut in_vain = 0;
        loop {
            // Given back before the wait: what is borrowed in a task takes room in it.
            let rounds = {
                let mut parts = Parts::of(connection);
                let mut rounds = 0;
                while rounds < MAX_ROUNDS {
                    match self.turn::<R>(&mut parts)? {
                        Progress::Blocked => break,
                        Progress::Moved => rounds += 1,
                        Progress::Finished => return Ok(()),
                    }
                }
                parts.count();
                let Parts { account, progress, .. } = parts;
                if rounds > 0 {
                    *progress = R::now();
                    account.thread.record_carried(self.began, *progress);
                    in_vain = 0;
                } else if woken {
                    in_vain += 1;
                    // Counted where people depend on it, and an error where it is tested: see invariant 5.
                    debug_assert!(
                        in_vain < SPIN_LIMIT,
                        "the relay was woken {in_vain} times without progress"
                    );
                    account.record.idle_turns = account.record.idle_turns.saturating_add(1);
                    account.thread.metrics.spurious(1);
                }
                rounds
            };
            if rounds == MAX_ROUNDS {
                R::yield_now().await;
                // It woke itself: if nothing moves then, that is no spurious wake.
                woken = false;
                continue;
            }
            woken = self.pause(connection).await? == Woken::Event;
        }
    }

    fn turn<R: Runtime>(&mut self, parts: &mut Parts<'_, R::Socket>) -> Result<Progress, CloseReason> {
        let Parts { account, client, backend, progress } = parts;
        let before = (client.received(), backend.received());
        let had_ended = client.has_ended();
        // The clock matters only to what waits for company, which is rarely anything.
        let now = if alarm(client, backend) == Moment::NEVER { **progress } else { R::now() };
        let outcome = {
            let scratch = &mut *account.thread.scratch.borrow_mut();
            relay::turn(client, backend, scratch, now)
                .map_err(|broken| relay::better_reason(client, backend, broken, scratch, now))
        };
        // In the order in which the directions are served.
        if client.received() != before.0 && !self.is_unanswered() {
            self.unanswered_since = R::turn();
        }
        if client.has_ended() && !had_ended {
            self.client_ended(account, before.1);
        }
        if backend.received() != before.1 && self.is_unanswered() {
            self.in_use.answered(R::turn().since(self.unanswered_since));
            self.unanswered_since = Moment::NEVER;
        }
        if backend.has_ended() && !client.has_ended() {
            self.backend_first = true;
            if self.is_exchange_over(account, client, backend) {
                client.end_behind_close_notify();
            }
        }
        outcome.map_err(|broken| self.reason(parts, &broken))
    }

    /// Returns true if the client is unlikely to send anything after its backend's end, and gets a FIN with it. There are clients that return
    /// at the FIN alone, and clients that send nothing more after one.
    fn is_exchange_over<S: Socket>(&self, account: &Account, client: &Leg<S>, backend: &Leg<S>) -> bool {
        // RFC 5246 §7.2.1: its answer is its own end, and what it had to send is dropped.
        let is_tls12 = account.record.tls.version == Some("TLSv1.2");
        let is_answered = backend.received() > 0 && !self.is_unanswered();
        is_tls12 || is_answered || farewell::last_message(client.last_received()).is_some()
    }

    /// The time to set the socket options of longer connections; NEVER once they are.
    fn settles_at(&self) -> Moment {
        if self.is_settled { Moment::NEVER } else { self.began + SETTLED_AGE }
    }

    /// The client has spoken since the backend last did.
    fn is_unanswered(&self) -> bool {
        self.unanswered_since != Moment::NEVER
    }

    /// Returns the close reason for a broken leg.
    fn reason<S: Socket>(&self, parts: &Parts<'_, S>, broken: &Broken) -> CloseReason {
        self.judge(parts, broken).unwrap_or_else(|| CloseReason::broken(Step::Relay, broken))
    }

    /// Both directions have ended cleanly; which side first.
    fn finished<S: Socket>(&self, parts: &Parts<'_, S>) -> CloseReason {
        let Parts { client, backend, .. } = parts;
        let side = if self.backend_first { Side::Backend } else { Side::Client };
        let reason = CloseReason::new(Step::Relay, side, Cause::Finished);
        match (client.ended_without_close_notify(), backend.ended_without_close_notify()) {
            (true, true) => reason.because("both sides' FIN without close_notify were taken for their ends"),
            (true, false) => reason.because("the client's FIN without close_notify was taken for its end"),
            (false, true) => reason.because("the backend's FIN without close_notify was taken for its end"),
            (false, false) => match delivered::refused_login(parts) {
                Some(why) => reason.because(why),
                None => reason,
            },
        }
    }

    /// Waits until something may move, and applies the limits.
    async fn pause<R: Runtime>(&mut self, connection: &mut Connection<R>) -> Result<Woken, CloseReason> {
        let (limit, limit_cause, until) = {
            let accepted = connection.accepted;
            let parts = Parts::of(connection);
            let (limit, cause) = self.limit(&parts, accepted);
            (limit, cause, limit.min(alarm(parts.client, parts.backend)).min(self.settles_at()))
        };
        let woken = connection.wait(Step::Relay, until).await?;
        let mut parts = Parts::of(connection);
        // Before the limits: a peer that broke off in the same iteration is the reason, and not the clock.
        if let Err(broken) = relay::check(parts.client, parts.backend) {
            let scratch = &mut parts.account.thread.scratch.borrow_mut();
            let broken = relay::better_reason(parts.client, parts.backend, broken, scratch, R::now());
            return Err(self.reason(&parts, &broken));
        }
        if woken == Woken::Event {
            return Ok(woken);
        }
        let now = R::now();
        if now >= limit {
            self.limit_reached(&mut parts, limit_cause, now)?;
        }
        if now >= self.settles_at() {
            // The connection is here to stay.
            self.is_settled = true;
            parts.backend.no_delay();
            parts.backend.socket().set_timeouts(parts.account.service.model.limits.socket_timeouts());
        }
        Ok(woken)
    }

    /// The earliest of the limits on silence and age, and what it is called.
    fn limit<S: Socket>(&self, parts: &Parts<'_, S>, accepted: Moment) -> (Moment, Cause) {
        let Parts { account, client, backend, progress } = parts;
        let progress = **progress;
        let limits = &account.service.model.limits;
        let (silence, cause) = if client.has_ended() || backend.has_ended() {
            (limits.half_closed, Cause::HalfClosedIdle)
        } else {
            (limits.idle, Cause::Idle)
        };
        let mut first = (progress.deadline(silence), cause);
        let age = (accepted.deadline(limits.lifetime), Cause::Lifetime);
        if age.0 < first.0 {
            first = age;
        }
        if client.refuses() {
            let gone = (progress + CLIENT_GONE_TIMEOUT, Cause::Truncated);
            first = if gone.0 < first.0 { gone } else { first };
        }
        if waits_for_nothing_but(client, backend) {
            let ended = progress.max(self.looked).deadline(limits.backend_ended);
            if ended < first.0 {
                first = (ended, Cause::BackendEnded);
            }
        }
        first
    }

    /// Handles a limit that has passed: the connection ends, unless the client turns out to be still receiving.
    ///
    /// At its FIN the kernel does not show if a backend has closed or may still be sent to. A reset would show it, but comes only when
    /// something is sent. So the end of the connection is left to the clock.
    fn limit_reached<S: Socket>(
        &mut self,
        parts: &mut Parts<'_, S>,
        cause: Cause,
        now: Moment,
    ) -> Result<(), CloseReason> {
        if let (Cause::Truncated, Some(refusal)) = (cause, parts.client.refusal()) {
            return Err(self.reason(parts, refusal));
        }
        let Parts { account, client, progress, .. } = parts;
        if cause != Cause::BackendEnded {
            return Err(CloseReason::new(Step::Relay, Side::Operator, cause));
        }
        let unacknowledged = u32::try_from(client.socket().unacknowledged()).unwrap_or(u32::MAX);
        if unacknowledged == 0 {
            let limit = duration::written(account.service.model.limits.backend_ended);
            let detail = format!("the client had everything, and nothing more came from it for {limit}");
            return Err(CloseReason::new(Step::Relay, Side::Backend, cause).because(detail));
        }
        if unacknowledged < self.unacknowledged {
            **progress = now;
        }
        self.unacknowledged = unacknowledged;
        self.looked = now;
        Ok(())
    }
}

/// Returns the time of the next action without a ready socket: bytes that were held back to be sent with others are then sent alone.
fn alarm<S: Socket>(client: &Leg<S>, backend: &Leg<S>) -> Moment {
    client.held_until().min(backend.held_until())
}

/// The backend has ended, the client has been notified, and everything that it sent has been passed on.
fn waits_for_nothing_but<S: Socket>(client: &Leg<S>, backend: &Leg<S>) -> bool {
    let nothing_waits = client.unsent() == 0 && backend.unsent() == 0;
    client.has_sent_close() && !client.has_ended() && nothing_waits && !client.is_in_a_record()
}
