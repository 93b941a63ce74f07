//! The server's side of TLS, by rustls: the only file that knows its connection types.
//!
//! In: a policy, certificates, a rule about client certificates, ticket keys; then one ClientHello after the other.
//! Out: sessions.
//!
//! rustls's unbuffered interface is used: it decrypts in the caller's memory and keeps no buffer between calls, so an
//! idle session costs its keys and little else.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_wire::{ClientHello, registry};
use rustls::server::{NoServerSessionStorage, ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{HandshakeKind, ServerConfig};

use crate::buffer::Buffer;
use crate::client_certificates::ClientCertificates;
use crate::error_words::failure;
use crate::policy::{Objection, Offer, Policy};
use crate::session::{Agreed, Failure, FailureKind, Received, Session};
use crate::store::{Resolver, Selected, Selection, UnknownName, last_selection};
use crate::ticket::{KeySet, Ticketer};

/// What decides about the clients of one service, or of certain names of it.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Versions, suites and groups.
    pub policy: Policy,
    /// Certificates, and what is done for unknown names.
    pub resolver: Arc<Resolver>,
    /// The rule about client certificates; `None`: they are not asked for.
    pub client_certificates: Option<ClientCertificates>,
    /// Application protocols, best first; empty: ALPN is not answered.
    pub alpn: Vec<String>,
    /// Tickets after a TLS 1.3 handshake; 0: no resumption in either version.
    pub tickets_per_handshake: u8,
    /// How long a ticket is accepted.
    pub ticket_lifetime: Duration,
    /// Distinguishes services and names: tickets of one are not accepted by another.
    pub scope: String,
}

impl ServerSettings {
    /// Everything that decides who may connect, and how: a ticket is good only where this is the same.
    fn policy_id(&self) -> Vec<u8> {
        let mut id = Vec::new();
        let mut part = |bytes: &[u8]| {
            id.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
            id.extend_from_slice(bytes);
        };
        part(self.scope.as_bytes());
        part(self.policy.fingerprint().as_bytes());
        part(self.client_certificates.as_ref().map_or(&[][..], |rule| rule.fingerprint()));
        for protocol in &self.alpn {
            part(protocol.as_bytes());
        }
        id
    }
}

/// Makes sessions for the clients that one [`ServerSettings`] decides about. One for each thread, so that nothing in
/// it is shared between cores but certificates and keys.
pub struct Server {
    settings: ServerSettings,
    /// One for each choice of group and cipher that the policy makes by the client's offer.
    variants: Vec<Arc<ServerConfig>>,
    ticketer: Arc<Ticketer>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("scope", &self.settings.scope).finish_non_exhaustive()
    }
}

impl Server {
    /// Makes ready for clients.
    ///
    /// **Errors**: a policy that rustls refuses; the configuration's check finds those first.
    pub fn new(settings: ServerSettings, keys: Arc<KeySet>) -> Result<Self, Failure> {
        let ticketer = Arc::new(Ticketer::new(keys, &settings.policy_id(), settings.ticket_lifetime));
        let variants = settings
            .policy
            .variants()
            .iter()
            .map(|provider| configure(&settings, Arc::clone(provider), Arc::clone(&ticketer)).map(Arc::new))
            .collect::<Result<_, _>>()
            .map_err(|error| failure(&error))?;
        Ok(Self { settings, variants, ticketer })
    }

    /// Takes new ticket keys.
    pub fn update_keys(&self, keys: Arc<KeySet>) {
        self.ticketer.update(keys);
    }

    /// Whether this name gets no handshake at all, but the alert `unrecognized_name` (RFC 6066 §3).
    pub fn refuses(&self, hello: &ClientHello) -> bool {
        self.settings.resolver.refuses(hello.server_name.as_deref())
    }

    /// Why no handshake can come of this hello.
    pub fn objection(&self, hello: &ClientHello) -> Option<Objection> {
        self.settings.policy.objection(hello)
    }

    /// Begins a session with the client that sent `hello`, whose bytes are to be given to [`Session::receive`] next.
    ///
    /// **Errors**: rustls refusing its own configuration, which would be a fault of ours.
    pub fn accept(&self, hello: &ClientHello) -> Result<ServerSession, Failure> {
        let offer = Offer {
            tls13: hello.versions.contains(&0x0304),
            suites: &hello.cipher_suites,
            groups: &hello.groups,
            shares: &hello.key_shares,
        };
        let variant = self.settings.policy.variant_for(&offer).min(self.variants.len() - 1);
        let connection = UnbufferedServerConnection::new(Arc::clone(&self.variants[variant]))
            .map_err(|error| failure(&error))?;
        Ok(ServerSession {
            connection,
            expected_name: hello.server_name.as_deref().map(Box::from),
            recheck: self.settings.client_certificates.clone(),
            signature: None,
            kept: Vec::new(),
            established: false,
            failed: false,
        })
    }

