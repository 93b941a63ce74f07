//! A running test without a terminal: one line for each second.
//!
//! In: a [`Run`] after its newest second. Out: `second 3: 4,210/s, total p50 1.20 ms p99 3.40 ms, 0 errors`.

use handfast_report::run::{Counts, Run};
use handfast_report::units::{count, counted, nanos};

use super::live::shown;

/// The line for the second that came last.
pub(crate) fn line(run: &Run) -> String {
    let part = if run.part.is_empty() { String::new() } else { format!("{}, ", run.part) };
    if run.tail {
        let errors = count(run.failed_last());
        return format!(
            "{part}second {}: after the end, waiting for the last ones, {errors} errors",
            run.seconds
        );
    }
    let figure = shown(run, run.rate());
    let latency = if run.last.count > 0 {
        format!("{} p50 {} p99 {}", run.last.name, nanos(run.last.p50_ns), nanos(run.last.p99_ns))
    } else if matches!(run.counts, Counts::Bytes | Counts::Handshakes) {
        // Handshakes happen in the first second; later the open connections matter.
        format!("{} open", count(run.open))
    } else {
        format!("no {}", run.last.name)
    };
    let errors = counted(run.failed_last(), "error");
    let worst = match run.worst() {
        Some(worst) if run.failed_last() > 0 => format!(" (most often {} {})", worst.step, worst.cause),
        _ => String::new(),
    };
    format!("{part}second {}: {figure}, {latency}, {errors}{worst}", run.seconds)
}

#[cfg(test)]
mod tests {
    use handfast_load::Plan;
    use handfast_load::cause::{Cause, Step};
    use handfast_load::plan::Work;
    use handfast_load::sample::{Failures, Interval, Series};
    use handfast_stats::Histogram;

    use super::*;
    use crate::load::progress::Progress;

    #[test]
    fn of_connections_that_stand_it_says_how_many() {
        let plan = Plan { work: Work::Idle { send: 0, receive: 0 }, ..Plan::default() };
        let mut progress = Progress::new(&plan, String::new());
        let mut interval = Interval::default();
        interval.tally.open = 1_000;
        progress.add(&interval, false);
        assert_eq!(line(&progress), "second 1: 0/s, 1,000 open, 0 errors");
    }

    #[test]
    fn a_second_is_a_line() {
        let mut progress = Progress::new(&Plan::default(), String::new());
        progress.add(&Interval::default(), false);
        assert_eq!(line(&progress), "second 1: 0/s, no total, 0 errors");
        let mut interval = Interval { second: 1, ..Interval::default() };
        interval.tally.transactions = 4210;
        let mut total = Histogram::new();
        total.record_nanos(1_200_000);
        interval.series.insert(Series::Total, total);
        let reset = Failures { step: Step::Connect, cause: Cause::Refused, count: 2, examples: Vec::new() };
        interval.failures.push(reset);
        progress.run.part = "step 2 at 500/s".into();
        progress.add(&interval, false);
        let expected = "step 2 at 500/s, second 2: 4,210/s, total p50 1.20 ms p99 1.20 ms, 2 errors \
                        (most often connect refused)";
        assert_eq!(line(&progress), expected);
        let mean = progress.mean_rate;
        progress.add(&Interval { second: 10, ..Interval::default() }, false);
        assert_eq!(
            line(&progress),
            "step 2 at 500/s, second 11: after the end, waiting for the last ones, 0 errors"
        );
        assert_eq!((progress.mean_rate, progress.rate()), (mean, 4210.0), "the tail is in no rate");
    }
}
