//! Password protection in PKCS#12: derived keys, decryption, and the code that authenticates the file.
//!
//! In: an AlgorithmIdentifier and bytes. Out: the plaintext, or why not.
//!
//! PBES2 (the default of OpenSSL 3 and of Java) is by aws-lc. Triple DES and RC2, which older programs write and Windows
//! writes still, are in no library that is here otherwise.

use std::num::NonZeroU32;

use aws_lc_rs::cipher::{
    AES_128, AES_128_KEY_LEN, AES_192, AES_192_KEY_LEN, AES_256, AES_256_KEY_LEN, DecryptionContext,
    PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::digest::{self, Context};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{constant_time, hmac, pbkdf2};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt as _, KeyIvInit as _};
use zeroize::Zeroizing;

use super::{Fault, Secret};
use crate::der::{Der, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};

/// Rounds of key derivation for one file, in all. OpenSSL and Windows use 2,000 rounds for each key, Java 10,000, and GnuTLS 600,000 for
/// MAC, private key and each certificate, of which triple DES takes three times as many: 7.8 million for a chain of three.
/// A round takes 0.1 to 0.2 µs.
pub(super) const WORK: u32 = 10_000_000;
/// Bytes of salt: programs use 8 to 32.
const SALT: usize = 1024;

/// The prefix 1.2.840.113549, RSA Security.
const RSA: [u8; 6] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d];
/// The prefix 2.16.840.1.101.3.4, NIST.
const NIST: [u8; 7] = [0x60, 0x86, 0x48, 1, 0x65, 3, 4];

/// A password in the two forms in which it is used.
#[derive(Clone, Copy)]
pub(super) struct Password {
    /// For the older algorithms: UTF-16 with a zero at its end (RFC 7292 §B.1).
    wide: &'static [u8],
}

/// Purpose of a derived key (RFC 7292 §B.3).
#[derive(Clone, Copy)]
enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// A cipher of PBES2 or of PKCS#12.
#[derive(Clone, Copy)]
enum Cipher {
    Aes(&'static aws_lc_rs::cipher::Algorithm, usize),
    TripleDes,
    Rc2(usize),
}

impl Password {
    /// The empty password as most programs have it, and as some others do.
    pub(super) const EMPTY: [Self; 2] = [Self { wide: &[0, 0] }, Self { wide: &[] }];

    /// Verifies the code that authenticates `data`.
    ///
    /// **Errors**: [`Fault::Password`] if it is another one.
    pub(super) fn verify(self, mut mac: Der<'_>, data: &[u8], work: &mut u32) -> Result<(), Fault> {
        let mut info = Der(mac.expect(SEQUENCE).ok_or(Fault::Damaged)?);
        let mut algorithm = Der(info.expect(SEQUENCE).ok_or(Fault::Damaged)?);
        let expected = info.expect(OCTET_STRING).ok_or(Fault::Damaged)?;
        let salt = mac.expect(OCTET_STRING).filter(|salt| salt.len() <= SALT).ok_or(Fault::Damaged)?;
        let rounds = mac.optional(INTEGER).map_or(Some(NonZeroU32::MIN), number).ok_or(Fault::Damaged)?;
        let identifier = algorithm.expect(OBJECT_IDENTIFIER).ok_or(Fault::Damaged)?;
        let unknown = || Fault::Algorithm(identifier.into());
        let (hash, key) = if identifier.strip_prefix(&RSA) == Some(&[1, 5, 14]) {
            pbmac1(&mut algorithm, work)?
        } else {
            let (digest, hash) = hash(identifier).ok_or_else(unknown)?;
            (hash, self.derive(digest, Purpose::Mac, salt, rounds, digest.output_len(), work)?)
        };
        let code = hmac::sign(&hmac::Key::new(hash, &key), data);
        constant_time::verify_slices_are_equal(code.as_ref(), expected).map_err(|_| Fault::Password)
    }

    /// Decrypts `bytes`.
    ///
    /// **Errors**: [`Fault::Password`] if the result is not padded as it should be.
    pub(super) fn decrypt(
        self,
        mut algorithm: Der<'_>,
        bytes: &[u8],
        work: &mut u32,
    ) -> Result<Secret, Fault> {
        let identifier = algorithm.expect(OBJECT_IDENTIFIER).ok_or(Fault::Damaged)?;
        let mut parameters = Der(algorithm.expect(SEQUENCE).ok_or(Fault::Damaged)?);
        let rsa = identifier.strip_prefix(&RSA);
        if rsa == Some(&[1, 5, 13]) {
            let (cipher, key, iv) = pbes2(&mut parameters, work)?;
            return cipher.decrypt(&key, &iv, bytes);
        }
        let cipher = match rsa {
            Some([1, 12, 1, 3]) => Cipher::TripleDes,
            Some([1, 12, 1, 5]) => Cipher::Rc2(16),
            Some([1, 12, 1, 6]) => Cipher::Rc2(5),
            _ => return Err(Fault::Algorithm(identifier.into())),
        };
        let salt = parameters.expect(OCTET_STRING).filter(|salt| salt.len() <= SALT).ok_or(Fault::Damaged)?;
        let rounds = parameters.expect(INTEGER).and_then(number).ok_or(Fault::Damaged)?;
        let mut derive = |purpose, bytes| {
            self.derive(&digest::SHA1_FOR_LEGACY_USE_ONLY, purpose, salt, rounds, bytes, work)
        };
        let (key, iv) = (derive(Purpose::Key, cipher.key_bytes())?, derive(Purpose::Iv, 8)?);
        cipher.decrypt(&key, &iv, bytes)
    }

