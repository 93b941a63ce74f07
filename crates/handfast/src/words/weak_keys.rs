//! The command line of `handfast weak-keys`, as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `handfast weak-keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum WeakKeysWords {
    /// Make one sorted binary list of others: it is read much sooner, and a damaged copy of it is noticed
    ///
    /// A list is CSV with the SHA-256 of the modulus or x coordinate of each key (as those for CVE-2008-0166 are
    /// published), a file of Debian's openssl-blacklist, or what this command made before. A list in each form can be
    /// named as it is in the proxy's configuration, too.
    Pack(PackWords),
}

/// `handfast weak-keys pack`.
#[derive(Args, Debug)]
pub(crate) struct PackWords {
    /// Lists to read
    #[arg(value_name = "LIST", required = true)]
    pub(crate) lists: Vec<PathBuf>,
    /// The file to write; one that is there is replaced as a whole
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}
