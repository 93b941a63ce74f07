//! Responses from disk: an HTTP cache, which is everything of a shared cache (RFC 9111) except sockets, TLS and the relay; and files.
//!
//! In: heads that `handfast-wire` has parsed, content in pieces, times as milliseconds since 1970 ([`unix_ms`]). Out: heads as HTTP/1 text, content
//! in pieces, or the advice to forward a request. No call waits: what is not there is [`Poll::Pending`](std::task::Poll::Pending), and a
//! [`Waker`](std::task::Waker) is called. There is no runtime.
//!
//! | question | file |
//! |---|---|
//! | what RFC 9111 permits, as functions without clock and disk | `rules.rs` and what it names |
//! | what a client could poison, and what happens instead | `rules/key.rs` |
//! | objects, fills, readers, eviction, purges | `store.rs` and what it names |
//! | the rules by section of the RFC, as a table | `rules/tests/by_section.rs` |
//! | files of a folder as responses | `files.rs` and what it names |
//! | crashes, full and hanging disks, damaged files | `store/tests/` |
//!
//! # How a worker uses it
//!
//! ```no_run
//! use std::task::{Poll, Waker, ready};
//!
//! use handfast_cache::{Begin, Cache, CacheStatus, Followed, Key, Lookup, OriginFailure, Policy, Times, is_error};
//! use handfast_http::http1::{RequestHead, ResponseHead};
//!
//! # struct Client; impl Client { fn send(&mut self, _: &[u8]) {} fn close(&mut self) {} }
//! # fn forward(_: &RequestHead<'_>) {}
//! fn answer(cache: &Cache, request: &RequestHead<'_>, policy: &Policy, now_ms: u64, client: &mut Client, waker: &Waker) -> Poll<()> {
//!     let Some(key) = Key::of("https", request, None) else { return Poll::Ready(forward(request)) };
//!     let hit = match cache.lookup(&key, request, policy, now_ms) {
//!         Lookup::Hit(hit) => hit,
//!         Lookup::OnlyIfCached => return Poll::Ready(client.send(b"HTTP/1.1 504 Gateway Timeout\r\n")),
//!         // Afterwards: cache.observe(&key, request, &response, policy, times), which invalidates and updates.
//!         Lookup::Bypass(_) => return Poll::Ready(forward(request)),
//!         // Without waiting, `false`, for `Lookup::Stale(_, Forwarded::Request)`.
//!         Lookup::Stale(..) | Lookup::Miss(_) => match cache.begin(&key, request, true) {
//!             Begin::Fill(_) => return Poll::Ready(()), // see `fetch`
//!             Begin::Alone => return Poll::Ready(forward(request)),
//!             Begin::Follow(mut follower) => match ready!(follower.poll(request, waker)) {
//!                 Followed::Hit(hit) => hit,
//!                 // Then begin(…, false); and after the second `OtherVariant` too.
//!                 Followed::Repeat | Followed::OtherVariant => return answer(cache, request, policy, now_ms, client, waker),
//!                 Followed::Alone | Followed::Failed => return Poll::Ready(forward(request)),
//!             },
//!         },
//!     };
//!     let head = hit.answer(request, now_ms);
//!     let mut reader = hit.reader(head.content.clone());
//!     // On an error nothing was sent: forward the request.
//!     let Ok(()) = ready!(reader.poll_ready(waker)) else { return Poll::Ready(forward(request)) };
//!     client.send(&head.head);
//!     loop {
//!         match ready!(reader.poll_piece(16_384, waker, |bytes| client.send(bytes))) {
//!             Ok(None) => return Poll::Ready(()),
//!             Ok(Some(())) => {}
//!             // The answer must not look complete.
//!             Err(_) => return Poll::Ready(client.close()),
//!         }
//!     }
//! }
//!
//! /// After `Begin::Fill`: the request was sent without the fields that `is_condition` names, and with `stale.conditions()`.
//! fn fetch(
//!     cache: &Cache,
//!     mut filler: handfast_cache::Filler,
//!     stale: Option<handfast_cache::Hit>,
//!     request: &RequestHead<'_>,
//!     origin: Result<(&ResponseHead<'_>, &[u8]), std::io::Error>,
//!     policy: &Policy,
//!     times: Times,
//!     waker: &Waker,
//! ) -> Poll<Option<handfast_cache::Hit>> {
//!     let now_ms = times.received_ms;
//!     let may_be_stale = |failure| {
//!         move |hit: &handfast_cache::Hit| hit.stored().serves_on_error(request, policy, now_ms, failure)
//!     };
//!     let (response, content) = match origin {
//!         // Dropping the filler tells followers that it failed. Without a stale response: 502, or what the origin sent.
//!         Ok((response, _)) if is_error(response.status) => {
//!             return Poll::Ready(stale.filter(may_be_stale(OriginFailure::Status)));
//!         }
//!         Err(_) => return Poll::Ready(stale.filter(may_be_stale(OriginFailure::Unreachable))),
//!         Ok(received) => received,
//!     };
//!     if let (304, Some(stale)) = (response.status, &stale) {
//!         let hit = cache.unchanged(stale, request, response, policy, times);
//!         filler.restart_followers();
//!         return Poll::Ready(Some(hit));
//!     }
//!     match filler.head(request, response, policy, times) {
//!         Err(reason) => println!("not stored: {}", reason.word()), // send the response on; do not use the filler any more
//!         Ok(hit) => {
//!             // Each piece goes to the client and to the filler. `false`: it is not stored after all, the client goes on from the origin.
//!             let _is_stored = ready!(filler.poll_put(content, waker));
//!             let _will_be_stored = filler.end();
//!             // For a client that asked for a part or with a condition: hit.answer(request, now_ms) and its reader.
//!             return Poll::Ready(Some(hit));
//!         }
//!     }
//!     println!("Cache-Status: {}", CacheStatus::default().value());
//!     Poll::Ready(None)
//! }
//! ```
//!
//! # Checks of a file
//! A head file has a CRC-32 of all of it. Content has a CRC-32 for each block of 64 KiB, kept in the head file, and each block is checked
//! whenever it is read from a stored object; the length is checked when the file is opened. A damaged object is removed at once: before its
//! head was sent the request can be forwarded, afterwards the answer must be broken off. Content that a running fill has just written is
//! read without a check.

#![forbid(unsafe_code)]

mod files;
mod rules;
mod store;

pub use files::disk_threads::DiskThreads;
pub use files::file_path::{FilePath, NotAFile};
pub use files::folder::{FileRules, FindError, Folder, NotFound};
pub use files::found_file::{FileOutcome, FileReader, FileSearch, FoundFile};
pub use files::media_type::media_type;
pub use files::response::FileResponse;

pub use rules::cache_status::{CacheStatus, Forwarded};
pub use rules::cached_response::CachedResponse;
pub use rules::key::{Key, forwarding};
pub use rules::lists::unix_ms;
pub use rules::policy::{Heuristic, Policy};
pub use rules::reuse::{Bypass, OriginFailure, Verdict, bypass, is_error, only_if_cached};
pub use rules::stored::{NotStored, Stored, Times};
pub use rules::validate::{CONDITIONS, invalidated, is_condition};
pub use rules::vary::Selection;
pub use store::cache::{Begin, Cache, Lookup};
pub use store::coded::{Coded, CodedFiller};
pub use store::counters::{Latency, Statistics};
pub use store::filler::{Filler, Followed, Follower};
pub use store::folder::{OpenError, check_folder};
pub use store::hit::Hit;
pub use store::purge::{Listed, Purge};
pub use store::reader::{ReadError, Reader};
pub use store::settings::Settings;
