//! Whole connections in memory: a server's session and a client's, without sockets.
//!
//! In: a kind of key, a group, whether to resume, how many bytes to exchange. Out: connections by the batch; the caller that times
//! them is notified each time one of the two sides has done its part.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use handfast_pki::certificate::Certificate;
use handfast_pki::unix_time::unix_seconds;
use handfast_tls::buffer::Buffer;
use handfast_tls::client::{Client, ClientSession, ClientSettings, Verification};
use handfast_tls::policy::{self, DEFAULT};
use handfast_tls::server::{Server, ServerSession, ServerSettings};
use handfast_tls::session::{Failure, Received, Session};
use handfast_tls::store::{CertificateStore, Resolver, UnknownName};
use handfast_tls::ticket::{TicketKeys, TicketSettings};
use handfast_wire::{ClientHello, Peek, peek};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::{Group, Keys, Signature, broken};

/// Connections in a batch: enough that reading a clock at each change of sides costs nothing.
pub const BATCH: usize = 16;
/// The name that the certificate is for.
const NAME: &str = "localhost";
/// A hello is far shorter.
const HELLO: usize = 1 << 14;
/// Lifetime of tickets.
const HOUR: Duration = Duration::from_secs(3_600);

/// Whose work has just ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The server's: what a proxy does.
    Server,
    /// The client's, with the verification of chain and signature.
    Client,
    /// Neither: bytes are copied from one to the other.
    Neither,
}

/// Kind of connection to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Kind of the server's key.
    pub signature: Signature,
    /// The group; both sides have only this one.
    pub group: Group,
    /// True if sessions are resumed.
    pub resumed: bool,
    /// Bytes that the client sends after the handshake and the server sends back; 0: none, and no close either. With
    /// some, both sides end with close_notify.
    pub exchange: usize,
}

/// A server and a client that know each other: TLS 1.3, AES-128-GCM, a chain of two certificates, two tickets after each
/// handshake.
pub struct Pair {
    server: Server,
    client: Client,
    pub(super) kind: Kind,
    plaintext: Buffer,
    outgoing: Buffer,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Both ends of a connection, and what is on its way between them.
struct Talk {
    client: ClientSession,
    server: Option<ServerSession>,
    hello: Option<ClientHello>,
    /// Bytes that the other side has not taken in yet.
    way: Vec<u8>,
}

impl Pair {
    /// Makes them ready; for resumption the first tickets are fetched.
    ///
    /// **Errors**: a fault of ours or of the library.
    pub fn new(kind: Kind, keys: &Keys, now: SystemTime) -> Result<Self, Failure> {
        let (certificate, ca) = certificate(keys, kind.signature, now)?;
        let groups = [kind.group.iana().to_owned()];
        let versions = ["1.3".to_owned()];
        let policy = policy::resolve(DEFAULT, Some(&versions), None, Some(&groups))
            .map_err(|_| broken(format!("{}: no policy knows it", kind.group.name())))?;
        let (store, _) = CertificateStore::new(vec![Arc::new(certificate)], unix_seconds(now));
        let settings = ServerSettings {
            policy,
            resolver: Arc::new(Resolver::new(Arc::new(store), UnknownName::First)),
            client_certificates: None,
            alpn: Vec::new(),
            tickets_per_handshake: 2,
            ticket_lifetime: HOUR,
            scope: "speed".into(),
        };
        let rotation = TicketSettings { rotate: HOUR, lifetime: HOUR };
        let tickets = TicketKeys::random(now, rotation).map_err(|error| broken(error.to_string()))?;
        let offered = ClientSettings {
            versions: versions.into(),
            groups: groups.into(),
            server_name: Some(NAME.into()),
            verification: Verification::Roots(ca.into_bytes()),
            // Those of a whole batch.
            keeps_many_tickets: true,
            ..ClientSettings::default()
        };
        let mut pair = Self {
            server: Server::new(settings, tickets.keys())?,
            client: Client::new(&offered, NAME)?,
            kind: Kind { resumed: false, ..kind },
            plaintext: Buffer::default(),
            outgoing: Buffer::default(),
        };
        if kind.resumed {
            pair.batch(&mut |_| {})?;
            pair.kind = kind;
        }
        Ok(pair)
    }

