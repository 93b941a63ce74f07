//! Kinds of keys that certificates have: their names, the cost of a signature, and the clients that can verify it.

use rustls::SignatureScheme;

use crate::der::{BIT_STRING, Der, INTEGER, OBJECT_IDENTIFIER, SEQUENCE, bits};

/// Kind of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// RSA, with its bits.
    Rsa(usize),
    /// ECDSA on P-256.
    EcdsaP256,
    /// ECDSA on P-384.
    EcdsaP384,
    /// ECDSA on P-521.
    EcdsaP521,
    /// Ed25519.
    Ed25519,
    /// ML-DSA-44.
    MlDsa44,
    /// ML-DSA-65.
    MlDsa65,
    /// ML-DSA-87.
    MlDsa87,
    /// One that TLS here cannot use.
    Unusable(UnusableKind),
}

/// Kind of a key that TLS here cannot use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnusableKind {
    /// RSA that signs in PSS only.
    RsaPss,
    /// ECDSA on another curve than P-256, P-384, P-521.
    OtherCurve,
    /// ECDSA with a curve that has no name.
    UnnamedCurve,
    /// Ed448.
    Ed448,
    /// DSA.
    Dsa,
    /// RSA whose numbers cannot be read.
    Unreadable,
    /// Any other.
    Unknown,
}

impl UnusableKind {
    /// Its description for the owner of the key.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RsaPss => "RSA marked for PSS only (id-RSASSA-PSS)",
            Self::OtherCurve => "ECDSA on a curve other than P-256, P-384, P-521",
            Self::UnnamedCurve => "ECDSA with a curve that is not named",
            Self::Ed448 => "Ed448",
            Self::Dsa => "DSA",
            Self::Unreadable => "RSA with a broken modulus",
            Self::Unknown => "of a kind that is not known here",
        }
    }

    /// Its description as a key that a peer has.
    pub(crate) const fn of_peer(self) -> &'static str {
        match self {
            Self::RsaPss => "an RSA key marked for PSS only",
            Self::OtherCurve | Self::UnnamedCurve => "an ECDSA key on a curve other than P-256, P-384, P-521",
            Self::Ed448 => "an Ed448 key",
            Self::Dsa => "a DSA key",
            Self::Unreadable => "a key that cannot be read",
            Self::Unknown => "a key of a kind that is not known here",
        }
    }
}

impl KeyKind {
    /// Of the key with this SubjectPublicKeyInfo (RFC 5280 §4.1.2.7), without its header.
    pub(crate) fn of_key(info: &[u8]) -> Self {
        Self::read(info).unwrap_or(Self::Unusable(UnusableKind::Unreadable))
    }

