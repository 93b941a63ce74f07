//! The requirements for clients' certificates.
//!
//! In: `[service.client-certificates]` as it was read. Out: plain values; what they name is loaded by the state.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use handfast_pki::rules::Rules;
use handfast_pki::weak::Lists;
use handfast_tls::client_certificates::{ClientCertificateSettings, Demand, Lenience, Trust};

use super::backend::Backend;

/// Policy for client certificates: off, requested or required.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Not requested.
    Off,
    /// Requested; a client without one is served, a client with a bad one is not.
    Request(Box<ClientChecks>),
    /// Requested; a client without a good one is refused.
    Require(Box<ClientChecks>),
}

/// The requirements for a client's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientChecks {
    /// Trust anchors: the certificates that are valid.
    pub trust: Trust<PathBuf>,
    /// Files and folders of revocation lists.
    pub crl: Vec<PathBuf>,
    /// Cases in which clients are admitted although revocation lists are missing or expired.
    pub lenience: Lenience,
    /// Conditions for clients with valid certificates.
    pub rules: Rules,
    /// Backends of clients that fail; `None`: they are refused.
    pub failed_to: Option<Arc<[Backend]>>,
}

impl ClientCertificates {
    /// The requirements, unless certificates are off.
    pub fn checks(&self) -> Option<(Demand, &ClientChecks)> {
        match self {
            Self::Off => None,
            Self::Request(checks) => Some((Demand::Request, checks)),
            Self::Require(checks) => Some((Demand::Require, checks)),
        }
    }

    /// The backends of clients that fail; `None`: they are refused.
    pub fn failed_to(&self) -> Option<&Arc<[Backend]>> {
        self.checks()?.1.failed_to.as_ref()
    }
}

impl ClientChecks {
    /// The same for the TLS library.
    pub fn tls_settings<'a>(
        &'a self,
        demand: Demand,
        known_keys: &'a Arc<Lists>,
    ) -> ClientCertificateSettings<'a> {
        ClientCertificateSettings {
            trust: self.trust.as_path(),
            lists: &self.crl,
            lenience: self.lenience,
            rules: &self.rules,
            tolerates: self.failed_to.is_some(),
            ..ClientCertificateSettings::new(Path::new(""), demand, known_keys)
        }
    }
}
