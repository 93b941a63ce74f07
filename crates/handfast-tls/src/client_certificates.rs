//! Whose client certificates are good.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::CertificateDer;

use crate::finding::Finding;
use crate::read::FileStamp;

/// Whether a client may come without a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Demand {
    /// Asked for; a client without one is served, one with a bad one is not.
    Request,
    /// Asked for; a client without a good one is refused.
    Require,
}

/// A rule about client certificates, ready for rustls.
#[derive(Clone, Debug)]
pub struct ClientCertificates {
    verifier: Arc<dyn ClientCertVerifier>,
    fingerprint: [u8; 32],
    demand: Demand,
}

/// What [`load`] found.
#[derive(Debug)]
pub struct LoadedAuthorities {
    /// The rule; `None` when a finding is an error.
    pub rule: Option<ClientCertificates>,
    /// What was noticed.
    pub findings: Vec<Finding>,
    /// The files read, for [`crate::load::changed`].
    pub files_read: Vec<(PathBuf, FileStamp)>,
    /// Folders to watch for changes.
    pub folders: Vec<PathBuf>,
}

/// Reads the CA certificates in the PEM file `authorities` and makes the rule.
pub fn load(authorities: &Path, demand: Demand, now: SystemTime) -> LoadedAuthorities {
    let _ = (authorities, demand, now);
    LoadedAuthorities { rule: None, findings: Vec::new(), files_read: Vec::new(), folders: Vec::new() }
}

impl ClientCertificates {
    /// The verifier for rustls.
    pub fn verifier(&self) -> &Arc<dyn ClientCertVerifier> {
        &self.verifier
    }

    /// A hash over the demand and the CAs: part of a ticket's policy.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// What is demanded.
    pub fn demand(&self) -> Demand {
        self.demand
    }

    /// Checks again the chain that a resumed session carries.
    pub fn check_again(&self, chain: &[CertificateDer<'_>], now: SystemTime) -> Result<(), rustls::Error> {
        let _ = (chain, now);
        Ok(())
    }
}
