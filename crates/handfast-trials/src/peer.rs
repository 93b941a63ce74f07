//! One end of a connection under the laboratory's control: a client's or a backend's, in plain text or with TLS.
//!
//! In: a connected socket, and a TLS session or none. Out: bytes, ends of every kind, and how the other side ended. Calls block,
//! with a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use handfast_lab::run::pause;
use handfast_tls::buffer::Buffer;
use handfast_tls::client::Client;
use handfast_tls::server::Server;
use handfast_tls::session::{Failure, Session};
use handfast_wire::peek::{Peek, peek};

use crate::trouble::{Trouble, broken};

/// How long anything may take that should happen at once; a machine may be busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);
/// Most bytes of a ClientHello that a backend reads.
const HELLO: usize = 64 << 10;
/// What is read at once.
const CHUNK: usize = 32 << 10;

/// How a socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Cleanly.
    Fin,
    /// By an abort.
    Reset,
    /// Not within the deadline.
    Open,
}

/// How a connection ended, as one side saw it.
#[derive(Debug)]
pub(crate) struct Ending {
    /// Plaintext that came before.
    pub(crate) bytes: usize,
    /// Whether TLS's own end (close_notify) came.
    pub(crate) told: bool,
    /// The fatal alert that came.
    pub(crate) alert: Option<u8>,
    /// What the socket said.
    pub(crate) socket: End,
    tls: bool,
    tolerates_fin: bool,
}

impl Ending {
    /// Closed cleanly, without any doubt.
    pub(crate) fn is_clean(&self) -> bool {
        self.socket == End::Fin && (self.told == self.tls || self.tolerates_fin) && self.alert.is_none()
    }

    /// Cannot be taken for a clean close.
    pub(crate) fn is_abort(&self) -> bool {
        self.socket != End::Open && !self.is_clean() && !(self.told && self.tls)
    }

    /// An abort on one side has to be one on the other.
    pub(crate) fn must_abort(&self, who: &str) -> Result<(), Trouble> {
        if self.is_abort() { Ok(()) } else { broken(format!("{who} received {}: not an abort", self.says())) }
    }

    /// A clean close must be seen as one.
    pub(crate) fn must_be_clean(&self, who: &str) -> Result<(), Trouble> {
        if self.is_clean() {
            Ok(())
        } else {
            broken(format!("{who} received {}: not a clean end", self.says()))
        }
    }

    /// For messages.
    pub(crate) fn says(&self) -> String {
        let close_notify = match (self.tls, self.told) {
            (false, _) => "",
            (true, true) => "close_notify, ",
            (true, false) => "no close_notify, ",
        };
        let alert = self.alert.map(|alert| format!("alert {alert}, ")).unwrap_or_default();
        let end = match self.socket {
            End::Fin => "FIN",
            End::Reset => "a reset",
            End::Open => "no end",
        };
        format!("{} bytes, {close_notify}{alert}{end}", self.bytes)
    }
}

/// One end of a connection.
pub(crate) struct Peer {
    who: &'static str,
    pub(crate) stream: TcpStream,
    session: Option<Box<dyn Session + Send>>,
    plain: Buffer,
    out: Buffer,
    told: bool,
    failed: Option<Failure>,
    /// A FIN without close_notify is a clean end too: for programs that have no other one, where the end is not what is judged.
    pub(crate) tolerates_fin: bool,
    /// It has asked for another protocol: the head of the response is none of that protocol's bytes.
    pub(crate) is_upgrading: bool,
    /// A write has met a reset: the kernel reports it once, and the next read would look like a clean end.
    aborted: bool,
}

impl Peer {
    /// Without TLS.
    pub(crate) fn plain(who: &'static str, stream: TcpStream) -> Self {
        Self {
            who,
            stream,
            session: None,
            plain: Buffer::default(),
            out: Buffer::default(),
            told: false,
            failed: None,
            tolerates_fin: false,
            is_upgrading: false,
            aborted: false,
        }
    }

