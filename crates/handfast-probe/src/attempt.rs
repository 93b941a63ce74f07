//! One connection from its first packet to its end: what was agreed on, when what happened, how it ended.
//!
//! In: an [`Ask`]. Out: an [`Attempt`], or why it failed. The session's key share is computed before the dialling begins, and our
//! last flight is sent with the request, as browsers do. ChangeCipherSpec waits for that flight, since it would otherwise be a
//! packet without effect.

use std::net::SocketAddr;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::sys::stamps::Counts;
use handfast_tls::buffer::Buffer;
use handfast_tls::client::observed::{self, Shown};
use handfast_tls::client::{Client, ClientSession};
use handfast_tls::session::{Agreed, Session};
use handfast_wire::starttls::{self, Progress};
use rustix::time::{ClockId, clock_gettime};

use crate::flights::{SegmentSize, Turn, turns};
use crate::http::{Head, Response};
use crate::line::{Got, Line};
use crate::tally::Tally;
use crate::target::Target;
use crate::trouble::{Step, Trouble};

/// The settings of one connection.
pub(crate) struct Ask<'a> {
    pub(crate) target: &'a Target,
    pub(crate) address: SocketAddr,
    pub(crate) client: &'a Client,
    pub(crate) resume: bool,
    /// The request goes as early data, where a ticket allows it.
    pub(crate) early: bool,
    /// A request, and how often it is made.
    pub(crate) request: Option<(&'a [u8], u32)>,
    /// How long one step may take.
    pub(crate) timeout: Duration,
    /// The number of tickets to wait for, and for how long beyond a round trip.
    pub(crate) tickets: (usize, Duration),
    /// Whether to read the chain, and to observe how the server closes.
    pub(crate) look: bool,
    /// The counters that it is added to.
    pub(crate) tally: &'a Tally,
}

/// The result of one connection. Times are milliseconds since the start of the connect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    /// Our address.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) connected: f64,
    /// When TLS could begin, and the number of round trips before it besides TCP's.
    pub(crate) begun: f64,
    pub(crate) starttls_trips: u32,
    pub(crate) secured: f64,
    /// When the request had gone, each response's first byte came, and the first one was complete.
    pub(crate) requested: Option<f64>,
    pub(crate) first_byte: Option<f64>,
    pub(crate) complete: Option<f64>,
    /// Further requests on the same connection: the time from sending to the first byte.
    pub(crate) again: Vec<f64>,
    pub(crate) rtt: f64,
    /// Our own computing within the handshake.
    pub(crate) own: f64,
    pub(crate) agreed: Agreed,
    pub(crate) offered: bool,
    pub(crate) early: Option<bool>,
    pub(crate) tickets: usize,
    pub(crate) hello_bytes: usize,
    pub(crate) hello_segments: u32,
    /// From the hello on.
    pub(crate) turns: Vec<Turn>,
    /// When the handshake was over.
    pub(crate) counts: Counts,
    pub(crate) chain: Vec<Shown>,
    pub(crate) head: Option<Head>,
    pub(crate) body_bytes: u64,
    pub(crate) closing: Option<Closing>,
}

/// How the server closed, after a clean close on our side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Closing {
    /// It sent close_notify.
    pub(crate) notified: bool,
    /// It ended before our FIN, on our close_notify alone.
    pub(crate) at_once: bool,
    pub(crate) how: Ended,
}

/// The last that the server sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ended {
    #[default]
    Nothing,
    /// close_notify.
    Notified,
    Fin,
    Reset,
}

impl Ended {
    /// The word in reports.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Notified => "close_notify",
            Self::Fin => "fin",
            Self::Reset => "reset",
        }
    }
}

impl Attempt {
    /// Turns up to the end of the handshake.
    pub(crate) fn handshake(&self) -> impl Iterator<Item = &Turn> {
        self.turns.iter().filter(|turn| turn.first_ms().is_some_and(|first| first <= self.secured))
    }

    /// Round trips of the handshake.
    pub(crate) fn trips(&self) -> u32 {
        self.handshake().map(|turn| turn.round_trips_until(self.secured)).sum()
    }

    /// Round trips from the beginning of TLS to the first byte of the response.
    pub(crate) fn trips_to_first_byte(&self) -> Option<u32> {
        let until = self.first_byte?;
        Some(self.turns.iter().map(|turn| turn.round_trips_until(until)).sum())
    }

    /// How long the server was busy in the handshake.
    pub(crate) fn think(&self) -> f64 {
        self.handshake().map(|turn| turn.think_ms).sum()
    }

