//! Clients that a service admits by their address: the lists, their order, and the limits that a reload keeps.

use super::*;

fn prefixes(texts: &[&str]) -> Vec<Prefix> {
    texts.iter().map(|text| text.parse().expect(text)).collect()
}

fn model(allow: &[&str], refuse: &[&str]) -> model::Admission {
    model::Admission { allow: prefixes(allow), refuse: prefixes(refuse), ..model::Admission::default() }
}

fn rate(per_second: u32, burst: u32) -> model::HandshakeRate {
    model::HandshakeRate { per_second, burst, prefix_v4: 32, prefix_v6: 64 }
}

fn check(admission: &Admission, address: &str) -> Result<(), (Limit, String)> {
    let address: IpAddr = address.parse().expect(address);
    let found = admission.check(address.to_canonical(), Moment::from_nanos(1 << 40));
    found.map_err(|refused| (refused.limit, refused.detail.unwrap_or_default().into()))
}

#[test]
fn without_limits_every_client_is_admitted() {
    assert!(Admission::new(&model(&[], &[]), None).is_none());
}

#[test]
fn refusing_wins_over_allowing() {
    let lists = model(&["10.0.0.0/8", "2001:db8::/32"], &["10.1.0.0/16", "2001:db8:bad::/48"]);
    let admission = Admission::new(&lists, None).expect("there are lists");
    for address in ["10.0.0.1", "::ffff:10.0.0.1", "10.255.255.255", "2001:db8::1"] {
        assert_eq!(check(&admission, address), Ok(()), "{address}");
    }
    let because = |address, detail: &str| {
        assert_eq!(check(&admission, address), Err((Limit::Prefix, detail.into())), "{address}");
    };
    because("10.1.2.3", "refuse-clients has 10.1.0.0/16");
    because("::ffff:10.1.2.3", "refuse-clients has 10.1.0.0/16");
    because("2001:db8:bad::7", "refuse-clients has 2001:db8:bad::/48");
    because("192.0.2.1", "allow-clients does not have it");
    because("::1", "allow-clients does not have it");
    // However exact the exception is.
    let exact = model(&["10.1.2.3"], &["10.1.0.0/16"]);
    let admission = Admission::new(&exact, None).expect("there are lists");
    assert!(check(&admission, "10.1.2.3").is_err());
}

#[test]
fn with_a_list_of_refused_ones_alone_all_others_come_in() {
    let admission = Admission::new(&model(&[], &["192.0.2.0/24"]), None).expect("there is a list");
    assert_eq!(check(&admission, "203.0.113.1"), Ok(()));
    assert_eq!(check(&admission, "2001:db8::1"), Ok(()));
    assert!(check(&admission, "192.0.2.1").is_err());
}

#[test]
fn a_refused_client_uses_up_no_rate_and_a_reload_resets_no_counter() {
    let lists = model(&[], &["192.0.2.9"]);
    let limited = model::Admission { rate: Some(rate(1, 2)), ..lists };
    let admission = Admission::new(&limited, None).expect("there is a rate");
    let over = "192.0.2.1 had used its 1 a second and 2 at once".to_owned();
    assert_eq!(check(&admission, "192.0.2.1"), Ok(()));
    assert_eq!(check(&admission, "192.0.2.1"), Ok(()));
    assert_eq!(check(&admission, "192.0.2.1"), Err((Limit::Rate, over.clone())));
    assert_eq!(check(&admission, "192.0.2.2"), Ok(()), "another has a separate bucket");
    assert!(check(&admission, "192.0.2.9").is_err_and(|(limit, _)| limit == Limit::Prefix));
    // The same limit, another list: what was used stays used.
    let reloaded = model::Admission { refuse: Vec::new(), ..limited.clone() };
    let after = Admission::new(&reloaded, Some(&admission)).expect("there is a rate");
    assert_eq!(check(&after, "192.0.2.1"), Err((Limit::Rate, over)));
    assert_eq!(check(&after, "192.0.2.9"), Ok(()));
}

#[test]
fn clients_of_one_prefix_share_a_rate() {
    let wide = model::HandshakeRate { prefix_v4: 24, ..rate(1, 1) };
    let model = model::Admission { rate: Some(wide), ..model(&[], &[]) };
    let admission = Admission::new(&model, None).expect("there is a rate");
    assert_eq!(check(&admission, "192.0.2.1"), Ok(()));
    let over = check(&admission, "192.0.2.2").expect_err("the same /24");
    assert!(over.1.starts_with("192.0.2.0/24 had used"), "{}", over.1);
    assert_eq!(check(&admission, "192.0.3.1"), Ok(()));
    assert_eq!(check(&admission, "2001:db8::1"), Ok(()));
    assert!(check(&admission, "2001:db8::2").is_err(), "the same /64");
    assert_eq!(check(&admission, "2001:db8:0:1::1"), Ok(()));
}
