//! `handfast load`: command line in, a run, a report out.
//!
//! In: [`LoadWords`]. Out: the report on standard output, files, messages on standard error, an exit code.
//!
//! | question | file |
//! |---|---|
//! | the requested run | `requested_load.rs` |
//! | output files | `outputs.rs` |
//! | the target's counters | `both_ends.rs` |
//! | the run | `run.rs`, ended by `signals.rs` |
//! | live figures for programs | `broadcast.rs` |
//! | live display | `display.rs`: `progress.rs` as a picture (`live.rs`) or lines (`lines.rs`) |
//! | the exit code | `ending.rs` |

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use handfast_load::distributed::{self, Workers};
use handfast_load::job;
use handfast_report::ToolError;
use handfast_report::plan::request;
use handfast_report::{Report, to_summary, to_text};
use tokio::runtime::Runtime;
use tracing::Level;

use crate::talk;
use crate::talk::print;
use crate::talk::{color, style};
use crate::words::load::{LoadWords, OutputWords};
use broadcast::{Broadcast, Closing};
use display::Display;
use outputs::{OutputError, Outputs};
use requested_load::{RequestedLoad, fill_in, workers};
use run::{Ended, Task};

mod both_ends;
mod broadcast;
pub(crate) mod display;
mod ending;
mod lines;
pub(crate) mod live;
pub(crate) mod outputs;
mod progress;
mod run;
pub(crate) mod signals;
mod mistakes;
mod requested_load;

pub(crate) use mistakes::Mistakes;
pub(crate) use requested_load::{bus, parse_load};

/// The target that is none.
const DOCTOR: &str = "doctor";

/// Runs `handfast load`.
pub(crate) fn load(words: &LoadWords) -> ExitCode {
    if words.target.as_deref() == Some(DOCTOR) {
        return doctor(words);
    }
    let requested = match requested_load(words) {
        Ok(requested) => requested,
        Err(refusal) => return refused(&refusal),
    };
    // First, since a report that cannot be written is useless.
    let outputs = match Outputs::prepare(&words.output) {
        Ok(outputs) => outputs,
        Err(error) => return refused(&ToolError::failed(error)),
    };
    let (broadcast, closing) = match Broadcast::prepare(&words.output) {
        Ok(prepared) => prepared,
        Err(error) => return refused(&ToolError::failed(error)),
    };
    let talk = talk::start(color(), Level::WARN, talk::Stamp::Absent);
    let taken = outputs.take_standard_output() || broadcast::takes_standard_output(&words.output);
    let text_to_terminal = io::stdout().is_terminal() && !taken;
    let display = Display::new(talk.voice(), words.output.quiet, color(), text_to_terminal);
    // The report has it, but a run that is refused or ended at once has no report.
    tracing::info!(seed = requested.job.plan.seed, "repeat with this --seed for the same choices");
    let ended = run::run(Task { requested, command: command(std::env::args()), broadcast }, display);
    talk.finish();
    // The lines come before the report where both go to a terminal.
    let closed = closing.map_or(Ok(()), Closing::wait);
    match ended {
        Ended::Report(report, exit_code) => {
            let kept = ReportOutputs { outputs, taken, closed };
            write_report(&report, exit_code, kept, &words.output)
        }
        Ended::Refused(refusal) => refused(&refusal),
        Ended::AtOnce(code) => {
            talk::err("handfast load: ended immediately, without a report");
            ExitCode::from(code)
        }
    }
}

/// The job: from the command line, or from a report.
fn requested_load(words: &LoadWords) -> Result<RequestedLoad, ToolError> {
    let mut mistakes = Mistakes::default();
    let found = match &words.output.replay {
        Some(path) => {
            for option in &words.against_replay {
                mistakes.note(
                    option,
                    "is in the report already; --replay allows only options about outputs and workers",
                );
            }
            let (workers, on_lost) = workers(&words.machines, &mut mistakes);
            let mut job = job::read(path)?;
            fill_in(&mut job.plan, &words.work.header, &mut mistakes);
            let status = requested_load::status(&words.machines, &mut mistakes);
            RequestedLoad { job, workers, on_lost, status }
        }
        None => parse_load(words, random_seed(), &mut mistakes),
    };
    if let Some(clash) = outputs::clash(&words.output) {
        mistakes.add(clash);
    }
    let metrics = words.output.metrics.as_deref().map(broadcast::address);
    if let Some(Err(what)) = metrics {
        mistakes.add(what.to_string());
    }
    if mistakes.is_empty() { Ok(found) } else { Err(mistakes.refusal()) }
}

/// The outputs of a report.
struct ReportOutputs {
    outputs: Outputs,
    /// True if an output other than the text goes to standard output.
    taken: bool,
    /// Result of writing the live figures to the end.
    closed: Result<(), OutputError>,
}

