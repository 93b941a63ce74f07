//! The command line of `handfast lab faults`, as it is typed.

use std::path::PathBuf;

use clap::Args;

/// What `--help` ends with.
pub(crate) const AFTER_HELP: &str = "\
Modes: terminate, originate, re-encrypt, plain, pass-through, starttls-in, starttls-out, proxy-in,
proxy-out.

Examples:
  handfast lab faults
  handfast lab faults --quick
  handfast lab faults --list
  handfast lab faults --only backend-resets --mode terminate --mode plain
  handfast lab faults --program ./handfast-of-yesterday --json faults.json

Needs no privileges where user namespaces are allowed. Nothing is changed outside the network
namespaces that it makes and that end with it.

Exit codes: 0 everything held; 1 something did not, or an experiment could not be finished; 2 wrong
use; 125 there can be no laboratory here.";

/// `handfast lab faults`.
#[derive(Args, Debug)]
pub(crate) struct FaultsWords {
    /// Try this case only (may be repeated)
    #[arg(long, value_name = "CASE")]
    pub(crate) only: Vec<String>,
    /// Try cases in this mode only (may be repeated)
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Vec<String>,
    /// Try each case in one of its modes, instead of all
    #[arg(long)]
    pub(crate) quick: bool,
    /// Say which cases and modes there are, and what is not tried, and end
    #[arg(long, conflicts_with_all = ["only", "mode", "quick", "program", "limit", "json"])]
    pub(crate) list: bool,
    /// The program to test [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Stop after so long, finished or not
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub(crate) limit: String,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
