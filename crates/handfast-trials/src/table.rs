//! The programs side by side: a row for each case that others than Handfast can play, a column for each program.
//!
//! In: a [`Report`]. Out: rows and cells, and the same as Markdown.

use std::fmt::Write;

use crate::report::{Experiment, Outcome, ProgramUnderTest, Report, Summary};
use crate::subjects::HANDFAST;

/// A case and what became of it with each program.
pub(crate) struct Row<'a> {
    /// Any of its experiments: what the case is.
    pub(crate) case: &'a Experiment,
    pub(crate) cells: Vec<Cell<'a>>,
}

/// A case with one program, in each mode.
pub(crate) struct Cell<'a> {
    pub(crate) program: &'a ProgramUnderTest,
    pub(crate) experiments: Vec<&'a Experiment>,
}

/// Symbol in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Kept,
    Broken,
    NotPossible,
    Unknown,
}

/// The rows, in the order of the cases.
pub(crate) fn rows(report: &Report) -> Vec<Row<'_>> {
    let mut names: Vec<&str> = Vec::new();
    for experiment in report.experiments.iter().filter(|experiment| is_compared(experiment)) {
        if !names.contains(&experiment.case.as_str()) {
            names.push(&experiment.case);
        }
    }
    // The order of the first program, which has all.
    let mut order: Vec<&str> = Vec::new();
    for experiment in &report.experiments {
        if names.contains(&experiment.case.as_str()) && !order.contains(&experiment.case.as_str()) {
            order.push(&experiment.case);
        }
    }
    order.into_iter().filter_map(|name| row(report, name)).collect()
}

/// Returns true if another program than Handfast plays it, or could with another setting.
fn is_compared(experiment: &Experiment) -> bool {
    let is_ours =
        matches!(&experiment.outcome, Outcome::NotPossible(why) if why.starts_with("for Handfast only"));
    experiment.proxy != HANDFAST.name && !is_ours
}

fn row<'a>(report: &'a Report, name: &str) -> Option<Row<'a>> {
    let of_case: Vec<&Experiment> =
        report.experiments.iter().filter(|experiment| experiment.case == name).collect();
    let cell = |program: &'a ProgramUnderTest| Cell {
        program,
        experiments: of_case.iter().copied().filter(|experiment| experiment.proxy == program.proxy).collect(),
    };
    Some(Row { case: of_case.first().copied()?, cells: report.programs.iter().map(cell).collect() })
}

impl Cell<'_> {
    /// Broken in one mode is broken.
    pub(crate) fn mark(&self) -> Mark {
        let Summary { passed, failed, skipped, unknown, .. } = Summary::of(self.experiments.iter().copied());
        match (failed, passed, skipped + unknown) {
            (1.., ..) => Mark::Broken,
            (_, 1.., 0) => Mark::Kept,
            (_, _, 1..) => Mark::Unknown,
            _ => Mark::NotPossible,
        }
    }

    /// The modes of a kind of outcome.
    pub(crate) fn modes(&self, fits: fn(&Outcome) -> bool) -> Vec<&str> {
        let fitting = self.experiments.iter().filter(|experiment| fits(&experiment.outcome));
        fitting.map(|experiment| experiment.mode.as_str()).collect()
    }

    /// In some words: the outcome, and the modes that differ.
    pub(crate) fn words(&self) -> String {
        let broken = self.modes(|outcome| matches!(outcome, Outcome::Broken(_)));
        let kept = self.modes(|outcome| matches!(outcome, Outcome::Kept));
        match self.mark() {
            Mark::Kept => "kept".to_owned(),
            Mark::Broken if kept.is_empty() => "**broken**".to_owned(),
            Mark::Broken if kept.len() < broken.len() => format!("**broken**, kept in {}", kept.join(", ")),
            Mark::Broken => format!("**broken** in {}", broken.join(", ")),
            Mark::Unknown => "unknown".to_owned(),
            Mark::NotPossible => self.why_not(),
        }
    }

    fn why_not(&self) -> String {
        let why = self.experiments.iter().find_map(|experiment| match &experiment.outcome {
            Outcome::NotPossible(why) => Some(why.clone()),
            _ => None,
        });
        why.unwrap_or_else(|| "has no such mode".to_owned())
    }
}

