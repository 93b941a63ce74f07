//! A TLS client with every end under its control: it can send `close_notify` without a FIN, a FIN without `close_notify`, or
//! a reset, and says which of them it got.
//!
//! Blocking, with a deadline on each socket call. In: an address and a [`Trust`]'s configuration. Out: bytes and an [`Ending`].

use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::{AlertDescription, ClientConfig, ClientConnection, HandshakeKind};
use rustls_pki_types::ServerName;

use super::deadline::{DEADLINE, spin_until, wait_until_seeing};
use super::ending::{self, SocketEnd};

/// A client after its handshake.
pub(crate) struct Client {
    tls: ClientConnection,
    /// The socket, for what the functions below do not offer.
    pub(crate) stream: TcpStream,
    /// Whether `close_notify` has come.
    told: bool,
}

/// Why there was no handshake.
#[derive(Debug, PartialEq)]
pub(crate) enum Refusal {
    /// The proxy said why.
    Alert(AlertDescription),
    /// The stream ended without a word.
    Ended(SocketEnd),
    /// The client itself was not content: the certificate did not fit, for example.
    Ours(rustls::Error),
}

/// How a connection ended for the client.
#[derive(PartialEq, Eq)]
pub(crate) struct Ending {
    /// Plaintext that came since the last read.
    pub(crate) bytes: Vec<u8>,
    /// Whether the proxy said that this was all.
    pub(crate) close_notify: bool,
    /// The fatal alert that came instead.
    pub(crate) alert: Option<AlertDescription>,
    /// What the socket said.
    pub(crate) socket: SocketEnd,
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, close_notify, alert, socket } = self;
        write!(f, "{} bytes, close_notify {close_notify}, alert {alert:?}, then {socket:?}", bytes.len())
    }
}

impl Ending {
    /// Everything sent, and closed cleanly.
    pub(crate) fn is_clean(&self) -> bool {
        self.close_notify && self.socket == SocketEnd::Fin && self.alert.is_none()
    }

    /// Cannot be mistaken for a clean end: no `close_notify`, and a reset.
    pub(crate) fn is_abort(&self) -> bool {
        !self.close_notify && self.socket == SocketEnd::Reset
    }
}

/// A TCP connection with deadlines.
///
/// It waits in connect(2) itself: `TcpStream::connect_timeout` asks for the socket's error afterwards, and then a proxy that
/// resets a client at once looks like one that does not listen.
pub(crate) fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    dialled(None, address)
}

/// The same from one of this machine's addresses.
pub(crate) fn dial_from(source: IpAddr, address: SocketAddr) -> io::Result<TcpStream> {
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
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    Ok(stream)
}

impl Client {
    /// Connects to a service that serves `localhost`, from one of this machine's addresses.
    pub(crate) fn try_connect_from(
        source: IpAddr,
        address: SocketAddr,
        config: &Arc<ClientConfig>,
    ) -> Result<Self, Refusal> {
        let stream = dial_from(source, address).map_err(|error| Refusal::Ended(end_or_panic(&error)))?;
        let tls = ClientConnection::new(Arc::clone(config), server_name("localhost"));
        Self::handshake(stream, tls.map_err(Refusal::Ours)?)
    }

    /// Connects to a service that serves `localhost`.
    ///
    /// # Panics
    /// When there is no handshake.
    pub(crate) fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> Self {
        Self::try_connect(address, config, "localhost")
            .unwrap_or_else(|refusal| panic!("handshake: {refusal:?}"))
    }

    /// Connects and asks for a name.
    pub(crate) fn try_connect(
        address: SocketAddr,
        config: &Arc<ClientConfig>,
        name: &str,
    ) -> Result<Self, Refusal> {
        let stream = dial(address).map_err(|error| Refusal::Ended(end_or_panic(&error)))?;
        Self::handshake(
            stream,
            ClientConnection::new(Arc::clone(config), server_name(name)).map_err(Refusal::Ours)?,
        )
    }

    /// Brings a handshake to its end over a connected socket.
    pub(crate) fn handshake(mut stream: TcpStream, mut tls: ClientConnection) -> Result<Self, Refusal> {
        let ended = |error: &io::Error| Refusal::Ended(end_or_panic(error));
        while tls.is_handshaking() {
            while tls.wants_write() {
                // What the proxy said before it closed may still be there to read.
                if tls.write_tls(&mut stream).is_err() {
                    break;
                }
            }
            if tls.is_handshaking() && tls.read_tls(&mut stream).map_err(|error| ended(&error))? == 0 {
                return Err(Refusal::Ended(SocketEnd::Fin));
            }
            if let Err(error) = tls.process_new_packets() {
                let _ = tls.write_tls(&mut stream);
                return Err(match error {
                    rustls::Error::AlertReceived(alert) => Refusal::Alert(alert),
                    other => Refusal::Ours(other),
                });
            }
        }
        let mut client = Self { tls, stream, told: false };
        client.flush().map_err(|error| ended(&error))?;
        Ok(client)
    }

    /// Whether the session was resumed.
    pub(crate) fn resumed(&self) -> bool {
        self.tls.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What was agreed on.
    pub(crate) fn tls(&self) -> &ClientConnection {
        &self.tls
    }

    /// The certificate that was shown; empty when the session was resumed without one.
    pub(crate) fn certificate(&self) -> &[u8] {
        self.tls.peer_certificates().and_then(|chain| chain.first()).map_or(&[], |first| first.as_ref())
    }

    /// Sends all of `bytes`.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.try_send(bytes).unwrap_or_else(|error| panic!("client sends {} bytes: {error}", bytes.len()));
    }

