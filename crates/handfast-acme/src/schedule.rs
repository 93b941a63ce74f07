//! Schedule of one name: pure functions over a clock and a random number that are given.
//!
//! In: the certificate's life, the [`Record`] of earlier tries, the issuers, and orders of all names. Out: a [`Decision`].
//!
//! | question | answer |
//! |---|---|
//! | when is a certificate renewed | at a random moment in the window that its issuer suggests (ARI, RFC 9773); else at 2/3 of its life, 1/2 if that is below ten days |
//! | what if that would be too late | when 1/6 of its life is left it is renewed whatever the issuer suggests |
//! | when after a failure | after 1, 2, 4 … minutes, at most 6 hours, and never before an issuer's Retry-After |
//! | where after a failure | first at the issuer's staging directory; after two failures at the next issuer |
//! | how many orders | never more than [`ORDER_LIMITS`], whatever else is due |

use crate::record::{OrderMade, Record, Suggestion};

/// The first pause after a failure, and the longest.
pub const FIRST_BACKOFF_SECONDS: i64 = 60;
/// See [`FIRST_BACKOFF_SECONDS`].
pub const MAX_BACKOFF_SECONDS: i64 = 6 * 3_600;
/// Tries with one issuer before the next one is asked.
const TRIES_EACH: u32 = 2;
/// A certificate with a shorter life is renewed at half of it.
const SHORT_LIFE: i64 = 10 * 86_400;
/// Of its life: when no more than this part is left, nothing postpones a renewal but the limits.
const EMERGENCY_PART: i64 = 6;
/// A certificate is not renewed, whatever its issuer suggests, before it has this age in seconds, or a twelfth of its life.
const YOUNG: i64 = 43_200;
/// Without a suggestion, renewals are spread over this part of a certificate's life, so that not all are due together.
const SPREAD_PART: i64 = 30;

/// Orders of one name at one directory: at most this number within this number of seconds. Let's Encrypt's own limits, as of 2026,
/// are 5 failed validations of a name in an hour and 5 certificates for the same names in a week.
pub const ORDER_LIMITS: [(i64, usize); 3] = [(3_600, 4), (86_400, 12), (7 * 86_400, 30)];
/// Certificates of one name, by any requester.
pub const ISSUED_LIMIT: (i64, usize) = (7 * 86_400, 5);
/// Orders of all names together at one directory: Let's Encrypt allows 300 in three hours.
pub const ACCOUNT_LIMIT: (i64, usize) = (3 * 3_600, 250);

/// From when until when a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// First second.
    pub not_before: i64,
    /// Last second.
    pub not_after: i64,
}

impl Life {
    /// Returns true if a moment is in it.
    pub fn contains(self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    fn length(self) -> i64 {
        self.not_after.saturating_sub(self.not_before).max(0)
    }

    /// From when on nothing but the limits postpones a renewal.
    pub fn emergency(self) -> i64 {
        self.not_after.saturating_sub(self.length() / EMERGENCY_PART)
    }

    /// Returns the time of its renewal if its issuer suggests none. `random` in 0..1 spreads the renewals.
    pub fn renewal(self, random: f64) -> i64 {
        let length = self.length();
        let used = if length < SHORT_LIFE { length / 2 } else { length / 3 * 2 };
        let spread = (length / SPREAD_PART) as f64 * fraction(random);
        self.not_before.saturating_add(used).saturating_sub(spread as i64)
    }
}

/// An issuer, as far as the schedule needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerFacts<'a> {
    /// Its directory.
    pub directory: &'a str,
    /// The directory where the same can be tried without effect.
    pub staging: Option<&'a str>,
}

/// Facts about one name.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Of the certificate that is stored; `None`: there is none, or none that can be used.
    pub certificate: Option<Life>,
    /// Time of the certificate's renewal if its issuer suggests none; ignored without a certificate.
    pub own_moment: i64,
    /// Earlier tries.
    pub record: &'a Record,
    /// The issuers, best first.
    pub issuers: &'a [IssuerFacts<'a>],
    /// Orders of all names.
    pub all_orders: &'a [OrderMade],
}

/// Action for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing until then.
    Wait {
        /// Unix seconds.
        until: i64,
    },
    /// To order a certificate.
    Order {
        /// The index of the issuer.
        issuer: usize,
        /// At its staging directory.
        at_staging: bool,
    },
}

