//! Maintenance of a service: its requests are answered with 503, except those of certain clients.

use std::ops::RangeInclusive;
use std::time::Duration;

use handfast_net::prefix::Prefix;
use handfast_text::duration;

/// Maintenance of a service, by its key or by a command of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maintenance {
    /// Clients whose requests are served nevertheless.
    pub allow: Vec<Prefix>,
    /// Time after which clients should try again (`Retry-After`).
    pub retry_after: Duration,
}

impl Maintenance {
    /// Range of [`retry_after`](Self::retry_after).
    pub const RETRY_AFTER: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(86_400);

    /// Default of [`retry_after`](Self::retry_after).
    pub const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(300);

    /// Describes the responses, as the rest of a sentence.
    pub fn in_words(&self) -> String {
        let wait = duration::written(self.retry_after);
        let response = format!("requests are answered with 503 and Retry-After {wait}");
        match &self.allow[..] {
            [] => response,
            allow => {
                let allow: Vec<String> = allow.iter().map(ToString::to_string).collect();
                format!("{response}, except those of clients from {}", allow.join(", "))
            }
        }
    }
}

impl Default for Maintenance {
    /// For all clients.
    fn default() -> Self {
        Self { allow: Vec::new(), retry_after: Self::DEFAULT_RETRY_AFTER }
    }
}
