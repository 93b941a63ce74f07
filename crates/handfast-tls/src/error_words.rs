//! Texts for rustls's errors: sentences for operators, and the side that caused each error.

use handfast_pki::apart::Unavailable;
use handfast_pki::presented::{CertificateFault, Peer, Refusal};
use handfast_pki::spaced;
use rustls::{AlertDescription, CertificateError, Error, OtherError, PeerIncompatible};

use handfast_wire::registry;

use crate::session::{Failure, FailureKind};
use crate::side_channels;

/// Translates an error of a session.
pub(crate) fn failure(peer: Peer, error: &Error) -> Failure {
    let (kind, detail) = match error {
        Error::AlertReceived(alert) => {
            let failure = Failure::new(FailureKind::Alert, alert_words(*alert));
            return Failure { alert: Some(u8::from(*alert)), ..failure };
        }
        Error::NoCertificatesPresented => {
            let peer_name = if peer == Peer::Client { "client" } else { "server" };
            let words = format!("the {peer_name} sent no certificate, one is required");
            let certificate = Some(CertificateFault::Missing);
            return Failure { certificate, ..Failure::new(FailureKind::PeerCertificate, words) };
        }
        Error::InvalidCertificate(reason) => return certificate_failure(peer, reason),
        Error::InvalidCertRevocationList(reason) => {
            (FailureKind::Ourselves, format!("revocation list: {}", spaced(&format!("{reason:?}"))))
        }
        Error::PeerIncompatible(reason) => {
            let words = match peer {
                Peer::Client => incompatible_words(reason),
                Peer::Server => incompatible_server_words(reason),
            };
            (FailureKind::Peer, words.into())
        }
        Error::PeerMisbehaved(reason) => {
            (FailureKind::Peer, format!("the peer broke the protocol: {}", spaced(&format!("{reason:?}"))))
        }
        Error::InvalidMessage(reason) => {
            (FailureKind::Peer, format!("malformed message: {}", spaced(&format!("{reason:?}"))))
        }
        Error::InappropriateMessage { got_type, .. } => {
            (FailureKind::Peer, format!("unexpected message: {}", spaced(&format!("{got_type:?}"))))
        }
        Error::InappropriateHandshakeMessage { got_type, .. } => {
            (FailureKind::Peer, format!("unexpected handshake message: {}", spaced(&format!("{got_type:?}"))))
        }
        Error::DecryptError => {
            (FailureKind::Peer, "a record did not decrypt: damaged on the way or wrong keys".into())
        }
        Error::PeerSentOversizedRecord => {
            (FailureKind::Peer, "a record longer than TLS allows (16384 bytes and overhead)".into())
        }
        Error::NoApplicationProtocol => {
            (FailureKind::Peer, "no application protocol (ALPN) in common".into())
        }
        Error::Other(OtherError(inner)) if inner.is::<Unavailable>() => {
            (FailureKind::KeyProcess, inner.to_string())
        }
        other => (FailureKind::Ourselves, other.to_string()),
    };
    Failure::new(kind, detail)
}

/// A certificate that was refused. Our verifiers note why; rustls's own words are for what they were not asked about.
fn certificate_failure(peer: Peer, reason: &CertificateError) -> Failure {
    let peer_name = if peer == Peer::Client { "client" } else { "server" };
    let refusal = side_channels::take_refusal();
    let words = match &refusal {
        Some(refusal) => refusal.to_string(),
        None => spaced(&reason.to_string()),
    };
    let detail = format!("the {peer_name}'s certificate was refused: {words}");
    let certificate = refusal.as_ref().map_or(CertificateFault::Unacceptable, Refusal::fault);
    let hint = refusal.and_then(|refusal| refusal.hint());
    Failure { hint, certificate: Some(certificate), ..Failure::new(FailureKind::PeerCertificate, detail) }
}

fn alert_words(alert: AlertDescription) -> String {
    let number = u8::from(alert);
    match registry::alert_description_name(number) {
        Some(name) => format!("alert {name} ({number})"),
        None => format!("alert {number}"),
    }
}

fn incompatible_words(reason: &PeerIncompatible) -> &'static str {
    match reason {
        PeerIncompatible::NoCipherSuitesInCommon => "no cipher suite in common with the policy",
        PeerIncompatible::NoKxGroupsInCommon => "no key exchange group in common with the policy",
        PeerIncompatible::NoSignatureSchemesInCommon => {
            "no signature scheme in common with the certificates for this name"
        }
        PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired => "no TLS version in common with the policy",
        PeerIncompatible::ExtendedMasterSecretExtensionRequired => "the extended master secret is required",
        PeerIncompatible::KeyShareExtensionRequired => "the hello has no key share",
        PeerIncompatible::NamedGroupsExtensionRequired => "the hello names no groups",
        PeerIncompatible::SignatureAlgorithmsExtensionRequired => "the hello names no signature schemes",
        PeerIncompatible::NullCompressionRequired => "the hello does not offer null compression",
        PeerIncompatible::EcPointsExtensionRequired
        | PeerIncompatible::NoEcPointFormatsInCommon
        | PeerIncompatible::UncompressedEcPointsRequired => "uncompressed curve points are required",
        _ => "the peer lacks something that the policy requires",
    }
}