    /// The time between the server's answer and our next bytes, or the end of the handshake.
    pub(crate) fn held(&self) -> f64 {
        let turns: Vec<&Turn> = self.handshake().collect();
        let next = turns.iter().skip(1).map(|turn| turn.said_ms).chain([self.secured]);
        let held = |(turn, next): (&&Turn, f64)| {
            let arrived = turn.bursts.iter().rfind(|burst| burst.first_ms <= self.secured);
            arrived.map_or(0.0, |burst| (next.min(self.secured) - burst.last_ms).max(0.0))
        };
        turns.iter().zip(next).map(held).sum()
    }

    /// From the beginning of TLS to its end.
    pub(crate) fn tls(&self) -> f64 {
        self.secured - self.begun
    }
}

/// The CPU time of this thread so far, in milliseconds.
fn cpu_ms() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e3 + now.tv_nsec as f64 / 1e6
}

/// Bytes of one read: few at first, so that the kernel's timestamp is that of the first segment.
const FIRST: usize = 5;
const THEN: usize = 1400;

/// Makes the connection.
///
/// **Errors**: the step that failed, and why.
pub(crate) fn attempt(ask: &Ask<'_>) -> Result<Attempt, Trouble> {
    let mut made = Attempt::default();
    let mut talk = open(ask, &mut made)?;
    talk.exchange(ask, &mut made)?;
    talk.wait_for_tickets(ask, &mut made)?;
    made.tickets = talk.session.tickets_received();
    if ask.look {
        made.chain = observed::chain(talk.session.chain());
    }
    talk.look_back(&mut made);
    talk.close(ask, &mut made);
    ask.tally.made(&made);
    Ok(made)
}

/// Connects and shakes hands; our last flight waits for the request.
pub(crate) fn open(ask: &Ask<'_>, made: &mut Attempt) -> Result<Talk, Trouble> {
    let internal = |failure| Trouble::session(&failure);
    let mut session = ask.client.connect(ask.resume).map_err(internal)?;
    let mut hello = Buffer::default();
    session.start(&mut hello).map_err(internal)?;
    let hello_bytes = hello.len();
    let mut early = 0;
    if let (true, Some((request, _))) = (ask.early, ask.request) {
        early = session.early_data(request, &mut hello);
    }
    let mut line = Line::connect(ask.address, Moment::now() + ask.timeout)?;
    ask.tally.connected();
    made.local = line.local();
    (made.connected, made.rtt, made.hello_bytes) = (line.connected_ms, line.rtt_ms, hello_bytes);
    made.offered = session.offered_ticket();
    if let Some(protocol) = ask.target.starttls {
        say_starttls(ask, &mut line, protocol)?;
        made.starttls_trips =
            turns(&line.seen, line.rtt_ms, SegmentSize::of(536)).iter().map(Turn::round_trips).sum();
        line.seen.clear();
    }
    made.begun = line.now_ms();
    let before = line.counts().data_segments_out;
    line.send(hello.filled(), Step::Handshake, Moment::now() + ask.timeout)?;
    made.hello_segments = line.counts().data_segments_out.saturating_sub(before);
    let mut talk =
        Talk { line, session, plaintext: Buffer::default(), outgoing: Buffer::default(), closed: false };
    talk.shake(ask, made)?;
    made.early = if early > 0 { talk.session.early_data_accepted() } else { None };
    Ok(talk)
}

/// Asks for TLS in the target's own protocol.
fn say_starttls(ask: &Ask<'_>, line: &mut Line, protocol: starttls::Protocol) -> Result<(), Trouble> {
    let deadline = Moment::now() + ask.timeout;
    let mut client = starttls::Client::new(protocol, &ask.target.host);
    let mut words = Vec::new();
    client.begin(&mut words);
    let mut buffer = [0; 2048];
    loop {
        line.send(&words, Step::Starttls, deadline)?;
        words.clear();
        match line.receive(&mut buffer, Step::Starttls, deadline)? {
            Got::Bytes(bytes) => {
                let progress = client
                    .take(&buffer[..bytes], &mut words)
                    .map_err(|problem| Trouble::starttls(&problem))?;
                if progress != Progress::More {
                    return line.send(&words, Step::Starttls, deadline);
                }
            }
            Got::End => return Err(Trouble::ended(Step::Starttls)),
            Got::Nothing => return Err(Trouble::late(Step::Starttls)),
        }
    }
}

/// A connection with TLS.
pub(crate) struct Talk {
    pub(crate) line: Line,
    session: ClientSession,
    plaintext: Buffer,
    outgoing: Buffer,
    /// The server sent close_notify.
    pub(crate) closed: bool,
}

