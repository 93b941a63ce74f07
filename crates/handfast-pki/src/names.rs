//! The names that a certificate is for.
//!
//! In: the subject alternative names of a certificate, as `parsed.rs` read them. Out: [`Names`], which answers whether they
//! cover a name. It holds no key, so a connection can keep it after its certificate was replaced.

use std::net::IpAddr;

/// The subject alternative names of a certificate that clients can ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// In lower case, wildcards as `*.example.org`.
    pub dns: Box<[Box<str>]>,
    /// IP addresses.
    pub ip: Box<[IpAddr]>,
}

impl Names {
    /// Returns true if the certificate is for `host`: a DNS name in any case, perhaps with the root's dot, or an IP
    /// address as in a URI (IPv6 in brackets) or without brackets. `*` matches exactly one whole label (RFC 9525 §6.3),
    /// and an address matches addresses only (RFC 9525 §6.4).
    ///
    /// **Cost**: compares with each name until one fits. No allocation, no parsing but that of an address.
    pub fn covers(&self, host: &str) -> bool {
        let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = address.parse::<IpAddr>() {
            return self.ip.contains(&address);
        }
        let host = without_root_dot(host);
        let parent = parent_domain(host);
        self.dns.iter().any(|name| match name.strip_prefix("*.") {
            Some(suffix) => parent.is_some_and(|parent| parent.eq_ignore_ascii_case(suffix)),
            None => name.eq_ignore_ascii_case(host),
        })
    }
}

/// Returns true if one name of a certificate, perhaps a wildcard, matches `host`.
pub(crate) fn is_for(name: &str, host: &str) -> bool {
    let (name, host) = (without_root_dot(name), without_root_dot(host));
    match name.strip_prefix("*.") {
        // A wildcard for all of a top-level domain is for no host, as OpenSSL has it.
        Some(suffix) => {
            suffix.contains('.')
                && parent_domain(host).is_some_and(|parent| parent.eq_ignore_ascii_case(suffix))
        }
        None => name.eq_ignore_ascii_case(host),
    }
}

/// The address in an alternative name (RFC 5280 §4.2.1.6).
pub(crate) fn ip_address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

/// A name as it is in certificates: without the dot of the root.
pub fn without_root_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

/// Returns the text that follows `*.` in a wildcard for `name`; `None`: the label that `*` matches is missing.
pub fn parent_domain(name: &str) -> Option<&str> {
    name.split_once('.').filter(|(label, _)| !label.is_empty()).map(|(_, parent)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cover_hosts_as_clients_check_them() {
        let names = Names {
            dns: ["a.example", "*.b.example"].map(Box::from).into(),
            ip: ["192.0.2.7", "2001:db8::7"].map(|ip| ip.parse().unwrap()).into(),
        };
        for host in [
            "a.example",
            "A.Example",
            "a.example.",
            "x.b.example",
            "X.B.EXAMPLE.",
            "192.0.2.7",
            "2001:db8::7",
            "[2001:db8:0::7]",
        ] {
            assert!(names.covers(host), "{host:?}");
        }
        for host in [
            "",
            ".",
            "example",
            "b.example",
            ".b.example",
            "x.y.b.example",
            "x.a.example",
            "*.a.example",
            "a.example..",
            "192.0.2.8",
            "[192.0.2.8]",
            "[2001:db8::8]",
            "[a.example]",
        ] {
            assert!(!names.covers(host), "{host:?}");
        }
    }

    /// A wildcard that looks like an address is for no address.
    #[test]
    fn an_address_is_covered_by_addresses_only() {
        let names = Names { dns: ["*.0.2.7", "192.0.2.7"].map(Box::from).into(), ip: Box::default() };
        assert!(!names.covers("192.0.2.7"));
    }
}
