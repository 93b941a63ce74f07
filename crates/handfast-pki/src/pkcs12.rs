//! PKCS#12 files (PFX): certificates and keys in one file, as Windows, Java and `openssl pkcs12 -export` write it.
//!
//! In: a file's bytes. Out: certificates and keys in DER, or why they cannot be read. Only files with an empty password
//! are read: there is no other place for one. The ciphers and hashes are those of `pkcs12/decryption.rs`.
//!
//! Each entry of a file may have its own key derivation, also inside of encrypted parts, so one bound for all of them
//! limits the work: see [`decryption::WORK`].
//!
//! **Source**: RFC 7292 (PKCS#12), RFC 8018 (PBES2), RFC 9579 (PBMAC1).

use std::fmt;

use zeroize::Zeroizing;

use crate::der::{Der, INTEGER, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};
use decryption::Password;

mod decryption;

/// `[0] EXPLICIT` and a constructed `[0] IMPLICIT`.
const FIRST: u8 = 0xa0;
/// A primitive `[0] IMPLICIT`.
const FIRST_BYTES: u8 = 0x80;

/// 1.2.840.113549.1.7.1
const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
/// 1.2.840.113549.1.7.6
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 6];
/// The last arc of 1.2.840.113549.1.12.10.1, the types of entries, follows.
const BAGS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1];
const KEY_BAG: u8 = 1;
const ENCRYPTED_KEY_BAG: u8 = 2;
const CERTIFICATE_BAG: u8 = 3;
/// 1.2.840.113549.1.9.22.1
const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 22, 1];

/// Bytes that are erased when they are dropped.
type Secret = Zeroizing<Vec<u8>>;

/// Entries of a file, in its order.
#[derive(Default)]
pub(crate) struct Entries {
    pub(crate) certificates: Vec<Box<[u8]>>,
    /// In PKCS#8.
    pub(crate) keys: Vec<Secret>,
    /// Number of entries that are neither: revocation lists, secrets.
    pub(crate) others: usize,
}

/// Reason why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not follow the format.
    Damaged,
    /// The empty password is not its password.
    Password,
    /// Its key derivations have more rounds than this number.
    TooMuchWork(u32),
    /// An algorithm that is not known here.
    Algorithm(Box<[u8]>),
}

/// Bytes of the object identifier of an algorithm; those of PKCS#12 have up to ten.
const MAX_IDENTIFIER_BYTES: usize = 12;

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => f.write_str("is PKCS#12 that is damaged, or that is not in DER"),
            Self::Password => f.write_str("is PKCS#12 with a password, expected an empty one"),
            Self::TooMuchWork(rounds) => {
                write!(f, "is PKCS#12 with more than {rounds} rounds of key derivation in all")
            }
            // In a damaged file it may be anything.
            Self::Algorithm(identifier) if identifier.len() > MAX_IDENTIFIER_BYTES => {
                f.write_str("is PKCS#12 with an unknown algorithm, which is not supported")
            }
            Self::Algorithm(identifier) => {
                write!(f, "is PKCS#12 with the algorithm {}, which is not supported", dotted(identifier))
            }
        }
    }
}

/// Returns true if a file begins like PKCS#12: with a SEQUENCE that begins with the version, which is 3 (RFC 7292 §4).
pub(crate) fn is_one(bytes: &[u8]) -> bool {
    const VERSION: [u8; 3] = [INTEGER, 1, 3];
    let header = match bytes {
        // Indefinite length, or one byte.
        [SEQUENCE, 0..=0x80, ..] => 2,
        [SEQUENCE, length @ 0x81..=0x84, ..] => 2 + usize::from(length & 0x7f),
        _ => return false,
    };
    bytes.get(header..).is_some_and(|rest| rest.starts_with(&VERSION))
}

/// Reads the entries of a file.
///
/// **Cost**: at most [`decryption::WORK`] rounds of key derivation, a second or two; usually a millisecond.
pub(crate) fn read(bytes: &[u8]) -> Result<Entries, Fault> {
    let mut whole = Der(bytes);
    let mut file = Der(whole.expect(SEQUENCE).filter(|_| whole.is_empty()).ok_or(Fault::Damaged)?);
    file.expect(INTEGER).filter(|version| *version == [3]).ok_or(Fault::Damaged)?;
    let mut safe = Der(file.expect(SEQUENCE).ok_or(Fault::Damaged)?);
    match safe.expect(OBJECT_IDENTIFIER) {
        Some(DATA) => {}
        // Signed by a key instead of a password (RFC 7292 §4): no program is known that writes it.
        Some(other) => return Err(Fault::Algorithm(other.into())),
        None => return Err(Fault::Damaged),
    }
    let data = explicit_bytes(&mut safe)?;
    let mac = file.optional(SEQUENCE);
    let mut work = decryption::WORK;
    // Programs disagree about the empty password, and only older algorithms make a difference between its two forms.
    let mut result = Err(Fault::Password);
    for password in Password::EMPTY {
        result = match mac.map(|mac| password.verify(Der(mac), data, &mut work)) {
            Some(Err(fault)) => Err(fault),
            None | Some(Ok(())) => entries(data, password, &mut work),
        };
        if !matches!(result, Err(Fault::Password)) {
            break;
        }
    }
    result
}

