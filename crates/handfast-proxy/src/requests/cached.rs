//! Requests of a service with a cache: answered from it, or forwarded for it.
//!
//! In: a request whose route forwards it, and its plan. Out: a response, from the disk where it is there. Of many requests for what is missing one
//! is forwarded; all of them are served while its response arrives.

mod fetch;
mod send;
mod text;

use std::sync::Arc;

use handfast_cache::{
    Begin, Bypass, CacheStatus, Filler, Followed, Follower, Forwarded, Hit, Lookup, OriginFailure, Verdict,
};
use handfast_http::http1::OwnedRequest;
use handfast_leg::runtime::Runtime;
use handfast_observe::reason::CloseReason;
use handfast_observe::request_record::{HttpVersion, RequestPart};

use crate::cache::OpenCache;
use crate::requests::client::discarding::DiscardingClient;
use crate::requests::client::{After, Client};
use crate::requests::decide::cache_plan::Plan;
use crate::requests::decide::connection::HttpConnection;
use crate::requests::decide::own_response::OwnResponse;
use crate::requests::decide::request::Request;
use crate::requests::decide::rules::ResponseFields;
use crate::requests::relay::forward_request::forward;
use crate::requests::relay::own_request;
use crate::requests::relay::send_answer::{Ended, answer_with};
use crate::requests::relay::send_content::{until_ready, with_response};
use crate::requests::relay::{Exchange, Outcome, Rest};
use crate::worker::services::Chosen;
use fetch::{Fetch, FetchOutcome, Order};
use send::Prepared;
use text::{conditional, now_ms};

/// Number of times that a request waits for another one, if the other response cannot be shared.
const MAX_WAITS: u32 = 3;

/// Serves a request through the cache.
pub(crate) async fn serve<R: Runtime>(
    connection: &HttpConnection,
    client: &mut impl Client,
    request: &mut Request,
    chosen: Chosen,
    plan: Plan,
) -> Ended<R::Socket>
where
    R::Socket: 'static,
{
    // A request that authenticates its connection must stay on it.
    let is_bound = request.is_about_the_connection || connection.tied.borrow().is_some();
    let Some(cache) = plan.cache.get().filter(|_| !is_bound) else {
        return forward::<R>(connection, client, request, chosen).await;
    };
    let original = Arc::new(request.head.clone());
    Cached { connection, chosen, cache, plan, original }.serve::<R>(client, request).await
}

/// A request, and the cache that it is served through.
struct Cached<'a> {
    connection: &'a HttpConnection,
    chosen: Chosen,
    cache: Arc<OpenCache>,
    plan: Plan,
    /// The head as it was looked up.
    original: Arc<OwnedRequest>,
}

