//! The results as data: findings, facts, and what could not be examined.
//!
//! In: the results of the examinations. Out: a sorted [`Report`], and its JSON; `text.rs` is for people.

use schemars::JsonSchema;
use serde::Serialize;

/// Name and version of the JSON format. It changes when readers of the old one would misinterpret the new one.
pub const SCHEMA: &str = "handfast-doctor/1";

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// It fails now, or is unsafe now.
    Critical,
    /// It has failed before, or will under load or with time.
    Warning,
}

impl Severity {
    /// The word used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
        }
    }
}

/// One thing that limits or endangers the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// Its topic in kebab-case: stable, for programs.
    pub topic: &'static str,
    /// The finding, with its number; lower case, no full stop.
    pub title: String,
    /// The arithmetic of the number; empty if the title is enough.
    pub arithmetic: String,
    /// Its consequence.
    pub consequence: String,
    /// Commands or instructions to change it; this program never runs them.
    pub change: Vec<String>,
}

impl Finding {
    /// A finding without arithmetic and commands.
    pub fn new(
        severity: Severity,
        topic: &'static str,
        title: impl Into<String>,
        consequence: impl Into<String>,
    ) -> Self {
        let (title, consequence) = (title.into(), consequence.into());
        Self { severity, topic, title, arithmetic: String::new(), consequence, change: Vec::new() }
    }

    /// Something that fails or is unsafe now.
    pub fn critical(topic: &'static str, title: impl Into<String>, consequence: impl Into<String>) -> Self {
        Self::new(Severity::Critical, topic, title, consequence)
    }

    /// Something that has failed before, or will.
    pub fn warning(topic: &'static str, title: impl Into<String>, consequence: impl Into<String>) -> Self {
        Self::new(Severity::Warning, topic, title, consequence)
    }

    /// Adds the arithmetic of the number.
    #[must_use]
    pub fn because(mut self, arithmetic: impl Into<String>) -> Self {
        self.arithmetic = arithmetic.into();
        self
    }

    /// Adds a command or an instruction to change it.
    #[must_use]
    pub fn change(mut self, command: impl Into<String>) -> Self {
        self.change.push(command.into());
        self
    }
}

/// A neutral fact with its arithmetic: no finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Name of the fact.
    pub name: &'static str,
    /// The sentence.
    pub value: String,
}

/// Something that could not be examined.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub struct Unseen {
    /// What.
    pub what: String,
    /// Reason why it could not be examined.
    pub why: String,
}

/// Everything that was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Name and version of the program.
    pub program: String,
    /// Start time, RFC 3339.
    pub started: String,
    /// Subject of the examination, in a few words.
    pub subject: String,
    /// Problems, the worst first.
    pub findings: Vec<Finding>,
    /// Neutral facts.
    pub facts: Vec<Fact>,
    /// Facts that could not be examined.
    pub unseen: Vec<Unseen>,
}

impl Report {
    /// An empty one.
    pub fn new(program: &str, started: String, subject: String) -> Self {
        Self { schema: SCHEMA, program: program.to_owned(), started, subject, ..Self::default() }
    }

    /// Adds a finding.
    pub fn find(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds a fact.
    pub fn fact(&mut self, name: &'static str, value: impl Into<String>) {
        self.facts.push(Fact { name, value: value.into() });
    }

    /// Adds what could not be examined, without duplicates.
    pub fn not_seen(&mut self, what: impl Into<String>, why: impl Into<String>) {
        let unseen = Unseen { what: what.into(), why: why.into() };
        if !self.unseen.contains(&unseen) {
            self.unseen.push(unseen);
        }
    }

    /// Adds the contents of another report, except its subject.
    pub fn merge(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.facts.extend(other.facts);
        other.unseen.into_iter().for_each(|unseen| self.not_seen(unseen.what, unseen.why));
        self.sort();
    }

    /// Puts the worst first; findings that are equally bad stay in the order in which they were found.
    pub fn sort(&mut self) {
        self.findings.sort_by_key(|finding| finding.severity);
    }

    /// Findings of a severity.
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    /// Pretty-printed JSON with a newline at the end.
    pub fn to_json(&self) -> String {
        // Keys are strings, and writing to memory does not fail.
        let mut text = serde_json::to_string_pretty(self).expect("a report has string keys only");
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_equals_keep_their_order() {
        let mut report = Report::new("handfast", String::new(), String::new());
        report.find(Finding::warning("a", "a", ""));
        report.find(Finding::critical("b", "b", ""));
        report.find(Finding::warning("c", "c", ""));
        report.not_seen("x", "y");
        report.not_seen("x", "y");
        report.sort();
        let topics: Vec<_> = report.findings.iter().map(|finding| finding.topic).collect();
        assert_eq!(topics, ["b", "a", "c"]);
        assert_eq!((report.count(Severity::Critical), report.count(Severity::Warning)), (1, 2));
        assert_eq!(report.unseen.len(), 1);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).expect("JSON");
        assert_eq!(json["schema"], SCHEMA);
        assert_eq!(json["findings"][0]["severity"], "critical");
    }
}