/// Decides. **Cost**: linear in the orders that are remembered.
pub fn decide(facts: &Facts<'_>, now: i64) -> Decision {
    let Facts { record, issuers, .. } = facts;
    let due = due(facts).max(if record.failures > 0 { record.earliest(now) } else { i64::MIN });
    if due > now {
        return Decision::Wait { until: due };
    }
    let Some(count) = u32::try_from(issuers.len()).ok().filter(|count| *count > 0) else {
        return Decision::Wait { until: i64::MAX };
    };
    let index = (record.failures / TRIES_EACH % count) as usize;
    let issuer = &issuers[index];
    let at_staging = record.failures > 0 && !record.staging_passed && issuer.staging.is_some();
    let directory = issuer.staging.filter(|_| at_staging).unwrap_or(issuer.directory);
    match allowed_from(facts, directory, now) {
        from if from > now => Decision::Wait { until: from },
        _ => Decision::Order { issuer: index, at_staging },
    }
}

/// Returns the time when a name needs a new certificate.
pub fn due(facts: &Facts<'_>) -> i64 {
    let Some(life) = facts.certificate else { return i64::MIN };
    if facts.record.renew_now {
        return i64::MIN;
    }
    let suggested = facts.record.suggestion.filter(|known| known.not_after == life.not_after);
    // A window that is over for each new certificate would have them ordered without end.
    let young_until = life.not_before.saturating_add(YOUNG.min(life.length() / 12));
    suggested.map_or(facts.own_moment, |known| known.at.max(young_until)).min(life.emergency())
}

/// From when on the limits allow an order.
fn allowed_from(facts: &Facts<'_>, directory: &str, now: i64) -> i64 {
    let at_directory = |orders: &[OrderMade]| -> Vec<i64> {
        orders.iter().filter(|made| made.directory == directory).map(|made| made.at).collect()
    };
    let own = at_directory(&facts.record.orders);
    let all = at_directory(facts.all_orders);
    let limits = ORDER_LIMITS.iter().map(|limit| (&own, *limit));
    let limits = limits.chain([(&all, ACCOUNT_LIMIT), (&facts.record.issued, ISSUED_LIMIT)]);
    limits.map(|(moments, limit)| room_from(moments, limit, now)).max().unwrap_or(now)
}

/// From when on there is room for one more within a limit. Moments in the future, from a clock that was wrong, count as now.
fn room_from(moments: &[i64], (seconds, most): (i64, usize), now: i64) -> i64 {
    let mut recent: Vec<i64> = moments.iter().map(|at| (*at).min(now)).collect();
    recent.retain(|at| now.saturating_sub(*at) < seconds);
    recent.sort_unstable();
    // Once the oldest of the last `most` is out of the window, there is room.
    match recent.len().checked_sub(most) {
        Some(extra) => recent[extra].saturating_add(seconds),
        None => now,
    }
}

/// The pause after this number of failures in a row; `random` in 0..1 makes it up to a tenth longer.
pub fn backoff(failures: u32, random: f64) -> i64 {
    let doubled = FIRST_BACKOFF_SECONDS << failures.saturating_sub(1).min(16);
    let pause = doubled.min(MAX_BACKOFF_SECONDS);
    pause + (pause as f64 / 10.0 * fraction(random)) as i64
}

/// A suggestion of the issuer, with the moment that is chosen in it. A window that makes no sense gives none.
pub fn suggestion(
    life: Life,
    (start, end): (i64, i64),
    query_after: i64,
    now: i64,
    before: Option<Suggestion>,
    random: f64,
) -> Option<Suggestion> {
    // RFC 9773 §4.2: a window whose end is not after its start is none.
    if end <= start {
        return None;
    }
    let ask_again = now.saturating_add(query_after.clamp(600, 86_400));
    let is_same =
        |known: &Suggestion| (known.not_after, known.start, known.end) == (life.not_after, start, end);
    if let Some(known) = before.filter(is_same) {
        return Some(Suggestion { ask_again, ..known });
    }
    let into = end.saturating_sub(start) as f64 * fraction(random);
    let at = start.saturating_add(into as i64);
    Some(Suggestion { not_after: life.not_after, start, end, at, ask_again })
}

fn fraction(random: f64) -> f64 {
    if random.is_finite() { random.clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests;
