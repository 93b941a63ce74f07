//! Certificates that are ordered: the issuers, and how names are proven (`[acme]`).

use std::path::{Path, PathBuf};

use super::Config;

/// Let's Encrypt, and where the same can be tried.
pub(crate) const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";
pub(crate) const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

pub(crate) const LETS_ENCRYPT_NAME: &str = "letsencrypt.org";

/// The issuers that certificates are ordered from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    /// Folder of accounts and certificates.
    pub folder: PathBuf,
    /// Folder in which the key process stores private keys; `None`: they are in `folder`.
    pub key_folder: Option<PathBuf>,
    /// Issuers, best first; at least one.
    pub issuers: Vec<AcmeIssuer>,
    /// Mail addresses.
    pub contact: Vec<String>,
    /// The program that sets records in DNS.
    pub dns_command: Option<PathBuf>,
    /// Methods to prove names, best first; at least one.
    pub challenges: Vec<AcmeChallenge>,
}

impl Acme {
    /// The folder of the certificates.
    pub fn certificates(&self) -> PathBuf {
        self.folder.join("certificates")
    }
}

impl Config {
    /// Returns true if only the key process needs this path. The serving process must not reach it.
    pub fn is_for_keys_alone(&self, path: &Path) -> bool {
        let folder = self.acme.as_ref().and_then(|acme| acme.key_folder.as_ref());
        folder.is_some_and(|folder| path.starts_with(folder))
    }
}

/// An issuer of certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeIssuer {
    /// The URL of its directory.
    pub directory: String,
    /// Directory of the staging environment, where an order is tried after a failure.
    pub staging: Option<String>,
    /// Its own name in DNS records.
    pub dns_name: Option<String>,
    /// File of the authorities for its server; `None`: those that the machine trusts.
    pub ca: Option<PathBuf>,
    /// The profile of certificates; `None`: its default.
    pub profile: Option<String>,
    /// Identifier and file of the key of an account that was made elsewhere.
    pub external: Option<(String, PathBuf)>,
}

/// Method to prove a name (`challenges`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By a certificate on port 443.
    TlsAlpn01,
    /// By a file on port 80.
    Http01,
    /// By a DNS record that is set once.
    DnsPersist01,
    /// By a DNS record that a program sets.
    Dns01,
}

impl AcmeChallenge {
    /// All of them, by their words in configurations.
    pub const WORDS: [(&'static str, Self); 4] = [
        ("tls-alpn-01", Self::TlsAlpn01),
        ("http-01", Self::Http01),
        ("dns-persist-01", Self::DnsPersist01),
        ("dns-01", Self::Dns01),
    ];

    /// Returns true if the proof is a record in DNS.
    pub(crate) fn is_dns(self) -> bool {
        matches!(self, Self::DnsPersist01 | Self::Dns01)
    }
}
