//! Who may send a PROXY header, as it is written.

use handfast_net::prefix::Prefix;

use super::text;
use crate::model::ProxySender;
use crate::problem::Fault;
use crate::reading::{Item, Reading};
use crate::schema::ValueKind;

/// An address, a prefix, or `unix`.
pub(crate) struct ProxySenders;

impl ValueKind for ProxySenders {
    type Value = ProxySender;
    const FORM: &'static str = "text, such as `\"10.0.0.0/8\"`";
    const ALLOWED: &'static str = "`10.0.0.0/8`, `192.0.2.7`, `2001:db8::/32`, or `unix`";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<ProxySender> {
        text(self, item, reading, |text| match text {
            "unix" => Ok(ProxySender::Unix),
            text => text
                .parse::<Prefix>()
                .map(ProxySender::Prefix)
                .map_err(|error| Fault::new(error.what()).allowed(self.allowed()).maybe_hint(error.hint())),
        })
    }
}
