//! The numbers of a public key, and every check on them.
//!
//! In: the DER of a SubjectPublicKeyInfo (RFC 5280 §4.1.2.7). Out: a [`PublicKey`] that borrows from it.

use std::fmt::Write;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, ParsedPublicKey,
};

use super::entries::Entry;
use super::{Weakness, rsa};
use crate::der::Der;

/// A public key's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicKey<'a> {
    /// RSA; both numbers big-endian.
    Rsa {
        /// n
        modulus: &'a [u8],
        /// e
        exponent: &'a [u8],
    },
    /// A point of P-256, P-384 or P-521, in any form of SEC 1, section 2.3.3.
    Ec {
        /// Named curve of the key.
        curve: Curve,
        /// The point.
        point: &'a [u8],
    },
    /// A point of Ed25519, as RFC 8032 §5.1.2 encodes it.
    Ed25519(&'a [u8]),
    /// A kind about which nothing is known to be weak.
    Other,
}

/// A curve for ECDSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// secp256r1
    P256,
    /// secp384r1
    P384,
    /// secp521r1
    P521,
}

impl<'a> PublicKey<'a> {
    /// The key in the DER of a SubjectPublicKeyInfo; `None` when it cannot be read.
    pub fn from_info(der: &'a [u8]) -> Option<Self> {
        Self::from_content(Der(der).expect(0x30)?)
    }

    /// The same without the outermost header.
    pub(crate) fn from_content(content: &'a [u8]) -> Option<Self> {
        let mut content = Der(content);
        let mut algorithm = Der(content.expect(0x30)?);
        let identifier = algorithm.expect(0x06)?;
        // The first byte states the number of unused bits: none.
        let key = content.expect(0x03)?.get(1..)?;
        Some(match identifier {
            // 1.2.840.113549.1.1: RSA, and RSA for PSS only
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1 | 10] => {
                let mut numbers = Der(Der(key).expect(0x30)?);
                Self::Rsa { modulus: numbers.expect(0x02)?, exponent: numbers.expect(0x02)? }
            }
            // 1.2.840.10045.2.1
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1] => match algorithm.optional(0x06) {
                Some([0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]) => Self::Ec { curve: Curve::P256, point: key },
                Some([0x2b, 0x81, 4, 0, 34]) => Self::Ec { curve: Curve::P384, point: key },
                Some([0x2b, 0x81, 4, 0, 35]) => Self::Ec { curve: Curve::P521, point: key },
                _ => Self::Other,
            },
            [0x2b, 0x65, 0x70] => Self::Ed25519(key),
            _ => Self::Other,
        })
    }

    /// The numbers of an RSA private key in PKCS#1 (RFC 8017 §A.1.2), or in PKCS#8 (RFC 5958) around it.
    pub(crate) fn of_private_rsa(der: &'a [u8]) -> Option<Self> {
        let mut content = Der(Der(der).expect(0x30)?);
        content.expect(0x02)?; // version
        if content.0.first() == Some(&0x30) {
            content.expect(0x30)?; // algorithm
            return Self::of_private_rsa(content.expect(0x04)?);
        }
        Some(Self::Rsa { modulus: content.expect(0x02)?, exponent: content.expect(0x02)? })
    }

    /// Everything that is known to be wrong with the key's numbers; nothing for a key that is well made.
    ///
    /// **Cost**, with RSA of 2,048, 4,096 and 8,192 bits: 0.06, 0.1 and 0.2 ms for a good key on the machine that the figures in
    /// `presented/path.rs` are from; whatever the key some 205,000 word multiplications for factors, and then 17 roots and 100
    /// sums at most. Larger moduli than 16,384 bits are not looked into: nothing verifies with them. A point on a curve takes
    /// 10 µs.
    pub fn weaknesses(&self) -> Vec<Weakness> {
        match *self {
            Self::Rsa { modulus, exponent } => rsa::weaknesses(modulus, exponent, false),
            Self::Ec { curve, point } => {
                let is_good = match curve {
                    Curve::P256 => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).is_ok(),
                    Curve::P384 => ParsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).is_ok(),
                    Curve::P521 => ParsedPublicKey::new(&ECDSA_P521_SHA512_FIXED, point).is_ok(),
                };
                if is_good { Vec::new() } else { vec![Weakness::NotOnCurve] }
            }
            Self::Ed25519(point) if is_small_order(point) => vec![Weakness::SmallOrder],
            Self::Ed25519(_) | Self::Other => Vec::new(),
        }
    }

    /// The same, and of RSA keys prime factors up to 2^20 instead of 2^16: too slow for keys that a peer sends.
    ///
    /// **Cost**: a millisecond with RSA-2048, four with RSA-8192.
    pub fn thorough_weaknesses(&self) -> Vec<Weakness> {
        match *self {
            Self::Rsa { modulus, exponent } => rsa::weaknesses(modulus, exponent, true),
            _ => self.weaknesses(),
        }
    }

    /// The name of its kind for sentences: "RSA key".
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rsa { .. } => "RSA key",
            Self::Ec { .. } => "ECDSA key",
            Self::Ed25519(_) => "Ed25519 key",
            Self::Other => "key",
        }
    }

    /// Returns the entry for lists of SHA-256: the hash over the modulus, or the x coordinate, without leading zero
    /// bytes.
    pub(super) fn sha256(&self) -> Option<Entry> {
        let number = match *self {
            Self::Rsa { modulus, .. } => modulus,
            Self::Ec { point: [4, coordinates @ ..], .. } => &coordinates[..coordinates.len() / 2],
            Self::Ec { point: [2 | 3, x @ ..], .. } => x,
            _ => return None,
        };
        digest(&SHA256, without_zeros(number)).as_ref().first_chunk().copied()
    }

    /// Returns the entry for Debian's `openssl-blacklist`: the end of SHA-1 over the output of `openssl rsa -modulus`.
    pub(super) fn openssl_blacklist(&self) -> Option<Entry> {
        let Self::Rsa { modulus, .. } = *self else { return None };
        let mut line = String::with_capacity(10 + 2 * modulus.len());
        line.push_str("Modulus=");
        for byte in without_zeros(modulus) {
            // Writing to a text cannot fail.
            let _ = write!(line, "{byte:02X}");
        }
        line.push('\n');
        digest(&SHA1_FOR_LEGACY_USE_ONLY, line.as_bytes()).as_ref().last_chunk().copied()
    }
}

fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().position(|byte| *byte != 0).unwrap_or(number.len())..]
}

/// Returns true if a point of Ed25519 has order 1, 2, 4 or 8, in any encoding: its y is then 1, -1, 0, or one of two more,
/// or one of those plus the field's prime. The top bit is the sign of x.
fn is_small_order(point: &[u8]) -> bool {
    const EIGHT: [&[u8; 32]; 2] = [
        b"\x26\xe8\x95\x8f\xc2\xb2\x27\xb0\x45\xc3\xf4\x89\xf2\xef\x98\xf0\xd5\xdf\xac\x05\xd3\xc6\x33\x39\xb1\x38\x02\x88\x6d\x53\xfc\x05",
        b"\xc7\x17\x6a\x70\x3d\x4d\xd8\x4f\xba\x3c\x0b\x76\x0d\x10\x67\x0f\x2a\x20\x53\xfa\x2c\x39\xcc\xc6\x4e\xc7\xfd\x77\x92\xac\x03\x7a",
    ];
    let Some(mut y) = point.first_chunk::<32>().copied().filter(|_| point.len() == 32) else { return false };
    y[31] &= 0x7f;
    // 2^255 - 19 is 0xed, thirty times 0xff, 0x7f.
    let [first, middle @ .., last] = &y;
    let is_small = matches!(first, 0 | 1) && *last == 0 && middle.iter().all(|byte| *byte == 0);
    let is_near_prime =
        matches!(first, 0xec..=0xee) && *last == 0x7f && middle.iter().all(|byte| *byte == 0xff);
    is_small || is_near_prime || EIGHT.contains(&&y)
}
