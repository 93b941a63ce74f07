//! Clients of rustls's that offer what cannot be: tickets of every kind, before a HelloRetryRequest and without one, and
//! early data that was never requested.

use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{
    ClientConfig, ClientConnection, ClientSessionMemoryCache, ClientSessionStore, ResolvesClientCert,
    Resumption, Tls12ClientSessionValue, Tls13ClientSessionValue, WebPkiServerVerifier,
};
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::server::ServerSessionMemoryCache;
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    NamedGroup, RootCertStore, ServerConfig, ServerConnection, SignatureScheme, SupportedCipherSuite,
    SupportedProtocolVersion,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

use super::*;
use crate::policy::{DEFAULT, resolve};
use crate::server::tests::{Pair, Talk, sent};
use crate::server::{Server, ServerSettings};
use crate::session::{Agreed, Failure, Session as _};
use crate::store::{CertificateStore, Resolver, UnknownName};
use crate::ticket::{KeySet, TicketKeys, TicketSettings};
use handfast_pki::throwaway;

/// Forgets which group a server took, so that each connection begins as the first one did.
#[derive(Debug)]
struct Sessions(ClientSessionMemoryCache);

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.0.set_tls12_session(name, value);
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.0.tls12_session(name)
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.0.remove_tls12_session(name);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.insert_tls13_ticket(name, value);
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.take_tls13_ticket(name)
    }
}

/// Servers with the same certificate and ticket keys, and a client's memory of them.
struct World {
    resolver: Arc<Resolver>,
    keys: Arc<KeySet>,
    verifier: Arc<dyn ServerCertVerifier>,
    /// The same one in all configurations of the client, or rustls would not offer one's ticket with another.
    certificate: Arc<NoCertificate>,
    sessions: Arc<Sessions>,
}

#[derive(Debug)]
struct NoCertificate;

impl ResolvesClientCert for NoCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

type Groups<'a> = &'a [&'static dyn SupportedKxGroup];

impl World {
    fn new() -> Self {
        let now = SystemTime::now();
        let made = throwaway::make(None, now).unwrap();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
        let (store, _) = CertificateStore::new(vec![made.certificate], seconds.try_into().unwrap());
        let hour = Duration::from_secs(3600);
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(made.ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        Self {
            resolver: Arc::new(Resolver::new(Arc::new(store), UnknownName::First)),
            keys: TicketKeys::random(now, TicketSettings { rotate: hour, lifetime: hour }).unwrap().keys(),
            verifier: WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap(),
            certificate: Arc::new(NoCertificate),
            sessions: Arc::new(Sessions(ClientSessionMemoryCache::new(32))),
        }
    }

    /// A server of ours with these suites of TLS 1.3, or without TLS 1.3 where there are none, and with these groups.
    fn server(&self, suites: &[&str], groups: &[&str]) -> Server {
        let versions: &[&str] = if suites.is_empty() { &["1.2"] } else { &["1.3", "1.2"] };
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let suites = [&owned(suites)[..], &owned(&["TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"])].concat();
        let settings = ServerSettings {
            policy: resolve(DEFAULT, Some(&owned(versions)), Some(&suites), Some(&owned(groups))).unwrap(),
            resolver: Arc::clone(&self.resolver),
            client_certificates: None,
            alpn: Vec::new(),
            tickets_per_handshake: 1,
            ticket_lifetime: Duration::from_secs(3600),
            scope: "test".into(),
        };
        Server::new(settings, Arc::clone(&self.keys)).unwrap()
    }

    fn client(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        suites: &[SupportedCipherSuite],
        groups: Groups<'_>,
    ) -> Arc<ClientConfig> {
        let cipher_suites = [suites, &[cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]].concat();
        let provider =
            CryptoProvider { cipher_suites, kx_groups: groups.to_vec(), ..aws_lc_rs::default_provider() };
        let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&self.verifier))
            .with_client_cert_resolver(Arc::clone(&self.certificate) as _);
        config.resumption = Resumption::store(Arc::clone(&self.sessions) as _);
        config.enable_early_data = true;
        Arc::new(config)
    }
}

/// A connection of that client with that server, established; what was agreed on, and whether a ticket was offered.
fn connect(server: Server, client: Arc<ClientConfig>) -> (Agreed, bool) {
    let talk = Pair { server, client }.talk("localhost").establish();
    (talk.session.agreed(), talk.offered)
}

