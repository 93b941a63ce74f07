//! A name that a certificate is ordered for: a DNS name, a wildcard for one label, or an IP address.
//!
//! In: text of a configuration. Out: the name as issuers know it, and as the store calls its files.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;

use handfast_pki::source::Ordered;
use instant_acme::Identifier;

/// A name to order a certificate for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Kind);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Kind {
    Dns(Box<str>),
    Ip(IpAddr),
}

impl Name {
    /// The name that `text` is; `None`: it is none. Letters become lower-case, brackets around an IPv6 address are dropped.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end_matches('.');
        let address = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Ok(address) = address.parse() {
            return Some(Self(Kind::Ip(address)));
        }
        let host = text.strip_prefix("*.").unwrap_or(text);
        let is_label = |label: &str| {
            let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            (1..=63).contains(&label.len())
                && label.bytes().all(is_inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        let is_name = host.len() <= 253 && host.split('.').all(is_label);
        is_name.then(|| Self(Kind::Dns(text.to_ascii_lowercase().into())))
    }

    /// Returns true if it is for every name below another one.
    pub fn is_wildcard(&self) -> bool {
        matches!(&self.0, Kind::Dns(name) if name.starts_with("*."))
    }

    /// The address, if it is one.
    pub fn address(&self) -> Option<IpAddr> {
        match self.0 {
            Kind::Ip(address) => Some(address),
            Kind::Dns(_) => None,
        }
    }

    /// Returns true if a certificate for this name serves `other` too.
    pub fn covers(&self, other: &Self) -> bool {
        let (Kind::Dns(own), Kind::Dns(other)) = (&self.0, &other.0) else { return self == other };
        let below = own.strip_prefix("*.");
        own == other
            || below.is_some_and(|below| other.split_once('.').is_some_and(|(_, rest)| rest == below))
    }

    /// Its name without the extension in the store. No two names have the same.
    pub fn file_stem(&self) -> String {
        let file = Ordered::file(Path::new(""), &self.to_string());
        file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// As an issuer knows it.
    pub(crate) fn identifier(&self) -> Identifier {
        match &self.0 {
            Kind::Dns(name) => Identifier::Dns(name.to_string()),
            Kind::Ip(address) => Identifier::Ip(*address),
        }
    }

    /// The server name by which an issuer asks for the answer of TLS-ALPN-01 (RFC 8737 §3, RFC 8738 §6).
    pub fn challenge_server_name(&self) -> String {
        match &self.0 {
            Kind::Dns(name) => name.to_string(),
            Kind::Ip(IpAddr::V4(address)) => {
                let [a, b, c, d] = address.octets();
                format!("{d}.{c}.{b}.{a}.in-addr.arpa")
            }
            Kind::Ip(IpAddr::V6(address)) => {
                let digits = address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
                digits.map(|digit| format!("{digit:x}.")).collect::<String>() + "ip6.arpa"
            }
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Dns(name) => f.write_str(name),
            Kind::Ip(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    #[test]
    fn names_addresses_and_nothing_else() {
        for (text, shown) in [
            ("Web.Example.org.", "web.example.org"),
            ("*.example.org", "*.example.org"),
            ("[2001:DB8::1]", "2001:db8::1"),
            ("192.0.2.1", "192.0.2.1"),
            ("localhost", "localhost"),
        ] {
            assert_eq!(name(text).to_string(), shown);
        }
        for bad in
            ["", ".", "*", "a..b", "*.*.a", "-a.org", "a_b.org", "../x", "a/b", "ä.org", &"a".repeat(64)]
        {
            assert_eq!(Name::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn files_of_different_names_are_different() {
        let names = [
            "example.org",
            "*.example.org",
            "wildcard.example.org",
            "192.0.2.1",
            "2001:db8::1",
            "2001-db8--1",
        ];
        let stems: std::collections::BTreeSet<_> = names.iter().map(|text| name(text).file_stem()).collect();
        assert_eq!(stems.len(), names.len());
        assert!(stems.iter().all(|stem| !stem.contains(['/', '*', ':'])), "{stems:?}");
    }

    #[test]
    fn a_wildcard_covers_one_label() {
        assert!(name("*.example.org").covers(&name("a.example.org")));
        for other in ["example.org", "a.b.example.org", "192.0.2.1"] {
            assert!(!name("*.example.org").covers(&name(other)), "{other}");
        }
        assert!(name("192.0.2.1").covers(&name("192.0.2.1")));
    }

    #[test]
    fn an_address_is_requested_by_its_reverse_name() {
        assert_eq!(name("192.0.2.7").challenge_server_name(), "7.2.0.192.in-addr.arpa");
        let six = name("2001:db8::1").challenge_server_name();
        assert!(six.starts_with("1.0.0.0.") && six.ends_with(".8.b.d.0.1.0.0.2.ip6.arpa"), "{six}");
        assert_eq!(six.len(), 32 * 2 + "ip6.arpa".len());
    }
}
