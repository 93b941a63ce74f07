//! Verifies the server's certificate, and notes its signature scheme.
//!
//! In: trusted certificates, or no verification; the name that the certificate must have, independent of SNI.
//! Out: a verifier for rustls. `presented.rs` decides which certificates are accepted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{DigitallySignedStruct, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::trust::{self, Trust, Verification, wrong};
use crate::peer_certificate;
use crate::session::Failure;
use crate::side_channels;

#[derive(Debug)]
pub(super) struct Verifier {
    /// The name, if it is not the one of each session, and the trusted certificates; `None`: any certificate is good, and so is any
    /// signature.
    strict: Option<(Option<ServerName<'static>>, Trust)>,
    provider: Arc<CryptoProvider>,
    /// Bytes of the last OCSP response that came with a certificate, on any thread; 0: none.
    staple: AtomicUsize,
    /// Bytes of the last certificates that a server presented, likewise.
    chain_bytes: AtomicUsize,
}

impl Verifier {
    /// Without a `host`, a certificate must be for the name that the session sends.
    ///
    /// **Errors**: no CA to trust, or a host that no certificate can be for.
    pub(super) fn new(
        verification: &Verification,
        host: Option<&str>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, Failure> {
        let trusted = match verification {
            Verification::Off => None,
            Verification::System => Some(trust::system(&Arc::default())?),
            Verification::Roots(pem) => Some(trust::of_pem(pem)?),
            Verification::Trust(trust) => Some(trust.clone()),
        };
        let host = host.filter(|_| trusted.as_ref().is_none_or(Trust::requires_name));
        let strict = trusted.map(|trusted| Ok((host.map(name).transpose()?, trusted))).transpose()?;
        Ok(Self {
            strict,
            provider: Arc::clone(provider),
            staple: AtomicUsize::new(0),
            chain_bytes: AtomicUsize::new(0),
        })
    }

    /// Bytes of the last OCSP response that came with a certificate; 0: none.
    pub(super) fn staple(&self) -> usize {
        self.staple.load(Ordering::Relaxed)
    }

    /// Bytes of the last certificates that a server presented; a resumed session has those of the full handshake.
    pub(super) fn chain_bytes(&self) -> usize {
        self.chain_bytes.load(Ordering::Relaxed)
    }
}

/// A host as certificates name it; an IPv6 address may come in the brackets it has in a URL.
pub(super) fn name(host: &str) -> Result<ServerName<'static>, Failure> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(bare.to_owned())
        .map_err(|_| wrong(format!("host {host:?}: expected a DNS name or an IP address")))
}

impl Verifier {
    fn check_signature(
        &self,
        is_tls13: bool,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        side_channels::set_server_scheme(signed.scheme.into());
        if self.strict.is_some() {
            peer_certificate::check_signature(is_tls13, message, certificate, signed)?;
        }
        Ok(HandshakeSignatureValid::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        sent: &ServerName<'_>,
        staple: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.staple.store(staple.len(), Ordering::Relaxed);
        let chain_bytes = end_entity.len() + intermediates.iter().map(|der| der.len()).sum::<usize>();
        self.chain_bytes.store(chain_bytes, Ordering::Relaxed);
        if let Some((name, trusted)) = &self.strict {
            let name = name.as_ref().unwrap_or(sent);
            trusted.check(end_entity, intermediates, name, staple, now).map_err(peer_certificate::refuse)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(false, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(true, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
