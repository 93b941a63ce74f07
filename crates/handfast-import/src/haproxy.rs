//! Converts haproxy.cfg: `grammar.rs` parses it, `tables/haproxy.tsv` describes the conversion of each keyword.
//!
//! Each frontend or `listen` becomes a service for each kind of its addresses: `walk.rs` runs its rules and those of its
//! backends for all requests at once, and splits the requests into cells until each rule is for all requests of one, or for none. A cell is a route.

mod around;
mod backend;
mod check;
mod condition;
mod grammar;
mod listen;
mod pages;
mod proxy;
mod responses;
mod rows;
mod rules;
mod service;
mod state;
mod stores;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
mod tests;
mod tls;
mod value;
mod walk;

use std::path::{Path, PathBuf};

use grammar::Line;
use proxy::Proxy;
pub(crate) use rows::ROWS;
use state::Import;

use crate::draft::WholeDraft;
use crate::imported::{ImportError, Imported};
use crate::note::{Fate, Mark};

pub(crate) fn import(files: &[PathBuf], folder: &Path) -> Result<Imported, ImportError> {
    let main = files.first().cloned().unwrap_or_default();
    let files = with_folders(files, folder)?;
    let (sections, conditions) = grammar::sections(&files)?;
    let proxies = proxy::proxies(&sections);
    let mut import = Import::new(&sections, proxies.clone(), folder);
    let mut whole = WholeDraft::default();
    for line in conditions.iter().filter(|line| line.word(0) == ".if") {
        import.note(
            line,
            Fate::Refused,
            "a configuration does not depend on conditions: write the lines that hold",
        );
    }
    import.sections(&sections);
    import.loads = import.loads(&sections);
    whole.acme = import.issuer(&sections);
    import.process(&mut whole);
    let of_all = import.notes.outcome_since(Mark::default());
    for proxy in &proxies {
        let has_bind = proxy.section.lines.iter().any(|line| line.begins(&["bind"]));
        if proxy.kind() == "backend" || !has_bind || proxy.has(&["disabled"]) {
            continue;
        }
        if is_for_operators(proxy) {
            let effect =
                "the status page is that of the admin listener, and metrics are there under /metrics";
            import.note(&proxy.section.head, Fate::Approximated, effect);
            continue;
        }
        import.services(proxy, of_all, &mut whole);
    }
    Ok(whole.imported(&main.display().to_string(), import.notes, import.files))
}

/// The files, and those of folders that end in `.cfg`, by their names, as HAProxy reads them.
fn with_folders(files: &[PathBuf], folder: &Path) -> Result<Vec<PathBuf>, ImportError> {
    let mut all = Vec::new();
    for file in files.iter().map(|file| folder.join(file)) {
        if !file.is_dir() {
            all.push(file);
            continue;
        }
        let entries =
            std::fs::read_dir(&file).map_err(|error| ImportError::Read { path: file.clone(), error })?;
        let is_read = |path: &PathBuf| path.extension().is_some_and(|end| end == "cfg");
        let mut inner: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(is_read).collect();
        inner.sort_unstable();
        all.extend(inner);
    }
    Ok(all)
}

/// Returns true if a frontend has nothing but the status page or metrics of HAProxy.
fn is_for_operators(proxy: &Proxy<'_>) -> bool {
    let is_page = |line: &&Line| {
        line.begins(&["stats"]) || line.begins(&["http-request", "use-service", "prometheus-exporter"])
    };
    let has_page = proxy.section.lines.iter().any(|line| is_page(&line) || line.begins(&["monitor-uri"]));
    let serves = ["default_backend", "use_backend", "server", "redirect", "server-template", "dispatch"];
    has_page
        && !proxy.section.lines.iter().any(|line| serves.contains(&line.word(0)))
        && !proxy.has(&["default_backend"])
        && !proxy.section.lines.iter().any(|line| {
            line.begins(&["http-request"])
                && !is_page(&line)
                && ["return", "redirect"].contains(&line.word(1))
        })
}
