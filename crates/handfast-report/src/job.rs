//! All options of a run, resolved: the manifest of a report holds them, and `--replay` reads them.
//!
//! In: a report as JSON, or a job alone. Out: a [`Job`] that makes the same run.

use std::fmt;
use std::path::PathBuf;

use handfast_text::foreign::without_values;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::{Bound, Direction, LimitError};
use crate::plan::{Arrivals, Model, Plan};

/// The options of a run.
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
    /// The server processes whose CPU time is counted.
    #[serde(default)]
    pub account: Option<Accounted>,
}

/// Processes whose CPU time is counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Accounted {
    /// A process, its threads and its descendants.
    Pid(u32),
    /// A control group's directory, of version 1 (`cpuacct.usage`) or 2 (`cpu.stat`).
    Cgroup(PathBuf),
}

/// A search for the highest rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchSpec {
    /// The bound that must hold: a latency's, or that of the errors.
    pub bound: Bound,
    /// First rate that is offered, transactions a second.
    pub from: f64,
    /// Share by which the highest rate that held and the lowest that did not may differ at the end.
    pub precision: f64,
    /// Number of times that a rate is tried; more than half decide. An even number is as good as the odd one below it.
    pub repeats: u32,
}

impl SearchSpec {
    /// The search for `total.p99=50ms`, from 100 a second on, to 5 %, best of three.
    ///
    /// **Errors**: a bound that cannot be read, or is one of a rate.
    pub fn new(bound: &str) -> Result<Self, LimitError> {
        let bound = Bound::parse(bound, Direction::Max)?;
        if !bound.is_latency() && !bound.is_errors() {
            return Err(LimitError::NotSearchable(bound.written().to_owned()));
        }
        Ok(Self { bound, from: 100.0, precision: 0.05, repeats: 3 })
    }

    /// The plan of step `number`, counted from 1: it offers the rate, with the arrivals of `plan` if it has some. Its seed
    /// is the plan's plus the number, since repeats with the same arrivals would not be independent.
    pub fn plan_at(plan: &Plan, rate: f64, number: u32) -> Plan {
        let arrivals = plan.model.arrivals().unwrap_or(Arrivals::Poisson);
        let seed = plan.seed.wrapping_add(u64::from(number));
        Plan { model: Model::open(rate, arrivals), seed, ..plan.clone() }
    }
}

impl Job {
    /// A job of this run alone.
    pub fn of(plan: Plan) -> Self {
        Self { plan, ..Self::default() }
    }

    /// As the manifest holds it: without the values of headers that carry secrets.
    #[must_use]
    pub fn without_secrets(self) -> Self {
        Self { plan: self.plan.without_secrets(), ..self }
    }

    /// Reads the job of a JSON report, or a job alone.
    ///
    /// **Errors**: what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, JobError> {
        /// The fields that identify the text: of a report the manifest, of a job the plan.
        #[derive(Deserialize)]
        struct Outline {
            manifest: Option<IgnoredAny>,
            plan: Option<IgnoredAny>,
        }
        /// A report, as far as it is needed.
        #[derive(Deserialize)]
        struct WithManifest<J> {
            manifest: WithJob<J>,
        }
        #[derive(Deserialize)]
        struct WithJob<J> {
            job: J,
        }
        let Ok(outline) = serde_json::from_slice::<Outline>(text.as_bytes()) else {
            serde_json::from_slice::<IgnoredAny>(text.as_bytes()).map_err(JobError::NotJson)?;
            return Err(JobError::NoPlan);
        };
        if outline.manifest.is_none() {
            outline.plan.ok_or(JobError::NoPlan)?;
            return serde_json::from_slice(text.as_bytes()).map_err(JobError::NotUnderstood);
        }
        let outline: WithManifest<Outline> =
            serde_json::from_slice(text.as_bytes()).map_err(|_| JobError::NoJob)?;
        outline.manifest.job.plan.ok_or(JobError::NoPlan)?;
        let report: WithManifest<Self> =
            serde_json::from_slice(text.as_bytes()).map_err(JobError::NotUnderstood)?;
        Ok(report.manifest.job)
    }
}

/// Reason why a text has no job to repeat.
#[derive(Debug)]
pub enum JobError {
    /// It is not JSON.
    NotJson(serde_json::Error),
    /// It is a report whose manifest has no job.
    NoJob,
    /// It is neither a report nor a job.
    NoPlan,
    /// Its job has an unknown field or value.
    NotUnderstood(serde_json::Error),
}

impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(error) => write!(f, "not JSON: {error}"),
            Self::NoJob => f.write_str("a report without a job in its manifest"),
            Self::NoPlan => f.write_str("neither a report nor a job: there is no plan in it"),
            Self::NotUnderstood(error) => {
                write!(f, "its job cannot be understood: {}", without_values(error))
            }
        }
    }
}

