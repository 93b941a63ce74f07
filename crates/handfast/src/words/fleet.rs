//! The command line of `handfast fleet`, as it is typed.

use clap::Subcommand;

use super::running::RunningWords;
use super::worker::SetupWords;

pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast fleet setup --host bus.example.org /etc/handfast/bus
  handfast fleet list
  handfast fleet list -c handfast.toml";

/// `handfast fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetWords {
    /// List the machines that a proxy receives messages from, and whether its sessions resume on them
    ///
    /// Exit code 1 if the bus cannot be reached, or no other machine has the ticket key that is used.
    List(RunningWords),
    /// Write a NATS server's configuration, a separate CA, a password, and the secret of a fleet
    Setup(SetupWords),
}