impl Talk {
    /// Receives once and gives it to the session; appends plaintext.
    fn receive(&mut self, step: Step, until: Moment, size: usize, own: &mut f64) -> Result<Got, Trouble> {
        let kept = self.session.kept().to_vec();
        let mut buffer = vec![0; kept.len() + size];
        buffer[..kept.len()].copy_from_slice(&kept);
        let got = self.line.receive(&mut buffer[kept.len()..], step, until)?;
        let Got::Bytes(bytes) = got else { return Ok(got) };
        if step == Step::Handshake && kept.is_empty() && buffer.starts_with(b"HTTP/") {
            return Err(Trouble::new(step, "not-tls", "handshake: the target answered in plain HTTP")
                .hint("TLS is on another port, 443 as a rule"));
        }
        let before = cpu_ms();
        let received =
            self.session.receive(&mut buffer[..kept.len() + bytes], &mut self.plaintext, &mut self.outgoing);
        *own += cpu_ms() - before;
        self.closed |= received.closed;
        if let Some(failure) = received.failure {
            // The alert; if it cannot be sent, nothing changes.
            let alert = std::mem::take(&mut self.outgoing);
            let _ = self.line.send(alert.filled(), step, Moment::now() + Duration::from_secs(1));
            let mut trouble = Trouble::session(&failure);
            trouble.step = step;
            return Err(trouble);
        }
        Ok(got)
    }

    /// Sends the session's output, unless it is ChangeCipherSpec alone.
    fn flush(&mut self, step: Step, deadline: Moment) -> Result<(), Trouble> {
        const CHANGE_CIPHER_SPEC: [u8; 6] = [20, 3, 3, 0, 1, 1];
        if self.outgoing.is_empty() || self.outgoing.filled() == CHANGE_CIPHER_SPEC {
            return Ok(());
        }
        let words = std::mem::take(&mut self.outgoing);
        self.line.send(words.filled(), step, deadline)
    }

    fn shake(&mut self, ask: &Ask<'_>, made: &mut Attempt) -> Result<(), Trouble> {
        let deadline = Moment::now() + ask.timeout;
        let mut size = FIRST;
        while !self.session.is_established() {
            match self.receive(Step::Handshake, deadline, size, &mut made.own)? {
                Got::Bytes(_) => {}
                Got::End => return Err(Trouble::ended(Step::Handshake)),
                Got::Nothing => return Err(Trouble::late(Step::Handshake)),
            }
            size = THEN;
            if !self.session.is_established() {
                let spoken = self.line.seen.len();
                self.flush(Step::Handshake, deadline)?;
                if self.line.seen.len() > spoken {
                    size = FIRST;
                }
            }
        }
        made.secured = self.line.now_ms();
        made.counts = self.line.counts();
        Ok(())
    }

    /// Our last flight with the first request, and the responses.
    fn exchange(&mut self, ask: &Ask<'_>, made: &mut Attempt) -> Result<(), Trouble> {
        let deadline = Moment::now() + ask.timeout;
        let Some((request, times)) = ask.request else {
            return self.flush(Step::Handshake, deadline);
        };
        for number in 0..times.max(1) {
            let sent_early = number == 0 && made.early == Some(true);
            let said = self.line.now_ms();
            if number == 0 {
                made.requested = Some(said);
            }
            let (first, response) = self.ask_once(if sent_early { b"" } else { request }, ask.timeout)?;
            if number == 0 {
                (made.first_byte, made.complete) = (Some(first), Some(self.line.now_ms()));
                made.body_bytes = response.body_bytes;
            } else {
                made.again.push(first - said);
            }
            let closes = response.head.closes || self.closed;
            made.head = Some(response.head);
            if closes {
                break;
            }
        }
        Ok(())
    }

    /// Everything sent and received so far, as turns; and the negotiated parameters.
    pub(crate) fn look_back(&mut self, made: &mut Attempt) {
        self.line.take_notes();
        let received = (made.counts.received_segment_size as usize).max(536);
        let segment =
            SegmentSize { least: received, most: received.max(made.counts.sent_segment_size as usize) };
        // The SYN's round trip may include ARP, or waking an idle radio.
        let least = f64::from(made.counts.least_round_trip_us) / 1e3;
        made.rtt = if least > 0.0 { made.rtt.min(least) } else { made.rtt };
        made.turns = turns(&self.line.seen, made.rtt, segment);
        made.agreed = self.session.agreed();
    }

