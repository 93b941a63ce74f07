//! The measurements of a run against a proxy, for [`both_ends::account`] to compare with the proxy's counters.
//!
//! In: an outcome, the proxy's status before. Out: where the time was spent.

use handfast_load::outcome::Outcome;
use handfast_load::sample::{Interval, Series};
use handfast_report::ToolError;
use handfast_report::both_ends::{self, BothEnds, Counted, Seen};

use crate::status::AdminAddress;

/// Reads the proxy's status again, and accounts for the time.
///
/// **Errors**: its status cannot be read.
pub(super) fn read_status(
    status: &AdminAddress,
    before: &Counted,
    outcome: &Outcome,
) -> Result<BothEnds, ToolError> {
    let seen = seen(&outcome.totals);
    let after = status.settled(before, &seen)?;
    Ok(both_ends::account(&seen, before, &after))
}

fn seen(totals: &Interval) -> Seen {
    let tally = &totals.tally;
    let of = |series: Series| {
        totals.series.get(&series).map_or((0, 0.0), |histogram| (histogram.count(), histogram.mean_nanos()))
    };
    let (handshakes, handshake) = of(Series::Handshake);
    let (answers, answer) = of(Series::FirstByte);
    let (_, connect) = of(Series::Connect);
    // A full handshake of TLS 1.2 takes two round trips; a HelloRetryRequest adds one.
    let old: u64 =
        totals.agreed.iter().filter(|(what, _)| what.starts_with("TLSv1.2")).map(|(_, count)| count).sum();
    let old_full = if old == handshakes { old.saturating_sub(tally.resumed) } else { old };
    let round_trips = handshakes + tally.hello_retry + old_full + answers;
    Seen {
        connections: tally.connections + tally.warm_up,
        full: tally.full,
        resumed: tally.resumed,
        handshake_seconds: handshakes as f64 * handshake / 1e9,
        answers,
        answer_seconds: answers as f64 * answer / 1e9,
        network_seconds: round_trips as f64 * connect / 1e9,
        own_seconds: tally.own_ns as f64 / 1e9,
        // No timestamps: they would distort the measurement.
        ..Seen::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_those_of_the_versions_and_of_the_answers() {
        let mut totals = Interval::default();
        let mut times = |series, nanos: u64, count| {
            let histogram = totals.series.entry(series).or_default();
            (0..count).for_each(|_| histogram.record(std::time::Duration::from_nanos(nanos)));
        };
        times(Series::Connect, 10_000_000, 4);
        times(Series::Handshake, 30_000_000, 4);
        times(Series::FirstByte, 20_000_000, 8);
        totals.agreed.insert("TLSv1.3 TLS13_AES_128_GCM_SHA256 X25519".into(), 3);
        totals.agreed.insert("TLSv1.2 TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 X25519".into(), 1);
        (totals.tally.full, totals.tally.connections, totals.tally.warm_up) = (4, 4, 1);
        (totals.tally.hello_retry, totals.tally.own_ns) = (1, 4_000_000);
        let seen = seen(&totals);
        assert_eq!((seen.connections, seen.full, seen.answers), (5, 4, 8));
        // 4 + 1 for another key share + 1 for TLS 1.2 + 8 answers; a histogram has three digits.
        assert!((seen.network_seconds - 0.14).abs() < 0.14e-2, "{seen:?}");
        assert!(
            (seen.handshake_seconds - 0.12).abs() < 0.12e-2 && (seen.answer_seconds - 0.16).abs() < 0.16e-2,
            "{seen:?}"
        );
    }
}
