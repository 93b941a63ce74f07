//! The single operations of a TLS connection; the caller measures the time.
//!
//! In: the name of an operation. Out: an [`Operation`], which does it once each time it is asked to, with the same library,
//! the same key exchange groups and the same signers as a session. [`handshake`] puts two sessions together. No clock is
//! read here.

use std::sync::Arc;

use aws_lc_rs::aead::{
    AES_128_GCM, AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey,
};
use aws_lc_rs::digest::{SHA256, digest};
use handfast_pki::key_kind::KeyKind;
use handfast_tls::policy::{self, DEFAULT};
use handfast_tls::session::{Failure, FailureKind};
use rcgen::{KeyPair, RsaKeySize};
use rustls::SignatureScheme;
use rustls::crypto::aws_lc_rs::{default_provider, sign};
use rustls::crypto::{ActiveKeyExchange, SupportedKxGroup};
use rustls::sign::{Signer, SigningKey};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, SignatureVerificationAlgorithm};

pub mod handshake;

/// Bytes that a server signs in TLS 1.3: 64 spaces, the context's words, a zero, and a hash (RFC 9846 §4.5.3).
const SIGNED: usize = 64 + 33 + 1 + 32;
/// Bytes of a record's header, which are authenticated with it (RFC 9846 §5.2).
const HEADER: [u8; 5] = [23, 3, 3, 0x40, 0x11];

/// Kinds of keys that sign handshakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signature {
    /// RSA with 2048 bits, PSS with SHA-256 as in TLS 1.3.
    Rsa2048,
    /// RSA with 3072 bits.
    Rsa3072,
    /// RSA with 4096 bits.
    Rsa4096,
    /// ECDSA on P-256 with SHA-256.
    EcdsaP256,
    /// ECDSA on P-384 with SHA-384.
    EcdsaP384,
    /// Ed25519.
    Ed25519,
}

impl Signature {
    /// All of them, in the order of a table.
    pub const ALL: [Self; 6] =
        [Self::Rsa2048, Self::Rsa3072, Self::Rsa4096, Self::EcdsaP256, Self::EcdsaP384, Self::Ed25519];

    /// Its name, as [`handfast_pki::certificate::Certificate::kind`] has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rsa2048 => "RSA-2048",
            Self::Rsa3072 => "RSA-3072",
            Self::Rsa4096 => "RSA-4096",
            Self::EcdsaP256 => "ECDSA-P256",
            Self::EcdsaP384 => "ECDSA-P384",
            Self::Ed25519 => "Ed25519",
        }
    }

    /// That of a kind of key; `None`: it is not measured.
    pub const fn of(kind: KeyKind) -> Option<Self> {
        Some(match kind {
            KeyKind::Rsa(2048) => Self::Rsa2048,
            KeyKind::Rsa(3072) => Self::Rsa3072,
            KeyKind::Rsa(4096) => Self::Rsa4096,
            KeyKind::EcdsaP256 => Self::EcdsaP256,
            KeyKind::EcdsaP384 => Self::EcdsaP384,
            KeyKind::Ed25519 => Self::Ed25519,
            KeyKind::Rsa(_)
            | KeyKind::EcdsaP521
            | KeyKind::MlDsa44
            | KeyKind::MlDsa65
            | KeyKind::MlDsa87
            | KeyKind::Unusable(_) => return None,
        })
    }

    const fn scheme(self) -> SignatureScheme {
        match self {
            Self::Rsa2048 | Self::Rsa3072 | Self::Rsa4096 => SignatureScheme::RSA_PSS_SHA256,
            Self::EcdsaP256 => SignatureScheme::ECDSA_NISTP256_SHA256,
            Self::EcdsaP384 => SignatureScheme::ECDSA_NISTP384_SHA384,
            Self::Ed25519 => SignatureScheme::ED25519,
        }
    }

    fn generate(self) -> Result<KeyPair, rcgen::Error> {
        let rsa = |size| KeyPair::generate_rsa_for(&rcgen::PKCS_RSA_SHA256, size);
        match self {
            Self::Rsa2048 => rsa(RsaKeySize::_2048),
            Self::Rsa3072 => rsa(RsaKeySize::_3072),
            Self::Rsa4096 => rsa(RsaKeySize::_4096),
            Self::EcdsaP256 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
            Self::EcdsaP384 => KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384),
            Self::Ed25519 => KeyPair::generate_for(&rcgen::PKCS_ED25519),
        }
    }
}

/// Groups in which keys are exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// X25519.
    X25519,
    /// secp256r1.
    P256,
    /// secp384r1.
    P384,
    /// X25519 and ML-KEM-768 together.
    X25519Mlkem768,
}

impl Group {
    /// All of them, in the order of a table.
    pub const ALL: [Self; 4] = [Self::X25519, Self::P256, Self::P384, Self::X25519Mlkem768];

