//! Seconds and percentiles as CSV (RFC 4180): a header line, commas, CRLF, quotes where they are needed.
//!
//! In: a report. Out: text. **Units** are in the column names, as in the JSON report.

use std::collections::BTreeSet;

use crate::model::{Report, Second};

/// One line for each second of the run; the percentiles of every series behind, empty where a second has none.
pub fn timeline(report: &Report) -> String {
    const FIXED: [&str; 15] = [
        "second",
        "transactions",
        "exchanges",
        "failed",
        "bytes",
        "open",
        "generator_cpu",
        "busiest_thread",
        "generator_starved",
        "machine_cpu",
        "main_count",
        "main_p50_ns",
        "main_p99_ns",
        "main_max_ns",
        "missing",
    ];
    let columns: BTreeSet<(&str, &str)> = report.timeline.iter().flat_map(percentiles).collect();
    let mut header: Vec<String> = FIXED.map(str::to_owned).into();
    header.extend(columns.iter().map(|(series, percentile)| format!("{series}_{percentile}_ns")));
    let mut text = line(&header);
    for second in &report.timeline {
        let mut fields = fixed(second);
        fields.extend(columns.iter().map(|(series, percentile)| {
            let value = second.percentiles_ns.get(*series).and_then(|named| named.get(*percentile));
            value.map_or(String::new(), u64::to_string)
        }));
        text.push_str(&line(&fields));
    }
    text
}

fn percentiles(second: &Second) -> impl Iterator<Item = (&str, &str)> {
    let each = second.percentiles_ns.iter();
    each.flat_map(|(series, named)| named.keys().map(|percentile| (series.as_str(), percentile.as_str())))
}

fn fixed(second: &Second) -> Vec<String> {
    let mut fields: Vec<String> = [
        u64::from(second.second),
        second.transactions,
        second.exchanges,
        second.failed,
        second.bytes,
        second.open,
    ]
    .map(|value| value.to_string())
    .into();
    let shares = [second.generator_cpu, second.busiest_thread, second.generator_starved, second.machine_cpu];
    fields.extend(shares.map(|share| format!("{share:.4}")));
    let main = &second.main;
    let figures = [main.count(), main.quantile_nanos(0.5), main.quantile_nanos(0.99), main.max_nanos()];
    fields.extend(figures.map(|value| value.to_string()));
    fields.push(second.missing.join(" "));
    fields
}

/// One line for each series and percentile, with the least as `min`, the greatest as `max`, and `mean`.
pub fn latencies(report: &Report) -> String {
    let mut text = line(&["series", "count", "percentile", "latency_ns"].map(str::to_owned));
    for series in &report.series {
        let mut figures = vec![("min".to_owned(), series.min_ns.to_string())];
        figures.push(("mean".to_owned(), format!("{:.0}", series.mean_ns)));
        let mut named: Vec<(&String, &u64)> = series.percentiles_ns.iter().collect();
        named.sort_by(|a, b| number(a.0).total_cmp(&number(b.0)));
        figures.extend(named.into_iter().map(|(name, value)| (name.clone(), value.to_string())));
        figures.push(("max".to_owned(), series.max_ns.to_string()));
        for (name, value) in figures {
            text.push_str(&line(&[series.name.clone(), series.count.to_string(), name, value]));
        }
    }
    text
}

/// `p99.9` as 99.9; what is no percentile comes last.
pub(crate) fn number(percentile: &str) -> f64 {
    percentile.strip_prefix('p').and_then(|number| number.parse().ok()).unwrap_or(f64::INFINITY)
}

/// One record (RFC 4180 §2).
fn line(fields: &[String]) -> String {
    let quoted = fields.iter().map(|field| match field.contains([',', '"', '\r', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.clone(),
    });
    let mut text = quoted.collect::<Vec<_>>().join(",");
    text.push_str("\r\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made_up;

    /// A reader of RFC 4180, written apart from the writer.
    fn read(text: &str) -> Vec<Vec<String>> {
        let (mut records, mut fields, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match (quoted, character) {
                (true, '"') if characters.peek() == Some(&'"') => {
                    characters.next();
                    field.push('"');
                }
                (true, '"') => quoted = false,
                (false, '"') => quoted = true,
                (false, ',') => fields.push(std::mem::take(&mut field)),
                (false, '\r') => assert_eq!(characters.peek(), Some(&'\n')),
                (false, '\n') => {
                    fields.push(std::mem::take(&mut field));
                    records.push(std::mem::take(&mut fields));
                }
                (_, other) => field.push(other),
            }
        }
        assert!(field.is_empty() && fields.is_empty() && !quoted, "the last record has no end");
        records
    }

    #[test]
    fn every_second_is_a_record_with_as_many_fields() {
        let report = made_up::report();
        let records = read(&timeline(&report));
        assert_eq!(records.len(), report.timeline.len() + 1);
        assert!(records.iter().all(|record| record.len() == records[0].len()));
        let column = |name: &str| records[0].iter().position(|field| field == name).unwrap();
        for (record, second) in records[1..].iter().zip(&report.timeline) {
            assert_eq!(record[column("transactions")], second.transactions.to_string());
            assert_eq!(record[column("missing")], second.missing.join(" "));
            assert_eq!(
                record[column("handshake_p99_ns")],
                second.percentiles_ns["handshake"]["p99"].to_string()
            );
        }
        assert!(
            records.iter().any(|record| record[column("missing")].contains('"')),
            "nothing tried the quotes"
        );
    }

    #[test]
    fn percentiles_stand_in_their_order() {
        let report = made_up::report();
        let records = read(&latencies(&report));
        let names: Vec<&str> =
            records.iter().filter(|record| record[0] == "connect").map(|r| r[2].as_str()).collect();
        assert_eq!(names, ["min", "mean", "p50", "p75", "p90", "p99", "p99.9", "p99.99", "max"]);
    }
}
