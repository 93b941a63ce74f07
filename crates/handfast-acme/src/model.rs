//! Settings of an operator: the issuers, the proofs of names, and the storage of files.

use std::path::PathBuf;

use crate::name::Name;

/// The settings of the whole process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The folder of the store.
    pub folder: PathBuf,
    /// The folder of private keys, which are in the key process; `None`: they are in this one, and in the store.
    pub key_folder: Option<PathBuf>,
    /// Issuers, best first; at least one.
    pub issuers: Vec<Issuer>,
    /// Mail addresses that issuers may write to.
    pub contact: Vec<String>,
    /// Kinds of proof of names, best first; at least one.
    pub challenges: Vec<ChallengeKind>,
    /// The names, each once.
    pub names: Vec<Name>,
}

/// A certificate authority that is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// The URL of its directory.
    pub directory: String,
    /// The directory that is tried first after a failure; `None`: there is none.
    pub staging: Option<String>,
    /// Its own name in DNS records.
    pub dns_name: Option<String>,
    /// File of the authorities that may sign the certificate of its server; `None`: those that the machine trusts.
    pub ca: Option<PathBuf>,
    /// The profile of its certificates; `None`: its default.
    pub profile: Option<String>,
    /// The account that it knows us by already.
    pub external: Option<ExternalAccount>,
}

/// An account with an issuer that was made outside of ACME (external account binding, RFC 8555 §7.3.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalAccount {
    /// Its identifier.
    pub id: String,
    /// File of its key, in base64url.
    pub key_file: PathBuf,
}

/// Kind of proof to an issuer that a name is ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChallengeKind {
    /// By a special certificate on port 443 (RFC 8737).
    TlsAlpn01,
    /// By a file over plain HTTP on port 80 (RFC 8555 §8.3).
    Http01,
    /// By a DNS record that is set once (draft-ietf-acme-dns-persist).
    DnsPersist01,
    /// By a DNS record that is set for each order (RFC 8555 §8.4).
    Dns01,
}

impl ChallengeKind {
    /// All of them, in the order of the default.
    pub const ALL: [Self; 4] = [Self::TlsAlpn01, Self::Http01, Self::DnsPersist01, Self::Dns01];

    /// The word in configurations, and of issuers.
    pub const fn word(self) -> &'static str {
        match self {
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Http01 => "http-01",
            Self::DnsPersist01 => "dns-persist-01",
            Self::Dns01 => "dns-01",
        }
    }

    /// Returns true if it can prove a name: wildcards only in DNS (RFC 8555 §7.1.3), addresses only elsewhere (RFC
    /// 8738).
    pub fn fits(self, name: &Name) -> bool {
        match self {
            Self::TlsAlpn01 | Self::Http01 => !name.is_wildcard(),
            Self::DnsPersist01 | Self::Dns01 => name.address().is_none(),
        }
    }
}
