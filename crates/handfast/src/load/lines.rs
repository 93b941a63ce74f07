//! A running test where there is no terminal: one line for each second.
//!
//! In: a [`Progress`] after its newest second. Out: `second 3: 4,210/s, total p50 1.20 ms p99 3.40 ms, 0 errors`.

use handfast_report::units::{count, counted, nanos};

use super::progress::{Counts, Progress};

/// The line for the second that came last.
pub(crate) fn line(progress: &Progress) -> String {
    let part = if progress.part.is_empty() { String::new() } else { format!("{}, ", progress.part) };
    if progress.tail {
        let errors = count(progress.failures_last);
        return format!(
            "{part}second {}: after the end, waiting for the last ones, {errors} errors",
            progress.seconds
        );
    }
    let figure = progress.show(progress.rate());
    let latency = if progress.last.is_empty() && matches!(progress.counts, Counts::Bytes | Counts::Handshakes)
    {
        // Handshakes are the first second's; then it matters who still stands.
        format!("{} open", count(progress.open))
    } else if progress.last.is_empty() {
        format!("no {}", progress.series)
    } else {
        let quantile = |quantile| nanos(progress.last.quantile_nanos(quantile));
        format!("{} p50 {} p99 {}", progress.series, quantile(0.5), quantile(0.99))
    };
    let errors = counted(progress.failures_last, "error");
    let worst = match progress.worst() {
        Some((what, _)) if progress.failures_last > 0 => format!(" (most often {what})"),
        _ => String::new(),
    };
    format!("{part}second {}: {figure}, {latency}, {errors}{worst}", progress.seconds)
}

#[cfg(test)]
mod tests {
    use handfast_load::Plan;
    use handfast_load::cause::{Cause, Step};
    use handfast_load::plan::Work;
    use handfast_load::sample::{Failures, Interval, Series};
    use handfast_stats::Histogram;

    use super::*;

    #[test]
    fn of_connections_that_stand_it_says_how_many() {
        let plan = Plan { work: Work::Idle { send: 0, receive: 0 }, ..Plan::default() };
        let mut progress = Progress::new(&plan, String::new());
        let mut interval = Interval::default();
        interval.tally.open = 1_000;
        progress.add(&interval);
        assert_eq!(line(&progress), "second 1: 0/s, 1,000 open, 0 errors");
    }

    #[test]
    fn a_second_is_a_line() {
        let mut progress = Progress::new(&Plan::default(), String::new());
        progress.add(&Interval::default());
        assert_eq!(line(&progress), "second 1: 0/s, no total, 0 errors");
        let mut interval = Interval { second: 1, ..Interval::default() };
        interval.tally.transactions = 4210;
        let mut total = Histogram::new();
        total.record_nanos(1_200_000);
        interval.series.insert(Series::Total, total);
        let reset = Failures { step: Step::Connect, cause: Cause::Refused, count: 2, examples: Vec::new() };
        interval.failures.push(reset);
        progress.part = "step 2 at 500/s".into();
        progress.add(&interval);
        let expected = "step 2 at 500/s, second 2: 4,210/s, total p50 1.20 ms p99 1.20 ms, 2 errors \
                        (most often connect refused)";
        assert_eq!(line(&progress), expected);
        let mean = progress.mean_rate();
        progress.add(&Interval { second: 10, ..Interval::default() });
        assert_eq!(
            line(&progress),
            "step 2 at 500/s, second 11: after the end, waiting for the last ones, 0 errors"
        );
        assert_eq!((progress.mean_rate(), progress.rate()), (mean, 4210.0), "the tail is in no rate");
    }
}
