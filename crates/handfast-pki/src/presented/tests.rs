//! Tests for accepted and refused certificates, with the reasons, and for the cost of the worst ones.

use std::fs;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, DnType, ExtendedKeyUsagePurpose, GeneralSubtree,
    IsCa, Issuer, KeyPair, NameConstraints, SanType,
};

use super::*;
use handfast_testkit::maker::{Made, Maker, NOW};

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(NOW as u64))
}

fn trusting(certificates: &[&CertificateDer<'_>]) -> Authorities {
    let mut trusted = Authorities::default();
    for certificate in certificates {
        trusted.add(certificate).unwrap();
    }
    trusted
}

fn check(trusted: &Authorities, chain: &[&CertificateDer<'_>]) -> Result<(), Refusal> {
    let chain: Vec<CertificateDer<'_>> = chain.iter().map(|der| CertificateDer::from(&***der)).collect();
    trusted.check(Peer::Client, &chain[0], &chain[1..], Keys::New, now())
}

/// CPU time of this thread so far.
fn spent() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Of many in a row, as the kernel adds it up in ticks; and of three rows, so that its neighbours count less.
fn cost(mut work: impl FnMut()) -> Duration {
    let row = || {
        let before = spent();
        (0..10).for_each(|_| work());
        (spent() - before) / 10
    };
    std::iter::repeat_with(row).take(3).min().unwrap()
}

/// The same CA with another key.
fn params(subject: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, subject);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

fn signed(
    params: &CertificateParams,
    key: &KeyPair,
    by: (&CertificateParams, &KeyPair),
) -> CertificateDer<'static> {
    params.signed_by(key, &Issuer::from_params(by.0, by.1)).unwrap().der().clone()
}

#[test]
fn chains_in_any_order_and_with_what_is_not_needed_are_good() {
    let root = Maker::authority("root").self_signed();
    let middle = Maker::authority("middle").signed_by(&root);
    let low = Maker::authority("low").signed_by(&middle);
    let own = Maker::new(&["a.example.org"]).signed_by(&low);
    let stranger = Maker::authority("stranger").self_signed();
    let trusted = trusting(&[root.certificate.der()]);
    let [root, middle, low, own, stranger] =
        [&root, &middle, &low, &own, &stranger].map(|made: &Made| made.certificate.der());
    for chain in [
        vec![own, low, middle],
        vec![own, middle, low],
        vec![own, root, stranger, low, low, middle, middle, stranger, root],
    ] {
        check(&trusted, &chain).unwrap();
    }
    assert_eq!(check(&trusted, &[own, middle]), Err(Refusal::UnknownIssuer(Peer::Client)));
    assert_eq!(check(&trusting(&[stranger]), &[own, low, middle]), Err(Refusal::UnknownIssuer(Peer::Client)));
    // A CA below the root may be trusted.
    check(&trusting(&[middle]), &[own, low]).unwrap();
    let many = vec![own; INTERMEDIATES + 2];
    assert_eq!(check(&trusted, &many), Err(Refusal::TooMany { intermediates: INTERMEDIATES + 1 }));
}

#[test]
fn a_cross_signed_ca_is_found_whichever_way_is_trusted() {
    let (old, new) = (Maker::authority("old").self_signed(), Maker::authority("new").self_signed());
    let (middle, key) = (params("middle"), KeyPair::generate().unwrap());
    let by_old = signed(&middle, &key, (&old.params, &old.key));
    let by_new = signed(&middle, &key, (&new.params, &new.key));
    // A third way, of the same name, key and issuer, that has ended.
    let mut ended = params("middle");
    ended.not_before = rcgen::date_time_ymd(2020, 1, 1);
    ended.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let ended = signed(&ended, &key, (&new.params, &new.key));
    let own = Maker::new(&["a.example.org"]);
    let middle = Made { certificate: middle.self_signed(&key).unwrap(), params: middle, key };
    let own = own.signed_by(&middle);
    let own = own.certificate.der();
    for root in [&old, &new] {
        let trusted = trusting(&[root.certificate.der()]);
        check(&trusted, &[own, &ended, &by_old, &by_new]).unwrap();
        check(&trusted, &[own, &by_new, &by_old, &ended]).unwrap();
    }
    let message = check(&trusting(&[new.certificate.der()]), &[own, &ended]).unwrap_err().to_string();
    assert_eq!(message, "a CA certificate above it expired on 2021-01-01 00:00:00 UTC");
}

#[test]
fn a_ca_that_changed_its_key_is_followed() {
    let root = Maker::authority("root").self_signed();
    let (old, old_key) = (params("middle"), KeyPair::generate().unwrap());
    let (new, new_key) = (params("middle"), KeyPair::generate().unwrap());
    let old_by_root = signed(&old, &old_key, (&root.params, &root.key));
    let new_by_old = signed(&new, &new_key, (&old, &old_key));
    let new = Made { certificate: new.self_signed(&new_key).unwrap(), params: new, key: new_key };
    let own = Maker::new(&["a.example.org"]).signed_by(&new);
    let trusted = trusting(&[root.certificate.der()]);
    check(&trusted, &[own.certificate.der(), &new_by_old, &old_by_root]).unwrap();
    check(&trusted, &[own.certificate.der(), &old_by_root, &new_by_old]).unwrap();
}

#[test]
fn who_trusts_many_keys_of_one_name_has_them_all_tried() {
    let made: Vec<Made> = (0..20).map(|_| Maker::authority("the CA").self_signed()).collect();
    let all: Vec<&CertificateDer<'_>> = made.iter().map(|made| made.certificate.der()).collect();
    for issuer in [&made[0], &made[19]] {
        let own = Maker::new(&["a.example.org"]).signed_by(issuer);
        check(&trusting(&all), &[own.certificate.der()]).unwrap();
    }
}

/// CA certificates of one name, each with a separate key and signed by the next, and a client's that the first signed.
fn of_one_name(name: &str, count: usize) -> (Vec<CertificateDer<'static>>, CertificateDer<'static>) {
    let algorithm = &rcgen::PKCS_ECDSA_P521_SHA512;
    let ca = params(name);
    let keys: Vec<KeyPair> = (0..3).map(|_| KeyPair::generate_for(algorithm).unwrap()).collect();
    let certificates = (0..count)
        .map(|number| signed(&ca, &keys[number % 3], (&ca, &keys[(number / 3 + number + 1) % 3])))
        .collect();
    let own = CertificateParams::new(vec!["a.example.org".to_owned()]).unwrap();
    let own = signed(&own, &KeyPair::generate().unwrap(), (&ca, &keys[0]));
    (certificates, own)
}

/// Maximum cost of any chain. The goal is 5 ms; tests are built without optimisation and run beside others.
const BOUND: Duration = Duration::from_millis(25);

#[test]
fn many_cas_of_one_name_cost_little() {
    // A client chooses the issuer that its certificate names, and the names of trusted CAs are no secret.
    let trusted = Maker::authority("the CA").algorithm(&rcgen::PKCS_ECDSA_P521_SHA512).self_signed();
    let trusted = trusting(&[trusted.certificate.der()]);
    for name in ["the CA", "nobody"] {
        let (certificates, own) = of_one_name(name, INTERMEDIATES);
        let chain: Vec<&CertificateDer<'_>> = std::iter::once(&own).chain(&certificates).collect();
        let spent = cost(|| {
            assert_eq!(check(&trusted, &chain), Err(Refusal::TooMuchWork));
        });
        assert!(spent < BOUND, "{name}: {spent:?}");
    }
}

#[test]
fn a_bad_signature_is_blamed_on_the_key_only_when_that_is_too_small() {
    let root = Maker::authority("root").algorithm(&rcgen::PKCS_RSA_SHA256).self_signed();
    let own = Maker::new(&["a.example.org"]).signed_by(&root);
    let trusted = trusting(&[root.certificate.der()]);
    check(&trusted, &[own.certificate.der()]).unwrap();
    let mut bytes = own.certificate.der().to_vec();
    // The signature is what a certificate ends with.
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(check(&trusted, &[&bytes.into()]), Err(Refusal::BadSignature));
}

#[test]
fn signatures_by_a_ca_that_helps_are_counted() {
    // Five CAs, each good, and five of one name below them, each good too; none of these signed the client.
    let algorithm = &rcgen::PKCS_ECDSA_P521_SHA512;
    let root = Maker::authority("root").algorithm(algorithm).self_signed();
    let mut line = vec![Maker::authority("1").algorithm(algorithm).signed_by(&root)];
    for name in ["2", "3", "4", "5"] {
        let next = Maker::authority(name).algorithm(algorithm).signed_by(line.last().unwrap());
        line.push(next);
    }
    let low: Vec<Made> = (0..5)
        .map(|_| Maker::authority("low").algorithm(algorithm).signed_by(line.last().unwrap()))
        .collect();
    let liar = Maker::authority("low").algorithm(algorithm).self_signed();
    let own = Maker::new(&["a.example.org"]).signed_by(&liar);
    let good = Maker::new(&["a.example.org"]).signed_by(&low[0]);
    let rest = || line.iter().chain(&low).map(|made| made.certificate.der());
    let trusted = trusting(&[root.certificate.der()]);
    let chain: Vec<&CertificateDer<'_>> = std::iter::once(own.certificate.der()).chain(rest()).collect();
    let spent = cost(|| assert_eq!(check(&trusted, &chain), Err(Refusal::TooMuchWork)));
    assert!(spent < BOUND, "{spent:?}");
    // A path as long as may be is good.
    let chain: Vec<&CertificateDer<'_>> =
        std::iter::once(good.certificate.der()).chain(rest().take(6)).collect();
    check(&trusted, &chain).unwrap();
}

#[test]
fn name_constraints_cost_little() {
    let root = Maker::authority("root").self_signed();
    let mut ca = params("middle");
    let subtree = |number: usize| GeneralSubtree::DnsName(format!("{number}.org"));
    ca.name_constraints = Some(NameConstraints {
        permitted_subtrees: (0..1000).map(subtree).collect(),
        excluded_subtrees: vec![],
    });
    let key = KeyPair::generate().unwrap();
    let middle = signed(&ca, &key, (&root.params, &root.key));
    let names =
        |count: usize| (0..count).map(|number| format!("a.{}.org", number % 1000)).collect::<Vec<_>>();
    let trusted = trusting(&[root.certificate.der()]);
    for (count, is_good) in [(40, true), (2000, false)] {
        let own = CertificateParams::new(names(count)).unwrap();
        let own = signed(&own, &KeyPair::generate().unwrap(), (&ca, &key));
        let spent = cost(|| assert_eq!(check(&trusted, &[&own, &middle]).is_ok(), is_good));
        assert!(spent < BOUND, "{count} names: {spent:?}");
    }
}

#[test]
fn large_certificates_cost_little() {
    let root = Maker::authority("root").self_signed();
    let trusted = trusting(&[root.certificate.der()]);
    let of = |change: &dyn Fn(&mut CertificateParams)| {
        let mut own = CertificateParams::new(vec!["a.example.org".to_owned()]).unwrap();
        change(&mut own);
        signed(&own, &KeyPair::generate().unwrap(), (&root.params, &root.key))
    };
    let extension =
        |last: u64, content: Vec<u8>| CustomExtension::from_oid_content(&[1, 2, 3, last], content);
    let cases = [
        (
            "names",
            of(&|own| own.subject_alt_names = vec![SanType::URI("a".try_into().unwrap()); 10_000]),
            true,
        ),
        (
            "extensions",
            of(&|own| own.custom_extensions = (0..2000).map(|last| extension(last, vec![5, 0])).collect()),
            false,
        ),
        (
            "purposes",
            of(&|own| own.extended_key_usages = vec![ExtendedKeyUsagePurpose::Other(vec![1, 2, 3]); 5000]),
            false,
        ),
        ("one extension", of(&|own| own.custom_extensions = vec![extension(1, vec![0; 40_000])]), true),
        ("too long", of(&|own| own.custom_extensions = vec![extension(1, vec![0; 49_000])]), false),
    ];
    for (what, own, is_good) in cases {
        let spent = cost(|| assert_eq!(check(&trusted, &[&own]).is_ok(), is_good, "{what}"));
        let named = cost(|| {
            assert!(Authorities::check_name(&own, &"b.example.org".try_into().unwrap(), false).is_err())
        });
        assert!(spent + named < BOUND, "{what}: {spent:?}, its name {named:?}");
    }
}

/// Outlines contain the same values as those of other parsers.
#[test]
fn outlines_are_those_of_a_whole_parser() {
    let mut params = params("a CA");
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyCertSign];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.subject_alt_names = vec![SanType::URI("a".try_into().unwrap()); 3];
    let subtrees = vec![GeneralSubtree::DnsName("a.example".to_owned()); 5];
    params.name_constraints =
        Some(NameConstraints { permitted_subtrees: subtrees.clone(), excluded_subtrees: subtrees });
    params.use_authority_key_identifier_extension = true;
    let issuer = Maker::authority("root").self_signed();
    let der = signed(&params, &KeyPair::generate().unwrap(), (&issuer.params, &issuer.key));
    let outline = Outline::read(&der).unwrap();
    let (_, whole) = x509_parser::parse_x509_certificate(&der).unwrap();
    // Theirs is with the header, which is of two bytes for such short names.
    assert_eq!(outline.subject, &whole.subject().as_raw()[2..]);
    assert_eq!(outline.issuer, &whole.issuer().as_raw()[2..]);
    assert_eq!(outline.key, &whole.public_key().raw[2..]);
    let validity = (whole.validity().not_before.timestamp(), whole.validity().not_after.timestamp());
    assert_eq!(outline.validity(), Some(validity));
    assert_eq!((outline.version, outline.is_authority, outline.may_sign), (3, true, Some(false)));
    assert_eq!((outline.names, outline.constraints), (3, 10));
    assert_eq!(KeyKind::of_key(outline.key), KeyKind::EcdsaP256);
    assert!(outline.key_identifier.is_some() && outline.issuer_key_identifier.is_some());
    assert!(outline.is_for(&[0x2b, 6, 1, 5, 5, 7, 3, 1]) && !outline.is_for(&[0x2b, 6, 1, 5, 5, 7, 3, 2]));
}

