//! Everything noticed while a state was made, each thing once, whichever services share it, in words.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use handfast_config::model::Places;
use handfast_pki::certificate::Certificate;
use handfast_pki::load::{FileProblem, ProblemKind};
use handfast_pki::{Finding, Severity};
use handfast_text::calendar::Utc;
use handfast_text::units::counted;

const MAX_LISTED_NAMES: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) errors: Vec<String>,
    /// Problems that do not keep the state from being served.
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

    pub(crate) fn error(&mut self, what: impl ToString) {
        add(&mut self.errors, what.to_string());
    }

    pub(super) fn leave_out(&mut self, what: String) {
        add(&mut self.left_out, what);
    }

    pub(crate) fn warn(&mut self, what: String) {
        add(&mut self.warnings, what);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errors.iter().try_for_each(|error| writeln!(f, "error: {error}"))?;
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

/// Services that share a file share its faults.
fn add(lines: &mut Vec<String>, line: String) {
    if !lines.contains(&line) {
        lines.push(line);
    }
}

/// One problem in words, with its cure on a separate line.
pub(super) fn problem(problem: &FileProblem, keep_removed: Duration) -> String {
    let FileProblem { file, what, .. } = problem;
    let (file, hint) = (file.display(), hint(problem.hint.as_deref()));
    match (&problem.kept, problem.kind) {
        (Some(kept), ProblemKind::Broken) => format!(
            "{file}: {what}; its old version is served from memory for {}, and would be lost by a restart{hint}",
            names(kept)
        ),
        (Some(kept), ProblemKind::Removed) => format!(
            "{file}: {what}; its certificate for {} is served from memory for {keep_removed:?}, in case it is being \
             replaced (process.keep-removed-certificates)",
            names(kept)
        ),
        (_, ProblemKind::Staple) => format!("{file}: {what}{hint}"),
        (None, _) => format!("{file}: {what}; the file is not used, and a restart would refuse it{hint}"),
    }
}

/// A file that cannot be used; `still`: what its old version is good for.
pub(super) fn still_used(file: &Path, what: &str, cure: Option<&str>, still: &str) -> String {
    format!("{}: {what}; {still}, which would be lost by a restart{}", file.display(), hint(cure))
}

/// The line with the cure, where there is one.
pub(super) fn hint(cure: Option<&str>) -> String {
    cure.map(|cure| format!("\n  hint: {cure}")).unwrap_or_default()
}

pub(super) fn dropped(certificate: &Certificate, service: &str, keep_removed: Duration) -> String {
    let file = certificate.files().first().map(|file| file.display().to_string()).unwrap_or_default();
    format!(
        "{file}: was removed {keep_removed:?} ago; service {service}: its certificate for {} is no longer served",
        names(certificate)
    )
}

/// A certificate that has this number of seconds left.
pub(super) fn expires(certificate: &Certificate, left: i64) -> String {
    let file = certificate.files().first().map(|file| file.display().to_string()).unwrap_or_default();
    let hours = counted((left / 3_600).unsigned_abs(), "hour");
    let until = Utc::of_seconds(certificate.not_after()).for_people();
    let cure = hint(Some(
        "renew it now, and find out why nothing did: renewal is due with a third of its life left",
    ));
    format!("{file}: the certificate for {} expires in {hours}, on {until}{cure}", names(certificate))
}

fn names(certificate: &Certificate) -> String {
    let names = certificate.dns_names();
    let shown: Vec<&str> = names.iter().take(MAX_LISTED_NAMES).map(AsRef::as_ref).collect();
    match (shown.as_slice(), names.len().saturating_sub(MAX_LISTED_NAMES)) {
        ([], _) => certificate.subject().to_owned(),
        (shown, 0) => shown.join(", "),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
