//! Places in a configuration that name files and folders, for messages about them.

use std::path::{Path, PathBuf};

use crate::problem::Place;

/// Places where the configuration names files and folders.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places(pub(crate) Vec<(PathBuf, Place)>);

impl Places {
    /// Every file and folder that is named.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.iter().map(|(path, _)| path)
    }

    /// The place of a file, ready to be put behind a message: ` (handfast.toml:5:15)`. Empty when it is named nowhere
    /// itself: a file of a folder has its own name in the message.
    pub fn suffix(&self, path: &Path) -> String {
        let of = |(named, place): &(PathBuf, Place)| (named == path).then(|| format!(" ({place})"));
        self.0.iter().find_map(of).unwrap_or_default()
    }

    /// The place of a file, or of the folder that it is in.
    pub(crate) fn place(&self, path: &Path) -> Place {
        let named =
            |path: &Path| self.0.iter().find(|(named, _)| named == path).map(|(_, place)| place.clone());
        let whole = || Place::File { file: path.display().to_string() };
        named(path).or_else(|| path.parent().and_then(named)).unwrap_or_else(whole)
    }

    /// The same places, changed; those that `change` knows nothing about are left out.
    pub(crate) fn changed(self, change: impl Fn(&Place) -> Option<Place>) -> Self {
        Self(self.0.into_iter().filter_map(|(path, place)| Some((path, change(&place)?))).collect())
    }
}
