//! Moments in JSON.

use std::time::SystemTime;

use handfast_text::calendar::Utc;
use serde::Serializer;

/// As RFC 3339 has it.
pub(super) fn time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Utc::of(*time))
}

/// … or `null`.
pub(super) fn optional_time<S: Serializer>(
    time: &Option<SystemTime>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(&Utc::of(*time)),
        None => serializer.serialize_none(),
    }
}
