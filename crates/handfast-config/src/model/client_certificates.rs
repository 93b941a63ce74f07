//! What is asked of clients' certificates.
//!
//! In: `[service.client-certificates]` as it was read. Out: plain values; what they name is loaded by the state.

use std::path::PathBuf;
use std::sync::Arc;

use handfast_tls::client_certificates::{Demand, Lenience, Rules, Wanted};
use handfast_tls::weak::Lists;

use super::backend::Backend;

/// Whether client certificates are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Not asked for.
    Off,
    /// Asked for; a client without one is served, one with a bad one is not.
    Request(Box<ClientChecks>),
    /// Asked for; a client without a good one is refused.
    Require(Box<ClientChecks>),
}

/// What is asked of a client's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientChecks {
    /// PEM file of the CAs that may sign them.
    pub ca: PathBuf,
    /// Files and folders of revocation lists.
    pub crl: Vec<PathBuf>,
    /// What becomes of clients that these say nothing about.
    pub lenience: Lenience,
    /// Which of those with good certificates are let in.
    pub rules: Rules,
    /// Backends of clients that fail; `None`: they are refused.
    pub failed_to: Option<Vec<Backend>>,
}

impl ClientCertificates {
    /// What is asked, if anything is.
    pub fn checks(&self) -> Option<(Demand, &ClientChecks)> {
        match self {
            Self::Off => None,
            Self::Request(checks) => Some((Demand::Request, checks)),
            Self::Require(checks) => Some((Demand::Require, checks)),
        }
    }

    /// Where clients go that fail.
    pub fn failed_to(&self) -> Option<&[Backend]> {
        self.checks()?.1.failed_to.as_deref()
    }
}

impl ClientChecks {
    /// The same as the TLS library takes it.
    pub fn wanted<'a>(&'a self, demand: Demand, known_keys: &'a Arc<Lists>) -> Wanted<'a> {
        Wanted {
            lists: &self.crl,
            lenience: self.lenience,
            rules: &self.rules,
            tolerates: self.failed_to.is_some(),
            ..Wanted::new(&self.ca, demand, known_keys)
        }
    }
}
