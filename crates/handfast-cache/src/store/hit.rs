//! A response that the cache has, or is about to have, for one request.
//!
//! In: an object or a fill. Out: heads for the client, conditions for the origin, a reader of the content.

use std::ops::Range;
use std::sync::Arc;

use handfast_http::http1::RequestHead;

use crate::rules::cached_response::CachedResponse;
use crate::rules::reuse::Verdict;
use crate::rules::stored::{Stored, parsed};

use super::reader::{Reader, Source};
use super::shared::Shared;

/// A response for one request.
#[derive(Clone)]
pub struct Hit {
    pub(crate) shared: Arc<Shared>,
    pub(crate) source: Source,
    pub(crate) stored: Arc<Stored>,
    pub(crate) size: Option<u64>,
    pub(crate) verdict: Verdict,
    /// The head for the client whose request was validated.
    pub(crate) own_head: Option<Vec<u8>>,
}

impl Hit {
    /// Returns the decision of the rules about it for its request.
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Returns its stored head, as the rules use it.
    pub fn stored(&self) -> &Stored {
        &self.stored
    }

    /// Returns the response for the client; `request` is the one that it was looked up for.
    pub fn answer(&self, request: &RequestHead<'_>, now_ms: u64) -> CachedResponse {
        let head = self.own_head.as_deref().unwrap_or(&self.stored.head);
        self.stored.answer_with(head, request, self.size, now_ms)
    }

    /// Returns true if this is all of its content.
    pub fn is_whole(&self, content: &Range<u64>) -> bool {
        content.start == 0 && self.size == Some(content.end)
    }

    /// Reads the content of its [`CachedResponse`].
    pub fn reader(&self, content: Range<u64>) -> Reader {
        Reader::new(Arc::clone(&self.shared), self.source.clone(), content)
    }

    /// The fields that make the request to the origin conditional; empty if it cannot be validated.
    pub fn conditions(&self) -> Vec<(&'static str, Vec<u8>)> {
        self.stored.conditions()
    }

    /// The values of `Link` of a complete page, for early hints (RFC 8297); nothing if it has none.
    pub fn links(&self) -> Vec<Vec<u8>> {
        if self.stored.status != 200 {
            return Vec::new();
        }
        let links = parsed(&self.stored.head, |head| head.values("link").map(<[u8]>::to_vec).collect());
        links.unwrap_or_default()
    }

    /// Seconds for which it is fresh; negative if it is stale.
    pub fn ttl(&self, now_ms: u64) -> i64 {
        self.stored.ttl(now_ms)
    }
}
