//! One TCP connection with the kernel's timestamps: when bytes were sent, acknowledged and received.
//!
//! In: an address, or a socket. Out: bytes, and the list of bytes sent and received, in milliseconds since the start of the connect. It
//! waits by poll(2), never beyond a deadline; the socket itself may be blocking or not.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

use handfast_net::clock::Moment;
use handfast_net::fault::{Cause, Fault, Operation};
use handfast_net::sys::stamps::{self, Counts, Noted};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{Failed, Problem, Step};

/// Bytes that were sent or received.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// We sent.
    Sent {
        /// Time of the call of send(2).
        at_ms: f64,
        /// Number of bytes.
        bytes: usize,
        /// Number of the last byte.
        last: u32,
        /// Time when the last byte was given to the device.
        sent_ms: Option<f64>,
        /// Time when the peer's kernel had acknowledged the last byte.
        acknowledged_ms: Option<f64>,
    },
    /// We received.
    Received {
        /// Time when the last of these bytes arrived.
        at_ms: f64,
        /// Number of bytes.
        bytes: usize,
    },
}

/// A connection.
#[derive(Debug)]
pub struct Line {
    /// Its socket.
    pub stream: TcpStream,
    clock: Clock,
    /// Bytes that were sent, ever.
    sent: u64,
    is_stamped: bool,
    /// A write has failed: the kernel reports a reset once, and the next read looks like a clean end.
    pub is_aborted: bool,
    /// The present step, for errors.
    pub step: Step,
    /// Bytes sent and received, of a line that was dialled here.
    pub seen: Vec<Seen>,
    /// Time when connect(2) ended.
    pub connected_ms: f64,
    /// Round trip of the SYN, by the kernel.
    pub rtt_ms: f64,
}

/// Start of the connection by both clocks: the program's, and that of the kernel's timestamps.
#[derive(Clone, Copy, Debug)]
struct Clock {
    moment: Moment,
    since_1970: Duration,
}

impl Clock {
    fn start() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(now.tv_nsec).unwrap_or(0);
        Self { moment: Moment::now(), since_1970: Duration::new(seconds, nanos) }
    }

    fn now_ms(&self) -> f64 {
        Moment::now().since(self.moment).as_secs_f64() * 1e3
    }

    fn stamp_ms(&self, stamp: Duration) -> f64 {
        (stamp.as_secs_f64() - self.since_1970.as_secs_f64()) * 1e3
    }
}

/// The result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Got {
    /// Number of bytes received.
    Bytes(usize),
    /// FIN.
    End,
    /// Nothing until then.
    Nothing,
}

impl Got {
    /// Returns the number of bytes; the end and a missing result are errors.
    pub(super) fn bytes(self) -> Result<usize, Problem> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::End => Err(Problem::Ended),
            Self::Nothing => Err(Problem::Late),
        }
    }
}

impl Line {
    /// Dials.
    ///
    /// **Errors**: why there is no connection, by its true cause.
    pub fn connect(address: SocketAddr, deadline: Moment) -> Result<Self, Failed> {
        let failed = |fault| Failed { step: Step::Connect, problem: Problem::Socket(fault) };
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(|errno| failed(Fault::of(Operation::Open, errno, None)))?;
        // Flights are measured one by one: none may wait for another. It cannot fail on a TCP socket.
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        let clock = Clock::start();
        let outcome = match net::connect(&socket, &address) {
            Err(Errno::INPROGRESS) if !wait(&socket, PollFlags::OUT, deadline) => {
                return Err(failed(Fault::own(Operation::Connect, Cause::ConnectTimeout)));
            }
            Err(Errno::INPROGRESS) => sockopt::socket_error(&socket).and_then(|outcome| outcome),
            outcome => outcome,
        };
        outcome.map_err(|errno| failed(Fault::of(Operation::Connect, errno, Some(socket.as_fd()))))?;
        let connected_ms = clock.now_ms();
        let counts = stamps::counts(&socket).unwrap_or_default();
        // Without stamps, what follows has the program's own times.
        let _ = stamps::stamp_stream(&socket);
        let rtt_ms = f64::from(counts.round_trip_us) / 1e3;
        Ok(Self { clock, is_stamped: true, connected_ms, rtt_ms, ..Self::over(socket.into()) })
    }

    /// Over a socket that is connected. Its sent and received bytes are not recorded.
    pub fn over(stream: TcpStream) -> Self {
        let (clock, step, seen) = (Clock::start(), Step::Exchange, Vec::new());
        Self {
            stream,
            clock,
            sent: 0,
            is_stamped: false,
            is_aborted: false,
            step,
            seen,
            connected_ms: 0.0,
            rtt_ms: 0.0,
        }
    }

    /// Returns the start of dialling.
    pub fn begun(&self) -> Moment {
        self.clock.moment
    }

    /// Our address.
    pub fn local(&self) -> Option<SocketAddr> {
        self.stream.local_addr().ok()
    }

