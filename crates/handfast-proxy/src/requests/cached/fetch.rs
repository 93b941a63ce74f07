//! A request that the cache forwards: its response is stored, or it confirms what is stored, or it is for the client alone.
//!
//! In: what the backend answers, in the place of the client. Out: the same for the client, if it is not stored; else content for the cache, from
//! which the client is served as all others are. So no client that reads slowly delays another one.

use std::sync::Arc;
use std::task::Waker;

use handfast_cache::{Filler, Hit, Key, OriginFailure, Policy, Times, is_error};
use handfast_http::http1::{Field, Framing, Method, OwnedRequest, ResponseHead};
use handfast_leg::READ;
use handfast_leg::runtime::Runtime;
use handfast_observe::cause::Cause;
use handfast_observe::reason::{CloseReason, Side, Step};

use crate::backends::connector::Cancellation;
use crate::cache::OpenCache;
use crate::requests::cached::text::now_ms;
use crate::requests::client::{After, Client};
use crate::requests::decide::cache_plan::WHOLE;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::head::content::{Io, Output, Sink, Source};
use crate::requests::head::fault::Fault;

/// Data of a request that is fetched for the cache.
pub(super) struct Order {
    pub(super) cache: Arc<OpenCache>,
    pub(super) key: Key,
    pub(super) policy: Policy,
    /// The head that was looked up.
    pub(super) original: Arc<OwnedRequest>,
    /// Stored response, which is stale.
    pub(super) stale: Option<Hit>,
    pub(super) requested_ms: u64,
}

/// Outcome of the fetch.
#[derive(Default)]
pub(super) enum FetchOutcome {
    /// Nothing yet.
    #[default]
    Nothing,
    /// A response for the client alone, or an error.
    Passed,
    /// It is stored, or about to be.
    Stored(Hit),
    /// The stored response is confirmed.
    Confirmed(Hit),
    /// The backend failed, and the stored response may be served.
    StaleOnError(Hit),
    /// The object is large, and the client wants a part of it: that part alone is to be requested.
    TooLargeForAPart,
}

/// The client of a request that the cache forwards.
pub(super) struct Fetch<'c, C> {
    client: &'c mut C,
    pub(super) order: Order,
    /// `None`: nothing is stored; or all of it is.
    pub(super) filler: Option<Filler>,
    pub(super) outcome: FetchOutcome,
    /// No client waits for its content.
    is_behind: bool,
    has_range: bool,
    /// Content that waits for the disk.
    pending: Vec<u8>,
    has_end: bool,
    /// Wakes the task that carries it.
    waker: Waker,
}

impl<'c, C: Client> Fetch<'c, C> {
    /// `is_behind`: no client waits for its content.
    pub(super) fn new<R: Runtime>(
        client: &'c mut C,
        order: Order,
        filler: Option<Filler>,
        is_behind: bool,
    ) -> Self {
        let has_range = !is_behind && order.original.head().values("range").next().is_some();
        let (outcome, pending) = (FetchOutcome::Nothing, Vec::new());
        let waker = R::waker();
        Self { client, order, filler, outcome, is_behind, has_range, pending, has_end: false, waker }
    }

    /// Takes the rest of a response whose head was taken.
    pub(super) fn rest<R: Runtime>(client: &'c mut C, order: Order, filler: Filler, hit: Hit) -> Self {
        Self { outcome: FetchOutcome::Stored(hit), ..Self::new::<R>(client, order, Some(filler), true) }
    }

    fn is_passed(&self) -> bool {
        matches!(self.outcome, FetchOutcome::Passed | FetchOutcome::Nothing)
    }

    /// Returns true if other requests wait for the response: then it is fetched though its own client leaves, or each of them would fetch it.
    fn is_awaited(&self) -> bool {
        matches!(self.outcome, FetchOutcome::Nothing)
            && self.filler.as_ref().is_some_and(Filler::has_followers)
    }

    fn judge(&mut self, head: &ResponseHead<'_>) -> FetchOutcome {
        let Order { cache, key, policy, original, stale, requested_ms } = &self.order;
        let times = Times { requested_ms: *requested_ms, received_ms: now_ms() };
        let lookup_head = &original.head();
        let Some(mut filler) = self.filler.take() else {
            cache.observe(key, lookup_head, head, policy, times);
            return FetchOutcome::Passed;
        };
        match stale {
            Some(stale) if head.status == 304 => {
                let hit = cache.unchanged(stale, lookup_head, head, policy, times);
                filler.restart_followers();
                return FetchOutcome::Confirmed(hit);
            }
            Some(stale)
                if is_error(head.status)
                    && stale.stored().serves_on_error(
                        lookup_head,
                        policy,
                        times.received_ms,
                        OriginFailure::Status,
                    ) =>
            {
                return FetchOutcome::StaleOnError(stale.clone());
            }
            _ => {}
        }
        let is_large = || matches!(head.framing(Method::GET), Framing::Length(size) if size > WHOLE);
        if self.has_range && head.status == 200 && is_large() {
            filler.alone();
            return FetchOutcome::TooLargeForAPart;
        }
        match filler.head(lookup_head, head, policy, times) {
            Ok(hit) => {
                if self.is_behind {
                    // No client reads it.
                    drop(hit.reader(0..0));
                }
                self.filler = Some(filler);
                FetchOutcome::Stored(hit)
            }
            Err(_) => FetchOutcome::Passed,
        }
    }

