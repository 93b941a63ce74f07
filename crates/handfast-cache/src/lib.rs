//! An HTTP cache on disk.

#![forbid(unsafe_code)]

mod rules;
mod store;

pub use rules::answer::Answer;
pub use rules::cache_status::{CacheStatus, Forwarded};
pub use rules::directives::SURROGATE_CAPABILITY;
pub use rules::key::Key;
pub use rules::lists::unix_ms;
pub use rules::policy::{Heuristic, Policy};
pub use rules::reuse::{Bypass, Verdict, bypass, is_error, only_if_cached};
pub use rules::stored::{NotStored, Stored, Times};
pub use rules::validate::{CONDITIONS, invalidated, is_condition};
pub use rules::vary::Selection;
pub use store::cache::{Begin, Cache, Lookup};
pub use store::counters::{Latency, Statistics};
pub use store::filler::{Filler, Followed, Follower};
pub use store::folder::OpenError;
pub use store::hit::Hit;
pub use store::purge::{Listed, Purge};
pub use store::reader::{ReadError, Reader};
pub use store::settings::Settings;
