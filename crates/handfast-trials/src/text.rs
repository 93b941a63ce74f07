//! Results for people: a line for each experiment, and more for a failure.

use std::fmt::Write;

use handfast_text::table::{Column, lines};

use crate::absent::absent;
use crate::case::For;
use crate::cases::all;
use crate::mode::Mode;
use crate::report::{Experiment, Outcome, Report, Summary};
use crate::subjects::{HANDFAST, SUBJECTS};

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
        if let Some(why) = case.handfast_only {
            let _ = writeln!(text, "    for Handfast only: {why}");
        }
    }
    text.push_str("\nModes:\n");
    for mode in Mode::ALL {
        let _ = writeln!(text, "  {:<12}  {}", mode.name(), mode.description());
    }
    text.push_str("\nPrograms:\n");
    for subject in SUBJECTS {
        let modes: Vec<_> = subject.modes.iter().map(|mode| mode.name()).collect();
        let _ = writeln!(text, "  {:<12}  {}", subject.name, modes.join(", "));
    }
    text.push_str("\nNot tried:\n");
    for absent in absent() {
        let _ = writeln!(text, "  {}: {}", absent.fault, absent.why);
    }
    text
}

const COLUMNS: [Column<'_>; 10] = [
    Column::words("", 0, 0),
    Column::words("proxy", 0, 0),
    Column::words("case", 0, 0),
    Column::words("mode", 0, 0),
    Column::words("step", 0, 0),
    Column::figures("lost", 0),
    Column::figures("recovered", 0),
    Column::figures("files", 0),
    Column::figures("KiB", 0),
    Column::words("reason in the log", 0, 0),
];

fn row(experiment: &Experiment) -> Vec<String> {
    let figures = &experiment.figures;
    let recovered = figures.recovered_ms.map_or_else(|| "—".to_owned(), |ms| format!("{ms:.0} ms"));
    let change =
        |before: u64, after: u64| if after == 0 { "—".to_owned() } else { format!("{before}→{after}") };
    vec![
        word(&experiment.outcome).to_owned(),
        experiment.proxy.clone(),
        experiment.case.clone(),
        experiment.mode.clone(),
        experiment.step.clone(),
        figures.lost.to_string(),
        recovered,
        change(figures.descriptors_before as u64, figures.descriptors_after as u64),
        change(figures.memory_before_kib, figures.memory_after_kib),
        figures.reasons.join(", "),
    ]
}

/// The table.
pub fn text(report: &Report) -> String {
    let versions: Vec<_> = report.programs.iter().map(|program| program.version.as_str()).collect();
    let mut text = format!("{} on Linux {}\n\n", versions.join("; "), report.kernel);
    let rows: Vec<_> = report.experiments.iter().map(row).collect();
    for line in lines(&COLUMNS, &rows, usize::MAX) {
        let _ = writeln!(text, "{line}");
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
    for program in &report.programs {
        let of = report.experiments.iter().filter(|experiment| experiment.proxy == program.proxy);
        let Summary { passed, failed, skipped, not_possible, unknown } = Summary::of(of);
        let _ = writeln!(
            text,
            "\n{}: {passed} held, {failed} did not; {not_possible} it cannot play, {skipped} could not be made here, \
             {unknown} failed in the laboratory.",
            program.title,
        );
    }
    let _ = writeln!(text, "{:.0} s.", report.seconds);
    text
}

/// One word for what became of it.
pub fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Kept => "kept",
        Outcome::Broken(_) => "broken",
        Outcome::Skipped(_) => "skipped",
        Outcome::NotPossible(_) => "—",
        Outcome::Unknown(_) => "unknown",
    }
}

/// Returns the explanation of an experiment that did not pass.
pub fn explained(experiment: &Experiment) -> Option<String> {
    let why = match &experiment.outcome {
        Outcome::Kept => return None,
        Outcome::NotPossible(why) => {
            let Experiment { proxy, case, mode, .. } = experiment;
            return Some(format!("— {case} in {mode}, {proxy}: {why}\n"));
        }
        Outcome::Broken(why) | Outcome::Skipped(why) | Outcome::Unknown(why) => why,
    };
    let happened = match experiment.figures.happened.as_str() {
        "" => "not shown",
        happened => happened,
    };
    Some(format!(
        "{} {} in {}{}: {why}\n  done: {}\n  happened: {happened}\n  must hold: {}\n",
        word(&experiment.outcome),
        experiment.case,
        experiment.mode,
        if experiment.proxy == HANDFAST.name { String::new() } else { format!(", {}", experiment.proxy) },
        experiment.fault,
        experiment.must,
    ))
}
