//! The other end of a connection under test, and the addresses of both ends, for every kind of address.
//!
//! In: a [`Peer`]. Out: where each side listens and from where it dials.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::Failure;
use super::addresses::{HERE, HERE_V6};
use crate::names::FOLDER;

/// The port that peers listen on.
const PORT: u16 = 4_433;

/// Kind of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    /// TCP over IPv4.
    V4,
    /// TCP over IPv6.
    V6,
    /// A unix socket of kind SOCK_STREAM.
    Unix,
}

/// A new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// At this address of the other host.
    At(IpAddr),
    /// At a path with this number in its name.
    Path(u32),
}

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Peer {
    /// A socket of its family in the network of the calling thread.
    pub(super) fn open(self) -> Result<OwnedFd, Errno> {
        let family = match self {
            Self::At(IpAddr::V4(_)) => AddressFamily::INET,
            Self::At(IpAddr::V6(_)) => AddressFamily::INET6,
            Self::Path(_) => AddressFamily::UNIX,
        };
        net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
    }

    /// Returns true if its connections are TCP, on a path that sees their packets.
    pub(super) fn is_tcp(self) -> bool {
        matches!(self, Self::At(_))
    }

    /// Address that it listens at.
    pub(super) fn listening_target(self) -> Target {
        match self {
            Self::At(address) => Target::Tcp(SocketAddr::new(address, PORT)),
            Self::Path(number) => Target::Unix(PathBuf::from(format!("{FOLDER}/peer-{number}"))),
        }
    }

    /// Address that we listen at for it: at any port, or at the one path.
    pub(super) fn is_awaited_at(self) -> Target {
        match self {
            Self::At(IpAddr::V4(_)) => Target::Tcp(SocketAddr::new(HERE.into(), 0)),
            Self::At(IpAddr::V6(_)) => Target::Tcp(SocketAddr::new(HERE_V6.into(), 0)),
            Self::Path(_) => self.listening_target(),
        }
    }

    /// Gives a socket the address from which it dials; a unix socket has none.
    pub(super) fn bind_to_dial(self, socket: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::At(address) => net::bind(socket, &SocketAddr::new(address, 0)),
            Self::Path(_) => Ok(()),
        }
    }
}

impl Target {
    /// bind(2).
    pub(super) fn bind(&self, socket: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Tcp(address) => net::bind(socket, address),
            Self::Unix(path) => net::bind(socket, &SocketAddrUnix::new(path.as_path())?),
        }
    }

    /// connect(2).
    pub(super) fn connect(&self, socket: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Tcp(address) => net::connect(socket, address),
            Self::Unix(path) => net::connect(socket, &SocketAddrUnix::new(path.as_path())?),
        }
    }

    /// Address of a socket that was bound to this one: with the port that the kernel chose.
    pub(super) fn of(self, socket: &OwnedFd) -> Result<Self, Failure> {
        match self {
            Self::Tcp(_) => {
                let address = net::getsockname(socket).and_then(SocketAddr::try_from);
                Ok(Self::Tcp(address.map_err(Failure::errno("ask for a socket's address"))?))
            }
            Self::Unix(_) => Ok(self),
        }
    }
}