const SHA256: &[&str] = &["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"];
const SHA384: &[&str] = &["TLS_AES_256_GCM_SHA384"];
const BOTH: &[&str] = &["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384"];

/// Tickets of each suite, offered with all suites to servers with each of them and in another policy, with and without
/// a HelloRetryRequest: what cannot be resumed becomes a full handshake.
#[test]
fn a_ticket_that_cannot_be_used_becomes_a_full_handshake() {
    let of = [
        cipher_suite::TLS13_AES_128_GCM_SHA256,
        cipher_suite::TLS13_AES_256_GCM_SHA384,
        cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
    ];
    let (mut tried, mut resumed) = (0, 0);
    for issued_with in of {
        for accepted_with in [SHA256, SHA384, BOTH] {
            for (group, retry) in [("X25519", false), ("secp384r1", true)] {
                let world = World::new();
                let groups: Groups<'_> = &[kx_group::X25519, kx_group::SECP384R1];
                let all = [SHA256, SHA384].concat();
                let issuing = world.server(&all, &[group]);
                let (first, offered) = connect(issuing, world.client(&[&TLS13], &[issued_with], groups));
                assert_eq!((first.resumed, first.hello_retry, offered), (Some(false), retry, false));
                let accepting = world.server(accepted_with, &[group]);
                let case = format!("{:?} to {accepted_with:?}, {group}", issued_with.suite());
                let (second, offered) = connect(accepting, world.client(&[&TLS13], &of, groups));
                assert!(offered, "{case}: no ticket was offered, so nothing was tried");
                assert_eq!(second.resumed, Some(false), "{case}: another policy's ticket");
                assert_eq!(second.hello_retry, retry, "{case}");
                // And under one policy, which may resume it or not.
                let again = World { sessions: Arc::clone(&world.sessions), ..world };
                connect(again.server(&all, &[group]), again.client(&[&TLS13], &[issued_with], groups));
                let (third, offered) =
                    connect(again.server(&all, &[group]), again.client(&[&TLS13], &of, groups));
                assert!(offered && third.resumed.is_some(), "{case}");
                (tried, resumed) = (tried + 1, resumed + usize::from(third.resumed == Some(true)));
            }
        }
    }
    assert_eq!(tried, 18);
    assert!(resumed >= 6, "{resumed}: a ticket of the suite that is chosen is good, after a retry too");
}

/// A ticket of one version is nothing to the other one.
#[test]
fn a_ticket_of_another_version_becomes_a_full_handshake() {
    let groups: Groups<'_> = &[kx_group::X25519, kx_group::SECP384R1];
    for (group, retry) in [("X25519", false), ("secp384r1", true)] {
        for (from, to, suites) in [(&TLS12, "TLSv1.3", BOTH), (&TLS13, "TLSv1.2", &[])] {
            let world = World::new();
            let of = [cipher_suite::TLS13_AES_256_GCM_SHA384];
            connect(world.server(BOTH, &[group]), world.client(&[from], &of, groups));
            let both = world.client(&[&TLS13, &TLS12], &of, groups);
            let (agreed, offered) = connect(world.server(suites, &[group]), both);
            assert!(offered, "{to}: no ticket was offered, so nothing was tried");
            assert_eq!((agreed.version, agreed.resumed), (Some(to), Some(false)));
            assert_eq!(agreed.hello_retry, retry && suites == BOTH);
        }
    }
}

/// A ticket of our own with a wrong binder is an attack or damage and no resumption that cannot be: RFC 9846 §4.3.11
/// asks for an end. One that is not ours has a binder that cannot be checked.
#[test]
fn a_wrong_binder_ends_it_for_a_ticket_of_ours_alone() {
    let world = World::new();
    let groups: Groups<'_> = &[kx_group::X25519];
    let client = || world.client(&[&TLS13], &[cipher_suite::TLS13_AES_128_GCM_SHA256], groups);
    for (scope_suites, refused) in [(BOTH, true), (SHA256, false)] {
        connect(world.server(BOTH, &["X25519"]), client());
        let pair = Pair { server: world.server(scope_suites, &["X25519"]), client: client() };
        let (_client, mut hello) = pair.hello("localhost");
        *hello.last_mut().unwrap() ^= 1;
        let mut session = pair.accept(&hello);
        let (mut plaintext, mut outgoing) = (Buffer::default(), Buffer::default());
        let received = session.receive(&mut hello, &mut plaintext, &mut outgoing);
        assert_eq!(received.failure.is_some(), refused);
    }
}

