//! Tests for the certificates that rules match, and for invalid rules.

use std::net::IpAddr;

use rcgen::{CertificateParams, DnType, DnValue, KeyPair, SanType};
use rustls_pki_types::CertificateDer;

use super::*;
use crate::subject::text;

/// A certificate with a subject and names of every kind.
fn certificate(subject: &[(DnType, DnValue)], names: &[SanType]) -> (CertificateDer<'static>, KeyPair) {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), value.clone());
    }
    params.subject_alt_names = names.to_vec();
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().der().clone(), key)
}

fn usual() -> CertificateDer<'static> {
    let names = [
        SanType::DnsName("Web.Clients.example.org".try_into().unwrap()),
        SanType::Rfc822Name("alice@Example.org".try_into().unwrap()),
        SanType::URI("spiffe://example.org/web/one".try_into().unwrap()),
        SanType::IpAddress("10.1.2.3".parse::<IpAddr>().unwrap()),
        SanType::IpAddress("2001:db8::7".parse::<IpAddr>().unwrap()),
    ];
    let subject = [
        (DnType::OrganizationName, DnValue::PrintableString("Example".try_into().unwrap())),
        (DnType::CommonName, DnValue::Utf8String("alice, née O=x".into())),
    ];
    certificate(&subject, &names).0
}

fn with_uris(uris: &[&str]) -> CertificateDer<'static> {
    let names: Vec<_> = uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())).collect();
    certificate(&[(DnType::CommonName, "x".into())], &names).0
}

fn rules(texts: &[&str]) -> Vec<Rule> {
    texts.iter().map(|text| Rule::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))).collect()
}

fn fits(rule: &str, certificate: &CertificateDer<'_>) -> bool {
    let rules = Rules { allow: rules(&[rule]), refuse: Vec::new() };
    rules.decide(certificate).is_ok()
}

