//! Keys known to be weak: the private key can be computed from the public one, is published, or is not needed to sign.
//!
//! In: a public key as a certificate contains it (SubjectPublicKeyInfo), or its numbers. Out: each [`Weakness`]: what it
//! is, why that matters, and the source. Lists of known keys are files that the operator provides ([`Lists`]).
//!
//! The arithmetic is bounded whatever the key: see [`PublicKey::weaknesses`]. It is done where a key is read: once for each
//! key that is served or trusted, and once for each certificate of a path that a peer presents in a full handshake, after
//! everything cheaper has been found good.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

pub(crate) use factors::shared_factors;
pub use list::{Lists, LoadedLists, PackError, Packed, load, pack};
pub use public_key::PublicKey;

mod entries;
mod factors;
mod list;
mod public_key;
mod roca;
mod rsa;

/// Bits of RSA below which nothing is accepted.
pub const RSA_BITS: usize = 2048;
/// Bits that a public exponent may have (FIPS 186-5 A.1.1: below 2^256).
const EXPONENT_BITS: usize = 256;

/// One way to be weak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Weakness {
    /// RSA with fewer than [`RSA_BITS`] bits.
    TooSmall {
        /// Bits of the modulus.
        bits: usize,
    },
    /// RSA with exponent 1 (or 0).
    ExponentOne,
    /// RSA with an even exponent.
    ExponentEven,
    /// RSA with an exponent of more than 256 bits.
    ExponentLong {
        /// Bits of the exponent.
        bits: usize,
    },
    /// RSA whose modulus has a prime factor below 65,536, or below 1,048,576 where it was looked for.
    SmallFactor {
        /// The least of them.
        factor: u32,
    },
    /// RSA whose two primes are so close together that Fermat's method finds them.
    ClosePrimes,
    /// RSA with the fingerprint of ROCA (CVE-2017-15361).
    Roca,
    /// ECDSA with a point that is not on its curve.
    NotOnCurve,
    /// Ed25519 with one of the points of small order.
    SmallOrder,
    /// A key on a list of known ones.
    Listed {
        /// The list.
        list: Arc<Path>,
    },
}

impl Weakness {
    /// Returns the reason why that matters, in one sentence without a full stop.
    pub const fn why(&self) -> &'static str {
        match self {
            Self::TooSmall { .. } => "keys of this size can be factored, or soon can be; clients refuse them",
            Self::ExponentOne => "everybody can sign with it: a signature is the padded hash itself",
            Self::ExponentEven => "no private key belongs to it, so the key was damaged or forged",
            Self::ExponentLong { .. } => {
                "no generator makes it; it is what a private key that was chosen too short looks like"
            }
            Self::SmallFactor { .. } => {
                "the modulus was damaged or badly made, and anybody can go on factoring it"
            }
            Self::ClosePrimes => "anybody can compute the private key from the certificate, at once",
            Self::Roca => "a broken generator in smart cards and TPMs made it, and it can be factored",
            Self::NotOnCurve => "no private key belongs to it, so the key was damaged or forged",
            Self::SmallOrder => "signatures by it can be made without a private key",
            Self::Listed { .. } => "its private key is known to everybody",
        }
    }

    /// The source: a standard or a publication.
    pub const fn source(&self) -> &'static str {
        match self {
            Self::TooSmall { .. } => "NIST SP 800-131A; CA/Browser Forum baseline requirements 6.1.5",
            Self::ExponentOne | Self::ExponentEven => {
                "RFC 8017 section 3.1; CA/Browser Forum baseline requirements 6.1.6"
            }
            Self::ExponentLong { .. } => "FIPS 186-5 A.1.1; Wiener 1990",
            Self::SmallFactor { .. } => {
                "NIST SP 800-89 section 5.3.3; CA/Browser Forum baseline requirements 6.1.6"
            }
            Self::ClosePrimes => "CVE-2022-26320; CA/Browser Forum baseline requirements 6.1.1.3",
            Self::Roca => "CVE-2017-15361; CA/Browser Forum baseline requirements 6.1.1.3",
            Self::NotOnCurve => "RFC 5480 section 2.2; NIST SP 800-56A section 5.6.2.3",
            Self::SmallOrder => "RFC 7748 section 7; Chalkias, Garillot, Nikolaenko 2020",
            Self::Listed { .. } => {
                "the list that the operator named; for Debian's keys of 2006 to 2008 CVE-2008-0166"
            }
        }
    }
}

impl fmt::Display for Weakness {
    /// Writes the problem, to follow the words "the key".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSmall { bits } => write!(f, "has {bits} bits, expected {RSA_BITS} or more"),
            Self::ExponentOne => f.write_str("has the public exponent 1, expected an odd one of 3 or more"),
            Self::ExponentEven => f.write_str("has an even public exponent, expected an odd one"),
            Self::ExponentLong { bits } => {
                write!(f, "has a public exponent of {bits} bits, expected {} at most", EXPONENT_BITS)
            }
            Self::SmallFactor { factor } => write!(f, "has the factor {factor}, expected two large primes"),
            Self::ClosePrimes => f.write_str("has two primes that are close together (Fermat's method)"),
            Self::Roca => f.write_str("has the fingerprint of ROCA (CVE-2017-15361)"),
            Self::NotOnCurve => f.write_str("is no point of its curve"),
            Self::SmallOrder => f.write_str("is a point of small order"),
            Self::Listed { list } => write!(f, "is on the list of known keys {}", list.display()),
        }
    }
}

#[cfg(test)]
mod tests;
