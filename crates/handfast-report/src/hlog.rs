//! The HdrHistogram log, version 1.3, which HistogramLogAnalyzer, hdr-plot and their like read.
//!
//! In: a report. Out: text. First a line for each series over the whole run, tagged with its name; then a line for each
//! second of the run's main series, under its own tag. The main series has no line for the whole run, since readers add
//! up lines of the same tag. **Units**: seconds; the maximum in milliseconds; within the histograms nanoseconds.

use std::fmt::Write;

use handfast_stats::Histogram;
use handfast_text::calendar::seconds_since_1970;

use crate::model::Report;
use crate::words::main_series;

/// The whole log.
pub fn to_hlog(report: &Report) -> String {
    let mut log = String::new();
    let started = seconds_since_1970(&report.manifest.started).unwrap_or(0.0);
    let program = crate::units::plain(&report.manifest.program).replace(']', ")");
    let when = crate::units::plain(&report.manifest.started).replace(']', ")");
    let _ = writeln!(log, "#[Logged with {program}]");
    let _ = writeln!(log, "#[Histogram log format version 1.3]");
    let _ = writeln!(log, "#[StartTime: {started:.3} (seconds since epoch), {when}]");
    // With both, readers need not guess that the lines' times are relative to this.
    let _ = writeln!(log, "#[BaseTime: {started:.3} (seconds since epoch)]");
    let _ = writeln!(log, "#[MaxValueDivisor: 1000000.000]");
    let _ = writeln!(
        log,
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
    );
    let main = main_series(report).map_or("total", |series| series.name.as_str());
    let by_second = report.timeline.iter().any(|second| !second.main.is_empty());
    for series in report.series.iter().filter(|series| !by_second || series.name != main) {
        interval(&mut log, &series.name, 0.0, report.totals.duration_seconds, &series.histogram);
    }
    if by_second {
        for second in &report.timeline {
            interval(&mut log, main, f64::from(second.second), 1.0, &second.main);
        }
    }
    log
}

fn interval(log: &mut String, tag: &str, start: f64, length: f64, histogram: &Histogram) {
    let max = histogram.max_nanos() as f64 / 1e6;
    // A tag ends at a comma or a space.
    let tag: String =
        tag.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
    let _ = writeln!(log, "Tag={tag},{start:.3},{length:.3},{max:.3},{}", histogram.encode());
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::made_up;

    #[test]
    fn the_librarys_own_reader_reads_it_all() {
        let report = made_up::report();
        let log = to_hlog(&report);
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines[1], "#[Histogram log format version 1.3]");
        assert!(lines[2].starts_with("#[StartTime: 1795304666.250 (seconds since epoch)"), "{}", lines[2]);
        assert!(lines[5].starts_with("\"StartTimestamp\""), "{}", lines[5]);
        let (mut main, mut start, mut whole) = (Histogram::new(), -1.0_f64, Vec::new());
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            let LogEntry::Interval(interval) = entry.expect("a line was not understood") else { continue };
            let tag = interval.tag().expect("no tag").as_str();
            let histogram = Histogram::decode(interval.encoded_histogram()).unwrap();
            assert!((interval.max() - histogram.max_nanos() as f64 / 1e6).abs() < 0.001);
            assert!(interval.start_timestamp().as_secs_f64() >= start.max(0.0), "not in order");
            if tag == "total" {
                start = interval.start_timestamp().as_secs_f64();
                assert_eq!(interval.duration().as_secs_f64(), 1.0);
                main.merge(&histogram);
            } else {
                whole.push((tag.to_owned(), histogram));
            }
        }
        let of = |name: &str| report.series.iter().find(|series| series.name == name).unwrap();
        assert_eq!(main, of("total").histogram, "the seconds are not the whole");
        assert_eq!(start as usize, report.timeline.len() - 1);
        assert_eq!(whole.len(), report.series.len() - 1);
        assert!(whole.iter().all(|(tag, histogram)| of(tag).histogram == *histogram));
    }

    #[test]
    fn without_seconds_every_series_is_whole() {
        let report = Report { timeline: Vec::new(), ..made_up::report() };
        let log = to_hlog(&report);
        assert_eq!(log.lines().filter(|line| line.starts_with("Tag=")).count(), report.series.len());
    }
}
