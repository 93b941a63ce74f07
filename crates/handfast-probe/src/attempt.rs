//! One connection from its first packet to its end: what was agreed on, when what happened, how it ended.
//!
//! In: [`AttemptSettings`]. Out: an [`Attempt`], or why it failed. The session's key share is computed before the dialling begins, and our
//! last flight is sent with the request, as browsers do. ChangeCipherSpec waits for that flight, since it would otherwise be a
//! packet without effect.

use std::net::SocketAddr;
use std::time::Duration;

use handfast_leg::blocking::{self, Connection, FIRST, Failed, Got, Hello, Line, Problem, THEN};
use handfast_net::clock::Moment;
use handfast_net::sys::stamps::Counts;
use handfast_tls::client::Client;
use handfast_tls::client::observed::{self, Shown};
use handfast_tls::session::{Agreed, FailureKind, Session};
use handfast_wire::starttls::{self, Progress};

use crate::error::{ProbeError, Step};
use crate::flights::{Exchange, SegmentSize, exchanges};
use crate::http::{Head, Response};
use crate::tally::Tally;
use crate::target::Target;

/// The settings of one connection.
pub(crate) struct AttemptSettings<'a> {
    pub(crate) target: &'a Target,
    pub(crate) address: SocketAddr,
    pub(crate) client: &'a Client,
    pub(crate) resume: bool,
    /// The request goes as early data, where a ticket allows it.
    pub(crate) early: bool,
    /// A request, and how often it is made.
    pub(crate) request: Option<(&'a [u8], u32)>,
    /// Timeout of one step.
    pub(crate) timeout: Duration,
    /// The number of tickets to wait for, and for how long beyond a round trip.
    pub(crate) tickets: (usize, Duration),
    /// True to read the chain, and to observe how the server closes.
    pub(crate) should_inspect: bool,
    /// The counters that it is added to.
    pub(crate) tally: &'a Tally,
}

/// The result of one connection. Times are milliseconds since the start of the connect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Attempt {
    /// Our address.
    pub(crate) local: Option<SocketAddr>,
    pub(crate) connected: f64,
    /// Time at which TLS could begin, and the number of round trips before it besides TCP's.
    pub(crate) begun: f64,
    pub(crate) starttls_trips: u32,
    pub(crate) secured: f64,
    /// Times at which the request was sent, the first response's first byte came, and the first response was complete.
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
    pub(crate) exchanges: Vec<Exchange>,
    /// Counts at the end of the handshake.
    pub(crate) counts: Counts,
    pub(crate) chain: Vec<Shown>,
    pub(crate) head: Option<Head>,
    pub(crate) body_bytes: u64,
    pub(crate) closing: Option<Closing>,
}

/// Way in which the server closed, after a clean close on our side.
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
    pub(crate) fn handshake(&self) -> impl Iterator<Item = &Exchange> {
        self.exchanges
            .iter()
            .filter(|exchange| exchange.first_ms().is_some_and(|first| first <= self.secured))
    }

    /// Round trips of the handshake.
    pub(crate) fn trips(&self) -> u32 {
        self.handshake().map(|exchange| exchange.round_trips_until(self.secured)).sum()
    }

    /// Round trips from the beginning of TLS to the first byte of the response.
    pub(crate) fn trips_to_first_byte(&self) -> Option<u32> {
        let until = self.first_byte?;
        Some(self.exchanges.iter().map(|exchange| exchange.round_trips_until(until)).sum())
    }

    /// Time for which the server was busy in the handshake.
    pub(crate) fn think(&self) -> f64 {
        self.handshake().map(|exchange| exchange.think_ms).sum()
    }

    /// The time between the server's answer and our next bytes, or the end of the handshake.
    pub(crate) fn held(&self) -> f64 {
        let exchanges: Vec<&Exchange> = self.handshake().collect();
        let next = exchanges.iter().skip(1).map(|exchange| exchange.sent_ms).chain([self.secured]);
        let held = |(exchange, next): (&&Exchange, f64)| {
            let arrived = exchange.bursts.iter().rfind(|burst| burst.first_ms <= self.secured);
            arrived.map_or(0.0, |burst| (next.min(self.secured) - burst.last_ms).max(0.0))
        };
        exchanges.iter().zip(next).map(held).sum()
    }

    /// From the beginning of TLS to its end.
    pub(crate) fn tls(&self) -> f64 {
        self.secured - self.begun
    }
}

