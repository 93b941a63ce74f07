//! Who is trusted by what files and pins.

use rustls_pki_types::ServerName;

use super::*;
use crate::finding::Severity;
use crate::testing::{Folder, Made, Maker, NOW};

fn at() -> UnixTime {
    UnixTime::since_unix_epoch(std::time::Duration::from_secs(NOW.unsigned_abs()))
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(NOW.unsigned_abs())
}

fn name(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).expect("a name")
}

fn good(trust: &Trust, made: &Made, host: &str) -> bool {
    trust.check(made.certificate.der(), &[], &name(host), at()).is_ok()
}

fn loaded(pem: &str) -> LoadedTrust {
    let folder = Folder::new();
    load(&folder.put("ca.pem", pem), &Arc::default(), now())
}

#[test]
fn a_ca_makes_those_good_that_it_signed_for_their_names() {
    let (ca, other) = (Maker::authority("a CA").self_signed(), Maker::authority("another").self_signed());
    let server = Maker::new(&["backend.example"]).signed_by(&ca);
    let trust = loaded(&ca.pem()).trust.expect("no error");
    assert!(good(&trust, &server, "backend.example"));
    assert!(!good(&trust, &server, "other.example"), "another name");
    assert!(!good(&trust, &Maker::new(&["backend.example"]).signed_by(&other), "backend.example"));
    let any = trust.asking(&[], false);
    assert!(good(&any, &server, "other.example"), "any name was asked for");
    assert!(!good(&any, &Maker::new(&["backend.example"]).signed_by(&other), "backend.example"));
}

/// The usual first attempt, as with curl's `--cacert`.
#[test]
fn a_self_signed_certificate_may_be_named_itself() {
    let server = Maker::new(&["backend.example"]).self_signed();
    let trust = loaded(&server.pem()).trust.expect("no error");
    assert!(good(&trust, &server, "backend.example"));
    assert!(!good(&trust, &server, "other.example"));
    assert!(!good(&trust, &Maker::new(&["backend.example"]).self_signed(), "backend.example"), "another one");
}

#[test]
fn a_pinned_key_is_asked_for_beside_the_ca_or_decides_alone() {
    let ca = Maker::authority("a CA").self_signed();
    let [server, other] = [0, 1].map(|_| Maker::new(&["backend.example"]).signed_by(&ca));
    let pin = Pin::of(server.certificate.der()).expect("readable");
    let both = loaded(&ca.pem()).trust.expect("no error").asking(&[pin], true);
    assert!(good(&both, &server, "backend.example"));
    assert!(!good(&both, &other, "backend.example"), "another key");
    assert!(!good(&both, &server, "other.example"), "the name counts too");
    let alone = Trust::only_pins(&[pin]);
    assert!(good(&alone, &server, "other.example"), "nothing but the key counts");
    assert!(!good(&alone, &other, "backend.example"));
    let expired = Maker::new(&["old.example"]).valid((2020, 1, 1), (2021, 1, 1)).self_signed();
    let pin = Pin::of(expired.certificate.der()).expect("readable");
    assert!(good(&Trust::only_pins(&[pin]), &expired, "backend.example"), "not even its dates");
}

#[test]
fn what_is_wrong_with_the_file_is_said() {
    let ca = Maker::authority("a CA").self_signed();
    for (pem, reason) in [
        (String::new(), Reason::Empty),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n".into(), Reason::Truncated),
        (ca.key_pem(), Reason::NoCertificate),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".into(), Reason::BadCertificate),
    ] {
        let loaded = loaded(&pem);
        assert!(loaded.trust.is_none(), "{reason:?}");
        assert!(loaded.findings.iter().any(|finding| finding.reason == reason), "{:?}", loaded.findings);
    }
    let old = loaded(&Maker::authority("old").valid((2020, 1, 1), (2021, 1, 1)).self_signed().pem());
    assert!(old.trust.is_some() && old.findings[0].reason == Reason::Expired, "{:?}", old.findings);
    assert_eq!(old.findings[0].severity, Severity::Warning);
    let missing = load(Path::new("/nowhere/ca.pem"), &Arc::default(), now());
    assert!(missing.trust.is_none() && missing.findings[0].reason == Reason::Missing);
}

#[test]
fn a_certificate_is_in_time_until_its_last_second() {
    let made = Maker::authority("a CA").self_signed();
    let last = made.params.not_after.unix_timestamp().unsigned_abs();
    let folder = Folder::new();
    let ca = folder.put("ca.pem", made.pem());
    let findings = |seconds: u64| {
        let now = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        load(&ca, &Arc::default(), now).findings.len()
    };
    assert_eq!((findings(last), findings(last + 1)), (0, 1));
}

#[test]
fn of_several_authorities_the_bad_one_is_named_by_its_number() {
    let good = Maker::authority("a CA").self_signed();
    let bad = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let why = |pem: String| of_pem(pem.as_bytes()).expect_err("it cannot be read").to_string();
    assert!(why(bad.to_owned()).starts_with("trusted CA 1: "));
    assert!(why(good.pem() + bad).starts_with("trusted CA 2: "));
}

#[test]
fn a_name_is_asked_for_unless_keys_alone_decide() {
    let ca = Maker::authority("a CA").self_signed();
    let strict = loaded(&ca.pem()).trust.expect("no error");
    assert!(strict.asks_for_a_name() && !strict.asking(&[], false).asks_for_a_name());
    assert!(!Trust::only_pins(&[]).asks_for_a_name());
}

/// Whatever this machine has: the set is empty only where there are no CAs.
#[test]
fn the_machines_own_authorities_are_trusted_where_there_are_any() {
    let any = !rustls_native_certs::load_native_certs().certs.is_empty();
    assert_eq!(system(&Arc::default()).is_ok(), any);
}

/// What was read twice is the same, so that a reload does not throw away sessions for nothing.
#[test]
fn the_same_files_and_pins_are_the_same_trust() {
    let [one, other] = ["one", "other"].map(|subject| Maker::authority(subject).self_signed());
    let trust = |made: &Made| loaded(&made.pem()).trust.expect("no error");
    assert_eq!(trust(&one), trust(&one));
    assert_ne!(trust(&one), trust(&other));
    assert_ne!(trust(&one), trust(&one).asking(&[], false));
    let pin = Pin::of(one.certificate.der()).expect("readable");
    assert_ne!(trust(&one), trust(&one).asking(&[pin], true));
}

/// After a file breaks, its former certificates stay trusted; a new required name applies at once.
#[test]
fn what_was_asked_before_is_forgotten() {
    let ca = Maker::authority("a CA").self_signed();
    let server = Maker::new(&["backend.example"]).signed_by(&ca);
    let pin = Pin::of(ca.certificate.der()).expect("readable");
    let lax = loaded(&ca.pem()).trust.expect("no error").asking(&[pin], false);
    assert!(!good(&lax, &server, "other.example"), "the key is another");
    let strict = lax.asking(&[], true);
    assert!(good(&strict, &server, "backend.example") && !good(&strict, &server, "other.example"));
}
