//! `ssl …` of `bind`, `crt-list`, and versions and suites on both sides.

use std::path::Path;

use super::grammar::{self, Line};
use super::listen::Bind;
use super::state::Import;
use crate::draft::Draft;
use crate::note::Fate;
use crate::openssl;
use crate::toml::{Section, Value, list, table};

/// The versions in the order of their age.
const VERSIONS: [&str; 5] = ["SSLv3", "TLSv1.0", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// Options about versions, suites and groups, each with its value.
pub(super) type Options = Vec<(String, String)>;

impl<'d> Import<'d> {
    /// TLS with clients.
    pub(super) fn client_tls(&mut self, bind: &Bind<'d>, of_frontend: &[&'d Line], draft: &mut Draft) {
        let mut has_one = !of_frontend.is_empty();
        for (name, value) in &bind.options {
            match name.as_str() {
                "crt" => {
                    has_one = true;
                    self.add_certificate(bind.line, value, draft);
                }
                "crt-list" => {
                    has_one = true;
                    self.certificate_list(bind, value, draft);
                }
                _ => {}
            }
        }
        for line in of_frontend {
            let load = self.load(line, "", (None, None));
            self.add_load(&load, draft);
        }
        if !has_one {
            self.note(bind.line, Fate::Refused, "it has `ssl` and no certificate");
        }
        if bind.has("strict-sni") {
            draft.put("", "unknown-name", "refuse");
        }
        let mut options = self.defaults_of("ssl-default-bind");
        options.extend(bind.options.iter().cloned());
        self.versions_and_suites(bind.line, &options, draft.of(""));
        self.client_certificates(bind.line, &bind.options, draft);
        if bind.has("no-tls-tickets") || options.iter().any(|(name, _)| name == "no-tls-tickets") {
            draft.put("tickets", "per-handshake", 0);
        }
    }

    /// A file, a folder, or a file whose key is next to it.
    pub(super) fn certificate(&self, name: &str) -> Value {
        let path = in_base(&self.certificate_base, name, self.folder);
        let key = format!("{path}.key");
        if Path::new(&key).is_file() {
            return table([("certificate", path.into()), ("key", key.into())]);
        }
        path.into()
    }

    fn certificate_list(&mut self, bind: &Bind<'d>, name: &str, draft: &mut Draft) {
        let path = self.path(name);
        let lines = match grammar::entries(Path::new(&path)) {
            Ok(lines) => lines,
            Err(error) => {
                self.note_of(bind.line, &format!("crt-list {name}"), Fate::Refused, error.to_string());
                return;
            }
        };
        for text in lines {
            let (file, options, names) = match text.split_once('[') {
                Some((file, rest)) => {
                    let (options, names) = rest.split_once(']').unwrap_or((rest, ""));
                    (file.trim(), options.trim(), names.trim())
                }
                None => text
                    .split_once(' ')
                    .map_or((text.as_str(), "", ""), |(file, names)| (file, "", names.trim())),
            };
            let option = format!("crt-list {name}: {text}");
            self.add_certificate(bind.line, file, draft);
            let names: Vec<String> = names.split_whitespace().map(str::to_ascii_lowercase).collect();
            if names.iter().any(|name| name.starts_with('!')) {
                self.note_of(
                    bind.line,
                    &option,
                    Fate::Refused,
                    "names are those of certificates, without exceptions",
                );
            } else if !options.is_empty() {
                self.rule_of_list(bind, &option, options, &names, draft);
            } else if !names.is_empty() {
                let effect = "the names in the certificate decide, not those written here";
                self.note_of(bind.line, &option, Fate::Approximated, effect);
            }
        }
    }

    /// TLS settings for some names.
    fn rule_of_list(
        &mut self,
        bind: &Bind<'d>,
        option: &str,
        text: &str,
        names: &[String],
        draft: &mut Draft,
    ) {
        if names.is_empty() {
            self.note_of(bind.line, option, Fate::Refused, "write the names that these settings are for");
            return;
        }
        let mut words = text.split_whitespace();
        let mut options: Options = Vec::new();
        while let Some(word) = words.next() {
            let value = if word == "allow-0rtt" || word == "no-ca-names" {
                ""
            } else {
                words.next().unwrap_or_default()
            };
            options.push((word.to_owned(), value.to_owned()));
        }
        let mut rule = Draft::default();
        rule.put("", "names", list(names.iter().map(String::as_str)));
        self.versions_and_suites(bind.line, &options, rule.of(""));
        if let Some((_, protocols)) =
            options.iter().find(|(name, _)| name == "alpn").filter(|_| !self.is_http)
        {
            rule.put("", "alpn", list(protocols.split(',')));
        }
        self.client_certificates(bind.line, &options, &mut rule);
        if options.iter().any(|(name, value)| name == "verify" && value == "none") {
            rule.put("client-certificates", "mode", "off");
        }
        draft.rules.push(rule);
    }

    fn client_certificates(&mut self, line: &'d Line, options: &Options, draft: &mut Draft) {
        let text = |name: &str| {
            options.iter().rev().find(|(option, _)| option == name).map(|(_, value)| value.as_str())
        };
        let mode = match text("verify") {
            Some("required") => "require",
            Some("optional") => "request",
            Some("none") | None => return,
            Some(other) => {
                self.note_of(
                    line,
                    &format!("verify {other}"),
                    Fate::Refused,
                    "expected none, optional or required",
                );
                return;
            }
        };
        draft.put("client-certificates", "mode", mode);
        let base = self.authority_base.clone();
        match text("ca-file").or(text("ca-verify-file")).filter(|file| !file.starts_with('@')) {
            Some(file) => {
                let path = in_base(&base, file, self.folder);
                draft.put("client-certificates", "ca", path);
            }
            None => self.note_of(line, "verify", Fate::Refused, "it needs ca-file, with a file"),
        }
        if let Some(file) = text("crl-file") {
            draft.put("client-certificates", "crl", in_base(&base, file, self.folder));
        }
    }

    /// The options of `ssl-default-bind-…` or `ssl-default-server-…`.
    pub(super) fn defaults_of(&self, prefix: &str) -> Options {
        let mut options = Vec::new();
        for line in &self.global {
            match line.word(0).strip_prefix(prefix) {
                Some("-options") => {
                    let mut words = line.from(1).iter();
                    while let Some(word) = words.next() {
                        let value = if word.ends_with("-ver") { words.next().cloned() } else { None };
                        options.push((word.clone(), value.unwrap_or_default()));
                    }
                }
                Some(kind @ ("-ciphers" | "-ciphersuites" | "-curves")) => {
                    options.push((kind[1..].to_owned(), line.word(1).to_owned()));
                }
                _ => {}
            }
        }
        options
    }

    /// `ssl-min-ver`, `no-tlsv12`, `ciphers`, `curves` and their kin; the last one of a kind decides.
    pub(super) fn versions_and_suites(&mut self, line: &'d Line, options: &Options, section: &mut Section) {
        let (mut least, mut most, mut only, mut off) = (3, 4, None, Vec::new());
        let at = |name: &str| VERSIONS.iter().position(|version| version.eq_ignore_ascii_case(name));
        let (mut older, mut newer) = (None, None);
        for (name, value) in options {
            let short = |name: &str| {
                VERSIONS.iter().position(|version| {
                    let version = version.to_ascii_lowercase().replace("v1.", "v1");
                    version == name || version == format!("{name}v3")
                })
            };
            match (name.as_str(), at(value)) {
                ("ssl-min-ver", Some(version)) => least = version,
                ("ssl-max-ver", Some(version)) => most = version,
                ("ciphers", _) => older = Some(value),
                ("ciphersuites", _) => newer = Some(value),
                ("curves" | "ecdhe", _) => {
                    let known = openssl::groups(value);
                    if !known.unknown.is_empty() {
                        let effect = format!("left out: {}", known.unknown.join(", "));
                        self.note_of(line, &format!("{name} {value}"), Fate::Approximated, effect);
                    }
                    if !known.names.is_empty() {
                        section.put("groups", list(known.names));
                    }
                }
                (other, _) => {
                    only = other.strip_prefix("force-").and_then(short).or(only);
                    off.extend(other.strip_prefix("no-").and_then(short));
                }
            }
        }
        let is_on =
            |at: usize| only.map_or(least <= at && at <= most && !off.contains(&at), |only| at == only);
        match (is_on(3), is_on(4)) {
            (true, true) => {}
            (true, false) => section.put("versions", list(["1.2"])),
            (false, true) => section.put("versions", list(["1.3"])),
            (false, false) => {
                self.note(line, Fate::Refused, "TLS 1.2 is the oldest supported version (RFC 8996)");
            }
        }
        if (0..3).any(is_on) {
            self.note(line, Fate::Approximated, "TLS 1.2 is the oldest supported version");
        }
        let mut read = |text: Option<&String>, find: fn(&str) -> openssl::ParsedList| {
            let known = find(text?);
            if !known.unknown.is_empty() {
                let effect = format!("left out: {}", known.unknown.join(", "));
                self.note_of(line, "ciphers", Fate::Approximated, effect);
            }
            Some(known.names).filter(|names| !names.is_empty())
        };
        let (newer, older) = (read(newer, openssl::suites_13), read(older, openssl::suites));
        openssl::write_suites(newer, older, section);
    }
}

/// A path below `crt-base` or `ca-base`, unless it begins with `/`.
pub(super) fn in_base(base: &Path, name: &str, folder: &Path) -> String {
    crate::imported::in_folder(folder, &crate::imported::in_folder(base, name))
}
