//! Converts nginx.conf: `grammar.rs` parses it, `tables/nginx.tsv` describes the conversion of each directive.
//!
//! Addresses with the same servers become a service each: `http.rs` has its TLS and `location.rs` its routes; `stream.rs` has
//! services without HTTP.

mod access;
mod acme;
mod cache;
mod compression;
mod connections;
mod fields;
mod files;
mod grammar;
mod http;
mod listen;
mod location;
mod pattern;
mod scope;
mod state;
mod stream;
mod subrequests;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
mod tests;
mod tls;
mod upstream;
mod value;

use std::path::{Path, PathBuf};

use state::Import;
pub(crate) use state::ROWS;

use crate::draft::WholeDraft;
use crate::imported::{ImportError, Imported, NewFiles};
use crate::note::{Mark, Notes};

pub(crate) fn import(files: &[PathBuf], folder: &Path) -> Result<Imported, ImportError> {
    let main = files.first().cloned().unwrap_or_default();
    let prefix = folder.join(main.parent().unwrap_or(Path::new("")));
    let directives = grammar::directives(files, &prefix)?;
    let mut import =
        Import { prefix: &prefix, notes: Notes::default(), upstreams: Vec::new(), zones: Vec::new() };
    let mut whole = WholeDraft::default();
    import.process(&directives, &mut whole);
    let of_all = import.notes.outcome_since(Mark::default());
    import.http(&directives, of_all, &mut whole);
    import.stream(&directives, of_all, &mut whole);
    Ok(whole.imported(&main.display().to_string(), import.notes, NewFiles::default()))
}
