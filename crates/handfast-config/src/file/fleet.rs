//! `[fleet]`, from the section to the model, and whether anything is shared.

use handfast_tls::ticket::KeySource;

use crate::keys;
use crate::model::{Acme, Fleet, Service};
use crate::problem::Fault;
use crate::table::Table;

/// Reads the section; the inner `None`: it is not there.
pub(super) fn fleet(root: &Table<'_>) -> Option<Option<Fleet>> {
    let section = root.inner(&keys::FLEET);
    if !is_there(root) {
        return Some(None);
    }
    let (bus, secret) = (section.required(&keys::BUS), section.required(&keys::SECRET));
    Some(Some(Fleet {
        name: section.or_default(&keys::FLEET_NAME),
        bus: bus?,
        ca: section.optional(&keys::FLEET_CA),
        tls_first: section.or_default(&keys::BUS_TLS_FIRST),
        credentials: section.optional(&keys::CREDENTIALS),
        secret: secret?,
        machine: section.optional(&keys::MACHINE),
    }))
}

/// Returns true if there is a `[fleet]` section: ticket keys without a file are then those of the fleet.
pub(super) fn is_there(root: &Table<'_>) -> bool {
    root.span_of(&keys::FLEET).is_some()
}

/// Reports that nothing is shared.
pub(super) fn check_use(root: &Table<'_>, services: &[Service], acme: Option<&Acme>) {
    let tickets = services.iter().filter_map(|service| Some(&service.tls.as_ref()?.tickets));
    let mut shared =
        tickets.filter(|tickets| tickets.per_handshake > 0 && tickets.key_source == KeySource::Fleet);
    if acme.is_none()
        && shared.next().is_none()
        && let Some(span) = root.span_of(&keys::FLEET)
    {
        let fault = Fault::new("`fleet` has no effect: no service has tickets with keys in memory, and no certificate is ordered")
            .hint("remove `key-file` from the tickets of a service, or remove [fleet]");
        root.reading().error(&span, fault);
    }
}
