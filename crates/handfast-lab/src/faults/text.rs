//! What was found, for people: a line for each experiment, and more where something is wrong.

use std::fmt::Write;

use super::absent::absent;
use super::case::For;
use super::cases::all;
use super::mode::Mode;
use super::report::{Experiment, Outcome, Report, Summary};

/// Every case, with the modes that it has.
pub fn list() -> String {
    let mut text = String::from("Cases:\n");
    for case in all() {
        let modes = match case.modes {
            For::All => "all modes".to_owned(),
            For::Where(_, why_not) => {
                let fits = |mode: &Mode| case.does_not_apply(*mode).is_none();
                let names: Vec<_> = Mode::ALL.into_iter().filter(fits).map(Mode::name).collect();
                format!("{} (in others {why_not})", names.join(", "))
            }
        };
        let _ = writeln!(text, "  {}: {}\n    must hold: {}\n    {modes}", case.name, case.fault, case.must);
    }
    text.push_str("\nModes:\n");
    for mode in Mode::ALL {
        let _ = writeln!(text, "  {:<12}  {}", mode.name(), mode.says());
    }
    text.push_str("\nNot tried:\n");
    for absent in absent() {
        let _ = writeln!(text, "  {}: {}", absent.fault, absent.why);
    }
    text
}

/// The table.
pub fn text(report: &Report) -> String {
    let mut text = format!("{} on Linux {}\n\n", report.program, report.kernel);
    let name = report.experiments.iter().map(|experiment| experiment.case.len()).max().unwrap_or(4);
    let mode = report.experiments.iter().map(|experiment| experiment.mode.len()).max().unwrap_or(4);
    let _ = writeln!(
        text,
        "        {:<name$}  {:<mode$}  {:<9}  {:>4}  {:>9}  {:>9}  {:>13}  reason in the log",
        "case", "mode", "step", "lost", "recovered", "files", "KiB"
    );
    for experiment in &report.experiments {
        let figures = &experiment.figures;
        let recovered = figures.recovered_ms.map_or_else(|| "—".to_owned(), |ms| format!("{ms:.0} ms"));
        let change = |before: u64, after: u64| {
            if after == 0 { "—".to_owned() } else { format!("{before}→{after}") }
        };
        let _ = writeln!(
            text,
            "{:<7} {:<name$}  {:<mode$}  {:<9}  {:>4}  {recovered:>9}  {:>9}  {:>13}  {}",
            word(&experiment.outcome),
            experiment.case,
            experiment.mode,
            experiment.step,
            figures.lost,
            change(figures.descriptors_before as u64, figures.descriptors_after as u64),
            change(figures.memory_before_kib, figures.memory_after_kib),
            figures.reasons.join(", "),
        );
    }
    for experiment in &report.experiments {
        if let Some(more) = explained(experiment) {
            let _ = write!(text, "\n{more}");
        }
    }
    text.push_str("\nNot tried:\n");
    for absent in &report.absent {
        let _ = writeln!(text, "  {}: {}", absent.fault, absent.why);
    }
    let Summary { passed, failed, skipped, unknown } = report.summary();
    let _ = writeln!(
        text,
        "\n{passed} held, {failed} did not; {skipped} could not be made here, {unknown} failed in the laboratory; {:.0} s.",
        report.seconds
    );
    text
}

/// One word for what became of it.
pub fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "ok",
        Outcome::Failed(_) => "FAILED",
        Outcome::Skipped(_) => "SKIPPED",
        Outcome::Unknown(_) => "UNKNOWN",
    }
}

/// What is to be said of an experiment that did not pass.
pub fn explained(experiment: &Experiment) -> Option<String> {
    let (Outcome::Failed(why) | Outcome::Skipped(why) | Outcome::Unknown(why)) = &experiment.outcome else {
        return None;
    };
    let happened = match experiment.figures.happened.as_str() {
        "" => "not shown",
        happened => happened,
    };
    Some(format!(
        "{} {} in {}: {why}\n  done: {}\n  happened: {happened}\n  must hold: {}\n",
        word(&experiment.outcome),
        experiment.case,
        experiment.mode,
        experiment.fault,
        experiment.must,
    ))
}