/// Makes the connection.
///
/// **Errors**: the step that failed, and why.
pub(crate) fn attempt(ask: &AttemptSettings<'_>) -> Result<Attempt, ProbeError> {
    let mut made = Attempt::default();
    let mut talk = open(ask, &mut made)?;
    talk.exchange(ask, &mut made)?;
    talk.wait_for_tickets(ask, &mut made)?;
    if let Some(session) = &talk.0.session {
        made.tickets = session.tickets_received();
        made.chain = if ask.should_inspect { observed::chain(session.chain()) } else { Vec::new() };
    }
    talk.record_exchanges(&mut made);
    talk.close(ask, &mut made);
    ask.tally.made(&made);
    Ok(made)
}

/// Connects and shakes hands; our last flight waits for the request.
pub(crate) fn open(ask: &AttemptSettings<'_>, made: &mut Attempt) -> Result<Talk, ProbeError> {
    let early = ask.request.filter(|_| ask.early).map_or(&[][..], |(request, _)| request);
    let hello = Hello::new(ask.client, ask.resume, early)?;
    let mut line = Line::connect(ask.address, Moment::now() + ask.timeout)?;
    ask.tally.connected();
    made.local = line.local();
    (made.connected, made.rtt, made.hello_bytes) = (line.connected_ms, line.rtt_ms, hello.length);
    made.offered = hello.session.offered_ticket();
    if let Some(protocol) = ask.target.starttls {
        negotiate_starttls(ask, &mut line, protocol)?;
        made.starttls_trips =
            exchanges(&line.seen, line.rtt_ms, SegmentSize::of(536)).iter().map(Exchange::round_trips).sum();
        line.seen.clear();
    }
    made.begun = line.now_ms();
    let before = line.counts().data_segments_out;
    line.step = blocking::Step::Handshake;
    line.send(hello.bytes.filled(), Moment::now() + ask.timeout)?;
    made.hello_segments = line.counts().data_segments_out.saturating_sub(before);
    let mut connection = Connection::new(line, Some(hello.session));
    connection.shake(Moment::now() + ask.timeout)?;
    (made.secured, made.counts) = (connection.line.now_ms(), connection.line.counts());
    made.own = connection.own_ms;
    let session = connection.session.as_ref().filter(|_| hello.early > 0);
    made.early = session.and_then(|session| session.early_data_accepted());
    Ok(Talk(connection))
}

/// Asks for TLS in the target's own protocol.
fn negotiate_starttls(
    ask: &AttemptSettings<'_>,
    line: &mut Line,
    protocol: starttls::Protocol,
) -> Result<(), ProbeError> {
    let deadline = Moment::now() + ask.timeout;
    let mut client = starttls::Client::new(protocol, &ask.target.host);
    let mut words = Vec::new();
    client.begin(&mut words);
    let mut buffer = [0; 2048];
    line.step = blocking::Step::Starttls;
    loop {
        line.send(&words, deadline)?;
        words.clear();
        let bytes = line.must_receive(&mut buffer, deadline)?;
        let progress = client.take(&buffer[..bytes], &mut words);
        if progress.map_err(|problem| ProbeError::starttls(&problem))? != Progress::More {
            return Ok(line.send(&words, deadline)?);
        }
    }
}

/// A connection with TLS.
pub(crate) struct Talk(pub(crate) Connection);

impl Talk {
    /// Our last flight with the first request, and the responses.
    fn exchange(&mut self, ask: &AttemptSettings<'_>, made: &mut Attempt) -> Result<(), ProbeError> {
        let deadline = Moment::now() + ask.timeout;
        let Some((request, times)) = ask.request else {
            self.0.flush(deadline)?;
            return Ok(());
        };
        for number in 0..times.max(1) {
            let sent_early = number == 0 && made.early == Some(true);
            let sent_at = self.0.line.now_ms();
            if number == 0 {
                made.requested = Some(sent_at);
            }
            let (first, response) = self.send_request(if sent_early { b"" } else { request }, ask.timeout)?;
            if number == 0 {
                (made.first_byte, made.complete) = (Some(first), Some(self.0.line.now_ms()));
                made.body_bytes = response.body_bytes;
            } else {
                made.again.push(first - sent_at);
            }
            let closes = response.head.closes || self.0.is_closed;
            made.head = Some(response.head);
            if closes {
                break;
            }
        }
        Ok(())
    }

    /// Everything sent and received so far, as exchanges; and the negotiated parameters.
    pub(crate) fn record_exchanges(&mut self, made: &mut Attempt) {
        self.0.line.take_notes();
        let received = (made.counts.received_segment_size as usize).max(536);
        let segment =
            SegmentSize { least: received, most: received.max(made.counts.sent_segment_size as usize) };
        // The SYN's round trip may include ARP, or waking an idle radio.
        let least = f64::from(made.counts.least_round_trip_us) / 1e3;
        made.rtt = if least > 0.0 { made.rtt.min(least) } else { made.rtt };
        made.exchanges = exchanges(&self.0.line.seen, made.rtt, segment);
        made.agreed = self.0.session.as_ref().map(Session::agreed).unwrap_or_default();
    }

