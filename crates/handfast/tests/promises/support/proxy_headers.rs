//! PROXY headers of a test: clients that send one, and what backends were sent.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;

use handfast_wire::proxy_header::{Header, Peek, V2_LIMIT, Writer, peek, write_v1};
use rustls::ClientConnection;

use super::client::{Client, Refusal, dial, server_name};
use super::trust::{Trust, Version};

/// A client that no machine has: RFC 5737's addresses are for documents.
pub(crate) fn far(last: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, last], 40_000 + u16::from(last)))
}

/// Address that such a client connected to.
pub(crate) const FRONT: ([u8; 4], u16) = ([198, 51, 100, 1], 443);

/// A header of version 1 for this client.
pub(crate) fn v1(client: SocketAddr) -> Vec<u8> {
    let mut line = Vec::new();
    write_v1(&mut line, Some((client, FRONT.into())));
    line
}

/// A header of version 2 for this client, with these values.
pub(crate) fn v2(client: SocketAddr, values: &[(u8, &[u8])]) -> Vec<u8> {
    let mut header = Writer::proxy(Some((client, FRONT.into())));
    assert!(values.iter().all(|(number, value)| header.add(*number, value)), "they fit");
    header.finish(true)
}

/// A client that has said nothing yet.
pub(crate) fn tls() -> ClientConnection {
    ClientConnection::new(Trust::version(Version::Tls13).config(), server_name("localhost"))
        .expect("good settings")
}

/// A client behind a proxy that sends these bytes first.
pub(crate) fn behind(address: SocketAddr, header: &[u8]) -> Result<Client, Refusal> {
    let mut stream = dial(address).expect("the proxy listens");
    stream.write_all(header).expect("a fresh socket takes them");
    Client::handshake(stream, tls())
}

/// The same with the ClientHello in one segment with the header.
pub(crate) fn together(address: SocketAddr, header: &[u8]) -> Result<Client, Refusal> {
    let (mut stream, mut tls) = (dial(address).expect("the proxy listens"), tls());
    let mut bytes = header.to_vec();
    tls.write_tls(&mut bytes).expect("memory takes it");
    stream.write_all(&bytes).expect("a fresh socket takes them");
    Client::handshake(stream, tls)
}

/// The same, byte by byte.
pub(crate) fn dripping(address: SocketAddr, header: &[u8]) -> Result<Client, Refusal> {
    let mut stream = dial(address).expect("the proxy listens");
    for byte in header {
        stream.write_all(&[*byte]).expect("the proxy reads");
    }
    Client::handshake(stream, tls())
}

/// A client's bytes over a unix socket, up to the answer to its hello: whether there was one.
pub(crate) fn over_unix(path: &std::path::Path, header: &[u8]) -> bool {
    use std::io::Read;
    let mut stream = UnixStream::connect(path).expect("the proxy listens");
    stream.set_read_timeout(Some(super::DEADLINE)).expect("an open socket takes it");
    let (mut tls, mut bytes) = (tls(), header.to_vec());
    tls.write_tls(&mut bytes).expect("memory takes it");
    stream.write_all(&bytes).expect("a fresh socket takes them");
    // A handshake record: the server's hello.
    stream.read_exact(&mut bytes[..1]).is_ok() && bytes[0] == 22
}

/// The header that these bytes begin with.
pub(crate) fn header(bytes: &[u8]) -> Header<'_> {
    match peek(bytes, V2_LIMIT) {
        Peek::Complete(header) => header,
        other => panic!("{other:?}: {}", String::from_utf8_lossy(bytes)),
    }
}

/// Returns true if the peer has closed or reset, without caring how.
pub(crate) fn is_refused(mut stream: &TcpStream) -> bool {
    let mut answer = Vec::new();
    // At most an alert came before the end.
    let _ = std::io::Read::read_to_end(&mut stream, &mut answer);
    answer.first().is_none_or(|first| *first == 21)
}
