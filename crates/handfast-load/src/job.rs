//! Everything that was asked for, resolved: what a report's manifest holds, and what `--replay` reads again.
//!
//! In: a report as JSON, or a job alone. Out: a [`Job`] that makes the same run.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::account::Accounted;
use crate::limits::Bound;
use crate::outcome::Refusal;
use crate::plan::Plan;
use crate::search::SearchSpec;

/// Largest file that is read: a day's report with a histogram for each second has about 500 MiB at most; what is
/// larger is something else.
const LARGEST: u64 = 1 << 30;

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The run; with a search, each of its steps.
    pub plan: Plan,
    /// Limits it must keep, as they were written.
    #[serde(default)]
    pub limits: Vec<Bound>,
    /// The search for the highest rate.
    #[serde(default)]
    pub search: Option<SearchSpec>,
    /// Whose CPU time is counted.
    #[serde(default)]
    pub account: Option<Accounted>,
}

impl Job {
    /// A job that is this run and nothing else.
    pub fn of(plan: Plan) -> Self {
        Self { plan, ..Self::default() }
    }

    /// As the manifest holds it: without the values of headers that carry secrets.
    pub fn to_value(&self) -> Value {
        let kept = Self { plan: self.plan.clone().without_secrets(), ..self.clone() };
        // Maps have names for keys and every number is finite or written as null: nothing here can fail.
        serde_json::to_value(kept).unwrap_or(Value::Null)
    }

    /// Reads the job of a JSON report, or a job alone.
    ///
    /// **Errors**: a file that is not there, too large, or neither of both; whoever gave it is at fault.
    ///
    /// **Cost**: the whole file in memory, at most 1 GiB.
    pub fn read(path: &Path) -> Result<Self, Refusal> {
        let failed = |what: String| Refusal::wrong_use(format!("replay {}: {what}", path.display()));
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        let mut text = String::new();
        let read =
            file.take(LARGEST + 1).read_to_string(&mut text).map_err(|error| failed(error.to_string()))?;
        if read as u64 > LARGEST {
            return Err(failed("larger than 1 GiB, which no report is".to_owned()));
        }
        Self::parse(&text).map_err(|what| {
            failed(what)
                .hint("give a report that `handfast load --json FILE` wrote, or the `job` of its manifest")
        })
    }

    /// [`Job::read`] of a text.
    ///
    /// **Errors**: what is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let job = match value.get_mut("manifest") {
            Some(manifest) => {
                manifest.get_mut("job").map(Value::take).ok_or("a report without a job in its manifest")?
            }
            None => value,
        };
        if job.get("plan").is_none() {
            return Err("neither a report nor a job: there is no plan in it".to_owned());
        }
        serde_json::from_value(job).map_err(|error| format!("its job cannot be understood: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use handfast_report::model::{Manifest, Report};

    use super::*;
    use crate::limits::Direction;
    use crate::plan::{Arrivals, Model, Work};

    fn job() -> Job {
        let plan = Plan {
            model: Model::Open { rate: 1_234.5, arrivals: Arrivals::Poisson },
            work: Work::Bulk { send: true, receive: false },
            sources: vec!["127.1.0.1".parse().unwrap()],
            seed: u64::MAX,
            ..Plan::default()
        };
        let bound = |text| Bound::parse(text, Direction::Max).unwrap();
        Job {
            plan,
            limits: vec![bound("handshake.p99=50ms"), bound("errors=1%")],
            search: Some(SearchSpec::new("total.p99=50ms").unwrap()),
            account: Some(Accounted::Pid(4_711)),
        }
    }

    #[test]
    fn a_job_comes_back_from_a_report_and_alone() {
        let report = Report {
            manifest: Manifest { job: job().to_value(), ..Manifest::default() },
            ..Report::default()
        };
        assert_eq!(Job::parse(&serde_json::to_string(&report).unwrap()).unwrap(), job());
        assert_eq!(Job::parse(&job().to_value().to_string()).unwrap(), job());
        let bare = serde_json::json!({ "plan": Plan::default() });
        assert_eq!(Job::parse(&bare.to_string()).unwrap(), Job::of(Plan::default()));
    }

    #[test]
    fn what_is_no_job_is_told_apart() {
        let wrong = |text: &str| Job::parse(text).unwrap_err();
        assert!(wrong("{").starts_with("not JSON"), "{}", wrong("{"));
        assert!(wrong("{}").contains("no plan"));
        assert!(wrong("[1]").contains("no plan"));
        assert!(wrong(r#"{"manifest": {}}"#).contains("without a job"));
        assert!(wrong(r#"{"manifest": 7}"#).contains("without a job"));
        let mut value = job().to_value();
        value["plan"]["surprise"] = Value::Bool(true);
        assert!(wrong(&value.to_string()).contains("surprise"), "{}", wrong(&value.to_string()));
        let mut value = job().to_value();
        value["limits"][0]["max"] = "handshake.q=1ms".into();
        assert!(wrong(&value.to_string()).contains("handshake has no `q`"));
        let mut value = job().to_value();
        value["plan"]["duration"] = (-1.0).into();
        assert!(wrong(&value.to_string()).contains("cannot be understood"));
    }

    #[test]
    fn files_are_named_in_errors() {
        let refusal = Job::read(Path::new("/no/such/report.json")).unwrap_err();
        assert!(refusal.wrong_use && refusal.what.starts_with("replay /no/such/report.json:"), "{refusal}");
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"verdict: VALID\n").unwrap();
        let refusal = Job::read(file.path()).unwrap_err();
        assert!(refusal.hint.is_some_and(|hint| hint.contains("--json")), "a text report is no JSON report");
        file.as_file_mut().set_len(0).unwrap();
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(job().to_value().to_string().as_bytes()).unwrap();
        assert_eq!(Job::read(file.path()).unwrap(), job());
    }
}
