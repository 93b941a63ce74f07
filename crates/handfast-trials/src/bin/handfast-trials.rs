//! `handfast-trials`: command line in, what faults did to the programs out.
//!
//! In: [`Words`]. Out: the table on standard output, perhaps JSON, Markdown and HTML in files, progress on standard error, an exit code.
#![forbid(unsafe_code)]

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use handfast_lab::error::LabError;
use handfast_lab::namespace::{Place, enter};
use handfast_text::duration;
use handfast_text::suggest::did_you_mean_or_all;
use handfast_trials::{
    Experiment, HANDFAST, Mode, Report, RunSettings, SUBJECTS, Subject, explained, known, list, markdown,
    named, page, put_file, run, text, word,
};

/// Text at the end of `--help`.
const AFTER_HELP: &str = "\
Modes: terminate, originate, re-encrypt, plain, pass-through, starttls-in, starttls-out, proxy-in,
proxy-out, http-upgrade, http-upgrade-tls. Other programs than Handfast have some of them.

Examples:
  handfast-trials
  handfast-trials --quick
  handfast-trials --list
  handfast-trials --only backend-resets --mode terminate --mode plain
  handfast-trials --program ./handfast-of-yesterday --json trials.json
  handfast-trials --proxy handfast --proxy haproxy --only backend-resets --mode terminate

Needs no privileges where user namespaces are allowed. Nothing is changed outside the network
namespaces that it makes and that end with it.

Exit codes: 0 all promises were kept; 1 one was broken, or an experiment could not be finished; 2 wrong
use; 125 no lab can be made here.";

/// Inject faults of peers, the network, the machine and its operator into a TLS proxy
///
/// Tests each fault in every suitable mode (TLS on either side, on both, on neither, STARTTLS, PROXY headers), against the real
/// program in a separate network. First it checks that the fault happened. Then nothing must be lost, hang or be left behind; of
/// Handfast, the log must name the true cause too.
#[derive(Debug, Parser)]
#[command(name = "handfast-trials", version, after_help = AFTER_HELP)]
struct Words {
    /// Test this case only (may be repeated)
    #[arg(long, value_name = "CASE")]
    only: Vec<String>,
    /// Test cases in this mode only (may be repeated)
    #[arg(long, value_name = "MODE")]
    mode: Vec<String>,
    /// Test each case in one of its modes, instead of all
    #[arg(long)]
    quick: bool,
    /// List cases, modes and programs, and what is not tested, and exit
    #[arg(long)]
    list: bool,
    /// Test this program: handfast, haproxy, nginx, stunnel, hitch or ghostunnel (may be repeated)
    #[arg(long, value_name = "NAME", default_values = ["handfast"])]
    proxy: Vec<String>,
    /// The file of the program, if it is one only [default: the installed one; of Handfast, that beside this program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Experiments at the same time; a promise that is not kept is waited for, for a minute
    #[arg(long, value_name = "N", default_value_t = 4)]
    at_once: usize,
    /// Stop after this time, finished or not
    #[arg(long, value_name = "TIME", default_value = "15m")]
    limit: String,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the programs side by side as Markdown
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write the same as a page of HTML
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Run nothing: read the JSON of an earlier run, for --markdown and --html
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "mode", "quick", "program", "json"])]
    from: Option<PathBuf>,
}