    /// Derives `length` bytes as PKCS#12 does.
    ///
    /// **Source**: RFC 7292 §B.2, with its letters.
    fn derive(
        self,
        hash: &'static digest::Algorithm,
        purpose: Purpose,
        salt: &[u8],
        rounds: NonZeroU32,
        length: usize,
        work: &mut u32,
    ) -> Result<Secret, Fault> {
        let (u, v) = (hash.output_len(), hash.block_len());
        let fill = |from: &[u8]| {
            let length = from.len().next_multiple_of(v);
            from.iter().copied().cycle().take(length).collect::<Vec<u8>>()
        };
        let mut i = Zeroizing::new([fill(salt), fill(self.wide)].concat());
        let mut derived = Zeroizing::new(Vec::with_capacity(length + u));
        while derived.len() < length {
            spend(rounds, work)?;
            let mut context = Context::new(hash);
            context.update(&vec![purpose as u8; v]);
            context.update(&i);
            let mut a = context.finish();
            for _ in 1..rounds.get() {
                a = digest::digest(hash, a.as_ref());
            }
            derived.extend_from_slice(a.as_ref());
            let b: Vec<u8> = a.as_ref().iter().copied().cycle().take(v).collect();
            for block in i.chunks_exact_mut(v) {
                // block = block + B + 1, as big-endian numbers.
                let mut carry = 1_u16;
                for (byte, other) in block.iter_mut().zip(&b).rev() {
                    carry += u16::from(*byte) + u16::from(*other);
                    [_, *byte] = carry.to_be_bytes();
                    carry >>= 8;
                }
            }
        }
        derived.truncate(length);
        Ok(derived)
    }
}

impl Cipher {
    fn key_bytes(self) -> usize {
        match self {
            Self::Aes(_, bytes) | Self::Rc2(bytes) => bytes,
            Self::TripleDes => 24,
        }
    }

