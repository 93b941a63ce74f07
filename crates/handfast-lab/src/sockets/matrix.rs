//! All experiments: which rows, how often, several at a time.
//!
//! In: names of rows, a number of runs. Out: a [`Matrix`].

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::causes::Difference;
use super::outcome::{Cell, Operation, Outcome, RowResult};
use super::place::Place;
use super::rows::{Event, ROWS, Row};
use super::{Failure, causes, cells};
use crate::crew::{Crew, work_off};
use crate::names::own_folder;
use crate::namespace::Inside;
use crate::port::Engine;

/// The name and version of what [`Matrix`] is as JSON.
pub const SCHEMA: &str = "handfast-sockets/1";
/// Experiments at the same time. Most of their time they wait for the kernel's timers.
const MAX_CONCURRENT: usize = 48;
/// Time limit for cells that are not measured: a thousand runs take some hours.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// Requested measurements.
#[derive(Clone, Debug)]
pub struct MatrixSettings {
    /// Rows by name; none: all.
    pub only: Vec<String>,
    /// Number of runs of each experiment.
    pub runs: u32,
    /// Engine that carries packets between the hosts; `None`: what works here, TUN first.
    pub engine: Option<Engine>,
}

/// Measurements of all rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// `handfast-sockets/1`.
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Number of runs of each experiment.
    pub runs: u32,
    /// The rows, in the order of the table.
    pub rows: Vec<RowResult>,
    /// Cells in which Handfast reports another cause than the row's event, with the reasons.
    pub differences: Vec<Difference>,
}

/// Numbers of cells by the outcome of their experiments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Cells that were measured in every run.
    pub measured: usize,
    /// Cells that make no sense.
    pub does_not_apply: usize,
    /// Cells that this machine cannot make.
    pub skipped: usize,
    /// Cells in which the laboratory failed, in one run or more.
    pub failed: usize,
    /// Cells that were measured, and not the same in every run.
    pub inconsistent: usize,
}

impl Matrix {
    /// Counts the cells by the outcome of their experiments.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for cell in self.rows.iter().flat_map(|row| &row.cells) {
            let any = |predicate: fn(&Outcome) -> bool| {
                cell.outcomes.iter().any(|counted| predicate(&counted.outcome))
            };
            if any(|outcome| matches!(outcome, Outcome::Failed(_))) {
                summary.failed += 1;
            } else if any(|outcome| matches!(outcome, Outcome::Skipped(_))) {
                summary.skipped += 1;
            } else if any(|outcome| matches!(outcome, Outcome::DoesNotApply(_))) {
                summary.does_not_apply += 1;
            } else {
                summary.measured += 1;
                summary.inconsistent += usize::from(cell.outcomes.len() != 1);
            }
        }
        summary
    }

    /// Returns true if every case was made, the same in every run, and Handfast's word for it is right or could not be.
    pub fn is_good(&self) -> bool {
        let summary = self.summary();
        summary.failed == 0
            && summary.inconsistent == 0
            && self.differences.iter().all(|difference| difference.reason.is_some())
    }
}

/// One experiment to be run.
type Job = (&'static Row, Operation);
/// Number of runs, and the engine.
type How = (u32, Option<Engine>);

/// Measures.
///
/// **Errors**: a row that is not there; no place can be made here; it was stopped. What fails in an experiment is said in its cell.
pub fn measure(inside: Inside, options: &MatrixSettings) -> Result<Matrix, Failure> {
    let rows = chosen(&options.only)?;
    // Each place has a dozen descriptors. Where the limit cannot be raised, some cells will report it.
    let _ = handfast_net::limits::raise_file_limit();
    let applies = |row: &'static Row| {
        Operation::ALL
            .into_iter()
            .filter(|operation| row.does_not_apply(*operation).is_none())
            .map(move |o| (row, o))
    };
    // The limit on files is the whole process's, so no other experiment runs beside it.
    let (alone, together): (Vec<Job>, Vec<Job>) =
        rows.iter().copied().flat_map(applies).partition(|(row, _)| row.event == Event::FileLimit);
    // For the unix sockets of the experiments.
    own_folder()?;
    // An obstacle to every experiment is reported once.
    drop(Place::open(inside, options.engine)?);
    let how = (options.runs, options.engine);
    let mut measured = in_threads(inside, together, how)?;
    measured.extend(alone.into_iter().map(|(row, operation)| (row.name, one(inside, row, operation, how))));
    let result = |row: &&'static Row| RowResult {
        name: row.name.into(),
        event: row.description.into(),
        settings: row.settings(),
        cells: Operation::ALL.into_iter().map(|operation| cell(row, operation, &measured)).collect(),
    };
    let results: Vec<RowResult> = rows.iter().map(result).collect();
    let differences =
        rows.iter().zip(&results).flat_map(|(row, result)| causes::differences(row, result)).collect();
    Ok(Matrix {
        schema: SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        runs: options.runs,
        rows: results,
        differences,
    })
}

/// Checks that there are rows of these names.
///
/// **Errors**: the first that is not there.
pub fn known_rows(names: &[String]) -> Result<(), Failure> {
    chosen(names).map(drop)
}

fn chosen(names: &[String]) -> Result<Vec<&'static Row>, Failure> {
    if names.is_empty() {
        return Ok(ROWS.iter().collect());
    }
    names.iter().map(|name| Row::named(name).ok_or_else(|| Failure::NoSuchRow(name.clone()))).collect()
}

fn cell(row: &Row, operation: Operation, measured: &[(&str, Cell)]) -> Cell {
    if let Some(reason) = row.does_not_apply(operation) {
        return Cell::of(operation, vec![(Outcome::DoesNotApply(reason.into()), None)]);
    }
    let found = measured.iter().find(|(name, cell)| *name == row.name && cell.operation == operation);
    let lost = || Cell::of(operation, vec![(Outcome::Failed("its thread ended early".into()), None)]);
    found.map_or_else(lost, |(_, cell)| cell.clone())
}

/// Several at once. A stopped run does not wait for them: they end with the process, and everything that they made with it.
fn in_threads(inside: Inside, jobs: Vec<Job>, how: How) -> Result<Vec<(&'static str, Cell)>, Failure> {
    let crew = Crew { name: "lab", at_once: MAX_CONCURRENT, limit: TOTAL_TIMEOUT };
    let measure = move |(row, operation): &Job| (row.name, one(inside, row, *operation, how));
    let done = work_off(crew, jobs, measure, &mut |_| {})?;
    Ok(done.into_iter().map(|(_, cell)| cell).collect())
}

/// One experiment, as often as requested, in a separate place.
fn one(inside: Inside, row: &Row, operation: Operation, (runs, engine): How) -> Cell {
    let mut place = match Place::open(inside, engine) {
        Ok(place) => place,
        Err(failure) => return Cell::of(operation, vec![(Outcome::Failed(failure.to_string()), None)]),
    };
    Cell::of(operation, (0..runs).map(|_| cells::run(&mut place, row, operation)).collect())
}
