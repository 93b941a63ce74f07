//! Private keys: from DER to something that signs.
//!
//! In: a PEM section. Out: a [`Key`], or why it cannot be used. PKCS#8 (RFC 5958), SEC 1 (RFC 5915) and PKCS#1
//! (RFC 8017 §A.1.2).

use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign;
use rustls::sign::SigningKey;
use rustls_pki_types::pem::SectionKind;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use crate::weak::{PublicKey, Weakness};

/// A key that can sign.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) signing: Arc<dyn SigningKey>,
    /// SubjectPublicKeyInfo in DER: what a certificate must equal.
    pub(crate) public_key: Box<[u8]>,
}

/// Reason why a key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// An RSA key that is known to be weak.
    Weak(Weakness),
    /// Broken, or of a kind that TLS here cannot use.
    NotUnderstood,
}

/// id-ecPublicKey in DER.
const EC_PUBLIC_KEY: &[u8] = &[0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];

/// Makes a key of a section's content. `None` when the section is no key.
pub(crate) fn from_section(kind: SectionKind, der: &[u8]) -> Option<Result<Key, Unusable>> {
    let der = match kind {
        SectionKind::PrivateKey => PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der)),
        SectionKind::EcPrivateKey => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(der)),
        SectionKind::RsaPrivateKey => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(der)),
        _ => return None,
    };
    Some(from_der(&der))
}

fn from_der(der: &PrivateKeyDer<'_>) -> Result<Key, Unusable> {
    // The general function tries RSA first; parsing 10,000 EC keys as RSA first costs more than this look.
    let is_ec = match der {
        PrivateKeyDer::Sec1(_) => true,
        PrivateKeyDer::Pkcs8(pkcs8) => {
            let bytes = pkcs8.secret_pkcs8_der();
            bytes[..bytes.len().min(32)].windows(EC_PUBLIC_KEY.len()).any(|window| window == EC_PUBLIC_KEY)
        }
        _ => false,
    };
    let signing = if is_ec { sign::any_ecdsa_type(der) } else { sign::any_supported_type(der) };
    let signing = signing.map_err(|_| why_not(der))?;
    let public_key = signing.public_key().ok_or(Unusable::NotUnderstood)?.as_ref().into();
    Ok(Key { signing, public_key })
}

/// rustls reports every key that it cannot use as one of no known kind; that it is weak is worth reporting.
fn why_not(der: &PrivateKeyDer<'_>) -> Unusable {
    let numbers = match der {
        PrivateKeyDer::Pkcs1(pkcs1) => PublicKey::of_private_rsa(pkcs1.secret_pkcs1_der()),
        PrivateKeyDer::Pkcs8(pkcs8) => PublicKey::of_private_rsa(pkcs8.secret_pkcs8_der()),
        _ => None,
    };
    let weakness = numbers.and_then(|key| key.weaknesses().into_iter().next());
    weakness.map_or(Unusable::NotUnderstood, Unusable::Weak)
}
