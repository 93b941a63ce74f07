//! State of the conversion of nginx.conf, and the notes that every part of it takes.

use std::path::Path;

use super::grammar::Directive;
use super::scope::own;
use crate::draft::WholeDraft;
use crate::imported::in_folder;
use crate::note::{Fate, Notes};
use crate::row::{self, Table};

/// Every supported or recognized directive of nginx. An example is a part of a server, or of what is in front of `|`.
pub(crate) static ROWS: Table = Table::new(|| row::rows(include_str!("../../tables/nginx.tsv")));

/// Directives that matter only where files are served: `files.rs` reports what it cannot convert.
const SERVE_FILES: [&str; 4] = ["root", "index", "autoindex", "try_files"];

/// State of the conversion.
pub(super) struct Import<'d> {
    /// Base folder of relative paths: the folder of the first file.
    pub(super) prefix: &'d Path,
    pub(super) notes: Notes,
    pub(super) upstreams: Vec<&'d Directive>,
    /// Zones and folders, which other directives name: `limit_req_zone`, `limit_conn_zone`, `proxy_cache_path`.
    pub(super) zones: Vec<&'d Directive>,
}

impl<'d> Import<'d> {
    pub(super) fn note(&mut self, directive: &Directive, fate: Fate, effect: impl Into<String>) {
        self.note_of(directive, &directive.text(), fate, effect);
    }

    /// A note about a part of a directive.
    pub(super) fn note_of(
        &mut self,
        directive: &Directive,
        option: &str,
        fate: Fate,
        effect: impl Into<String>,
    ) {
        self.notes.add(&directive.place, option, fate, effect);
    }

    pub(super) fn path(&self, text: &str) -> String {
        in_folder(self.prefix, text)
    }

    /// Reports the directives of a block and of those in it. The entries of a map have names that are no directives.
    pub(super) fn report(&mut self, block: &[Directive]) {
        for directive in block {
            self.report_one(directive, block);
            // Clients reach no internal location: what uses it looks at its directives.
            let is_internal = own(directive.inner(), "internal").is_some();
            if ["server", "location", "if"].contains(&directive.name.as_str()) && !is_internal {
                self.report(directive.inner());
            }
        }
    }

    pub(super) fn report_one(&mut self, directive: &Directive, block: &[Directive]) {
        let (place, text) = (&directive.place, directive.text());
        match row::find(&ROWS, &directive.name) {
            None => self.notes.report_unknown(&ROWS, place, &text),
            Some(row) if SERVE_FILES.contains(&row.name) && is_answered(block) => {
                self.notes.add(place, &text, Fate::Dropped, "no file is served here");
            }
            Some(row) if SERVE_FILES.contains(&row.name) => {}
            // Another use of its variable than in proxy_pass is refused there.
            Some(row) if row.name == "set" && !directive.argument(1).contains('$') => {}
            Some(row) => self.notes.report(row, place, &text, directive.argument(0)),
        }
    }

    /// Settings of the whole process.
    pub(super) fn process(&mut self, directives: &[Directive], whole: &mut WholeDraft) {
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
            directives.iter().filter(is_main).filter(|main| !is_of_http(&main.name)).cloned().collect();
        self.report(&main);
    }
}

/// Returns true if a directive at the top of a file is one of `http`: files of `sites-enabled` can be converted alone.
pub(super) fn is_of_http(name: &str) -> bool {
    ["server", "upstream", "map"].contains(&name)
}

/// Returns true if every request of a block is answered without files.
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
