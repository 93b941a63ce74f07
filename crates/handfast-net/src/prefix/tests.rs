//! Prefixes as people write them, hostile text, and sets compared with a linear search.

use proptest::prelude::*;

use super::*;

fn prefix(text: &str) -> Prefix {
    text.parse().expect(text)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect(text)
}

fn set(texts: &[&str]) -> PrefixSet {
    texts.iter().map(|text| prefix(text)).collect()
}

#[test]
fn prefixes_are_read_and_written() {
    for (text, shown) in [
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("192.0.2.7", "192.0.2.7"),
        ("192.0.2.7/32", "192.0.2.7"),
        ("2001:DB8::/32", "2001:db8::/32"),
        ("::1", "::1"),
        ("::/0", "::/0"),
        ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7/128", "192.0.2.7"),
    ] {
        assert_eq!(prefix(text).to_string(), shown, "{text}");
        assert_eq!(prefix(shown), prefix(text));
    }
}

#[test]
fn what_is_wrong_is_reported_with_its_cure() {
    for (text, hint) in [
        ("10.1.2.3/8", "write `10.0.0.0/8` for all of it, or `10.1.2.3` for this address alone"),
        ("2001:db8::1/32", "write `2001:db8::/32` for all of it, or `2001:db8::1` for this address alone"),
        ("10.0.0.0/255.0.0.0", "write `10.0.0.0/8`"),
        ("10.1.2.3/255.255.0.0", "write `10.1.0.0/16`"),
        ("2001:db8::/ffff:ffff::", "write `2001:db8::/32`"),
        ("10", "write `10.0.0.0/8`"),
        ("10/8", "write `10.0.0.0/8`"),
        ("192.168", "write `192.168.0.0/16`"),
        ("192.168.*", "write `192.168.0.0/16`"),
        ("192.168.1.", "write `192.168.1.0/24`"),
        ("*", "write `0.0.0.0/0` and `::/0` for every address"),
        ("localhost", "write `127.0.0.0/8` and `::1`"),
        ("[::1]", "write it without brackets: `::1`"),
        ("[2001:db8::]/32", "write it without brackets: `2001:db8::/32`"),
        ("10.0.0.1:443", "clients have any port: write `10.0.0.1`"),
        ("fe80::1%eth0", "write it without `%eth0`: a prefix has no interface"),
        ("10.0.0.1-10.0.0.9", "ranges are written as the prefixes that they consist of"),
        ("office.example.org", "names are not looked up: write addresses"),
    ] {
        let error = text.parse::<Prefix>().expect_err(text);
        assert_eq!(error.hint().as_deref(), Some(hint), "{text}");
        assert!(error.what().contains(text), "{error}");
    }
    for text in ["", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "::/256", "10.0.0.0/+8", "10.0.0.0/-1"]
    {
        let error = text.parse::<Prefix>().expect_err(text);
        assert!(error.to_string().contains("expected `10.0.0.0/8`"), "{error}");
    }
    let long = "x".repeat(100_000).parse::<Prefix>().expect_err("no prefix");
    assert!(long.to_string().len() < 300);
}

#[test]
fn an_address_is_in_its_prefixes_and_in_no_others() {
    assert!(prefix("10.0.0.0/8").contains(ip("10.255.255.255")));
    assert!(!prefix("10.0.0.0/8").contains(ip("11.0.0.0")));
    assert!(prefix("10.0.0.0/8").contains(ip("::ffff:10.1.2.3")), "IPv4 in IPv6 is IPv4");
    assert!(!prefix("::/0").contains(ip("10.1.2.3")) && !prefix("::/0").contains(ip("::ffff:10.1.2.3")));
    assert!(prefix("0.0.0.0/0").contains(ip("255.255.255.255")));
    assert!(prefix("::/0").contains(ip("ffff::")));
    assert!(prefix("2001:db8::/127").contains(ip("2001:db8::1")));
    assert!(!prefix("2001:db8::/127").contains(ip("2001:db8::2")));
    assert!(prefix("10.0.0.0/8").covers(&prefix("10.1.0.0/16")));
    assert!(!prefix("10.1.0.0/16").covers(&prefix("10.0.0.0/8")));
}

#[test]
fn the_longest_prefix_of_a_set_is_found() {
    let set = set(&[
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.0/24",
        "10.1.2.3",
        "10.3.0.0/16",
        "0.0.0.0/1",
        "2001:db8::/32",
        "::/0",
        "10.1.0.0/16",
    ]);
    assert_eq!(set.len(), 8, "the same twice counts once");
    for (address, found) in [
        ("10.1.2.3", Some("10.1.2.3")),
        ("10.1.2.4", Some("10.1.2.0/24")),
        ("10.1.3.0", Some("10.1.0.0/16")),
        ("10.2.0.0", Some("10.0.0.0/8")),
        ("10.4.0.0", Some("10.0.0.0/8")),
        ("11.0.0.0", Some("0.0.0.0/1")),
        ("::ffff:10.1.2.3", Some("10.1.2.3")),
        ("128.0.0.0", None),
        ("2001:db8::7", Some("2001:db8::/32")),
        ("2001:db9::7", Some("::/0")),
    ] {
        assert_eq!(set.find(ip(address)), found.map(prefix), "{address}");
        assert_eq!(set.contains(ip(address)), found.is_some(), "{address}");
    }
    assert!(!PrefixSet::default().contains(ip("10.0.0.1")) && PrefixSet::default().is_empty());
}

fn any_ip() -> impl Strategy<Value = IpAddr> {
    // Few different bits, so that prefixes nest and addresses meet them.
    let few = prop::sample::select(vec![0_u8, 1, 10, 127, 128, 255]);
    let v4 = [few.clone(), few.clone(), few.clone(), few.clone()].prop_map(IpAddr::from);
    let v6 = prop::collection::vec(few, 16)
        .prop_map(|octets| IpAddr::from(<[u8; 16]>::try_from(octets).expect("sixteen")));
    prop_oneof![v4, v6]
}

proptest! {
    /// A set returns the same as a check of each prefix.
    #[test]
    fn a_set_agrees_with_a_linear_search(
        prefixes in prop::collection::vec((any_ip(), 0_u8..=128), 0..60),
        addresses in prop::collection::vec(any_ip(), 1..40),
    ) {
        let prefixes: Vec<Prefix> = prefixes
            .into_iter()
            .filter_map(|(address, length)| Prefix::of(address, if address.is_ipv4() { length % 33 } else { length }))
            .collect();
        let set: PrefixSet = prefixes.iter().copied().collect();
        for address in addresses {
            let slow = prefixes.iter().filter(|prefix| prefix.contains(address)).max_by_key(|prefix| prefix.length());
            prop_assert_eq!(set.find(address), slow.copied());
        }
    }

    /// The displayed form parses to the same value; no text causes a panic.
    #[test]
    fn any_text_is_read_without_a_panic(text in "[0-9a-f:./%\\[\\]*-]{0,48}|\\PC{0,24}") {
        if let Ok(read) = text.parse::<Prefix>() {
            prop_assert_eq!(read.to_string().parse::<Prefix>(), Ok(read));
        }
    }
}
