//! A TLS connection that its thread waits for: for programs that make few connections and measure them one by one.
//!
//! In: an address or a connected socket, and a session. Out: plaintext, and when what happened; or a [`Failed`] with its step. No call waits
//! beyond its deadline. A hello is computed before dialling, and the last flight of a handshake waits for what is sent next, as in browsers.

mod line;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::fault::Fault;
use handfast_tls::buffer::Buffer;
use handfast_tls::client::{Client, ClientSession};
use handfast_tls::session::{Failure, Session};
use rustix::time::{ClockId, clock_gettime};

pub use line::{Got, Line, Seen};

/// Bytes of the first read of an answer: few, so that the kernel's timestamp is that of the first segment.
pub const FIRST: usize = 5;
/// Bytes of the next reads of a handshake: about a segment.
pub const THEN: usize = 1400;
/// Timeout for sending an alert.
const ALERT_TIMEOUT: Duration = Duration::from_secs(1);

/// A step of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// TCP.
    Connect,
    /// The plain-text protocol before TLS.
    Starttls,
    /// TLS, until data can be sent.
    Handshake,
    /// Everything after it.
    Exchange,
}

impl Step {
    /// The word in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Starttls => "starttls",
            Self::Handshake => "handshake",
            Self::Exchange => "exchange",
        }
    }
}

/// Failure of a connection, with its step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The step.
    pub step: Step,
    /// Cause of the failure.
    pub problem: Problem,
}

/// Cause of a connection's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Its socket failed.
    Socket(Fault),
    /// Its session failed.
    Session(Failure),
    /// A server answered a hello in plain HTTP.
    NotTls,
    /// The peer ended it too early.
    Ended,
    /// The deadline passed.
    Late,
}

impl Failed {
    /// A session's failure.
    pub fn session(failure: Failure) -> Self {
        Self { step: Step::Handshake, problem: Problem::Session(failure) }
    }

    /// The deadline passed: the peer may still send.
    pub fn is_late(&self) -> bool {
        self.problem == Problem::Late
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let step = self.step.name();
        match &self.problem {
            Problem::Socket(fault) => match fault.to_string() {
                call if call.starts_with(step) => f.write_str(&call),
                call => write!(f, "{step}: {call}"),
            },
            // A server of TLS 1.3 refuses a client after the handshake.
            Problem::Session(failure) => write!(f, "handshake: {failure}"),
            Problem::NotTls => write!(f, "{step}: the target answered in plain HTTP"),
            Problem::Ended => write!(f, "{step}: the target ended the connection"),
            Problem::Late => write!(f, "{step}: the timeout passed"),
        }
    }
}

impl std::error::Error for Failed {}

/// A client's session and its first bytes.
#[derive(Debug)]
pub struct Hello {
    /// The session.
    pub session: ClientSession,
    /// The ClientHello, and early data behind it.
    pub bytes: Buffer,
    /// Bytes of the ClientHello alone.
    pub length: usize,
    /// Number of bytes of early data in it: none, or all that the ticket allows.
    pub early: usize,
}

impl Hello {
    /// Computes one.
    ///
    /// **Errors**: the session's.
    pub fn new(client: &Client, resume: bool, early: &[u8]) -> Result<Self, Failed> {
        let mut session = client.connect(resume).map_err(Failed::session)?;
        let mut bytes = Buffer::default();
        session.start(&mut bytes).map_err(Failed::session)?;
        let length = bytes.len();
        let early = if early.is_empty() { 0 } else { session.early_data(early, &mut bytes) };
        Ok(Self { session, bytes, length, early })
    }
}

/// A connection, with TLS or without.
#[derive(Debug)]
pub struct Connection<T = ClientSession> {
    /// Its socket.
    pub line: Line,
    /// Its session.
    pub session: Option<T>,
    /// Received plaintext that was not taken yet.
    pub plaintext: Buffer,
    /// The peer sent close_notify.
    pub is_closed: bool,
    /// CPU time that the session took for what came, in milliseconds.
    pub own_ms: f64,
    has_failed: bool,
    outgoing: Buffer,
}

impl<T: Session> Connection<T> {
    /// Over a socket that is connected. The handshake of the session may be done or not.
    pub fn new(line: Line, session: Option<T>) -> Self {
        let (plaintext, outgoing) = (Buffer::default(), Buffer::default());
        Self { line, session, plaintext, is_closed: false, own_ms: 0.0, has_failed: false, outgoing }
    }

    /// Returns true if data can be sent.
    pub fn is_established(&self) -> bool {
        self.session.as_ref().is_none_or(Session::is_established)
    }

