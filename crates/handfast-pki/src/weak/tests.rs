//! Every weakness is found in a key that has it, and none in keys that are well made.

use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, Issuer, KeyPair, PublicKeyData};
use rustls_pki_types::UnixTime;

use super::*;
use crate::Reason;
use crate::load::Source;
use crate::parsed::Parsed;
use crate::pem;
use crate::presented::{Authorities, Keys, Peer, Refusal};
use handfast_testkit::maker::{Folder, Made, Maker, NOW};

/// A name, a modulus and an exponent on each line.
const RSA: &str = include_str!("tests/rsa.txt");
/// Public keys of all sizes, made by openssl.
const GOOD: &str = include_str!("tests/good.txt");

fn at(seconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds as u64)
}

pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

pub(super) fn number(hex: &str) -> Vec<u8> {
    let even = format!("{}{hex}", if hex.len() % 2 == 1 { "0" } else { "" });
    (0..even.len()).step_by(2).map(|at| u8::from_str_radix(&even[at..at + 2], 16).unwrap()).collect()
}

/// Modulus and exponent of a key of the samples.
pub(super) fn sample(name: &str) -> (Vec<u8>, Vec<u8>) {
    let line = lines(RSA).find(|line| line.split(' ').next() == Some(name)).unwrap();
    let mut numbers = line.split(' ').skip(1).map(number);
    (numbers.next().unwrap(), numbers.next().unwrap())
}

fn weaknesses(name: &str) -> Vec<Weakness> {
    let (modulus, exponent) = sample(name);
    PublicKey::Rsa { modulus: &modulus, exponent: &exponent }.weaknesses()
}

/// A certificate of the samples.
fn certificate(pem: &str) -> Parsed {
    let section = &pem::sections(pem.as_bytes()).unwrap()[0];
    Parsed::from_der(&section.der().unwrap().1).unwrap()
}

#[test]
fn each_weakness_is_found_in_a_key_that_has_it() {
    assert_eq!(weaknesses("close-primes-2048"), [Weakness::ClosePrimes]);
    assert_eq!(weaknesses("roca-2048"), [Weakness::Roca]);
    assert_eq!(weaknesses("small-1024"), [Weakness::TooSmall { bits: 1024 }]);
    assert_eq!(weaknesses("exponent-1"), [Weakness::ExponentOne]);
    assert_eq!(weaknesses("exponent-even"), [Weakness::ExponentEven]);
    assert_eq!(weaknesses("exponent-long"), [Weakness::ExponentLong { bits: 257 }]);
    for factor in [3, 751, 65521] {
        let found = weaknesses(&format!("small-factor-{factor}"));
        assert_eq!(found, [Weakness::SmallFactor { factor }]);
    }
    // By their numbers these are good: only a list knows them.
    for name in ["good-2048", "debian-2048-a", "debian-2048-b"] {
        assert_eq!(weaknesses(name), [], "{name}");
    }
}

#[test]
fn a_certificate_says_the_same() {
    let none = Lists::default();
    let close = certificate(include_str!("tests/close-primes-2048.crt"));
    assert_eq!(close.weakness(&none), Some(Weakness::ClosePrimes));
    for good in [
        include_str!("tests/debian-2048-a.crt"),
        include_str!("tests/debian-2048-b.crt"),
        include_str!("tests/debian-p256.crt"),
    ] {
        assert_eq!(certificate(good).weakness(&none), None);
    }
}

#[test]
fn no_well_made_key_is_found_weak() {
    let mut count = 0;
    for line in lines(GOOD) {
        let der = data_of(line);
        let key = PublicKey::from_info(&der).unwrap();
        assert_ne!(key, PublicKey::Other, "{line}");
        assert_eq!(key.weaknesses(), [], "{line}");
        count += 1;
    }
    assert!(count > 200, "{count}");
}

/// Standard base64.
fn data_of(base64: &str) -> Vec<u8> {
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{base64}\n-----END PUBLIC KEY-----\n");
    let section = rustls_pki_types::pem::PemObject::from_pem_slice(pem.as_bytes());
    let key: rustls_pki_types::SubjectPublicKeyInfoDer<'static> = section.unwrap();
    key.as_ref().to_vec()
}

