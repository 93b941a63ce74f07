//! The maintenance of a service, for status and metrics.

use std::time::SystemTime;

use handfast_text::calendar::Utc;
use serde::{Deserialize, Serialize};

use super::times;
use crate::words::Word;

/// The maintenance of a service: its requests are answered with 503.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintenanceSnapshot {
    /// `key` of the configuration, or `command` of an operator.
    pub by: Word,
    /// Start of the maintenance; by the key, the start or reload that brought it.
    #[serde(with = "times")]
    pub since: SystemTime,
    /// Addresses of clients that are served nevertheless.
    pub allow: Vec<String>,
    /// Value of `Retry-After`.
    pub retry_after_seconds: u64,
}

impl MaintenanceSnapshot {
    /// Describes it, as the rest of a sentence.
    pub fn in_words(&self) -> String {
        let since = Utc::of(self.since).for_people();
        let mut text = format!("in maintenance since {since} by {}", &*self.by);
        if !self.allow.is_empty() {
            text.push_str(&format!(", except for clients from {}", self.allow.join(", ")));
        }
        text
    }
}
