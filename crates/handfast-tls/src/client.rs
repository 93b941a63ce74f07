//! The client's side of TLS, by rustls; `server.rs` is the other one, and `unbuffered.rs` what they share.
//!
//! In: what is offered to servers, and how they are verified. Out: sessions, full or resumed as asked, and a pool of
//! the tickets that servers gave.

use std::fmt;
use std::sync::Arc;

use handfast_wire::{Peek, peek, registry};
use rustls::client::{ClientConnectionData, Resumption, UnbufferedClientConnection};
use rustls::sign::SingleCertAndKey;
use rustls::unbuffered::{ConnectionState, UnbufferedStatus};
use rustls::{ClientConfig, CommonState};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use crate::buffer::Buffer;
use crate::error_words::failure;
use crate::policy::{self, Policy, PolicyProblem};
use crate::session::{Agreed, Failure, Received, Session};
use crate::side_channels;
use crate::unbuffered::{Connection, Core, Watch, encode, encrypted_size};
use handfast_pki::certificate::Certificate;
use handfast_pki::pem;
use handfast_pki::presented::Peer;
pub use key_lines::KeyLines;
use tickets::{Pool, Store};
use trust::wrong;
pub use trust::{LoadedTrust, Revocation, Trust, Verification, load as load_trust, system as system_trust};
use verifier::Verifier;

mod key_lines;
pub mod observed;
mod tickets;
mod trust;
mod verifier;

/// The offer to a server, and the requirements for it. The default offers everything, and verifies.
#[derive(Clone, Default)]
pub struct ClientSettings {
    /// `1.2` and `1.3`; empty: both. Of several, those for which no suite or group is given are not offered.
    pub versions: Vec<String>,
    /// IANA names of suites, best first; empty: all there are.
    pub suites: Vec<String>,
    /// IANA names of groups, best first, in any case; a key share is sent for the first. Empty: all but the rare ones.
    pub groups: Vec<String>,
    /// Versions, suites and groups as an existing policy, instead of the three lists.
    pub policy: Option<Policy>,
    /// The DNS name sent as SNI; `None`: none is sent.
    pub server_name: Option<String>,
    /// Several names instead: [`Client::connect_as`] chooses the name that each session sends, and its certificate must be
    /// for that name if it is verified.
    pub server_names: Vec<String>,
    /// Application protocols, best first; empty: ALPN is not sent.
    pub alpn: Vec<String>,
    /// Chain and key, for servers that ask for a certificate.
    pub identity: Option<Identity>,
    /// Verification of the server's certificate: on or off, and against which CAs.
    pub verification: Verification,
    /// True if early data (0-RTT) is sent with tickets that allow it.
    pub early_data: bool,
    /// True if tickets for thousands of connections at once are kept, as a load test needs, instead of 8 per name.
    pub keeps_many_tickets: bool,
    /// File for the secrets of the sessions, to decrypt captured packets; `None`: they are not written.
    pub key_lines: Option<Arc<KeyLines>>,
}

/// Certificate and key for a server that requests a certificate.
#[derive(Clone)]
pub enum Identity {
    /// Chain and key in PEM.
    Pem(Vec<u8>, Vec<u8>),
    /// A certificate that was loaded with its key; all clients that use it share one.
    Loaded(Arc<Certificate>),
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the key.
        match self {
            Self::Pem(..) => f.write_str("Pem"),
            Self::Loaded(certificate) => f.debug_tuple("Loaded").field(&certificate.subject()).finish(),
        }
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the key.
        f.debug_struct("ClientSettings")
            .field("versions", &self.versions)
            .field("suites", &self.suites)
            .field("groups", &self.groups)
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// Makes sessions with one server. Each thread has a separate one; those that [`Client::for_another_thread`] made share the tickets.
pub struct Client {
    /// Never resumes; its tickets go to the pool.
    full: Arc<ClientConfig>,
    /// Resumes with what is in the pool. It has the same verifier and identity, else rustls would refuse the tickets.
    resuming: Arc<ClientConfig>,
    verifier: Arc<Verifier>,
    pool: Arc<Pool>,
    /// Names that rustls sends in SNI and stores tickets under; never empty.
    server_names: Vec<ServerName<'static>>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.pool.leave();
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server_names", &self.server_names).finish_non_exhaustive()
    }
}