/// Writes the report and files, and returns the exit code. A failed write is the last message, and a failure.
/// `early_exit`: the exit code of an early end.
fn write_report(
    report: &Report,
    early_exit: Option<u8>,
    kept: ReportOutputs,
    words: &OutputWords,
) -> ExitCode {
    let ReportOutputs { outputs, taken, closed } = kept;
    let code = early_exit.unwrap_or_else(|| ending::exit_code(report));
    if outputs.is_empty() && !words.quiet {
        let whole = if words.verbose { "" } else { "-v prints the whole report, " };
        talk::err(&format!("hint: {whole}--html report.html --json report.json keep it\n"));
    }
    let text = if words.verbose { to_text } else { to_summary };
    match (taken, words.quiet) {
        (_, true) => {
            let interrupted = early_exit.map(|_| "handfast: warning: the run was interrupted".to_owned());
            talk::err(&ending::warning(report).or(interrupted).unwrap_or_default());
        }
        (true, false) => talk::err(text(report, style(io::stderr())).trim_end()),
        (false, false) => {
            print(&text(report, style(io::stdout())), true);
        }
    }
    if let Err(error) = outputs.write(report).and(closed) {
        return refused(&ToolError::failed(error));
    }
    ExitCode::from(code)
}

/// `handfast load doctor --workers URL`.
fn doctor(words: &LoadWords) -> ExitCode {
    let mut mistakes = Mistakes::default();
    let (workers, _) = workers(&words.machines, &mut mistakes);
    let Workers::Nats { bus, .. } = workers else {
        mistakes.note("doctor", "checks the bus of workers, expected --workers URL with it");
        return refused(&mistakes.refusal());
    };
    if !mistakes.is_empty() {
        return refused(&mistakes.refusal());
    }
    let talk = talk::start(color(), Level::WARN, talk::Stamp::Absent);
    let looked = Runtime::new()
        .map_err(|error| ToolError::failed(format!("start the runtime: {error}")))
        .and_then(|runtime| runtime.block_on(distributed::doctor(&bus)));
    talk.finish();
    match looked {
        Ok(findings) => {
            print(&findings.iter().map(|finding| format!("{finding}\n")).collect::<String>(), true)
        }
        Err(refusal) => refused(&refusal),
    }
}

/// Reports the error. The exit code is 2 for a wrong request, 1 for everything else.
pub(crate) fn refused(refusal: &ToolError) -> ExitCode {
    talk::err(&format!("handfast: {refusal}"));
    ExitCode::from(if refusal.is_wrong_use() { 2 } else { 1 })
}

/// A random seed, short enough to be typed again. The standard library's keys come from the kernel.
fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}

/// The command line, as a report keeps it: without the passwords that URLs may contain, and without the values of headers
/// that may be secret.
fn command(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut before = String::new();
    let keep = |argument: String| {
        let kept = match header_in(&before, &argument) {
            Some(header) => without_secret(&argument, header),
            None => without_password(&argument),
        };
        before = argument;
        kept
    };
    arguments.map(keep).collect()
}

/// The position of a header in an argument: `--header=NAME: VALUE`, `-HNAME: VALUE`, or alone after `--header` or `-H`.
fn header_in(before: &str, argument: &str) -> Option<usize> {
    // The option may be the last of several short ones: `-qH`.
    let short = |text: &str| text.starts_with('-') && !text.starts_with("--");
    if before == "--header" || (short(before) && before.ends_with('H')) {
        return Some(0);
    }
    if argument.starts_with("--header=") {
        return Some("--header=".len());
    }
    argument.find('H').filter(|_| short(argument)).map(|place| place + 1)
}

fn without_secret(argument: &str, header: usize) -> String {
    let (option, text) = argument.split_at(header);
    match text.split_once(':') {
        Some((name, _)) if request::is_secret(name) => format!("{option}{name}: ***"),
        _ => argument.to_owned(),
    }
}

fn without_password(argument: &str) -> String {
    let Some((before, after)) = argument.split_once("://") else { return argument.to_owned() };
    let end = after.find('/').unwrap_or(after.len());
    match after[..end].rfind('@') {
        Some(at) => format!("{before}://***{}", &after[at..]),
        None => argument.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_kept() {
        let typed =
            ["handfast", "--workers=nats://me:secret@bus:4222", "tls://a@b@c/x", "https://a/b@c", "a@b"];
        let kept = command(typed.into_iter().map(str::to_owned));
        assert_eq!(
            kept,
            ["handfast", "--workers=nats://***@bus:4222", "tls://***@c/x", "https://a/b@c", "a@b"]
        );
    }

    #[test]
    fn secret_headers_are_not_kept() {
        let typed = [
            "--header",
            "Authorization: Bearer geheim",
            "-H",
            "Cookie:geheim",
            "-HX-Api-Key: geheim",
            "-H=X-Token: geheim",
            "--header=proxy-authorization: geheim",
            "-qH",
            "x-session: geheim",
            "-H",
            "Accept: text/plain",
            "auth.example:443",
            "--mix",
            "share=1 name=a:H",
        ];
        let kept = command(typed.into_iter().map(str::to_owned));
        let expected = [
            "--header",
            "Authorization: ***",
            "-H",
            "Cookie: ***",
            "-HX-Api-Key: ***",
            "-H=X-Token: ***",
            "--header=proxy-authorization: ***",
            "-qH",
            "x-session: ***",
            "-H",
            "Accept: text/plain",
            "auth.example:443",
            "--mix",
            "share=1 name=a:H",
        ];
        assert_eq!(kept, expected);
    }

    #[test]
    fn seeds_differ_and_are_short() {
        let seeds = [(); 4].map(|()| random_seed());
        assert!(seeds.iter().all(|seed| *seed < 1 << 32));
        assert!(seeds.windows(2).any(|two| two[0] != two[1]), "{seeds:?}");
    }
}
