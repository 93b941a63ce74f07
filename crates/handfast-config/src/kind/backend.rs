//! The type of values that name a backend and its share: an address, or a table with more about it.

use toml::de::DeValue;

use super::{address, wrong_type};
use crate::keys;
use crate::model;
use crate::reading::{Item, Reading};
use crate::schema::ValueKind;
use crate::table::Table;

/// One of a service's backends.
pub(crate) struct BackendEntry;

impl ValueKind for BackendEntry {
    type Value = model::Backend;
    const FORM: &'static str = "text, such as `\"127.0.0.1:8080\"`, or `{ address = \"127.0.0.1:8080\", weight = 3, backup = true }`";

    fn allowed(&self) -> String {
        address::Backend.allowed()
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<model::Backend> {
        let DeValue::Table(entries) = item.value else {
            return address::Backend.read(item, reading).map(model::Backend::from);
        };
        let table = Table::open(&keys::BACKEND_TABLE, entries, item.span.clone(), reading);
        let target = table.required(&keys::BACKEND_ADDRESS);
        let weight = table.or_default(&keys::WEIGHT);
        let backup = table.or_default(&keys::BACKUP);
        Some(model::Backend { target: target?, weight, backup })
    }
}

/// Yes or no.
pub(crate) struct Switch;

impl ValueKind for Switch {
    type Value = bool;
    const FORM: &'static str = "`true` or `false`";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<bool> {
        if let DeValue::Boolean(value) = item.value {
            return Some(*value);
        }
        reading.error(&item.span, wrong_type(self, item));
        None
    }
}
