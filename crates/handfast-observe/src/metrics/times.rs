//! Moments in JSON, as RFC 3339 has them.

use std::time::SystemTime;

use handfast_text::calendar::Utc;
use serde::{Serialize, Serializer};

pub(super) fn time<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Utc::of(*time))
}

/// … or `null`.
pub(super) fn optional_time<S: Serializer>(time: &Option<SystemTime>, to: S) -> Result<S::Ok, S::Error> {
    time.map(|time| Utc::of(time).to_string()).serialize(to)
}
