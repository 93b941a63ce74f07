//! Reads where connections to backends come from.

use std::net::IpAddr;

use crate::check::warn_no_effect;
use crate::keys;
use crate::kind::SourceItem;
use crate::model::{Address, Source, Target};
use crate::problem::Fault;
use crate::reading::Written;
use crate::table::Table;

/// Each that has no port left costs a whole search of the kernel's before the next one is tried.
const MOST: usize = 16;

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
    let is_unix = |target: &&Target| matches!(target, Target::Address(Address::Unix(_)));
    if !dialled.is_empty() && dialled.iter().all(is_unix) {
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
    if items.len() > MOST {
        return refuse(Fault::new(format!("at most {MOST} source addresses are tried in turn")));
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
