//! Sessions against rustls's own client, in memory.

use rustls::client::{ClientConfig, ClientConnection, Resumption};
use rustls::crypto::aws_lc_rs;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};

use super::*;
use crate::policy::{DEFAULT, resolve};
use crate::store::CertificateStore;
use crate::ticket::{TicketKeys, TicketSettings};
use handfast_pki::certificate::Certificate;
use handfast_pki::throwaway;
use handfast_wire::{Peek, peek};

mod clients;
mod identity;
mod served_names;
mod tickets;

pub(crate) struct Pair {
    pub(crate) server: Server,
    pub(crate) client: Arc<ClientConfig>,
}

pub(crate) fn pair(version: &'static SupportedProtocolVersion, resumption: bool) -> Pair {
    pair_asking(version, resumption, None)
}

fn pair_asking(
    version: &'static SupportedProtocolVersion,
    resumption: bool,
    client_certificates: Option<ClientCertificates>,
) -> Pair {
    let made = throwaway::make(None, SystemTime::now()).unwrap();
    pair_serving(version, resumption, client_certificates, vec![made.certificate], &made.ca_pem)
}

fn pair_serving(
    version: &'static SupportedProtocolVersion,
    resumption: bool,
    client_certificates: Option<ClientCertificates>,
    certificates: Vec<Arc<Certificate>>,
    ca_pem: &str,
) -> Pair {
    let now = SystemTime::now();
    let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let (store, _) = CertificateStore::new(certificates, seconds.try_into().unwrap());
    let settings = ServerSettings {
        policy: resolve(DEFAULT, None, None, None).unwrap(),
        resolver: Arc::new(Resolver::new(Arc::new(store), UnknownName::First)),
        client_certificates,
        alpn: vec!["h2".into(), "http/1.1".into()],
        tickets_per_handshake: 1,
        ticket_lifetime: Duration::from_secs(3600),
        scope: "test".into(),
    };
    let rotation = TicketSettings { rotate: Duration::from_secs(3600), lifetime: Duration::from_secs(3600) };
    let keys = TicketKeys::random(now, rotation).unwrap().keys();
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
    let mut client = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"http/1.1".to_vec()];
    if !resumption {
        client.resumption = Resumption::disabled();
    }
    Pair { server: Server::new(settings, keys).unwrap(), client: Arc::new(client) }
}

/// A client and the session that its hello began.
pub(crate) struct Talk {
    pub(crate) client: ClientConnection,
    pub(crate) session: ServerSession,
    pub(crate) plaintext: Buffer,
    pub(crate) outgoing: Buffer,
    /// True if the hello offered a ticket.
    pub(crate) offered: bool,
}

pub(crate) fn sent(client: &mut ClientConnection) -> Vec<u8> {
    let mut bytes = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut bytes).unwrap();
    }
    bytes
}

impl Pair {
    pub(crate) fn hello(&self, name: &str) -> (ClientConnection, Vec<u8>) {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        let hello = sent(&mut client);
        (client, hello)
    }

    pub(crate) fn accept(&self, hello: &[u8]) -> ServerSession {
        let Peek::Complete(hello) = peek(hello, 1 << 16) else { panic!("a whole hello") };
        self.server.accept(&hello).unwrap()
    }

    pub(crate) fn talk(&self, name: &str) -> Talk {
        let (client, hello) = self.hello(name);
        let session = self.accept(&hello);
        let mut talk = Talk::new(client, session);
        talk.offered = matches!(peek(&hello, 1 << 16), Peek::Complete(hello) if hello.offers_resumption());
        talk.give(&hello).unwrap();
        talk
    }
}

impl Talk {
    pub(crate) fn new(client: ClientConnection, session: ServerSession) -> Self {
        let (plaintext, outgoing) = Default::default();
        Self { client, session, plaintext, outgoing, offered: false }
    }

    /// Gives the session what the client sent.
    pub(crate) fn give(&mut self, bytes: &[u8]) -> Result<bool, Failure> {
        let mut incoming = [self.session.kept(), bytes].concat();
        let received = self.session.receive(&mut incoming, &mut self.plaintext, &mut self.outgoing);
        received.failure.map_or(Ok(received.closed), Err)
    }

    /// Gives the client what the session sent, and what it answers back.
    pub(crate) fn exchange(&mut self) {
        let mut answer = self.outgoing.filled();
        while !answer.is_empty() {
            self.client.read_tls(&mut answer).unwrap();
            self.client.process_new_packets().unwrap();
        }
        self.outgoing.clear();
        let bytes = sent(&mut self.client);
        self.give(&bytes).unwrap();
    }

    pub(crate) fn establish(mut self) -> Self {
        for _ in 0..4 {
            self.exchange();
        }
        assert!(self.session.is_established() && !self.client.is_handshaking());
        self
    }
}

