//! `handfast reference`, as it is typed.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;

/// The page of the configuration file, which another module makes.
pub(crate) const CONFIGURATION: &str = "configuration";
/// Commands that have a page.
pub(crate) const COMMANDS: [&str; 10] =
    ["load", "worker", "compare", "proxy-header", "lab", "import", "probe", "doctor", "log", "top"];

/// `handfast reference`.
#[derive(Args, Debug)]
pub(crate) struct ReferenceWords {
    /// The subject of the reference
    #[arg(default_value = CONFIGURATION, value_parser = PossibleValuesParser::new([CONFIGURATION].into_iter().chain(COMMANDS)))]
    pub(crate) page: String,
    /// Write manual pages and shell completions below this folder instead, for packages
    #[arg(long, value_name = "FOLDER", conflicts_with = "page")]
    pub(crate) package: Option<PathBuf>,
}