#[test]
fn points_that_nobody_has_a_key_for_are_found() {
    for algorithm in
        [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ECDSA_P521_SHA512]
    {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let info = key.subject_public_key_info();
        assert_eq!(PublicKey::from_info(&info).unwrap().weaknesses(), []);
        // Each bit of y makes another point; about none of those is on the curve.
        let mut wrong = info.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(PublicKey::from_info(&wrong).unwrap().weaknesses(), [Weakness::NotOnCurve]);
    }
    // Order 1, 2, 4 and 8, with both signs of x, and two that are not written as they should be.
    let one = |low: u8, middle: u8, high: u8| {
        let mut point = [middle; 32];
        (point[0], point[31]) = (low, high);
        point
    };
    let eight = number("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05");
    let others = [one(0, 0, 0), one(1, 0, 0), one(1, 0, 0x80), one(0xec, 0xff, 0x7f), one(0xee, 0xff, 0xff)];
    for point in others.iter().map(|point| &point[..]).chain([&eight[..]]) {
        assert_eq!(PublicKey::Ed25519(point).weaknesses(), [Weakness::SmallOrder], "{point:x?}");
    }
    for point in [one(2, 0, 0), one(0xeb, 0xff, 0x7f), one(1, 0, 1), one(0xec, 0xff, 0x7e)] {
        assert_eq!(PublicKey::Ed25519(&point).weaknesses(), [], "{point:x?}");
    }
}

#[test]
fn no_key_that_is_cut_or_changed_panics() {
    let key = KeyPair::generate().unwrap();
    let mut all = vec![key.subject_public_key_info()];
    all.extend(lines(GOOD).step_by(40).map(data_of));
    for info in all {
        for end in 0..info.len() {
            assert_eq!(PublicKey::from_info(&info[..end]), None);
        }
        for at in (0..info.len()).step_by(7) {
            let mut changed = info.clone();
            changed[at] ^= 0xff;
            let _ = PublicKey::from_info(&changed).map(|key| key.weaknesses());
        }
    }
    for (modulus, exponent) in
        [(vec![], vec![]), (vec![0], vec![0]), (vec![1], vec![1]), (vec![0xff; 3000], vec![0xff; 3000])]
    {
        let key = PublicKey::Rsa { modulus: &modulus, exponent: &exponent };
        let _ = (key.weaknesses(), key.sha256(), key.openssl_blacklist());
    }
}

#[test]
fn every_weakness_has_words_and_a_source() {
    let all = [
        Weakness::TooSmall { bits: 1024 },
        Weakness::ExponentOne,
        Weakness::ExponentEven,
        Weakness::ExponentLong { bits: 300 },
        Weakness::SmallFactor { factor: 3 },
        Weakness::ClosePrimes,
        Weakness::Roca,
        Weakness::NotOnCurve,
        Weakness::SmallOrder,
        Weakness::Listed { list: Path::new("debian.weak").into() },
    ];
    for weakness in &all {
        let (what, why) = (weakness.to_string(), weakness.why());
        assert!(what.starts_with("has ") || what.starts_with("is "), "{what}");
        assert!(!why.ends_with('.') && why.len() > 30 && !weakness.source().is_empty(), "{why}");
    }
}

/// A certificate for whatever key, signed by another key.
#[derive(Debug)]
struct Foreign(Vec<u8>);

impl PublicKeyData for Foreign {
    fn der_bytes(&self) -> &[u8] {
        &self.0
    }

    fn algorithm(&self) -> &'static rcgen::SignatureAlgorithm {
        &rcgen::PKCS_RSA_SHA256
    }
}

/// A modulus and an exponent as a certificate contains them (RFC 8017 §A.1.1).
fn foreign(name: &str) -> Foreign {
    let (modulus, exponent) = sample(name);
    of_numbers(&modulus, &exponent)
}

fn of_numbers(modulus: &[u8], exponent: &[u8]) -> Foreign {
    let value = |tag: u8, content: &[u8]| {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], content].concat()
    };
    let integer = |number: &[u8]| value(0x02, &[&[0], number].concat());
    Foreign(value(0x30, &[integer(modulus), integer(exponent)].concat()))
}