/// Returns a text for the property that a server lacks and the client's settings require.
fn incompatible_server_words(reason: &PeerIncompatible) -> &'static str {
    match reason {
        PeerIncompatible::ServerDoesNotSupportTls12Or13 => "the server speaks neither TLS 1.2 nor TLS 1.3",
        PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig => {
            "the server chose a TLS version that was not offered"
        }
        PeerIncompatible::NoKxGroupsInCommon => "the server chose a key exchange group that was not offered",
        PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => {
            "the server asks for a client certificate, and accepts none of the signature schemes of ours"
        }
        PeerIncompatible::ExtendedMasterSecretExtensionRequired => {
            "the server does not support the extended master secret, which is required"
        }
        PeerIncompatible::UncompressedEcPointsRequired | PeerIncompatible::EcPointsExtensionRequired => {
            "the server does not support uncompressed curve points"
        }
        _ => "the server lacks something that the settings require",
    }
}

#[cfg(test)]
mod tests {
    use rustls::PeerMisbehaved;

    use super::*;

    #[test]
    fn names_are_split_into_words() {
        let failure = failure(Peer::Client, &PeerMisbehaved::IllegalMiddleboxChangeCipherSpec.into());
        assert_eq!(&*failure.detail, "the peer broke the protocol: illegal middlebox change cipher spec");
    }

    #[test]
    fn alerts_have_their_registered_names() {
        let failure = failure(Peer::Client, &Error::AlertReceived(AlertDescription::UnknownCA));
        assert_eq!((failure.kind, &*failure.detail), (FailureKind::Alert, "alert unknown_ca (48)"));
        assert_eq!(failure.alert, Some(48));
    }

    #[test]
    fn a_key_process_that_does_not_sign_is_named() {
        let error =
            Error::Other(OtherError(std::sync::Arc::new(Unavailable("it does not have this key".into()))));
        let failure = failure(Peer::Client, &error);
        assert_eq!(failure.kind, FailureKind::KeyProcess);
        assert!(failure.detail.contains("does not have this key"), "{failure}");
    }

    #[test]
    fn what_a_peer_lacks_is_reported_in_words() {
        use PeerIncompatible as P;
        let detail = |peer, reason: &PeerIncompatible| failure(peer, &reason.clone().into()).detail;
        for (reason, words) in [
            (P::NoCipherSuitesInCommon, "no cipher suite in common"),
            (P::NoKxGroupsInCommon, "no key exchange group in common"),
            (P::NoSignatureSchemesInCommon, "no signature scheme in common"),
            (P::Tls12NotOffered, "no TLS version in common"),
            (P::SupportedVersionsExtensionRequired, "no TLS version in common"),
            (P::ExtendedMasterSecretExtensionRequired, "the extended master secret is required"),
            (P::KeyShareExtensionRequired, "no key share"),
            (P::NamedGroupsExtensionRequired, "names no groups"),
            (P::SignatureAlgorithmsExtensionRequired, "names no signature schemes"),
            (P::NullCompressionRequired, "null compression"),
            (P::UncompressedEcPointsRequired, "uncompressed curve points"),
            (P::ServerRejectedEncryptedClientHello(None), "lacks something that the policy requires"),
        ] {
            assert!(detail(Peer::Client, &reason).contains(words), "{reason:?}");
        }
        for (reason, words) in [
            (P::ServerDoesNotSupportTls12Or13, "neither TLS 1.2 nor TLS 1.3"),
            (P::ServerTlsVersionIsDisabledByOurConfig, "a TLS version that was not offered"),
            (P::NoKxGroupsInCommon, "group that was not offered"),
            (
                P::NoCertificateRequestSignatureSchemesInCommon,
                "accepts none of the signature schemes of ours",
            ),
            (P::ExtendedMasterSecretExtensionRequired, "extended master secret, which is required"),
            (P::EcPointsExtensionRequired, "uncompressed curve points"),
            (P::KeyShareExtensionRequired, "lacks something that the settings require"),
        ] {
            assert!(detail(Peer::Server, &reason).contains(words), "{reason:?}");
        }
    }
}