/// A client with a ticket of a server that accepts early data.
fn client_with_early_data(world: &World, groups: Groups<'_>) -> Arc<ClientConfig> {
    let client = world.client(&[&TLS13], &[cipher_suite::TLS13_AES_128_GCM_SHA256], groups);
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::clone(&world.resolver) as _);
    config.max_early_data_size = 1 << 20;
    config.session_storage = ServerSessionMemoryCache::new(8);
    let mut server = ServerConnection::new(Arc::new(config)).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut connection = ClientConnection::new(Arc::clone(&client), name).unwrap();
    for _ in 0..4 {
        let mut bytes = &sent(&mut connection)[..];
        while !bytes.is_empty() {
            server.read_tls(&mut bytes).unwrap();
            server.process_new_packets().unwrap();
        }
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            connection.read_tls(&mut bytes).unwrap();
            connection.process_new_packets().unwrap();
        }
    }
    assert!(!connection.is_handshaking());
    client
}

/// A hello and that much early data behind it, given in pieces; the talk, unless the session failed.
fn with_early_data(group: &str, early: usize, record: usize, piece: usize) -> Result<Talk, Failure> {
    let world = World::new();
    let groups: Groups<'_> = &[kx_group::X25519, kx_group::SECP384R1];
    let client = client_with_early_data(&world, groups);
    let pair = Pair { server: world.server(BOTH, &[group]), client };
    let name = ServerName::try_from("localhost").unwrap();
    let mut client = ClientConnection::new(Arc::clone(&pair.client), name).unwrap();
    let mut bytes = sent(&mut client);
    let hello_length = bytes.len();
    for chunk in vec![7; early].chunks(record) {
        client.early_data().expect("a ticket for it").write_all(chunk).unwrap();
        bytes.extend(sent(&mut client));
    }
    assert!(bytes.len() > hello_length + early, "the early data is on the wire");
    let session = pair.accept(&bytes);
    let mut talk = Talk::new(client, session);
    // The hello is given whole; the proxy reads on until it is.
    let first = hello_length.max(piece);
    talk.give(&bytes[..first.min(bytes.len())])?;
    for piece in bytes[first.min(bytes.len())..].chunks(piece) {
        talk.give(piece)?;
    }
    Ok(talk)
}

#[test]
fn early_data_is_skipped_however_it_comes() {
    for (group, retry) in [("X25519", false), ("secp384r1", true)] {
        for (early, record, piece) in [
            (1, 1, 1 << 20),
            (6_000, 16_384, 1 << 20),
            (16_384, 16_384, 1 << 20),
            (16_384, 16_384, 1_000),
            (16_384, 100, 1_460),
            (60_000, 16_384, 1_460),
            (2_000, 1, 1 << 20),
            (100, 10, 1),
        ] {
            let case = format!("{group}: {early} bytes in records of {record} and pieces of {piece}");
            let talk =
                with_early_data(group, early, record, piece).unwrap_or_else(|why| panic!("{case}: {why}"));
            let talk = talk.establish();
            assert!(talk.plaintext.is_empty(), "{case}: early data was passed on");
            let agreed = talk.session.agreed();
            assert_eq!((agreed.resumed, agreed.hello_retry), (Some(false), retry), "{case}");
            assert!(talk.session.kept().is_empty() && talk.session.opening.is_none(), "{case}: it is over");
        }
    }
}

/// Early data over the limit is left to rustls, which ends it with the alert for a record that does not decrypt.
#[test]
fn early_data_without_end_is_not_skipped() {
    for group in ["X25519", "secp384r1"] {
        let Err(failure) = with_early_data(group, 200_000, 16_384, 1_460) else {
            panic!("{group}: no limit")
        };
        assert_eq!(failure.kind, crate::session::FailureKind::Peer);
        assert_eq!(&*failure.detail, "more than 65536 bytes of early data, which was not asked for");
    }
}
