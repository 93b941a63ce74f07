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
mod proxy;
mod rows;
mod rules;
mod service;
mod stores;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
mod tests;
mod tls;
mod value;
mod walk;

use std::path::{Path, PathBuf};
use std::time::Duration;

use around::Around;
use grammar::{Line, Section};
use proxy::Proxy;
pub(crate) use rows::ROWS;
use stores::Load;

use crate::draft::WholeDraft;
use crate::imported::{ImportError, Imported, in_folder};
use crate::note::{Fate, Notes};

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
    let is_refused = import.notes.refused_since(0);
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
        import.services(proxy, is_refused, &mut whole);
    }
    Ok(Imported { config: whole.write(&main.display().to_string()), notes: import.notes.into_list() })
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

/// State of the conversion.
struct Import<'d> {
    /// Base folder of relative paths.
    folder: &'d Path,
    notes: Notes,
    proxies: Vec<Proxy<'d>>,
    /// The lines of `global`.
    global: Vec<&'d Line>,
    users: Vec<&'d Section>,
    certificate_base: PathBuf,
    key_base: PathBuf,
    /// The certificates of `crt-store`.
    loads: Vec<Load<'d>>,
    authority_base: PathBuf,
    /// True if servers without `verify` are verified (`ssl-server-verify`).
    verifies_servers: bool,
    /// Names of services.
    names: Vec<String>,
    /// Keys of remarks that are already noted; each is noted once.
    noted: Vec<&'static str>,
    /// Of the service that is made.
    is_http: bool,
    is_forwarded: bool,
    client_time: Option<Duration>,
}

impl<'d> Import<'d> {
    fn new(sections: &'d [Section], proxies: Vec<Proxy<'d>>, folder: &'d Path) -> Self {
        let of_kind = |kind: &'static str| sections.iter().filter(move |section| section.kind() == kind);
        let global: Vec<&Line> = of_kind("global").flat_map(|section| &section.lines).collect();
        let text =
            |name: &str| global.iter().rev().find(|line| line.word(0) == name).map(|line| line.word(1));
        let (certificates, authorities) = (text("crt-base"), text("ca-base"));
        let verifies_servers = text("ssl-server-verify") != Some("none");
        Self {
            folder,
            notes: Notes::default(),
            proxies,
            users: of_kind("userlist").collect(),
            certificate_base: certificates.unwrap_or_default().into(),
            key_base: text("key-base").unwrap_or_default().into(),
            loads: Vec::new(),
            authority_base: authorities.unwrap_or_default().into(),
            verifies_servers,
            global,
            names: Vec::new(),
            noted: Vec::new(),
            is_http: false,
            is_forwarded: false,
            client_time: None,
        }
    }

    fn note(&mut self, line: &Line, fate: Fate, effect: impl Into<String>) {
        self.note_of(line, &line.text(), fate, effect);
    }

    /// A note about a part of a line.
    fn note_of(&mut self, line: &Line, option: &str, fate: Fate, effect: impl Into<String>) {
        self.notes.add(&line.place, option, fate, effect);
    }

    /// Notes how conditions differ from the original, once for each kind.
    fn remarks(&mut self, line: &Line, around: &mut Around<'_, 'd>) {
        for (key, effect) in std::mem::take(&mut around.remarks) {
            if !self.noted.contains(&key) {
                self.noted.push(key);
                self.note(line, Fate::Approximated, effect);
            }
        }
    }

    fn path(&self, text: &str) -> String {
        in_folder(self.folder, text)
    }

    /// A name for a service that no other one has.
    fn new_name(&mut self, name: &str) -> String {
        let is_good = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
        let name: String = name.chars().take(56).map(|sign| if is_good(sign) { sign } else { '-' }).collect();
        let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
        let name = names.find(|name| !self.names.contains(name)).unwrap_or(name);
        self.names.push(name.clone());
        name
    }

    /// Sections that are no proxies.
    fn sections(&mut self, sections: &'d [Section]) {
        for section in sections {
            let Some(row) = rows::of(&format!("section {}", section.kind())) else { continue };
            self.notes.report(row, &section.head.place, &section.head.text(), "");
        }
    }

    /// Settings of the whole process.
    fn process(&mut self, whole: &mut WholeDraft) {
        for line in self.global.clone() {
            self.report(line, "global ");
            match line.word(0) {
                "group" if !self.global.iter().any(|line| line.word(0) == "user") => {
                    self.note(line, Fate::Approximated, "a group is that of a user: write both");
                }
                "user" | "group" => whole.process.put(line.word(0), line.word(1)),
                "nbthread" => {
                    if let Ok(threads @ 1..=1024) = line.word(1).parse::<i64>() {
                        whole.process.put("threads", threads);
                    }
                }
                "maxconn" => {
                    if let Ok(most @ 1..) = line.word(1).parse::<i64>() {
                        whole.process.put("max-connections", most.min(10_000_000));
                    }
                }
                "hard-stop-after" => {
                    if let Some(time) =
                        value::time(line.word(1)).and_then(|time| value::bounded(time, 1, 86_400))
                    {
                        whole.process.put("drain", time);
                    }
                }
                "log" if line.word(1).starts_with('/') && !whole.access_log.has("to") => {
                    whole.access_log.put("to", "syslog");
                }
                _ => {}
            }
        }
    }

    /// The notes of the table for a proxy and its defaults.
    fn report_proxy(&mut self, proxy: &Proxy<'d>) {
        for line in proxy.lines() {
            self.report(line, "");
        }
    }

    fn report(&mut self, line: &'d Line, prefix: &str) {
        let Some(row) = rows::of_line(line, prefix) else {
            return self.notes.report_unknown(&ROWS, &line.place, &line.text());
        };
        if line.is_off {
            return;
        }
        for variable in line.variables.iter().filter(|_| row.fate != Fate::Dropped) {
            let (fate, effect) = if variable.has_default {
                (Fate::Approximated, "the environment variable is not read: the value behind `-` is written")
            } else {
                (Fate::Refused, "the environment variable is not read: write its value")
            };
            self.note_of(line, &format!("{} ${{{}}}", line.word(0), variable.name), fate, effect);
        }
        self.notes.report(row, &line.place, &line.text(), "");
    }

    /// A `userlist` whose passwords are used.
    fn user_list(&mut self, line: &'d Line, name: &str) {
        let Some(list) = self.users.iter().copied().find(|list| list.name() == name) else {
            self.note(line, Fate::Refused, format!("there is no userlist {name}"));
            return;
        };
        for user in list.lines.iter().filter(|user| user.word(0) == "user") {
            let is_good = user.word(2) == "password"
                && ["$2a$", "$2b$", "$2y$", "$argon2"].iter().any(|kind| user.word(3).starts_with(kind));
            if !is_good {
                let effect = "the hash must be bcrypt or Argon2, because others can be guessed too quickly: make it by `htpasswd -B`, and write it here";
                self.note_of(user, &format!("user {}", user.word(1)), Fate::Refused, effect);
            }
        }
        let effect = format!(
            "users are read from a file: write each as NAME:HASH in {name}.htpasswd, beside the new configuration"
        );
        self.note(&list.head, Fate::Approximated, effect);
    }
}
