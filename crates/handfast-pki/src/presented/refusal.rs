//! Reasons why a peer's certificate is refused, as messages for the operator and as kinds for counters.
//!
//! In: what was found. Out: a [`Refusal`].

use std::fmt;

use rustls_pki_types::UnixTime;

use super::bounds::{BYTES, INTERMEDIATES, PATHS};
use super::pin::Pin;
use crate::identifiers::spaced;
use crate::outline::Outline;
use crate::staple::StapleError;
use crate::unix_time::date;
use crate::weak::Weakness;

/// Names of a certificate that are listed; the others are counted.
const NAMES_LISTED: usize = 5;

/// The kind of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// We are the server.
    Client,
    /// We are the client.
    Server,
}

/// Fault of a client's certificate: coarse, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CertificateFault {
    /// There was none, and one is required.
    Missing,
    /// No trusted CA signed it.
    UnknownCa,
    /// It, or a CA above it, has expired.
    Expired,
    /// It, or a CA above it, is not valid yet.
    NotYetValid,
    /// Its CA has revoked it, or a CA above it was revoked.
    Revoked,
    /// The revocation list of its CA has expired.
    CrlExpired,
    /// Its CA has no revocation list.
    CrlMissing,
    /// A rule refuses it.
    RefusedByRule,
    /// No rule allows it.
    NotAllowed,
    /// Anything else: damaged, weak, for another purpose.
    Unacceptable,
}

impl CertificateFault {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Missing,
        Self::UnknownCa,
        Self::Expired,
        Self::NotYetValid,
        Self::Revoked,
        Self::CrlExpired,
        Self::CrlMissing,
        Self::RefusedByRule,
        Self::NotAllowed,
        Self::Unacceptable,
    ];

    /// The word used in logs, labels and documents: kebab-case, stable.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::UnknownCa => "unknown-ca",
            Self::Expired => "expired",
            Self::NotYetValid => "not-yet-valid",
            Self::Revoked => "revoked",
            Self::CrlExpired => "crl-expired",
            Self::CrlMissing => "crl-missing",
            Self::RefusedByRule => "refused-by-rule",
            Self::NotAllowed => "not-allowed",
            Self::Unacceptable => "unacceptable",
        }
    }
}

