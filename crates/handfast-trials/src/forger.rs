//! One end of a connection that writes TLS records which no library would write.
//!
//! In: a connected socket. Out: records on it, and how it ends. It does not read what comes back.

use std::io::Write;
use std::net::TcpStream;

use handfast_testkit::connection::Connection;
use handfast_tls::session::Failure;

use crate::certificates::{Certificates, NAME};
use crate::error::CaseError;
use crate::forge::{Forger as Keys, Kind, Version};

/// One end, and its keys.
pub(crate) struct Forger {
    stream: TcpStream,
    keys: Keys,
}

impl Forger {
    /// Begins TLS as a client.
    pub(crate) fn client(
        mut stream: TcpStream,
        version: Version,
        certificates: &Certificates,
    ) -> Result<Self, CaseError> {
        let keys = Keys::client(&mut stream, version, certificates.ca.as_bytes(), NAME).map_err(broken)?;
        Ok(Self { stream, keys })
    }

    /// Answers a hello as a server.
    pub(crate) fn server(
        mut stream: TcpStream,
        version: Version,
        certificates: &Certificates,
    ) -> Result<Self, CaseError> {
        let keys = Keys::server(&mut stream, version, certificates.web.as_bytes()).map_err(broken)?;
        Ok(Self { stream, keys })
    }

    /// A record, to be sent by the caller.
    pub(crate) fn record(&mut self, kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, CaseError> {
        self.keys.record(kind, bytes).map_err(broken)
    }

    /// A change of keys, to be sent by the caller before anything else.
    pub(crate) fn key_update(&mut self) -> Result<Vec<u8>, CaseError> {
        self.keys.key_update().map_err(broken)
    }

    /// Writes. The peer may have closed the connection, which the caller sees at the socket.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Its socket, to read how it ends.
    pub(crate) fn into_peer(self) -> Connection {
        Connection::plain("forger", self.stream)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn broken(failure: Failure) -> CaseError {
    CaseError::Broken(format!("a forger's end: {}", failure.detail))
}
