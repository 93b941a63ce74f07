//! `crt-store`, `ssl-f-use` and `acme`: certificates by name, and those that are ordered.

use super::grammar::{Line, Section};
use super::state::{Import, Load};
use super::tls::in_base;
use crate::draft::{self, Draft};
use crate::note::Fate;
use crate::toml::{self, Value, table};

impl<'d> Import<'d> {
    /// The certificates of all `crt-store` sections.
    pub(super) fn loads(&mut self, sections: &'d [Section]) -> Vec<Load<'d>> {
        let mut loads = Vec::new();
        for store in sections.iter().filter(|section| section.kind() == "crt-store") {
            let base = |name: &str| {
                store.lines.iter().rev().find(|line| line.word(0) == name).map(|line| line.word(1))
            };
            let bases = (base("crt-base"), base("key-base"));
            for line in &store.lines {
                match line.word(0) {
                    "load" => loads.push(self.load(line, store.name(), bases)),
                    "crt-base" | "key-base" => {}
                    _ => self.notes.report_unknown(&super::ROWS, &line.place, &line.text()),
                }
            }
        }
        loads
    }

    /// A certificate and its options, as `crt FILE key FILE`. `bases`: those of a store; without one, those of `global` hold.
    pub(super) fn load(
        &mut self,
        line: &'d Line,
        store: &str,
        bases: (Option<&str>, Option<&str>),
    ) -> Load<'d> {
        let mut load = Load { line, names: Vec::new(), files: Vec::new(), issuer: None, domains: "" };
        let (certificates, keys) = (self.certificate_base.clone(), self.key_base.clone());
        let path = |base: Option<&str>, global: &std::path::Path, name: &str| {
            in_base(base.map_or(global, std::path::Path::new), name, self.folder)
        };
        let mut refused = Vec::new();
        for pair in line.from(1).chunks(2) {
            let value = pair.get(1).map_or("", String::as_str);
            match pair[0].as_str() {
                "crt" => {
                    load.names.push(format!("@{store}/{value}"));
                    load.names.extend(store.is_empty().then(|| value.to_owned()));
                    load.files.push(("certificate", path(bases.0, &certificates, value)));
                }
                "key" => load.files.push(("key", path(bases.1, &keys, value))),
                "ocsp" => load.files.push(("ocsp", path(None, std::path::Path::new(""), value))),
                "alias" => load.names.push(format!("@{store}/{value}")),
                "acme" => load.issuer = pair.get(1).map(String::as_str),
                "domains" => load.domains = value,
                "issuer" | "ocsp-update" => {}
                _ => refused.push(pair.join(" ")),
            }
        }
        for option in refused {
            let effect = "settings of one certificate: write them in a crt-list, with its names";
            self.note_of(line, &option, Fate::Refused, effect);
        }
        load
    }

    /// Adds the certificate of `crt` to a service.
    pub(super) fn add_certificate(&mut self, line: &'d Line, name: &str, draft: &mut Draft) {
        let load = self.loads.iter().find(|load| load.names.iter().any(|known| known == name)).cloned();
        match load {
            Some(load) => self.add_load(&load, draft),
            None if name.starts_with('@') => {
                self.note_of(
                    line,
                    &format!("crt {name}"),
                    Fate::Refused,
                    "no crt-store has a certificate of this name",
                );
            }
            None => {
                let value = self.certificate(name);
                self.add_value(line, value, draft);
            }
        }
    }

    pub(super) fn add_load(&mut self, load: &Load<'d>, draft: &mut Draft) {
        if load.issuer.is_some() {
            if !draft.order(load.domains.split(',').map(str::trim).filter(|name| !name.is_empty())) {
                self.note(load.line, Fate::Refused, draft::MIXED);
            }
            return;
        }
        let value = match &load.files[..] {
            [(_, certificate)] => certificate.as_str().into(),
            files => table(files.iter().map(|(key, file)| (*key, file.as_str().into()))),
        };
        self.add_value(load.line, value, draft);
    }

    fn add_value(&mut self, line: &Line, value: Value, draft: &mut Draft) {
        if draft.is_ordered() {
            self.note(line, Fate::Refused, draft::MIXED);
        }
        draft.of("").append("certificate", value);
    }

    /// The section `acme` of Handfast: that of the first certificate that is ordered.
    pub(super) fn issuer(&mut self, sections: &'d [Section]) -> toml::Section {
        let mut result = draft::acme_section(true);
        let issuers: Vec<&str> = self.ordered_by(sections);
        let Some(section) =
            sections.iter().find(|one| one.kind() == "acme" && issuers.first() == Some(&one.name()))
        else {
            return result;
        };
        if issuers.iter().any(|other| Some(other) != issuers.first()) {
            self.note(
                &section.head,
                Fate::Approximated,
                "certificates are ordered from one issuer, this one: write others as [[acme.fallback]]",
            );
        }
        let effect = "certificates are ordered again, with a new account, and the issuer's terms are accepted: read [acme]";
        self.note(&section.head, Fate::Approximated, effect);
        for line in &section.lines {
            match (line.word(0), line.word(1).to_ascii_lowercase().as_str()) {
                ("directory", _) => result.put("directory", line.word(1)),
                ("contact", _) => result.append("contact", line.word(1)),
                ("challenge", "http-01") => result.append("challenges", "http-01"),
                ("challenge", _) => {
                    self.note(
                        line,
                        Fate::Refused,
                        "names are proven by tls-alpn-01 and http-01: write acme.challenges by hand",
                    );
                }
                ("account-key" | "keytype" | "bits" | "curves" | "map" | "reuse-key", _) => {}
                _ => self.notes.report_unknown(&super::ROWS, &line.place, &line.text()),
            }
        }
        result
    }

    /// The names of the sections that order certificates.
    fn ordered_by(&self, sections: &'d [Section]) -> Vec<&'d str> {
        let lines = sections.iter().flat_map(|section| &section.lines);
        let names = lines.filter(|line| ["load", "ssl-f-use"].contains(&line.word(0))).filter_map(|line| {
            let at = line.words.iter().position(|word| word == "acme")?;
            Some(line.word(at + 1))
        });
        names.collect()
    }
}