impl Client {
    /// Makes ready to connect to `host`, the DNS name or IP address that the server's certificate must have if it is
    /// verified.
    ///
    /// **Errors**: invalid settings; the sentence names the accepted ones.
    ///
    /// **Cost**: with [`Verification::System`] a hundred files may be read.
    pub fn new(settings: &ClientSettings, host: &str) -> Result<Self, Failure> {
        let policy = policy(settings)?;
        let host = settings.server_names.is_empty().then_some(host);
        let verifier = Arc::new(Verifier::new(&settings.verification, host, policy.plain())?);
        let pool = Arc::new(Pool::new(settings.server_names.len(), settings.keeps_many_tickets, &verifier));
        let mut full = configure(settings, &policy, &verifier)?;
        let mut resuming = full.clone();
        full.resumption = Resumption::store(Arc::new(Store { pool: Arc::clone(&pool), gives: false }));
        resuming.resumption = Resumption::store(Arc::new(Store { pool: Arc::clone(&pool), gives: true }));
        resuming.enable_early_data = settings.early_data;
        let mut server_names =
            settings.server_names.iter().map(|name| sni(name)).collect::<Result<Vec<_>, _>>()?;
        if server_names.is_empty() {
            server_names.push(match &settings.server_name {
                Some(name) => sni(name)?,
                // Used for nothing: SNI is off, and the verifier has its own name.
                None => ServerName::IpAddress(std::net::Ipv4Addr::UNSPECIFIED.into()),
            });
        }
        pool.join();
        Ok(Self { full: Arc::new(full), resuming: Arc::new(resuming), verifier, pool, server_names })
    }

    /// A client for another thread, which resumes sessions of this one, and this one its sessions. It has the same settings: a ticket
    /// never comes to a client with others. Apart from the tickets, each thread has separate state for its handshakes.
    ///
    /// **Cost**: some microseconds.
    pub fn for_another_thread(&self) -> Self {
        self.pool.join();
        Self {
            full: Arc::new((*self.full).clone()),
            resuming: Arc::new((*self.resuming).clone()),
            verifier: Arc::clone(&self.verifier),
            pool: Arc::clone(&self.pool),
            server_names: self.server_names.clone(),
        }
    }

    /// Begins a session: with `resume` by a ticket from the pool, if one is there, else by a full handshake.
    ///
    /// **Errors**: rustls refusing its own configuration, which would be a fault of ours.
    ///
    /// **Cost**: computes the key share.
    pub fn connect(&self, resume: bool) -> Result<ClientSession, Failure> {
        self.connect_as(0, resume)
    }

    /// [`Client::connect`] with the name number `name` of the settings' [`ClientSettings::server_names`]; a number beyond
    /// them is the first one's.
    ///
    /// **Errors**, **cost**: as there.
    pub fn connect_as(&self, name: usize, resume: bool) -> Result<ClientSession, Failure> {
        self.begin(name, resume, None)
    }

    /// [`Client::connect`] that offers one application protocol, whatever the settings say.
    ///
    /// **Errors**, **cost**: as there.
    pub fn connect_with_alpn(&self, protocol: &str, resume: bool) -> Result<ClientSession, Failure> {
        self.begin(0, resume, Some(vec![protocol.as_bytes().to_vec()]))
    }

    fn begin(&self, name: usize, resume: bool, alpn: Option<Vec<Vec<u8>>>) -> Result<ClientSession, Failure> {
        let name = self.server_names.get(name).unwrap_or(&self.server_names[0]).clone();
        let config = Arc::clone(if resume { &self.resuming } else { &self.full });
        side_channels::take_given_version();
        let connection = match alpn {
            None => UnbufferedClientConnection::new(config, name),
            Some(alpn) => UnbufferedClientConnection::new_with_alpn(config, name, alpn),
        };
        let connection = connection.map_err(|error| failure(Peer::Server, &error))?;
        let watch = Handshake { signature: None, tls12_before: 0, tls12_received: 0, early: Early::Closed };
        let ticket = side_channels::take_given_version();
        Ok(ClientSession { core: Core::new(connection), watch, ticket, offered: false, early_sent: false })
    }

    /// Returns the number of sessions that the pool can resume now. Each TLS 1.3 ticket counts once. A TLS 1.2 session may
    /// be resumed any number of times, and counts as 4096, which is also the greatest number of tickets that a load test
    /// keeps. Tickets of more than 16 KiB are not kept.
    pub fn tickets(&self) -> usize {
        self.pool.resumptions()
    }

    /// Returns the lifetime and properties of the newest resumable session. **Cost**: microseconds; not for the path.
    pub fn newest_ticket(&self) -> Option<observed::Ticket> {
        self.pool.newest()
    }

    /// Bytes of the OCSP response that came with the last certificate; 0: none.
    pub fn staple_bytes(&self) -> usize {
        self.verifier.staple()
    }
}

