//! The command line of the verbs that send a request to a running proxy, as it is typed.

use std::path::PathBuf;

use clap::Args;

/// The configuration file of packages.
pub(crate) const CONFIGURATION: &str = "/etc/handfast/handfast.toml";

/// `handfast reload`, `reopen`, `drain`, `stop`.
#[derive(Args, Debug)]
pub(crate) struct RunningWords {
    /// Admin address of the proxy, instead of the one in its configuration: http://HOST:PORT, HOST:PORT, unix:/PATH
    #[arg(value_name = "ADDRESS", conflicts_with = "config")]
    pub(crate) address: Option<String>,
    /// The proxy's configuration, which has its admin address (`admin.listen`); without this file the address is 127.0.0.1:7643
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION)]
    pub(crate) config: PathBuf,
    /// The file with the token that the proxy requires for changes, instead of the one in its configuration (`admin.token-file`)
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
}