    /// Makes one request, and reads its response: when its first byte came, and what it says.
    pub(crate) fn ask_once(&mut self, request: &[u8], timeout: Duration) -> Result<(f64, Response), Trouble> {
        if !request.is_empty() {
            let words = self.session.encrypt(request, &mut self.outgoing);
            words.map_err(|failure| Trouble::session(&failure))?;
        }
        self.flush(Step::Exchange, Moment::now() + timeout)?;
        self.response(Moment::now() + timeout)
    }

    /// Waits until the server ends the connection in any way; `None`: it did not before the deadline.
    pub(crate) fn outlast(&mut self, until: Moment) -> Option<Ended> {
        loop {
            if self.closed {
                return Some(Ended::Notified);
            }
            match self.receive(Step::Exchange, until, THEN, &mut 0.0) {
                // What the server sends unasked, such as tickets.
                Ok(Got::Bytes(_)) => {}
                Ok(Got::End) => return Some(Ended::Fin),
                Ok(Got::Nothing) => return None,
                Err(_) => return Some(Ended::Reset),
            }
        }
    }

    /// Reads one response: when its first byte came, and what it says.
    fn response(&mut self, deadline: Moment) -> Result<(f64, Response), Trouble> {
        const STEP: Step = Step::Exchange;
        let mut response = Response::new();
        let mut first = None;
        let mut size = FIRST;
        loop {
            if !self.plaintext.is_empty() {
                first.get_or_insert_with(|| self.line.last_heard());
                let bytes = std::mem::take(&mut self.plaintext);
                response
                    .take(bytes.filled())
                    .map_err(|why| Trouble::new(STEP, "http", format!("exchange: {why}")))?;
            }
            if let (true, Some(first)) = (response.is_over(), first) {
                return Ok((first, response));
            }
            let got = if self.closed { Got::End } else { self.receive(STEP, deadline, size, &mut 0.0)? };
            size = THEN << 3;
            match got {
                Got::Bytes(_) => self.flush(STEP, deadline)?,
                Got::End => {
                    return match (response.ends_with_connection(), first) {
                        (true, Some(first)) => Ok((first, response)),
                        _ => Err(Trouble::ended(STEP)),
                    };
                }
                Got::Nothing => return Err(Trouble::late(STEP)),
            }
        }
    }

    /// Waits briefly until this number of tickets has arrived: a server need not send any.
    fn wait_for_tickets(&mut self, ask: &Ask<'_>, made: &mut Attempt) -> Result<(), Trouble> {
        let (number, patience) = ask.tickets;
        let until = Moment::now() + patience + Duration::from_secs_f64(made.rtt.max(0.0) * 2e-3);
        while self.session.tickets_received() < number && !self.closed {
            match self.receive(Step::Exchange, until, THEN << 3, &mut 0.0) {
                Ok(Got::Bytes(_)) => self.flush(Step::Exchange, until)?,
                Ok(Got::End) => {
                    self.closed = true;
                    break;
                }
                Ok(Got::Nothing) => break,
                // A TLS 1.3 server sends its refusal after the handshake.
                Err(trouble) if trouble.cause == "alert" => return Err(trouble),
                // The handshake is over: a missing service behind it is no failure of the handshake.
                Err(_) => {
                    made.closing = Some(Closing { how: Ended::Reset, ..Closing::default() });
                    break;
                }
            }
        }
        Ok(())
    }

    /// Closes cleanly; if `ask` says so, waits for the server's reaction.
    fn close(mut self, ask: &Ask<'_>, made: &mut Attempt) {
        let second = Duration::from_secs(1);
        self.session.close(&mut self.outgoing);
        let words = std::mem::take(&mut self.outgoing);
        // The result does not matter: a server that is gone has closed already.
        let _ = self.line.send(words.filled(), Step::Exchange, Moment::now() + second);
        if !ask.look || made.closing.is_some() {
            self.line.end();
            return;
        }
        let patience = Duration::from_millis(400) + Duration::from_secs_f64(made.rtt.max(0.0) * 2e-3);
        let mut closing = Closing { notified: self.closed, ..Closing::default() };
        for at_once in [true, false] {
            let until = Moment::now() + patience;
            loop {
                match self.receive(Step::Exchange, until, THEN << 3, &mut 0.0) {
                    Ok(Got::Bytes(_)) => continue,
                    Ok(Got::Nothing) => {}
                    Ok(Got::End) => closing.how = Ended::Fin,
                    Err(_) => closing.how = Ended::Reset,
                }
                break;
            }
            closing.notified |= self.closed;
            closing.at_once = at_once;
            if closing.how != Ended::Nothing {
                break;
            }
            self.line.end();
        }
        made.closing = Some(closing);
    }
}
