//! PROXY headers: information from a proxy in front about a connection, before the connection's own bytes.
//!
//! In: everything received so far, from the connection's first byte. Out: [`Peek`], that is: wait for more, a [`Header`] and how
//! many bytes it took, or the exact way in which it is wrong. [`write_v1`] and [`Writer`] make headers. As everywhere in this
//! crate nothing waits, panics on what a peer sent, or allocates for a length that was only announced; reading allocates nothing.
//!
//! | I want to … | open |
//! |---|---|
//! | read the one line of version 1 | `proxy_header/v1.rs` |
//! | read the block of version 2 | `proxy_header/v2.rs` |
//! | know which type-length-values are known, and how they are checked | `proxy_header/tlv.rs` |
//! | make a header | `proxy_header/write.rs` |
//! | see every way a header can be wrong | `proxy_header/invalid.rs` |
//!
//! **Source**: the specification "The PROXY protocol" (HAProxy's `doc/proxy-protocol.txt`), sections 2.1 and 2.2.

mod crc32c;
mod invalid;
mod limits;
pub mod tlv;
mod v1;
mod v2;
mod write;

use std::fmt;
use std::net::SocketAddr;

pub use invalid::Invalid;
pub use limits::{V1_LIMIT, V2_LIMIT};
pub use tlv::{Tls, Tlv, Tlvs};
pub use write::{Writer, address_bytes, certificate_pem, write_v1};

/// First bytes of every header of version 1.
const V1_SIGNATURE: &[u8] = b"PROXY ";
/// First bytes of every header of version 2 (section 2.2).
const V2_SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// The state of the bytes that were received.
///
/// Only [`Peek::Incomplete`] can become something else when more bytes come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peek<'a> {
    /// A beginning, and no more. Fewer bytes than the limit are there, so a buffer of that size has room.
    Incomplete,
    /// A whole header; the connection's own bytes follow at [`Header::length`].
    Complete(Header<'a>),
    /// These bytes begin no header of either version.
    Absent,
    /// A header, but one that must not be believed.
    Invalid(Invalid),
}

/// A whole header, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Version of the header.
    pub version: Version,
    /// Bytes that it took on the wire.
    pub length: usize,
    /// Kind of connection that it describes: another one, or the proxy's own.
    pub command: Command,
    /// Both ends of that connection, as the proxy in front saw them.
    pub endpoints: Endpoints<'a>,
    /// Bytes of a LOCAL header behind its fixed part, which are to be ignored whatever they are.
    pub ignored: usize,
    tlvs: &'a [u8],
}

/// The two forms of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Version {
    /// A line of text.
    V1,
    /// A binary block.
    V2,
}

impl Version {
    /// The word used in logs, labels and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Purpose of a header of version 2; one of version 1 is always [`Command::Proxy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// The connection is the proxy's own, for example for a health check: the socket's own addresses count.
    Local,
    /// The proxy forwards the connection of a client.
    Proxy,
}

/// Transport of the connection that a header describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Not stated.
    Unspecified,
    /// TCP, or a stream socket.
    Stream,
    /// UDP, or a datagram socket.
    Datagram,
}

/// Both ends of the connection that a header describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoints<'a> {
    /// Not known to the sender (`UNKNOWN`, `AF_UNSPEC`), or none because the connection is its own.
    Unspecified,
    /// Internet addresses.
    Ip {
        /// Transport of the connection.
        transport: Transport,
        /// Address of the client.
        source: SocketAddr,
        /// Address of the server.
        destination: SocketAddr,
    },
    /// Paths of unix sockets, without the zeros that fill them up; empty for a socket without a name.
    Unix {
        /// Transport of the connection.
        transport: Transport,
        /// Path of the client's socket.
        source: &'a [u8],
        /// Path of the server's socket.
        destination: &'a [u8],
    },
}

impl<'a> Header<'a> {
    /// The two ends of a TCP connection that it describes; `None` when the socket's own addresses count.
    pub const fn tcp(&self) -> Option<(SocketAddr, SocketAddr)> {
        match self.endpoints {
            Endpoints::Ip { transport: Transport::Stream, source, destination } => {
                Some((source, destination))
            }
            _ => None,
        }
    }

    /// Its type-length-values, in their order, `NOOP` and unknown ones too.
    pub const fn tlvs(&self) -> Tlvs<'a> {
        Tlvs::new(self.tlvs)
    }

    /// The value of the first one of this type.
    pub fn find(&self, number: u8) -> Option<&'a [u8]> {
        self.tlvs().find(|tlv| tlv.number == number).map(|tlv| tlv.value)
    }

    /// The host name that the client requested, as the sender reports it.
    pub fn authority(&self) -> Option<&'a str> {
        self.find(tlv::AUTHORITY).and_then(|value| str::from_utf8(value).ok())
    }

    /// The application protocol that was agreed on in front.
    pub fn alpn(&self) -> Option<&'a [u8]> {
        self.find(tlv::ALPN)
    }

    /// The name of the connection that proxies hand on.
    pub fn unique_id(&self) -> Option<&'a [u8]> {
        self.find(tlv::UNIQUE_ID)
    }

    /// Returns the sender's information about TLS between the client and itself.
    pub fn tls(&self) -> Option<Tls<'a>> {
        self.find(tlv::SSL).and_then(Tls::parse)
    }
}

/// Looks at the bytes received so far, from the first byte of the connection; `limit` is the most bytes that a header of version 2
/// may take, usually [`V2_LIMIT`].
///
/// **Cost**: a pass over the header once it is whole, two where it has a checksum; no allocation.
/// **Source**: "The PROXY protocol", sections 2.1 and 2.2.
pub fn peek(received: &[u8], limit: usize) -> Peek<'_> {
    if received.starts_with(V2_SIGNATURE) {
        return v2::peek(received, limit);
    }
    if received.starts_with(V1_SIGNATURE) {
        return v1::peek(received);
    }
    let begins = V2_SIGNATURE.starts_with(received) || V1_SIGNATURE.starts_with(received);
    if begins { Peek::Incomplete } else { Peek::Absent }
}

#[cfg(test)]
mod tests;
