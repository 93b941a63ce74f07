//! Converts ghostunnel's command line; `tables/ghostunnel.tsv` has the conversion of each flag.

mod durations;

use std::path::Path;

use crate::address::Address;
use crate::draft::{Draft, WholeDraft};
use crate::imported::{ImportError, Imported, NewFiles, in_folder, no_such_option};
use crate::note::Fate::{self, Refused};
use crate::note::{Mark, Notes, Place};
use crate::row::{self, Row, Table};
use crate::toml::{list, table};

/// The flags of ghostunnel.
pub(crate) static ROWS: Table = Table::new(|| row::rows(include_str!("../tables/ghostunnel.tsv")));

pub(crate) fn import(arguments: &[String], folder: &Path) -> Result<Imported, ImportError> {
    let flags = flags(arguments)?;
    let mut import = Import {
        flags,
        folder,
        notes: Notes::default(),
        draft: Draft::default(),
        whole: WholeDraft::default(),
    };
    import.process();
    import.sides();
    import.limits();
    import.report();
    let Import { notes, draft, mut whole, .. } = import;
    whole.add("ghostunnel".into(), draft, notes.outcome_since(Mark::default()));
    Ok(whole.imported("ghostunnel's command line", notes, NewFiles::default()))
}

/// The typed arguments.
struct Flags {
    is_client: bool,
    given: Vec<(&'static Row, String)>,
}

/// `server` or `client`, and flags as `--name=value` or `--name value`; `--no-name` takes one back.
fn flags(arguments: &[String]) -> Result<Flags, ImportError> {
    let (mut verb, mut given, mut problems) = (None, Vec::new(), Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
            match argument.as_str() {
                word @ ("server" | "client") => verb = Some(word == "client"),
                word => problems.push(format!("{word:?}: expected `server`, `client` or a flag")),
            }
            continue;
        };
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let Some(row) = ROWS.iter().find(|row| row.name == name) else {
            problems.push(format!("--{}", no_such_option(name, "ghostunnel", &ROWS)));
            continue;
        };
        let takes_value = row.example.split(' ').any(|example| example.starts_with(&format!("--{name}=")));
        let value = match value {
            Some(value) => value.to_owned(),
            None if takes_value => arguments.next().cloned().unwrap_or_default(),
            None => String::new(),
        };
        given.push((row, value));
    }
    if verb.is_none() {
        problems.push("expected `server` or `client`, and then ghostunnel's flags".to_owned());
    }
    if problems.is_empty() {
        Ok(Flags { is_client: verb == Some(true), given })
    } else {
        Err(ImportError::Grammar(problems))
    }
}

struct Import<'f> {
    flags: Flags,
    folder: &'f Path,
    notes: Notes,
    draft: Draft,
    whole: WholeDraft,
}

