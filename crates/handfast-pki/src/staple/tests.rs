//! Responses of software that is not ours (`fixtures/make.py`), and what damage makes of them.

use rustls_pki_types::pem::PemObject;

use std::path::Path;

use super::refusal::MAX_RESPONSE_BYTES;
use super::*;
use crate::finding::Severity;
use handfast_testkit::maker::{NOW, section_under};

const CHAIN: &str = include_str!("../../fixtures/ocsp/chain.pem");
const RESPONSES: &str = include_str!("../../fixtures/ocsp/responses.pem");

fn chain() -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(CHAIN.as_bytes()).collect::<Result<_, _>>().unwrap()
}

/// The response under this heading, as PEM.
fn response(heading: &str) -> &'static str {
    section_under(RESPONSES, heading)
}

fn read_at(heading: &str, now: i64) -> Result<Staple, StapleError> {
    read(response(heading).as_bytes(), &chain(), now).map(|(_, staple)| staple)
}

#[test]
fn good_ones_are_taken_until_their_end() {
    let end = 4_070_908_800; // 2099-01-01
    for heading in ["good", "good, certificate id by SHA-256", "good, by a responder"] {
        let expected = Staple { next_update: end, is_verified: true };
        assert_eq!(read_at(heading, NOW), Ok(expected), "{heading}");
    }
    let end = 1_796_083_200; // 2026-12-01
    assert_eq!(read_at("good, in 2026 only", end).map(|staple| staple.next_update), Ok(end));
    assert_eq!(read_at("good, in 2026 only", end + 1), Err(StapleError::Expired(end)));
    let begin = 1_767_225_600; // 2026-01-01
    assert!(read_at("good, in 2026 only", begin - CLOCK_SLACK).is_ok());
    assert_eq!(read_at("good, in 2026 only", begin - CLOCK_SLACK - 1), Err(StapleError::NotYet(begin)));
}

/// It refused a start, where hitch stapled it.
#[test]
fn without_nextupdate_it_is_good_for_a_day() {
    let end = 1_577_836_800 + 86_400; // It is of 2020-01-01.
    assert_eq!(read_at("without an end", end).map(|staple| staple.next_update), Ok(end));
    assert_eq!(read_at("without an end", end + 1).map_err(StapleError::severity), Err(Severity::Warning));
}

const CLOCK_SLACK: i64 = 300;

#[test]
fn each_way_to_be_wrong_is_distinguished() {
    let cases = [
        ("expired", StapleError::Expired(1_609_459_200)),
        ("not yet", StapleError::NotYet(3_786_912_000)),
        ("without an end", StapleError::Expired(1_577_923_200)),
        ("revoked", StapleError::Revoked(1_772_323_200)),
        ("unknown", StapleError::Unknown),
        ("of another certificate", StapleError::OtherCertificate),
        ("of another issuer", StapleError::OtherCertificate),
        (
            "signed by a stranger",
            StapleError::Responder("its certificate is not signed by the issuer of ours"),
        ),
        ("by a responder that may not", StapleError::Responder("its certificate is not for OCSP signing")),
        ("by a responder that expired", StapleError::Responder("its certificate is not valid now")),
        (
            "by a responder of a stranger",
            StapleError::Responder("its certificate is not signed by the issuer of ours"),
        ),
        ("try later", StapleError::Unsuccessful(3)),
    ];
    for (heading, refusal) in cases {
        assert_eq!(read_at(heading, NOW), Err(refusal), "{heading}");
    }
    // Problems that time brings about are no errors at a start.
    let mild: Vec<_> = cases
        .iter()
        .filter(|(_, refusal)| refusal.severity() != Severity::Error)
        .map(|(heading, _)| *heading)
        .collect();
    assert_eq!(mild, ["expired", "not yet", "without an end", "of another certificate", "of another issuer"]);
    assert_eq!(
        StapleError::Revoked(1_772_323_200).finding(Path::new("web.pem.ocsp")).to_string(),
        "web.pem.ocsp: says that the certificate was revoked on 2026-03-01 00:00:00 UTC; it is not stapled"
    );
}

#[test]
fn der_and_pem_are_the_same_and_nothing_else_is_taken() {
    let chain = chain();
    let (der, staple) = read(response("good").as_bytes(), &chain, NOW).unwrap();
    assert_eq!(read(&der, &chain, NOW), Ok((der.clone(), staple)));
    for wrong in [&b""[..], b"OK", CHAIN.as_bytes(), &[0x30], &[&der[..], &[0]].concat(), &[0x30; 40_000]] {
        assert_eq!(
            read(wrong, &chain, NOW).err(),
            Some(match wrong.len() {
                40_000 => StapleError::TooLarge(40_000),
                _ => StapleError::Malformed,
            })
        );
    }
    let limit = |length: usize| read(&vec![0x30; length], &chain, NOW).err();
    assert_eq!(limit(MAX_RESPONSE_BYTES), Some(StapleError::Malformed));
    assert_eq!(limit(MAX_RESPONSE_BYTES + 1), Some(StapleError::TooLarge(MAX_RESPONSE_BYTES + 1)));
    let other = response("good").replace("OCSP RESPONSE", "CERTIFICATE");
    assert_eq!(read(other.as_bytes(), &chain, NOW).err(), Some(StapleError::Malformed), "another label");
    let hint = StapleError::Malformed.finding(std::path::Path::new("a.ocsp")).hint;
    assert!(hint.is_some_and(|hint| hint.contains("openssl ocsp")), "it says how to make one");
    let two = response("good").repeat(2);
    assert_eq!(read(two.as_bytes(), &chain, NOW).err(), Some(StapleError::Malformed));
}

#[test]
fn without_the_issuer_it_is_taken_and_known_to_be_unverified() {
    let own = &chain()[..1];
    let (_, staple) = read(response("good").as_bytes(), own, NOW).unwrap();
    assert!(!staple.is_verified);
    assert_eq!(
        read(response("of another certificate").as_bytes(), own, NOW).err(),
        Some(StapleError::OtherCertificate)
    );
    assert_eq!(read(response("good").as_bytes(), &[], NOW).err(), Some(StapleError::OtherCertificate));
}

/// Each byte is signed, or affects the reading of the signature, or would not be DER any more.
#[test]
fn no_cut_and_no_changed_byte_goes_unnoticed() {
    let chain = chain();
    for heading in ["good", "good, by a responder"] {
        let (der, _) = read(response(heading).as_bytes(), &chain, NOW).unwrap();
        for end in 0..der.len() {
            assert_eq!(
                read(&der[..end], &chain, NOW).err(),
                Some(StapleError::Malformed),
                "{heading}: {end}"
            );
        }
        for place in 0..der.len() {
            for bit in [1, 0x80] {
                let mut changed = der.clone();
                changed[place] ^= bit;
                assert!(read(&changed, &chain, NOW).is_err(), "{heading}: byte {place} ^ {bit}");
            }
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let mut sequence = vec![0x30, 0x81, 0];
        sequence[2] = u8::try_from(bytes.len()).unwrap();
        sequence.extend_from_slice(&bytes);
        let _ = read(&bytes, &chain(), NOW);
        let _ = read(&sequence, &chain(), NOW);
    }
}

#[test]
fn a_responders_refusal_is_named() {
    let names = ["malformedRequest", "internalError", "tryLater", "not known", "sigRequired", "unauthorized"];
    for (status, name) in (1..).zip(names) {
        let message = StapleError::Unsuccessful(status).to_string();
        assert!(message.contains(&format!("({status}, ")) && message.contains(name), "{message}");
    }
}
