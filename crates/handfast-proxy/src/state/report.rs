//! Everything noticed while a state was made, each thing once, whichever services share it.

use handfast_tls::{Finding, Severity};

use super::words::hint;
use handfast_config::model::Places;

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) errors: Vec<String>,
    /// What an operator wants to know all the same.
    pub(crate) warnings: Vec<String>,
    /// Files that were left out, and what is served instead: a state was made without them.
    pub(crate) left_out: Vec<String>,
}

impl Report {
    pub(super) fn take(&mut self, findings: Vec<Finding>, places: &Places) {
        for finding in findings {
            let line = format!("{finding}{}{}", places.suffix(&finding.file), hint(finding.hint.as_deref()));
            match finding.severity {
                Severity::Error => self.error(line),
                _ => self.warn(line),
            }
        }
    }

    pub(super) fn error(&mut self, what: impl ToString) {
        add(&mut self.errors, what.to_string());
    }

    pub(super) fn leave_out(&mut self, what: String) {
        add(&mut self.left_out, what);
    }

    pub(super) fn warn(&mut self, what: String) {
        add(&mut self.warnings, what);
    }
}

/// Services that share a file share its faults.
fn add(lines: &mut Vec<String>, line: String) {
    if !lines.contains(&line) {
        lines.push(line);
    }
}