    /// A client that begins TLS.
    pub(crate) fn connect(stream: TcpStream, client: &Client, resume: bool) -> Result<Self, Trouble> {
        let (mut peer, hello) = Self::hello(stream, client, resume)?;
        peer.write(&hello)?;
        peer.shake_hands()?;
        Ok(peer)
    }

    /// A client that is about to begin TLS, and the bytes to begin with.
    pub(crate) fn hello(
        stream: TcpStream,
        client: &Client,
        resume: bool,
    ) -> Result<(Self, Vec<u8>), Trouble> {
        let mut session = client.connect(resume).map_err(|failure| Trouble::Lab(failure.detail.into()))?;
        let mut peer = Self::plain("client", stream);
        session.start(&mut peer.out).map_err(|failure| Trouble::Lab(failure.detail.into()))?;
        let hello = peer.out.filled().to_vec();
        peer.out.clear();
        peer.session = Some(Box::new(session));
        Ok((peer, hello))
    }

    /// A backend that answers a hello.
    pub(crate) fn accept(mut stream: TcpStream, server: &Server) -> Result<Self, Trouble> {
        let mut received = Vec::new();
        let hello = loop {
            match peek(&received, HELLO) {
                Peek::Complete(hello) => break hello,
                Peek::Incomplete => {}
                other => return broken(format!("backend: expected a ClientHello, got {other:?}")),
            }
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk) {
                Ok(0) => return broken("backend: the connection ended before a ClientHello"),
                Ok(count) => received.extend_from_slice(&chunk[..count]),
                Err(error) => return broken(format!("backend waits for a ClientHello: {error}")),
            }
        };
        let session = server.accept(&hello).map_err(|failure| Trouble::Lab(failure.detail.into()))?;
        let mut peer = Self::plain("backend", stream);
        peer.session = Some(Box::new(session));
        peer.take_in(&received);
        peer.flush().map_err(|error| Trouble::Broken(format!("backend sends its flight: {error}")))?;
        peer.shake_hands()?;
        Ok(peer)
    }

    /// Brings a handshake that has begun to its end.
    pub(crate) fn shake_hands(&mut self) -> Result<(), Trouble> {
        let established = |peer: &Self| peer.session.as_ref().is_none_or(|session| session.is_established());
        while !established(self) {
            match self.more() {
                Ok(0) => return broken(format!("{}: the connection ended in the handshake", self.who)),
                Ok(_) => {}
                Err(error) => return broken(format!("{}: the handshake: {error}", self.who)),
            }
            if let Some(failure) = &self.failed {
                return broken(format!("{}: the handshake: {}", self.who, failure.detail));
            }
        }
        self.flush().map_err(|error| Trouble::Broken(format!("{}: the handshake: {error}", self.who)))
    }

    /// Whether its session was resumed.
    pub(crate) fn resumed(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.agreed().resumed == Some(true))
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.try_send(bytes)
            .map_err(|error| Trouble::Broken(format!("{} sends {} bytes: {error}", self.who, bytes.len())))
    }

    /// As [`Self::send`]; what fails is for the caller to judge.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.chunks(CHUNK) {
            let record = self.encrypted(chunk)?;
            self.write_all(&record)?;
        }
        Ok(())
    }

    /// What would be sent for these bytes, to be sent by the caller, whole or not.
    pub(crate) fn encrypted(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let Some(session) = &mut self.session else { return Ok(bytes.to_vec()) };
        session
            .encrypt(bytes, &mut self.out)
            .map_err(|failure| io::Error::other(failure.detail.to_string()))?;
        let record = self.out.filled().to_vec();
        self.out.clear();
        Ok(record)
    }

    /// Writes to the socket as it is.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let written = self.write_all(bytes);
        written.map_err(|error| Trouble::Broken(format!("{} writes: {error}", self.who)))
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.stream.write_all(bytes);
        self.aborted |= written.as_ref().is_err_and(|error| !is_timeout(error));
        written
    }

    /// Reads so many bytes.
    pub(crate) fn read_exactly(&mut self, count: usize) -> Result<Vec<u8>, Trouble> {
        while self.plain.len() < count {
            let (have, who) = (self.plain.len(), self.who);
            let ended =
                |how: String| Trouble::Broken(format!("{} got {have} of {count} bytes, then {how}", who));
            match self.more() {
                Ok(0) => return Err(ended("the end of the connection".to_owned())),
                Ok(_) if self.told && self.plain.len() < count => {
                    return Err(ended("close_notify".to_owned()));
                }
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {
                    return Err(ended("nothing more in time".to_owned()));
                }
                Err(error) => return Err(ended(error.to_string())),
            }
            if let Some(failure) = &self.failed {
                let why = failure.detail.to_string();
                return broken(format!("{} got {have} of {count} bytes, then {why}", self.who));
            }
        }
        let bytes = self.plain.filled()[..count].to_vec();
        self.plain.take(count);
        Ok(bytes)
    }

    /// Whether bytes have come that nothing has taken.
    pub(crate) fn has_bytes(&self) -> bool {
        !self.plain.is_empty()
    }

    /// Expects exactly these bytes.
    pub(crate) fn expect(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let came = self.read_exactly(bytes.len())?;
        if came == bytes { Ok(()) } else { broken(format!("{} got other bytes than were sent", self.who)) }
    }

    /// Says that this was all, as its protocol has it: close_notify where there is TLS, and a FIN.
    pub(crate) fn finish(&mut self) {
        if let Some(session) = &mut self.session {
            session.close(&mut self.out);
            // Who is gone already is no concern here.
            let _ = self.flush();
        }
        self.fin();
    }

    /// Ends the socket's own direction, without a word of TLS.
    pub(crate) fn fin(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        reset(self.stream);
    }

    /// Waits until the other side has said, in order, that this was all; how many bytes came before. Its socket may still be
    /// open then: with TLS, close_notify is the end of a direction.
    pub(crate) fn half(&mut self) -> Result<usize, Trouble> {
        let tls = self.session.is_some();
        loop {
            let ended = self.told;
            match if ended { Ok(0) } else { self.more() } {
                Ok(0) if (ended == tls || self.tolerates_fin) && self.failed.is_none() => {
                    return Ok(self.plain.len());
                }
                Ok(0) => return broken(format!("{} got a FIN without close_notify", self.who)),
                Ok(_) => {}
                Err(error) => return broken(format!("{} waits for the other's end: {error}", self.who)),
            }
        }
    }

    /// Reads everything until the end, or for this duration.
    pub(crate) fn hear(&mut self, limit: Duration) -> Ending {
        let begun = Instant::now();
        let mut bytes = self.plain.len();
        self.plain.clear();
        let socket = loop {
            let left = limit.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break End::Open;
            }
            let _ = self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))));
            match self.more() {
                Ok(0) if self.aborted => break End::Reset,
                Ok(0) => break End::Fin,
                Ok(_) => {}
                Err(error) if is_timeout(&error) => {}
                Err(_) => break End::Reset,
            }
            bytes += self.plain.len();
            self.plain.clear();
        };
        let _ = self.stream.set_read_timeout(Some(DEADLINE));
        let alert = self.failed.as_ref().and_then(|failure| failure.alert);
        let (tls, tolerates_fin) = (self.session.is_some(), self.tolerates_fin);
        Ending { bytes, told: self.told, alert, socket, tls, tolerates_fin }
    }

    /// Sends back what comes next; false at the end.
    pub(crate) fn echo_some(&mut self) -> io::Result<bool> {
        if self.plain.is_empty() {
            let count = self.more()?;
            if self.plain.is_empty() && (count == 0 || self.told) {
                return Ok(false);
            }
            if let Some(failure) = &self.failed {
                return Err(io::Error::other(failure.detail.to_string()));
            }
        }
        let bytes = self.plain.filled().to_vec();
        self.plain.clear();
        self.try_send(&bytes)?;
        Ok(true)
    }

    /// Sends so many bytes and takes in as many, both at once, each byte in its place.
    pub(crate) fn exchange(&mut self, length: usize) -> Result<(), Trouble> {
        self.stream.set_nonblocking(true)?;
        let begun = Instant::now();
        let (mut sent, mut came) = (0, 0);
        let mut record = Vec::new();
        while sent < length || came < length || !record.is_empty() {
            if record.is_empty() && sent < length {
                let chunk: Vec<u8> = pattern(sent).take(CHUNK.min(length - sent)).collect();
                sent += chunk.len();
                record = self.encrypted(&chunk)?;
            }
            let wrote = self.stream.write(&record);
            let moved = self.moved(wrote)?;
            record.drain(..moved);
            let read = self.more();
            let took = self.moved(read)?;
            if !self.plain.filled().iter().copied().eq(pattern(came).take(self.plain.len())) {
                return broken(format!("{}: a byte behind {came} is not the one that was sent", self.who));
            }
            came += self.plain.len();
            self.plain.clear();
            if moved + took == 0 {
                pause();
            }
            if begun.elapsed() > 3 * DEADLINE {
                return broken(format!(
                    "{}: {sent} bytes sent and {came} of {length} received in time",
                    self.who
                ));
            }
        }
        self.stream.set_nonblocking(false)?;
        Ok(())
    }

    fn moved(&self, outcome: io::Result<usize>) -> Result<usize, Trouble> {
        match outcome {
            Ok(count) => Ok(count),
            Err(error) if is_timeout(&error) => Ok(0),
            Err(error) => broken(format!("{} sends and receives at once: {error}", self.who)),
        }
    }

    /// One read of the socket; as many as it takes where the head of a response comes first.
    pub(crate) fn more(&mut self) -> io::Result<usize> {
        loop {
            let count = self.read_once()?;
            self.skip_head();
            if count == 0 || !self.is_upgrading || self.told || self.failed.is_some() {
                return Ok(count);
            }
        }
    }

    /// Drops the head with which another protocol begins. Any other response is kept: the caller receives bytes that it does not expect.
    fn skip_head(&mut self) {
        if !self.is_upgrading {
            return;
        }
        let plain = self.plain.filled();
        let Some(length) = plain.windows(4).position(|end| end == b"\r\n\r\n") else { return };
        self.is_upgrading = false;
        if plain.starts_with(b"HTTP/1.1 101 ") {
            self.plain.take(length + 4);
        }
    }

    fn read_once(&mut self) -> io::Result<usize> {
        let mut chunk = vec![0; CHUNK];
        let count = loop {
            match self.stream.read(&mut chunk) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                outcome => break outcome?,
            }
        };
        // Behind the end of TLS, only the socket's own end is of interest.
        if count > 0 && !self.told && self.failed.is_none() {
            self.take_in(&chunk[..count]);
            // Answers of the library's own; the next read says what is wrong if they cannot be sent.
            let _ = self.flush();
        }
        Ok(count)
    }

    fn take_in(&mut self, bytes: &[u8]) {
        let Some(session) = &mut self.session else {
            self.plain.extend(bytes);
            return;
        };
        let mut incoming = session.kept().to_vec();
        incoming.extend_from_slice(bytes);
        let received = session.receive(&mut incoming, &mut self.plain, &mut self.out);
        self.told |= received.closed;
        self.failed = received.failure;
    }

    fn flush(&mut self) -> io::Result<()> {
        let out = self.out.filled().to_vec();
        self.out.clear();
        self.write_all(&out)
    }
}

/// Closes with a reset.
pub(crate) fn reset(stream: TcpStream) {
    // It may be gone already.
    let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    drop(stream);
}

/// Both calls have their deadline from now on.
pub(crate) fn with_deadline(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))
}

/// Bytes that show where they belong, from one place on.
pub(crate) fn pattern(from: usize) -> impl Iterator<Item = u8> {
    (from..).map(|place| (place % 251) as u8)
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
        && error.raw_os_error() != Some(rustix::io::Errno::TIMEDOUT.raw_os_error())
}
