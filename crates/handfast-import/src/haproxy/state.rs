//! State of the conversion of haproxy.cfg, and the notes that every part of it takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::around::Around;
use super::grammar::{Line, Section};
use super::proxy::Proxy;
use super::rows::{self, ROWS};
use super::value;
use crate::draft::WholeDraft;
use crate::imported::{NewFiles, in_folder};
use crate::note::{Fate, Notes};

/// A certificate of `load` or `ssl-f-use`.
#[derive(Clone, Debug)]
pub(super) struct Load<'d> {
    pub(super) line: &'d Line,
    /// Names by which `crt` finds it: `@store/alias`, or in the store without a name also the file's.
    pub(super) names: Vec<String>,
    pub(super) files: Vec<(&'static str, String)>,
    /// The section that orders it.
    pub(super) issuer: Option<&'d str>,
    pub(super) domains: &'d str,
}

/// State of the conversion.
pub(super) struct Import<'d> {
    /// Base folder of relative paths.
    pub(super) folder: &'d Path,
    pub(super) notes: Notes,
    pub(super) proxies: Vec<Proxy<'d>>,
    /// The lines of `global`.
    pub(super) global: Vec<&'d Line>,
    pub(super) users: Vec<&'d Section>,
    /// The sections `http-errors`.
    pub(super) errors: Vec<&'d Section>,
    /// Pages of the new configuration.
    pub(super) files: NewFiles,
    pub(super) certificate_base: PathBuf,
    pub(super) key_base: PathBuf,
    /// The certificates of `crt-store`.
    pub(super) loads: Vec<Load<'d>>,
    pub(super) authority_base: PathBuf,
    /// True if servers without `verify` are verified (`ssl-server-verify`).
    pub(super) verifies_servers: bool,
    /// Names of services.
    pub(super) names: Vec<String>,
    /// Keys of remarks that are already noted; each is noted once.
    pub(super) noted: Vec<&'static str>,
    /// Of the service that is made.
    pub(super) is_http: bool,
    pub(super) is_forwarded: bool,
    pub(super) client_time: Option<Duration>,
}

impl<'d> Import<'d> {
    pub(super) fn new(sections: &'d [Section], proxies: Vec<Proxy<'d>>, folder: &'d Path) -> Self {
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
            errors: of_kind("http-errors").collect(),
            files: NewFiles::default(),
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

    pub(super) fn note(&mut self, line: &Line, fate: Fate, effect: impl Into<String>) {
        self.note_of(line, &line.text(), fate, effect);
    }

    /// A note about a part of a line.
    pub(super) fn note_of(&mut self, line: &Line, option: &str, fate: Fate, effect: impl Into<String>) {
        self.notes.add(&line.place, option, fate, effect);
    }

    /// Notes how conditions differ from the original, once for each kind.
    pub(super) fn remarks(&mut self, line: &Line, around: &mut Around<'_, 'd>) {
        for (key, effect) in std::mem::take(&mut around.remarks) {
            if !self.noted.contains(&key) {
                self.noted.push(key);
                self.note(line, Fate::Approximated, effect);
            }
        }
    }

    pub(super) fn path(&self, text: &str) -> String {
        in_folder(self.folder, text)
    }

    /// A name for a service that no other one has.
    pub(super) fn new_name(&mut self, name: &str) -> String {
        let is_good = |sign: char| sign.is_ascii_alphanumeric() || "-_.".contains(sign);
        let name: String = name.chars().take(56).map(|sign| if is_good(sign) { sign } else { '-' }).collect();
        let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
        let name = names.find(|name| !self.names.contains(name)).unwrap_or(name);
        self.names.push(name.clone());
        name
    }

    /// Sections that are no proxies.
    pub(super) fn sections(&mut self, sections: &'d [Section]) {
        for section in sections {
            let Some(row) = rows::of(&format!("section {}", section.kind())) else { continue };
            self.notes.report(row, &section.head.place, &section.head.text(), "");
        }
    }

    /// Settings of the whole process.
    pub(super) fn process(&mut self, whole: &mut WholeDraft) {
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
    pub(super) fn report_proxy(&mut self, proxy: &Proxy<'d>) {
        for line in proxy.lines() {
            self.report(line, "");
        }
    }

    pub(super) fn report(&mut self, line: &'d Line, prefix: &str) {
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
    pub(super) fn user_list(&mut self, line: &'d Line, name: &str) {
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