    /// Makes one request, and reads its response: when its first byte came, and what it says.
    pub(crate) fn send_request(
        &mut self,
        request: &[u8],
        timeout: Duration,
    ) -> Result<(f64, Response), ProbeError> {
        self.0.send(request, Moment::now() + timeout)?;
        self.response(Moment::now() + timeout)
    }

    /// Waits until the server ends the connection in any way; `None`: it did not before the deadline.
    pub(crate) fn outlast(&mut self, until: Moment) -> Option<Ended> {
        loop {
            if self.0.is_closed {
                return Some(Ended::Notified);
            }
            match self.0.receive(THEN, until) {
                // Unrequested bytes of the server, such as tickets.
                Ok(Got::Bytes(_)) => {}
                Ok(Got::End) => return Some(Ended::Fin),
                Ok(Got::Nothing) => return None,
                Err(_) => return Some(Ended::Reset),
            }
        }
    }

    /// Reads one response: when its first byte came, and what it says.
    fn response(&mut self, deadline: Moment) -> Result<(f64, Response), ProbeError> {
        let mut response = Response::new();
        let mut first = None;
        let mut size = FIRST;
        loop {
            if !self.0.plaintext.is_empty() {
                first.get_or_insert_with(|| self.0.line.last_received());
                let bytes = std::mem::take(&mut self.0.plaintext);
                let taken = response.take(bytes.filled());
                taken.map_err(|why| ProbeError::new(Step::Exchange, "http", format!("exchange: {why}")))?;
            }
            if let (true, Some(first)) = (response.is_over(), first) {
                return Ok((first, response));
            }
            match (self.0.must_receive(size, deadline), first) {
                (Ok(_), _) => self.0.flush(deadline)?,
                (Err(Failed { problem: Problem::Ended, .. }), Some(first))
                    if response.ends_with_connection() =>
                {
                    return Ok((first, response));
                }
                (Err(failed), _) => return Err(failed.into()),
            };
            size = THEN << 3;
        }
    }

    /// Waits briefly until this number of tickets has arrived: a server need not send any.
    fn wait_for_tickets(&mut self, ask: &AttemptSettings<'_>, made: &mut Attempt) -> Result<(), ProbeError> {
        let (number, timeout) = ask.tickets;
        let until = Moment::now() + timeout + Duration::from_secs_f64(made.rtt.max(0.0) * 2e-3);
        let has = |talk: &Self| talk.0.session.as_ref().map_or(0, |session| session.tickets_received());
        while has(self) < number && !self.0.is_closed {
            match self.0.receive(THEN << 3, until) {
                Ok(Got::Bytes(_)) => drop(self.0.flush(until)?),
                Ok(Got::End) => {
                    self.0.is_closed = true;
                    break;
                }
                Ok(Got::Nothing) => break,
                // A TLS 1.3 server sends its refusal after the handshake.
                Err(Failed { step, problem: Problem::Session(failure) })
                    if failure.kind == FailureKind::Alert =>
                {
                    return Err(Failed { step, problem: Problem::Session(failure) }.into());
                }
                // The handshake is over: a missing service behind it is no failure of the handshake.
                Err(_) => {
                    made.closing = Some(Closing { how: Ended::Reset, ..Closing::default() });
                    break;
                }
            }
        }
        Ok(())
    }

    /// Closes cleanly; with `ask.look`, waits for the server's reaction.
    fn close(mut self, ask: &AttemptSettings<'_>, made: &mut Attempt) {
        let second = Duration::from_secs(1);
        // The result does not matter: a server that is gone has closed already.
        let _ = self.0.close(Moment::now() + second);
        if !ask.should_inspect || made.closing.is_some() {
            self.0.line.end();
            return;
        }
        let timeout = Duration::from_millis(400) + Duration::from_secs_f64(made.rtt.max(0.0) * 2e-3);
        let mut closing = Closing { notified: self.0.is_closed, ..Closing::default() };
        for at_once in [true, false] {
            let until = Moment::now() + timeout;
            loop {
                match self.0.receive(THEN << 3, until) {
                    Ok(Got::Bytes(_)) => continue,
                    Ok(Got::Nothing) => {}
                    Ok(Got::End) => closing.how = Ended::Fin,
                    Err(_) => closing.how = Ended::Reset,
                }
                break;
            }
            closing.notified |= self.0.is_closed;
            closing.at_once = at_once;
            if closing.how != Ended::Nothing {
                break;
            }
            self.0.line.end();
        }
        made.closing = Some(closing);
    }
}
