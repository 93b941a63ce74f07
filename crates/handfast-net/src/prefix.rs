//! Address prefixes: `10.0.0.0/8`, `2001:db8::/32`, `192.0.2.7`; and sets of them.
//!
//! In: text, and addresses. Out: a [`Prefix`], or a [`PrefixError`] with what was given, what is expected and the probable
//! cure; whether an address is in one, or in which of many. IPv4 in IPv6 (`::ffff:192.0.2.7`, which is how a socket that takes
//! both families reports it) is IPv4 everywhere here.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

mod error;
mod set;

pub use error::PrefixError;
use error::Wrong;
pub use set::PrefixSet;

/// All addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    /// Its first address: the bits behind `length` are zero, and it is not IPv4 in IPv6.
    first: IpAddr,
    length: u8,
}

impl Prefix {
    /// The prefix of this length that `address` is in; `None` when its family has fewer bits.
    pub fn of(address: IpAddr, length: u8) -> Option<Self> {
        let address = address.to_canonical();
        if length > bits(address) {
            return None;
        }
        Some(Self { first: first(address, length), length })
    }

    /// The prefix that an address is in: of the first length for IPv4, of the second one for IPv6. A longer one is the whole address.
    pub fn within(address: IpAddr, v4: u8, v6: u8) -> Self {
        let address = address.to_canonical();
        let length = if address.is_ipv4() { v4.min(32) } else { v6.min(128) };
        Self { first: first(address, length), length }
    }

    /// Its first address.
    pub const fn first(&self) -> IpAddr {
        self.first
    }

    /// Returns the number of bits that its addresses share.
    pub const fn length(&self) -> u8 {
        self.length
    }

    /// Returns true if an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        bits(address) == bits(self.first) && first(address, self.length) == self.first
    }

    /// Returns true if it contains the whole of another prefix.
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.first)
    }

    /// Its first and last address as numbers.
    fn range(&self) -> (u128, u128) {
        let first = number(self.first);
        let rest = u32::from(bits(self.first) - self.length);
        (first, first | u128::MAX.checked_shr(128 - rest).unwrap_or(0))
    }
}

/// Bits of an address.
const fn bits(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

const fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits() as u128,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// An address without what is behind its first `length` bits.
fn first(address: IpAddr, length: u8) -> IpAddr {
    let rest = u32::from(bits(address).saturating_sub(length));
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(rest).unwrap_or(0)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(rest).unwrap_or(0)).into(),
    }
}

impl fmt::Display for Prefix {
    /// As it is written: with its length, unless it is one address.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.length == bits(self.first) {
            return self.first.fmt(f);
        }
        write!(f, "{}/{}", self.first, self.length)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    /// An address, or an address, `/` and a length.
    ///
    /// Bits behind the length are an error: `10.1.2.3/8` may mean one address or sixteen million.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let error = |wrong| PrefixError::new(text, wrong);
        let Ok(written) = address.parse::<IpAddr>() else {
            return Err(error(Wrong::Address { cure: error::meant(address, length) }));
        };
        let Some(length) = length else {
            let address = written.to_canonical();
            return Ok(Self { first: address, length: bits(address) });
        };
        let most = bits(written);
        let plain = length.bytes().all(|byte| byte.is_ascii_digit()) && length.len() <= 3;
        let length = match length.parse::<u8>() {
            Ok(length) if plain && length <= most => length,
            _ => return Err(error(Wrong::Length { most, cure: error::netmask(written, length) })),
        };
        if first(written, length) != written {
            let whole = Self { first: first(written, length), length };
            return Err(error(Wrong::HostBits { whole: whole.to_string(), one: written.to_string() }));
        }
        // `::ffff:10.0.0.0/104` is 10.0.0.0/8. A shorter one has other addresses too, and no IPv4.
        match (written, written.to_canonical()) {
            (IpAddr::V6(_), v4 @ IpAddr::V4(_)) if length >= 96 => {
                Ok(Self { first: v4, length: length - 96 })
            }
            _ => Ok(Self { first: written, length }),
        }
    }
}

#[cfg(test)]
mod tests;
