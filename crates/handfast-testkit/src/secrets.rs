//! Private keys as they lie in memory, and a search for them. In: certificates with their keys, and a process or a file. Out: which
//! of their secrets are in there.

use std::fs::{self, File};
use std::io::BufRead;
use std::os::unix::fs::FileExt;

use crate::certificates::Identity;
use crate::process::Process;

/// Name and value of a secret.
pub type Secret = (&'static str, Vec<u8>);

/// The content of a DER value at the beginning, and what follows it.
fn der(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = match bytes[1] {
        short @ 0..0x80 => (usize::from(short), &bytes[2..]),
        long => {
            let (length, rest) = bytes[2..].split_at(usize::from(long & 0x7f));
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
    };
    rest.split_at(length)
}

/// Values inside a PKCS #8 key: those of its RSAPrivateKey or ECPrivateKey.
fn inner(identity: &Identity) -> Vec<Vec<u8>> {
    let (mut left, mut values) = (der(&identity.key).0, Vec::new());
    for _ in 0..2 {
        left = der(left).1;
    }
    left = der(der(left).0).0;
    while !left.is_empty() {
        let (value, rest) = der(left);
        values.push(value.to_vec());
        left = rest;
    }
    values
}

/// A number of a key in the order of the DER, and of the numbers in the library's memory; a line of the key's PEM.
fn forms(name: &'static str, number: &[u8], identity: &Identity) -> [Secret; 3] {
    let first = number.iter().position(|byte| *byte != 0).expect("it is not zero");
    let number = number[first..].to_vec();
    assert!(number.len() >= 30, "{name}: {} bytes", number.len());
    let line = identity.key_pem.lines().nth(2).expect("a key has several lines");
    [(name, number.iter().rev().copied().collect()), (name, number), ("PEM text", line.as_bytes().to_vec())]
}

/// Everything that is secret of an RSA key.
pub fn of_rsa(identity: &Identity) -> impl Iterator<Item = Secret> {
    let numbers = inner(identity);
    [("the RSA exponent d", 3), ("the RSA prime p", 4), ("the RSA prime q", 5)]
        .into_iter()
        .flat_map(|(name, place)| forms(name, &numbers[place], identity))
        .collect::<Vec<_>>()
        .into_iter()
}

/// Everything that is secret of an EC key that is known by its DER (PKCS #8), called so.
pub fn of_pkcs8(name: &'static str, key: &[u8]) -> Vec<Secret> {
    let mut left = der(key).0;
    for _ in 0..2 {
        left = der(left).1;
    }
    let (_, rest) = der(der(der(left).0).0);
    let number = der(rest).0.to_vec();
    assert_eq!(number.len(), 32, "{name}");
    vec![(name, number.iter().rev().copied().collect()), (name, number)]
}

/// Everything that is secret of an EC key, called so.
pub fn of_ec(name: &'static str, identity: &Identity) -> impl Iterator<Item = Secret> {
    forms(name, &inner(identity)[1], identity).into_iter()
}

/// Returns true if `secret` is somewhere in `bytes`, found by its first byte: there are many millions of them.
fn holds(bytes: &[u8], secret: &[u8]) -> bool {
    let mut left = bytes;
    while left.skip_until(secret[0]).is_ok_and(|skipped| skipped > 0) {
        if bytes[bytes.len() - left.len() - 1..].starts_with(secret) {
            return true;
        }
    }
    false
}

/// Names of the secrets that are in a process's memory.
pub fn found_in(process: Process, secrets: &[Secret]) -> Vec<&'static str> {
    let memory = File::open(format!("/proc/{}/mem", process.0)).expect("root may");
    let maps = fs::read_to_string(format!("/proc/{}/maps", process.0)).expect("it lives");
    let (mut found, mut seen) = (Vec::new(), 0);
    for line in maps.lines().filter(|line| line.contains(" r") && !line.contains("[v")) {
        let range = line.split(' ').next().expect("a range").split_once('-').expect("two ends");
        let [from, to] = [range.0, range.1].map(|end| u64::from_str_radix(end, 16).expect("hexadecimal"));
        let mut bytes = vec![0; usize::try_from(to - from).expect("it fits")];
        // Mapped pages without content (a file that is shorter, a guard) hold nothing.
        let Ok(length) = memory.read_at(&mut bytes, from) else { continue };
        seen += length;
        let bytes = &bytes[..length];
        for (name, secret) in secrets {
            if holds(bytes, secret) {
                found.push(*name);
            }
        }
    }
    assert!(seen > 1 << 20, "only {seen} bytes could be read");
    found.sort_unstable();
    found.dedup();
    found
}
