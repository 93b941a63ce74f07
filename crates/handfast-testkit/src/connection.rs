//! One end of a connection under a test's control, a client's or a server's, in plain text or with TLS.
//!
//! In: a connected socket, and a TLS session or none. Out: bytes, ends of every kind, and how the other side ended. Calls block, with a
//! deadline.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{AlertDescription, ClientConfig, ClientConnection, ServerConfig, ServerConnection};

use crate::client::server_name;
use crate::deadline::{DEADLINE, pause};
use crate::ending::{self, Ending, SocketEnd};
use crate::pattern;

/// Bytes that are written or read at once.
const CHUNK: usize = 32 << 10;

/// The reason for which a connection cannot go on.
#[derive(Debug)]
pub struct Failed {
    /// The end and its act.
    act: String,
    /// The event.
    pub cause: Cause,
}

/// Events that stop a connection.
#[derive(Debug)]
pub enum Cause {
    /// The session failed, or the other side sent an alert.
    Tls(rustls::Error),
    /// The other side has ended it.
    Ended(SocketEnd),
    /// The other side has sent close_notify.
    CloseNotify,
    /// Nothing came before the deadline.
    Late,
    /// Something else came than was expected.
    Other(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.act)?;
        match &self.cause {
            Cause::Tls(error) => write!(f, "TLS: {error}"),
            Cause::Ended(SocketEnd::Reset) => f.write_str("the connection was reset"),
            Cause::Ended(_) => f.write_str("the end of the connection"),
            Cause::CloseNotify => f.write_str("close_notify"),
            Cause::Late => f.write_str("nothing more in time"),
            Cause::Other(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failed {}

/// The result of [`Connection::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes of any kind; plaintext among them was kept.
    Bytes,
    /// Nothing in time.
    Nothing,
    /// The end of the socket.
    End(SocketEnd),
}

/// One end of a connection.
pub struct Connection {
    /// The name of this end in messages.
    pub name: &'static str,
    /// The socket, for what the functions below do not offer.
    pub stream: TcpStream,
    tls: Option<rustls::Connection>,
    /// Plaintext that has come and was not taken.
    pub(crate) plaintext: Vec<u8>,
    /// True if close_notify has come.
    pub(crate) has_close_notify: bool,
    /// The error of its session.
    failure: Option<rustls::Error>,
    /// A FIN without close_notify is a clean end too: for programs that have no other one, where the end is not what is judged.
    pub tolerates_fin: bool,
    /// Bytes of the response that is to be skipped.
    switch: Option<Vec<u8>>,
    /// True if a write has failed: the kernel reports a reset once, and the next read looks like a clean end.
    is_aborted: bool,
}

impl Connection {
    /// Without TLS.
    pub fn plain(name: &'static str, stream: TcpStream) -> Self {
        Self {
            name,
            stream,
            tls: None,
            plaintext: Vec::new(),
            has_close_notify: false,
            failure: None,
            tolerates_fin: false,
            switch: None,
            is_aborted: false,
        }
    }

    /// With a session whose handshake may be done or not.
    pub fn over(name: &'static str, stream: TcpStream, tls: impl Into<rustls::Connection>) -> Self {
        Self { tls: Some(tls.into()), ..Self::plain(name, stream) }
    }

    /// A client that is about to say hello, and the hello.
    pub fn hello(stream: TcpStream, config: &Arc<ClientConfig>, name: &str) -> (Self, Vec<u8>) {
        let tls =
            ClientConnection::new(Arc::clone(config), server_name(name)).expect("the settings are good");
        let mut client = Self::over("client", stream, tls);
        let hello = client.take_records();
        (client, hello)
    }

    /// A client, after its handshake.
    pub fn connect(stream: TcpStream, config: &Arc<ClientConfig>, name: &str) -> Result<Self, Failed> {
        let (mut client, hello) = Self::hello(stream, config, name);
        client.write(&hello)?;
        client.handshake()?;
        Ok(client)
    }

    /// A server, after its handshake.
    pub fn accept(stream: TcpStream, config: &Arc<ServerConfig>) -> Result<Self, Failed> {
        let tls = ServerConnection::new(Arc::clone(config)).expect("the settings are good");
        let mut server = Self::over("backend", stream, tls);
        server.handshake()?;
        Ok(server)
    }

    fn fail<T>(&self, act: impl fmt::Display, cause: Cause) -> Result<T, Failed> {
        Err(Failed { act: format!("{} {act}", self.name), cause })
    }

    /// Brings a handshake to its end. A write that fails does not end it: what the other side said before it closed can still be read.
    pub fn handshake(&mut self) -> Result<(), Failed> {
        while self.tls.as_ref().is_some_and(|tls| tls.is_handshaking()) {
            let _ = self.flush();
            let received = self.receive_by(Instant::now() + DEADLINE);
            if let Some(error) = &self.failure {
                return self.fail("shakes hands", Cause::Tls(error.clone()));
            }
            match received {
                Received::Bytes => {}
                Received::Nothing => return self.fail("shakes hands", Cause::Late),
                Received::End(end) => return self.fail("shakes hands", Cause::Ended(end)),
            }
        }
        self.flush()
    }

    /// Its session.
    ///
    /// # Panics
    /// Without TLS.
    pub fn tls(&self) -> &rustls::Connection {
        self.tls.as_ref().expect("it has TLS")
    }

    /// Returns true if its session was resumed.
    pub fn resumed(&self) -> bool {
        self.tls.as_ref().and_then(|tls| tls.handshake_kind()) == Some(rustls::HandshakeKind::Resumed)
    }

    /// Returns the records that its session wants to send; the caller sends them, whole or not.
    pub fn take_records(&mut self) -> Vec<u8> {
        let mut records = Vec::new();
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) {
            tls.write_tls(&mut records).expect("memory takes it");
        }
        records
    }

    /// Returns the records of these bytes, which are not sent.
    pub fn encrypted(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(tls) = &mut self.tls else { return bytes.to_vec() };
        tls.writer().write_all(bytes).expect("its buffer has room for a chunk");
        self.take_records()
    }

    /// Sends what the session wants to send; on a non-blocking socket what fits.
    fn flush(&mut self) -> Result<(), Failed> {
        match self.write_records() {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => {
                self.is_aborted = true;
                self.fail("writes records", socket(&error))
            }
        }
    }

    /// Writes to the socket as it is.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let Err(error) = self.stream.write_all(bytes) else { return Ok(()) };
        self.is_aborted = true;
        self.fail(format_args!("writes {} bytes", bytes.len()), socket(&error))
    }

