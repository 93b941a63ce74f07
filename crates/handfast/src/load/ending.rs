//! The exit code of a run.
//!
//! In: a report. Out: a stable number for scripts, and a line for users that do not see the report.

use handfast_report::model::VerdictWord;
use handfast_report::{Report, units};

/// The run is not valid.
const INVALID: u8 = 3;
/// A limit was missed.
const MISSED: u8 = 4;
/// A worker was lost.
const LOST: u8 = 5;

/// 5 before 3 before 4, as in `--help`.
pub(crate) fn exit_code(report: &Report) -> u8 {
    if report.workers.iter().any(|worker| worker.lost.is_some()) {
        return LOST;
    }
    let invalid = [VerdictWord::GeneratorLimited, VerdictWord::PortLimited, VerdictWord::Errors];
    if invalid.contains(&report.verdict.word) {
        return INVALID;
    }
    let missed = report.limits.iter().any(|limit| !limit.held);
    let found_none = report.search.as_ref().is_some_and(|search| search.highest_rate.is_none());
    // Limits are meant for the requested rate, and not for the lower one that the target reached.
    let short = report.verdict.word == VerdictWord::TargetLimited && !report.limits.is_empty();
    if missed || found_none || short { MISSED } else { 0 }
}

/// Reason for an exit code that is not 0, in a line, for a user that does not see the report; `None` if it is 0.
pub(crate) fn warning(report: &Report) -> Option<String> {
    let code = exit_code(report);
    let missed = report.limits.iter().filter(|limit| !limit.held);
    let missed = missed.map(|limit| format!("limit {} missed, found {}", limit.wanted, limit.found));
    let lost = report.workers.iter().filter_map(|worker| Some((worker, worker.lost.as_ref()?)));
    let lost = lost.map(|(worker, why)| format!("worker {} was lost: {why}", worker.name));
    let mut messages: Vec<String> = lost.chain(missed).collect();
    if report.verdict.word != VerdictWord::Valid || messages.is_empty() {
        messages.push(report.verdict.word.name().to_owned());
        messages.extend(report.verdict.evidence.first().cloned());
    }
    (code != 0).then(|| format!("handfast: warning: {}", units::plain(&messages.join("; "))))
}

#[cfg(test)]
mod tests {
    use handfast_report::model::{Limit, Search, Worker};

    use super::*;

    fn report(word: VerdictWord) -> Report {
        let mut report = Report::default();
        report.verdict.word = word;
        report
    }

    fn limit(held: bool) -> Limit {
        Limit { held, ..Limit::default() }
    }

    #[test]
    fn a_verdict_is_a_code() {
        use VerdictWord::{Errors, GeneratorLimited, PortLimited, TargetLimited, Valid};
        let codes = [Valid, TargetLimited, GeneratorLimited, PortLimited, Errors]
            .map(|word| exit_code(&report(word)));
        assert_eq!(codes, [0, 0, 3, 3, 3]);
    }

    #[test]
    fn without_a_report_the_reason_for_the_code_is_printed() {
        let mut report = report(VerdictWord::Valid);
        assert_eq!(warning(&report), None);
        report.limits.push(Limit { wanted: "total.p99=1ms".into(), found: "9 ms".into(), held: false });
        report.verdict.word = VerdictWord::Errors;
        report.verdict.evidence.push("all\u{1b} failed".into());
        let message = warning(&report).expect("a limit was missed");
        let expected = "handfast: warning: limit total.p99=1ms missed, found 9 ms; ERRORS; all\\u{1b} failed";
        assert_eq!(message, expected);
    }

    #[test]
    fn the_gravest_decides() {
        let mut report = report(VerdictWord::Valid);
        report.limits.push(limit(true));
        assert_eq!(exit_code(&report), 0);
        report.limits.push(limit(false));
        assert_eq!(exit_code(&report), 4);
        report.verdict.word = VerdictWord::Errors;
        assert_eq!(exit_code(&report), 3);
        report.workers.push(Worker::default());
        assert_eq!(exit_code(&report), 3);
        report.workers.push(Worker { lost: Some("silent".into()), ..Worker::default() });
        assert_eq!(exit_code(&report), 5);
    }

    #[test]
    fn a_limit_holds_at_the_rate_that_was_requested() {
        let mut report = report(VerdictWord::TargetLimited);
        report.limits.push(limit(true));
        assert_eq!(exit_code(&report), 4);
        let mut report = super::tests::report(VerdictWord::Valid);
        report.search = Some(Search::default());
        assert_eq!(exit_code(&report), 4, "no rate held the bound");
    }
}
