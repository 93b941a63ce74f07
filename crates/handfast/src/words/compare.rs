//! The command line of `handfast compare`, as it is typed.

use std::path::PathBuf;

use clap::Args;

/// `handfast compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareWords {
    /// JSON report of one run: shown side by side with B.json, without a test
    #[arg(value_name = "A.json", requires = "b", required_unless_present = "before", conflicts_with_all = ["before", "after"])]
    pub(crate) a: Option<PathBuf>,
    /// JSON report of the other run
    #[arg(value_name = "B.json")]
    pub(crate) b: Option<PathBuf>,
    /// JSON reports of the runs of one side; the test needs at least three of each side
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    pub(crate) before: Vec<PathBuf>,
    /// JSON reports of the runs of the other side, which were made in turn with the first
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    pub(crate) after: Vec<PathBuf>,
    /// Compare two servers: the targets of the two sides may differ
    #[arg(long)]
    pub(crate) across_targets: bool,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Text of `--help` after the options.
pub(crate) const AFTER_HELP: &str = "\
Exit codes:
  0  the reports could be read, whatever the answer is
  1  a file cannot be written
  2  wrong use, or a file that is no report

Examples:
  handfast compare old.json new.json                              side by side
  handfast compare --before old-*.json --after new-*.json         at least three runs of each, made in turn";
