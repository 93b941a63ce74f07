//! `handfast lab faults`: command line in, the effects of faults on the proxy out.
//!
//! In: [`FaultsWords`]. Out: the table on standard output, perhaps JSON in a file, progress on standard error, an exit code.

use std::path::PathBuf;
use std::process::ExitCode;

use handfast_lab::error::LabError;
use handfast_lab::faults::{Mode, Wanted, explained, known, list, run, text, word};
use handfast_text::duration;
use handfast_text::suggest::did_you_mean_or_all;

use super::{FAILED, can_be_kept, failed, inside, keep, told};
use crate::talk;
use crate::talk::print;
use crate::words::lab::faults::FaultsWords;

/// What `handfast lab faults` does.
pub(crate) fn faults(words: &FaultsWords) -> ExitCode {
    if words.list {
        return print(&list(), true);
    }
    let wanted = match wanted(words) {
        Ok(wanted) => wanted,
        Err(error) => return failed(&error),
    };
    let inside = match inside() {
        Ok(inside) => inside,
        Err(code) => return code,
    };
    // First, since a report that cannot be written is useless.
    let json = words.json.as_deref();
    if let Err(what) = can_be_kept("--json", json) {
        return told(&what, FAILED);
    }
    let mut progress = |experiment: &handfast_lab::faults::Experiment, left: usize| {
        let line = format!("{} in {}: {}", experiment.case, experiment.mode, word(&experiment.outcome));
        talk::err(&format!("handfast lab: {line}; {left} to go"));
        if let Some(more) = explained(experiment) {
            talk::err(more.trim_end());
        }
    };
    let report = match run(inside, &wanted, &mut progress) {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    if json.is_some_and(|path| path.as_os_str() == "-") {
        talk::err(text(&report).trim_end());
    } else {
        print(&text(&report), true);
    }
    let data = serde_json::to_string_pretty(&report).expect("strings and numbers are JSON");
    match keep("--json", json, &format!("{data}\n")) {
        Ok(()) => ExitCode::from(u8::from(!report.is_good())),
        Err(what) => told(&what, FAILED),
    }
}

fn wanted(words: &FaultsWords) -> Result<Wanted, LabError> {
    known(&words.only)?;
    let mut problems = Vec::new();
    let names: Vec<_> = Mode::ALL.into_iter().map(Mode::name).collect();
    let mut modes = Vec::new();
    for name in &words.mode {
        match Mode::named(name) {
            Some(mode) => modes.push(mode),
            None => problems.push(format!("--mode {name}: unknown; {}", did_you_mean_or_all(name, &names))),
        }
    }
    let limit = duration::parse(&words.limit).unwrap_or_else(|error| {
        problems.push(format!("--limit: {error}"));
        std::time::Duration::ZERO
    });
    if !problems.is_empty() {
        return Err(LabError::Wrong(problems));
    }
    let program = match &words.program {
        None => PathBuf::from("/proc/self/exe"),
        // Absolute, because it is started in a separate folder.
        Some(file) => {
            let name = file.display();
            file.canonicalize().map_err(LabError::file(format!("--program {name}")))?
        }
    };
    Ok(Wanted { only: words.only.clone(), modes, quick: words.quick, program, limit })
}
