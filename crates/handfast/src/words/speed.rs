//! The command line of `handfast speed`, as it is typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `handfast speed`.
#[derive(Args, Debug)]
pub(crate) struct SpeedWords {
    /// Predict for this certificate too: a chain in PEM, its key is not needed (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Vec<PathBuf>,
    /// Measure the combined limit too: the least time that a proxy made of this library and these sockets can need
    #[arg(long)]
    pub(crate) limit: bool,
    /// Run another program's measurement too, and show its figures beside ours (half a minute)
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) compare: Option<Other>,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Programs whose figures can be shown beside ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Other {
    /// `openssl speed`
    Openssl,
}
