//! Hints for keys and sections that are written in the wrong place or form.

use super::keys;
use super::schema::{Hints, Section};

/// The hints for messages about a configuration file.
pub(crate) const HINTS: Hints = Hints { elsewhere, form_of };

/// How a section is written; a small one is better written in one line.
fn form_of(section: &Section) -> String {
    if section.name == keys::CLIENT_CERTIFICATES.name {
        return "write `client-certificates = { mode = \"require\", ca = \"clients-ca.pem\" }`".to_owned();
    }
    if section.name == keys::HANDSHAKE_RATE.name {
        return "write `handshake-rate = { per-second = 10, burst = 50 }`".to_owned();
    }
    if section.name == keys::BACKEND_TLS.name {
        return "write `backend-tls = {}`, or with its keys between the braces".to_owned();
    }
    format!("write {} on a separate line, and its keys below", section.header)
}

/// Another section that has a key or section of this name: one inside this one, or else anywhere.
fn elsewhere(word: &str, section: &'static Section) -> Option<(&'static Section, &'static str)> {
    // Most keys are a service's, also where another section has one of the same name.
    let others: Vec<&'static Section> = [&keys::FILE, &keys::SERVICE]
        .into_iter()
        .chain(section.all())
        .chain(keys::FILE.all())
        .filter(|other| !std::ptr::eq(*other, section))
        .collect();
    let by_name =
        |other: &&'static Section| other.names().find(|name| *name == word).map(|name| (*other, name));
    let by_other_word = |other: &&'static Section| {
        other.keys.iter().find(|key| key.is_called(word)).map(|key| (*other, key.name))
    };
    others.iter().find_map(by_name).or_else(|| others.iter().find_map(by_other_word))
}
