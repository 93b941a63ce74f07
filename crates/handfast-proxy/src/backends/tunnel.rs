//! Addresses to dial for a backend, directly or through a proxy on the way (`connect-through`).
//!
//! In: a target as written, what names resolve to. Out: the addresses to dial; with a proxy on the way those are its own, and each
//! has the destination to request.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handfast_pki::files::read_text;
use handfast_wire::starttls::{Credentials, Tunnel};
use zeroize::Zeroizing;

use crate::backends::names::Addresses;
use handfast_config::model::{Address, ConnectThrough, Target, TunnelKind};
use handfast_process::privileges::ServiceUser;

/// Longest password with its line end; SOCKS5 has room for 255 bytes.
const MAX_PASSWORD_BYTES: u64 = 1_024;

/// The destination to request from a proxy on the way. A name is sent as it is: the proxy may resolve it where this machine cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TunnelDestination {
    host: Box<str>,
    port: u16,
}

/// Addresses of the targets that this process has made for itself: the built-in backend, and programs that it starts.
pub(crate) type OwnTargets = Arc<HashMap<Target, Address>>;

/// An address of a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DialAddress {
    /// As it is called in logs and metrics.
    pub(crate) name: String,
    /// Address to dial.
    pub(crate) address: Address,
    /// The tunnel destination to request from the proxy at this address; `None`: it is the backend itself.
    pub(crate) destination: Option<TunnelDestination>,
    /// True if a program is started for the connection.
    pub(crate) is_program: bool,
}

impl TunnelDestination {
    fn of(target: &Target) -> Option<Self> {
        let (host, port) = match target {
            Target::Name(name, port) => (name.clone(), *port),
            Target::Address(Address::Ip(address)) => (address.ip().to_string(), address.port()),
            Target::Address(Address::Unix(_)) | Target::BuiltIn | Target::Program(_) => return None,
        };
        Some(Self { host: host.into(), port })
    }
}

impl DialAddress {
    /// An address that is dialled as it is.
    pub(crate) fn of(name: String, address: &Address, is_program: bool) -> Self {
        Self { name, address: address.clone(), destination: None, is_program }
    }

    /// The same with another port of the backend's; a proxy on the way keeps its own. A unix socket has none.
    pub(crate) fn at(mut self, port: Option<u16>) -> Self {
        match (&mut self.destination, &mut self.address, port) {
            (Some(behind), _, Some(port)) => behind.port = port,
            (None, Address::Ip(address), Some(port)) => address.set_port(port),
            _ => {}
        }
        self
    }

    /// The name that the backend's certificate must have, unless the configuration names another one.
    pub(crate) fn host(&self) -> Option<String> {
        host_of(&self.name, &self.address, self.destination.as_ref())
    }
}

/// The addresses of a target; none when its name, or that of the proxy on the way, has no address.
pub(crate) fn dial_addresses(
    target: &Target,
    through: Option<&ConnectThrough>,
    own: &OwnTargets,
    addresses: &Addresses,
) -> Vec<DialAddress> {
    let Some((through, behind)) = through.zip(TunnelDestination::of(target)) else {
        return direct(target, own, addresses);
    };
    let via = |proxy: DialAddress| DialAddress {
        name: format!("{target} via {}", proxy.address),
        address: proxy.address,
        destination: Some(behind.clone()),
        is_program: false,
    };
    direct(&through.proxy, own, addresses).into_iter().map(via).collect()
}

fn direct(target: &Target, own: &OwnTargets, addresses: &Addresses) -> Vec<DialAddress> {
    let place = |name, address: &Address| DialAddress::of(name, address, target.is_program());
    match target {
        Target::Address(address) => vec![place(address.to_string(), address)],
        Target::BuiltIn | Target::Program(_) => {
            own.get(target).iter().map(|address| place(target.to_string(), address)).collect()
        }
        Target::Name(name, port) => {
            let found = addresses.get(&(name.clone(), *port)).map_or(&[][..], Vec::as_slice);
            found.iter().map(|address| place(format!("{name}={address}"), &Address::Ip(*address))).collect()
        }
    }
}

/// Reason why the password for a proxy on the way cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HopPasswordError {
    #[error("{}: cannot be read: {source}; expected a password of at most 255 bytes", .file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{}: contains no password, expected one line of 1 to 255 bytes", .file.display())]
    NoPassword { file: PathBuf },
    /// This process cannot act as the user that serves.
    #[error("{}: {source}", .file.display())]
    User { file: PathBuf, source: handfast_process::error::Error },
}

/// The content of a file that has a password.
fn password(file: &Path) -> Result<Zeroizing<String>, HopPasswordError> {
    let failed = |source| HopPasswordError::Read { file: file.to_owned(), source };
    read_text(file, MAX_PASSWORD_BYTES).map_err(failed)
}

/// A proxy on the way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProxyHop {
    pub(crate) model: ConnectThrough,
    credentials: Option<Credentials>,
}

