//! `handfast completions`: what a shell needs to complete the command line, from the text of `--help`.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::words::Words;
use crate::words::completions::CompletionsWords;

/// Writes the completions of a shell to standard output.
pub(crate) fn completions(words: &CompletionsWords) -> ExitCode {
    let mut script = Vec::new();
    generate(Shell::from(words.shell), &mut Words::command(), "handfast", &mut script);
    // A reader that ended early is not our error.
    let _ = io::stdout().write_all(&script);
    ExitCode::SUCCESS
}
