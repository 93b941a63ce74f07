//! One end of a connection under the laboratory's control: a client's or a backend's, in plain text or with TLS.
//!
//! In: a connected socket, and a TLS session or none. Out: bytes, ends of every kind, and how the other side ended. Calls block,
//! with a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use handfast_lab::run::pause;
use handfast_leg::blocking::{Connection, Failed, Got, Hello, Line, Problem};
use handfast_net::clock::Moment;
use handfast_tls::client::Client;
use handfast_tls::server::Server;
use handfast_tls::session::Session;
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
    talk: Connection<Box<dyn Session + Send>>,
    /// Why its session cannot go on.
    failed: Option<Failed>,
    /// A FIN without close_notify is a clean end too: for programs that have no other one, where the end is not what is judged.
    pub(crate) tolerates_fin: bool,
    /// It has asked for another protocol: the head of the response is none of that protocol's bytes.
    pub(crate) is_upgrading: bool,
}

fn soon() -> Moment {
    Moment::now() + DEADLINE
}

impl Peer {
    /// Without TLS.
    pub(crate) fn plain(who: &'static str, stream: TcpStream) -> Self {
        Self::over(who, stream, None)
    }

    fn over(who: &'static str, stream: TcpStream, session: Option<Box<dyn Session + Send>>) -> Self {
        let talk = Connection::new(Line::over(stream), session);
        Self { who, talk, failed: None, tolerates_fin: false, is_upgrading: false }
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
        let hello = Hello::new(client, resume, &[])?;
        let peer = Self::over("client", stream, Some(Box::new(hello.session)));
        Ok((peer, hello.bytes.filled().to_vec()))
    }

    /// Its socket.
    pub(crate) fn stream(&mut self) -> &mut TcpStream {
        &mut self.talk.line.stream
    }

    /// Its socket alone.
    pub(crate) fn into_stream(self) -> TcpStream {
        self.talk.line.stream
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
        let session = server.accept(&hello).map_err(Failed::session)?;
        let mut peer = Self::over("backend", stream, Some(Box::new(session)));
        let answered = peer.talk.take(&mut received).and_then(|()| peer.talk.flush(soon()));
        answered.map_err(|failed| Trouble::Broken(format!("backend sends its flight: {failed}")))?;
        peer.shake_hands()?;
        Ok(peer)
    }

    /// Brings a handshake that has begun to its end.
    pub(crate) fn shake_hands(&mut self) -> Result<(), Trouble> {
        let shaken = self.talk.shake(soon()).and_then(|()| self.talk.flush(soon()));
        shaken.map(drop).map_err(|failed| Trouble::Broken(format!("{}: {failed}", self.who)))
    }

    /// Whether its session was resumed.
    pub(crate) fn resumed(&self) -> bool {
        self.talk.session.as_ref().is_some_and(|session| session.agreed().resumed == Some(true))
    }

