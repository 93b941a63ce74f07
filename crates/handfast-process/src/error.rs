//! Errors in the setup of this process: its user, its limits, an address that it listens on.
//!
//! In: a failed action and its object. Out: one line, *action, object, what happened*, with the remedy as a `hint:` line where there is one.

use std::fmt;
use std::io;

use handfast_net::address::Address;
use handfast_text::units::counted;

use handfast_config::accounts::AccountError;

/// A failure, with the object it concerns.
#[derive(Debug)]
#[expect(missing_docs, reason = "the sentence of a variant explains its fields")]
pub enum Error {
    /// The user or group to become cannot be used.
    Account(AccountError),
    /// The user could not be changed, or a file not be given to it: what failed, and why.
    User(String),
    /// This process may have too few open files to serve even one connection.
    TooFewFiles { allowed: u64, reserved: u64, per_connection: u64 },
    /// This process may have too few open files for the number of connections in the configuration.
    TooManyConnections { required: usize, possible: usize, allowed: u64, reserved: u64, per_connection: u64 },
    /// An address cannot be listened on.
    Listen { address: Address, owner: String, source: io::Error },
    /// Several addresses cannot be listened on.
    ListenOnSeveral(Vec<Self>),
}

impl Error {
    /// Returns true if a changed configuration is the remedy.
    pub fn is_configuration(&self) -> bool {
        matches!(self, Self::Account(_) | Self::TooFewFiles { .. } | Self::TooManyConnections { .. })
    }

    /// The remedy, where there is one.
    fn hint(&self) -> Option<String> {
        match self {
            Self::TooFewFiles { .. } => {
                Some("raise the limit (ulimit -n, LimitNOFILE= in a unit file)".into())
            }
            Self::TooManyConnections { possible, .. } => Some(format!(
                "raise the limit (ulimit -n, LimitNOFILE= in a unit file) or set max-connections to {possible} or less"
            )),
            Self::Listen { address, source, .. } => listen_hint(address, source).map(str::to_owned),
            _ => None,
        }
    }
}

impl From<AccountError> for Error {
    fn from(error: AccountError) -> Self {
        Self::Account(error)
    }
}

/// The remedy for an address that cannot be listened on.
fn listen_hint(address: &Address, error: &io::Error) -> Option<&'static str> {
    match (error.kind(), address) {
        (io::ErrorKind::AddrInUse, Address::Ip(address)) if is_held_by_connections(address.port()) => Some(
            "no program listens there: connections that this machine made from the port hold it, after their end for a minute \
             (TIME-WAIT); `ss -tan` lists them. Reserve the port, so that connections take others: sysctl net.ipv4.ip_local_reserved_ports",
        ),
        (io::ErrorKind::AddrInUse, _) => Some("another program listens there; `ss -ltnp` names it"),
        (io::ErrorKind::PermissionDenied, Address::Ip(address)) if address.port() < 1024 => {
            Some("ports below 1024 need CAP_NET_BIND_SERVICE; start as root and set process.user")
        }
        (io::ErrorKind::AddrNotAvailable, _) => Some("no interface of this machine has that address"),
        (io::ErrorKind::NotFound, Address::Unix(_)) => Some("create the socket's folder"),
        (io::ErrorKind::PermissionDenied, Address::Unix(_)) => {
            Some("the user that starts the program must be allowed to write to the socket's folder")
        }
        _ => None,
    }
}

/// Returns true if there are sockets with this local port and none of them listens (proc(5), `tcp`: the state `0A`).
fn is_held_by_connections(port: u16) -> bool {
    let port = format!(":{port:04X}");
    let table = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(table);
    let mut states = tables.iter().flat_map(|table| table.lines()).filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let is_of_port = words.next()?.ends_with(&port);
        is_of_port.then(|| words.nth(1))?
    });
    states.next().is_some_and(|first| first != "0A" && states.all(|state| state != "0A"))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account(error) => write!(f, "{error}")?,
            Self::User(what) => f.write_str(what)?,
            Self::TooFewFiles { allowed, reserved, per_connection } => write!(
                f,
                "this process may have {}, it needs {reserved} and {per_connection} for each connection",
                counted(*allowed, "open file")
            )?,
            Self::TooManyConnections { required: wanted, allowed, reserved, per_connection, .. } => write!(
                f,
                "process.max-connections: {} open files are needed for {}, this process may have {allowed}",
                per_connection * *wanted as u64 + reserved,
                counted(*wanted as u64, "connection")
            )?,
            Self::Listen { address, owner, source } => write!(f, "listen on {address} ({owner}): {source}")?,
            Self::ListenOnSeveral(errors) => {
                let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))?;
            }
        }
        self.hint().map_or(Ok(()), |hint| write!(f, "\n  hint: {hint}"))
    }
}

// Display prints the source as part of the line, so `source()` has none.
impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(address: &str, kind: io::ErrorKind) -> String {
        let address = match address.strip_prefix("unix:") {
            Some(path) => Address::Unix(path.into()),
            None => Address::Ip(address.parse().expect("a test's address")),
        };
        Error::Listen { address, owner: "service web".into(), source: kind.into() }.to_string()
    }

    #[test]
    fn an_address_has_the_hint_that_fits_it() {
        let in_use = listen("127.0.0.1:443", io::ErrorKind::AddrInUse);
        assert!(in_use.starts_with("listen on 127.0.0.1:443 (service web): "), "{in_use}");
        assert!(in_use.ends_with("\n  hint: another program listens there; `ss -ltnp` names it"), "{in_use}");
        let low = listen("127.0.0.1:443", io::ErrorKind::PermissionDenied);
        assert!(low.contains("\n  hint: ports below 1024 "), "{low}");
        let high = listen("127.0.0.1:8443", io::ErrorKind::PermissionDenied);
        assert!(!high.contains("hint"), "{high}");
        let folder = listen("unix:/none/web.sock", io::ErrorKind::NotFound);
        assert!(folder.ends_with("\n  hint: create the socket's folder"), "{folder}");
    }

    #[test]
    fn several_addresses_are_all_reported() {
        let none = |address: &str| Error::Listen {
            address: Address::Ip(address.parse().expect("an address")),
            owner: "service web".into(),
            source: io::ErrorKind::AddrNotAvailable.into(),
        };
        let several = Error::ListenOnSeveral(vec![none("10.0.0.1:1"), none("10.0.0.2:1")]).to_string();
        let heads = several.lines().filter(|line| line.starts_with("listen on 10.0.0.")).count();
        assert_eq!(heads, 2, "{several}");
    }
}
