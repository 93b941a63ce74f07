//! State of one name between two tries, also over a restart: orders made, failures, and the time of its certificate's renewal.
//!
//! In: events, each with its time. Out: the record as it is stored beside the certificate. Times are Unix seconds.

use serde::{Deserialize, Serialize};

use crate::schedule::{MAX_BACKOFF_SECONDS, backoff};

/// Orders older than this are forgotten: no limit looks further back.
const REMEMBERED: i64 = 8 * 86_400;
/// Orders that are kept at most; the limits allow far fewer.
const MAX_ORDERS: usize = 256;
/// Bytes of an error message that are kept: an issuer chooses its length.
const MAX_ERROR_BYTES: usize = 600;
/// The longest pause that an issuer can request.
pub(crate) const MAX_RETRY_AFTER_SECONDS: i64 = 86_400;

/// One order that was sent, or was about to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderMade {
    /// Time of the order.
    pub at: i64,
    /// The directory it was sent to.
    pub directory: String,
}

/// Suggested time to renew a certificate, from its issuer (ARI, RFC 9773).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The last second of the certificate that it is about: a renewed one needs a new suggestion.
    pub not_after: i64,
    /// First second of the suggested window.
    pub start: i64,
    /// Last second of it.
    pub end: i64,
    /// The moment in the window that was chosen at random.
    pub at: i64,
    /// Time of the next query to the issuer.
    pub ask_again: i64,
}

/// Stored state of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Tries that failed since the last success.
    pub failures: u32,
    /// Reason why the last one failed.
    pub last_error: Option<String>,
    /// Time when the last try began.
    pub last_try: Option<i64>,
    /// No try before this moment.
    pub next_try: i64,
    /// True if the issuer's staging directory has accepted the name since the last failure.
    pub staging_passed: bool,
    /// An operator asks for a new certificate.
    pub renew_now: bool,
    /// Orders of the last days.
    pub orders: Vec<OrderMade>,
    /// Times when certificates were received.
    pub issued: Vec<i64>,
    /// The issuer's suggestion for the present certificate.
    pub suggestion: Option<Suggestion>,
}

impl Record {
    /// A try begins.
    pub fn begins(&mut self, now: i64) {
        self.last_try = Some(now);
    }

    /// An order is about to be sent. To be stored before it is: an order that was sent and not remembered would not count.
    pub fn orders(&mut self, directory: &str, now: i64) {
        self.orders.retain(|made| now.saturating_sub(made.at) < REMEMBERED);
        self.issued.retain(|at| now.saturating_sub(*at) < REMEMBERED);
        if self.orders.len() >= MAX_ORDERS {
            self.orders.remove(0);
        }
        self.orders.push(OrderMade { at: now, directory: directory.to_owned() });
    }

    /// A try has failed; `pause`: seconds for which the issuer accepts none. `random` is in 0..1.
    pub fn failed(&mut self, error: &str, pause: Option<i64>, now: i64, random: f64) {
        self.failures = self.failures.saturating_add(1);
        self.staging_passed = false;
        self.last_error = Some(shortened(error));
        let pause = pause.unwrap_or(0).clamp(0, MAX_RETRY_AFTER_SECONDS);
        self.next_try = now.saturating_add(backoff(self.failures, random).max(pause));
    }

    /// The staging directory has issued a certificate: the real one can be asked.
    pub fn passed_staging(&mut self, now: i64) {
        self.staging_passed = true;
        self.next_try = now;
    }

    /// A certificate was received and stored.
    pub fn succeeded(&mut self, now: i64) {
        let Self { orders, mut issued, .. } = std::mem::take(self);
        issued.push(now);
        *self = Self { orders, issued, last_try: Some(now), ..Self::default() };
    }

    /// Returns the earliest start of the next try. A time that no pause could have led to was written when the clock was wrong, and
    /// does not count.
    pub fn earliest(&self, now: i64) -> i64 {
        let longest = MAX_RETRY_AFTER_SECONDS.max(MAX_BACKOFF_SECONDS * 2);
        if self.next_try > now.saturating_add(longest) { now } else { self.next_try }
    }
}

fn shortened(text: &str) -> String {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    match line.char_indices().find(|(at, _)| *at >= MAX_ERROR_BYTES) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_success_forgets_failures_and_keeps_the_orders() {
        let mut record = Record { renew_now: true, ..Record::default() };
        record.orders("one", 10);
        record.failed("no", None, 10, 0.0);
        record.orders("one", 100);
        record.succeeded(100);
        assert_eq!((record.failures, &record.last_error, record.renew_now), (0, &None, false));
        assert_eq!((record.orders.len(), &record.issued[..]), (2, &[100][..]));
        record.orders("one", 100 + REMEMBERED);
        assert_eq!(record.orders.len(), 1, "those of last week count no longer");
    }

    #[test]
    fn an_issuer_can_ask_for_a_day_and_no_more() {
        let mut record = Record::default();
        record.failed("rate limited", Some(i64::MAX), 1_000, 0.5);
        assert_eq!(record.next_try, 1_000 + MAX_RETRY_AFTER_SECONDS);
        record.failed("rate limited", Some(-5), 1_000, 0.0);
        assert_eq!(record.next_try, 1_000 + backoff(2, 0.0));
    }

    #[test]
    fn a_clock_that_was_wrong_stops_nothing() {
        let mut record = Record::default();
        record.failed("no", None, 4_000_000_000, 0.0);
        assert_eq!(record.earliest(1_800_000_000), 1_800_000_000);
        record.failed("no", None, 1_800_000_000, 0.0);
        assert!(record.earliest(1_800_000_000) > 1_800_000_000);
    }

    #[test]
    fn an_error_is_one_line_of_bounded_length() {
        let mut record = Record::default();
        record.failed(&"ä\n".repeat(10_000), None, 0, 0.0);
        let kept = record.last_error.expect("there is one");
        assert!(kept.len() <= MAX_ERROR_BYTES + 5 && !kept.contains('\n'), "{}", kept.len());
    }
}
