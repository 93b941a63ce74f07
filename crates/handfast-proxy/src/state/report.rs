//! Everything noticed while a state was made, each thing once, whichever services share it.

use handfast_tls::{Finding, Severity};

use handfast_config::model::Places;

/// Everything noticed while a state was made, errors first.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Why it cannot serve.
    pub(crate) errors: Vec<String>,
    /// What an operator wants to know all the same.
    pub(crate) warnings: Vec<String>,
    /// Files that were left out, and what is served instead: a state was made without them.
    pub(crate) left_out: Vec<String>,
}

impl Report {
    pub(super) fn take(&mut self, findings: Vec<Finding>, places: &Places) {
        for finding in findings {
            let hint = finding.hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
            let line = format!("{finding}{}{hint}", places.suffix(&finding.file));
            match finding.severity {
                Severity::Error => self.error(line),
                _ => self.warn(line),
            }
        }
    }

    pub(super) fn error(&mut self, what: impl ToString) {
        let what = what.to_string();
        // Services that share a file share its faults.
        if !self.errors.contains(&what) {
            self.errors.push(what);
        }
    }

    pub(super) fn leave_out(&mut self, what: String) {
        if !self.left_out.contains(&what) {
            self.left_out.push(what);
        }
    }

    pub(super) fn warn(&mut self, what: String) {
        if !self.warnings.contains(&what) {
            self.warnings.push(what);
        }
    }
}
