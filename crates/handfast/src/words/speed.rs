//! The command line of `handfast speed`, as it is typed.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `handfast speed`.
#[derive(Args, Debug)]
pub(crate) struct SpeedWords {
    /// Also predict for this certificate: a chain in PEM, without its key (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) certificate: Vec<PathBuf>,
    /// Also measure the combined limit: the least time of a proxy with this library and these sockets
    #[arg(long)]
    pub(crate) limit: bool,
    /// Also run another program's measurement, and show its figures beside ours (half a minute)
    #[arg(long, value_name = "PROGRAM")]
    pub(crate) compare: Option<Other>,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Programs to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Other {
    /// `openssl speed`
    Openssl,
}
