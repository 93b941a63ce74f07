//! The server's side of TLS, by rustls; `client.rs` is the other one, and `unbuffered.rs` what they share.
//!
//! In: a policy, certificates, a rule about client certificates, ticket keys; then one ClientHello after the other.
//! Out: sessions.
//!
//! rustls's unbuffered interface is used: it decrypts in the caller's memory and keeps no buffer between calls, so an
//! idle session costs its keys and little else.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_wire::ClientHello;
use rustls::compress::CompressionCache;
use rustls::server::{NoServerSessionStorage, ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::UnbufferedStatus;
use rustls::{CommonState, HandshakeKind, ServerConfig};
use rustls_pki_types::CertificateDer;

use crate::buffer::Buffer;
use crate::client_certificates::ClientCertificates;
use crate::client_certificates::resumed::Checked;
use crate::error_words::failure;
use crate::policy::{self, Objection, Offer, Policy};
use crate::prepared::PREPARED;
use crate::session::{Agreed, Failure, FailureKind, Received, Session, Verdict};
use crate::side_channels;
use crate::store::{CertificateStore, Resolver, Selection, UnknownName};
use crate::ticket::{KeySet, Ticketer};
use crate::unbuffered::{Connection, Core, Watch};
use handfast_pki::ShownCertificate;
use handfast_pki::certificate::Certificate;
use handfast_pki::names::Names;
use handfast_pki::presented::Peer;
use opening::{Opening, Plan};

mod opening;

/// Bytes of a record's header, which rustls counts into its limit.
const RECORD_HEADER: usize = 5;
/// The extension ticket_request (RFC 9149 §4).
const TICKET_REQUEST: u16 = 58;

/// TLS settings for the clients of one service, or of certain names of it.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Versions, suites and groups.
    pub policy: Policy,
    /// Certificates, and what is done for unknown names.
    pub resolver: Arc<Resolver>,
    /// The rule about client certificates; `None`: none is requested.
    pub client_certificates: Option<ClientCertificates>,
    /// Application protocols, best first; empty: ALPN is not answered.
    pub alpn: Vec<String>,
    /// Tickets after a full TLS 1.3 handshake; one after a resumption, because the client has used one. A client that
    /// sends ticket_request (RFC 9149) receives the number that it requests there, this one at most. 0: no resumption
    /// in either version.
    pub tickets_per_handshake: u8,
    /// Lifetime of a ticket.
    pub ticket_lifetime: Duration,
    /// Distinguishes services and names: tickets of one are not accepted by another.
    pub scope: String,
}

impl ServerSettings {
    /// One certificate for every client, by the default policy, with one application protocol and no tickets.
    ///
    /// `None`: the default policy cannot be had, which would be a fault of ours.
    pub fn serving_one(certificate: Arc<Certificate>, protocol: &str) -> Option<Self> {
        let (store, _) = CertificateStore::new(vec![certificate], 0);
        Some(Self {
            policy: policy::resolve(policy::DEFAULT, None, None, None).ok()?,
            resolver: Arc::new(Resolver::new(Arc::new(store), UnknownName::First)),
            client_certificates: None,
            alpn: vec![protocol.to_owned()],
            tickets_per_handshake: 0,
            ticket_lifetime: Duration::ZERO,
            scope: protocol.to_owned(),
        })
    }

    /// Everything that decides which clients may connect, and how: a ticket is good only where this is the same.
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
            .map_err(|error| failure(Peer::Client, &error))?;
        Ok(Self { settings, variants, ticketer })
    }

    /// Takes new ticket keys.
    pub fn update_keys(&self, keys: Arc<KeySet>) {
        self.ticketer.update(keys);
    }

    /// Returns true if this name receives the alert `unrecognized_name` (RFC 6066 §3) instead of a handshake.
    pub fn refuses(&self, hello: &ClientHello) -> bool {
        self.settings.resolver.refuses(hello.server_name.as_deref())
    }

    /// Returns true if the certificate for this name is not there yet, so that the client receives the alert
    /// `unrecognized_name` instead of a handshake.
    pub fn is_certificate_pending(&self, hello: &ClientHello) -> bool {
        self.settings.resolver.is_certificate_pending(hello.server_name.as_deref())
    }

    /// Returns the reason why no handshake is possible with this hello.
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
        let config = with_records(&self.variants[variant], hello.record_limit);
        let connection =
            UnbufferedServerConnection::new(config).map_err(|error| failure(Peer::Client, &error))?;
        let watch = Handshake {
            expected_name: hello.server_name.as_deref().map(Box::from),
            recheck: self.settings.client_certificates.clone().map(Box::new),
            signature: None,
            served_names: None,
            client_certificate: None,
            verdict: None,
            was_checked: false,
            requests_tickets: hello.extensions.contains(&TICKET_REQUEST),
            is_resumed: false,
        };
        let plan = Plan {
            length: hello.length_on_wire,
            withhold_tickets: hello.has_pre_shared_key && self.settings.policy.retries(&offer),
            early_data: hello.has_early_data,
        };
        let unusual = plan.withhold_tickets || plan.early_data;
        let opening = unusual.then(|| Box::new(Opening::Hello(plan)));
        Ok(ServerSession { core: Core::new(connection), watch, opening })
    }

    /// Returns true if the answer to this client needs a signature that delays other connections noticeably. A resumption needs no
    /// signature, unless its ticket is no longer valid.
    pub fn needs_expensive_signature(&self, hello: &ClientHello) -> bool {
        !hello.offers_resumption()
            && matches!(self.selection(hello), Selection::Chosen(certificate) if certificate.key_kind().is_dear())
    }

    /// Returns the certificate that will sign for this client; used for explanations.
    pub fn selection(&self, hello: &ClientHello) -> Selection<'_> {
        let schemes: Vec<_> = hello.signature_schemes.iter().map(|scheme| (*scheme).into()).collect();
        let name = hello.server_name.as_deref();
        self.settings.resolver.store().select(name, &schemes, UnknownName::First)
    }
}

