//! Addresses on the host of the program under test.

use std::net::{Ipv4Addr, SocketAddrV4};

use handfast_lab::sockets::HERE;

/// Listening address of the service under test.
pub(crate) const SERVICE: SocketAddrV4 = SocketAddrV4::new(HERE, 8443);
/// Listening address of the bystander's service.
pub(crate) const BYSTANDER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8444);
/// The port of the backend of the service under test, on the other host.
pub(crate) const BACKEND_PORT: u16 = 9000;
/// The bystander's backend.
pub(crate) const ECHO: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9001);
