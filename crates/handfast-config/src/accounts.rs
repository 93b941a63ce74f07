//! Users and groups of this machine, by the names of `process.user` and `process.group`.

use std::fmt;

use nix::errno::Errno;
use nix::unistd::{Gid, Group, User};

/// Reason why a user or group cannot be used, with its key in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountError(String);

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AccountError {}

/// The user of this name. May read files and ask directory services.
///
/// **Errors**: there is none, or the lookup fails.
pub fn find_user(name: &str) -> Result<User, AccountError> {
    found("user", name, User::from_name(name))
}

/// The group of this name. May read files and ask directory services.
///
/// **Errors**: there is none, or the lookup fails.
pub fn find_group(name: &str) -> Result<Gid, AccountError> {
    found("group", name, Group::from_name(name)).map(|group| group.gid)
}

fn found<T>(what: &str, name: &str, looked_up: Result<Option<T>, Errno>) -> Result<T, AccountError> {
    looked_up
        .map_err(|source| AccountError(format!("look up process.{what} {name}: {source}")))?
        .ok_or_else(|| AccountError(format!("process.{what}: there is no {what} {name} on this machine")))
}
