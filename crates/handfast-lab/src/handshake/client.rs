//! The client of the handshake table: one connection, each of its moments noted.
//!
//! In: where to, and a maker of TLS sessions. Out: [`Times`], or what went wrong. It sends its request with its last flight, and
//! as early data where the ticket allows it, as a browser does.

use std::net::SocketAddr;
use std::time::Duration;

use handfast_leg::blocking::{self, Failed, Got, Hello, Line, Problem};
use handfast_net::clock::Moment;
use handfast_tls::buffer::Buffer;
use handfast_tls::client::Client;
use handfast_tls::session::{Agreed, Session};

use super::servers::NAME;
use crate::error::LabError;

/// Time limit for a silent connection.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20);
/// The longest response that is read.
const MAX_RESPONSE_BYTES: usize = 1 << 20;

/// Reason why a measurement failed.
#[derive(Debug)]
pub(super) enum MeasurementError {
    /// The lab itself.
    Lab(LabError),
    /// The connection.
    Failed(Failed),
    /// The server ended too early, or what it said is not HTTP.
    Answer(&'static str),
}

impl From<Failed> for MeasurementError {
    fn from(failed: Failed) -> Self {
        Self::Failed(failed)
    }
}

impl MeasurementError {
    pub(super) fn into_error(self, act: &str) -> LabError {
        let why = match self {
            Self::Lab(error) => return error,
            Self::Failed(failed) => failed.to_string(),
            Self::Answer(what) => what.to_owned(),
        };
        LabError::Late {
            what: format!("{act}: {why}"),
            hint: "what the server said is above, if anything".to_owned(),
        }
    }
}

/// Times of the events of a connection.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// Our address.
    pub(super) local: SocketAddr,
    /// connect() was called.
    pub(super) begun: Moment,
    /// It returned.
    pub(super) connected: Moment,
    /// Application data can be sent with all that TLS gives.
    pub(super) secured: Option<Moment>,
    /// The first byte of the response was there.
    pub(super) first_byte: Option<Moment>,
    /// Agreed parameters.
    pub(super) agreed: Agreed,
    /// True if early data was accepted; `None`: none was sent.
    pub(super) early: Option<bool>,
}

fn deadline() -> Moment {
    Moment::now() + SILENCE_TIMEOUT
}

/// Connects. The connection is open as long as the line is there.
pub(super) fn connect(to: SocketAddr) -> Result<(Times, Line), MeasurementError> {
    let line = Line::connect(to, deadline())?;
    let (begun, connected) = (line.begun(), Moment::now());
    let local = line.local().ok_or(MeasurementError::Answer("a connection without an address"))?;
    let agreed = Agreed::default();
    Ok((Times { local, begun, connected, secured: None, first_byte: None, agreed, early: None }, line))
}

/// Connects, shakes hands, asks for one resource, and reads it to its end.
pub(super) fn transact(
    to: SocketAddr,
    client: &Client,
    resume: bool,
) -> Result<(Times, Line), MeasurementError> {
    // Kept open: a server that may answer early data would also end the connection before the handshake is done.
    let request = request(false);
    let mut connection = Connection::open(to, client, resume, &request)?;
    connection.response()?;
    Ok((connection.times, connection.talk.line))
}

/// A request for the resource that every server has.
pub(super) fn request(last: bool) -> Vec<u8> {
    let close = if last { "Connection: close\r\n" } else { "" };
    format!("GET /body HTTP/1.1\r\nHost: {NAME}\r\n{close}\r\n").into_bytes()
}

/// A connection that is established.
pub(super) struct Connection {
    talk: blocking::Connection,
    ended: bool,
    pub(super) times: Times,
}

impl Connection {
    /// Opens one and sends `request` as soon as it may go.
    pub(super) fn open(
        to: SocketAddr,
        client: &Client,
        resume: bool,
        request: &[u8],
    ) -> Result<Self, MeasurementError> {
        let hello = Hello::new(client, resume, request)?;
        let (mut times, mut line) = connect(to)?;
        line.send(hello.bytes.filled(), deadline())?;
        let mut talk = blocking::Connection::new(line, Some(hello.session));
        talk.shake(deadline())?;
        times.secured = Some(Moment::now());
        if let Some(session) = &talk.session {
            (times.agreed, times.early) = (session.agreed(), session.early_data_accepted());
        }
        let is_sent = times.early == Some(true) && hello.early == request.len();
        talk.send(if is_sent { b"" } else { request }, deadline())?;
        let mut connection = Self { talk, ended: false, times };
        connection.note_first_byte();
        Ok(connection)
    }

    /// Sends, with whatever of a flight is not sent yet.
    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<(), MeasurementError> {
        Ok(self.talk.send(bytes, deadline())?)
    }

    /// Returns true if the server has ended it.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Plaintext that has come and is not taken.
    pub(super) fn plaintext(&mut self) -> &mut Buffer {
        &mut self.talk.plaintext
    }

    /// Reads once; what came is decrypted.
    pub(super) fn read(&mut self) -> Result<(), MeasurementError> {
        if self.talk.plaintext.len() > MAX_RESPONSE_BYTES {
            return Err(MeasurementError::Answer("the response is longer than the request allowed"));
        }
        match self.talk.receive(32 << 10, deadline())? {
            Got::Bytes(_) => {}
            Got::End => self.ended = true,
            Got::Nothing => return Err(Failed { step: self.talk.line.step, problem: Problem::Late }.into()),
        }
        self.ended |= self.talk.is_closed;
        self.note_first_byte();
        Ok(())
    }

    fn note_first_byte(&mut self) {
        if !self.talk.plaintext.is_empty() && self.times.first_byte.is_none() {
            self.times.first_byte = Some(Moment::now());
        }
    }

    /// Reads one response and takes it out: to its Content-Length, or to the end of the connection.
    pub(super) fn response(&mut self) -> Result<(), MeasurementError> {
        loop {
            if let Some(length) = whole(self.talk.plaintext.filled(), self.ended)? {
                self.talk.plaintext.take(length);
                return Ok(());
            }
            if self.ended {
                return Err(MeasurementError::Answer(
                    "the server ended the connection before its response was complete",
                ));
            }
            self.read()?;
        }
    }
}

/// Bytes of the response, when all of it is there.
fn whole(bytes: &[u8], ended: bool) -> Result<Option<usize>, MeasurementError> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { return Ok(None) };
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    if !(head.starts_with("http/1.1 200") || head.starts_with("http/1.0 200")) {
        return Err(MeasurementError::Answer("the server did not answer with 200"));
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    match length.and_then(|length| length.trim().parse::<usize>().ok()) {
        Some(length) => Ok((bytes.len() >= end + 4 + length).then_some(end + 4 + length)),
        None => Ok(ended.then_some(bytes.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_whole_when_its_length_is_there_or_its_connection_ended() {
        let response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
        for length in 0..response.len() {
            assert!(matches!(whole(&response[..length], false), Ok(None)), "{length}");
        }
        assert!(matches!(whole(response, false), Ok(Some(length)) if length == response.len()));
        let open = b"HTTP/1.0 200 ok\r\n\r\nab";
        assert!(matches!(whole(open, false), Ok(None)));
        assert!(matches!(whole(open, true), Ok(Some(21))));
        assert!(whole(b"HTTP/1.1 404 no\r\n\r\n", false).is_err());
    }
}
