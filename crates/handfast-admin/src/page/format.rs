//! Numbers and events in words, not yet escaped for HTML.

use std::time::{Duration, SystemTime};

use handfast_observe::metrics::RevocationListSnapshot;

pub(super) use handfast_text::units::{bytes, count, counted, long, rate, share_of};

pub(super) fn seconds(seconds: f64) -> String {
    handfast_text::units::duration(seconds * 1e9)
}

pub(super) use crate::status::Urgency;

impl Urgency {
    pub(crate) const fn class(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Soon => "soon",
            Self::Bad => "bad",
        }
    }
}

/// Describes a certificate's expiry, with its urgency. Automatic renewal acts 30 days before; a certificate that is still there after
/// three weeks of that was not renewed.
pub(super) fn expiry(not_after: SystemTime, now: SystemTime) -> (Urgency, String) {
    const DAY: Duration = Duration::from_secs(86_400);
    match not_after.duration_since(now) {
        Err(past) => (Urgency::Bad, format!("expired {} ago", long(past.duration()))),
        Ok(left) if left < 7 * DAY => (Urgency::Bad, format!("expires in {}: renew it now", long(left))),
        Ok(left) if left < 21 * DAY => {
            (Urgency::Soon, format!("expires in {}: its renewal is late", long(left)))
        }
        Ok(left) => (Urgency::Good, format!("expires in {}", long(left))),
    }
}

/// Describes the expiry of a revocation list, with its urgency; the next list comes before that.
pub(super) fn list_expiry(list: &RevocationListSnapshot, now: SystemTime) -> (Urgency, String) {
    let Some(next) = list.next_update else { return (Urgency::Good, "never expires".into()) };
    match next.duration_since(now) {
        Err(since) => (Urgency::Bad, format!("expired {} ago", long(since.duration()))),
        Ok(left) if list.late_at.is_some_and(|late| late < now) => {
            (Urgency::Soon, format!("expires in {}: the next one is late", long(left)))
        }
        Ok(left) => (Urgency::Good, format!("expires in {}", long(left))),
    }
}

/// `once`, `3 times`.
pub(super) fn times(number: u64) -> String {
    if number == 1 { "once".into() } else { format!("{} times", count(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_become_urgent() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        let in_days = |days: f64| match days < 0.0 {
            true => expiry(now - Duration::from_secs_f64(-days * 86_400.0), now),
            false => expiry(now + Duration::from_secs_f64(days * 86_400.0), now),
        };
        assert_eq!(in_days(-3.0), (Urgency::Bad, "expired 3 days ago".into()));
        assert_eq!(in_days(1.5), (Urgency::Bad, "expires in 1 day 12 h: renew it now".into()));
        assert_eq!(in_days(20.0), (Urgency::Soon, "expires in 20 days: its renewal is late".into()));
        assert_eq!(in_days(90.0), (Urgency::Good, "expires in 90 days".into()));
    }
}
