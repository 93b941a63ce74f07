//! `handfast lab sockets`: command line in, the kernel's errors of broken connections out.
//!
//! In: [`SocketsWords`]. Out: the matrix on standard output, perhaps JSON and a page in files, what was skipped on standard
//! error, an exit code.

use std::process::ExitCode;

use handfast_lab::namespace::{Place, enter};
use handfast_lab::port::Engine;
use handfast_lab::sockets::{
    Failure, Matrix, MatrixSettings, Outcome, known_rows, list, measure, page, text,
};
use handfast_report::ToolError;

use crate::load::outputs::Output;
use crate::load::refused;
use crate::talk;
use crate::talk::print;
use crate::words::lab::sockets::SocketsWords;

/// Runs `handfast lab sockets`.
pub(crate) fn sockets(words: &SocketsWords) -> ExitCode {
    if words.list {
        return print(&list(), true);
    }
    if let Err(failure) = known_rows(&words.only) {
        return failed(&failure);
    }
    let inside = match enter() {
        Ok(Place::Inside(inside)) => inside,
        // The inner process has printed everything.
        Ok(Place::Outside(code)) => return ExitCode::from(code),
        Err(error) => return failed(&error.into()),
    };
    // First, since a report that cannot be written is useless.
    let prepare = |path: &Option<std::path::PathBuf>, option| {
        path.as_deref().map(Output::prepare).transpose().map_err(|error| error.of(option).to_string())
    };
    let outputs = prepare(&words.json, "--json").and_then(|json| Ok((json, prepare(&words.page, "--page")?)));
    let (json, paper) = match outputs {
        Ok(outputs) => outputs,
        Err(what) => return refused(&ToolError::failed(what)),
    };
    let matrix = match measure(
        inside,
        &MatrixSettings {
            only: words.only.clone(),
            runs: words.runs,
            engine: words.engine.map(Engine::from),
        },
    ) {
        Ok(matrix) => matrix,
        Err(failure) => return failed(&failure),
    };
    report_skipped(&matrix);
    match words.json.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        true => talk::err(text(&matrix).trim_end()),
        false => drop(print(&text(&matrix), true)),
    }
    let as_json = json.map_or(Ok(()), |output| output.write(&to_json(&matrix)));
    let as_page = paper.map_or(Ok(()), |output| output.write(&page(&matrix)));
    if let Err(error) = as_json.and(as_page) {
        return refused(&ToolError::failed(error));
    }
    ExitCode::from(u8::from(!matrix.is_good()))
}

fn to_json(matrix: &Matrix) -> String {
    let text = serde_json::to_string_pretty(matrix).expect("strings and numbers are JSON");
    format!("{text}\n")
}

/// A line for each cell, so that the end of the table does not look complete.
fn report_skipped(matrix: &Matrix) {
    for row in &matrix.rows {
        for cell in &row.cells {
            let reason = cell.outcomes.iter().find_map(|counted| match &counted.outcome {
                Outcome::Skipped(reason) => Some(("SKIPPED", reason)),
                Outcome::Failed(reason) => Some(("FAILED", reason)),
                Outcome::Measured(_) | Outcome::DoesNotApply(_) => None,
            });
            if let Some((word, reason)) = reason {
                talk::err(&format!("{word} {} × {}: {reason}", row.name, cell.operation));
            }
        }
    }
}

fn failed(failure: &Failure) -> ExitCode {
    let hint = failure.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    talk::err(&format!("handfast: lab sockets: {failure}{hint}"));
    ExitCode::from(failure.exit_code())
}