    /// Returns the group's common name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::X25519 | Self::X25519Mlkem768 => self.iana(),
        }
    }

    /// Its name in the registry, as policies have it.
    pub const fn iana(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::P256 => "secp256r1",
            Self::P384 => "secp384r1",
            Self::X25519Mlkem768 => "X25519MLKEM768",
        }
    }

    fn exchange(self) -> Result<&'static dyn SupportedKxGroup, Failure> {
        let only = [self.iana().to_owned()];
        let policy = policy::resolve(DEFAULT, Some(&["1.3".to_owned()]), None, Some(&only));
        let group = policy.ok().and_then(|policy| policy.plain().kx_groups.first().copied());
        group.ok_or_else(|| broken(format!("key exchange {}: no policy knows it", self.name())))
    }
}

/// Ciphers that protect records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cipher {
    /// AES with 128 bits in GCM.
    Aes128Gcm,
    /// AES with 256 bits in GCM.
    Aes256Gcm,
    /// ChaCha20 with Poly1305.
    ChaCha20Poly1305,
}

impl Cipher {
    /// All of them, in the order of a table.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }

    fn key(self) -> Result<LessSafeKey, Failure> {
        let algorithm: &'static Algorithm = match self {
            Self::Aes128Gcm => &AES_128_GCM,
            Self::Aes256Gcm => &AES_256_GCM,
            Self::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        // Nothing is protected with it; every key takes the same time.
        let bytes = vec![7; algorithm.key_len()];
        let key =
            UnboundKey::new(algorithm, &bytes).map_err(|_| broken(format!("{}: no key", self.name())))?;
        Ok(LessSafeKey::new(key))
    }
}

/// Operation that can be run and measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// One signature, as a server makes it in a TLS 1.3 handshake.
    Sign(Signature),
    /// Its verification, as a client does it.
    Verify(Signature),
    /// A new key share.
    Share(Group),
    /// The secret from one's own key share and the peer's: what a client does when the server has answered.
    Agree(Group),
    /// All that a server does: its own share and the secret.
    Answer(Group),
    /// One record encrypted.
    Seal(Cipher, usize),
    /// One record decrypted.
    Open(Cipher, usize),
    /// SHA-256 of this number of bytes.
    Hash(usize),
}

impl Act {
    /// Makes everything ready to do it.
    ///
    /// **Errors**: a fault of the library, or of its random source.
    pub fn ready(self, keys: &Keys) -> Result<Box<dyn Operation>, Failure> {
        Ok(match self {
            Self::Sign(kind) => Box::new(Sign(keys.of(kind).signer()?)),
            Self::Verify(kind) => Box::new(Verify::new(keys.of(kind))?),
            Self::Share(group) => Box::new(Share(group.exchange()?)),
            Self::Agree(group) => Box::new(Agree { group: group.exchange()?, started: Vec::new() }),
            Self::Answer(group) => Box::new(KeyShareReply::new(group)?),
            Self::Seal(cipher, size) => {
                Box::new(Seal { key: cipher.key()?, count: 0, record: vec![5; size] })
            }
            Self::Open(cipher, size) => Box::new(Open::new(cipher, size)?),
            Self::Hash(size) => Box::new(Hash(vec![5; size])),
        })
    }
}

/// A repeatable operation of constant duration.
pub trait Operation {
    /// Prepares this number of runs; not to be timed. Few operations have anything to do here.
    ///
    /// **Errors**: a fault of the library.
    fn prepare(&mut self, _times: usize) -> Result<(), Failure> {
        Ok(())
    }

    /// Does it once.
    ///
    /// **Errors**: a fault of the library, or more times than it was prepared for.
    fn run(&mut self) -> Result<(), Failure>;
}

/// One key of each kind, made for the occasion.
pub struct Keys(Vec<SignatureKey>);

struct SignatureKey {
    kind: Signature,
    signing: Arc<dyn SigningKey>,
    /// As a certificate contains it.
    public: Vec<u8>,
    /// For certificates.
    pair: KeyPair,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|key| key.kind)).finish()
    }
}

impl Keys {
    /// Makes them.
    ///
    /// **Errors**: a fault of the library, or of its random source.
    ///
    /// **Cost**: the RSA keys take from a tenth of a second to two, by luck.
    pub fn generate() -> Result<Self, Failure> {
        Signature::ALL.into_iter().map(SignatureKey::generate).collect::<Result<_, _>>().map(Self)
    }

    fn of(&self, kind: Signature) -> &SignatureKey {
        self.0.iter().find(|key| key.kind == kind).expect("`generate` makes one of each kind")
    }
}

impl SignatureKey {
    fn generate(kind: Signature) -> Result<Self, Failure> {
        let wrong = |what: String| broken(format!("make a key {}: {what}", kind.name()));
        let pair = kind.generate().map_err(|error| wrong(error.to_string()))?;
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.serialize_der()));
        let signing = sign::any_supported_type(&der).map_err(|error| wrong(error.to_string()))?;
        Ok(Self { kind, signing, public: pair.public_key_raw().to_vec(), pair })
    }

    fn signer(&self) -> Result<Box<dyn Signer>, Failure> {
        let signer = self.signing.choose_scheme(&[self.kind.scheme()]);
        signer
            .ok_or_else(|| broken(format!("sign with {}: the key does not sign that way", self.kind.name())))
    }
}

