//! Which clients a service admits by address (`allow-clients`, `refuse-clients`, `[service.handshake-rate]`).

use std::net::IpAddr;

use handfast_net::prefix::Prefix;

/// Which clients a service admits by address alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admission {
    /// Only these; empty: all.
    pub allow: Vec<Prefix>,
    /// None of these, even where `allow` has them.
    pub refuse: Vec<Prefix>,
    /// How fast clients of one prefix may begin handshakes; `None`: as fast as they want.
    pub rate: Option<HandshakeRate>,
}

impl Admission {
    /// Whether every client is admitted.
    pub fn lets_everybody_in(&self) -> bool {
        self.allow.is_empty() && self.refuse.is_empty() && self.rate.is_none()
    }
}

/// A limit on new handshakes for each prefix of client addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeRate {
    /// Handshakes a second that a prefix may begin in the long run; not zero.
    pub per_second: u32,
    /// Handshakes that it may begin at once after a pause; not zero.
    pub burst: u32,
    /// IPv4 clients with this number of equal leading bits are counted together; at most 32.
    pub prefix_v4: u8,
    /// The same for IPv6; at most 128.
    pub prefix_v6: u8,
}

impl HandshakeRate {
    /// The prefix that a client is counted in.
    pub fn prefix_of(&self, address: IpAddr) -> Prefix {
        let address = address.to_canonical();
        let length = if address.is_ipv4() { self.prefix_v4.min(32) } else { self.prefix_v6.min(128) };
        Prefix::of(address, length).expect("a length that its family has")
    }
}
