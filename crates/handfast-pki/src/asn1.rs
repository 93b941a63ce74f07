//! Parts that certificates, revocation lists and OCSP responses have in common: signatures, times, extensions, names.
//!
//! In: DER from a peer or a file. Out: what it holds, borrowed from it, or `None`. Each format's own structure is in its own file.
//!
//! **Source**: RFC 5280 §4.1 (certificates), RFC 5280 §5.1 (lists), RFC 6960 §4.2.1 (responses).

use std::sync::LazyLock;

use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::crypto::aws_lc_rs::default_provider;
use x509_parser::prelude::FromDer;
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Name;

use crate::der::{BOOLEAN, Der, GENERALIZED_TIME, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE, value};

/// Returns the signature algorithms that are verified.
pub fn algorithms() -> WebPkiSupportedAlgorithms {
    static ALL: LazyLock<WebPkiSupportedAlgorithms> =
        LazyLock::new(|| default_provider().signature_verification_algorithms);
    *ALL
}

/// Result of a signature's check, from the worst to the best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Signed {
    /// None of the keys that should have made it did.
    Wrong,
    /// There is no such key, or none that signs in a way that is verified here.
    #[default]
    Unknown,
    /// One of them made it.
    Good,
}

/// A value, and the signature over it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SignedParts<'a> {
    /// The value, with its header.
    pub(crate) signed: &'a [u8],
    /// Content of the AlgorithmIdentifier.
    pub(crate) algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
}

impl<'a> SignedParts<'a> {
    /// The next three values.
    ///
    /// **Errors**: the part that cannot be read.
    pub(crate) fn read(from: &mut Der<'a>) -> Result<Self, &'static str> {
        let signed = from.whole(SEQUENCE).ok_or("content")?;
        let algorithm = from.expect(SEQUENCE).ok_or("signature algorithm")?;
        let signature = from.whole_bits().ok_or("signature")?;
        Ok(Self { signed, algorithm, signature })
    }

    /// Checks whether the key with this SubjectPublicKeyInfo, without its header, made the signature.
    pub(crate) fn verify(&self, key: &[u8]) -> Signed {
        let Some((key_algorithm, key)) = key_parts(key) else { return Signed::Unknown };
        let all = algorithms().all.iter();
        let mut fitting = all
            .filter(|known| known.signature_alg_id().as_ref() == self.algorithm)
            .filter(|known| known.public_key_alg_id().as_ref() == key_algorithm)
            .peekable();
        if fitting.peek().is_none() {
            return Signed::Unknown;
        }
        match fitting.any(|known| known.verify_signature(key, self.signed, self.signature).is_ok()) {
            true => Signed::Good,
            false => Signed::Wrong,
        }
    }

    /// Returns true if this key is known to have made the signature.
    pub(crate) fn is_by(&self, key: &[u8]) -> bool {
        self.verify(key) == Signed::Good
    }
}

/// Algorithm and bits of a SubjectPublicKeyInfo, which is given without its header.
pub(crate) fn key_parts(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut key = Der(key);
    Some((key.expect(SEQUENCE)?, key.whole_bits()?))
}

/// An extension of a certificate, of a list, or of an entry of a list (RFC 5280 §4.2).
pub(crate) struct Extension<'a> {
    pub(crate) identifier: &'a [u8],
    pub(crate) is_critical: bool,
    pub(crate) value: &'a [u8],
    /// Bytes behind its value, where none should be.
    pub(crate) rest: Der<'a>,
}

impl<'a> Extension<'a> {
    /// The next value.
    pub(crate) fn read(from: &mut Der<'a>) -> Option<Self> {
        let mut rest = Der(from.expect(SEQUENCE)?);
        let identifier = rest.expect(OBJECT_IDENTIFIER)?;
        let is_critical = rest.optional(BOOLEAN).is_some_and(|value| value != [0]);
        let value = rest.expect(OCTET_STRING)?;
        Some(Self { identifier, is_critical, value, rest })
    }
}

/// The next value, a UTCTime or a GeneralizedTime, in seconds of Unix time.
pub(crate) fn time(from: &mut Der<'_>) -> Option<i64> {
    let (rest, time) = ASN1Time::from_der(from.0).ok()?;
    from.0 = rest;
    Some(time.timestamp())
}

/// The same of a GeneralizedTime.
pub(crate) fn generalized_time(from: &mut Der<'_>) -> Option<i64> {
    if from.0.first() == Some(&GENERALIZED_TIME) { time(from) } else { None }
}

/// A name in DER, without its header, for people.
pub(crate) fn name_text(content: &[u8]) -> Box<str> {
    X509Name::from_der(&value(SEQUENCE, content))
        .map_or_else(|_| "a name that cannot be read".into(), |(_, name)| name.to_string().into())
}
