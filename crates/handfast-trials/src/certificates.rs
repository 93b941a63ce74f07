//! Keys and certificates of an experiment: an authority, the proxy's certificate and another for the same name, clients' own.
//!
//! In: nothing. Out: PEM, as text to be written where the proxy reads it, and settings of the laboratory's own ends.

use std::sync::Arc;

use handfast_testkit::certificates::{Identity, KeyKind, authority, localhost};
use handfast_testkit::secured::settings;
use handfast_testkit::trust::{Trust, Version};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::{ClientConfig, ServerConfig};

/// The name that certificates are for.
pub(crate) const NAME: &str = "localhost";
/// Certificates between a hostile client's own and the authority.
const LONG_CHAIN: usize = 100;

/// Certificates that all experiments share.
pub(crate) struct Certificates {
    /// The authority that all peers trust.
    pub(crate) ca: String,
    /// Certificate and key of the proxy.
    pub(crate) web: String,
    /// Its certificate alone.
    pub(crate) web_alone: String,
    /// Another certificate for the same name, with its key.
    pub(crate) other: Identity,
}

impl Certificates {
    /// Makes them.
    pub(crate) fn make() -> Self {
        let other = authority().identity(&[NAME], KeyKind::Ecdsa);
        let (ca, web_alone) = (authority().pem.clone(), localhost().certificate_pem.clone());
        Self { ca, web: localhost().combined(), web_alone, other }
    }

    /// Settings of a client that resumes nothing.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        Trust::any_version().forgetful().config()
    }

    /// Settings of a client that resumes its sessions.
    pub(crate) fn resuming(&self) -> Arc<ClientConfig> {
        Trust::any_version().config()
    }

    /// Settings of a client whose chain is absurdly long.
    ///
    /// **Cost**: a hundred signatures.
    pub(crate) fn long_client(&self) -> Arc<ClientConfig> {
        let (identity, above) = authority().ladder(LONG_CHAIN, 0);
        Trust::any_version().forgetful().showing(&identity).sending(above).config()
    }

    /// Settings of the laboratory's own backends.
    pub(crate) fn server(&self) -> Arc<ServerConfig> {
        Arc::new(settings(default_provider(), &Version::BOTH, false))
    }
}