/// Versions, suites and groups. A suite or group is of one version as often as not, so that of several versions those
/// count that are possible together with the other lists.
fn policy(settings: &ClientSettings) -> Result<Policy, Failure> {
    if let Some(policy) = &settings.policy {
        return Ok(policy.clone());
    }
    let some = |list: &[String]| (!list.is_empty()).then(|| list.to_vec());
    let (suites, groups) = (some(&settings.suites), some(&settings.groups));
    let resolve = |versions: Option<&[String]>| {
        policy::resolve(policy::DEFAULT, versions, suites.as_deref(), groups.as_deref())
    };
    let both = ["1.3".to_owned(), "1.2".to_owned()];
    let versions = if settings.versions.is_empty() { &both[..] } else { &settings.versions };
    resolve(Some(versions)).or_else(|problems| {
        let mut alone = versions.iter().map(|version| resolve(Some(std::slice::from_ref(version))));
        alone.find_map(Result::ok).ok_or_else(|| wrong(words(&problems)))
    })
}

fn words(problems: &[PolicyProblem]) -> String {
    let sentence = |problem: &PolicyProblem| match problem.meant {
        Some(meant) => format!("{problem}; hint: write {meant}"),
        None => problem.to_string(),
    };
    problems.iter().map(sentence).collect::<Vec<_>>().join("; ")
}

/// **Source**: RFC 6066 §3: no IP addresses.
fn sni(name: &str) -> Result<ServerName<'static>, Failure> {
    match ServerName::try_from(name.to_owned()) {
        Ok(name @ ServerName::DnsName(_)) => Ok(name),
        Ok(_) => Err(wrong(format!(
            "server name {name:?}: an IP address cannot be sent as SNI, expected a DNS name"
        ))),
        Err(_) => Err(wrong(format!("server name {name:?}: expected a DNS name"))),
    }
}

fn configure(
    settings: &ClientSettings,
    policy: &Policy,
    verifier: &Arc<Verifier>,
) -> Result<ClientConfig, Failure> {
    let builder = ClientConfig::builder_with_provider(Arc::clone(policy.plain()))
        .with_protocol_versions(policy.versions())
        .map_err(|error| failure(Peer::Server, &error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(verifier) as _);
    let mut config = match &settings.identity {
        None => builder.with_no_client_auth(),
        Some(Identity::Pem(chain, key)) => {
            let (chain, key) = identity(chain, key)?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| wrong(format!("client certificate and key: {error}")))?
        }
        Some(Identity::Loaded(certificate)) => {
            let resolver = SingleCertAndKey::from(Arc::clone(certificate.certified()));
            builder.with_client_cert_resolver(Arc::new(resolver))
        }
    };
    config.alpn_protocols = settings.alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    config.enable_sni = settings.server_name.is_some() || !settings.server_names.is_empty();
    if let Some(lines) = &settings.key_lines {
        config.key_log = Arc::clone(lines) as _;
    }
    Ok(config)
}

type ChainAndKey = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn identity(chain: &[u8], key: &[u8]) -> Result<ChainAndKey, Failure> {
    let chain = pem::certificates(chain).map_err(|what| wrong(format!("client certificate: {what}")))?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| wrong(format!("client key: {}, expected PEM", pem::fault(&error))))?;
    Ok((chain, key))
}

/// A session with one server.
pub struct ClientSession {
    core: Core<UnbufferedClientConnection>,
    watch: Handshake,
    /// Version of the session that was taken from the pool for it.
    ticket: Option<u16>,
    /// True if the hello offers that session.
    offered: bool,
    early_sent: bool,
}

/// Details recorded during a handshake.
struct Handshake {
    signature: Option<&'static str>,
    /// TLS 1.2 sessions that this thread had received before this step, from any connection.
    tls12_before: usize,
    tls12_received: usize,
    early: Early,
}

/// State of early data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Early {
    /// None may be sent; none was accepted.
    Closed,
    /// It may be sent, and the hello announces it.
    Open,
    /// The server is to answer whether it takes it.
    Requested,
    /// The server takes it.
    Accepted,
}

impl fmt::Debug for ClientSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession")
            .field("established", &self.core.is_established())
            .finish_non_exhaustive()
    }
}

