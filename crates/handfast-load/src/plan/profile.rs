//! Named kinds of ClientHello: what clients of that kind offer, as far as rustls can offer it.
//!
//! A profile imitates versions, groups and key shares, and so the size of the hello, which determines its number of
//! segments and its cost for the server. It does not imitate the order and number of extensions, GREASE, padding and
//! ECH: a server that fingerprints clients sees rustls.

use super::error::PlanError;

/// Parameters that a profile offers.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The word.
    pub name: &'static str,
    /// Versions, best first.
    pub versions: &'static [&'static str],
    /// Suites, best first; empty: the library's.
    pub suites: &'static [&'static str],
    /// Groups, best first.
    pub groups: &'static [&'static str],
    /// Application protocols, where the work does not define them.
    pub alpn: &'static [&'static str],
}

/// Every profile.
pub const ALL: [Profile; 4] = [
    // Chrome, Firefox and Safari since 2024: a hybrid key share and an X25519 one beside it, 1,216 and 32 bytes.
    Profile {
        name: "browser",
        versions: &["1.3", "1.2"],
        suites: &[],
        groups: &["X25519MLKEM768", "X25519", "secp256r1", "secp384r1"],
        alpn: &["h2", "http/1.1"],
    },
    // The same before that.
    Profile {
        name: "classic",
        versions: &["1.3", "1.2"],
        suites: &[],
        groups: &["X25519", "secp256r1", "secp384r1"],
        alpn: &["h2", "http/1.1"],
    },
    // A device with a minimal offer.
    Profile {
        name: "small",
        versions: &["1.3"],
        suites: &["TLS_AES_128_GCM_SHA256"],
        groups: &["X25519"],
        alpn: &[],
    },
    // A client without TLS 1.3.
    Profile {
        name: "tls12",
        versions: &["1.2"],
        suites: &[],
        groups: &["secp256r1", "secp384r1", "X25519"],
        alpn: &[],
    },
];

/// Their names.
pub const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut place = 0;
    while place < ALL.len() {
        names[place] = ALL[place].name;
        place += 1;
    }
    names
};

/// The profile of this name.
///
/// **Errors**: it does not exist; with the list of profiles.
pub fn named(name: &str) -> Result<&'static Profile, PlanError> {
    ALL.iter().find(|profile| profile.name == name).ok_or_else(|| PlanError::Profile(name.to_owned()))
}
