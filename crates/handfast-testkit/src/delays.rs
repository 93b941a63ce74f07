//! A TLS server that follows a script (wait, reset, end first) and notes what it saw of each. In:
//! [`Manners`]. Out: where it listens, and a [`Seen`] for each connection.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::Acceptor;
use rustls::{HandshakeKind, NamedGroup, ServerConfig, ServerConnection};

use crate::deadline::{DEADLINE, pause, thread, wait_until_seeing};
use crate::ending::{self, SocketEnd};
use crate::secured;
use crate::trust::Version;

/// Action for a request.
#[derive(Clone, Copy, Debug)]
pub enum Action {
    /// It is sent back after this time.
    After(Duration),
    /// The connection is reset.
    Reset,
}

/// Position of a request that needs an answer.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its number over all connections, from 0. The first one is the rehearsal's.
    pub number: usize,
    /// Time at which it was read.
    pub at: Instant,
}

/// Behavior of a server.
pub struct Manners {
    /// Bytes of a request, and of its answer.
    pub size: usize,
    /// Action for each request.
    pub answer: Box<dyn Fn(Request) -> Action + Send + Sync>,
    /// True if the server ends a connection after its first answer.
    pub ends_first: bool,
    /// Groups that it takes part in; empty: all there are.
    pub groups: Vec<NamedGroup>,
    /// True if a client must have a certificate of the tests' authority.
    pub requests_certificate: bool,
    /// First connection from which a client is refused for want of a certificate; the rehearsal's is number 0.
    pub refuses_from: Option<usize>,
    /// First connection from which it closes each one at once.
    pub sheds_from: Option<usize>,
    /// Time before it answers a hello.
    pub handshake_takes: Duration,
    /// True if it gives no tickets.
    pub without_tickets: bool,
    /// Application protocols it speaks.
    pub protocols: Vec<Vec<u8>>,
}

impl Default for Manners {
    fn default() -> Self {
        Self {
            size: 4096,
            answer: Box::new(|_| Action::After(Duration::ZERO)),
            ends_first: false,
            groups: Vec::new(),
            requests_certificate: false,
            refuses_from: None,
            sheds_from: None,
            handshake_takes: Duration::ZERO,
            without_tickets: false,
            protocols: Vec::new(),
        }
    }
}

impl Manners {
    /// An echo, each answer so late.
    pub fn late_by(delay: Duration) -> Self {
        Self { answer: Box::new(move |_| Action::After(delay)), ..Self::default() }
    }
}

/// Facts that a server saw of a connection.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Address of the client.
    pub from: IpAddr,
    /// The name in SNI.
    pub name: Option<String>,
    /// Suites that were offered, by their IANA names, without the marker of renegotiation (RFC 5746).
    pub suites: Vec<String>,
    /// Application protocols that were offered.
    pub protocols: Vec<String>,
    /// Agreed parameters: version, suite, group.
    pub agreed: String,
    /// Kind of the handshake.
    pub kind: Option<HandshakeKind>,
    /// True if the client had a certificate.
    pub certificate: bool,
    /// Each request, from having been read to its answer being ready to be written; but the server's very first, which
    /// was the rehearsal's.
    pub served: Vec<Duration>,
    /// True if the client sent close_notify.
    pub close_notify: bool,
    /// End of its socket.
    pub end: Option<SocketEnd>,
}

struct Shared {
    manners: Manners,
    config: Arc<ServerConfig>,
    refusing: Arc<ServerConfig>,
    connections: AtomicUsize,
    requests: AtomicUsize,
    open: AtomicUsize,
    seen: Mutex<Vec<Seen>>,
    stopped: AtomicBool,
}

/// A listening server; it stops listening when it is dropped.
pub struct TlsServer {
    /// Address that it listens at.
    pub address: std::net::SocketAddr,
    shared: Arc<Shared>,
}

impl TlsServer {
    /// Listens on a port of the kernel's choice.
    pub fn start(manners: Manners) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared {
            config: config(&manners, manners.requests_certificate),
            refusing: config(&manners, true),
            connections: AtomicUsize::new(0),
            manners,
            requests: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            seen: Mutex::default(),
            stopped: AtomicBool::new(false),
        });
        let ours = Arc::clone(&shared);
        thread("TLS server", move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if ours.stopped.load(Ordering::Acquire) {
                    return;
                }
                let shared = Arc::clone(&ours);
                let number = shared.connections.fetch_add(1, Ordering::AcqRel);
                if shared.manners.sheds_from.is_some_and(|first| number >= first) {
                    continue;
                }
                shared.open.fetch_add(1, Ordering::AcqRel);
                thread("TLS connection", move || {
                    // Connections that broke off before the hello are not recorded.
                    if let Ok(seen) = Peer::serve(&shared, stream, number) {
                        shared.seen.lock().expect("no thread panics while holding it").push(seen);
                    }
                    shared.open.fetch_sub(1, Ordering::AcqRel);
                });
            }
        });
        Self { address, shared }
    }

    /// Returns the facts of every connection, when all of them have ended.
    pub fn seen(&self) -> Vec<Seen> {
        let standing = || self.shared.open.load(Ordering::Acquire);
        wait_until_seeing(
            "all connections to end",
            || (standing() == 0).then_some(()),
            || standing().to_string(),
        );
        self.shared.seen.lock().expect("no thread panics while holding it").clone()
    }

    /// Time that each request took here, in rising order; without the rehearsal's.
    pub fn served(&self) -> Vec<Duration> {
        let mut served: Vec<_> = self.seen().into_iter().flat_map(|seen| seen.served).collect();
        served.sort_unstable();
        served
    }

    /// Connections that came so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Requests that were read so far.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(Ordering::Acquire)
    }
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Release);
        // Wakes the accepting thread, which then sees that it should stop.
        let _ = TcpStream::connect_timeout(&self.address, DEADLINE);
    }
}

