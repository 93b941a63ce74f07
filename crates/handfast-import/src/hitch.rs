//! Converts hitch.conf: `grammar.rs` parses it, `tables/hitch.tsv` describes the conversion of each option.
//!
//! hitch has one backend and any number of frontends. Frontends without options are addresses of one service; the
//! others become a service each.

mod grammar;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "no other process reads these files")]
mod tests;

use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use grammar::{Setting, Value};
use handfast_pki::certificate::Certificate;

use crate::address::Address;
use crate::draft::{Draft, WholeDraft};
use crate::imported::{ImportError, Imported, NewFiles, in_folder, no_such_option, read_bytes, text_of};
use crate::note::{Fate, Mark, Notes, Place};
use crate::openssl;
use crate::row::{self, Table};
use crate::toml::{Value as Toml, list, table};

/// The options of hitch.
pub(crate) static ROWS: Table = Table::new(|| row::rows(include_str!("../tables/hitch.tsv")));

/// hitch's defaults.
const LISTEN: &str = "*:8443";
const BACKEND: &str = "127.0.0.1:8000";

/// Options that hitch ignores in a frontend without a separate `pem-file` (tested with hitch 1.7).
const WITH_A_CERTIFICATE_ONLY: [&str; 4] = ["tls-protos", "ciphers", "ciphersuites", "sni-nomatch-abort"];

/// The note about a frontend at `localhost`.
const LOCALHOST: &str =
    "it listens on 127.0.0.1, in hitch on ::1 too: a second frontend `[::1]:PORT` has the other address";
/// The note about `workers = 0`.
const NO_WORKERS: &str =
    "hitch starts no worker then, and serves no client: here there is one thread for each CPU";
/// The note about `pem-dir-glob`, which becomes a list of files.
const GLOB: &str =
    "the files that match now are listed; for one that comes later, convert again, or reload `proxy --hitch`";

/// `given`: options of the command line, which follow those of the file.
pub(crate) fn import(
    file: &Path,
    bytes: &[u8],
    given: &[(String, String)],
    folder: &Path,
) -> Result<Imported, ImportError> {
    let mut settings = grammar::settings(file, &text_of(file, bytes)?)?;
    settings.extend(given.iter().map(|(name, value)| Setting {
        name: name.clone(),
        value: Value::Word(value.clone()),
        place: Place::Flag,
    }));
    unknown(&settings)?;
    let mut hitch = Hitch { folder, notes: Notes::default(), whole: WholeDraft::default() };
    hitch.contradictions(&settings);
    hitch.process(&settings);
    let base = hitch.service(&settings);
    let place = Place::Line(Rc::new(file.to_owned()), 1);
    let services = hitch.frontends(&settings, &base, &place);
    report(&settings, &mut hitch.notes);
    let outcome = hitch.notes.outcome_since(Mark::default());
    for mut service in services {
        let name = service.of("").text("name").unwrap_or_default().replace('"', "");
        hitch.whole.add(name, service, outcome);
    }
    Ok(hitch.whole.imported(&file.display().to_string(), hitch.notes, NewFiles::default()))
}

/// Reports all names that hitch does not have.
fn unknown(settings: &[Setting]) -> Result<(), ImportError> {
    let mut problems = Vec::new();
    for setting in every(settings) {
        if row::find(&ROWS, &setting.name).is_none() {
            problems.push(format!("{}: {}", setting.place, no_such_option(&setting.name, "hitch", &ROWS)));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(ImportError::Grammar(problems)) }
}

/// The names that a certificate is served for, whose chain and key are in these files.
fn names_of(files: &[String]) -> Option<Vec<String>> {
    let mut pem = Vec::new();
    for file in files {
        pem.extend(read_bytes(Path::new(file)).ok()?);
        pem.push(b'\n');
    }
    let (certificate, _) = Certificate::from_pem(&pem, Path::new(files.first()?), 0);
    let names = certificate?.dns_names().iter().map(ToString::to_string).collect::<Vec<_>>();
    (!names.is_empty()).then_some(names)
}

fn inner(setting: &Setting) -> &[Setting] {
    match &setting.value {
        Value::Block(settings) => settings,
        _ => &[],
    }
}

/// All settings, those in blocks too.
fn every(settings: &[Setting]) -> impl Iterator<Item = &Setting> {
    let in_blocks = settings.iter().flat_map(inner);
    settings.iter().chain(in_blocks.clone()).chain(in_blocks.flat_map(inner))
}

fn last<'s>(settings: &'s [Setting], name: &str) -> Option<&'s Setting> {
    settings.iter().rev().find(|setting| setting.name == name)
}

