//! Who decides about the server's certificate, and notes what it signed with.
//!
//! In: trusted CAs, or that nothing is to be verified; the name that the certificate must have, whatever SNI says.
//! Out: a verifier for rustls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use handfast_wire::registry;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::{Verification, wrong};
use crate::session::Failure;

#[derive(Debug)]
pub(super) struct Verifier {
    /// The name and whom to ask; `None`: any certificate is good, and so is any signature.
    strict: Option<(ServerName<'static>, Arc<WebPkiServerVerifier>)>,
    provider: Arc<CryptoProvider>,
    /// The scheme of the last signature, 0 when it has been taken. Atomic for `Sync` only.
    scheme: AtomicU16,
}

impl Verifier {
    /// **Errors**: no CA to trust, or a host that no certificate can be for.
    pub(super) fn new(
        verification: &Verification,
        host: &str,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Failure> {
        let roots = match verification {
            Verification::Off => None,
            Verification::System => Some(system_roots()?),
            Verification::Roots(pem) => Some(roots(pem)?),
        };
        let strict = roots.map(|roots| Ok((name(host)?, webpki(roots, provider)?))).transpose()?;
        Ok(Self { strict, provider: Arc::clone(provider), scheme: AtomicU16::new(0) })
    }

    /// Name of the scheme of the last signature, unless it was taken already or has none.
    pub(super) fn take_scheme(&self) -> Option<&'static str> {
        match self.scheme.swap(0, Ordering::Relaxed) {
            0 => None,
            scheme => registry::signature_scheme_name(scheme),
        }
    }
}

/// A host as certificates name it; an IPv6 address may come in the brackets it has in a URL.
pub(super) fn name(host: &str) -> Result<ServerName<'static>, Failure> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned())
        .map_err(|_| wrong(format!("host {host:?}: expected a DNS name or an IP address")))
}

fn webpki(
    roots: RootCertStore,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Failure> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| wrong(format!("trusted CAs: {error}")))
}

fn system_roots() -> Result<RootCertStore, Failure> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (taken, _) = roots.add_parsable_certificates(found.certs);
    if taken > 0 {
        return Ok(roots);
    }
    let why = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
    Err(wrong(format!(
        "read the CAs that this machine trusts: {why}; hint: install ca-certificates, or name a file"
    )))
}

fn roots(pem: &[u8]) -> Result<RootCertStore, Failure> {
    let mut roots = RootCertStore::empty();
    for (index, section) in CertificateDer::pem_slice_iter(pem).enumerate() {
        let number = index + 1;
        let certificate = section.map_err(|error| wrong(format!("trusted CA {number}: {error}")))?;
        roots.add(certificate).map_err(|error| wrong(format!("trusted CA {number}: {error}")))?;
    }
    if roots.is_empty() {
        return Err(wrong("trusted CAs: no certificate there, expected PEM"));
    }
    Ok(roots)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.strict {
            Some((name, verifier)) => {
                verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
            }
            None => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.scheme.store(signed.scheme.into(), Ordering::Relaxed);
        if self.strict.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.scheme.store(signed.scheme.into(), Ordering::Relaxed);
        if self.strict.is_none() {
            return Ok(HandshakeSignatureValid::assertion());
        }
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