    fn read(info: &[u8]) -> Option<Self> {
        let mut info = Der(info);
        let mut algorithm = Der(info.expect(SEQUENCE)?);
        Some(match algorithm.expect(OBJECT_IDENTIFIER)? {
            // 1.2.840.113549.1.1.1
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 1] => {
                // One byte states that no bits are unused.
                let key = info.expect(BIT_STRING)?.get(1..)?;
                let mut numbers = Der(Der(key).expect(SEQUENCE)?);
                let modulus = numbers.expect(INTEGER)?;
                numbers.expect(INTEGER)?;
                Self::Rsa(bits(modulus))
            }
            [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 1, 10] => Self::Unusable(UnusableKind::RsaPss),
            // 1.2.840.10045.2.1, and the curve's name.
            [0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1] => match algorithm.optional(OBJECT_IDENTIFIER) {
                Some([0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]) => Self::EcdsaP256,
                Some([0x2b, 0x81, 4, 0, 34]) => Self::EcdsaP384,
                Some([0x2b, 0x81, 4, 0, 35]) => Self::EcdsaP521,
                Some(_) => Self::Unusable(UnusableKind::OtherCurve),
                None => Self::Unusable(UnusableKind::UnnamedCurve),
            },
            [0x2b, 0x65, 0x70] => Self::Ed25519,
            [0x2b, 0x65, 0x71] => Self::Unusable(UnusableKind::Ed448),
            // 2.16.840.1.101.3.4.3
            [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 17] => Self::MlDsa44,
            [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 18] => Self::MlDsa65,
            [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 3, 19] => Self::MlDsa87,
            [0x2a, 0x86, 0x48, 0xce, 0x38, 4, 1] => Self::Unusable(UnusableKind::Dsa),
            _ => Self::Unusable(UnusableKind::Unknown),
        })
    }

    /// Its name in logs and pages: `RSA-2048`, `ECDSA-P256`, `Ed25519`, ….
    pub const fn name(self) -> &'static str {
        match self {
            // Sizes that CAs issue; the remaining ones are correct and rare.
            Self::Rsa(1024) => "RSA-1024",
            Self::Rsa(2048) => "RSA-2048",
            Self::Rsa(3072) => "RSA-3072",
            Self::Rsa(4096) => "RSA-4096",
            Self::Rsa(8192) => "RSA-8192",
            Self::Rsa(_) => "RSA",
            Self::EcdsaP256 => "ECDSA-P256",
            Self::EcdsaP384 => "ECDSA-P384",
            Self::EcdsaP521 => "ECDSA-P521",
            Self::Ed25519 => "Ed25519",
            Self::MlDsa44 => "ML-DSA-44",
            Self::MlDsa65 => "ML-DSA-65",
            Self::MlDsa87 => "ML-DSA-87",
            Self::Unusable(kind) => kind.name(),
        }
    }

    /// Returns true if a signature delays other connections noticeably: more than a tenth of a millisecond.
    pub const fn is_dear(self) -> bool {
        matches!(self, Self::Rsa(_) | Self::EcdsaP384 | Self::EcdsaP521)
    }

    /// Order of preference: the cost of a signature for this side, with P-256 before Ed25519 because every client can
    /// verify it. Measured with aws-lc on an x86-64 server, in multiples of P-256: Ed25519 0.4, P-384 6, P-521 11, RSA-2048
    /// 20, RSA-3072 60, RSA-4096 90. ML-DSA is cheap to make but 2.4 KB and more on the wire, so it is for clients that can
    /// verify nothing else.
    pub const fn cost(self) -> u8 {
        match self {
            Self::EcdsaP256 => 0,
            Self::Ed25519 => 1,
            Self::EcdsaP384 => 2,
            Self::EcdsaP521 => 3,
            Self::Rsa(2048) => 4,
            Self::Rsa(3072) => 5,
            Self::Rsa(4096) => 6,
            // Others are mostly larger, and then dearer still.
            Self::Rsa(_) | Self::Unusable(_) => 7,
            Self::MlDsa44 => 8,
            Self::MlDsa65 => 9,
            Self::MlDsa87 => 10,
        }
    }

    /// The schemes in which it signs; a client that offers one of them can verify it.
    pub const fn schemes(self) -> &'static [SignatureScheme] {
        use SignatureScheme as S;
        match self {
            Self::Rsa(_) => &[
                S::RSA_PSS_SHA256,
                S::RSA_PSS_SHA384,
                S::RSA_PSS_SHA512,
                S::RSA_PKCS1_SHA256,
                S::RSA_PKCS1_SHA384,
                S::RSA_PKCS1_SHA512,
            ],
            Self::EcdsaP256 => &[S::ECDSA_NISTP256_SHA256],
            Self::EcdsaP384 => &[S::ECDSA_NISTP384_SHA384],
            Self::EcdsaP521 => &[S::ECDSA_NISTP521_SHA512],
            Self::Ed25519 => &[S::ED25519],
            Self::MlDsa44 => &[S::ML_DSA_44],
            Self::MlDsa65 => &[S::ML_DSA_65],
            Self::MlDsa87 => &[S::ML_DSA_87],
            Self::Unusable(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the first choice to the last.
    const PREFERRED: [KeyKind; 11] = [
        KeyKind::EcdsaP256,
        KeyKind::Ed25519,
        KeyKind::EcdsaP384,
        KeyKind::EcdsaP521,
        KeyKind::Rsa(2048),
        KeyKind::Rsa(3072),
        KeyKind::Rsa(4096),
        KeyKind::Rsa(8192),
        KeyKind::MlDsa44,
        KeyKind::MlDsa65,
        KeyKind::MlDsa87,
    ];

    #[test]
    fn the_cheaper_is_preferred() {
        assert!(PREFERRED.is_sorted_by(|one, next| one.cost() < next.cost()));
        assert_eq!(KeyKind::Rsa(2050).cost(), KeyKind::Rsa(8192).cost());
    }

    #[test]
    fn each_kind_signs_in_schemes_of_its_own() {
        let not_rsa = PREFERRED.iter().filter(|kind| !matches!(kind, KeyKind::Rsa(_)));
        let words: Vec<String> = not_rsa.map(|kind| format!("{:?}", kind.schemes())).collect();
        assert_eq!(
            words,
            [
                "[ECDSA_NISTP256_SHA256]",
                "[ED25519]",
                "[ECDSA_NISTP384_SHA384]",
                "[ECDSA_NISTP521_SHA512]",
                "[ML_DSA_44]",
                "[ML_DSA_65]",
                "[ML_DSA_87]"
            ]
        );
        let rsa = KeyKind::Rsa(2048).schemes();
        assert!(rsa.len() == 6 && rsa.iter().all(|scheme| format!("{scheme:?}").starts_with("RSA_")));
        assert!(KeyKind::Unusable(UnusableKind::Dsa).schemes().is_empty());
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let names: std::collections::HashSet<_> = PREFERRED.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), PREFERRED.len());
        assert_eq!((KeyKind::Rsa(2050).name(), KeyKind::Unusable(UnusableKind::Dsa).name()), ("RSA", "DSA"));
    }
}
