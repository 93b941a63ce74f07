//! The command line of `handfast lab faults`, as it is typed.

use std::path::PathBuf;

use clap::Args;

/// What `--help` ends with.
pub(crate) const AFTER_HELP: &str = "\
Modes: terminate, originate, re-encrypt, plain, pass-through, starttls-in, starttls-out, proxy-in,
proxy-out, http-upgrade, http-upgrade-tls.

Examples:
  handfast lab faults
  handfast lab faults --quick
  handfast lab faults --list
  handfast lab faults --only backend-resets --mode terminate --mode plain
  handfast lab faults --program ./handfast-of-yesterday --json faults.json

Needs no privileges where user namespaces are allowed. Nothing is changed outside the network
namespaces that it makes and that end with it.

Exit codes: 0 all cases passed; 1 a case failed, or an experiment could not be finished; 2 wrong
use; 125 no lab can be made here.";

/// `handfast lab faults`.
#[derive(Args, Debug)]
pub(crate) struct FaultsWords {
    /// Test this case only (may be repeated)
    #[arg(long, value_name = "CASE")]
    pub(crate) only: Vec<String>,
    /// Test cases in this mode only (may be repeated)
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Vec<String>,
    /// Test each case in one of its modes, instead of all
    #[arg(long)]
    pub(crate) quick: bool,
    /// List cases and modes, and what is not tested, and exit
    #[arg(long, conflicts_with_all = ["only", "mode", "quick", "program", "limit", "json"])]
    pub(crate) list: bool,
    /// The program to test [default: this one]
    #[arg(long, value_name = "FILE")]
    pub(crate) program: Option<PathBuf>,
    /// Stop after this time, finished or not
    #[arg(long, value_name = "TIME", default_value = "15m")]
    pub(crate) limit: String,
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}
