//! The report as JSON, and back.
//!
//! In: a report, or text that may be one. Out: text, or a report, or what is wrong and what to do about it.

use std::fmt;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::model::{Report, SCHEMA};

/// Pretty-printed JSON with a newline at the end.
pub fn to_json(report: &Report) -> String {
    // Keys are strings, and writing to memory does not fail.
    let mut text = serde_json::to_string_pretty(report).expect("a report has string keys only");
    text.push('\n');
    text
}

/// Reads what [`to_json`] wrote.
///
/// **Errors**: not JSON, not a report, one of another schema or version, or one that was changed.
pub fn from_json(text: &str) -> Result<Report, ReportError> {
    let text = text.trim_start_matches('\u{feff}');
    let found = schema_of(text).map_err(ReportError::NotJson)?;
    match found.as_deref() {
        Some(SCHEMA) => serde_json::from_slice(text.as_bytes()).map_err(ReportError::Broken),
        Some(other) => Err(ReportError::OtherSchema(other.chars().take(60).collect())),
        None => Err(ReportError::NoSchema),
    }
}

/// The schema that a text names; `None`: it is JSON without a schema.
///
/// **Errors**: it is not JSON.
pub(crate) fn schema_of(text: &str) -> Result<Option<String>, serde_json::Error> {
    /// Only the part that says what the rest is.
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    match serde_json::from_slice::<Head>(text.as_bytes()) {
        Ok(head) => Ok(head.schema),
        // A list, a number, or a schema that is none.
        Err(_) => serde_json::from_slice::<IgnoredAny>(text.as_bytes()).map(|_| None),
    }
}

/// Why a text is no report that can be read.
#[derive(Debug)]
pub enum ReportError {
    /// It is not JSON.
    NotJson(serde_json::Error),
    /// It is JSON, and names no schema.
    NoSchema,
    /// It is of another schema or version.
    OtherSchema(String),
    /// It names this schema, and is invalid.
    Broken(serde_json::Error),
}

impl ReportError {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        const FILE: &str = "give the file that `handfast load --json FILE` wrote";
        let name = SCHEMA.split('/').next().unwrap_or(SCHEMA);
        match self {
            Self::NoSchema => Some(FILE),
            Self::OtherSchema(schema) => match schema.split_once('/') {
                Some((theirs, version)) if theirs == name && version.parse::<u64>().is_ok() => {
                    Some("read it with the program that wrote it, or repeat the run with this one")
                }
                _ => Some(FILE),
            },
            Self::NotJson(_) | Self::Broken(_) => None,
        }
    }
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("read report: ")?;
        match self {
            Self::NotJson(error) => write!(f, "not JSON: {error}"),
            Self::NoSchema => {
                write!(f, "this is JSON, but no handfast load report (no \"schema\": \"{SCHEMA}\")")
            }
            Self::OtherSchema(schema) => {
                write!(f, "it is {}; this program reads {SCHEMA}", crate::units::plain(schema))
            }
            Self::Broken(error) => write!(f, "it says {SCHEMA}, but {error}"),
        }
    }
}

