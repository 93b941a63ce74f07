//! Converts nginx.conf: `grammar.rs` parses it, `rows.rs` describes the conversion of each directive.
//!
//! Addresses with the same servers become a service each: `http.rs` has its TLS and `location.rs` its routes; `stream.rs` has
//! services without HTTP.

mod access;
mod fields;
mod grammar;
mod http;
mod listen;
mod location;
mod rows;
mod scope;
mod stream;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
mod tests;
mod tls;
mod upstream;
mod value;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use grammar::Directive;
pub(crate) use rows::ROWS;
use scope::own;

use crate::draft::{Draft, Whole};
use crate::imported::{ImportError, Imported, in_folder};
use crate::note::{Fate, Notes};
use crate::row::Row;

pub(crate) fn import(files: &[PathBuf], folder: &Path) -> Result<Imported, ImportError> {
    let main = files.first().cloned().unwrap_or_default();
    let prefix = folder.join(main.parent().unwrap_or(Path::new("")));
    let directives = grammar::directives(files, &prefix)?;
    let mut import = Import {
        prefix: &prefix,
        notes: Notes::default(),
        is_refused: false,
        upstreams: Vec::new(),
        zones: Vec::new(),
    };
    let mut whole = Whole::default();
    let mut left_out = Vec::new();
    import.process(&directives, &mut whole);
    import.http(&directives, &mut whole, &mut left_out);
    import.stream(&directives, &mut whole, &mut left_out);
    let mut config = whole.write(&main.display().to_string());
    for name in left_out {
        let _ = writeln!(config, "\n# The service {name} is not here: something it needs was refused.");
    }
    Ok(Imported { config, notes: import.notes.0 })
}

fn row_of(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// What is needed everywhere.
struct Import<'d> {
    /// Where relative paths start from: the folder of the first file.
    prefix: &'d Path,
    notes: Notes,
    /// Whether something was refused since the last service.
    is_refused: bool,
    upstreams: Vec<&'d Directive>,
    /// Of `limit_req`.
    zones: Vec<&'d Directive>,
}

impl<'d> Import<'d> {
    fn note(&mut self, directive: &Directive, fate: Fate, effect: impl Into<String>) {
        self.note_of(directive, &directive.text(), fate, effect);
    }

    /// A note about a part of a directive.
    fn note_of(&mut self, directive: &Directive, option: &str, fate: Fate, effect: impl Into<String>) {
        self.is_refused |= fate == Fate::Refused;
        self.notes.add(&directive.place, option, fate, effect);
    }

    fn path(&self, text: &str) -> String {
        in_folder(self.prefix, text)
    }

    /// The notes of the table, for a block and those in it.
    fn tell(&mut self, block: &[Directive]) {
        for directive in block {
            self.tell_one(directive, block);
            if rows::is_read(&directive.name) {
                self.tell(directive.inner());
            }
        }
    }

    fn tell_one(&mut self, directive: &Directive, block: &[Directive]) {
        let Some(row) = row_of(&directive.name) else {
            self.note(
                directive,
                Fate::Refused,
                "Handfast has nothing for this directive: remove it, or write the service by hand",
            );
            return;
        };
        let (mut fate, mut effect) = (row.fate, row.effect);
        if rows::is_harmless(directive) {
            return;
        }
        if rows::serves_files(&directive.name) {
            (fate, effect) = if is_answered(block) {
                (Fate::Dropped, "no file is served here")
            } else {
                (Fate::Refused, rows::FILES)
            };
        }
        if fate != Fate::Same && !rows::has_own_notes(&directive.name) {
            self.note(directive, fate, effect);
        }
    }

    /// Settings of the whole process.
    fn process(&mut self, directives: &[Directive], whole: &mut Whole) {
        if let Some(user) = own(directives, "user") {
            whole.process.put("user", user.argument(0));
            if let Some(group) = user.arguments.get(1) {
                whole.process.put("group", group.as_str());
            }
        }
        if let Some(workers) = own(directives, "worker_processes")
            && let Ok(threads @ 1..) = workers.argument(0).parse::<i64>()
        {
            whole.process.put("threads", threads);
        }
        let http = own(directives, "http").map(Directive::inner).unwrap_or_default();
        if let Some(log) = own(http, "access_log") {
            match log.argument(0) {
                "off" => whole.access_log.put("to", "off"),
                path if path.starts_with('/') => {
                    whole.access_log.put("to", path);
                    whole.access_log.put("format", "combined");
                }
                _ => {}
            }
        }
        let is_main = |directive: &&Directive| !["http", "stream"].contains(&directive.name.as_str());
        let main: Vec<_> =
            directives.iter().filter(is_main).filter(|main| !http::is_of_http(&main.name)).cloned().collect();
        self.tell(&main);
    }

    /// Adds a service, unless something it needs was refused.
    fn keep(&mut self, service: Draft, name: String, whole: &mut Whole, left_out: &mut Vec<String>) {
        if std::mem::take(&mut self.is_refused) { left_out.push(name) } else { whole.services.push(service) }
    }
}

/// Whether every request of a block is answered without files.
fn is_answered(block: &[Directive]) -> bool {
    let answers =
        |block: &[Directive]| ["proxy_pass", "return"].iter().any(|name| own(block, name).is_some());
    let is_all = |inner: &Directive| {
        inner.name == "location"
            && matches!(
                inner.arguments.iter().map(String::as_str).collect::<Vec<_>>()[..],
                ["/"] | ["^~", "/"]
            )
            && answers(inner.inner())
    };
    answers(block) || block.iter().any(is_all) || block.iter().any(|inner| inner.name == "server")
}
