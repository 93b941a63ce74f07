//! The command line of `handfast worker`, as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::load::BusWords;

/// `handfast worker`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct WorkerWords {
    /// NATS server to wait for work at: nats://HOST:PORT or tls://HOST:PORT
    #[arg(value_name = "URL", required = true)]
    pub(crate) url: Option<String>,
    /// Name in reports [default: host name and process ID]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) bus: BusWords,
    #[command(subcommand)]
    pub(crate) setup: Option<WorkerVerb>,
}

/// The other commands of `handfast worker`.
#[derive(Debug, Subcommand)]
pub(crate) enum WorkerVerb {
    /// Write a NATS server's configuration, a separate CA, and passwords for coordinator and workers
    Setup(SetupWords),
}

/// `handfast worker setup`.
#[derive(Args, Debug)]
pub(crate) struct SetupWords {
    /// Folder to write to; created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Name or address under which machines will reach the NATS server
    #[arg(long, value_name = "NAME")]
    pub(crate) host: String,
    /// Port on which the NATS server will listen [default: 4222]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Fleet whose subjects its users may use; all its machines must name the same [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) fleet: Option<String>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::words::{Verb, Words};

    const MANIFEST: &str = include_str!("../../../../contrib/kubernetes/load-workers.yaml");

    #[test]
    fn the_kubernetes_manifest_starts_a_worker() {
        let (_, arguments) = MANIFEST.split_once("          args:\n").expect("arguments");
        let arguments = arguments.lines().map_while(|line| line.strip_prefix("            - "));
        let words = Words::try_parse_from(std::iter::once("handfast").chain(arguments))
            .unwrap_or_else(|error| panic!("{error}"));
        let Verb::Worker(words) = words.verb else { panic!("another command") };
        let mounted =
            |file: Option<std::path::PathBuf>| file.is_some_and(|file| file.starts_with("/etc/handfast"));
        assert!(mounted(words.bus.bus_ca) && mounted(words.bus.bus_credentials));
    }
}