/// The refusal for a peer that presents a certificate with this key, and through a CA with the one of `above`.
fn presented(own: Option<&str>, above: Option<&str>, lists: &Arc<Lists>) -> Result<(), String> {
    let root = Maker::authority("root").self_signed();
    let mut trusted = Authorities::default();
    trusted.add(root.certificate.der()).unwrap();
    let trusted = trusted.refusing(Arc::clone(lists));
    let own_key = KeyPair::generate().unwrap();
    let params = || {
        let mut params = CertificateParams::new(vec!["a.example.org".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(2026, 1, 1), rcgen::date_time_ymd(2027, 1, 1));
        params
    };
    let sign = |params: CertificateParams, name: Option<&str>, by: &Issuer<'_, &KeyPair>| {
        let made = match name {
            Some(name) => params.signed_by(&foreign(name), by),
            None => params.signed_by(&own_key, by),
        };
        made.unwrap().der().clone()
    };
    let by_root = Issuer::from_params(&root.params, &root.key);
    let chain = match above {
        None => vec![sign(params(), own, &by_root)],
        Some("itself") => {
            let made = Maker::authority("middle").signed_by(&root);
            let by = Issuer::from_params(&made.params, &made.key);
            vec![sign(params(), own, &by), made.certificate.der().clone()]
        }
        Some(_) => panic!("nobody can sign with it"),
    };
    let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW as u64));
    let check = |keys| trusted.check(Peer::Client, &chain[0], &chain[1..], keys, now);
    // A client that returns with a ticket was checked when it was issued.
    if own != Some("small-1024") {
        assert_eq!(check(Keys::Known), Ok(()));
    }
    check(Keys::New).map_err(|refusal| {
        assert!(matches!(refusal, Refusal::WeakKey { .. }), "{refusal:?}");
        refusal.to_string()
    })
}

#[test]
fn a_peer_with_a_weak_key_is_refused_with_the_weakness() {
    let none = Arc::default();
    presented(None, None, &none).unwrap();
    presented(Some("good-2048"), None, &none).unwrap();
    for (name, words) in [
        ("small-1024", "its key has 1024 bits, expected 2048 or more"),
        (
            "exponent-1",
            "its key has the public exponent 1, expected an odd one of 3 or more: everybody can sign",
        ),
        ("exponent-even", "its key has an even public exponent"),
        ("exponent-long", "its key has a public exponent of 257 bits, expected 256 at most"),
        ("small-factor-751", "its key has the factor 751, expected two large primes"),
        (
            "close-primes-2048",
            "its key has two primes that are close together (Fermat's method): anybody can compute",
        ),
        ("roca-2048", "its key has the fingerprint of ROCA (CVE-2017-15361): a broken generator"),
    ] {
        for above in [None, Some("itself")] {
            let message = presented(Some(name), above, &none).unwrap_err();
            assert!(message.starts_with(words), "{message}");
        }
    }
}

#[test]
fn a_peer_with_a_listed_key_is_refused_with_the_list() {
    let folder = Folder::new();
    let file = folder.put("known.csv", include_str!("tests/debian-sample.csv"));
    let loaded = load(std::slice::from_ref(&file), None);
    assert_eq!(loaded.findings, []);
    presented(Some("good-2048"), None, &loaded.lists).unwrap();
    let message = presented(Some("debian-2048-a"), None, &loaded.lists).unwrap_err();
    let words = format!("its key is on the list of known keys {}: its private key is known", file.display());
    assert!(message.starts_with(&words), "{message}");
}

#[test]
fn a_weak_key_in_a_path_is_refused_wherever_it_is() {
    // A CA with a weak key whose private half is at hand, so that it can sign.
    let key = KeyPair::from_pem_and_sign_algo(&key_pem("roca-2048.key"), &rcgen::PKCS_RSA_SHA256).unwrap();
    let params = Maker::authority("middle").self_signed().params;
    let root = Maker::authority("root").self_signed();
    let middle = params.signed_by(&key, &Issuer::from_params(&root.params, &root.key)).unwrap();
    let own = Maker::new(&["a.example.org"]).signed_by(&Made { params, key, certificate: middle.clone() });
    let mut trusted = Authorities::default();
    trusted.add(root.certificate.der()).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW as u64));
    for peer in [Peer::Client, Peer::Server] {
        let chain = [middle.der().clone()];
        let refusal = trusted.check(peer, own.certificate.der(), &chain, Keys::New, now).unwrap_err();
        assert_eq!(refusal, Refusal::WeakKey { weakness: Weakness::Roca, is_own: false });
        assert!(refusal.to_string().starts_with("the key of a CA above it has the fingerprint of ROCA"));
    }
    // Trusted itself it is no better.
    let mut trusted = Authorities::default();
    trusted.pin(middle.der());
    let refusal = trusted.check(Peer::Server, middle.der(), &[], Keys::New, now).unwrap_err();
    assert_eq!(refusal, Refusal::WeakKey { weakness: Weakness::Roca, is_own: true });
}