/// The command that plays one experiment again.
pub(crate) fn command(experiment: &Experiment) -> String {
    let Experiment { proxy, case, mode, .. } = experiment;
    format!("make trials ARGS=\"--proxy {proxy} --only {case} --mode {mode}\"")
}

/// The programs, and the table, as Markdown.
pub fn markdown(report: &Report) -> String {
    let mut text = format!("{}, Linux {}\n\n", report.day, report.kernel);
    text.push_str(
        "| program | version | kept | broken | not possible | unknown |\n|---|---|---|---|---|---|\n",
    );
    let rows = rows(report);
    for program in &report.programs {
        let compared = rows.iter().flat_map(|row| &row.cells).filter(|cell| cell.program == program);
        let Summary { passed, failed, skipped, not_possible, unknown } =
            Summary::of(compared.flat_map(|cell| cell.experiments.iter().copied()));
        let unknown = unknown + skipped;
        let _ = writeln!(
            text,
            "| {} | {} | {passed} | {failed} | {not_possible} | {unknown} |",
            program.title, program.version
        );
    }
    let titles: Vec<_> = report.programs.iter().map(|program| program.title.as_str()).collect();
    let _ = write!(text, "\n| case | {} |\n|---|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    for row in rows {
        let cells: Vec<_> = row.cells.iter().map(Cell::words).collect();
        let _ = writeln!(text, "| {} | {} |", row.case.case, cells.join(" | "));
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::report::{Figures, SCHEMA};

    fn experiment(proxy: &str, case: &str, mode: &str, outcome: Outcome) -> Experiment {
        Experiment {
            proxy: proxy.into(),
            case: case.into(),
            mode: mode.into(),
            step: "relay".into(),
            fault: "the <backend> resets".into(),
            must: "an abort".into(),
            outcome,
            figures: Figures::default(),
        }
    }

    pub(crate) fn sample() -> Report {
        let program = |proxy: &str| ProgramUnderTest {
            proxy: proxy.into(),
            title: proxy.to_uppercase(),
            version: format!("{proxy} 1.0"),
        };
        Report {
            schema: SCHEMA.into(),
            laboratory: "1".into(),
            programs: vec![program("handfast"), program("hitch")],
            day: "2026-01-01".into(),
            kernel: "6.1".into(),
            seconds: 1.0,
            experiments: vec![
                experiment("handfast", "a", "terminate", Outcome::Kept),
                experiment("handfast", "b", "terminate", Outcome::Kept),
                experiment("handfast", "ours", "terminate", Outcome::Kept),
                experiment("hitch", "b", "terminate", Outcome::Broken("a <clean> end".into())),
                experiment("hitch", "b", "proxy-out", Outcome::Kept),
                experiment(
                    "hitch",
                    "a",
                    "terminate",
                    Outcome::NotPossible("has no setting for `idle`".into()),
                ),
                experiment(
                    "hitch",
                    "ours",
                    "terminate",
                    Outcome::NotPossible("for Handfast only: a log".into()),
                ),
            ],
            absent: Vec::new(),
        }
    }

    #[test]
    fn rows_are_the_cases_that_others_play_and_broken_names_its_modes() {
        let text = markdown(&sample());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.contains(&"| b | kept | **broken** in terminate |"), "{text}");
        assert!(lines.contains(&"| a | kept | has no setting for `idle` |"), "{text}");
        assert!(lines.contains(&"| HITCH | hitch 1.0 | 1 | 1 | 1 | 0 |"), "{text}");
        assert!(!text.contains("ours"), "{text}");
    }
}
