//! Converts stunnel.conf: parsed by `grammar.rs`, one service after the other by `service.rs`.
//!
//! Notes about changes come from `tables/stunnel.tsv`, or from the code that translates an option if they depend on its value.

mod grammar;
mod limits;
mod protocol;
mod rows;
mod service;
mod tls;
mod translation;
mod trust;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::Path;

use grammar::{Document, Service, ServiceOptions, Setting};
pub(crate) use rows::ROWS;
use rows::row_of;
use translation::Translation;

use crate::draft::{Draft, WholeDraft};
use crate::imported::{ImportError, Imported, NewFiles, in_folder};
use crate::note::{Fate, Mark, Notes, Outcome};
use crate::row::Scope;

pub(crate) fn import(file: &Path, bytes: &[u8], folder: &Path) -> Result<Imported, ImportError> {
    let mut document = grammar::document(file, bytes, folder)?;
    let is_inetd = document.services.is_empty();
    if is_inetd {
        document.services.push(grammar::Service::of_inetd(file, &document.global));
    }
    let mut notes = Notes::default();
    let mut whole = WholeDraft::default();
    global(&document, folder, &mut whole, &mut notes);
    let of_all = notes.outcome_since(Mark::default());
    let mut drafts: Vec<(&Service, Draft)> = Vec::new();
    let mut names = Names::default();
    for service in &document.services {
        let before = notes.mark();
        let given = document.given(service);
        let translation = Translation { service, given: &given, folder, is_inetd };
        let primary = translation.primary();
        let mut draft = translation.draft(&mut notes);
        report(&given, &mut notes);
        let mut outcome = of_all.max(notes.outcome_since(before));
        if notes.outcome_since(before) == Outcome::Refused {
            whole.leave_out(format!("[{}]", service.name));
            continue;
        }
        match primary {
            None => {
                if let Some(name) = names.other_than_taken(draft.of("").text("name")) {
                    let effect = format!("another service has this name: in logs and metrics it is {name}");
                    notes.add(&service.place, &service.name, Fate::Approximated, effect);
                    draft.put("", "name", name);
                    outcome = outcome.max(Outcome::Partial);
                }
                drafts.push((service, draft));
            }
            Some((primary, setting)) => match drafts.iter_mut().find(|(known, _)| known.name == primary) {
                Some((_, primary)) => add_rule(primary, draft),
                None => {
                    let effect = format!("there is no service [{primary}] in front of it that was kept");
                    notes.add(&setting.place, &setting.name, Fate::Refused, effect);
                    whole.leave_out(format!("[{}]", service.name));
                    continue;
                }
            },
        }
        whole.count(outcome);
    }
    let is_refused = of_all == Outcome::Refused;
    let kept = drafts.into_iter().filter(|_| !is_refused);
    whole.services = kept.map(|(_, draft)| draft).collect();
    let mut imported = whole.imported(&file.display().to_string(), notes, NewFiles::default());
    if is_refused {
        imported.config.push_str("\n# No service is here: something that all of them need was refused.\n");
    }
    Ok(imported)
}

/// The names of the services so far, as they are written.
#[derive(Default)]
struct Names(HashSet<String>);

impl Names {
    /// Takes a name; returns another one if it is taken. Sections of stunnel may have the same name.
    fn other_than_taken(&mut self, written: Option<String>) -> Option<String> {
        let name = written?.trim_matches('"').to_owned();
        if self.0.insert(name.clone()) {
            return None;
        }
        (2..).map(|number| format!("{name}-{number}")).find(|other| self.0.insert(other.clone()))
    }
}

/// A section with `sni = PRIMARY:name` is an exception of that service.
fn add_rule(primary: &mut Draft, mut rule: Draft) {
    for item in rule.of("").take_list("certificate") {
        primary.of("").append("certificate", item);
    }
    primary.rules.push(rule);
}

/// Settings of the whole process.
fn global(document: &Document, folder: &Path, whole: &mut WholeDraft, notes: &mut Notes) {
    let is_global = |setting: &&Setting| row_of(&setting.key).is_some_and(|row| row.scope == Scope::Global);
    let given = ServiceOptions(document.global.iter().filter(is_global).collect());
    for (option, key) in [("setuid", "user"), ("setgid", "group")] {
        if let Some(setting) = given.get(option) {
            whole.process.put(key, setting.value.as_str());
        }
    }
    if let Some(setting) = given.get("output") {
        match setting.value.as_str() {
            "/dev/stdout" | "/dev/stderr" => {}
            path => whole.access_log.put("to", in_folder(folder, path)),
        }
    }
    report(&given, notes);
}

/// The notes of the table, for options whose meaning does not depend on their values, or does so in a simple way.
fn report(given: &ServiceOptions<'_>, notes: &mut Notes) {
    for setting in &given.0 {
        let Some(row) = row_of(&setting.key) else { continue };
        let is_of_program = ["execargs", "pty", "retry"].contains(&setting.key.as_str());
        if !is_of_program || given.get("exec").is_none() {
            // Of a folder, a slash at its end has no meaning.
            let value = setting.value.to_ascii_lowercase();
            let value = value.strip_suffix('/').filter(|folder| !folder.is_empty()).unwrap_or(&value);
            notes.report(row, &setting.place, &setting.name, value);
        }
    }
}