    /// Decrypts in CBC mode with the padding of PKCS#7.
    fn decrypt(self, key: &[u8], iv: &[u8], bytes: &[u8]) -> Result<Secret, Fault> {
        let mut plain = Zeroizing::new(bytes.to_vec());
        let length = match self {
            Self::Aes(algorithm, _) => {
                let iv: [u8; 16] = iv.try_into().map_err(|_| Fault::Damaged)?;
                let key = UnboundCipherKey::new(algorithm, key).and_then(PaddedBlockDecryptingKey::cbc_pkcs7);
                let key = key.map_err(|_| Fault::Damaged)?;
                let context = DecryptionContext::Iv128(FixedLength::from(&iv));
                key.decrypt(&mut plain, context).map_err(|_| Fault::Password)?.len()
            }
            Self::TripleDes => {
                let cipher = cbc::Decryptor::<des::TdesEde3>::new_from_slices(key, iv);
                let cipher = cipher.map_err(|_| Fault::Damaged)?;
                cipher.decrypt_padded::<Pkcs7>(&mut plain).map_err(|_| Fault::Password)?.len()
            }
            Self::Rc2(_) => {
                let cipher = cbc::Decryptor::<rc2::Rc2>::new_from_slices(key, iv);
                let cipher = cipher.map_err(|_| Fault::Damaged)?;
                cipher.decrypt_padded::<Pkcs7>(&mut plain).map_err(|_| Fault::Password)?.len()
            }
        };
        plain.truncate(length);
        Ok(plain)
    }
}

/// The cipher of PBES2, its key and its initialization vector.
///
/// **Source**: RFC 8018 §A.4.
fn pbes2(parameters: &mut Der<'_>, work: &mut u32) -> Result<(Cipher, Secret, Vec<u8>), Fault> {
    let derivation = Der(parameters.expect(SEQUENCE).ok_or(Fault::Damaged)?);
    let mut scheme = Der(parameters.expect(SEQUENCE).ok_or(Fault::Damaged)?);
    let identifier = scheme.expect(OBJECT_IDENTIFIER).ok_or(Fault::Damaged)?;
    let iv = scheme.expect(OCTET_STRING).ok_or(Fault::Damaged)?.to_vec();
    let cipher = match (identifier.strip_prefix(&NIST), identifier.strip_prefix(&RSA)) {
        (Some([1, 2]), _) => Cipher::Aes(&AES_128, AES_128_KEY_LEN),
        (Some([1, 22]), _) => Cipher::Aes(&AES_192, AES_192_KEY_LEN),
        (Some([1, 42]), _) => Cipher::Aes(&AES_256, AES_256_KEY_LEN),
        (_, Some([3, 7])) => Cipher::TripleDes,
        _ => return Err(Fault::Algorithm(identifier.into())),
    };
    let key = pbkdf2(derivation, cipher.key_bytes(), work)?;
    Ok((cipher, key, iv))
}

/// The hash and the key of a PBMAC1, which newer programs write.
///
/// **Source**: RFC 9579 §5.
fn pbmac1(algorithm: &mut Der<'_>, work: &mut u32) -> Result<(hmac::Algorithm, Secret), Fault> {
    let mut parameters = Der(algorithm.expect(SEQUENCE).ok_or(Fault::Damaged)?);
    let derivation = Der(parameters.expect(SEQUENCE).ok_or(Fault::Damaged)?);
    let mut scheme = Der(parameters.expect(SEQUENCE).ok_or(Fault::Damaged)?);
    let identifier = scheme.expect(OBJECT_IDENTIFIER).ok_or(Fault::Damaged)?;
    let (_, hash) = keyed_hash(identifier).ok_or_else(|| Fault::Algorithm(identifier.into()))?;
    Ok((hash, pbkdf2(derivation, hash.digest_algorithm().output_len(), work)?))
}

/// Derives a key from the empty password, whose bytes are none here.
///
/// **Source**: RFC 8018 §A.2.
fn pbkdf2(mut algorithm: Der<'_>, length: usize, work: &mut u32) -> Result<Secret, Fault> {
    let identifier = algorithm.expect(OBJECT_IDENTIFIER).ok_or(Fault::Damaged)?;
    if identifier.strip_prefix(&RSA) != Some(&[1, 5, 12]) {
        return Err(Fault::Algorithm(identifier.into()));
    }
    let mut parameters = Der(algorithm.expect(SEQUENCE).ok_or(Fault::Damaged)?);
    let salt = parameters.expect(OCTET_STRING).filter(|salt| salt.len() <= SALT).ok_or(Fault::Damaged)?;
    let rounds = parameters.expect(INTEGER).and_then(number).ok_or(Fault::Damaged)?;
    // The cipher determines the length of its key.
    parameters.optional(INTEGER);
    let (function, hash) = match parameters.optional(SEQUENCE) {
        Some(function) => {
            let identifier = Der(function).expect(OBJECT_IDENTIFIER).ok_or(Fault::Damaged)?;
            keyed_hash(identifier).ok_or_else(|| Fault::Algorithm(identifier.into()))?
        }
        None => (pbkdf2::PBKDF2_HMAC_SHA1, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
    };
    // Each block of the hash's length takes all rounds.
    for _ in 0..length.div_ceil(hash.digest_algorithm().output_len()) {
        spend(rounds, work)?;
    }
    let mut key = Zeroizing::new(vec![0; length]);
    pbkdf2::derive(function, rounds, salt, b"", &mut key);
    Ok(key)
}

/// The hash of this name.
fn hash(identifier: &[u8]) -> Option<(&'static digest::Algorithm, hmac::Algorithm)> {
    Some(match (identifier.strip_prefix(&NIST), identifier) {
        // 1.3.14.3.2.26
        (_, [0x2b, 0x0e, 3, 2, 0x1a]) => {
            (&digest::SHA1_FOR_LEGACY_USE_ONLY, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY)
        }
        (Some([2, 4]), _) => (&digest::SHA224, hmac::HMAC_SHA224),
        (Some([2, 1]), _) => (&digest::SHA256, hmac::HMAC_SHA256),
        (Some([2, 2]), _) => (&digest::SHA384, hmac::HMAC_SHA384),
        (Some([2, 3]), _) => (&digest::SHA512, hmac::HMAC_SHA512),
        _ => return None,
    })
}

/// The keyed hash of this name: 1.2.840.113549.2.
fn keyed_hash(identifier: &[u8]) -> Option<(pbkdf2::Algorithm, hmac::Algorithm)> {
    Some(match identifier.strip_prefix(&RSA)? {
        [2, 7] => (pbkdf2::PBKDF2_HMAC_SHA1, hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
        [2, 9] => (pbkdf2::PBKDF2_HMAC_SHA256, hmac::HMAC_SHA256),
        [2, 10] => (pbkdf2::PBKDF2_HMAC_SHA384, hmac::HMAC_SHA384),
        [2, 11] => (pbkdf2::PBKDF2_HMAC_SHA512, hmac::HMAC_SHA512),
        _ => return None,
    })
}

/// A positive INTEGER of at most 32 bits.
fn number(bytes: &[u8]) -> Option<NonZeroU32> {
    if bytes.first()? & 0x80 != 0 || bytes.len() > 5 {
        return None;
    }
    let number = bytes.iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    NonZeroU32::new(u32::try_from(number).ok()?)
}

/// Counts rounds before they are made.
fn spend(rounds: NonZeroU32, work: &mut u32) -> Result<(), Fault> {
    *work = work.checked_sub(rounds.get()).ok_or(Fault::TooMuchWork(WORK))?;
    Ok(())
}