    /// Makes [`BATCH`] connections, one step of all of them after the other. `lap` is called when a side has done its part
    /// of a step for all of them, and then belongs everything since the last call to that side.
    ///
    /// **Errors**: a handshake that failed, or was not of the requested kind.
    pub fn batch(&mut self, lap: &mut dyn FnMut(Side)) -> Result<(), Failure> {
        lap(Side::Neither);
        let mut talks = (0..BATCH).map(|_| self.hello()).collect::<Result<Vec<_>, _>>()?;
        lap(Side::Client);
        for talk in &mut talks {
            let Peek::Complete(hello) = peek(&talk.way, HELLO) else {
                return Err(broken("in-memory handshake: the hello is not whole"));
            };
            talk.hello = Some(*hello);
        }
        lap(Side::Neither);
        for talk in &mut talks {
            self.accept(talk)?;
        }
        lap(Side::Server);
        for talk in &mut talks {
            self.client_turn(talk)?;
        }
        lap(Side::Client);
        for talk in &mut talks {
            self.server_turn(talk)?;
        }
        lap(Side::Server);
        for talk in &mut talks {
            self.client_ends(talk)?;
        }
        lap(Side::Client);
        for talk in &mut talks {
            self.server_ends(talk)?;
        }
        lap(Side::Server);
        drop(talks);
        lap(Side::Client);
        Ok(())
    }

    fn hello(&mut self) -> Result<Talk, Failure> {
        let mut client = self.client.connect(self.kind.resumed)?;
        self.outgoing.clear();
        client.start(&mut self.outgoing)?;
        Ok(Talk { client, server: None, hello: None, way: self.outgoing.filled().to_vec() })
    }

    fn accept(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        let hello = talk.hello.take().ok_or_else(|| broken("in-memory handshake: no hello"))?;
        let mut server = self.server.accept(&hello)?;
        self.take_in(&mut server, &mut talk.way)?;
        talk.server = Some(server);
        Ok(())
    }

    /// The server's flight in, the client's Finished and perhaps data out.
    fn client_turn(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        self.take_in(&mut talk.client, &mut talk.way)?;
        if !talk.client.is_established() || talk.client.agreed().resumed != Some(self.kind.resumed) {
            return Err(broken("in-memory handshake: it is not of the kind that was asked for"));
        }
        if self.kind.exchange > 0 {
            self.append_data(&mut talk.client, &mut talk.way)?;
        }
        Ok(())
    }

    /// The client's Finished and data in, tickets and data out.
    fn server_turn(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        let server = talk.server.as_mut().ok_or_else(|| broken("in-memory handshake: no server"))?;
        self.take_in(server, &mut talk.way)?;
        if !server.is_established() || self.plaintext.len() != self.kind.exchange {
            return Err(broken("in-memory handshake: the server did not get what was sent"));
        }
        if self.kind.exchange > 0 {
            self.append_data(server, &mut talk.way)?;
        }
        Ok(())
    }

    /// Tickets and data in, close_notify out.
    fn client_ends(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        self.take_in(&mut talk.client, &mut talk.way)?;
        if self.plaintext.len() != self.kind.exchange {
            return Err(broken("in-memory handshake: the client did not get what was sent"));
        }
        if self.kind.exchange > 0 {
            self.outgoing.clear();
            talk.client.close(&mut self.outgoing);
            talk.way.extend_from_slice(self.outgoing.filled());
        }
        Ok(())
    }

    fn server_ends(&mut self, talk: &mut Talk) -> Result<(), Failure> {
        let Some(mut server) = talk.server.take() else { return Ok(()) };
        if self.kind.exchange > 0 {
            self.take_in(&mut server, &mut talk.way)?;
            self.outgoing.clear();
            server.close(&mut self.outgoing);
        }
        Ok(())
    }

    /// Gives what is on its way to a session, and leaves its answer in its place.
    fn take_in(&mut self, session: &mut impl Session, way: &mut Vec<u8>) -> Result<(), Failure> {
        self.outgoing.clear();
        self.plaintext.clear();
        let Received { failure, .. } = session.receive(way, &mut self.plaintext, &mut self.outgoing);
        way.clear();
        way.extend_from_slice(self.outgoing.filled());
        failure.map_or(Ok(()), Err)
    }

