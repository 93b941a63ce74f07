//! The command line of `handfast acme`, as it is typed.

use clap::{Args, Subcommand};

use super::running::RunningWords;

pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast acme list
  handfast acme list -c handfast.toml
  handfast acme import /etc/letsencrypt
  handfast acme renew www.example.org
  handfast acme revoke www.example.org";

/// `handfast acme`.
#[derive(Debug, Subcommand)]
pub(crate) enum AcmeWords {
    /// List the certificates that are ordered: days left, next try, last error, and the DNS records to set
    ///
    /// Reads the store; the proxy need not run.
    List(ListWords),
    /// Take over certificates and accounts that certbot, lego, acme.sh or Caddy have left behind
    ///
    /// Searches a folder and those below it, and puts the certificates of names that are ordered into the store; those that are there
    /// already and expire later are kept. An account is taken for each issuer of the configuration that the store has none for. To be run
    /// as root with process.user, else as the user that serves.
    Import(ImportWords),
    /// Order a new certificate for a name now, within the limits on orders
    ///
    /// The proxy orders it; the present certificate is served until the new one is there.
    Renew(NameWords),
    /// Revoke the certificate of a name, and order a new one
    ///
    /// The proxy requests this from the issuer. The revoked certificate is served until the new one is there.
    Revoke(NameWords),
}

/// `handfast acme list`.
#[derive(Args, Debug)]
pub(crate) struct ListWords {
    /// The proxy's configuration
    #[arg(short, long, value_name = "FILE", default_value = super::running::CONFIGURATION)]
    pub(crate) config: std::path::PathBuf,
}

/// `handfast acme import`.
#[derive(Args, Debug)]
pub(crate) struct ImportWords {
    /// The folder of the other program: /etc/letsencrypt, ~/.lego, ~/.acme.sh, ~/.local/share/caddy
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: std::path::PathBuf,
    #[command(flatten)]
    pub(crate) config: ListWords,
}

/// `handfast acme renew` and `revoke`.
#[derive(Args, Debug)]
pub(crate) struct NameWords {
    /// The name, as `handfast acme list` has it
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) running: RunningWords,
}
