//! What is known of the revocation lists that clients' certificates are held against.

use std::fmt;

use prometheus_client::registry::Unit;

use super::families::{Families, unix_seconds};
use crate::metrics::snapshot::{RevocationListSnapshot, Snapshot};

/// When each expires, and how long it is.
pub(super) fn lists(to: &mut Families<'_>, snapshot: &Snapshot) -> fmt::Result {
    let rows = |value: &dyn Fn(&RevocationListSnapshot) -> Option<f64>| {
        let row = |list: &RevocationListSnapshot| {
            Some(([("service", list.service.clone()), ("issuer", list.issuer.clone())], value(list)?))
        };
        snapshot.revocation_lists.iter().filter_map(row).collect::<Vec<_>>()
    };
    let now = unix_seconds(snapshot.process.now);
    to.gauge(
        ("handfast_crl_expires_in", Unit::Seconds),
        "Time until the revocation list of a client authority expires, negative when it has expired",
        rows(&|list| Some(unix_seconds(list.next_update?) - now)),
    )?;
    to.gauge(
        ("handfast_crl_next_update_timestamp", Unit::Seconds),
        "When the revocation list of a client authority expires, in seconds since 1970",
        rows(&|list| Some(unix_seconds(list.next_update?))),
    )?;
    to.gauge(
        "handfast_crl_entries",
        "Certificates that the revocation list of a client authority revokes",
        rows(&|list| Some(list.entries as f64)),
    )
}
