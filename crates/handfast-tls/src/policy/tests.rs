//! Tests for the permanent contents of each policy, for refused policies, and for the variant that a client receives.

use super::*;

fn list(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn plain(base: &str) -> Policy {
    resolve(base, None, None, None).unwrap()
}

#[test]
fn groups_are_named() {
    let names = group_names();
    assert!(names.contains(&"X25519") && names.contains(&"secp256r1"), "{names:?}");
}

/// Published policies never change. A difference here is not to be blessed: give the new policy a new date.
#[test]
fn the_dated_policies_are_what_they_were() {
    const SUITES12: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,\
        TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,\
        TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256";
    const SUITES13: &str = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256";
    let expected = [
        (
            "2026-11",
            format!(
                "versions=0304,0303;suites={SUITES13},{SUITES12};groups=X25519MLKEM768,X25519,secp256r1,secp384r1"
            ),
        ),
        (
            "2026-11-modern",
            format!("versions=0304;suites={SUITES13};groups=X25519MLKEM768,X25519,secp256r1,secp384r1"),
        ),
        (
            "2026-11-fast",
            format!(
                "versions=0304,0303;suites={SUITES13},{SUITES12};groups=X25519,secp256r1,X25519MLKEM768,secp384r1"
            ),
        ),
    ];
    assert_eq!(names(), expected.each_ref().map(|(name, _)| *name));
    for (name, content) in &expected {
        assert_eq!(plain(name).fingerprint(), content, "{name}");
        assert!(describe(name).is_some());
    }
    assert_eq!(names()[0], DEFAULT);
    assert_eq!(describe("none"), None);
}

/// The tables' names and rustls's numbers, against the IANA registry.
#[test]
fn names_stand_for_their_numbers() {
    let suites: Vec<_> = SUITES.iter().map(|suite| (suite.name, u16::from(suite.suite.suite()))).collect();
    let expected = [
        ("TLS_AES_128_GCM_SHA256", 0x1301),
        ("TLS_AES_256_GCM_SHA384", 0x1302),
        ("TLS_CHACHA20_POLY1305_SHA256", 0x1303),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", 0xc02b),
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", 0xc02f),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", 0xc02c),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", 0xc030),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", 0xcca9),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", 0xcca8),
    ];
    assert_eq!(suites, expected);
    let groups: Vec<_> = GROUPS.iter().map(|group| (group.name, u16::from(group.group.name()))).collect();
    let expected = [
        ("X25519MLKEM768", 0x11ec),
        ("SecP256r1MLKEM768", 0x11eb),
        ("X25519", 0x001d),
        ("secp256r1", 0x0017),
        ("secp384r1", 0x0018),
    ];
    assert_eq!(groups, expected);
    for group in GROUPS {
        assert_eq!(group.in_tls12, group.group.usable_for_version(rustls::ProtocolVersion::TLSv1_2));
    }
}

