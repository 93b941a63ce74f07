//! The command line of `handfast cache`, as it is typed.

use clap::{Args, Subcommand};

use super::running::RunningWords;

pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast cache stats
  handfast cache list --prefix https://repo.example.org/maven2/
  handfast cache purge https://www.example.org/news
  handfast cache purge --prefix https://www.example.org/
  handfast cache purge --tag product-17";

/// `handfast cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheWords {
    /// Show the contents of a proxy's caches, and the outcomes of requests
    ///
    /// Exit code 1 if one of them does not work.
    Stats(AtWords),
    /// List objects: status, bytes, age and seconds until it is stale, hits, URL
    List(ListWords),
    /// Remove objects by URL, by the beginning of URLs, or by tag (Cache-Tag)
    Purge(PurgeWords),
}

/// `handfast cache list`.
#[derive(Args, Debug)]
pub(crate) struct ListWords {
    /// Only those whose URL begins so
    #[arg(long, value_name = "URL", default_value = "")]
    pub(crate) prefix: String,
    /// Most objects
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: u32,
    /// Only of the cache of this service
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) running: AtWords,
}

/// `handfast cache purge`.
#[derive(Args, Debug)]
pub(crate) struct PurgeWords {
    /// The URL of the object, as clients ask for it
    #[arg(value_name = "URL", required_unless_present_any = ["prefix", "tag"], conflicts_with_all = ["prefix", "tag"])]
    pub(crate) url: Option<String>,
    /// All objects whose URL begins so
    #[arg(long, value_name = "URL", conflicts_with = "tag")]
    pub(crate) prefix: Option<String>,
    /// All objects with this tag
    #[arg(long, value_name = "TAG")]
    pub(crate) tag: Option<String>,
    /// Only of the cache of this service
    #[arg(long, value_name = "NAME")]
    pub(crate) service: Option<String>,
    #[command(flatten)]
    pub(crate) running: AtWords,
}

/// The proxy to ask.
#[derive(Args, Debug)]
pub(crate) struct AtWords {
    /// Admin address of the proxy, instead of the one in its configuration: http://HOST:PORT, HOST:PORT, unix:/PATH
    #[arg(long, value_name = "ADDRESS", conflicts_with = "config")]
    pub(crate) at: Option<String>,
    /// The proxy's configuration, which has its admin address (`admin.listen`); without this file the address is 127.0.0.1:7643
    #[arg(short, long, value_name = "FILE", default_value = super::running::CONFIGURATION)]
    pub(crate) config: std::path::PathBuf,
    /// The file with the token that the proxy requires for changes, instead of the one in its configuration (`admin.token-file`)
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<std::path::PathBuf>,
}

impl AtWords {
    /// As the other verbs have it.
    pub(crate) fn running(&self) -> RunningWords {
        RunningWords {
            address: self.at.clone(),
            config: self.config.clone(),
            token_file: self.token_file.clone(),
        }
    }
}
