//! One certificate that can be served: chain, key, names and dates.
//!
//! In: PEM bytes. Out: a [`Certificate`] whose key is known to fit.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::sign::CertifiedKey;
use rustls_pki_types::CertificateDer;

/// A chain with its key, ready to be served, and what is known of it.
#[derive(Debug)]
pub struct Certificate {
    certified: Arc<CertifiedKey>,
    kind: &'static str,
    dns_names: Box<[Box<str>]>,
    ip_names: Box<[IpAddr]>,
    not_before: i64,
    not_after: i64,
    subject: Box<str>,
    files: Box<[PathBuf]>,
}

impl Certificate {
    /// The chain and key as rustls takes them.
    pub fn certified(&self) -> &Arc<CertifiedKey> {
        &self.certified
    }

    /// The chain in DER, the server's own certificate first; never empty.
    pub fn chain(&self) -> &[CertificateDer<'static>] {
        &self.certified.cert
    }

    /// Kind of key: `RSA-2048`, `ECDSA-P256`, `Ed25519`, ….
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// DNS names from the subject alternative names, in lower case, wildcards as `*.example.org`.
    pub fn dns_names(&self) -> &[Box<str>] {
        &self.dns_names
    }

    /// IP addresses from the subject alternative names.
    pub fn ip_names(&self) -> &[IpAddr] {
        &self.ip_names
    }

    /// First second of validity, Unix time.
    pub fn not_before(&self) -> i64 {
        self.not_before
    }

    /// Last second of validity, Unix time.
    pub fn not_after(&self) -> i64 {
        self.not_after
    }

    /// Whether `now` (Unix seconds) is within its validity.
    pub fn is_valid_at(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// The subject as text, for people.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The files it was read from: the chain's, then the key's if that is another; empty for a throwaway.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }
}
