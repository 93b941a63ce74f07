//! Kinds of keys that certificates have: their names, the cost of a signature, and the clients that can verify it.

use rustls::SignatureScheme;

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
    /// One that TLS here cannot use, and what it is.
    Unusable(&'static str),
}

impl KeyKind {
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
            Self::Unusable(what) => what,
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
        assert!(KeyKind::Unusable("DSA").schemes().is_empty());
    }

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let names: std::collections::HashSet<_> = PREFERRED.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), PREFERRED.len());
        assert_eq!((KeyKind::Rsa(2050).name(), KeyKind::Unusable("DSA").name()), ("RSA", "DSA"));
    }
}