    /// Puts the data to exchange behind what is on its way.
    fn append_data(&mut self, session: &mut impl Session, way: &mut Vec<u8>) -> Result<(), Failure> {
        self.outgoing.clear();
        session.encrypt(&vec![b'x'; self.kind.exchange], &mut self.outgoing)?;
        way.extend_from_slice(self.outgoing.filled());
        Ok(())
    }
}

/// Two sessions that have shaken hands, to carry bytes.
#[derive(Debug)]
pub struct Flow {
    client: ClientSession,
    server: ServerSession,
    data: Vec<u8>,
    way: Vec<u8>,
    buffers: (Buffer, Buffer),
}

impl Flow {
    /// Shakes hands, with AES-128-GCM; `size` bytes will be carried at a time.
    ///
    /// **Errors**: a fault of ours or of the library.
    pub fn new(keys: &Keys, now: SystemTime, size: usize) -> Result<Self, Failure> {
        let (signature, group) = (Signature::EcdsaP256, Group::X25519);
        let mut pair = Pair::new(Kind { signature, group, resumed: false, exchange: 0 }, keys, now)?;
        let mut talk = pair.hello()?;
        let Peek::Complete(hello) = peek(&talk.way, HELLO) else {
            return Err(broken("in-memory handshake: the hello is not whole"));
        };
        talk.hello = Some(*hello);
        pair.accept(&mut talk)?;
        pair.client_turn(&mut talk)?;
        pair.server_turn(&mut talk)?;
        pair.client_ends(&mut talk)?;
        let server = talk.server.ok_or_else(|| broken("in-memory handshake: no server"))?;
        let buffers = (pair.plaintext, pair.outgoing);
        Ok(Self { client: talk.client, server, data: vec![b'x'; size], way: Vec::new(), buffers })
    }

    /// Carries the bytes from the client to the server, and as many back. `lap` as in [`Pair::batch`].
    ///
    /// **Errors**: a fault of ours or of the library.
    pub fn carry(&mut self, lap: &mut dyn FnMut(Side)) -> Result<(), Failure> {
        let (plaintext, outgoing) = &mut self.buffers;
        lap(Side::Neither);
        for from_client in [true, false] {
            outgoing.clear();
            plaintext.clear();
            let (from, to): (&mut dyn Session, &mut dyn Session) = match from_client {
                true => (&mut self.client, &mut self.server),
                false => (&mut self.server, &mut self.client),
            };
            from.encrypt(&self.data, outgoing)?;
            lap(if from_client { Side::Client } else { Side::Server });
            self.way.clear();
            self.way.extend_from_slice(outgoing.filled());
            outgoing.clear();
            lap(Side::Neither);
            let received = to.receive(&mut self.way, plaintext, outgoing);
            lap(if from_client { Side::Server } else { Side::Client });
            received.failure.map_or(Ok(()), Err)?;
            if plaintext.len() != self.data.len() {
                return Err(broken("in-memory bytes: not all of them arrived"));
            }
        }
        Ok(())
    }
}

/// A certificate for [`NAME`] with the key of this kind, and the root that its intermediate was signed by, in PEM.
fn certificate(keys: &Keys, kind: Signature, now: SystemTime) -> Result<(Certificate, String), Failure> {
    let wrong = |what: String| broken(format!("make a certificate {}: {what}", kind.name()));
    let (root, pem) = chain(&keys.of(kind).pair).map_err(|error| wrong(error.to_string()))?;
    let (certificate, findings) =
        Certificate::from_pem(pem.as_bytes(), Path::new("(speed)"), unix_seconds(now));
    let what = || findings.first().map_or_else(String::new, ToString::to_string);
    Ok((certificate.ok_or_else(|| wrong(what()))?, root))
}

/// A root; and a leaf, its intermediate and the leaf's key in one text.
fn chain(key: &KeyPair) -> Result<(String, String), rcgen::Error> {
    let authority = |name: &str| -> Result<CertificateParams, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Ok(params)
    };
    let (root, root_key) = (authority("Handfast speed root")?, KeyPair::generate()?);
    let (between, between_key) = (authority("Handfast speed intermediate")?, KeyPair::generate()?);
    let between_signed = between.signed_by(&between_key, &Issuer::from_params(&root, &root_key))?;
    let leaf = CertificateParams::new(vec![NAME.to_owned()])?
        .signed_by(key, &Issuer::from_params(&between, &between_key))?;
    let pem = leaf.pem() + &between_signed.pem() + &key.serialize_pem();
    Ok((root.self_signed(&root_key)?.pem(), pem))
}
