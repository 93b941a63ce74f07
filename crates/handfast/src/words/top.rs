//! The command line of `handfast top`, as it is typed.

use std::path::PathBuf;

use clap::Args;

/// Text at the end of `--help`.
pub(crate) const AFTER_HELP: &str = "\
Keys: digits, a, b, c or Tab choose a table, < and > the column that it is sorted by, r reverses the
order, / filters the rows, p pauses, arrows move, ? explains, q or Ctrl-C ends.

Examples:
  handfast top
  handfast top http://127.0.0.1:7643
  handfast top unix:/run/handfast/admin.sock
  handfast top -c /etc/handfast/handfast.toml
  handfast top --once | grep down
  handfast top 127.0.0.1:9464          (a run of handfast load --metrics 9464)

Exit codes: 0 ended by a key, 1 nobody answers, 2 wrong use.";

/// `handfast top`.
#[derive(Args, Debug)]
pub(crate) struct TopWords {
    /// Admin address of the proxy, or that of a load run's --metrics: http://HOST:PORT, HOST:PORT, unix:/PATH [default: that of /etc/handfast/handfast.toml, or without this file http://127.0.0.1:7643]
    #[arg(value_name = "ADDRESS", conflicts_with = "config")]
    pub(crate) address: Option<String>,
    /// The proxy's configuration, which says where its admin address is (`admin.listen`)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Seconds from one picture to the next, 1 to 60
    #[arg(long, value_name = "SECONDS", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(crate) interval: u16,
    /// Print everything once, as plain text, and end; needs no terminal
    #[arg(long)]
    pub(crate) once: bool,
}
