//! Addresses and sizes of the small network in which sockets are tried.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netlink::Prefix;

/// Our address. RFC 2544 reserves 198.18.0.0/15 for tests of network devices.
pub const HERE: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// Addresses of the other host: each experiment has a separate peer, so that nothing the kernel remembers about one (routes,
/// path MTU, metrics, waiting ends) is met by the next.
pub(super) const THERE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
pub(super) const ALL_THERE: Prefix = Prefix(IpAddr::V4(THERE), 16);
/// The same in IPv6. RFC 5180 reserves 2001:2::/48 for tests of network devices.
pub(crate) const HERE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 1, 0, 0, 0, 1);
pub(super) const THERE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 2, 0, 0, 0, 0);
pub(super) const ALL_THERE_V6: Prefix = Prefix(IpAddr::V6(THERE_V6), 64);
/// Source addresses of the path's own messages, as from a router.
pub(crate) const ROUTERS: (Ipv4Addr, Ipv6Addr) =
    (Ipv4Addr::new(198, 18, 255, 254), Ipv6Addr::new(0x2001, 2, 0, 3, 0, 0, 0, 1));
/// The size that fits, as a router says that returns everything as too large.
pub(crate) const SMALL_MTU: u16 = 1_300;
