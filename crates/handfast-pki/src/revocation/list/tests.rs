//! The index of a list, and lists that are damaged.

use handfast_testkit::maker::{Made, Maker};
use rcgen::SigningKey;

use super::*;
use crate::der::{BIT_STRING, OBJECT_IDENTIFIER, value};

impl List {
    /// Returns the size of its index in bytes.
    fn bytes(&self) -> usize {
        size_of_val(&*self.serials)
    }

    /// Returns the number of entries compared to find this serial number, or to find that it is missing.
    fn comparisons(&self, serial: &[u8]) -> usize {
        let mut count = 0;
        let key = key_of(serial).unwrap();
        let _ = self.serials.binary_search_by(|entry| {
            count += 1;
            entry.cmp(&key)
        });
        count
    }
}

/// A list by `ca` of these serial numbers.
fn list_of(ca: &Made, serials: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    // ecdsa-with-SHA256
    let algorithm = value(SEQUENCE, &value(OBJECT_IDENTIFIER, &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]));
    let issuer = Outline::read(ca.certificate.der()).unwrap().subject;
    let time = |year: &str| value(GENERALIZED_TIME, format!("{year}1001000000Z").as_bytes());
    let entry = |serial: Vec<u8>| value(SEQUENCE, &[value(INTEGER, &serial), time("2026")].concat());
    let entries: Vec<u8> = serials.flat_map(entry).collect();
    let parts = [
        value(INTEGER, &[1]),
        algorithm.clone(),
        value(SEQUENCE, issuer),
        time("2026"),
        time("2027"),
        value(SEQUENCE, &entries),
    ];
    let signed = value(SEQUENCE, &parts.concat());
    let signature = [vec![0], ca.key.sign(&signed).unwrap()].concat();
    value(SEQUENCE, &[signed, algorithm, value(BIT_STRING, &signature)].concat())
}

#[test]
fn one_number_has_one_key_however_it_is_written() {
    let ca = Maker::authority("ca").self_signed();
    let der = list_of(&ca, [vec![0, 0, 7], vec![0, 0x80], vec![0x80]].into_iter());
    let outline = Outline::read(ca.certificate.der()).unwrap();
    let signer = [Signer { subject: outline.subject, key: outline.key, may_revoke: true }];
    let issuer = Issuer { key: outline.key, may_revoke: true };
    let list = List::read(&der, &signer).unwrap();
    for (serial, is_there) in [
        (&[7][..], true),
        (&[0, 7], true),
        (&[0, 0x80], true),
        (&[0x80], true),
        (&[0, 0, 0x80], true),
        (&[8], false),
        (&[], false),
        (&[7, 0], false),
    ] {
        assert_eq!(list.has(serial), is_there, "{serial:?}");
    }
    assert_eq!(list.entries(), 3);
    // No damage to any byte goes unnoticed, nor panics; nor does any cut.
    for place in 0..der.len() {
        for value in [0, 0x7f, 0x80, 0xff, der[place] ^ 1] {
            let mut damaged = der.clone();
            damaged[place] = value;
            let is_good = List::read(&damaged, &signer).is_ok_and(|list| list.is_by(issuer));
            assert_eq!(is_good, damaged == der, "byte {place}: {value}");
        }
        assert!(List::read(&der[..place], &signer).is_err(), "cut at {place}");
    }
}

/// Of a million entries: 22 bytes each, and some twenty comparisons; nothing that grows with them for a client.
#[test]
fn a_million_entries_are_an_index() {
    let ca = Maker::authority("ca").self_signed();
    let serials = (0..1_000_000_u64).map(|number| {
        let mut serial = vec![1; 16];
        serial[8..].copy_from_slice(&(number * 2).to_be_bytes());
        serial
    });
    let der = list_of(&ca, serials);
    let outline = Outline::read(ca.certificate.der()).unwrap();
    let signer = [Signer { subject: outline.subject, key: outline.key, may_revoke: true }];
    let list = List::read(&der, &signer).unwrap();
    assert_eq!(list.bytes(), 22_000_000);
    let comparisons = |serial: u64| {
        let mut key = vec![1; 16];
        key[8..].copy_from_slice(&serial.to_be_bytes());
        list.comparisons(&key)
    };
    for number in [0, 1, 999_999, 1_000_000, 1_999_998, u64::MAX] {
        assert!(comparisons(number) <= 22, "{number}: {}", comparisons(number));
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        proptest::prop_assert!(List::read(&bytes, &[]).is_err());
    }
}