#[test]
fn a_certificate_that_is_named_itself_is_good_from_its_first_second_to_its_last() {
    let own = Maker::new(&["a.example.org"]).self_signed();
    let mut trusted = trusting(&[]);
    trusted.pin(own.certificate.der());
    let at = |seconds: i64| {
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds.unsigned_abs()));
        trusted.check(Peer::Server, own.certificate.der(), &[], Keys::New, now)
    };
    let (from, to) = (own.params.not_before.unix_timestamp(), own.params.not_after.unix_timestamp());
    assert_eq!((at(from), at(to)), (Ok(()), Ok(())));
    assert_eq!(at(from - 1), Err(Refusal::NotYet { until: from, is_own: true }));
    assert_eq!(at(to + 1), Err(Refusal::Expired { since: to, is_own: true }));
}

#[test]
fn servers_may_have_keys_that_sign_nothing_else_and_clients_may_not() {
    let ca = Maker::authority("ca").self_signed();
    let mut params = CertificateParams::new(vec!["a.example.org".to_owned()]).unwrap();
    params.key_usages = vec![rcgen::KeyUsagePurpose::KeyAgreement];
    let own = signed(&params, &KeyPair::generate().unwrap(), (&ca.params, &ca.key));
    let trusted = trusting(&[ca.certificate.der()]);
    let as_peer = |peer| trusted.check(peer, &own, &[], Keys::New, now());
    assert_eq!(as_peer(Peer::Client), Err(Refusal::MayNotSign));
    assert_eq!(as_peer(Peer::Server), Ok(()));
}
proptest::proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
        let _ = Outline::read(&bytes).map(|outline| (KeyKind::of_key(outline.key), outline.validity()));
    }

    /// A real certificate with one byte changed gets deeper than noise does.
    #[test]
    fn no_damage_panics(place in 0_usize..400, value in proptest::prelude::any::<u8>()) {
        let ca = Maker::authority("ca").self_signed();
        let mut der = Maker::new(&["a.example.org"]).signed_by(&ca).certificate.der().to_vec();
        let place = place % der.len();
        der[place] = value;
        let damaged = CertificateDer::from(der);
        let _ = check(&trusting(&[ca.certificate.der()]), &[&damaged, &damaged]);
        let _ = check(&trusting(&[]), &[&damaged, ca.certificate.der()]);
    }
}
