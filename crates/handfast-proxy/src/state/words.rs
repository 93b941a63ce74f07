//! What is said of certificates whose files are broken or gone.

use std::path::Path;
use std::time::Duration;

use handfast_tls::certificate::Certificate;
use handfast_tls::load::{FileProblem, ProblemKind};

/// What the old version of a file of revocation lists is good for.
pub(super) const LISTS_STILL: &str =
    "clients' certificates are checked against the revocation lists that were in it, until these expire";

/// Names shown of one certificate.
const NAMES: usize = 3;

/// One problem in words, with its cure on a separate line.
pub(super) fn problem(problem: &FileProblem, keep_removed: Duration) -> String {
    let FileProblem { file, what, hint, .. } = problem;
    let file = file.display();
    let hint = hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
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

/// A file of authorities, or of a certificate for backends, that cannot be used; `still`: what its old version is good for.
pub(super) fn still_used(problem: &FileProblem, still: &str) -> String {
    let FileProblem { file, what, hint, .. } = problem;
    let hint = hint.as_ref().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
    format!("{}: {what}; {still}, which would be lost by a restart{hint}", file.display())
}

/// A list of known keys that cannot be used.
pub(super) fn known_keys(file: &Path, what: &str, hint: Option<&str>) -> String {
    let hint = hint.map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
    format!(
        "{}: {what}; keys of its old version are refused, which would be lost by a restart{hint}",
        file.display()
    )
}

/// What is said when the time of a removed certificate is over.
pub(super) fn dropped(certificate: &Certificate, service: &str, keep_removed: Duration) -> String {
    let file = certificate.files().first().map(|file| file.display().to_string()).unwrap_or_default();
    format!(
        "{file}: was removed {keep_removed:?} ago; service {service}: its certificate for {} is no longer served",
        names(certificate)
    )
}

/// The names that a certificate is for, the first few of them.
fn names(certificate: &Certificate) -> String {
    let names = certificate.dns_names();
    let shown: Vec<&str> = names.iter().take(NAMES).map(AsRef::as_ref).collect();
    match (shown.as_slice(), names.len().saturating_sub(NAMES)) {
        ([], _) => certificate.subject().to_owned(),
        (shown, 0) => shown.join(", "),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}
