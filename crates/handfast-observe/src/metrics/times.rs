//! Moments in JSON, as RFC 3339 has them.

use std::time::{Duration, SystemTime};

use handfast_text::calendar::{Utc, seconds_since_1970};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serializer};

fn read<E: Error>(text: &str) -> Result<SystemTime, E> {
    let since = seconds_since_1970(text).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since));
    time.ok_or_else(|| E::custom(format!("invalid time {text:?}, expected one as in RFC 3339")))
}

pub(super) fn serialize<S: Serializer>(time: &SystemTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&Utc::of(*time))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SystemTime, D::Error> {
    read(&String::deserialize(deserializer)?)
}

/// … or `null`.
pub(super) mod optional {
    use super::*;
    use serde::Serialize;

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Option<SystemTime>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        time.map(|time| Utc::of(time).to_string()).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<SystemTime>, D::Error> {
        Option::<String>::deserialize(deserializer)?.as_deref().map(read).transpose()
    }
}
