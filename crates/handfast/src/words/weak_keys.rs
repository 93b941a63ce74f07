//! The command line of `handfast weak-keys`, as it is typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `handfast weak-keys`.
#[derive(Debug, Subcommand)]
pub(crate) enum WeakKeysWords {
    /// Merge lists into one sorted binary list: it is read much faster, and damage is detected
    ///
    /// A list is a CSV file, a file of Debian's openssl-blacklist, or an output of this command. The CSV file has the SHA-256 of
    /// the modulus or x coordinate of each key, as published for CVE-2008-0166. The proxy's configuration also accepts
    /// lists in each of these formats.
    Pack(PackWords),
}

/// `handfast weak-keys pack`.
#[derive(Args, Debug)]
pub(crate) struct PackWords {
    /// Lists to read
    #[arg(value_name = "LIST", required = true)]
    pub(crate) lists: Vec<PathBuf>,
    /// The file to write; an existing one is replaced as a whole
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
}