impl ProxyHop {
    /// Reads the password, where there is one; `user` serves.
    ///
    /// **Errors**: a file that cannot be read, or holds no password.
    pub(crate) fn read(model: &ConnectThrough, user: &ServiceUser) -> Result<Self, HopPasswordError> {
        let mut hop = Self { model: model.clone(), credentials: None };
        if let Some((name, file)) = &model.login {
            let password = user.act_on(file, || password(file));
            let password =
                password.map_err(|source| HopPasswordError::User { file: file.clone(), source })??;
            let credentials = Credentials::new(name, password.trim_end_matches(['\r', '\n']));
            let expected = || HopPasswordError::NoPassword { file: file.clone() };
            hop.credentials = Some(credentials.ok_or_else(expected)?);
        }
        Ok(hop)
    }

    /// `None` for a host that cannot be sent, which no configuration has.
    pub(crate) fn tunnel(&self, behind: &TunnelDestination) -> Option<Tunnel> {
        let credentials = self.credentials.clone();
        match self.model.kind {
            TunnelKind::Http => Tunnel::http(&behind.host, behind.port, credentials),
            TunnelKind::Socks5 => Tunnel::socks5(&behind.host, behind.port, credentials),
        }
    }
}

/// The name that the certificate of an endpoint must have, unless the configuration names another one: the name that it was resolved
/// from, or its IP address. `None` for a unix socket.
pub(crate) fn host_of(name: &str, address: &Address, behind: Option<&TunnelDestination>) -> Option<String> {
    if let Some(behind) = behind {
        return Some(behind.host.to_string());
    }
    match (address, name.split_once('=')) {
        (Address::Unix(_), _) => None,
        // As `direct` writes what a name resolved to.
        (Address::Ip(_), Some((found_under, _))) => Some(found_under.to_owned()),
        (Address::Ip(address), None) => Some(address.ip().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn name(name: &str, port: u16) -> Target {
        Target::Name(name.into(), port)
    }

    #[test]
    fn a_name_behind_a_proxy_is_sent_and_not_resolved() {
        let known = [(
            ("proxy".to_owned(), 3128),
            vec!["10.0.0.2:3128".parse().unwrap(), "[::1]:3128".parse().unwrap()],
        )];
        let addresses = Arc::new(HashMap::from(known));
        let through = ConnectThrough { kind: TunnelKind::Http, proxy: name("proxy", 3128), login: None };
        let found = dial_addresses(&name("db", 5432), Some(&through), &OwnTargets::default(), &addresses);
        let names: Vec<_> = found.iter().map(|place| place.name.as_str()).collect();
        assert_eq!(names, ["db:5432 via 10.0.0.2:3128", "db:5432 via [::1]:3128"]);
        assert_eq!(found[1].destination, Some(TunnelDestination { host: "db".into(), port: 5432 }));
        // Another port is the backend's; the proxy's stays.
        let other = found[1].clone().at(Some(9));
        assert_eq!(other.destination, Some(TunnelDestination { host: "db".into(), port: 9 }));
        assert_eq!(other.address, found[1].address);
        // Without an address of the proxy there is no way.
        assert_eq!(
            dial_addresses(&name("db", 5432), Some(&through), &OwnTargets::default(), &Arc::default()),
            []
        );
        // And directly the name is nothing that is known.
        assert_eq!(dial_addresses(&name("db", 5432), None, &OwnTargets::default(), &addresses), []);
    }

    #[test]
    fn a_certificate_must_be_for_the_backend_and_not_for_the_proxy_on_the_way() {
        let at = |name: &str, address: &str| ((name.to_owned(), 1), vec![address.parse().unwrap()]);
        let addresses = Arc::new(HashMap::from([at("db", "10.0.0.7:1"), at("proxy", "10.0.0.2:1")]));
        let through = ConnectThrough { kind: TunnelKind::Http, proxy: name("proxy", 1), login: None };
        for through in [None, Some(&through)] {
            let found = dial_addresses(&name("db", 1), through, &OwnTargets::default(), &addresses);
            assert_eq!(found[0].host().as_deref(), Some("db"));
        }
        // Checked at another port, it is the same backend.
        let other =
            dial_addresses(&name("db", 1), None, &OwnTargets::default(), &addresses)[0].clone().at(Some(9));
        assert_eq!(other.address, Address::Ip("10.0.0.7:9".parse().unwrap()));
    }

    #[test]
    fn a_password_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let login = Some(("handfast".to_owned(), file.clone()));
        let model = ConnectThrough { kind: TunnelKind::Socks5, proxy: name("proxy", 1080), login };
        let read = |content: &[u8]| {
            let mut open = fs::File::create(&file).unwrap();
            std::io::Write::write_all(&mut open, content).unwrap();
            ProxyHop::read(&model, &ServiceUser::default())
        };
        let credentials = read(b"s3cret\r\n").unwrap().credentials.unwrap();
        assert_eq!(&*credentials.password, "s3cret");
        for (content, word) in [
            (&b"\n"[..], "no password"),
            (b"a\nb\n", "no password"),
            (&[b'a'; 256], "no password"),
            (&[b'a'; 1_024], "no password"),
            (&[b'a'; 1_025], "1025 bytes"),
            (b"\xff", "cannot be read"),
        ] {
            let problem = read(content).expect_err("wrong").to_string();
            assert!(problem.contains(word) && problem.contains("password:"), "{problem}");
        }
        fs::remove_file(&file).unwrap();
        assert!(
            ProxyHop::read(&model, &ServiceUser::default())
                .expect_err("gone")
                .to_string()
                .contains("cannot be read")
        );
    }
}
