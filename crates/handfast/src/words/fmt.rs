//! `handfast fmt`, as it is typed.

use std::path::PathBuf;

use clap::Args;

/// `handfast fmt`.
#[derive(Args, Debug)]
pub(crate) struct FmtWords {
    /// Configuration files, which are rewritten; without one, standard input is written to standard output
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Change nothing, and list the files that would change: exit code 1 if there is one
    #[arg(long)]
    pub(crate) check: bool,
}