    /// Sends all of it.
    pub fn try_send(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        bytes.chunks(CHUNK).try_for_each(|chunk| {
            let records = self.encrypted(chunk);
            self.write(&records)
        })
    }

    /// On a non-blocking socket: sends what fits, possibly nothing, and returns how much that was.
    pub fn try_send_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.try_flush();
        let Some(tls) = &mut self.tls else { return self.stream.write(bytes) };
        if tls.wants_write() {
            return Ok(0);
        }
        let count = tls.writer().write(bytes)?;
        self.try_flush();
        Ok(count)
    }

    /// On a non-blocking socket: writes what can be written; an error shows at the next read.
    pub fn try_flush(&mut self) {
        let _ = self.write_records();
    }

    fn write_records(&mut self) -> io::Result<()> {
        while let Some(tls) = self.tls.as_mut().filter(|tls| tls.wants_write()) {
            tls.write_tls(&mut self.stream)?;
        }
        Ok(())
    }

    /// On a non-blocking socket: writes a chunk, or what is left of one; the end of the socket when it came to that.
    pub(crate) fn write_some(&mut self, chunk: &[u8]) -> Option<SocketEnd> {
        if let Some(tls) = self.tls.as_mut().filter(|tls| !tls.wants_write()) {
            tls.writer().write_all(chunk).expect("the buffer is empty");
        }
        self.write_records().err().and_then(|error| ending::end_of(&error))
    }

    /// Reads what there is, waiting for at least one byte; 0 at close_notify.
    ///
    /// **Errors**: the session's; a FIN without close_notify is an unexpected end.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.plaintext.is_empty() {
            if let Some(error) = &self.failure {
                return Err(io::Error::other(error.clone()));
            }
            if self.has_close_notify {
                return Ok(0);
            }
            match self.receive() {
                Received::Bytes => {}
                Received::Nothing => return Err(ErrorKind::WouldBlock.into()),
                Received::End(SocketEnd::Fin) if self.tls.is_none() => return Ok(0),
                Received::End(SocketEnd::Fin) => return Err(ErrorKind::UnexpectedEof.into()),
                Received::End(_) => return Err(ErrorKind::ConnectionReset.into()),
            }
        }
        let count = buffer.len().min(self.plaintext.len());
        buffer[..count].copy_from_slice(&self.plaintext[..count]);
        self.plaintext.drain(..count);
        Ok(count)
    }

    /// Receives once. After the end of TLS, bytes are skipped.
    pub fn receive_by(&mut self, until: Instant) -> Received {
        // Zero would mean for ever.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        self.stream.set_read_timeout(Some(left)).expect("an open socket takes a timeout");
        let received = self.receive();
        self.stream.set_read_timeout(Some(DEADLINE)).expect("an open socket takes a timeout");
        received
    }

    /// Receives once, for as long as the socket waits.
    pub fn receive(&mut self) -> Received {
        let is_over = self.has_close_notify || self.failure.is_some();
        let outcome = match &mut self.tls {
            Some(tls) if !is_over => tls.read_tls(&mut self.stream),
            _ => {
                let mut chunk = [0; CHUNK];
                let outcome = self.stream.read(&mut chunk);
                if let (Ok(count), None) = (&outcome, &self.tls) {
                    self.plaintext.extend_from_slice(&chunk[..*count]);
                }
                outcome
            }
        };
        match outcome {
            Ok(0) if self.is_aborted => Received::End(SocketEnd::Reset),
            Ok(0) => Received::End(SocketEnd::Fin),
            Ok(_) => {
                self.decrypt();
                self.hide_switch();
                Received::Bytes
            }
            Err(error) => ending::end_of(&error).map_or(Received::Nothing, Received::End),
        }
    }

    /// Takes what the session has decrypted; its alert or answer is sent, and where it cannot be, the next read shows why.
    pub(crate) fn decrypt(&mut self) {
        let Some(tls) = self.tls.as_mut().filter(|_| self.failure.is_none()) else { return };
        match tls.process_new_packets() {
            Ok(state) => {
                let have = self.plaintext.len();
                self.plaintext.resize(have + state.plaintext_bytes_to_read(), 0);
                tls.reader().read_exact(&mut self.plaintext[have..]).expect("it has as much as it says");
                self.has_close_notify |= state.peer_has_closed();
            }
            Err(error) => self.failure = Some(error),
        }
        let _ = self.flush();
    }

    /// Waits for plaintext.
    fn more(&mut self, act: impl fmt::Display) -> Result<(), Failed> {
        let have = self.plaintext.len();
        while self.plaintext.len() == have {
            if let Some(error) = &self.failure {
                return self.fail(act, Cause::Tls(error.clone()));
            }
            if self.has_close_notify {
                return self.fail(act, Cause::CloseNotify);
            }
            match self.receive_by(Instant::now() + DEADLINE) {
                Received::Bytes => {}
                Received::Nothing => return self.fail(act, Cause::Late),
                Received::End(end) => return self.fail(act, Cause::Ended(end)),
            }
        }
        Ok(())
    }

    /// Reads so many bytes.
    pub fn try_read_exactly(&mut self, count: usize) -> Result<Vec<u8>, Failed> {
        while self.plaintext.len() < count {
            let act = format!("reads, after {} of {count} bytes", self.plaintext.len());
            self.more(act)?;
        }
        Ok(self.plaintext.drain(..count).collect())
    }

    /// Expects exactly these bytes.
    pub fn expect(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let came = self.try_read_exactly(bytes.len())?;
        if came == bytes {
            return Ok(());
        }
        self.fail("reads", Cause::Other("other bytes than were sent".to_owned()))
    }

    /// Returns true if bytes have come that nothing has taken.
    pub fn has_bytes(&self) -> bool {
        !self.plaintext.is_empty()
    }

    /// Skips the head of a response with status 101 that comes next: none of it belongs to the protocol that it begins.
    pub fn skip_switch(&mut self) {
        self.switch = Some(Vec::new());
    }

    /// Skips nothing any more.
    pub fn keep_switch(&mut self) {
        self.plaintext.splice(..0, self.switch.take().unwrap_or_default());
    }

    /// Any other response is kept: the caller receives bytes that it does not expect.
    fn hide_switch(&mut self) {
        let Some(hidden) = &mut self.switch else { return };
        hidden.append(&mut self.plaintext);
        let Some(length) = hidden.windows(4).position(|end| end == b"\r\n\r\n") else { return };
        if hidden.starts_with(b"HTTP/1.1 101 ") {
            hidden.drain(..length + 4);
        }
        self.keep_switch();
    }

    /// Sends close_notify where there is TLS, and leaves the socket open.
    pub fn close_notify(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        // A peer that is gone is for the reader to notice.
        let _ = self.flush();
    }

    /// Ends the socket's writing side without a word of TLS.
    pub fn fin(&self) {
        ending::fin(&self.stream);
    }

    /// Ends its direction as its protocol has it: close_notify where there is TLS, and a FIN.
    pub fn close(&mut self) {
        self.close_notify();
        self.fin();
    }

    /// Closes with a reset.
    pub fn reset(self) {
        ending::reset(self.stream);
    }

    /// Waits until the other side has ended its direction in order, and returns how many bytes came before. Its socket may still be open
    /// then: with TLS, close_notify is the end of a direction.
    pub fn read_to_close_notify(&mut self) -> Result<usize, Failed> {
        loop {
            match self.more("waits for the other's end") {
                Ok(()) => {}
                Err(Failed { cause: Cause::CloseNotify, .. }) => return Ok(self.plaintext.len()),
                Err(Failed { cause: Cause::Ended(SocketEnd::Fin), .. })
                    if self.tls.is_none() || self.tolerates_fin =>
                {
                    return Ok(self.plaintext.len());
                }
                Err(failed) => return Err(failed),
            }
        }
    }

    /// Reads everything until the end of the socket; [`SocketEnd::Open`]: it did not come in time.
    pub fn ends(&mut self) -> Ending {
        let until = Instant::now() + DEADLINE;
        // Bytes that came together with the last ones that were read are here already.
        self.decrypt();
        let socket = loop {
            match self.receive_by(until) {
                Received::Bytes => {}
                Received::Nothing => break SocketEnd::Open,
                Received::End(end) => break end,
            }
        };
        self.ending(socket)
    }

    /// The end, with the bytes since the last read.
    pub(crate) fn ending(&mut self, socket: SocketEnd) -> Ending {
        self.keep_switch();
        Ending {
            bytes: std::mem::take(&mut self.plaintext),
            close_notify: self.has_close_notify,
            alert: self.alert(),
            socket,
            needs_close_notify: self.tls.is_some() && !self.tolerates_fin,
        }
    }

    /// The fatal alert that came.
    fn alert(&self) -> Option<AlertDescription> {
        match self.failure {
            Some(rustls::Error::AlertReceived(alert)) => Some(alert),
            _ => None,
        }
    }

    /// The failure of its session that is not an alert of the other side's.
    pub(crate) fn own_failure(&self) -> Option<&rustls::Error> {
        self.failure.as_ref().filter(|error| !matches!(error, rustls::Error::AlertReceived(_)))
    }

    /// Sends back what comes, until the other side ends its direction.
    pub fn try_echo(&mut self) -> Result<(), Failed> {
        loop {
            while self.plaintext.is_empty() {
                let received = self.receive();
                let is_over = self.has_close_notify || matches!(received, Received::End(SocketEnd::Fin));
                match &self.failure {
                    Some(error) => return self.fail("echoes", Cause::Tls(error.clone())),
                    None if is_over && self.plaintext.is_empty() => return Ok(()),
                    None => {}
                }
                if let Received::End(end @ SocketEnd::Reset) = received {
                    return self.fail("echoes", Cause::Ended(end));
                }
            }
            let bytes = std::mem::take(&mut self.plaintext);
            self.try_send(&bytes)?;
        }
    }

    /// Sends so many bytes and receives as many, both at once, each byte in its place.
    pub fn exchange(&mut self, length: usize) -> Result<(), Failed> {
        const ACT: &str = "sends and receives at once";
        self.stream.set_nonblocking(true).expect("an open socket takes the option");
        let end = Instant::now() + 3 * DEADLINE;
        let (mut sent, mut checker) = (0, pattern::Checker::default());
        let mut records = Vec::new();
        while sent < length || checker.arrived < length as u64 || !records.is_empty() {
            if records.is_empty() && sent < length {
                let piece = pattern::piece(sent as u64, CHUNK.min(length - sent));
                records = self.encrypted(piece);
                sent += piece.len();
            }
            let moved = match self.stream.write(&records) {
                Ok(moved) => moved,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return self.fail(ACT, socket(&error)),
            };
            records.drain(..moved);
            let received = self.receive();
            if let Err(what) = checker.try_take(&std::mem::take(&mut self.plaintext)) {
                return self.fail(ACT, Cause::Other(what));
            }
            match received {
                Received::End(end) => return self.fail(ACT, Cause::Ended(end)),
                Received::Nothing if moved == 0 => pause(Duration::from_millis(1)),
                _ => {}
            }
            if Instant::now() >= end {
                return self.fail(ACT, Cause::Late);
            }
        }
        self.stream.set_nonblocking(false).expect("an open socket takes the option");
        Ok(())
    }
}

/// The cause of a socket's error.
fn socket(error: &io::Error) -> Cause {
    ending::end_of(error).map_or(Cause::Late, Cause::Ended)
}
