//! The command line of `handfast compare`, as it is typed.

use std::path::PathBuf;

use clap::Args;

/// `handfast compare`.
#[derive(Args, Debug)]
pub(crate) struct CompareWords {
    /// JSON report of the one side; several runs of it with commas between them
    #[arg(value_name = "A.json[,A2.json…]")]
    pub(crate) a: String,
    /// JSON report of the other side; several runs of it with commas between them
    #[arg(value_name = "B.json[,B2.json…]")]
    pub(crate) b: String,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