#[test]
fn bytes_pass_both_ways_in_both_versions_and_any_split() {
    use std::io::{Read as _, Write as _};
    for version in [&TLS12, &TLS13] {
        let pair = pair(version, false);
        let mut talk = pair.talk("localhost").establish();
        let agreed = talk.session.agreed();
        assert_eq!(agreed.alpn.as_deref(), Some("http/1.1"));
        assert_eq!((agreed.signature, agreed.resumed), (Some("ECDSA-P256"), Some(false)));
        let data: Vec<u8> = (0..50_000_u32).map(|number| number as u8).collect();
        talk.client.writer().write_all(&data[..40_000]).unwrap();
        let records = sent(&mut talk.client);
        for piece in records.chunks(7_001) {
            talk.give(piece).unwrap();
        }
        assert_eq!(talk.plaintext.filled(), &data[..40_000]);
        talk.session.encrypt(&data, &mut talk.outgoing).unwrap();
        talk.session.close(&mut talk.outgoing);
        talk.session.close(&mut talk.outgoing);
        let mut answer = talk.outgoing.filled();
        let mut got = Vec::new();
        while !answer.is_empty() {
            talk.client.read_tls(&mut answer).unwrap();
            talk.client.process_new_packets().unwrap();
            let mut some = [0; 20_000];
            while let Ok(count @ 1..) = talk.client.reader().read(&mut some) {
                got.extend_from_slice(&some[..count]);
            }
        }
        assert_eq!(got, data);
        assert_eq!(talk.client.reader().read(&mut [0]).unwrap(), 0, "close_notify has come");
        talk.client.send_close_notify();
        let bytes = sent(&mut talk.client);
        assert_eq!(talk.give(&bytes), Ok(true));
        assert!(talk.session.kept().is_empty());
    }
}

/// The whole records in `bytes`: the longest of their bodies, and how many they are.
fn longest_record(mut bytes: &[u8]) -> (usize, usize) {
    let (mut longest, mut count) = (0, 0);
    while let [_, _, _, high, low, rest @ ..] = bytes {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        (longest, count, bytes) = (longest.max(length), count + 1, &rest[length..]);
    }
    assert!(bytes.is_empty(), "half a header");
    (longest, count)
}

/// The certificate, the tickets, and data: a client with small buffers takes nothing longer.
#[test]
fn no_record_is_longer_than_the_client_accepts() {
    // As much as the client keeps without being read.
    const DATA: usize = 10_000;
    for version in [&TLS12, &TLS13] {
        for limit in [63, 512, 4096] {
            let pair = pair(version, true);
            let (client, hello) = pair.hello("localhost");
            let Peek::Complete(mut read) = peek(&hello, 1 << 16) else { panic!("a whole hello") };
            read.record_limit = Some(limit);
            let mut talk = Talk::new(client, pair.server.accept(&read).unwrap());
            talk.give(&hello).unwrap();
            // Header, nonce, content type and tag are not part of the limit.
            let most = usize::from(limit) + 32;
            for _ in 0..4 {
                let (longest, _) = longest_record(talk.outgoing.filled());
                assert!(longest <= most, "{longest} bytes in the handshake, {version:?}");
                talk.exchange();
            }
            talk.session.encrypt(&[7; DATA], &mut talk.outgoing).unwrap();
            let (longest, count) = longest_record(talk.outgoing.filled());
            assert!(longest <= most, "{longest} bytes of data, {version:?}");
            assert_eq!(count, DATA.div_ceil(limit.into()), "none shorter than it may be, {version:?}");
            talk.exchange();
        }
    }
}

#[test]
fn a_ticket_resumes_once_it_has_been_read() {
    for version in [&TLS12, &TLS13] {
        let pair = pair(version, true);
        let first = pair.talk("localhost").establish();
        assert_eq!(first.session.agreed().resumed, Some(false));
        let second = pair.talk("localhost").establish();
        let agreed = second.session.agreed();
        assert_eq!((agreed.resumed, agreed.signature), (Some(true), None), "{version:?}");
    }
}

/// rustls remembers places in the buffer of the last call; with another one it would panic.
#[test]
fn a_message_in_pieces_may_wait_while_the_other_side_speaks() {
    let pair = pair(&TLS13, false);
    let (client, hello) = pair.hello("localhost");
    let mut session = pair.accept(&hello);
    // The hello's message in two records; the second comes late.
    let (body, cut) = (&hello[5..], 100);
    let record = |part: &[u8]| [&[22, 3, 1], &(part.len() as u16).to_be_bytes()[..], part].concat();
    let (mut plaintext, mut outgoing) = (Buffer::default(), Buffer::default());
    let mut first = record(&body[..cut]);
    assert_eq!(session.receive(&mut first, &mut plaintext, &mut outgoing).failure, None);
    session.close(&mut outgoing);
    assert!(session.encrypt(b"too early", &mut outgoing).is_err());
    let mut rest = [session.kept(), &record(&body[cut..])].concat();
    assert_eq!(session.receive(&mut rest, &mut plaintext, &mut outgoing).failure, None);
    let mut talk = Talk { client, session, plaintext, outgoing, offered: false };
    talk.exchange();
    assert!(talk.session.is_established());
}

