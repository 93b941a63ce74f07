//! Making PROXY headers.
//!
//! In: both ends of a connection, and further information about it. Out: bytes to send before the connection's own.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};

use super::{V2_SIGNATURE, crc32c, tlv};
use crate::starttls::base64;

/// Most bytes of a header: its length field has two bytes.
const MAX_BYTES: usize = super::v2::FIXED + u16::MAX as usize;
/// Bytes of a checksum with its type and length, kept free for it.
const CHECKSUM: usize = 7;

/// Returns an address as hitch's `write-ip` has it: the number that Linux has for its family, and its bytes. Without an address: 0 (AF_UNSPEC).
pub fn address_bytes(address: Option<IpAddr>) -> Vec<u8> {
    match address.map(|address| address.to_canonical()) {
        None => vec![0],
        Some(IpAddr::V4(address)) => [&[2], &address.octets()[..]].concat(),
        Some(IpAddr::V6(address)) => [&[10], &address.octets()[..]].concat(),
    }
}

/// Returns a certificate in PEM as hitch sends it ([`tlv::HITCH_CLIENT_CERT`]): by OpenSSL's PEM_write_bio_X509_AUX, whose label is another one.
pub fn certificate_pem(label: &str, der: &[u8]) -> String {
    const COLUMNS: usize = 64;
    let text = base64(der);
    let mut pem = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(COLUMNS.min(rest.len()));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str(&format!("-----END {label}-----\n"));
    pem
}

/// Appends a header of version 1; with `None` one that states that the addresses are not known.
pub fn write_v1(into: &mut Vec<u8>, endpoints: Option<(SocketAddr, SocketAddr)>) {
    let line = match endpoints.map(alike) {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some((source, destination)) => format!(
            "PROXY {} {} {} {} {}\r\n",
            if source.is_ipv4() { "TCP4" } else { "TCP6" },
            source.ip(),
            destination.ip(),
            source.port(),
            destination.port()
        ),
    };
    into.extend_from_slice(line.as_bytes());
}

/// Two addresses of one family, since a header has room for one alone.
fn alike((source, destination): (SocketAddr, SocketAddr)) -> (SocketAddr, SocketAddr) {
    let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
    let both = match (from, to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (from, to),
        _ => (mapped(from), mapped(to)),
    };
    // Neither scope nor flow: no header has them, and numbers of interfaces mean nothing elsewhere.
    let plain = |ip, port| match ip {
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, 0).into(),
        v4 => SocketAddr::new(v4, port),
    };
    (plain(both.0, source.port()), plain(both.1, destination.port()))
}

fn mapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().into(),
        v6 => v6,
    }
}

/// A header of version 2 in the making.
#[derive(Clone, Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// A header for the connection between these two; with `None` one that states that its addresses are not known.
    pub fn proxy(endpoints: Option<(SocketAddr, SocketAddr)>) -> Self {
        let mut bytes = V2_SIGNATURE.to_vec();
        bytes.push(0x21);
        match endpoints.map(alike) {
            None => bytes.extend([0x00, 0, 0]),
            Some((source, destination)) => {
                bytes.extend([if source.is_ipv4() { 0x11 } else { 0x21 }, 0, 0]);
                for address in [source.ip(), destination.ip()] {
                    match address {
                        IpAddr::V4(address) => bytes.extend(address.octets()),
                        IpAddr::V6(address) => bytes.extend(address.octets()),
                    }
                }
                bytes.extend(source.port().to_be_bytes());
                bytes.extend(destination.port().to_be_bytes());
            }
        }
        Self { bytes }
    }

    /// A header for a connection of the proxy's own, such as a health check.
    pub fn local() -> Self {
        let mut bytes = V2_SIGNATURE.to_vec();
        bytes.extend([0x20, 0x00, 0, 0]);
        Self { bytes }
    }

    /// Adds a value; `false`, and nothing added, where the header would not have room for it.
    #[must_use]
    pub fn add(&mut self, number: u8, value: &[u8]) -> bool {
        match u16::try_from(value.len()) {
            Ok(length) if self.bytes.len() + 3 + value.len() <= MAX_BYTES - CHECKSUM => {
                self.bytes.push(number);
                self.bytes.extend(length.to_be_bytes());
                self.bytes.extend_from_slice(value);
                true
            }
            _ => false,
        }
    }

    /// Adds what TLS did; `false`, and nothing added, where there is no room for it. `client` has the bits of [`super::Tls`].
    #[must_use]
    pub fn add_tls(&mut self, client: u8, verify: u32, values: &[(u8, &[u8])]) -> bool {
        let mut inside = vec![client];
        inside.extend(verify.to_be_bytes());
        for (number, value) in values {
            let Ok(length) = u16::try_from(value.len()) else { return false };
            inside.push(*number);
            inside.extend(length.to_be_bytes());
            inside.extend_from_slice(value);
        }
        self.add(tlv::SSL, &inside)
    }

    /// The whole header, with its checksum if that is wanted.
    pub fn finish(mut self, checksum: bool) -> Vec<u8> {
        if checksum {
            self.bytes.extend([tlv::CRC32C, 0, 4, 0, 0, 0, 0]);
        }
        let length = self.bytes.len() - super::v2::FIXED;
        let length = u16::try_from(length).expect("`add` leaves room for the checksum and no more");
        self.bytes[14..16].copy_from_slice(&length.to_be_bytes());
        if checksum {
            let crc = crc32c::of(&[&self.bytes]);
            let end = self.bytes.len();
            self.bytes[end - 4..].copy_from_slice(&crc.to_be_bytes());
        }
        self.bytes
    }
}