fn main() -> ExitCode {
    match trials(&Words::parse()) {
        Ok(code) => code,
        Err(error) => {
            print_line(&format!("error: {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn trials(words: &Words) -> Result<ExitCode, LabError> {
    if words.list {
        print(&list());
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &words.from {
        return write_tables(words, &read(file)?).map(|()| ExitCode::SUCCESS);
    }
    // Also parsed outside the network, so that a mistake is reported once, before the network is made.
    let settings = run_settings(words)?;
    let inside = match enter()? {
        Place::Inside(inside) => inside,
        Place::Outside(code) => return Ok(code.into()),
    };
    // First, since a report that cannot be written is useless.
    [&words.json, &words.markdown, &words.html].into_iter().flatten().try_for_each(|file| can_write(file))?;
    let report = run(inside, &settings, &mut progress)?;
    let data = serde_json::to_string_pretty(&report).expect("strings and numbers are JSON") + "\n";
    match &words.json {
        Some(file) if file.as_os_str() == "-" => {
            print_line(text(&report).trim_end());
            print(&data);
        }
        Some(file) => {
            print(&text(&report));
            write(file, &data)?;
        }
        None => print(&text(&report)),
    }
    write_tables(words, &report)?;
    Ok(ExitCode::from(u8::from(!report.is_good())))
}

fn progress(experiment: &Experiment, left: usize) {
    let Experiment { proxy, case, mode, outcome, .. } = experiment;
    print_line(&format!("handfast-trials: {proxy}: {case} in {mode}: {}; {left} to go", word(outcome)));
    if let Some(more) = explained(experiment) {
        print_line(more.trim_end());
    }
}

fn run_settings(words: &Words) -> Result<RunSettings, LabError> {
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
    let names: Vec<_> = SUBJECTS.iter().map(|subject| subject.name).collect();
    let mut subjects = Vec::new();
    for name in &words.proxy {
        match named(name) {
            Some(subject) => subjects.push(subject),
            None => problems.push(format!("--proxy {name}: unknown; {}", did_you_mean_or_all(name, &names))),
        }
    }
    let limit = duration::parse(&words.limit).unwrap_or_else(|error| {
        problems.push(format!("--limit: {error}"));
        std::time::Duration::ZERO
    });
    if words.program.is_some() && subjects.len() > 1 {
        problems.push("--program: the file of one program, and --proxy names several".to_owned());
    }
    if !problems.is_empty() {
        return Err(LabError::Wrong(problems));
    }
    let program = |subject| Ok((subject, program(subject, words.program.as_deref())?));
    let programs = subjects.into_iter().map(program).collect::<Result<_, LabError>>()?;
    Ok(RunSettings {
        only: words.only.clone(),
        modes,
        quick: words.quick,
        programs,
        at_once: words.at_once.max(1),
        limit,
    })
}

/// The file of a program, absolute because it is started in a separate folder.
fn program(subject: &Subject, file: Option<&Path>) -> Result<PathBuf, LabError> {
    if let Some(file) = file {
        return file.canonicalize().map_err(LabError::file(format!("--program {}", file.display())));
    }
    if subject.name == HANDFAST.name {
        let own = std::env::current_exe().map_err(LabError::file("find this program"))?;
        let beside = own.with_file_name("handfast");
        let what = format!("{}: build it first (cargo build --workspace --bins)", beside.display());
        return beside.canonicalize().map_err(LabError::file(what));
    }
    let missing = || LabError::Wrong(vec![format!("--proxy {}: it is not installed", subject.name)]);
    subject.installed().ok_or_else(missing)
}

fn read(file: &Path) -> Result<Report, LabError> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(LabError::file(format!("--from {name}")))?;
    serde_json::from_str(&text).map_err(|error| LabError::Wrong(vec![format!("--from {name}: {error}")]))
}

fn write_tables(words: &Words, report: &Report) -> Result<(), LabError> {
    if let Some(file) = &words.markdown {
        write(file, &markdown(report))?;
    }
    words.html.as_ref().map_or(Ok(()), |file| write(file, &page(report)))
}

/// Checks that a file could be written: its folder exists.
fn can_write(file: &Path) -> Result<(), LabError> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.read_dir().map(drop).map_err(LabError::file(format!("write {}", file.display())))
}

fn write(file: &Path, text: &str) -> Result<(), LabError> {
    put_file(file, text).map_err(LabError::file(format!("write {}", file.display())))
}

/// A reader that ended early is not our error.
fn print(text: &str) {
    let _ = io::stdout().write_all(text.as_bytes());
}

fn print_line(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