/// A client whose handshake fails in the same turn in which its certificate was chosen must leave no trace for the
/// next session of the thread, which would take the other's name for its own.
#[test]
fn a_failed_handshake_does_not_touch_another_one() {
    let pair = pair(&TLS13, false);
    let mut victim = pair.talk("localhost");
    let (_, mut hello) = pair.hello("other.example");
    let groups = [[0, 0x1d, 0, 0x20], [0, 0x17, 0, 0x41]];
    let share = groups.iter().find_map(|group| {
        let at = hello.windows(4).position(|window| window == group)?;
        Some(at + 4..at + 4 + usize::from(group[3]))
    });
    // A share that is no point of its curve.
    hello[share.expect("a classic key share")].fill(0);
    // The hybrid one ends in the same point.
    if let Some(at) = hello.windows(4).position(|window| window == [0x11, 0xec, 0x04, 0xc0]) {
        hello[at + 4..at + 4 + 0x4c0].fill(0);
    }
    let mut session = pair.accept(&hello);
    let (mut plaintext, mut outgoing) = (Buffer::default(), Buffer::default());
    let received = session.receive(&mut hello, &mut plaintext, &mut outgoing);
    assert_eq!(received.failure.expect("no such point").kind, FailureKind::Peer);
    assert!(!outgoing.is_empty(), "an alert reports it");
    victim.exchange();
    assert!(victim.session.is_established());
}

#[test]
fn a_damaged_record_is_answered_by_an_alert_and_nothing_follows() {
    use std::io::Write as _;
    let pair = pair(&TLS13, false);
    let mut talk = pair.talk("localhost").establish();
    talk.client.writer().write_all(b"good").unwrap();
    let good = sent(&mut talk.client);
    talk.client.writer().write_all(b"bad").unwrap();
    let mut bad = sent(&mut talk.client);
    let last = bad.len() - 1;
    bad[last] ^= 1;
    talk.client.writer().write_all(b"after").unwrap();
    let after = sent(&mut talk.client);
    let failure = talk.give(&[good, bad, after].concat()).expect_err("a damaged record");
    assert_eq!(failure.kind, FailureKind::Peer);
    assert_eq!(talk.plaintext.filled(), b"good");
    assert!(!talk.outgoing.is_empty(), "an alert reports it");
    assert_eq!(talk.give(b"whatever"), Ok(false), "nothing more is taken in");
    assert_eq!(talk.plaintext.filled(), b"good");
}

/// rustls's client leaves the dot out, so a letter of another name becomes one.
#[test]
fn a_dot_at_the_end_of_the_name_changes_nothing() {
    let pair = pair(&TLS13, false);
    let (_client, mut hello) = pair.hello("localhostx");
    let at = hello.windows(10).position(|window| window == b"localhostx").unwrap();
    hello[at + 9] = b'.';
    let Peek::Complete(peeked) = peek(&hello, 1 << 16) else { panic!("a whole hello") };
    assert_eq!(peeked.server_name.as_deref(), Some("localhost"));
    let mut session = pair.server.accept(&peeked).unwrap();
    let (mut plaintext, mut outgoing) = (Buffer::default(), Buffer::default());
    let received = session.receive(&mut hello, &mut plaintext, &mut outgoing);
    assert_eq!(received.failure, None);
    assert_eq!(session.agreed().signature, Some("ECDSA-P256"));
}

/// An idle connection keeps its session: our part is counted separately from the library's, and what is rare is boxed.
#[test]
fn a_session_of_ours_adds_little_to_the_librarys() {
    let added = size_of::<ServerSession>() - size_of::<UnbufferedServerConnection>();
    assert!(added <= 120, "{added} bytes");
}

#[test]
fn new_keys_end_old_tickets() {
    let pair = pair(&TLS13, true);
    let mut first = pair.talk("localhost").establish();
    first.exchange();
    let mut again = pair.talk("localhost").establish();
    assert_eq!((again.offered, again.session.agreed().resumed), (true, Some(true)));
    again.exchange();
    let rotation = TicketSettings { rotate: Duration::from_secs(3600), lifetime: Duration::from_secs(3600) };
    pair.server.update_keys(TicketKeys::random(SystemTime::now(), rotation).unwrap().keys());
    let other = pair.talk("localhost").establish();
    assert_eq!((other.offered, other.session.agreed().resumed), (true, Some(false)));
}

#[test]
fn who_gets_no_handshake_is_known_from_the_hello() {
    let mut pair = pair(&TLS12, false);
    let read = |bytes: &[u8]| match peek(bytes, 1 << 16) {
        Peek::Complete(hello) => hello,
        _ => panic!("a whole hello"),
    };
    let [own, other] = ["localhost", "other.example"].map(|name| read(&pair.hello(name).1));
    assert!(!pair.server.refuses(&own) && !pair.server.refuses(&other), "the first serves strangers");
    let store = Arc::clone(pair.server.settings.resolver.store());
    pair.server.settings.resolver = Arc::new(Resolver::new(store, UnknownName::Refuse));
    assert!(!pair.server.refuses(&own) && pair.server.refuses(&other));
    assert!(pair.server.objection(&own).is_none());
    pair.server.settings.policy = resolve("2026-11-modern", None, None, None).unwrap();
    assert!(pair.server.objection(&own).is_some(), "TLS 1.2 is not in it");
}
