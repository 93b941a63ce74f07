//! Modes of the proxy between a client and a backend: the sides that use TLS, and the bytes before it.
//!
//! In: a mode. Out: a service's configuration, and the steps of each end before its bytes are carried.

use std::net::{Ipv4Addr, SocketAddrV4};

/// One way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// TLS with clients, plain text with backends.
    Terminate,
    /// Plain text with clients, TLS with backends.
    Originate,
    /// TLS with both.
    ReEncrypt,
    /// TLS with neither.
    Plain,
    /// The client's TLS is carried to the backend as it is.
    PassThrough,
    /// Clients ask for TLS in SMTP.
    StarttlsIn,
    /// Backends are asked for TLS in PostgreSQL's protocol.
    StarttlsOut,
    /// As terminate, behind a proxy that sends PROXY headers.
    ProxyIn,
    /// As terminate, with a PROXY header for backends.
    ProxyOut,
    /// HTTP mode: an upgraded connection carries the bytes.
    HttpUpgrade,
    /// The same, with TLS towards backends.
    HttpUpgradeTls,
}

/// Those of programs that relay TCP and know no other protocol than PROXY.
pub(crate) const RELAY_MODES: [Mode; 6] =
    [Mode::Terminate, Mode::Originate, Mode::ReEncrypt, Mode::PassThrough, Mode::ProxyIn, Mode::ProxyOut];

impl Mode {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Terminate,
        Self::Originate,
        Self::ReEncrypt,
        Self::Plain,
        Self::PassThrough,
        Self::StarttlsIn,
        Self::StarttlsOut,
        Self::ProxyIn,
        Self::ProxyOut,
        Self::HttpUpgrade,
        Self::HttpUpgradeTls,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::Originate => "originate",
            Self::ReEncrypt => "re-encrypt",
            Self::Plain => "plain",
            Self::PassThrough => "pass-through",
            Self::StarttlsIn => "starttls-in",
            Self::StarttlsOut => "starttls-out",
            Self::ProxyIn => "proxy-in",
            Self::ProxyOut => "proxy-out",
            Self::HttpUpgrade => "http-upgrade",
            Self::HttpUpgradeTls => "http-upgrade-tls",
        }
    }

    /// Returns a description of the mode.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Terminate => "TLS with clients, plain text with backends",
            Self::Originate => "plain text with clients, TLS with backends",
            Self::ReEncrypt => "TLS with both",
            Self::Plain => "plain text with both",
            Self::PassThrough => "the client's TLS is carried to the backend as it is",
            Self::StarttlsIn => "clients ask for TLS in SMTP (STARTTLS)",
            Self::StarttlsOut => "backends are asked for TLS in PostgreSQL's protocol",
            Self::ProxyIn => "as terminate, and a proxy in front sends PROXY headers",
            Self::ProxyOut => "as terminate, and backends get PROXY headers",
            Self::HttpUpgrade => {
                "HTTP mode: TLS with clients, plain HTTP with backends; an upgraded connection is carried as a tunnel"
            }
            Self::HttpUpgradeTls => "as http-upgrade, with TLS towards backends",
        }
    }

    /// The mode that has this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Returns true if clients use TLS, with the proxy or with the backend.
    pub(crate) const fn client_tls(self) -> bool {
        !matches!(self, Self::Originate | Self::Plain | Self::StarttlsOut)
    }

    /// Returns true if backends use TLS.
    pub(crate) const fn backend_tls(self) -> bool {
        matches!(
            self,
            Self::Originate | Self::ReEncrypt | Self::PassThrough | Self::StarttlsOut | Self::HttpUpgradeTls
        )
    }

    /// Returns true if the client's TLS ends at the proxy.
    pub(crate) const fn terminates(self) -> bool {
        self.client_tls() && !matches!(self, Self::PassThrough)
    }

    /// Returns true if the proxy itself begins TLS with the backend.
    pub(crate) const fn originates(self) -> bool {
        self.backend_tls() && !matches!(self, Self::PassThrough)
    }

    /// Returns true if requests are forwarded, and bytes only after a request to change the protocol.
    pub(crate) const fn is_http(self) -> bool {
        matches!(self, Self::HttpUpgrade | Self::HttpUpgradeTls)
    }

    /// Returns true if bytes take another path through the proxy than in any mode before it: the others differ only in the steps
    /// before the bytes.
    pub(crate) const fn is_a_path_of_its_own(self) -> bool {
        matches!(self, Self::Terminate | Self::Originate | Self::ReEncrypt | Self::Plain)
    }

    /// Returns true if a ClientHello is the first message of a client.
    pub(crate) const fn hello_first(self) -> bool {
        matches!(self, Self::Terminate | Self::ReEncrypt | Self::PassThrough | Self::ProxyOut)
            || self.is_http()
    }

    /// The tables of a service, after its name, addresses and other settings.
    pub(crate) fn service(self, folder: &str, client: Ipv4Addr) -> (String, String) {
        let certificate = if self.terminates() {
            format!("certificate = \"{folder}/web.pem\"\n")
        } else if self == Self::PassThrough {
            "pass-through = true\n".to_owned()
        } else {
            "client-tls = false\n".to_owned()
        };
        let backend_tls = if self.originates() {
            let starttls = if self == Self::StarttlsOut { "starttls = \"postgresql\"\n" } else { "" };
            format!("[service.backend-tls]\nca = \"{folder}/ca.pem\"\nname = \"localhost\"\n{starttls}")
        } else {
            String::new()
        };
        let more = match self {
            Self::StarttlsIn => "starttls = \"smtp\"\nstarttls-name = \"mail.example\"\n",
            Self::HttpUpgrade | Self::HttpUpgradeTls => "mode = \"http\"\n",
            _ => "",
        };
        let header = match self {
            Self::ProxyIn => {
                format!("[service.proxy-protocol]\naccept-from = [\"{client}\", \"127.0.0.1\"]\n")
            }
            Self::ProxyOut => "[service.proxy-protocol]\nsend = \"v2\"\n".to_owned(),
            _ => String::new(),
        };
        (format!("{certificate}{more}"), format!("{backend_tls}{header}"))
    }
}

/// A PROXY header of version 1: the client of a proxy in front.
pub(crate) fn header(to: SocketAddrV4) -> String {
    format!("PROXY TCP4 203.0.113.7 {} 4711 {}\r\n", to.ip(), to.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        for mode in Mode::ALL {
            assert_eq!(Mode::named(mode.name()), Some(mode));
        }
        assert_eq!(Mode::named("terminated"), None);
    }
}