/// A private key of the samples.
fn key_pem(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/weak/tests").join(name);
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn a_weak_key_is_not_served() {
    let folder = Folder::new();
    let load = |lists: &Lists| {
        let source =
            Source::File { certificate: folder.at("a.crt"), key: Some(folder.at("a.key")), ocsp: None };
        let found = crate::load::load(&[source], lists, at(NOW));
        let errors = found.findings.iter().filter(|finding| finding.severity == crate::Severity::Error);
        errors.map(|finding| (finding.reason, finding.message.clone())).collect::<Vec<_>>()
    };
    folder.put("a.crt", include_str!("tests/close-primes-2048.crt"));
    folder.put("a.key", key_pem("close-primes-2048.key"));
    let none = Lists::default();
    let [(Reason::WeakKey, message)] = &load(&none)[..] else { panic!("{:?}", load(&none)) };
    assert!(
        message.starts_with("the certificate's RSA key has two primes that are close together"),
        "{message}"
    );
    // A weakness that only a list contains.
    let list = folder.put("known.csv", include_str!("tests/debian-sample.csv"));
    let lists = super::load(std::slice::from_ref(&list), None).lists;
    for (certificate, key, kind) in [
        (include_str!("tests/debian-2048-a.crt"), "debian-2048-a.key", "RSA"),
        (include_str!("tests/debian-2048-b.crt"), "debian-2048-b.key", "RSA"),
        (include_str!("tests/debian-p256.crt"), "debian-p256.key", "ECDSA"),
    ] {
        folder.put("a.crt", certificate);
        folder.put("a.key", key_pem(key));
        assert_eq!(load(&none), []);
        let [(Reason::WeakKey, message)] = &load(&lists)[..] else { panic!("{:?}", load(&lists)) };
        let words = format!("the certificate's {kind} key is on the list of known keys {}", list.display());
        assert!(message.starts_with(&words), "{message}");
    }
    // Keys that the library does not even read.
    for (name, words) in [
        ("small-1024", "line 1: the RSA key has 1024 bits"),
        ("exponent-1", "line 1: the RSA key has the public exponent 1"),
        ("exponent-even", "line 1: the RSA key has an even public exponent"),
    ] {
        folder.put("a.key", key_pem(&format!("{name}.key")));
        let [(Reason::WeakKey, message)] = &load(&none)[..] else { panic!("{name}: {:?}", load(&none)) };
        assert!(message.starts_with(words), "{message}");
    }
}

/// Also of clients that resume, whose keys are not looked into again.
#[test]
fn rsa_is_taken_between_its_bounds_of_size_and_not_beside_them() {
    let root = Maker::authority("root").self_signed();
    let mut trusted = Authorities::default();
    trusted.add(root.certificate.der()).unwrap();
    let issuer = Issuer::from_params(&root.params, &root.key);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(NOW.unsigned_abs()));
    for (first, rest, is_good) in
        [(0x7f, 255, false), (0xff, 255, true), (0xff, 1023, true), (1, 1024, false)]
    {
        let modulus = [vec![first], vec![0xff; rest]].concat();
        let params = CertificateParams::new(vec!["a.example.org".to_owned()]).unwrap();
        let own = params.signed_by(&of_numbers(&modulus, &[1, 0, 1]), &issuer).unwrap();
        let answer = trusted.check(Peer::Client, own.der(), &[], Keys::Known, now);
        assert_eq!(answer.is_ok(), is_good, "{first:x} and {rest} bytes: {answer:?}");
        let mut pinned = Authorities::default();
        pinned.pin(own.der());
        assert_eq!(pinned.check(Peer::Client, own.der(), &[], Keys::Known, now).is_ok(), is_good);
    }
}

#[test]
fn nobody_is_named_as_trusted_with_a_weak_key() {
    let trusted = Authorities::default();
    let weak = certificate(include_str!("tests/close-primes-2048.crt"));
    let expected = Refusal::WeakKey { weakness: Weakness::ClosePrimes, is_own: true };
    assert_eq!(trusted.check_key_of(&weak.der), Err(expected));
    assert_eq!(trusted.check_key_of(Maker::authority("good").self_signed().certificate.der()), Ok(()));
}
