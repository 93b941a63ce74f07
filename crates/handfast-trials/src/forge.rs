//! A TLS endpoint that writes records which no library would write: after a real handshake, any number of correctly encrypted records of
//! any kind. For tests of the reaction of peers.
//!
//! In: a connected stream, and a version. Out: records. Answers are not read.

use std::io::{Read, Write};
use std::sync::Arc;

use handfast_tls::session::{Failure, FailureKind};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::crypto::cipher::{MessageEncrypter, OutboundPlainMessage};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{
    ClientConfig, ConnectionTrafficSecrets, ContentType, Error, ProtocolVersion, RootCertStore, ServerConfig,
    SupportedCipherSuite, SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// The version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

const TLS12: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];
const TLS13: &[&SupportedProtocolVersion] = &[&rustls::version::TLS13];

impl Version {
    fn only(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Tls12 => TLS12,
            Self::Tls13 => TLS13,
        }
    }
}

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An alert.
    Alert,
    /// Messages of the handshake.
    Handshake,
    /// Application data.
    Data,
}

/// The keys behind a change of keys.
type Next = Box<dyn FnMut() -> Result<ConnectionTrafficSecrets, Error> + Send>;

/// One end, whose keys are known.
pub(crate) struct Forger {
    suite: SupportedCipherSuite,
    encrypter: Box<dyn MessageEncrypter>,
    sequence: u64,
    next: Next,
}

impl std::fmt::Debug for Forger {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forger").field("sequence", &self.sequence).finish_non_exhaustive()
    }
}

impl Forger {
    /// Shakes hands as a client of this name, which trusts these CAs (PEM).
    ///
    /// **Errors**: of the stream, of the peer, or CAs that are none.
    #[expect(clippy::disallowed_methods, reason = "its sessions write what no session of ours does")]
    pub(crate) fn client(
        stream: &mut (impl Read + Write),
        version: Version,
        ca: &[u8],
        name: &'static str,
    ) -> Result<Self, Failure> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca) {
            roots.add(certificate.map_err(wrong)?).map_err(wrong)?;
        }
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(version.only()).map_err(wrong)?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.enable_secret_extraction = true;
        let name = ServerName::try_from(name).map_err(wrong)?;
        let connection = UnbufferedClientConnection::new(Arc::new(config), name).map_err(wrong)?;
        let connection = shake_hands(connection, stream)?;
        let (secrets, mut keys) = connection.dangerous_into_kernel_connection().map_err(wrong)?;
        let suite = keys.negotiated_cipher_suite();
        let next = Box::new(move || keys.update_tx_secret().map(|(_, secrets)| secrets));
        Self::begin(suite, secrets.tx, next)
    }

    /// Shakes hands as a server, with this certificate and key (PEM).
    ///
    /// **Errors**: as [`Forger::client`].
    #[expect(clippy::disallowed_methods, reason = "its sessions write what no session of ours does")]
    pub(crate) fn server(
        stream: &mut (impl Read + Write),
        version: Version,
        identity: &[u8],
    ) -> Result<Self, Failure> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(identity).collect();
        let key = PrivateKeyDer::from_pem_slice(identity).map_err(wrong)?;
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()));
        let builder = builder.with_protocol_versions(version.only()).map_err(wrong)?.with_no_client_auth();
        let mut config = builder.with_single_cert(chain.map_err(wrong)?, key).map_err(wrong)?;
        config.enable_secret_extraction = true;
        let connection = UnbufferedServerConnection::new(Arc::new(config)).map_err(wrong)?;
        let connection = shake_hands(connection, stream)?;
        let (secrets, mut keys) = connection.dangerous_into_kernel_connection().map_err(wrong)?;
        let suite = keys.negotiated_cipher_suite();
        let next = Box::new(move || keys.update_tx_secret().map(|(_, secrets)| secrets));
        Self::begin(suite, secrets.tx, next)
    }

    fn begin(
        suite: SupportedCipherSuite,
        (written, secrets): (u64, ConnectionTrafficSecrets),
        next: Next,
    ) -> Result<Self, Failure> {
        let mut begun = Self { suite, encrypter: encrypter(suite, secrets)?, sequence: 0, next };
        // The library takes the first number that it is given for 0, and refuses some that come behind another one.
        for _ in 0..written {
            begun.record(Kind::Data, &[])?;
        }
        Ok(begun)
    }

    /// A record with this in it.
    ///
    /// **Errors**: more bytes than any cipher accepts.
    pub(crate) fn record(&mut self, kind: Kind, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        let typ = match kind {
            Kind::Alert => ContentType::Alert,
            Kind::Handshake => ContentType::Handshake,
            Kind::Data => ContentType::ApplicationData,
        };
        let message = OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_2, payload: bytes.into() };
        let record = self.encrypter.encrypt(message, self.sequence).map_err(wrong)?;
        self.sequence += 1;
        Ok(record.encode())
    }

    /// A KeyUpdate that asks for another one (RFC 9846 §4.7.3). Later records use the next keys.
    ///
    /// **Errors**: TLS 1.2 has no such message.
    pub(crate) fn key_update(&mut self) -> Result<Vec<u8>, Failure> {
        let record = self.record(Kind::Handshake, &[24, 0, 0, 1, 1])?;
        self.encrypter = encrypter(self.suite, (self.next)().map_err(wrong)?)?;
        self.sequence = 0;
        Ok(record)
    }
}

fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::new(FailureKind::Ourselves, format!("forge TLS: {error}"))
}

fn encrypter(
    suite: SupportedCipherSuite,
    secrets: ConnectionTrafficSecrets,
) -> Result<Box<dyn MessageEncrypter>, Failure> {
    let (ConnectionTrafficSecrets::Aes128Gcm { key, iv }
    | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
    | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv }) = secrets
    else {
        return Err(wrong("a cipher that is not known here"));
    };
    Ok(match suite {
        SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, iv),
        SupportedCipherSuite::Tls12(suite) => {
            let (fixed, explicit) = iv.as_ref().split_at(suite.aead_alg.key_block_shape().fixed_iv_len);
            suite.aead_alg.encrypter(key, fixed, explicit)
        }
    })
}

/// A side of rustls that leaves reading and writing to its caller.
trait Unbuffered {
    /// rustls's mark of the side.
    type Data;
    /// Returns the next state.
    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl Unbuffered for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

impl Unbuffered for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }
}

fn shake_hands<C: Unbuffered>(mut connection: C, stream: &mut (impl Read + Write)) -> Result<C, Failure> {
    let (mut incoming, mut outgoing) = (Vec::new(), Vec::new());
    let mut piece = vec![0; 1 << 16];
    loop {
        let UnbufferedStatus { mut discard, state, .. } = connection.process(&mut incoming);
        let (mut is_done, mut is_blocked) = (false, false);
        match state.map_err(wrong)? {
            ConnectionState::EncodeTlsData(mut data) => {
                let written = data.encode(&mut piece).map_err(wrong)?;
                outgoing.extend_from_slice(&piece[..written]);
            }
            ConnectionState::TransmitTlsData(data) => {
                stream.write_all(&outgoing).map_err(wrong)?;
                outgoing.clear();
                data.done();
            }
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    discard += record.map_err(wrong)?.discard;
                }
            }
            ConnectionState::WriteTraffic(_) => is_done = true,
            ConnectionState::BlockedHandshake => is_blocked = true,
            _ => return Err(wrong("a state of the session that was not asked for")),
        }
        incoming.drain(..discard);
        if is_done {
            return Ok(connection);
        }
        if is_blocked {
            match stream.read(&mut piece).map_err(wrong)? {
                0 => return Err(Failure::new(FailureKind::Peer, "the connection ended in the handshake")),
                count => incoming.extend_from_slice(&piece[..count]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use rustls::{ClientConnection, ServerConnection, Stream};

    use super::*;
    use handfast_testkit::maker::Maker;

    /// A library on the other side takes what is written for right, whichever side it is.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "two ends of one connection, which both block")]
    fn forged_records_are_right() {
        let authority = Maker::authority("a CA").valid((2020, 1, 1), (2100, 1, 1)).self_signed();
        let made = Maker::new(&["localhost"]).valid((2020, 1, 1), (2100, 1, 1)).signed_by(&authority);
        let (ca, identity) =
            (authority.certificate.pem(), made.certificate.pem() + &made.key.serialize_pem());
        for (version, as_client) in
            [(Version::Tls12, true), (Version::Tls13, true), (Version::Tls12, false), (Version::Tls13, false)]
        {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let (of_ca, of_server) = (ca.clone(), identity.clone());
            let other = std::thread::spawn(move || {
                let mut received = Vec::new();
                if as_client {
                    let chain =
                        CertificateDer::pem_slice_iter(of_server.as_bytes()).collect::<Result<_, _>>();
                    let key = PrivateKeyDer::from_pem_slice(of_server.as_bytes()).unwrap();
                    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
                        .with_protocol_versions(rustls::ALL_VERSIONS)
                        .unwrap()
                        .with_no_client_auth()
                        .with_single_cert(chain.unwrap(), key)
                        .unwrap();
                    let mut server = ServerConnection::new(Arc::new(config)).unwrap();
                    Stream::new(&mut server, &mut theirs).read_to_end(&mut received).unwrap();
                } else {
                    let mut roots = RootCertStore::empty();
                    roots.add(CertificateDer::from_pem_slice(of_ca.as_bytes()).unwrap()).unwrap();
                    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
                        .with_protocol_versions(rustls::ALL_VERSIONS)
                        .unwrap()
                        .with_root_certificates(roots)
                        .with_no_client_auth();
                    let name = ServerName::try_from("localhost").unwrap();
                    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
                    Stream::new(&mut client, &mut theirs).read_to_end(&mut received).unwrap();
                }
                received
            });
            let mut forger = if as_client {
                Forger::client(&mut ours, version, ca.as_bytes(), "localhost").unwrap()
            } else {
                Forger::server(&mut ours, version, identity.as_bytes()).unwrap()
            };
            let mut records = forger.record(Kind::Data, b"before ").unwrap();
            match version {
                Version::Tls13 => records.extend(forger.key_update().unwrap()),
                Version::Tls12 => assert!(forger.record(Kind::Alert, &[1, 90]).is_ok_and(|alert| {
                    records.extend(alert);
                    true
                })),
            }
            records.extend(forger.record(Kind::Data, b"and behind").unwrap());
            records.extend(forger.record(Kind::Alert, &[1, 0]).unwrap());
            ours.write_all(&records).unwrap();
            assert_eq!(other.join().unwrap(), b"before and behind", "{version:?}, as a client: {as_client}");
        }
    }
}
