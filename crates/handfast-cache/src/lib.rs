//! An HTTP cache on disk.

#![forbid(unsafe_code)]

mod rules;

pub use rules::answer::Answer;
pub use rules::cache_status::{CacheStatus, Forwarded};
pub use rules::key::Key;
pub use rules::lists::unix_ms;
pub use rules::policy::{Heuristic, Policy};
pub use rules::reuse::{Bypass, Verdict, bypass, is_error, only_if_cached};
pub use rules::stored::{NotStored, Stored, Times};
pub use rules::validate::{CONDITIONS, invalidated, is_condition};
pub use rules::vary::Selection;
