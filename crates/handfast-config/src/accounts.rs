//! Users and groups of this machine, by the names of `process.user` and `process.group`.

use std::fmt;

use nix::errno::Errno;
use nix::unistd::{Gid, Group, User};

/// A user or group that cannot be used, with its key in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccountError {
    /// The lookup failed.
    LookUp {
        /// The key that names it.
        key: &'static str,
        /// The name.
        name: String,
        /// The reason.
        source: Errno,
    },
    /// This machine has no such user or group.
    Unknown {
        /// The key that names it.
        key: &'static str,
        /// `user` or `group`.
        what: &'static str,
        /// The name.
        name: String,
    },
}

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LookUp { key, name, source } => write!(f, "look up {key} {name}: {source}"),
            Self::Unknown { key, what, name } => {
                write!(f, "{key}: there is no {what} {name} on this machine")
            }
        }
    }
}

// The source is in the text.
impl std::error::Error for AccountError {}

/// The user of this name. May read files and ask directory services.
///
/// **Errors**: there is none, or the lookup fails.
pub fn find_user(name: &str) -> Result<User, AccountError> {
    found("process.user", "user", name, User::from_name(name))
}

/// The group of this name. May read files and ask directory services.
///
/// **Errors**: there is none, or the lookup fails.
pub fn find_group(name: &str) -> Result<Gid, AccountError> {
    found("process.group", "group", name, Group::from_name(name)).map(|group| group.gid)
}

fn found<T>(
    key: &'static str,
    what: &'static str,
    name: &str,
    looked_up: Result<Option<T>, Errno>,
) -> Result<T, AccountError> {
    looked_up
        .map_err(|source| AccountError::LookUp { key, name: name.into(), source })?
        .ok_or_else(|| AccountError::Unknown { key, what, name: name.into() })
}