/// Next step of a request.
enum Next {
    /// This is sent. The stored response is [revalidated](Cached::revalidate) beside it where the rules demand it.
    Send(Hit, Prepared),
    Pass(Forwarded, Option<&'static str>),
    Fetch(Filler, Option<Hit>, Forwarded),
    Wait(Follower, Option<Hit>, Forwarded),
    OnlyIfCached,
}

impl Cached<'_> {
    async fn serve<R: Runtime>(&self, client: &mut impl Client, request: &mut Request) -> Ended<R::Socket>
    where
        R::Socket: 'static,
    {
        let (mut can_wait, mut others) = (true, 0);
        loop {
            match self.next(can_wait) {
                Next::Send(hit, prepared) => {
                    if hit.verdict() == Verdict::WhileRevalidated {
                        self.revalidate::<R>(request, hit.clone());
                    }
                    let status = CacheStatus::default();
                    if let Some(ended) =
                        self.send_prepared::<R>(client, request, &hit, prepared, status).await
                    {
                        return ended;
                    }
                    return self.pass::<R>(client, request, Forwarded::Bypass, Some("disk")).await;
                }
                Next::Wait(follower, stale, why) => match self.wait::<R>(client, request, follower).await {
                    Err(reason) => return Err((Outcome::Abort(reason.clone()), reason)),
                    Ok(Followed::Hit(hit)) => {
                        let status = CacheStatus {
                            forwarded: Some(why),
                            is_collapsed: true,
                            ..CacheStatus::default()
                        };
                        if let Some(ended) = self.send::<R>(client, request, &hit, status).await {
                            return ended;
                        }
                        can_wait = false;
                    }
                    Ok(Followed::Alone) => {
                        return self.pass::<R>(client, request, why, Some("not-shared")).await;
                    }
                    Ok(Followed::Failed) if self.serves_on_error(stale.as_ref()) => {
                        let status = CacheStatus { forwarded: Some(why), ..CacheStatus::default() };
                        let Some(hit) = stale else { continue };
                        if let Some(ended) = self.send::<R>(client, request, &hit, status).await {
                            return ended;
                        }
                        can_wait = false;
                    }
                    // Of several requests for this variant one fetches it; that of a stranger may be before it again.
                    Ok(Followed::OtherVariant) => {
                        others += 1;
                        can_wait = others < MAX_WAITS;
                    }
                    Ok(Followed::Failed | Followed::Repeat) => can_wait = false,
                },
                Next::Fetch(filler, stale, why) => {
                    return self.fetch::<R>(client, request, filler, stale, why).await;
                }
                Next::Pass(why, detail) => return self.pass::<R>(client, request, why, detail).await,
                Next::OnlyIfCached => {
                    let answer = OwnResponse::error(504, Some(request));
                    return answer_with::<R>(self.connection, client, request, &answer, None).await;
                }
            }
        }
    }

    fn next(&self, can_wait: bool) -> Next {
        let Plan { key, policy, .. } = &self.plan;
        let (lookup_head, now) = (&self.original.head(), now_ms());
        let (stale, why) = match self.cache.lookup(key, lookup_head, policy, now) {
            Lookup::Hit(hit) => {
                let prepared = Prepared::new(&hit, lookup_head, now);
                return Next::Send(hit, prepared);
            }
            Lookup::OnlyIfCached => return Next::OnlyIfCached,
            Lookup::Bypass(Bypass::Method) => return Next::Pass(Forwarded::Method, None),
            Lookup::Bypass(why) => return Next::Pass(Forwarded::Bypass, Some(why.word())),
            Lookup::Stale(hit, why) => (Some(hit), why),
            Lookup::Miss(why) => (None, why),
        };
        // One that demands the backend gets no earlier response.
        match self.cache.begin(key, lookup_head, can_wait && why != Forwarded::Request) {
            Begin::Fill(filler) => Next::Fetch(filler, stale, why),
            Begin::Follow(follower) => Next::Wait(follower, stale, why),
            Begin::Alone => Next::Pass(why, None),
        }
    }

    fn serves_on_error(&self, stale: Option<&Hit>) -> bool {
        let (lookup_head, policy) = (&self.original.head(), &self.plan.policy);
        stale.is_some_and(|stale| {
            stale.stored().serves_on_error(lookup_head, policy, now_ms(), OriginFailure::Unreachable)
        })
    }

    async fn send<R: Runtime>(
        &self,
        client: &mut impl Client,
        request: &mut Request,
        hit: &Hit,
        status: CacheStatus,
    ) -> Option<Ended<R::Socket>> {
        let prepared = Prepared::new(hit, &self.original.head(), now_ms());
        self.send_prepared::<R>(client, request, hit, prepared, status).await
    }

    async fn send_prepared<R: Runtime>(
        &self,
        client: &mut impl Client,
        request: &mut Request,
        hit: &Hit,
        prepared: Prepared,
        status: CacheStatus,
    ) -> Option<Ended<R::Socket>> {
        request.record.cache = Some(word(&status));
        // The head has it.
        ResponseFields::set_own(&mut request.response_fields, CACHE_STATUS, None);
        send::send::<R>(self.connection, client, request, hit, prepared, status).await
    }