    /// Sends all of it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.try_send(bytes)
            .map_err(|error| Trouble::Broken(format!("{} sends {} bytes: {error}", self.who, bytes.len())))
    }

    /// As [`Self::send`]; what fails is for the caller to judge.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        bytes.chunks(CHUNK).try_for_each(|chunk| self.talk.send(chunk, soon()))
    }

    /// What would be sent for these bytes, to be sent by the caller, whole or not.
    pub(crate) fn encrypted(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Failed> {
        Ok(self.talk.records(bytes)?.filled().to_vec())
    }

    /// Writes to the socket as it is.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let written = self.talk.line.send(bytes, soon());
        written.map_err(|failed| Trouble::Broken(format!("{} writes: {failed}", self.who)))
    }

    /// Reads so many bytes.
    pub(crate) fn read_exactly(&mut self, count: usize) -> Result<Vec<u8>, Trouble> {
        while self.talk.plaintext.len() < count {
            let have = self.talk.plaintext.len();
            let how = match (self.more(soon()), &self.failed) {
                (Err(failed), _) => failed.to_string(),
                (Ok(Got::Bytes(_)), Some(failed)) => failed.to_string(),
                (Ok(Got::End), _) => "the end of the connection".to_owned(),
                (Ok(Got::Nothing), _) => "nothing more in time".to_owned(),
                (Ok(Got::Bytes(_)), None) if self.talk.is_closed && self.talk.plaintext.len() < count => {
                    "close_notify".to_owned()
                }
                (Ok(Got::Bytes(_)), None) => continue,
            };
            return broken(format!("{} got {have} of {count} bytes, then {how}", self.who));
        }
        let bytes = self.talk.plaintext.filled()[..count].to_vec();
        self.talk.plaintext.take(count);
        Ok(bytes)
    }

    /// Whether bytes have come that nothing has taken.
    pub(crate) fn has_bytes(&self) -> bool {
        !self.talk.plaintext.is_empty()
    }

    /// Expects exactly these bytes.
    pub(crate) fn expect(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let came = self.read_exactly(bytes.len())?;
        if came == bytes { Ok(()) } else { broken(format!("{} got other bytes than were sent", self.who)) }
    }

    /// Says that this was all, as its protocol has it: close_notify where there is TLS, and a FIN.
    pub(crate) fn finish(&mut self) {
        // Who is gone already is no concern here.
        let _ = self.talk.close(soon());
        self.fin();
    }

    /// Ends the socket's own direction, without a word of TLS.
    pub(crate) fn fin(&self) {
        self.talk.line.end();
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        reset(self.into_stream());
    }

    /// Waits until the other side has said, in order, that this was all; how many bytes came before. Its socket may still be
    /// open then: with TLS, close_notify is the end of a direction.
    pub(crate) fn half(&mut self) -> Result<usize, Trouble> {
        let tls = self.talk.session.is_some();
        loop {
            let ended = self.talk.is_closed;
            match if ended { Ok(Got::End) } else { self.more(soon()) } {
                Ok(Got::End) if (ended == tls || self.tolerates_fin) && self.failed.is_none() => {
                    return Ok(self.talk.plaintext.len());
                }
                Ok(Got::End) => return broken(format!("{} got a FIN without close_notify", self.who)),
                Ok(Got::Bytes(_)) => {}
                Ok(Got::Nothing) => return broken(format!("{} got no end in time", self.who)),
                Err(failed) => return broken(format!("{} waits for the other's end: {failed}", self.who)),
            }
        }
    }

    /// Reads everything until the end, or for this duration.
    pub(crate) fn hear(&mut self, limit: Duration) -> Ending {
        let until = Moment::now() + limit;
        let mut bytes = self.talk.plaintext.len();
        self.talk.plaintext.clear();
        let socket = loop {
            match self.more(until) {
                Ok(Got::End) if self.talk.line.is_aborted => break End::Reset,
                Ok(Got::End) => break End::Fin,
                Ok(Got::Nothing) => break End::Open,
                Ok(Got::Bytes(_)) => {}
                Err(_) => break End::Reset,
            }
            bytes += self.talk.plaintext.len();
            self.talk.plaintext.clear();
        };
        let alert = match &self.failed {
            Some(Failed { problem: Problem::Session(failure), .. }) => failure.alert,
            _ => None,
        };
        let (tls, tolerates_fin) = (self.talk.session.is_some(), self.tolerates_fin);
        Ending { bytes, told: self.talk.is_closed, alert, socket, tls, tolerates_fin }
    }

    /// Sends back what comes next, however long that takes; false at the end.
    pub(crate) fn echo_some(&mut self) -> Result<bool, Failed> {
        if self.talk.plaintext.is_empty() {
            let got = self.more(Moment::NEVER)?;
            if self.talk.plaintext.is_empty() && (got == Got::End || self.talk.is_closed) {
                return Ok(false);
            }
            if let Some(failed) = &self.failed {
                return Err(failed.clone());
            }
        }
        let bytes = std::mem::take(&mut self.talk.plaintext);
        self.try_send(bytes.filled())?;
        Ok(true)
    }

    /// Sends so many bytes and takes in as many, both at once, each byte in its place.
    pub(crate) fn exchange(&mut self, length: usize) -> Result<(), Trouble> {
        self.stream().set_nonblocking(true)?;
        let end = Moment::now() + 3 * DEADLINE;
        let (mut sent, mut came) = (0, 0);
        let mut record = Vec::new();
        while sent < length || came < length || !record.is_empty() {
            if record.is_empty() && sent < length {
                let chunk: Vec<u8> = pattern(sent).take(CHUNK.min(length - sent)).collect();
                sent += chunk.len();
                record = self.encrypted(&chunk)?;
            }
            let moved = match self.stream().write(&record) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                outcome => outcome.map_err(|error| self.both_ways(&error))?,
            };
            record.drain(..moved);
            let got = self.more(Moment::now()).map_err(|failed| self.both_ways(&failed))?;
            let plain = &mut self.talk.plaintext;
            if !plain.filled().iter().copied().eq(pattern(came).take(plain.len())) {
                return broken(format!("{}: a byte behind {came} is not the one that was sent", self.who));
            }
            came += plain.len();
            plain.clear();
            if moved == 0 && !matches!(got, Got::Bytes(_)) {
                pause();
            }
            if Moment::now() >= end {
                return broken(format!(
                    "{}: {sent} bytes sent and {came} of {length} received in time",
                    self.who
                ));
            }
        }
        self.stream().set_nonblocking(false)?;
        Ok(())
    }

    fn both_ways(&self, error: &dyn std::fmt::Display) -> Trouble {
        Trouble::Broken(format!("{} sends and receives at once: {error}", self.who))
    }

    /// Receives once; as often as it takes where the head of a response comes first.
    pub(crate) fn more(&mut self, until: Moment) -> Result<Got, Failed> {
        loop {
            let got = match self.talk.receive(CHUNK, until) {
                // Answers of the library's own; the next read says what is wrong if they cannot be sent.
                Ok(got) => self.talk.flush(soon()).map_or(got, |_| got),
                Err(failed) if matches!(failed.problem, Problem::Session(_) | Problem::NotTls) => {
                    self.failed = Some(failed);
                    return Ok(Got::Bytes(0));
                }
                Err(failed) => return Err(failed),
            };
            self.skip_head();
            if !matches!(got, Got::Bytes(_)) || !self.is_upgrading || self.talk.is_closed {
                return Ok(got);
            }
        }
    }

    /// Drops the head with which another protocol begins. Any other response is kept: the caller receives bytes that it does not expect.
    fn skip_head(&mut self) {
        if !self.is_upgrading {
            return;
        }
        let plain = self.talk.plaintext.filled();
        let Some(length) = plain.windows(4).position(|end| end == b"\r\n\r\n") else { return };
        self.is_upgrading = false;
        if plain.starts_with(b"HTTP/1.1 101 ") {
            self.talk.plaintext.take(length + 4);
        }
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use handfast_leg::blocking::Seen;

    use super::*;
    use crate::certificates::Certificates;

    #[test]
    fn the_last_flight_is_sent_with_the_first_bytes_and_nothing_before_it() {
        let certificates = Certificates::make().expect("certificates");
        let (client, server) = (certificates.client(None).unwrap(), certificates.server().unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let echo = move || {
            let mut peer = Peer::accept(listener.accept().unwrap().0, &server).unwrap();
            while peer.echo_some().unwrap() {}
            peer.finish();
            peer.hear(DEADLINE).socket
        };
        let backend = std::thread::Builder::new().name("backend".into()).spawn(echo).unwrap();
        let hello = Hello::new(&client, false, &[]).unwrap();
        let mut line = Line::connect(address, soon()).unwrap();
        line.send(hello.bytes.filled(), soon()).unwrap();
        let mut talk = Connection::new(line, Some(hello.session));
        talk.shake(soon()).unwrap();
        let sent = |line: &Line| line.seen.iter().filter(|seen| matches!(seen, Seen::Said { .. })).count();
        assert_eq!(sent(&talk.line), 1, "the hello, and ChangeCipherSpec waits");
        let long = vec![b'x'; 100_000];
        talk.send(&long, soon()).unwrap();
        assert_eq!(sent(&talk.line), 2, "the flight goes with what is sent first");
        while talk.plaintext.len() < long.len() {
            talk.must_receive(CHUNK, soon()).unwrap();
        }
        assert!(talk.plaintext.filled() == long && talk.own_ms > 0.0);
        talk.close(soon()).unwrap();
        while talk.receive(CHUNK, soon()).unwrap() != Got::End {}
        assert!(talk.is_closed, "the echo ends with close_notify");
        drop(talk);
        assert_eq!(backend.join().unwrap(), End::Fin);
    }
}
