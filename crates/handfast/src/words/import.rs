//! The command line of `handfast import`, as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What `--help` ends with.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast import stunnel /etc/stunnel/stunnel.conf -o handfast.toml
  handfast import --strict hitch /etc/hitch/hitch.conf
  handfast import ghostunnel -- server --listen localhost:8443 --target localhost:8080 --cert c.pem --key k.pem --cacert ca.pem --allow-all

Exit codes: 0 every service is there, 1 something was refused (with --strict: something is not the same), 2 wrong use, or a file
that cannot be read.";

/// `handfast import`.
#[derive(Args, Debug)]
pub(crate) struct ImportWords {
    #[command(subcommand)]
    pub(crate) from: ImportFrom,
    /// The file to write; one that is there is not touched [default: standard output]
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(crate) output: Option<PathBuf>,
    /// Exit with 1 when anything does not mean exactly the same, and write nothing then
    #[arg(long, global = true)]
    pub(crate) strict: bool,
}

/// Whose configuration it is.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// stunnel.conf
    Stunnel {
        /// The file; folders that it includes are read too
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// hitch.conf
    Hitch {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// ghostunnel's command line, behind `--`
    Ghostunnel {
        /// `server` or `client`, and ghostunnel's flags
        #[arg(value_name = "ARGUMENT", last = true, required = true)]
        arguments: Vec<String>,
    },
}
