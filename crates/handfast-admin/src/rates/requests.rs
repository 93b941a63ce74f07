//! Events of the HTTP requests of one service in the last minute, or since the start.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use handfast_observe::metrics::{Distribution, End, RequestSnapshot, RouteEnd, StatusClass, Word};
use serde::{Deserialize, Serialize};

use super::{each_since, ends_since};

/// Requests that ended in this time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RecentRequests {
    /// By class of status.
    pub by_status: BTreeMap<Word, u64>,
    /// Reasons why they had no complete answer of a backend, the most frequent first.
    pub failures: Vec<End>,
    /// Outcomes by route, the most frequent first.
    pub routes: Vec<RouteEnd>,
    /// Requests sent on a new connection to a backend.
    pub new_connection: u64,
    /// Requests sent on a connection to a backend that had served one before.
    pub reused_connection: u64,
    /// Requests after the first one of their client's connection.
    pub kept_alive: u64,
    /// Times requests were sent again.
    pub retries: u64,
    /// Until the first byte of a backend's answer.
    pub first_byte: Distribution,
    /// Of all classes.
    pub duration: Distribution,
    /// Parts of that, by phase.
    pub phases: BTreeMap<Word, Distribution>,
}

/// The outcomes that came since, the most frequent first.
fn routes_since(now: &[RouteEnd], before: &[RouteEnd]) -> Vec<RouteEnd> {
    let earlier =
        |end: &RouteEnd| before.iter().find(|known| known.is_like(end)).map_or(0, |known| known.count);
    let routes =
        now.iter().map(|end| RouteEnd { count: end.count.saturating_sub(earlier(end)), ..end.clone() });
    let mut routes: Vec<_> = routes.filter(|end| end.count > 0).collect();
    routes.sort_by_key(|end| Reverse(end.count));
    routes
}

impl RecentRequests {
    pub(super) fn of(requests: &RequestSnapshot) -> Self {
        let mut duration = Distribution::default();
        requests.duration.values().for_each(|of_class| duration.merge(of_class));
        Self {
            by_status: requests.by_status.clone(),
            failures: requests.failures.clone(),
            routes: requests.routes.clone(),
            new_connection: requests.new_connection,
            reused_connection: requests.reused_connection,
            kept_alive: requests.kept_alive,
            retries: requests.retries,
            first_byte: requests.first_byte.clone(),
            duration,
            phases: requests.phases.clone(),
        }
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let count = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        Self {
            by_status: each_since(&self.by_status, &before.by_status, |now, before| {
                now.saturating_sub(*before)
            }),
            failures: ends_since(&self.failures, &before.failures),
            routes: routes_since(&self.routes, &before.routes),
            new_connection: count(|requests| requests.new_connection),
            reused_connection: count(|requests| requests.reused_connection),
            kept_alive: count(|requests| requests.kept_alive),
            retries: count(|requests| requests.retries),
            first_byte: self.first_byte.since(&before.first_byte),
            duration: self.duration.since(&before.duration),
            phases: each_since(&self.phases, &before.phases, Distribution::since),
        }
    }

    /// All that ended.
    pub fn ended(&self) -> u64 {
        self.by_status.values().sum()
    }

    /// Those with a status of this class.
    pub fn of_class(&self, class: StatusClass) -> u64 {
        self.by_status.get(class.name()).copied().unwrap_or_default()
    }
}
