//! Context for the conversion of a proxy's conditions and texts.

use std::path::Path;

use super::proxy::Proxy;
use super::value::ServiceFacts;

/// Context in which conditions and texts are read.
#[derive(Clone, Debug)]
pub(super) struct Around<'i, 'd> {
    pub(super) proxy: Proxy<'d>,
    pub(super) facts: ServiceFacts,
    pub(super) is_passed_through: bool,
    pub(super) accepts_header: bool,
    pub(super) folder: &'i Path,
    /// Backends without servers: requests for them are refused.
    pub(super) empty: &'i [String],
    /// Differences to note: a key, by which each is noted once, and the effect.
    pub(super) remarks: Vec<(&'static str, &'static str)>,
}

impl Around<'_, '_> {
    pub(super) fn path(&self, text: &str) -> String {
        crate::imported::in_folder(self.folder, text)
    }

    pub(super) fn remark(&mut self, key: &'static str, effect: &'static str) {
        self.remarks.push((key, effect));
    }

    pub(super) fn is_empty_backend(&self, name: &str) -> bool {
        self.empty.iter().any(|empty| empty == name)
    }
}
