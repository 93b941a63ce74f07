//! OpenSSL's names of suites and groups, as IANA's.

use crate::toml::{Section, list};

/// Suites of TLS 1.2 that Handfast has.
const SUITES: [(&str, &str); 6] = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];
/// Suites of TLS 1.3.
const SUITES_13: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
/// Groups, in every spelling.
const GROUPS: [(&str, &str); 7] = [
    ("X25519", "X25519"),
    ("P-256", "secp256r1"),
    ("prime256v1", "secp256r1"),
    ("secp256r1", "secp256r1"),
    ("P-384", "secp384r1"),
    ("secp384r1", "secp384r1"),
    ("X25519MLKEM768", "X25519MLKEM768"),
];
/// Groups that the policy has.
const OFFERED: [&str; 4] = ["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"];

/// A parsed list: the supported names, and the unknown words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ParsedList {
    pub(crate) names: Vec<&'static str>,
    pub(crate) unknown: Vec<String>,
}

fn taken_apart(text: &str, find: impl Fn(&str) -> Option<&'static str>) -> ParsedList {
    let mut known = ParsedList { names: Vec::new(), unknown: Vec::new() };
    for word in text.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        match find(word) {
            Some(name) if known.names.contains(&name) => {}
            Some(name) => known.names.push(name),
            None => known.unknown.push(word.to_owned()),
        }
    }
    known
}

/// A list for TLS 1.2 and older. Words such as `HIGH` or `!aNULL` are unknown: their meaning depends on the version of OpenSSL.
pub(crate) fn suites(text: &str) -> ParsedList {
    let mut known =
        taken_apart(text, |word| SUITES.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| *ours));
    // OpenSSL ignores names of TLS 1.3 in this list, and offers their suites in any case.
    known.unknown.retain(|word| !SUITES_13.contains(&word.as_str()));
    known
}

/// A list of IANA's names, for TLS 1.2.
pub(crate) fn iana_suites(text: &str) -> ParsedList {
    taken_apart(text, |word| SUITES.iter().find(|(_, ours)| *ours == word).map(|(_, ours)| *ours))
}

/// A list for TLS 1.3.
pub(crate) fn suites_13(text: &str) -> ParsedList {
    taken_apart(text, |word| SUITES_13.into_iter().find(|name| *name == word))
}

/// Writes the lists of TLS 1.3 and 1.2 into a section whose `versions` are written already. A version without a list has all of its
/// suites; the list of a version that is not enabled has no effect.
pub(crate) fn write_suites(
    newer: Option<Vec<&'static str>>,
    older: Option<Vec<&'static str>>,
    section: &mut Section,
) {
    let versions = section.text("versions");
    let has = |version: &str| versions.as_ref().is_none_or(|text| text.contains(version));
    let (newer, older) = (newer.filter(|_| has("1.3")), older.filter(|_| has("1.2")));
    if newer.is_none() && older.is_none() {
        return;
    }
    let mut names = Vec::new();
    if has("1.3") {
        names.extend(newer.unwrap_or_else(|| SUITES_13.to_vec()));
    }
    if has("1.2") {
        names.extend(older.unwrap_or_else(|| SUITES.iter().map(|(_, name)| *name).collect()));
    }
    section.put("suites", list(names));
}

/// A list of groups, as `SSL_CTX_set1_groups_list(3)` describes it: `?` before one that may be unknown, `*` before one with a key share,
/// `/` between lists, `-` before one that is removed, and `DEFAULT` for OpenSSL's own list.
pub(crate) fn groups(text: &str) -> ParsedList {
    let mut known = ParsedList { names: Vec::new(), unknown: Vec::new() };
    for word in text.split([':', '/', ',', ' ']).filter(|word| !word.is_empty()) {
        let is_optional = word.trim_start_matches('*').starts_with('?');
        let name = word.trim_start_matches(['?', '*', '-']);
        let found =
            GROUPS.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(name)).map(|(_, ours)| *ours);
        match found {
            _ if name == "DEFAULT" => {
                let missing: Vec<_> = OFFERED.into_iter().filter(|one| !known.names.contains(one)).collect();
                known.names.extend(missing);
            }
            Some(name) if word.starts_with('-') => known.names.retain(|other| *other != name),
            Some(name) if known.names.contains(&name) => {}
            Some(name) => known.names.push(name),
            None if is_optional || word.starts_with('-') => {}
            None => known.unknown.push(word.to_owned()),
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_versions_that_are_off_have_no_effect() {
        let written = |versions: &[&str], newer: Option<&'static str>, older: Option<&'static str>| {
            let mut section = Section::default();
            if !versions.is_empty() {
                section.put("versions", list(versions.iter().copied()));
            }
            write_suites(newer.map(|name| vec![name]), older.map(|name| vec![name]), &mut section);
            section.text("suites")
        };
        assert_eq!(written(&["1.2"], None, Some("old")).as_deref(), Some("[\"old\"]"));
        assert_eq!(written(&["1.2"], Some("new"), None), None);
        assert_eq!(written(&["1.3"], Some("new"), Some("old")).as_deref(), Some("[\"new\"]"));
        assert_eq!(written(&[], Some("new"), Some("old")).as_deref(), Some("[\"new\", \"old\"]"));
    }

    /// SSL_CTX_set1_groups_list(3) of OpenSSL 3.5.
    #[test]
    fn lists_of_groups_are_taken_apart_as_openssl_does() {
        for (text, names, unknown) in [
            ("?X25519MLKEM768:X25519", vec!["X25519MLKEM768", "X25519"], vec![]),
            (
                "?*X25519MLKEM768 / ?*X25519:?secp256r1 / ?X448",
                vec!["X25519MLKEM768", "X25519", "secp256r1"],
                vec![],
            ),
            ("*?X25519:P-256", vec!["X25519", "secp256r1"], vec![]),
            ("DEFAULT:-X25519MLKEM768", vec!["X25519", "secp256r1", "secp384r1"], vec![]),
            ("X25519:DEFAULT", vec!["X25519", "X25519MLKEM768", "secp256r1", "secp384r1"], vec![]),
            ("?X448:ffdhe2048:-brainpoolP256r1", vec![], vec!["ffdhe2048"]),
        ] {
            let known = groups(text);
            assert_eq!(
                (known.names, known.unknown),
                (names, unknown.into_iter().map(str::to_owned).collect()),
                "{text}"
            );
        }
    }

    #[test]
    fn lists_are_taken_apart() {
        let known = suites("ECDHE-RSA-AES128-GCM-SHA256:HIGH:!aNULL");
        assert_eq!(known.names, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
        assert_eq!(known.unknown, ["HIGH", "!aNULL"]);
        assert_eq!(groups("X25519:P-256:prime256v1:X448").names, ["X25519", "secp256r1"]);
        assert_eq!(groups("X25519:P-256:X448").unknown, ["X448"]);
        // OpenSSL ignores these names in this list, and offers their suites in any case.
        assert_eq!(suites("TLS_AES_128_GCM_SHA256:ECDHE-RSA-AES128-GCM-SHA256").unknown, [""; 0]);
        assert_eq!(suites_13("TLS_AES_256_GCM_SHA384").names, ["TLS_AES_256_GCM_SHA384"]);
    }
}
