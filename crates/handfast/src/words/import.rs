//! The command line of `handfast import`, as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Text at the end of `--help`.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast import stunnel /etc/stunnel/stunnel.conf -o handfast.toml
  handfast import --strict hitch /etc/hitch/hitch.conf
  handfast import nginx /etc/nginx/nginx.conf -o handfast.toml
  handfast import haproxy /etc/haproxy/haproxy.cfg -o handfast.toml
  caddy adapt -c /etc/caddy/Caddyfile >caddy.json; handfast import caddy caddy.json -o handfast.toml
  handfast import ghostunnel -- server --listen localhost:8443 --target localhost:8080 --cert c.pem --key k.pem --cacert ca.pem --allow-all

Exit codes: 0 every service was converted, 1 something was refused (with --strict: something changed its meaning), 2 wrong use, or a
file that cannot be read.";

/// `handfast import`.
#[derive(Args, Debug)]
pub(crate) struct ImportWords {
    #[command(subcommand)]
    pub(crate) from: ImportFrom,
    /// The file to write; an existing one is not overwritten [default: standard output]
    #[arg(short, long, value_name = "FILE", global = true)]
    pub(crate) output: Option<PathBuf>,
    /// If anything changes its meaning, exit with 1 and write nothing
    #[arg(long, global = true)]
    pub(crate) strict: bool,
}

/// The program whose configuration is converted.
#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// stunnel.conf
    Stunnel {
        /// The file; included folders are read too
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// hitch.conf
    Hitch {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// nginx.conf
    Nginx {
        /// The files, as if one followed the other; included files are read too
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// haproxy.cfg
    Haproxy {
        /// The files, as if one followed the other; of a folder, its files `*.cfg`
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
    /// Caddy's JSON, as `caddy adapt` prints it
    Caddy {
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