impl std::error::Error for JobError {}

/// As the manifest holds it, one field on each line.
pub(crate) fn pretty(job: Option<&Job>) -> String {
    format!("{:#}", sorted(job))
}

/// With its fields in the order of the alphabet.
fn sorted(job: Option<&Job>) -> serde_json::Value {
    // Keys are names, and each number is finite or null: this cannot fail.
    serde_json::to_value(job).unwrap_or_default()
}

/// A manifest's job, with fields in alphabetical order, as in all reports. An unknown job, perhaps of a later version, does not
/// prevent reading the rest of the report.
pub(crate) mod kept {
    use super::{Deserialize, Deserializer, IgnoredAny, Job, Serialize, Serializer, sorted};

    pub(crate) fn serialize<S: Serializer>(job: &Option<Job>, serializer: S) -> Result<S::Ok, S::Error> {
        sorted(job.as_ref()).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Job>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum StoredJob {
            Known(Box<Job>),
            Unknown(IgnoredAny),
        }
        Ok(match StoredJob::deserialize(deserializer)? {
            StoredJob::Known(job) => Some(*job),
            StoredJob::Unknown(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::{Manifest, Report, VerdictWord};
    use crate::plan::Work;

    fn job() -> Job {
        let plan = Plan {
            model: Model::open(1_234.5, Arrivals::Poisson),
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
        let report =
            Report { manifest: Manifest { job: Some(job()), ..Manifest::default() }, ..Report::default() };
        assert_eq!(Job::parse(&serde_json::to_string(&report).unwrap()).unwrap(), job());
        assert_eq!(Job::parse(&serde_json::to_string(&job()).unwrap()).unwrap(), job());
        let bare = serde_json::json!({ "plan": Plan::default() });
        assert_eq!(Job::parse(&bare.to_string()).unwrap(), Job::of(Plan::default()));
    }

    #[test]
    fn a_job_of_another_build_leaves_the_report_readable() {
        let report = Report {
            schema: crate::model::SCHEMA.into(),
            manifest: Manifest { job: Some(job()), ..Manifest::default() },
            ..Report::default()
        };
        let mut value = serde_json::to_value(&report).unwrap();
        let fields = value["manifest"]["job"]["plan"].as_object().unwrap().keys().cloned();
        assert!(fields.collect::<Vec<_>>().is_sorted(), "in the order of the alphabet, as ever");
        assert!(crate::from_json(&value.to_string()).unwrap() == report);
        value["manifest"]["job"]["plan"]["later"] = 1.into();
        let read = crate::from_json(&value.to_string()).unwrap();
        assert_eq!(read.manifest.job, None);
        value["manifest"]["job"] = Value::Null;
        assert_eq!(crate::from_json(&value.to_string()).unwrap().manifest.job, None);
    }

    #[test]
    fn a_search_may_allow_errors() {
        let spec = SearchSpec::new("errors=5%").unwrap();
        let step = |failed: u64, word: VerdictWord| {
            let mut report = Report::default();
            (report.totals.transactions, report.totals.failed, report.verdict.word) =
                (100 - failed, failed, word);
            spec.step(10.0, &report).held
        };
        assert!(step(3, VerdictWord::Errors) && step(0, VerdictWord::Valid));
        assert!(!step(6, VerdictWord::Errors) && !step(0, VerdictWord::GeneratorLimited));
        assert!(SearchSpec::new("rate=1").is_err());
    }

    #[test]
    fn what_is_no_job_is_distinguished() {
        let wrong = |text: &str| Job::parse(text).unwrap_err().to_string();
        assert!(wrong("{").starts_with("not JSON"), "{}", wrong("{"));
        assert!(wrong("{}").contains("no plan"));
        assert!(wrong("[1]").contains("no plan"));
        assert!(wrong(r#"{"manifest": {}}"#).contains("without a job"));
        assert!(wrong(r#"{"manifest": 7}"#).contains("without a job"));
        let mut value = serde_json::to_value(job()).unwrap();
        value["plan"]["surprise"] = Value::Bool(true);
        assert!(wrong(&value.to_string()).contains("surprise"), "{}", wrong(&value.to_string()));
        let mut value = serde_json::to_value(job()).unwrap();
        value["limits"][0]["max"] = "handshake.q=1ms".into();
        assert!(wrong(&value.to_string()).contains("handshake has no `q`"));
        let mut value = serde_json::to_value(job()).unwrap();
        value["plan"]["duration"] = (-1.0).into();
        assert!(wrong(&value.to_string()).contains("cannot be understood"));
    }
}
