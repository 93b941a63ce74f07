//! A ClientHello as bytes, to be cut, framed and dripped at will; the handshake then goes on from it.
//!
//! In: a TLS configuration. Out: the record that starts the handshake, and the connection it belongs to.

use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection};

use crate::client::server_name;

/// Bytes of a record's header: type, version, length (RFC 9846 §5.1).
const RECORD_HEADER: usize = 5;

/// A handshake that has begun, and the bytes it begins with.
pub struct Hello {
    /// The connection that made the bytes, to go on with.
    pub tls: ClientConnection,
    /// One record with the ClientHello in it.
    pub record: Vec<u8>,
}

impl Hello {
    /// Asks for `localhost`.
    pub fn new(config: &Arc<ClientConfig>) -> Self {
        Self::asking_for(config, "localhost")
    }

    /// Asks for a name.
    pub fn asking_for(config: &Arc<ClientConfig>, name: &str) -> Self {
        let mut tls =
            ClientConnection::new(Arc::clone(config), server_name(name)).expect("the configuration is sound");
        let mut record = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut record).expect("memory takes it all");
        }
        Self { tls, record }
    }

    /// The same message cut into records of at most `size` bytes of payload.
    pub fn in_records_of(&self, size: usize) -> Vec<u8> {
        let (header, message) = self.record.split_at(RECORD_HEADER);
        let framed = message.chunks(size).flat_map(|chunk| {
            let length = u16::try_from(chunk.len()).expect("a record's payload is shorter than 2^16");
            [&header[..3], &length.to_be_bytes(), chunk].concat()
        });
        framed.collect()
    }
}
