//! `handfast speed`: command line in, the TLS speed of this CPU out.
//!
//! In: [`SpeedWords`]. Out: the report on standard output, perhaps JSON in a file, progress on standard error, an exit code.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use handfast_load::speed::{Progress, SpeedSettings, run};
use handfast_report::ToolError;
use handfast_report::speed::{SpeedReport, to_text};
use handfast_report::to_json;
use tracing::Level;

use crate::load::outputs::Output;
use crate::load::refused;
use crate::talk::print;
use crate::talk::{self, Voice, terminal_size};
use crate::talk::{color, style};
use crate::words::speed::{Other, SpeedWords};

/// The interval of progress lines.
const LINES: Duration = Duration::from_secs(4);
/// Columns of a terminal of unknown size.
const USUAL: u16 = 80;

/// Runs `handfast speed`.
pub(crate) fn speed(words: &SpeedWords) -> ExitCode {
    // First, since a report that cannot be written is useless.
    let output = match words.json.as_deref().map(Output::prepare).transpose() {
        Ok(output) => output,
        Err(what) => return refused(&ToolError::failed(format!("--json: {what}"))),
    };
    let settings = SpeedSettings {
        certificates: words.certificate.clone(),
        limit: words.limit,
        openssl: words.compare == Some(Other::Openssl),
    };
    match measured(&settings, "handfast speed") {
        Ok(report) => write_report(&report, output, words.json.as_deref()),
        Err(refusal) => refused(&refusal),
    }
}

/// Measures, and reports the progress on standard error, with the name of the `verb`.
pub(crate) fn measured(settings: &SpeedSettings, verb: &'static str) -> Result<SpeedReport, ToolError> {
    let talk = talk::start(color(), Level::WARN, talk::Stamp::Absent);
    let mut shown = Shown::new(talk.voice(), verb);
    let measured = run(settings, &mut |progress| shown.step(progress));
    shown.voice.wipe();
    talk.finish();
    measured
}

fn write_report(report: &SpeedReport, output: Option<Output>, json: Option<&Path>) -> ExitCode {
    if json.is_some_and(|path| path.as_os_str() == "-") {
        talk::err(to_text(report, style(io::stderr())).trim_end());
    } else {
        print(&to_text(report, style(io::stdout())), true);
    }
    match output.map(|output| output.write(&to_json(report))) {
        Some(Err(what)) => refused(&ToolError::failed(what)),
        _ => ExitCode::SUCCESS,
    }
}

/// The progress display.
struct Shown {
    voice: Voice,
    verb: &'static str,
    terminal: bool,
    last: Option<Instant>,
}

impl Shown {
    fn new(voice: Voice, verb: &'static str) -> Self {
        let terminal = crate::screen::is_screen(&io::stderr());
        Self { voice, verb, terminal, last: None }
    }

    fn step(&mut self, progress: Progress<'_>) {
        if self.terminal {
            let (width, _) = terminal_size(std::io::stderr()).unwrap_or((USUAL, 0));
            // The last column stays free, since some terminals wrap there.
            self.voice.show([row(progress, usize::from(width.saturating_sub(1)))]);
        } else if self.last.is_none_or(|last| last.elapsed() >= LINES) {
            self.last = Some(Instant::now());
            self.voice.print_line(format!("{}: {}", self.verb, line(progress)));
        }
    }
}

fn line(progress: Progress<'_>) -> String {
    let Progress { now, done, steps } = progress;
    format!("{done} of {steps} done, now {now}")
}

/// A bar and the current step, within the width.
fn row(progress: Progress<'_>, width: usize) -> String {
    const BAR: usize = 20;
    let filled = BAR * progress.done / progress.steps.max(1);
    let bar = format!("{}{}", "#".repeat(filled.min(BAR)), ".".repeat(BAR.saturating_sub(filled)));
    format!("[{bar}] {}", line(progress)).chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_to_its_width() {
        let progress = |done| Progress { now: "sign with RSA-2048", done, steps: 40 };
        assert_eq!(row(progress(10), 80), "[#####...............] 10 of 40 done, now sign with RSA-2048");
        assert_eq!(row(progress(40), 24), "[####################] 4");
        assert_eq!(
            row(Progress { now: "", done: 0, steps: 0 }, 80),
            "[....................] 0 of 0 done, now "
        );
    }
}
