//! The request that fetches a response, and the requests that wait for it.
//!
//! In: head and content from the origin, in a worker's task. Out: an object on the disk, and content for followers. A filler that is dropped
//! before its end breaks the fill off.

use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use handfast_http::http1::{Framing, Method, RequestHead, ResponseHead};

use crate::rules::policy::Policy;
use crate::rules::reuse::{Verdict, is_error};
use crate::rules::stored::{NotStored, Stored, Times};

use super::fill::{Fill, Head, StoredHead};
use super::hit::Hit;
use super::reader::Source;
use super::shared::Shared;
use super::writer::Writer;

/// For how long a URL is remembered as not storable, so that its requests do not wait for each other.
const ALONE_MS: u64 = 10_000;

/// Fetches a response for the cache.
pub struct Filler {
    shared: Arc<Shared>,
    fill: Arc<Fill>,
    writer: Arc<Writer>,
    is_done: bool,
}

impl Filler {
    pub(crate) fn new(shared: Arc<Shared>, fill: Arc<Fill>) -> Self {
        let writer = Writer::new(Arc::clone(&shared), Arc::clone(&fill));
        Self { shared, fill, writer, is_done: false }
    }

    /// The head of the response, once. If it is stored, a [`Hit`] for the filler's own client, which may have requested a part of it, or
    /// sent a condition that was not forwarded; all content must be [put](Self::poll_put) whatever this client receives.
    ///
    /// **Errors**: the reason why it is not stored; followers go on alone, and further calls do nothing.
    pub fn head(
        &mut self,
        request: &RequestHead<'_>,
        response: &ResponseHead<'_>,
        policy: &Policy,
        times: Times,
    ) -> Result<Hit, NotStored> {
        let limit = policy.object_limit.min(self.shared.settings.size);
        let length = match response.framing(Method::GET) {
            Framing::Length(length) => Some(length),
            Framing::None => Some(0),
            Framing::Chunked | Framing::UntilClose => None,
        };
        let stored = match Stored::decide(request, response, policy, times) {
            Ok(stored) if length.is_none_or(|length| length <= limit) => Arc::new(stored),
            decided => {
                let reason = decided.err().unwrap_or(NotStored::TooLarge);
                self.shared.counters.not_stored.add(1);
                // A reason about this request means nothing for the next one. Otherwise the stored response is out of date
                // (RFC 9111 §4.3.3).
                let is_general = !matches!(
                    reason,
                    NotStored::Request
                        | NotStored::RequestNoStore
                        | NotStored::Authorization
                        | NotStored::Partial
                        | NotStored::Status
                );
                if is_general && !is_error(response.status) {
                    self.shared.remove_for(&self.fill.key, request);
                    self.shared.index.set_alone(&self.fill.key, times.received_ms + ALONE_MS);
                }
                self.go_alone();
                return Err(reason);
            }
        };
        let is_shareable = stored.is_shareable(policy);
        let known = StoredHead { stored: Arc::clone(&stored), length, is_shareable };
        self.fill.set_head(Head::Known(Arc::new(known)), limit);
        let own_head = stored.own_head(response);
        Ok(Hit {
            shared: Arc::clone(&self.shared),
            source: Source::Fill(Arc::clone(&self.fill)),
            stored,
            size: length,
            verdict: Verdict::Fresh,
            own_head,
        })
    }

    /// Hands a piece of content over, all or nothing: whether it is still being stored. If not, its readers get it all the same, so all pieces and
    /// [`end`](Self::end) must follow.
    ///
    /// **Cost**: a copy. Waits where more than `Settings::pending` waits for the disk, at most for `Settings::disk_timeout`.
    pub fn poll_put(&mut self, piece: &[u8], waker: &Waker) -> Poll<bool> {
        let (is_stored, is_new) = ready!(self.fill.poll_put(piece, waker));
        if is_stored && is_new {
            self.writer.schedule();
        } else if !is_stored && !self.is_done && !self.fill.is_fed() {
            // Too long, too large, or the disk failed; and no client reads it.
            self.finish(false);
        }
        Poll::Ready(is_stored)
    }

    /// Returns true if other requests wait for its response.
    pub fn has_followers(&self) -> bool {
        self.fill.has_followers()
    }

    /// Returns true if it is neither stored nor read any more: the rest of the content need not be fetched.
    pub fn is_over(&self) -> bool {
        self.is_done
    }

    /// The content is complete: whether it will be stored.
    pub fn end(mut self) -> bool {
        self.finish(true)
    }

    /// The response is for one client, or there was none that followers could use: they go on alone.
    pub fn alone(mut self) {
        self.go_alone();
    }

    /// Marks the stored response as updated or removed: followers look it up again.
    pub fn restart_followers(mut self) {
        self.fill.set_head(Head::Repeat, 0);
        self.finish(false);
    }

    fn go_alone(&mut self) {
        self.fill.set_head(Head::Alone, 0);
        self.finish(false);
    }

    fn finish(&mut self, is_complete: bool) -> bool {
        if std::mem::replace(&mut self.is_done, true) {
            return false;
        }
        let was_storing = matches!(self.fill.head(), Head::Known(_));
        let (is_stored, is_new) = self.fill.end(is_complete);
        if !is_stored {
            if was_storing {
                self.shared.counters.given_up.add(1);
            }
            self.shared.index.remove_fill(&self.fill);
        }
        // A fill of which nothing was written leaves nothing to delete.
        if is_new && (is_stored || self.fill.has_file()) {
            self.writer.schedule();
        }
        is_stored
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.finish(false);
    }
}

/// Waits for the response to another request.
pub struct Follower {
    shared: Arc<Shared>,
    fill: Arc<Fill>,
}

/// Outcome of the other request.
pub enum Followed {
    /// Its response is for this request too; the content comes as it arrives.
    Hit(Hit),
    /// Look up again: what was stored may be fresh now. If it is not, begin without waiting, because each request may have to validate it.
    Repeat,
    /// Its response is for other requests (`Vary`). Look up again, and wait once more: of several requests for this variant one fetches it.
    OtherVariant,
    /// Its response is for its client only: forward this request.
    Alone,
    /// There was no response: serve a stale one if that is permitted, forward the request, or fail.
    Failed,
}

impl Follower {
    pub(crate) fn new(shared: Arc<Shared>, fill: Arc<Fill>) -> Self {
        fill.follow();
        Self { shared, fill }
    }

    /// Waits for the head.
    pub fn poll(&mut self, request: &RequestHead<'_>, waker: &Waker) -> Poll<Followed> {
        Poll::Ready(match ready!(self.fill.poll_head(waker)) {
            Head::Known(known) if !known.is_shareable => Followed::Alone,
            Head::Known(_) if self.fill.is_purged() => Followed::Repeat,
            Head::Known(known) if !known.stored.selection.fits(request) => Followed::OtherVariant,
            Head::Known(known) => {
                self.shared.counters.coalesced.add(1);
                Followed::Hit(Hit {
                    shared: Arc::clone(&self.shared),
                    source: Source::Fill(Arc::clone(&self.fill)),
                    stored: Arc::clone(&known.stored),
                    size: known.length,
                    verdict: Verdict::Fresh,
                    own_head: None,
                })
            }
            Head::Repeat => Followed::Repeat,
            Head::Alone => Followed::Alone,
            Head::Failed | Head::Unknown => Followed::Failed,
        })
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.fill.unfollow();
    }
}