    /// Waits for the head of the response to another request.
    async fn wait<R: Runtime>(
        &self,
        client: &mut impl Client,
        request: &mut Request,
        mut follower: Follower,
    ) -> Result<Followed, CloseReason> {
        request.enter(RequestPart::Answer, R::now());
        let followed = until_ready::<R, _>(self.connection, client, request, |waker| {
            follower.poll(&self.original.head(), waker)
        });
        Ok(followed.await?.unwrap_or(Followed::Alone))
    }

    fn order(&self, stale: Option<Hit>) -> Order {
        Order {
            cache: Arc::clone(&self.cache),
            key: self.plan.key.clone(),
            policy: self.plan.policy.clone(),
            original: Arc::clone(&self.original),
            stale,
            requested_ms: now_ms(),
        }
    }

    /// Forwards a request whose response is for its client alone.
    async fn pass<R: Runtime>(
        &self,
        client: &mut impl Client,
        request: &mut Request,
        why: Forwarded,
        detail: Option<&str>,
    ) -> Ended<R::Socket>
    where
        R::Socket: 'static,
    {
        let status =
            CacheStatus { forwarded: Some(why), detail: detail.map(str::to_owned), ..CacheStatus::default() };
        report_cache_status(request, &status);
        let mut fetch = Fetch::new::<R>(client, self.order(None), None, false);
        forward::<R>(self.connection, &mut fetch, request, self.chosen).await
    }

    /// Forwards a request whose response is to be stored.
    async fn fetch<R: Runtime>(
        &self,
        client: &mut impl Client,
        request: &mut Request,
        filler: Filler,
        stale: Option<Hit>,
        why: Forwarded,
    ) -> Ended<R::Socket>
    where
        R::Socket: 'static,
    {
        let status = CacheStatus { forwarded: Some(why), ..CacheStatus::default() };
        report_cache_status(request, &status);
        self.send_early_hints(client, request, stale.as_ref());
        self.prepare_fetch(request, stale.as_ref());
        let mut fetch = Fetch::new::<R>(&mut *client, self.order(stale), Some(filler), false);
        let ended = forward::<R>(self.connection, &mut fetch, request, self.chosen).await;
        let Fetch { outcome: came, filler, order, .. } = fetch;
        let (hit, status) = match came {
            FetchOutcome::Nothing | FetchOutcome::Passed => return ended,
            FetchOutcome::TooLargeForAPart => {
                drop((filler, ended));
                request.head.clone_from(&self.original);
                return self.pass::<R>(client, request, Forwarded::Partial, None).await;
            }
            FetchOutcome::Stored(hit) => {
                if let (Ok(Outcome::Elsewhere(rest)), Some(filler)) = (ended, filler) {
                    self.go_on::<R>(request, *rest, (order, filler, hit.clone()));
                }
                (hit, CacheStatus { is_stored: true, ..status })
            }
            FetchOutcome::Confirmed(hit) => (hit, CacheStatus { forwarded_status: Some(304), ..status }),
            FetchOutcome::StaleOnError(hit) => {
                (hit, CacheStatus { forwarded_status: request.record.status, ..status })
            }
        };
        match self.send::<R>(client, request, &hit, status).await {
            Some(ended) => ended,
            // The disk has failed in this moment.
            None => {
                request.head.clone_from(&self.original);
                self.pass::<R>(client, request, why, Some("disk")).await
            }
        }
    }