    /// What will be signed with for this client, for explanations.
    pub fn selection(&self, hello: &ClientHello) -> Selection<'_> {
        let schemes: Vec<_> = hello.signature_schemes.iter().map(|scheme| (*scheme).into()).collect();
        let name = hello.server_name.as_deref();
        self.settings.resolver.store().select(name, &schemes, UnknownName::First)
    }
}

fn configure(
    settings: &ServerSettings,
    provider: Arc<rustls::crypto::CryptoProvider>,
    ticketer: Arc<Ticketer>,
) -> Result<ServerConfig, rustls::Error> {
    let builder =
        ServerConfig::builder_with_provider(provider).with_protocol_versions(settings.policy.versions())?;
    let builder = match &settings.client_certificates {
        Some(rule) => builder.with_client_cert_verifier(Arc::clone(rule.verifier())),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::clone(&settings.resolver) as _);
    config.alpn_protocols = settings.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    // Stateless tickets only: the cache that is the default is one map behind one lock.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if settings.tickets_per_handshake > 0 {
        config.ticketer = ticketer;
    }
    config.send_tls13_tickets = settings.tickets_per_handshake.into();
    config.max_tls13_tickets = settings.tickets_per_handshake.into();
    // The suites are in our order already; the variants look after clients without AES instructions.
    config.ignore_client_order = true;
    Ok(config)
}

/// A session with one client.
pub struct ServerSession {
    connection: UnbufferedServerConnection,
    /// What our own reading of the hello found; rustls's must be the same.
    expected_name: Option<Box<str>>,
    /// The rule that a resumed session's client certificate is held against again.
    recheck: Option<ClientCertificates>,
    signature: Option<&'static str>,
    /// Received and not consumed. rustls remembers places in it, so it is given back with every call.
    kept: Vec<u8>,
    established: bool,
    failed: bool,
}

impl fmt::Debug for ServerSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSession").field("established", &self.established).finish_non_exhaustive()
    }
}

/// What one look at the connection's state asked for.
enum Turn {
    /// Look again.
    More,
    /// Everything that is there has been dealt with.
    Done,
    /// The same, and the peer has said close_notify.
    Closed,
}

impl Session for ServerSession {
    fn receive(&mut self, incoming: &mut [u8], plaintext: &mut Buffer, outgoing: &mut Buffer) -> Received {
        let mut received = Received { closed: false, failure: None };
        if self.failed {
            return received;
        }
        let mut consumed = 0;
        loop {
            // What the resolver notes is of this thread, not of this session: nothing of another one may be left in it,
            // and what this turn leaves is taken, whatever else came of it.
            drop(last_selection());
            let status = self.connection.process_tls_records(&mut incoming[consumed..]);
            let (discard, turn) = take_turn(status, plaintext, outgoing);
            let selected = last_selection();
            consumed += discard;
            let outcome = turn.map_err(|error| failure(&error)).and_then(|turn| {
                if !self.established {
                    self.watch_handshake(selected)?;
                }
                Ok(turn)
            });
            match outcome {
                Ok(Turn::More) => {}
                Ok(Turn::Done) => break,
                Ok(Turn::Closed) => received.closed = true,
                Err(failure) => {
                    self.failed = true;
                    self.collect_alert(outgoing);
                    received.failure = Some(failure);
                    break;
                }
            }
        }
        self.keep(&incoming[consumed.min(incoming.len())..]);
        received
    }

    fn kept(&self) -> &[u8] {
        &self.kept
    }

    fn encrypt(&mut self, plaintext: &[u8], outgoing: &mut Buffer) -> Result<(), Failure> {
        const FRAGMENT: usize = 16_384;
        // Header, nonce, content type and tag: 29 bytes in TLS 1.2, 22 in TLS 1.3.
        const OVERHEAD: usize = 32;
        let mut size = plaintext.len() + (plaintext.len() / FRAGMENT + 1) * OVERHEAD;
        loop {
            let status = self.connection.process_tls_records(&mut self.kept);
            match status.state.map_err(|error| failure(&error))? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    match traffic.encrypt(plaintext, outgoing.room(size)) {
                        Ok(written) => {
                            outgoing.wrote(written);
                            return Ok(());
                        }
                        Err(EncryptError::InsufficientSize(needed)) => size = needed.required_size,
                        Err(error) => {
                            return Err(Failure::new(FailureKind::Ourselves, format!("encrypt: {error}")));
                        }
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, outgoing)?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => {}
                _ => return Err(Failure::new(FailureKind::Ourselves, "encrypt: the session is not open")),
            }
        }
    }

    fn close(&mut self, outgoing: &mut Buffer) {
        // Bounded: a session that is not open for writing within a few states will not be.
        for _ in 0..16 {
            match self.connection.process_tls_records(&mut self.kept).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    if let Ok(written) = traffic.queue_close_notify(outgoing.room(1024)) {
                        outgoing.wrote(written);
                    }
                    return;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(&mut data, outgoing).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => {}
                _ => return,
            }
        }
    }

    fn is_established(&self) -> bool {
        self.established
    }

    fn agreed(&self) -> Agreed {
        let connection = &self.connection;
        let kind = connection.handshake_kind();
        let resumed = kind.map(|kind| kind == HandshakeKind::Resumed);
        Agreed {
            version: connection.protocol_version().and_then(|version| registry::version_name(version.into())),
            suite: connection
                .negotiated_cipher_suite()
                .and_then(|suite| registry::cipher_suite_name(suite.suite().into())),
            group: connection
                .negotiated_key_exchange_group()
                .and_then(|group| registry::group_name(group.name().into())),
            signature: if resumed == Some(true) { None } else { self.signature },
            resumed,
            hello_retry: kind == Some(HandshakeKind::FullWithHelloRetryRequest),
            alpn: connection.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into()),
            client_subject: connection
                .peer_certificates()
                .and_then(|chain| chain.first())
                .and_then(|leaf| subject_of(leaf)),
        }
    }
}