    /// Sends all of `bytes`, unless the stream has ended.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(32_768) {
            self.tls.writer().write_all(chunk)?;
            self.flush()?;
        }
        Ok(())
    }

    /// On a non-blocking socket: takes what fits, possibly nothing, and says how much that was.
    pub(crate) fn try_send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_flush();
        if self.tls.wants_write() {
            return Ok(0);
        }
        let count = self.tls.writer().write(bytes)?;
        self.try_flush();
        Ok(count)
    }

    /// On a non-blocking socket: writes what can be written; an error shows at the next read.
    pub(crate) fn try_flush(&mut self) {
        while self.tls.wants_write() && self.tls.write_tls(&mut self.stream).is_ok() {}
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(&mut self.stream)?;
        }
        Ok(())
    }

    /// Reads into `buffer` what there is, waiting for at least one byte; 0 at the end.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Ok(0) if !buffer.is_empty() => {
                    self.told = true;
                    return Ok(0);
                }
                outcome => return outcome,
            }
            self.tls.read_tls(&mut self.stream)?;
            self.tls.process_new_packets().map_err(io::Error::other)?;
        }
    }

    /// Reads exactly so many bytes.
    pub(crate) fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        let mut read = vec![0; count];
        let mut have = 0;
        while have < count {
            match self.read(&mut read[have..]) {
                Ok(0) => panic!("the stream ended after {have} of {count} bytes"),
                Ok(more) => have += more,
                Err(error) => panic!("client reads, after {have} of {count} bytes: {error}"),
            }
        }
        read
    }

    /// Sends and reads the same back.
    pub(crate) fn echo(&mut self, bytes: &[u8]) {
        self.send(bytes);
        assert_eq!(self.read_exactly(bytes.len()), bytes, "what comes back is what was sent");
    }

    /// Reads to the end, whatever end it is.
    pub(crate) fn read_to_end(&mut self) -> Ending {
        self.end(None)
    }

    /// Reads to the end while writing without a pause.
    pub(crate) fn read_to_end_while_writing(&mut self) -> Ending {
        self.end(Some(&[b'w'; 4096]))
    }

    fn end(&mut self, chunk: Option<&[u8]>) -> Ending {
        let mut start =
            Ending { bytes: Vec::new(), close_notify: self.told, alert: None, socket: SocketEnd::Fin };
        // What came together with the last bytes that were read is here already.
        self.take(&mut start);
        // Shared with the message of a wait that comes to nothing.
        let ending = RefCell::new(start);
        let mut wrote: Option<SocketEnd> = None;
        self.stream.set_nonblocking(true).expect("an open socket takes the option");
        let turn = || {
            if let Some(chunk) = chunk
                && wrote.is_none()
            {
                wrote = self.write_some(chunk);
            }
            let mut ending = ending.borrow_mut();
            let end = self.read_some(&mut ending)?;
            ending.socket = if end == SocketEnd::Fin { wrote.unwrap_or(end) } else { end };
            Some(())
        };
        match chunk {
            None => wait_until_seeing("the client's stream to end", turn, || {
                format!("{:?} (no end yet)", ending.borrow())
            }),
            Some(_) => spin_until("the client's stream to end", turn),
        }
        self.stream.set_nonblocking(false).expect("an open socket takes the option");
        ending.into_inner()
    }

    fn write_some(&mut self, chunk: &[u8]) -> Option<SocketEnd> {
        if !self.tls.wants_write() {
            self.tls.writer().write_all(chunk).expect("the buffer is empty");
        }
        self.tls.write_tls(&mut self.stream).err().and_then(|error| ending::end_of(&error))
    }

    /// One read; the end when it came to that.
    fn read_some(&mut self, ending: &mut Ending) -> Option<SocketEnd> {
        // rustls reads no further after close_notify or an alert; the socket's own end is still to come.
        let outcome = match ending.close_notify || ending.alert.is_some() {
            true => self.stream.read(&mut [0; 4096]),
            false => self.tls.read_tls(&mut self.stream),
        };
        match outcome {
            Ok(0) => return Some(SocketEnd::Fin),
            Ok(_) => {}
            Err(error) => return ending::end_of(&error),
        }
        if ending.close_notify || ending.alert.is_some() {
            return None;
        }
        self.take(ending);
        None
    }

    /// Takes what rustls has decrypted.
    fn take(&mut self, ending: &mut Ending) {
        match self.tls.process_new_packets() {
            Ok(state) => {
                let mut plain = vec![0; state.plaintext_bytes_to_read()];
                self.tls.reader().read_exact(&mut plain).expect("rustls has as much as it says");
                ending.bytes.extend_from_slice(&plain);
                ending.close_notify |= state.peer_has_closed();
            }
            Err(rustls::Error::AlertReceived(alert)) => ending.alert = Some(alert),
            Err(error) => panic!("the proxy broke the protocol: {error}"),
        }
    }

    /// Says that this was all, and leaves the socket open.
    pub(crate) fn close_notify(&mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
    }

    /// Ends the socket's writing side without a word of TLS.
    pub(crate) fn fin(&self) {
        ending::fin(&self.stream);
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        ending::reset(self.stream);
    }

    /// Closes cleanly from this side, and checks that the other side does too.
    pub(crate) fn finish(mut self) {
        self.close_notify();
        self.fin();
        let ending = self.read_to_end();
        assert!(ending.is_clean(), "{ending:?}");
    }
}

/// A name as TLS wants it.
pub(crate) fn server_name(name: &str) -> ServerName<'static> {
    ServerName::try_from(name.to_owned()).expect("tests ask for well-formed names")
}

fn end_or_panic(error: &io::Error) -> SocketEnd {
    ending::end_of(error).unwrap_or_else(|| panic!("waited {DEADLINE:?} for the proxy to say something"))
}
