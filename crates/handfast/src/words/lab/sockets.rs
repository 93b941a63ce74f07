//! The command line of `handfast lab sockets`, as it is typed.

use std::path::PathBuf;

use clap::{Args, value_parser};

/// Text at the end of `--help`.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast lab sockets
  handfast lab sockets --list
  handfast lab sockets --only peer-resets --only zero-window-user-timeout
  handfast lab sockets --runs 100 --json matrix.json

Needs no privileges where user namespaces are allowed. Nothing is changed outside the network
namespaces that it makes and that end with it.

Exit codes: 0 every case was measured with the same result in every run, and Handfast's causes are
right or cannot be; 1 otherwise; 2 wrong use.";

/// `handfast lab sockets`.
#[derive(Args, Debug)]
pub(crate) struct SocketsWords {
    /// Measure this row only (may be repeated)
    #[arg(long, value_name = "ROW")]
    pub(crate) only: Vec<String>,
    /// List the rows, and exit
    #[arg(long, conflicts_with_all = ["only", "runs", "engine", "json", "page"])]
    pub(crate) list: bool,
    /// Repeat each experiment this number of times, and compare the results
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000))]
    pub(crate) runs: u32,
    /// Technique to carry packets: veth or tun [default: the first that works here, tun before veth]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<super::EngineWord>,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the page of this kernel, as docs/reference has it
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
}