impl ServerSession {
    /// What must hold of a handshake beside what rustls checks, looked at after every step of it.
    fn watch_handshake(&mut self, selected: Option<Selected>) -> Result<(), Failure> {
        if let Some(selected) = selected {
            if selected.server_name != self.expected_name {
                return Err(Failure::new(
                    FailureKind::Ourselves,
                    "hello: two readings of the server name differ, so the policy for it is in doubt",
                ));
            }
            self.signature = Some(selected.kind);
        }
        if self.connection.is_handshaking() {
            return Ok(());
        }
        self.established = true;
        // Not needed again: an idle session keeps no copy of names and rules.
        self.expected_name = None;
        let (Some(rule), Some(chain)) = (self.recheck.take(), self.connection.peer_certificates()) else {
            return Ok(());
        };
        if self.connection.handshake_kind() == Some(HandshakeKind::Resumed) {
            // The ticket vouches for a check in the past; certificates expire.
            rule.check_again(chain, SystemTime::now()).map_err(|error| failure(&error))?;
        }
        Ok(())
    }

    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() || self.failed {
            self.kept = Vec::new();
        } else {
            self.kept.clear();
            self.kept.extend_from_slice(rest);
        }
    }

    /// After an error rustls has the alert for the peer ready. It is asked for nothing else: looking for further
    /// messages, it would find its notes of a buffer that is gone.
    fn collect_alert(&mut self, outgoing: &mut Buffer) {
        while self.connection.wants_write() {
            match self.connection.process_tls_records(&mut []).state {
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(&mut data, outgoing).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                _ => return,
            }
        }
    }
}

/// Does what the state asks for; the bytes of `incoming` that are done with, and whether to look again.
fn take_turn(
    status: UnbufferedStatus<'_, '_, ServerConnectionData>,
    plaintext: &mut Buffer,
    outgoing: &mut Buffer,
) -> (usize, Result<Turn, rustls::Error>) {
    let mut discard = status.discard;
    let turn = match status.state {
        Ok(ConnectionState::ReadTraffic(mut traffic)) => {
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        plaintext.extend(record.payload);
                        discard += record.discard;
                    }
                    Err(error) => return (discard, Err(error)),
                }
            }
            Ok(Turn::More)
        }
        Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outgoing)
            .map(|()| Turn::More)
            .map_err(|failure| rustls::Error::General(failure.to_string())),
        // It is as good as sent: the caller owns the bytes now.
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Turn::More)
        }
        Ok(ConnectionState::PeerClosed) => Ok(Turn::Closed),
        Ok(
            ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) | ConnectionState::Closed,
        ) => Ok(Turn::Done),
        // Early data is never offered: replayable bytes are not for a proxy to pass on unasked.
        Ok(_) => Err(rustls::Error::General("a state of the session that was not asked for".into())),
        Err(error) => Err(error),
    };
    (discard, turn)
}

fn encode(
    data: &mut rustls::unbuffered::EncodeTlsData<'_, ServerConnectionData>,
    outgoing: &mut Buffer,
) -> Result<(), Failure> {
    let mut size = 4096;
    loop {
        match data.encode(outgoing.room(size)) {
            Ok(written) => {
                outgoing.wrote(written);
                return Ok(());
            }
            Err(EncodeError::InsufficientSize(needed)) => size = needed.required_size,
            Err(error) => return Err(Failure::new(FailureKind::Ourselves, format!("encode: {error}"))),
        }
    }
}

/// The subject of a certificate that was verified, as text; `None` when it cannot be read.
fn subject_of(certificate: &[u8]) -> Option<Box<str>> {
    let (_, certificate) = x509_parser::parse_x509_certificate(certificate).ok()?;
    Some(certificate.subject().to_string().into())
}

#[cfg(test)]
mod tests;
