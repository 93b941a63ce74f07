//! Version 1: one line of text.
//!
//! In: bytes that begin with `PROXY `. Out: [`Peek`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Command, Endpoints, Header, Invalid, Peek, Transport, V1_LIMIT, V1_SIGNATURE, Version};

pub(super) fn peek(received: &[u8]) -> Peek<'_> {
    let within = &received[..received.len().min(V1_LIMIT)];
    // Judged in the order of the bytes, so that more bytes never change a refusal.
    let Some(at) = within.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return if within.len() == V1_LIMIT { Peek::Invalid(Invalid::LineTooLong) } else { Peek::Incomplete };
    };
    match within.get(at..at + 2) {
        Some(b"\r\n") => {}
        None if within[at] == b'\r' && within.len() < V1_LIMIT => return Peek::Incomplete,
        None if within[at] == b'\r' => return Peek::Invalid(Invalid::LineTooLong),
        _ => return Peek::Invalid(Invalid::LineEnd { at }),
    }
    match endpoints(&within[V1_SIGNATURE.len()..at]) {
        Ok(endpoints) => Peek::Complete(Header {
            version: Version::V1,
            length: at + 2,
            command: Command::Proxy,
            endpoints,
            ignored: 0,
            tlvs: &[],
        }),
        Err(invalid) => Peek::Invalid(invalid),
    }
}

/// The fields of the line, behind `PROXY `.
fn endpoints(fields: &[u8]) -> Result<Endpoints<'static>, Invalid> {
    // "the receiver must ignore anything presented before the CRLF" behind UNKNOWN.
    if fields == b"UNKNOWN" || fields.starts_with(b"UNKNOWN ") {
        return Ok(Endpoints::Unspecified);
    }
    let mut fields = fields.split(|byte| *byte == b' ');
    let parse: fn(&str) -> Option<IpAddr> = match fields.next() {
        Some(b"TCP4") => |text| text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
        Some(b"TCP6") => |text| text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        _ => return Err(Invalid::Protocol),
    };
    let mut address = |field| {
        let text = fields.next().and_then(|text| str::from_utf8(text).ok());
        text.and_then(parse)
            .ok_or(Invalid::Field { field, expected: "an address of the family that is named" })
    };
    let (source, destination) = (address("source address")?, address("destination address")?);
    let mut port = |field| {
        fields.next().and_then(number).ok_or(Invalid::Field {
            field,
            expected: "a decimal number from 0 to 65535 without leading zeros",
        })
    };
    let (source_port, destination_port) = (port("source port")?, port("destination port")?);
    if fields.next().is_some() {
        return Err(Invalid::MoreFields);
    }
    Ok(Endpoints::Ip {
        transport: Transport::Stream,
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

fn number(text: &[u8]) -> Option<u16> {
    // Rust would take a sign and leading zeros.
    let plain = matches!(text, [b'0'] | [b'1'..=b'9', ..]);
    plain.then(|| str::from_utf8(text).ok()?.parse().ok())?
}
