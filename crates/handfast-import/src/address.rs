//! Converts the addresses of other programs.

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
                host => host.parse::<std::net::IpAddr>().ok().map(|_| joined(host, *port)),
            },
        }
    }
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
