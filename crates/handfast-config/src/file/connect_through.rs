//! `[service.connect-through]`: read, and checked against what is around it.

use crate::keys;
use crate::model::{Address, ConnectThrough, Target};
use crate::problem::Fault;
use crate::table::Table;

/// The section; `backends`: those that are to be reached through the proxy.
pub(super) fn connect_through(section: &Table<'_>, backends: &[&Target]) -> Option<ConnectThrough> {
    let kind = section.required(&keys::THROUGH_TYPE);
    let proxy = section.required(&keys::THROUGH_ADDRESS);
    let user = section.optional(&keys::THROUGH_USER);
    let password = section.optional(&keys::THROUGH_PASSWORD);
    if let Some(user) = &user
        && (user.is_empty() || user.len() > 255 || user.contains(':') || user.chars().any(char::is_control))
    {
        let allowed = "1 to 255 bytes without a colon or control characters (RFC 7617 §2)";
        let fault = Fault::new("this cannot be a user's name for a proxy").allowed(allowed);
        section.error(&keys::THROUGH_USER, fault);
        return None;
    }
    let login = match (user, password) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        (Some(_), None) => {
            let fault = Fault::new("a `user` without its `password-file`");
            section.error(&keys::THROUGH_USER, fault.hint("add `password-file`, or remove `user`"));
            return None;
        }
        (None, Some(_)) => {
            let fault = Fault::new("a `password-file` without its `user`");
            section.error(&keys::THROUGH_PASSWORD, fault.hint("add `user`, or remove `password-file`"));
            return None;
        }
    };
    let is_near = |target: &&&Target| matches!(target, Target::Address(Address::Unix(_)) | Target::BuiltIn);
    if let Some(near) = backends.iter().find(is_near) {
        let fault =
            Fault::new(format!("no proxy can connect to the backend `{near}`: it is on this machine alone"));
        let fault = fault.hint("give the backend an address, or a separate service");
        section.reading().error(section.span(), fault);
        return None;
    }
    Some(ConnectThrough { kind: kind?, proxy: proxy?, login })
}
