//! The types of values about clients' certificates: rules by name and key, and places of revocation lists.
//!
//! In: one value of the parsed tree. Out: rules as the TLS library takes them, and paths.

use std::path::PathBuf;

use handfast_tls::client_certificates::{FORMS, Rule};

use super::path::path;
use super::text;
use crate::problem::Fault;
use crate::reading::{Item, Reading};
use crate::schema::ValueKind;

/// A rule about clients' names and keys.
pub(crate) struct Identity;

impl ValueKind for Identity {
    type Value = Rule;
    const FORM: &'static str = "text, such as `\"dns:*.example.org\"`";

    fn allowed(&self) -> String {
        FORMS.to_owned()
    }

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<Rule> {
        text(self, item, reading, |text| Rule::parse(text).map_err(Fault::new))
    }
}

/// The path of a file or of a folder.
pub(crate) struct FileOrFolder;

impl ValueKind for FileOrFolder {
    type Value = PathBuf;
    const FORM: &'static str = "path of a file or of a folder";

    fn read(&self, item: &Item<'_>, reading: &Reading<'_>) -> Option<PathBuf> {
        text(self, item, reading, |text| path(text, reading).map(|(path, _)| path))
            .inspect(|path| reading.names(path, &item.span))
    }
}