struct Sign(Box<dyn Signer>);

impl Operation for Sign {
    fn run(&mut self) -> Result<(), Failure> {
        self.0.sign(&[b' '; SIGNED]).map(drop).map_err(|error| broken(format!("sign: {error}")))
    }
}

struct Verify {
    algorithm: &'static dyn SignatureVerificationAlgorithm,
    public: Vec<u8>,
    signature: Vec<u8>,
}

impl Verify {
    fn new(key: &SignatureKey) -> Result<Self, Failure> {
        let signature =
            key.signer()?.sign(&[b' '; SIGNED]).map_err(|error| broken(format!("sign: {error}")))?;
        let known = default_provider().signature_verification_algorithms;
        let of_scheme = known.mapping.iter().find(|(scheme, _)| *scheme == key.kind.scheme());
        // Of several for one scheme the one for this key's curve is the one that succeeds.
        let fits = |algorithm: &&&'static dyn SignatureVerificationAlgorithm| {
            algorithm.verify_signature(&key.public, &[b' '; SIGNED], &signature).is_ok()
        };
        let algorithm = of_scheme.and_then(|(_, algorithms)| algorithms.iter().find(fits)).copied();
        let algorithm = algorithm
            .ok_or_else(|| broken(format!("verify {}: the signature is refused", key.kind.name())))?;
        Ok(Self { algorithm, public: key.public.clone(), signature })
    }
}

impl Operation for Verify {
    fn run(&mut self) -> Result<(), Failure> {
        let good = self.algorithm.verify_signature(&self.public, &[b' '; SIGNED], &self.signature);
        good.map_err(|_| broken("verify: the signature is refused"))
    }
}

struct Share(&'static dyn SupportedKxGroup);

impl Operation for Share {
    fn run(&mut self) -> Result<(), Failure> {
        self.0.start().map(drop).map_err(exchange)
    }
}

struct Agree {
    group: &'static dyn SupportedKxGroup,
    /// Our share, and the peer's answer to it; each can be used once.
    started: Vec<(Box<dyn ActiveKeyExchange>, Vec<u8>)>,
}

impl Operation for Agree {
    fn prepare(&mut self, times: usize) -> Result<(), Failure> {
        while self.started.len() < times {
            let ours = self.group.start().map_err(exchange)?;
            let answer = self.group.start_and_complete(ours.pub_key()).map_err(exchange)?;
            self.started.push((ours, answer.pub_key));
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), Failure> {
        let (ours, answer) = self.started.pop().ok_or_else(|| broken("key exchange: not prepared"))?;
        ours.complete(&answer).map(drop).map_err(exchange)
    }
}

struct KeyShareReply {
    group: &'static dyn SupportedKxGroup,
    share: Vec<u8>,
}

impl KeyShareReply {
    fn new(group: Group) -> Result<Self, Failure> {
        let group = group.exchange()?;
        let share = group.start().map_err(exchange)?.pub_key().to_vec();
        Ok(Self { group, share })
    }
}

impl Operation for KeyShareReply {
    fn run(&mut self) -> Result<(), Failure> {
        self.group.start_and_complete(&self.share).map(drop).map_err(exchange)
    }
}

/// A record's nonce: no two are alike, as in a session.
fn nonce(count: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&count.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

struct Seal {
    key: LessSafeKey,
    count: u64,
    record: Vec<u8>,
}

impl Operation for Seal {
    fn run(&mut self) -> Result<(), Failure> {
        self.count += 1;
        let tag = self.key.seal_in_place_separate_tag(nonce(self.count), Aad::from(HEADER), &mut self.record);
        tag.map(drop).map_err(|_| broken("seal a record: the library refuses"))
    }
}

struct Open {
    key: LessSafeKey,
    record: Vec<u8>,
    tag: Vec<u8>,
    plaintext: Vec<u8>,
}

impl Open {
    fn new(cipher: Cipher, size: usize) -> Result<Self, Failure> {
        let mut record = vec![5; size];
        let key = cipher.key()?;
        let tag = key
            .seal_in_place_separate_tag(nonce(0), Aad::from(HEADER), &mut record)
            .map_err(|_| broken("seal a record: the library refuses"))?;
        Ok(Self { key, record, tag: tag.as_ref().to_vec(), plaintext: vec![0; size] })
    }
}

impl Operation for Open {
    fn run(&mut self) -> Result<(), Failure> {
        let (aad, out) = (Aad::from(HEADER), &mut self.plaintext);
        let opened = self.key.open_separate_gather(nonce(0), aad, &self.record, &self.tag, out);
        opened.map_err(|_| broken("open a record: the library refuses"))
    }
}

struct Hash(Vec<u8>);

impl Operation for Hash {
    fn run(&mut self) -> Result<(), Failure> {
        std::hint::black_box(digest(&SHA256, &self.0));
        Ok(())
    }
}

fn exchange(error: rustls::Error) -> Failure {
    broken(format!("key exchange: {error}"))
}

fn broken(detail: impl Into<Box<str>>) -> Failure {
    Failure::new(FailureKind::Ourselves, detail)
}

#[cfg(test)]
mod tests;
