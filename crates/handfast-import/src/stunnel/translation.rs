//! A service of stunnel that is being translated, and the notes that its options get.

use std::path::Path;

use super::grammar::{Service, ServiceOptions, Setting};
use crate::imported::in_folder;
use crate::note::{Fate, Notes};

/// A service being translated.
pub(super) struct Translation<'t> {
    pub(super) service: &'t Service,
    pub(super) given: &'t ServiceOptions<'t>,
    /// Base folder of relative paths.
    pub(super) folder: &'t Path,
    /// True if the file has no section: its one client is at standard input.
    pub(super) is_inetd: bool,
}

impl<'t> Translation<'t> {
    /// Plain towards clients, TLS towards backends.
    pub(super) fn is_client(&self) -> bool {
        self.given.is_yes("client")
    }

    /// The section whose exception this one is.
    pub(super) fn primary(&self) -> Option<(&'t str, &'t Setting)> {
        let setting = self.given.get("sni").filter(|_| !self.is_client())?;
        setting.value.split_once(':').map(|(primary, _)| (primary.trim(), setting))
    }

    pub(super) fn path(&self, setting: &Setting) -> String {
        in_folder(self.folder, &setting.value)
    }
}

pub(super) fn refuse(notes: &mut Notes, setting: &Setting, effect: impl Into<String>) {
    notes.add(&setting.place, &format!("{} = {}", setting.name, setting.value), Fate::Refused, effect);
}

pub(super) fn leave_out(notes: &mut Notes, setting: &Setting, effect: impl Into<String>) {
    notes.add(&setting.place, &format!("{} = {}", setting.name, setting.value), Fate::Dropped, effect);
}

pub(super) fn approximate(notes: &mut Notes, setting: &Setting, effect: impl Into<String>) {
    notes.add(&setting.place, &format!("{} = {}", setting.name, setting.value), Fate::Approximated, effect);
}