impl Import<'_> {
    fn get(&self, name: &str) -> Option<String> {
        self.flags.given.iter().rev().find(|(row, _)| row.name == name).map(|(_, value)| value.clone())
    }

    fn all(&self, names: &[&str]) -> Vec<String> {
        self.flags
            .given
            .iter()
            .filter(|(row, _)| names.contains(&row.name))
            .map(|(_, value)| value.clone())
            .collect()
    }

    fn file(&self, name: &str) -> Option<String> {
        self.get(name).map(|path| in_folder(self.folder, &path))
    }

    fn note(&mut self, name: &str, fate: Fate, effect: &str) {
        self.notes.add(&Place::Flag, &format!("--{name}"), fate, effect);
    }

    fn process(&mut self) {
        let status = self.get("status");
        if let Some(status) = &status {
            let address = status.trim_start_matches("http://").trim_start_matches("https://");
            match Address::parse(address).and_then(|address| address.listener("127.0.0.1")) {
                Some(listener) => self.whole.admin.put("listen", listener),
                None => self.note("status", Refused, "expected an address and a port"),
            }
        }
    }

    fn address(&mut self, name: &'static str) -> Option<Address> {
        let text = self.get(name);
        let path = text.as_deref().and_then(|text| text.strip_prefix("unix:"));
        let address = match path {
            Some(path) => Some(Address::Unix(path.to_owned())),
            None => text.as_deref().and_then(Address::parse),
        };
        if address.is_none() {
            self.note(name, Refused, "expected HOST:PORT or unix:PATH");
        }
        address
    }

    fn sides(&mut self) {
        let name = if self.flags.is_client { "ghostunnel-client" } else { "ghostunnel" };
        self.draft.put("", "name", name);
        match self.address("listen").map(|address| address.listener("0.0.0.0")) {
            Some(Some(listener)) => self.draft.of("").append("listen", listener),
            Some(None) => self.note("listen", Refused, "names are not listened on: write the address"),
            None => {}
        }
        if let Some(address) = self.address("target") {
            self.draft.of("").append("backend", address.backend("localhost"));
        }
        if self.flags.is_client {
            self.client()
        } else {
            self.server()
        }
        if self
            .flags
            .given
            .iter()
            .any(|(row, _)| ["proxy-protocol", "proxy-protocol-mode"].contains(&row.name))
        {
            self.draft.put("proxy-protocol", "send", "v2");
        }
        if self.get("proxy-protocol-mode").as_deref() == Some("tls-full") {
            self.draft.put("proxy-protocol", "client-certificate", "der");
        }
    }

    /// The chain and its key, from two files or from one.
    fn identity(&mut self) -> Option<(String, Option<String>)> {
        if let Some(cert) = self.file("cert") {
            return Some((cert, self.file("key")));
        }
        Some((self.file("keystore")?, None))
    }

    fn server(&mut self) {
        match self.identity() {
            Some((cert, None)) => self.draft.of("").append("certificate", cert),
            Some((cert, Some(key))) => {
                let pair = table([("certificate", cert.into()), ("key", key.into())]);
                self.draft.of("").append("certificate", pair);
            }
            None => self.note("cert", Refused, "a server needs a certificate"),
        }
        if self.get("disable-authentication").is_some() {
            return;
        }
        let mut allow = Vec::new();
        for (names, word) in [
            (&["allow-cn"][..], "cn:"),
            (&["allow-dns", "allow-dns-san"], "dns:"),
            (&["allow-ip", "allow-ip-san"], "ip:"),
            (&["allow-uri", "allow-uri-san"], ""),
        ] {
            for value in self.all(names) {
                let word = if word.is_empty() && !value.starts_with("spiffe://") { "uri:" } else { word };
                allow.push(format!("{word}{value}"));
            }
        }
        let everybody = self.get("allow-all").is_some();
        let section = "client-certificates";
        self.draft.put(section, "mode", "require");
        match self.file("cacert") {
            Some(path) => self.draft.put(section, "ca", path),
            None => self.note(
                "cacert",
                Refused,
                "whose certificates are good? the machine's own list is for servers",
            ),
        }
        match (everybody, allow.is_empty()) {
            (true, _) => {}
            (false, false) => self.draft.put(section, "allow", list(allow)),
            (false, true) => {
                self.note("allow-all", Refused, "expected --allow-…, --allow-all or --disable-authentication")
            }
        }
    }

    fn client(&mut self) {
        let section = "backend-tls";
        self.draft.put("", "client-tls", false);
        self.draft.put(section, "mode", "tls");
        if let Some((cert, key)) = self.identity().filter(|_| self.get("disable-authentication").is_none()) {
            self.draft.put(section, "certificate", cert);
            if let Some(key) = key {
                self.draft.put(section, "key", key);
            }
        }
        if let Some(path) = self.file("cacert") {
            self.draft.put(section, "ca", path);
        }
        let names =
            self.all(&["verify-dns", "verify-dns-san", "verify-ip", "verify-ip-san", "override-server-name"]);
        match names.as_slice() {
            [] => {}
            [name] => self.draft.put(section, "name", name.as_str()),
            _ => self.note("verify-dns", Refused, "one name is checked, not one of several"),
        }
        let Some(proxy) = self.get("proxy").or_else(|| self.get("connect-proxy")) else { return };
        let (kind, address) = proxy.split_once("://").unwrap_or(("http", &proxy));
        let kind = if kind.starts_with("socks5") { "socks5" } else { "http" };
        match Address::parse(address.trim_end_matches('/')) {
            Some(address) => {
                self.draft.put("connect-through", "type", kind);
                self.draft.put("connect-through", "address", address.backend("localhost"));
            }
            None => self.note("connect-proxy", Refused, "expected http://HOST:PORT or socks5://HOST:PORT"),
        }
    }

    fn limits(&mut self) {
        self.durations();
        match self.get("max-tls-version").as_deref() {
            None | Some("" | "TLS1.3") => {}
            Some("TLS1.2") if self.flags.is_client => {
                self.draft.put("backend-tls", "versions", list(["1.2"]))
            }
            Some("TLS1.2") => self.draft.put("", "versions", list(["1.2"])),
            Some(_) => self.note("max-tls-version", Refused, "expected TLS1.2 or TLS1.3"),
        }
        let Some(value) = self.get("max-concurrent-conns") else { return };
        match value.parse::<i64>() {
            Ok(0) => {}
            Ok(count @ 1..) => self.draft.put("", "max-connections", count),
            _ => self.note("max-concurrent-conns", Refused, "expected a number"),
        }
    }

    /// The notes of the table.
    fn report(&mut self) {
        for (row, value) in &self.flags.given {
            self.notes.report(row, &Place::Flag, &format!("--{}", row.name), value);
        }
    }
}