    /// Gives waiting content to the cache; returns true if none waits any more.
    ///
    /// **Errors**: it is neither stored nor read.
    fn put_pending(&mut self) -> Result<bool, Fault> {
        let Some(filler) = &mut self.filler else { return Ok(true) };
        if !self.pending.is_empty() {
            if filler.poll_put(&self.pending, &self.waker).is_pending() {
                return Ok(false);
            }
            self.pending.clear();
            if filler.is_over() {
                let reason = CloseReason::new(Step::Relay, Side::Local, Cause::Internal);
                return Err(Fault::gone(reason.because("no client needs the response any more")));
            }
        }
        if self.has_end
            && let Some(filler) = self.filler.take()
        {
            filler.end();
        }
        Ok(true)
    }
}

impl<C: Client> Source for Fetch<'_, C> {
    fn pump(&mut self, to: &mut dyn Sink, io: &mut Io<'_>) -> Result<bool, Fault> {
        self.client.pump(to, io)
    }

    fn has_ended(&self) -> bool {
        self.client.has_ended()
    }
}

impl<C: Client> Sink for Fetch<'_, C> {
    fn accepts(&mut self, io: &mut Io<'_>) -> Result<bool, Fault> {
        if self.is_passed() { self.client.accepts(io) } else { self.put_pending() }
    }

    fn room(&self) -> usize {
        if self.is_passed() { self.client.room() } else { READ }
    }

    fn put(&mut self, data: &[u8], output: &mut Output<'_>) -> Result<(), Fault> {
        if self.is_passed() {
            return self.client.put(data, output);
        }
        if self.filler.is_some() {
            self.pending.extend_from_slice(data);
        }
        Ok(())
    }

    fn put_end(&mut self, text: &[u8], trailers: &[Field], output: &mut Output<'_>) -> Result<(), Fault> {
        if self.is_passed() {
            return self.client.put_end(text, trailers, output);
        }
        self.has_end = true;
        if self.pending.is_empty()
            && let Some(filler) = self.filler.take()
        {
            filler.end();
        }
        Ok(())
    }

    fn flush(&mut self, output: &mut Output<'_>) -> Result<(), Fault> {
        if self.is_passed() { self.client.flush(output) } else { Ok(()) }
    }

    fn is_done(&self) -> bool {
        if self.is_passed() { self.client.is_done() } else { self.has_end && self.filler.is_none() }
    }
}

impl<C: Client> Cancellation for Fetch<'_, C> {
    fn before_wait(&mut self) -> Result<(), CloseReason> {
        let waits = self.client.before_wait();
        if self.is_awaited() { Ok(()) } else { waits }
    }

    fn after_wait(&mut self) -> Result<(), CloseReason> {
        let waits = self.client.after_wait();
        if self.is_awaited() { Ok(()) } else { waits }
    }
}

impl<C: Client> Client for Fetch<'_, C> {
    fn put_head(
        &mut self,
        head: &ResponseHead<'_>,
        request: &Request,
        after: After,
        output: &mut Output<'_>,
    ) {
        if !head.is_interim() {
            self.outcome = self.judge(head);
            if !self.is_passed() {
                // Interim responses that came with it. If this fails, so does the next step.
                let _ = self.client.flush(output);
            }
        }
        if self.is_passed() {
            self.client.put_head(head, request, after, output);
        }
    }

    /// An error: no backend has answered, or a page takes the place of its answer.
    fn put_answer(
        &mut self,
        answer: &OwnResponse,
        request: Option<&Request>,
        close: bool,
        output: &mut Output<'_>,
    ) {
        let Order { policy, original, stale, .. } = &self.order;
        let failure = if answer.is_of_backend { OriginFailure::Status } else { OriginFailure::Unreachable };
        let serves =
            |stale: &&Hit| stale.stored().serves_on_error(&original.head(), policy, now_ms(), failure);
        let usable = stale.as_ref().filter(|_| is_error(answer.status)).filter(serves);
        self.filler = None;
        if let Some(stale) = usable {
            (self.outcome, self.has_end) = (FetchOutcome::StaleOnError(stale.clone()), true);
            return;
        }
        self.outcome = FetchOutcome::Passed;
        self.client.put_answer(answer, request, close, output);
    }

    fn keeps_open(&self, request: &Request, response: &ResponseHead<'_>) -> bool {
        self.client.keeps_open(request, response)
    }

    fn can_tunnel(&self) -> bool {
        self.client.can_tunnel()
    }

    fn hands_over(&self) -> bool {
        let is_stored = matches!(self.outcome, FetchOutcome::Stored(_)) && self.filler.is_some();
        is_stored && !self.is_behind || matches!(self.outcome, FetchOutcome::TooLargeForAPart)
    }

    fn received(&self) -> u64 {
        self.client.received()
    }

    fn sent(&self) -> u64 {
        self.client.sent()
    }

    fn is_full(&self) -> bool {
        !self.pending.is_empty() || self.is_passed() && self.client.is_full()
    }

    fn check(&mut self) -> Result<(), Fault> {
        let checked = self.client.check();
        if self.is_awaited() { Ok(()) } else { checked }
    }
}
