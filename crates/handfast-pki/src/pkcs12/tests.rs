//! Files of other programs, files that are refused, and the bound on the work.

use proptest::prelude::*;

use super::*;
use crate::der::value;

/// The certificate of a.example in each file, which its CA follows.
const LEAF: &[u8] = include_bytes!("testdata/a.der");

/// Each file was made of one key, its certificate and its CA's by the named command, with an empty password.
const READABLE: [(&str, &[u8]); 9] = [
    // openssl pkcs12 -export
    ("default", include_bytes!("testdata/default.p12")),
    // … -legacy: RC2 with 40 bits for the certificates, triple DES for the key, as Windows and OpenSSL 1 write it.
    ("legacy", include_bytes!("testdata/legacy.p12")),
    // … -certpbe PBE-SHA1-3DES -keypbe PBE-SHA1-RC2-128 -macalg sha1
    ("triple-des", include_bytes!("testdata/triple-des.p12")),
    // … -certpbe AES-128-CBC -keypbe AES-192-CBC -macalg sha512
    ("aes", include_bytes!("testdata/aes.p12")),
    // … -certpbe aes-256-cbc -keypbe des-ede3-cbc
    ("pbes2-3des", include_bytes!("testdata/pbes2-3des.p12")),
    // … -certpbe NONE -keypbe NONE -nomac
    ("plain", include_bytes!("testdata/plain.p12")),
    // … -certpbe PBE-SHA1-3DES -keypbe PBE-SHA1-3DES -nomac
    ("no-mac", include_bytes!("testdata/no-mac.p12")),
    // certtool --to-p12 --null-password --pkcs-cipher 3des-pkcs12
    ("null-password", include_bytes!("testdata/null-password.p12")),
    // The first one with another MAC, by the RFC: no program of this age writes it.
    ("pbmac1", include_bytes!("testdata/pbmac1.p12")),
];
const DEFAULT: &[u8] = READABLE[0].1;
const PASSWORD: &[u8] = include_bytes!("testdata/password.p12");
/// Four million rounds for each of three.
const ROUNDS: &[u8] = include_bytes!("testdata/rounds.p12");

#[test]
fn what_other_programs_write_is_read() {
    let key = read(DEFAULT).unwrap_or_else(|fault| panic!("it {fault}")).keys.remove(0);
    for (name, file) in READABLE {
        assert!(is_one(file), "{name}");
        let entries = read(file).unwrap_or_else(|fault| panic!("{name}: it {fault}"));
        assert_eq!(entries.certificates.len(), 2, "{name}");
        assert!(entries.certificates.iter().any(|der| **der == *LEAF), "{name}");
        assert_eq!(entries.keys.len(), 1, "{name}");
        // GnuTLS writes the public key into the key, in another order.
        if name != "null-password" {
            assert_eq!(*entries.keys[0], *key, "{name}");
        }
        assert_eq!(entries.others, 0, "{name}");
    }
}

#[test]
fn what_is_not_readable_reports_the_reason() {
    assert_eq!(read(PASSWORD).err(), Some(Fault::Password));
    assert_eq!(read(ROUNDS).err(), Some(Fault::TooMuchWork(decryption::WORK)));
    assert_eq!(read(&DEFAULT[..DEFAULT.len() - 1]).err(), Some(Fault::Damaged));
    assert_eq!(read(&[DEFAULT, b"\n"].concat()).err(), Some(Fault::Damaged));
    // A bit of the certificates differs: the MAC is wrong.
    let mut other = DEFAULT.to_vec();
    other[300] ^= 1;
    assert_eq!(read(&other).err(), Some(Fault::Password));
    // AES-256-CBC becomes another one, in the file without a MAC.
    let mut unknown = DEFAULT.to_vec();
    let aes = [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42];
    let place = unknown.windows(aes.len()).position(|bytes| bytes == aes).expect("AES-256-CBC");
    unknown[place + 8] = 46;
    // Without its MAC, which comes last.
    let mac = unknown.windows(2).rposition(|bytes| bytes == [0x30, 0x41]).expect("a MAC");
    unknown.truncate(mac);
    let length = u16::try_from(mac - 4).expect("short").to_be_bytes();
    unknown[2..4].copy_from_slice(&length);
    let fault = read(&unknown).err().map(|fault| fault.to_string());
    assert_eq!(
        fault.as_deref(),
        Some("is PKCS#12 with the algorithm 2.16.840.1.101.3.4.1.46, which is not supported")
    );
}

#[test]
fn the_work_for_many_entries_is_bounded_in_all() {
    // The file's encrypted key of 2,048 rounds, a hundred times: each one alone is permitted.
    let data = info_of(DEFAULT);
    let mut parts = Der(Der(&data).expect(SEQUENCE).expect("parts"));
    parts.expect(SEQUENCE).expect("the certificates");
    let mut keys = Der(parts.expect(SEQUENCE).expect("the key"));
    assert_eq!(keys.expect(OBJECT_IDENTIFIER), Some(DATA));
    let content = explicit_bytes(&mut keys).unwrap_or_else(|fault| panic!("it {fault}"));
    let bag = Der(content).expect(SEQUENCE).expect("one entry");
    let many = |count| {
        let bags = value(SEQUENCE, &bag.repeat(count));
        let content = value(FIRST, &value(OCTET_STRING, &bags));
        value(SEQUENCE, &value(SEQUENCE, &[value(OBJECT_IDENTIFIER, DATA), content].concat()))
    };
    let found = |count| {
        let found = entries(&many(count), Password::EMPTY[0], &mut (50 * 2048));
        found.map(|entries| entries.keys.len())
    };
    assert_eq!(found(50), Ok(50));
    assert_eq!(found(51), Err(Fault::TooMuchWork(decryption::WORK)));
}

/// The parts of a file.
fn info_of(file: &[u8]) -> Vec<u8> {
    let mut whole = Der(file);
    let mut inner = Der(whole.expect(SEQUENCE).expect("a file"));
    inner.expect(INTEGER).expect("a version");
    let mut safe = Der(inner.expect(SEQUENCE).expect("parts"));
    safe.expect(OBJECT_IDENTIFIER).expect("a kind");
    explicit_bytes(&mut safe).expect("bytes").to_vec()
}

#[test]
fn it_is_recognized_by_its_beginning() {
    assert!(is_one(&[0x30, 0x82, 9, 9, 2, 1, 3, 0x30]));
    assert!(is_one(&[0x30, 0x83, 9, 9, 9, 2, 1, 3]));
    assert!(is_one(&[0x30, 0x80, 2, 1, 3]), "indefinite lengths are worth the right message");
    // A key in PKCS#8, a certificate, text.
    for other in
        [&[0x30, 0x82, 9, 9, 2, 1, 0][..], &[0x30, 0x82, 9, 9, 0x30, 0x82], b"-----BEGIN", b"", &[0x30]]
    {
        assert!(!is_one(other), "{other:?}");
    }
}

proptest! {
    #[test]
    fn no_change_of_a_file_panics(place in 0..DEFAULT.len(), byte in any::<u8>(), which in 0..READABLE.len()) {
        let mut file = READABLE[which].1.to_vec();
        let place = place % file.len();
        file[place] = byte;
        let _ = read(&file);
        let _ = read(&file[..place]);
    }
}