impl ClientSession {
    /// Writes the ClientHello: to be called first, and once.
    ///
    /// **Errors**: a fault of ours.
    pub fn start(&mut self, outgoing: &mut Buffer) -> Result<(), Failure> {
        let before = outgoing.len();
        loop {
            match self.core.poll().state.map_err(|error| failure(Peer::Server, &error))? {
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, outgoing)?,
                ConnectionState::TransmitTlsData(mut data) => {
                    // This state is the only one that lets early data pass, so it is left for `early_data`; the states
                    // after it need no action.
                    if data.may_encrypt_early_data().is_some() {
                        self.watch.early = Early::Open;
                    } else {
                        data.done();
                    }
                    break;
                }
                _ => break,
            }
        }
        let hello = &outgoing.filled()[before..];
        self.offered = self.ticket.take().is_some_and(|version| offers_ticket(version, hello));
        Ok(())
    }

    /// Returns true if the hello offers a session to resume.
    pub fn offered_ticket(&self) -> bool {
        self.offered
    }

    /// Encrypts the beginning of `bytes` as early data, right after [`ClientSession::start`]; how many were taken, 0
    /// when the settings or the ticket allow none, or no more.
    ///
    /// An observer of the connection can send them to the server again (RFC 9846 §8), and the server may refuse them:
    /// see [`ClientSession::early_data_accepted`].
    pub fn early_data(&mut self, bytes: &[u8], outgoing: &mut Buffer) -> usize {
        if self.watch.early != Early::Open || bytes.is_empty() {
            return 0;
        }
        let Ok(ConnectionState::TransmitTlsData(mut data)) = self.core.poll().state else { return 0 };
        let Some(mut early) = data.may_encrypt_early_data() else { return 0 };
        let room = outgoing.room(encrypted_size(bytes.len()));
        // Even an error uses up the amount that the ticket allows; it means a buffer that is too small, which this is
        // not.
        let Ok(written) = early.encrypt(bytes, room) else { return 0 };
        let taken = plaintext_in(&room[..written]);
        outgoing.wrote(written);
        self.early_sent |= taken > 0;
        taken
    }

    /// Returns true if the server accepted the early data; rejected data must be sent again. `None` if none was sent,
    /// or if the session is not established yet.
    pub fn early_data_accepted(&self) -> Option<bool> {
        (self.early_sent && self.core.is_established()).then_some(self.watch.early == Early::Accepted)
    }

    /// The certificates that the server showed, its own first, in DER; in a resumed session those of the first one.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        let chain = self.core.connection.common().peer_certificates();
        chain.into_iter().flatten().map(|certificate| certificate.as_ref())
    }

    /// Tickets that this session brought, in TLS 1.2 sessions.
    pub fn tickets_received(&self) -> usize {
        self.core.connection.tls13_tickets_received() as usize + self.watch.tls12_received
    }
}

/// Returns true if the hello offers the ticket of this version that was taken for it: rustls drops an expired one.
fn offers_ticket(version: u16, hello: &[u8]) -> bool {
    let Peek::Complete(hello) = peek(hello, hello.len()) else { return false };
    // A TLS 1.2 session may be offered by its number alone.
    hello.offers_resumption() || (version == registry::TLS_1_2 && hello.session_id_length > 0)
}

/// Bytes of plaintext in records of TLS 1.3 without padding: all but headers, content types and tags.
fn plaintext_in(mut records: &[u8]) -> usize {
    // One byte of content type (RFC 9846 §5.2), and the tag, 16 bytes in every suite we have (RFC 9846 §B.4).
    const INSIDE: usize = 1 + 16;
    let mut plaintext = 0;
    while let Some((header, rest)) = records.split_first_chunk::<5>() {
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        plaintext += length.saturating_sub(INSIDE);
        records = rest.get(length..).unwrap_or_default();
    }
    plaintext
}

/// Returns true if this record, sent during a handshake, is EndOfEarlyData, which a client sends if and only if the
/// server accepted its early data (RFC 9846 §4.3.10). rustls's unbuffered connections do not report this. It is the
/// only empty message: four bytes, in a separate record.
fn is_end_of_early_data(record: &[u8]) -> bool {
    const APPLICATION_DATA: u8 = 23;
    record.first() == Some(&APPLICATION_DATA) && record.len() == 5 + 4 + 1 + 16
}

impl Session for ClientSession {
    fn receive(&mut self, incoming: &mut [u8], plaintext: &mut Buffer, outgoing: &mut Buffer) -> Received {
        if self.watch.early == Early::Open {
            self.watch.early = Early::Requested;
        }
        self.core.receive(incoming, plaintext, outgoing, &mut self.watch)
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
        self.core.agreed(self.watch.signature)
    }
}

impl Connection for UnbufferedClientConnection {
    type Data = ClientConnectionData;
    const PEER: Peer = Peer::Server;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }
}

impl Watch<UnbufferedClientConnection> for Handshake {
    fn before(&mut self) {
        // Notes of the verifier and the pool from before are of another session of this thread.
        side_channels::take_server_scheme();
        self.tls12_before = side_channels::tls12_sessions();
    }

    fn after(&mut self, _: &UnbufferedClientConnection, written: &[u8]) -> Result<(), Failure> {
        let scheme = side_channels::take_server_scheme().and_then(registry::signature_scheme_name);
        self.signature = scheme.or(self.signature);
        self.tls12_received += side_channels::tls12_sessions().wrapping_sub(self.tls12_before);
        if self.early == Early::Requested && is_end_of_early_data(written) {
            self.early = Early::Accepted;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
