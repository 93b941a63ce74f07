//! The way to backends: `source` and `[service.connect-through]`, read and checked against the settings around them.

use std::net::IpAddr;

use crate::check::warn_no_effect;
use crate::keys;
use crate::kind::SourceItem;
use crate::model::{Address, ConnectThrough, Source, Target};
use crate::problem::Fault;
use crate::reading::Written;
use crate::schema::Entry;
use crate::table::Table;

/// Each that has no port left costs a whole search of the kernel's before the next one is tried.
const MAX_SOURCES: usize = 16;

/// The source addresses of a service; `None` when something is wrong, which is then noted.
///
/// `dialled`: the backends, or the proxy in front of them.
pub(super) fn source(section: &Table<'_>, dialled: &[&Target], user: Option<&str>) -> Option<Source> {
    let Some(items) = section.optional(&keys::SOURCE) else {
        return section.written(&keys::SOURCE).is_none().then_some(Source::Route);
    };
    let refuse = |fault: Fault| {
        section.error(&keys::SOURCE, fault);
        None
    };
    if !dialled.is_empty() && dialled.iter().all(|target| target.is_unix()) {
        warn_no_effect(section, &keys::SOURCE, "no backend is reached by an address");
    }
    if items.iter().any(|item| item.value == SourceItem::Client) {
        if items.len() > 1 {
            let what = "`client` cannot be combined with addresses: a connection has one source";
            return refuse(Fault::new(what).hint("write `\"client\"`"));
        }
        if let Some(user) = user.filter(|user| *user != "root") {
            let what = format!("as user `{user}` it cannot use its clients' addresses (CAP_NET_ADMIN)");
            let hint = "leave `process.user` away, and let systemd set it: `User=` with `AmbientCapabilities=CAP_NET_ADMIN`";
            return refuse(Fault::new(what).hint(hint));
        }
        return Some(Source::Client);
    }
    if items.len() > MAX_SOURCES {
        return refuse(Fault::new(format!("at most {MAX_SOURCES} source addresses are tried in turn")));
    }
    let own = |item: &Written<SourceItem>| match item.value {
        SourceItem::Own(own) => Some(own),
        SourceItem::Client => None,
    };
    let own: Vec<IpAddr> = items.iter().filter_map(own).collect();
    let unreachable = dialled.iter().filter_map(|target| match target {
        Target::Address(Address::Ip(to)) => Some(*to),
        _ => None,
    });
    // One of each family is enough to know what to do.
    let mut wrong = unreachable.filter(|to| own.iter().all(|own| own.is_ipv4() != to.is_ipv4()));
    if let Some(to) = wrong.next() {
        let family = if to.is_ipv4() { "IPv4" } else { "IPv6" };
        return refuse(Fault::new(format!("no source address is an {family} one, as the backend `{to}` is")));
    }
    Some(Source::Own(own))
}

/// `[service.connect-through]`; `backends`: those that are to be reached through the proxy.
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
    let (own, other): (&dyn Entry, &dyn Entry) = match user {
        Some(_) => (&keys::THROUGH_USER, &keys::THROUGH_PASSWORD),
        None => (&keys::THROUGH_PASSWORD, &keys::THROUGH_USER),
    };
    if user.is_some() != password.is_some() {
        let (own_name, other) = (own.name, other.name);
        let fault = Fault::new(format!("a `{own_name}` without its `{other}`"));
        section.error(own, fault.hint(format!("add `{other}`, or remove `{own_name}`")));
        return None;
    }
    if let Some(near) = backends.iter().find(|target| target.is_unix() || ***target == Target::BuiltIn) {
        let fault =
            Fault::new(format!("no proxy can connect to the backend `{near}`: it is on this machine alone"));
        let fault = fault.hint("give the backend an address, or a separate service");
        section.reading().error(section.span(), fault);
        return None;
    }
    Some(ConnectThrough { kind: kind?, proxy: proxy?, login: user.zip(password) })
}
