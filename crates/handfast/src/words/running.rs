//! The command line of the verbs that ask a running proxy for something, as it is typed.

use std::path::PathBuf;

use clap::Args;

/// Where a package has the configuration.
pub(crate) const CONFIGURATION: &str = "/etc/handfast/handfast.toml";

/// `handfast reload`, `reopen`, `drain`, `stop`.
#[derive(Args, Debug)]
pub(crate) struct RunningWords {
    /// Admin address of the proxy, in place of what its configuration says: http://HOST:PORT, HOST:PORT, unix:/PATH
    #[arg(value_name = "ADDRESS", conflicts_with = "config")]
    pub(crate) address: Option<String>,
    /// The proxy's configuration, which says where its admin address is (`admin.listen`)
    #[arg(short, long, value_name = "FILE", default_value = CONFIGURATION)]
    pub(crate) config: PathBuf,
}
