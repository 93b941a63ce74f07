//! Converts the addresses of other programs.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::toml::{Value, list};

/// Names of ports that configurations use, from the list of services that IANA keeps.
const PORTS: [(&str, u16); 20] = [
    ("ftps", 990),
    ("http", 80),
    ("https", 443),
    ("imap", 143),
    ("imap2", 143),
    ("imaps", 993),
    ("ldap", 389),
    ("ldaps", 636),
    ("mysql", 3306),
    ("nntp", 119),
    ("nntps", 563),
    ("pop3", 110),
    ("pop3s", 995),
    ("postgresql", 5432),
    ("smtp", 25),
    ("smtps", 465),
    ("ssmtp", 465),
    ("submission", 587),
    ("submissions", 465),
    ("telnets", 992),
];

/// An address to listen on, or to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// Host, without brackets, and port. No host: the other program's default.
    Tcp(Option<String>, u16),
    Unix(String),
}

impl Address {
    /// `PORT`, `HOST:PORT` (split at the last colon, so that `::1:PORT` is IPv6), `[HOST]:PORT`, or the path of a unix socket.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with('/') {
            return Some(Self::Unix(text.to_owned()));
        }
        match text.rsplit_once(':') {
            None => port(text).map(|port| Self::Tcp(None, port)),
            Some((host, text)) => {
                let host = host.trim_start_matches('[').trim_end_matches(']');
                let host = if host == ":" { "::" } else { host };
                let host = (!host.is_empty()).then(|| host.to_owned());
                port(text).map(|port| Self::Tcp(host, port))
            }
        }
    }

    /// As a backend; `host`: where none is written.
    pub(crate) fn backend(&self, host: &str) -> String {
        match self {
            Self::Unix(path) => format!("unix:{path}"),
            Self::Tcp(written, port) => joined(written.as_deref().unwrap_or(host), *port),
        }
    }

    /// As a listener; `host`: where none is written. `None`: it is a name; listeners need an address.
    pub(crate) fn listener(&self, host: &str) -> Option<String> {
        match self {
            Self::Unix(path) => Some(format!("unix:{path}")),
            Self::Tcp(written, port) => match written.as_deref().unwrap_or(host) {
                "localhost" => Some(joined("127.0.0.1", *port)),
                "*" => Some(format!("*:{port}")),
                host => host.parse::<IpAddr>().ok().map(|_| joined(host, *port)),
            },
        }
    }
}

/// Returns an address or a network as Handfast writes it, without bits behind its length. `None`: it is none.
pub(crate) fn network(text: &str) -> Option<String> {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let address: IpAddr = address.trim_matches(['[', ']']).parse().ok()?;
    let Some(length) = length else { return Some(address.to_string()) };
    // As a number of bits, or as a mask.
    let length = length.parse::<u32>().ok().or_else(|| {
        let mask = u32::from(length.parse::<Ipv4Addr>().ok()?);
        (mask.leading_ones() + mask.trailing_zeros() == 32).then_some(mask.leading_ones())
    })?;
    Some(match address {
        IpAddr::V4(address) => {
            let behind = 32_u32.checked_sub(length)?;
            let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
            format!("{}/{length}", Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let behind = 128_u32.checked_sub(length)?;
            let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
            format!("{}/{length}", Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    })
}

/// Returns a list of networks. An invalid one is written unchanged, so that `check` reports it.
pub(crate) fn networks<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Value {
    list(texts.into_iter().map(|text| network(text.as_ref()).unwrap_or_else(|| text.as_ref().to_owned())))
}

/// Returns a list of listeners. `*` of a port takes IPv4 too, so its `0.0.0.0` is left out.
pub(crate) fn listeners<T: AsRef<str>>(addresses: impl IntoIterator<Item = T>) -> Value {
    let all: Vec<String> = addresses.into_iter().map(|address| address.as_ref().to_owned()).collect();
    let is_there = |address: &String| {
        address.strip_prefix("0.0.0.0:").is_some_and(|port| all.contains(&format!("*:{port}")))
    };
    list(all.iter().filter(|address| !is_there(address)).map(String::as_str))
}

fn joined(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn port(text: &str) -> Option<u16> {
    let text = text.trim();
    text.parse().ok().or_else(|| PORTS.iter().find(|(name, _)| *name == text).map(|(_, port)| *port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_no_bits_behind_its_length() {
        for (text, expected) in [
            ("127.0.0.1/8", Some("127.0.0.0/8")),
            ("10.1.2.3/255.255.0.0", Some("10.1.0.0/16")),
            ("10.1.2.3/0", Some("0.0.0.0/0")),
            ("10.1.2.3/32", Some("10.1.2.3/32")),
            ("10.1.2.3", Some("10.1.2.3")),
            ("2001:db8::1/32", Some("2001:db8::/32")),
            ("[::1]/0", Some("::/0")),
            ("10.1.2.3/33", None),
            ("10.1.2.3/255.0.255.0", None),
            ("localhost", None),
        ] {
            assert_eq!(network(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn an_address_is_listened_on_once() {
        let written = listeners(["0.0.0.0:80", "*:80", "0.0.0.0:81", "[::1]:80", "*:80"]).to_string();
        assert_eq!(written.trim(), "[\"*:80\", \"0.0.0.0:81\", \"[::1]:80\"]");
    }

    #[test]
    fn every_way_to_write_an_address() {
        let listens = |text: &str| Address::parse(text).and_then(|address| address.listener("0.0.0.0"));
        for (text, listener) in [
            ("443", "0.0.0.0:443"),
            ("imaps", "0.0.0.0:993"),
            ("127.0.0.1:8443", "127.0.0.1:8443"),
            ("localhost:8443", "127.0.0.1:8443"),
            (":::443", "[::]:443"),
            ("::1:443", "[::1]:443"),
            ("[::1]:443", "[::1]:443"),
            ("[*]:443", "*:443"),
            ("/run/x.sock", "unix:/run/x.sock"),
        ] {
            assert_eq!(listens(text).as_deref(), Some(listener), "{text}");
        }
        assert_eq!(listens("mail.example:443"), None, "a name");
        assert_eq!(Address::parse("mail.example"), None, "no port");
        assert_eq!(Address::parse("1.2.3.4:99999"), None, "no such port");
        assert_eq!(Address::parse("25").expect("a port").backend("localhost"), "localhost:25");
        assert_eq!(Address::parse("db.example:5432").expect("good").backend("x"), "db.example:5432");
    }
}
