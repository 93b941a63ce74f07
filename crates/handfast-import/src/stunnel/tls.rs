//! Versions, suites, groups, and their settings in `options` and `config`.

use super::grammar::Setting;
use super::translation::{Translation, approximate, leave_out, refuse};
use crate::draft::Draft;
use crate::note::Notes;
use crate::openssl::{self, ParsedList};
use crate::toml::list;

/// OpenSSL options that request Handfast's fixed behaviour.
const ALWAYS: [&str; 14] = [
    "ALL",
    "CIPHER_SERVER_PREFERENCE",
    "DONT_INSERT_EMPTY_FRAGMENTS",
    "NO_COMPRESSION",
    "NO_RENEGOTIATION",
    "NO_SESSION_RESUMPTION_ON_RENEGOTIATION",
    "NO_SSLV2",
    "NO_SSLV3",
    "NO_TLSV1",
    "NO_TLSV1.1",
    "NO_TLSV1_1",
    "SINGLE_DH_USE",
    "SINGLE_ECDH_USE",
    "IGNORE_UNEXPECTED_EOF",
];

/// Versions as numbers: 10 to 13, older ones below.
fn version(text: &str) -> Option<u8> {
    Some(match text.to_ascii_lowercase().as_str() {
        "sslv2" => 2,
        "sslv3" => 3,
        "tlsv1" | "tlsv1.0" => 10,
        "tlsv1.1" => 11,
        "tlsv1.2" => 12,
        "tlsv1.3" => 13,
        _ => return None,
    })
}

/// The selection of 1.2 and 1.3, in OpenSSL's notation.
struct Versions {
    least: u8,
    most: u8,
    without: Vec<u8>,
}

/// Returns the section of the TLS keys: that of the side that speaks TLS.
fn section(translation: &Translation<'_>) -> &'static str {
    if translation.is_client() { "backend-tls" } else { "" }
}

pub(super) fn versions_and_suites(translation: &Translation<'_>, draft: &mut Draft, notes: &mut Notes) {
    let given = translation.given;
    let mut versions = Versions { least: 10, most: 13, without: Vec::new() };
    for (key, sets_least, sets_most) in
        [("sslversion", true, true), ("sslversionmin", true, false), ("sslversionmax", false, true)]
    {
        if let Some(setting) = given.get(key) {
            versions.set(setting, &setting.value, (sets_least, sets_most), notes);
        }
    }
    for setting in given.all("options") {
        option(setting, &mut versions, notes);
    }
    let mut lists: Vec<(&str, &Setting, String)> = Vec::new();
    for key in ["ciphers", "ciphersuites", "curves"] {
        lists.extend(given.get(key).map(|setting| (key, setting, setting.value.clone())));
    }
    for setting in given.all("config") {
        let (command, value) = setting.value.split_once(':').unwrap_or((&setting.value, ""));
        match command.to_ascii_lowercase().as_str() {
            "minprotocol" => versions.set(setting, value, (true, false), notes),
            "maxprotocol" => versions.set(setting, value, (false, true), notes),
            "cipherstring" => lists.push(("ciphers", setting, value.to_owned())),
            "ciphersuites" => lists.push(("ciphersuites", setting, value.to_owned())),
            "curves" | "groups" => lists.push(("curves", setting, value.to_owned())),
            _ => leave_out(notes, setting, "this command of OpenSSL is not understood"),
        }
    }
    versions.write(translation, draft, notes);
    write_lists(&lists, section(translation), draft, notes);
}

impl Versions {
    fn set(&mut self, setting: &Setting, text: &str, (least, most): (bool, bool), notes: &mut Notes) {
        if text.eq_ignore_ascii_case("all") {
            return;
        }
        let Some(version) = version(text) else {
            refuse(notes, setting, "expected SSLv3, TLSv1, TLSv1.1, TLSv1.2 or TLSv1.3");
            return;
        };
        if least {
            self.least = version;
        }
        if most {
            self.most = version;
        }
        if version < 12 {
            approximate(notes, setting, "TLS 1.2 is the oldest supported version");
        }
    }

    fn write(&self, translation: &Translation<'_>, draft: &mut Draft, notes: &mut Notes) {
        let has = |version| (self.least..=self.most).contains(&version) && !self.without.contains(&version);
        let versions: Vec<_> =
            [(13, "1.3"), (12, "1.2")].into_iter().filter(|(number, _)| has(*number)).collect();
        let service = translation.service;
        match versions.as_slice() {
            [_, _] => {}
            [] => notes.add(
                &service.place,
                &service.name,
                crate::Fate::Refused,
                "it allows nothing newer than TLS 1.1, which is no longer supported (RFC 8996)",
            ),
            [(_, only), ..] => draft.put(section(translation), "versions", list([*only])),
        }
    }
}

fn option(setting: &Setting, versions: &mut Versions, notes: &mut Notes) {
    match setting.value.to_ascii_uppercase().as_str() {
        "NO_TLSV1_2" | "NO_TLSV1.2" => versions.without.push(12),
        "NO_TLSV1_3" | "NO_TLSV1.3" => versions.without.push(13),
        // stunnel's sessions are resumed nevertheless, from its cache.
        "NO_TICKET" => approximate(
            notes,
            setting,
            "sessions are still resumed, by tickets: there is no cache of sessions; sessionResume = no ends resumption",
        ),
        name if ALWAYS.contains(&name) => {}
        cleared if cleared.starts_with('-') => {
            leave_out(notes, setting, "what OpenSSL does by default is not changed")
        }
        _ => leave_out(
            notes,
            setting,
            "it is about OpenSSL, or about versions and suites that are not supported",
        ),
    }
}

fn write_lists(
    lists: &[(&str, &Setting, String)],
    section: &'static str,
    draft: &mut Draft,
    notes: &mut Notes,
) {
    let mut suites: [Option<Vec<&'static str>>; 2] = [None, None];
    for (kind, setting, value) in lists {
        let ParsedList { names, unknown } = match *kind {
            "ciphers" => openssl::suites(value),
            "ciphersuites" => openssl::suites_13(value),
            _ => openssl::groups(value),
        };
        if names.is_empty() {
            approximate(notes, setting, "it has no supported name: the policy's names are used");
            continue;
        }
        if !unknown.is_empty() {
            let unknown = unknown.join(", ");
            approximate(notes, setting, format!("left away: {unknown}"));
        }
        match *kind {
            "ciphers" => suites[0] = Some(names),
            "ciphersuites" => suites[1] = Some(names),
            _ => draft.put(section, "groups", list(names)),
        }
    }
    let [older, newer] = suites;
    openssl::write_suites(newer, older, draft.of(section));
}