/// Reason why a certificate, or a signature made with its key, is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many came.
    TooMany {
        /// Number of CA certificates.
        intermediates: usize,
    },
    /// They are too long together.
    TooLong {
        /// Bytes of all certificates.
        bytes: usize,
    },
    /// Checking all of them would take too long.
    TooMuchWork,
    /// It is not X.509, or is damaged.
    Unreadable,
    /// Of version 2, or of version 1 with what only version 3 has.
    Version(u8),
    /// A key that is known to be weak.
    WeakKey {
        /// Its weakness.
        weakness: Weakness,
        /// True if it is the peer's, else a CA's above it.
        is_own: bool,
    },
    /// A key of a kind that is not supported.
    UnknownKey(&'static str),
    /// Signed by an algorithm that is broken.
    WeakSignature(&'static str),
    /// Signed by an algorithm that is not supported.
    UnknownSignature,
    /// Its key usage lacks digitalSignature.
    MayNotSign,
    /// Its extended key usage lacks the peer's part.
    WrongPurpose(Peer),
    /// Expired.
    Expired {
        /// End of the validity, in seconds of Unix time.
        since: i64,
        /// True if it is the peer's, else a CA's above it.
        is_own: bool,
    },
    /// Not valid yet.
    NotYet {
        /// Begin of the validity, in seconds of Unix time.
        until: i64,
        /// True if it is the peer's, else a CA's above it.
        is_own: bool,
    },
    /// It signed itself, and is not trusted.
    SelfSigned(Peer),
    /// No trusted CA signed it.
    UnknownIssuer(Peer),
    /// A signature on it, or on a CA above it, is wrong.
    BadSignature,
    /// A CA's certificate instead of that of a server or client.
    Authority,
    /// A certificate above it is no CA's, or goes beyond what its own CA allows.
    Overreached(&'static str),
    /// It was revoked.
    Revoked {
        /// Name of the CA that revoked it.
        by: Box<str>,
        /// True if it is the peer's, else a CA's above it.
        is_own: bool,
    },
    /// The revocation list of its CA has expired.
    ListExpired {
        /// Name of the CA.
        by: Box<str>,
        /// Time when the next list was due, in seconds of Unix time.
        since: i64,
    },
    /// Its CA has no revocation list, and has to.
    NoList {
        /// Name of the CA.
        by: Box<str>,
    },
    /// The OCSP response that came with it is not good, or reports it as revoked.
    Staple(StapleError),
    /// No OCSP response came with it, and one has to.
    NoStaple,
    /// It has more names than are checked against rules.
    TooManyNames {
        /// Number of its names.
        names: usize,
    },
    /// A rule refuses certificates with one of its names, or its key.
    ByRule(Box<str>),
    /// None of the rules that let clients in is for it; its names.
    NotAllowed(Box<str>),
    /// It is for other names.
    WrongName {
        /// The requested name.
        expected: Box<str>,
        /// Its names.
        others: Vec<String>,
    },
    /// Its key is none of those that are pinned.
    NotPinned {
        /// Pin of its key.
        key: Pin,
    },
    /// The signature in the handshake is not by its key.
    NotItsKey,
    /// Anything else.
    Other(Box<str>),
}

impl Refusal {
    /// Returns the kind of fault for the counters.
    pub fn fault(&self) -> CertificateFault {
        use CertificateFault as F;
        match self {
            Self::UnknownIssuer(_) | Self::SelfSigned(_) => F::UnknownCa,
            Self::Expired { .. } => F::Expired,
            Self::NotYet { .. } => F::NotYetValid,
            Self::Revoked { .. } | Self::Staple(StapleError::Revoked(_)) => F::Revoked,
            Self::ListExpired { .. } => F::CrlExpired,
            Self::NoList { .. } => F::CrlMissing,
            Self::ByRule(_) => F::RefusedByRule,
            Self::NotAllowed(_) => F::NotAllowed,
            _ => F::Unacceptable,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = |is_own: bool| if is_own { "it" } else { "a CA certificate above it" };
        match self {
            Self::TooMany { intermediates } => {
                write!(f, "{intermediates} CA certificates came with it, expected {INTERMEDIATES} at most")
            }
            Self::TooLong { bytes } => {
                write!(f, "it and its CA certificates have {bytes} bytes, expected {BYTES} at most")
            }
            Self::TooMuchWork => write!(
                f,
                "its CA certificates take too much work to check, expected {PATHS} possible paths to a trusted CA at most"
            ),
            Self::Unreadable => f.write_str("it is damaged, or not an X.509 certificate"),
            Self::Version(version) => write!(
                f,
                "it is of X.509 version {version}, or has what that version has not; expected version 3"
            ),
            Self::WeakKey { weakness, is_own } => {
                let whose = if *is_own { "its key" } else { "the key of a CA above it" };
                write!(f, "{whose} {weakness}: {}", weakness.why())
            }
            Self::UnknownKey(kind) => write!(f, "it has {kind}, expected RSA, ECDSA, Ed25519 or ML-DSA"),
            Self::WeakSignature(hash) => {
                write!(
                    f,
                    "it, or a CA certificate above it, is signed with {hash}, which is broken; expected SHA-256 or better"
                )
            }
            Self::UnknownSignature => f.write_str(
                "it, or a CA certificate above it, is signed with an algorithm that is not supported",
            ),
            Self::MayNotSign => f.write_str("its key usage does not allow signatures (digitalSignature)"),
            Self::WrongPurpose(peer) => {
                let purpose = match peer {
                    Peer::Client => "clients (clientAuth)",
                    Peer::Server => "servers (serverAuth)",
                };
                write!(f, "its extended key usage does not allow {purpose}")
            }
            Self::Expired { since, is_own } => write!(f, "{} expired on {}", whose(*is_own), date(*since)),
            Self::NotYet { until, is_own } => {
                write!(f, "{} is not valid before {}", whose(*is_own), date(*until))
            }
            Self::UnknownIssuer(Peer::Client) => {
                f.write_str("none of the CAs for client certificates signed it")
            }
            Self::UnknownIssuer(Peer::Server) => f.write_str("none of the trusted CAs signed it"),
            Self::SelfSigned(Peer::Client) => {
                f.write_str("it signed itself, and is not among the CAs for client certificates")
            }
            Self::SelfSigned(Peer::Server) => {
                f.write_str("it signed itself, and is not among the trusted certificates")
            }
            Self::BadSignature => f.write_str("a signature on it, or on a CA certificate above it, is wrong"),
            Self::Authority => f.write_str("it is a CA's certificate, expected that of one client or server"),
            Self::Overreached(how) => f.write_str(how),
            Self::Revoked { by, is_own } => write!(f, "{} was revoked by {by:?}", whose(*is_own)),
            Self::ListExpired { by, since } => {
                write!(f, "the revocation list of its CA {by:?} expired on {}", date(*since))
            }
            Self::NoList { by } => {
                write!(f, "there is no revocation list of its CA {by:?}, so it may have been revoked")
            }
            Self::Staple(error) => write!(f, "its OCSP response {error}"),
            Self::NoStaple => f.write_str("no OCSP response came with it, and one is required"),
            Self::TooManyNames { names } => {
                write!(
                    f,
                    "it has {names} alternative names, too many to hold against the `allow` and `refuse` rules"
                )
            }
            Self::ByRule(rule) => write!(f, "the rule refuse = {rule:?} is for it"),
            Self::NotAllowed(names) => write!(f, "none of the `allow` rules is for it: {names}"),
            Self::WrongName { expected, others } => wrong_name(f, expected, others),
            Self::NotPinned { key } => {
                write!(f, "its public key is {key}, which is none of the pinned ones")
            }
            Self::NotItsKey => f.write_str("the handshake was not signed with its key"),
            Self::Other(words) => f.write_str(words),
        }
    }
}

fn wrong_name(f: &mut fmt::Formatter<'_>, requested: &str, others: &[String]) -> fmt::Result {
    if others.is_empty() {
        return write!(
            f,
            "it has no alternative names (subjectAltName), expected {requested:?} among them; its common name does not count"
        );
    }
    let listed = others.iter().take(NAMES_LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    write!(f, "it is for {listed}")?;
    if others.len() > NAMES_LISTED {
        write!(f, " and {} other names", others.len() - NAMES_LISTED)?;
    }
    write!(f, "; expected {requested:?}")
}

impl Refusal {
    /// Converts an error of webpki, where `own` is the peer's own certificate.
    pub(super) fn of_webpki(error: &webpki::Error, peer: Peer, own: &Outline<'_>) -> Self {
        use webpki::Error as E;
        let seconds = |time: &UnixTime| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let validity = own.validity();
        match error {
            E::CertExpired { not_after, .. } => {
                let since = seconds(not_after);
                Self::Expired { since, is_own: validity.is_none_or(|(_, to)| to == since) }
            }
            E::CertNotValidYet { not_before, .. } => {
                let until = seconds(not_before);
                Self::NotYet { until, is_own: validity.is_none_or(|(from, _)| from == until) }
            }
            // Another of the same name may be trusted.
            E::UnknownIssuer | E::InvalidSignatureForPublicKey | E::CaUsedAsEndEntity
                if own.is_self_issued() =>
            {
                Self::SelfSigned(peer)
            }
            E::UnknownIssuer => Self::UnknownIssuer(peer),
            E::InvalidSignatureForPublicKey => Self::BadSignature,
            E::UnsupportedSignatureAlgorithmContext(context) => signature(&context.signature_algorithm_id),
            E::UnsupportedSignatureAlgorithmForPublicKeyContext(_) => Self::BadSignature,
            E::RequiredEkuNotFoundContext(_) | E::EmptyEkuExtension => Self::WrongPurpose(peer),
            E::CaUsedAsEndEntity => Self::Authority,
            E::EndEntityUsedAsCa => Self::Overreached("a certificate above it is not a CA's"),
            E::PathLenConstraintViolated => {
                Self::Overreached("a CA above it must not have CAs below it (pathLenConstraint)")
            }
            E::NameConstraintViolation => {
                Self::Overreached("a CA above it must not sign for these names (name constraints)")
            }
            E::MaximumNameConstraintComparisonsExceeded
            | E::MaximumPathBuildCallsExceeded
            | E::MaximumPathDepthExceeded
            | E::MaximumSignatureChecksExceeded => Self::TooMuchWork,
            E::CertNotValidForName(context) => Self::WrongName {
                expected: context.expected.to_str().into(),
                others: context.presented.iter().map(|name| bare(name)).collect(),
            },
            E::BadDer | E::BadDerTime | E::TrailingData(_) | E::SignatureAlgorithmMismatch => {
                Self::Unreadable
            }
            E::UnsupportedCriticalExtension => Self::Other(
                "it, or a CA certificate above it, has a critical extension that is not known here".into(),
            ),
            E::InvalidCertValidity => Self::Other("it ends before it begins".into()),
            // Names of variants, such as MalformedDnsIdentifier; what some carry is for developers.
            other => {
                let name = format!("{other:?}");
                let name = name.split(['(', ' ', '{']).next().unwrap_or_default();
                Self::Other(format!("it is faulty ({})", spaced(name)).into())
            }
        }
    }

    /// Returns an instruction to fix it, where the side that trusts can.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::SelfSigned(Peer::Server) => {
                Some("--ca FILE with this very certificate trusts it; without --verify it is not checked")
            }
            Self::UnknownIssuer(Peer::Server) => {
                Some("--ca FILE names the authority; without --verify it is not checked")
            }
            Self::WrongName { others, .. } if others.is_empty() => {
                Some("make it again with its name: openssl req … -addext subjectAltName=DNS:NAME")
            }
            Self::WrongName { .. } => Some("ask for the server by a name that its certificate has"),
            _ => None,
        }
    }
}

/// `DnsName("a.example.org")` and `IpAddress(127.0.0.1)` as webpki prints them: the name alone.
fn bare(name: &str) -> String {
    let inside = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inside.trim_matches('"').to_owned()
}

/// Returns the reason why an algorithm is not accepted, by the content of its AlgorithmIdentifier.
fn signature(algorithm: &[u8]) -> Refusal {
    // Tag and length of the object identifier stand in front of it.
    let identifier = match algorithm {
        [6, length, rest @ ..] => rest.get(..usize::from(*length)),
        _ => None,
    };
    match identifier {
        // 1.2.840.113549.1.1.5, 1.2.840.10045.4.1, 1.2.840.10040.4.3
        Some(
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 5]
            | [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 1]
            | [0x2a, 0x86, 0x48, 0xce, 0x38, 4, 3],
        ) => Refusal::WeakSignature("SHA-1"),
        Some([0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 4]) => Refusal::WeakSignature("MD5"),
        _ => Refusal::UnknownSignature,
    }
}
