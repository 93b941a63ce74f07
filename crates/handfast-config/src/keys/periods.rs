//! Durations that defaults and ranges are made of.

use std::time::Duration;

use crate::kind::seconds;

pub(super) const HOUR: Duration = seconds(3600);
pub(super) const DAY: Duration = seconds(86_400);
pub(super) const WEEK: Duration = seconds(7 * 86_400);

/// The longest duration that can be written: a month, which every clock can count.
pub(super) const MONTH: Duration = seconds(30 * 86_400);

pub(super) const TENTH: Duration = Duration::from_millis(100);
