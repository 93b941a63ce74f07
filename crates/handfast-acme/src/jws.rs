//! Signatures of account keys (JWS, RFC 7515, as RFC 8555 §6.2 has them), where the ACME library does not have the key: a key in the key
//! process, or one of another kind than ECDSA-P256.
//!
//! In: a request body that the library signed with a throwaway key. Out: the same request, with the account's own key. `transport.rs`
//! does that for every request; nothing else of the library has to know.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use data_encoding::{BASE64URL_NOPAD, DecodeError};
use rcgen::{KeyPair, PublicKeyData, SigningKey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;

/// Reason why an account key cannot be used, or a request is not signed.
#[derive(Debug, Error)]
pub enum JwsError {
    #[error(transparent)]
    Key(#[from] rcgen::Error),
    #[error("expected an ECDSA-P256, ECDSA-P384 or RSA key")]
    UnknownKind,
    #[error("the header: {0}")]
    Header(#[source] serde_json::Error),
    #[error("the payload: {0}")]
    Payload(#[source] serde_json::Error),
    #[error("a request with the field {field:?} is not signed")]
    Field { field: String },
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the signature cannot be read")]
    Signature,
    #[error("the request of the library: {0}")]
    RequestJson(#[source] serde_json::Error),
    #[error("the request of the library: {0}")]
    RequestBase64(#[from] DecodeError),
    #[error("the request of the library: {0}")]
    RequestText(#[from] std::string::FromUtf8Error),
    /// The key process has the key, and did not sign.
    #[error(transparent)]
    KeyProcess(Box<crate::Error>),
}

/// Signs requests of one account.
pub(crate) trait AccountSigner: std::fmt::Debug + Send + Sync {
    /// The public key, as canonical JSON (RFC 7638 §3).
    fn jwk(&self) -> &str;

    /// Signs a request with this header and payload, both JSON; the payload may be empty. **Errors**: the key cannot be used.
    fn sign(&self, header: &str, payload: &str) -> Result<Jws, JwsError>;
}

/// A signed request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Jws {
    protected: String,
    payload: String,
    signature: String,
}

/// The header of a request to an issuer. There are no others: a header that cannot be read is not signed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    jwk: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<String>,
    nonce: String,
    url: String,
}

/// Fields in requests of this program. A change of the key, and the end of an account, are not among them.
const PAYLOAD_FIELDS: [&str; 10] = [
    "certificate",
    "contact",
    "csr",
    "externalAccountBinding",
    "identifiers",
    "onlyReturnExisting",
    "profile",
    "reason",
    "replaces",
    "termsOfServiceAgreed",
];

/// The private key of an account, in this process.
#[derive(Debug)]
pub(crate) struct AccountKey {
    pair: KeyPair,
    jwk: String,
    algorithm: &'static str,
    /// Bytes of each number of a signature; `None`: RSA.
    width: Option<usize>,
}

impl AccountKey {
    /// A new one, ECDSA-P256. **Errors**: the system has no random numbers.
    pub(crate) fn generate() -> Result<Self, JwsError> {
        Self::of(KeyPair::generate()?)
    }

    /// Reads one, DER: PKCS#8, SEC 1 or PKCS#1. **Errors**: it is none, or of a kind that no issuer takes.
    pub(crate) fn from_der(der: &[u8]) -> Result<Self, JwsError> {
        Self::of(KeyPair::try_from(der)?)
    }

    /// The key, DER.
    pub(crate) fn der(&self) -> &[u8] {
        self.pair.serialized_der()
    }

    fn of(pair: KeyPair) -> Result<Self, JwsError> {
        let public = pair.der_bytes();
        let encode = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
        let (jwk, algorithm, width) = match public {
            // RFC 5480 §2.2: a point that is not compressed.
            [4, point @ ..] if matches!(point.len(), 64 | 96) => {
                let (x, y) = point.split_at(point.len() / 2);
                let (curve, algorithm) = if x.len() == 32 { ("P-256", "ES256") } else { ("P-384", "ES384") };
                let jwk =
                    format!(r#"{{"crv":"{curve}","kty":"EC","x":"{}","y":"{}"}}"#, encode(x), encode(y));
                (jwk, algorithm, Some(x.len()))
            }
            [0x30, ..] => {
                let numbers = sequence(public).ok_or(JwsError::UnknownKind)?;
                let (modulus, rest) = number(numbers).ok_or(JwsError::UnknownKind)?;
                let (exponent, _) = number(rest).ok_or(JwsError::UnknownKind)?;
                let jwk = format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, encode(exponent), encode(modulus));
                (jwk, "RS256", None)
            }
            _ => return Err(JwsError::UnknownKind),
        };
        Ok(Self { pair, jwk, algorithm, width })
    }
}

impl AccountSigner for AccountKey {
    fn jwk(&self) -> &str {
        &self.jwk
    }

    fn sign(&self, header: &str, payload: &str) -> Result<Jws, JwsError> {
        let mut header: Header = serde_json::from_str(header).map_err(JwsError::Header)?;
        check(payload)?;
        header.alg = self.algorithm.to_owned();
        if header.jwk.is_some() {
            header.jwk = Some(serde_json::from_str(&self.jwk)?);
        }
        let header = serde_json::to_vec(&header)?;
        let protected = BASE64URL_NOPAD.encode(&header);
        let payload = BASE64URL_NOPAD.encode(payload.as_bytes());
        let signed = self.pair.sign(format!("{protected}.{payload}").as_bytes())?;
        let signature = match self.width {
            Some(width) => fixed(&signed, width).ok_or(JwsError::Signature)?,
            None => signed,
        };
        Ok(Jws { protected, payload, signature: BASE64URL_NOPAD.encode(&signature) })
    }
}

/// Checks that a payload is one of those that are signed.
fn check(payload: &str) -> Result<(), JwsError> {
    if payload.is_empty() {
        return Ok(());
    }
    let fields: Map<String, Value> = serde_json::from_str(payload).map_err(JwsError::Payload)?;
    match fields.keys().find(|field| !PAYLOAD_FIELDS.contains(&field.as_str())) {
        Some(field) => Err(JwsError::Field { field: field.clone() }),
        None => Ok(()),
    }
}

/// Signs a request of the library again. `binding`: the key of an account that was made elsewhere, where the request may carry its
/// signature (RFC 8555 §7.3.4).
///
/// **Errors**: it is no request that is signed.
pub(crate) fn sign_again(
    body: &[u8],
    signer: &dyn AccountSigner,
    binding: Option<&[u8]>,
) -> Result<Vec<u8>, JwsError> {
    let body: Jws = serde_json::from_slice(body).map_err(JwsError::RequestJson)?;
    let decode = |text: &str| -> Result<String, JwsError> {
        Ok(String::from_utf8(BASE64URL_NOPAD.decode(text.as_bytes())?)?)
    };
    let (header, mut payload) = (decode(&body.protected)?, decode(&body.payload)?);
    if let Some(key) = binding
        && let Ok(Value::Object(mut fields)) = serde_json::from_str(&payload)
        && let Some(bound) = fields.get_mut("externalAccountBinding")
    {
        let mut bound_body: Jws = serde_json::from_value(bound.clone()).map_err(JwsError::RequestJson)?;
        bound_body.payload = BASE64URL_NOPAD.encode(signer.jwk().as_bytes());
        let text = format!("{}.{}", bound_body.protected, bound_body.payload);
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
        bound_body.signature = BASE64URL_NOPAD.encode(tag.as_ref());
        *bound = serde_json::to_value(bound_body).map_err(JwsError::RequestJson)?;
        payload = serde_json::to_string(&fields).map_err(JwsError::RequestJson)?;
    }
    let signed = signer.sign(&header, &payload)?;
    serde_json::to_vec(&signed).map_err(JwsError::RequestJson)
}

/// The key authorization of a challenge, and its SHA-256 (RFC 8555 §8.1).
pub(crate) fn key_authorization(signer: &dyn AccountSigner, token: &str) -> (String, Vec<u8>) {
    let thumbprint = BASE64URL_NOPAD.encode(digest(&SHA256, signer.jwk().as_bytes()).as_ref());
    let text = format!("{token}.{thumbprint}");
    let hash = digest(&SHA256, text.as_bytes()).as_ref().to_vec();
    (text, hash)
}

/// An ECDSA signature as JWS has it (RFC 7518 §3.4), from DER.
fn fixed(signature: &[u8], width: usize) -> Option<Vec<u8>> {
    let (first, rest) = number(sequence(signature)?)?;
    let (second, _) = number(rest)?;
    let mut all = vec![0; 2 * width];
    for (value, end) in [(first, width), (second, 2 * width)] {
        let start = end.checked_sub(value.len()).filter(|start| *start + width >= end)?;
        all[start..end].copy_from_slice(value);
    }
    Some(all)
}

/// The content of a SEQUENCE that is all of `der`.
pub(crate) fn sequence(der: &[u8]) -> Option<&[u8]> {
    value(der, 0x30).map(|(content, _)| content)
}

/// An INTEGER at the beginning, without leading zeros, and what follows it.
pub(crate) fn number(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (content, rest) = value(der, 2)?;
    let first = content.iter().position(|byte| *byte != 0)?;
    Some((&content[first..], rest))
}

fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match *length {
        short @ ..=0x7f => (usize::from(short), rest),
        long @ 0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    (*found == tag).then(|| rest.split_at_checked(length)).flatten()
}

#[cfg(test)]
mod tests;