/// Reports the options.
fn report(settings: &[Setting], notes: &mut Notes) {
    for setting in every(settings) {
        let value = if setting.is_on() { "on" } else { "off" };
        if let Some(row) = row::find(&ROWS, &setting.name) {
            notes.report(row, &setting.place, &setting.name, value);
        }
    }
}

struct Hitch<'f> {
    folder: &'f Path,
    notes: Notes,
    whole: WholeDraft,
}

impl Hitch<'_> {
    fn note(&mut self, setting: &Setting, fate: Fate, effect: impl Into<String>) {
        self.notes.add(&setting.place, &setting.name, fate, effect);
    }

    fn path(&self, text: &str) -> String {
        in_folder(self.folder, text)
    }

    /// Refuses what hitch refuses itself: it would not have served the file.
    fn contradictions(&mut self, settings: &[Setting]) {
        let frontends = settings.iter().filter(|setting| setting.name == "frontend").map(inner);
        for block in std::iter::once(settings).chain(frontends) {
            let versions =
                block.iter().filter(|setting| ["tls", "ssl", "tls-protos"].contains(&&*setting.name));
            let versions: Vec<_> = versions.collect();
            let Some((last, others)) = versions.split_last() else { continue };
            if others.iter().any(|other| other.name == "tls-protos" || other.is_on()) {
                self.note(last, Fate::Refused, "tls-protos, tls and ssl exclude one another, in hitch too");
            }
        }
    }

    fn process(&mut self, settings: &[Setting]) {
        for key in ["user", "group"] {
            if let Some(setting) = last(settings, key) {
                self.whole.process.put(key, setting.text());
            }
        }
        if let Some(setting) = last(settings, "workers").filter(|setting| setting.text() != "auto") {
            match setting.text().parse::<i64>() {
                Ok(threads @ 1..) => self.whole.process.put("threads", threads),
                Ok(0) => self.note(setting, Fate::Approximated, NO_WORKERS),
                _ => self.note(setting, Fate::Refused, "expected a number or `auto`"),
            }
        }
        if let Some(setting) = last(settings, "log-filename") {
            let path = self.path(setting.text());
            self.whole.access_log.put("to", path);
        }
    }

    /// Settings of all frontends.
    fn service(&mut self, settings: &[Setting]) -> Draft {
        let mut draft = Draft::default();
        let backend = last(settings, "backend").map(|setting| (setting, Address::parse(setting.text())));
        match backend {
            None => draft.of("").append("backend", BACKEND),
            Some((_, Some(address))) => draft.of("").append("backend", address.backend("127.0.0.1")),
            Some((setting, None)) => self.note(setting, Fate::Refused, "expected \"[HOST]:PORT\""),
        }
        self.certificates(settings, &mut draft);
        self.own(settings, &mut draft);
        self.clients(settings, &mut draft);
        self.times(settings, &mut draft);
        self.headers(settings, &mut draft);
        if let Some(setting) = last(settings, "alpn-protos") {
            let names: Vec<_> =
                setting.text().split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            draft.put("", "alpn", list(names));
        }
        draft
    }

    /// The last `pem-file` is what clients without a name get, so it comes first.
    fn certificates(&mut self, settings: &[Setting], draft: &mut Draft) {
        let files = settings.iter().rev().filter(|setting| setting.name == "pem-file");
        for (at, setting) in files.enumerate() {
            let certificate = self.certificate(setting);
            draft.of("").append("certificate", certificate);
            draft.rules.extend(self.rule(setting, at == 0));
        }
        if let Some(setting) = last(settings, "pem-dir") {
            let path = self.path(setting.text());
            match last(settings, "pem-dir-glob") {
                None => draft.of("").append("certificate", format!("{}/", path.trim_end_matches('/'))),
                Some(pattern) => self.matching(&path, pattern, draft),
            }
        }
    }

    /// The files of a folder whose names match, in hitch's order.
    fn matching(&mut self, folder: &str, setting: &Setting, draft: &mut Draft) {
        let Ok(pattern) = glob::Pattern::new(setting.text()) else {
            self.note(setting, Fate::Refused, "expected a pattern such as \"*.pem\"");
            return;
        };
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                let effect =
                    format!("every file of {folder} is read, since they cannot be listed now: {error}");
                self.note(setting, Fate::Approximated, effect);
                draft.of("").append("certificate", format!("{}/", folder.trim_end_matches('/')));
                return;
            }
        };
        let mut files: Vec<_> = entries
            .flatten()
            .filter(|entry| pattern.matches(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path().display().to_string())
            .collect();
        files.sort_unstable();
        self.note(setting, Fate::Approximated, GLOB);
        for file in files {
            draft.of("").append("certificate", file);
        }
    }

    fn certificate(&mut self, setting: &Setting) -> Toml {
        let block = inner(setting);
        let Some(cert) = last(block, "cert") else { return self.path(setting.text()).into() };
        let (key, staple) = (last(block, "private-key"), last(block, "ocsp-resp-file"));
        let path = |setting: &Setting| Toml::from(self.path(setting.text()));
        if key.is_none() && staple.is_none() {
            return path(cert);
        }
        let pair = [("certificate", path(cert)), ("key", path(key.unwrap_or(cert)))];
        table(pair.into_iter().chain(staple.map(|file| ("ocsp", path(file)))))
    }

    /// The exception for the names of a certificate whose clients must show one of theirs. Clients without a name have the first
    /// certificate of a service, so that one cannot have an exception.
    fn rule(&mut self, setting: &Setting, is_first: bool) -> Option<Draft> {
        let block = inner(setting);
        let verify = last(block, "client-verify").filter(|verify| verify.text() != "none")?;
        let files = ["cert", "private-key"].into_iter().filter_map(|name| last(block, name));
        let files: Vec<_> = files.map(|file| self.path(file.text())).collect();
        let names = names_of(&files).filter(|_| !is_first);
        let Some(names) = names else {
            let effect = match is_first {
                true => {
                    "it is for the certificate of clients without a name: write it outside of the pem-file"
                }
                false => "the names of the certificate cannot be read, and it becomes a rule for these names",
            };
            self.note(verify, Fate::Refused, effect);
            return None;
        };
        let mut rule = Draft::default();
        rule.put("", "names", list(names));
        self.clients(block, &mut rule);
        Some(rule)
    }

    /// Settings of one frontend.
    fn own(&mut self, settings: &[Setting], draft: &mut Draft) {
        if let Some(setting) = last(settings, "tls-protos") {
            let words = setting.words();
            let has = |name: &&str| words.iter().any(|word| word.eq_ignore_ascii_case(name));
            let versions: Vec<_> =
                ["TLSv1.3", "TLSv1.2"].into_iter().filter(has).map(|name| &name[4..]).collect();
            match versions.as_slice() {
                [] => self.note(setting, Fate::Refused, "TLS 1.2 is the oldest supported version (RFC 8996)"),
                [only] => draft.put("", "versions", list([*only])),
                _ => {}
            }
            if words.len() > versions.len() {
                self.note(setting, Fate::Approximated, "TLS 1.2 is the oldest supported version");
            }
        }
        self.suites(settings, draft);
        if let Some(setting) = last(settings, "sni-nomatch-abort") {
            draft.put("", "unknown-name", if setting.is_on() { "refuse" } else { "first" });
        }
    }

    /// The requirements for client certificates.
    fn clients(&mut self, settings: &[Setting], draft: &mut Draft) {
        let Some(setting) = last(settings, "client-verify") else { return };
        match setting.text() {
            "none" => return,
            "optional" => draft.put("client-certificates", "mode", "request"),
            "required" => draft.put("client-certificates", "mode", "require"),
            _ => self.note(setting, Fate::Refused, "expected none, optional or required"),
        }
        match last(settings, "client-verify-ca") {
            Some(file) => {
                let path = self.path(file.text());
                draft.put("client-certificates", "ca", path);
            }
            None => {
                self.note(setting, Fate::Refused, "whose certificates are good? it needs client-verify-ca")
            }
        }
    }

    fn suites(&mut self, settings: &[Setting], draft: &mut Draft) {
        let mut known: [Option<Vec<&'static str>>; 2] = [None, None];
        for (at, name) in ["ciphersuites", "ciphers"].into_iter().enumerate() {
            let Some(setting) = last(settings, name) else { continue };
            let list =
                if at == 0 { openssl::suites_13(setting.text()) } else { openssl::suites(setting.text()) };
            if !list.unknown.is_empty() {
                let unknown = list.unknown.join(", ");
                self.note(setting, Fate::Approximated, format!("left away: {unknown}"));
            }
            known[at] = Some(list.names).filter(|names| !names.is_empty());
        }
        let [newer, older] = known;
        openssl::write_suites(newer, older, draft.of(""));
        let Some(setting) = last(settings, "ecdh-curve").filter(|setting| setting.text() != "auto") else {
            return;
        };
        let known = openssl::groups(setting.text());
        if !known.unknown.is_empty() {
            self.note(setting, Fate::Approximated, format!("left away: {}", known.unknown.join(", ")));
        }
        if !known.names.is_empty() {
            draft.put("", "groups", list(known.names));
        }
    }

    fn times(&mut self, settings: &[Setting], draft: &mut Draft) {
        for (theirs, ours) in [
            ("backend-connect-timeout", "connect"),
            ("ssl-handshake-timeout", "handshake"),
            ("keepalive", "tcp-keepalive"),
            ("backend-refresh", "resolve"),
        ] {
            let Some(setting) = last(settings, theirs) else { continue };
            match setting.text().parse::<u32>() {
                Ok(0) => {}
                Ok(seconds) => {
                    let duration = Duration::from_secs(seconds.into());
                    draft.put("limits", ours, handfast_text::duration::written(duration));
                }
                Err(_) => self.note(setting, Fate::Refused, "expected a number of seconds"),
            }
        }
    }

    fn headers(&mut self, settings: &[Setting], draft: &mut Draft) {
        for (theirs, ours) in [("write-proxy-v1", "v1"), ("write-proxy", "v2"), ("write-proxy-v2", "v2")] {
            if last(settings, theirs).is_some_and(Setting::is_on) {
                draft.put("proxy-protocol", "send", ours);
            }
        }
        if last(settings, "write-ip").is_some_and(Setting::is_on) {
            draft.put("proxy-protocol", "send", "address");
        }
        if last(settings, "proxy-client-cert").is_some_and(Setting::is_on) {
            draft.put("proxy-protocol", "client-certificate", "hitch");
        }
    }

    /// Notes options without effect in a frontend without a certificate. `client-verify` is applied: the result must not be less
    /// secure than the file demands.
    fn note_ineffective(&mut self, settings: &[Setting]) {
        for setting in settings {
            if WITH_A_CERTIFICATE_ONLY.contains(&setting.name.as_str()) {
                let effect = "hitch ignores it in a frontend without a separate `pem-file`; the file's global value applies, as before";
                self.note(setting, Fate::Dropped, effect);
            } else if setting.name == "client-verify" && setting.text() != "none" {
                let effect =
                    "hitch ignores it in a frontend without a separate `pem-file`; Handfast applies it";
                self.note(setting, Fate::Approximated, effect);
            }
        }
    }

    /// One service for all plain frontends, and one for each with options.
    fn frontends(&mut self, settings: &[Setting], base: &Draft, place: &Place) -> Vec<Draft> {
        let mut services = Vec::new();
        let mut shared = base.clone();
        shared.put("", "name", "hitch");
        let (mut is_shared, mut listeners) = (false, HashSet::new());
        for (at, setting) in settings.iter().filter(|setting| setting.name == "frontend").enumerate() {
            let (text, file) = match setting.text().split_once('+') {
                Some((address, file)) => (address.to_owned(), Some(file.to_owned())),
                None if inner(setting).is_empty() => (setting.text().to_owned(), None),
                None => {
                    let of = |name| last(inner(setting), name).map_or("", Setting::text);
                    (
                        format!("[{}]:{}", if of("host").is_empty() { "*" } else { of("host") }, of("port")),
                        None,
                    )
                }
            };
            let Some(listener) = Address::parse(&text).and_then(|address| address.listener("*")) else {
                self.note(setting, Fate::Refused, "expected \"[HOST]:PORT\" with an address, not a name");
                continue;
            };
            if text.starts_with("[localhost]") {
                self.note(setting, Fate::Approximated, LOCALHOST);
            }
            if !listeners.insert(listener.clone()) {
                self.note(
                    setting,
                    Fate::Refused,
                    "another frontend has this address, which hitch refuses too",
                );
            }
            let is_own = |inner: &Setting| !["host", "port"].contains(&inner.name.as_str());
            if file.is_none() && !inner(setting).iter().any(is_own) {
                is_shared = true;
                shared.of("").append("listen", listener);
                continue;
            }
            let mut own = base.clone();
            own.put("", "name", format!("hitch-{}", at + 1));
            own.of("").append("listen", listener);
            let before = own.of("").take_list("certificate");
            let rules = std::mem::take(&mut own.rules);
            if let Some(file) = &file {
                own.of("").append("certificate", self.path(file));
            }
            self.certificates(inner(setting), &mut own);
            let is_alone = own.of("").has("certificate")
                && !last(inner(setting), "match-global-certs").is_some_and(Setting::is_on);
            if !is_alone {
                before.into_iter().for_each(|item| own.of("").append("certificate", item));
                own.rules.extend(rules);
            }
            if file.is_some() || last(inner(setting), "pem-file").is_some() {
                self.own(inner(setting), &mut own);
            } else {
                self.note_ineffective(inner(setting));
            }
            self.clients(inner(setting), &mut own);
            services.push(own);
        }
        if services.is_empty() && !is_shared {
            shared.of("").append("listen", LISTEN);
            is_shared = true;
        }
        if is_shared {
            services.insert(0, shared);
        }
        if services.iter_mut().any(|service| !service.of("").has("certificate")) {
            self.notes.add(
                place,
                "pem-file",
                Fate::Refused,
                "a server needs a certificate: pem-file or pem-dir",
            );
        }
        services
    }
}