/// The same for a client that accepts at most `record_limit` bytes in a record: one with small buffers. The extension is not confirmed,
/// which would allow the client to send more than its buffers hold: mbedTLS 3.6 fails in TLS 1.3 where it is.
fn with_records(config: &Arc<ServerConfig>, record_limit: Option<u16>) -> Arc<ServerConfig> {
    let Some(limit) = record_limit else { return Arc::clone(config) };
    let mut config = ServerConfig::clone(config);
    config.max_fragment_size = Some(usize::from(limit) + RECORD_HEADER);
    Arc::new(config)
}

fn configure(
    settings: &ServerSettings,
    provider: Arc<rustls::crypto::CryptoProvider>,
    ticketer: Arc<Ticketer>,
) -> Result<ServerConfig, rustls::Error> {
    let builder =
        ServerConfig::builder_with_provider(provider).with_protocol_versions(settings.policy.versions())?;
    let builder = match &settings.client_certificates {
        Some(rule) => builder.with_client_cert_verifier(rule.verifier()),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::clone(&settings.resolver) as _);
    config.alpn_protocols = settings.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    // Stateless tickets only: the cache that is the default is one map behind one lock.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if settings.tickets_per_handshake > 0 {
        // Those that may fail are judged when the handshake is done.
        let strict = settings.client_certificates.clone().filter(|rule| !rule.tolerates());
        config.ticketer = match strict {
            Some(rule) => Arc::new(Checked { tickets: ticketer, rule }),
            None => ticketer,
        };
    }
    config.send_tls13_tickets = settings.tickets_per_handshake.into();
    config.max_tls13_tickets = settings.tickets_per_handshake.into();
    // Compressed messages were compressed when the certificate was loaded; a cache would only lock.
    config.cert_compressors = PREPARED.iter().map(|prepared| prepared as _).collect();
    config.cert_compression_cache = Arc::new(CompressionCache::Disabled);
    // The suites are in our order already; the variants look after clients without AES instructions.
    config.ignore_client_order = true;
    Ok(config)
}

/// A session with one client.
pub struct ServerSession {
    core: Core<UnbufferedServerConnection>,
    watch: Handshake,
    /// State for the part of the client's first flight that rustls does not handle; `None` for most clients, and for
    /// all once it is over.
    opening: Option<Box<Opening>>,
}

/// Handshake state for the checks that rustls does not make.
struct Handshake {
    /// Server name from our parse of the hello; rustls's must be the same.
    expected_name: Option<Box<str>>,
    /// The rule that a resumed session's client certificate is checked against again. Boxed: few services have one, and
    /// every idle connection would keep its room.
    recheck: Option<Box<ClientCertificates>>,
    signature: Option<&'static str>,
    /// Not the certificate: an open connection would keep the key of one that was replaced.
    served_names: Option<Arc<Names>>,
    client_certificate: Option<Box<ShownCertificate>>,
    verdict: Option<Box<Verdict>>,
    /// True if the client that resumes was checked when its ticket was opened.
    was_checked: bool,
    /// True if the client requests a number of tickets.
    requests_tickets: bool,
    /// True if the session is resumed, as far as is known yet.
    is_resumed: bool,
}

impl fmt::Debug for ServerSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSession")
            .field("established", &self.core.is_established())
            .finish_non_exhaustive()
    }
}

