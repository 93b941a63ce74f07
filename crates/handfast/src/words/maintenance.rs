//! The command line of `handfast maintenance`, as it is typed.

use std::time::Duration;

use clap::{Args, Subcommand};
use handfast_net::prefix::Prefix;
use handfast_text::duration::parse;

use super::cache::AtWords;

pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast maintenance on web
  handfast maintenance on web --allow 10.0.0.0/8,192.0.2.7 --retry-after 10m
  handfast maintenance status
  handfast maintenance off web";

/// `handfast maintenance`.
#[derive(Debug, Subcommand)]
pub(crate) enum MaintenanceWords {
    /// Answer all requests of a service with 503, Retry-After and its page for this error
    ///
    /// At once, also on open connections; WebSockets and other tunnels that are open stay. The command wins over the key `maintenance`. A
    /// reload and `handfast upgrade` keep it; a restart does with `process.state-folder`. A second `on` replaces the settings of the first.
    On(OnWords),
    /// End the maintenance by command; the key `maintenance` counts again
    ///
    /// Exit code 1 if the key keeps the service in maintenance.
    Off(OffWords),
    /// Show which services are in maintenance, since when, and for which clients
    Status(StatusWords),
}

/// `handfast maintenance on`.
#[derive(Args, Debug)]
pub(crate) struct OnWords {
    /// The service, which must have `mode = "http"`
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    /// Clients that are served nevertheless: addresses and prefixes, with commas between them (may be repeated)
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub(crate) allow: Vec<Prefix>,
    /// Time after which clients should try again, from 1s to 1d [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = parse)]
    pub(crate) retry_after: Option<Duration>,
    #[command(flatten)]
    pub(crate) running: AtWords,
}

/// `handfast maintenance off`.
#[derive(Args, Debug)]
pub(crate) struct OffWords {
    /// The service
    #[arg(value_name = "SERVICE")]
    pub(crate) service: String,
    #[command(flatten)]
    pub(crate) running: AtWords,
}

/// `handfast maintenance status`.
#[derive(Args, Debug)]
pub(crate) struct StatusWords {
    /// Only this service
    #[arg(value_name = "SERVICE")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) running: AtWords,
}
