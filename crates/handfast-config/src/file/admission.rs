//! Reads which clients a service admits, by address.

use std::path::PathBuf;

use handfast_net::prefix::Prefix;

use crate::check;
use crate::keys;
use crate::kind::ItemOrFile;
use crate::model::{Admission, HandshakeRate};
use crate::problem::Fault;
use crate::reading::{Written, values};
use crate::schema::Entry;
use crate::table::Table;

/// Prefixes that are compared with each other; longer lists come from a program.
const MAX_COMPARED_PREFIXES: usize = 500;

/// The admission rules of a service; `None` when something is wrong, which is then noted.
///
/// `have_addresses`: whether some clients have one.
pub(super) fn admission(section: &Table<'_>, have_addresses: bool) -> Option<Admission> {
    let (allow, allow_files) = split(section.optional(&keys::ALLOW_CLIENTS));
    let (refuse, refuse_files) = split(section.optional(&keys::REFUSE_CLIENTS));
    let rate = section.read(&keys::HANDSHAKE_RATE, rate);
    contradictions(section, (&allow, &allow_files), &refuse);
    if !have_addresses {
        let why = "clients of unix sockets have no address, unless a PROXY header names it (`accept-from = \"unix\"`)";
        let keys = [&keys::ALLOW_CLIENTS as &dyn Entry, &keys::REFUSE_CLIENTS, &keys::ADDRESS_CONNECTIONS];
        check::no_effect(section, keys, why);
        check::no_effect_of_section(section, &keys::HANDSHAKE_RATE, why);
    }
    Some(Admission { allow: values(allow), allow_files, refuse: values(refuse), refuse_files, rate: rate? })
}

/// The items of a list, and its files.
pub(super) fn split<T>(list: Option<Vec<Written<ItemOrFile<T>>>>) -> (Vec<Written<T>>, Vec<PathBuf>) {
    let (mut items, mut files) = (Vec::new(), Vec::new());
    for Written { value, span } in list.into_iter().flatten() {
        match value {
            ItemOrFile::Item(value) => items.push(Written { value, span }),
            ItemOrFile::File(path) => files.push(path),
        }
    }
    (items, files)
}

fn rate(section: &Table<'_>) -> Option<HandshakeRate> {
    let per_second = section.required(&keys::PER_SECOND);
    let burst = section.optional(&keys::BURST);
    let (prefix_v4, prefix_v6) = (section.or_default(&keys::PREFIX_V4), section.or_default(&keys::PREFIX_V6));
    let per_second = per_second?;
    Some(HandshakeRate { per_second, burst: burst.unwrap_or(per_second), prefix_v4, prefix_v6 })
}

/// Entries of one list that the other one leaves without effect. The content of files is not known here.
pub(super) fn contradictions(
    section: &Table<'_>,
    (allow, allow_files): (&[Written<Prefix>], &[PathBuf]),
    refuse: &[Written<Prefix>],
) {
    let around = |list: &[Written<Prefix>], one: &Written<Prefix>| {
        list.iter().take(MAX_COMPARED_PREFIXES).find(|other| other.value.covers(&one.value)).cloned()
    };
    for one in allow.iter().take(MAX_COMPARED_PREFIXES) {
        if let Some(other) = around(refuse, one) {
            let what = format!("`{}` is never let in: `refuse-clients` wins", one.value);
            let fault = Fault::new(what).see(other.span, "and has this");
            section.reading().warning(&one.span, fault.hint("take it out of one of the lists"));
        }
    }
    if allow.is_empty() || !allow_files.is_empty() || allow.len() > MAX_COMPARED_PREFIXES {
        return;
    }
    for one in refuse.iter().take(MAX_COMPARED_PREFIXES) {
        let meets =
            |other: &Written<Prefix>| other.value.covers(&one.value) || one.value.covers(&other.value);
        if !allow.iter().any(meets) {
            let what = format!("`{}` is refused already: `allow-clients` does not have it", one.value);
            section.reading().warning(&one.span, Fault::new(what));
        }
    }
}
