//! Settings of a route for the rules.

/// Settings of the rules; the default is what RFC 9111 expects of a shared cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// This path never changes: a complete 200 is served without asking again, whatever its freshness. `private`, `Authorization`, `Set-Cookie`
    /// and `Vary` keep their meaning.
    pub is_immutable: bool,
    /// The largest object to store, **Units** bytes.
    pub object_limit: u64,
    /// Freshness without any statement of the origin: this share of the time since `Last-Modified`. `None`: such responses are requested
    /// again.
    pub heuristic: Option<Heuristic>,
    /// True if responses with `Set-Cookie` are stored, cookies included.
    pub stores_set_cookie: bool,
    /// True if `Cache-Control` of requests counts. Without it a client cannot make the cache query the origin.
    pub honours_requests: bool,
    /// True if `X-Forwarded-…` and `Forwarded` of a request do not reach the origin, or are in the identity of the key.
    pub trusts_forwarding: bool,
    /// Staleness that is served during a revalidation, where the response states nothing. **Units** seconds.
    pub stale_while_revalidate: u64,
    /// Staleness that is served if the origin fails, where the response states nothing. **Units** seconds.
    pub stale_if_error: u64,
    /// The same if no response comes from it, where this is longer. RFC 9111 §4.2.4 permits it without a word of the response.
    pub stale_if_unreachable: u64,
    /// True if the proxy requests the whole object for a range of a missing one. Where the response turns out to be too large to
    /// store ([`NotStored::TooLarge`](crate::NotStored::TooLarge)), the proxy should close it and forward the request as it is.
    pub fetches_whole: bool,
}

/// Parameters of heuristic freshness (RFC 9111 §4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristic {
    /// The share of the time since `Last-Modified`, **Units** percent.
    pub percent: u64,
    /// At most, **Units** seconds.
    pub limit: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            is_immutable: false,
            object_limit: 1 << 30,
            heuristic: None,
            stores_set_cookie: false,
            honours_requests: true,
            trusts_forwarding: false,
            stale_while_revalidate: 0,
            stale_if_error: 0,
            stale_if_unreachable: 0,
            fetches_whole: true,
        }
    }
}