#[test]
fn a_subject_counts_where_openssl_has_it() {
    let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
    let mail = |name: &str| SanType::Rfc822Name(name.try_into().unwrap());
    let email_type = DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
    let with = |names: &[SanType]| {
        let subject = [
            (DnType::CommonName, "a.example".into()),
            (email_type.clone(), DnValue::Ia5String("alice@example.org".try_into().unwrap())),
        ];
        certificate(&subject, names).0
    };
    for (rule, names, is_for_it) in [
        ("insecure-dns-or-cn:a.example", vec![], true),
        ("insecure-dns-or-cn:A.example", vec![mail("b@b.example")], true),
        ("insecure-dns-or-cn:a.example", vec![dns("b.example")], false),
        ("insecure-dns-or-cn:b.example", vec![dns("b.example")], true),
        ("insecure-dns-or-cn:x.b.example", vec![dns("*.b.example")], true),
        ("insecure-dns-or-cn:x.y.b.example", vec![dns("*.b.example")], false),
        ("insecure-dns-or-cn:.b.example", vec![dns("x.y.b.example")], true),
        ("insecure-dns-or-cn:.b.example", vec![dns("b.example")], false),
        ("insecure-dns-or-cn:.example", vec![], true),
        ("insecure-dns-or-cn:b.example", vec![], false),
        ("insecure-email-or-subject:alice@Example.org", vec![], true),
        ("insecure-email-or-subject:alice@example.org", vec![dns("a.example")], true),
        ("insecure-email-or-subject:alice@example.org", vec![mail("bob@example.org")], false),
        ("insecure-email-or-subject:bob@example.org", vec![mail("bob@example.org")], true),
        ("insecure-email-or-subject:Alice@example.org", vec![], false),
    ] {
        assert_eq!(fits(rule, &with(&names)), is_for_it, "{rule} {names:?}");
    }
    for wrong in [
        "insecure-dns-or-cn:*.example.org",
        "insecure-email-or-subject:*@example.org",
        "insecure-dns-or-cn:a b",
    ] {
        assert!(Rule::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_kind_of_rule_is_for_its_names_alone() {
    let own = usual();
    for (rule, is_for_it) in [
        ("cn:alice, née O=x", true),
        ("cn:alice", false),
        ("subject:O=Example, CN=alice\\, née O\\=x", true),
        ("subject:CN=alice\\, née O\\=x,O=Example", true),
        ("subject:cn=alice\\, née O\\=x + o=Example", true),
        ("subject:CN=alice\\, née O\\=x", false),
        ("subject:O=Example, CN=alice, OU=née O=x", false),
        ("subject:O=Example, CN=mallory", false),
        ("subject:O=Another, CN=alice\\, née O\\=x", false),
        ("subject:CN=Example, O=alice\\, née O\\=x", false),
        ("dns:web.clients.example.org", true),
        ("dns:*.clients.example.org", true),
        ("dns:*.CLIENTS.example.org", true),
        ("dns:*.example.org", false),
        ("dns:clients.example.org", false),
        ("dns:*.org", false),
        ("email:alice@example.org", true),
        ("email:*@example.org", true),
        ("email:Alice@example.org", false),
        ("email:*@org", false),
        ("uri:spiffe://example.org/web/one", true),
        ("spiffe://example.org/web/one", true),
        ("spiffe://example.org/web/*", true),
        ("spiffe://example.org/*/one", true),
        ("spiffe://example.org/**", true),
        ("spiffe://example.org/*", false),
        ("spiffe://example.org/web", false),
        ("spiffe://example.org/web/one/**", false),
        ("spiffe://example.org", false),
        ("spiffe://example.or/**", false),
        ("ip:10.1.2.3", true),
        ("ip:10.0.0.0/8", true),
        ("ip:0.0.0.0/0", true),
        ("ip:10.1.2.2/31", true),
        ("ip:10.1.2.4", false),
        ("ip:2001:db8::/32", true),
        ("ip:::/0", true),
        ("ip:2001:db9::/32", false),
        ("ip:11.0.0.0/8", false),
    ] {
        assert_eq!(fits(rule, &own), is_for_it, "{rule}");
    }
}

#[test]
fn older_certificates_have_their_names_in_other_letters() {
    let named = |value: DnValue| certificate(&[(DnType::CommonName, value)], &[]).0;
    assert!(fits("cn:née", &named(DnValue::BmpString("née".try_into().unwrap()))));
    assert!(fits("cn:alice", &named(DnValue::TeletexString("alice".try_into().unwrap()))));
    // T.61 is no UTF-8, and its letters are unknown; half a letter is none.
    assert_eq!((text(0x14, "née".as_bytes()), text(0x1e, b"\0a\0")), (None, None));
}

#[test]
fn a_client_is_called_by_its_names_as_rules_write_them() {
    let uris = with_uris(&["spiffe://example.org/a", "https://example.org/b"]);
    let outline = Outline::read(&uris).unwrap();
    let text = Identity::of(&outline, 1).unwrap().to_string();
    assert_eq!(text, "cn:x, spiffe://example.org/a, uri:https://example.org/b");
}

#[test]
fn an_id_is_that_of_one_uri_and_of_no_tricks() {
    assert!(fits("spiffe://example.org/web/*", &with_uris(&["spiffe://example.org/web/a"])));
    // A certificate with two has none.
    let two = with_uris(&["spiffe://example.org/web/a", "spiffe://example.org/web/b"]);
    assert!(!fits("spiffe://example.org/web/*", &two));
    assert!(fits("uri:spiffe://example.org/web/*", &two));
    for (uri, rule) in [
        ("spiffe://example.org/web/", "spiffe://example.org/web/*"),
        ("spiffe://example.org/web/..", "spiffe://example.org/web/*"),
        ("spiffe://example.org/web/../admin", "spiffe://example.org/web/**"),
        ("spiffe://example.org/web//a", "spiffe://example.org/web/**"),
        ("spiffe://example.org/web/a/b", "spiffe://example.org/web/*"),
        ("spiffe://example.org.evil.net/web/a", "spiffe://example.org/web/*"),
        ("https://example.org/web/a", "spiffe://example.org/web/*"),
    ] {
        assert!(!fits(rule, &with_uris(&[uri])), "{uri} {rule}");
    }
}

#[test]
fn a_pin_is_of_the_key_as_openssl_and_curl_write_it() {
    let folder = handfast_testkit::maker::Folder::new();
    let (der, key) = certificate(&[(DnType::CommonName, "x".into())], &[]);
    folder.put("key.pem", key.serialize_pem());
    folder.openssl("pkey -in key.pem -pubout -outform der | openssl dgst -sha256 -binary | base64 > pin");
    let pin = std::fs::read_to_string(folder.at("pin")).unwrap();
    assert!(fits(&format!("pin:sha256/{}", pin.trim()), &der));
    assert!(fits(&format!("pin:sha256//{}", pin.trim()), &der));
    assert!(!fits(&format!("pin:sha256/{}", pin.trim()), &usual()));
}

#[test]
fn refuse_wins_and_the_rule_is_named() {
    let own = usual();
    let decide = |allow: &[&str], refuse: &[&str]| {
        let rules = Rules { allow: rules(allow), refuse: rules(refuse) };
        rules.decide(&own).map(|rule| rule.map(ToString::to_string)).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(decide(&[], &[]), Ok(None));
    assert_eq!(decide(&[], &["cn:bob"]), Ok(None));
    assert_eq!(decide(&["cn:bob", "ip:10.0.0.0/8"], &["cn:bob"]), Ok(Some("ip:10.0.0.0/8".into())));
    let refused = decide(&["ip:10.0.0.0/8"], &["email:*@example.org"]);
    assert_eq!(refused, Err("the rule refuse = \"email:*@example.org\" is for it".into()));
    let stranger = decide(&["cn:bob"], &[]).unwrap_err();
    assert_eq!(
        stranger,
        "none of the `allow` rules is for it: cn:alice, née O=x, dns:Web.Clients.example.org, email:alice@Example.org, \
         spiffe://example.org/web/one, ip:10.1.2.3 and 1 other names"
    );
}

#[test]
fn rules_that_mean_nothing_are_refused() {
    for (text, word) in [
        ("alice", "does not say what it is about"),
        ("cn:", "nothing follows"),
        ("cn:*.example.org", "no wildcards"),
        ("user:alice", "no kind of rule"),
        ("dns:", "nothing follows"),
        ("dns:a.*.org", "no host name"),
        ("dns:*", "no host name"),
        ("dns:a b", "no host name"),
        ("ip:10.0.0.1/8", "beyond its 8"),
        ("ip:10.0.0.0/33", "no IP address"),
        ("ip:10.0.0", "no IP address"),
        ("uri:https://a/b*", "a whole part"),
        ("uri:https://a/**/b", "only at the end"),
        ("spiffe:example.org", "no SPIFFE ID"),
        ("spiffe://Example.org/a", "no trust domain"),
        ("spiffe:///a", "no trust domain"),
        ("spiffe://*/a", "no trust domain"),
        ("spiffe://example.org/a/", "no empty parts"),
        ("spiffe://example.org/../a", "no empty parts"),
        ("email:alice", "no address"),
        ("email:alice@", "no address"),
        ("email:@example.org", "no address"),
        ("email:alice@*.org", "no address"),
        ("email:a*@example.org", "in front of the `@`"),
        ("email:*@*", "no address"),
        ("subject:alice", "no part of a subject"),
        ("subject:XY=alice", "no part of a subject"),
        ("pin:sha1/AAAA", "no pin"),
        ("pin:sha256/AAAA", "no pin"),
        ("pin:sha256/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=", "no pin"),
    ] {
        let error = Rule::parse(text).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn thousands_of_names_are_refused_and_not_compared() {
    let names: Vec<_> = (0..2_000).map(|number| format!("http://example.org/{number}")).collect();
    let own = with_uris(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let rules = Rules {
        allow: (0..200).map(|number| Rule::parse(&format!("uri:x{number}")).unwrap()).collect(),
        refuse: vec![],
    };
    let refusal = rules.decide(&own).unwrap_err();
    assert_eq!(refusal, Refusal::TooManyNames { names: 2_000 });
}

/// Edges of the forms: whole networks of one address, and names that are hardly any.
#[test]
fn a_rule_is_for_nothing_that_only_looks_like_it() {
    let own = usual();
    for (rule, is_for_it) in
        [("ip:10.1.2.3/32", true), ("ip:2001:db8::7/128", true), ("ip:10.1.2.2/32", false)]
    {
        assert_eq!(fits(rule, &own), is_for_it, "{rule}");
    }
    let named = |name: SanType| certificate(&[(DnType::CommonName, "x".into())], &[name]).0;
    let email = |text: &str| named(SanType::Rfc822Name(text.try_into().unwrap()));
    assert!(!fits("email:*@example.org", &email("@example.org")), "nobody's address");
    assert!(!fits("email:*@example.org", &email("alice")));
    let four = named(SanType::IpAddress("0.0.0.1".parse().unwrap()));
    let six = named(SanType::IpAddress("::1".parse().unwrap()));
    assert!(!fits("ip:::1", &four) && !fits("ip:0.0.0.1", &six), "the same number of another kind");
    assert!(!fits("ip:::/0", &four) && !fits("ip:0.0.0.0/0", &six));
    let dns = |text: &str| named(SanType::DnsName(text.try_into().unwrap()));
    assert!(fits("dns:a.example.org", &dns("a.example.org.")), "with the root's dot");
    assert!(!fits("dns:*.example.org", &dns("a.b.example.org")));
    assert!(!fits("dns:b", &dns("a.b")) && fits("dns:*.b", &dns("a.b")));
}

/// Clients choose their names: a refusal in the log is no longer than this for it.
#[test]
fn long_names_are_cut_where_a_client_is_described() {
    let long = format!("https://example.org/{}", "x".repeat(500));
    let text_of = |uris: &[&str]| {
        let own = with_uris(uris);
        Identity::of(&Outline::read(&own).unwrap(), 1).unwrap().to_string()
    };
    assert_eq!(text_of(&[&long]), format!("cn:x, uri:{}", &long[..128]));
    assert_eq!(text_of(&[&long[..128]]), format!("cn:x, uri:{}", &long[..128]));
    assert_eq!(text_of(&["a:1", "a:2", "a:3", "a:4"]), "cn:x, uri:a:1, uri:a:2, uri:a:3, uri:a:4");
    assert_eq!(
        text_of(&["a:1", "a:2", "a:3", "a:4", "a:5"]),
        "cn:x, uri:a:1, uri:a:2, uri:a:3, uri:a:4 and 1 other names"
    );
    let (nobody, _) = certificate(&[], &[]);
    assert_eq!(Identity::of(&Outline::read(&nobody).unwrap(), 1).unwrap().to_string(), "it has no names");
}

#[test]
fn as_many_names_as_are_compared_are_compared() {
    let names: Vec<_> = (0..200).map(|number| format!("http://example.org/{number}")).collect();
    let own = with_uris(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let mut rules = Rules {
        allow: (0..999).map(|number| Rule::parse(&format!("uri:x{number}")).unwrap()).collect(),
        refuse: vec![Rule::parse("uri:http://example.org/no").unwrap()],
    };
    rules.allow[998] = Rule::parse("uri:http://example.org/199").unwrap();
    assert!(rules.decide(&own).is_ok(), "1,000 rules and 200 names");
    rules.allow.push(Rule::parse("cn:x").unwrap());
    assert_eq!(rules.decide(&own), Err(Refusal::TooManyNames { names: 200 }));
}

proptest::proptest! {
    #[test]
    fn no_rule_and_no_name_panics(text in ".{0,60}", kind in 0..9_usize, place in 0_usize..2000, value in proptest::prelude::any::<u8>()) {
        let kinds = ["", "cn:", "subject:", "dns:", "ip:", "uri:", "spiffe://", "email:", "pin:sha256/"];
        let mut der = usual().to_vec();
        let place = place % der.len();
        der[place] = value;
        let rule = Rule::parse(&format!("{}{text}", kinds[kind]));
        if let Ok(rule) = rule {
            let _ = Rules { allow: vec![rule], refuse: vec![] }.decide(&der);
        }
    }
}
