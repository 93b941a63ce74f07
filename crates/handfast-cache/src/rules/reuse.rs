//! Decides if a stored response may be used for a request (RFC 9111 §4, RFC 5861).
//!
//! In: a stored response that was selected, a request, the time. Out: a [`Verdict`]. And which requests never reach the cache: [`bypass`].

use handfast_http::http1::{Method, RequestHead};

use super::directives::Directives;
use super::key::{has_content, has_unkeyed_field};
use super::policy::Policy;
use super::stored::Stored;

/// Decision on the use of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Fresh,
    /// It may, while the origin is asked (RFC 5861 §3).
    WhileRevalidated,
    /// The origin is asked first: it is stale, or `no-cache`.
    Stale,
    /// The origin is asked first: the request demands it.
    Refused,
}

/// Kind of failure of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginFailure {
    /// It sent a status that [`is_error`] has.
    Status,
    /// No response came, or it broke off: the cache is disconnected (RFC 9111 §4.2.4).
    Unreachable,
}

/// Reason why a request does not concern the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Bypass {
    /// Neither GET nor HEAD.
    Method,
    /// A GET or HEAD with content.
    Content,
    /// A field that could change the response but is not in the key.
    Unkeyed,
    /// A precondition that only the origin can evaluate, or a change of the protocol.
    Precondition,
    /// `no-store` in the request.
    NoStore,
    /// A range, where the policy does not fetch the whole, and nothing is stored.
    Range,
    /// The disk failed, is full, or does not answer; it is tried again later.
    Paused,
    /// This process gave the folder up.
    Released,
    /// Its responses were recently found not to be storable.
    NotStorable,
}

impl Bypass {
    /// One word for counters and logs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Content => "content",
            Self::Unkeyed => "unkeyed-field",
            Self::Precondition => "precondition",
            Self::NoStore => "no-store",
            Self::Range => "range",
            Self::Paused => "paused",
            Self::Released => "released",
            Self::NotStorable => "not-storable",
        }
    }
}

/// Returns the reason why a request bypasses the cache, whatever is stored; `None` if the cache may serve it.
pub fn bypass(request: &RequestHead<'_>, policy: &Policy) -> Option<Bypass> {
    if ![Method::GET, Method::HEAD].contains(&request.method) {
        return Some(Bypass::Method);
    }
    if has_content(request) {
        return Some(Bypass::Content);
    }
    if has_unkeyed_field(request, policy.trusts_forwarding) {
        return Some(Bypass::Unkeyed);
    }
    let has = |name: &&str| request.values(name).next().is_some();
    if request.upgrade.is_some() || ["if-match", "if-unmodified-since"].iter().any(has) {
        return Some(Bypass::Precondition);
    }
    (policy.honours_requests && Directives::of_request(request).no_store).then_some(Bypass::NoStore)
}

/// Returns true if the request demands a stored response or 504 (`only-if-cached`).
pub fn only_if_cached(request: &RequestHead<'_>, policy: &Policy) -> bool {
    policy.honours_requests && Directives::of_request(request).only_if_cached
}

impl Stored {
    /// `current_age` of RFC 9111 §4.2.3. **Units** seconds.
    pub fn age(&self, now_ms: u64) -> u64 {
        self.initial_age.saturating_add(now_ms.saturating_sub(self.received_ms) / 1000)
    }

    /// Seconds for which it is fresh still; negative if it is stale.
    pub fn ttl(&self, now_ms: u64) -> i64 {
        let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        signed(self.lifetime).saturating_sub(signed(self.age(now_ms)))
    }

    /// Decides if it may be used for this request, which it was selected for.
    pub fn verdict(&self, request: &RequestHead<'_>, policy: &Policy, now_ms: u64) -> Verdict {
        if policy.is_immutable && self.status == 200 {
            return Verdict::Fresh;
        }
        if self.no_cache {
            return Verdict::Stale;
        }
        let age = self.age(now_ms);
        let requested =
            if policy.honours_requests { Directives::of_request(request) } else { Directives::default() };
        let is_too_old = requested.max_age.is_some_and(|most| most == 0 || age > most);
        let fresh_for = self.lifetime.saturating_sub(age);
        if requested.no_cache || is_too_old || requested.min_fresh.is_some_and(|least| fresh_for < least) {
            return Verdict::Refused;
        }
        if self.lifetime > age {
            return Verdict::Fresh;
        }
        let stale_for = age - self.lifetime;
        if !self.must_revalidate && requested.max_stale.is_some_and(|most| stale_for <= most) {
            return Verdict::Fresh;
        }
        if stale_for < self.stale_while_revalidated(policy) {
            Verdict::WhileRevalidated
        } else {
            Verdict::Stale
        }
    }

    /// Returns true if it may be served after the origin failed. A stored error is not served: the one that the origin sends now is
    /// newer.
    ///
    /// `no-cache` of the request does not forbid it: it states a preference of the client (RFC 9111 §5.2.1.4), and it would receive an
    /// error instead.
    pub fn serves_on_error(
        &self,
        request: &RequestHead<'_>,
        policy: &Policy,
        now_ms: u64,
        failure: OriginFailure,
    ) -> bool {
        if self.is_never_stale() || is_error(self.status) {
            return false;
        }
        let requested =
            policy.honours_requests.then(|| Directives::of_request(request).stale_if_error).flatten();
        let otherwise = match failure {
            OriginFailure::Status => policy.stale_if_error,
            OriginFailure::Unreachable => policy.stale_if_error.max(policy.stale_if_unreachable),
        };
        let limit = self.if_stale(self.stale_if_error, otherwise).max(requested.unwrap_or(0));
        self.lifetime.saturating_add(limit) > self.age(now_ms)
    }

    /// For how long it is served stale while the origin is asked. **Units** seconds.
    pub(crate) fn stale_while_revalidated(&self, policy: &Policy) -> u64 {
        self.if_stale(self.stale_while_revalidate, policy.stale_while_revalidate)
    }

    /// For how long it is served stale where the origin fails. **Units** seconds.
    pub(crate) fn stale_on_error(&self, policy: &Policy) -> u64 {
        if is_error(self.status) { 0 } else { self.if_stale(self.stale_if_error, policy.stale_if_error) }
    }

    fn if_stale(&self, seconds: Option<u64>, otherwise: u64) -> u64 {
        if self.is_never_stale() { 0 } else { seconds.unwrap_or(otherwise) }
    }

    /// Returns true if the response forbids serving it stale (RFC 9111 §4.2.4).
    const fn is_never_stale(&self) -> bool {
        self.must_revalidate || self.no_cache
    }

    /// Returns true if requests that arrived while it was fetched may have it too.
    pub(crate) fn is_shareable(&self, policy: &Policy) -> bool {
        policy.is_immutable && self.status == 200 || !self.no_cache && self.lifetime > self.initial_age
    }
}

/// Returns true if a response with this status counts as a failure of the origin (RFC 5861 §4).
pub const fn is_error(status: u16) -> bool {
    matches!(status, 500 | 502 | 503 | 504)
}
