//! The command line of `handfast doctor`, as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Text at the end of `--help`.
pub(crate) const AFTER_HELP: &str = "\
It changes nothing, and does not need root; the end of the report lists what could not be examined without it.

Exit codes: 0 no findings, 1 findings, 2 wrong use.

Examples:
  handfast doctor
  handfast doctor --interval 10s --json -
  handfast doctor --config /etc/handfast/handfast.toml
  handfast doctor --pid $(pidof nginx | cut -d' ' -f1)
  handfast doctor keys /etc/ssl/private /etc/letsencrypt www.example.org:443
  handfast doctor keys --weak-keys debian-2048.csv server.pem
  handfast doctor size --full 500 --resumed 2000 --open 100000 --bytes 100MiB";

/// `handfast doctor`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct DoctorWords {
    #[command(subcommand)]
    pub(crate) topic: Option<Topic>,
    /// Time for which to watch the kernel's counters, or a process's threads
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = interval)]
    pub(crate) interval: std::time::Duration,
    /// Also check whether this configuration of the proxy fits the machine, and its keys and certificates
    #[arg(short, long, value_name = "FILE", conflicts_with = "pid")]
    pub(crate) config: Option<PathBuf>,
    /// Examine one process instead of the machine: threads that never sleep, the system calls that threads wait in, descriptors,
    /// sockets by state
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Examine a copy of /proc and /sys below this folder instead of this machine
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputWords,
}

/// The outputs.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputWords {
    /// Write everything as JSON; - for standard output, and the text then goes to standard error
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Print the whole report instead of one screen: every finding with its arithmetic, all facts, and what could not be examined
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// The other subjects of an examination.
#[derive(Debug, Subcommand)]
pub(crate) enum Topic {
    /// Keys and certificates: weak or compromised ones, those about to expire, invalid chains, one key for unrelated names
    ///
    /// Reads PEM files and folders, and the certificates that servers present. Certificates need no keys beside
    /// them, nor keys certificates.
    Keys(KeysWords),
    /// Resources for a planned load: cores, memory, source ports, files, the kernel's tables, each with its arithmetic and the command
    /// to change it; and which resource runs out first
    ///
    /// The CPU cost of handshakes and bytes is measured here (half a minute; `handfast speed --limit`), or read from a report of
    /// another machine (--from). The kernel's memory of a pair of sockets is measured here by opening some.
    Size(Box<SizeWords>),
}

/// `handfast doctor keys`.
#[derive(Args, Debug)]
pub(crate) struct KeysWords {
    /// Files, folders, and servers as HOST:PORT
    #[arg(value_name = "FILE|FOLDER|HOST:PORT", required = true)]
    pub(crate) what: Vec<String>,
    /// A list of compromised keys, in a format of `handfast weak-keys` and the configuration (may be repeated)
    #[arg(long, value_name = "FILE")]
    pub(crate) weak_keys: Vec<PathBuf>,
    /// Report certificates that expire within this number of days, or a third of their lifetime if that is less
    #[arg(long, value_name = "DAYS", default_value_t = 21)]
    pub(crate) expires_within: u32,
    #[command(flatten)]
    pub(crate) output: OutputWords,
}

/// `handfast doctor size`.
#[derive(Args, Debug)]
pub(crate) struct SizeWords {
    /// New connections a second with a full handshake: 500, 2.5k
    #[arg(long, value_name = "RATE")]
    pub(crate) full: Option<String>,
    /// New connections a second that resume a session
    #[arg(long, value_name = "RATE")]
    pub(crate) resumed: Option<String>,
    /// Connections that stay open
    #[arg(long, value_name = "N")]
    pub(crate) open: Option<String>,
    /// Plaintext bytes a second, in and out together: 100MiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) bytes: Option<String>,
    /// Kind of the certificate's key: ECDSA-P256, ECDSA-P384, Ed25519, RSA-2048, RSA-3072, RSA-4096
    #[arg(long, value_name = "KIND", default_value = "ECDSA-P256")]
    pub(crate) key: String,
    /// Group of the key exchange: X25519, X25519MLKEM768, P-256, P-384
    #[arg(long, value_name = "NAME", default_value = "X25519")]
    pub(crate) group: String,
    /// The backends have TLS too; the proxy resumes its sessions with them
    #[arg(long)]
    pub(crate) backend_tls: bool,
    /// Addresses of backends, to each of which the proxy can connect from all its source ports; 0: unix sockets
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) backends: String,
    /// Addresses of the proxy's machine for connections to backends
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) sources: String,
    /// Highest CPU load: beyond it waiting times grow fast
    #[arg(long, value_name = "SHARE", default_value = "70%")]
    pub(crate) busy: String,
    /// Round trip of the clients' network, during which bytes stay in the kernel's buffers
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub(crate) rtt: String,
    /// Cores for the proxy [default: those of the measured machine]
    #[arg(long, value_name = "N")]
    pub(crate) cores: Option<String>,
    /// Read the CPU costs from a file that `handfast speed --limit --json` wrote, for instance on another machine
    #[arg(long, value_name = "FILE")]
    pub(crate) from: Option<PathBuf>,
    /// Pairs of sockets to open briefly, to measure the kernel's memory
    #[arg(long, value_name = "N", default_value = "2000")]
    pub(crate) pairs: String,
    #[command(flatten)]
    pub(crate) output: OutputWords,
}

#[derive(Debug, thiserror::Error)]
enum IntervalError {
    #[error(transparent)]
    Duration(#[from] handfast_text::duration::DurationError),
    #[error("expected at most 1d")]
    TooLong,
}

/// At most a day.
fn interval(text: &str) -> Result<std::time::Duration, IntervalError> {
    let longest = std::time::Duration::from_secs(86_400);
    let time = handfast_text::duration::parse(text)?;
    if time <= longest { Ok(time) } else { Err(IntervalError::TooLong) }
}