    fn fail<V>(&self, problem: Problem) -> Result<V, Failed> {
        Err(Failed { step: self.line.step, problem })
    }

    /// Receives once, at most `size` bytes, and appends what it means to the plaintext. After the end of TLS, bytes are skipped.
    ///
    /// **Errors**: the socket's or the session's. The alert for the peer is sent.
    pub fn receive(&mut self, size: usize, until: Moment) -> Result<Got, Failed> {
        let mut buffer = self.session.as_ref().map_or(&[][..], Session::kept).to_vec();
        let kept = buffer.len();
        buffer.resize(kept + size, 0);
        let got = self.line.receive(&mut buffer[kept..], until)?;
        if let Got::Bytes(bytes) = got {
            buffer.truncate(kept + bytes);
            self.take(&mut buffer)?;
        }
        Ok(got)
    }

    /// Takes in bytes that the caller has received, behind what the session keeps.
    ///
    /// **Errors**: as [`Self::receive`].
    pub fn take(&mut self, incoming: &mut [u8]) -> Result<(), Failed> {
        if self.is_closed || self.has_failed {
            return Ok(());
        }
        let Some(session) = &mut self.session else {
            self.plaintext.extend(incoming);
            return Ok(());
        };
        // No record begins so.
        if self.line.step == Step::Handshake && incoming.starts_with(b"HTTP/") {
            self.has_failed = true;
            return self.fail(Problem::NotTls);
        }
        let before = cpu_ms();
        let received = session.receive(incoming, &mut self.plaintext, &mut self.outgoing);
        self.own_ms += cpu_ms() - before;
        self.is_closed |= received.closed;
        let Some(failure) = received.failure else { return Ok(()) };
        self.has_failed = true;
        // The alert; if it cannot be sent, nothing changes.
        let _ = self.flush(Moment::now() + ALERT_TIMEOUT);
        self.fail(Problem::Session(failure))
    }

    /// Receives once; there must be something.
    ///
    /// **Errors**: also that the peer ended the connection, or that the deadline passed.
    pub fn must_receive(&mut self, size: usize, until: Moment) -> Result<usize, Failed> {
        let got = if self.is_closed { Got::End } else { self.receive(size, until)? };
        got.bytes().or_else(|problem| self.fail(problem))
    }

    /// Brings a handshake to its end. Our last flight is not sent yet.
    ///
    /// **Errors**: as [`Self::must_receive`].
    pub fn shake(&mut self, until: Moment) -> Result<(), Failed> {
        self.line.step = Step::Handshake;
        let mut size = FIRST;
        while !self.is_established() {
            self.must_receive(size, until)?;
            let has_answered = !self.is_established() && self.flush(until)?;
            size = if has_answered { FIRST } else { THEN };
        }
        self.line.step = Step::Exchange;
        Ok(())
    }

    /// Sends what the session has to send; whether there was something. ChangeCipherSpec alone waits for the next: it would be a packet without
    /// effect.
    ///
    /// **Errors**: the socket's, or the deadline passed.
    pub fn flush(&mut self, until: Moment) -> Result<bool, Failed> {
        const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];
        if self.outgoing.is_empty() || self.outgoing.filled() == CHANGE_CIPHER_SPEC {
            return Ok(false);
        }
        let records = std::mem::take(&mut self.outgoing);
        self.line.send(records.filled(), until).map(|()| true)
    }

    /// Returns the records for these bytes, after those that wait to be sent, without sending them.
    ///
    /// **Errors**: the session's.
    pub fn records(&mut self, plaintext: &[u8]) -> Result<Buffer, Failed> {
        match &mut self.session {
            None => self.outgoing.extend(plaintext),
            Some(_) if plaintext.is_empty() => {}
            Some(session) => session.encrypt(plaintext, &mut self.outgoing).map_err(Failed::session)?,
        }
        Ok(std::mem::take(&mut self.outgoing))
    }

    /// Sends, with whatever of a flight is not sent yet.
    ///
    /// **Errors**: the session's or the socket's, or the deadline passed.
    pub fn send(&mut self, plaintext: &[u8], until: Moment) -> Result<(), Failed> {
        let records = self.records(plaintext)?;
        self.line.send(records.filled(), until)
    }

    /// Sends close_notify, where there is TLS.
    ///
    /// **Errors**: as [`Self::flush`].
    pub fn close(&mut self, until: Moment) -> Result<bool, Failed> {
        if let Some(session) = &mut self.session {
            session.close(&mut self.outgoing);
        }
        self.flush(until)
    }
}

/// The CPU time of this thread so far, in milliseconds.
fn cpu_ms() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}