impl Session for ServerSession {
    fn receive(&mut self, incoming: &mut [u8], plaintext: &mut Buffer, outgoing: &mut Buffer) -> Received {
        let before = outgoing.len();
        let received = match self.opening.take() {
            None => self.take(incoming, plaintext, outgoing),
            Some(opening) => self.open(*opening, incoming, plaintext, outgoing),
        };
        if let Some(failure) = &received.failure {
            rewrite_alert_for_tls12(&mut outgoing.filled_mut()[before..]);
            if let Some(fault) = failure.certificate {
                self.watch.verdict = Some(Box::new(Verdict::Failed { fault, words: failure.detail.clone() }));
                self.watch.client_certificate = side_channels::take_refused_certificate();
            }
        }
        received
    }

    fn kept(&self) -> &[u8] {
        self.core.kept()
    }

    fn encrypt(&mut self, plaintext: &[u8], outgoing: &mut Buffer) -> Result<(), Failure> {
        self.core.encrypt(plaintext, outgoing)
    }

    fn close(&mut self, outgoing: &mut Buffer) {
        self.core.close(outgoing);
    }

    fn is_established(&self) -> bool {
        self.core.is_established()
    }

    fn agreed(&self) -> Agreed {
        Agreed {
            client_certificate: self.watch.client_certificate.clone(),
            verdict: self.watch.verdict.clone(),
            ..self.core.agreed(self.watch.signature)
        }
    }

    fn peer_certificates(&self) -> &[CertificateDer<'static>] {
        self.core.connection.peer_certificates().unwrap_or_default()
    }

    fn served_names(&self) -> Option<&Arc<Names>> {
        self.watch.served_names.as_ref()
    }
}

impl Connection for UnbufferedServerConnection {
    type Data = ServerConnectionData;
    const PEER: Peer = Peer::Client;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

impl Watch<UnbufferedServerConnection> for Handshake {
    fn before(&mut self) {
        side_channels::begin_step();
        // rustls has one number for both kinds of handshake, and leaves out a ticket that is not encrypted. Two
        // configurations would not do: only rustls finds out whether it accepts the client's ticket.
        if self.is_resumed && !self.requests_tickets {
            side_channels::limit_tickets(Some(1));
        }
    }

    fn after(&mut self, connection: &UnbufferedServerConnection, _: &[u8]) -> Result<(), Failure> {
        self.was_checked |= side_channels::are_tickets_good();
        self.is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        if let Some(selected) = side_channels::last_selection() {
            if selected.server_name != self.expected_name {
                return Err(Failure::new(
                    FailureKind::Ourselves,
                    "hello: two readings of the server name differ, so the policy for it is in doubt",
                ));
            }
            self.signature = Some(selected.kind);
            self.served_names = Some(selected.names);
        }
        // Read once: it is needed after each piece of a flight. A certificate that may have failed is not trusted yet.
        let tolerates = self.recheck.as_deref().is_some_and(ClientCertificates::tolerates);
        if self.client_certificate.is_none() && !tolerates {
            let client = connection.peer_certificates().and_then(|chain| chain.first());
            self.client_certificate = client.map(|own| Box::new(ShownCertificate::of(own)));
        }
        if connection.is_handshaking() {
            return Ok(());
        }
        // Not needed again: an idle session keeps no copy of names and rules.
        self.expected_name = None;
        let Some(rule) = self.recheck.take() else { return Ok(()) };
        self.judge(&rule, connection)
    }
}

impl Handshake {
    /// Records the verdict on the client once it has proved that it owns the key.
    fn judge(
        &mut self,
        rule: &ClientCertificates,
        connection: &UnbufferedServerConnection,
    ) -> Result<(), Failure> {
        let chain = connection.peer_certificates().unwrap_or_default();
        let own = chain.first();
        if rule.tolerates() {
            self.verdict = rule.verdict(chain, SystemTime::now()).map(Box::new);
            if !matches!(self.verdict.as_deref(), Some(Verdict::Failed { .. })) {
                self.client_certificate = own.map(|own| Box::new(ShownCertificate::of(own)));
            }
            return Ok(());
        }
        if self.is_resumed && !self.was_checked {
            // Never, as long as every ticket is looked at when it is opened: it vouches for a check in the past, and
            // certificates expire and are revoked.
            rule.check_again(chain, SystemTime::now()).map_err(|error| failure(Peer::Client, &error))?;
        }
        self.verdict = own.and_then(|own| rule.accepted(own)).map(Box::new);
        Ok(())
    }
}

/// TLS 1.2 has no `certificate_required`: its alert for a client without a certificate is `handshake_failure`
/// (RFC 5246 §7.4.6). rustls 0.23 sends the newer one in both; in TLS 1.2 the record is not encrypted yet.
fn rewrite_alert_for_tls12(records: &mut [u8]) {
    const CERTIFICATE_REQUIRED: u8 = 116;
    const HANDSHAKE_FAILURE: u8 = 40;
    if let Some([21, 3, 3, 0, 2, 2, description @ CERTIFICATE_REQUIRED]) = records.last_chunk_mut::<7>() {
        *description = HANDSHAKE_FAILURE;
    }
}

#[cfg(test)]
pub(crate) mod tests;