/// The entries of all parts.
fn entries(data: &[u8], password: Password, work: &mut u32) -> Result<Entries, Fault> {
    let mut found = Entries::default();
    let mut all = Der(data);
    let mut parts = Der(all.expect(SEQUENCE).ok_or(Fault::Damaged)?);
    while !parts.is_empty() {
        let mut part = Der(parts.expect(SEQUENCE).ok_or(Fault::Damaged)?);
        match part.expect(OBJECT_IDENTIFIER) {
            Some(DATA) => found.take(explicit_bytes(&mut part)?, password, work)?,
            Some(ENCRYPTED_DATA) => found.take(&encrypted(&mut part, password, work)?, password, work)?,
            Some(other) => return Err(Fault::Algorithm(other.into())),
            None => return Err(Fault::Damaged),
        }
    }
    Ok(found)
}

/// The bytes of an OCTET STRING that is `[0] EXPLICIT`.
fn explicit_bytes<'a>(from: &mut Der<'a>) -> Result<&'a [u8], Fault> {
    let inner = from.expect(FIRST).ok_or(Fault::Damaged)?;
    Der(inner).expect(OCTET_STRING).ok_or(Fault::Damaged)
}

/// The content of a part that is encrypted as a whole.
///
/// **Source**: RFC 5652 §8 (EncryptedData).
fn encrypted(part: &mut Der<'_>, password: Password, work: &mut u32) -> Result<Secret, Fault> {
    let read = |part: &mut Der<'_>| {
        let mut outer = Der(part.expect(FIRST)?);
        let mut data = Der(outer.expect(SEQUENCE)?);
        data.expect(INTEGER)?;
        let mut content = Der(data.expect(SEQUENCE)?);
        content.expect(OBJECT_IDENTIFIER)?;
        let algorithm = content.expect(SEQUENCE)?;
        let bytes = content.expect(FIRST_BYTES)?;
        Some((algorithm.to_vec(), bytes.to_vec()))
    };
    let (algorithm, bytes) = read(part).ok_or(Fault::Damaged)?;
    password.decrypt(Der(&algorithm), &bytes, work)
}

impl Entries {
    /// Takes the entries of one part.
    fn take(&mut self, content: &[u8], password: Password, work: &mut u32) -> Result<(), Fault> {
        let mut all = Der(content);
        // A wrong password may leave a padding that looks right: 1 in 256.
        let mut bags = Der(all.expect(SEQUENCE).ok_or(Fault::Damaged)?);
        while !bags.is_empty() {
            let mut bag = Der(bags.expect(SEQUENCE).ok_or(Fault::Damaged)?);
            let kind = bag.expect(OBJECT_IDENTIFIER).ok_or(Fault::Damaged)?;
            let mut value = Der(bag.expect(FIRST).ok_or(Fault::Damaged)?);
            match kind.strip_prefix(BAGS) {
                Some([KEY_BAG]) => self.keys.push(Zeroizing::new(value.0.to_vec())),
                Some([ENCRYPTED_KEY_BAG]) => {
                    let mut info = Der(value.expect(SEQUENCE).ok_or(Fault::Damaged)?);
                    let algorithm = Der(info.expect(SEQUENCE).ok_or(Fault::Damaged)?);
                    let bytes = info.expect(OCTET_STRING).ok_or(Fault::Damaged)?;
                    self.keys.push(password.decrypt(algorithm, bytes, work)?);
                }
                Some([CERTIFICATE_BAG]) => {
                    let mut info = Der(value.expect(SEQUENCE).ok_or(Fault::Damaged)?);
                    match info.expect(OBJECT_IDENTIFIER) {
                        Some(X509) => self.certificates.push(explicit_bytes(&mut info)?.into()),
                        Some(_) => self.others += 1,
                        None => return Err(Fault::Damaged),
                    }
                }
                _ => self.others += 1,
            }
        }
        Ok(())
    }
}

/// An object identifier as people write it.
fn dotted(identifier: &[u8]) -> String {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in identifier {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            if numbers.is_empty() {
                let first = (number / 40).min(2);
                numbers.push(first.to_string());
                number -= first * 40;
            }
            numbers.push(number.to_string());
            number = 0;
        }
    }
    numbers.join(".")
}

#[cfg(test)]
mod tests;
