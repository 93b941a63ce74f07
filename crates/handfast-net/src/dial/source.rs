//! Source addresses of a connection: addresses of this machine, each with separate ports, or the client's.
//!
//! In: the configured sources. Out: the sources that fit a destination, whether this machine has them, and the arithmetic of
//! ports when there are none left.

use std::fs::File;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use rustix::net::{SocketFlags, SocketType};

use super::family;
use crate::fault::{Cause, Fault, Operation};
use crate::sys;

/// Source address of a connection.
#[derive(Clone, Copy, Debug)]
pub enum SourceAddress<'s> {
    /// The address that the kernel chooses by the route.
    Route,
    /// One of these addresses of this machine: the one at this place (counted round and round) first, and the others when it
    /// has no port left towards the destination. Those of the other family are left out.
    Own {
        /// The addresses.
        all: &'s [IpAddr],
        /// Index of the address to begin with.
        first: usize,
    },
    /// This address, which may be none of this machine's (`IP_TRANSPARENT`).
    Client(IpAddr),
}

impl SourceAddress<'_> {
    /// Addresses that may be used for a destination.
    fn number(self, destination: SocketAddr) -> usize {
        match self {
            Self::Route | Self::Client(_) => 1,
            Self::Own { all, .. } => all.iter().filter(|source| fits(**source, destination)).count(),
        }
    }
}

/// Returns true if a connection can go from `source` to `destination`.
pub(super) fn fits(source: IpAddr, destination: SocketAddr) -> bool {
    source.is_ipv4() == destination.is_ipv4()
}

/// There is no source of the destination's family.
pub(super) fn none_fits(destination: SocketAddr) -> Fault {
    let family = if destination.is_ipv4() { "IPv4" } else { "IPv6" };
    let evidence = format!("no source address is an {family} one, as {destination} is");
    Fault { evidence: Some(evidence.into()), ..Fault::own(Operation::Bind, Cause::ForeignAddress) }
}

/// Kernel file with the range of source ports, held open.
static RANGE: OnceLock<File> = OnceLock::new();

/// Opens the kernel file with the range of source ports, for a later error that none is left, when no file may be opened any more.
pub fn remember_ports() {
    if RANGE.get().is_none()
        && let Ok(file) = File::open("/proc/sys/net/ipv4/ip_local_port_range")
    {
        // Another thread may have been first, with the same file.
        let _ = RANGE.set(file);
    }
}

/// Returns the present number of source ports.
fn ports_now() -> Option<u64> {
    remember_ports();
    let mut text = [0; 32];
    let length = rustix::io::pread(RANGE.get()?, &mut text, 0).ok()?;
    ports(str::from_utf8(&text[..length]).ok()?)
}

/// A fault with the arithmetic of ports, where it is that there are none.
pub(super) fn explained(fault: Fault, source: SourceAddress<'_>, destination: SocketAddr) -> Fault {
    if fault.cause != Cause::OutOfPorts {
        return fault;
    }
    let evidence = arithmetic(ports_now(), source.number(destination), destination);
    Fault { evidence: Some(evidence.into()), ..fault }
}

/// Ports of `low\thigh`.
fn ports(range: &str) -> Option<u64> {
    let mut ends = range.split_ascii_whitespace().map(str::parse::<u16>);
    match (ends.next(), ends.next()) {
        (Some(Ok(low)), Some(Ok(high))) => Some(u64::from(high.checked_sub(low)?) + 1),
        _ => None,
    }
}

fn arithmetic(ports: Option<u64>, sources: usize, destination: SocketAddr) -> String {
    let named = if sources == 1 { "source address" } else { "source addresses" };
    let product = match ports {
        Some(ports) => {
            let whole = ports.saturating_mul(sources as u64);
            format!("{ports} ports × {sources} {named} = {whole} connections to {destination}")
        }
        None => format!("all ports of {sources} {named} to {destination}"),
    };
    format!("{product}, all open or in TIME_WAIT for 60 s")
}

/// Checks that a connection can come from `source` on this machine as it is now.
///
/// **Errors**: why it cannot: bind(2).
pub fn is_here(source: IpAddr) -> io::Result<()> {
    let socket = rustix::net::socket_with(family(source), SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    Ok(rustix::net::bind(&socket, &SocketAddr::new(source, 0))?)
}

/// Checks that connections may come from addresses that do not belong to this machine.
///
/// **Errors**: why they are not allowed: setsockopt(2).
pub fn can_be_foreign() -> io::Result<()> {
    let family = rustix::net::AddressFamily::INET;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sys::allow_foreign_source(&socket, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Address;
    use crate::dial::Dialling;

    #[test]
    fn the_arithmetic_is_that_of_the_kernel() {
        assert_eq!(ports("32768\t60999\n"), Some(28_232));
        assert_eq!(ports("40000 40000"), Some(1));
        assert_eq!(ports("40001 40000"), None);
        let to = "10.0.0.7:80".parse().expect("an address");
        let all: Vec<IpAddr> = ["10.0.0.5", "10.0.0.6", "::1"].map(|ip| ip.parse().expect(ip)).to_vec();
        let source = SourceAddress::Own { all: &all, first: 0 };
        assert_eq!(source.number(to), 2, "the IPv6 one does not count");
        assert_eq!(
            arithmetic(Some(28_232), 2, to),
            "28232 ports × 2 source addresses = 56464 connections to 10.0.0.7:80, all open or in TIME_WAIT for 60 s"
        );
    }

    #[test]
    fn a_source_that_is_gone_is_passed_over_and_one_of_the_other_family_never_used() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        // 192.0.2.0/24 is for documents (RFC 5737): no machine has it.
        let all: Vec<IpAddr> = ["::1", "192.0.2.1", "127.0.0.9"].map(|ip| ip.parse().expect(ip)).to_vec();
        for first in 0..7 {
            let source = SourceAddress::Own { all: &all, first };
            let _dialling =
                Dialling::begin(&Address::Ip(address), source, false).expect("one of them is here");
            let (_, from) = listener.accept().expect("it connected");
            assert_eq!(from.ip(), all[2]);
        }
        let fault = |all: &[IpAddr]| {
            let source = SourceAddress::Own { all, first: 1 };
            Dialling::begin(&Address::Ip(address), source, false).expect_err("none is here")
        };
        let none = fault(&all[..1]);
        assert_eq!(none.cause, Cause::ForeignAddress);
        assert!(none.evidence.expect("it says why").contains("no source address is an IPv4 one"));
        let gone = fault(&all[..2]);
        assert_eq!(gone.cause, Cause::ForeignAddress);
        assert_eq!(gone.evidence.as_deref(), Some("source address 192.0.2.1"));
        assert_eq!(fault(&[]).cause, Cause::ForeignAddress);
        assert!(is_here(all[2]).is_ok() && is_here(all[1]).is_err());
    }
}
