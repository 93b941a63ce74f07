//! Reports as JSON, and back.
//!
//! In: a report, or text that may be one. Out: text, or a report, or what is wrong and what to do about it.

use std::fmt;

use handfast_text::foreign::without_values;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use crate::model::{Report, SCHEMA};

/// Pretty-printed JSON with a newline at the end.
pub fn to_json(report: &impl Serialize) -> String {
    // Keys are strings, and writing to memory does not fail.
    serde_json::to_string_pretty(report).expect("a report has string keys only") + "\n"
}

/// JSON in one line, with its end.
pub fn to_line(report: &impl Serialize) -> String {
    // As above.
    serde_json::to_string(report).expect("a report has string keys only") + "\n"
}

/// Reads the report of a load run.
///
/// **Errors**: as [`read`].
pub fn from_json(text: &str) -> Result<Report, ReportError> {
    read(text, SCHEMA)
}

/// Reads what [`to_json`] wrote of a report with this schema.
///
/// **Errors**: not JSON, not a report, one of another schema or version, or one that was changed.
pub fn read<R: DeserializeOwned>(text: &str, schema: &'static str) -> Result<R, ReportError> {
    /// Only the part that says what the rest is.
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
    }
    let text = text.trim_start_matches('\u{feff}').as_bytes();
    let fault = match serde_json::from_slice::<Head>(text) {
        Ok(Head { schema: Some(found) }) if found == schema => match serde_json::from_slice(text) {
            Ok(report) => return Ok(report),
            Err(error) => Fault::Broken(error),
        },
        Ok(Head { schema: Some(other) }) => Fault::OtherSchema(other.chars().take(60).collect()),
        Ok(Head { schema: None }) => Fault::NoSchema,
        // A list, a number, or a schema that is none.
        Err(_) => serde_json::from_slice::<IgnoredAny>(text).map_or_else(Fault::NotJson, |_| Fault::NoSchema),
    };
    Err(ReportError { schema, fault })
}

/// Reason why a text is not a readable report.
#[derive(Debug)]
pub struct ReportError {
    /// The schema that was expected: `handfast-load/1`.
    schema: &'static str,
    fault: Fault,
}

#[derive(Debug)]
enum Fault {
    NotJson(serde_json::Error),
    NoSchema,
    OtherSchema(String),
    Broken(serde_json::Error),
}

impl ReportError {
    /// The command that writes such reports: `handfast load`.
    fn command(&self) -> String {
        self.name().replacen('-', " ", 1)
    }

    /// The name of the schema without its version.
    fn name(&self) -> &'static str {
        self.schema.split('/').next().unwrap_or(self.schema)
    }

    /// Instruction for the user.
    pub fn hint(&self) -> Option<String> {
        let is_of_another_version = |other: &str| {
            let parts = other.split_once('/');
            parts.is_some_and(|(name, version)| name == self.name() && version.parse::<u64>().is_ok())
        };
        match &self.fault {
            Fault::OtherSchema(other) if is_of_another_version(other) => {
                Some("read it with the program that wrote it, or repeat the run with this one".to_owned())
            }
            Fault::NoSchema | Fault::OtherSchema(_) => {
                Some(format!("give the file that `{} --json FILE` wrote", self.command()))
            }
            Fault::NotJson(_) | Fault::Broken(_) => None,
        }
    }
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (schema, command) = (self.schema, self.command());
        match &self.fault {
            Fault::NotJson(error) => write!(f, "read report: not JSON: {error}"),
            Fault::NoSchema => {
                write!(f, "read report: this is JSON, but no {command} report (no \"schema\": \"{schema}\")")
            }
            // Of any other file it would be content.
            Fault::OtherSchema(other) if other.starts_with("handfast-") => {
                write!(f, "read report: it is {}; this program reads {schema}", crate::units::plain(other))
            }
            Fault::OtherSchema(_) => {
                write!(f, "read report: it has another schema; this program reads {schema}")
            }
            Fault::Broken(error) => write!(f, "read report: it says {schema}, but {}", without_values(error)),
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
        for (schema, part) in [
            ("handfast-\\u001b", "it is handfast-\\u{1b}; this"),
            ("x\\u001b", "it has another schema; this"),
        ] {
            let error = from_json(&format!("{{\"schema\":\"{schema}\"}}")).unwrap_err();
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_no_report_is_reported_as_none() {
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

    /// Violations of a published schema by a value.
    fn faults(value: &Value, schema: &str) -> Vec<String> {
        let schema = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
    }

    #[test]
    fn the_published_schema_describes_the_lines_of_a_run() {
        use crate::live::{self, Line, Part};
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
            value["schema"] = "other/1".into();
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
            let text = to_line(&run);
            let mut value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(faults(&value, schema), [""; 0]);
            value["schema"] = "other/1".into();
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
