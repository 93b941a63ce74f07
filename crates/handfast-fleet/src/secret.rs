//! The one secret of a fleet, and messages sealed with it.
//!
//! In: a file with 64 hexadecimal digits. Out: sealed bytes:
//!
//! ```text
//! version (1) | salt (16) | encrypted message | tag (16)
//! ```
//!
//! Each message has its own AES-256-GCM key, HKDF-SHA256 (RFC 5869) of the secret with a random salt, so no nonce is used twice whatever the
//! machines do: the nonce is always zero. The version and the fleet's name are authenticated with it.

use std::fmt;
use std::io;
use std::path::Path;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, MAX_TAG_LEN, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand;
use data_encoding::HEXLOWER_PERMISSIVE;
use handfast_bus::read_private;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

const VERSION: u8 = 1;
const SALT_LENGTH: usize = 16;
const KEY_LENGTH: usize = 32;

/// Secret of a fleet. Any holder can read and forge all messages of its machines.
#[derive(PartialEq, Eq)]
pub struct Secret(Zeroizing<[u8; KEY_LENGTH]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Distinguishes fleets: see [`Secret::tag`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag([u8; 16]);

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl Secret {
    /// Reads it.
    ///
    /// **Errors**: a file that cannot be read, that others may read, or that has no 64 hexadecimal digits.
    pub fn read(path: &Path) -> io::Result<Self> {
        let (text, others_can_read) = read_private(path)?;
        let text = Zeroizing::new(text);
        if others_can_read {
            return Err(io::Error::other("others on this machine can read it: chmod 600"));
        }
        let wrong =
            || io::Error::other("expected 64 hexadecimal digits, as `handfast fleet setup` writes them");
        let bytes = HEXLOWER_PERMISSIVE.decode(text.trim().as_bytes()).map_err(|_| wrong())?;
        let bytes = Zeroizing::new(bytes);
        let secret: [u8; KEY_LENGTH] = bytes[..].try_into().map_err(|_| wrong())?;
        if secret.iter().all(|byte| *byte == secret[0]) {
            return Err(io::Error::other("every byte of it is the same, so it can be guessed"));
        }
        Ok(Self(Zeroizing::new(secret)))
    }

    /// A new one, as the text of a file. **Errors**: the system has no random numbers.
    pub fn fresh_text() -> io::Result<String> {
        let mut bytes = Zeroizing::new([0; KEY_LENGTH]);
        rand::fill(&mut bytes[..]).map_err(|_| io::Error::other("the system has no random numbers"))?;
        Ok(HEXLOWER_PERMISSIVE.encode(&bytes[..]) + "\n")
    }

    /// Returns a tag that distinguishes the fleet of this name and secret from others, and does not reveal the secret.
    pub fn tag(&self, fleet: &str) -> Tag {
        let root = Salt::new(HKDF_SHA256, &[]).extract(&self.0[..]);
        let mut tag = Tag::default();
        // Cannot fail: the length is that of one block.
        let info: [&[u8]; 2] = [b"handfast fleet tag 1 ", fleet.as_bytes()];
        let _ = root.expand(&info, Length(tag.0.len())).and_then(|okm| okm.fill(&mut tag.0));
        tag
    }

    /// Seals a message. `None`: the system has no random numbers.
    pub fn seal(&self, fleet: &str, message: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT_LENGTH];
        rand::fill(&mut salt).ok()?;
        let key = self.key(fleet, &salt)?;
        let mut sealed = Vec::with_capacity(1 + SALT_LENGTH + message.len() + MAX_TAG_LEN);
        sealed.push(VERSION);
        sealed.extend_from_slice(&salt);
        sealed.extend_from_slice(message);
        let plain = &mut sealed[1 + SALT_LENGTH..];
        let tag = key.seal_in_place_separate_tag(nonce(), aad(fleet), plain).ok()?;
        sealed.extend_from_slice(tag.as_ref());
        Some(sealed)
    }

    /// Opens one. `None`: it was not sealed with this secret for this fleet, or was changed.
    pub fn open(&self, fleet: &str, sealed: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let (version, rest) = sealed.split_first()?;
        let (salt, encrypted) = rest.split_first_chunk::<SALT_LENGTH>()?;
        let key = self.key(fleet, salt).filter(|_| *version == VERSION)?;
        let mut plain = Zeroizing::new(encrypted.to_vec());
        let length = key.open_in_place(nonce(), aad(fleet), &mut plain).ok()?.len();
        plain.truncate(length);
        Some(plain)
    }

    fn key(&self, fleet: &str, salt: &[u8; SALT_LENGTH]) -> Option<LessSafeKey> {
        let root = Salt::new(HKDF_SHA256, salt).extract(&self.0[..]);
        let mut key = Zeroizing::new([0; KEY_LENGTH]);
        let info: [&[u8]; 2] = [b"handfast fleet message 1 ", fleet.as_bytes()];
        root.expand(&info, Length(KEY_LENGTH)).and_then(|okm| okm.fill(&mut key[..])).ok()?;
        Some(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &key[..]).ok()?))
    }
}

/// Of a key that seals one message.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

fn aad(fleet: &str) -> Aad<Vec<u8>> {
    Aad::from([&[VERSION], fleet.as_bytes()].concat())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    pub(crate) fn secret(byte: u8) -> Secret {
        Secret(Zeroizing::new([byte; KEY_LENGTH]))
    }

    #[test]
    fn only_the_same_secret_and_fleet_open_it_and_no_byte_may_change() {
        let sealed = secret(1).seal("blue", b"the keys").expect("random");
        assert_eq!(secret(1).open("blue", &sealed).as_deref(), Some(&b"the keys".to_vec()));
        assert!(secret(2).open("blue", &sealed).is_none() && secret(1).open("red", &sealed).is_none());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(secret(1).open("blue", &changed).is_none(), "byte {place}");
            assert!(secret(1).open("blue", &sealed[..place]).is_none(), "{place} bytes");
        }
        assert_ne!(secret(1).seal("blue", b"x"), secret(1).seal("blue", b"x"), "each has a separate key");
    }

    #[test]
    fn another_secret_or_name_is_another_fleet() {
        let tag = secret(1).tag("blue");
        assert_eq!(tag, secret(1).tag("blue"));
        assert!(tag != secret(2).tag("blue") && tag != secret(1).tag("red") && tag != Tag::default());
    }

    #[test]
    fn a_file_is_taken_only_if_it_is_a_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("fleet.secret");
        let write = |text: &str, mode| {
            fs::File::create(&path).and_then(|mut file| file.write_all(text.as_bytes())).expect("it is ours");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
            Secret::read(&path).map_err(|error| error.to_string())
        };
        let text = Secret::fresh_text().expect("random");
        assert!(write(&text, 0o600).is_ok() && write(&text.to_uppercase(), 0o400).is_ok());
        assert!(write(&text, 0o644).is_err_and(|error| error.contains("others on this machine")));
        assert!(write(&text[2..], 0o600).is_err_and(|error| error.contains("64 hexadecimal")));
        assert!(write("password\n", 0o600).is_err());
        assert!(write(&"0".repeat(64), 0o600).is_err_and(|error| error.contains("guess")));
    }
}