#[test]
fn overrides_replace_lists_and_take_any_case() {
    let versions = list(&["1.2", "1.3"]);
    let suites = list(&["TLS_AES_256_GCM_SHA384", "tls_ecdhe_rsa_with_aes_128_gcm_sha256"]);
    let groups = list(&["SECP384R1", "x25519"]);
    let policy = resolve("2026-11-modern", Some(&versions), Some(&suites), Some(&groups)).unwrap();
    assert_eq!(policy.version_names(), ["1.3", "1.2"]);
    assert_eq!(policy.suite_names(), ["TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    assert_eq!(policy.group_names(), ["secp384r1", "X25519"]);
    // Suites of a version that is turned off go without a word when they come from the policy.
    let only12 = resolve("2026-11", Some(&list(&["1.2"])), None, None).unwrap();
    assert_eq!(only12.suite_names().len(), 6);
    assert_ne!(only12.fingerprint(), plain("2026-11").fingerprint());
}

#[test]
fn all_problems_are_reported_at_once() {
    let versions = list(&["1.1", "TLSv1.3"]);
    let suites = list(&["ECDHE-RSA-AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA"]);
    let groups = list(&["P-256", "x25519", "X25519", "prime256v1"]);
    let problems = resolve("2025", Some(&versions), Some(&suites), Some(&groups)).unwrap_err();
    let messages: Vec<_> = problems
        .iter()
        .map(|problem| (problem.field, problem.index, problem.value.as_str(), problem.meant))
        .collect();
    let expected = [
        (Field::Policy, None, "2025", None),
        (Field::Versions, Some(0), "1.1", None),
        (Field::Versions, Some(1), "TLSv1.3", Some("1.3")),
        (
            Field::Suites,
            Some(0),
            "ECDHE-RSA-AES128-GCM-SHA256",
            Some("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        ),
        (Field::Suites, Some(1), "TLS_RSA_WITH_AES_128_CBC_SHA", None),
        (Field::Groups, Some(0), "P-256", Some("secp256r1")),
        (Field::Groups, Some(2), "X25519", None),
        (Field::Groups, Some(3), "prime256v1", Some("secp256r1")),
    ];
    assert_eq!(messages, expected);
    assert_eq!(problems[1].allowed, ["1.3", "1.2"]);
    assert_eq!(
        problems[1].to_string(),
        "versions: \"1.1\" is not supported: it rests on SHA-1 and MD5, and RFC 8996 forbids it, expected one of 1.3, 1.2"
    );
}

#[test]
fn lists_that_leave_a_version_nothing_are_refused() {
    let messages_of = |problems: Vec<PolicyProblem>| {
        problems.into_iter().map(|problem| (problem.field, problem.index, problem.what)).collect::<Vec<_>>()
    };
    let problems = resolve("2026-11", None, Some(&list(&["TLS_AES_128_GCM_SHA256"])), None).unwrap_err();
    assert_eq!(
        messages_of(problems),
        [(Field::Suites, None, "leave TLS 1.2, which is enabled, without any suite")]
    );
    let problems = resolve("2026-11", None, None, Some(&list(&["X25519MLKEM768"]))).unwrap_err();
    let what = "leave TLS 1.2, which is enabled, without any group that it can use";
    assert_eq!(messages_of(problems), [(Field::Groups, None, what)]);
    let suites = list(&["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]);
    let problems = resolve("2026-11-modern", None, Some(&suites), None).unwrap_err();
    assert_eq!(
        messages_of(problems),
        [(Field::Suites, Some(1), "is a suite of a version that is not enabled")]
    );
    for empty in [
        resolve("2026-11", Some(&[]), None, None),
        resolve("2026-11", None, Some(&[]), None),
        resolve("2026-11", None, None, Some(&[])),
    ] {
        assert!(empty.unwrap_err().iter().all(|problem| problem.what == "is an empty list"));
    }
}

const HYBRID: u16 = 0x11ec;
const X25519: u16 = 0x001d;
const P256: u16 = 0x0017;
const GREASE: u16 = 0x2a2a;

/// The groups and the first suite that a client with this offer gets.
fn gets(policy: &Policy, offer: &Offer<'_>) -> (Vec<u16>, u16) {
    let variant = &policy.variants()[policy.variant_for(offer)];
    let groups = variant.kx_groups.iter().map(|group| u16::from(group.name())).collect();
    (groups, u16::from(variant.cipher_suites[0].suite()))
}

#[test]
fn our_order_of_groups_decides_but_never_costs_a_round_trip() {
    let policy = plain("2026-11");
    let gets = |groups: &[u16], shares: &[u16]| {
        gets(&policy, &Offer { tls13: true, suites: &[0x1301], groups, shares }).0
    };
    assert_eq!(gets(&[GREASE, X25519, HYBRID], &[GREASE, X25519, HYBRID]), [HYBRID]);
    assert_eq!(gets(&[X25519, HYBRID], &[X25519]), [X25519], "a share at hand wins");
    assert_eq!(gets(&[P256, X25519], &[]), [X25519], "without shares our order wins");
    assert_eq!(gets(&[P256], &[HYBRID]), [P256], "a share of a group that is not named does not count");
    assert_eq!(gets(&[GREASE], &[GREASE]).len(), 4, "nothing in common: rustls refuses");
    let fast = plain("2026-11-fast");
    let offer = Offer { tls13: true, suites: &[], groups: &[HYBRID, X25519], shares: &[HYBRID, X25519] };
    assert_eq!(super::tests::gets(&fast, &offer).0, [X25519]);
}

#[test]
fn tls_1_2_gets_a_group_it_can_use() {
    let policy = plain("2026-11");
    let offer = Offer { tls13: false, suites: &[0xc02f], groups: &[HYBRID, P256, X25519], shares: &[] };
    assert_eq!(gets(&policy, &offer).0, [X25519]);
    // Also when the client could do 1.3 and we must not.
    let only12 = resolve("2026-11", Some(&list(&["1.2"])), None, None).unwrap();
    let offer = Offer { tls13: true, suites: &[0xc02f], groups: &[HYBRID, P256], shares: &[HYBRID] };
    assert_eq!(gets(&only12, &offer).0, [P256]);
}

#[test]
fn a_client_that_puts_chacha_first_gets_it() {
    let policy = plain("2026-11");
    let first = |tls13, suites: &[u16]| {
        gets(&policy, &Offer { tls13, suites, groups: &[X25519], shares: &[X25519] }).1
    };
    assert_eq!(first(true, &[0x1301, 0x1303]), 0x1301);
    assert_eq!(first(true, &[0x1302, 0x1301]), 0x1301, "otherwise our order");
    assert_eq!(first(true, &[GREASE, 0x1303, 0x1301]), 0x1303);
    // Suites of the version that is not used do not count.
    assert_eq!(first(true, &[0xcca8, 0x1301]), 0x1301);
    assert_eq!(first(false, &[0x1301, 0xcca8, 0xc02f]), 0x1303);
}

#[test]
fn every_variant_is_a_configuration_that_rustls_takes() {
    for name in names() {
        let policy = plain(name);
        assert_eq!(policy.variants().len(), 2 * policy.groups.len() + 2);
        assert_eq!(policy.plain().kx_groups.len(), policy.groups.len());
        for (place, variant) in policy.variants().iter().enumerate() {
            let built = rustls::ServerConfig::builder_with_provider(variant.clone())
                .with_protocol_versions(policy.versions());
            // With a hybrid group alone TLS 1.2 has none, and rustls does not mind: `variant_for` sends no such client
            // there.
            assert!(built.is_ok(), "{name} {place}: {:?}", built.err());
        }
    }
}

proptest::proptest! {
    #[test]
    fn any_offer_has_a_variant(
        tls13: bool,
        suites in proptest::collection::vec(proptest::prelude::any::<u16>(), 0..20),
        groups in proptest::collection::vec(proptest::sample::select(vec![HYBRID, X25519, P256, GREASE, 0x18]), 0..6),
        shares in proptest::collection::vec(proptest::sample::select(vec![HYBRID, X25519, P256, GREASE, 0x18]), 0..6),
    ) {
        let policy = plain("2026-11");
        let offer = Offer { tls13, suites: &suites, groups: &groups, shares: &shares };
        let (picked, _) = gets(&policy, &offer);
        // The picked group is offered, and there is a share for it if there is one for any.
        if let [group] = picked[..] {
            proptest::prop_assert!(groups.contains(&group));
            let could = policy.groups.iter().any(|ours| {
                let number = u16::from(ours.group.name());
                groups.contains(&number) && shares.contains(&number)
            });
            proptest::prop_assert!(!tls13 || !could || shares.contains(&group));
        }
    }
}
