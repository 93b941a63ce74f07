//! Version 2: a binary block of a fixed part, two addresses and type-length-values.
//!
//! In: bytes that begin with the signature. Out: [`Peek`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Command, Endpoints, Header, Invalid, Peek, Transport, V2_SIGNATURE, Version, tlv};

/// Bytes before the addresses: the signature, version and command, family and transport, a length.
pub(super) const FIXED: usize = 16;
/// Bytes of both addresses, by family.
pub(super) const INET: usize = 12;
/// … of IPv6.
pub(super) const INET6: usize = 36;
/// … of unix sockets: two paths of 108 bytes.
const UNIX: usize = 216;

/// The fixed part.
struct Fixed {
    command: Command,
    family: u8,
    transport: Transport,
    /// Bytes behind the fixed part.
    length: usize,
}

impl Fixed {
    /// Bytes that the addresses take.
    const fn addresses(&self) -> usize {
        match self.family {
            1 => INET,
            2 => INET6,
            3 => UNIX,
            _ => 0,
        }
    }
}

pub(super) fn peek(received: &[u8], limit: usize) -> Peek<'_> {
    let fixed = match fixed(received, limit) {
        Ok(Some(fixed)) => fixed,
        Ok(None) => return Peek::Incomplete,
        Err(invalid) => return Peek::Invalid(invalid),
    };
    let Some(whole) = received.get(..FIXED + fixed.length) else { return Peek::Incomplete };
    match header(&fixed, whole) {
        Ok(header) => Peek::Complete(header),
        Err(invalid) => Peek::Invalid(invalid),
    }
}

/// Reads the fixed part in the order of its bytes, so that more bytes never change a refusal.
fn fixed(received: &[u8], limit: usize) -> Result<Option<Fixed>, Invalid> {
    let [ver_cmd, rest @ ..] = &received[V2_SIGNATURE.len()..] else { return Ok(None) };
    if ver_cmd >> 4 != 2 {
        return Err(Invalid::Version { version: ver_cmd >> 4 });
    }
    let command = match ver_cmd & 0x0f {
        0 => Command::Local,
        1 => Command::Proxy,
        command => return Err(Invalid::Command { command }),
    };
    let [fam, rest @ ..] = rest else { return Ok(None) };
    let family = fam >> 4;
    let transport = match fam & 0x0f {
        // A LOCAL header is taken whatever its family is (section 2.2).
        _ if command == Command::Local => Transport::Unspecified,
        _ if family > 3 => return Err(Invalid::Family { family }),
        0 => Transport::Unspecified,
        1 => Transport::Stream,
        2 => Transport::Datagram,
        transport => return Err(Invalid::Transport { transport }),
    };
    let [high, low, ..] = rest else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if FIXED + length > limit {
        return Err(Invalid::TooLong { announced: FIXED + length, limit });
    }
    let fixed = Fixed { command, family, transport, length };
    // The content of a LOCAL header after its fixed part is ignored.
    if command == Command::Proxy && length < fixed.addresses() {
        return Err(Invalid::AddressesShort { needed: fixed.addresses(), length });
    }
    Ok(Some(fixed))
}

fn header<'a>(fixed: &Fixed, whole: &'a [u8]) -> Result<Header<'a>, Invalid> {
    let header = |endpoints, ignored, tlvs| Header {
        version: Version::V2,
        length: whole.len(),
        command: fixed.command,
        endpoints,
        ignored,
        tlvs,
    };
    if fixed.command == Command::Local {
        return Ok(header(Endpoints::Unspecified, fixed.length, &[]));
    }
    let start = FIXED + fixed.addresses();
    tlv::check(whole, start)?;
    let addresses = &whole[FIXED..start];
    let endpoints = match fixed.family {
        1 => ip(fixed.transport, addresses, |bytes: [u8; 4]| Ipv4Addr::from(bytes).into()),
        2 => ip(fixed.transport, addresses, |bytes: [u8; 16]| Ipv6Addr::from(bytes).into()),
        3 => {
            let (source, destination) = addresses.split_at(UNIX / 2);
            Endpoints::Unix {
                transport: fixed.transport,
                source: filled(source),
                destination: filled(destination),
            }
        }
        _ => Endpoints::Unspecified,
    };
    Ok(header(endpoints, 0, &whole[start..]))
}

/// Two addresses of `N` bytes, then two ports.
fn ip<const N: usize>(
    transport: Transport,
    block: &[u8],
    address: impl Fn([u8; N]) -> IpAddr,
) -> Endpoints<'static> {
    let end = |place: usize| {
        let bytes = block[place * N..].first_chunk().expect("the block has the length of its family");
        let port = 2 * N + 2 * place;
        SocketAddr::new(address(*bytes), u16::from_be_bytes([block[port], block[port + 1]]))
    };
    Endpoints::Ip { transport, source: end(0), destination: end(1) }
}

/// A path without the zeros behind it. One that begins with a zero is the name of an abstract socket, and keeps that.
fn filled(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &path[..end]
}