fn config(manners: &Manners, asks_for_certificate: bool) -> Arc<ServerConfig> {
    let mut provider: CryptoProvider = aws_lc_rs::default_provider();
    if !manners.groups.is_empty() {
        provider.kx_groups.retain(|group| manners.groups.contains(&group.name()));
    }
    let mut config = secured::settings(provider, &Version::BOTH, asks_for_certificate);
    config.alpn_protocols.clone_from(&manners.protocols);
    if manners.without_tickets {
        config.send_tls13_tickets = 0;
    }
    config.ticketer = aws_lc_rs::Ticketer::new().expect("the library makes tickets");
    Arc::new(config)
}

/// One connection, from the server's side.
struct Peer<'a> {
    shared: &'a Shared,
    stream: TcpStream,
    tls: ServerConnection,
    seen: Seen,
}

impl<'a> Peer<'a> {
    fn serve(shared: &'a Shared, mut stream: TcpStream, number: usize) -> io::Result<Seen> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        stream.set_write_timeout(Some(DEADLINE))?;
        let from = stream.peer_addr()?.ip();
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            if acceptor.read_tls(&mut stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, _)) => return Err(io::Error::other(error)),
            }
        };
        let hello = accepted.client_hello();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let suites = hello.cipher_suites().iter().map(|suite| format!("{suite:?}"));
        let seen = Seen {
            from,
            name: hello.server_name().map(str::to_owned),
            suites: suites.filter(|suite| !suite.contains("SCSV")).collect(),
            protocols: hello.alpn().map_or_else(Vec::new, |names| names.map(text).collect()),
            agreed: String::new(),
            kind: None,
            certificate: false,
            served: Vec::new(),
            close_notify: false,
            end: None,
        };
        pause(shared.manners.handshake_takes);
        let refused = shared.manners.refuses_from.is_some_and(|first| number >= first);
        let config = Arc::clone(if refused { &shared.refusing } else { &shared.config });
        let tls = accepted.into_connection(config).map_err(|(error, mut alert)| {
            let _ = alert.write(&mut stream);
            io::Error::other(error)
        })?;
        let mut peer = Self { shared, stream, tls, seen };
        match peer.talk() {
            // A client that is not understood, or refused. What it has sent is read, or closing would reset its connection, and the
            // alert could be lost on its way.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let _ = peer.stream.shutdown(Shutdown::Write);
                let _ = io::copy(&mut peer.stream, &mut io::sink());
            }
            Err(error) => peer.seen.end = peer.seen.end.or_else(|| ending::end_of(&error)),
            Ok(()) => {}
        }
        peer.note_handshake();
        Ok(peer.seen)
    }

    fn note_handshake(&mut self) {
        let tls = &self.tls;
        let version = tls.protocol_version().map(|version| format!("{version:?}")).unwrap_or_default();
        let suite = tls.negotiated_cipher_suite();
        let suite = suite.map(|suite| format!("{:?}", suite.suite())).unwrap_or_default();
        let group = tls.negotiated_key_exchange_group().map(|group| format!("{:?}", group.name()));
        self.seen.agreed = format!("{version} {suite} {}", group.unwrap_or_default());
        self.seen.kind = tls.handshake_kind();
        self.seen.certificate = tls.peer_certificates().is_some();
    }

    /// Request after request, to the end.
    fn talk(&mut self) -> io::Result<()> {
        let mut request = vec![0; self.shared.manners.size];
        while self.read(&mut request)? {
            let at = Instant::now();
            let number = self.shared.requests.fetch_add(1, Ordering::AcqRel);
            match (self.shared.manners.answer)(Request { number, at }) {
                Action::After(delay) => pause(delay),
                Action::Reset => {
                    let reset = rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
                    return Ok(reset?);
                }
            }
            self.tls.writer().write_all(&request)?;
            // Before it is written: the client may have it before this thread runs again.
            let served = at.elapsed();
            self.flush()?;
            if number > 0 {
                self.seen.served.push(served);
            }
            if self.shared.manners.ends_first {
                self.end()?;
                while self.read(&mut request)? {}
                return Ok(());
            }
        }
        self.end()
    }

    /// close_notify and FIN.
    fn end(&mut self) -> io::Result<()> {
        self.tls.send_close_notify();
        let flushed = self.flush();
        ending::fin(&self.stream);
        flushed
    }

    /// Fills `request`; `false` when the client has ended instead.
    fn read(&mut self, request: &mut [u8]) -> io::Result<bool> {
        let mut filled = 0;
        while filled < request.len() {
            match self.tls.reader().read(&mut request[filled..]) {
                Ok(0) => break,
                Ok(count) => {
                    filled += count;
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            self.flush()?;
            if self.receive()? == 0 {
                self.seen.end = Some(SocketEnd::Fin);
                break;
            }
        }
        if filled < request.len() && self.seen.end.is_none() {
            // close_notify has come, after which the library reads no more; a FIN or a reset is still to follow.
            while self.stream.read(request)? > 0 {}
            self.seen.end = Some(SocketEnd::Fin);
        }
        Ok(filled == request.len())
    }

    fn receive(&mut self) -> io::Result<usize> {
        let count = self.tls.read_tls(&mut self.stream)?;
        match self.tls.process_new_packets() {
            Ok(state) => self.seen.close_notify |= state.peer_has_closed(),
            Err(_) => {
                // Our alert is for the client to name.
                let _ = self.flush();
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream)?;
        }
        Ok(())
    }
}