    /// Milliseconds since the dialling began.
    pub fn now_ms(&self) -> f64 {
        self.clock.now_ms()
    }

    /// Returns the time of the last received bytes.
    pub fn last_received(&self) -> f64 {
        let arrival = |seen: &Seen| match seen {
            Seen::Received { at_ms, .. } => Some(*at_ms),
            Seen::Sent { .. } => None,
        };
        self.seen.iter().rev().find_map(arrival).unwrap_or_else(|| self.now_ms())
    }

    /// The kernel's counts as they are now.
    pub fn counts(&self) -> Counts {
        stamps::counts(&self.stream).unwrap_or_default()
    }

    /// Sends all of it.
    ///
    /// **Errors**: the target is gone, or takes nothing until the deadline.
    pub fn send(&mut self, mut bytes: &[u8], deadline: Moment) -> Result<(), Failed> {
        if bytes.is_empty() {
            return Ok(());
        }
        let at_ms = self.now_ms();
        let whole = bytes.len();
        while !bytes.is_empty() {
            match net::send(&self.stream, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(Errno::AGAIN) => {
                    if !wait(&self.stream, PollFlags::OUT, deadline) {
                        return Err(Failed { step: self.step, problem: Problem::Late });
                    }
                    self.take_notes();
                }
                Err(Errno::INTR) => {}
                Err(errno) => {
                    self.is_aborted = true;
                    return Err(self.fault(Operation::Write, errno));
                }
            }
        }
        self.sent += whole as u64;
        // The kernel numbers bytes in 32 bits.
        let last = (self.sent - 1) as u32;
        self.note(Seen::Sent { at_ms, bytes: whole, last, sent_ms: None, acknowledged_ms: None });
        Ok(())
    }

    fn note(&mut self, seen: Seen) {
        if self.is_stamped {
            self.seen.push(seen);
        }
    }

    fn fault(&self, operation: Operation, errno: Errno) -> Failed {
        let fault = Fault::of(operation, errno, Some(self.stream.as_fd()));
        Failed { step: self.step, problem: Problem::Socket(fault) }
    }

    /// Receives the available bytes, or waits for some.
    ///
    /// **Errors**: a reset, or another socket error.
    pub fn receive(&mut self, buffer: &mut [u8], until: Moment) -> Result<Got, Failed> {
        loop {
            self.take_notes();
            match stamps::receive_stamped(&self.stream, buffer) {
                Ok(received) => {
                    let now_ms = self.now_ms();
                    // A timestamp in the future or before the start means that the clock was set.
                    let stamped = received.at.map(|at| self.clock.stamp_ms(at));
                    let at_ms = stamped.filter(|at| (0.0..=now_ms).contains(at)).unwrap_or(now_ms);
                    if received.bytes == 0 {
                        return Ok(Got::End);
                    }
                    self.note(Seen::Received { at_ms, bytes: received.bytes });
                    return Ok(Got::Bytes(received.bytes));
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN | Errno::INTR) | None => {}
                    Some(errno) => return Err(self.fault(Operation::Read, errno)),
                },
            }
            if !wait(&self.stream, PollFlags::IN, until) {
                return Ok(Got::Nothing);
            }
        }
    }

    /// Receives something.
    ///
    /// **Errors**: also that the peer ended the connection, or that the deadline passed.
    pub fn must_receive(&mut self, buffer: &mut [u8], until: Moment) -> Result<usize, Failed> {
        self.receive(buffer, until)?.bytes().map_err(|problem| Failed { step: self.step, problem })
    }

    /// Ends our direction.
    pub fn end(&self) {
        // Fails only when the connection is already gone.
        let _ = net::shutdown(&self.stream, net::Shutdown::Write);
    }

    /// Adds the kernel's timestamps to the sent bytes that they belong to.
    pub fn take_notes(&mut self) {
        while self.is_stamped
            && let Some(note) = stamps::take_sent_stamp(&self.stream)
        {
            let at = self.clock.stamp_ms(note.at);
            let mut sent = self.seen.iter_mut().rev();
            let ours = sent.find(|seen| matches!(seen, Seen::Sent { last, .. } if *last == note.byte));
            if let Some(Seen::Sent { sent_ms, acknowledged_ms, .. }) = ours {
                match note.what {
                    Noted::Sent => *sent_ms = Some(at),
                    Noted::Acknowledged => *acknowledged_ms = Some(at),
                }
            }
        }
    }
}

/// Returns true if the socket becomes ready before the deadline. Kernel timestamps and errors wake it too.
fn wait(socket: impl AsFd, what: PollFlags, until: Moment) -> bool {
    loop {
        let left = until.since(Moment::now());
        if left.is_zero() {
            return false;
        }
        let left = Timespec::try_from(left).ok();
        let mut polled = [PollFd::new(&socket, what)];
        match poll(&mut polled, left.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return true,
            Err(_) => return false,
        }
    }
}
