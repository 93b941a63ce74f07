//! A TLS client with every end under its control: it can send `close_notify` without a FIN, a FIN without `close_notify`, or
//! a reset, and reports which of them it received.
//!
//! Blocking, with a deadline on each socket call. In: an address and a [`Trust`]'s configuration. Out: bytes and an [`Ending`].

use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::{AlertDescription, ClientConfig, ClientConnection};
use rustls_pki_types::ServerName;

use crate::connection::{Cause, Connection, Failed, Received};
use crate::deadline::{DEADLINE, spin_until};
use crate::ending::{self, Ending, SocketEnd};

/// Reasons for which there was no handshake.
#[derive(Debug, PartialEq)]
pub enum Refusal {
    /// The proxy said why.
    Alert(AlertDescription),
    /// The stream ended without a word.
    Ended(SocketEnd),
    /// The client itself was not content: the certificate did not fit, for example.
    Ours(rustls::Error),
}

/// A TCP connection with deadlines.
///
/// It waits in connect(2) itself: `TcpStream::connect_timeout` asks for the socket's error afterwards, and then a proxy that
/// resets a client at once looks like one that does not listen.
pub fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    dialled(None, address)
}

/// The same from one of this machine's addresses.
pub fn dial_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
    dialled(Some(source), address)
}

fn dialled(source: Option<IpAddr>, address: SocketAddr) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    if let Some(source) = source {
        rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    }
    // It bounds connect(2) as well (socket(7)).
    sockopt::set_socket_timeout(&socket, Timeout::Send, Some(DEADLINE))?;
    rustix::net::connect(&socket, &address)?;
    let stream = TcpStream::from(socket);
    with_deadline(&stream)?;
    Ok(stream)
}

/// Bounds each read and each write of a socket, and sends without delay.
pub fn with_deadline(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))
}

/// A client after its handshake: a [`Connection`] whose functions panic where a test would fail.
pub struct Client(Connection);

impl Deref for Client {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Client {
    /// Connects to a service that serves `localhost`, from one of this machine's addresses.
    pub fn try_connect_from(
        source: IpAddr,
        address: SocketAddr,
        config: &Arc<ClientConfig>,
    ) -> Result<Self, Refusal> {
        Self::begin(dial_from(source, address), config, "localhost")
    }

    /// Connects to a service that serves `localhost`.
    ///
    /// # Panics
    /// Panics if there is no handshake.
    pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Self {
        Self::try_connect(address, config, "localhost")
            .unwrap_or_else(|refusal| panic!("handshake: {refusal:?}"))
    }

    /// Connects and asks for a name.
    pub fn try_connect(address: SocketAddr, config: &Arc<ClientConfig>, name: &str) -> Result<Self, Refusal> {
        Self::begin(dial(address), config, name)
    }

    fn begin(stream: io::Result<TcpStream>, config: &Arc<ClientConfig>, name: &str) -> Result<Self, Refusal> {
        let stream = stream.map_err(|error| Refusal::Ended(end_or_panic(&error)))?;
        let tls = ClientConnection::new(Arc::clone(config), server_name(name)).map_err(Refusal::Ours)?;
        Self::handshake(stream, tls)
    }

    /// Brings a handshake to its end over a connected socket.
    pub fn handshake(stream: TcpStream, tls: ClientConnection) -> Result<Self, Refusal> {
        let mut connection = Connection::over("client", stream, tls);
        match connection.handshake() {
            Ok(()) => Ok(Self(connection)),
            Err(Failed { cause: Cause::Tls(rustls::Error::AlertReceived(alert)), .. }) => {
                Err(Refusal::Alert(alert))
            }
            Err(Failed { cause: Cause::Tls(error), .. }) => Err(Refusal::Ours(error)),
            Err(Failed { cause: Cause::Ended(end), .. }) => Err(Refusal::Ended(end)),
            Err(failed) => panic!("{failed}"),
        }
    }

    /// Its session.
    pub fn tls(&self) -> &ClientConnection {
        match self.0.tls() {
            rustls::Connection::Client(tls) => tls,
            rustls::Connection::Server(_) => unreachable!("a client's session"),
        }
    }

    /// Its socket alone.
    pub fn into_stream(self) -> TcpStream {
        self.0.stream
    }

    /// The certificate that was shown; empty when the session was resumed without one.
    pub fn certificate(&self) -> &[u8] {
        self.tls().peer_certificates().and_then(|chain| chain.first()).map_or(&[], |first| first.as_ref())
    }

    /// Sends all of `bytes`.
    pub fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap_or_else(|failed| panic!("{failed}"));
    }

    /// Reads exactly so many bytes.
    pub fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        self.try_read_exactly(count).unwrap_or_else(|failed| panic!("{failed}"))
    }

    /// Sends and reads the same back.
    pub fn echo(&mut self, bytes: &[u8]) {
        self.send(bytes);
        assert_eq!(self.read_exactly(bytes.len()), bytes, "what comes back is what was sent");
    }

    /// Reads to the end, whatever end it is.
    pub fn read_to_end(&mut self) -> Ending {
        let ending = self.ends();
        assert_ne!(
            ending.socket,
            SocketEnd::Open,
            "waited {DEADLINE:?} for the client's stream to end: {ending:?}"
        );
        self.keeps_to_the_protocol();
        ending
    }

    /// Reads to the end while writing without a pause.
    pub fn read_to_end_while_writing(&mut self) -> Ending {
        self.stream.set_nonblocking(true).expect("an open socket takes the option");
        let mut wrote: Option<SocketEnd> = None;
        let end = spin_until("the client's stream to end", || {
            if wrote.is_none() {
                wrote = self.write_some(&[b'w'; 4096]);
            }
            match self.receive() {
                Received::End(SocketEnd::Fin) => Some(wrote.unwrap_or(SocketEnd::Fin)),
                Received::End(end) => Some(end),
                Received::Bytes | Received::Nothing => None,
            }
        });
        self.stream.set_nonblocking(false).expect("an open socket takes the option");
        self.keeps_to_the_protocol();
        self.ending(end)
    }

    fn keeps_to_the_protocol(&self) {
        if let Some(error) = self.own_failure() {
            panic!("the proxy broke the protocol: {error}");
        }
    }

    /// Closes cleanly from this side, and checks that the other side does too.
    pub fn finish(mut self) {
        self.close();
        let ending = self.read_to_end();
        assert!(ending.is_clean(), "{ending:?}");
    }

    /// Closes with a reset.
    pub fn reset(self) {
        self.0.reset();
    }
}

/// A name as TLS wants it.
pub fn server_name(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).expect("tests ask for well-formed names")
}

fn end_or_panic(error: &io::Error) -> SocketEnd {
    ending::end_of(error).unwrap_or_else(|| panic!("waited {DEADLINE:?} for the proxy to say something"))
}
