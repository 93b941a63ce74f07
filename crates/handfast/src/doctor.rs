//! `handfast doctor`: command line in, findings out.
//!
//! In: [`DoctorWords`]. Out: the report on standard output, perhaps JSON in a file, an exit code: 0 no findings, 1 findings, 2 wrong
//! use. `doctor/size.rs` computes the resources for a planned load.

mod size;

use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;

use handfast_config::{ConfigSource, ResourceDemand};
use handfast_doctor::machine::Machine;
use handfast_doctor::report::{Finding, Report};
use handfast_doctor::text::{Style, to_summary, to_text};
use handfast_doctor::{exam, fit, keys, process};
use handfast_report::ToolError;

use crate::load::outputs::Output;
use crate::load::refused;
use crate::talk;
use crate::talk::print;
use crate::talk::{color, should_use_color};
use crate::words::doctor::{DoctorWords, KeysWords, OutputWords, Topic};

/// Columns without a terminal.
const USUAL: usize = 100;

/// A certificate of a configuration with fewer days left is reported.
const DAYS: u32 = 21;

/// Runs `handfast doctor`.
pub(crate) fn doctor(words: &DoctorWords) -> ExitCode {
    match &words.topic {
        None => report_exam(&words.output, || machine(words).map(with_json)),
        Some(Topic::Keys(words)) => report_exam(&words.output, || keys(words).map(with_json)),
        Some(Topic::Size(words)) => report_exam(&words.output, || size::size(words)),
    }
}

/// A report for people, and its JSON.
type ReportWithJson = (Report, String);

fn with_json(report: Report) -> ReportWithJson {
    let json = report.to_json();
    (report, json)
}

/// The machine, or one process of it.
fn machine(words: &DoctorWords) -> Result<Report, ToolError> {
    let machine = match &words.root {
        None => Machine::here(),
        Some(root) if root.is_dir() => Machine::below(root),
        Some(root) => {
            return Err(ToolError::wrong_use(format!("--root {}: expected a folder", root.display())));
        }
    };
    let (interval, program) = (words.interval, program());
    match words.pid {
        None => {
            let demand = words.config.as_deref().map(read).transpose()?;
            let mut report =
                exam::examine(&exam::ExamSettings { machine: machine.clone(), interval, program });
            if let Some((source, demand)) = demand {
                fits(&source, demand, &machine, &mut report)?;
            }
            Ok(report)
        }
        Some(pid) => {
            let settings = process::ProcessExamSettings { machine, pid, interval, program };
            process::examine(&settings).map_err(ToolError::wrong_use)
        }
    }
}

/// A configuration, and its demands.
fn read(path: &Path) -> Result<(ConfigSource, ResourceDemand), ToolError> {
    let source = ConfigSource::File(path.to_path_buf());
    let (config, _) =
        source.read(color()).map_err(|error| ToolError::wrong_use(error.problems.trim_end()))?;
    Ok((source, ResourceDemand::from(&config)))
}

/// Examines whether the proxy could serve the configuration here and whether it fits the machine, and
/// its keys and certificates for problems.
fn fits(
    source: &ConfigSource,
    demand: ResourceDemand,
    machine: &Machine,
    report: &mut Report,
) -> Result<(), ToolError> {
    let checked = handfast_proxy::check(source, None, false);
    if !checked.good {
        let first =
            checked.problems.lines().find_map(|line| line.strip_prefix("error: ")).unwrap_or_default();
        let title = format!("the proxy would not start with {}: {first}", source.name());
        let finding = Finding::critical("configuration", title, "nothing of it is served");
        report.find(finding.change(format!("handfast check -c {}", source.name())));
    }
    let number = |number: Option<usize>| number.map(|number| number as u64);
    let groups = demand.groups.into_iter().map(|group| fit::Group {
        name: group.name,
        connections: number(group.max_connections),
        destinations: group.destinations,
        sources: group.sources,
    });
    let planned = fit::Demand {
        threads: number(demand.threads),
        connections: number(demand.max_connections),
        backend_tls: demand.backend_tls,
        groups: groups.collect(),
    };
    fit::report_shortages(machine, &planned, report);
    let what: Vec<String> = demand
        .certificates
        .iter()
        .filter(|path| path.exists())
        .map(|path| path.display().to_string())
        .collect();
    if !what.is_empty() {
        let settings =
            keys::KeyExamSettings { what, lists: demand.weak_keys, days: DAYS, program: program() };
        report.merge(keys::examine(&settings).map_err(wrong_keys)?);
    }
    report.sort();
    Ok(())
}

fn wrong_keys(wrong: keys::WrongUse) -> ToolError {
    ToolError::wrong_use(wrong.to_string())
}

fn keys(words: &KeysWords) -> Result<Report, ToolError> {
    let settings = keys::KeyExamSettings {
        what: words.what.clone(),
        lists: words.weak_keys.clone(),
        days: words.expires_within,
        program: program(),
    };
    keys::examine(&settings).map_err(wrong_keys)
}

fn program() -> String {
    format!("handfast {}", env!("CARGO_PKG_VERSION"))
}

/// Examines, and reports the findings.
fn report_exam(words: &OutputWords, examine: impl FnOnce() -> Result<ReportWithJson, ToolError>) -> ExitCode {
    // First, since a report that cannot be written is useless.
    let output = match words.json.as_deref().map(Output::prepare).transpose() {
        Ok(output) => output,
        Err(what) => return refused(&ToolError::failed(format!("--json: {what}"))),
    };
    let (report, json) = match examine() {
        Ok(examined) => examined,
        Err(refusal) => return refused(&refusal),
    };
    let text = |columns: Option<(u16, u16)>, color| {
        let width = columns.map_or(USUAL, |(columns, _)| columns.into());
        let text = if words.verbose { to_text } else { to_summary };
        text(&report, Style { color, width })
    };
    if words.json.as_deref().is_some_and(|path| path.as_os_str() == "-") {
        talk::err(text(talk::terminal_size(io::stderr()), color()).trim_end());
    } else {
        let stdout = io::stdout();
        print(&text(talk::terminal_size(&stdout), should_use_color(stdout.is_terminal())), true);
    }
    match output.map(|output| output.write(&json)) {
        Some(Err(what)) => refused(&ToolError::failed(what)),
        _ if report.findings.is_empty() => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    }
}