impl std::error::Error for ReportError {}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::made_up;
    use crate::model::VerdictWord;

    #[test]
    fn what_is_written_is_read() {
        let report = made_up::report();
        let read = from_json(&to_json(&report)).unwrap();
        // Not assert_eq: it would print sixty seconds twice.
        assert!(read == report, "something was lost on the way");
        assert!(from_json(&format!("\u{feff}{}", to_json(&report))).unwrap() == report);
    }

    #[test]
    fn another_version_is_named_with_a_hint() {
        let text = to_json(&made_up::report()).replace(SCHEMA, "handfast-load/2");
        let error = from_json(&text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "read report: it is handfast-load/2; this program reads handfast-load/1"
        );
        assert!(error.hint().unwrap().starts_with("read it with the program that wrote it"));
        assert!(
            from_json("{\"schema\":\"x\\u001b\"}").unwrap_err().to_string().contains("it is x\\u{1b}; this")
        );
    }

    #[test]
    fn what_is_no_report_is_said_to_be_none() {
        for text in ["", "{", "not json"] {
            assert!(
                from_json(text).unwrap_err().to_string().starts_with("read report: not JSON: "),
                "{text:?}"
            );
        }
        for text in ["[]", "3", "{}", "{\"schema\":4}", "{\"a\":[1,2]}"] {
            assert!(from_json(text).unwrap_err().to_string().contains("no handfast load report"), "{text:?}");
        }
    }

    #[test]
    fn a_changed_histogram_is_an_error_with_its_line() {
        let text = to_json(&made_up::report()).replacen("\"histogram\": \"HIST", "\"histogram\": \"HISU", 1);
        let error = from_json(&text).unwrap_err().to_string();
        assert!(error.contains("read histogram") && error.contains("line"), "{error}");
    }

    /// What is wrong with a value by a published schema.
    fn faults(value: &Value, schema: &str) -> Vec<String> {
        let schema = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    #[test]
    fn the_published_schema_describes_the_lines_of_a_run() {
        use crate::live::{self, Line, Part, to_line};
        let schema = include_str!("../../../docs/reference/load-live.schema.json");
        let series =
            || live::Series { percentiles_ns: [("p50".into(), 1)].into(), ..live::Series::default() };
        let second = live::Second {
            schema: live::SCHEMA.into(),
            offered_rate: Some(1.5),
            series: vec![series()],
            errors: vec![live::Failure::default()],
            members: vec![Part { series: Some(series()), ..Part::default() }],
            requests: vec![Part::default()],
            ..live::Second::default()
        };
        let begin = live::Begin { schema: live::SCHEMA.into(), ..live::Begin::default() };
        let end =
            live::End { schema: live::SCHEMA.into(), verdict: Some(VerdictWord::PortLimited), lost_lines: 2 };
        for line in [Line::Begin(begin), Line::Second(second), Line::End(end)] {
            let text = to_line(&line);
            assert!(text.ends_with('\n') && text.lines().count() == 1, "{text}");
            let mut value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(faults(&value, schema), [""; 0]);
            value["schema"] = 1.into();
            assert_eq!(faults(&value, schema).len(), 1, "it can complain");
        }
    }

    #[test]
    fn the_published_schema_describes_a_run_that_is_watched() {
        use crate::live::{Part, Series};
        use crate::run::{self, Counts, Failed, Latency, Run, Thread};
        let schema = include_str!("../../../docs/reference/load-run.schema.json");
        let part = Part { series: Some(Series::default()), ..Part::default() };
        for counts in [Counts::Transactions, Counts::Exchanges, Counts::Bytes, Counts::Handshakes] {
            let run = Run {
                schema: run::SCHEMA.into(),
                counts,
                steps: vec![Latency::default()],
                failures: vec![Failed::default()],
                threads: vec![Thread::default()],
                lag_p99_ns: (counts == Counts::Bytes).then_some(1),
                members: vec![part.clone()],
                requests: vec![Part::default()],
                ..Run::default()
            };
            let text = run::to_json(&run);
            let mut value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(faults(&value, schema), [""; 0]);
            value["schema"] = 1.into();
            assert_eq!(faults(&value, schema).len(), 1, "it can complain");
        }
    }

    #[test]
    fn the_published_schema_describes_it() {
        let schema = include_str!("../../../docs/reference/load-report.schema.json");
        let mut report = made_up::report();
        report.totals.http_status.insert("2xx".into(), 3);
        let check = |value: &Value| faults(value, schema);
        for report in [&report, &Report { schema: SCHEMA.into(), ..Report::default() }] {
            assert_eq!(check(&serde_json::to_value(report).unwrap()), [""; 0]);
        }
        // The check itself can fail.
        let mut value = serde_json::to_value(&report).unwrap();
        value["schema"] = "handfast-load/2".into();
        value["totals"]["rate"] = "many".into();
        value["timeline"][3]["open"] = "many".into();
        value["verdict"]["word"] = "fine".into();
        value["mix"].as_object_mut().unwrap().remove("resumed");
        assert_eq!(check(&value).len(), 5, "{:#?}", check(&value));
    }
}
