//! `handfast hash-password`, as it is typed.

use clap::Args;

/// Shown below the options.
pub(crate) const AFTER_HELP: &str = "\
Examples:
  handfast hash-password alice >> users           # asks for the password twice
  printf %s \"$PASSWORD\" | handfast hash-password alice >> users

The file is named by `basic-auth = { file = \"users\" }`, and read again when it changes.";

/// `handfast hash-password`.
#[derive(Args, Debug)]
pub(crate) struct HashPasswordWords {
    /// The name that clients send with the password
    pub(crate) user: String,
}
