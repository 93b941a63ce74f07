//! Tests for the names that belong together, and for the finding when they do not.

use std::path::PathBuf;

use rcgen::{CertificateParams, KeyPair};

use super::*;
use handfast_testkit::maker::NOW;

/// A certificate for `names` with this key, as if it was in `file`.
fn certificate(key: &KeyPair, names: &[&str], file: &str) -> Arc<Certificate> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = CertificateParams::new(names).unwrap().self_signed(key).unwrap();
    let pem = made.pem() + &key.serialize_pem();
    let (certificate, findings) = Certificate::from_pem(pem.as_bytes(), &PathBuf::from(file), NOW);
    Arc::new(certificate.unwrap_or_else(|| panic!("{findings:?}")))
}

fn warned(of: &[&[&str]]) -> Vec<String> {
    let key = KeyPair::generate().unwrap();
    let number = |(place, names): (usize, &&[&str])| certificate(&key, names, &format!("{place}.pem"));
    let mut all: Vec<_> = of.iter().enumerate().map(number).collect();
    // One of another key makes no difference.
    all.push(certificate(&KeyPair::generate().unwrap(), &["stranger.example"], "other.pem"));
    shared_keys(&all).iter().map(ToString::to_string).collect()
}

#[test]
fn a_key_for_unrelated_names_is_warned_of() {
    let message = warned(&[&["a.example.org"], &["www.example.com", "example.com"]]);
    let words = "1.pem: the certificate of www.example.com has the same key as that of a.example.org in 0.pem: an attacker";
    assert!(message.len() == 1 && message[0].starts_with(words), "{message:?}");
    let message = warned(&[&["a.example.org"], &["b.example.com"], &["c.example.net"]]);
    assert!(
        message.len() == 1 && message[0].contains("and so have 1 more that are unrelated"),
        "{message:?}"
    );
    assert_eq!(warned(&[&["a.co.uk"], &["b.co.uk"]]).len(), 1);
    assert_eq!(warned(&[&["10.0.0.1"], &["10.0.0.2"]]).len(), 1);
    assert_eq!(warned(&[&["10.0.0.1"], &[]]).len(), 1);
}

#[test]
fn related_names_may_share_a_key() {
    for related in [
        // A renewal; another name of the same domain; a wildcard of it.
        [&["a.example.org"][..], &["a.example.org"]],
        [&["a.example.org"], &["example.org"]],
        [&["a.example.org"], &["*.example.org"]],
        [&["*.a.example.org"], &["*.b.example.org"]],
        [&["x.a.co.uk"], &["y.a.co.uk"]],
        [&["10.0.0.1", "a.example.org"], &["10.0.0.1"]],
        [&["localhost"], &["localhost"]],
        [&[], &[]],
    ] {
        assert_eq!(warned(&related), [""; 0], "{related:?}");
    }
    // One certificate for both makes a family of them, at any position.
    let bridge: &[&str] = &["a.example.org", "b.example.com"];
    for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1]] {
        let all: [&[&str]; 3] = [&["x.example.org"], &["y.example.com"], bridge];
        assert_eq!(warned(&order.map(|place| all[place])), [""; 0]);
    }
}

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../weak/tests/", $name))
    };
}

#[test]
fn two_keys_with_one_prime_factor_are_errors() {
    let of = |pem: String, file: &str| {
        let (certificate, findings) = Certificate::from_pem(pem.as_bytes(), Path::new(file), NOW);
        Arc::new(certificate.unwrap_or_else(|| panic!("{findings:?}")))
    };
    let one = of([sample!("shared-prime-a.crt"), sample!("shared-prime-a.key")].concat(), "a.pem");
    let other = of([sample!("shared-prime-b.crt"), sample!("shared-prime-b.key")].concat(), "b.pem");
    let stranger = certificate(&KeyPair::generate().unwrap(), &["c.example"], "c.pem");
    let all = [Arc::clone(&one), stranger, other];
    let found = shared_factors_of_all(&all, &[]);
    let [finding] = &found[..] else { panic!("{found:?}") };
    let words = "b.pem: the RSA key of b.example has a prime factor in common with that of a.example in a.pem: both private keys";
    assert_eq!(finding.severity, crate::Severity::Error);
    assert!(finding.to_string().starts_with(words), "{finding}");
    assert_eq!(shared_factors_of_all(&all[..2], &[]), []);
    // Those that were compared before are not compared again.
    assert_eq!(shared_factors_of_all(&all, &all), []);
    assert_eq!(shared_factors_of_all(&all, &[one]).len(), 1);
}
