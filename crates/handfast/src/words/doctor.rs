//! The command line of `handfast doctor`, as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What `--help` ends with.
pub(crate) const AFTER_HELP: &str = "\
Nothing is changed, and nothing needs root; what could not be seen without it is said at the end.

Exit codes: 0 no findings, 1 findings, 2 wrong use.

Examples:
  handfast doctor
  handfast doctor --interval 10s --json -
  handfast doctor --config /etc/handfast/handfast.toml
  handfast doctor --pid $(pidof nginx | cut -d' ' -f1)
  handfast doctor keys /etc/ssl/private /etc/letsencrypt www.example.org:443
  handfast doctor keys --weak-keys debian-2048.csv server.pem";

/// `handfast doctor`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct DoctorWords {
    #[command(subcommand)]
    pub(crate) topic: Option<Topic>,
    /// How long the kernel's counters, or a process's threads, are watched
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub(crate) interval: std::time::Duration,
    /// Say too whether this configuration of the proxy fits the machine, and what of its keys and certificates is wrong
    #[arg(short, long, value_name = "FILE", conflicts_with = "pid")]
    pub(crate) config: Option<PathBuf>,
    /// Examine one process instead of the machine: threads that never sleep, the system calls that threads sit in, descriptors,
    /// sockets by state
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Examine a copy of /proc and /sys below this folder instead of this machine
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputWords,
}

/// Where the report goes.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputWords {
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// What can be examined beside the machine.
#[derive(Debug, Subcommand)]
pub(crate) enum Topic {
    /// Keys and certificates: weak or known ones, those about to expire, chains out of order, one key for unrelated names
    ///
    /// Looks at each PEM file, goes through folders, and asks servers for what they present. Certificates need no keys beside
    /// them, nor keys certificates.
    Keys(KeysWords),
}

/// `handfast doctor keys`.
#[derive(Args, Debug)]
pub(crate) struct KeysWords {
    /// Files, folders, and servers as HOST:PORT
    #[arg(value_name = "FILE|FOLDER|HOST:PORT", required = true)]
    pub(crate) what: Vec<String>,
    /// A list of keys that are known to others, as `handfast weak-keys` and the configuration take them (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) weak_keys: Vec<PathBuf>,
    /// Tell of certificates that expire within so many days, or a third of their life if that is less
    #[arg(long, value_name = "DAYS", default_value_t = 21)]
    pub(crate) expires_within: u32,
    #[command(flatten)]
    pub(crate) output: OutputWords,
}

/// At most a day.
fn interval(text: &str) -> Result<std::time::Duration, String> {
    let longest = std::time::Duration::from_secs(86_400);
    match handfast_text::duration::parse(text) {
        Ok(time) if time <= longest => Ok(time),
        Ok(_) => Err("expected at most 1d".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