    /// Sends the links of what is stored, to a client that can take them now. Browsers read them in HTTP/2, and some programs take them for the response
    /// in HTTP/1.
    fn send_early_hints(&self, client: &mut impl Client, request: &Request, stale: Option<&Hit>) {
        // What the route takes from responses is not in the hints either.
        let is_dropped = request.response_fields.as_ref().is_some_and(|fields| fields.drops(b"link"));
        let is_meant = self.plan.cache.model.early_hints && request.record.protocol == HttpVersion::Http2;
        let is_meant = is_meant && !is_dropped;
        let links = stale.filter(|_| is_meant).map(Hit::links).unwrap_or_default();
        if links.is_empty() {
            return;
        }
        let mut text = b"HTTP/1.1 103 Early Hints\r\n".to_vec();
        links.iter().for_each(|link| text.extend([b"Link: ", &link[..], b"\r\n"].concat()));
        text.extend_from_slice(b"\r\n");
        let mut lent = self.connection.lend();
        let mut io = lent.io();
        // A client that is gone is noticed with the response.
        if client.accepts(&mut io).is_ok_and(|accepts| accepts) {
            let after = After { keeps_open: true, is_over: false };
            with_response(&text, |head| client.put_head(head, request, after, &mut io.output()));
            let _ = client.flush(&mut io.output());
        }
    }

    /// Asks for all of it, under the conditions of what is stored.
    fn prepare_fetch(&self, request: &mut Request, stale: Option<&Hit>) {
        let conditions = stale.map(Hit::conditions).unwrap_or_default();
        request.head = conditional(&self.original, &conditions);
    }

    /// Takes the rest of a response, in a separate task.
    fn go_on<R: Runtime>(
        &self,
        request: &mut Request,
        rest: Rest<R::Socket>,
        (order, filler, hit): (Order, Filler, Hit),
    ) where
        R::Socket: 'static,
    {
        let connection = self.connection.for_own_requests();
        let mut own = request.own_with_head(request.head.clone(), &connection);
        own.slot = request.slot.take();
        own.record.status = request.record.status;
        R::spawn(async move {
            let mut discarding = DiscardingClient::new(Vec::new(), true);
            let mut fetch = Fetch::rest::<R>(&mut discarding, order, filler, hit);
            let mut exchange = Exchange::resume::<R>(&connection, &mut own, rest, R::now());
            match exchange.relay::<R>(&mut fetch).await {
                Ok(()) => drop(exchange.finish::<R>(&mut fetch)),
                Err(fault) => exchange.broke_off(&fault),
            }
        });
    }

    /// Asks the backend about what is stored, in a separate task.
    fn revalidate<R: Runtime>(&self, request: &Request, stale: Hit)
    where
        R::Socket: 'static,
    {
        let Plan { key, .. } = &self.plan;
        // Another request does it already, or nothing is written any more.
        let Begin::Fill(filler) = self.cache.begin(key, &self.original.head(), true) else { return };
        let connection = self.connection.for_own_requests();
        let head = conditional(&self.original, &stale.conditions());
        let mut own = request.own_with_head(head, &connection);
        let order = self.order(Some(stale));
        R::spawn(async move {
            let mut discarding = DiscardingClient::new(Vec::new(), true);
            let mut fetch = Fetch::new::<R>(&mut discarding, order, Some(filler), true);
            let _ = own_request::send::<R>(&connection, &mut own, &mut fetch).await;
        });
    }
}

/// RFC 9211.
const CACHE_STATUS: &str = "Cache-Status";

/// Tells the client what the cache did, with a response of the backend.
fn report_cache_status(request: &mut Request, status: &CacheStatus) {
    request.record.cache = Some(word(status));
    ResponseFields::set_own(&mut request.response_fields, CACHE_STATUS, Some(status.value().into_bytes()));
}

/// One word for the log.
fn word(status: &CacheStatus) -> &'static str {
    match status.forwarded {
        None => "hit",
        Some(_) if status.is_collapsed => "shared",
        Some(_) if status.forwarded_status == Some(304) => "confirmed",
        Some(Forwarded::Bypass | Forwarded::Method | Forwarded::Partial) => "bypass",
        Some(_) if status.is_stored => "stored",
        Some(_) if status.forwarded_status.is_some() => "stale",
        Some(_) => "miss",
    }
}
